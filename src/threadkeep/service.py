"""What all services of the public API share: the owner that a call means, and the event loop that it runs in."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine
from copy import copy
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol, Self, TypeVar, cast

from threadkeep.errors import OwnerMismatchError, OwnerRequiredError
from threadkeep.identity import Owner

T = TypeVar("T")
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
    return owner if isinstance(owner, Owner) else Owner(owner)


class Runtime(Protocol):
    """Runs the operations of services."""

    async def run(self, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Connect at the first call, then run the coroutine that *start* returns in Threadkeep's event loop."""
        ...


class Service:
    """A part of the public API. Operations may be called from any event loop and thread.

    Args:
        runtime: Runs the operations.
        scope: Which owners they may be about.
    """

    def __init__(self, runtime: Runtime, scope: OwnerScope | None = None) -> None:
        self._runtime = runtime
        self._scope = scope or OwnerScope()

    def scoped(self, scope: OwnerScope) -> Self:
        """Return the same service for another scope."""
        service = copy(self)
        service._scope = scope  # noqa: SLF001 - a copy of this object
        return service


def operation(method: F) -> F:
    """Make a coroutine method, or an asynchronous generator, of a service run in Threadkeep's event loop."""
    if inspect.isasyncgenfunction(method):

        @wraps(method)
        async def iterate(self: Service, *args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
            rows = method(self, *args, **kwargs)
            end = object()
            while (row := await self._runtime.run(lambda: _next(rows, end))) is not end:  # pyright: ignore[reportPrivateUsage]
                yield row

        return cast("F", iterate)

    @wraps(method)
    async def call(self: Service, *args: Any, **kwargs: Any) -> Any:
        return await self._runtime.run(lambda: method(self, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

    return cast("F", call)


async def _next(rows: AsyncGenerator[Any], end: object) -> Any:
    return await anext(rows, end)
