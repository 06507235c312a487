"""Owners: the value, its label in LangGraph namespaces, its partition, and which owner a call of a service means."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial, wraps
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, TypeVar, cast, get_args

from threadkeep.errors import (
    InvalidInputError,
    OwnerConflictError,
    OwnerMismatchError,
    OwnerRequiredError,
    TooLargeError,
)
from threadkeep.ids import Namespace, Partition

if TYPE_CHECKING:
    from threadkeep.services import Services


MAX_ID_CHARACTERS: Final = 1000
OWNED_ROOTS: Final = ("memories", "summaries", "users")
"""First labels of the namespaces that belong to an owner; the second label is the owner's."""

OwnerKind: TypeAlias = Literal["user", "team", "agent"]
"""A user, or a shared scope: a team of users, or an agent that several users work with."""

_KINDS: Final = frozenset(get_args(OwnerKind))
MARK: Final = "~tk~"
"""Labels that are no id as it is begin with it."""
_ESCAPED: Final = re.compile(r"\+([0-9a-f]{6})")
_ILLEGAL: Final = re.compile(r"[.\x00\ud800-\udfff]")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_@:-]")
"""Escaped behind the mark: deep agents take ASCII letters, digits and ``-_.@+:~`` only, and LangGraph no period."""


@dataclass(frozen=True)
class Owner:
    """A user of a tenant, or a scope that users share; most stored rows belong to an owner's partition.

    Attributes:
        user_id: Any text of 1–1,000 characters that is not blank: an e-mail address, a path, Unicode. Of a shared
            scope: its name.
        tenant: Any text of up to 1,000 characters; by default the only one, ``""``. Gateways use the token's issuer.
        kind: ``user``, or of a shared scope ``team`` or ``agent``. Owners of two kinds are never the same.
    """

    user_id: str
    tenant: str = ""
    kind: OwnerKind = "user"

    def __post_init__(self) -> None:
        for name, text in (("user id", self.user_id), ("tenant", self.tenant)):
            if not isinstance(text, str):
                msg = f"The {name} must be a string, got {type(text).__name__}."
                raise InvalidInputError(msg)
            if len(text) > MAX_ID_CHARACTERS:
                msg = f"The {name} has {len(text):,} characters; at most {MAX_ID_CHARACTERS:,} are allowed."
                raise TooLargeError(msg, characters=len(text))
        if not self.user_id.strip():
            msg = "The user id is empty; pass the id that your application uses for the user."
            raise InvalidInputError(msg)
        if self.kind not in _KINDS:
            msg = f"kind must be one of {', '.join(get_args(OwnerKind))}, got {str(self.kind)[:40]!r}."
            raise InvalidInputError(msg)

    @property
    def is_shared(self) -> bool:
        """Whether this is a scope that users share, and no user."""
        return self.kind != "user"

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Tenant, id and, of a shared scope, kind: no two owners have the same."""
        return (self.tenant, self.user_id) if self.kind == "user" else (self.tenant, self.user_id, self.kind)

    @cached_property
    def label(self) -> str:
        """The owner as a LangGraph namespace label: legal, and different for every owner.

        An id that is legal as it is, and does not begin with the mark ``~tk~``, is its own label.
        """
        tenant, user_id = self.tenant, self.user_id
        if self.kind != "user":
            return f"{MARK}{self.kind}~{_escape(tenant)}~{_escape(user_id)}"
        if not tenant and not user_id.startswith(MARK) and not _ILLEGAL.search(user_id):
            return user_id
        return MARK + (f"{_escape(tenant)}~{_escape(user_id)}" if tenant else _escape(user_id))

    @cached_property
    def partition(self) -> Partition:
        """The partition that holds everything of this owner."""
        return Partition("owner", self.parts)


def owner_of_parts(parts: tuple[str, ...]) -> Owner:
    """Return the owner with these :attr:`Owner.parts`.

    Raises:
        InvalidInputError: They are not an owner's.
    """
    tenant, user_id, *kind = parts
    return Owner(user_id, tenant, *cast("list[OwnerKind]", kind))


def checked_user(owner: Owner) -> Owner:
    """Return *owner*, a user, who can have turns.

    Raises:
        InvalidInputError: It is a scope that users share.
    """
    if owner.is_shared:
        msg = f"A turn belongs to a user, not to a {owner.kind}; pass the {owner.kind} as read_scopes= to read it."
        raise InvalidInputError(msg)
    return owner


def checked_agent(scope: Owner) -> Owner:
    """Return *scope*.

    Raises:
        InvalidInputError: It is no agent.
    """
    if not isinstance(scope, Owner) or scope.kind != "agent":
        msg = "Experience is of an agent; pass tk.agent(name)."
        raise InvalidInputError(msg)
    return scope


def check_read_scopes(owner: Owner, scopes: tuple[Owner, ...]) -> None:
    """Check that a run of *owner* can read *scopes*, as far as their names tell.

    Raises:
        InvalidInputError: One is *owner* itself, another user, of another tenant, or no owner.
    """
    for scope in scopes:
        if scope == owner:
            msg = "read_scopes names the owner of the run itself; its own memory is read anyway."
        elif not isinstance(scope, Owner) or not scope.is_shared:
            msg = 'read_scopes takes shared scopes only: threadkeep.Owner("platform", kind="team").'
        elif scope.tenant != owner.tenant:
            msg = "read_scopes names a scope of another tenant than the owner's."
        else:
            continue
        raise InvalidInputError(msg)


@lru_cache(maxsize=4096)
def owner_of_user(user_id: str, tenant: str) -> Owner:
    """Return the owner with this user id and tenant, the same one each time: it has its label already.

    Raises:
        InvalidInputError, TooLargeError: It is no user id, or no tenant.
    """
    return Owner(user_id, tenant)


@lru_cache(maxsize=4096)
def owner_of_label(label: str) -> Owner | None:
    """Return the owner with this label, or None if it is not an owner's label.

    The inverse of :attr:`Owner.label`. A forged mark, an invalid escape and more than 1,000 characters are never an
    owner's label.
    """
    tenant, user_id, kind = "", label, "user"
    if label.startswith(MARK):
        *kinds, head, rest = ["", *label.removeprefix(MARK).split("~")][-3:]
        tenant, user_id, kind = _unescape(head), _unescape(rest), next(filter(None, kinds), kind)
    try:
        owner = Owner(user_id, tenant, cast("OwnerKind", kind))
    except InvalidInputError:
        return None
    return owner if owner.label == label else None


def owner_of_partition(partition: Partition) -> Owner | None:
    """Return the owner of *partition*, or None if it is not an owner's."""
    if partition.kind != "owner" or len(partition.parts) not in (2, 3):
        return None
    try:
        return owner_of_parts(partition.parts)
    except InvalidInputError:  # of a blank id, which earlier versions took
        return None


@lru_cache(maxsize=4096)
def partition_of(namespace: Namespace) -> Partition:
    """Return the partition that items in *namespace* belong to.

    ``("memories", label, …)``, ``("summaries", label, …)`` and ``("users", label, …)`` belong to
    the owner with that label; every other namespace to its root label.
    """
    owner = owner_in(namespace)
    return Partition("root", namespace[:1]) if owner is None else owner.partition


def scope_in(namespace: Namespace) -> Owner | None:
    """Return the shared scope of *namespace*, or None if it belongs to none."""
    owner = owner_in(namespace)
    return owner if owner is not None and owner.is_shared else None


def owner_in(namespace: Namespace) -> Owner | None:
    """Return the owner of *namespace*, or None if it is not an owner's."""
    return owner_of_label(namespace[1]) if len(namespace) > 1 and namespace[0] in OWNED_ROOTS else None


def replace_label(namespace: Namespace, before: str, after: str) -> Namespace:
    """Return *namespace* with the label *after* if it is that of an owner with the label *before*."""
    named = namespace[1:2] == (before,) and namespace[0] in OWNED_ROOTS
    return (namespace[0], after, *namespace[2:]) if named else namespace


def _escape(text: str) -> str:
    return _UNSAFE.sub(lambda found: f"+{ord(found[0]):06x}", text)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(min(int(found[1], 16), 0x10FFFF)), text)


RUNTIME: Final = "__pregel_runtime"
"""Where LangGraph 1.2 puts the run's ``Runtime`` in ``configurable``; nothing depends on its being there."""

_SERVER_USER: Final = "langgraph_auth_user"
_SERVER_KEYS: Final = (_SERVER_USER, "assistant_id", "graph_id")


def claimed_owner(configurable: Mapping[str, Any], *, runtime: object = None) -> Owner | None:
    """Return the owner that the run names, or None if it names none.

    On a LangGraph server only the user that it authenticated counts: what else is in
    ``configurable`` or the context came from the client. Elsewhere the application wrote
    ``context.user_id``, ``configurable.user_id`` and ``configurable.langgraph_user_id`` (a label),
    and all that are there must mean the same owner.

    Args:
        configurable: The run's.
        runtime: Its ``Runtime`` or ``ToolRuntime``; ``None``: the one in *configurable*, if it is there.

    Raises:
        InvalidInputError: A name is no user id, or no label of one.
        OwnerConflictError: Two name different owners.
    """
    runtime = configurable.get(RUNTIME) if runtime is None else runtime
    if on_server(configurable, runtime=runtime):
        info = getattr(runtime, "server_info", None)
        return _server_owner(configurable.get(_SERVER_USER) if info is None else getattr(info, "user", None))
    claims = _claims(configurable, getattr(runtime, "context", None))
    if len(set(claims.values())) > 1:
        msg = f"{' and '.join(claims)} name different owners; give the owner once, or the same one everywhere."
        raise OwnerConflictError(msg, sources=tuple(claims))
    return next(iter(claims.values()), None)


def claims_of(configurable: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the places that :func:`claimed_owner` goes by."""
    runtime = configurable.get(RUNTIME)
    if on_server(configurable, runtime=runtime):
        return ("the server's user",)
    return tuple(_claims(configurable, getattr(runtime, "context", None)))


def on_server(configurable: Mapping[str, Any], *, runtime: object = None) -> bool:
    """Whether a LangGraph server started the run.

    Source:
        ``_build_server_info`` of LangGraph 1.2, which makes ``runtime.server_info`` of the same keys.
    """
    runtime = configurable.get(RUNTIME) if runtime is None else runtime
    if getattr(runtime, "server_info", None) is not None:
        return True
    return not {None}.issuperset(map(configurable.get, _SERVER_KEYS))


def _server_owner(user: object) -> Owner | None:
    identity = getattr(user, "identity", None)
    # Without authentication a server makes up a user; some have an empty identity, some only say so.
    if not isinstance(identity, str) or not identity or not getattr(user, "is_authenticated", True):
        return None
    return owner_of_user(identity, "")


def _claims(configurable: Mapping[str, Any], context: object) -> dict[str, Owner]:
    claims: dict[str, Owner] = {}
    named: object = getattr(context, "user_id", None)
    if isinstance(context, Mapping):
        named = cast("Mapping[str, object]", context).get("user_id")
    said: tuple[tuple[str, object], ...] = (
        ("context.user_id", named),
        ("configurable.user_id", configurable.get("user_id")),
    )
    for place, user_id in said:
        if isinstance(user_id, str):
            claims[place] = owner_of_user(user_id, "")
        elif user_id is not None:
            msg = f"{place} must be a string, got {type(user_id).__name__}; pass str(…) of it."
            raise InvalidInputError(msg)
    label = configurable.get("langgraph_user_id")
    if label is not None:
        owner = owner_of_label(label) if isinstance(label, str) else None
        if owner is None:
            msg = (
                "configurable.langgraph_user_id is not a valid label of an owner; make it with tk.label(user_id) or "
                "tk.config()."
            )
            raise InvalidInputError(msg)
        claims["configurable.langgraph_user_id"] = owner
    return claims


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class OwnerScope:
    """Which owners a client may name, and which one it means where a call names none.

    Attributes:
        default: The owner of calls that name none.
        locked: Whether another owner is refused.
    """

    default: Owner | None = None
    locked: bool = False

    def resolve(self, owner: str | Owner | None) -> Owner:
        """Return the owner that a call means.

        Raises:
            OwnerRequiredError: The call names no owner, and there is no default.
            OwnerMismatchError: The scope is locked to another owner.
        """
        resolved = self.default if owner is None else to_owner(owner)
        if resolved is None:
            msg = "owner is required: pass owner=, or open the memory with one."
            raise OwnerRequiredError(msg)
        if self.locked and resolved != self.default:
            msg = "This client is locked to another owner; use one of for_owner() with that owner."
            raise OwnerMismatchError(msg)
        return resolved

    def require_unlocked(self) -> None:
        """Refuse an operation on all owners where the scope is locked to one.

        Raises:
            OwnerMismatchError: It is.
        """
        if self.locked:
            msg = "This client is locked to one owner, and the operation concerns all; use one without for_owner()."
            raise OwnerMismatchError(msg)


def to_owner(owner: str | Owner) -> Owner:
    """Return a user id as an owner of the default tenant; an owner as it is."""
    if isinstance(owner, str):
        return owner_of_user(owner, "")
    return owner if isinstance(owner, Owner) else Owner(owner)  # raises: it is no text


class Service:
    """A part of the public API. Operations may be called from any event loop and thread.

    Args:
        services: The services of the same memory, and the event loop that they run in.
        scope: Which owners the operations may be about.
    """

    def __init__(self, services: Services, scope: OwnerScope | None = None) -> None:
        self._services = services
        self._scope = scope or OwnerScope()

    def scoped(self, scope: OwnerScope) -> Self:
        """Return the same service for another scope."""
        return type(self)(self._services, scope)


def operation(method: F) -> F:
    """Make a coroutine method, or an asynchronous generator, of a service run in Threadkeep's event loop."""
    if inspect.isasyncgenfunction(method):

        @wraps(method)
        async def iterate(self: Service, *args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
            rows = method(self, *args, **kwargs)
            end = object()
            while (row := await self._services.run(partial(_next, rows, end))) is not end:  # pyright: ignore[reportPrivateUsage]
                yield row

        return cast("F", iterate)

    @wraps(method)
    async def call(self: Service, *args: Any, **kwargs: Any) -> Any:
        return await self._services.run(partial(method, self, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

    return cast("F", call)


async def _next(rows: AsyncGenerator[Any], end: object) -> Any:
    return await anext(rows, end)
