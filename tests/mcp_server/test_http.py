"""``/mcp`` over HTTP: tokens, scopes, hosts and origins, and invalid requests."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from mcp import types

from tests.gateway.conftest import Open
from tests.gateway.jsonrpc import MALFORMED
from tests.gateway.oidc import AUDIENCE, OidcProvider
from tests.gateway.test_tokens import hostile_tokens, told
from tests.gateway.world import USER, GatewayWorld, owner_of
from tests.mcp_server.conftest import session
from threadkeep.identity import Owner
from threadkeep.mcp_server.mount import METADATA_PATH
from threadkeep.mcp_server.server import ERROR_CODE

PUBLIC = "https://memory.example"
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
def token_gateway(open_gateway: Open, provider: OidcProvider) -> GatewayWorld:
    """A gateway with MCP and an issuer."""
    return open_gateway(interfaces=("mcp",), issuers=(provider.origin,), audience=AUDIENCE, public_url=PUBLIC)


def client_of(gateway: GatewayWorld, user: str | None = None, **headers: str) -> httpx.AsyncClient:
    named = {} if user is None else {USER: user}
    return httpx.AsyncClient(base_url=gateway.origin, headers={**ACCEPT, **named, **headers}, timeout=60)


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", name=tool, arguments=arguments)


INITIALIZE = request(
    "initialize",
    protocolVersion=types.LATEST_PROTOCOL_VERSION,
    capabilities={},
    clientInfo={"name": "test", "version": "1"},
)


NEEDED_SCOPES = [
    (call("search_memory", query="tea"), "memory:read"),
    (call("remember", text="Ana drinks tea."), "memory:write"),
    (call("forget_memory", memory_id="a"), "memory:write"),
    (call("decide_proposal", proposal_id="a", approve=True), "memory:review"),
    (request("resources/read", uri="memory://profile"), "memory:read"),
    (request("prompts/get", name="recall", arguments={"question": "tea?"}), "memory:read"),
]
HOSTS: list[tuple[dict[str, str], int]] = [
    ({"Host": "memory.example"}, 200),
    ({"Host": "localhost:8000", "Origin": "http://localhost:8000"}, 200),
    ({"Origin": PUBLIC}, 200),
    ({"Host": "evil.example"}, 421),
    ({"Host": "memory.example.evil.example"}, 421),
    ({"Host": "127.0.0.1.evil.example"}, 421),
    ({"Host": "memory.example", "Origin": "https://evil.example"}, 403),
    ({"Host": "memory.example", "Origin": "null"}, 403),
    ({"Origin": "http://memory.example"}, 403),
]
BODIES = [
    *MALFORMED,
    b'{"jsonrpc": "2.0", "id": null, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "drop"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 1}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "recall"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "other", "arguments": {}}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "memory"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "file:///etc/passwd"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "memory://"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "memory://%00"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "memory://..%2f..%2fbo"}}',
    b"[" + b",".join([json.dumps(request("ping")).encode()] * 1000) + b"]",
    b'{"jsonrpc": "2.0", "id": "' + b"a" * 999_000 + b'", "method": "ping"}',
]
ARGUMENTS: list[tuple[str, dict[str, Any]]] = [
    ("search_memory", {}),
    ("search_memory", {"query": ""}),
    ("search_memory", {"query": "x" * 2_001}),
    ("search_memory", {"query": 7}),
    ("search_memory", {"query": "tea", "limit": 0}),
    ("search_memory", {"query": "tea", "limit": 101}),
    ("search_memory", {"query": "tea", "kind": "secret"}),
    ("search_memory", {"query": "tea", "owner": "bo"}),
    ("list_memories", {"offset": -1}),
    ("why", {"memory_id": ""}),
    ("why", {"memory_id": "x" * 1_001}),
    ("why", {"memory_id": None}),
    ("remember", {"text": "x" * 8_001}),
    ("remember", {"text": "a\x00b"}),
    ("remember", {"text": "  "}),
    ("remember", {"text": "Ana drinks tea.", "approved": True}),
    ("propose_memory_update", {"action": "add"}),
    ("propose_memory_update", {"action": "forget"}),
    ("propose_memory_update", {"action": "erase", "text": "a"}),
    ("list_proposals", {"state": "lost"}),
    ("decide_proposal", {"proposal_id": "a", "approve": "perhaps"}),
]
HEADERS = [
    ({"Content-Type": "text/plain"}, 400),
    ({"Accept": "text/html"}, 406),
    ({"MCP-Protocol-Version": "1999-01-01"}, 400),
    ({"Mcp-Session-Id": "made-up"}, 200),
]


class TestTokens:
    async def test_metadata(self, token_gateway: GatewayWorld, provider: OidcProvider):
        """The metadata name the resource, the issuer and the scopes; 401 says where they are."""
        async with client_of(token_gateway) as client:
            refused = await client.post("/mcp", json=INITIALIZE)
            found = [await client.get(path) for path in (METADATA_PATH, "/.well-known/oauth-protected-resource")]

        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{PUBLIC}{METADATA_PATH}"'
        for answer in found:
            assert answer.json() == {
                "resource": f"{PUBLIC}/mcp",
                "authorization_servers": [provider.origin],
                "scopes_supported": ["memory:read", "memory:write", "memory:review"],
                "bearer_methods_supported": ["header"],
                "resource_name": "Threadkeep",
            }

    async def test_the_owner_is_the_user_of_the_issuer(self, token_gateway: GatewayWorld, provider: OidcProvider):
        async with session(token_gateway, **provider.headers("ana")) as client:
            proposed = await client.call_tool("propose_memory_update", {"text": "Ana plays chess."})
        assert not proposed.isError
        owner = Owner("ana", provider.origin)
        assert [one.text for one in await token_gateway.tk.for_owner(owner).proposals.list()] == ["Ana plays chess."]

    async def test_four_hundred_attacks(self, token_gateway: GatewayWorld, provider: OidcProvider):
        """Every one gets the same answer as no token."""
        async with client_of(token_gateway) as client:
            valid = await client.post("/mcp", json=INITIALIZE, headers=provider.headers())
            nothing = told(await client.post("/mcp", json=INITIALIZE))
            accepted: list[str] = []
            for token in hostile_tokens(provider):
                headers = [(b"authorization", b"Bearer " + token.encode())]
                answer = await client.post("/mcp", headers=headers, json=call("list_memories"))
                if told(answer) != nothing:
                    accepted.append(f"{answer.status_code} {token[:80]}")

        assert valid.status_code == 200
        assert nothing["status"] == 401
        assert accepted == []

    async def test_missing_scope(self, token_gateway: GatewayWorld, provider: OidcProvider):
        """The answer is 403 with the scope to ask the issuer for; the body has our code, and nothing is done."""
        async with client_of(token_gateway) as client:
            for body, scope in NEEDED_SCOPES:
                refused = await client.post("/mcp", json=body, headers=provider.headers(scope="chat"))
                assert refused.status_code == 403
                needs = f'Bearer error="insufficient_scope", scope="{scope}", resource_metadata="{PUBLIC}'
                assert refused.headers["www-authenticate"].startswith(needs)
                assert "scope_required" in refused.text
            proposals = await token_gateway.tk.for_owner(Owner("ana", provider.origin)).proposals.list()
            assert proposals == []
            for body, scope in NEEDED_SCOPES:
                allowed = await client.post("/mcp", json=body, headers=provider.headers(scope=scope))
                assert allowed.status_code == 200

    async def test_too_many_requests(self, open_gateway: Open):
        gateway = open_gateway(interfaces=("mcp",), max_requests_per_minute=2)
        async with client_of(gateway, "ana") as client:
            answers = [await client.post("/mcp", json=request("ping")) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert int(answers[-1].headers["retry-after"]) > 0


class TestHosts:
    async def test_host_and_origin(self, open_gateway: Open):
        """A page of another site reaches nothing, whatever its name resolves to."""
        gateway = open_gateway(interfaces=("mcp",), public_url=PUBLIC)
        async with client_of(gateway, "ana") as client:
            found = [(await client.post("/mcp", json=request("ping"), headers=one)).status_code for one, _ in HOSTS]
        assert found == [status for _, status in HOSTS]


class TestBadInput:
    async def test_requests(self, gateway: GatewayWorld):
        """The answer is an error of the protocol, or of HTTP, and never 500; the server goes on."""
        async with client_of(gateway, "ana", **{"Content-Type": "application/json"}) as client:
            answers = [await client.post("/mcp", content=content) for content in BODIES]
            alive = await client.post("/mcp", json=request("ping"))

        for content, answer in zip(BODIES, answers, strict=True):
            refused = 400 <= answer.status_code < 500 and "code" in answer.text
            notified = answer.status_code == 202 and answer.content == b""
            told_so = answer.status_code == 200 and answer.json().get("error", {}).get("code", 0) < 0
            echoed = answer.status_code == 200 and len(str(answer.json()["id"])) == 999_000
            assert refused or notified or told_so or echoed, (content[:80], answer.status_code, answer.text[:200])
        assert alive.json()["result"] == {}

    async def test_arguments(self, gateway: GatewayWorld):
        """The result is an error with our code and without what the caller sent."""
        async with client_of(gateway, "ana", **{"Content-Type": "application/json"}) as client:
            for tool, arguments in ARGUMENTS:
                answer = await client.post("/mcp", content=json.dumps(call(tool, **arguments)))
                result = answer.json()["result"]
                assert (result["isError"], result["_meta"]) == (True, {ERROR_CODE: "input_invalid"}), (tool, arguments)
                assert "xxxx" not in answer.text
        assert await gateway.tk.for_owner(owner_of("ana")).proposals.list(state=None) == []

    async def test_methods_and_headers(self, gateway: GatewayWorld):
        async with client_of(gateway, "ana") as client:
            for method in ("GET", "DELETE", "PUT", "OPTIONS", "HEAD"):
                answer = await client.request(method, "/mcp")
                assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
            for headers, status in HEADERS:
                sent = {"Content-Type": "application/json", **headers}
                answer = await client.post("/mcp", content=json.dumps(request("ping")), headers=sent)
                assert answer.status_code == status, headers

    async def test_unknown_protocol_version(self, gateway: GatewayWorld):
        """A client with a version that does not exist is offered ours."""
        body = {**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": "2999-01-01"}}
        async with client_of(gateway, "ana") as client:
            answer = (await client.post("/mcp", json=body)).json()
        assert answer["result"]["protocolVersion"] == types.LATEST_PROTOCOL_VERSION
        assert answer["result"]["serverInfo"]["name"] == "threadkeep"

    async def test_storage_is_away(self, gateway: GatewayWorld):
        """The answer names no part of the server."""
        await gateway.tk.aclose()
        async with client_of(gateway, "ana") as client:
            answer = await client.post("/mcp", json=call("list_memories"))
        assert (answer.status_code, answer.json()["code"]) == (503, "closed")


async def quiet(gateway: GatewayWorld, idle: int) -> None:
    """Wait until the server has as many tasks as when it was idle."""
    for _ in range(500):
        if gateway.tasks() <= idle:
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"{gateway.tasks() - idle} tasks are left")


class TestLoad:
    @pytest.mark.slow
    @pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.soak)])
    async def test_concurrent_calls(self, open_gateway: Open, count: int):
        """Clients of as many users call at the same time; each reads its own, and nothing is left behind."""
        gateway = open_gateway(interfaces=("mcp",))
        idle = gateway.tasks()
        users = [f"user-{number}" for number in range(count)]
        for user in users:
            await gateway.tk.for_owner(owner_of(user)).memories.remember(f"{user} drinks green tea.")

        async def work(user: str) -> list[str]:
            async with client_of(gateway, user) as client:
                answers = [await client.post("/mcp", json=call("search_memory", query="green tea")) for _ in range(3)]
            return [
                one["memory"]["text"]
                for answer in answers
                for one in answer.json()["result"]["structuredContent"]["found"]
            ]

        found = await asyncio.gather(*(work(user) for user in users))

        assert found == [[f"{user} drinks green tea."] * 3 for user in users]
        await quiet(gateway, idle)

    async def test_clients_that_leave(self, gateway: GatewayWorld):
        """A client that leaves in the middle of a call leaves no task behind."""
        idle = gateway.tasks()
        for number in range(10):
            async with client_of(gateway, "ana") as client:
                task = asyncio.create_task(client.post("/mcp", json=call("list_memories")))
                await asyncio.sleep(0.002 * number)
                task.cancel()
        await quiet(gateway, idle)
