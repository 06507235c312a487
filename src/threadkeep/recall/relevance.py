"""Whether a question has to do with anything that is kept, and with what. Pure rules over one ranking."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from threadkeep.memories.models import ASKED, SAID
from threadkeep.models.base import NeedPair
from threadkeep.text.claims import people_in
from threadkeep.text.semantics import straight

if TYPE_CHECKING:
    from threadkeep.memories.models import Memory
    from threadkeep.search.query import QuestionKind
    from threadkeep.search.ranking import Ranking, Subject

LEAST_CLOSENESS: Final = 0.41
"""From so close on, a question is about something that is kept. Words alone are compared by another measure."""

SHORT: Final = 90
"""A text of no more characters is one statement, of one thing."""

_SHORT_NEEDS_LESS: Final = 0.15
"""A long text is near to much of what is asked about its field; one statement that is as near says just that.

Source:
    Replays of LoCoMo's development half, with facts of 65 characters long in the middle and are asked for as ``When
    did I ...?``: with it a block of 300 tokens holds 62 % of the evidence that the user spoke, without it 57, and 69
    with no floor at all; others' questions of that form then bring nothing in 71 % instead of 88. LoCoMo's and BEAM's
    own questions of others' memories move by less than a point.
"""

LEAST_CLOSENESS_OWN: Final = 0.06
"""The same for a question about the user's own life or work, where the closest text is a statement or a few.

A paraphrase of a personal statement has a cosine of .40 in the median and .20 at the lower end, which a request about
the world reaches, too. The kind of the question says more than the cosine.

Source:
    ``threadkeep eval personal``; ``docs/evaluation.md`` has the curve.
"""

LEAST_CLOSENESS_NEAR: Final = 0.15
"""The same for a question about an arrangement that may well be the user's: ``When is the bin emptied?``"""

LEAST_CLOSENESS_ERRAND: Final = 0.18
"""The same for a request on the user's behalf that names nothing of theirs: ``Pick a museum for Sunday.``

Source:
    Four files with 220 requests about the world and 360 facts: with .22, and .19 for arrangements, blocks hold 60 % of
    one file's English facts, with these two floors 71, and 91 % of the requests still bring nothing.
"""
_PERSONAL: Final[dict[QuestionKind, float]] = {
    "own": LEAST_CLOSENESS_OWN,
    "near": LEAST_CLOSENESS_NEAR,
    "errand": LEAST_CLOSENESS_ERRAND,
}

_ORDER_NEEDS_MORE: Final = 0.1
"""So much more is needed for an order that names nothing of the user's: ``Give me a haiku about rust.``"""

_FOREIGN_NEEDS_MORE: Final = 0.1
"""The same for a question about the world, or an arrangement, in another language than English.

The embedder is trained on English: to it two texts of any other language are alike.

Source:
    Of questions about the world in four languages the nearest statement has a cosine of .30 in the median, of English
    ones .15; ``docs/evaluation.md`` has the figures.
"""

_SHARED_WORD_NEEDS_MORE: Final = 0.12
"""So much more is needed of a statement with words of a question about the world, or of an order: they explain why it
is near. ``I sleep badly when the moon is full.`` tells nothing about ``When is the next full moon?``

Source:
    256 questions and 168 requests of four development files, of which 48 share a word with a statement: of these 83 %
    bring nothing instead of 52, of the others all instead of 96, and no question loses its answer; from .15 on two do.
"""

_SOME: Final = 50
"""Among fewer memories than so many that is less by the logarithm: a word is shared with one of a few by chance less
often."""

LONGEST_STATEMENT: Final = 400
"""A longer text is a message that was kept whole.

Whole messages are near to any question about their field, so among them a question about the user needs
as much closeness as another one. Source: BEAM, where chats about one field ask each other's memory in the first person.
"""
_OF_THE_WORLD: Final[frozenset[QuestionKind]] = frozenset(("near", "errand", "task", "order"))
_ABOUT_THE_WORLD: Final[frozenset[QuestionKind]] = frozenset(("errand", "task", "order"))
_LOOKED_AT: Final = 5
"""So many of the first hits tell whether a memory holds statements or whole messages."""
_CLOSEST: Final = 8
"""So many of the closest hits may decide. An earlier request decides nothing: it answers no other one."""

_MANY: Final = 200
_FEWER: Final = 0.05
"""The nearest of few is less near by chance than the nearest of many, so with a tenth of :data:`_MANY` so much less is
enough: with eight memories 0.27. Source: the maximum of a sample grows with the logarithm of its size; the halves below
have hundreds of memories each, so nothing there changes.
"""

LEAST_LEXICAL: Final = 0.10
"""The same where words alone are compared; among few memories a word that they share is not worth more."""

_LEAST_LEXICAL_OWN: Final = 0.03
"""The same for a question about the user: one shared word of several."""

_NEARER: Final[dict[Subject | None, float]] = {"participant": 0.2, "known": 0.05, "unknown": -0.1, None: 0.0}
"""A question that names a participant is about them, and one that names a stranger hardly is.

Source:
    Questions of LoCoMo's and BEAM's development halves, asked of another conversation's memory: 93 and 91 %
    bring nothing, and their own memory's blocks hold .9 and .6 points less of the evidence than a list without a floor.
    In BEAM others' chats are about the same subjects. From .32 to .36 both move by less than a point of evidence.
    How much of a question's words is kept at all, and how far the nearest stands out from the rest, tell less.
"""

_IN_ITS_WORDS: Final = 0.40
"""What holds so much of a question's words, as a share of BM25, is what it is about, however far the vectors are.

Source:
    A text of usual length that holds all of them once has .45. On both halves this changes nothing; it is for questions
    of one word and for embedders with lower cosines.
"""

_OF_THE_LINE: Final[dict[QuestionKind, float]] = {
    "own": 0.03,
    "near": 0.06,
    "errand": 0.06,
    "open": 0.10,
    "problem": 0.10,
    "task": 0.10,
    "order": 0.10,
}
"""A memory so close to the question stands for itself. Source: LoCoMo; at .15 a block holds a point less."""

_OF_THE_LINE_LEXICAL: Final = 0.02

_WITH_THE_BEST: Final = 2.0
"""So many standard deviations from the best, what speaks for a memory beside its words is enough: it answers a
question that is close, for example."""


_READ_FOR: Final[frozenset[QuestionKind]] = frozenset(("near", "errand", "task", "order"))
"""For these kinds a model reads what closeness leaves open. A question about the user needs little closeness anyway,
and what only tells needs nothing.
"""
LEFT_OPEN: Final = 0.2
"""A statement that lacks no more closeness is read by the model."""
MOST_READ: Final = 3
"""So many statements are read at most, the closest: one takes about three milliseconds, once."""
OF_CLOSENESS: Final = 10.0
"""What closeness counts beside the model's weight: with a tenth less than the floor, the weight must be 1.

Source:
    ``docs/decisions/0096-a-model-reads-request-and-statement.md``.
"""


def concerns(
    ranking: Ranking,
    memory_at: Callable[[int], Memory | None] = lambda _place: None,
    *,
    kind: QuestionKind = "open",
    question: str = "",
    needs: Callable[[NeedPair], float | None] | None = None,
    about_questions: bool = False,
    foreign: bool = False,
) -> bool:
    """Return whether the question has to do with anything that was found.

    Args:
        ranking: What was found.
        memory_at: Returns the memory at a place; ``None``: not known yet.
        kind: Of the question.
        question: What is asked.
        needs: Weighs whether the question needs a statement, for those that are nearly close enough; ``None``: it
            does not know yet. Without it closeness decides alone.
        about_questions: Whether it is about the user's earlier questions.
        foreign: Whether it is in another language than English.
    """
    hits = ranking.hits
    if not hits:
        return False
    floors = _Floors(ranking, memory_at, kind, foreign=foreign, asked=_may_name(question, foreign=foreign))
    left_open: list[tuple[Memory, float]] = []
    is_read = kind in _READ_FOR and len(question) <= LONGEST_STATEMENT and not ranking.by_words and needs is not None
    nearer, lowest = _NEARER[ranking.subject], floors.lowest - LEFT_OPEN * is_read
    in_words = hits.where(hits.lexical >= _IN_ITS_WORDS)[:_CLOSEST] if ranking.subject != "unknown" else []
    for place in (*hits.closest_places(_CLOSEST), *in_words):
        close = hits.closeness_at(place) + nearer
        if place not in in_words and close < lowest:
            continue
        memory = memory_at(place)
        if memory is not None and memory.text.startswith(ASKED) and kind != "own" and not about_questions:
            continue
        if place in in_words:
            return True
        more = close - floors.of(memory, shares_words=hits.lexical_at(place) > 0)
        if more >= 0:
            return True
        if is_read and more >= -LEFT_OPEN and memory is not None and not _is_whole_message(memory):
            left_open.append((memory, more))
    return needs is not None and _is_needed(question, left_open, needs)


_SPOKEN: Final = re.compile(r"([^\W\d_]++(?:['-](?!s\b)[^\W\d_]++)*+)(?:'s\b)?+")
_SPOKEN_ALONE: Final = re.compile(rf"{_SPOKEN.pattern}(?! [A-ZÀ-Þ])")
"""A word, without its genitive; the second one not before another with a capital."""


def _may_name(question: str, *, foreign: bool) -> frozenset[str]:
    """Return the words of *question* that may name a person, in small letters; not the first of ``Mira Sorvino``."""
    spoken: list[str] = (_SPOKEN if foreign else _SPOKEN_ALONE).findall(straight(question[:LONGEST_STATEMENT]))
    return frozenset(" ".join(spoken).casefold().split())


def _is_needed(
    question: str, left_open: Sequence[tuple[Memory, float]], needs: Callable[[NeedPair], float | None]
) -> bool:
    """Return whether the model finds one of the closest memories needed.

    Args:
        question: What is asked.
        left_open: Memories, the closest first, each with how much closer it is than its floor: 0 or less.
        needs: As of :func:`concerns`. It is asked for all of them at once, so that the model reads them together.
    """
    statements = [(memory.text.removeprefix(SAID).removeprefix(ASKED), more) for memory, more in left_open[:MOST_READ]]
    weights = [(needs(NeedPair(question, statement)), more) for statement, more in statements]
    return any(weight is not None and weight + OF_CLOSENESS * more >= 0 for weight, more in weights)


class _Floors:
    """How close a memory must be to the question, by its length and by the kind of the question."""

    def __init__(
        self,
        ranking: Ranking,
        memory_at: Callable[[int], Memory | None],
        kind: QuestionKind,
        *,
        foreign: bool,
        asked: frozenset[str],
    ) -> None:
        self._kind = kind
        self._by_words = ranking.by_words
        count = len(ranking.hits)
        self._first = range(min(_LOOKED_AT, count))
        self._memory_at = memory_at
        self._asked = asked
        self._less = max(_FEWER * math.log10(_MANY / count), 0.0)
        self._more = _ORDER_NEEDS_MORE * (kind == "order") + _FOREIGN_NEEDS_MORE * (foreign and kind in _OF_THE_WORLD)
        self._personal = _PERSONAL.get(kind, LEAST_CLOSENESS)
        self._if_shared = _SHARED_WORD_NEEDS_MORE * min(math.log(count, _SOME), 1.0)
        self._lexical = _LEAST_LEXICAL_OWN if kind == "own" else LEAST_LEXICAL

    @property
    def lowest(self) -> float:
        """No memory has a lower floor."""
        if self._by_words:
            return self._lexical
        return LEAST_CLOSENESS_OWN - self._less

    def of(self, memory: Memory | None, *, shares_words: bool = False) -> float:
        """Return the floor of *memory*, which may share words with the question; of ``None``, the highest.

        A question with the name of one of the user's people is about the user's own life: ``How old is Mira?`` It may
        be typed in haste, and without a capital.
        """
        if self._by_words:
            return self._lexical
        short = memory is not None and len(memory.text) <= SHORT and self._kind != "problem"
        floor = LEAST_CLOSENESS - max(self._less, _SHORT_NEEDS_LESS if short else 0.0)
        if self._personal != LEAST_CLOSENESS:
            floor = min(floor, self._personal + self._whole * (LEAST_CLOSENESS - self._personal) - self._less)
        states = memory is not None and not _is_whole_message(memory)
        if memory is not None and states and not self._asked.isdisjoint(people_in(memory.text)):
            return min(floor, LEAST_CLOSENESS_OWN - self._less)
        if shares_words and states and self._kind in _ABOUT_THE_WORLD:
            floor += self._if_shared
        return floor + self._more

    @cached_property
    def _whole(self) -> float:
        """The share of whole messages among the first hits."""
        first = [memory for place in self._first if (memory := self._memory_at(place)) is not None]
        return sum(_is_whole_message(memory) for memory in first) / len(first) if first else 1.0


def _is_whole_message(memory: Memory) -> bool:
    """Return whether *memory* is a message as it was sent, rather than a statement or a passage of a turn."""
    if len(memory.text) > LONGEST_STATEMENT:
        return True
    return memory.kind == "episodic" and not memory.text.startswith((SAID, ASKED))


def matters(ranking: Ranking, *, kind: QuestionKind = "open") -> list[int]:
    """Return the places of the hits that have to do with the question, once it has to do with any; ascending."""
    hits = ranking.hits
    if not hits:
        return []
    least = _OF_THE_LINE_LEXICAL if ranking.by_words else _OF_THE_LINE[kind]
    return hits.where((hits.closeness >= least) | (hits.strength >= hits.strength[0] - _WITH_THE_BEST))
