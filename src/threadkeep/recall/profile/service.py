"""``tk.profile``: the named slots of an owner's profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threadkeep.errors import InvalidInputError, MemoryNotFoundError, SlotNotFoundError
from threadkeep.identity import Service, operation
from threadkeep.memories.models import NewMemory, RememberResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from threadkeep.identity import Owner
    from threadkeep.ids import MemoryId
    from threadkeep.recall.profile.schema import Profile, ProfileSlot, SlotValue


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
