"""``/metrics``: what happened is counted, and no label says to whom."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.conftest import Open
from tests.gateway.world import GatewayWorld, kinds, owner_of, until
from threadkeep.errors import SettingsError
from threadkeep.gateway.metrics import CAUSES, OUTCOMES, REASONS, export_metrics
from threadkeep.gateway.process_metrics import COUNTERS, STATES
from threadkeep.testing import Held, ScriptedModel
from threadkeep_conformance.servers import free_port

LABELS = {
    "outcome": {*OUTCOMES},
    "result": {"hit", "empty", *COUNTERS["threadkeep_learning"][3]},
    "event": {*COUNTERS["threadkeep_proposals"][3]},
    "state": {*STATES},
    "cause": {*CAUSES},
    "reason": {*REASONS},
}


@contextmanager
def exported(gateway: GatewayWorld) -> Iterator[str]:
    """Serve the metrics of a gateway, and yield their address."""
    port = free_port()
    stop = export_metrics(gateway.runs.metrics.registry, "127.0.0.1", port, processes=1)
    try:
        yield f"http://127.0.0.1:{port}/metrics"
    finally:
        stop()


def scraped(address: str) -> tuple[str, dict[tuple[str, ...], float]]:
    """Return the text, and the samples by name and the values of their labels."""
    with urllib.request.urlopen(address) as answer:
        text = answer.read().decode()
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    return text, samples


class TestMetrics:
    async def test_turns_recalls_and_refusals_are_counted(self, open_gateway: Open):
        release = asyncio.Event()
        replies = ("Nice.", "In Quagga.", RuntimeError("quagga"), Held(release, "Quagga."), "Quagga.")
        gateway = open_gateway(ScriptedModel(replies=replies), max_runs=1, max_turns_per_owner=2)
        async with gateway.client("quagga") as client:
            await gateway.turn(client, "I live in Quagga.", thread_id="quagga")
            await gateway.tk.drain()
            await gateway.turn(client, "Where do I live?", thread_id="quagga")
            failed = await gateway.turn(client, "Quagga!", thread_id="quagga")
            asked_nothing = await client.post(f"/runs/{failed[0].data['run_id']}/resume", json={"answer": 1})
            running = [
                asyncio.create_task(gateway.turn(client, "Quagga?", thread_id=f"quagga{n}", memory="off"))
                for n in range(2)
            ]
            with exported(gateway) as address:
                await until(lambda: gateway.runs.limiter.waiting == 1)
                _, during = await asyncio.to_thread(scraped, address)
                many = await client.post("/chat/stream", json={"message": "Quagga"})
                async with gateway.client("other") as other:
                    full = await other.post("/chat/stream", json={"message": "Quagga"})
                gateway.call(release.set)
                await asyncio.gather(*running)
                text, after = await asyncio.to_thread(scraped, address)

        assert kinds(failed)[-1] == "error"
        assert (asked_nothing.status_code, many.status_code, full.status_code) == (409, 429, 503)
        assert (during["threadkeep_runs_active",], during["threadkeep_runs_waiting",]) == (1, 1)
        assert (after["threadkeep_runs_active",], after["threadkeep_runs_waiting",]) == (0, 0)
        assert (after["threadkeep_turns_total", "done"], after["threadkeep_turns_total", "error"]) == (4, 1)
        assert (after["threadkeep_recalls_total", "hit"], after["threadkeep_recalls_total", "empty"]) == (2, 1)
        assert after["threadkeep_refused_total", "too_many_turns"] == 1
        assert after["threadkeep_refused_total", "overloaded"] == 1
        assert after["threadkeep_turn_seconds_count",] == 5
        assert after["threadkeep_first_token_seconds_count",] == 4
        assert "quagga" not in text.lower()
        assert owner_of("quagga").label not in text

    async def test_users_without_memory_are_answered_in_full(self, open_gateway: Open):
        gateway = open_gateway()
        async with gateway.client() as client:
            await client.post("/me/opt_out", json={})
            await gateway.turn(client, "I live in Rome.")
        with exported(gateway) as address:
            _, samples = await asyncio.to_thread(scraped, address)

        assert samples["threadkeep_turns_total", "done"] == 1
        assert samples["threadkeep_degraded_total", "record"] == 0

    async def test_labels_have_a_few_values_only(self, open_gateway: Open):
        """Also where a graph puts a text into what the metrics count."""

        def graph(tk: Any) -> Any:
            from langgraph.config import get_stream_writer
            from langgraph.graph import START, MessagesState, StateGraph

            def node(state: MessagesState) -> Any:
                get_stream_writer()({"type": "recalled", "memories": [], "degraded": ["quagga", "timeout"]})
                return {"messages": [("ai", "Hello.")]}

            builder = StateGraph(MessagesState)
            builder.add_node("node", node)
            builder.add_edge(START, "node")
            return builder.compile(checkpointer=tk.per_run_owner().checkpointer)

        gateway = open_gateway(graph=graph)
        async with gateway.client("quagga") as client:
            await gateway.turn(client, "Hello")
        with exported(gateway) as address:
            text, samples = await asyncio.to_thread(scraped, address)

        assert samples["threadkeep_degraded_total", "other"] == 1
        assert samples["threadkeep_degraded_total", "timeout"] == 1
        assert samples["threadkeep_degraded_total", "record"] == 1
        families = [*text_string_to_metric_families(text)]
        for sample in (sample for family in families for sample in family.samples):
            for name, value in sample.labels.items():
                assert name == "le" or value in LABELS[name], sample

    def test_processes_take_the_next_port(self, gateway: GatewayWorld):
        """Of several processes each has its own; a single one says that the port is taken."""
        metrics, port = gateway.runs.metrics, free_port()
        stops = [export_metrics(metrics, "127.0.0.1", port, processes=3) for _ in range(2)]
        try:
            with pytest.raises(SettingsError, match="THREADKEEP_METRICS_PORT"):
                export_metrics(metrics, "127.0.0.1", port, processes=1)
        finally:
            for stop in stops:
                stop()
