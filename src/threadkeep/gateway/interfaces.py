"""The interfaces of the gateway: which of them are on, and how each is mounted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypeAlias

from threadkeep.errors import missing_extra, optional_import

if TYPE_CHECKING:
    from fastapi import FastAPI

    from threadkeep.gateway.app import Gateway

Runner: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]
"""Returns what runs while the application runs."""

VARIABLE: Final = "THREADKEEP_INTERFACES"


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface of the gateway.

    Attributes:
        module: The module with the function ``mount(app, gateway)``. It adds the routes, and returns a :data:`Runner`
            or ``None``. The module is imported only if the interface is on.
        extra: The extra that installs the package of the interface; ``None``: it needs none.
        package: That package.
    """

    module: str
    extra: str | None = None
    package: str | None = None


INTERFACES: Final[Mapping[str, Interface]] = {
    "api": Interface("threadkeep.gateway.routers.api"),
    "langgraph": Interface("threadkeep.gateway.langgraph_api"),
    "a2a": Interface("threadkeep.a2a.mount", "a2a", "a2a"),
    "mcp": Interface("threadkeep.mcp_server.mount", "mcp", "mcp"),
    "web": Interface("threadkeep.web.mount"),
}
"""The interfaces by the names in THREADKEEP_INTERFACES."""


def installed_interfaces() -> tuple[str, ...]:
    """Return the interfaces with all packages installed."""
    return tuple(name for name, interface in INTERFACES.items() if _is_installed(interface))


def mount_interfaces(app: FastAPI, gateway: Gateway, names: Iterable[str] | None) -> Runner:
    """Mount interfaces on *app*.

    Args:
        app: The application.
        gateway: What the routes share.
        names: Which; ``None``: those that are installed.

    Returns:
        What runs them while the application runs.

    Raises:
        SettingsError: An interface needs an extra that is not installed; the message names the command.
    """
    names = installed_interfaces() if names is None else names
    runners = [runner for name in names if (runner := _mount(app, gateway, name)) is not None]
    return lambda: _running(runners)


def _mount(app: FastAPI, gateway: Gateway, name: str) -> Runner | None:
    interface = INTERFACES[name]
    feature, extra = f"The interface {name} in {VARIABLE}", interface.extra or "serve"
    if not _is_installed(interface):
        raise missing_extra(feature, extra=extra, variable=VARIABLE)
    with optional_import(feature, extra=extra, variable=VARIABLE):
        module = import_module(interface.module)
    return module.mount(app, gateway)


def _is_installed(interface: Interface) -> bool:
    if interface.package is not None and find_spec(interface.package) is None:
        return False
    try:
        return find_spec(interface.module) is not None
    except ModuleNotFoundError:
        return False


@asynccontextmanager
async def _running(runners: Sequence[Runner]) -> AsyncGenerator[None]:
    async with AsyncExitStack() as stack:
        for runner in runners:
            await stack.enter_async_context(runner())
        yield
