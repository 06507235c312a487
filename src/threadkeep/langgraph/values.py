"""What may be stored as a value: JSON, copied, so that nothing the caller does later changes it. Pure rules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.storage.encoding import MAX_VALUE_DEPTH
from threadkeep.storage.port import MAX_VALUE_BYTES

_Path: TypeAlias = tuple[str | int, ...]


def json_copy(value: Any) -> dict[str, Any]:
    """Return a deep copy of the mapping *value* that holds nothing but JSON.

    Mappings become objects, tuples lists; subclasses of texts and numbers (enumerations among them)
    become what they are made of.

    Raises:
        InvalidInputError: Something in it is no JSON; the message names where it stands.
        TooLargeError: It has more parts than can be stored.
    """
    if not isinstance(value, Mapping):
        msg = f"A value is a mapping with text keys, not {type(value).__name__}."
        raise InvalidInputError(msg)
    return _Copying().of_object(cast("Mapping[Any, Any]", value), ())


class _Copying:
    """One copy; counts its parts, so that a value that holds one list very often ends in a sentence."""

    def __init__(self) -> None:
        self._parts = 0

    def of_object(self, value: Mapping[Any, Any], path: _Path) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        for key, field in value.items():
            if not isinstance(key, str):
                msg = f"{_place(path)} has a key that is {type(key).__name__}; JSON keys are texts."
                raise InvalidInputError(msg)
            name = str.__str__(key)
            copy[name] = self._of(field, (*path, name))
        return copy

    def _of(self, value: Any, path: _Path) -> Any:
        self._parts += 1
        if self._parts > MAX_VALUE_BYTES:  # a part takes a byte at least
            msg = f"The value takes more than {MAX_VALUE_BYTES:,} bytes as JSON. Split it."
            raise TooLargeError(msg)
        if len(path) >= MAX_VALUE_DEPTH:
            msg = f"The value is nested deeper than {MAX_VALUE_DEPTH} levels, or holds itself. Flatten it."
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
                return self.of_object(cast("Mapping[Any, Any]", value), path)
            case list() | tuple():
                elements = cast("list[Any] | tuple[Any, ...]", value)
                return [self._of(element, (*path, place)) for place, element in enumerate(elements)]
            case _:
                kind = f"{type(value).__name__}, which JSON has no word for"
        msg = f"{_place(path)} is {kind}; store text, numbers, true, false, null, lists and objects of them."
        raise InvalidInputError(msg)


def _place(path: _Path) -> str:
    """Spell *path* as a place in the value; field names only, never what is stored there."""
    spelled = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:80]}" for step in path)
    return f"value{spelled[:400]}"
