"""The FastAPI application of the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

import threadkeep
from threadkeep.clock import SystemClock
from threadkeep.gateway.auth import Authenticate, TokenAuthentication, authentication
from threadkeep.gateway.auth.api_keys import ApiKeys
from threadkeep.gateway.auth.sessions import Sessions
from threadkeep.gateway.auth.suspensions import CACHE_SECONDS, Suspensions
from threadkeep.gateway.growth import Growth
from threadkeep.gateway.interfaces import mount_interfaces
from threadkeep.gateway.metrics import GatewayMetrics
from threadkeep.gateway.openapi import describe
from threadkeep.gateway.pagination import Cursors
from threadkeep.gateway.problems import problem_handlers
from threadkeep.gateway.process_metrics import ProcessCollector
from threadkeep.gateway.rate_limits import RateLimiter
from threadkeep.gateway.request_limits import RequestLimits
from threadkeep.gateway.request_tracing import RequestTracing
from threadkeep.gateway.routers import auth, health
from threadkeep.gateway.runs import RunRegistry
from threadkeep.gateway.security_headers import SecurityHeaders
from threadkeep.process_state import ProcessMonitor

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.gateway.settings import GatewaySettings


@dataclass(eq=False)
class Gateway:
    """What the routes share.

    Attributes:
        tk: The memory.
        graph: The graph that runs turns.
        settings: The settings.
        runs: The runs of this process.
        authenticate: Returns who makes a request.
        rate_limiter: Counts the requests of each owner.
        turn_limiter: Counts the turns of each owner.
        cursors: Signs the cursors of pages.
        api_keys: The API keys.
        suspensions: The suspended owners.
        sessions: The browser sessions; ``None``: there are none.
        metrics: What Prometheus reads.
        monitor: Watches the memory of this process.
        growth: The size of the storage by day.
    """

    tk: Threadkeep
    graph: Any
    settings: GatewaySettings
    runs: RunRegistry
    authenticate: Authenticate
    rate_limiter: RateLimiter
    turn_limiter: RateLimiter
    cursors: Cursors
    api_keys: ApiKeys
    suspensions: Suspensions
    sessions: Sessions | None
    metrics: GatewayMetrics
    monitor: ProcessMonitor
    growth: Growth


def create_app(
    tk: Threadkeep, graph: Any, settings: GatewaySettings, *, authenticate: Authenticate | None = None
) -> FastAPI:
    """Return the application; it can be mounted in another one, which then calls the lifespan of this one, too.

    Args:
        tk: The memory; the caller closes it.
        graph: A graph compiled with the parts of ``tk.per_run_owner()``.
        settings: The settings.
        authenticate: Returns who makes a request; ``None``: as the settings say.

    Raises:
        SettingsError: The settings name no users, the graph does not take its owner from the run, or an interface
            needs an extra that is not installed.
    """
    who = authenticate or authentication(settings)
    store, clock = tk.store, SystemClock()
    sessions = None
    if settings.client_id is not None and isinstance(who, TokenAuthentication):
        sessions = Sessions(store, clock, settings, who.verifier, tk.app.timeout_budget)
    monitor = ProcessMonitor(tk.app)
    registry = RunRegistry(tk, graph, settings, monitor.threads)
    registry.metrics.registry.register(ProcessCollector(monitor))
    gateway = Gateway(
        tk,
        graph,
        settings,
        registry,
        who,
        RateLimiter(settings.max_requests_per_minute),
        RateLimiter(settings.max_turns_per_minute),
        Cursors(store),
        ApiKeys(store, clock, tk.app.timeout_budget),
        Suspensions(store, clock, tk.app.timeout_budget),
        sessions,
        registry.metrics,
        monitor,
        Growth(tk, clock),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        await registry.start()
        watching = [
            asyncio.create_task(_cancel_runs_of_suspended_owners(gateway)),
            asyncio.create_task(gateway.growth.watch()),
        ]
        try:
            async with run_interfaces(), monitor.running(), registry.metrics.loop_lag.running():
                try:
                    yield
                finally:
                    await registry.drain(0)
        finally:
            for task in watching:
                task.cancel()

    app = FastAPI(
        title="Threadkeep",
        description="An agent and its memory, for many users: each request reads and changes what is its user's.",
        version=threadkeep.__version__,
        exception_handlers=problem_handlers(),
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(RequestLimits)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(RequestTracing)
    app.state.gateway = gateway
    run_interfaces = mount_interfaces(app, gateway, settings.interfaces)
    app.router.routes.extend((*auth.router.routes, *health.router.routes))
    app.openapi = describe(app)
    return app


async def _cancel_runs_of_suspended_owners(gateway: Gateway) -> None:
    """Cancel runs of owners that another process has suspended, every 2 seconds."""
    while True:
        await asyncio.sleep(CACHE_SECONDS)
        for owner in gateway.runs.owners():
            if await gateway.suspensions.is_suspended(owner):
                gateway.runs.cancel_all(owner)
