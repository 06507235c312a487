"""Extraction schemas of an application: fields that a model fills for each fact, kept as the memory's metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model

from threadkeep.errors import InvalidInputError
from threadkeep.memories.labels import MAX_METADATA, MAX_METADATA_CHARACTERS

_TYPES: Final[Mapping[str, Any]] = {
    "string": Annotated[str, Field(max_length=MAX_METADATA_CHARACTERS)],
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": NoneType,
}
_SCALARS: Final = (str, int, float, bool, NoneType)
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


def parse_schema(schema: object) -> type[BaseModel]:
    """Return the model of the fields: *schema* itself, or one made from a JSON schema.

    Args:
        schema: A pydantic model, or a JSON schema of an object. Its fields are strings, numbers, truth values, ``null``
            and fixed choices of these; their descriptions are shown to the extraction model.

    Raises:
        InvalidInputError: It is neither, has no or too many fields, or a field of another type; the message names it.
    """
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        model = schema
    elif isinstance(schema, Mapping):
        model = _from_json_schema(cast("Mapping[str, Any]", schema))
    else:
        msg = (
            f"extraction_schema must be a pydantic model or a JSON schema, got {type(cast('object', schema)).__name__}."
        )
        raise InvalidInputError(msg)
    if not 0 < len(model.model_fields) <= MAX_METADATA:
        msg = f"extraction_schema must have 1 to {MAX_METADATA} fields, got {len(model.model_fields)}."
        raise InvalidInputError(msg)
    for name, field in model.model_fields.items():
        if _NAME.fullmatch(name) is None or not _is_scalar(field.annotation):
            raise _bad_field(name)
    return model


def instructions_for(fields: type[BaseModel]) -> str:
    """Return what the model is told about *fields*, for providers that are not given the schema."""
    shown = json.dumps(fields.model_json_schema(), ensure_ascii=False, sort_keys=True)
    return f"- `fields` of each fact is an object of this JSON schema, filled from the user's words only: {shown}"


def _from_json_schema(schema: Mapping[str, Any]) -> type[BaseModel]:
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        msg = 'extraction_schema must be a JSON schema of an object: {"type": "object", "properties": {…}}.'
        raise InvalidInputError(msg)
    required = schema.get("required", ())
    fields: dict[str, Any] = {}
    for name, property_schema in cast("Mapping[str, Any]", properties).items():
        if not isinstance(name, str) or _NAME.fullmatch(name) is None or not isinstance(property_schema, Mapping):
            raise _bad_field(name)
        told = cast("Mapping[str, Any]", property_schema)
        described = Field(description=str(told.get("description", "")) or None)
        kind = _type_of(name, told)
        fields[name] = (kind, described) if name in required else (kind | None, described)
    return create_model("Fields", __config__=ConfigDict(extra="forbid", strict=True), **fields)


def _type_of(name: str, schema: Mapping[str, Any]) -> Any:
    choices = schema.get("enum")
    if isinstance(choices, list) and choices and all(isinstance(one, _SCALARS) for one in cast("list[Any]", choices)):
        return Literal[tuple(cast("list[Any]", choices))]
    types = schema.get("type")
    named = cast("list[Any]", types) if isinstance(types, list) else [types]
    known = [_TYPES[one] for one in named if isinstance(one, str) and one in _TYPES]
    if not known or len(known) < len(named):
        raise _bad_field(name)
    return Union[tuple(known)]  # noqa: UP007 - of types that are read at run time


def _is_scalar(annotation: Any) -> bool:
    """Return whether values of *annotation* are JSON values that are no lists or objects."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _is_scalar(get_args(annotation)[0])
    if origin is Literal:
        return all(isinstance(one, _SCALARS) for one in get_args(annotation))
    if origin in (Union, UnionType):
        return all(map(_is_scalar, get_args(annotation)))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return all(isinstance(one.value, _SCALARS) for one in annotation)
    return annotation in _SCALARS


def _bad_field(name: object) -> InvalidInputError:
    return InvalidInputError(
        f"The field {str(name)[:40]!r} of extraction_schema must have a name of letters, digits and _, and be a "
        "string, a number, true or false, null, or a fixed choice of these."
    )
