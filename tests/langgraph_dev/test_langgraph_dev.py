"""The graph loads and remembers under ``langgraph dev``, where only the server says who somebody is."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import missing
from threadkeep.owners.owner import Owner

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final = Path(__file__).parent / "project"
UV: Final = ROOT / ".venv/bin/uv"
START_SECONDS: Final = 90.0
LEARN_SECONDS: Final = 30.0

pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.timeout(300), pytest.mark.xdist_group("langgraph_dev")]


@pytest.fixture(scope="module")
def environment() -> Path:
    """Make the server's own environment once; later runs find it again."""
    wanted = hashlib.sha256((PROJECT / "requirements.lock").read_bytes() + (ROOT / "requirements.lock").read_bytes())
    folder = ROOT / ".build/langgraph-dev" / wanted.hexdigest()[:16]
    if not (folder / "ready").exists():
        python = folder / "bin/python"
        steps: list[list[str | Path]] = [
            [UV, "venv", "--quiet", "--clear", "--python", sys.executable, folder],
            [UV, "pip", "install", "--quiet", "--python", python, "--no-deps", "-r", PROJECT / "requirements.lock"],
            [
                UV,
                "pip",
                "install",
                "--quiet",
                "--python",
                python,
                "--no-deps",
                "-e",
                ROOT / "packages/minilm",
                "-e",
                ROOT,
            ],
        ]
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True, check=False)
            if done.returncode:
                missing(f"the environment of langgraph dev ({done.stderr.strip()[-300:]})")
        (folder / "ready").touch()
    return folder


@pytest.fixture(scope="module")
def server(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run ``langgraph dev`` on a free port of the loopback."""
    folder = tmp_path_factory.mktemp("langgraph-dev")
    for file in PROJECT.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "pyproject.toml").write_text('[project]\nname = "served"\nversion = "0"\n')
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "log"
    command = [environment / "bin/langgraph", "dev", "--no-browser", "--no-reload", "--port", str(port)]
    settings = {
        "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
        "HOME": str(folder),
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "THREADKEEP_DATA_DIR": str(folder / "data"),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=settings, stdout=output, stderr=output, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, process, log)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class TestServe:
    """A real server, two users, two threads."""

    def test_second_thread_knows_what_the_first_taught(self, server: str) -> None:
        """The user of the token is remembered across threads; what the client claims to be does not count."""
        ana = "token-of-ana"

        _run(server, ana, _thread(server, ana), "I live in Lisbon and I work as a nurse.")

        until = time.monotonic() + LEARN_SECONDS
        while True:  # it is learnt in the background
            reply = _run(server, ana, _thread(server, ana), "Which city do I live in?", user_id="bob@x.org")
            if "I live in Lisbon" in reply:
                break
            assert time.monotonic() < until, reply

    def test_another_user_is_told_nothing(self, server: str) -> None:
        """Another token, even one that claims to be the first user, gets none of it."""
        _run(server, "token-of-ana", _thread(server, "token-of-ana"), "My passport is in the blue drawer.")

        bob = "token-of-bob"
        reply = _run(server, bob, _thread(server, bob), "Where is my passport?", user_id="ana@x.org")

        assert "blue drawer" not in reply

    def test_without_a_token_nothing_runs(self, server: str) -> None:
        """The server refuses who it does not know."""
        with pytest.raises(urllib.error.HTTPError) as refused:
            _call(f"{server}/threads", "", {})

        assert refused.value.code == 401
        refused.value.close()


class TestStore:
    """The server's store is ours, and each user's own: over HTTP and inside a graph."""

    def test_memories_are_items_of_it(self, server: str) -> None:
        """What was taught in a thread is found in the user's namespace, by the HTTP interface."""
        ana = "token-of-ana"
        _run(server, ana, _thread(server, ana), "My bicycle is green.")
        search = {"namespace_prefix": ["memories", owner_label("ana@x.org")], "query": "bicycle", "limit": 20}

        until = time.monotonic() + LEARN_SECONDS
        while True:
            found = _call(f"{server}/store/items/search", ana, search)["items"]
            if any("bicycle is green" in str(item["value"]) for item in found):
                break
            assert time.monotonic() < until, found

    def test_http_shows_nobody_elses(self, server: str) -> None:
        """Another's namespace, a root, and everything at once are refused with 403."""
        ana = owner_label("ana@x.org")
        put = {"namespace": ["users", ana, "notes"], "key": "k", "value": {"secret": "blue"}}
        _call(f"{server}/store/items", "token-of-ana", put, method="PUT")

        for prefix in (["users", ana, "notes"], ["users"], ["memories"]):
            with pytest.raises(urllib.error.HTTPError) as refused:
                _call(f"{server}/store/items/search", "token-of-bob", {"namespace_prefix": prefix})
            assert refused.value.code == 403
            refused.value.close()
        with pytest.raises(urllib.error.HTTPError) as refused:
            _call(f"{server}/store/namespaces", "token-of-bob", {})
        assert refused.value.code == 403
        refused.value.close()

    def test_a_graph_sees_nobody_elses(self, server: str) -> None:
        """``runtime.store`` inside a graph, which no auth handler limits, is the user's own all the same."""
        ana, bob = ["users", owner_label("ana@x.org"), "pried"], ["users", owner_label("bob@x.org"), "pried"]

        assert _pry(server, "token-of-ana", ana, {"secret": "red"}) == [{"secret": "red"}]
        assert _pry(server, "token-of-bob", ana) == ["not_yours"]
        assert _pry(server, "token-of-bob", ana, {"secret": "forged"}) == ["not_yours"]
        assert _pry(server, "token-of-bob", ["users"]) == ["not_yours"]
        assert _pry(server, "token-of-bob", bob) == []
        assert _pry(server, "token-of-ana", ana) == [{"secret": "red"}]

    def test_what_a_client_configures_is_no_identity(self, server: str) -> None:
        """A client that sends another's id, or the server's own key for it, stays who its token says."""
        ana = ["users", owner_label("ana@x.org"), "claimed"]
        _pry(server, "token-of-ana", ana, {"secret": "gold"})

        claims = {
            "user_id": "ana@x.org",
            "langgraph_user_id": owner_label("ana@x.org"),
            "langgraph_auth_user": {"identity": "ana@x.org", "is_authenticated": True},
            "langgraph_auth_user_id": "ana@x.org",
        }

        assert _pry(server, "token-of-bob", ana, configurable=claims) == ["not_yours"]


class TestRoutes:
    """A route of the application's own is behind the same authentication."""

    def test_it_knows_who_asks(self, server: str) -> None:
        """Each user is shown their own, whatever the query claims."""
        _run(server, "token-of-ana", _thread(server, "token-of-ana"), "My sister lives in Porto.")
        until = time.monotonic() + LEARN_SECONDS
        while not any("Porto" in text for text in _call(f"{server}/memories", "token-of-ana")):
            assert time.monotonic() < until

        shown = _call(f"{server}/memories?user_id=ana@x.org", "token-of-bob")

        assert not any("Porto" in text for text in shown)

    def test_it_is_not_public(self, server: str) -> None:
        """Without a token it is refused, which the server does for such routes only where it is told to."""
        with pytest.raises(urllib.error.HTTPError) as refused:
            _call(f"{server}/memories", "")

        assert refused.value.code == 401
        refused.value.close()


def _pry(
    server: str, token: str, namespace: list[str], value: Any = None, *, configurable: dict[str, Any] | None = None
) -> Any:
    body = {
        "assistant_id": "prying",
        "input": {"namespace": namespace, "value": value},
        "config": {"configurable": configurable or {}},
    }
    answer = _call(f"{server}/runs/wait", token, body)
    assert "found" in answer, answer
    return answer["found"]


def owner_label(user_id: str) -> str:
    return Owner(user_id).label


def _thread(server: str, token: str) -> str:
    return _call(f"{server}/threads", token, {})["thread_id"]


def _run(server: str, token: str, thread_id: str, text: str, **configurable: str) -> str:
    body = {
        "assistant_id": "agent",
        "input": {"messages": [{"role": "user", "content": text}]},
        "config": {"configurable": configurable},
    }
    values = _call(f"{server}/threads/{thread_id}/runs/wait", token, body)
    assert "__error__" not in values, values
    return str(values["messages"][-1]["content"])


def _call(url: str, token: str, body: dict[str, Any] | None = None, *, method: str | None = None) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/ok", timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"langgraph dev did not start:\n{log.read_text()[-3000:]}")
