"""Statements of somebody who got hold of the application's login in PostgreSQL, and forgot every WHERE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

import psycopg
from psycopg import errors
from psycopg.rows import dict_row
from psycopg.sql import SQL, Identifier

from threadkeep.ids import new_id
from threadkeep.storage.encoding import encode_text, partition_key
from threadkeep.storage.interface import Partition

READING: Final = {
    "everything": "SELECT * FROM threadkeep.items",
    "everybody": "SELECT * FROM threadkeep.partitions",
    "what was removed": "SELECT * FROM threadkeep.removals",
    "the other's rows": "SELECT * FROM threadkeep.items WHERE partition = %(other)s",
    "the other's head": "SELECT * FROM threadkeep.partitions WHERE digest = %(other)s",
    "the other's words": "SELECT * FROM threadkeep.items WHERE value LIKE %(sign)s OR key LIKE %(sign)s",
    "as the service": "SELECT set_config('threadkeep.service', 'on', true), i.* FROM threadkeep.items AS i",
    "the service's work": "SELECT partition FROM threadkeep.items WHERE work IS NOT NULL OR expires_at IS NOT NULL",
}
"""Statements that may return rows of the partition that the transaction is in, and of no other."""

CHANGING: Final = {
    "remove everything": "DELETE FROM threadkeep.items RETURNING *",
    "change everything": "UPDATE threadkeep.items SET value = '{}' RETURNING *",
    "remove the other": "DELETE FROM threadkeep.partitions WHERE digest = %(other)s RETURNING *",
    "remove the other's rows": "DELETE FROM threadkeep.items WHERE partition = %(other)s RETURNING *",
    "change the other's rows": "UPDATE threadkeep.items SET value = '{}' WHERE partition = %(other)s RETURNING *",
    "give one's own to the other": "UPDATE threadkeep.items SET partition = %(other)s RETURNING *",
    "take the other's name": "UPDATE threadkeep.partitions SET digest = %(other)s RETURNING *",
}
"""The same; they are rolled back, so that what one does to oneself is not kept."""

STATEMENTS: Final = {**READING, **CHANGING}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement came to.

    Attributes:
        rows: What it returned.
        strangers: How many of them are of no partition that it may see.
        refused: Whether the database refused it.
    """

    rows: list[dict[str, Any]]
    strangers: int = 0
    refused: bool = False


class RawSql:
    """A login that is a member of the application's role, of nothing else, and owns nothing.

    Args:
        url: The superuser's.
        key_prefix: The deployment's.
    """

    def __init__(self, url: str, key_prefix: str) -> None:
        self._url, self._prefix = url, encode_text(key_prefix)
        self._name = f"stranger_{new_id()}"

    def __enter__(self) -> Self:
        with psycopg.connect(self._url, autocommit=True) as superuser:
            superuser.execute(SQL("CREATE ROLE {} LOGIN IN ROLE threadkeep_app").format(Identifier(self._name)))
        self._connection = psycopg.connect(self._url, user=self._name)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._connection.close()
        with psycopg.connect(self._url, autocommit=True) as superuser:
            superuser.execute(SQL("DROP ROLE {}").format(Identifier(self._name)))

    def ask(self, what: str, *, mine: Partition | None, other: Partition, sign: str, pretending: bool) -> Answer:
        """Run one of :data:`STATEMENTS` in a transaction of the partition *mine*; ``None``: of none.

        Args:
            what: Its name.
            mine: Whose transaction it is.
            other: Somebody else.
            sign: A word that only the other writes.
            pretending: To be the service: the login says so of itself, instead of taking on the application's role.
        """
        seen = self._digest(mine) if mine else None
        begun = "SET LOCAL threadkeep.service = 'on'" if pretending else "SET LOCAL ROLE threadkeep_app"
        try:
            self._connection.execute(begun.encode())
            if seen is not None:
                self._connection.execute("SELECT set_config('threadkeep.partition', %s, true)", (seen.hex(),))
            asked = {"other": self._digest(other), "sign": f"%{sign}%"}
            rows = self._connection.cursor(row_factory=dict_row).execute(STATEMENTS[what].encode(), asked).fetchall()
        except errors.InsufficientPrivilege:
            return Answer([], refused=True)
        except errors.UniqueViolation:  # it came as far as the other's own row
            return Answer([], strangers=1)
        finally:
            self._connection.rollback()
        strangers = sum(row.get("partition", row.get("digest")) != seen for row in rows)
        return Answer(rows, strangers)

    def _digest(self, partition: Partition) -> bytes:
        return partition_key(self._prefix, partition.digest)
