"""Read LangGraph's MongoDBStore: the documents of its collection."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qs, urlsplit

from threadkeep.errors import NotAStorageError, SettingsError
from threadkeep.moving.arriving import ForeignItem
from threadkeep.moving.foreign import reading, shown
from threadkeep.moving.record import LeftOut
from threadkeep.moving.source import PAGE

if TYPE_CHECKING:
    from pymongo import AsyncMongoClient
    from pymongo.asynchronous.collection import AsyncCollection

_DATABASE: Final = "checkpointing_db"
_COLLECTION: Final = "persistent-store"
_PARAMETER: Final = "collection"
_CONNECT_MS: Final = 10_000


class StockMongoDB:
    """The store in the database of *url*; ``?collection=…`` where that is not ``persistent-store``."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        given = parse_qs(parts.query).get(_PARAMETER)
        self._database = parts.path.removeprefix("/") or _DATABASE
        self._collection = given[-1] if given else _COLLECTION
        self.name: str = f"{shown(url)} ({self._database}.{self._collection})"
        kept = "&".join(part for part in parts.query.split("&") if not part.startswith(f"{_PARAMETER}="))
        self._url = parts._replace(query=kept).geturl()
        self._client: AsyncMongoClient[dict[str, Any]] | None = None
        self._life: timedelta | None = None

    async def connect(self) -> None:
        """See :meth:`threadkeep.moving.foreign.Reader.connect`."""
        try:
            import pymongo
            import pymongo.errors
        except ImportError as error:
            msg = f"{self.name} needs MongoDB's driver ({error}); run: pip install threadkeep[mongodb]"
            raise SettingsError(msg) from error
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
            msg = (
                f"{self.name} holds no store of LangGraph's (it has no documents with a namespace); it was not touched."
            )
            raise NotAStorageError(msg)

    async def total(self) -> int | None:
        """See :meth:`threadkeep.moving.foreign.Reader.total`."""
        from pymongo.errors import PyMongoError

        with reading(self.name, PyMongoError):
            return await self._documents().count_documents({})

    async def items(self) -> AsyncGenerator[ForeignItem | LeftOut]:
        """See :meth:`threadkeep.moving.foreign.Reader.items`."""
        from pymongo.errors import PyMongoError

        with reading(self.name, PyMongoError):
            fields = {"namespace": 1, "key": 1, "value": 1, "created_at": 1, "updated_at": 1}
            found = self._documents().find({}, fields, batch_size=PAGE).sort([("namespace", 1), ("key", 1)])
            async for document in found:
                yield _item(document, self._life)

    async def close(self) -> None:
        """See :meth:`threadkeep.moving.foreign.Reader.close`."""
        if self._client is not None:
            await self._client.close()

    def _documents(self) -> AsyncCollection[dict[str, Any]]:
        if self._client is None:
            msg = "Call connect() first."
            raise RuntimeError(msg)
        return self._client[self._database][self._collection]


def _item(document: Mapping[str, Any], life: timedelta | None) -> ForeignItem | LeftOut:
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
