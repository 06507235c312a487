"""Select the memories for a block: relevance, validity, diversity, budget. Pure rules over one ranking."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import numpy as np

from threadkeep.errors import InvalidInputError
from threadkeep.memories.codec import SUMMARIES
from threadkeep.memories.models import ASKED, SAID, Memory
from threadkeep.recall.currency import find_earlier
from threadkeep.recall.excerpts import excerpt
from threadkeep.recall.models import Recalled, line
from threadkeep.recall.relevance import concerns, matters
from threadkeep.text.block import END, HEADING
from threadkeep.text.facts import is_filler
from threadkeep.text.semantics import gist_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.ids import MemoryId, ThreadId, TurnId
    from threadkeep.search.query import Query
    from threadkeep.search.ranking import Ranking

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


ALIKE: Final = 1.5
"""What a memory loses, in standard deviations, for each part of a cosine that it shares with one that was chosen.

Source:
    Maximal marginal relevance: Carbonell & Goldstein 1998. From 1 to 2, blocks hold .1 points more of the evidence.
"""


def in_order(ranking: Ranking) -> Iterator[int]:
    """Return the places of the hits in the order in which they are offered: the best by what they add to each other."""
    first = 0 if ranking.alike is None else len(ranking.alike)
    best = () if ranking.alike is None else spread(ranking.hits.strength[:first], ranking.alike)
    return chain(best, range(first, len(ranking.hits)))


def spread(strengths: NDArray[np.float64], alike: NDArray[np.float32], *, weight: float = ALIKE) -> Iterator[int]:
    """Yield the places of *strengths* so that each next one is strong and unlike those before it.

    Args:
        strengths: Of the candidates, in standard deviations.
        alike: Their cosines with each other, shape ``(n, n)``.
        weight: How much being alike costs.
    """
    left = strengths.astype(np.float64)
    beside = left - weight * alike.astype(np.float64)  # of each, what is left of the others once it is chosen
    for _ in range(len(left)):
        place = int(left.argmax())
        yield place
        left[place] = -np.inf
        np.minimum(left, beside[place], out=left)


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
        InvalidInputError: One of them is negative.
    """
    for name, bound in bounds.items():
        if bound is not None and bound < 0:
            msg = f"{name} must be 0 or more, not {bound}."
            raise InvalidInputError(msg, name=name)


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


CONSIDERED: Final = 256
"""So many hits of a search are candidates for a block."""

COMPARED: Final = 64
"""So many of the best hits are compared with each other, to choose those that add something."""

QUESTIONS_AT_FIRST: Final = 2
"""So many of the user's earlier questions may enter a block before all other candidates were offered.

Source:
    What was asked in the same words is nearest to a question, and answers nothing: with 1,000 facts that were asked for
    once each before, 79 % of the blocks of 300 tokens held the fact; with this all do. Of the evidence of the replays
    of LoCoMo's development half blocks hold 62.1 %, with four at first 62.0, with none 59.9: some tell something.
"""

_CHUNK: Final = 20
_SUMMARIES: Final = (SUMMARIES,)
_FRAME: Final = f"{HEADING}\n{END}"


@dataclass(frozen=True, slots=True)
class BlockRequest:
    """What a block is for, and its bounds.

    Attributes:
        query: The question.
        thread_id: The thread in progress.
        shown: The messages of the thread that the model is given with the question.
        budget_tokens: Upper bound for the text, by :func:`estimate_tokens`.
        max_facts: At most so many memories that are no episodes.
        max_episodes: At most so many episodes.
    """

    query: Query
    thread_id: ThreadId | None
    shown: Collection[str] = ()
    budget_tokens: int | None = None
    max_facts: int | None = None
    max_episodes: int | None = None


@dataclass(slots=True)
class StoredFacts:
    """What selection knows from the storage, and what it still needs.

    Selection skips what it needs and does not know; the caller reads that, and selects again.

    Attributes:
        memories: The memories at the places of the ranking that are known; ``None`` for what is none, or is gone.
        other_branch: Of memories learnt in the thread in progress: whether on another branch of it.
        is_doubtful: Whether the storage must tell the branch of a memory; ``None``: of none.
        missing: The places of the memories that are needed.
        undecided: The memories that need their branch.
    """

    memories: dict[int, Memory | None] = field(default_factory=dict[int, "Memory | None"])
    other_branch: dict[MemoryId, bool] = field(default_factory=dict["MemoryId", bool])
    is_doubtful: Callable[[Memory], bool] | None = None
    missing: list[int] = field(default_factory=list[int])
    undecided: list[Memory] = field(default_factory=list["Memory"])

    @property
    def complete(self) -> bool:
        """Whether nothing more is needed."""
        return not self.missing and not self.undecided

    def learn(self, ranking: Ranking, places: Iterable[int]) -> None:
        """Make the memories at *places* known, each once; those that only the storage has are :attr:`missing`."""
        unknown = [place for place in places if place not in self.memories]
        if not unknown:
            return
        known = ranking.memories(unknown)
        self.memories |= known
        if len(known) < len(unknown):
            self.missing += [place for place in unknown if place not in known]

    def memory(self, ranking: Ranking, place: int) -> Memory | None:
        """Return the memory at *place*; ``None`` if it is none, is gone, or has to be read first."""
        if place not in self.memories:
            self.learn(ranking, [place])
        return self.memories.get(place)

    def is_elsewhere(self, memory: Memory) -> bool:
        """Return whether *memory* was learnt on another branch of the thread, or may have been."""
        if self.is_doubtful is None or not self.is_doubtful(memory):
            return False
        known = self.other_branch.get(memory.memory_id)
        if known is None:
            self.undecided.append(memory)
        return known is not False


@dataclass(frozen=True, slots=True)
class CandidatePlaces:
    """The hits to offer to a block.

    Attributes:
        places: Their places in the ranking, best first; an iterator, because a block needs a few of them.
        answers: Those that fill a slot the question asks for.
    """

    places: Iterator[int]
    answers: Collection[int] = ()


def find_candidates(query: Query, ranking: Ranking, stored: StoredFacts) -> CandidatePlaces:
    """Return the hits to offer to a block: first the answers to the question, then what is relevant to it."""
    stored.learn(ranking, range(min(COMPARED, len(ranking.hits))))
    answers = _answers(query, ranking, stored)
    kind = "open" if answers else query.kind  # beside an answer, less that is hardly near is of use
    first = frozenset(answers)
    if query.about_everything:
        relevant = frozenset(range(len(ranking.hits)))
    elif concerns(
        ranking,
        partial(stored.memory, ranking),
        kind=kind,
        about_questions=query.about_questions,
        foreign=query.foreign,
    ):
        relevant = frozenset(matters(ranking, kind=kind))
    else:
        return CandidatePlaces(iter(answers), first)
    return CandidatePlaces(chain(answers, filter((relevant - first).__contains__, in_order(ranking))), first)


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in one partition.

    Attributes:
        ranking: The hits.
        candidates: Those to offer to a block.
        stored: What is known of them from the storage.
        profile: What is offered before them.
    """

    ranking: Ranking
    candidates: CandidatePlaces
    stored: StoredFacts
    profile: Sequence[Recalled] = ()


def pack(request: BlockRequest, found: Sequence[Found], *, now: datetime) -> ContextPacker:
    """Fill a block with profiles, then with the valid memories among what was *found*, as ``merging.merged``.

    Args:
        request: What the block is for.
        found: Of the owner's memory, then of each shared scope.
        now: The time.
    """
    packer = packer_for(request)
    offer = _Offer(packer, request)
    for one in found:
        if one.profile:
            offer.take([each for each in one.profile if not one.stored.is_elsewhere(each.memory)])
    alone = len(found) == 1
    for chunk in _chunks(found[0], request, now=now) if alone else _merged(found, request, now=now):
        offer.take(chunk)
        if packer.full:
            break
    offer.offer_deferred()
    return packer


def _merged(found: Sequence[Found], request: BlockRequest, *, now: datetime) -> Iterator[list[Recalled]]:
    if not found:
        return iter(())
    from threadkeep.recall.merging import by_closeness, merged

    own, *shared = [_chunks(one, request, now=now) for one in found]
    return merged(own, by_closeness(shared))


def _chunks(found: Found, request: BlockRequest, *, now: datetime) -> Iterator[list[Recalled]]:
    """Yield the valid memories among the candidates of one partition, in their order."""
    ranking, candidates, stored = found.ranking, found.candidates, found.stored
    answers = candidates.answers
    compared = range(min(COMPARED, len(ranking.hits)))
    stored.learn(ranking, compared)
    best, strength = valid_ones(map(stored.memories.get, compared), at=now), ranking.hits.strength[: len(compared)]
    earlier = find_earlier(best, ranking.alike, request.query.text, strength)
    offered: set[int] = set()
    while chunk := list(islice(candidates.places, _CHUNK)):
        places = [one for place in chunk for one in (earlier.get(place), place) if one is not None]
        places = [place for place in dict.fromkeys(places) if place not in offered]
        offered.update(places)
        stored.learn(ranking, places)
        memories = valid_ones(map(stored.memories.get, places), at=now)
        scores = ranking.hits.scores([0 if place in answers else place for place in places])
        recalled: list[Recalled] = []
        for place, memory, score in zip(places, memories, scores, strict=True):
            if memory is None or (stored.is_doubtful is not None and stored.is_elsewhere(memory)):
                continue
            recalled.append(Recalled(excerpt(memory, request.query), score, place in earlier))
        yield recalled


def pack_newest(request: BlockRequest, memories: Iterable[Memory], stored: StoredFacts) -> ContextPacker:
    """Fill a block with *memories*, newest first, for a request without a question."""
    packer = packer_for(request)
    for memory in memories:
        if packer.full:
            break
        if not is_shown(memory, request) and not stored.is_elsewhere(memory):
            packer.offer(Recalled(memory, 0.0), normalised(memory.text))
    return packer


def packer_for(request: BlockRequest) -> ContextPacker:
    """Return the empty block of *request*.

    Raises:
        InvalidInputError: A bound is negative.
    """
    thread_id = request.thread_id
    return ContextPacker(
        lambda one: line(one.memory, thread_id=thread_id, earlier=one.earlier, slot=one.slot, value=one.value),
        frame=_FRAME,
        budget_tokens=request.budget_tokens,
        max_facts=request.max_facts,
        max_episodes=request.max_episodes,
    )


class _Offer:
    """Offers memories to a block, best first, and keeps back what can wait until the rest was offered."""

    def __init__(self, packer: ContextPacker, request: BlockRequest) -> None:
        self._packer = packer
        self._request = request
        self._taught: dict[TurnId, set[str]] = {}
        self._told: dict[TurnId, str] = {}
        self._questions_left = math.inf if request.query.about_questions else QUESTIONS_AT_FIRST
        self._waiting: list[Recalled] = []

    def take(self, recalled: Sequence[Recalled]) -> None:
        """Offer *recalled*, except what repeats other candidates or the messages that the model is shown."""
        for candidate in recalled:
            if candidate.memory.kind != "episodic":
                add_words_of_fact(candidate.memory, self._taught)
        for candidate in recalled:
            if candidate.memory.text.startswith(ASKED) and self._questions_left <= 0:
                self._waiting.append(candidate)
            else:
                self._questions_left -= self._offer(candidate) and candidate.memory.text.startswith(ASKED)

    def offer_deferred(self) -> None:
        """Offer what was kept back."""
        for candidate in self._waiting:
            self._offer(candidate)

    def _offer(self, candidate: Recalled) -> bool:
        """Offer *candidate*, unless it repeats others; return whether it was taken."""
        memory = candidate.memory
        text = normalised(memory.text)
        if memory.kind == "episodic":
            if (
                repeats(memory, self._taught)
                or is_shown(memory, self._request)
                or not self._packer.offer(candidate, text)
            ):
                return False
            for source in memory.sources:
                if (turn := source.turn_id) is not None:
                    self._told[turn] = f"{self._told.get(turn, '')} {text}"
            return True
        for source in memory.sources:
            if source.turn_id is not None and text in self._told.get(source.turn_id, ""):
                return False
        return self._packer.offer(candidate, text)


def _answers(query: Query, ranking: Ranking, stored: StoredFacts) -> list[int]:
    """Return the places of the facts that fill a slot the question asks for, in whatever words.

    ``I joined Acme.`` says nothing of a company or of work, and is where the user works all the same.
    """
    if not query.slots or ranking.index is None:
        return []
    statements = ranking.index.statements
    slots: list[int] = ranking.hits.slots(len(ranking.hits)).tolist()
    unfilled = {place: slot for place, slot in enumerate(slots) if slot not in statements.filled}
    stored.learn(ranking, unfilled)
    for place, slot in unfilled.items():
        if (memory := stored.memories.get(place)) is not None:
            statements.fill(slot, memory)
    return [place for place, slot in enumerate(slots) if statements.filled.get(slot) in query.slots]


_ADDED: Final = 3
"""So many words of a sentence that no fact of its turn holds make its passage worth a line beside the facts."""
_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?。！？])\s+")


def add_words_of_fact(memory: Memory, taught: dict[TurnId, set[str]]) -> None:
    """Add the words of a fact and of its earlier versions to those that their turns have *taught*."""
    for version in (memory, *memory.history):
        for source in version.sources:
            if source.turn_id is not None:
                taught.setdefault(source.turn_id, set()).update(gist_of(version.text).words)


def repeats(memory: Memory, taught: Mapping[TurnId, Collection[str]]) -> bool:
    """Return whether *memory*, a passage of a turn, says hardly more than recalled facts of the turn."""
    turns = [turn for source in memory.sources if (turn := source.turn_id) is not None and turn in taught]
    if not turns:
        return False
    known = frozenset[str]().union(*map(taught.__getitem__, turns))
    said = memory.text.removeprefix(SAID).removeprefix(ASKED)
    for sentence in _SENTENCE_ENDS.split(said):
        words = gist_of(sentence).words
        if len(words) - sum(map(known.__contains__, words)) >= _ADDED and not is_filler(sentence):
            return False
    return True


def is_shown(memory: Memory, request: BlockRequest) -> bool:
    """Return whether the model is given *memory* anyway: the episode of a shown message, or its thread's summary."""
    if memory.namespace[:1] == _SUMMARIES:
        return request.thread_id is not None and any(one.thread_id == request.thread_id for one in memory.sources)
    if memory.kind != "episodic" or not request.shown:
        return False
    return any(one.message_id in request.shown and one.thread_id == request.thread_id for one in memory.sources)


def valid_ones(memories: Iterable[Memory | None], *, at: datetime) -> list[Memory | None]:
    """Return *memories* with ``None`` for those that may not be recalled: not active, or known to be true no more."""
    return [
        memory
        if memory is not None and memory.status == "active" and (memory.valid_to is None or memory.valid_to > at)
        else None
        for memory in memories
    ]
