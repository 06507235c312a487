"""Which values and namespaces meet a condition. Pure rules, the same on every backend.

A filter names fields of a value. A name is literal (``"a.b"`` is one field); only where the value
has no such field, its dots lead into objects, as in LangGraph's SqliteStore. All conditions must
hold. A condition is one of

==================================  ===============================================================
``{"f": 3}``, ``{"f": [1, 2]}``     equal as JSON: ``1`` equals ``1.0``, but never ``true``
``{"f": {"g": 3}}``                 an object whose fields meet these conditions; it may have others
``{"f": {"$gte": 3, "$lt": 9}}``    operators, all of which must hold
``{"f": None}``                     null, or no such field, as LangGraph's InMemoryStore and SqliteStore have it
==================================  ===============================================================

``$gt $gte $lt $lte`` compare a number with a number and a text with a text (ISO dates sort as
texts do); anything else, and a field that is missing, they never match. ``$eq`` is equality all the way
down and ``$ne`` its opposite; for both, a field that is missing is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import Any, Final, cast

from threadkeep.errors import InvalidInputError
from threadkeep.storage.encoding import check_limit, decode_namespace
from threadkeep.storage.port import Filter, Namespace, NamespaceMatch

OPERATORS: Final = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
WILDCARD: Final = "*"

_ORDERING: Final[dict[str, Callable[[Any, Any], bool]]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
_MISSING: Final = object()
_MAX_DEPTH: Final = 100


def matches(value: Mapping[str, Any], filter: Filter) -> bool:  # noqa: A002 - the field's name for it
    """Whether *value* meets every condition of *filter*; the module says which there are.

    Raises:
        InvalidInputError: The filter names an operator that there is not.
    """
    check_filter(filter)
    return meets(value, filter)


def meets(value: Mapping[str, Any], filter: Filter) -> bool:  # noqa: A002 - the field's name for it
    """Do what :func:`matches` does for a *filter* that :func:`check_filter` has let pass."""
    return all(_meets(_field(value, name), condition) for name, condition in filter.items())


def check_filter(filter: Filter) -> None:  # noqa: A002 - the field's name for it
    """Refuse what is no filter, before anything is read.

    Raises:
        InvalidInputError: It is no mapping, a field's name is no text, or an operator is unknown.
    """
    if not isinstance(cast("object", filter), Mapping):
        msg = f"A filter is a mapping of fields to conditions, not {type(filter).__name__}."
        raise InvalidInputError(msg)
    for field, condition in filter.items():
        if not isinstance(cast("object", field), str):
            msg = f"A filter names fields by text, not by {type(field).__name__}."
            raise InvalidInputError(msg)
        _check_condition(condition, 1)


def namespace_matches(namespace: Namespace, conditions: Sequence[NamespaceMatch]) -> bool:
    """Whether *namespace* meets every condition; ``*`` in a condition is any one label."""
    return all(_begins_or_ends(namespace, condition) for condition in conditions)


def distinct_namespaces(
    texts: Iterable[str], *, match: Sequence[NamespaceMatch], max_depth: int | None
) -> tuple[Namespace, ...]:
    """Return what :meth:`~threadkeep.storage.port.Storage.namespaces` lists, before it is paged.

    Args:
        texts: The encoded namespaces that hold an unexpired item.
        match: What each must meet, before it is cut.
        max_depth: How many labels are kept.
    """
    if max_depth is not None:
        check_limit(max_depth, name="max_depth")
    names = (decode_namespace(text) for text in texts)
    visible = (name for name in names if not name[:1] or not name[0].startswith("."))
    return tuple(sorted({name[:max_depth] for name in visible if namespace_matches(name, match)}))


def _field(value: Mapping[str, Any], name: str) -> object:
    found: object = value.get(name, _MISSING)
    if found is not _MISSING or "." not in name:
        return found
    found = value
    for step in name.split("."):
        if not isinstance(found, Mapping):
            return _MISSING
        found = cast("Mapping[str, object]", found).get(step, _MISSING)
    return found


def _begins_or_ends(namespace: Namespace, condition: NamespaceMatch) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.where == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in (WILDCARD, label) for label, wanted in zip(part, path, strict=True))


def _check_condition(condition: object, depth: int) -> None:
    if depth > _MAX_DEPTH:
        msg = f"A filter is nested deeper than {_MAX_DEPTH} levels."
        raise InvalidInputError(msg)
    if not isinstance(condition, Mapping):
        return
    conditions = cast("Mapping[object, object]", condition)
    if not all(isinstance(name, str) for name in conditions):
        msg = "A filter names fields by text."
        raise InvalidInputError(msg)
    names = cast("Mapping[str, object]", conditions)
    if _has_operators(names):
        unknown = [name for name in names if name not in OPERATORS]
        if unknown:
            msg = f"A filter has no operator {unknown[0][:40]!r}; there are {', '.join(OPERATORS)}."
            raise InvalidInputError(msg)
        return
    for inner in names.values():
        _check_condition(inner, depth + 1)


def _has_operators(condition: Mapping[str, object]) -> bool:
    return any(name.startswith("$") for name in condition)


def _meets(stored: object, condition: object) -> bool:
    if not isinstance(condition, Mapping):
        return _equal(None if stored is _MISSING else stored, condition)
    names = cast("Mapping[str, object]", condition)
    if _has_operators(names):
        return all(_holds(stored, operator, operand) for operator, operand in names.items())
    if not isinstance(stored, Mapping):
        return False
    fields = cast("Mapping[str, object]", stored)
    return all(_meets(fields.get(name, _MISSING), inner) for name, inner in names.items())


def _holds(stored: object, operator: str, operand: object) -> bool:
    if operator in ("$eq", "$ne"):
        return _equal(None if stored is _MISSING else stored, operand) is (operator == "$eq")
    both_texts = isinstance(stored, str) and isinstance(operand, str)
    return (both_texts or (_is_number(stored) and _is_number(operand))) and _ORDERING[operator](stored, operand)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(stored: object, wanted: object) -> bool:
    """Whether two JSON values are the same; Python alone would take ``True`` for ``1``."""
    if isinstance(stored, bool) or isinstance(wanted, bool):
        return stored is wanted
    if isinstance(stored, Mapping) and isinstance(wanted, Mapping):
        ours, theirs = cast("Mapping[str, object]", stored), cast("Mapping[str, object]", wanted)
        return ours.keys() == theirs.keys() and all(_equal(ours[name], theirs[name]) for name in ours)
    if isinstance(stored, list | tuple) and isinstance(wanted, list | tuple):
        first, second = cast("Sequence[object]", stored), cast("Sequence[object]", wanted)
        return len(first) == len(second) and all(_equal(one, two) for one, two in zip(first, second, strict=True))
    return stored == wanted
