"""``/metrics`` of a gateway and of a worker, and the log of a server."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

import threadkeep
from tests.cli.test_queue import until
from tests.gateway.conftest import Open
from tests.gateway.test_metrics import exported, scraped
from tests.gateway.test_serve import forked_server
from tests.processes import THREADKEEP, start_python
from threadkeep.gateway.process_metrics import HISTOGRAMS, STATES
from threadkeep.observability import LOGGERS, JsonFormatter, OwnerDigests
from threadkeep.testing import HashingEmbedder, ScriptedModel
from threadkeep_conformance.servers import free_port


class TestMetrics:
    async def test_times_and_indexes_of_a_turn(self, open_gateway: Open):
        """Recall, record, checkpoint and learning are measured; nothing names an owner, a thread or a text."""
        gateway = open_gateway(ScriptedModel(replies=("In Quagga.",)))
        async with gateway.client("quagga") as client:
            await gateway.turn(client, "I live in Quagga.", thread_id="quagga")
            await gateway.tk.drain()
            await gateway.turn(client, "Where do I live?", thread_id="quagga")
            await gateway.tk.drain()
            with exported(gateway) as address:
                text, found = await asyncio.to_thread(scraped, address)

        assert found["threadkeep_recall_seconds_count",] == 2
        assert found["threadkeep_record_seconds_count",] == 2
        assert found["threadkeep_checkpoint_seconds_count",] > 1
        assert found["threadkeep_capture_lag_seconds_count",] == 2
        assert found["threadkeep_learning_total", "processed"] == 2
        assert found["threadkeep_index_loads_total",] >= 1
        assert 0 < found["threadkeep_index_bytes",] < found["threadkeep_index_limit_bytes",]
        assert "quagga" not in text.lower()
        assert all(f"{name}_bucket" in text for name, _ in HISTOGRAMS.values())

    @pytest.mark.slow
    async def test_the_pool_of_postgresql(self, open_gateway: Open, postgres_url: str):
        gateway = open_gateway(ScriptedModel(), url=postgres_url)
        async with gateway.client() as client:
            await gateway.turn(client, "I live in Rome.")
            with exported(gateway) as address:
                _, found = await asyncio.to_thread(scraped, address)

        assert found["threadkeep_pool_connections",] == 10
        assert found["threadkeep_pool_connections_in_use",] <= 10
        assert found["threadkeep_storage_calls_waiting",] >= 0

    @pytest.mark.slow
    def test_a_worker_counts_the_queue(self, tmp_path: Path):
        """Its port has what it learnt from, and how many turns wait, run and failed."""
        port = free_port()
        memory = {
            "LANGGRAPH_STORE_TYPE": "sqlite",
            "LANGGRAPH_STORE_SQLITE_PATH": str(tmp_path / "memory.db"),
            "EMBEDDINGS_PROVIDER": "none",
            "THREADKEEP_METRICS_PORT": str(port),
            "THREADKEEP_LOG_FORMAT": "json",
        }
        with threadkeep.open(f"sqlite:///{tmp_path / 'memory.db'}", embedder=HashingEmbedder()) as tk:
            tk.sync.ready()
        with start_python(*THREADKEEP, "worker", "--concurrency", "1", env={**os.environ, **memory}) as worker:
            found: dict[tuple[str, ...], float] = {}

            def counted() -> bool:
                nonlocal found
                try:
                    _, found = scraped(f"http://127.0.0.1:{port}/metrics")
                except OSError:
                    return False
                return ("threadkeep_queue_turns", "waiting") in found

            try:
                until(counted)
            finally:
                worker.send_signal(signal.SIGTERM)

        assert {state: found["threadkeep_queue_turns", state] for state in STATES} == dict.fromkeys(STATES, 0)
        assert found["threadkeep_proposals_open",] == 0
        assert ("threadkeep_memory_loop_lag_seconds",) in found


class TestLog:
    async def test_a_turn_is_one_line_without_its_text(self, open_gateway: Open, monkeypatch: pytest.MonkeyPatch):
        """The owner is a digest, and an exception its type."""
        written = io.StringIO()
        handler = logging.StreamHandler(written)
        handler.setFormatter(JsonFormatter())
        logger = logging.getLogger("threadkeep")
        monkeypatch.setattr(logger, "handlers", [handler])
        monkeypatch.setattr(logger, "propagate", False)
        monkeypatch.setattr(logger, "level", logging.INFO)
        gateway = open_gateway(ScriptedModel(replies=("Noted.", RuntimeError("quagga"))))
        async with gateway.client("quagga") as client:
            await gateway.turn(client, "I live in Quagga.", thread_id="quagga")
            await gateway.turn(client, "Quagga!", thread_id="quagga")

        lines = [json.loads(line) for line in written.getvalue().splitlines()]
        ended = [line for line in lines if line["message"] == "A turn ended."]
        assert [line["outcome"] for line in ended] == ["done", "error"]
        assert len({line["owner"] for line in ended}) == 1
        assert any(line.get("error") == "RuntimeError" for line in lines)
        assert "quagga" not in written.getvalue().lower()

    def test_all_processes_with_one_key_write_the_same_digits(self):
        ana = threadkeep.Owner("ana")

        assert OwnerDigests("k" * 32).of(ana) == OwnerDigests("k" * 32).of(ana)
        assert OwnerDigests("k" * 32).of(ana) != OwnerDigests("j" * 32).of(ana)
        assert OwnerDigests(None).of(ana) != OwnerDigests(None).of(ana)

    def test_the_server_and_its_loggers_write_json(self):
        """In a process of its own: the handlers of this one stay."""
        program = (
            "import logging; from threadkeep.observability import use_log_format;"
            "from threadkeep.settings import Settings;"
            "use_log_format(Settings.load());"
            "logging.getLogger('threadkeep').info('one'); logging.getLogger('uvicorn.error').warning('two')"
        )
        environment = {**os.environ, "THREADKEEP_LOG_FORMAT": "json"}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

        lines = [json.loads(line) for line in done.stderr.splitlines()]
        assert [(line["logger"], line["level"], line["message"]) for line in lines] == [
            ("threadkeep", "info", "one"),
            ("uvicorn.error", "warning", "two"),
        ]

    @pytest.mark.parametrize("log_format", ["json", "text"])
    @pytest.mark.parametrize("path", ["/mcp", "/a2a"])
    def test_a_server_quotes_no_client(self, path: str, log_format: str, tmp_path: Path):
        """What the packages of protocols say about an invalid message is a line without its words."""
        invalid = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "quagga"}}
        if path == "/a2a":
            invalid = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": "quagga"}}
        with forked_server(tmp_path, THREADKEEP_LOG_FORMAT=log_format) as server:
            accepted = {"Accept": "application/json, text/event-stream"}
            answer = httpx.post(f"{server.origin}{path}", json=invalid, headers=accepted, timeout=60)

        assert "error" in answer.json()
        assert "the message is left out, as it may quote a client" in str(server.lines)
        assert "quagga" not in str(server.lines)
        if log_format == "json":
            assert any(json.loads(line)["logger"] not in LOGGERS for line in server.lines)
