"""What may be stored as a value: JSON, copied, so that nothing the caller does later changes it. Pure rules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, cast

from threadkeep.errors import InvalidInputError

MAX_DEPTH: Final = 200
"""Objects and lists inside each other; JSON parsers and databases stop somewhere above."""


def json_copy(value: Any) -> dict[str, Any]:
    """Return a deep copy of the mapping *value* that holds nothing but JSON.

    Mappings become objects, tuples lists; subclasses of texts and numbers (enumerations among them)
    become what they are made of.

    Raises:
        InvalidInputError: Something in it is no JSON; the message names where it stands.
    """
    if not isinstance(value, Mapping):
        msg = f"A value is a mapping with text keys, not {type(value).__name__}."
        raise InvalidInputError(msg)
    return _object(cast("Mapping[Any, Any]", value), ())


def _object(value: Mapping[Any, Any], path: tuple[str | int, ...]) -> dict[str, Any]:
    copy: dict[str, Any] = {}
    for key, field in value.items():
        if type(key) is not str:
            if not isinstance(key, str):
                msg = f"{_place(path)} has a key that is {type(key).__name__}; JSON keys are texts."
                raise InvalidInputError(msg)
            key = str.__str__(key)  # noqa: PLW2901 - the same key, as the plain text that it is
        copy[key] = _copy(field, (*path, key))
    return copy


def _copy(value: Any, path: tuple[str | int, ...]) -> Any:
    if len(path) > MAX_DEPTH:
        msg = f"The value is nested deeper than {MAX_DEPTH} levels, or holds itself."
        raise InvalidInputError(msg)
    match value:
        case bool() | None:
            return value
        case str():
            return str.__str__(value)
        case int():
            return int(value)
        case float():
            if math.isfinite(value):
                return float(value)
            kind = "not a finite number"
        case Mapping():
            return _object(cast("Mapping[Any, Any]", value), path)
        case list() | tuple():
            elements = cast("list[Any] | tuple[Any, ...]", value)
            return [_copy(element, (*path, place)) for place, element in enumerate(elements)]
        case _:
            kind = f"{type(value).__name__}, which JSON has no word for"
    msg = f"{_place(path)} is {kind}; store text, numbers, true, false, null, lists and objects of them."
    raise InvalidInputError(msg)


def _place(path: tuple[str | int, ...]) -> str:
    """Spell *path* as a place in the value; field names only, never what is stored there."""
    spelled = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:80]}" for step in path)
    return f"value{spelled[:400]}"
