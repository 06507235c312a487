"""Read LangGraph's SqliteStore: its table ``store``, in one transaction that writes nothing."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import parse_qs, unquote, urlsplit

from threadkeep.errors import InvalidInputError, NotAStorageError, optional_import
from threadkeep.transfer.importer import ForeignItem, LeftOut
from threadkeep.transfer.sources import PAGE, reading, shown

if TYPE_CHECKING:
    import psycopg
    from pymongo import AsyncMongoClient
    from pymongo.asynchronous.collection import AsyncCollection


_SQLITE_COLUMNS: Final = "prefix, key, value, created_at, updated_at, expires_at, ttl_minutes"


class StockSqlite:
    """The store in the file of *url*, ``sqlite:///file.db``."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        path = unquote(parts.path.removeprefix("/"))
        if parts.netloc or not path:
            msg = "Invalid SQLite URL: write langgraph+sqlite:///relative/path.db or langgraph+sqlite:////absolute/path.db."
            raise InvalidInputError(msg)
        self.name: str = shown(url)
        self._path = Path(path)
        self._connection: sqlite3.Connection | None = None

    async def connect(self) -> None:
        """See :meth:`threadkeep.transfer.sources.Reader.connect`."""
        if not self._path.is_file():
            msg = f"The file {self._path} does not exist; give the file of LangGraph's SqliteStore."
            raise InvalidInputError(msg)
        with reading(self.name, sqlite3.Error):
            self._connection = await asyncio.to_thread(self._open)

    async def total(self) -> int | None:
        """See :meth:`threadkeep.transfer.sources.Reader.total`."""
        ((count,),) = await self._rows("SELECT count(*) FROM store")
        return count

    async def items(self) -> AsyncGenerator[ForeignItem | LeftOut]:
        """See :meth:`threadkeep.transfer.sources.Reader.items`."""
        after = ("", "")
        while True:
            rows = await self._rows(
                f"SELECT {_SQLITE_COLUMNS} FROM store WHERE (prefix, key) > (?, ?) ORDER BY prefix, key LIMIT ?",  # noqa: S608 - a constant
                *after,
                PAGE,
            )
            if not rows:
                return
            for row in rows:
                yield _sqlite_item(*row)
            after = rows[-1][:2]

    async def close(self) -> None:
        """See :meth:`threadkeep.transfer.sources.Reader.close`."""
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
            msg = f"{self._path} has no store of LangGraph's (it has no table called store); it was not touched."
            raise NotAStorageError(msg, path=str(self._path))
        return connection

    async def _rows(self, query: str, *values: object) -> list[Any]:
        connection = self._connection
        if connection is None:
            msg = "The store is not connected: call connect() first."
            raise RuntimeError(msg)
        with reading(self.name, sqlite3.Error):
            return await asyncio.to_thread(lambda: connection.execute(query, values).fetchall())


def _sqlite_item(
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


_POSTGRES_COLUMNS: Final = "prefix, key, value, created_at, updated_at, expires_at, ttl_minutes"
_CONNECT_SECONDS: Final = 10


class StockPostgres:
    """The store in the database of *url*."""

    def __init__(self, url: str) -> None:
        self.name: str = shown(url)
        self._url = url
        self._connection: psycopg.AsyncConnection[Any] | None = None

    async def connect(self) -> None:
        """See :meth:`threadkeep.transfer.sources.Reader.connect`."""
        with optional_import(self.name, extra="postgres"):
            import psycopg
        with reading(self.name, psycopg.Error):
            self._connection = connection = await psycopg.AsyncConnection[Any].connect(
                self._url, connect_timeout=_CONNECT_SECONDS
            )
            await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            await connection.set_read_only(True)
            found = await (await connection.execute("SELECT to_regclass('store')")).fetchone()
            await connection.rollback()
        if found is None or found[0] is None:
            msg = f"{self.name} has no store of LangGraph's (it has no table called store); it was not touched."
            raise NotAStorageError(msg)

    async def total(self) -> int | None:
        """See :meth:`threadkeep.transfer.sources.Reader.total`."""
        import psycopg

        connection = self._opened()
        with reading(self.name, psycopg.Error):
            row = await (await connection.execute("SELECT count(*) FROM store")).fetchone()
            await connection.rollback()
        return row[0] if row else None

    async def items(self) -> AsyncGenerator[ForeignItem]:
        """See :meth:`threadkeep.transfer.sources.Reader.items`."""
        import psycopg

        with reading(self.name, psycopg.Error):
            async with self._opened().transaction(), self._opened().cursor("threadkeep") as cursor:
                await cursor.execute(f"SELECT {_POSTGRES_COLUMNS} FROM store ORDER BY prefix, key")  # noqa: S608 - a constant
                while rows := await cursor.fetchmany(PAGE):
                    for prefix, key, value, created, updated, expires, minutes in rows:
                        ttl = None
                        if expires is not None:
                            ttl = (
                                timedelta(minutes=minutes) if minutes else max(expires - updated, timedelta(seconds=1))
                            )
                        yield ForeignItem(
                            tuple(prefix.split(".")),
                            key,
                            value,
                            created.astimezone(UTC),
                            updated.astimezone(UTC),
                            ttl,
                            expires.astimezone(UTC) if expires else None,
                        )

    async def close(self) -> None:
        """See :meth:`threadkeep.transfer.sources.Reader.close`."""
        if self._connection is not None:
            await self._connection.close()

    def _opened(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is None:
            msg = "The store is not connected: call connect() first."
            raise RuntimeError(msg)
        return self._connection


_DATABASE: Final = "checkpointing_db"
_COLLECTION: Final = "persistent-store"
_MONGODB_PARAMETER: Final = "collection"
_CONNECT_MS: Final = 10_000


class StockMongoDB:
    """The store in the database of *url*; ``?collection=…`` where that is not ``persistent-store``."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        given = parse_qs(parts.query).get(_MONGODB_PARAMETER)
        self._database = parts.path.removeprefix("/") or _DATABASE
        self._collection = given[-1] if given else _COLLECTION
        self.name: str = f"{shown(url)} ({self._database}.{self._collection})"
        kept = "&".join(part for part in parts.query.split("&") if not part.startswith(f"{_MONGODB_PARAMETER}="))
        self._url = parts._replace(query=kept).geturl()
        self._client: AsyncMongoClient[dict[str, Any]] | None = None
        self._life: timedelta | None = None

    async def connect(self) -> None:
        """See :meth:`threadkeep.transfer.sources.Reader.connect`."""
        with optional_import(self.name, extra="mongodb"):
            import pymongo
            import pymongo.errors
        with reading(self.name, pymongo.errors.PyMongoError):
            self._client = pymongo.AsyncMongoClient[dict[str, Any]](
                self._url, tz_aware=True, serverSelectionTimeoutMS=_CONNECT_MS
            )
            document = await self._documents().find_one({"namespace": {"$exists": True}})
            if document is not None:
                async for index in await self._documents().list_indexes():
                    if "expireAfterSeconds" in index and list(index["key"]) == ["updated_at"]:
                        self._life = timedelta(seconds=index["expireAfterSeconds"])
        if document is None:
            msg = f"{self.name} has no store of LangGraph's (it has no documents with a namespace); it was not touched."
            raise NotAStorageError(msg)

    async def total(self) -> int | None:
        """See :meth:`threadkeep.transfer.sources.Reader.total`."""
        from pymongo.errors import PyMongoError

        with reading(self.name, PyMongoError):
            return await self._documents().count_documents({})

    async def items(self) -> AsyncGenerator[ForeignItem | LeftOut]:
        """See :meth:`threadkeep.transfer.sources.Reader.items`."""
        from pymongo.errors import PyMongoError

        with reading(self.name, PyMongoError):
            fields = {"namespace": 1, "key": 1, "value": 1, "created_at": 1, "updated_at": 1}
            found = self._documents().find({}, fields, batch_size=PAGE).sort([("namespace", 1), ("key", 1)])
            async for document in found:
                yield _mongodb_item(document, self._life)

    async def close(self) -> None:
        """See :meth:`threadkeep.transfer.sources.Reader.close`."""
        if self._client is not None:
            await self._client.close()

    def _documents(self) -> AsyncCollection[dict[str, Any]]:
        if self._client is None:
            msg = "The store is not connected: call connect() first."
            raise RuntimeError(msg)
        return self._client[self._database][self._collection]


def _mongodb_item(document: Mapping[str, Any], life: timedelta | None) -> ForeignItem | LeftOut:
    labels, key, value = document.get("namespace"), document.get("key"), document.get("value")
    created, updated = document.get("created_at"), document.get("updated_at")
    of_a_store = isinstance(labels, list) and isinstance(key, str) and isinstance(value, dict)
    if not (of_a_store and isinstance(created, datetime) and isinstance(updated, datetime)):
        return LeftOut((), str(document.get("key", document.get("_id"))), "it is no item of a store")
    updated_at = updated.astimezone(UTC)
    return ForeignItem(
        tuple(map(str, cast("list[object]", labels))),
        cast("str", key),
        cast("dict[str, Any]", value),
        created.astimezone(UTC),
        updated_at,
        life,
        updated_at + life if life else None,
    )


_PREFIX: Final = "store"
_REDIS_PARAMETER: Final = "store_prefix"


class _Document(NamedTuple):
    """A document without its value."""

    prefix: str
    key: str
    updated: int
    name: str


class StockRedis:
    """The store in the Redis at *url*; ``?store_prefix=…`` where it is not ``store``."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        given = parse_qs(parts.query).get(_REDIS_PARAMETER)
        self.name: str = shown(url) + (f" ({given[-1]})" if given else "")
        self._match = f"{given[-1] if given else _PREFIX}:*"
        kept = "&".join(part for part in parts.query.split("&") if not part.startswith(f"{_REDIS_PARAMETER}="))
        self._url = parts._replace(query=kept).geturl()
        self._client: Any = None
        self._documents: list[_Document] = []

    async def connect(self) -> None:
        """See :meth:`threadkeep.transfer.sources.Reader.connect`."""
        with optional_import(self.name, extra="import-redis"):
            import langgraph.store.redis  # noqa: F401  # pyright: ignore[reportUnusedImport] - how labels are escaped
            import redis.asyncio
        with reading(self.name, redis.RedisError, OSError):
            self._client = cast("Any", redis.asyncio.Redis).from_url(self._url, decode_responses=True)
            self._documents = await self._located()
        if not self._documents:
            msg = f"{self.name} has no store of LangGraph's (no documents called {self._match}); it was not touched."
            raise NotAStorageError(msg)

    async def total(self) -> int | None:
        """See :meth:`threadkeep.transfer.sources.Reader.total`."""
        return len(self._documents)

    async def items(self) -> AsyncGenerator[ForeignItem | LeftOut]:
        """See :meth:`threadkeep.transfer.sources.Reader.items`."""
        import redis

        for start in range(0, len(self._documents), PAGE):
            page = self._documents[start : start + PAGE]
            with reading(self.name, redis.RedisError, OSError):
                read = await self._read([document.name for document in page], "$")
                pipeline = self._opened().pipeline(transaction=False)
                for document in page:
                    pipeline.pexpiretime(document.name)
                ends: list[int] = await pipeline.execute()
            for document, found, end in zip(page, read, ends, strict=True):
                if found:
                    yield _redis_item(document, found[0], end)

    async def close(self) -> None:
        """See :meth:`threadkeep.transfer.sources.Reader.close`."""
        if self._client is not None:
            await self._client.aclose()

    async def _located(self) -> list[_Document]:
        """Return where each item is, in order; an item that was left twice is the one that was put last."""
        newest: dict[tuple[str, str], _Document] = {}
        names: list[str] = []

        async def look() -> None:
            for path_values in zip(
                names,
                await self._read(names, "$.prefix"),
                await self._read(names, "$.key"),
                await self._read(names, "$.updated_at"),
                strict=True,
            ):
                name, prefix, key, updated = path_values
                if prefix and key and updated:
                    document = _Document(prefix[0], key[0], updated[0], name)
                    known = newest.get((document.prefix, document.key))
                    if known is None or known.updated < document.updated:
                        newest[document.prefix, document.key] = document
            names.clear()

        async for name in self._opened().scan_iter(match=self._match, count=PAGE, _type="ReJSON-RL"):
            names.append(name)
            if len(names) >= PAGE:
                await look()
        if names:
            await look()
        return sorted(newest.values())

    async def _read(self, names: Sequence[str], path: str) -> list[Any]:
        return await self._opened().json().mget(list(names), path)

    def _opened(self) -> Any:
        if self._client is None:
            msg = "The store is not connected: call connect() first."
            raise RuntimeError(msg)
        return self._client


def _redis_item(document: _Document, found: dict[str, Any], end: int) -> ForeignItem | LeftOut:
    from langgraph.store.redis.token_unescaper import TokenUnescaper

    namespace = tuple(TokenUnescaper().unescape(document.prefix).split("."))
    value: Any = found.get("value")
    if not isinstance(value, dict):
        return LeftOut(namespace, document.key, "its value is not a JSON object")
    fields = cast("dict[str, Any]", value)
    created_at, updated_at = (
        datetime.fromtimestamp(found[name] / 1_000_000, UTC) for name in ("created_at", "updated_at")
    )
    if end < 0:
        return ForeignItem(namespace, document.key, fields, created_at, updated_at)
    expires_at = datetime.fromtimestamp(end / 1000, UTC)
    return ForeignItem(
        namespace,
        document.key,
        fields,
        created_at,
        updated_at,
        max(expires_at - updated_at, timedelta(seconds=1)),
        expires_at,
    )
