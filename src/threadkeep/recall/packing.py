"""Pack a block: what each memory takes of the budget, the excerpt of a long one, and what fits. Pure rules."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import compress
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Literal, SupportsIndex, TypeAlias

from threadkeep.errors import InvalidInputError
from threadkeep.memories.codec import SUMMARIES
from threadkeep.memories.models import ASKED, SAID, Memory, sentences_in
from threadkeep.search.conversations import LABEL
from threadkeep.text.claims import change_in
from threadkeep.text.facts import has_own_words, is_filler, is_small_talk
from threadkeep.text.requests import asks_from, is_question, told_in
from threadkeep.text.semantics import gist_of
from threadkeep.text.sentences import labelled_line
from threadkeep.text.tokenizing import EVERY_FUNCTION_WORD, tokenise

if TYPE_CHECKING:
    from threadkeep.ids import TurnId
    from threadkeep.recall.models import Recalled
    from threadkeep.search.query import Query

_OF_SUMMARY: Final = 240
"""A block has so many characters of a summary."""

WHOLE: Final = 400
"""An episode of no more characters is not cut.

Source:
    LoCoMo's development half: cutting turns of 160 characters shows more turns, and 8 points less of the answers.
"""
_OF_EPISODE: Final = 300
"""A block has so many characters of a longer one.

Source:
    BEAM's development half, of which half of the messages do not fit into a block: 53 % of the evidence instead of 30,
    and 60 % of the answers' words instead of 51, on three of the chats.
"""


SHOWN_WHOLE: Final = 2
"""So many memories at the top of a usual block are shown as they are; of the episodes after them, what answers.

Source:
    LoCoMo's development half: with 1, 2 and 3, blocks hold 77, 76 and 74 % of the evidence, and 80, 81 and 80 % of the
    answers' words; with all whole 72 and 79.
"""
_USUAL_TOKENS: Final = 300
_TOKENS_OF_LINE: Final = 30
"""Of a block with more room than usual, so many further tokens show one further memory as it is."""
_BRIEF: Final = 100
"""An episode of no more characters is shown whole wherever it stands."""

_POINTS_BACK: Final = re.compile(
    r"(?i)(?:it|its|they|them|their|he|him|his|she|hers?|that|this|these|those|there|then|and|but|so|er|sie|es|das|dies\w*"
    r"|dort|da|dann|und|aber|ils?|elles?|ce|cela|ça|et|mais|ell[oa]s?|él|es[oea]s?|est[oea]s?|y|pero|el[ea]s?|iss?t?o|e|mas)\b"
)
"""How a sentence begins that needs the one before it."""


def shown_whole(budget_tokens: int | None) -> float:
    """Return how many memories at the top of a block are shown as they are; *budget_tokens*: ``None``, no bound."""
    if budget_tokens is None:
        return math.inf
    return SHOWN_WHOLE + max(budget_tokens - _USUAL_TOKENS, 0) // _TOKENS_OF_LINE


def excerpt(memory: Memory, query: Query, *, brief: bool = False) -> Memory:
    """Return *memory* as a block shows it for *query*.

    An episode is shown without what names nothing; a long one, and a summary, as the sentences around the one with most
    words of *query*.

    Args:
        memory: The memory.
        query: The question.
        brief: Whether an episode is shown as the sentences that have a word of *query*, if any has one.
    """
    is_summary = memory.namespace[:1] == (SUMMARIES,)
    if is_summary:
        text, whole, most = memory.text, _OF_SUMMARY, _OF_SUMMARY
    elif memory.kind == "episodic":
        text, whole, most = _without_filler(memory.text, query), WHOLE, _OF_EPISODE
    else:
        return memory
    if len(text) > whole:
        wanted = _wanted(query)
        sentences = sentences_in(text)
        text = _around(sentences, [_fit(sentence, wanted) for sentence in sentences], most)
    if brief and not is_summary and len(text) > _BRIEF:
        text = _answering(text, _wanted(query))
    return memory if text == memory.text else replace(memory, text=text)


def is_unchanged(recalled: Memory, memory: Memory, *, value: str | None = None) -> bool:
    """Return whether *memory* still says what was recalled of it, maybe as an excerpt, or *value*, a part of it."""
    if value is not None:
        return " ".join(value.split()) in " ".join(memory.text.split())
    if recalled.text == memory.text:
        return True
    is_summary = memory.namespace[:1] == (SUMMARIES,)
    if not is_summary and (memory.kind != "episodic" or recalled.history != memory.history):
        return False
    lead = _lead(memory.text)
    lead = lead if recalled.text.startswith(lead) else ""
    shown, said = sentences_in(recalled.text[len(lead) :]), " ".join(memory.text.split())
    is_cut = is_summary or len(memory.text) > _BRIEF
    is_whole = is_cut or {one for one, tells in _sentences(memory.text[len(lead) :]) if tells}.issubset(shown)
    return is_whole and all(" ".join(sentence.split()) in said for sentence in shown)


def _lead(passage: str) -> str:
    """Return what *passage* begins with before its first sentence: how the user said it, or the speaker's name."""
    lead = _said_as(passage)
    label = None if lead else LABEL.match(passage)
    return lead if label is None else label[0]


def _said_as(passage: str) -> str:
    return next((lead for lead in (ASKED, SAID) if passage.startswith(lead)), "")


def _answering(passage: str, wanted: set[str]) -> str:
    """Return the sentences of *passage* with a word of *wanted*, and those they point back at; all if none has one."""
    lead = _lead(passage)
    sentences = sentences_in(passage[len(lead) :])
    fits = [_fit(sentence, wanted) > 0 for sentence in sentences]
    if all(fits) or not any(fits):
        return passage
    for place in range(len(sentences) - 1, 0, -1):
        if fits[place] and not fits[place - 1] and _POINTS_BACK.match(sentences[place]):
            fits[place - 1] = True
    return f"{lead}{' '.join(compress(sentences, fits))}"


_TELLS: Final[Callable[[tuple[str, bool]], bool]] = itemgetter(1)


@lru_cache(maxsize=4096)
def _sentences(passage: str) -> tuple[tuple[str, bool], ...]:
    """Return each sentence of *passage*, with whether it tells something."""
    sentences = sentences_in(passage)
    telling = {one for one in sentences if len(sentences) == 1 or not is_filler(one) or change_in(one)}
    return tuple((one, not telling or one in telling) for one in sentences)


@lru_cache(maxsize=4096)
def statement_in(passage: str) -> str:
    """Return what *passage* states: without requests, and what names nothing; all of it if there is nothing else."""
    return " ".join(part for _, part in _stated_parts(passage)) or passage


PassageKind: TypeAlias = Literal["statement", "request", "question"]


@lru_cache(maxsize=4096)
def passage_kind(passage: str) -> PassageKind | None:
    """Return what *passage*, an episode, is: ``None`` for a conversation, in which others speak.

    A ``statement`` changes what was so. A ``request`` has sentences beside what it asks, but they may be another
    author's, or of a part that is played: only what stands before a request in its own sentence is surely the user's.
    A ``question`` has no such sentences.
    """
    if not passage.startswith(ASKED):
        return "statement" if passage.startswith(SAID) else None
    if labelled_line(passage.removeprefix(ASKED)):
        return None
    sentences, parts = sentences_in(passage), _stated_parts(passage)
    if not any(map(is_question, sentences)) or any(asks_from(one) for one, _ in parts):
        return "statement"
    return "request" if parts else "question"


def _stated_parts(passage: str) -> list[tuple[str, str]]:
    """Return each sentence of *passage* that tells something, with the part that does."""
    told = ((one, told_in(one)) for one, tells in _sentences(passage) if tells)
    return [(one, part) for one, part in told if part and (part == one or _says_something(part))]


_LEAST_WORDS: Final = 3


def _says_something(part: str) -> bool:
    """Return whether *part* of a sentence names a person or a thing, or has a few words that carry a meaning."""
    if is_small_talk(part):
        return False
    return (
        not is_filler(part)
        or has_own_words(part)
        or len(set(gist_of(part).words) - EVERY_FUNCTION_WORD) >= _LEAST_WORDS
    )


def _without_filler(passage: str, query: Query) -> str:
    """Return *passage* without the sentences that tell nothing, unless they have a word of *query*."""
    sentences = _sentences(passage)
    if all(map(_TELLS, sentences)):
        return passage
    wanted = _wanted(query)
    shown = [sentence for sentence, tells in sentences if tells or _fit(sentence, wanted)]
    return f"{_said_as(passage)}{' '.join(shown)}"


def _wanted(query: Query) -> set[str]:
    return {term for terms in query.terms for term in terms}


def _fit(sentence: str, wanted: set[str]) -> int:
    return len(wanted.intersection(tokenise(sentence)))


def _around(sentences: Sequence[str], fits: Sequence[int], most: int) -> str:
    """Return the sentence that fits best with its neighbours, of which the one that fits better is added first."""
    first = last = max(range(len(sentences)), key=fits.__getitem__)
    length = len(sentences[first])
    while True:
        beside = [
            (fits[place], place)
            for place in (first - 1, last + 1)
            if 0 <= place < len(sentences) and length + 1 + len(sentences[place]) <= most
        ]
        if not beside:
            return _cut(" ".join(sentences[first : last + 1]), most)
        _, place = max(beside)
        length += 1 + len(sentences[place])
        first, last = min(first, place), max(last, place)


def _cut(text: str, most: int) -> str:
    """Return the words of *text* that fit, of a single sentence that is too long."""
    return text if len(text) <= most else text[: text.rfind(" ", 1, most) + 1 or most].rstrip()


_PIECES: Final = re.compile(
    r"'(?:s|t|m|d|re|ve|ll)\b|[A-Za-z]+|[0-9]+|[^\S\n]+|[.?!]\"|[!-/:-@\[-`{-~]?\n|[^A-Za-z0-9\s]"
)
_ASCII_TOKENS: Final = re.compile(
    r"'(?:s|t|m|d|re|ve|ll)\b|[A-Za-z]{1,5}|[0-9]{1,3}|[^\S\n]{8}|[.?!]\"|[!-/:-@\[-`{-~]?\n|[^A-Za-z0-9\s]"
)
_LETTERS_PER_TOKEN: Final = 5
_DIGITS_PER_TOKEN: Final = 3
_WIDE: Final = 0x2E80  # East Asian scripts begin here
_ASTRAL: Final = 0x10000  # emoji and rare scripts
_FIRST_WITHOUT_LATIN: Final = 0x250
_WORDS: Final = re.compile(r"\w+")
_TAKE_BACK: Final = frozenset(
    {"but", "not", "t", "no", "never", "nor", "unless", "if", "when", "except", "until", "anymore", "once", "before"}
)
_SHORTEST_LINE: Final = 6
"""No line of a block or a list is shorter, in tokens or in characters."""
MAX_LEFT_OUT: Final = 10
"""So many of the candidates without room are told."""
_MAX_SKIPPED: Final = 16
"""So many statements that do not fit are enough to stop looking for a shorter one.

Source:
    Where messages are long (BEAM) a block of 300 tokens holds two points more of the evidence than with four.
"""


def estimate_tokens(text: str) -> int:
    """Return about how many model tokens *text* is; rather too many than too few.

    A run of Latin letters counts one for each five begun, digits one for each three, a sign or a line
    break one, and so do a full stop with the quote after it, a sign with the line break after it and ``'s``, ``'re``;
    spaces belong to the word after them. A letter with an accent counts one, of another
    script one, of East Asian scripts and combining signs two, and emoji three.

    Source:
        Byte-pair vocabularies of 100,000 and more entries hold most English words whole, split
        digits by three, and never need more tokens than a text has UTF-8 bytes; providers name four
        characters of English, spaces included, as one token. This counts about one for each 3.5.
    """
    if text.isascii():  # the same rules with the lengths in the pattern: five times as fast
        return len(_ASCII_TOKENS.findall(text))
    tokens = 0
    for piece in _PIECES.findall(text):
        first = ord(piece[0])
        if first < 0x80:  # noqa: PLR2004 - ASCII
            if piece[0].isalpha():
                tokens += -(-len(piece) // _LETTERS_PER_TOKEN)
            elif piece[0].isdigit():
                tokens += -(-len(piece) // _DIGITS_PER_TOKEN)
            elif piece[0].isspace() and piece[0] != "\n":
                tokens += len(piece) // 8  # a single space is part of the word after it
            else:
                tokens += 1
        elif first >= _ASTRAL:
            tokens += 3
        elif first >= _WIDE or (first >= _FIRST_WITHOUT_LATIN and unicodedata.combining(piece[0])):
            tokens += 2
        else:
            tokens += len(piece)
    return tokens


def normalised(text: str) -> str:
    """Return *text* as it is compared for sameness: folded, single spaces, no full stop at the end."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).rstrip(" .!")


def is_contained(text: str, than: str) -> bool:
    """Whether *than* begins with all of *text* and takes nothing of it back; both are normalised.

    ``i live in porto`` says no more than ``i live in porto with my sister``, but ``i like tea`` is
    something else than ``i like tea no more``.
    """
    if not than.startswith(text):
        return False
    rest = than[len(text) :]
    return not rest or (not rest[0].isalnum() and _TAKE_BACK.isdisjoint(_WORDS.findall(rest)))


def check_bounds(**bounds: int | None) -> None:
    """Check the bounds of a block.

    Raises:
        InvalidInputError: One of them is negative, or no whole number.
    """
    for name, bound in bounds.items():
        if bound is None:
            continue
        if not isinstance(bound, SupportsIndex):
            msg = f"{name} must be a whole number, got {type(bound).__name__}."
            raise InvalidInputError(msg, name=name)
        if bound < 0:
            msg = f"{name} must be 0 or more, got {bound}."
            raise InvalidInputError(msg, name=name)


def turns_of(memory: Memory) -> set[TurnId]:
    """Return the turns that taught *memory*."""
    return {turn for source in memory.sources if (turn := source.turn_id) is not None}


class ContextPacker:
    """Fill a block within its budget, best statement first; whole statements only.

    A statement that does not fit is skipped, and a shorter one after it may fit. A statement that
    says no more than one in the block is skipped, too.

    Attributes:
        chosen: The candidates in the block.
        lines: How each of them is rendered.
        left_out: The first of the candidates for which there was no room.

    Args:
        line_of: Renders a candidate, without the line break.
        frame: The text around the lines.
        budget_tokens: Upper bound for the block, *frame* included, by :func:`estimate_tokens`.
        max_chars: Upper bound for the block in characters, *frame* included.
        max_facts: At most so many that are no episodes.
        max_episodes: At most so many episodes.

    Raises:
        InvalidInputError: A bound is negative.
    """

    def __init__(
        self,
        line_of: Callable[[Recalled], str],
        *,
        frame: str = "",
        budget_tokens: int | None = None,
        max_chars: int | None = None,
        max_facts: int | None = None,
        max_episodes: int | None = None,
    ) -> None:
        check_bounds(budget_tokens=budget_tokens, max_chars=max_chars, max_facts=max_facts, max_episodes=max_episodes)
        self.chosen: list[Recalled] = []
        self.lines: list[str] = []
        self.left_out: list[Recalled] = []
        self._line_of = line_of
        self._tokens, self._characters = budget_tokens, max_chars
        self._facts, self._episodes = max_facts, max_episodes
        self._taken: list[str] = []
        self._all_taken = ""
        self._skipped = 0
        if budget_tokens is not None:
            self._tokens = budget_tokens - estimate_tokens(frame)
        if max_chars is not None:
            self._characters = max_chars - len(frame)

    @property
    def full(self) -> bool:
        """Whether no further candidate can be taken: no budget left, no quota left, or too many did not fit."""
        if (self._tokens is not None and self._tokens < _SHORTEST_LINE) or self._skipped >= _MAX_SKIPPED:
            return True
        if self._characters is not None and self._characters < _SHORTEST_LINE:
            return True
        return self._facts == 0 and self._episodes == 0

    def offer(self, candidate: Recalled, text: str) -> bool:
        """Take *candidate* if it adds something and fits; return whether it was taken.

        Args:
            candidate: The candidate.
            text: What it says, :func:`normalised`.
        """
        episode = candidate.memory.kind == "episodic"
        if text in self._all_taken and any(is_contained(text, taken) for taken in self._taken):  # rare
            return False
        if (self._episodes if episode else self._facts) == 0:
            self._leave_out(candidate)
            return False
        line = self._line_of(candidate)
        characters = len(line) + 1
        tokens = estimate_tokens(line + "\n") if self._tokens is not None else 0
        if (self._characters is not None and characters > self._characters) or (
            self._tokens is not None and tokens > self._tokens
        ):
            self._skipped += 1
            self._leave_out(candidate)
            return False
        if self._tokens is not None:
            self._tokens -= tokens
        if self._characters is not None:
            self._characters -= characters
        if episode and self._episodes is not None:
            self._episodes -= 1
        elif not episode and self._facts is not None:
            self._facts -= 1
        self._taken.append(text)
        self._all_taken += f"{text}\n"
        self.chosen.append(candidate)
        self.lines.append(line)
        return True

    def put_before(self, newer: Memory, older: Memory) -> None:
        """Let what the block has of the turns of *newer* stand right before what it has of those of *older*."""
        to, place = self._place_of(older), self._place_of(newer)
        if to is not None and place is not None and to < place:
            self.chosen.insert(to, self.chosen.pop(place))
            self.lines.insert(to, self.lines.pop(place))

    def _place_of(self, memory: Memory) -> int | None:
        turns = turns_of(memory)
        shared = (not turns.isdisjoint(turns_of(candidate.memory)) for candidate in self.chosen)
        return next((place for place, one in enumerate(shared) if one), None)

    def _leave_out(self, candidate: Recalled) -> None:
        if len(self.left_out) < MAX_LEFT_OUT:
            self.left_out.append(candidate)


def fit(
    candidates: Iterable[Recalled],
    line_of: Callable[[Recalled], str],
    *,
    frame: str = "",
    budget_tokens: int | None = None,
    max_chars: int | None = None,
    max_facts: int | None = None,
    max_episodes: int | None = None,
) -> list[Recalled]:
    """Return those of *candidates*, best first, that fit; see :class:`ContextPacker`. Consume no more than needed."""
    packer = ContextPacker(
        line_of,
        frame=frame,
        budget_tokens=budget_tokens,
        max_chars=max_chars,
        max_facts=max_facts,
        max_episodes=max_episodes,
    )
    for candidate in candidates:
        if packer.full:
            break
        packer.offer(candidate, normalised(candidate.memory.text))
    return packer.chosen
