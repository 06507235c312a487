"""Every route of the real server, asked for what belongs to somebody else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.langgraph_dev.calls import answer_to, call, owner_label, said, thread_of

pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.timeout(300), pytest.mark.xdist_group("langgraph_dev")]

ANA: Final = "token-of-ana"
BOB: Final = "token-of-bob"
SECRET: Final = "heliotrope"
TOLD: Final = {"messages": [{"role": "user", "content": f"My locker word is {SECRET}."}]}
ASKED: Final = {"messages": [{"role": "user", "content": "What is my locker word?"}]}
CRON: Final = {"schedule": "0 0 1 1 *", "assistant_id": "agent", "input": TOLD}
RUN: Final = {"assistant_id": "agent", "input": ASKED}
ERRORS: Final = ('"error":{', '"type":"error"', "event: error")
MEMORIES: Final = ["memories", owner_label("ana@x.org")]


@dataclass(frozen=True)
class Route:
    """A request for what is Ana's; braces stand for its ids.

    Attributes:
        words: Method and path.
        body: What is sent.
        hers: Whether her own request is answered with the secret, so that a refusal of others means something.
        allowed: Whether others are answered, with what is their own.
    """

    words: str
    body: Any = None
    hers: bool = False
    allowed: bool = False


def asks(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


ROUTES: Final = (
    Route("GET /threads/{thread_id}", hers=True),
    Route("PATCH /threads/{thread_id}", {"metadata": {"owner": "bob@x.org"}}),
    Route("DELETE /threads/{thread_id}"),
    Route("POST /threads", {"thread_id": "{thread_id}", "if_exists": "do_nothing"}),
    Route("POST /threads/search", {}, hers=True, allowed=True),
    Route("POST /threads/search", {"metadata": {"owner": "ana@x.org"}}, hers=True, allowed=True),
    Route("POST /threads/search", {"ids": ["{thread_id}"]}, hers=True, allowed=True),
    Route("POST /threads/count", {"ids": ["{thread_id}"]}, allowed=True),
    Route("POST /threads/prune", {"thread_ids": ["{thread_id}"]}),
    Route("GET /threads/{thread_id}/state", hers=True),
    Route("POST /threads/{thread_id}/state", {"values": {"messages": []}}),
    Route("GET /threads/{thread_id}/state/{checkpoint_id}", hers=True),
    Route(
        "POST /threads/{thread_id}/state/checkpoint", {"checkpoint": {"checkpoint_id": "{checkpoint_id}"}}, hers=True
    ),
    Route("GET /threads/{thread_id}/history", hers=True),
    Route("POST /threads/{thread_id}/history", {}, hers=True),
    Route("GET /threads/{thread_id}/storage"),
    Route("POST /threads/{thread_id}/copy", {}),
    Route("GET /threads/{thread_id}/stream"),
    Route("POST /threads/{thread_id}/stream/events", {"channels": ["values", "messages", "updates"]}),
    Route("POST /threads/{thread_id}/commands", {"id": 1, "method": "run.start", "params": RUN}),
    Route("GET /threads/{thread_id}/runs", hers=True),
    Route("POST /threads/{thread_id}/runs", RUN),
    Route("POST /threads/{thread_id}/runs/crons", CRON),
    Route("POST /threads/{thread_id}/runs/stream", RUN),
    Route("POST /threads/{thread_id}/runs/wait", {**RUN, "if_not_exists": "create"}),
    Route("GET /threads/{thread_id}/runs/{run_id}", hers=True),
    Route("DELETE /threads/{thread_id}/runs/{run_id}"),
    Route("GET /threads/{thread_id}/runs/{run_id}/join", hers=True),
    Route("GET /threads/{thread_id}/runs/{run_id}/stream"),
    Route("POST /threads/{thread_id}/runs/{run_id}/cancel"),
    Route("POST /runs", {**RUN, "assistant_id": "{assistant_id}"}),
    Route("POST /runs/batch", [{**RUN, "assistant_id": "{assistant_id}"}]),
    Route("POST /runs/cancel", {"thread_id": "{thread_id}", "run_ids": ["{run_id}"]}),
    Route("POST /runs/stream", RUN, hers=True, allowed=True),
    Route("POST /runs/wait", {**RUN, "context": {"user_id": "ana@x.org"}}, hers=True, allowed=True),
    Route("POST /runs/wait", {**RUN, "metadata": {"owner": "ana@x.org"}}, hers=True, allowed=True),
    Route("POST /runs/crons", {**CRON, "assistant_id": "{assistant_id}"}),
    Route("POST /runs/crons/search", {}, hers=True, allowed=True),
    Route("POST /runs/crons/count", {"metadata": {"of": "ana"}}, allowed=True),
    Route("GET /runs/crons/{cron_id}", hers=True),
    Route("PATCH /runs/crons/{cron_id}", {"schedule": "0 0 2 2 *"}),
    Route("DELETE /runs/crons/{cron_id}"),
    Route("POST /assistants", {"assistant_id": "{assistant_id}", "graph_id": "agent", "if_exists": "do_nothing"}),
    Route("POST /assistants/search", {}, hers=True, allowed=True),
    Route("POST /assistants/count", {"name": "helper"}, allowed=True),
    Route("GET /assistants/{assistant_id}", hers=True),
    Route("PATCH /assistants/{assistant_id}", {"name": "bobs"}),
    Route("DELETE /assistants/{assistant_id}"),
    Route("GET /assistants/{assistant_id}/graph"),
    Route("GET /assistants/{assistant_id}/schemas"),
    Route("GET /assistants/{assistant_id}/subgraphs"),
    Route("GET /assistants/{assistant_id}/subgraphs/{namespace}"),
    Route("POST /assistants/{assistant_id}/versions", {}, hers=True),
    Route("POST /assistants/{assistant_id}/latest", {"version": 1}),
    Route("GET /store/items?namespace={label}&key={key}", hers=True),
    Route("PUT /store/items", {"namespace": MEMORIES, "key": "{key}", "value": {"data": "forged"}}),
    Route("DELETE /store/items", {"namespace": MEMORIES, "key": "{key}"}),
    Route("POST /store/items/search", {"namespace_prefix": MEMORIES}, hers=True),
    Route("POST /store/items/search", {"namespace_prefix": []}),
    Route("POST /store/namespaces", {"suffix": [owner_label("ana@x.org")]}, allowed=True),
    Route("POST /store/namespaces", {"prefix": MEMORIES}, allowed=True),
    Route("GET /memories?user_id=ana@x.org", hers=True, allowed=True),
    Route("POST /mcp", asks("tools/list"), hers=True, allowed=True),
    Route("POST /mcp", asks("tools/call", name="{helper}", arguments=ASKED)),
    Route("GET /a2a/{assistant_id}"),
    Route(
        "POST /a2a/{assistant_id}",
        asks(
            "message/send",
            message={
                "role": "user",
                "messageId": "m",
                "contextId": "{thread_id}",
                "parts": [{"kind": "text", "text": "What is my locker word?"}],
            },
        ),
    ),
    Route("POST /a2a/{assistant_id}", asks("tasks/get", id="{run_id}", contextId="{thread_id}")),
    Route("GET /a2a/{assistant_id}/.well-known/agent-card.json", hers=True),
    Route("GET /a2a/{assistant_id}/.well-known/agent.json", hers=True),
    Route("GET /.well-known/agent-card.json?assistant_id={assistant_id}", hers=True),
)

NOBODYS: Final = {
    "/", "/ok", "/info", "/metrics", "/docs", "/openapi.json",  # the server itself
    "/deploy", "/deploy/{operation_id}/stream",  # the project's folder
    "/ui/{graph_id}",  # a graph's own pages
    "/mcp/",  # redirects to /mcp
    "/internal/truncate", "/internal/debug/thread/{thread_id}",  # open to everybody, only under langgraph dev
}  # fmt: skip


@pytest.fixture(scope="module")
def hers(server: str) -> Mapping[str, str]:
    """What Ana has on the server, by the names that the routes have for it."""
    thread = thread_of(server, ANA)
    said(server, ANA, thread, TOLD["messages"][0]["content"])
    call(f"{server}/store/items", ANA, {"namespace": MEMORIES, "key": "word", "value": {"data": SECRET}}, method="PUT")
    of = {"graph_id": "agent", "name": "helper", "description": SECRET}
    return {
        "thread_id": thread,
        "checkpoint_id": call(f"{server}/threads/{thread}/state", ANA)["checkpoint"]["checkpoint_id"],
        "run_id": call(f"{server}/threads/{thread}/runs", ANA)[0]["run_id"],
        "assistant_id": call(f"{server}/assistants", ANA, of)["assistant_id"],
        "cron_id": call(f"{server}/runs/crons", ANA, {**CRON, "metadata": {"of": "ana"}})["cron_id"],
        "helper": "helper",
        "namespace": "any",
        "label": quote(".".join(MEMORIES)),
        "key": "word",
    }


def filled(value: Any, names: Mapping[str, str]) -> Any:
    text = json.dumps(value)
    for name, meant in names.items():
        text = text.replace(f"{{{name}}}", meant)
    return json.loads(text)


def everything_of(server: str, hers: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return what Ana reads of her thread, run, assistant, job and item."""
    paths = (
        "/threads/{thread_id}",
        "/threads/{thread_id}/history",
        "/threads/{thread_id}/runs",
        "/assistants/{assistant_id}",
        "/runs/crons/{cron_id}",
        "/store/items?namespace={label}&key={key}",
    )
    return [answer_to("GET", server + filled(path, hers), ANA) for path in paths]


class TestAskForAnothers:
    """Bob's token, and the ids of what is Ana's."""

    @pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.words)
    def test_it_is_neither_shown_nor_changed(self, server: str, hers: Mapping[str, str], route: Route) -> None:
        """Her secret is in no answer, and everything of hers reads as before; she herself is shown it."""
        method, path = filled(route.words, hers).split(" ")
        before = everything_of(server, hers)

        status, answer = answer_to(method, server + path, BOB, filled(route.body, hers))

        assert SECRET not in answer
        refused = status >= 400 or not answer or any(mark in answer for mark in ERRORS)
        assert refused != route.allowed, (status, answer)
        assert everything_of(server, hers) == before
        assert [status for status, _ in before] == [200] * len(before), before
        if route.hers:
            assert SECRET in answer_to(method, server + path, ANA, filled(route.body, hers))[1]

    def test_a_socket_for_her_events_stays_silent(self, server: str, hers: Mapping[str, str]) -> None:
        """It is refused, or ends, without having said anything of hers."""
        url = f"ws{server.removeprefix('http')}/threads/{hers['thread_id']}/stream/events"
        heard: list[Any] = []

        try:
            with connect(url, additional_headers={"Authorization": f"Bearer {BOB}"}, open_timeout=10) as socket:
                socket.send(json.dumps({"id": 1, "method": "run.start", "params": RUN}))
                heard.append(socket.recv(timeout=10))
        except (InvalidStatus, ConnectionClosed) as refused:
            heard.append(str(refused))

        assert "error" in heard[0] or "HTTP 40" in heard[0]
        assert SECRET not in str(heard)

    def test_every_route_is_asked(self, server: str) -> None:
        """What another version of the server adds has to be looked at."""
        served = {
            f"{method.upper()} {path}"
            for path, methods in call(f"{server}/openapi.json", ANA)["paths"].items()
            for method in methods
            if path not in NOBODYS
        }
        asked = {route.words.split("?")[0] for route in ROUTES}

        no_session = {"DELETE /a2a/{assistant_id}", "GET /mcp", "DELETE /mcp"}
        assert served - asked - no_session == set()
