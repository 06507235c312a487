"""Files of data sets: read once, with their digest, and refused with a sentence that says what they must be."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from threadkeep.errors import InvalidInputError

T = TypeVar("T")

Row: TypeAlias = Mapping[str, Any]
"""One element of a file's list, as JSON has it."""


def read_rows(path: Path, read: Callable[[Row, int], T], *, name: str, form: str) -> tuple[list[T], str]:
    """Read a file that is a JSON list of objects.

    Args:
        path: The file.
        read: Reads one object, given its place in the list; what is missing or wrong surfaces as its error.
        name: Of the data set, for people.
        form: What each object must hold, for people.

    Returns:
        What *read* returned for each, at least one, and the SHA-256 of the file, hexadecimal.

    Raises:
        InvalidInputError: The file cannot be read, or it is of another form; the message says what is wrong.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}."
        raise InvalidInputError(msg) from error
    try:
        found = [read(row, place) for place, row in enumerate(_rows(content))]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        msg = f"{path} is not a {name} file ({reason}); it must be a JSON list of {form}."
        raise InvalidInputError(msg) from error
    if not found:
        msg = f"{path} holds no conversations."
        raise InvalidInputError(msg)
    return found, hashlib.sha256(content).hexdigest()


def _rows(content: bytes) -> Sequence[Row]:
    rows = json.loads(content)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in cast("list[Any]", rows)):
        msg = "it holds no list of objects"
        raise ValueError(msg)
    return cast("Sequence[Row]", rows)
