"""LangGraph's own savers, made strict and opened once: what stands behind every view of a checkpointer."""

from __future__ import annotations

import asyncio
import copy
import sqlite3
from collections.abc import AsyncGenerator, Callable, Collection, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import ormsgpack
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from threadkeep.errors import ClosedError, InvalidInputError, StorageError
from threadkeep.threads.sqlite_file import open_file, storage_error

T = TypeVar("T")
Saver: TypeAlias = BaseCheckpointSaver[str]
AllowedType: TypeAlias = type | tuple[str, str]


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer that makes objects of listed classes only, and never unpickles.

    An object of any other class comes back as plain data, a dict mostly: its module is not
    imported, and LangGraph logs which class was blocked. Messages, documents and LangGraph's own
    types are listed always, and the types of a graph's state once the graph is compiled.

    Args:
        allowed_types: Further classes, each as itself or as ``(module, name)``.
    """

    def __init__(self, allowed_types: Collection[AllowedType] = ()) -> None:
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=tuple(allowed_types))

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the object that ``dumps_typed`` wrote as *data*.

        Raises:
            StorageError: It cannot be read.
        """
        try:
            return super().loads_typed(data)
        except ormsgpack.MsgpackDecodeError as error:
            msg = "A checkpoint cannot be read: it is damaged, or was written encrypted."
            raise StorageError(msg) from error
        except NotImplementedError as error:
            msg = f"A checkpoint is kept as {data[0][:40]!r}, which is never loaded; only LangGraph's own format is."
            raise StorageError(msg) from error


class _SqliteSaver(SqliteSaver):
    """LangGraph's SQLite saver, but a write that fails leaves nothing behind, and neither does a deleted thread.

    Not ``AsyncSqliteSaver``: that one changes threads three to five times in an operation, holds its
    lock while somebody iterates, leaves the transaction of a cancelled write open, and a program
    that forgets to close it never ends.
    """

    @contextmanager
    def cursor(self, transaction: bool = True) -> Generator[sqlite3.Cursor]:  # noqa: FBT001, FBT002 - LangGraph's name
        with self.lock:
            self.setup()
            with closing(self.conn.cursor()) as cursor:
                try:
                    yield cursor
                    if transaction:
                        self.conn.commit()
                except BaseException:
                    with suppress(sqlite3.Error):  # SQLite may have rolled back already
                        self.conn.rollback()
                    raise

    def delete_thread(self, thread_id: str) -> None:
        super().delete_thread(thread_id)
        # The log still holds the text; where another process reads, SQLite empties it later.
        with suppress(sqlite3.OperationalError):
            self.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()


class SharedSaver:
    """The real saver behind all views of one checkpointer: opened once, closed once, used on the home loop.

    The in-memory one answers at once. The SQLite one has a worker thread, where an operation is one
    call that a cancelled caller does not interrupt.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="threadkeep-checkpoints") if path else None
        self._connection: sqlite3.Connection | None = None
        self._opening: asyncio.Task[Saver] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._active = 0
        self._idle = asyncio.Event()
        self.closed = False

    @asynccontextmanager
    async def using(self, serde: SerializerProtocol) -> AsyncGenerator[Saver]:
        """Give the saver, with *serde* to read and write by; it stays open meanwhile."""
        if self.closed:
            msg = "This Threadkeep was closed; open a new one."
            raise ClosedError(msg)
        self._active += 1
        try:
            saver = copy.copy(await self._opened())
            saver.serde = serde
            yield saver
        finally:
            self._active -= 1
            if not self._active:
                self._idle.set()

    async def run(self, work: Callable[[], T]) -> T:
        """Do *work* where the saver lives, with its driver's errors in our words."""
        if self._path is None or self._thread is None:
            return work()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            raise storage_error(error, self._path) from error
        except UnicodeEncodeError as error:
            msg = "The checkpoint's namespace, id or filter holds half a character (a lone surrogate); leave it out."
            raise InvalidInputError(msg) from error

    async def close(self) -> None:
        """Let what is under way finish, then let go; the second call waits for the first."""
        self.closed = True
        self._closing = self._closing or asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _opened(self) -> Saver:
        if self._opening and self._opening.done() and (self._opening.cancelled() or self._opening.exception()):
            self._opening = None  # what was wrong may be right by now
        self._opening = self._opening or asyncio.ensure_future(self.run(self._open))
        return await asyncio.shield(self._opening)

    def _open(self) -> Saver:
        if self._path is None:
            return InMemorySaver()
        connection = open_file(self._path)
        try:
            saver = _SqliteSaver(connection)
            saver.setup()
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return saver

    async def _close(self) -> None:
        while self._active:
            self._idle.clear()
            await self._idle.wait()
        if self._connection is not None:
            await self.run(self._connection.close)
        if self._thread is not None:
            self._thread.shutdown()


def let_graphs_list_their_types() -> None:
    """Have LangGraph tell a checkpointer which types a graph's state has, when the graph is compiled.

    It does so only if ``LANGGRAPH_STRICT_MSGPACK`` was set before the first import. Ours is strict
    always and needs the list: without it, a dataclass in the state would come back as a dict. A
    checkpointer that is not strict ignores it.

    Source:
        ``langgraph/graph/state.py`` (``compile``) and ``langgraph/pregel/main.py`` of LangGraph 1.2.
    """
    with suppress(ImportError):  # private: where it is gone, ``allowed_types`` still works
        vars(import_module("langgraph._internal._serde"))["STRICT_MSGPACK_ENABLED"] = True
