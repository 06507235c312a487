"""Which namespaces may be named, by whom, and where what they hold is kept. Pure rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from langgraph.store.base import InvalidNamespaceError as LangGraphInvalidNamespaceError

from threadkeep.errors import InvalidInputError, OwnerMismatchError
from threadkeep.identity import OWNED_ROOTS, Owner, partition_of
from threadkeep.storage.interface import Namespace, NamespaceMatch, Partition

if TYPE_CHECKING:
    from langgraph.store.base import ListNamespacesOp

RESERVED_ROOT: Final = "langgraph"


class InvalidNamespaceError(InvalidInputError, LangGraphInvalidNamespaceError):
    """A namespace label cannot be used. Labels are texts with no period and no NUL, and not empty."""

    code = "namespace_invalid"


def labels_of(namespace: Any) -> Namespace:
    """Return *namespace* as a tuple of labels, each of them legal.

    A list is taken as the tuple it stands for, a single text as the one label it is: where a tuple
    of one was meant, the comma is easily forgotten.

    Raises:
        InvalidNamespaceError: A label is no text, is empty, or holds a period or NUL.
    """
    if isinstance(namespace, str):
        namespace = (namespace,)
    elif type(namespace) is not tuple:
        if not isinstance(namespace, Iterable):
            msg = f"A namespace is a tuple of labels, not {type(namespace).__name__}."
            raise InvalidNamespaceError(msg)
        namespace = tuple(cast("Iterable[Any]", namespace))
    for label in cast("tuple[Any, ...]", namespace):
        if not isinstance(label, str):
            rule = f"is {type(label).__name__}, not a text"
        elif "." in label:
            rule = "holds a period; use threadkeep's label() for ids such as e-mail addresses"
        elif "\x00" in label:
            rule = "holds a NUL"
        elif not label:
            rule = "is empty"
        else:
            continue
        msg = f"The namespace label {str(cast('object', label))[:80]!r} {rule}."
        raise InvalidNamespaceError(msg)
    return cast("Namespace", namespace)


def require_some(labels: Namespace) -> None:
    """Let *labels* pass only where there are any: nothing is written to the empty namespace."""
    if not labels:
        msg = "The namespace is empty; give at least one label."
        raise InvalidNamespaceError(msg)


def writable(namespace: Any) -> Namespace:
    """Return *namespace* as :func:`labels_of` does, where ``put`` may write to it.

    LangGraph itself writes below its own root label, by operations rather than by ``put``.

    Raises:
        InvalidNamespaceError: It is empty, or its root label is LangGraph's own.
    """
    labels = labels_of(namespace)
    require_some(labels)
    if labels[0] == RESERVED_ROOT:
        msg = f"The root label {RESERVED_ROOT!r} belongs to LangGraph itself; choose another."
        raise InvalidNamespaceError(msg)
    return labels


def own_prefixes(owner: Owner) -> tuple[Namespace, ...]:
    """Return the namespaces that, with everything below them, belong to *owner*."""
    label = owner.label
    return tuple((root, label) for root in OWNED_ROOTS)


def require_own(namespace: Namespace, owner: Owner | None) -> None:
    """Let *namespace* pass only where all of it is the owner's; without an owner, everything passes.

    Raises:
        OwnerMismatchError: It is somebody else's, nobody's, or spans several owners.
    """
    if owner is None or (len(namespace) > 1 and partition_of(namespace) == owner.partition):
        return
    msg = (
        "This store is locked to one owner, and the namespace is not that owner's; "
        "use ('memories', label, …), ('summaries', label, …) or ('users', label, …)."
    )
    raise OwnerMismatchError(msg)


def one_partition(prefix: Namespace) -> Partition | None:
    """Return the partition that holds everything below *prefix*; ``None`` where several may."""
    if not prefix or (len(prefix) == 1 and prefix[0] in OWNED_ROOTS):
        return None
    return partition_of(prefix)


def matches_of(op: ListNamespacesOp) -> tuple[NamespaceMatch, ...]:
    """Return the conditions of *op* in the seam's words.

    Raises:
        InvalidNamespaceError: A condition holds an illegal label, or is neither prefix nor suffix.
    """
    found: list[NamespaceMatch] = []
    for condition in op.match_conditions or ():
        if condition.match_type not in ("prefix", "suffix"):
            msg = f"Namespaces are matched by prefix or suffix, not by {str(condition.match_type)[:40]!r}."
            raise InvalidNamespaceError(msg)
        found.append(NamespaceMatch(condition.match_type, labels_of(condition.path)))
    return tuple(found)


def cut(namespaces: Iterable[Namespace], *, max_depth: int | None, limit: int, offset: int) -> list[Namespace]:
    """Cut *namespaces* to *max_depth* labels, make them distinct, sort, and return one page of them."""
    distinct = {namespace if max_depth is None else namespace[:max_depth] for namespace in namespaces}
    return sorted(distinct)[offset : offset + limit]
