"""A gateway on the loopback interface, in a thread of its own, and the events that its streams send."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import httpx
import uvicorn
from starlette.requests import Request

import threadkeep
from threadkeep.gateway import idempotency
from threadkeep.gateway.app import create_app
from threadkeep.gateway.auth import USER_SCOPES
from threadkeep.gateway.http_protocol import GatewayProtocol
from threadkeep.gateway.principals import Principal
from threadkeep.gateway.settings import GatewaySettings
from threadkeep.identity import Owner
from threadkeep.ids import short_digest
from threadkeep.testing import HashingEmbedder, ScriptedModel

USER: Final = "X-Test-User"
STARTED_SECONDS: Final = 30.0
TENANT: Final = "https://issuer.example"


def owner_of(user: str) -> Owner:
    return Owner(user, TENANT)


async def authenticate(request: Request) -> Principal | None:
    """Take the user from a header: what tokens do is tested elsewhere."""
    user = request.headers.get(USER)
    return None if user is None else Principal(owner_of(user), USER_SCOPES, user)


@dataclass(frozen=True, slots=True)
class StreamEvent:
    event_id: str
    kind: str
    data: dict[str, Any]


async def events_of(response: httpx.Response) -> AsyncIterator[StreamEvent]:
    """Yield the events of a stream; comments are left out."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and fields:
            yield StreamEvent(fields["id"], fields["event"], json.loads(fields["data"]))
            fields = {}


async def until(condition: Callable[[], object]) -> None:
    """Wait until *condition* holds; the test's time limit ends it otherwise."""
    while not condition():
        await asyncio.sleep(0.02)


async def until_claim_outlasted(gateway: GatewayWorld, key: str, *, user: str = "ana") -> None:
    """Wait until the claim of an ``Idempotency-Key`` was renewed for longer than it lasts without renewal."""
    namespace, lasts = ("users", owner_of(user).label, "gateway", "idempotency"), idempotency.CLAIM_MINUTES * 60
    while True:
        item = await gateway.tk.store.aget(namespace, short_digest(key))
        assert item is not None, "the claim has expired"
        if (item.updated_at - item.created_at).total_seconds() > lasts:
            return
        await asyncio.sleep(0.05)


def kinds(events: Sequence[StreamEvent]) -> list[str]:
    return [event.kind for event in events]


def text_of(events: Sequence[StreamEvent]) -> str:
    return "".join(event.data["text"] for event in events if event.kind == "token")


def problem_of(response: httpx.Response) -> bytes:
    """Return a problem as it was sent, without the id of its trace, which every request has of its own."""
    return re.sub(rb', "trace_id": "[0-9a-f]{32}"', b"", response.content)


class GatewayWorld:
    """A gateway with a scripted model.

    Args:
        url: The storage.
        model: Answers.
        graph: Returns the graph; by default the agent of ``tk.per_run_owner().graph()``.
        settings: The settings of the gateway; with ``issuers``, users need tokens of them.
    """

    def __init__(
        self,
        url: str,
        model: ScriptedModel,
        *,
        graph: Callable[[threadkeep.Threadkeep], Any] | None = None,
        **settings: Any,
    ) -> None:
        self.model = model
        self.tk = threadkeep.open(url, embedder=HashingEmbedder(), model=model)
        built = graph(self.tk) if graph is not None else self.tk.per_run_owner().graph()
        limits = {"max_turns_per_minute": 10**6, "max_turns_per_owner": 10**6}
        who = None if "issuers" in settings else authenticate
        self.app = create_app(self.tk, built, GatewaySettings(**{**limits, **settings}), authenticate=who)
        config = uvicorn.Config(
            self.app, port=0, log_level="error", http=GatewayProtocol, timeout_graceful_shutdown=5, loop="uvloop"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="gateway")
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def runs(self) -> Any:
        return self.app.state.gateway.runs

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the server."""
        assert self._loop is not None
        return self._loop

    @property
    def origin(self) -> str:
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        waited = threading.Event()
        for _ in range(int(STARTED_SECONDS / 0.02)):
            if self._server.started:
                return self
            waited.wait(0.02)
        msg = "The gateway did not start."
        raise RuntimeError(msg)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self.tk.close()

    def _run(self) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await self._server.serve()

        with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
            runner.run(serve())

    def call(self, work: Callable[[], Any]) -> Any:
        """Return what *work* returns in the server's event loop."""
        assert self._loop is not None

        async def run() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def tasks(self) -> int:
        """Return how many tasks of the server's event loop run the application or a run."""

        def count() -> int:
            names = [repr(task.get_coro()) for task in asyncio.all_tasks()]
            return sum("Server" not in name and "serve" not in name and "count" not in name for name in names)

        return self.call(count)

    def connections(self) -> int:
        """Return how many clients are connected."""
        return self.call(lambda: len(self._server.server_state.connections))

    def client(self, user: str | None = "ana") -> httpx.AsyncClient:
        headers = {} if user is None else {USER: user}
        limits = httpx.Limits(max_connections=None)
        return httpx.AsyncClient(base_url=f"{self.origin}/api", headers=headers, timeout=60, limits=limits)

    @asynccontextmanager
    async def stream(self, client: httpx.AsyncClient, body: Any, path: str = "/chat/stream") -> AsyncIterator[Any]:
        """Yield the events of a turn while they come."""
        async with client.stream("POST", path, json=body) as response:
            assert response.status_code == 200, await response.aread()
            async with aclosing(events_of(response)) as events:
                yield events

    async def turn(self, client: httpx.AsyncClient, message: str, **body: Any) -> list[StreamEvent]:
        """Return the events of a turn."""
        async with self.stream(client, {"message": message, **body}) as events:
            return [event async for event in events]


async def joined(client: httpx.AsyncClient, run_id: str, last: str | None = None) -> list[StreamEvent]:
    """Return the events of a run, as a client reads them that joins."""
    headers = {} if last is None else {"Last-Event-ID": last}
    async with client.stream("GET", f"/runs/{run_id}/stream", headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        return [event async for event in events_of(response)]
