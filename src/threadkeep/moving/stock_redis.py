"""Read LangGraph's RedisStore: the JSON documents themselves, because its search shows ten namespaces at most."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, cast
from urllib.parse import parse_qs, urlsplit

from threadkeep.errors import NotAStorageError, SettingsError
from threadkeep.moving.arriving import ForeignItem
from threadkeep.moving.foreign import reading, shown
from threadkeep.moving.record import LeftOut
from threadkeep.moving.source import PAGE

_PREFIX: Final = "store"
_PARAMETER: Final = "store_prefix"


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
        given = parse_qs(parts.query).get(_PARAMETER)
        self.name: str = shown(url) + (f" ({given[-1]})" if given else "")
        self._match = f"{given[-1] if given else _PREFIX}:*"
        kept = "&".join(part for part in parts.query.split("&") if not part.startswith(f"{_PARAMETER}="))
        self._url = parts._replace(query=kept).geturl()
        self._client: Any = None
        self._documents: list[_Document] = []

    async def connect(self) -> None:
        """See :meth:`threadkeep.moving.foreign.Reader.connect`."""
        try:
            import langgraph.store.redis  # noqa: F401  # pyright: ignore[reportUnusedImport] - how labels are escaped
            import redis.asyncio
        except ImportError as error:
            msg = f"{self.name} needs LangGraph's package ({error}); run: pip install threadkeep[redis-checkpoints]"
            raise SettingsError(msg) from error
        with reading(self.name, redis.RedisError, OSError):
            self._client = cast("Any", redis.asyncio.Redis).from_url(self._url, decode_responses=True)
            self._documents = await self._located()
        if not self._documents:
            msg = f"{self.name} holds no store of LangGraph's (no documents called {self._match}); it was not touched."
            raise NotAStorageError(msg)

    async def total(self) -> int | None:
        """See :meth:`threadkeep.moving.foreign.Reader.total`."""
        return len(self._documents)

    async def items(self) -> AsyncGenerator[ForeignItem | LeftOut]:
        """See :meth:`threadkeep.moving.foreign.Reader.items`."""
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
                    yield _item(document, found[0], end)

    async def close(self) -> None:
        """See :meth:`threadkeep.moving.foreign.Reader.close`."""
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
            msg = "Call connect() first."
            raise RuntimeError(msg)
        return self._client


def _item(document: _Document, found: dict[str, Any], end: int) -> ForeignItem | LeftOut:
    from langgraph.store.redis.token_unescaper import TokenUnescaper

    namespace = tuple(TokenUnescaper().unescape(document.prefix).split("."))
    value: Any = found.get("value")
    if not isinstance(value, dict):
        return LeftOut(namespace, document.key, "its value is no JSON object")
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
