"""An agent whose memory is in Redis: turns through a compiled graph, with the server up, stalled and away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from langchain.agents import create_agent

import threadkeep
from tests.command_line import CliRunner
from threadkeep.cli.main import app
from threadkeep.settings import Settings
from threadkeep.testing import HashingEmbedder, ScriptedModel
from threadkeep_conformance.servers import RedisServer

ANA = "ana@x.org"
TAUGHT = "I live in Lisbon."
ASKED = "Which city do I live in?"


@pytest.fixture(autouse=True)
def threads_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only memories are in Redis here."""
    monkeypatch.setenv("LANGGRAPH_CHECKPOINT_TYPE", "memory")


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A server that the test may break."""
    with RedisServer(settings={"appendfsync": "always"}) as server:
        yield server


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def asked(model: ScriptedModel) -> str:
    return next(message for message in reversed(model.prompts[-1]) if message.type == "human").text


def turn(tk: threadkeep.Threadkeep, text: str, *, thread_id: str) -> str:
    """Take one turn of a real agent; return the question as the model saw it."""
    model = ScriptedModel()
    agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
    agent.invoke(said(text), tk.config(user_id=ANA, thread_id=thread_id))
    return asked(model)


def facts(tk: threadkeep.Threadkeep) -> list[str]:
    tk.sync.drain()
    return sorted(memory.text for memory in tk.sync.memories.list(owner=ANA, kind="semantic"))


class TestTurn:
    def test_statement_to_one_process_is_known_to_another(self, redis_url: str) -> None:
        """By its URL, closed and opened again."""
        with threadkeep.open(redis_url, embedder=HashingEmbedder()) as tk:
            turn(tk, TAUGHT, thread_id="1")

        with threadkeep.open(redis_url, embedder=HashingEmbedder()) as tk:
            assert TAUGHT in turn(tk, ASKED, thread_id="2")
            assert tk.sync.ready().storage == f"redis {redis_url}"

    def test_the_settings_choose_it(self, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """``LANGGRAPH_STORE_TYPE`` and ``REDIS_URL``; another key prefix knows nothing of it."""
        monkeypatch.setenv("LANGGRAPH_STORE_TYPE", "redis")
        monkeypatch.setenv("REDIS_URL", redis_url)
        monkeypatch.setenv("LANGGRAPH_STORE_KEY_PREFIX", "first")
        with threadkeep.open(embedder=HashingEmbedder()) as tk:
            turn(tk, TAUGHT, thread_id="1")
            assert facts(tk) == [TAUGHT]
            assert TAUGHT in turn(tk, ASKED, thread_id="2")

        monkeypatch.setenv("LANGGRAPH_STORE_KEY_PREFIX", "second")
        with threadkeep.open(embedder=HashingEmbedder()) as tk:
            assert TAUGHT not in turn(tk, ASKED, thread_id="3")

    def test_an_owner_is_erased(self, redis_url: str) -> None:
        """Nothing of theirs is left on the server."""
        with threadkeep.open(redis_url, embedder=HashingEmbedder()) as tk:
            turn(tk, TAUGHT, thread_id="1")
            assert facts(tk) == [TAUGHT]

            tk.sync.owners.erase(ANA)

            with redis.Redis.from_url(redis_url) as client:
                left = b" ".join(client.dump(key) or b"" for key in client.scan_iter())
            assert b"Lisbon" not in left
            assert ANA.encode() not in left

    async def test_two_gateways_share_it(self, redis_url: str) -> None:
        """What one is told, the other one recalls at once."""
        async with (
            threadkeep.open(redis_url, embedder=HashingEmbedder()) as one,
            threadkeep.open(redis_url, embedder=HashingEmbedder()) as other,
        ):
            assert not (await other.recall(ASKED, owner=ANA)).memories
            await one.memories.remember(TAUGHT, owner=ANA)

            assert TAUGHT in (await other.recall(ASKED, owner=ANA)).text


class TestFaults:
    @pytest.mark.parametrize("fault", ["stalled", "killed"])
    def test_a_turn_goes_on_without_it(self, own_server: RedisServer, fault: str) -> None:
        """The reply comes while the server is still away, and what was said is learnt when it is back."""
        settings = Settings.load(recall_timeout_ms=100, redis_timeout_ms=300)
        with threadkeep.open(own_server.url, embedder=HashingEmbedder(), settings=settings) as tk:
            turn(tk, TAUGHT, thread_id="1")
            assert facts(tk) == [TAUGHT]
            if fault == "stalled":
                own_server.pause()
            else:
                own_server.kill()

            assert TAUGHT not in turn(tk, "I have a dog called Rex.", thread_id="2")
            still_away = own_server.process is None or fault == "stalled"

            if fault == "stalled":
                own_server.resume()
            else:
                own_server.start()
            for _ in range(100):
                if TAUGHT in turn(tk, ASKED, thread_id="2"):
                    break
            assert still_away
            assert set(facts(tk)) >= {TAUGHT, "I have a dog called Rex."}

    def test_a_full_server_fails_no_turn(self, own_server: RedisServer) -> None:
        """It recalls what it knows and learns nothing, until there is room."""
        with threadkeep.open(own_server.url, embedder=HashingEmbedder()) as tk:
            turn(tk, TAUGHT, thread_id="1")
            assert facts(tk) == [TAUGHT]
            with redis.Redis.from_url(own_server.url) as client:
                client.config_set("maxmemory", 1)
                assert TAUGHT in turn(tk, ASKED, thread_id="2")
                client.config_set("maxmemory", 0)

            turn(tk, "I have a dog called Rex.", thread_id="2")
            assert "I have a dog called Rex." in facts(tk)


class TestDoctor:
    def test_it_warns_of_what_would_be_lost(
        self, redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """The server syncs once a second: the installation is healthy, and that is said."""
        monkeypatch.setenv("LANGGRAPH_STORE_TYPE", "redis")
        monkeypatch.setenv("LANGGRAPH_STORE_REDIS_URL", redis_url.replace("//", "//default:hunter2@"))
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")
        monkeypatch.setenv("THREADKEEP_DATA_DIR", str(tmp_path))

        told = CliRunner().invoke(app, ["doctor", "--json"], catch_exceptions=False)

        report = json.loads(told.stdout)
        assert report["healthy"] is True
        storage = [(row["state"], row["detail"]) for row in report["checks"] if row["what"] == "storage"]
        assert [state for state, _ in storage] == ["ok", "warning"]
        assert "Set appendfsync always" in storage[1][1]
        assert "hunter2" not in told.output

    def test_a_server_that_is_away_is_broken(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unused_tcp_port: int
    ) -> None:
        """With the sentence that says where it was looked for."""
        monkeypatch.setenv("LANGGRAPH_STORE_TYPE", "redis")
        monkeypatch.setenv("REDIS_URL", f"redis://:hunter2@127.0.0.1:{unused_tcp_port}")
        monkeypatch.setenv("THREADKEEP_REDIS_TIMEOUT_MS", "100")
        monkeypatch.setenv("THREADKEEP_DATA_DIR", str(tmp_path))

        told = CliRunner().invoke(app, ["doctor"], catch_exceptions=False)

        assert told.exit_code == 1
        assert "cannot be reached" in " ".join(told.output.split())
        assert "hunter2" not in told.output
