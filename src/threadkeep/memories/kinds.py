"""The kinds of memory: the three built-in ones, and those that an application adds."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeGuard, TypeVar, cast

from threadkeep.errors import InvalidInputError
from threadkeep.memories.labels import Metadata, check_metadata
from threadkeep.text.facts import is_standing

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel

Kind: TypeAlias = str
"""``semantic``, ``episodic``, ``procedural``, or the name of a :class:`MemoryKind`."""

MAX_KINDS: Final = 16
MAX_DESCRIPTION_CHARACTERS: Final = 400
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")


class Named(Protocol):
    """What an application declares by a name."""

    @property
    def name(self) -> str:
        """Its key."""
        ...


N = TypeVar("N", bound=Named)


@dataclass(frozen=True, slots=True)
class MemoryKind:
    """One kind of memory.

    Attributes:
        name: Its key: lower-case letters, digits and ``_``, at most 32, the first a letter.
        description: Which statements are of this kind, in a sentence of at most 400 characters. The extractors
            with a model show it to the model.
        schema: The fields of such a memory, kept as its metadata: a pydantic model or a JSON schema; ``None``: none.
    """

    name: Kind
    description: str
    schema: type[BaseModel] | Mapping[str, Any] | None = field(default=None, hash=False)

    def shown(self) -> dict[str, Any]:
        """Return ``name``, ``description`` and, as a JSON schema or ``None``, ``schema``."""
        schema = self.schema
        told = schema if schema is None or isinstance(schema, Mapping) else schema.model_json_schema()
        return {"name": self.name, "description": self.description, "schema": told}


BUILT_IN: Final = (
    MemoryKind("semantic", "A fact."),
    MemoryKind("episodic", "What happened in a turn."),
    MemoryKind("procedural", "How to behave."),
)
BUILT_IN_NAMES: Final[tuple[Kind, ...]] = tuple(one.name for one in BUILT_IN)
_RESERVED: Final = frozenset({*BUILT_IN_NAMES, "user", "assistant", "agent", "tool", "document", "import", "memory"})
"""Names that have a meaning in policies and in stored rows."""


def is_kind(name: object) -> TypeGuard[Kind]:
    """Return whether *name* can be a kind, known here or not."""
    return isinstance(name, str) and (name in BUILT_IN_NAMES or _NAME.fullmatch(name) is not None)


def family(kind: Kind) -> Kind:
    """Return the built-in kind that *kind* is treated like: a kind of an application holds facts."""
    return kind if kind in BUILT_IN_NAMES else "semantic"


def ruled_kind(kind: Kind, text: str) -> Kind:
    """Return the kind that decides about approval: a statement of any kind that says how to behave is procedural."""
    return "procedural" if kind != "episodic" and is_standing(text) else kind


class Kinds:
    """The kinds that a client knows.

    Args:
        own: Those of the application.

    Raises:
        InvalidInputError: One of them is invalid; the message names it.
    """

    def __init__(self, own: object = ()) -> None:
        self.own: Final = _checked(own)
        self.all: Final = (*BUILT_IN, *self.own)
        self.names: Final[tuple[Kind, ...]] = tuple(one.name for one in self.all)
        self.fields: Final = {one.name: _fields(one) for one in self.own if one.schema is not None}
        """The models of the fields, by kind."""

    def require(self, kind: object) -> None:
        """Check that *kind* is known.

        Raises:
            InvalidInputError: It is not; the message names those that are.
        """
        if kind not in self.names:
            msg = (
                f"The kind of a memory must be one of {', '.join(self.names)}, not {str(kind)[:40]!r}; add your own by "
                "threadkeep.open(kinds=[…]) or THREADKEEP_KINDS."
            )
            raise InvalidInputError(msg, kind=str(kind)[:40])

    def check_metadata(self, kind: Kind, metadata: Metadata) -> Metadata:
        """Return *metadata* with the fields of *kind* checked by its schema; other names stay.

        Raises:
            InvalidInputError: The kind is unknown, or a field is missing or invalid; the message names it.
        """
        self.require(kind)
        model = self.fields.get(kind)
        if model is None:
            return metadata
        from threadkeep.memories.schemas import check_fields

        given = check_metadata(metadata)
        try:
            return {**given, **check_metadata(check_fields(model, given))}
        except ValueError as error:
            msg = f"metadata of the kind {kind!r} is invalid: {error}."
            raise InvalidInputError(msg, kind=kind) from None


def read_kinds(path: Path) -> Kinds:
    """Read the kinds that a TOML file declares: a table for each, with ``description`` and perhaps ``schema``.

    Raises:
        InvalidInputError: The file cannot be read, or declares something else; one sentence that names the kind.
    """
    try:
        document = tomllib.loads(path.expanduser().read_text("utf-8"))
    except OSError as error:
        msg = f"it cannot be read ({type(error).__name__})."
        raise InvalidInputError(msg) from None
    except ValueError as error:  # TOML's own errors, and bytes that are no UTF-8; neither quotes a value
        msg = f"it is not a valid TOML file ({error})."
        raise InvalidInputError(msg) from None
    return Kinds([_declared(name, table) for name, table in document.items()])


def _declared(name: str, table: object) -> MemoryKind:
    if not isinstance(table, Mapping) or not {"description"} <= table.keys() <= {"description", "schema"}:
        msg = f"the kind {name[:40]!r} must be a table with description, and perhaps schema."
        raise InvalidInputError(msg)
    fields = cast("Mapping[str, Any]", table)
    return MemoryKind(name, fields["description"], fields.get("schema"))


def check_named(items: object, item_type: type[N], *, parameter: str, noun: str, most: int) -> tuple[N, ...]:
    """Return the named items that an application declares; each must be of *item_type* and have a name of its own.

    Args:
        items: What was given.
        item_type: The class of the items.
        parameter: The parameter that took them.
        noun: What one of them is called.
        most: How many there are at most.

    Raises:
        InvalidInputError: They are no sequence of it, too many, or a name is invalid or occurs twice; it is named.
    """
    if isinstance(items, str | Mapping) or not isinstance(items, Iterable):
        msg = f"{parameter} must be a sequence of {item_type.__name__}, got {type(cast('object', items)).__name__}."
        raise InvalidInputError(msg)
    given = tuple(cast("Iterable[object]", items))
    if len(given) > most:
        msg = f"{parameter} has {len(given)} {noun}s; at most {most} are allowed."
        raise InvalidInputError(msg)
    checked: dict[str, N] = {}
    for one in given:
        if not isinstance(one, item_type):
            msg = f"{parameter} must have {item_type.__name__} items, got {type(one).__name__}."
            raise InvalidInputError(msg)
        name: object = one.name
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            msg = f"The name of a {noun} must be 1 to 32 of a-z, 0-9 and _, the first a letter, got {str(name)[:40]!r}."
            raise InvalidInputError(msg)
        if name in checked:
            msg = f"{parameter} has two {noun}s named {name!r}; give each its own name."
            raise InvalidInputError(msg)
        checked[name] = one
    return tuple(checked.values())


def _checked(own: object) -> tuple[MemoryKind, ...]:
    kinds = check_named(own, MemoryKind, parameter="kinds", noun="kind", most=MAX_KINDS)
    for kind in kinds:
        if kind.name in _RESERVED:
            msg = f"The kind {kind.name!r} is reserved; choose another name."
            raise InvalidInputError(msg)
        told: object = kind.description
        if not isinstance(told, str) or not 0 < len(told.strip()) <= MAX_DESCRIPTION_CHARACTERS or "\0" in told:
            most = MAX_DESCRIPTION_CHARACTERS
            msg = f"The description of the kind {kind.name!r} must be a text of 1 to {most} characters."
            raise InvalidInputError(msg)
    return kinds


def _fields(kind: MemoryKind) -> type[BaseModel]:
    from threadkeep.memories.schemas import parse_schema

    return parse_schema(kind.schema, origin=f"the schema of the kind {kind.name!r}")


BUILT_IN_KINDS: Final = Kinds()
