"""Two tenants: generated requests over every route with what belongs to the other one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import quote

import httpx
import pytest

from tests.gateway.conftest import Open
from tests.gateway.oidc import ALL_SCOPES, AUDIENCE, CLIENT_ID, OidcProvider
from tests.gateway.test_sessions import PUBLIC, Browser
from tests.gateway.world import GatewayWorld, problem_of, text_of
from threadkeep.gateway.auth.sessions import COOKIE
from threadkeep.identity import Owner
from threadkeep.memories.models import Source

SECRET = "quagga"
"""Is in everything of the other tenant, and in no request."""

SCHEMAS = "#/components/schemas/"


TURNS = ("/chat/stream", "/runs/stream", "/runs/wait", "/runs")
"""Routes that begin a turn."""

UNKNOWN = "f" * 32
"""An id of nothing, at first: a request may make a thread of it."""

ABSENT = "e" * 32
"""In no body, so no request creates it."""


def filled(template: str, named: dict[str, Any]) -> str:
    return template.format(**{name: quote(str(value), safe="") for name, value in named.items()})


def replaced(value: Any, names: dict[str, str]) -> Any:
    """Return JSON with other texts in place of those that *names* has."""
    if isinstance(value, dict):
        return {key: replaced(part, names) for key, part in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [replaced(part, names) for part in cast("list[Any]", value)]
    return names.get(value, value) if isinstance(value, str) else value


class Fuzzer:
    """Makes requests for the routes of an application, with values of a pool.

    Where the address names what is *foreign*, ``twin`` is the same request about something that does not exist.
    """

    def __init__(
        self, app: Any, pool: dict[str, list[Any]], foreign: set[Any], seed: int, prefix: str = "/api"
    ) -> None:
        self._foreign = foreign
        self._schema: dict[str, Any] = app.openapi()
        self._pool = pool
        self._chance = random.Random(seed)
        self.routes = [
            (method, path, operation)
            for path, methods in self._schema["paths"].items()
            for method, operation in methods.items()
            if path.startswith(prefix) and not path.endswith("/stream_files")  # its answers are those of /stream
        ]

    def request(self) -> dict[str, Any]:
        """Return a request, as httpx takes it."""
        method, path, operation = self._chance.choice(self.routes)
        while path.endswith(TURNS) and self._chance.random() < 0.8:  # a turn takes longer than the rest
            method, path, operation = self._chance.choice(self.routes)
        template, named = path, dict[str, Any]()
        query: dict[str, str] = {}
        for parameter in operation.get("parameters", ()):
            name, value = parameter["name"], self._value(parameter["schema"], parameter["name"])
            if parameter["in"] == "path":
                named[name] = value
            elif parameter["in"] == "query" and self._chance.random() < 0.6:
                query[name] = str(value)
        headers = {
            name: str(self._chance.choice(self._pool[name]))
            for name in ("If-Match", "Idempotency-Key", "Last-Event-ID", "X-CSRF-Token", "Origin", "Cookie")
            if self._chance.random() < 0.6
        }
        made: dict[str, Any] = {"method": method, "url": filled(template, named), "params": query, "headers": headers}
        content = operation.get("requestBody", {}).get("content", {})
        if "application/json" in content:
            made["json"] = self._value(content["application/json"]["schema"], "")
        elif content:
            made["content"] = "\n".join(self._chance.choices(self._pool["line"], k=3))
        if any(value in self._foreign for value in named.values()) and "Idempotency-Key" not in headers:
            absent = {str(value): ABSENT for value in named.values()}
            made["twin"] = {**made, "url": filled(template, dict.fromkeys(named, ABSENT))}
            if "json" in made:  # a body that names the thread of the address does so in both
                made["twin"]["json"] = replaced(made["json"], absent)
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
            "array": lambda: [self._value(one, name) for one in self._items(schema)],
            "integer": lambda: chance.randrange(1, 10),
            "boolean": lambda: chance.random() < 0.5,
            "null": lambda: None,
        }
        return plain.get(schema.get("type"), lambda: chance.choice(self._pool["text"]))()

    def _items(self, schema: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the schemas of the items of an array: of a pair's, or of one or two of the same kind."""
        return schema.get("prefixItems") or [schema["items"]] * self._chance.randrange(1, 3)

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
    async with gateway.client(None) as ana, gateway.client(None) as bo, Browser(gateway) as browser:
        ana.headers.update(provider.headers("ana"))
        bo.headers.update(second.headers("bo", scope=admin))
        theirs = await fill(gateway, ana, Owner("ana", provider.origin))
        await browser.login()
        before = await held(ana)
        unknown = {name: [UNKNOWN] for name in theirs} | {"cursor": ["9.AAAAAAAAAAAAAAAAAAAAAA"], "If-Match": ['"1"']}
        pool = {name: [*values, *unknown[name]] for name, values in theirs.items()}
        pool |= {"text": ["number", "striped", "Bo likes tea.", "all"], "X-CSRF-Token": [browser.csrf]}
        pool |= {
            "name": ["guides"],
            "Origin": [PUBLIC],
            "Cookie": [f"{COOKIE}={browser.cookies[COOKIE]}"],
            "q": ["number striped extinct"],
            "before": theirs["checkpoint_id"],
        }
        pool["line"] = [f'{{"text": "Mine.", "memory_id": "{theirs["memory_id"][0]}"}}', '{"text": "Else."}', "{"]
        fuzzer = Fuzzer(gateway.app, pool, {one for values in theirs.values() for one in values}, seed=11)
        async with httpx.AsyncClient(base_url=gateway.origin, headers=bo.headers, timeout=60) as client:
            statuses: set[int] = set()
            twins = 0
            for _ in range(count):
                made = fuzzer.request()
                twin = made.pop("twin", None)
                answer = await client.request(**made)
                statuses.add(answer.status_code)
                if twin is not None and answer.status_code == 404:
                    other = await client.request(**twin)
                    assert (other.status_code, problem_of(other)) == (404, problem_of(answer)), made
                    twins += 1
                assert answer.status_code < 500, (made, answer.text)
                if answer.status_code >= 400:
                    assert answer.headers["content-type"] == "application/problem+json", (made, answer.text)
                    assert {"status", "code", "detail"} <= {*answer.json()}
                assert SECRET not in answer.text.replace(f"key-{SECRET}", ""), (made, answer.text)
        after = await held(ana)

    assert after == before
    assert {200, 404, 422} <= statuses
    assert twins > count / 20


class TestTwoTenants:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("storage_url", "count"),
        [
            ("sqlite", 400),
            pytest.param("sqlite", 10_000, marks=[pytest.mark.soak, pytest.mark.timeout(1_800)]),
            pytest.param("postgres", 10_000, marks=[pytest.mark.soak, pytest.mark.timeout(1_800)]),
        ],
        indirect=["storage_url"],
    )
    async def test_nothing_leaks(self, open_gateway: Open, provider: OidcProvider, storage_url: str, count: int):
        with OidcProvider() as second:
            gateway = open_gateway(
                url=storage_url,
                issuers=(provider.origin, second.origin),
                audience=AUDIENCE,
                client_id=CLIENT_ID,
                public_url=PUBLIC,
                max_requests_per_minute=10**6,
            )
            await attacked(gateway, provider, second, count)
