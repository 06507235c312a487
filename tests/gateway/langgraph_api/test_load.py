"""Two hundred streams at once, and what a run costs beside ``/api/chat/stream``."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import Open
from tests.gateway.world import USER, GatewayWorld
from threadkeep.testing import ScriptedModel

STREAMS = 200
ROUNDS = 3


async def stream(http: httpx.AsyncClient, user: str, path: str, body: dict[str, Any], last: bytes) -> None:
    """Read a stream, which must be answered and end as it should."""
    async with http.stream("POST", path, json=body, headers={USER: user}) as answer:
        text = b"".join([chunk async for chunk in answer.aiter_bytes()])
    assert answer.status_code == 200, (path, user, answer.status_code, text[-500:])
    assert last in text, (path, user, text[-500:])


async def cost(world: GatewayWorld, path: str, body: dict[str, Any], last: bytes) -> float:
    """Return the CPU milliseconds of a stream, client and learning included; every stream must end well."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=world.origin, timeout=120, limits=limits) as http:
        began = time.process_time()
        for _ in range(ROUNDS):
            await asyncio.gather(*(stream(http, f"user-{number}", path, body, last) for number in range(STREAMS)))
        await asyncio.to_thread(world.tk.sync.drain)
        return (time.process_time() - began) * 1_000 / (ROUNDS * STREAMS)


@pytest.mark.soak
@pytest.mark.timeout(900)
class TestTwoHundredStreams:
    async def test_none_fails(self, open_gateway: Open, capsys: pytest.CaptureFixture[str]):
        limits = {"max_runs": STREAMS, "max_requests_per_minute": 10**6}
        world = open_gateway(ScriptedModel(), **limits)
        message = "I moved to Lisbon in spring and work on boats."
        chat = {"message": message}
        run = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": message}]}}
        run = {**run, "stream_mode": ["messages-tuple", "updates", "custom"]}
        paths = (("/api/chat/stream", chat, b"event: done"), ("/lg/runs/stream", run, b"event: end"))
        async with httpx.AsyncClient(base_url=world.origin, timeout=120) as http:
            thread = {**run, "if_not_exists": "create"}
            for path, body, last in paths:
                await stream(http, "first", path, body, last)
            await stream(http, "first", "/lg/threads/mine/runs/stream", thread, b"event: end")
        costs = {path: await cost(world, path, body, last) for path, body, last in paths}
        costs["/lg/threads/{id}/runs/stream"] = await cost(
            world, "/lg/threads/mine/runs/stream", {**run, "if_not_exists": "create"}, b"event: end"
        )
        chat_cost = costs["/api/chat/stream"]
        with capsys.disabled():
            for path, milliseconds in costs.items():
                sys.stdout.write(f"{path}: {milliseconds:.1f} CPU ms a stream, {milliseconds / chat_cost:.2f} x\n")
        assert world.runs.limiter.running == 0
