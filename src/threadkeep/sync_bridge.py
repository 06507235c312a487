"""``tk.sync``: every coroutine method of the client and its services, blocking.

Its types are in ``sync_bridge.pyi``, which `make docs` writes from the signatures of the services.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

from typing_extensions import override

if TYPE_CHECKING:
    from threadkeep.container import Container

T = TypeVar("T")

_SERVICES: Final = frozenset(
    {
        "agents",
        "collections",
        "credentials",
        "memories",
        "owners",
        "profile",
        "proposals",
        "queue",
        "runs",
        "scopes",
        "threads",
    }
)
_OWN_LOOP: Final = frozenset({"agents", "runs"})
"""Services that run or build graphs, which must not block Threadkeep's event loop."""


class Blocking:
    """The same object with blocking methods.

    Args:
        target: A client, or one of its services.
        app: Its event loop runs the coroutines.
        apart: Whether coroutines run in a loop of their own instead.
    """

    def __init__(self, target: object, app: Container, *, apart: bool = False) -> None:
        self._target = target
        self._app = app
        self._apart = apart

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name in _SERVICES and not inspect.ismethod(found):
            return Blocking(found, self._app, apart=name in _OWN_LOOP)
        if inspect.iscoroutinefunction(found):
            return _run_in_new_loop(found) if self._apart else _blocking(found, self._app)
        if inspect.isasyncgenfunction(found):
            return _listing(found, self._app)
        return found

    @override
    def __dir__(self) -> list[str]:
        return [name for name in dir(self._target) if not name.startswith("_")]


def blocking(target: object, app: Container) -> Any:
    """Return the blocking client of a memory."""
    return Blocking(target, app)


def _blocking(function: Callable[..., Coroutine[Any, Any, T]], app: Container) -> Callable[..., T]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> T:
        return app.event_loop.run_sync(function(*args, **kwargs))

    return call


def _run_in_new_loop(function: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., T]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> T:
        with ThreadPoolExecutor(1, "threadkeep-run") as thread:  # the caller may be inside a running loop
            return thread.submit(copy_context().run, asyncio.run, function(*args, **kwargs)).result()

    return call


def _listing(function: Callable[..., AsyncIterator[T]], app: Container) -> Callable[..., list[T]]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> list[T]:
        async def collected() -> list[T]:
            return [row async for row in function(*args, **kwargs)]

        return app.event_loop.run_sync(collected())

    return call
