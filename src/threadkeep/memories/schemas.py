"""Schemas of an application for the fields of memories: pydantic models and JSON schemas of flat objects."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

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


def parse_schema(schema: object, *, origin: str = "extraction_schema") -> type[BaseModel]:
    """Return the model of the fields: *schema* itself, or one made from a JSON schema.

    Args:
        schema: A pydantic model, or a JSON schema of an object. Its fields are strings, numbers, truth values, ``null``
            and fixed choices of these; their descriptions are shown to the extraction model.
        origin: What errors call it.

    Raises:
        InvalidInputError: It is neither, has no or too many fields, or a field of another type; the message names it.
    """
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        model = schema
    elif isinstance(schema, Mapping):
        model = _from_json_schema(cast("Mapping[str, Any]", schema), origin)
    else:
        msg = f"{origin} must be a pydantic model or a JSON schema, got {type(cast('object', schema)).__name__}."
        raise InvalidInputError(msg)
    if not 0 < len(model.model_fields) <= MAX_METADATA:
        msg = f"{origin} must have 1 to {MAX_METADATA} fields, got {len(model.model_fields)}."
        raise InvalidInputError(msg)
    for name, field in model.model_fields.items():
        if _NAME.fullmatch(name) is None or not _is_scalar(field.annotation):
            raise _bad_field(name, origin)
    return model


def _from_json_schema(schema: Mapping[str, Any], origin: str) -> type[BaseModel]:
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        msg = f'{origin} must be a JSON schema of an object: {{"type": "object", "properties": {{…}}}}.'
        raise InvalidInputError(msg)
    required = schema.get("required", ())
    fields: dict[str, Any] = {}
    for name, property_schema in cast("Mapping[str, Any]", properties).items():
        if not isinstance(name, str) or _NAME.fullmatch(name) is None or not isinstance(property_schema, Mapping):
            raise _bad_field(name, origin)
        told = cast("Mapping[str, Any]", property_schema)
        described = Field(description=str(told.get("description", "")) or None)
        if (kind := _type_of(told)) is None:
            raise _bad_field(name, origin)
        fields[name] = (kind, described) if name in required else (kind | None, described)
    return create_model("Fields", __config__=ConfigDict(extra="forbid", strict=True), **fields)


def _type_of(schema: Mapping[str, Any]) -> Any:
    """Return the type of a property; ``None``: it is none that metadata can hold."""
    choices = schema.get("enum")
    if isinstance(choices, list) and choices and all(isinstance(one, _SCALARS) for one in cast("list[Any]", choices)):
        return Literal[tuple(cast("list[Any]", choices))]
    types = schema.get("type")
    named = cast("list[Any]", types) if isinstance(types, list) else [types]
    known = [_TYPES[one] for one in named if isinstance(one, str) and one in _TYPES]
    if not known or len(known) < len(named):
        return None
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


def _bad_field(name: object, origin: str) -> InvalidInputError:
    return InvalidInputError(
        f"The field {str(name)[:40]!r} of {origin} must have a name of letters, digits and _, and be a "
        "string, a number, true or false, null, or a fixed choice of these."
    )


def check_fields(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of *model* filled from *values*, as JSON values; other names of *values* are left out.

    A missing field that may be ``null`` is ``null``.

    Raises:
        ValueError: A field is missing or invalid; one sentence that names it and quotes no value.
    """
    given = {name: values.get(name) for name, one in model.model_fields.items() if name in values or _may_be_null(one)}
    try:
        return model.model_validate_json(json.dumps(given), by_alias=False, by_name=True).model_dump(mode="json")
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        msg = f"{'.'.join(map(str, first['loc']))[:64] or 'fields'}: {first['msg'][:200]}"
        raise ValueError(msg) from None


def _may_be_null(field: FieldInfo) -> bool:
    """Return whether *field* is missing in what an application gives without harm: it may be ``null``."""
    return field.is_required() and NoneType in get_args(field.annotation)
