"""Chat pages: what agent-chat-ui and assistant-ui send, replayed; and their code itself, where Node is.

``recorded_requests.json`` holds the requests that ``node/clients.mjs`` saw: ``useStream`` of LangGraph's SDK with the
options of agent-chat-ui, and the stream callback of ``@assistant-ui/react-langgraph``. The long test renews it.
"""

from __future__ import annotations

import json
import re
import subprocess
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.gateway.langgraph_api.conftest import sdk
from tests.gateway.node_packages import node_folder
from tests.gateway.world import USER, GatewayWorld

HERE: Final = Path(__file__).parent
RECORD: Final = HERE / "recorded_requests.json"
SECONDS: Final = 120

_MESSAGE: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_CHECKPOINT: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-6[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_RUN: Final = re.compile(r"[0-9a-f]{32}\.[A-Za-z0-9_-]+")
_THREAD: Final = re.compile(r"[0-9a-f]{32}")


def run_clients(world: GatewayWorld, version: str) -> dict[str, Any]:
    """Run the clients with a version of LangGraph's SDK for JavaScript, and return what they saw and sent."""
    folder = node_folder(HERE / "node", HERE.parents[2] / ".build" / "node-langgraph")
    command = ["node", "clients.mjs", f"{world.origin}/lg", json.dumps({USER: f"ana{version}"}), version]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return json.loads(done.stdout)


def recorded(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return requests with names in place of ids, and one for several that ask the same again."""
    text = json.dumps(requests)
    for pattern, name in ((_MESSAGE, "message"), (_CHECKPOINT, "checkpoint"), (_RUN, "run"), (_THREAD, "thread")):
        text = pattern.sub(f"<{name}>", text)
    return [one for one, _ in groupby(json.loads(text))]


class Replay:
    """Sends recorded requests, with the ids that this server gave.

    Args:
        http: Sends them as a user.
    """

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._ids = {"message": "00000000-0000-4000-8000-000000000000"}
        self._messages = 0

    async def send(self, request: dict[str, Any]) -> tuple[int, list[str]]:
        """Return the status and the events of the answer to a request; a stream that hangs is left."""
        text = json.dumps(request)
        for name, value in self._ids.items():
            text = text.replace(f"<{name}>", value)
        self._messages += 1
        self._ids["message"] = f"00000000-0000-4000-8000-{self._messages:012}"
        ready = json.loads(text)
        options: dict[str, Any] = {} if ready["body"] is None else {"json": ready["body"]}
        async with self._http.stream(ready["method"], ready["path"], **options) as answer:
            if "text/event-stream" in answer.headers["content-type"]:
                return answer.status_code, await self._events(answer, hangs="hang" in text or "cancel_on" in text)
            await answer.aread()
        if answer.status_code < 300 and answer.content:
            self._remember(ready["path"], answer.json())
        return answer.status_code, []

    async def _events(self, answer: httpx.Response, *, hangs: bool) -> list[str]:
        events: list[str] = []
        async for line in answer.aiter_lines():
            if line.startswith("event: "):
                events.append(line.removeprefix("event: "))
            if hangs and line == "" and "values" in events:
                break
        return events

    def _remember(self, path: str, value: Any) -> None:
        if path.endswith("/threads"):
            self._ids["thread"] = value["thread_id"]
        elif path.endswith("/runs"):
            self._ids["run"] = value["run_id"]
        elif path.endswith("/history"):
            self._ids["checkpoint"] = value[-1]["checkpoint"]["checkpoint_id"]


class TestRecorded:
    @pytest.mark.parametrize("page", ["agent-chat-ui", "assistant-ui"])
    async def test_each_request_is_answered_as_before(self, world: GatewayWorld, page: str):
        requests = json.loads(RECORD.read_text())[page]
        streams = 0
        async with httpx.AsyncClient(base_url=world.origin, headers={USER: "ana"}, timeout=60) as http:
            replay = Replay(http)
            for request in requests:
                status, events = await replay.send(request)
                assert status == request["status"], request
                if request["path"].endswith("/runs/stream"):
                    streams += 1
                    assert events[0] == "metadata"
                    assert events[-1] == ("values" if "hang" in json.dumps(request) else "end"), (request, events)
        async with sdk(world) as client:
            threads = await client.threads.search(metadata={"graph_id": "agent"})
            texts = [str(one["content"]) for one in threads[0]["values"]["messages"]]

        assert streams >= 3
        assert any("you said color" in text for text in texts) or "you said other" in texts
        assert {thread["status"] for thread in threads} == {"idle"}


@pytest.mark.soak
@pytest.mark.timeout(400)
class TestJavaScript:
    @pytest.mark.parametrize("version", ["1", "2"])
    async def test_use_stream(self, world: GatewayWorld, version: str):
        found = run_clients(world, version)["result"]

        assert found["info"] is True
        assert found["talk"] == ["hello", "you said hello"]
        assert found["tokens"][-1] == "you said one two three"
        assert found["stopped"] == "idle"
        assert found["interrupt"] == {"question": "Which color?"}
        assert found["resumed"] == "you said color blue"
        assert found["edited"] == ["hello", "you said hello", "other", "you said other"]
        assert found["rejoined"] is True
        assert found["threads"] == 1

    async def test_assistant_ui(self, world: GatewayWorld):
        seen = run_clients(world, "1")
        found = seen["result"]
        fresh = {"agent-chat-ui": seen["requests"], "assistant-ui": found["assistantUiRequests"]}
        fresh = {page: recorded(requests) for page, requests in fresh.items()}

        record = json.loads(RECORD.read_text()) if RECORD.exists() else None
        RECORD.write_text(json.dumps(fresh, indent=1) + "\n")
        assert found["assistantUi"] == ["you said hello"]
        assert found["assistantUiInterrupt"] == {"question": "Which color?"}
        assert found["assistantUiResumed"] == "you said color red"
        assert record == fresh, "The clients send other requests than recorded; the record is written anew."
