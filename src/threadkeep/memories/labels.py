"""Text, tags and metadata of memories: the checks of what an application gives, and how stored labels are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, Final, TypeAlias, cast

from threadkeep.errors import InvalidInputError, TooLargeError

Scalar: TypeAlias = str | int | float | bool | None
Metadata: TypeAlias = Mapping[str, Scalar]
"""Names and JSON values that are no lists or objects."""

MAX_TEXT_CHARACTERS: Final = 8_000
MAX_TAGS: Final = 32
MAX_TAG_CHARACTERS: Final = 64
MAX_METADATA: Final = 32
MAX_METADATA_NAME_CHARACTERS: Final = 64
MAX_METADATA_CHARACTERS: Final = 1_000
_LARGEST_INTEGER: Final = 2**53
"""Larger integers are not the same in every program that reads JSON."""


def check_tags(tags: object, *, redact: Callable[[str], str] = str, name: str = "tags") -> tuple[str, ...]:
    """Return *tags* without white space at their ends, each once, in order.

    Raises:
        InvalidInputError: It is no collection of strings, has too many, or one is empty, too long or has a NUL.
    """
    if isinstance(tags, str | Mapping) or not isinstance(tags, Iterable):
        msg = f"{name} must be a list of strings, got {type(cast('object', tags)).__name__}."
        raise InvalidInputError(msg)
    given = list(cast("Iterable[object]", tags))
    if len(given) > MAX_TAGS:
        msg = f"{name} has {len(given)} tags; at most {MAX_TAGS} are allowed."
        raise InvalidInputError(msg)
    return tuple(dict.fromkeys(redact(_text(tag, f"Each of {name}", MAX_TAG_CHARACTERS).strip()) for tag in given))


def check_metadata(metadata: object, *, redact: Callable[[str], str] = str) -> dict[str, Scalar]:
    """Return *metadata* as a dict.

    Raises:
        InvalidInputError: It is no mapping, has too many names, or a name or value cannot be kept.
    """
    if not isinstance(metadata, Mapping):
        msg = f"metadata must be a mapping of names to values, got {type(metadata).__name__}."
        raise InvalidInputError(msg)
    given = cast("Mapping[object, object]", metadata)
    if len(given) > MAX_METADATA:
        msg = f"metadata has {len(given)} names; at most {MAX_METADATA} are allowed."
        raise InvalidInputError(msg)
    checked: dict[str, Scalar] = {}
    for key, value in given.items():
        key_name = _text(key, "Each name of metadata", MAX_METADATA_NAME_CHARACTERS)
        checked[key_name] = _value(key_name, value, redact)
    return checked


def check_text(text: object) -> str:
    """Return *text* without the space around it.

    Raises:
        InvalidInputError, TooLargeError: It cannot be kept.
    """
    if not isinstance(text, str):
        msg = f"text must be a string, got {type(text).__name__}."
        raise InvalidInputError(msg)
    text = text.strip()
    if not text:
        msg = "The text is empty; pass the statement to remember."
        raise InvalidInputError(msg)
    if len(text) > MAX_TEXT_CHARACTERS:
        msg = (
            f"The text has {len(text):,} characters; a memory is a short statement of at most "
            f"{MAX_TEXT_CHARACTERS:,}. Split it into statements."
        )
        raise TooLargeError(msg, characters=len(text))
    return text


def tags_of(value: object) -> tuple[str, ...]:
    """Return the tags of a stored row; invalid ones are left out, so that one strange row never hides others."""
    tags = cast("list[object]", value) if isinstance(value, list) else []
    return tuple(tag for tag in tags if isinstance(tag, str) and tag)[:MAX_TAGS]


def metadata_of(value: object) -> dict[str, Scalar]:
    """Return the metadata of a stored row; invalid values are left out."""
    rows = dict(cast("Mapping[object, Any]", value)) if isinstance(value, Mapping) else {}
    return {key: one for key, one in rows.items() if isinstance(key, str) and isinstance(one, Scalar)}


def have(metadata: Metadata, wanted: Metadata) -> bool:
    """Return whether *metadata* has all names of *wanted* with equal values; ``True`` does not equal 1."""
    return all(
        name in metadata and metadata[name] == value and isinstance(metadata[name], bool) is isinstance(value, bool)
        for name, value in wanted.items()
    )


def _value(name: str, value: object, redact: Callable[[str], str]) -> Scalar:
    if isinstance(value, str):
        return redact(_text(value, f"The value of {name[:40]!r} in metadata", MAX_METADATA_CHARACTERS, least=0))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and isfinite(value) and abs(value) <= _LARGEST_INTEGER:
        return value
    shown = "a number that JSON cannot hold exactly" if isinstance(value, int | float) else type(value).__name__
    msg = f"The value of {name[:40]!r} in metadata must be a string, a number, true, false or null, got {shown}."
    raise InvalidInputError(msg)


def _text(text: object, what: str, most: int, *, least: int = 1) -> str:
    if not isinstance(text, str) or not least <= len(text.strip() if least else text) <= most or "\0" in text:
        msg = f"{what} must be a string of {least} to {most:,} characters without NUL."
        raise InvalidInputError(msg)
    return text
