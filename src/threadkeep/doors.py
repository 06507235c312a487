"""The two rooms of the Python door: ``tk.memories`` and ``tk.owners``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from threadkeep.errors import NotYoursError, OwnerRequiredError
from threadkeep.ids import MemoryId
from threadkeep.memories.record import Forgotten, Kept, Kind, Memory, NewMemory, Source, Version
from threadkeep.owners.owner import Owner
from threadkeep.owners.record import Erased, Holdings
from threadkeep.recall.record import Recalled

if TYPE_CHECKING:
    from threadkeep.app import App, Rooms


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose memory a call means: what it says, else the default; a locked one allows no other.

    Attributes:
        default: The owner where a call names none.
        locked: Whether naming another is refused.
    """

    default: Owner | None = None
    locked: bool = False

    def __call__(self, given: str | Owner | None) -> Owner:
        """Return the owner that is meant.

        Raises:
            OwnerRequiredError: Nothing says which.
            NotYoursError: It is locked to another.
        """
        owner = as_owner(given) if given is not None else self.default
        if owner is None:
            msg = "Whose memory is meant? Pass owner=, or open the memory with one."
            raise OwnerRequiredError(msg)
        if self.locked and owner != self.default:
            msg = "This memory is locked to another owner."
            raise NotYoursError(msg)
        return owner


def as_owner(given: str | Owner) -> Owner:
    """Return a user id as an owner of the default tenant."""
    return given if isinstance(given, Owner) else Owner(given)


class MemoryDoor:
    """What is remembered about an owner."""

    def __init__(self, app: App, whose: Whose) -> None:
        self._app = app
        self._whose = whose

    async def remember(
        self,
        text: str,
        *,
        owner: str | Owner | None = None,
        kind: Kind = "semantic",
        source: Source | None = None,
        valid_from: datetime | None = None,
        pinned: bool = False,
    ) -> Kept:
        """Keep a statement of 1–8,000 characters; one that an active memory makes already is a duplicate."""
        new = NewMemory(text, kind, (source,) if source else (), valid_from=valid_from, pinned=pinned)
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.memories.remember(new, owner=whose))

    async def remember_many(
        self,
        news: Sequence[NewMemory],
        *,
        owner: str | Owner | None = None,
        progress: Callable[[int], object] = lambda _: None,
    ) -> tuple[MemoryId, ...]:
        """Keep many statements, 500 in a commit; a repeated import changes nothing where they have ids."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.memories.remember_many(news, owner=whose, progress=progress))

    async def get(self, memory_id: str, *, owner: str | Owner | None = None) -> Memory | None:
        """Return a memory, or ``None`` where the owner has none with this id."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.memories.get(memory_id, owner=whose))

    async def require(self, memory_id: str, *, owner: str | Owner | None = None) -> Memory:
        """Return a memory, or raise ``MemoryNotFoundError``."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.memories.require(memory_id, owner=whose))

    async def list(
        self, *, owner: str | Owner | None = None, kind: Kind | None = None, limit: int = 100, offset: int = 0
    ) -> list[Memory]:
        """Return memories, most recently changed first."""
        whose = self._whose(owner)
        return await self._app.call(
            lambda rooms: rooms.memories.list(owner=whose, kind=kind, limit=limit, offset=offset)
        )

    async def search(
        self,
        query: str,
        *,
        owner: str | Owner | None = None,
        kind: Kind | None = None,
        limit: int = 10,
    ) -> list[Recalled]:
        """Return the memories most like *query*, best first, with scores in [0, 1]."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.recalls.search(query, owner=whose, kind=kind, limit=limit))

    async def correct(
        self,
        memory_id: str,
        text: str,
        *,
        owner: str | Owner | None = None,
        revision: int | None = None,
        source: Source | None = None,
    ) -> Memory:
        """Replace what a memory says; what it said before stays in its history."""
        whose = self._whose(owner)
        return await self._app.call(
            lambda rooms: rooms.memories.correct(memory_id, text, owner=whose, revision=revision, source=source)
        )

    async def forget(self, memory_id: str, *, owner: str | Owner | None = None) -> Forgotten:
        """Remove a statement with its history and what was derived from it; say where it still stands."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.memories.forget(memory_id, owner=whose))

    async def pin(self, memory_id: str, *, owner: str | Owner | None = None, pinned: bool = True) -> Memory:
        """Let a memory never expire (or let it expire again)."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.memories.pin(memory_id, owner=whose, pinned=pinned))

    async def history(self, memory_id: str, *, owner: str | Owner | None = None) -> tuple[Version, ...]:
        """Return what a memory said before, oldest first."""
        return (await self.require(memory_id, owner=owner)).history


class OwnerDoor:
    """Everything that is held about one owner."""

    def __init__(self, app: App, whose: Whose) -> None:
        self._app = app
        self._whose = whose

    async def show(self, owner: str | Owner | None = None) -> Holdings:
        """Count what is held."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.owners.show(whose))

    async def export(self, owner: str | Owner | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yield everything that is held, one JSON object a line of a JSON Lines file."""
        whose = self._whose(owner)

        async def started(rooms: Rooms) -> AsyncIterator[dict[str, Any]]:
            return rooms.owners.export(whose)

        rows = await self._app.call(started)
        while (row := await self._app.home.run(_next(rows))) is not None:
            yield row

    async def erase(self, owner: str | Owner | None = None) -> Erased:
        """Remove everything that is held, threads included; writes of work in flight are refused."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.owners.erase(whose))


async def _next(rows: AsyncIterator[dict[str, Any]]) -> dict[str, Any] | None:
    return await anext(rows, None)
