"""Read LangGraph's PostgresStore: its table ``store``, of one moment, writing nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, Final

from threadkeep.errors import NotAStorageError, SettingsError
from threadkeep.moving.arriving import ForeignItem
from threadkeep.moving.foreign import reading, shown
from threadkeep.moving.source import PAGE

if TYPE_CHECKING:
    import psycopg

_COLUMNS: Final = "prefix, key, value, created_at, updated_at, expires_at, ttl_minutes"
_CONNECT_SECONDS: Final = 10


class StockPostgres:
    """The store in the database of *url*."""

    def __init__(self, url: str) -> None:
        self.name: str = shown(url)
        self._url = url
        self._connection: psycopg.AsyncConnection[Any] | None = None

    async def connect(self) -> None:
        """See :meth:`threadkeep.moving.foreign.Reader.connect`."""
        try:
            import psycopg
        except ImportError as error:
            msg = f"{self.name} needs PostgreSQL's driver ({error}); run: pip install threadkeep[postgres]"
            raise SettingsError(msg) from error
        with reading(self.name, psycopg.Error):
            self._connection = connection = await psycopg.AsyncConnection[Any].connect(
                self._url, connect_timeout=_CONNECT_SECONDS
            )
            await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            await connection.set_read_only(True)
            found = await (await connection.execute("SELECT to_regclass('store')")).fetchone()
            await connection.rollback()
        if found is None or found[0] is None:
            msg = f"{self.name} holds no store of LangGraph's (it has no table called store); it was not touched."
            raise NotAStorageError(msg)

    async def total(self) -> int | None:
        """See :meth:`threadkeep.moving.foreign.Reader.total`."""
        import psycopg

        connection = self._opened()
        with reading(self.name, psycopg.Error):
            row = await (await connection.execute("SELECT count(*) FROM store")).fetchone()
            await connection.rollback()
        return row[0] if row else None

    async def items(self) -> AsyncGenerator[ForeignItem]:
        """See :meth:`threadkeep.moving.foreign.Reader.items`."""
        import psycopg

        with reading(self.name, psycopg.Error):
            async with self._opened().transaction(), self._opened().cursor("threadkeep") as cursor:
                await cursor.execute(f"SELECT {_COLUMNS} FROM store ORDER BY prefix, key")  # noqa: S608 - a constant
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
        """See :meth:`threadkeep.moving.foreign.Reader.close`."""
        if self._connection is not None:
            await self._connection.close()

    def _opened(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is None:
            msg = "Call connect() first."
            raise RuntimeError(msg)
        return self._connection
