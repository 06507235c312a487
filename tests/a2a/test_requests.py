"""The card, the skills, tokens and scopes, and invalid requests."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver
from a2a.client.errors import A2AClientError
from a2a.helpers.proto_helpers import new_data_part, new_raw_part, new_url_part
from a2a.types.a2a_pb2 import Part
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict

from tests.a2a.conftest import VERSIONS, connected, message, sent, skill, text_of
from tests.gateway.conftest import Open
from tests.gateway.jsonrpc import MALFORMED
from tests.gateway.oidc import AUDIENCE, OidcProvider
from tests.gateway.test_tokens import hostile_tokens, told
from tests.gateway.world import USER, GatewayWorld, owner_of
from threadkeep.a2a.card import EXTENSION
from threadkeep.identity import Owner
from threadkeep.memories.models import Source
from threadkeep.testing import ScriptedModel

PUBLIC = "https://memory.example"
REFUSED = (A2AError, A2AClientError)
UNKNOWN = "f" * 32
SECRET = "quagga"
SKILLS = ("recall", "remember", "why", "forget", "proposals")

both = pytest.mark.parametrize("version", VERSIONS)


def rpc(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def said(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return rpc("SendMessage", {"message": {"messageId": "m", "role": "ROLE_USER", "parts": list(parts), **more}})


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return said({"data": {"skill": name, "arguments": arguments}})


def client_of(gateway: GatewayWorld, user: str | None = None) -> httpx.AsyncClient:
    named = {"A2A-Version": "1.0", "Content-Type": "application/json"} | ({} if user is None else {USER: user})
    return httpx.AsyncClient(base_url=gateway.origin, headers=named, timeout=60)


async def kept(gateway: GatewayWorld, user: str, *texts: str) -> list[str]:
    memories = gateway.tk.for_owner(owner_of(user)).memories
    return [(await memories.remember(text)).memory_id for text in texts]


class TestCard:
    async def test_what_it_says(self, open_gateway: Open, provider: OidcProvider):
        """It needs no token, names both versions, how to authenticate, and each skill with its schemas."""
        gateway = open_gateway(interfaces=("a2a",), issuers=(provider.origin,), audience=AUDIENCE, public_url=PUBLIC)
        async with httpx.AsyncClient() as http:
            card = await A2ACardResolver(http, gateway.origin).get_agent_card()
            document = (await http.get(f"{gateway.origin}/.well-known/agent-card.json")).json()
            url = card.security_schemes["oidc"].open_id_connect_security_scheme.open_id_connect_url
            metadata = (await http.get(url)).json()

        found = [(one.url, one.protocol_binding, one.protocol_version) for one in card.supported_interfaces]
        assert found == [(f"{PUBLIC}/a2a", "JSONRPC", version) for version in VERSIONS]
        assert (card.capabilities.streaming, card.capabilities.push_notifications) == (True, False)
        assert [one.id for one in card.skills] == ["chat", *SKILLS]
        assert metadata["issuer"] == provider.origin
        (extension,) = [one for one in card.capabilities.extensions if one.uri == EXTENSION]
        schemas = MessageToDict(extension.params)
        assert set(schemas) == set(SKILLS)
        assert schemas["recall"]["arguments"]["required"] == ["query"]
        for one in card.skills[1:]:
            assert json.loads(one.examples[0])["skill"] == one.id
        assert document["url"] == f"{PUBLIC}/a2a"  # where clients of 0.3 look

    async def test_a_single_user_needs_no_token(self, gateway: GatewayWorld):
        async with httpx.AsyncClient() as http:
            card = await A2ACardResolver(http, gateway.origin).get_agent_card()
        assert card.supported_interfaces[0].url == f"{gateway.origin}/a2a"

    async def test_off(self, open_gateway: Open):
        gateway = open_gateway(interfaces=("api",))
        async with client_of(gateway, "ana") as client:
            assert (await client.post("/a2a", json=call("recall", query="tea"))).status_code == 404
            assert (await client.get("/.well-known/agent-card.json")).status_code == 404


class TestSkills:
    @both
    async def test_memories(self, gateway: GatewayWorld, version: str):
        """What an agent says is proposed, and what it wants forgotten, too."""
        tea, _ = await kept(gateway, "ana", "Ana drinks green tea.", "Ana lives in Rome.")
        async with connected(gateway, version=version) as client:
            found = await skill(client, "recall", query="green tea", limit=1)
            why = await skill(client, "why", memory_id=tea)
            proposed = await skill(client, "remember", text="Ana plays the oboe.")
            forget = await skill(client, "forget", memory_id=tea)
            proposals = await skill(client, "proposals")

        assert [one["memory"]["memory_id"] for one in found["found"]] == [tea]
        assert why["memory"]["text"] == "Ana drinks green tea."
        assert (proposed["status"], forget["status"]) == ("proposed", "proposed")
        waiting = {one["proposal_id"]: (one["action"], one["trust"]) for one in proposals["proposals"]}
        assert waiting == {proposed["proposal_id"]: ("add", "agent"), forget["proposal_id"]: ("forget", "agent")}
        assert len(await gateway.tk.for_owner(owner_of("ana")).memories.list()) == 2

    async def test_same_memories_in_the_same_order(self, gateway: GatewayWorld):
        texts = ("Ana drinks green tea.", "Ana lives in Rome.", "Ana drinks black coffee.", "Ana plays chess.")
        await kept(gateway, "ana", *texts)
        async with connected(gateway) as client, gateway.client() as http:
            here = await skill(client, "recall", query="What does Ana drink?")
            there = (await http.get("/memories/search", params={"q": "What does Ana drink?"})).json()
        assert here == there
        assert len(here["found"]) >= 2

    async def test_written_here_read_there(self, gateway: GatewayWorld):
        async with connected(gateway) as client, gateway.client() as http:
            proposed = await skill(client, "remember", text="Ana plays the oboe.")
            await http.post(f"/proposals/{proposed['proposal_id']}/decide", json={"approve": True})
            there = (await http.get("/memories")).json()["memories"]
            await http.post("/memories", json={"text": "Ana lives in Rome."})
            here = (await skill(client, "recall", query="Rome", limit=1))["found"]
        assert [one["text"] for one in there] == ["Ana plays the oboe."]
        assert here[0]["memory"]["text"] == "Ana lives in Rome."

    async def test_another_users_memory_is_not_found(self, gateway: GatewayWorld):
        (tea,) = await kept(gateway, "ana", "Ana drinks green tea.")
        async with client_of(gateway, "bo") as client:
            for name in ("why", "forget"):
                theirs = (await client.post("/a2a", json=call(name, memory_id=tea))).json()
                never = (await client.post("/a2a", json=call(name, memory_id=UNKNOWN))).json()
                assert theirs == never
                assert theirs["error"]["message"] == "There is no memory with this id."
                assert theirs["error"]["data"][0]["metadata"]["code"] == "memory_not_found"

    @pytest.mark.parametrize("count", [60, pytest.param(5_000, marks=[pytest.mark.soak, pytest.mark.timeout(1_800)])])
    async def test_generated_requests_leak_nothing(self, open_gateway: Open, count: int):
        """Requests of one user with the ids of another change and show nothing of theirs."""
        gateway = open_gateway(ScriptedModel(), interfaces=("a2a",), max_requests_per_minute=10**6)
        chance, mine = random.Random(3), gateway.tk.for_owner(owner_of("ana"))
        ids = await kept(gateway, "ana", f"Ana owns a {SECRET}.", f"The {SECRET} of Ana is striped.")
        await mine.proposals.propose(f"The {SECRET} is extinct.", source=Source("tool"))
        async with connected(gateway) as ana:
            events = await sent(ana, message(f"I saw a {SECRET}.", context_id="shared"))
        await gateway.tk.drain()
        task_id = events[0].task.id
        before = (await mine.memories.list(), await mine.proposals.list(state=None), await mine.threads.list())
        async with client_of(gateway, "bo") as client:
            for _ in range(count):
                one = chance.choice([*ids, before[1][0].proposal_id, task_id, UNKNOWN])
                made = chance.choice(
                    [
                        call("why", memory_id=one),
                        call("forget", memory_id=one),
                        call("recall", query="Ana striped extinct"),
                        call("proposals", state="all"),
                        rpc("GetTask", {"id": one}),
                        rpc("CancelTask", {"id": one}),
                        rpc("ListTasks", {"contextId": "shared"}),
                        rpc("SubscribeToTask", {"id": one}),
                        said({"text": "Go on."}, taskId=one),
                        said({"text": "What did I see?"}, contextId="shared"),
                    ]
                )
                answer = await client.post("/a2a", json=made)
                assert answer.status_code == 200, (made, answer.text)
                assert SECRET not in answer.text, made

        after = (await mine.memories.list(), await mine.proposals.list(state=None), await mine.threads.list())
        assert after == before


class TestTokens:
    async def test_four_hundred_attacks(self, open_gateway: Open, provider: OidcProvider):
        """Every one gets the same answer as no token."""
        gateway = open_gateway(interfaces=("a2a",), issuers=(provider.origin,), audience=AUDIENCE)
        async with client_of(gateway) as client:
            body = json.dumps(call("recall", query="tea"))
            valid = await client.post("/a2a", content=body, headers=provider.headers())
            nothing = await client.post("/a2a", content=body)
            accepted: list[str] = []
            for token in hostile_tokens(provider):
                headers = [(b"authorization", b"Bearer " + token.encode())]
                answer = await client.post("/a2a", headers=headers, content=body)
                if told(answer) != told(nothing):
                    accepted.append(f"{answer.status_code} {token[:80]}")

        assert "result" in valid.json()
        assert (nothing.status_code, nothing.headers["www-authenticate"]) == (401, "Bearer")
        assert accepted == []

    async def test_missing_scope(self, open_gateway: Open, provider: OidcProvider):
        """The answer is 403 with the scope; nothing is done."""
        gateway = open_gateway(interfaces=("a2a",), issuers=(provider.origin,), audience=AUDIENCE)
        needed = [
            (call("recall", query="tea"), "memory:read"),
            (call("remember", text="Ana drinks tea."), "memory:write"),
            (call("forget", memory_id="a"), "memory:write"),
            (said({"text": "Hello."}), "chat"),
        ]
        async with client_of(gateway) as client:
            for body, scope in needed:
                others = " ".join({"chat", "memory:read", "memory:write"} - {scope})
                refused = await client.post("/a2a", json=body, headers=provider.headers(scope=others))
                assert (refused.status_code, refused.json()["error"]["data"][0]["metadata"]["code"]) == (
                    403,
                    "scope_required",
                )
                challenge = refused.headers["www-authenticate"]
                assert challenge == f'Bearer error="insufficient_scope", scope="{scope}"'
            tasks = await client.post("/a2a", json=rpc("ListTasks", {}), headers=provider.headers(scope="memory:read"))
            assert "error" in tasks.json()
        mine = gateway.tk.for_owner(Owner("ana", provider.origin))
        assert (await mine.proposals.list(), await mine.threads.list()) == ([], [])

    async def test_too_many_turns(self, open_gateway: Open):
        gateway = open_gateway(interfaces=("a2a",), max_turns_per_minute=1)
        async with client_of(gateway, "ana") as client:
            answers = [await client.post("/a2a", json=said({"text": "Hello."})) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 429]
        assert int(answers[1].headers["retry-after"]) > 0
        assert answers[1].json()["error"]["data"][0]["metadata"]["code"] == "too_many_requests"


BODIES = [
    *MALFORMED,
    b'{"jsonrpc": "1.0", "id": 1, "method": "SendMessage", "params": {}}',
    b'{"jsonrpc": "2.0", "id": {}, "method": "SendMessage", "params": {}}',
    b'{"jsonrpc": "2.0", "id": true, "method": "SendMessage", "params": {}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "Steal", "params": {}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": 7, "params": {}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage"}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": []}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": 1}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": 1}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageToken": "made-up"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": -1}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "CreateTaskPushNotificationConfig", "params": {"url": "http://127.0.0.1"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard", "params": {}}',
    b"[" + b",".join([json.dumps(call("recall", query="tea")).encode()] * 1000) + b"]",
    b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "' + b"a" * 990_000 + b'"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "' + b"a" * 1_100_000 + b'"}}',
    *(
        json.dumps(one).encode()
        for one in (
            said(),
            said({"text": ""}),
            said({"text": "   "}),
            said({"text": "a\x00b"}),
            said({"text": "x" * 70_000}),
            said({"text": "Hello."}, contextId="x" * 1_001),
            said({"text": "Hello."}, taskId="x" * 1_001),
            said({"text": "Hello."}, contextId="a\x00b"),
            said({"raw": "AAAA"}),
            said({"url": "https://memory.example/file"}),
            said({"text": "Hello."}, {"raw": "AAAA"}),
            said({"text": "Hello."}, {"data": {"skill": "recall"}}),
            said({"data": {"skill": "recall"}}, {"data": {"skill": "recall"}}),
            said({"data": {}}),
            said({"data": []}),
            said({"data": {"skill": "steal"}}),
            said({"data": {"skill": "recall", "arguments": {"query": float("nan")}}}),
            said({"text": "Hello."}, metadata={"a": float("inf")}),
            said({"data": {"skill": 1}}),
            said({"data": {"skill": "recall", "arguments": []}}),
            call("recall"),
            call("recall", query="", limit=1),
            call("recall", query="tea", limit=0),
            call("recall", query="tea", limit=1.5),
            call("recall", query="tea", owner="bo"),
            call("remember", text="x" * 8_001),
            call("remember", text="Ana drinks tea.", approved=True),
            call("why", memory_id=""),
            call("proposals", state="lost"),
        )
    ),
]


class TestBadInput:
    async def test_requests(self, gateway: GatewayWorld):
        """The answer is an error of the protocol, or of HTTP, and never 500; nothing is kept."""
        async with client_of(gateway, "ana") as client:
            answers = [await client.post("/a2a", content=content) for content in BODIES]
            alive = await client.post("/a2a", json=call("recall", query="tea"))

        for content, answer in zip(BODIES, answers, strict=True):
            refused = 400 <= answer.status_code < 500 and "code" in answer.text
            told_so = answer.status_code == 200 and answer.json()["error"]["code"] not in (-32603, 0)
            assert refused or told_so, (content[:90], answer.status_code, answer.text[:200])
            assert "xxxx" not in answer.text
        assert alive.json()["result"]["message"]["parts"][0]["data"] == {"found": []}
        mine = gateway.tk.for_owner(owner_of("ana"))
        assert (await mine.proposals.list(state=None), await mine.threads.list()) == ([], [])

    @both
    @pytest.mark.parametrize("part", [new_raw_part(b"\x00", "image/png"), new_url_part("https://memory.example/a")])
    async def test_bytes_are_refused(self, gateway: GatewayWorld, version: str, part: Part):
        async with connected(gateway, version=version) as client:
            with pytest.raises(REFUSED):
                await sent(client, message(part))

    @both
    async def test_a_finished_task_is_not_resumed(self, gateway: GatewayWorld, version: str):
        async with connected(gateway, version=version) as client:
            events = await sent(client, message("Hello.", context_id="t"))
            for parts in (("Again.",), (new_data_part({"a": 1}),)):
                with pytest.raises(REFUSED):
                    await sent(client, message(*parts, task_id=events[0].task.id, context_id="t"))
            with pytest.raises(REFUSED):
                await sent(client, message("Hello.", task_id=events[0].task.id, context_id="another"))
        threads = await gateway.tk.for_owner(owner_of("ana")).threads.messages("t")
        assert len(threads) == 2


class TestLoad:
    @pytest.mark.slow
    @pytest.mark.parametrize("count", [12, pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(600)])])
    async def test_concurrent_streams(self, open_gateway: Open, count: int):
        """As many users talk at the same time; each reads its own stream to the end, and nothing is left behind."""
        gateway = open_gateway(ScriptedModel(replies=("One two three.",)), interfaces=("a2a",), max_runs=count)

        async def talk(number: int) -> str:
            async with connected(gateway, f"user-{number}") as client:
                return text_of(await sent(client, message("Count.", context_id="t")))

        assert await asyncio.gather(*map(talk, range(count))) == ["One two three."] * count
        assert gateway.call(lambda: len(gateway.runs.owners())) == 0
