"""``threadkeep serve``: processes of its own, and their end."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import threadkeep
from tests.gateway.world import StreamEvent, events_of, kinds, until
from tests.processes import PIPE, THREADKEEP, PythonProcess, run_python, start_python
from threadkeep.errors import SettingsError, StorageError, StorageVersionError
from threadkeep.gateway.serve import application, load_graph, restart_delay, serve
from threadkeep.testing import HashingEmbedder
from threadkeep_conformance.servers import free_port

SLOW_GRAPH = """
import asyncio
from threadkeep.testing import ScriptedModel

class Slow(ScriptedModel):
    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        async for chunk in super()._astream(messages, stop, run_manager, **kwargs):
            await asyncio.sleep(PAUSE)
            yield chunk

def graph(tk):
    return tk.per_run_owner().graph(model=Slow(replies=("one two three four five",)))
"""
NO_GRAPH = """
from langgraph.graph import MessagesState, StateGraph

def nothing(tk):
    pass

def uncompiled(tk):
    return StateGraph(MessagesState)
"""
EXTRACTS = {"ENABLE_FACT_EXTRACTION": "true"}
COMMAND = (sys.executable, *THREADKEEP)
FORKING = f"""
import multiprocessing
import uvicorn._subprocess

uvicorn._subprocess.spawn = multiprocessing.get_context("fork")
{THREADKEEP[-1]}
"""
FACTS = ("I live in Rome.", "I like jazz.", "I have two cats.", "I work as a nurse.")
ADDRESS = re.compile(r"running on (http://[^\s\"]+)")


class Served:
    """A server of its own process, such as ``threadkeep serve``."""

    def __init__(self, process: subprocess.Popen[str] | PythonProcess, origin: str, lines: list[str]) -> None:
        self.process = process
        self.origin = origin
        self.lines = lines

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=f"{self.origin}/api", timeout=60)


def storage_of(folder: Path) -> dict[str, str]:
    """Return this environment with a SQLite file in *folder*."""
    file = str(folder / "memory.db")
    storage = {"LANGGRAPH_STORE_TYPE": "sqlite", "LANGGRAPH_STORE_SQLITE_PATH": file, "EMBEDDINGS_PROVIDER": "none"}
    return {**os.environ, **storage}


@contextmanager
def learning(folder: Path) -> Iterator[None]:
    """Start a ``threadkeep worker``, and end it."""
    with start_python(*THREADKEEP, "worker", env=storage_of(folder)) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)


@contextmanager
def served(
    folder: Path, *arguments: str, pause: float = 0.0, package: Path | None = None, **environment: str
) -> Iterator[Served]:
    """Start a server in a new interpreter.

    *package*: the folder that it imports threadkeep from, instead of the sources.
    """
    variables = prepare_server(folder, pause, environment)
    first = COMMAND[-1] if package is None else f"import sys; sys.path.insert(0, {str(package)!r}); {COMMAND[-1]}"
    command = [*COMMAND[:-1], first, "serve", "--port", "0", *arguments]
    with started(command, folder, variables) as server:
        yield server


@contextmanager
def forked_server(folder: Path, *arguments: str, pause: float = 0.0, **environment: str) -> Iterator[Served]:
    """Start a server that forks from a process that has imported everything, and whose processes fork from it."""
    words = ("serve", "--port", "0", *arguments)
    variables = prepare_server(folder, pause, environment)
    with listening(start_python("-c", FORKING, *words, cwd=folder, env=variables, stderr=PIPE)) as server:
        yield server


def prepare_server(folder: Path, pause: float, environment: Mapping[str, str]) -> dict[str, str]:
    """Write the agent, which waits *pause* seconds before each word, into *folder*; return a server's environment."""
    (folder / "agent_module.py").write_text(SLOW_GRAPH.replace("PAUSE", str(pause)))
    return {
        **storage_of(folder),
        "THREADKEEP_SINGLE_USER": "ana",
        "THREADKEEP_MAX_TURNS_PER_OWNER": "1000",
        "THREADKEEP_MAX_TURNS_PER_MINUTE": "10000",
        **environment,
    }


@contextmanager
def bare_server(folder: Path, factory: str, environment: Mapping[str, str], *, forked: bool) -> Iterator[Served]:
    """Start uvicorn with the application that ``module:function`` returns, in a new interpreter or *forked*."""
    options = ("--factory", "--port", "0", "--loop", "uvloop", "--http", "httptools", "--no-access-log")
    words, variables = ("-m", "uvicorn", factory, *options), {**os.environ, **environment}
    if forked:
        starting = listening(start_python(*words, cwd=folder, env=variables, stderr=PIPE))
    else:
        starting = started([sys.executable, *words], folder, variables)
    with starting as server:
        yield server


@contextmanager
def started(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> Iterator[Served]:
    """Start a server in a new interpreter, wait until it listens, and end it."""
    process = subprocess.Popen(command, cwd=folder, env=variables, stderr=subprocess.PIPE, text=True)
    with listening(process) as server:
        yield server


@contextmanager
def listening(process: subprocess.Popen[str] | PythonProcess) -> Iterator[Served]:
    """Wait until the server listens, and end it."""
    lines: list[str] = []
    address: list[str] = []
    known = threading.Event()

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            if found := ADDRESS.search(line):
                address.append(found[1])
                known.set()
        known.set()

    reading = threading.Thread(target=read)
    reading.start()
    try:
        known.wait(180)  # a machine that is busy starts slowly
        assert address, "".join(lines)
        until_listening(address[0])
        yield Served(process, address[0], lines)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(60)  # it ends 35 seconds after the signal at the latest
        reading.join()
        if process.stderr is not None:
            process.stderr.close()


def until_listening(origin: str) -> None:
    """Wait until a process accepts connections; with several processes the address is told before."""
    host, _, port = origin.removeprefix("http://").partition(":")
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return
        threading.Event().wait(0.1)


async def turn(
    client: httpx.AsyncClient, message: str, thread_id: str, found: list[StreamEvent] | None = None
) -> list[StreamEvent]:
    """Return the events of a turn, as far as they came; each is in *found* as soon as it came."""
    found = [] if found is None else found
    body = {"message": message, "thread_id": thread_id}
    try:
        async with client.stream("POST", "/chat/stream", json=body) as response:
            if response.status_code != 200:
                return found
            async for event in events_of(response):
                found.append(event)
    except httpx.HTTPError as error:
        found.append(StreamEvent("", "cut", {"error": repr(error)}))
    return found


async def until_learnt(client: httpx.AsyncClient, count: int) -> set[str]:
    """Return what is known once it is *count* facts; a worker looks for turns of other processes every 5 seconds."""
    known: set[str] = set()
    for _ in range(150):
        listed = (await client.get("/memories", params={"kind": "semantic"})).json()["memories"]
        known = {one["text"] for one in listed}
        if len(known) >= count:
            break
        await asyncio.sleep(0.2)
    return known


@pytest.mark.slow
class TestServe:
    @pytest.mark.long
    async def test_turns_and_joins_over_processes(self, tmp_path: Path):
        """Whichever process a request reaches, it finds the threads; ``threadkeep worker`` learns from them."""
        port = free_port()
        variables: Any = {"THREADKEEP_METRICS_PORT": str(port), "THREADKEEP_CAPTURE_WORKERS": "0"}
        arguments = ("--workers", "2", "--graph", "agent_module:graph")

        async def joined_elsewhere(number: int) -> None:
            async with server.client() as client:
                events = await turn(client, FACTS[number], f"t{number}")
                assert "done" in kinds(events)
            async with server.client() as client:
                run_id = events[0].data["run_id"]
                assert (await client.get(f"/runs/{run_id}")).json()["thread_id"] == f"t{number}"

        with served(tmp_path, *arguments, **variables) as server, learning(tmp_path):
            await asyncio.gather(*(joined_elsewhere(number) for number in range(4)))
            async with server.client() as client:
                threads = (await client.get("/threads")).json()["threads"]
                foreign = await client.get("/threads", headers={"Host": "evil.example"})
                counted = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
                learnt = await until_learnt(client, 4)
        assert {one["thread_id"] for one in threads} == {"t0", "t1", "t2", "t3"}
        assert set(FACTS) <= learnt
        assert foreign.status_code == 401
        assert 'threadkeep_turns_total{outcome="done"}' in counted
        assert server.process.returncode == 0

    def test_a_process_that_is_slow_for_seconds_is_not_killed(self, tmp_path: Path):
        """It may start on a busy machine, and it may have runs."""
        with forked_server(tmp_path, "--workers", "2", "--graph", "agent_module:graph") as server:
            children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
            before = children.read_text().split()
            os.kill(int(before[0]), signal.SIGSTOP)
            try:
                with pytest.raises(subprocess.TimeoutExpired):
                    server.process.wait(8)
                after = children.read_text().split()
            finally:
                os.kill(int(before[0]), signal.SIGCONT)

        assert len(before) == 2
        assert after == before
        assert "died" not in "".join(server.lines)

    @pytest.mark.long
    async def test_sigterm_under_load_loses_no_acknowledged_turn(self, tmp_path: Path):
        """Each stream ends with ``done``, or with ``error`` and the run's id; what is done is recorded."""
        with forked_server(
            tmp_path, "--graph", "agent_module:graph", pause=1.6, THREADKEEP_DRAIN_SECONDS="5"
        ) as server:
            async with server.client() as client:
                seen = [list[StreamEvent]() for _ in range(12)]
                words = [f"Early{n}" if n < 6 else f"Late{n - 6}" for n in range(12)]

                def start(numbers: Iterable[int]) -> list[asyncio.Task[list[StreamEvent]]]:
                    return [
                        asyncio.create_task(turn(client, f"I live in {words[n]}.", words[n], seen[n])) for n in numbers
                    ]

                early = start(range(6))
                await until(lambda: all(kinds(events).count("token") >= 3 for events in seen[:6]))
                late = start(range(6, 12))
                await until(lambda: all(kinds(events).count("token") >= 4 for events in seen[:6]) and all(seen))
                server.process.send_signal(signal.SIGTERM)
                answers = await asyncio.gather(*early, *late)
            await asyncio.to_thread(server.process.wait, 30)

        ends = [next((event for event in events if event.kind in ("done", "error")), None) for events in answers]
        assert all(end is not None for end in ends), [kinds(events) for events in answers]
        stopped = [end.data for end in ends if end is not None and end.kind == "error"]
        assert stopped
        assert {one["code"] for one in stopped} == {"restarting"}
        assert all(one["run_id"] for one in stopped)
        done = [n for n, end in enumerate(ends) if end is not None and end.kind == "done"]
        assert done
        with threadkeep.open(f"sqlite:///{tmp_path / 'memory.db'}", embedder=HashingEmbedder()) as tk:
            tk.sync.drain()
            known = {one.text for one in tk.sync.memories.list(owner="ana", limit=100)}
        for n in done:
            assert any(words[n] in text for text in known), words[n]


@pytest.mark.slow
class TestStopping:
    async def test_a_run_may_end_before_the_server_does(self, tmp_path: Path):
        """The server is not ready at once, refuses turns, answers reads until the run has ended, and exits with 0."""
        with forked_server(tmp_path, "--graph", "agent_module:graph", pause=0.3) as server:
            async with server.client() as client:
                running = asyncio.create_task(turn(client, "I live in Rome.", "t"))
                await until_running(client, "t")
                server.process.send_signal(signal.SIGTERM)
                ready = await until_stopping(client)
                refused = await client.post("/chat/stream", json={"message": "Hello", "thread_id": "t2"})
                read = await client.get("/threads")
                events = await running
            await asyncio.to_thread(server.process.wait, 30)

        assert (ready.status_code, ready.json()["ready"]) == (503, False)
        assert (refused.status_code, refused.json()["code"]) == (503, "restarting")
        assert int(refused.headers["Retry-After"]) > 0
        assert read.status_code == 200
        assert "done" in kinds(events)
        assert server.process.returncode == 0

    @pytest.mark.parametrize("workers", ["1", "2"])
    async def test_the_second_signal_ends_it_at_once(self, tmp_path: Path, workers: str):
        """The run is cut; what was acknowledged is stored, and the next process takes the thread."""
        with forked_server(tmp_path, "--graph", "agent_module:graph", "--workers", workers, pause=0.2) as server:
            async with server.client() as client:
                done = await turn(client, "I live in Rome.", "first")
                running = asyncio.create_task(turn(client, "I like jazz.", "t"))
                await until_running(client, "t")
                server.process.send_signal(signal.SIGTERM)
                await until_stopping(client)
                server.process.send_signal(signal.SIGTERM)
                events = await running
            await asyncio.to_thread(server.process.wait, 30)

        assert "done" in kinds(done)
        assert "done" not in kinds(events)
        assert server.process.returncode == 1
        with threadkeep.open(f"sqlite:///{tmp_path / 'memory.db'}", embedder=HashingEmbedder()) as tk:
            tk.sync.drain()
            assert any("Rome" in one.text for one in tk.sync.memories.list(owner="ana"))

    async def test_the_next_process_takes_a_thread_that_was_given_back(self, tmp_path: Path):
        """A run that outlasts the drain is told ``restarting``; its thread is free before its lease would end."""
        patient = {"THREADKEEP_LEASE_SECONDS": "600", "THREADKEEP_DRAIN_SECONDS": "0.2"}
        with forked_server(tmp_path, "--graph", "agent_module:graph", pause=30, **patient) as server:
            async with server.client() as client:
                running = asyncio.create_task(turn(client, "I live in Rome.", "t"))
                await until_running(client, "t")
                server.process.send_signal(signal.SIGTERM)
                stopped = await running
            await asyncio.to_thread(server.process.wait, 30)
        with forked_server(tmp_path, "--graph", "agent_module:graph", **patient) as server:
            async with server.client() as client:
                again = await turn(client, "I live in Rome.", "t")

        assert stopped[-1].data["code"] == "restarting"
        assert stopped[-1].data["run_id"] == stopped[0].data["run_id"]
        assert "done" in kinds(again)


HANGING_GRAPH = """
import asyncio, threading, time
from langgraph.graph import MessagesState, StateGraph
from langgraph.config import get_stream_writer

def block():
    time.sleep(3600)

def graph(tk):
    async def event_loop(state):
        get_stream_writer()({"type": "policy"})
        asyncio.get_running_loop().call_later(0.1, block)
        await asyncio.Event().wait()

    def thread(state):
        get_stream_writer()({"type": "policy"})
        threading.Event().wait()

    built = StateGraph(MessagesState).add_node("node", NODE).set_entry_point("node")
    return built.compile(checkpointer=tk.per_run_owner().checkpointer)
"""


@pytest.mark.slow
class TestHanging:
    @pytest.mark.long
    @pytest.mark.timeout(120)
    @pytest.mark.parametrize("what", ["thread", "event_loop"])
    async def test_what_never_returns_does_not_keep_the_process(self, tmp_path: Path, what: str):
        """A tool's thread is left behind once all is closed; a blocked event loop is shown, and the process ends."""
        (tmp_path / "hanging_module.py").write_text(HANGING_GRAPH.replace("NODE", what))
        limited = f"import threadkeep.gateway.serve as s; s.STOP_SECONDS = 1; {COMMAND[-1]}"
        variables = prepare_server(tmp_path, 0, {"THREADKEEP_DRAIN_SECONDS": "0.2"})
        command = [*COMMAND[:-1], limited if what == "event_loop" else COMMAND[-1]]
        command += ["serve", "--port", "0", "--graph", "hanging_module:graph"]
        with started(command, tmp_path, variables) as server:
            async with server.client() as client:
                seen: list[StreamEvent] = []
                running = asyncio.create_task(turn(client, "Hello", "t", seen))
                await until(lambda: "policy" in kinds(seen))
                server.process.send_signal(signal.SIGTERM)
                await running
            await asyncio.to_thread(server.process.wait, 60)

        assert server.process.returncode == (1 if what == "event_loop" else 0)
        assert ("in block\n" in "".join(server.lines)) is (what == "event_loop")


async def until_running(client: httpx.AsyncClient, thread_id: str) -> None:
    """Wait until the thread has a run in progress."""
    for _ in range(300):
        found = await client.get(f"/threads/{thread_id}")
        if found.status_code == 200:
            return
        await asyncio.sleep(0.05)


async def until_stopping(client: httpx.AsyncClient) -> httpx.Response:
    """Return the first answer of ``/readyz`` that is not 200."""
    origin = str(client.base_url).rpartition("/api")[0]
    for _ in range(300):
        answer = await client.get(f"{origin}/readyz")
        if answer.status_code != 200:
            return answer
        await asyncio.sleep(0.02)
    pytest.fail("/readyz never said that the server stops")


OWN_CHECKPOINTER = """
from langgraph.checkpoint.memory import InMemorySaver
from threadkeep.testing import ScriptedModel
from langchain.agents import create_agent

def graph(tk):
    return create_agent(ScriptedModel(), [], checkpointer=InMemorySaver())
"""


async def test_what_was_loaded_is_left_out_of_garbage_collections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A full collection of a gateway that has just begun takes a fifth of a second, and stops every turn."""
    for name, value in prepare_server(tmp_path, 0.0, {}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(tmp_path)
    app, before = application("agent_module:graph"), gc.get_freeze_count()
    try:
        async with app.router.lifespan_context(app):
            assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()


class TestRefusals:
    def test_a_wrong_setting_is_one_sentence(self, tmp_path: Path):
        """The command ends with 2 before it listens, and names the variable."""
        variables = {**storage_of(tmp_path), "THREADKEEP_MAX_RUNS": "many"}
        done = run_python(*THREADKEEP, "serve", "--port", "0", env=variables, cwd=tmp_path)

        assert done.returncode == 2
        assert "THREADKEEP_MAX_RUNS cannot be 'many'" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert not (tmp_path / "memory.db").exists()

    @pytest.mark.parametrize(
        ("environment", "host", "error", "sentence"),
        [
            ({}, "127.0.0.1", SettingsError, "THREADKEEP_SINGLE_USER"),
            ({"THREADKEEP_ISSUERS": "https://a.example"}, "127.0.0.1", SettingsError, "THREADKEEP_AUDIENCE"),
            ({"THREADKEEP_SINGLE_USER": "ana"}, "0.0.0.0", SettingsError, "loopback"),
            ({"THREADKEEP_SINGLE_USER": "ana"}, "192.0.2.1", SettingsError, "loopback"),
            ({"THREADKEEP_GROUP_SCOPES": "{"}, "127.0.0.1", SettingsError, "THREADKEEP_GROUP_SCOPES cannot be"),
            ({"THREADKEEP_RECALL_TIMEOUT_MS": "soon"}, "127.0.0.1", SettingsError, "THREADKEEP_RECALL_TIMEOUT_MS"),
            ({"THREADKEEP_GRAPH": "none:graph"}, "127.0.0.1", SettingsError, "importable"),
            ({"THREADKEEP_GRAPH": "own_agent:graph"}, "127.0.0.1", SettingsError, "per_run_owner"),
            ({"THREADKEEP_GRAPH": "bad_syntax:graph"}, "127.0.0.1", SettingsError, "bad_syntax.py, line 1)"),
            (
                {"THREADKEEP_GRAPH": "bad_import:graph"},
                "127.0.0.1",
                SettingsError,
                "its code raises RuntimeError: Not today. (",
            ),
            ({"THREADKEEP_GRAPH": "failing_agent:graph"}, "127.0.0.1", SettingsError, "raises KeyError: 'key'"),
            ({"THREADKEEP_GRAPH": "leaving_agent:graph"}, "127.0.0.1", SettingsError, "raises SystemExit: 3"),
            ({"THREADKEEP_GRAPH": "no_graph:nothing"}, "127.0.0.1", SettingsError, "returns a compiled graph"),
            ({"THREADKEEP_GRAPH": "no_graph:uncompiled"}, "127.0.0.1", SettingsError, "returns a compiled graph"),
            ({"THREADKEEP_MODEL": "none_such:model"}, "127.0.0.1", SettingsError, "no model provider none_such"),
            ({"THREADKEEP_MODEL": "openai:gpt-5-mini"}, "127.0.0.1", SettingsError, "OPENAI_API_KEY"),
            ({"FACT_EXTRACTION_MODEL": "mini", **EXTRACTS}, "127.0.0.1", SettingsError, "FACT_EXTRACTION_MODEL=openai"),
            (
                {"THREADKEEP_METRICS_HOST": "192.0.2.1", "THREADKEEP_METRICS_PORT": "9464"},
                "127.0.0.1",
                SettingsError,
                "THREADKEEP_METRICS_PORT",
            ),
            (
                {"THREADKEEP_EMBEDDINGS_PROVIDER": "none-such"},
                "127.0.0.1",
                SettingsError,
                "THREADKEEP_EMBEDDINGS_MODEL",
            ),
            ({"THREADKEEP_SINGLE_USER": "a" * 1001}, "127.0.0.1", SettingsError, "THREADKEEP_SINGLE_USER is invalid"),
            *(
                ({"THREADKEEP_ISSUERS": issuer, "THREADKEEP_AUDIENCE": "a"}, "127.0.0.1", SettingsError, "name a host")
                for issuer in ("https://", "https://[a", "https://a:99999", "http://a.example")
            ),
            ({"LANGGRAPH_STORE_SQLITE_PATH": "/dev/null/memory.db"}, "127.0.0.1", StorageError, "/dev/null"),
            ({"LANGGRAPH_STORE_SQLITE_PATH": "newer.db"}, "127.0.0.1", StorageVersionError, "Upgrade Threadkeep"),
            ({"THREADKEEP_MIGRATE": "check"}, "127.0.0.1", StorageVersionError, "threadkeep migrate"),
            ({"THREADKEEP_CLIENT_SECRET_FILE": "none"}, "127.0.0.1", SettingsError, "THREADKEEP_CLIENT_SECRET_FILE"),
        ],
    )
    def test_a_server_that_cannot_work_does_not_start(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        environment: dict[str, str],
        host: str,
        error: type[Exception],
        sentence: str,
    ):
        """What is wrong is one sentence, before a port is open."""
        (tmp_path / "own_agent.py").write_text(OWN_CHECKPOINTER)
        (tmp_path / "bad_syntax.py").write_text("def graph(:\n")
        (tmp_path / "bad_import.py").write_text("raise RuntimeError('Not\\ntoday.')\n")
        (tmp_path / "leaving_agent.py").write_text("def graph(tk):\n    raise SystemExit(3)\n")
        (tmp_path / "no_graph.py").write_text(NO_GRAPH)
        (tmp_path / "failing_agent.py").write_text("def graph(tk):\n    return {}['key']\n")
        with threadkeep.open(f"sqlite:///{tmp_path / 'newer.db'}", embedder="none") as tk:
            tk.sync.ready()
        with closing(sqlite3.connect(tmp_path / "newer.db")) as newer:
            newer.execute("PRAGMA user_version = 99")
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
            monkeypatch.delenv(name, raising=False)
        port = free_port()
        single = {} if not environment or "THREADKEEP_ISSUERS" in environment else {"THREADKEEP_SINGLE_USER": "ana"}
        memory = {"LANGGRAPH_STORE_TYPE": "sqlite", "LANGGRAPH_STORE_SQLITE_PATH": "memory.db"}
        for name, value in {**memory, **single, **environment}.items():
            monkeypatch.setenv(name, value)

        with pytest.raises(error, match=re.escape(sentence)) as refused:
            serve(host, port)

        assert "\n" not in str(refused.value)
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0

    def test_a_port_that_is_taken_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ):
        """So is the missing model, before."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("THREADKEEP_SINGLE_USER", "ana")
        monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", "memory.db")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            number = taken.getsockname()[1]

            with pytest.raises(SettingsError, match=f"Port {number} at 127.0.0.1"):
                serve("127.0.0.1", number)

        assert "THREADKEEP_MODEL=provider:name" in caplog.text

    @pytest.mark.linux
    def test_a_full_disk_is_named(self, tmp_path: Path):
        """No file of this process may grow beyond 4 kB: the storage cannot be created."""
        limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); {COMMAND[-1]}"
        variables = {**storage_of(tmp_path), "THREADKEEP_SINGLE_USER": "ana"}
        done = run_python("-c", limited, "serve", "--port", "0", env=variables, cwd=tmp_path)

        assert done.returncode == 1
        assert "(storage_full)" in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize("place", ["none:graph", "json", "json:none", "", "tests.gateway.test_serve:SLOW_GRAPH"])
    async def test_a_graph_that_cannot_be_loaded(self, place: str):
        async with threadkeep.open("memory:", embedder="none") as tk:
            with pytest.raises(SettingsError, match="THREADKEEP_GRAPH"):
                load_graph(place, tk)


DYING = """
import multiprocessing, os, threading, uvicorn, uvicorn._subprocess
from threadkeep.gateway.serve import GatewayProcesses, bind

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        threading.Timer(0.1, os._exit, [1]).start()
        await receive()

if __name__ == "__main__":
    uvicorn._subprocess.spawn = multiprocessing.get_context("fork")
    with bind("127.0.0.1", 0) as listening:
        GatewayProcesses(uvicorn.Config("dying:app", workers=2), sockets=[listening]).run()
"""


class TestRestarts:
    def test_delays_grow_to_a_minute(self):
        assert [restart_delay(deaths) for deaths in (1, 2, 3, 6, 7, 1000)] == [1, 2, 4, 32, 60, 60]

    @pytest.mark.slow
    def test_processes_that_die_are_replaced_ever_later(self, tmp_path: Path):
        (tmp_path / "dying.py").write_text(DYING)
        delays: list[str] = []
        with start_python("dying.py", cwd=tmp_path, stderr=PIPE) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.search(r"replaced after (\S+) s", line):
                    delays.append(found[1])
                if len(delays) == 2:
                    break
            process.send_signal(signal.SIGTERM)
            process.stderr.read()

        assert delays == ["1", "2"]
