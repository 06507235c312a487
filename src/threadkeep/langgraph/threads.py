"""``tk.threads``: an owner's conversations and jobs, listed, measured, pruned, copied and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from threadkeep.checkpoints.maintenance import KeptCheckpoints, ThreadStats
from threadkeep.checkpoints.thread_ids import thread_id_from
from threadkeep.errors import InvalidInputError, ThreadBusyError
from threadkeep.ids import ThreadId

if TYPE_CHECKING:
    from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
    from threadkeep.container import Container
    from threadkeep.identity import Owner
    from threadkeep.service import OwnerScope


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread of an owner.

    Attributes:
        thread_id: Its id.
        stats: How large it is.
    """

    thread_id: str
    stats: ThreadStats


@dataclass(frozen=True, slots=True)
class Pruned:
    """What pruning did to a thread.

    Attributes:
        thread_id: Its id.
        removed: How many checkpoints went.
        busy: Whether it was left alone because a run was at work on it.
    """

    thread_id: str
    removed: int = 0
    busy: bool = False


class ThreadService:
    """The threads of an owner that are kept by ``tk.checkpointer``, newest first."""

    def __init__(self, app: Container, scope: OwnerScope) -> None:
        self._app = app
        self._scope = scope

    async def list(
        self,
        owner: str | Owner | None = None,
        *,
        older_than: timedelta | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> list[Thread]:
        """List threads, with how large they are.

        Args:
            owner: The owner.
            older_than: Only those that have rested so long.
            limit: How many at most.
            offset: How many to leave out first.
        """
        owner = self._scope.resolve(owner)
        found: list[Thread] = []
        for thread_id in await self._ids(owner):
            thread = await self.get(thread_id, owner=owner)
            if thread is not None and self._rested(thread, older_than):
                found.append(thread)
                if len(found) >= offset + limit:
                    break
        return found[offset:]

    async def get(self, thread_id: str, *, owner: str | Owner | None = None) -> Thread | None:
        """Return a thread, or ``None`` where the owner has none of this id."""
        owner, named = self._scope.resolve(owner), thread_id_from(thread_id)
        stats = await (await self._view(named, owner)).astats(named)
        return Thread(named, stats) if stats.checkpoints else None

    async def require(self, thread_id: str, *, owner: str | Owner | None = None) -> Thread:
        """Return a thread.

        Raises:
            InvalidInputError: The owner has none of this id.
        """
        found = await self.get(thread_id, owner=owner)
        if found is None:
            msg = "The owner has no such thread; list them to see which there are."
            raise InvalidInputError(msg, thread_id=thread_id)
        return found

    async def stats(self, owner: str | Owner | None = None) -> ThreadStats:
        """Return how large all threads of the owner are together."""
        owner = self._scope.resolve(owner)
        every = [
            thread.stats for one in await self._ids(owner) if (thread := await self.get(one, owner=owner)) is not None
        ]
        return ThreadStats(
            sum(one.checkpoints for one in every),
            sum(one.size_bytes for one in every),
            min((one.began_at for one in every if one.began_at), default=None),
            max((one.updated_at for one in every if one.updated_at), default=None),
            any(one.waits for one in every),
        )

    async def prune(
        self,
        thread_ids: Sequence[str] | None = None,
        *,
        owner: str | Owner | None = None,
        latest: int = 1,
        since: datetime | None = None,
        waiting: bool = True,
        older_than: timedelta | None = None,
    ) -> list[Pruned]:
        """Remove old checkpoints; what stays can be resumed, travelled to and forked as before.

        Args:
            thread_ids: Which threads; ``None``: all of the owner.
            owner: The owner.
            latest: How many of the newest checkpoints stay, 1 or more.
            since: What was made then or later stays, too.
            waiting: Ends of branches that wait for an answer stay, too.
            older_than: Only threads that have rested so long.

        Raises:
            InvalidInputError: *latest* is below 1, *since* has no time zone, or a thread that is named is not there.
        """
        if latest < 1 or isinstance(thread_ids, str) or (since is not None and since.tzinfo is None):
            msg = "Give the threads as a list of ids, latest as 1 or more, and since with a time zone."
            raise InvalidInputError(msg)
        owner = self._scope.resolve(owner)
        keep = KeptCheckpoints(latest, since, waiting)
        done: list[Pruned] = []
        for thread_id in await self._chosen(thread_ids, owner, older_than):
            view = await self._view(thread_id, owner)
            try:
                done.append(Pruned(thread_id, await view.athin(thread_id, keep, wait=False)))
            except ThreadBusyError:
                done.append(Pruned(thread_id, busy=True))
        return done

    async def delete(
        self,
        thread_ids: Sequence[str] | None = None,
        *,
        owner: str | Owner | None = None,
        older_than: timedelta | None = None,
    ) -> list[str]:
        """Delete threads with all their checkpoints; memories learnt in them stay. Return their ids.

        Args:
            thread_ids: Which; ``None``: those that have rested as long as *older_than* says.
            owner: The owner.
            older_than: Only threads that have rested so long.

        Raises:
            InvalidInputError: Nothing says which, or a thread that is named is not there.
        """
        if isinstance(thread_ids, str) or (thread_ids is None and older_than is None):
            msg = (
                "Name the threads to delete as a list of ids, or say older_than; all at once goes by erasing the owner."
            )
            raise InvalidInputError(msg)
        owner = self._scope.resolve(owner)
        chosen = await self._chosen(thread_ids, owner, older_than)
        await self._saver.adelete_of_owner(chosen, owner=owner)
        return [*chosen]

    async def copy(self, thread_id: str, to: str, *, owner: str | Owner | None = None) -> Thread:
        """Copy a thread to a new id.

        Raises:
            ConflictError: There is a thread of that id.
            InvalidInputError: There is nothing to copy.
        """
        return await self._copy(thread_id, to, owner, None)

    async def fork(
        self, thread_id: str, to: str, *, checkpoint_id: str | None = None, owner: str | Owner | None = None
    ) -> Thread:
        """Begin a thread of its own at a checkpoint of another, with all that led to it.

        Args:
            thread_id: The thread to go on from.
            to: The new thread's id.
            checkpoint_id: Where it begins; ``None``: at the newest.
            owner: The owner of both.

        Raises:
            ConflictError: There is a thread of that id.
            InvalidInputError: There is no such checkpoint.
        """
        return await self._copy(thread_id, to, owner, checkpoint_id)

    async def _copy(self, thread_id: str, to: str, owner: str | Owner | None, until: str | None) -> Thread:
        owner, named, other = self._scope.resolve(owner), thread_id_from(thread_id), thread_id_from(to)
        await self.require(named, owner=owner)
        view = await self._view(named, owner)
        await view.abind(other, owner)
        await view.acopy(named, other, until=until)
        return await self.require(other, owner=owner)

    async def _chosen(
        self, thread_ids: Sequence[str] | None, owner: Owner, older_than: timedelta | None
    ) -> list[ThreadId]:
        ids = await self._ids(owner) if thread_ids is None else [thread_id_from(one) for one in thread_ids]
        chosen: list[ThreadId] = []
        for thread_id in ids:
            if thread_ids is None:
                thread = await self.get(thread_id, owner=owner)
            else:
                thread = await self.require(thread_id, owner=owner)
            if thread is not None and self._rested(thread, older_than):
                chosen.append(thread_id)
        return chosen

    async def _ids(self, owner: Owner) -> Sequence[ThreadId]:
        return await self._app.call(lambda services: services.thread_directory.ids_of(owner))

    def _rested(self, thread: Thread, older_than: timedelta | None) -> bool:
        at = thread.stats.updated_at
        return older_than is None or (at is not None and self._app.clock.now() - at >= older_than)

    async def _view(self, thread_id: ThreadId, owner: Owner) -> ThreadkeepCheckpointer:
        """Return the view that sees the owner's thread of this id: bound to them, or out of others' reach anyway."""
        saver = self._saver
        bound = await saver.aowner(thread_id)
        return saver if bound == owner.label else saver.scoped(owner)

    @property
    def _saver(self) -> ThreadkeepCheckpointer:
        if self._app.checkpointer is None:
            msg = "A LangGraph server keeps its threads itself; ask that."
            raise InvalidInputError(msg)
        return self._app.checkpointer
