"""The schema ``threadkeep`` of a PostgreSQL database: creating, migrating and checking it, and its roles.

A change of the schema ships as two scripts: ``pre`` adds what the new code needs and keeps everything that the
old code uses; ``post`` removes what only the old code needed, and the next version runs it. So a schema of
version N serves the code of N and of N-1, and processes can be replaced one by one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import class_row

from threadkeep.errors import (
    NotAStorageError,
    StorageDeniedError,
    StorageError,
    StorageReadOnlyError,
    StorageVersionError,
)
from threadkeep.ids import new_id
from threadkeep.storage.base import read_statements
from threadkeep.storage.postgres.pool import Connection, PostgresPool

Stage: TypeAlias = Literal["base", "post", "pre"]

SCHEMA_VERSION: Final = 2
"""The version that ``sql/schema.sql`` creates and this code uses."""

FOLDER: Final = Path(__file__).with_name("sql")
"""The folder of this backend's ``.sql`` files."""

_FILE: Final = re.compile(r"(\d{4})_(pre|post)\.sql")
_ALONE: Final = "-- outside a transaction"

SQL: Final = {name: text.encode() for name, text in read_statements(FOLDER / "statements.sql").items()}

APP: Final = "threadkeep_app"
SERVICE: Final = "threadkeep_service"
NO_ROLE: Final = "none"
"""The role of a transaction that keeps the role of the user who connected."""

OLDEST_SERVER: Final = 140000
_TABLES: Final = frozenset({"migrations", "birth", "partitions", "items", "removals"})
_TRIES: Final = 10
_LOCK_TIMEOUT: Final = b"SET LOCAL lock_timeout = '5s'"
"""A migration blocks every other session while it waits for a lock, so it must not wait long."""


@dataclass(frozen=True, slots=True)
class PostgresRoles:
    """The roles for one partition, and for all partitions."""

    app: str
    service: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """The state of the server, this user and the schema; the fields are the columns of the statement ``inspect``."""

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
        """Whether this user can take on both roles, and both may use the tables."""
        return len(self.takes_on) == 2 and {APP, SERVICE} <= set(self.granted)  # noqa: PLR2004 - both of them

    @property
    def can_create_roles(self) -> bool:
        """Whether setting up can create the roles."""
        return not self.has_roles and self.owns and (self.makes_roles or len(self.takes_on) == 2)  # noqa: PLR2004


class PostgresSchema:
    """Creates, migrates and checks the schema.

    Args:
        pool: An open pool.
        hash_partitions: How many tables a new schema spreads the items over; 0: one table.
        code: The schema version of the code.
        migrations: By default the shipped ones.
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
        self._migrations = shipped_migrations() if migrations is None else migrations

    async def ready(self) -> tuple[PostgresRoles, str]:
        """Return the roles to work as, and the epoch of partitions that were never erased.

        Missing tables are created and old ones migrated, by one process at a time; with
        ``THREADKEEP_MIGRATE=check`` that is an error.

        Raises:
            StorageVersionError: The schema is too new, too old, or half migrated.
            NotAStorageError: The schema holds other tables.
            StorageDeniedError: This user lacks a right.
            StorageReadOnlyError: The server is read-only.
        """
        async with self._pool.connection() as connection:
            state = await self.inspect(connection)
            pending = await self._pending(connection, state)
        if not state.tables or pending or state.can_create_roles:
            if self._pool.migrate == "auto":
                state = await self._set_up()
            else:
                self._require_nothing(state, pending)
        roles = self._roles(state)
        async with self._pool.connection() as connection:
            ((birth,),) = await (await connection.execute(SQL["birth"])).fetchall()
        return roles, birth

    async def inspect(self, connection: Connection) -> ServerState:
        """Return the state of the server, of this user and of the schema.

        Raises:
            StorageError: The server is too old, or the schema has lost tables.
        """
        cursor = connection.cursor(row_factory=class_row(ServerState))
        state = await (await cursor.execute(SQL["inspect"])).fetchone()
        if state is None or state.server_version < OLDEST_SERVER:
            msg = f"{self._where} is older than PostgreSQL 14; upgrade the server."
            raise StorageError(msg, server=self._where)
        if state.read_only:
            msg = (
                f"{self._where} is read-only, a replica or set so; give the URL of the primary, or let it be "
                "written to."
            )
            raise StorageReadOnlyError(msg, server=self._where)
        missing = _TABLES.difference(state.tables)
        if state.tables and "migrations" in missing:
            msg = (
                f"The schema threadkeep of {self._where} has other tables; it was not touched. "
                "Choose another database, or rename that schema."
            )
            raise NotAStorageError(msg, server=self._where)
        if state.tables and missing:
            msg = (
                f"{self._where} lacks the table threadkeep.{min(missing)}, as after a broken restore; "
                "restore it from a backup, or start again in an empty database."
            )
            raise StorageError(msg, server=self._where)
        return state

    async def admit(self, url: str) -> str:
        """See :meth:`threadkeep.storage.interface.ServerUsers.admit`."""
        name = str(conninfo_to_dict(url).get("user") or "")
        grant = sql.SQL("GRANT {}, {} TO {}").format(*map(sql.Identifier, (APP, SERVICE, name)))
        async with self._pool.setting_up() as connection:
            state = await self.inspect(connection)
            if name in ("", state.user):
                return state.user
            try:
                await _execute_concurrently(connection, grant)
            except errors.Error as error:
                made = "".join([f"CREATE ROLE {role} NOLOGIN; " for role in (APP, SERVICE) if role not in state.roles])
                text = f'{made}GRANT {APP}, {SERVICE} TO "{state.user}" WITH ADMIN OPTION'
                msg = (
                    f'{self._where} does not let "{state.user}" admit "{name}" ({error.diag.message_primary}); '
                    f"run threadkeep migrate again after this, as an administrator: {text}"
                )
                raise StorageDeniedError(msg, server=self._where) from error
        return name

    async def _pending(self, connection: Connection, state: ServerState) -> list[Migration]:
        """Return the migrations that an existing schema needs."""
        if not state.tables:
            return []
        rows = await (await connection.execute(SQL["migrations"])).fetchall()
        applied = [AppliedMigration(*row) for row in rows]
        return needed_migrations(applied, self._migrations, code=self._code, where=self._where)

    def _require_nothing(self, state: ServerState, pending: Sequence[Migration]) -> None:
        if state.tables and not any(migration.stage == "pre" for migration in pending):
            return
        problem = "are older than this Threadkeep needs" if state.tables else "are not there yet"
        msg = (
            f"The tables in {self._where} {problem}, and THREADKEEP_MIGRATE is check; run threadkeep migrate, "
            "or start one process with THREADKEEP_MIGRATE=auto, as a user that may change them."
        )
        raise StorageVersionError(msg, server=self._where)

    async def _set_up(self) -> ServerState:
        async with self._pool.setting_up() as connection:
            state = await self.inspect(connection)
            if not state.tables:
                await self._make(connection, state)
            try:
                for migration in await self._pending(connection, state):
                    await self._apply(connection, migration)
            except errors.InsufficientPrivilege as error:
                msg = (
                    f'{self._where} does not let "{state.user}" migrate the tables ({error.diag.message_primary}); set '
                    "THREADKEEP_MIGRATION_POSTGRES_DSN to the URL of their owner, and run threadkeep migrate."
                )
                raise StorageDeniedError(msg, server=self._where) from error
            state = await self.inspect(connection)
            if state.can_create_roles:
                await self._make_roles(connection, state)
                state = await self.inspect(connection)
            return state

    async def _make(self, connection: Connection, state: ServerState) -> None:
        try:
            async with connection.transaction():
                if not state.has_schema:
                    await connection.execute(b"CREATE SCHEMA threadkeep")
                await connection.execute(schema_script(self._hash_partitions).encode())
                await connection.execute(SQL["bear"], (new_id(),))
                await connection.execute(SQL["made"], (self._code, "base", self._code))
        except errors.InsufficientPrivilege as error:
            msg = (
                f'{self._where} does not let "{state.user}" make tables ({error.diag.message_primary}); set '
                "THREADKEEP_MIGRATION_POSTGRES_DSN to the URL of a user that may, and run threadkeep migrate, or run "
                f'as an administrator: CREATE SCHEMA threadkeep AUTHORIZATION "{state.user}"'
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

    async def _make_roles(self, connection: Connection, state: ServerState) -> None:
        """Create the roles if this user may, and grant them the tables.

        Roles belong to the server: processes of other databases may be creating them at the same time.
        """
        for role in (APP, SERVICE):
            if role not in state.roles:
                await _execute_concurrently(connection, sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
            if role not in state.takes_on:
                options = " WITH INHERIT FALSE, SET TRUE" if state.server_version >= 160000 else ""  # noqa: PLR2004
                grant = sql.SQL("GRANT {} TO CURRENT_USER" + options).format(sql.Identifier(role))
                try:
                    await _execute_concurrently(connection, grant)
                except (
                    errors.InsufficientPrivilege
                ):  # another user owns them; the policies apply to the tables' owner, too
                    return
        both = sql.SQL(", ").join([sql.Identifier(APP), sql.Identifier(SERVICE)])
        for grant in _GRANTS:
            await _execute_concurrently(connection, sql.SQL(grant).format(both))

    def _roles(self, state: ServerState) -> PostgresRoles:
        if state.has_roles:
            return PostgresRoles(APP, SERVICE)
        grants = f'GRANT {APP}, {SERVICE} TO "{state.user}"'
        if state.bypasses:
            msg = (
                f'The user "{state.user}" of {self._where} bypasses row-level security and must not create roles; run '
                f"as an administrator: CREATE ROLE {APP}; CREATE ROLE {SERVICE}; {grants}"
            )
            raise StorageDeniedError(msg, server=self._where)
        if not state.owns:
            msg = (
                f'The tables of {self._where} belong to another user than "{state.user}"; run as their owner: {grants}'
            )
            raise StorageDeniedError(msg, server=self._where)
        return PostgresRoles(NO_ROLE, NO_ROLE)


_GRANTS: Final = (
    "GRANT USAGE ON SCHEMA threadkeep TO {}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON threadkeep.partitions, threadkeep.items, threadkeep.removals TO {}",
)


def schema_script(hash_partitions: int) -> str:
    """Return the script that creates the schema, with its items in *hash_partitions* tables, or in one."""
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


async def _execute_concurrently(connection: Connection, statement: sql.Composed) -> None:
    """Execute a statement that a process of another database may execute at the same time."""
    for _ in range(_TRIES):
        try:
            await connection.execute(statement)
        except (errors.DuplicateObject, errors.UniqueViolation):
            return
        except errors.InternalError_:  # "tuple concurrently updated"
            await asyncio.sleep(0.01)
        else:
            return


@dataclass(frozen=True, slots=True)
class Migration:
    """A migration script.

    Attributes:
        version: The schema's version after it.
        stage: ``pre`` or ``post``.
        script: Its statements. If the first line is ``-- outside a transaction``, each runs on its own, and all of
            them run again after a failure.
    """

    version: int
    stage: Literal["post", "pre"]
    script: str

    @property
    def alone(self) -> bool:
        """Whether it runs outside a transaction, as ``CREATE INDEX CONCURRENTLY`` must."""
        return self.script.startswith(_ALONE)

    @property
    def serves(self) -> int:
        """The oldest code that works with the schema afterwards."""
        return self.version - 1 if self.stage == "pre" else self.version

    @property
    def statements(self) -> list[str]:
        """The statements of a script that runs outside a transaction."""
        return [part for part in re.split(r";\s*\n", self.script.rstrip().removesuffix(";")) if part.strip()]


class AppliedMigration(NamedTuple):
    """A row of ``threadkeep.migrations``; *stage* ``base``: the schema was created at that version."""

    version: int
    stage: Stage
    serves: int
    done: bool


def shipped_migrations() -> list[Migration]:
    """Return the shipped migrations, in their order."""
    files = [(_FILE.fullmatch(path.name), path) for path in FOLDER.iterdir()]
    migrations = [
        Migration(int(match[1]), "pre" if match[2] == "pre" else "post", path.read_text(encoding="utf-8"))
        for match, path in files
        if match
    ]
    return sorted(migrations, key=_order)


def needed_migrations(
    applied: Sequence[AppliedMigration], migrations: Sequence[Migration], *, code: int, where: str
) -> list[Migration]:
    """Return the migrations that code of version *code* needs, in their order.

    Args:
        applied: The migrations that were applied to the schema.
        migrations: The migrations that this code ships.
        code: The version of this code.
        where: The server, for messages.

    Raises:
        StorageVersionError: The schema is too new, or a migration that this code does not have failed halfway.
    """
    serves = max((row.serves for row in applied if row.done), default=0)
    if code < serves:
        msg = (
            f"{where} was set up by a newer Threadkeep (its schema is {max(row.version for row in applied)}, and this "
            f"version knows {code}). Upgrade Threadkeep, or choose another database."
        )
        raise StorageVersionError(msg, server=where)
    done = {(row.version, row.stage) for row in applied if row.done}
    base = max((row.version for row in applied if row.done and row.stage == "base"), default=0)
    known = {(migration.version, migration.stage) for migration in migrations if migration.alone}
    for row in applied:
        if not row.done and row.version <= code and (row.version, row.stage) not in known:
            mend = "this Threadkeep does not have the rest of it: start the one that began it, or restore a backup"
            raise half_applied(row.version, row.stage, where, mend=mend)
    return [
        migration
        for migration in sorted(migrations, key=_order)
        if migration.version > base
        and (migration.version, migration.stage) not in done
        and migration.version <= (code if migration.stage == "pre" else code - 1)
    ]


def half_applied(version: int, stage: str, where: str, *, mend: str) -> StorageVersionError:
    """Return the error for a migration that failed halfway; *mend* says what to do."""
    msg = f"A migration of the tables of {where} failed halfway (version {version}, {stage}): {mend}."
    return StorageVersionError(msg, server=where, version=version)


def _order(migration: Migration) -> tuple[int, bool]:
    return migration.version, migration.stage == "post"
