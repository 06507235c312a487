"""What all services of the public API share: the owner that a call means, and the event loop that it runs in."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from threadkeep.errors import OwnerMismatchError, OwnerRequiredError
from threadkeep.identity import Owner, owner_of_user

if TYPE_CHECKING:
    from threadkeep.services import Services

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
        return owner_of_user(owner)
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
