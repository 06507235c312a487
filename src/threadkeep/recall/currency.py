"""Which of the memories that a question finds are no longer so: a newer one of them says it.

Where capture is certain, it replaces a memory and keeps the old statement in its history. What it cannot tell is found
here, among the memories that are compared for a block: both are shown, the newer first and the older marked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from threadkeep.memories.models import ASKED, SAID, Memory
from threadkeep.text.changes import change_in, is_english, outdates, returns, subjects_of
from threadkeep.text.semantics import normalised

if TYPE_CHECKING:
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from threadkeep.ids import TurnId
    from threadkeep.memories.models import Source

LEAST_ALIKE: Final = 0.25
"""Two statements with a word in common are about the same thing from this cosine on."""

ALIKE_WITHOUT_A_WORD: Final = 0.43
"""The same without a word in common, among :data:`_MANY` statements, for the nearest earlier one.

Source:
    Of 120 unrelated facts, of which 37 have the mark of a change, one is so near to an earlier one and 17 are from .30
    on. Half of the real changes are at .43, and nine in ten of those that share a word are from .40 on.
"""
ALIKE_WITHOUT_A_WORD_OF_ONE: Final = 0.12
"""The same where there is one other statement: the nearest of few is less near by chance."""
_MANY: Final = 60
_turn_of: Final[Callable[[Source], TurnId | None]] = attrgetter("turn_id")
_in_time: Final[Callable[[_DatedStatement], tuple[datetime, int]]] = attrgetter("at", "place")
_COMMON: Final = 3
_COMMON_SHARE: Final = 0.08
"""A word that more turns than these have tells nothing of what a pair is about."""


def find_earlier(memories: Sequence[Memory | None], alike: NDArray[np.float32] | None) -> Mapping[int, int]:
    """Return the places of memories that are no longer so, each with the place of the newest one that says so.

    Args:
        memories: What was found, best first; ``None`` where it is not known.
        alike: Their cosines with each other, shape ``(n, n)``; ``None``: words alone decide.
    """
    said = _statements(memories)
    common = _common(said)
    found: dict[int, int] = {}  # by their numbers in *said*
    so_again: set[tuple[int, str]] = set()  # what a turn says is so again
    for number, newer in enumerate(said):
        if change_in(newer.text) is None:
            continue
        before = [one for one in range(number) if said[one].turns.isdisjoint(newer.turns)]
        near = {one: 1.0 if alike is None else float(alike[newer.place, said[one].place]) for one in before}
        restored = {
            one: found[one]
            for one in before
            if one in found and said[found[one]].turns.isdisjoint(newer.turns) and returns(newer.text, said[one].text)
        }
        so_again.update((one, turn) for one in restored for turn in newer.turns)
        outdated = [
            one
            for one in before
            if near[one] >= LEAST_ALIKE
            and outdates(newer.text, said[one].text, common=common)
            and not any((one, turn) in so_again for turn in newer.turns)
        ]
        current = [one for one in before if one not in found and newer.english and said[one].english]
        if not outdated and current and alike is not None:
            nearest = max(current, key=near.__getitem__)
            if near[nearest] >= _minimum_similarity(len(said) - 1):
                outdated = [nearest]
        found.update(dict.fromkeys(outdated, number))
        for one, instead in restored.items():  # what had taken the place of what is so again gives way to it
            del found[one]
            found[instead] = number
    return {place: said[newer].place for older, newer in found.items() for place in said[older].places}


def _minimum_similarity(count: int) -> float:
    """Return how near the nearest earlier one must be, where a statement is compared with *count* others."""
    share = min(math.log(count) / math.log(_MANY), 1.0)
    return ALIKE_WITHOUT_A_WORD_OF_ONE + share * (ALIKE_WITHOUT_A_WORD - ALIKE_WITHOUT_A_WORD_OF_ONE)


@dataclass(slots=True)
class _DatedStatement:
    """A statement, with the places of the memories that hold it: a fact, and a passage of the turn."""

    at: datetime
    text: str
    english: bool
    turns: frozenset[TurnId]
    place: int
    places: list[int]


@lru_cache(maxsize=4096)
def _features(text: str) -> tuple[str, bool]:
    """Return how *text* is compared, and whether it is English: the same memories are found again and again."""
    return normalised(text), is_english(text)


def _statements(memories: Sequence[Memory | None]) -> list[_DatedStatement]:
    """Return what *memories* state, oldest first, and what two of one turn state once."""
    by_text: dict[tuple[str, frozenset[str]], _DatedStatement] = {}
    for place, memory in enumerate(memories):
        if memory is None or (memory.kind == "episodic" and not _tells(memory.text)):
            continue
        text = memory.text.removeprefix(SAID).removeprefix(ASKED)
        compared, english = _features(text)
        turns = frozenset(map(_turn_of, memory.sources)) - {None}
        if known := by_text.get((compared, turns)):
            known.places.append(place)
            continue
        at = (memory.sources[-1].at if memory.sources else None) or memory.created_at
        by_text[compared, turns] = _DatedStatement(at, text, english, turns, place, [place])
    return sorted(by_text.values(), key=_in_time)


def _common(said: Iterable[_DatedStatement]) -> frozenset[str]:
    """Return the words that many turns have."""
    of_turns: dict[object, set[str]] = {}
    for one in said:
        of_turns.setdefault(min(one.turns, default=one.place), set()).update(subjects_of(one.text))
    counts = Counter(chain.from_iterable(of_turns.values()))
    most = max(_COMMON, _COMMON_SHARE * len(of_turns))
    return frozenset([word for word, count in counts.items() if count > most])


def _tells(text: str) -> bool:
    """Return whether an episode is a statement; a question, and a whole message of a conversation, changes nothing."""
    return text.startswith(SAID) or (text.startswith(ASKED) and "?" not in text)
