"""Which of the memories that a question finds are no longer so: a newer one of them says it.

Where capture is certain, it replaces a memory and keeps the old statement in its history. What it cannot tell is found
here, among the memories that are compared for a block: both are shown, the newer first and the older marked.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from operator import attrgetter, mul
from typing import TYPE_CHECKING, Final

from threadkeep.memories.models import ASKED, SAID, Memory
from threadkeep.text.claims import FEATURES, asks_for_several, compare
from threadkeep.text.semantics import normalised

if TYPE_CHECKING:
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from threadkeep.ids import TurnId
    from threadkeep.memories.models import Source

FIRST: Final = 20
"""So many of the best hits are compared: no block of usual size holds more of them."""

LEAST_ALIKE: Final = 0.05
"""Statements with a smaller cosine are about different things."""

LEAST_LIKELY: Final = 0.2
"""From this probability on an only earlier statement is marked.

A mark on a statement that is still true costs less than an outdated value shown as a fact, so it is below a half.
"""

LEAST_LIKELY_OF_MANY: Final = 0.6
"""The same among :data:`FIRST` statements, of which the nearest is near by chance; between them by the logarithm.

Source:
    120 facts of which none replaces another: with .25 for all a quarter of the lines has a mark, with this 9 %.
"""

_WEIGHTS: Final[Mapping[str, float]] = {
    "bias": -3.47,
    "cosine": 7.24,
    "less than nearest": -6.4,
    "several": -0.56,
    "shared words": 1.63,
    "definite mention": 1.42,
    "name": 2.44,
    "number of one form": 0.94,
    "other relatives": -1.36,
    "relatives of one": -0.63,
    "other names of a relative": -2.34,
    "other modifiers": -1.83,
    "adds": -2.42,
    "change": 0.94,
    "correction": 3.05,
    "other subjects": -2.94,
    "same subject": -4.57,
    "both of the speaker": -2.45,
}
"""Of a logistic regression: of a constant, of the cosine, of how far it stays behind the newer statement's nearest
earlier one, of a question for several things, and of the features of a pair.

Source:
    ``python -m threadkeep_evals.currency_fit``; ``docs/evaluation.md`` has the figures on pairs it has not seen.
"""
_OF_PAIR: Final = tuple(_WEIGHTS[name] for name in FEATURES)
_USUAL_COSINE: Final = 0.2
"""Stands for the cosine where there are no vectors."""
_turn_of: Final[Callable[[Source], TurnId | None]] = attrgetter("turn_id")
_in_time: Final[Callable[[DatedStatement], tuple[datetime, int]]] = attrgetter("at", "place")


def find_earlier(
    memories: Sequence[Memory | None], alike: NDArray[np.float32] | None, question: str = ""
) -> Mapping[int, int]:
    """Return the places of memories that are no longer so, each with the place of the newest one that says so.

    A statement outdates the one that it most likely replaces, and those that this one had replaced.

    Args:
        memories: What was found, best first; ``None`` where it is not known.
        alike: Their cosines with each other, shape ``(n, n)``; ``None``: words alone decide.
        question: What was asked.
    """
    said = statements(memories[:FIRST])
    several = asks_for_several(question)
    replaced: dict[int, set[int]] = defaultdict(set)  # by the newer's number, what it replaces and what that had
    found: dict[int, int] = {}
    for number, newer in enumerate(said):
        pairs = list(pairs_with(number, said, alike))
        least = _least_likely(len(pairs))
        likely = {
            pair.older: probability
            for pair in pairs
            if (probability := _likelihood(pair, newer.text, said[pair.older].text, several=several)) >= least
        }
        if not likely:
            continue
        nearest = max(likely, key=likely.__getitem__)
        chain = replaced[nearest] | {one for one, before in replaced.items() if nearest in before}
        replaced[number] = {nearest, *chain.intersection(likely)}
        found.update(dict.fromkeys(replaced[number], number))
    marked = {said[older].place: said[newer].place for older, newer in found.items()}
    return {place: marked[one.place] for one in said if one.place in marked for place in one.places}


def _least_likely(count: int) -> float:
    """Return the probability from which on one of *count* earlier statements is marked."""
    share = min(math.log(max(count, 1)) / math.log(FIRST), 1.0)
    return LEAST_LIKELY + share * (LEAST_LIKELY_OF_MANY - LEAST_LIKELY)


@dataclass(frozen=True, slots=True)
class Pair:
    """An earlier statement that a newer one may replace.

    Attributes:
        older: Its number.
        cosine: Of the two.
        behind: How far the cosine is below that of the newer one with its nearest earlier one.
    """

    older: int
    cosine: float
    behind: float


def pairs_with(number: int, said: Sequence[DatedStatement], alike: NDArray[np.float32] | None) -> Iterator[Pair]:
    """Yield the statements before *number* that it may replace."""
    newer = said[number]
    before = [one for one in range(number) if not said[one].whole and said[one].turns.isdisjoint(newer.turns)]
    cosines = [_USUAL_COSINE if alike is None else float(alike[newer.place, said[one].place]) for one in before]
    nearest = max(cosines, default=0.0)
    for older, cosine in compress(zip(before, cosines, strict=True), (one >= LEAST_ALIKE for one in cosines)):
        yield Pair(older, cosine, nearest - cosine)


def _likelihood(pair: Pair, newer: str, older: str, *, several: bool) -> float:
    """Return how likely *newer* tells that *older* is no longer so, in [0, 1]."""
    weighed = (
        _WEIGHTS["bias"]
        + _WEIGHTS["cosine"] * pair.cosine
        + _WEIGHTS["less than nearest"] * pair.behind
        + _WEIGHTS["several"] * several
        + sum(map(mul, _OF_PAIR, compare(newer, older)))
    )
    return 1 / (1 + math.exp(-weighed))


@dataclass(slots=True)
class DatedStatement:
    """A statement, with the places of the memories that hold it: a fact, and the passage of the turn around it.

    Attributes:
        at: When it was made.
        text: What it says.
        turns: The turns that it is from.
        place: Of the memory that says just that.
        places: That one, and those of the memories that hold it.
        whole: Whether it is a passage that holds another statement, which is replaced in its stead.
    """

    at: datetime
    text: str
    turns: frozenset[TurnId]
    place: int
    places: list[int]
    whole: bool = False


_compared: Final = lru_cache(maxsize=4096)(normalised)
"""The same memories are found again and again."""


def statements(memories: Sequence[Memory | None]) -> list[DatedStatement]:
    """Return what *memories* state, oldest first, and what two of one turn state once."""
    by_turn: dict[frozenset[TurnId | None], dict[str, DatedStatement]] = defaultdict(dict)
    for place, memory in enumerate(memories):
        if memory is None or (memory.kind == "episodic" and not _tells(memory.text)):
            continue
        text = memory.text.removeprefix(SAID).removeprefix(ASKED)
        turns = frozenset(map(_turn_of, memory.sources)) - {None}
        at = (memory.sources[-1].at if memory.sources else None) or memory.created_at
        known = by_turn[turns].setdefault(_compared(text), DatedStatement(at, text, turns, place, []))
        known.places.append(place)
    for turns, by_text in by_turn.items():
        if turns:
            _join(by_text)
    return sorted((said for by_text in by_turn.values() for said in by_text.values()), key=_in_time)


def _join(by_text: Mapping[str, DatedStatement]) -> None:
    """Let statements of one turn share the place of a passage that holds them."""
    for inner, one in by_text.items():
        for outer, whole in by_text.items():
            if inner != outer and inner in outer:
                one.places.append(whole.place)
                whole.whole = True


def _tells(text: str) -> bool:
    """Return whether an episode is a statement; a question, and a whole message of a conversation, changes nothing."""
    return text.startswith(SAID) or (text.startswith(ASKED) and "?" not in text)
