"""The server behind ``threadkeep serve``: one or more processes, which end their runs before they end."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

import threadkeep
from threadkeep.errors import SettingsError
from threadkeep.gateway.app import create_app
from threadkeep.gateway.auth.issuers import is_loopback
from threadkeep.gateway.events import STALLED_SECONDS
from threadkeep.gateway.metrics import export_metrics
from threadkeep.gateway.settings import GatewaySettings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from threadkeep.client import Threadkeep
    from threadkeep.gateway.runs import RunRegistry

DRAIN_SECONDS: Final = 5.0
"""How long a run may go on after the process was told to end."""

_CLOSE_SECONDS: Final = 15
_registries: Final[list[RunRegistry]] = []
"""The runs of this process; a connection has no way to its application."""


class GatewayProtocol(HttpToolsProtocol):
    """An HTTP connection.

    It is closed if the client reads nothing of what waits for it for 30 seconds. The server tells every connection
    that it stops, before it waits for their responses; then the runs end, and with them the streams.
    """

    _stalled: asyncio.TimerHandle | None = None

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    @override
    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
        super().resume_writing()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)

    @override
    def shutdown(self) -> None:
        for registry in _registries:
            registry.drain_soon(DRAIN_SECONDS)
        super().shutdown()


def serve(host: str, port: int, *, workers: int = 1, graph: str | None = None) -> None:
    """Serve the gateway until SIGTERM or Ctrl-C.

    Args:
        host: The address to bind.
        port: The port.
        workers: How many processes.
        graph: ``module:function`` of the graph; ``None``: THREADKEEP_GRAPH.

    Raises:
        SettingsError: A setting is missing or invalid; the message names it.
    """
    settings = GatewaySettings()
    if settings.single_user is not None and not is_loopback(host):
        msg = f"THREADKEEP_SINGLE_USER needs no token, so --host must be a loopback address, not {host}."
        raise SettingsError(msg, variable="THREADKEEP_SINGLE_USER")
    config = uvicorn.Config(
        partial(application, graph, workers=workers),  # a process that is started later imports it
        factory=True,
        host=host,
        port=port,
        workers=workers,
        loop="uvloop",
        http=GatewayProtocol,
        timeout_graceful_shutdown=_CLOSE_SECONDS,
        access_log=False,
        server_header=False,
    )
    if workers == 1:
        uvicorn.Server(config).run()
        return
    _build(graph, settings)  # what is wrong is told once, here, and not by each process
    Multiprocess(config, sockets=[config.bind_socket()]).run()


def application(graph: str | None = None, *, workers: int = 1) -> FastAPI:
    """Return the application that the settings of the environment describe; it closes the memory at its end.

    Args:
        graph: ``module:function`` of the graph; ``None``: THREADKEEP_GRAPH.
        workers: How many processes serve it.

    Raises:
        SettingsError: A setting is missing or invalid; the message names it.
    """
    settings = GatewaySettings()
    tk, app = _build(graph, settings)
    runs: RunRegistry = app.state.gateway.runs
    stop_metrics = None
    if (port := settings.metrics_port) is not None:
        stop_metrics = export_metrics(runs.metrics, settings.metrics_host, port, processes=workers)
    serving = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(served: FastAPI) -> AsyncGenerator[Any]:
        _registries.append(runs)
        try:
            async with serving(served) as state:
                yield state
        finally:
            _registries.remove(runs)
            if stop_metrics is not None:
                stop_metrics()
            await tk.aclose()

    app.router.lifespan_context = lifespan
    return app


def _build(graph: str | None, settings: GatewaySettings) -> tuple[Threadkeep, FastAPI]:
    tk = threadkeep.open()
    return tk, create_app(tk, load_graph(graph or settings.graph, tk), settings)


def load_graph(place: str | None, tk: Threadkeep) -> Any:
    """Return the graph of ``module:function``, or the agent of ``tk.per_run_owner().graph()``.

    Args:
        place: A function that gets *tk* and returns a compiled graph.
        tk: The memory.

    Raises:
        SettingsError: There is no such function.
    """
    if place is None:
        return tk.per_run_owner().graph()
    module, _, name = place.partition(":")
    try:
        made = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        msg = (
            f"THREADKEEP_GRAPH is {place!r}, and {error}; write module:function, importable from the working directory."
        )
        raise SettingsError(msg, variable="THREADKEEP_GRAPH") from error
    if hasattr(made, "astream") or not callable(made):
        msg = f"THREADKEEP_GRAPH is {place!r}; it must be a function that gets the client and returns a graph."
        raise SettingsError(msg, variable="THREADKEEP_GRAPH")
    return made(tk)
