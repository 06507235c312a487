"""Read LangGraph's SqliteStore: its table ``store``, in one transaction that writes nothing."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from threadkeep.errors import InvalidInputError, NotAStorageError
from threadkeep.moving.arriving import ForeignItem
from threadkeep.moving.foreign import reading, shown
from threadkeep.moving.record import LeftOut
from threadkeep.moving.source import PAGE

_COLUMNS: Final = "prefix, key, value, created_at, updated_at, expires_at, ttl_minutes"


class StockSqlite:
    """The store in the file of *url*, ``sqlite:///file.db``."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        path = unquote(parts.path.removeprefix("/"))
        if parts.netloc or not path:
            msg = "A SQLite URL is langgraph+sqlite:///relative/path.db or langgraph+sqlite:////absolute/path.db."
            raise InvalidInputError(msg)
        self.name: str = shown(url)
        self._path = Path(path)
        self._connection: sqlite3.Connection | None = None

    async def connect(self) -> None:
        """See :meth:`threadkeep.moving.foreign.Reader.connect`."""
        if not self._path.is_file():
            msg = f"There is no file {self._path}; give the one that LangGraph's SqliteStore writes."
            raise InvalidInputError(msg)
        with reading(self.name, sqlite3.Error):
            self._connection = await asyncio.to_thread(self._open)

    async def total(self) -> int | None:
        """See :meth:`threadkeep.moving.foreign.Reader.total`."""
        ((count,),) = await self._rows("SELECT count(*) FROM store")
        return count

    async def items(self) -> AsyncGenerator[ForeignItem | LeftOut]:
        """See :meth:`threadkeep.moving.foreign.Reader.items`."""
        after = ("", "")
        while True:
            rows = await self._rows(
                f"SELECT {_COLUMNS} FROM store WHERE (prefix, key) > (?, ?) ORDER BY prefix, key LIMIT ?",  # noqa: S608 - a constant
                *after,
                PAGE,
            )
            if not rows:
                return
            for row in rows:
                yield _item(*row)
            after = rows[-1][:2]

    async def close(self) -> None:
        """See :meth:`threadkeep.moving.foreign.Reader.close`."""
        if self._connection is not None:
            self._connection.close()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        try:
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        except BaseException:
            connection.close()
            raise
        if "store" not in names:
            connection.close()
            msg = f"{self._path} holds no store of LangGraph's (it has no table called store); it was not touched."
            raise NotAStorageError(msg, path=str(self._path))
        return connection

    async def _rows(self, query: str, *values: object) -> list[Any]:
        connection = self._connection
        if connection is None:
            msg = "Call connect() first."
            raise RuntimeError(msg)
        with reading(self.name, sqlite3.Error):
            return await asyncio.to_thread(lambda: connection.execute(query, values).fetchall())


def _item(
    prefix: str, key: str, value: str | bytes, created: str, updated: str, expires: str | None, minutes: float | None
) -> ForeignItem | LeftOut:
    namespace = tuple(prefix.split("."))
    try:
        read: Any = json.loads(value)
        created_at, updated_at = _moment(created), _moment(updated)
        expires_at = _moment(expires) if expires else None
    except ValueError as error:
        return LeftOut(namespace, key, f"its row cannot be read ({error})")
    if not expires_at:
        return ForeignItem(namespace, key, read, created_at, updated_at)
    ttl = timedelta(minutes=minutes) if minutes else max(expires_at - updated_at, timedelta(seconds=1))
    return ForeignItem(namespace, key, read, created_at, updated_at, ttl, expires_at)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
