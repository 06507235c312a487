"""What is invalid in a request, in plain words: the place, its field and what is wanted. Imports no web framework."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

SOURCES: Final = ("body", "path", "query", "header", "cookie")
"""Where a request is invalid; pydantic's places of a request begin with one."""

_WANTED: Final[Mapping[str, str]] = {
    "missing": "is required",
    "extra_forbidden": "is no field of this request",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be a string",
    "string_unicode": "must be a string of whole characters",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "set_type": "must be a list",
    "frozen_set_type": "must be a list",
    "literal_error": "must be {expected}",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "string_too_short": "needs {min_length} or more characters",
    "string_too_long": "may have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "needs {min_length} or more items",
    "too_long": "may have at most {max_length} items",
    "json_invalid": "is not JSON",
    "value_error": "{error}",
}
"""What is wanted, by pydantic's kind of error."""

_MOMENT: Final = "must be a date and a time, such as 2026-11-22T09:30:00Z"
_MUST_BE: Final = "must be "


class InvalidField(NamedTuple):
    """A place in a request that is invalid.

    Attributes:
        at: The names of the fields and the numbers of the items that lead there.
        message: The field and what is wanted, as a sentence.
    """

    at: tuple[str, ...]
    message: str


def invalid_fields(
    errors: Iterable[Mapping[str, Any]], value: object, *, root: str, sources: Collection[str] = ()
) -> list[InvalidField]:
    """Return what is invalid in *value*, without what stands there.

    Pydantic names the branches of a union among the fields; they are left out, and what each branch wants is one
    sentence. A branch that is wrong further inside is the one that was meant.

    Args:
        errors: Those of a ``ValidationError``.
        value: What was validated.
        root: The name of *value* in a sentence.
        sources: What a place may begin with that is no field; *value* is the one that is named body.
    """
    wanted: dict[tuple[str, ...], list[str]] = {}
    for error in errors:
        texts, text = wanted.setdefault(_place(error, value, sources), []), _text(error)
        if text not in texts:
            texts.append(text)
    inner = [place for place in wanted if not any(_contains(place, other) for other in wanted)]
    return [InvalidField(place, f"{_name(place, root, sources)} {_joined(wanted[place])}.") for place in inner]


def _place(error: Mapping[str, Any], value: object, sources: Collection[str]) -> tuple[str, ...]:
    """Return the place of *error* without the labels of pydantic: what is neither a key nor a number of an item."""
    parts = cast("Sequence[str | int]", error["loc"])
    place: list[str] = []
    if parts[:1] and parts[0] in sources:
        if parts[0] != "body":  # a single value
            return tuple(map(str, parts))
        place, parts = ["body"], parts[1:]
    inside: Any = value
    for number, part in enumerate(parts):
        is_missing = error["type"] == "missing" and number == len(parts) - 1
        if isinstance(inside, Mapping) and part in inside:
            inside = cast("Mapping[object, object]", inside)[part]
        elif isinstance(inside, list) and isinstance(part, int) and part < len(cast("list[object]", inside)):
            inside = cast("list[object]", inside)[part]
        elif not is_missing:
            continue
        place.append(str(part))
    return tuple(place)


def _contains(place: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return len(other) > len(place) and other[: len(place)] == place


def _text(error: Mapping[str, Any]) -> str:
    kind, context = error["type"], cast("Mapping[str, Any]", error.get("ctx") or {})
    if kind.startswith(("datetime", "date_", "timezone")):
        return _MOMENT
    text = _WANTED.get(kind, "is invalid").format_map({**context, "error": str(context.get("error", "is invalid"))})
    return text.replace("False", "false").replace("True", "true")


def _name(place: tuple[str, ...], root: str, sources: Collection[str]) -> str:
    fields = place[1:] if place[:1] and place[0] in sources else place
    return ".".join(fields) or root


def _joined(texts: Sequence[str]) -> str:
    if all(text.startswith(_MUST_BE) for text in texts):
        return _MUST_BE + " or ".join(text.removeprefix(_MUST_BE) for text in texts)
    return ", or ".join(texts)
