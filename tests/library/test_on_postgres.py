"""An agent whose memory is in PostgreSQL: turns through a compiled graph, with the server up, stalled and away."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langchain.agents import create_agent

import threadkeep
from tests.command_line import CliRunner
from threadkeep.cli.main import app
from threadkeep.settings import Settings
from threadkeep.testing import HashingEmbedder, ScriptedModel
from threadkeep_conformance.servers import PostgresServer

ANA = "ana@x.org"
TAUGHT = "I live in Lisbon."
ASKED = "Which city do I live in?"


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that the test may break."""
    with PostgresServer() as server:
        yield server


def turn(tk: threadkeep.Threadkeep, text: str, *, thread_id: str) -> str:
    """Take one turn of a real agent; return the question as the model saw it."""
    model = ScriptedModel()
    agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
    said: Any = {"messages": [{"role": "user", "content": text}]}
    agent.invoke(said, tk.config(user_id=ANA, thread_id=thread_id))
    return next(message for message in reversed(model.prompts[-1]) if message.type == "human").text


def facts(tk: threadkeep.Threadkeep) -> list[str]:
    assert tk.sync.drain()
    return sorted(memory.text for memory in tk.sync.memories.list(owner=ANA, kind="semantic"))


class TestTurn:
    def test_statement_to_one_process_is_known_to_another(self, postgres_url: str) -> None:
        """By its URL, closed and opened again; threads and memories share one pool."""
        with threadkeep.open(postgres_url, embedder=HashingEmbedder()) as tk:
            turn(tk, TAUGHT, thread_id="1")

        with threadkeep.open(postgres_url, embedder=HashingEmbedder()) as tk:
            assert TAUGHT in turn(tk, ASKED, thread_id="2")
            assert tk.sync.ready().storage == f"postgres {postgres_url}"

    def test_the_settings_choose_it(self, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """``LANGGRAPH_STORE_TYPE`` and ``POSTGRES_DSN``; another key prefix knows nothing of it."""
        monkeypatch.setenv("LANGGRAPH_STORE_TYPE", "postgres")
        monkeypatch.setenv("POSTGRES_DSN", postgres_url)
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_TYPE", "memory")
        monkeypatch.setenv("LANGGRAPH_STORE_KEY_PREFIX", "first")
        with threadkeep.open(embedder=HashingEmbedder()) as tk:
            turn(tk, TAUGHT, thread_id="1")
            assert facts(tk) == [TAUGHT]

        monkeypatch.setenv("LANGGRAPH_STORE_KEY_PREFIX", "second")
        with threadkeep.open(embedder=HashingEmbedder()) as tk:
            assert TAUGHT not in turn(tk, ASKED, thread_id="3")

    def test_an_owner_is_erased(self, postgres_url: str) -> None:
        """No row says anything of them, their name included."""
        with threadkeep.open(postgres_url, embedder=HashingEmbedder()) as tk:
            turn(tk, TAUGHT, thread_id="1")
            assert facts(tk) == [TAUGHT]

            tk.sync.owners.erase(ANA)

        with psycopg.connect(postgres_url) as connection:
            for table in ("items", "removals", "partitions"):
                asked = f"SELECT t::text FROM threadkeep.{table} AS t"
                left = str(connection.execute(asked.encode()).fetchall())
                assert "Lisbon" not in left
                assert ANA not in left


@pytest.mark.linux
@pytest.mark.slow
class TestFaults:
    @pytest.mark.parametrize("fault", ["stalled", "killed"])
    def test_a_turn_goes_on_without_it(
        self, own_server: PostgresServer, fault: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The reply comes while the server is away, and what was said is learnt when it is back."""
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_TYPE", "memory")
        settings = Settings.load(recall_timeout_ms=100, postgres_statement_timeout_ms=300, postgres_wait_ms=300)
        with threadkeep.open(own_server.url, embedder=HashingEmbedder(), settings=settings) as tk:
            turn(tk, TAUGHT, thread_id="1")
            assert facts(tk) == [TAUGHT]
            if fault == "stalled":
                own_server.pause()
            else:
                own_server.kill()

            assert TAUGHT not in turn(tk, "I have a dog called Rex.", thread_id="2")

            if fault == "stalled":
                own_server.resume()
            else:
                own_server.start()
            for _ in range(100):
                if TAUGHT in turn(tk, ASKED, thread_id="2"):
                    break
            assert set(facts(tk)) >= {TAUGHT, "I have a dog called Rex."}


@pytest.mark.linux
@pytest.mark.slow
class TestClose:
    @pytest.mark.parametrize("fault", ["stalled", "killed"])
    def test_closing_waits_for_no_answer_and_loses_no_turn(
        self, own_server: PostgresServer, fault: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It gives up learning before its 5 seconds are over, with one warning, and the next start learns the rest."""
        tk = threadkeep.open(
            own_server.url, embedder=HashingEmbedder(), settings=Settings.load(capture_lease_seconds=2)
        )
        turn(tk, TAUGHT, thread_id="1")
        assert facts(tk) == [TAUGHT]
        turn(tk, "I have a dog called Rex.", thread_id="2")
        if fault == "stalled":
            own_server.pause()
        else:
            own_server.kill()

        tk.close()

        warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert len(warnings) == 1, warnings
        assert "left for the next start" in warnings[0]
        if fault == "stalled":
            assert "did not answer within 2 seconds" in warnings[0]
            own_server.resume()
        else:
            assert "cannot be reached" in warnings[0]
            own_server.start()
        with threadkeep.open(own_server.url, embedder=HashingEmbedder()) as again:
            assert facts(again) == ["I have a dog called Rex.", TAUGHT]


class TestDoctor:
    def report(self, monkeypatch: pytest.MonkeyPatch, url: str, folder: Path) -> tuple[dict[str, Any], str]:
        monkeypatch.setenv("LANGGRAPH_STORE_TYPE", "postgres")
        monkeypatch.setenv("LANGGRAPH_STORE_POSTGRES_DSN", url.replace("postgres@", "postgres:hunter2@"))
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_TYPE", "memory")
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")
        monkeypatch.setenv("THREADKEEP_DATA_DIR", str(folder))
        told = CliRunner().invoke(app, ["doctor", "--json"], catch_exceptions=False)
        return json.loads(told.stdout), told.output

    def test_it_says_where_it_is_and_what_would_be_lost(
        self, postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """The tests' server does not sync: the installation is healthy, and that is said."""
        report, output = self.report(monkeypatch, postgres_url, tmp_path)

        assert report["healthy"] is True
        storage = [(row["state"], row["detail"]) for row in report["checks"] if row["what"] == "storage"]
        assert storage[0] == ("ok", f"postgres {postgres_url}")
        assert "fsync = off" in storage[1][1]
        assert "hunter2" not in output

    def test_a_server_that_is_away_is_broken(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unused_tcp_port: int
    ) -> None:
        """With the sentence that says where it was looked for."""
        url = f"postgresql://postgres@127.0.0.1:{unused_tcp_port}/db"

        report, output = self.report(monkeypatch, url, tmp_path)

        assert report["healthy"] is False
        assert "cannot be reached" in output
        assert "hunter2" not in output
