"""A SQLite file written anew after something was erased from it."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import Final

log: Final = logging.getLogger("threadkeep")

REWRITE_BYTES: Final = 256 * 1024 * 1024
"""Up to this size a file is written anew after an erasure."""


def rewrite(connection: sqlite3.Connection, path: Path) -> None:
    """Write the file at *path* anew, so that no page holds what was deleted from it.

    ``secure_delete`` overwrites a row where it is deleted, and not what is left of it in a page from which
    SQLite had moved it before. A file of more than 256 MB would keep writers waiting for too long: the log says so.

    Args:
        connection: One to it, in no transaction.
        path: The file.
    """
    size = path.stat().st_size
    if size > REWRITE_BYTES:
        log.warning("%s has %d MB: run VACUUM on it when nobody waits, to rid it of moved rows.", path, size >> 20)
        return
    try:
        connection.execute("VACUUM")
    except sqlite3.OperationalError as error:
        log.warning("%s could not be written anew (%s); run VACUUM on it to rid it of moved rows.", path, error)
