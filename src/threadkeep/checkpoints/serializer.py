"""The serializer of checkpoints: LangGraph's, strict, with an explicit list of the types it keeps.

An object of a type that is not on the list is refused when it is written, by name: stored and read again it would
come back as a dict. The types of a graph's state are added when the graph is compiled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

import ormsgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from threadkeep.errors import DamagedItemError, InvalidInputError

AllowedType: TypeAlias = type | tuple[str, str]
"""A class, or its module and name."""

_CONSTRUCTORS: Final = frozenset({0, 1, 2, 4, 5})
"""LangGraph's msgpack extensions that name a class to construct (``langgraph.checkpoint.serde.jsonplus``)."""

_ARRAY: Final = 6
"""The extension of numpy arrays."""

_METHOD: Final = 3
"""The extension that names a class and a method of it to call, such as ``datetime.fromisoformat``."""

_LISTS: Final[Mapping[str, Any]] = vars(import_module("langgraph.checkpoint.serde._msgpack"))
_SAFE: Final[Collection[tuple[str, ...]]] = _LISTS.get("SAFE_MSGPACK_TYPES", frozenset())
_SAFE_METHODS: Final[Collection[tuple[str, ...]]] = _LISTS.get("SAFE_MSGPACK_METHODS", frozenset())
"""What LangGraph constructs and calls without being asked to."""


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer that writes and constructs only objects of listed types, and never unpickles.

    Messages, documents, dates and LangGraph's own types are always listed.

    Args:
        allowed_types: Further types.
    """

    def __init__(self, allowed_types: Collection[AllowedType] = ()) -> None:
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=tuple(allowed_types))
        self._accepted: set[tuple[str, str]] = set()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Encode *obj*.

        Raises:
            InvalidInputError: It holds an object of a type that is not listed, or that cannot be encoded.
        """
        try:
            encoding, data = super().dumps_typed(obj)
        except (TypeError, ValueError) as error:  # ormsgpack's error is a TypeError
            msg = f"The state holds a value that a checkpoint cannot keep ({error}); convert it, or leave it out."
            raise InvalidInputError(msg) from error
        if encoding == "msgpack" and _holds_extensions(obj):
            self._unpack(data)
        return encoding, data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode what :meth:`dumps_typed` returned.

        Raises:
            DamagedItemError: It cannot be decoded.
        """
        try:
            return super().loads_typed(data)
        except ormsgpack.MsgpackDecodeError as error:
            msg = "A checkpoint cannot be read: it is damaged; restore it from a backup, or delete it."
            raise DamagedItemError(msg) from error
        except NotImplementedError as error:
            msg = f"A checkpoint is encoded as {data[0][:40]!r}, which is never loaded; only LangGraph's own format is."
            raise DamagedItemError(msg) from error

    def with_msgpack_allowlist(self, extra_allowlist: Any) -> StrictSerializer:
        """Return a serializer that keeps these types, too."""
        clone = cast("StrictSerializer", super().with_msgpack_allowlist(extra_allowlist))
        if clone is not self:
            clone._accepted = set()  # noqa: SLF001 - a copy of this very object
        return clone

    def _require_allowed(self, code: int, data: bytes) -> Any:
        """Check the types within an extension; the return value stands for the object in its surroundings."""
        if code not in _CONSTRUCTORS and code != _METHOD:
            return None if code == _ARRAY else self._unpack(data)
        parts: Any = self._unpack(data)
        named = (str(parts[0]), str(parts[1]))
        if named not in self._accepted:
            allowed: Collection[tuple[str, ...]] = vars(self)["_allowed_msgpack_modules"] or ()
            safe = (*named, str(parts[3])) in _SAFE_METHODS if code == _METHOD else named in _SAFE
            if not safe and (code == _METHOD or named not in allowed):
                raise _refused(*named)
            self._accepted.add(named)
        return None

    def _unpack(self, data: bytes) -> Any:
        return ormsgpack.unpackb(data, ext_hook=self._require_allowed, option=ormsgpack.OPT_NON_STR_KEYS)


_PLAIN: Final = (str, int, float, bool, type(None), bytes)


def _holds_extensions(obj: Any) -> bool:
    """Return whether *obj* may hold more than plain JSON values; a list of plain texts, say, needs no check."""
    if isinstance(obj, _PLAIN):
        return False
    if type(obj) is list or type(obj) is tuple:
        return any(map(_holds_extensions, cast("list[Any]", obj)))
    if type(obj) is dict:
        values: Mapping[Any, Any] = cast("dict[Any, Any]", obj)
        return any(map(_holds_extensions, values.values())) or not all(type(key) is str for key in values)
    return True


def _refused(module: str, name: str) -> InvalidInputError:
    msg = (
        f"The state holds an object of {module}.{name}, a type that checkpoints are not allowed to keep: it would be "
        f"read as a dict. Allow it with threadkeep.open(allowed_types=[{name}]) or THREADKEEP_ALLOWED_TYPES="
        f"{module}:{name}, or name it in the type of the graph's state."
    )
    return InvalidInputError(msg, type=f"{module}.{name}")


def let_graphs_list_their_types() -> None:
    """Make LangGraph tell a checkpointer the types of a graph's state when the graph is compiled.

    By default it does so only if ``LANGGRAPH_STRICT_MSGPACK`` was set before its first import. A checkpointer that is
    not strict ignores the list.

    Source:
        ``langgraph/graph/state.py`` (``compile``) and ``langgraph/pregel/main.py`` of LangGraph 1.2.
    """
    with suppress(ImportError):  # private: without it, ``allowed_types`` still works
        vars(import_module("langgraph._internal._serde"))["STRICT_MSGPACK_ENABLED"] = True
