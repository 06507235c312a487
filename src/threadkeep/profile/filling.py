"""Fill the slots of a profile from the memories of an owner's index.

Each slot is a search of its own: the memories closest to its examples and words. Of these, the slot has the ones that
fill it, are the user's own, and are not replaced by a newer one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from threadkeep.memories.codec import is_summary, recalled_namespaces
from threadkeep.memories.models import SAID, TRUSTED, Memory, sentences_in
from threadkeep.profile.matching import ExampleVectors, ProfileMatcher
from threadkeep.profile.schema import ProfileSlot
from threadkeep.search.query import Query
from threadkeep.search.vectors import unit
from threadkeep.text.facts import asserts, clauses, denies
from threadkeep.text.tokenizing import alternatives

if TYPE_CHECKING:
    from datetime import datetime

    from numpy.typing import NDArray

    from threadkeep.search.ranking import IndexSnapshot, Ranking

CONSIDERED: Final = 32
"""So many of the memories closest to a slot may fill it."""
_MOST_VALUES: Final = 5
"""So many values of a slot count."""
_SURE_OF_ONE: Final = 2.0
"""Of a slot with a single value, what fits so much less than the best is not its value, in standard deviations."""
_WISHED: Final = re.compile(r"(?i)^I(?:'d| would) (?:like|love) to\b|^I (?:want|hope|wish|plan) to\b")
"""A wish is not the value of a slot with a single one: ``I would like to live in Madrid``."""
_LONGEST_VALUE: Final = 160
"""A longer sentence fills no slot, in characters."""


@dataclass(frozen=True, slots=True)
class SlotMemory:
    """A memory that fills a slot.

    Attributes:
        slot: The slot's name.
        memory: The memory; of an episode, only the sentence that fills the slot.
        value: What it says of the slot.
        fit: How well it fits.
        vector: Of the memory; ``None``: not known.
        earlier: Whether a newer value probably replaces it.
    """

    slot: str
    memory: Memory
    value: str
    fit: float
    vector: NDArray[np.float32] | None = None
    earlier: bool = False

    @property
    def at(self) -> datetime:
        """When it was said."""
        sources = self.memory.sources
        return (sources[-1].at if sources else None) or self.memory.updated_at


@dataclass(frozen=True, slots=True)
class SlotProbe:
    """The search for what fills a slot: its words, and the mean of its examples' vectors."""

    query: Query
    vector: NDArray[np.float32] | None


def to_probe(slot: ProfileSlot, examples: Sequence[str], vectors: ExampleVectors | None) -> SlotProbe:
    """Return the probe of *slot*; *examples* are the texts of *vectors*."""
    words = " ".join((slot.name, *(word.rstrip("*") for word in slot.words)))
    text = f"{slot.description} {words}" if not slot.words else words
    vector = None
    if vectors is not None and slot.facts:
        places = [examples.index(fact) for fact in slot.facts]
        vector = unit(vectors.facts[places].mean(axis=0))
    return SlotProbe(Query(text, alternatives(text)), vector)


def closest(probe: SlotProbe, index: IndexSnapshot, label: str) -> Ranking:
    """Return the memories of the owner with *label* that are closest to *probe*."""
    return index.search(probe.query, probe.vector, prefixes=recalled_namespaces(label), limit=CONSIDERED)


def vectors_of(ranking: Ranking, index: IndexSnapshot) -> NDArray[np.float32] | None:
    """Return the vectors of the hits of *ranking*, shape ``(n, dims)``, zeros for one without; ``None``: not in RAM."""
    if index.vectors is None:
        return None
    return index.vectors.at(index.starts[ranking.hits.slots(len(ranking.hits))]).floats()


FindEarlier: TypeAlias = "Callable[[Sequence[Memory | None], NDArray[np.float32] | None], Mapping[int, int]]"
"""Returns the places of memories that are no longer so, each with that of the newer one which says so."""


def fill(
    slot: ProfileSlot,
    matcher: ProfileMatcher,
    memories: Iterable[Memory | None],
    vectors: NDArray[np.float32] | None,
    *,
    now: datetime,
    find_earlier: FindEarlier,
) -> list[SlotMemory]:
    """Return what fills *slot*, newest first: the newest alone of a slot with a single value.

    Args:
        slot: The slot.
        matcher: Compares statements with the slots.
        memories: The memories closest to the slot; ``None`` for one that is gone.
        vectors: Their vectors, shape ``(n, dims)``.
        now: The time that memories must be valid at.
        find_earlier: Tells which of them a newer one replaces.
    """
    values: list[SlotMemory] = []
    for place, memory in enumerate(memories):
        if memory is not None and _may_fill(memory, now):
            values += _values(slot, matcher, memory, None if vectors is None else vectors[place])
    if slot.single:
        least = max((value.fit for value in values), default=0.0) - _SURE_OF_ONE
        values = [value for value in values if value.fit >= least]
    newest = _distinct(sorted(values, key=_newest_first))
    return newest[:1] if slot.single else _marked(newest[:_MOST_VALUES], find_earlier)


def _may_fill(memory: Memory, now: datetime) -> bool:
    """Return whether *memory* is the user's own statement and is valid."""
    if memory.status != "active" or memory.trust not in TRUSTED or is_summary(memory):
        return False
    if memory.kind == "episodic" and not memory.text.startswith(SAID):
        return False
    return memory.valid_to is None or memory.valid_to > now


def _values(
    slot: ProfileSlot, matcher: ProfileMatcher, memory: Memory, vector: NDArray[np.float32] | None
) -> list[SlotMemory]:
    """Return what *memory* says of *slot*: a fact itself, of an episode each sentence."""
    episode = memory.kind == "episodic"
    parts = _asserted(memory.text) if episode else _fact(memory.text, slot)
    alone = vector if len(parts) == 1 else None
    values: list[SlotMemory] = []
    for part in parts:
        fit = matcher.filled(part, alone).get(slot.name)
        text = matcher.value(part, slot.name)
        if fit is not None and len(text) <= _LONGEST_VALUE:
            said = replace(memory, text=f"{SAID}{part}") if episode else memory
            values.append(SlotMemory(slot.name, said, text, fit, vector))
    return values


def _fact(text: str, slot: ProfileSlot) -> list[str]:
    """Return a fact if it says that something is so; a value that was set for the slot always does."""
    wished = slot.single and _WISHED.search(text) is not None
    return [text] if text.startswith(f"{slot.name}: ") or (asserts(text) and not wished) else []


def _asserted(episode: str) -> list[str]:
    """Return the sentences of *episode* that assert something; of others, the clauses that do."""
    parts = ([one] if asserts(one) else filter(asserts, clauses(one)) for one in sentences_in(episode))
    return list(chain.from_iterable(parts))


def _newest_first(value: SlotMemory) -> tuple[float, bool]:
    return -value.at.timestamp(), value.memory.kind == "episodic"


def _distinct(values: Sequence[SlotMemory]) -> list[SlotMemory]:
    """Return the values, newest first, that no newer one repeats or ends."""
    distinct: list[SlotMemory] = []
    for value in values:
        if not any(_repeats(newer, value) or denies(newer.value, value.value) for newer in distinct):
            distinct.append(value)
    return distinct


def _marked(values: Sequence[SlotMemory], find_earlier: FindEarlier) -> list[SlotMemory]:
    """Return *values*, those last that a newer one probably replaces, and marked."""
    vectors = [value.vector for value in values if value.vector is not None]
    alike = None
    if vectors and len(vectors) == len(values):
        rows = np.array(vectors)
        alike = rows @ rows.T
    earlier = find_earlier([value.memory for value in values], alike)
    marked = [replace(value, earlier=place in earlier) for place, value in enumerate(values)]
    return sorted(marked, key=_is_earlier)


def _is_earlier(value: SlotMemory) -> bool:
    return value.earlier


def _repeats(newer: SlotMemory, value: SlotMemory) -> bool:
    """Return whether two values say the same: one holds the other, as a fact and its passage do."""
    one, other = newer.value.casefold().rstrip(".!"), value.value.casefold().rstrip(".!")
    return one in other or other in one
