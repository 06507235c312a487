"""Which migrations a PostgreSQL schema needs, and whether this code can work with it at all. Pure rules.

A change of the schema ships as two scripts: ``pre`` adds what the new code needs and leaves the old
code everything that it knows; ``post`` removes what only the old code needed, and is run by the version
after. So a schema of version N serves the code of N and of N-1, and processes can be replaced one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from threadkeep.errors import StorageVersionError

Stage: TypeAlias = Literal["base", "post", "pre"]

SCHEMA_VERSION: Final = 1
"""What ``sql/schema.sql`` makes and this code was written for."""

FOLDER: Final = Path(__file__).with_name("sql")
"""Where this backend's ``.sql`` files are."""

_FILE: Final = re.compile(r"(\d{4})_(pre|post)\.sql")
_ALONE: Final = "-- outside a transaction"


@dataclass(frozen=True, slots=True)
class Migration:
    """A script.

    Attributes:
        version: The schema's, afterwards.
        stage: ``pre`` or ``post``.
        script: Its statements. Where the first line is ``-- outside a transaction``, each is run on its
            own, and all of them again after a failure.
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


class Applied(NamedTuple):
    """A row of ``threadkeep.migrations``; *stage* ``base``: the schema was made at that version."""

    version: int
    stage: Stage
    serves: int
    done: bool


def shipped() -> list[Migration]:
    """Return the migrations that this version ships, in their order."""
    found = [(_FILE.fullmatch(path.name), path) for path in FOLDER.iterdir()]
    migrations = [
        Migration(int(match[1]), "pre" if match[2] == "pre" else "post", path.read_text(encoding="utf-8"))
        for match, path in found
        if match
    ]
    return sorted(migrations, key=_order)


def needed(applied: Sequence[Applied], migrations: Sequence[Migration], *, code: int, where: str) -> list[Migration]:
    """Return what has to be run, in its order, before code of version *code* may work.

    Args:
        applied: What was done to the schema.
        migrations: What this code ships.
        code: The version of this code.
        where: The server, for messages.

    Raises:
        StorageVersionError: The schema is too new, or a migration broke off that this code does not have.
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
    """Return the error for a migration that began and did not end; *mend* says what to do."""
    msg = f"A change of the tables of {where} broke off (version {version}, {stage}); {mend}."
    return StorageVersionError(msg, server=where, version=version)


def _order(migration: Migration) -> tuple[int, bool]:
    return migration.version, migration.stage == "post"
