"""Two users: the same ids, the ids of the other one, and tokens that must not be accepted."""

from __future__ import annotations

import json
from typing import Any, Final

import httpx
import pytest
from fastapi import FastAPI
from langgraph_sdk import get_client

from tests.gateway.conftest import Open
from tests.gateway.langgraph_api.conftest import sdk, served_graph
from tests.gateway.langgraph_api.script import NOWHERE, say
from tests.gateway.oidc import AUDIENCE, OidcProvider
from tests.gateway.test_isolation import SECRET, UNKNOWN, Fuzzer
from tests.gateway.test_tokens import hostile_tokens, told
from tests.gateway.world import GatewayWorld, problem_of
from threadkeep.gateway.auth.api_keys import ApiKeys
from threadkeep.gateway.langgraph_api import PREFIX, assistants, runs, store, threads
from threadkeep.gateway.langgraph_api.unsupported import ROUTES
from threadkeep.gateway.principals import USER_SCOPES

THREAD: Final = "monday"


def schema() -> FastAPI:
    """Return an application with the routes, whose schema names their parameters and bodies."""
    app = FastAPI()
    for routes in (assistants, threads, runs, store):
        app.include_router(routes.router, prefix=PREFIX)
    return app


async def fill(client: Any, word: str) -> dict[str, list[Any]]:
    """Give a user a thread, a run, a checkpoint and an item; return their ids."""
    await client.threads.create(thread_id=THREAD + word, metadata={"topic": word})
    await client.runs.wait(THREAD + word, "agent", input=say(f"A {word}."))
    await client.runs.wait(THREAD + word, "agent", input=say(f"ask about the {word}"))
    (run, *_) = await client.runs.list(THREAD + word)
    state = await client.threads.get_state(THREAD + word)
    await client.store.put_item(["users", "me", "prefs"], "kept", {"animal": word})
    return {
        "thread_id": [THREAD + word],
        "run_id": [run["run_id"]],
        "checkpoint_id": [state["checkpoint"]["checkpoint_id"]],
        "Last-Event-ID": [f"{run['run_id']}:1"],
        "key": ["kept"],
    }


async def held(client: Any) -> Any:
    """Return what a user has."""
    found = [await client.threads.search(limit=100), await client.store.search_items(["users", "me"])]
    histories = [await client.threads.get_history(one["thread_id"], limit=100) for one in found[0]]
    return json.loads(json.dumps([found, histories]))


class TestSameIds:
    async def test_each_has_a_thread_of_this_id(self, world: GatewayWorld):
        async with sdk(world, "ana") as ana, sdk(world, "bo") as bo:
            for client, word in ((ana, "heron"), (bo, "stork")):
                await client.threads.create(thread_id=THREAD)
                await client.runs.wait(THREAD, "agent", input=say(word))
                await client.store.put_item(["users", "me", "prefs"], "bird", {"name": word})
            for client, word in ((ana, "heron"), (bo, "stork")):
                values = (await client.threads.get_state(THREAD))["values"]
                assert [one["content"] for one in values["messages"]] == [word, f"you said {word}"]
                assert (await client.store.get_item(["users", "me", "prefs"], "bird"))["value"] == {"name": word}
                assert await client.threads.count() == 1

    async def test_ids_of_another_are_not_found(self, world: GatewayWorld):
        """The answers are those to ids that never were, byte for byte."""
        async with sdk(world, "ana") as ana, sdk(world, "bo") as bo:
            theirs = await fill(ana, "heron")
            await bo.threads.create(thread_id="mine")
            thread_id, run_id = theirs["thread_id"][0], theirs["run_id"][0]
            http = bo.http.client
            for path in ("", "/state", "/history", "/runs", "/runs/{}", "/runs/{}/join", "/runs/{}/stream"):
                found = await http.get(f"/threads/{thread_id}{path.format(run_id)}")
                never = await http.get(f"/threads/{NOWHERE}{path.format(UNKNOWN)}")
                assert (found.status_code, problem_of(found)) == (404, problem_of(never))
            place = {"checkpoint_id": theirs["checkpoint_id"][0]}
            body = {"assistant_id": "agent", "input": say("x"), **place}
            foreign = await http.post("/threads/mine/runs/wait", json=body)
            assert (foreign.status_code, foreign.json()["code"]) == (404, "checkpoint_not_found")
            named = {"checkpoint": {**place, "thread_id": thread_id}}
            assert (await http.post("/threads/mine/state/checkpoint", json=named)).status_code == 404
            run_of_another = await http.get(f"/threads/mine/runs/{run_id}")
            assert run_of_another.status_code == 404


class TestTokens:
    async def test_four_hundred_attacks(self, open_gateway: Open, provider: OidcProvider):
        gateway = open_gateway(issuers=(provider.origin,), audience=AUDIENCE, graph=served_graph)
        routes = [
            (method, path.replace("{", "").replace("}", ""))
            for path, methods in schema().openapi()["paths"].items()
            for method in methods
            if not path.endswith(("/ok", "/info"))
        ]
        routes += [(method, f"{PREFIX}{path}") for method, path in map(str.split, ROUTES)]
        accepted: list[str] = []
        async with httpx.AsyncClient(base_url=gateway.origin) as client:
            nothing = await client.get("/lg/threads/x")
            for number, token in enumerate(hostile_tokens(provider)):
                method, path = routes[number % len(routes)]
                headers = [(b"authorization", b"Bearer " + token.encode())]
                answer = await client.request(method, path, headers=headers, json={})
                if told(answer) != told(nothing):
                    accepted.append(f"{method} {path} {answer.status_code} {token[:80]}")
        async with get_client(url=f"{gateway.origin}/lg", headers=provider.headers("ana")) as client:
            assert len(await client.assistants.search()) == 1

        assert nothing.status_code == 401
        assert accepted == []

    async def test_the_api_key_of_the_sdk(self, world: GatewayWorld):
        """LangGraph's clients send their key as X-Api-Key; a key of LangSmith is no key of ours."""
        keys: ApiKeys = world.app.state.gateway.api_keys
        owner = world.app.state.gateway.tk.resolve_owner("ana")
        secret, _ = await keys.create(owner, USER_SCOPES, name="page")
        async with get_client(url=f"{world.origin}/lg", api_key=secret) as client:
            assert (await client.assistants.get("agent"))["graph_id"] == "agent"
        async with httpx.AsyncClient(base_url=f"{world.origin}/lg") as http:
            for key in ("lsv2_pt_x", secret + "x", "tk_"):
                answer = await http.get("/assistants/agent", headers={"X-Api-Key": key})
                assert answer.status_code == 401

    async def test_scopes(self, open_gateway: Open, provider: OidcProvider):
        gateway = open_gateway(issuers=(provider.origin,), audience=AUDIENCE, graph=served_graph)
        reader = provider.headers("ana", scope="memory:read")
        async with httpx.AsyncClient(base_url=f"{gateway.origin}/lg", headers=reader) as client:
            item = {"namespace": ["users", "me", "x"], "key": "a", "value": {}}
            body = {"assistant_id": "agent", "input": say("x")}
            answers = [
                await client.put("/store/items", json=item),
                await client.post("/threads", json={}),
                await client.post("/runs/wait", json=body),
                await client.post("/store/namespaces", json={}),
            ]
        assert [answer.status_code for answer in answers] == [403, 403, 403, 200]
        details = [answer.json()["detail"] for answer in answers[:3]]
        assert details == [f"The request needs the scope {scope}." for scope in ("memory:write", "chat", "chat")]


class TestTwoTenants:
    @pytest.mark.parametrize("count", [300, pytest.param(5_000, marks=[pytest.mark.soak, pytest.mark.timeout(1_800)])])
    async def test_nothing_leaks(self, open_gateway: Open, provider: OidcProvider, count: int):
        with OidcProvider() as second:
            issuers = (provider.origin, second.origin)
            limits = {"max_requests_per_minute": 10**6}
            gateway = open_gateway(issuers=issuers, audience=AUDIENCE, graph=served_graph, **limits)
            url = f"{gateway.origin}/lg"
            async with (
                get_client(url=url, headers=provider.headers("ana")) as ana,
                get_client(url=url, headers=second.headers("bo")) as bo,
            ):
                theirs = await fill(ana, SECRET)
                await bo.threads.create(thread_id="mine")
                before = await held(ana)
                pool = {name: [*values, UNKNOWN] for name, values in theirs.items()}
                pool["thread_id"] = [*theirs["thread_id"], "mine"]
                pool |= {
                    "assistant_id": ["agent"],
                    "named": ["agent"],
                    "input": [say("hello"), say("ask"), {}],
                    "context": [None],
                    "config": [None, {"configurable": {}}],
                    "if_not_exists": ["reject", None],
                    "command": [None, {"resume": "x"}, {"goto": "child"}],
                    "webhook": [None],
                    "after_seconds": [None],
                    "namespace": [["users", "me", "prefs"], ["users", "prefs"], "users.me.prefs"],
                    "namespace_prefix": [["users", "me"], ["users"], []],
                    "prefix": [["users"], None],
                    **{name: ["x"] for name in ("If-Match", "Idempotency-Key", "X-CSRF-Token", "Origin", "Cookie")},
                    "text": ["number", "agent"],
                }
                fuzzer = Fuzzer(schema(), pool, {one for values in theirs.values() for one in values}, 5, prefix="/lg")
                statuses: set[int] = set()
                async with httpx.AsyncClient(
                    base_url=gateway.origin, headers=second.headers("bo"), timeout=60
                ) as attacker:
                    for _ in range(count):
                        made = fuzzer.request()
                        twin = made.pop("twin", None)
                        answer = await attacker.request(**made)
                        statuses.add(answer.status_code)
                        assert answer.status_code < 500 or answer.status_code == 501, (made, answer.text)
                        if twin is not None and answer.status_code == 404:
                            other = await attacker.request(**twin)
                            assert problem_of(other) == problem_of(answer), made
                        assert SECRET not in answer.text.replace(THREAD + SECRET, ""), (made, answer.text)
                        if (made["method"], made["url"], answer.status_code) == ("post", "/lg/threads", 200):
                            await attacker.delete(f"/lg/threads/{answer.json()['thread_id']}")  # the id means theirs
                after = await held(ana)

        assert after == before
        assert {200, 403, 404, 422} <= statuses
