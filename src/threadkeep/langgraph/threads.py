"""``tk.threads``: an owner's conversations and jobs, listed, measured, pruned, copied and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from threadkeep.arguments import check_age, check_moment, check_string, checked_count, checked_list
from threadkeep.checkpoints.directory import checked_metadata, checked_title
from threadkeep.checkpoints.head import ThreadStatus, thread_id_from
from threadkeep.checkpoints.maintenance import KeptCheckpoints, ThreadStats
from threadkeep.errors import (
    ConflictError,
    InvalidInputError,
    OwnerMismatchError,
    ThreadBusyError,
    ThreadNotFoundError,
)
from threadkeep.ids import MessageId, ThreadId
from threadkeep.langgraph.thread_models import ImportedThread, Pruned, Thread, ThreadPage, ThreadSummary, TurnMemory
from threadkeep.memories.codec import moment_of
from threadkeep.models.base import INPUT_ROLES
from threadkeep.models.langchain import plain_messages
from threadkeep.transfer.threads import (
    CopiedThread,
    ThreadClaims,
    choose_threads,
    copy_thread,
    open_saver,
)

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from threadkeep.checkpoints.directory import ListedThread
    from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
    from threadkeep.container import Container, Services
    from threadkeep.identity import Owner, OwnerScope
    from threadkeep.models.base import Message


_SEARCHED: Final = 500
"""So many threads are read at once to find titles."""


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
        title: str = "",
        limit: int = 50,
        cursor: str | None = None,
    ) -> ThreadPage:
        """List threads, the last turn first. A page of all threads is one read.

        Args:
            owner: The owner.
            older_than: Only those with their last turn so long ago.
            title: Only those with all of these words in their title, in upper or lower case.
            limit: How many at most, 1 or more.
            cursor: The cursor of the page before; ``None``: from the first.

        Raises:
            InvalidInputError: *limit* is below 1, or *cursor* is invalid.
        """
        limit = checked_count(limit, "limit", least=1)
        check_string(title, "title")
        if older_than is not None:
            check_age(older_than)
        owner = self._scope.resolve(owner)
        words = title.casefold().split()
        found: list[ThreadSummary] = []
        while True:
            wanted, after = limit - len(found), cursor
            listed, cursor = await self._page(owner, after, max(wanted, _SEARCHED) if words else wanted)
            fitting = [
                place
                for place, one in enumerate(listed)
                if self._rested(one.last_turn_at, older_than) and all(word in one.title.casefold() for word in words)
            ][:wanted]
            found += [_summary(listed[place]) for place in fitting]
            if len(found) == limit and fitting[-1] + 1 < len(listed):  # the next page begins behind the last one
                _, cursor = await self._page(owner, after, fitting[-1] + 1)
            if cursor is None or len(found) == limit:
                return ThreadPage(found, cursor)

    async def _page(self, owner: Owner, after: str | None, limit: int) -> tuple[Sequence[ListedThread], str | None]:
        return await self._app.call(lambda services: services.thread_directory.page(owner, after=after, limit=limit))

    async def get(self, thread_id: str, *, owner: str | Owner | None = None) -> Thread | None:
        """Return a thread, or ``None`` where the owner has none of this id."""
        owner, named = self._scope.resolve(owner), thread_id_from(thread_id)
        view = await self._view(named, owner)
        sizing = view.run(view.maintenance.stats(named))
        stats, listed = await asyncio.gather(sizing, self._find(owner, named, scoped=view.is_scoped))
        if listed is None:
            return Thread(named, stats=stats) if stats.checkpoints else None
        return _thread(listed, stats)

    async def create(
        self,
        thread_id: str,
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        owner: str | Owner | None = None,
    ) -> Thread:
        """List a thread before its first turn.

        Args:
            thread_id: Its id.
            title: Its title; ``""``: the first seven words of the user, once there are any.
            metadata: What the application keeps with it: JSON of 8,000 characters at most.
            owner: The owner.

        Raises:
            ConflictError: The owner has a thread of this id.
            OwnerMismatchError: Another owner has it.
            InvalidInputError: The title or the metadata is too long, or the metadata are not JSON; nothing was created.
        """
        owner, named = self._scope.resolve(owner), thread_id_from(thread_id)
        title, metadata = checked_title(title), checked_metadata(metadata)
        view = self._saver.scoped(owner) if self._scope.locked else self._saver
        if await self._find(owner, named, scoped=view.is_scoped) is not None:
            msg = "A thread with this id already exists: choose another id."
            raise ConflictError(msg, thread_id=named)
        await view.run(view.maintenance.bind(named, owner))
        listed = await self._edit(owner, named, scoped=view.is_scoped, title=title, metadata=metadata)
        return Thread(named) if listed is None else _thread(listed, Thread(named).stats)

    async def update(
        self,
        thread_id: str,
        *,
        title: str | None = None,
        pinned: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
        owner: str | Owner | None = None,
    ) -> ThreadSummary:
        """Change the title of a thread, pin it, or add to its metadata; ``None`` leaves each as it is.

        Raises:
            ThreadNotFoundError: The owner has no thread of this id.
            InvalidInputError: The title has more than 200 characters, or the metadata are not JSON, or have more than
                8,000 characters together with those that are there.
        """
        owner, named = self._scope.resolve(owner), thread_id_from(thread_id)
        view = await self._view(named, owner)
        title = None if title is None else checked_title(title)
        scoped = view.is_scoped
        listed = await self._edit(owner, named, scoped=scoped, title=title, pinned=pinned, metadata=metadata)
        if listed is None:
            raise _not_found(named)
        return _summary(listed)

    async def note_turn(
        self,
        thread_id: str,
        *,
        question: str,
        status: ThreadStatus = "idle",
        memory: bool = True,
        owner: str | Owner | None = None,
    ) -> None:
        """Note the end of a turn in the list; the middleware does it for a recorded turn that has its reply.

        Args:
            thread_id: The thread; nothing is noted of one that is not listed.
            question: What the user said; the first question of a thread gives it its title.
            status: How the turn ended.
            memory: Whether the turn uses memory. It is noted of an interrupted turn, so that whatever resumes the
                turn goes on in the same way.
            owner: The owner.

        Raises:
            InvalidInputError: *status* is unknown.
        """
        check_string(question, "question")
        if status not in get_args(ThreadStatus):
            msg = f"status must be one of {', '.join(get_args(ThreadStatus))}, got {str(status)[:40]!r}."
            raise InvalidInputError(msg)
        owner, named = self._scope.resolve(owner), thread_id_from(thread_id)
        view = self._saver.scoped(owner) if self._scope.locked else await self._view(named, owner)

        async def note(services: Services) -> None:
            directory = services.thread_directory
            note = directory.turn_note(
                owner,
                named,
                scoped=view.is_scoped,
                question=lambda: services.redact(question),
                status=status,
                memory=memory,
            )
            await directory.note_turn(note)

        await self._app.call(note)

    async def _find(self, owner: Owner, thread_id: ThreadId, *, scoped: bool) -> ListedThread | None:
        return await self._app.call(lambda services: services.thread_directory.find(owner, thread_id, scoped=scoped))

    async def _edit(self, owner: Owner, thread_id: ThreadId, *, scoped: bool, **changes: Any) -> ListedThread | None:
        return await self._app.call(
            lambda services: services.thread_directory.edit(owner, thread_id, scoped=scoped, **changes)
        )

    async def require(self, thread_id: str, *, owner: str | Owner | None = None) -> Thread:
        """Return a thread.

        Raises:
            ThreadNotFoundError: The owner has none of this id.
        """
        found = await self.get(thread_id, owner=owner)
        if found is None:
            raise _not_found(thread_id)
        return found

    async def messages(
        self, thread_id: str, *, checkpoint_id: str | None = None, owner: str | Owner | None = None
    ) -> list[Message]:
        """Return the messages of a thread, oldest first.

        Args:
            thread_id: The thread.
            checkpoint_id: Up to which checkpoint; ``None``: the newest.
            owner: The owner.

        Raises:
            ThreadNotFoundError: The owner has no thread of this id.
            InvalidInputError: There is no such checkpoint.
        """
        owner, named = self._scope.resolve(owner), thread_id_from(thread_id)
        await self.require(named, owner=owner)
        where = {"thread_id": named} | ({} if checkpoint_id is None else {"checkpoint_id": checkpoint_id})
        found = await (await self._view(named, owner)).aget_tuple({"configurable": where})
        if found is None and checkpoint_id is not None:
            msg = f"Thread {thread_id!r} has no checkpoint {checkpoint_id!r}."
            raise InvalidInputError(msg)
        kept: object = found.checkpoint["channel_values"].get("messages") if found else None
        return plain_messages(cast("Sequence[Any]", kept)) if isinstance(kept, list | tuple) else []

    async def turns(
        self,
        thread_id: str,
        *,
        message_ids: Sequence[str] | None = None,
        checkpoint_id: str | None = None,
        owner: str | Owner | None = None,
    ) -> list[TurnMemory]:
        """Return what memory had to do with the turns of a thread that are recorded, oldest first.

        Args:
            thread_id: The thread.
            message_ids: Only turns with these messages of the user; ``None``: all.
            checkpoint_id: As in :meth:`messages`.
            owner: The owner.

        Raises:
            ThreadNotFoundError: The owner has no thread of this id.
            InvalidInputError: There is no such checkpoint.
        """
        owner = self._scope.resolve(owner)
        asked = [
            MessageId(message.message_id)
            for message in await self.messages(thread_id, checkpoint_id=checkpoint_id, owner=owner)
            if message.role in INPUT_ROLES and message.message_id
            if message_ids is None or message.message_id in message_ids
        ]
        records = await self._app.call(lambda services: services.captures.on_record.of_messages(asked, owner=owner))
        return [TurnMemory.from_record(message_id, record) for message_id, record in records.items()]

    async def ids(self, owner: str | Owner | None = None) -> Sequence[str]:
        """Return the ids of all threads of the owner, newest first."""
        return await self._ids(self._scope.resolve(owner))

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
        latest = checked_count(latest, "latest", least=1)
        if since is not None:
            check_moment(since, "since")
        owner = self._scope.resolve(owner)
        keep = KeptCheckpoints(latest, since, waiting)
        done: list[Pruned] = []
        for thread_id in await self._selected(thread_ids, owner, older_than):
            view = await self._view(thread_id, owner)
            try:
                done.append(Pruned(thread_id, await view.run(view.maintenance.thin(thread_id, keep, wait=False))))
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
        if thread_ids is None and older_than is None:
            msg = (
                "Name the threads to delete as a list of ids, or say older_than; all at once goes by erasing the owner."
            )
            raise InvalidInputError(msg)
        owner = self._scope.resolve(owner)
        chosen = await self._selected(thread_ids, owner, older_than)
        await self._saver.run(self._saver.maintenance.delete_of_owner(chosen, owner))
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

    async def import_from(
        self,
        source: BaseCheckpointSaver[Any] | str,
        thread_ids: Sequence[str] | None = None,
        *,
        owner: str | Owner | None = None,
        owners: Mapping[str, str | Owner | None] | None = None,
        owner_key: str | None = None,
    ) -> AsyncGenerator[ImportedThread]:
        """Copy threads from another saver, verified; what was copied already is skipped. Yield each.

        A thread is bound to its owner before anything of it is copied. A thread without an owner is left where it is:
        the first user who continued it could read another person's messages. Metadata is believed only with
        *owner_key*: in some applications a client writes it.

        Args:
            source: A LangGraph saver, or the URL of one: ``sqlite:///file``, ``postgresql://…``, ``redis://…``,
                ``mongodb://…``.
            thread_ids: Which threads; ``None``: all.
            owner: The owner of every thread.
            owners: The owner of each thread, by its id; ``None`` leaves a thread where it is.
            owner_key: The key of the checkpoints' metadata that names the owner of the other threads, ``user_id`` for
                example.

        Raises:
            InvalidInputError: Nothing says which owners, or *owners* names a thread that is not there.
        """
        claims = self._claims(owner, owners, owner_key)
        async with open_saver(source) as saver:
            for thread_id in await choose_threads(saver, thread_ids, claims):
                named = await self._claim(saver, thread_id, claims)
                if isinstance(named, ImportedThread):
                    yield named
                    continue
                copied = await copy_thread(saver, self._saver, thread_id)
                await self._entitle(thread_id, named)
                await self._date(ThreadId(thread_id), named)
                yield ImportedThread(thread_id, copied.checkpoints, copied.state, named)

    async def _entitle(self, thread_id: str, owner: Owner) -> None:
        """Give a copied thread without a title the first words of its user, and list it as waiting if it waits."""
        thread, said = await self.require(thread_id, owner=owner), ""
        status: ThreadStatus = "interrupted" if thread.stats.waits else thread.status
        if thread.title and status == thread.status:
            return
        if not thread.title:
            with suppress(InvalidInputError):  # a graph may keep other things under the name
                messages = await self.messages(thread_id, owner=owner)
                said = next((message.text for message in messages if message.role == "user"), "")
        if status != thread.status:
            view = await self._view(ThreadId(thread_id), owner)
            await view.run(view.maintenance.set_status(thread_id, status))
        await self.note_turn(thread_id, question=said, status=status, owner=owner)

    async def _date(self, thread_id: ThreadId, owner: Owner) -> None:
        """List a copied thread at the time of its newest checkpoint, which is its last turn's."""
        view = await self._view(thread_id, owner)
        found = await view.aget_tuple({"configurable": {"thread_id": thread_id}})
        if found is not None and (at := moment_of(found.checkpoint["ts"])) is not None:
            await self._edit(owner, thread_id, scoped=view.is_scoped, last_turn_at=min(at, self._app.clock.now()))

    async def export_to(
        self,
        target: BaseCheckpointSaver[Any] | str,
        thread_ids: Sequence[str] | None = None,
        *,
        owner: str | Owner | None = None,
    ) -> AsyncGenerator[CopiedThread]:
        """Copy threads of the owner to another saver, verified; what was copied already is skipped. Yield each.

        Args:
            target: As *source* of :meth:`import_from`.
            thread_ids: Which threads; ``None``: all of the owner.
            owner: The owner.
        """
        owner = self._scope.resolve(owner)
        async with open_saver(target, creates=True) as saver:
            for thread_id in await self._selected(thread_ids, owner, None):
                yield await copy_thread(await self._view(thread_id, owner), saver, thread_id)

    async def adopt(
        self,
        thread_ids: Sequence[str] | None = None,
        *,
        owners: Mapping[str, str | Owner | None] | None = None,
        owner_key: str | None = None,
        source: BaseCheckpointSaver[Any] | str | None = None,
    ) -> list[ImportedThread]:
        """Bind threads without an owner to one; return those that were bound, and those that were left.

        Args:
            thread_ids: Which threads; ``None``: all that *owners* names, or with *owner_key* all.
            owners: As in :meth:`import_from`.
            owner_key: As in :meth:`import_from`.
            source: LangGraph's saver, or its URL, if the application keeps its threads there; ``None``: ours.

        Raises:
            InvalidInputError: Neither is given, or *owners* names a thread that is not there; nothing was changed.
        """
        if owners is None and owner_key is None:
            msg = "Give owners, the owner of each thread, or owner_key, the key of the metadata that names them."
            raise InvalidInputError(msg)
        claims = self._claims(None, owners, owner_key)
        done: list[ImportedThread] = []
        async with open_saver(self._saver if source is None else source) as saver:
            for thread_id in await choose_threads(saver, thread_ids, claims):
                if owner_key is None and thread_id not in claims.owners:
                    continue
                before = await self._saver.run(self._saver.maintenance.owner_of(thread_id))
                named = await self._claim(saver, thread_id, claims)
                if isinstance(named, ImportedThread):
                    done += [named] if before is None or thread_id in claims.owners else []
                elif before is None:
                    done.append(ImportedThread(thread_id, 0, "adopted", named))
        return done

    def _claims(
        self,
        owner: str | Owner | None,
        owners: Mapping[str, str | Owner | None] | None,
        owner_key: str | None,
    ) -> ThreadClaims:
        if owners is None and owner_key is None:
            if owner is None and self._scope.default is None:
                msg = "Say to whom the threads belong: give owner, or owners by thread, or owner_key of the metadata."
                raise InvalidInputError(msg)
            return ThreadClaims(self._scope.resolve(owner))
        if owner is not None:
            msg = "Give either owner, which is that of every thread, or owners and owner_key."
            raise InvalidInputError(msg)
        named = {one: None if name is None else self._scope.resolve(name) for one, name in (owners or {}).items()}
        return ThreadClaims(None, named, owner_key)

    async def _claim(
        self, saver: BaseCheckpointSaver[Any], thread_id: str, claims: ThreadClaims
    ) -> Owner | ImportedThread:
        """Bind a thread to the owner that *claims* name; return the owner, or the thread that is left."""
        try:
            named = self._scope.resolve(await claims.find(saver, thread_id))
            await self._saver.run(self._saver.maintenance.bind(thread_id, named))
        except (InvalidInputError, OwnerMismatchError) as error:
            return ImportedThread(thread_id, 0, "left", None, str(error))
        return named

    async def _copy(self, thread_id: str, to: str, owner: str | Owner | None, until: str | None) -> Thread:
        owner, named, other = self._scope.resolve(owner), thread_id_from(thread_id), thread_id_from(to)
        source, view = await self.require(named, owner=owner), await self._view(named, owner)
        await view.run(view.maintenance.bind(other, owner))
        await view.run(view.maintenance.copy(named, other, until=until))
        if not (copied := await self.require(other, owner=owner)).title:
            await self._edit(owner, other, scoped=view.is_scoped, title=source.title)
            copied = await self.require(other, owner=owner)
        return copied

    async def _selected(
        self, thread_ids: Sequence[str] | None, owner: Owner, older_than: timedelta | None
    ) -> list[ThreadId]:
        if older_than is not None:
            check_age(older_than)
        if thread_ids is not None:
            thread_ids = checked_list(thread_ids, "thread_ids", str)
        ids = await self._ids(owner) if thread_ids is None else [thread_id_from(one) for one in thread_ids]
        chosen: list[ThreadId] = []
        for thread_id in ids:
            if thread_ids is None:
                thread = await self.get(thread_id, owner=owner)
            else:
                thread = await self.require(thread_id, owner=owner)
            if thread is not None and self._rested(thread.stats.updated_at, older_than):
                chosen.append(thread_id)
        return chosen

    async def _ids(self, owner: Owner) -> Sequence[ThreadId]:
        return await self._app.call(lambda services: services.thread_directory.ids_of(owner))

    def _rested(self, at: datetime | None, older_than: timedelta | None) -> bool:
        return older_than is None or (at is not None and self._app.clock.now() - at >= older_than)

    async def _view(self, thread_id: ThreadId, owner: Owner) -> ThreadkeepCheckpointer:
        """Return the view that sees the owner's thread of this id: bound to them, or out of others' reach anyway."""
        saver = self._saver
        if self._scope.locked and await self._find(owner, thread_id, scoped=True) is not None:
            return saver.scoped(owner)
        bound = await saver.run(saver.maintenance.owner_of(thread_id))
        return saver if bound == owner.label else saver.scoped(owner)

    @property
    def _saver(self) -> ThreadkeepCheckpointer:
        if self._app.threads.checkpointer is None:
            msg = (
                "A LangGraph server keeps its own threads, so tk.threads is not available there: use the server's API."
            )
            raise InvalidInputError(msg)
        return self._app.threads.checkpointer


def _summary(listed: ListedThread) -> ThreadSummary:
    return ThreadSummary(**{one.name: getattr(listed, one.name) for one in fields(ThreadSummary)})


def _thread(listed: ListedThread, stats: ThreadStats) -> Thread:
    return Thread(**{one.name: getattr(listed, one.name) for one in fields(ThreadSummary)}, stats=stats)


def _not_found(thread_id: str) -> ThreadNotFoundError:
    msg = "The thread was not found among the owner's threads; list the threads."
    return ThreadNotFoundError(msg, thread_id=thread_id)
