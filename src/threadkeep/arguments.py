"""Check the arguments of public methods: one sentence says which is wrong, and what to pass."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from operator import index
from typing import Final, SupportsIndex, TypeVar, cast

from threadkeep.errors import InvalidInputError

T = TypeVar("T")

_LONGEST_AGE: Final = timedelta(days=365_000)
"""More than that before now is no date."""


def checked_count(value: object, name: str, *, least: int = 0) -> int:
    """Return a number of things as an int; it may be one of numpy.

    Raises:
        InvalidInputError: It is no whole number, or below *least*.
    """
    if not isinstance(value, SupportsIndex) or isinstance(value, bool):
        msg = f"{name} must be a whole number, got {type(value).__name__}."
        raise InvalidInputError(msg)
    if (count := index(value)) < least:
        msg = f"{name} must be {least} or more, got {count}."
        raise InvalidInputError(msg)
    return count


def check_string(value: object, name: str) -> None:
    """Check a text that may be empty.

    Raises:
        InvalidInputError: It is no string.
    """
    if not isinstance(value, str):
        msg = f"{name} must be a string, got {type(value).__name__}."
        raise InvalidInputError(msg)


def check_object(value: object, name: str, kind: type) -> None:
    """Check an object of ours.

    Raises:
        InvalidInputError: It is no *kind*.
    """
    if not isinstance(value, kind):
        msg = f"{name} must be a {kind.__name__} object, got {type(value).__name__}."
        raise InvalidInputError(msg)


def check_age(value: object, name: str = "older_than") -> None:
    """Check how old something is.

    Raises:
        InvalidInputError: It is no ``timedelta``, negative, or longer than a thousand years.
    """
    if not isinstance(value, timedelta):
        msg = f"{name} must be a timedelta, got {type(value).__name__}: pass timedelta(days=…)."
        raise InvalidInputError(msg)
    if not timedelta(0) <= value <= _LONGEST_AGE:
        msg = f"{name} must be 0 or more, and 365,000 days at most."
        raise InvalidInputError(msg)


def check_moment(value: object, name: str) -> None:
    """Check a time.

    Raises:
        InvalidInputError: It has no time zone, or is outside the years 1 to 9999 in UTC, in which times are kept.
    """
    if not isinstance(value, datetime) or value.tzinfo is None:
        msg = f"{name} must be a datetime with a time zone, e.g. datetime.now(UTC)."
        raise InvalidInputError(msg)
    try:
        value.astimezone(UTC)
    except OverflowError as error:
        msg = f"{name} must be in the years 1 to 9999 in UTC, got {value.isoformat()}."
        raise InvalidInputError(msg) from error


def checked_list(values: object, name: str, kind: type[T]) -> list[T]:
    """Return *values* as a list: an iterator is read once, here. A single text is no list of its letters.

    Raises:
        InvalidInputError: They cannot be iterated, or one of them is no *kind*.
    """
    is_list = isinstance(values, Iterable) and not isinstance(values, str | bytes)
    items: list[object] = list(cast("Iterable[object]", values)) if is_list else [values]
    wrong = [item for item in items if not (is_list and isinstance(item, kind))]
    if wrong:
        what = "strings" if kind is str else f"{kind.__name__} objects"
        msg = f"{name} must be a list of {what}, got {type(wrong[0]).__name__}."
        raise InvalidInputError(msg)
    return cast("list[T]", items)


def check_timeout(timeout: object) -> None:
    """Check the *timeout* of a call.

    Raises:
        InvalidInputError: It is a number, or something else.
    """
    if not isinstance(timeout, timedelta):
        msg = f"timeout must be a timedelta, got {type(timeout).__name__}: pass timedelta(seconds=…)."
        raise InvalidInputError(msg)
