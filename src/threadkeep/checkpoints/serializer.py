"""The serializer of checkpoints: LangGraph's, strict, with an explicit list of the types it keeps.

An object of a type that is not on the list is refused when it is written, by name: stored and read again it would
come back as a dict. The types of a graph's state are added when the graph is compiled.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from enum import Enum
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

import ormsgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.jsonplus import _create_msgpack_ext_hook as create_hook  # pyright: ignore[reportPrivateUsage]

from threadkeep.errors import DamagedItemError, InvalidInputError

AllowedType: TypeAlias = type | tuple[str, str]
"""A class, or its module and name."""

_CONSTRUCTORS: Final = frozenset({0, 1, 2, 4, 5})
"""LangGraph's msgpack extensions that name a class to construct (``langgraph.checkpoint.serde.jsonplus``)."""

_EXTENSIONS: Final = (*range(0xC7, 0xCA), *range(0xD4, 0xD9))
"""The bytes that an extension begins with in msgpack; other data seldom holds one of them. A megabyte is searched for
all of them in 0.3 ms, by a regular expression in 9 ms."""

_ARRAY: Final = 6
"""The extension of numpy arrays."""

_METHOD: Final = 3
"""The extension that names a class and a method of it to call, such as ``datetime.fromisoformat``."""

_FIXED_TEXT: Final = 0xA0
_SHORT_TEXT: Final = 0xD9
"""How msgpack marks a text of up to 31 bytes (the length is added), and of up to 255 (the length follows)."""

_NEVER: Final = ("threadkeep", "")
"""Makes the list of types a set of its own, also where no type is listed."""

_LISTS: Final[Mapping[str, Any]] = vars(import_module("langgraph.checkpoint.serde._msgpack"))
_SAFE: Final[Collection[tuple[str, ...]]] = _LISTS.get("SAFE_MSGPACK_TYPES", frozenset())
_SAFE_METHODS: Final[Collection[tuple[str, ...]]] = _LISTS.get("SAFE_MSGPACK_METHODS", frozenset())
"""What LangGraph constructs and calls without being asked to."""


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer that writes objects of listed types only, imports nothing and never unpickles.

    Messages, documents, dates and LangGraph's own types are always listed. What was written with a longer list, by a
    process that knew an agent's ``response_format`` say, is read as it was if its class is a dataclass, an enum or a
    pydantic model that this process has imported already; anything else is an error that names the type.

    Args:
        allowed_types: Further types.
    """

    def __init__(self, allowed_types: Collection[AllowedType] = ()) -> None:
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=(_NEVER, *allowed_types))
        self._check_types_read()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Encode *obj*.

        Raises:
            InvalidInputError: It holds an object of a type that is not listed, or that cannot be encoded.
        """
        try:
            encoding, data = super().dumps_typed(obj)
        except (TypeError, ValueError) as error:  # ormsgpack's error is a TypeError
            msg = f"The state has a value that a checkpoint cannot store ({error}); convert it, or leave it out."
            raise InvalidInputError(msg) from error
        if encoding == "msgpack":
            for byte in _EXTENSIONS:
                if byte in data:
                    self._require_allowed(data)
                    break
        return encoding, data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode what :meth:`dumps_typed` returned.

        Raises:
            DamagedItemError: It cannot be decoded, or holds an object of a type that this process must not construct.
        """
        try:
            return super().loads_typed(data)
        except ormsgpack.MsgpackDecodeError as error:
            unknown = vars(self).pop("_unknown", None)
            msg = "A checkpoint is damaged and cannot be read: restore it from a backup, or delete it."
            raise DamagedItemError(_how_to_allow(*unknown) if unknown else msg) from error
        except NotImplementedError as error:
            msg = f"A checkpoint is encoded as {data[0][:40]!r}, which is never loaded; only LangGraph's own format is."
            raise DamagedItemError(msg) from error

    def with_msgpack_allowlist(self, extra_allowlist: Any) -> StrictSerializer:
        """Return a serializer that keeps these types, too."""
        clone = cast("StrictSerializer", super().with_msgpack_allowlist(extra_allowlist))
        if clone is not self:
            clone._check_types_read()  # noqa: SLF001 - a copy of this very object
        return clone

    def allow(self, *types: type) -> None:
        """Keep objects of these types from now on."""
        self._listed.update((one.__module__, one.__name__) for one in types)

    def _check_types_read(self) -> None:
        """Put a check of the type in front of LangGraph's hook that constructs objects."""
        # The types that are allowed; LangGraph's hook looks into the same set.
        listed: set[tuple[str, ...]] = vars(self)["_allowed_msgpack_modules"]
        self._listed = listed
        construct: Callable[[int, bytes], Any] = create_hook(listed)

        def hook(code: int, data: bytes) -> Any:
            if code in _CONSTRUCTORS:
                named = _type_of(data)
                if named not in _SAFE and named not in listed:
                    if not _is_known_data_class(*named):
                        vars(self)["_unknown"] = named  # ormsgpack replaces the error by one of its own
                        raise ValueError(named)
                    listed.add(named)
            return construct(code, data)

        vars(self)["_unpack_ext_hook"] = hook

    def _require_allowed(self, data: bytes) -> None:
        """Check the types of all objects in encoded *data*.

        Raises:
            InvalidInputError: One is not allowed.
        """
        listed, refused = self._listed, list[tuple[str, str]]()

        def hook(code: int, part: bytes) -> None:
            if code == _ARRAY:
                return
            inner: Any = ormsgpack.unpackb(part, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)
            if code in _CONSTRUCTORS or code == _METHOD:
                named = (str(inner[0]), str(inner[1]))
                safe = (*named, str(inner[3])) in _SAFE_METHODS if code == _METHOD else named in _SAFE
                if not safe and (code == _METHOD or named not in listed):
                    refused.append(named)

        ormsgpack.unpackb(data, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)
        if refused:
            raise InvalidInputError(_how_to_allow(*refused[-1]), type=".".join(refused[-1]))


def _type_of(data: bytes) -> tuple[str, str]:
    """Return the module and name that an extension begins with, without decoding the rest."""
    texts: list[str] = []
    position = 1
    for _ in range(2):
        head = data[position]
        if _FIXED_TEXT <= head < _FIXED_TEXT + 32:
            length, position = head - _FIXED_TEXT, position + 1
        elif head == _SHORT_TEXT:
            length, position = data[position + 1], position + 2
        else:
            return "?", "?"
        texts.append(data[position : position + length].decode("utf-8", "replace"))
        position += length
    return texts[0], texts[1]


def _is_known_data_class(module: str, name: str) -> bool:
    """Return whether an imported module has this class, and it only holds data."""
    found: object = getattr(sys.modules.get(module), name, None)
    if not isinstance(found, type):
        return False
    kept = cast("type[Any]", found)
    return dataclasses.is_dataclass(kept) or issubclass(kept, Enum) or hasattr(kept, "model_validate")


def _how_to_allow(module: str, name: str) -> str:
    return (
        f"The state holds an object of {module}.{name}, a type that checkpoints are not allowed to keep: it would be "
        f"read as plain data. Allow it with threadkeep.open(allowed_types=[{name}]) or THREADKEEP_ALLOWED_TYPES="
        f"{module}:{name}, or name it in the type of the graph's state."
    )


def patch_type_allowlist() -> None:
    """Make LangGraph tell a checkpointer the types of a graph's state when the graph is compiled.

    By default it does so only if ``LANGGRAPH_STRICT_MSGPACK`` was set before its first import. A checkpointer that is
    not strict ignores the list.

    Source:
        ``langgraph/graph/state.py`` (``compile``) and ``langgraph/pregel/main.py`` of LangGraph 1.2.
    """
    with suppress(ImportError):  # private: without it, ``allowed_types`` still works
        vars(import_module("langgraph._internal._serde"))["STRICT_MSGPACK_ENABLED"] = True
