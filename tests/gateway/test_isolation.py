"""Two tenants: generated requests over every route with what belongs to the other one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import Open
from tests.gateway.oidc import ALL_SCOPES, AUDIENCE, OidcProvider
from tests.gateway.world import GatewayWorld, text_of
from threadkeep.identity import Owner
from threadkeep.memories.models import Source

SECRET = "quagga"
"""Is in everything of the other tenant, and in no request."""

SCHEMAS = "#/components/schemas/"


class Fuzzer:
    """Makes requests for the routes of an application, with values of a pool."""

    def __init__(self, app: Any, pool: dict[str, list[Any]], seed: int) -> None:
        self._schema: dict[str, Any] = app.openapi()
        self._pool = pool
        self._chance = random.Random(seed)
        self.routes = [
            (method, path, operation)
            for path, methods in self._schema["paths"].items()
            for method, operation in methods.items()
            if path.startswith("/api") and not path.endswith(("/stream", "/resume"))  # streams last for seconds
        ]

    def request(self) -> dict[str, Any]:
        """Return a request, as httpx takes it."""
        method, path, operation = self._chance.choice(self.routes)
        query: dict[str, str] = {}
        for parameter in operation.get("parameters", ()):
            name, value = parameter["name"], self._value(parameter["schema"], parameter["name"])
            if parameter["in"] == "path":
                path = path.replace("{" + name + "}", str(value))
            elif parameter["in"] == "query" and self._chance.random() < 0.6:
                query[name] = str(value)
        headers = {
            name: str(self._chance.choice(self._pool[name]))
            for name in ("If-Match", "Idempotency-Key", "Last-Event-ID", "X-CSRF-Token", "Cookie")
            if self._chance.random() < 0.6
        }
        made: dict[str, Any] = {"method": method, "url": path, "params": query, "headers": headers}
        content = operation.get("requestBody", {}).get("content", {})
        if "application/json" in content:
            made["json"] = self._value(content["application/json"]["schema"], "")
        elif content:
            made["content"] = "\n".join(self._chance.choices(self._pool["line"], k=3))
        return made

    def _value(self, schema: dict[str, Any], name: str) -> Any:
        chance = self._chance
        if "$ref" in schema:
            return self._value(self._schema["components"]["schemas"][schema["$ref"].removeprefix(SCHEMAS)], name)
        if name in self._pool and chance.random() < 0.8:
            return chance.choice(self._pool[name])
        if "anyOf" in schema:
            return self._value(chance.choice(schema["anyOf"]), name)
        if "enum" in schema or "const" in schema:
            return chance.choice(schema.get("enum") or [schema["const"]])
        plain: dict[str | None, Callable[[], Any]] = {
            "object": lambda: self._object(schema),
            "array": lambda: [self._value(schema["items"], name) for _ in range(chance.randrange(1, 3))],
            "integer": lambda: chance.randrange(1, 10),
            "boolean": lambda: chance.random() < 0.5,
            "null": lambda: None,
        }
        return plain.get(schema.get("type"), lambda: chance.choice(self._pool["text"]))()

    def _object(self, schema: dict[str, Any]) -> dict[str, Any]:
        required = schema.get("required", ())
        return {
            key: self._value(value, key)
            for key, value in schema.get("properties", {}).items()
            if key in required or self._chance.random() < 0.5
        }


async def fill(gateway: GatewayWorld, client: httpx.AsyncClient, owner: Owner) -> dict[str, list[Any]]:
    """Give a user something of everything, and return its ids, ETags, cursors and keys."""
    await client.patch("/me", json={"policy": "tool=ask"})
    kept = {"Idempotency-Key": f"key-{SECRET}"}
    for number in range(3):
        await client.post("/memories", json={"text": f"My {SECRET} number is {number * 7919}."}, headers=kept)
        kept = {}
    listed = (await client.get("/memories", params={"limit": 1})).json()
    memory = listed["memories"][0]
    proposals = gateway.tk.for_owner(owner).proposals
    for text in (f"The {SECRET} is striped.", f"The {SECRET} is extinct."):
        await proposals.propose(text, source=Source("tool"))
    waiting, rejected = await proposals.list()
    await proposals.reject(rejected.proposal_id)
    page = (await client.get("/proposals", params={"limit": 1, "state": "all"})).json()
    events = await gateway.turn(client, f"I saw a {SECRET}.")
    assert "quagga" not in text_of(events)
    run = events[0].data
    await client.patch(f"/threads/{run['thread_id']}", json={"title": f"About the {SECRET}"})
    threads = (await client.get("/threads", params={"limit": 1})).json()
    state = (await client.get(f"/threads/{run['thread_id']}/state")).json()
    return {
        "memory_id": [memory["memory_id"]],
        "proposal_id": [waiting.proposal_id, rejected.proposal_id],
        "tombstone_id": [one["tombstone_id"] for one in (await client.get("/tombstones")).json()["tombstones"]],
        "thread_id": [run["thread_id"]],
        "run_id": [run["run_id"]],
        "checkpoint_id": [state["checkpoint_id"]],
        "cursor": [cursor for cursor in (listed["cursor"], page["cursor"], threads["cursor"]) if cursor],
        "If-Match": [f'"{memory["revision"]}"'],
        "Idempotency-Key": [f"key-{SECRET}"],
        "Last-Event-ID": [events[2].event_id],
        "label": [owner.label],
    }


async def held(client: httpx.AsyncClient) -> list[Any]:
    """Return what a user has."""
    addresses = ("/memories", "/proposals?state=all", "/tombstones", "/threads", "/me", "/queue")
    return [(await client.get(address)).json() for address in addresses]


async def attacked(gateway: GatewayWorld, provider: OidcProvider, second: OidcProvider, count: int) -> None:
    """Send *count* requests of one tenant with what belongs to the other one, and check every answer."""
    admin = f"{ALL_SCOPES} admin"
    async with gateway.client(None) as bo, gateway.client(None) as ana:
        bo.headers.update(second.headers("bo"))
        ana.headers.update(provider.headers("ana", scope=admin))
        theirs = await fill(gateway, bo, Owner("bo", second.origin))
        before = await held(bo)
        unknown = {name: ["f" * 32] for name in theirs} | {"cursor": ["9.AAAAAAAAAAAAAAAAAAAAAA"], "If-Match": ['"1"']}
        pool = {name: [*values, *unknown[name]] for name, values in theirs.items()}
        pool |= {"text": ["number", "striped", "Ana likes tea.", "all"], "X-CSRF-Token": ["x"], "name": ["guides"]}
        pool |= {"Cookie": ["__Host-threadkeep=x"], "q": ["number striped extinct"], "before": theirs["checkpoint_id"]}
        pool["line"] = [f'{{"text": "Mine.", "memory_id": "{theirs["memory_id"][0]}"}}', '{"text": "Else."}', "{"]
        fuzzer = Fuzzer(gateway.app, pool, seed=11)
        async with httpx.AsyncClient(base_url=gateway.origin, headers=ana.headers, timeout=60) as client:
            statuses: set[int] = set()
            for _ in range(count):
                made = fuzzer.request()
                answer = await client.request(**made)
                statuses.add(answer.status_code)
                assert answer.status_code < 500, (made, answer.text)
                if answer.status_code >= 400:
                    assert answer.headers["content-type"] == "application/problem+json", (made, answer.text)
                    assert {"status", "code", "detail"} <= {*answer.json()}
                assert SECRET not in answer.text.replace(f"key-{SECRET}", ""), (made, answer.text)
        after = await held(bo)

    assert after == before
    assert {200, 404, 422} <= statuses


class TestTwoTenants:
    async def test_nothing_leaks(self, open_gateway: Open, provider: OidcProvider):
        with OidcProvider() as second:
            issuers = (provider.origin, second.origin)
            gateway = open_gateway(issuers=issuers, audience=AUDIENCE, max_requests_per_minute=10**6)
            await attacked(gateway, provider, second, 1_000)

    @pytest.mark.soak
    @pytest.mark.timeout(1_200)
    async def test_nothing_leaks_in_ten_thousand_requests(
        self, open_gateway: Open, provider: OidcProvider, storage_url: str
    ):
        with OidcProvider() as second:
            issuers = (provider.origin, second.origin)
            gateway = open_gateway(url=storage_url, issuers=issuers, audience=AUDIENCE, max_requests_per_minute=10**6)
            await attacked(gateway, provider, second, 10_000)
