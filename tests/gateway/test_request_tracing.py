"""One trace from a request to the learning of its turn, also if a worker in another process learns it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.gateway.conftest import Open

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{CALLER}-01"

WORKER = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

import threadkeep

with threadkeep.open(sys.argv[1], embedder="none") as tk:
    tk.sync.drain()
    assert tk.sync.queue.list() == []
print(json.dumps([json.loads(span.to_json()) for span in exporter.get_finished_spans()]))
"""


def names_of(spans: InMemorySpanExporter, trace: str) -> list[str]:
    return [one.name for one in spans.get_finished_spans() if one.context and f"{one.context.trace_id:032x}" == trace]


class TestRequestTracing:
    async def test_a_turn_is_one_trace(self, open_gateway: Open, spans: InMemorySpanExporter):
        """From the caller's span on: the request, recall, the record, and learning, which comes later."""
        gateway = open_gateway()
        async with gateway.client() as client:
            client.headers["traceparent"] = TRACEPARENT
            await gateway.turn(client, "I live in Rome.", thread_id="secret-thread")
            await client.get("/threads/secret-thread")
        await gateway.tk.drain()

        names = names_of(spans, TRACE)
        request = next(one for one in spans.get_finished_spans() if one.name == "POST /api/chat/stream")
        assert request.parent is not None
        assert f"{request.parent.span_id:016x}" == CALLER
        assert dict(request.attributes or {})["http.response.status_code"] == 200
        assert {"threadkeep.recall", "threadkeep.capture", "threadkeep.learn"} <= set(names)
        assert "secret-thread" not in "".join(names)
        assert "Rome" not in "".join(one.to_json() for one in spans.get_finished_spans())

    async def test_a_request_begins_a_trace_of_its_own(self, open_gateway: Open, spans: InMemorySpanExporter):
        """What is no traceparent is left out."""
        async with open_gateway().client() as client:
            await client.get("/threads", headers={"traceparent": "00-nonsense"})
            await client.get("/threads")

        requests = [one for one in spans.get_finished_spans() if one.name == "GET /api/threads"]
        assert [one.parent for one in requests] == [None, None]
        assert len({one.context.trace_id for one in requests if one.context}) == 2

    @pytest.mark.slow
    async def test_a_worker_in_another_process_goes_on_with_it(
        self,
        open_gateway: Open,
        spans: InMemorySpanExporter,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ):
        """The trace is kept with the turn record; once the turn is learnt from, it is gone from there."""
        url = f"sqlite:///{tmp_path / 'memory.db'}"
        monkeypatch.setenv("THREADKEEP_CAPTURE_WORKERS", "0")
        gateway = open_gateway(url=url)
        async with gateway.client() as client:
            await gateway.turn(client, "I live in Rome.")
        command = [sys.executable, "-c", WORKER, url]
        monkeypatch.setenv("THREADKEEP_CAPTURE_WORKERS", "1")
        worker = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        assert worker.returncode == 0, worker.stderr

        (capture,) = [one for one in spans.get_finished_spans() if one.name == "threadkeep.capture"]
        learnt: list[Any] = [one for one in json.loads(worker.stdout) if one["name"] == "threadkeep.learn"]
        assert capture.context is not None
        assert [one["context"]["trace_id"] for one in learnt] == [f"0x{capture.context.trace_id:032x}"]
        assert learnt[0]["parent_id"] == f"0x{capture.context.span_id:016x}"
