"""The schema ``threadkeep`` of a PostgreSQL database: made, changed and checked, and as whom it is worked on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from psycopg import errors, sql
from psycopg.rows import class_row

from threadkeep.errors import (
    NotAStorageError,
    StorageDeniedError,
    StorageError,
    StorageReadOnlyError,
    StorageVersionError,
)
from threadkeep.ids import new_id
from threadkeep.storage.postgres.migrations import (
    FOLDER,
    SCHEMA_VERSION,
    Applied,
    Migration,
    half_applied,
    needed,
    shipped,
)
from threadkeep.storage.postgres.pool import Connection, PostgresPool
from threadkeep.storage.sql_files import statements

SQL: Final = {name: text.encode() for name, text in statements(FOLDER / "statements.sql").items()}

APP: Final = "threadkeep_app"
SERVICE: Final = "threadkeep_service"
NOBODY: Final = "none"
"""As whom a transaction goes on that takes on no role: as who connected."""

OLDEST_SERVER: Final = 140000
_TABLES: Final = frozenset({"migrations", "birth", "partitions", "items", "removals"})
_TRIES: Final = 10
_LOCK_TIMEOUT: Final = b"SET LOCAL lock_timeout = '5s'"
"""Who changes a table makes everybody else wait; so it must not wait long for them."""


@dataclass(frozen=True, slots=True)
class Roles:
    """As whom one partition, and all of them, are worked on."""

    app: str
    service: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a server says about itself, this user and the schema; the fields are those of ``inspect``."""

    server_version: int
    read_only: bool
    user: str
    bypasses: bool
    makes_roles: bool
    roles: list[str]
    takes_on: list[str]
    has_schema: bool
    tables: list[str]
    granted: list[str]
    owns: bool

    @property
    def has_roles(self) -> bool:
        """Whether this user can take on both roles, and they may use the tables."""
        return len(self.takes_on) == 2 and {APP, SERVICE} <= set(self.granted)  # noqa: PLR2004 - both of them

    @property
    def could_have_roles(self) -> bool:
        """Whether setting up would make it so."""
        return not self.has_roles and self.owns and (self.makes_roles or len(self.takes_on) == 2)  # noqa: PLR2004


class PostgresSchema:
    """Makes the schema ready, once.

    Args:
        pool: Where; it is open.
        hash_partitions: A new schema's items are spread over so many tables; 0: they are in one.
        code: The schema that the code was written for.
        migrations: By default those that are shipped.
    """

    def __init__(
        self,
        pool: PostgresPool,
        *,
        hash_partitions: int = 0,
        code: int = SCHEMA_VERSION,
        migrations: Sequence[Migration] | None = None,
    ) -> None:
        self._pool = pool
        self._where = pool.location
        self._hash_partitions = hash_partitions
        self._code = code
        self._migrations = shipped() if migrations is None else migrations

    async def ready(self) -> tuple[Roles, str]:
        """Return as whom to work, and the epoch of partitions that were never erased.

        Where tables are missing or old, they are made or changed, one process at a time;
        with ``THREADKEEP_MIGRATE=check`` that is an error.

        Raises:
            StorageVersionError: It is too new, too old, or half changed.
            NotAStorageError: The schema holds something else.
            StorageDeniedError: This user lacks a right.
            StorageReadOnlyError: The server is.
        """
        async with self._pool.connection() as connection:
            found = await self._inspect(connection)
            waiting = await self._waiting(connection, found)
        if not found.tables or waiting or found.could_have_roles:
            if self._pool.migrate == "auto":
                found = await self._set_up()
            else:
                self._require_nothing(found, waiting)
        roles = self._roles(found)
        async with self._pool.connection() as connection:
            ((birth,),) = await (await connection.execute(SQL["birth"])).fetchall()
        return roles, birth

    async def _inspect(self, connection: Connection) -> Found:
        cursor = connection.cursor(row_factory=class_row(Found))
        found = await (await cursor.execute(SQL["inspect"])).fetchone()
        if found is None or found.server_version < OLDEST_SERVER:
            msg = f"{self._where} is older than PostgreSQL 14; upgrade the server."
            raise StorageError(msg, server=self._where)
        if found.read_only:
            msg = (
                f"{self._where} is read-only, a replica or set so; give the URL of the primary, or let it be "
                "written to."
            )
            raise StorageReadOnlyError(msg, server=self._where)
        missing = _TABLES.difference(found.tables)
        if found.tables and "migrations" in missing:
            msg = (
                f"The schema threadkeep of {self._where} holds other tables; it was not touched. "
                "Choose another database, or rename that schema."
            )
            raise NotAStorageError(msg, server=self._where)
        if found.tables and missing:
            msg = (
                f"{self._where} lacks the table threadkeep.{min(missing)}, as after a broken restore; "
                "restore it from a backup, or start again in an empty database."
            )
            raise StorageError(msg, server=self._where)
        return found

    async def _waiting(self, connection: Connection, found: Found) -> list[Migration]:
        """Return the migrations that are to be run on a schema that is there."""
        if not found.tables:
            return []
        rows = await (await connection.execute(SQL["migrations"])).fetchall()
        applied = [Applied(*row) for row in rows]
        return needed(applied, self._migrations, code=self._code, where=self._where)

    def _require_nothing(self, found: Found, waiting: Sequence[Migration]) -> None:
        if found.tables and not any(migration.stage == "pre" for migration in waiting):
            return
        state = "are older than this Threadkeep needs" if found.tables else "are not there yet"
        msg = (
            f"The tables in {self._where} {state}, and THREADKEEP_MIGRATE is check; run threadkeep storage migrate, "
            "or start one process with THREADKEEP_MIGRATE=auto, as a user that may change them."
        )
        raise StorageVersionError(msg, server=self._where)

    async def _set_up(self) -> Found:
        async with self._pool.setting_up() as connection:
            found = await self._inspect(connection)
            if not found.tables:
                await self._make(connection, found)
            for migration in await self._waiting(connection, found):
                await self._apply(connection, migration)
            found = await self._inspect(connection)
            if found.could_have_roles:
                await self._make_roles(connection, found)
                found = await self._inspect(connection)
            return found

    async def _make(self, connection: Connection, found: Found) -> None:
        try:
            async with connection.transaction():
                if not found.has_schema:
                    await connection.execute(b"CREATE SCHEMA threadkeep")
                await connection.execute(schema_script(self._hash_partitions).encode())
                await connection.execute(SQL["bear"], (new_id(),))
                await connection.execute(SQL["made"], (self._code, "base", self._code))
        except errors.InsufficientPrivilege as error:
            msg = (
                f"{self._where} does not let this user make tables ({error.diag.message_primary}); run as its "
                f'administrator: CREATE SCHEMA threadkeep AUTHORIZATION "{found.user}"'
            )
            raise StorageDeniedError(msg, server=self._where) from error

    async def _apply(self, connection: Connection, migration: Migration) -> None:
        row = (migration.version, migration.stage, migration.serves)
        if not migration.alone:
            async with connection.transaction():
                await connection.execute(_LOCK_TIMEOUT)
                await connection.execute(migration.script.encode())
                await connection.execute(SQL["made"], row)
            return
        await connection.execute(SQL["begun"], row)
        for statement in migration.statements:
            try:
                await connection.execute(statement.encode())
            except errors.Error as error:
                mend = f"{error.diag.message_primary}. Mend that and start again to finish it, or restore a backup"
                raise half_applied(migration.version, migration.stage, self._where, mend=mend) from error
        await connection.execute(SQL["done"], row[:2])

    async def _make_roles(self, connection: Connection, found: Found) -> None:
        """Make the roles as far as this user may, and let them use the tables.

        Roles are the whole server's: other databases' processes may be making them right now.
        """
        for role in (APP, SERVICE):
            if role not in found.roles:
                await _despite_others(connection, sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
            if role not in found.takes_on:
                options = " WITH INHERIT FALSE, SET TRUE" if found.server_version >= 160000 else ""  # noqa: PLR2004
                grant = sql.SQL("GRANT {} TO CURRENT_USER" + options).format(sql.Identifier(role))
                try:
                    await _despite_others(connection, grant)
                except errors.InsufficientPrivilege:  # they are somebody else's; the policies hold the owner, too
                    return
        both = sql.SQL(", ").join([sql.Identifier(APP), sql.Identifier(SERVICE)])
        for grant in _GRANTS:
            await _despite_others(connection, sql.SQL(grant).format(both))

    def _roles(self, found: Found) -> Roles:
        if found.has_roles:
            return Roles(APP, SERVICE)
        grants = f'GRANT {APP}, {SERVICE} TO "{found.user}"'
        if found.bypasses:
            msg = (
                f'The user "{found.user}" of {self._where} passes over row-level security and may not make roles; run '
                f"as its administrator: CREATE ROLE {APP}; CREATE ROLE {SERVICE}; {grants}"
            )
            raise StorageDeniedError(msg, server=self._where)
        if not found.owns:
            msg = (
                f'The tables of {self._where} belong to another user than "{found.user}"; run as their owner: {grants}'
            )
            raise StorageDeniedError(msg, server=self._where)
        return Roles(NOBODY, NOBODY)


_GRANTS: Final = (
    "GRANT USAGE ON SCHEMA threadkeep TO {}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON threadkeep.partitions, threadkeep.items, threadkeep.removals TO {}",
)


def schema_script(hash_partitions: int) -> str:
    """Return the script that makes the schema, with its items spread over *hash_partitions* tables, or in one."""
    plain = (FOLDER / "schema.sql").read_text(encoding="utf-8")
    inline = "ALTER TABLE threadkeep.{} SET (toast_tuple_target = 8160);"
    if not hash_partitions:
        return plain.replace("/* BY HASH */", "").replace("/* PARTITIONS */", inline.format("items"))
    made: list[str] = []
    for table in ("items", "removals"):
        for number in range(hash_partitions):
            values = f"FOR VALUES WITH (MODULUS {hash_partitions}, REMAINDER {number})"
            made.append(f"CREATE TABLE threadkeep.{table}_{number} PARTITION OF threadkeep.{table} {values};")
            if table == "items":
                made.append(inline.format(f"items_{number}"))
    return plain.replace("/* BY HASH */", "PARTITION BY HASH (partition)").replace("/* PARTITIONS */", "\n".join(made))


async def _despite_others(connection: Connection, statement: sql.Composed) -> None:
    """Execute what another database's process may be doing at the same moment."""
    for _ in range(_TRIES):
        try:
            await connection.execute(statement)
        except (errors.DuplicateObject, errors.UniqueViolation):
            return
        except errors.InternalError_:  # "tuple concurrently updated"
            await asyncio.sleep(0.01)
        else:
            return
