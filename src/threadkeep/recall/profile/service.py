"""The profile: ``tk.profile``, and the lines in front of a block, within a budget of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from threadkeep.errors import InvalidInputError, MemoryNotFoundError, SlotNotFoundError
from threadkeep.identity import Service, operation
from threadkeep.memories.kinds import ruled_kind
from threadkeep.memories.models import NewMemory, RememberResult, Source
from threadkeep.models.base import EMBEDDER
from threadkeep.proposals.models import NewProposal
from threadkeep.recall.currency import find_earlier
from threadkeep.recall.models import Recalled, line
from threadkeep.recall.packing import estimate_tokens
from threadkeep.recall.profile.matching import (
    ExampleVectors,
    ProfileMatcher,
    SlotMemory,
    SlotProbe,
    acts_for_user,
    closest,
    fill,
    to_probe,
    vectors_of,
)
from threadkeep.recall.profile.schema import Profile, SlotValue
from threadkeep.search.query import Query

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.clock import Clock
    from threadkeep.identity import Owner
    from threadkeep.ids import MemoryId
    from threadkeep.memories.models import Memory
    from threadkeep.recall.profile.schema import ProfileSlot
    from threadkeep.search.ranking import IndexSnapshot, Ranking
    from threadkeep.search.retriever import PreparedSearch, Retriever

ProfileMode: TypeAlias = Literal["auto", "always", "off"]
"""``auto``: the slots that a request needs; ``always``: every slot before every turn; ``off``: none."""

DEFAULT_PROFILE_TOKENS: Final = 60
Values: TypeAlias = "dict[str, list[SlotMemory]]"


class ProfileReader:
    """Derives profiles from memories. Async methods run on one event loop; the others on any thread.

    Args:
        search: Has the owners' indexes, and embeds the examples once.
        clock: Tells which memories are valid.
        slots: The schema.
        mode: When a block has profile lines.
        budget_tokens: Upper bound of these lines, by :func:`~threadkeep.recall.packing.estimate_tokens`.
    """

    def __init__(
        self,
        search: Retriever,
        clock: Clock,
        slots: Sequence[ProfileSlot],
        *,
        mode: ProfileMode = "auto",
        budget_tokens: int = DEFAULT_PROFILE_TOKENS,
    ) -> None:
        self._search = search
        self._clock = clock
        self._matcher = ProfileMatcher(slots)
        self._mode: ProfileMode = mode
        self._budget = budget_tokens
        self._probes: dict[str, SlotProbe] | None = None
        self._loading = asyncio.Lock()

    @property
    def slots(self) -> Mapping[str, ProfileSlot]:
        """The slots by their names, in the order of the schema."""
        return self._matcher.slots

    def is_loaded(self, request: str) -> bool:
        """Return whether the profile lines for *request* need no loading."""
        return self._probes is not None or not self._may_show(request)

    async def load(self) -> None:
        """Embed the examples of the slots, once; if that fails, words alone are compared until the next call."""
        async with self._loading:
            if self._probes is not None:
                return
            matcher = self._matcher
            facts, requests = matcher.facts.texts, matcher.requests.texts
            embedding = await self._search.embed_put((*facts, *requests))
            if embedding is not None:
                rows = np.frombuffer(embedding.data, "<f4").reshape(-1, embedding.dims)
                matcher.vectors = ExampleVectors(rows[: len(facts)], rows[len(facts) :])
            if embedding is not None or not self._search.semantic:
                self._probes = self._make_probes()

    def try_select(self, request: str, prepared: PreparedSearch, owner: Owner) -> list[Recalled] | None:
        """Return what :meth:`select` would, without I/O; ``None``: something must be loaded or read."""
        if not self._may_show(request):
            return []
        if self._probes is None:
            return None
        needed, values = self._needed(request, prepared), dict[str, list[SlotMemory]]()
        for name in needed:
            ranking = closest(self._probes[name], prepared.index, owner.label)
            places = range(len(ranking.hits))
            memories = ranking.memories(places)
            if len(memories) < len(places):
                return None
            values[name] = self._fill(name, [memories[place] for place in places], ranking, prepared.index)
        return self._chosen(needed, values, prepared.vector)

    async def select(self, request: str, prepared: PreparedSearch, owner: Owner) -> list[Recalled]:
        """Return the memories of the slots that *request* needs, in the order of the schema, within the budget.

        Raises:
            StorageError: The storage cannot be used.
        """
        if not self._may_show(request):
            return []
        needed = self._needed(request, prepared)
        return self._chosen(needed, await self._values(needed, prepared, owner), prepared.vector)

    async def read(self, owner: Owner) -> Profile:
        """Return the profile of *owner*.

        Raises:
            StorageError: The storage cannot be used.
        """
        await self.load()
        prepared = await self._search.prepare(owner.partition, Query("", ()), method="lexical", limit=None)
        values = await self._values(self._matcher.slots, prepared, owner)
        slots = {
            name: tuple(SlotValue(one.value, one.memory.memory_id, one.at, one.earlier) for one in values[name])
            for name in values
        }
        return Profile(slots, (EMBEDDER,) if self._matcher.vectors is None else ())

    def fills(self, slot: str, text: str) -> bool:
        """Return whether *text* fills *slot* by its words alone, whatever the embedder says."""
        return slot in self._matcher.filled(text, None)

    def _may_show(self, request: str) -> bool:
        if self._mode == "off" or not self._matcher.slots:
            return False
        return self._mode == "always" or acts_for_user(request)

    def _make_probes(self) -> dict[str, SlotProbe]:
        matcher = self._matcher
        return {name: to_probe(slot, matcher.facts.texts, matcher.vectors) for name, slot in matcher.slots.items()}

    def _needed(self, request: str, prepared: PreparedSearch) -> Mapping[str, float]:
        if self._mode == "always":
            return dict.fromkeys(self._matcher.slots, 0.0)
        return self._matcher.needed(request, prepared.vector)

    async def _values(self, names: Mapping[str, object], prepared: PreparedSearch, owner: Owner) -> Values:
        probes, values = self._probes or self._make_probes(), dict[str, list[SlotMemory]]()
        for name in names:
            ranking = closest(probes[name], prepared.index, owner.label)
            memories = await self._search.memories(owner.partition, ranking, range(len(ranking.hits)))
            values[name] = self._fill(name, memories, ranking, prepared.index)
        return values

    def _fill(
        self, name: str, memories: Sequence[Memory | None], ranking: Ranking, index: IndexSnapshot
    ) -> list[SlotMemory]:
        return fill(
            self._matcher.slots[name],
            self._matcher,
            memories,
            vectors_of(ranking, index),
            now=self._clock.now(),
            find_earlier=find_earlier,
        )

    def _chosen(
        self, needed: Mapping[str, float], values: Values, vector: NDArray[np.float32] | None
    ) -> list[Recalled]:
        """Return what fits into the budget, the most needed first, in the order of the schema."""
        left, chosen = self._budget, dict[str, list[Recalled]]()
        taken = set[str]()
        for one in _by_turns(needed, values, None if self._mode == "always" else vector):
            recalled = Recalled(one.memory, 0.0, one.earlier, one.slot, one.value)
            tokens = estimate_tokens(line(recalled) + "\n")
            if tokens <= left and one.memory.memory_id not in taken:
                left -= tokens
                taken.add(one.memory.memory_id)
                chosen.setdefault(one.slot, []).append(recalled)
        return [one for name in self._matcher.slots for one in chosen.get(name, ())]


def _by_turns(needed: Mapping[str, float], values: Values, vector: NDArray[np.float32] | None) -> Iterator[SlotMemory]:
    """Yield the first value of each slot, the most needed slot first, then the second of each, and so on.

    The values of a slot are ordered by how close they are to the request, newest first among equals.
    """

    def closeness(value: SlotMemory) -> tuple[bool, float]:
        return value.earlier, 0.0 if vector is None or value.vector is None else -float(value.vector @ vector)

    columns = [sorted(values[name], key=closeness) for name in needed]
    return (one for one in chain.from_iterable(zip_longest(*columns)) if one is not None)


class ProfileService(Service):
    """The profile of an owner: get, set, clear.

    A profile is derived from the owner's memories: what is corrected or forgotten there leaves it at once, and what is
    set here is a memory. ``owner=`` is as in :class:`~threadkeep.memories.service.MemoryService`.
    """

    @property
    def schema(self) -> Mapping[str, ProfileSlot]:
        """The slots by their names, in order."""
        return self._services.profile_reader.slots

    @operation
    async def get(self, *, owner: str | Owner | None = None) -> Profile:
        """Return the profile, with all slots of the schema in order; a slot without a value is empty.

        Raises:
            StorageError: The storage cannot be used.
        """
        return await self._services.profile_reader.read(self._scope.resolve(owner))

    @operation
    async def set(
        self, slot: str, text: str, *, owner: str | Owner | None = None, memory_id: str | None = None
    ) -> RememberResult:
        """Make *slot* say *text*: correct the memory that fills it, or keep a new one.

        Args:
            slot: The slot's name.
            text: What is true; a statement or a value such as ``no nuts``.
            owner: The owner of the profile.
            memory_id: The value to replace; ``None``: the value of a slot that has a single one, else *text* is added.

        Returns:
            The memory that says it now; as by ``tk.memories.remember``, how to behave is proposed.

        Raises:
            SlotNotFoundError: The schema has no such slot.
            InvalidInputError, TooLargeError: *text* cannot be kept.
            MemoryNotFoundError: The slot has no value with this *memory_id*.
            OptedOutError: The owner wants no memory.
        """
        resolved, reader = self._scope.resolve(owner), self._services.profile_reader
        self._require_slot(slot)
        if not isinstance(text, str) or not text.strip():
            msg = "text must be a string that is not blank; to empty a slot, use clear()."
            raise InvalidInputError(msg)
        self._services.opt_outs.require_wanted(resolved, None)
        said = text if reader.fills(slot, text) else f"{slot}: {text}"
        values = (await reader.read(resolved)).slots[slot]
        replaced = self._replaced(slot, values, memory_id)
        if replaced is not None:
            memory = await self._services.memory_reader.require(replaced, owner=resolved)
            if ruled_kind(memory.kind, said) == "procedural":
                change = NewProposal(said, "correct", sources=(Source("user"),), memory_id=memory.memory_id)
                asked = await self._services.proposal_repository.propose(change, owner=resolved)
                status = "rejected" if asked.status == "rejected" else "proposed"
                return RememberResult(status, memory, proposal_id=asked.proposal_id, reason=asked.reason)
            if memory.kind != "episodic":
                corrected = await self._services.memory_repository.correct(replaced, said, owner=resolved)
                return RememberResult("accepted", corrected)
            await self._services.memory_repository.forget(replaced, owner=resolved)
        return await self._services.proposal_repository.keep(NewMemory(said), owner=resolved)

    @operation
    async def clear(self, slot: str, *, owner: str | Owner | None = None) -> tuple[MemoryId, ...]:
        """Forget every memory that fills *slot*, and return their ids.

        Raises:
            SlotNotFoundError: The schema has no such slot.
        """
        resolved = self._scope.resolve(owner)
        self._require_slot(slot)
        forgotten: dict[MemoryId, None] = {}
        while values := (await self._services.profile_reader.read(resolved)).slots[slot]:
            value = values[0]
            result = await self._services.memory_repository.forget(value.memory_id, owner=resolved)
            forgotten |= dict.fromkeys(result.memory_ids)
        return tuple(forgotten)

    def _require_slot(self, slot: object) -> None:
        if slot not in self.schema:
            msg = f"The profile has no slot {str(slot)[:40]!r}; its slots are {', '.join(self.schema) or 'none'}."
            raise SlotNotFoundError(msg)

    def _replaced(self, slot: str, values: tuple[SlotValue, ...], memory_id: str | None) -> str | None:
        if memory_id is None:
            return values[0].memory_id if values and self.schema[slot].single else None
        if memory_id not in [value.memory_id for value in values]:
            msg = f"The slot {slot!r} has no value with this memory_id; read them by profile.get()."
            raise MemoryNotFoundError(msg)
        return memory_id
