"""Threads as an earlier version kept them, in LangGraph's savers with packed names and values: moved in once."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointMetadata, CheckpointTuple

from threadkeep.checkpoints.directory import ThreadDirectory
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.clock import SystemClock
from threadkeep.errors import DamagedItemError, SettingsError, StorageUnavailableError
from threadkeep.identity import Owner, owner_of_partition
from threadkeep.ids import digest
from threadkeep.observability import log
from threadkeep.settings import Settings
from threadkeep.storage.interface import Partition, Storage, iterate_partitions
from threadkeep.transfer.threads import RawSerializer, copy_thread, list_thread_ids, raw

MARK: Final = "~tk~"
_SCOPED: Final = f"{MARK}~"
_PACKED: Final = "~tk~packed~"
_ENCRYPTED: Final = "~tk~sealed~"
_REST: Final = "threadkeep_rest"
_OWNER: Final = "threadkeep_owner"
_THREAD: Final = "threadkeep_thread"
_ID_BYTES: Final = 4
_NONCE_BYTES: Final = 12
_VARIABLE: Final = "THREADKEEP_CHECKPOINT_KEY"
_WAIT_SECONDS: Final = 0.2
_WAITS: Final = 3_000
_STALE_SECONDS: Final = 3_600


class EarlierThreads(BaseCheckpointSaver[str]):
    """Reads the threads of an earlier version from the saver that kept them; it writes nothing.

    Args:
        saver: LangGraph's sync saver, over the earlier file or server.
        keys: The texts of THREADKEEP_CHECKPOINT_KEY; ``None``: nothing is encrypted.
        names: The stored name of each thread that does not spell its id.
    """

    def __init__(
        self, saver: BaseCheckpointSaver[Any], *, keys: str | None = None, names: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(serde=RawSerializer())
        self._saver = raw(saver)
        self._keys = [part.encode("utf-8", "surrogatepass") for part in (keys or "").replace(",", " ").split()]
        self._names = names or {}

    async def alist(self, *_: Any, **__: Any) -> AsyncIterator[CheckpointTuple]:
        """Leave listing to :meth:`list`."""
        raise NotImplementedError
        yield  # pragma: no cover  # pyright: ignore[reportUnreachable]

    def list(self, config: RunnableConfig | None, **more: Any) -> Iterator[CheckpointTuple]:
        """Yield the checkpoints of a thread, or of all unscoped threads."""
        if config is None:
            for found in self._saver.list(None, **more):
                if not str(found.config.get("configurable", {})["thread_id"]).startswith(_SCOPED):
                    yield self._read(found, None)
            return
        thread_id = str(config.get("configurable", {})["thread_id"])
        inner: RunnableConfig = {"configurable": {"thread_id": self._names.get(thread_id, _spelled(thread_id))}}
        for found in self._saver.list(inner, **more):
            yield self._read(found, thread_id)

    def _read(self, found: CheckpointTuple, thread_id: str | None) -> CheckpointTuple:
        configurable = found.config.get("configurable", {})
        name, namespace = str(configurable["thread_id"]), str(configurable.get("checkpoint_ns", ""))
        metadata = dict(found.metadata)
        if _REST in metadata:
            metadata |= self._value(metadata.pop(_REST), name, "metadata")
        metadata.pop(_OWNER, None)
        noted = metadata.pop(_THREAD, None)
        thread_id = thread_id or _unspelled(str(noted or name))
        values = {
            channel: self._value(value, name, f"{namespace}|{channel}")
            for channel, value in found.checkpoint["channel_values"].items()
        }
        return CheckpointTuple(
            _with_thread(found.config, thread_id),
            cast("Checkpoint", {**found.checkpoint, "channel_values": values}),
            cast("CheckpointMetadata", metadata),
            _with_thread(found.parent_config, thread_id) if found.parent_config else None,
            [
                (task_id, channel, self._value(value, name, f"{namespace}|{channel}"))
                for task_id, channel, value in found.pending_writes or ()
            ],
        )

    def _value(self, value: Any, thread: str, place: str) -> Any:
        """Return a value as it was before it was packed."""
        head = value[: len(_PACKED)] if isinstance(value, str | bytes) else ""
        mark = head.decode("ascii", "replace") if isinstance(head, bytes) else head
        if mark not in (_PACKED, _ENCRYPTED):
            return value
        body = value[len(_PACKED) :]
        try:
            framed = body if isinstance(body, bytes) else base64.b64decode(body, validate=True)
        except binascii.Error as error:
            msg = "An earlier checkpoint cannot be read: it is damaged; restore it from a backup."
            raise DamagedItemError(msg) from error
        if mark == _ENCRYPTED:
            framed = self._decrypt(framed, thread, place)
        kind, _, data = framed.partition(b"\0")
        return self.serde.loads_typed((kind.decode(errors="replace"), data))

    def _decrypt(self, data: bytes, thread: str, place: str) -> bytes:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce, rest = data[_ID_BYTES : _ID_BYTES + _NONCE_BYTES], data[_ID_BYTES + _NONCE_BYTES :]
        for secret in self._keys:
            if _derived(secret, _ID_BYTES, "id") == data[:_ID_BYTES]:
                try:
                    return AESGCM(_derived(secret, 32, f"thread {thread}")).decrypt(nonce, rest, place.encode())
                except InvalidTag as error:
                    msg = "An earlier checkpoint is damaged, or was moved; restore it from a backup."
                    raise DamagedItemError(msg) from error
        msg = f"An earlier checkpoint is encrypted; set {_VARIABLE} to the key that it was written with."
        raise SettingsError(msg, variable=_VARIABLE)


def scoped_name(owner: Owner, thread_id: str, key_prefix: str) -> str:
    """Return the stored name of a thread of a scoped view."""
    deployment = (key_prefix,) if key_prefix else ()
    return _SCOPED + digest("thread", *deployment, *owner.parts, thread_id).hex()


def _spelled(thread_id: str) -> str:
    if not thread_id.startswith(MARK) and not any(one == "\0" or "\ud800" <= one <= "\udfff" for one in thread_id):
        return thread_id
    escaped = (f"%{ord(one):06x}" if one in "\0%~" or "\ud800" <= one <= "\udfff" else one for one in thread_id)
    return MARK + "".join(escaped)


def _unspelled(name: str) -> str:
    if not name.startswith(MARK):
        return name
    first, *rest = name.removeprefix(MARK).split("%")
    return first + "".join(chr(min(int(part[:6], 16), 0x10FFFF)) + part[6:] for part in rest)


def _with_thread(config: RunnableConfig, thread_id: str) -> RunnableConfig:
    return {**config, "configurable": {**config.get("configurable", {}), "thread_id": thread_id}}


def _derived(secret: bytes, length: int, purpose: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = f"threadkeep checkpoints: {purpose}".encode()
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(secret)


def is_earlier(path: Path) -> bool:
    """Return whether *path* is an SQLite file of LangGraph's checkpoints.

    Raises:
        StorageUnavailableError: The file cannot be read, or is no database.
    """
    if not path.exists():
        return False
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error as error:
        msg = f"{path} cannot be read as the threads of an earlier version ({error}); repair it, or move it away."
        raise StorageUnavailableError(msg) from error
    return {"checkpoints", "writes"} <= names


def rename_backup(path: Path, to: Path) -> None:
    """Rename an SQLite file, together with its log."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path.rename(to)


async def move_in(
    path: Path, checkpointer: ThreadkeepCheckpointer, storage: Storage, *, keys: str | None, key_prefix: str
) -> int:
    """Move the threads of an earlier version's SQLite file into *checkpointer*; return how many.

    The file stays as a backup, under the name that ends with ``.backup``. If it is interrupted, the next call goes on.

    Args:
        path: The file.
        checkpointer: Keeps the threads from now on.
        storage: The storage that lists the threads of each owner.
        keys: See :class:`EarlierThreads`.
        key_prefix: The key prefix of the deployment.

    Raises:
        StorageUnavailableError: Another process has been moving them for a long time.
    """
    from langgraph.checkpoint.sqlite import SqliteSaver

    lock = path.with_name(f"{path.name}.moving")
    if not await _acquire(lock, path):
        return 0
    connection = await asyncio.to_thread(sqlite3.connect, path, check_same_thread=False)
    try:
        saver, number = SqliteSaver(connection), 0
        bound: dict[str, Owner] = {}
        directory = ThreadDirectory(storage, SystemClock())
        async for partition in iterate_partitions(storage):
            owner = owner_of_partition(partition)
            for listed in () if owner is None else await directory.of_owner(owner):
                if owner is not None and listed.scoped:
                    name = scoped_name(owner, listed.thread_id, key_prefix)
                    source = EarlierThreads(saver, keys=keys, names={listed.thread_id: name})
                    copied = await copy_thread(source, checkpointer.scoped(owner), listed.thread_id)
                    number += copied.checkpoints > 0
                elif owner is not None:
                    bound[listed.thread_id] = owner
        source = EarlierThreads(saver, keys=keys)
        for thread_id in await list_thread_ids(source):
            if thread_id in bound:
                await checkpointer.run(checkpointer.maintenance.bind(thread_id, bound[thread_id]))
            await copy_thread(source, checkpointer, thread_id)
            number += 1
        await _forget_bindings(storage)
    finally:
        await asyncio.to_thread(connection.close)
        lock.unlink(missing_ok=True)
    backup = path.with_name(f"{path.name}.backup")
    await asyncio.to_thread(rename_backup, path, backup)
    log.warning("%s threads of an earlier version were moved into the storage; %s is the backup.", number, backup)
    return number


async def _acquire(lock: Path, path: Path) -> bool:
    """Wait until no other process moves the threads; return whether there is anything left to move."""
    for _ in range(_WAITS):
        left = await asyncio.to_thread(_try_lock, lock, path)
        if left is not None:
            return left
        await asyncio.sleep(_WAIT_SECONDS)
    msg = f"Another process is moving the threads of an earlier version; if it is not, remove {lock}."
    raise StorageUnavailableError(msg, location=str(path))


def _try_lock(lock: Path, path: Path) -> bool | None:
    """Return whether there is anything to move, with the lock; ``None``: another process has the lock."""
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        with suppress(FileNotFoundError):
            if SystemClock().now().timestamp() - lock.stat().st_mtime > _STALE_SECONDS:
                lock.unlink()
        return None
    if is_earlier(path):
        return True
    lock.unlink()
    return False


async def _forget_bindings(storage: Storage) -> None:
    """Delete the earlier version's bindings of threads: a thread's head names its owner."""
    for number in range(256):
        partition = Partition("root", (".threads", f"{number:02x}"))
        if (await storage.scan(partition, limit=1)).items:
            await storage.erase(partition)


def find_earlier(settings: Settings) -> Path | None:
    """Return the SQLite file of an earlier version's threads, set aside if the new ones are to be kept there."""
    place = settings.thread_path
    if place is None:
        return None
    beside = settings.earlier_checkpoint_path
    aside = place.with_name(f"{place.stem}-earlier{place.suffix}")
    if not any(path.exists() for path in (beside, aside)) and place == settings.sqlite_path:
        return None
    if place != beside and is_earlier(place):
        rename_backup(place, aside)
    return next((path for path in (aside, beside) if is_earlier(path)), None)
