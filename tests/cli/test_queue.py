"""``threadkeep queue`` in this process, and ``threadkeep worker`` as the program it is."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import threadkeep
from tests.command_line import CliRunner
from tests.fakes.model_server import Hang, ModelServer
from tests.processes import PIPE, THREADKEEP, PythonProcess, start_python
from threadkeep.capture.extractors import Extraction, Extractor
from threadkeep.capture.models import Turn
from threadkeep.cli.main import app
from threadkeep.clock import SystemClock
from threadkeep.container import Container
from threadkeep.memories.models import Memory
from threadkeep.registry import create_storage
from threadkeep.settings import Settings

ROOT = Path(__file__).parents[2]


@dataclass
class Failing:
    """Fails on every turn."""

    name: str = "failing"
    uses_known: bool = False

    async def extract(self, turn: Turn, known: Sequence[Memory]) -> Extraction:
        msg = "no"
        raise RuntimeError(msg)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the data, which the environment names."""
    monkeypatch.setenv("THREADKEEP_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")
    return tmp_path / "data"


def opened(extractor: Extractor | None = None, **given: Any) -> threadkeep.Threadkeep:
    settings, clock = Settings.load(capture_workers=0, **given), SystemClock()
    return threadkeep.Threadkeep(Container(settings, create_storage(settings, clock), None, clock, extractor=extractor))


def record(tk: threadkeep.Threadkeep, text: str, *, thread: str = "th") -> None:
    tk.sync.capture([{"role": "user", "content": text}], owner="ana", thread_id=thread)


def answer(*words: str) -> Any:
    result = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


class TestQueue:
    """List and retry."""

    def test_dead_turn_is_shown_with_its_reason_and_tried_again(self, data: Path):
        """And looking at the queue learns from nothing."""
        with opened(Failing(), capture_tries=1) as tk:
            record(tk, "I live in Lisbon")
            tk.sync.drain()
            record(tk, "I work at Acme", thread="other")

        dead, waiting = answer("queue", "list")
        assert (dead["state"], dead["reason"], dead["tries"]) == ("dead", "RuntimeError", 1)
        assert (waiting["state"], waiting["user_id"], waiting["thread_id"]) == ("waiting", "ana", "other")
        assert "RuntimeError" in CliRunner().invoke(app, ["queue", "list"]).output

        assert answer("queue", "retry", "--all") == [dead["turn_id"]]
        assert [row["state"] for row in answer("queue", "list")] == ["waiting", "waiting"]
        assert answer("queue", "list", "--user", "bob") == []

    def test_it_says_what_it_needs(self, data: Path):
        """Nothing waits; which turns to retry has to be said; what is not there is said."""
        runner = CliRunner()

        assert "No turn waits" in runner.invoke(app, ["queue", "list"]).output
        assert runner.invoke(app, ["queue", "retry"]).exit_code == 2
        assert runner.invoke(app, ["queue", "retry", "unknown"]).exit_code == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGTERM")
class TestWorker:
    """The program."""

    def test_it_learns_from_what_others_record_and_ends_when_told_to(self, data: Path):
        """In order: what it has is finished, nothing is left taken, and the exit code is 0."""
        with opened() as tk:
            record(tk, "I live in Lisbon")
            process = started("--json")
            until_learnt(tk)
            record(tk, "I work at Acme", thread="other")
            until_learnt(tk)

            process.send_signal(signal.SIGTERM)

            said, _ = process.communicate(timeout=20)
            assert process.returncode == 0
            assert json.loads(said) == {"storage": f"sqlite {data / 'memory.sqlite3'}", "concurrency": 4, "turns": 2}
            assert {memory.text for memory in tk.sync.memories.list(owner="ana", kind="semantic")} == {
                "I live in Lisbon",
                "I work at Acme",
            }

    @pytest.mark.long
    @pytest.mark.parametrize("queue", ["embedded", pytest.param("procrastinate", marks=pytest.mark.soak)])
    def test_model_that_hangs_does_not_hold_up_its_end(self, data: Path, queue: str, request: pytest.FixtureRequest):
        """It ends all the same, and gives back what it had, whoever wakes it."""
        woken = {"THREADKEEP_QUEUE": queue}
        if queue == "procrastinate":
            pytest.importorskip("procrastinate")
            woken["THREADKEEP_QUEUE_POSTGRES_DSN"] = request.getfixturevalue("postgres_url")
        with ModelServer([Hang()]) as server, opened() as tk:
            record(tk, "I live in Lisbon")
            process = started(
                ENABLE_FACT_EXTRACTION="true",
                FACT_EXTRACTION_MODEL="openai:gpt-test",
                OPENAI_API_KEY="sk-test",
                OPENAI_BASE_URL=server.base_url,
                **woken,
            )
            until(lambda: bool(server.requests))
            process.send_signal(signal.SIGTERM)

            assert process.wait(20) == 0
            (turn,) = tk.sync.queue.list()
            assert (turn.state, turn.tries) == ("waiting", 0)

    def test_the_second_signal_ends_it_at_once(self):
        """Its turn stays in the queue, for the next worker when the lease ends."""
        with ModelServer([Hang()]) as server, opened() as tk:
            record(tk, "I live in Lisbon")
            process = started(
                "--json",
                ENABLE_FACT_EXTRACTION="true",
                FACT_EXTRACTION_MODEL="openai:gpt-test",
                OPENAI_API_KEY="sk-test",
                OPENAI_BASE_URL=server.base_url,
            )
            until(lambda: bool(server.requests))
            process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            process.send_signal(signal.SIGTERM)

            said, _ = process.communicate(timeout=20)

            assert (process.returncode, said) == (1, "")
            assert len(tk.sync.queue.list()) == 1

    def test_each_line_is_json_where_the_log_is(self, tmp_path: Path):
        """Also what it says when it starts and stops."""
        environment = {"LANGGRAPH_STORE_SQLITE_PATH": str(tmp_path / "memory.db"), "THREADKEEP_LOG_FORMAT": "json"}
        with started(stderr=PIPE, **environment) as process:
            assert process.stderr is not None
            first = process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            lines = [first, *process.stderr]

        messages = [json.loads(line)["message"] for line in lines]
        assert messages[0].startswith("Learning from turns in ")
        assert messages[-1] == "Stopping."


def started(*words: str, stderr: int | None = None, **environment: str) -> PythonProcess:
    variables = {**os.environ, **environment}
    return start_python(
        *THREADKEEP, "worker", *words, cwd=ROOT, env=variables, stdout=PIPE if words else None, stderr=stderr
    )


def until_learnt(tk: threadkeep.Threadkeep) -> None:
    until(lambda: not tk.sync.queue.list())


def until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)
