"""The server behind ``threadkeep serve``: one or more processes, which end their runs before they end."""

from __future__ import annotations

import asyncio
import atexit
import faulthandler
import gc
import importlib
import logging
import math
import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from typing_extensions import override
from uvicorn.supervisors import Multiprocess

import threadkeep
from threadkeep.errors import (
    ModelUnavailableError,
    OverloadedError,
    SettingsError,
    StorageUnavailableError,
    ThreadkeepError,
)
from threadkeep.gateway.app import create_app
from threadkeep.gateway.auth.issuers import is_loopback
from threadkeep.gateway.http_protocol import GatewayProtocol
from threadkeep.gateway.metrics import export_metrics, require_port
from threadkeep.gateway.settings import GatewaySettings
from threadkeep.observability import log, use_log_format
from threadkeep.settings import Settings, load_settings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from threadkeep.client import Threadkeep
    from threadkeep.gateway.runs import RunRegistry

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
"""The signals that stop the server."""

_CLOSE_SECONDS: Final = 5
"""How long responses that are no runs may take after the runs have ended."""

STOP_SECONDS: Final = 25.0
"""How long after the drain a process may take to close everything; then it shows its stacks and exits with 1."""

_THREADS_SECONDS: Final = 2.0
"""How long a process that has closed everything waits for threads: a tool or a model may never return."""

_SILENT_SECONDS: Final = 30
"""How long one of several processes may give no sign of life: on a busy machine it starts slowly, or gets no turn."""

_POLL_SECONDS: Final = 0.1
_FIRST_DELAY_SECONDS: Final = 1.0
_LONGEST_DELAY_SECONDS: Final = 60.0
_FORGIVEN_SECONDS: Final = 120.0
"""After so long without a death, the next process is replaced at once."""

_log: Final = logging.getLogger("uvicorn.error")


class GatewayProcesses(Multiprocess):
    """Several processes on one socket. The second signal reaches them, too, and ends them at once.

    One that dies is replaced at once, and further ones ever later, so that a process that cannot live does not take
    the processor from the others.
    """

    _deaths = 0
    _last_death = -math.inf
    _replaced_after = -math.inf

    @override
    def keep_subprocess_alive(self) -> None:
        now, before = time.monotonic(), [*self.processes]
        died = any(not one.process.is_alive() for one in before)
        if died and now < self._replaced_after:
            return
        super().keep_subprocess_alive()
        if self.processes != before:
            self._deaths = 1 if now - self._last_death > _FORGIVEN_SECONDS else self._deaths + 1
            delay = restart_delay(self._deaths)
            self._last_death, self._replaced_after = now, now + delay
            log.warning("A process was replaced; the next one that dies is replaced after %g s at the earliest.", delay)

    @override
    def join_all(self) -> None:
        while running := [one.process for one in self.processes if one.process.is_alive()]:
            running[0].join(_POLL_SECONDS)
            if any(number in SIGNALS for number in self.signal_queue):
                for process in running:
                    process.kill()
                raise SystemExit(1)


def restart_delay(deaths: int) -> float:
    """Return after how many seconds the next process is replaced, once *deaths* have died in a row, 1 or more."""
    return min(_FIRST_DELAY_SECONDS * 2 ** min(deaths - 1, 16), _LONGEST_DELAY_SECONDS)


def serve(host: str, port: int, *, workers: int = 1, graph: str | None = None) -> None:
    """Serve the gateway until SIGTERM or Ctrl-C, and return.

    Args:
        host: The address to bind.
        port: The port.
        workers: How many processes.
        graph: ``module:function`` of the graph; ``None``: THREADKEEP_GRAPH.

    Raises:
        SettingsError: A setting is missing or invalid, or the port is taken; the message says which.
        StorageError: The storage cannot be used as it is; one that does not answer is waited for.
    """
    settings = GatewaySettings.load()
    if settings.single_user is not None and not is_loopback(host):
        msg = f"THREADKEEP_SINGLE_USER needs no token, so --host must be a loopback address, not {host}."
        raise SettingsError(msg, variable="THREADKEEP_SINGLE_USER")
    try:
        asyncio.run(_require_usable(graph, settings, workers=workers))
    except ModelUnavailableError as error:  # here, the settings name the model, and their key is missing
        raise SettingsError(str(error)) from error
    config = uvicorn.Config(
        partial(application, graph, workers=workers),  # a process that is started later imports it
        factory=True,
        host=host,
        port=port,
        workers=workers,
        loop="uvloop",
        http=GatewayProtocol,
        timeout_graceful_shutdown=_CLOSE_SECONDS,
        timeout_worker_healthcheck=_SILENT_SECONDS,
        access_log=False,
        server_header=False,
    )
    library = load_settings(Settings)
    use_log_format(library)  # uvicorn has set up its loggers by now
    if library.model is None and (graph or settings.graph) is None:
        log.warning("No model is configured, replies quote memories: set THREADKEEP_MODEL=provider:name.")
    with bind(host, port) as listening, _exits_cleanly():
        address, number, *_ = listening.getsockname()
        _log.info("Threadkeep is running on http://%s:%d", f"[{address}]" if ":" in address else address, number)
        if workers == 1:
            uvicorn.Server(config).run([listening])
        else:
            GatewayProcesses(config, sockets=[listening]).run()


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to the address.

    Raises:
        SettingsError: The port is taken, or this user may not use it, or the machine has no such address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        msg = f"Port {port} at {host} cannot be used ({error.strerror}); choose others with --port and --host."
        raise SettingsError(msg) from error
    bound.set_inheritable(True)
    return bound


async def _require_usable(graph: str | None, settings: GatewaySettings, *, workers: int = 1) -> None:
    """Build and connect everything once before a port is open: what is wrong is told here, once.

    A storage that does not answer is no reason to stop: turns are answered without it, and ``/readyz`` says so.
    """
    alone = load_settings(Settings).model_copy(update={"capture": "off"})
    await threadkeep.open(settings=alone).aclose()  # creates the embedder, and does not load it
    if alone.metrics_port is not None:
        require_port(alone.metrics_host, alone.metrics_port, processes=workers)
    async with threadkeep.open(settings=alone, embedder="none") as tk:
        create_app(tk, load_graph(graph or settings.graph, tk), settings)
        try:
            await tk.ready()
        except (StorageUnavailableError, OverloadedError) as error:
            log.warning("The server starts without its storage: %s", error)


@contextmanager
def _exits_cleanly() -> Generator[None]:
    """Exit with 0 after a signal: uvicorn raises it once more when it has ended."""

    def leave(*_: object) -> None:
        raise SystemExit(0)

    before = {number: signal.signal(number, leave) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def draining_on_signal(runs: RunRegistry, seconds: float) -> Generator[None]:
    """Drain *runs* at the first signal, and then hand it to the server; at the second one, end the process.

    Until the runs have ended the server listens: it answers reads, and refuses turns with status 503. What was
    acknowledged is stored, so that the end at once loses none of it. A process that has not ended
    :data:`STOP_SECONDS` after the drain is ended, whatever it waits for.

    Args:
        runs: The runs of this process.
        seconds: How long those in progress may go on.
    """
    loop = asyncio.get_running_loop()
    seen: set[int] = set()
    before: dict[int, Any] = {number: signal.getsignal(number) for number in SIGNALS}

    def stop(number: int, frame: Any) -> None:
        if number in seen:
            os._exit(1)
        seen.add(number)
        if len(seen) == 1:
            faulthandler.dump_traceback_later(seconds + STOP_SECONDS, exit=True)  # also where the event loop hangs
            loop.call_soon_threadsafe(drain, partial(before[number], number, frame))

    def drain(end: Callable[[], None]) -> None:
        runs.drain_soon(seconds).add_done_callback(lambda _: end())

    for number in SIGNALS:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if seen:  # everything is closed: nothing is lost with threads that go on
            ending = threading.Timer(_THREADS_SECONDS, os._exit, [0])
            ending.daemon = True
            ending.start()


def application(graph: str | None = None, *, workers: int = 1) -> FastAPI:
    """Return the application that the settings of the environment describe; it closes the memory at its end.

    Args:
        graph: ``module:function`` of the graph; ``None``: THREADKEEP_GRAPH.
        workers: How many processes serve it.

    Raises:
        SettingsError: A setting is missing or invalid; the message names it.
    """
    atexit.register(gc.freeze)  # see threadkeep.cli.main: further processes of a server do not begin there
    settings, library = GatewaySettings.load(), load_settings(Settings)
    use_log_format(library)
    tk = threadkeep.open(settings=library)
    app = create_app(tk, load_graph(graph or settings.graph, tk), settings)
    runs: RunRegistry = app.state.gateway.runs
    stop_metrics = None
    if (port := library.metrics_port) is not None:
        stop_metrics = export_metrics(runs.metrics.registry, library.metrics_host, port, processes=workers)
    serving = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(served: FastAPI) -> AsyncGenerator[Any]:
        try:
            with draining_on_signal(runs, settings.drain_seconds):
                async with serving(served) as state:
                    _freeze()
                    yield state
                await tk.aclose()
        finally:
            if stop_metrics is not None:
                stop_metrics()

    app.router.lifespan_context = lifespan
    return app


def _freeze() -> None:
    """Leave what was imported and built out of garbage collections, which would stop every turn for a while."""
    gc.collect()
    gc.freeze()


def load_graph(place: str | None, tk: Threadkeep) -> Any:
    """Return the graph of ``module:function``, or the agent of ``tk.per_run_owner().graph()``.

    That agent has the tools of the declared agents to which users give their own access.

    Args:
        place: A function that gets *tk* and returns a compiled graph.
        tk: The memory.

    Raises:
        SettingsError: There is no such function, or it fails.
    """
    if place is None:
        return tk.per_run_owner().graph(agents=[one.name for one in tk.agents.declared() if one.oauth])
    module, _, name = place.partition(":")
    try:
        made = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        msg = (
            f"THREADKEEP_GRAPH is {place!r}, and {error}; write module:function, importable from the working directory."
        )
        raise SettingsError(msg, variable="THREADKEEP_GRAPH") from error
    except (Exception, SystemExit) as error:
        raise _failing_graph(place, error) from error
    try:
        graph = made(tk) if callable(made) and not hasattr(made, "astream") else None
    except ThreadkeepError:
        raise
    except (Exception, SystemExit) as error:
        raise _failing_graph(place, error) from error
    if not hasattr(graph, "astream"):
        msg = f"THREADKEEP_GRAPH is {place!r}; it must be a function that gets the client and returns a compiled graph."
        raise SettingsError(msg, variable="THREADKEEP_GRAPH")
    return graph


def _failing_graph(place: str, error: BaseException) -> SettingsError:
    """Return the error of a graph that raises *error* in its own code."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    file, line = (error.filename, error.lineno) if isinstance(error, SyntaxError) else (frame.filename, frame.lineno)
    what = f"{type(error).__name__}: {' '.join(str(error).split())}"
    msg = f"THREADKEEP_GRAPH is {place!r}, and its code raises {what} ({file}, line {line}); correct it."
    return SettingsError(msg, variable="THREADKEEP_GRAPH")
