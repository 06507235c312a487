"""LangGraph's checkpoint savers as we wrap them: lazy, at home on every loop, strict, and each thread one owner's."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.memory import InMemorySaver

from threadkeep.errors import SettingsError
from threadkeep.home import Home
from threadkeep.ids import ThreadId
from threadkeep.owners.claims import claimed_owner
from threadkeep.owners.owner import Owner
from threadkeep.threads.binding import Binder
from threadkeep.threads.names import given_id, is_scoped, scoped_name, stored_name, thread_id_from
from threadkeep.threads.savers import AllowedType, Saver, SharedSaver, StrictSerializer, let_graphs_list_their_types

Kind: TypeAlias = Literal["memory", "sqlite"]

_PAGE: Final = 20
_OWNER_KEY: Final = "threadkeep_owner"
_THREAD_KEY: Final = "threadkeep_thread"

# All of LangGraph's savers number channel versions in the same way; this one does it for ours, so
# that asking for a number never waits for the real one to open.
_versions: Final = InMemorySaver()


@dataclass
class _Listing:
    """How far a list of checkpoints has come.

    The ids of one thread and namespace are unique and in order, so the last one continues a page.
    What spans namespaces or threads is fetched in one: there LangGraph promises neither.
    """

    config: RunnableConfig | None
    filter: dict[str, Any] | None
    before: RunnableConfig | None
    left: int | None

    @property
    def paged(self) -> bool:
        return self.config is not None and _configurable(self.config).get("checkpoint_ns") is not None

    @property
    def size(self) -> int | None:
        if not self.paged:
            return self.left
        return _PAGE if self.left is None else min(_PAGE, self.left)

    def went_on(self, found: Sequence[CheckpointTuple]) -> None:
        if not self.paged or len(found) < _PAGE:
            self.left = 0
            return
        self.before = {"configurable": {"checkpoint_id": _configurable(found[-1].config)["checkpoint_id"]}}
        self.left = None if self.left is None else self.left - len(found)


class ThreadkeepCheckpointer(BaseCheckpointSaver[str]):
    """A checkpointer that works sync and async, on any loop and inside a running one, and opens at its first use.

    Thread ids are kept as given: any text of 1–1,000 characters. Where the run says whose turn it
    is (its context, ``user_id``, ``langgraph_user_id``, or a LangGraph server's user), the first
    write binds the thread to that owner, and everybody else is refused before a row is read or written.

    Listing without a thread lists what this view sees: unscoped all but the scoped threads, scoped
    those of its owner.

    Args:
        kind: ``memory``, or ``sqlite`` for a file.
        home: The loop that the real saver lives on.
        path: The file of ``sqlite``.
        binder: Who knows whose thread it is; ``None``: nobody is asked.
        whose: Says whose run a configuration is of, ``None`` for nobody's; by default
            :func:`~threadkeep.owners.claims.claimed_owner`.
        allowed_types: See :class:`StrictSerializer`; what :meth:`with_allowlist` adds.

    Attributes:
        owner: Whose threads this view is for; ``None``: everybody's.
    """

    def __init__(
        self,
        kind: Kind,
        *,
        home: Home,
        path: Path | None = None,
        binder: Binder | None = None,
        whose: Callable[[RunnableConfig], Owner | None] | None = None,
        allowed_types: Collection[AllowedType] = (),
    ) -> None:
        super().__init__(serde=StrictSerializer(allowed_types))
        if (kind == "sqlite") != (path is not None):
            msg = "Checkpoints in SQLite need a path, and checkpoints in memory have none."
            raise SettingsError(msg)
        let_graphs_list_their_types()
        self._home = home
        self._shared = SharedSaver(path)
        self._binder = binder
        self._whose = whose or _claimed_owner
        self.owner: Owner | None = None

    def scoped(self, owner: Owner) -> ThreadkeepCheckpointer:
        """Return a view of *owner*'s threads only, over the same checkpoints.

        A thread is stored under a digest of owner and id, so this view cannot name another's thread,
        and nobody else can name its. What it returns carries the ids as given.
        """
        view = copy.copy(self)
        view.owner = owner
        return view

    def with_allowlist(self, extra_allowlist: Collection[type | tuple[str, ...]]) -> ThreadkeepCheckpointer:
        """Return a view that also reads objects of these classes, each given as itself or as ``(module, name)``.

        Compiling a graph does this for the types of its state. LangGraph does not see an agent's
        ``response_format`` there, so name it: ``tk.checkpointer.with_allowlist([Answer])``.
        """
        return cast(
            "ThreadkeepCheckpointer", super().with_allowlist(cast("Collection[tuple[str, ...]]", extra_allowlist))
        )

    def identified(self, whose: Callable[[RunnableConfig], Owner | None]) -> ThreadkeepCheckpointer:
        """Return a view of the same checkpoints that asks *whose* run a configuration is of."""
        view = copy.copy(self)
        view._whose = whose  # noqa: SLF001 - a copy of this very object
        return view

    async def connect(self) -> None:
        """Open what is needed now, instead of at the first use."""

        async def opened() -> None:
            async with self._shared.using(self.serde):
                pass

        await self._home.run(opened())

    async def aclose(self) -> None:
        """Finish what is under way and close; all views are closed with it. The second call does nothing."""
        self._shared.closed = True
        if self._home.running:
            await self._home.run(self._shared.close())

    def close(self) -> None:
        """Do what :meth:`aclose` does, blocking."""
        self._shared.closed = True
        if self._home.running:
            self._home.run_sync(self._shared.close())

    async def adelete_of_owner(self, thread_id: str, *, owner: Owner) -> None:
        """Delete the thread as *owner* has it: scoped, and unscoped where it is bound to them."""
        await self._home.run(self._delete_of_owner(thread_id_from(thread_id), owner))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that *config* names, or the thread's newest."""
        return self._home.run_sync(self._get_tuple(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that *config* names, or the thread's newest."""
        return await self._home.run(self._get_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first; nothing is held open between them, so a caller may write or stop."""
        listing = _Listing(config, filter, before, limit)
        while page := self._home.run_sync(self._next_page(listing)):
            yield from page

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first; nothing is held open between them, so a caller may write or stop."""
        listing = _Listing(config, filter, before, limit)
        while page := await self._home.run(self._next_page(listing)):
            for found in page:
                yield found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep *checkpoint*; when this returns, it is durable."""
        return self._home.run_sync(self._put(config, checkpoint, metadata, new_versions))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep *checkpoint*; when this returns, it is durable."""
        return await self._home.run(self._put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote after the checkpoint of *config*: all of it or nothing."""
        self._home.run_sync(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote after the checkpoint of *config*: all of it or nothing."""
        await self._home.run(self._put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything of the thread, and whose it was."""
        self._home.run_sync(self._delete_thread(thread_id_from(thread_id)))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of the thread, and whose it was."""
        await self._home.run(self._delete_thread(thread_id_from(thread_id)))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what was written to each of *channels* since its last snapshot."""
        return self._home.run_sync(self._delta_history(config, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what was written to each of *channels* since its last snapshot."""
        return await self._home.run(self._delta_history(config, channels))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return the version after *current*."""
        return _versions.get_next_version(current, channel)

    async def _get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        async with self._shared.using(self.serde) as saver:
            thread_id, inner = await self._admitted(config, writing=False)
            found = await self._shared.run(partial(saver.get_tuple, inner))
            return self._outward(found, thread_id) if found else None

    async def _next_page(self, listing: _Listing) -> Sequence[CheckpointTuple]:
        if listing.left is not None and listing.left <= 0:
            return ()
        async with self._shared.using(self.serde) as saver:
            thread_id, inner, wanted = None, None, listing.filter
            if listing.config is not None:
                thread_id, inner = await self._admitted(listing.config, writing=False)
            elif self.owner is not None:
                wanted = {**(wanted or {}), **self._notes_of_owner()}
            work = partial(_fetch, saver, inner, wanted, listing.before, listing.size, self.owner)
            found = await self._shared.run(work)
        listing.went_on(found)
        return [self._outward(one, thread_id) for one in found]

    async def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        async with self._shared.using(self.serde) as saver:
            thread_id, inner = await self._admitted(config, writing=True)
            noted = {**metadata, **self._notes(thread_id)}
            work = partial(saver.put, inner, checkpoint, cast("CheckpointMetadata", noted), new_versions)
            return _with_thread(await self._shared.run(work), thread_id)

    async def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        async with self._shared.using(self.serde) as saver:
            _, inner = await self._admitted(config, writing=True)
            await self._shared.run(partial(saver.put_writes, inner, writes, task_id, task_path))

    async def _delete_thread(self, thread_id: ThreadId) -> None:
        async with self._shared.using(self.serde) as saver:
            await self._shared.run(partial(saver.delete_thread, self._name(thread_id)))
            if self._binder and self.owner:
                await self._binder.leave(thread_id, self.owner)
            elif self._binder:
                await self._binder.unbind(thread_id)

    async def _delete_of_owner(self, thread_id: ThreadId, owner: Owner) -> None:
        await self.scoped(owner).adelete_thread(thread_id)
        if self._binder and await self._binder.owner_of(thread_id) == owner:
            await self._delete_thread(thread_id)

    async def _delta_history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        async with self._shared.using(self.serde) as saver:
            _, inner = await self._admitted(config, writing=False)
            return await self._shared.run(partial(saver.get_delta_channel_history, config=inner, channels=channels))

    async def _admitted(self, config: RunnableConfig, *, writing: bool) -> tuple[ThreadId, RunnableConfig]:
        """Return the thread of *config*, and *config* for the real saver; a thread of somebody else is refused."""
        configurable = _configurable(config)
        thread_id = thread_id_from(configurable.get("thread_id"))
        if self._binder and self.owner:
            if writing:
                await self._binder.enter(thread_id, self.owner)
        elif self._binder and (owner := self._whose(config)):
            await (self._binder.bind if writing else self._binder.check)(thread_id, owner)
        inner = {"checkpoint_ns": "", **configurable} if writing else configurable
        return thread_id, _with_thread({**config, "configurable": inner}, self._name(thread_id))

    def _name(self, thread_id: ThreadId) -> str:
        return scoped_name(thread_id, self.owner) if self.owner else stored_name(thread_id)

    def _notes(self, thread_id: ThreadId) -> dict[str, str]:
        """Return what a scoped view keeps in a checkpoint's metadata, to list by and to tell the id again."""
        return {**self._notes_of_owner(), _THREAD_KEY: stored_name(thread_id)} if self.owner else {}

    def _notes_of_owner(self) -> dict[str, str]:
        return {_OWNER_KEY: self.owner.partition.digest.hex()} if self.owner else {}

    def _outward(self, found: CheckpointTuple, thread_id: ThreadId | None = None) -> CheckpointTuple:
        metadata = dict(found.metadata)
        noted = metadata.get(_THREAD_KEY) if self.owner else _configurable(found.config)["thread_id"]
        given = thread_id or given_id(str(noted))
        if self.owner:
            metadata = {key: value for key, value in metadata.items() if key not in (_OWNER_KEY, _THREAD_KEY)}
        return found._replace(
            config=_with_thread(found.config, given),
            metadata=cast("CheckpointMetadata", metadata),
            parent_config=_with_thread(found.parent_config, given) if found.parent_config else None,
        )


def create_checkpointer(
    kind: Kind | None,
    *,
    home: Home,
    path: Path | None = None,
    binder: Binder | None = None,
    whose: Callable[[RunnableConfig], Owner | None] | None = None,
    allowed_types: Collection[AllowedType] = (),
) -> ThreadkeepCheckpointer | None:
    """Return the checkpointer of *kind*, without I/O; ``None`` for ``None``: a platform brings its own.

    The arguments are those of :class:`ThreadkeepCheckpointer`; *path* counts for ``sqlite`` only.
    """
    if kind is None:
        return None
    path = path if kind == "sqlite" else None
    return ThreadkeepCheckpointer(kind, home=home, path=path, binder=binder, whose=whose, allowed_types=allowed_types)


def _fetch(
    saver: Saver,
    config: RunnableConfig | None,
    filter: dict[str, Any] | None,  # noqa: A002 - LangGraph's name
    before: RunnableConfig | None,
    limit: int | None,
    owner: Owner | None,
) -> list[CheckpointTuple]:
    everybodys = config is None and owner is None
    # Which names are scoped is told here, so there the limit is counted here, too.
    found = saver.list(config, filter=filter, before=before, limit=None if everybodys else limit)
    with closing(cast("Any", found)):  # it holds the saver's lock until it is closed
        if not everybodys:
            return list(found)
        seen = (one for one in found if not is_scoped(_configurable(one.config)["thread_id"]))
        return list(islice(seen, limit))


def _claimed_owner(config: RunnableConfig) -> Owner | None:
    return claimed_owner(_configurable(config))


def _configurable(config: RunnableConfig) -> dict[str, Any]:
    return config.get("configurable", {})


def _with_thread(config: RunnableConfig, thread_id: str) -> RunnableConfig:
    return {**config, "configurable": {**_configurable(config), "thread_id": thread_id}}
