"""Copies threads between checkpointers, from LangGraph's savers into ours and back; reads every copy again."""

from __future__ import annotations

import asyncio
import copy
import json
import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

import ormsgpack
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from threadkeep.arguments import checked_list
from threadkeep.errors import (
    InvalidInputError,
    NotAStorageError,
    OwnerMismatchError,
    StorageError,
    optional_import,
)
from threadkeep.transfer.sources import reading, shown

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

    from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
    from threadkeep.identity import Owner
    from threadkeep.ids import ThreadId

_INPUT_TASK: Final = "00000000-0000-0000-0000-000000000000"
"""The task of what a run was given, such as an answer that names no question."""

_QUESTION: Final = "__interrupt__"
_ANSWERS: Final = "__resume__"

SaverT = TypeVar("SaverT", bound="BaseCheckpointSaver[Any]")

_OPTION: Final = ormsgpack.OPT_NON_STR_KEYS | ormsgpack.OPT_PASSTHROUGH_DATACLASS | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
_MONGODB: Final = "checkpointing_db"
"""The database of LangGraph's saver for MongoDB."""


@dataclass(frozen=True, slots=True)
class CopiedThread:
    """The result of copying a thread.

    Attributes:
        thread_id: Its id.
        checkpoints: How many checkpoints it has.
        state: ``copied``, or ``present`` if all of it was there already.
    """

    thread_id: str
    checkpoints: int
    state: Literal["copied", "present"]


@dataclass(frozen=True, slots=True)
class RawObject:
    """An object in a checkpoint that is copied without being constructed: a msgpack extension."""

    code: int
    data: bytes


class RawSerializer(SerializerProtocol):
    """Reads and writes LangGraph's encoding without constructing objects, so that any type is copied as it is."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Encode what :meth:`loads_typed` returned."""
        if obj is None:
            return "null", b""
        if isinstance(obj, bytes | bytearray):
            return type(obj).__name__, bytes(obj)
        return "msgpack", ormsgpack.packb(obj, default=_packed, option=_OPTION)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode *data*; objects become :class:`RawObject`.

        Raises:
            InvalidInputError: It is pickled, or in an unknown encoding.
        """
        encoding, encoded = data
        if encoding == "msgpack":
            return ormsgpack.unpackb(encoded, ext_hook=RawObject, option=ormsgpack.OPT_NON_STR_KEYS)
        if encoding == "null":
            return None
        if encoding in ("bytes", "bytearray", "json"):
            return {"bytes": bytes, "bytearray": bytearray, "json": json.loads}[encoding](encoded)
        msg = f"A checkpoint is encoded as {encoding[:40]!r}, which cannot be copied; only LangGraph's own format can."
        raise InvalidInputError(msg)


def raw(saver: SaverT) -> SaverT:
    """Return a view of *saver* that constructs no objects."""
    view = copy.copy(saver)
    view.serde = RawSerializer()
    return view


def _packed(obj: Any) -> Any:
    if isinstance(obj, RawObject):
        return ormsgpack.Ext(obj.code, obj.data)
    msg = f"Object of type {type(obj).__name__} is not serializable"
    raise TypeError(msg)


async def list_thread_ids(saver: BaseCheckpointSaver[Any]) -> list[str]:
    """Return the ids of all threads of *saver*, sorted; it reads every checkpoint."""
    saver = raw(saver)
    try:
        ids = {_address(one)[0] async for one in saver.alist(None)}
    except NotImplementedError:
        ids = await asyncio.to_thread(lambda: {_address(one)[0] for one in saver.list(None)})
    return sorted(ids)


async def list_checkpoints(saver: BaseCheckpointSaver[Any], thread_id: str | None) -> list[CheckpointTuple]:
    """Return the checkpoints of a thread, or of all, oldest first; *saver* may be a sync or an async one."""
    config: RunnableConfig | None = None if thread_id is None else {"configurable": {"thread_id": thread_id}}
    try:
        found = [one async for one in saver.alist(config)]
    except NotImplementedError:
        found = await asyncio.to_thread(lambda: [*saver.list(config)])
    return sorted(found, key=lambda one: one.checkpoint["id"])


async def copy_thread(
    source: BaseCheckpointSaver[Any], target: BaseCheckpointSaver[Any], thread_id: str
) -> CopiedThread:
    """Copy all checkpoints of a thread with their writes; what *target* has already stays.

    Objects are copied as they are encoded; their classes need not be known. A copy that was interrupted is continued
    by the next call.

    Raises:
        StorageError: What was written cannot be read again as it was.
    """
    source, target = raw(source), raw(target)
    found = await list_checkpoints(source, thread_id)
    there = {_address(one): one for one in await list_checkpoints(target, thread_id)}
    missing = [one for one in found if _lacks(there.get(_address(one)), one)]
    for one in missing:
        _, namespace, _ = _address(one)
        parent = _configurable(one.parent_config).get("checkpoint_id") if one.parent_config else None
        named = {"checkpoint_id": parent} if parent else {}
        config: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, **named}}
        await _put(target, config, one, there.get(_address(one)))
    read = {_address(one): one for one in await list_checkpoints(target, thread_id)} if missing else there
    wrong = [_address(one)[2] for one in missing if not _holds(read.get(_address(one)), one)]
    if wrong:
        msg = f"{len(wrong)} checkpoints of a thread are not read as they were written, {wrong[0]} for example."
        raise StorageError(msg, thread_id=thread_id, checkpoint_ids=tuple(wrong))
    return CopiedThread(thread_id, len(found), "copied" if missing else "present")


async def _put(
    target: BaseCheckpointSaver[Any], config: RunnableConfig, one: CheckpointTuple, there: CheckpointTuple | None
) -> None:
    """Write *one* with its writes, or what *there* lacks of them, in the calls by which LangGraph writes them."""
    checkpoint, versions = one.checkpoint, one.checkpoint["channel_versions"]
    after: RunnableConfig = {"configurable": {**_configurable(config), "checkpoint_id": checkpoint["id"]}}
    present: Mapping[str, Sequence[tuple[str, Any]]] = {} if there is None else _by_task(there)
    calls: list[tuple[list[tuple[str, Any]], str, str]] = []
    for number, (task_id, writes) in enumerate(_by_task(one).items()):
        lacking = [write for write in writes if write not in present.get(task_id, ())]
        special = [[write] for write in lacking if write[0] in WRITES_IDX_MAP]
        plain = [write for write in lacking if write[0] not in WRITES_IDX_MAP]
        # The paths give their order.
        calls += [(each, task_id, f"{number:06}") for each in (*special, plain) if each]

    def put() -> None:
        target.put(config, checkpoint, one.metadata, versions)
        for call in calls:
            target.put_writes(after, *call)

    try:
        await target.aput(config, checkpoint, one.metadata, versions)
    except NotImplementedError:
        await asyncio.to_thread(put)
        return
    for call in calls:
        await target.aput_writes(after, *call)


def _is_same_state(one: CheckpointTuple, other: CheckpointTuple) -> bool:
    """Return whether two checkpoints are the same, but for what was written to them."""
    return one.checkpoint == other.checkpoint and dict(one.metadata).items() <= dict(other.metadata).items()


def _holds(there: CheckpointTuple | None, one: CheckpointTuple) -> bool:
    """Return whether *there* is *one* with every write of it."""
    if there is None or not _is_same_state(one, there):
        return False
    present = _by_task(there)
    return all(write in present.get(task_id, ()) for task_id, writes in _by_task(one).items() for write in writes)


def _lacks(there: CheckpointTuple | None, one: CheckpointTuple) -> bool:
    """Return whether *there* is not all of *one*; of a thread that went on since, its own writes count."""
    if there is None or not _is_same_state(one, there):
        return True
    wanted, present = {**_by_task(one)}, {**_by_task(there)}
    input_wanted, input_present = wanted.pop(_INPUT_TASK, ()), present.pop(_INPUT_TASK, ())
    if any(not _covers(wanted.get(task_id, ()), write) for task_id, writes in present.items() for write in writes):
        return False
    return wanted != present or (bool(input_wanted) and not input_present)


def _covers(writes: Sequence[tuple[str, Any]], write: tuple[str, Any]) -> bool:
    """Return whether *writes* say what *write* says, or what a node wrote later in its place.

    A node that is resumed writes its next question over the one before, and all of its answers over those before.
    """
    channel, value = write
    if channel == _QUESTION:
        return any(other == channel for other, _ in writes)
    if channel != _ANSWERS or not isinstance(value, list):
        return write in writes
    answers = cast("list[object]", value)
    return any(other == channel and more[: len(answers)] == answers for other, more in writes if isinstance(more, list))


def _by_task(one: CheckpointTuple) -> Mapping[str, Sequence[tuple[str, Any]]]:
    by_task: dict[str, list[tuple[str, Any]]] = {}
    for task_id, channel, value in sorted(one.pending_writes or (), key=lambda write: WRITES_IDX_MAP.get(write[1], 0)):
        by_task.setdefault(task_id, []).append((channel, value))
    return by_task


def _address(one: CheckpointTuple) -> tuple[str, str, str]:
    configurable = _configurable(one.config)
    return str(configurable["thread_id"]), str(configurable.get("checkpoint_ns", "")), one.checkpoint["id"]


def _configurable(config: RunnableConfig) -> dict[str, Any]:
    return config.get("configurable", {})


class ThreadSource:
    """A checkpointer from which threads move into ours at their first use.

    A thread belongs to the owner that the metadata of its checkpoints names. One that names none stays where it is,
    until it is adopted: a user who continued it could read another person's messages.

    Args:
        saver: LangGraph's checkpointer, or another one.
        owner_key: The key of the metadata with the user id.
    """

    def __init__(self, saver: BaseCheckpointSaver[Any], *, owner_key: str = "user_id") -> None:
        self._saver = saver
        self._owner_key = owner_key

    async def move_in(self, target: ThreadkeepCheckpointer, thread_id: ThreadId, owner: Owner | None) -> None:
        """Copy a thread into *target*, unless it went on there, or was deleted there, or *owner* was erased.

        Raises:
            OwnerMismatchError: The thread belongs to another owner than *owner*, or to none.
        """
        found = await list_checkpoints(raw(self._saver), thread_id)
        if not found:
            return
        there = {_address(one)[2] for one in await list_checkpoints(raw(target), thread_id)}
        copied = {_address(one)[2] for one in found}
        if _address(found[-1])[2] in there or not there <= copied:
            return
        if owner is not None:
            self._require_owner(found, thread_id, owner)
        if await target.run(target.maintenance.was_removed(thread_id, owner)):
            return
        if owner is not None:
            await target.run(target.maintenance.bind(thread_id, owner))
        await copy_thread(self._saver, target, thread_id)

    def _require_owner(self, found: Sequence[CheckpointTuple], thread_id: ThreadId, owner: Owner) -> None:
        try:
            named = _owner_in(found, self._owner_key)
        except InvalidInputError as error:
            msg = f"The thread comes from another checkpointer and has no owner: {error}"
            raise OwnerMismatchError(msg, thread_id=thread_id) from error
        if named != owner.user_id:
            msg = (
                "The thread comes from another checkpointer, and its metadata names another owner; use a new thread_id."
            )
            raise OwnerMismatchError(msg, thread_id=thread_id)


@dataclass(frozen=True, slots=True)
class ThreadClaims:
    """Says to which owner each thread of a saver belongs.

    Attributes:
        owner: The owner of every thread; ``None``: see the others.
        owners: The owner of a thread by its id; ``None`` leaves the thread without one.
        owner_key: The key of the metadata that names the owner of other threads; ``None``: they have none.
    """

    owner: Owner | None = None
    owners: Mapping[str, Owner | None] = field(default_factory=dict[str, "Owner | None"])
    owner_key: str | None = None

    async def find(self, saver: BaseCheckpointSaver[Any], thread_id: str) -> Owner | str:
        """Return the owner of a thread of *saver*, or its user id.

        Raises:
            InvalidInputError: It has none; the message says why.
        """
        if (owner := self.owner or self.owners.get(thread_id)) is not None:
            return owner
        if thread_id in self.owners:
            msg = "the mapping leaves it out."
            raise InvalidInputError(msg)
        if self.owner_key is None:
            msg = "its owner is missing; name it with owners= (--mapping FILE) or owner_key= (--owner-key)."
            raise InvalidInputError(msg)
        return _owner_in(await list_checkpoints(raw(saver), thread_id), self.owner_key)


def _owner_in(found: Sequence[CheckpointTuple], key: str) -> str:
    """Return the user id that the metadata of a thread's checkpoints, oldest first, name under *key*.

    The oldest must name it: who only continued a thread may be another person than the one who began it.

    Raises:
        InvalidInputError: It names none, or they name several.
    """
    names = [str(name) if (name := dict(one.metadata).get(key)) is not None else "" for one in found]
    several = {*names} - {""}
    if len(several) > 1:
        msg = f"its checkpoints name {len(several)} owners under {key!r}; name its owner with owners= (--mapping FILE)."
        raise InvalidInputError(msg)
    if not names or not names[0]:
        msg = f"its first checkpoint names no owner under {key!r}; name its owner with owners= (--mapping FILE)."
        raise InvalidInputError(msg)
    return names[0]


@asynccontextmanager
async def open_saver(
    url: BaseCheckpointSaver[Any] | str, *, creates: bool = False
) -> AsyncGenerator[BaseCheckpointSaver[Any]]:
    """Open LangGraph's own saver for *url*; a saver is given back as it is.

    Args:
        url: ``sqlite:///file``, ``postgresql://…``, ``redis://…`` or ``mongodb://…``; ``langgraph+`` may precede it.
        creates: Whether it is written to, so that its tables are made or brought up to date.

    Raises:
        InvalidInputError: There is no saver for it, or no such file.
        NotAStorageError: It holds no checkpoints of LangGraph.
        SettingsError: Its package is not installed.
        StorageUnavailableError: The server does not answer.
    """
    if not isinstance(url, str):
        yield url
        return
    url = url.removeprefix("langgraph+")
    make = _SAVERS.get(urlsplit(url).scheme.partition("+")[0])
    if make is None:
        msg = "Give the URL of LangGraph's checkpoints: sqlite:///file, postgresql://…, redis://… or mongodb://…."
        raise InvalidInputError(msg)
    stack = ExitStack()
    try:
        with make(url, stack, creates) as opened:
            saver = await asyncio.to_thread(opened)
            yield saver
    finally:
        await asyncio.to_thread(stack.close)


_Opened: TypeAlias = AbstractContextManager[Callable[[], BaseCheckpointSaver[Any]]]


@contextmanager
def _sqlite(url: str, stack: ExitStack, creates: bool) -> Generator[Callable[[], BaseCheckpointSaver[Any]]]:  # noqa: FBT001 - see _SAVERS
    from langgraph.checkpoint.sqlite import SqliteSaver

    path = Path(url.removeprefix("sqlite:///"))

    def opened() -> SqliteSaver:
        if not creates:
            _require_checkpoints(path)
        return stack.enter_context(SqliteSaver.from_conn_string(str(path)))

    with reading(shown(url), sqlite3.Error):
        yield opened


def _require_checkpoints(path: Path) -> None:
    if not path.is_file():
        msg = f"The file {path} does not exist; give the file of LangGraph's SqliteSaver."
        raise InvalidInputError(msg)
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        if not connection.execute("SELECT name FROM sqlite_master WHERE name = 'checkpoints'").fetchone():
            raise _no_checkpoints(str(path))


@contextmanager
def _postgres(url: str, stack: ExitStack, creates: bool) -> Generator[Callable[[], BaseCheckpointSaver[Any]]]:  # noqa: FBT001
    with optional_import("threads import", extra="import-postgres"):
        import psycopg
        from langgraph.checkpoint.postgres import PostgresSaver

    def opened() -> PostgresSaver:
        saver = stack.enter_context(PostgresSaver.from_conn_string(url))
        if creates:
            saver.setup()
            return saver
        with psycopg.connect(url) as connection:
            if connection.execute("SELECT to_regclass('checkpoints')").fetchone() == (None,):
                raise _no_checkpoints(shown(url))
        return saver

    with reading(shown(url), psycopg.Error):
        yield opened


@contextmanager
def _redis(url: str, stack: ExitStack, creates: bool) -> Generator[Callable[[], BaseCheckpointSaver[Any]]]:  # noqa: FBT001
    del creates  # lists are read by its search index
    with optional_import("threads import", extra="import-redis"):
        import redis
        from langgraph.checkpoint.redis import RedisSaver

    def opened() -> RedisSaver:
        saver = stack.enter_context(RedisSaver.from_conn_string(url))
        saver.setup()
        return saver

    with reading(shown(url), redis.RedisError):
        yield opened


@contextmanager
def _mongodb(url: str, stack: ExitStack, creates: bool) -> Generator[Callable[[], BaseCheckpointSaver[Any]]]:  # noqa: FBT001
    del creates  # collections are made by the first write
    with optional_import("threads import", extra="import-mongodb"):
        import pymongo.errors
        from langgraph.checkpoint.mongodb import MongoDBSaver

    name = urlsplit(url).path.strip("/") or _MONGODB
    with reading(shown(url), pymongo.errors.PyMongoError):
        yield lambda: stack.enter_context(MongoDBSaver.from_conn_string(url, db_name=name))


def _no_checkpoints(where: str) -> NotAStorageError:
    msg = f"{where} has no checkpoints of LangGraph; it was not changed. Give the database of LangGraph's saver."
    return NotAStorageError(msg, path=where)


_SAVERS: Final[Mapping[str, Callable[[str, ExitStack, bool], _Opened]]] = {
    "sqlite": _sqlite,
    "postgres": _postgres,
    "postgresql": _postgres,
    "redis": _redis,
    "rediss": _redis,
    "mongodb": _mongodb,
}


async def choose_threads(
    saver: BaseCheckpointSaver[Any], thread_ids: Sequence[str] | None, claims: ThreadClaims
) -> Sequence[str]:
    """Return the threads that are meant, all of them in *saver*.

    Raises:
        InvalidInputError: One is not there, or *thread_ids* is no list.
    """
    if thread_ids is not None:
        thread_ids = checked_list(thread_ids, "thread_ids", str)
    there = await list_thread_ids(saver)
    if missing := sorted({*claims.owners, *(thread_ids or ())} - set(there)):
        msg = f"Thread {missing[0][:60]!r} was not found; nothing was changed. List the threads."
        raise InvalidInputError(msg, thread_ids=tuple(missing))
    return there if thread_ids is None else thread_ids
