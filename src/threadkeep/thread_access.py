"""The threads of one memory: their storage, their checkpointer and their owners."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from threadkeep.errors import SettingsError
from threadkeep.ids import digest
from threadkeep.registry import create_encrypted, create_storage, resolve_settings
from threadkeep.storage.encryption import refuse_encrypted

if TYPE_CHECKING:
    from datetime import timedelta

    from threadkeep.checkpoints.directory import ThreadOwners
    from threadkeep.checkpoints.saver import MoveIn, ThreadkeepCheckpointer
    from threadkeep.clock import Clock
    from threadkeep.container import Container
    from threadkeep.identity import Owner
    from threadkeep.settings import Settings
    from threadkeep.storage.encryption.storage import EncryptedStorage
    from threadkeep.storage.interface import Storage


_SHORTEST_THREAD_KEY: Final = 32
_THREAD_KEYS: Final = "THREADKEEP_CHECKPOINT_KEY"
_LOCATIONS: Final = {"postgres": "postgres_dsn", "redis": "redis_url", "mongodb": "mongodb_uri"}


class ThreadAccess:
    """Creates what the threads of *app* are read and written with, each at its first use. Creating it does no I/O."""

    def __init__(self, app: Container) -> None:
        self._app = app

    @cached_property
    def timeout(self) -> timedelta:
        """How long a call of the storage that keeps the threads may take."""
        return self._app.settings.checkpoint_timeout

    @cached_property
    def checkpointer(self) -> ThreadkeepCheckpointer | None:
        """The checkpointer; ``None`` under a LangGraph server, which brings its own."""
        if self._app.settings.under_langgraph_server:
            return None
        from threadkeep.checkpoints.lease_waits import LeaseTerms
        from threadkeep.checkpoints.saver import ThreadkeepCheckpointer

        settings = self._app.settings
        saver = ThreadkeepCheckpointer(
            self.storage,
            loop=self._app.event_loop,
            clock=self._app.clock,
            timeout=self.timeout,
            connect=self._connect_storage,
            allowed_types=self._app.allowed_types,
            terms=LeaseTerms(settings.multitask_strategy, settings.lease_time, settings.queue_time),
            move_in=self._move_in,
            ttl=settings.checkpoint_ttl,
            telemetry=self._app.telemetry,
        )
        self._app.closers.append(saver.aclose)
        return saver

    @property
    def _move_in(self) -> MoveIn | None:
        if self._app.threads_from is None:
            return None
        from threadkeep.transfer.threads import ThreadSource

        return ThreadSource(self._app.threads_from, owner_key=self._app.owner_key).move_in

    async def _connect_storage(self) -> None:
        """Connect the storage of the threads, and move in those of an earlier version."""
        from threadkeep.transfer.earlier_threads import find_earlier, move_in

        earlier = await asyncio.to_thread(find_earlier, self._app.settings)
        if self.storage is self._app.storage:
            await self._app.connect()
        else:
            await self.storage.connect()
        if earlier is None or self.checkpointer is None:
            return
        keys = self._app.settings.checkpoint_key
        await self._app.storage.connect()
        moving = self.checkpointer.connected()
        text = keys.get_secret_value() if keys else None
        await move_in(earlier, moving, self._app.storage, keys=text, key_prefix=self._app.settings.store_key_prefix)

    @cached_property
    def owners(self) -> ThreadOwners:
        """The owners of threads; their checkpoints may be kept by another saver."""
        if self.checkpointer is not None:
            return self.checkpointer.owners
        from threadkeep.checkpoints.directory import ThreadOwners
        from threadkeep.checkpoints.thread_store import Threads

        threads = Threads(self._app.storage, self._app.clock, timeout=self.timeout)
        return ThreadOwners(threads, self._app.services.thread_directory)

    async def bind(self, thread_id: str, owner: Owner, epoch: str | None) -> None:
        """Bind a thread of another saver to *owner*. Runs in the event loop.

        Raises:
            OwnerMismatchError: It belongs to another owner.
            PartitionErasedError: The owner was erased since *epoch*.
        """
        owners = await self.connect()
        await owners.bind(thread_id, owner, epoch=epoch if self.storage is self._app.storage else None)

    async def connect(self) -> ThreadOwners:
        """Return the owners of threads, connected. Runs in the event loop."""
        await self._app.connect()
        if self.storage is not self._app.storage:
            await self.storage.connect()
        return self.owners

    @cached_property
    def storage(self) -> Storage:
        """The storage of the threads: the memories', unless the settings name another one."""
        if self._app.settings.under_langgraph_server:
            return self._app.storage
        storage = create_thread_storage(self._app.settings, self._app.storage, self._app.clock)
        if storage is not self._app.storage:
            self._app.closers.insert(0, storage.close)
        return storage

    async def encrypted(self) -> EncryptedStorage | None:
        """Return the storage of the threads, connected, if it is encrypted and not that of the memories; else None.

        It is not created. Runs in the event loop.
        """
        if not (self._app.settings.sealed or self._app.settings.checkpoint_key):
            return None
        from threadkeep.storage.encryption.storage import EncryptedStorage

        path, storage = self._app.settings.thread_path, self.storage
        if storage is self._app.storage or not isinstance(storage, EncryptedStorage) or (path and not path.exists()):
            return None
        await storage.connect()
        return storage

    async def messages(self, owner: Owner, thread_id: str, *, scoped: bool) -> AsyncIterator[dict[str, Any]]:
        """Yield the messages of a thread as *owner* has it, oldest first."""
        if self.checkpointer is None:
            return
        from threadkeep.models.langchain import plain_messages

        view = self.checkpointer.scoped(owner) if scoped else self.checkpointer
        if not scoped and await view.run(view.maintenance.owner_of(thread_id)) != owner.label:
            return
        found = await view.aget_tuple({"configurable": {"thread_id": thread_id}})
        held: Any = None if found is None else found.checkpoint["channel_values"].get("messages")
        for message in plain_messages(held or ()):
            yield {
                "thread_id": thread_id,
                "message_id": message.message_id,
                "role": message.role,
                "text": message.text,
            }

    async def erase(self, owner: Owner) -> Sequence[str]:
        """Erase the threads of *owner*, also those from before threads had a storage of their own."""
        if self.checkpointer is None:
            return ()
        erased = [*await self.checkpointer.run(self.checkpointer.maintenance.erase_owner(owner))]
        from threadkeep.checkpoints.directory import ThreadDirectory
        from threadkeep.checkpoints.maintenance import erase_threads
        from threadkeep.checkpoints.thread_store import Threads

        async with self.earlier_storages() as storages:
            for storage in storages:
                threads = Threads(storage, self._app.clock, timeout=self.timeout)
                erased += await erase_threads(threads, ThreadDirectory(storage, self._app.clock), owner)
                if storage is not self._app.storage:  # which is erased as a whole afterwards
                    await storage.erase(owner.partition)
                    await storage.scrub(rewrite=True)
        return tuple(dict.fromkeys(erased))

    async def unfinished_erasures(self) -> Sequence[Owner]:
        """Return the owners who were being erased when their process ended. Runs in the event loop."""
        from threadkeep.checkpoints.directory import ThreadDirectory

        owners = dict.fromkeys(await self._app.services.thread_directory.unfinished())
        if self.storage is not self._app.storage:  # the mark is in both until each is erased
            owners |= dict.fromkeys(await ThreadDirectory(self._app.storage, self._app.clock).unfinished())
        return tuple(owners)

    @asynccontextmanager
    async def earlier_storages(self) -> AsyncGenerator[list[Storage]]:
        """Give the storages, connected, where threads were before they had a key or a place of their own.

        Runs in the event loop.
        """
        if self.storage is self._app.storage:
            yield []
            return
        await self._app.storage.connect()
        keyless = self._app.settings.model_copy(update={"checkpoint_key": None})
        plain = create_thread_storage(keyless, self._app.storage, self._app.clock)
        if self._app.settings.checkpoint_key is None or plain is self._app.storage:
            yield [self._app.storage]
            return
        await plain.connect()
        try:
            yield [self._app.storage, plain]
        finally:
            await plain.close()

    @asynccontextmanager
    async def storage_at(self, url: str) -> AsyncGenerator[Storage]:
        """Give the storage of threads at *url*, connected, under the key of the settings. Runs in the event loop.

        Raises:
            SettingsError: *url* names no storage.
            SealError: It has another key, or one although the settings name none.
        """
        resolved = resolve_settings(url, self._app.settings)
        kind = resolved.store_type or "sqlite"
        place = "sqlite_path" if kind == "sqlite" else _LOCATIONS.get(kind)
        update: dict[str, object] = {"checkpoint_type": kind}
        if place is not None:
            update[f"checkpoint_{place}"] = getattr(resolved, f"store_{place}")
        settings = self._app.settings.model_copy(update=update)
        storage = create_thread_storage(settings, self._app.storage, self._app.clock)
        try:
            await storage.connect()
            await refuse_encrypted(storage)
            yield storage
        finally:
            if storage is not self._app.storage:
                await storage.close()


def create_thread_storage(settings: Settings, storage: Storage, clock: Clock) -> Storage:
    """Return the storage of the threads: *storage*, unless the settings name another place or key for them. No I/O.

    Raises:
        SettingsError: A setting or a package is missing.
    """
    own = thread_storage_settings(settings)
    if own is None:
        return storage
    if own.checkpoint_key is not None:
        return create_encrypted(own, clock, _thread_keys(own), _THREAD_KEYS)
    return create_storage(own, clock)


def thread_storage_settings(settings: Settings) -> Settings | None:
    """Return *settings* with the storage of the threads in place of the memories'; ``None``: both are the same.

    Raises:
        SettingsError: A setting is missing.
    """
    kind, memories = settings.checkpoint_type or settings.store_type or "sqlite", settings.store_type or "sqlite"
    own, theirs = _thread_location(settings, kind), _memory_location(settings, memories)
    encrypted = settings.checkpoint_key is not None
    if kind == memories and own == theirs and not encrypted:
        return None
    place = "sqlite_path" if kind == "sqlite" else _LOCATIONS.get(kind)
    update: dict[str, object] = {"store_type": kind, **({f"store_{place}": own} if place else {})}
    if encrypted or settings.sealed:  # of its own, also where the place is that of the memories
        update["store_key_prefix"] = f"{settings.store_key_prefix}~threads"
    if kind not in ("memory", "sqlite") and own is None:
        variable = settings.variable_of(f"checkpoint_{_LOCATIONS[kind]}")
        msg = f"LANGGRAPH_CHECKPOINT_TYPE is {kind}, which needs {variable}; set it to where the server is."
        raise SettingsError(msg, variable=variable)
    return settings.model_copy(update=update)


def storage_place(settings: Settings) -> tuple[object, ...]:
    """Return where the storage of *settings* is: its kind, its path or URL, and its key prefix."""
    kind = settings.store_type or "sqlite"
    return kind, _memory_location(settings, kind), settings.store_key_prefix


def _thread_location(settings: Settings, kind: str) -> object:
    """Return where the threads are: a path or a URL; ``None``: unknown, or in RAM."""
    if kind == "sqlite":
        return settings.thread_path
    name = _LOCATIONS.get(kind)
    return getattr(settings, f"checkpoint_{name}") or getattr(settings, f"store_{name}") if name else None


def _memory_location(settings: Settings, kind: str) -> object:
    if kind == "sqlite":
        return settings.sqlite_path
    name = _LOCATIONS.get(kind)
    return getattr(settings, f"store_{name}") if name else None


def _thread_keys(settings: Settings) -> str:
    """Return master keys derived from the texts of THREADKEEP_CHECKPOINT_KEY.

    Raises:
        SettingsError: A text is too short.
    """
    texts = settings.checkpoint_key.get_secret_value().replace(",", " ").split() if settings.checkpoint_key else []
    if not texts or any(len(text) < _SHORTEST_THREAD_KEY for text in texts):
        msg = (
            f"{_THREAD_KEYS} needs keys of {_SHORTEST_THREAD_KEY} or more characters, separated by commas; "
            "make one with: openssl rand -base64 32"
        )
        raise SettingsError(msg, variable=_THREAD_KEYS)
    return ",".join(base64.b64encode(digest("thread key", text)).decode() for text in texts)
