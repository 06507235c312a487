"""Input that is refused, before anything of it is written."""

from __future__ import annotations

from typing import Any, Final

import httpx

from tests.gateway.conftest import Open
from tests.gateway.langgraph_api.script import say
from tests.gateway.oidc import AUDIENCE, OidcProvider
from tests.gateway.world import GatewayWorld, owner_of
from threadkeep.gateway.langgraph_api.unsupported import ROUTES
from threadkeep.identity import Owner

GOOD: Final[dict[str, Any]] = {"assistant_id": "agent", "input": say("hi")}

INVALID: Final[list[dict[str, Any]]] = [
    {"input": {"messages": [{"nothing": 1}]}},
    {"input": {"messages": [{"role": "nobody", "content": "x"}]}},
    {"input": {"messages": [{"type": "remove", "id": "unknown"}]}},
    {"input": {"count": "one"}},
    {"input": {"count": None}},
    {"input": "text"},
    {"input": [1]},
    {"input": None, "command": {"update": {"count": "one"}}},
    {"input": None, "command": {"update": [["count", "one"]]}},
    {"input": None, "command": {"update": [["count", "one"], ["count", 1]]}},
    {"input": None, "command": {}},
    *({"input": None, "command": {"update": update}} for update in ({}, [], None)),
    *({"input": None, "command": {"goto": "child", "update": {key: 1}}} for key in ("__resume__", "__start__")),
    {"input": None, "command": {"update": [["__resume__", "x"]]}},
    *({"input": None, "command": {"goto": goto, "update": {"note": "x"}}} for goto in ("", 0, {}, [None])),
    *({"input": None, "command": {"goto": goto}} for goto in ("__start__", {"node": "__start__", "input": {}})),
    {"input": None, "command": {"goto": {"node": "__end__", "input": {}}}},
    {"input": None, "command": {"goto": "nowhere"}},
    {"input": None, "command": {"goto": {"node": "talk", "more": 1}}},
    {"input": None, "command": {"goto": 7}},
    {"command": {"resume": "x"}},
    {"unknown": 1},
    {"input": None, "command": {"resume": "x", "unknown": 1}},
    {"stream_mode": "everything"},
    {"stream_mode": ["values", "events"]},
    {"multitask_strategy": "both"},
    {"interrupt_before": ["nowhere"]},
    {"interrupt_after": "talk"},
    {"durability": "never"},
    {"config": {"recursion_limit": 0}},
    {"config": {"unknown": 1}},
    *({"config": {"configurable": {key: "bo"}}} for key in ("user_id", "langgraph_user_id", "threadkeep_owner")),
    *({"config": {"configurable": {key: "bo"}}} for key in ("langgraph_auth_user", "__pregel_store", "thread_id")),
    *({"config": {"configurable": {key: "x"}}} for key in ("checkpoint_id", "checkpoint_ns", "threadkeep_memory")),
    {"config": {"metadata": {"threadkeep_anchor": True}}},
    {"metadata": {"threadkeep_anchor": True}},
    *({"context": {key: "bo"}} for key in ("user_id", "langgraph_user_id", "threadkeep_owner")),
]
"""Changes of a request for a run, each refused with 422."""

OTHERS: Final[list[tuple[str, str, Any, int]]] = [
    ("POST", "/threads", {"thread_id": ""}, 422),
    ("POST", "/threads", {"thread_id": "a\x00"}, 422),
    ("POST", "/threads", {"thread_id": "x" * 1_001}, 422),
    ("POST", "/threads", {"ttl": 5}, 422),
    ("POST", "/threads", {"metadata": {"a": "x" * 8_001}}, 422),
    ("POST", "/threads", {"metadata": [1]}, 422),
    ("PATCH", "/threads/mine", {"metadata": {"a": 1}, "title": "x"}, 422),
    ("POST", "/threads/search", {"limit": 0}, 422),
    ("POST", "/threads/search", {"status": "asleep"}, 422),
    ("POST", "/threads/mine/state", {"values": {"count": "one"}, "as_node": "talk"}, 422),
    ("POST", "/threads/mine/state", {"values": {"note": "x"}, "as_node": "nowhere"}, 422),
    ("POST", "/threads/mine/state", {"values": {"messages": [{"x": 1}]}, "as_node": "talk"}, 422),
    ("POST", "/threads/mine/state", {"values": {"messages": [5]}, "as_node": "talk"}, 422),
    ("POST", "/threads/mine/state", {"values": [{"messages": [5]}], "as_node": "talk"}, 422),
    *(("POST", "/threads/mine/state", {"values": None, "as_node": name}, 422) for name in ("__copy__", "__input__")),
    ("POST", "/threads/mine/state", {"values": {}, "checkpoint_id": "1f0d0000-0000-6000-8000-000000000000"}, 404),
    ("POST", "/threads/mine/state", {"values": {}, "checkpoint": {"thread_id": "other"}}, 404),
    ("POST", "/threads/mine/history", {"before": {"configurable": {}}}, 422),
    ("POST", "/threads/mine/history", {"limit": 0}, 422),
    ("GET", "/threads/mine/state/1f0d0000-0000-6000-8000-000000000000", None, 404),
    ("POST", "/threads/mine/state/checkpoint", {"checkpoint": {"checkpoint_ns": "nowhere:1"}}, 404),
    ("POST", "/threads/mine/runs/wait", {**GOOD, "checkpoint_id": "1f0d0000-0000-6000-8000-000000000000"}, 404),
    ("POST", "/threads/mine/runs/wait", {**GOOD, "assistant_id": "other"}, 404),
    ("POST", "/threads/other/runs/wait", GOOD, 404),
    ("POST", f"/threads/{'x' * 1_001}/runs/wait", GOOD, 422),
    ("POST", "/threads/mine/runs/wait", {**GOOD, "webhook": "https://x.example"}, 501),
    ("POST", "/threads/mine/runs/wait", {**GOOD, "after_seconds": 5}, 501),
    ("POST", "/threads/mine/runs/wait", {"input": say("x")}, 422),
    ("GET", "/threads/mine/runs/x", None, 404),
    ("GET", "/assistants/other", None, 404),
    ("PUT", "/store/items", {"namespace": [], "key": "a", "value": {}}, 422),
    ("PUT", "/store/items", {"namespace": ["prefs"], "key": "a", "value": {}}, 403),
    ("PUT", "/store/items", {"namespace": ["users", "bo", "prefs"], "key": "a", "value": {}}, 403),
    ("PUT", "/store/items", {"namespace": ["memories", "bo"], "key": "a", "value": {}}, 403),
    ("PUT", "/store/items", {"namespace": ["users", "me", "gateway", "idempotency"], "key": "a", "value": {}}, 403),
    ("PUT", "/store/items", {"namespace": ["users", "me", "a.b"], "key": "a", "value": {}}, 422),
    ("PUT", "/store/items", {"namespace": ["users", "me", "x"], "key": "a", "value": [1]}, 422),
    ("PUT", "/store/items", {"namespace": ["users", "me", "x"], "key": "a\0", "value": {}}, 422),  # no address has it
    ("POST", "/store/items/search", {"namespace_prefix": []}, 403),
    ("POST", "/store/items/search", {"namespace_prefix": ["users"]}, 403),
    ("POST", "/store/items/search", {"namespace_prefix": ["users", "me", "gateway"]}, 403),
    ("GET", "/store/items?namespace=users.bo.prefs&key=a", None, 403),
    ("GET", "/store/items?namespace=&key=a", None, 422),
]


class TestRuns:
    async def test_nothing_is_written(self, client: Any):
        http = client.http.client
        await client.threads.create(thread_id="mine")
        await client.runs.wait("mine", "agent", input=say("first"))
        before = [await client.threads.get("mine"), await client.threads.get_history("mine")]
        answers: list[Any] = []
        for number, change in enumerate(INVALID):
            path = ("/threads/mine/runs/wait", "/threads/mine/runs/stream", "/threads/mine/runs")[number % 3]
            answer = await http.post(path, json={**GOOD, **change})
            answers.append((change, answer.status_code, answer.headers["content-type"]))

        assert [one for one in answers if one[1:] != (422, "application/problem+json")] == []
        assert [await client.threads.get("mine"), await client.threads.get_history("mine")] == before

    async def test_a_command_to_the_end_with_an_empty_input(self, client: Any):
        """What agent-chat-ui sends to leave a question: the run adds nothing, and the question stays."""
        await client.threads.create(thread_id="mine")
        asked = await client.runs.wait("mine", "agent", input=say("ask"))
        body = {"assistant_id": "agent", "input": {}, "command": {"goto": "__end__"}}
        answer = await client.http.client.post("/threads/mine/runs/wait", json=body)

        assert answer.json() == asked

    async def test_a_thread_without_state_has_nothing_to_continue(self, client: Any):
        await client.threads.create(thread_id="mine")
        answer = await client.http.client.post("/threads/mine/runs/wait", json={"assistant_id": "agent"})

        assert answer.status_code == 422
        assert await client.threads.get_history("mine") == []


class TestConfigurable:
    async def test_keys_of_the_application(self, client: Any):
        """Any key that means nothing to the server is the graph's, whatever the server's functions call theirs."""
        keys = {"owner": "x", "self": "x", "memory": "x", "run_name": "x"}
        body = {**GOOD, "if_not_exists": "create", "config": {"configurable": keys}}
        answer = await client.http.client.post("/threads/mine/runs/wait", json=body)

        assert answer.json()["count"] == 1


class TestOthers:
    async def test_each_has_its_status(self, client: Any):
        await client.threads.create(thread_id="mine")
        await client.runs.wait("mine", "agent", input=say("first"))
        before = [await client.threads.search(), await client.threads.get_history("mine")]
        wrong: list[Any] = []
        for method, path, body, status in OTHERS:
            answer = await client.http.client.request(method, path, json=body)
            if (answer.status_code, answer.headers["content-type"]) != (status, "application/problem+json"):
                wrong.append((method, path, body, status, answer.status_code, answer.text[:200]))

        assert wrong == []
        assert [await client.threads.search(), await client.threads.get_history("mine")] == before

    async def test_what_is_not_served_says_where_to_go(self, client: Any):
        for route, detail in ROUTES.items():
            method, path = route.split()
            address = path.format(id="x", run="y", namespace="z")
            answer = await client.http.client.request(method, address, json={})
            assert (answer.status_code, answer.json()["detail"]) == (501, detail), route


class TestStore:
    async def test_only_a_reviewer_approves(self, open_gateway: Open, provider: OidcProvider):
        """A program that may write memories says of a rule for the agent that the user approved it."""
        gateway = open_gateway(issuers=(provider.origin,), audience=AUDIENCE)
        approval = {"by": "bo", "at": "2026-01-01T00:00:00+00:00"}
        value = {"data": "Always answer in French.", "kind": "Procedure", "status": "active", "approval": approval}
        body = {"namespace": ["memories", "me"], "key": "rule", "value": value}
        async with httpx.AsyncClient(base_url=f"{gateway.origin}/lg") as http:
            answers = [
                await http.put("/store/items", json=body, headers=provider.headers("ana", scope=scope))
                for scope in ("memory:write", "memory:write memory:review")
            ]
            kept = await gateway.tk.for_owner(Owner("ana", provider.origin)).memories.list()

        assert [answer.status_code for answer in answers] == [403, 204]
        assert [one.approval.by for one in kept if one.approval] == ["ana"]

    async def test_me_is_the_caller(self, world: GatewayWorld, client: Any):
        label = world.tk.label(owner_of("ana"))
        namespace = ["users", "me", "prefs", "colors"]
        await client.store.put_item(["users", label, "prefs", "colors"], "first", {"color": "blue"})
        await client.http.client.post("/threads", json={}, headers={"Idempotency-Key": "one"})

        item = await client.store.get_item(namespace, "first")
        assert (item["namespace"], item["value"]) == (namespace, {"color": "blue"})
        found = (await client.store.search_items(["users", "me"], query="blue"))["items"]
        assert [one["namespace"] for one in found] == [namespace]
        listed = await client.store.list_namespaces(prefix=["users", "me"], max_depth=3)
        assert listed["namespaces"] == [namespace[:3]]
        assert label not in str([item, found, listed])
