"""The tools, resources and the prompt, as the official client sees them over HTTP."""

from __future__ import annotations

import json
import random
from typing import Any

import httpx
import pytest
from mcp import ClientSession, McpError, types
from pydantic import AnyUrl

from tests.gateway.conftest import Open
from tests.gateway.world import GatewayWorld, owner_of
from tests.mcp_server.conftest import session
from threadkeep.mcp_server.server import ERROR_CODE, RESOURCE_NOT_FOUND
from threadkeep.memories.models import Source

READ_ONLY = {"search_memory", "list_memories", "why", "list_proposals"}
CHANGING = {"remember", "correct_memory", "propose_memory_update", "decide_proposal"}
UNKNOWN = "f" * 32
SECRET = "quagga"


async def call(client: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the structured result of a tool; the client checks it against the tool's schema."""
    result = await client.call_tool(tool, arguments)
    assert not result.isError, result.content
    assert result.structuredContent is not None
    assert isinstance(result.content[0], types.TextContent)
    assert json.loads(result.content[0].text) == result.structuredContent
    return result.structuredContent


async def refusal(client: ClientSession, tool: str, **arguments: Any) -> tuple[str, str]:
    """Return the code and the text of a tool's error."""
    result = await client.call_tool(tool, arguments)
    assert result.isError
    assert result.structuredContent is None
    assert isinstance(result.content[0], types.TextContent)
    return (result.meta or {})[ERROR_CODE], result.content[0].text


async def kept(gateway: GatewayWorld, user: str, *texts: str) -> list[str]:
    memories = gateway.tk.for_owner(owner_of(user)).memories
    return [(await memories.remember(text)).memory_id for text in texts]


class TestList:
    async def test_tools(self, gateway: GatewayWorld):
        """Each tool has a title, both schemas, and says what it changes."""
        async with session(gateway) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}

        assert set(tools) == READ_ONLY | CHANGING | {"forget_memory"}
        for name, tool in tools.items():
            assert tool.title
            assert tool.description
            assert tool.inputSchema["additionalProperties"] is False
            assert tool.outputSchema is not None
            hints = tool.annotations
            assert hints is not None
            assert (hints.readOnlyHint, hints.openWorldHint) == (name in READ_ONLY, False)
            assert hints.destructiveHint is (name == "forget_memory")

    async def test_resources_and_prompts(self, gateway: GatewayWorld):
        async with session(gateway) as client:
            resources = (await client.list_resources()).resources
            templates = (await client.list_resource_templates()).resourceTemplates
            prompts = (await client.list_prompts()).prompts

        assert [str(one.uri) for one in resources] == ["memory://profile", "memory://recent"]
        assert [one.uriTemplate for one in templates] == ["memory://{id}"]
        assert [one.name for one in prompts] == ["recall"]


class TestMemories:
    async def test_search_list_and_why(self, gateway: GatewayWorld):
        tea, rome = await kept(gateway, "ana", "Ana drinks green tea.", "Ana lives in Rome.")
        async with session(gateway) as client:
            found = await call(client, "search_memory", query="green tea", limit=1)
            listed = await call(client, "list_memories", limit=1, offset=1)
            why = await call(client, "why", memory_id=rome)

        assert [one["memory"]["memory_id"] for one in found["found"]] == [tea]
        assert [one["memory_id"] for one in listed["memories"]] == [tea]
        assert why["memory"]["text"] == "Ana lives in Rome."

    async def test_remember_waits_for_the_user(self, gateway: GatewayWorld):
        """A model's statement has the trust of an assistant and is not recalled before the user approves it."""
        async with session(gateway) as client:
            result = await call(client, "remember", text="Ana prefers short answers to letters.")
            found = await call(client, "search_memory", query="short answers to letters")
            (proposal,) = (await call(client, "list_proposals"))["proposals"]
            decided = await call(client, "decide_proposal", proposal_id=result["proposal_id"], approve=True)
            found_later = await call(client, "search_memory", query="short answers to letters")

        assert (result["status"], result["memory_id"], found["found"]) == ("proposed", None, [])
        assert (proposal["proposal_id"], proposal["trust"]) == (result["proposal_id"], "assistant")
        assert [one["memory"]["memory_id"] for one in found_later["found"]] == [decided["memory_id"]]

    async def test_duplicate(self, gateway: GatewayWorld):
        (tea,) = await kept(gateway, "ana", "Ana drinks green tea.")
        async with session(gateway) as client:
            result = await call(client, "remember", text="Ana drinks green tea.")
        assert (result["status"], result["memory_id"]) == ("duplicate", tea)

    async def test_correct_and_reject(self, gateway: GatewayWorld):
        (tea,) = await kept(gateway, "ana", "Ana drinks green tea.")
        async with session(gateway) as client:
            result = await call(client, "correct_memory", memory_id=tea, text="Ana drinks black tea.")
            decided = await call(client, "decide_proposal", proposal_id=result["proposal_id"], approve=False)
            why = await call(client, "why", memory_id=tea)

        assert (result["status"], decided["state"]) == ("proposed", "rejected")
        assert why["memory"]["text"] == "Ana drinks green tea."

    async def test_forget(self, gateway: GatewayWorld):
        (tea,) = await kept(gateway, "ana", "Ana drinks green tea.")
        async with session(gateway) as client:
            assert (await call(client, "forget_memory", memory_id=tea))["memory_ids"] == [tea]
            assert await refusal(client, "why", memory_id=tea) == (
                "memory_not_found",
                "Error (memory_not_found): There is no memory with this id.",
            )

    async def test_propose(self, gateway: GatewayWorld):
        (tea,) = await kept(gateway, "ana", "Ana drinks green tea.")
        async with session(gateway) as client:
            await call(client, "propose_memory_update", action="forget", memory_id=tea, reason="No longer so.")
            (proposal,) = (await call(client, "list_proposals"))["proposals"]
            edited = await call(
                client, "propose_memory_update", text="Ana plays chess.", reason="She said so elsewhere."
            )
            await call(
                client,
                "decide_proposal",
                proposal_id=edited["proposal_id"],
                approve=True,
                text="Ana plays chess on Sundays.",
            )
            found = await call(client, "search_memory", query="chess", limit=1)

        assert (proposal["action"], proposal["memory_id"], proposal["reason"]) == ("forget", tea, "No longer so.")
        assert found["found"][0]["memory"]["text"] == "Ana plays chess on Sundays."

    async def test_resources(self, gateway: GatewayWorld):
        tea, _ = await kept(gateway, "ana", "Ana drinks green tea.", "Ana\n# saw a\nfox.")
        await gateway.tk.profile.set("diet", "no\n# nuts", owner=owner_of("ana"))

        async def read(client: ClientSession, uri: str) -> str:
            (contents,) = (await client.read_resource(AnyUrl(uri))).contents
            assert isinstance(contents, types.TextResourceContents)
            return contents.text

        async with session(gateway) as client:
            profile = await read(client, "memory://profile")
            recent = json.loads(await read(client, "memory://recent"))
            memory = json.loads(await read(client, f"memory://{tea}"))

        assert profile.startswith("# Profile of the user\n\n- ")
        assert "\n- diet: no # nuts\n" in profile
        assert "diet: no # nuts" not in profile.split("## Further facts")[1]
        assert "- Ana drinks green tea. (" in profile
        assert "\n- Ana # saw a fox. (" in profile
        assert [one["memory_id"] for one in recent["memories"]][2] == tea
        assert memory["text"] == "Ana drinks green tea."

    async def test_prompt(self, gateway: GatewayWorld):
        await kept(gateway, "ana", "Ana drinks green tea.")
        async with session(gateway) as client:
            prompt = await client.get_prompt("recall", {"question": "Which tea does Ana drink?"})
        (message,) = prompt.messages
        assert isinstance(message.content, types.TextContent)
        recalled = await gateway.tk.for_owner(owner_of("ana")).recall("Which tea does Ana drink?")
        assert message.content.text == f"{recalled.text}\n\nWhich tea does Ana drink?"
        assert "green tea" in recalled.text


class TestTexts:
    @pytest.mark.parametrize(
        ("tool", "field", "more"),
        [
            ("search_memory", "query", {}),
            ("why", "memory_id", {}),
            ("forget_memory", "memory_id", {}),
            ("correct_memory", "memory_id", {"text": "I live in Rome."}),
            ("propose_memory_update", "memory_id", {"action": "forget"}),
            ("decide_proposal", "proposal_id", {"approve": True}),
            ("remember", "text", {}),
        ],
    )
    async def test_a_nul_is_refused_as_over_http(
        self, gateway: GatewayWorld, tool: str, field: str, more: dict[str, Any]
    ):
        async with session(gateway) as client:
            code, text = await refusal(client, tool, **{field: "a\x00b"}, **more)

        assert code == "input_invalid"
        assert f"{field} must not contain NUL characters." in text

    @pytest.mark.parametrize(
        ("question", "detail"),
        [("a\x00b", "must not contain NUL"), ("", "needs 1 or more"), ("x" * 64_001, "may have at most 64000")],
    )
    async def test_a_question_of_the_prompt(self, gateway: GatewayWorld, question: str, detail: str):
        async with session(gateway) as client:
            with pytest.raises(McpError, match=f"question {detail}") as refused:
                await client.get_prompt("recall", {"question": question})

        assert (refused.value.error.code, refused.value.error.data) == (types.INVALID_PARAMS, {"code": "input_invalid"})

    @pytest.mark.parametrize("memory_id", ["%00", "x" * 20_000])
    async def test_the_address_of_a_memory(self, gateway: GatewayWorld, memory_id: str):
        async with session(gateway) as client:
            with pytest.raises(McpError, match="memory_id m") as refused:
                await client.read_resource(AnyUrl(f"memory://{memory_id}"))

        assert refused.value.error.code == types.INVALID_PARAMS


class TestTwoUsers:
    async def test_they_are_apart(self, gateway: GatewayWorld):
        """What is another user's is not found, in the words for what never was."""
        (tea,) = await kept(gateway, "ana", "Ana drinks green tea.")
        proposals = gateway.tk.for_owner(owner_of("ana")).proposals
        proposed = await proposals.propose("Ana plays chess.", source=Source("tool"))
        assert proposed.proposal is not None
        proposal_id = proposed.proposal.proposal_id
        async with session(gateway, "bo") as bo:
            assert (await call(bo, "search_memory", query="green tea"))["found"] == []
            assert (await call(bo, "list_memories"))["memories"] == []
            assert (await call(bo, "list_proposals", state="all"))["proposals"] == []
            for tool, arguments in (
                ("why", {}),
                ("forget_memory", {}),
                ("correct_memory", {"text": "Ana drinks nothing."}),
                ("propose_memory_update", {"action": "forget"}),
            ):
                theirs = await refusal(bo, tool, memory_id=tea, **arguments)
                assert theirs == await refusal(bo, tool, memory_id=UNKNOWN, **arguments)
                assert theirs[0] == "memory_not_found"
            decided = await refusal(bo, "decide_proposal", proposal_id=proposal_id, approve=True)
            assert decided == await refusal(bo, "decide_proposal", proposal_id=UNKNOWN, approve=True)
            for uri in (f"memory://{tea}", f"memory://{UNKNOWN}"):
                with pytest.raises(McpError, match="There is no memory with this id") as refused:
                    await bo.read_resource(AnyUrl(uri))
                assert refused.value.error.code == RESOURCE_NOT_FOUND
            for uri in ("memory://profile", "memory://recent"):
                assert "tea" not in (await bo.read_resource(AnyUrl(uri))).model_dump_json()
            prompt = await bo.get_prompt("recall", {"question": "Who drinks what?"})
            assert prompt.messages[0].content == types.TextContent(type="text", text="Who drinks what?")

        assert [one.text for one in await gateway.tk.for_owner(owner_of("ana")).memories.list()] == [
            "Ana drinks green tea."
        ]

    @pytest.mark.parametrize("count", [60, pytest.param(5_000, marks=[pytest.mark.soak, pytest.mark.timeout(1_800)])])
    async def test_generated_calls_leak_nothing(self, open_gateway: Open, count: int):
        """Calls of one user with the ids of another, and with words of theirs, change and show nothing of theirs."""
        gateway = open_gateway(interfaces=("mcp",), max_requests_per_minute=10**6)
        chance, mine = random.Random(5), gateway.tk.for_owner(owner_of("ana"))
        ids = await kept(gateway, "ana", f"Ana owns a {SECRET}.", f"The {SECRET} of Ana is striped.")
        await mine.proposals.propose(f"The {SECRET} is extinct.", source=Source("tool"))
        before = (await mine.memories.list(), await mine.proposals.list(state=None))
        proposal_ids = [one.proposal_id for one in before[1]]
        pool = {
            "memory_id": [*ids, UNKNOWN],
            "proposal_id": [*proposal_ids, *ids, UNKNOWN],
            "query": ["Ana striped", "extinct"],
            "text": ["Bo likes tea.", "Bo owns a cat."],
            "question": ["What does Ana own?"],
            "uri": ["memory://profile", "memory://recent", *(f"memory://{one}" for one in ids)],
        }
        async with session(gateway, "bo") as bo:
            tools = (await bo.list_tools()).tools
            for _ in range(count):
                tool = chance.choice(tools)
                arguments = {
                    name: _value(schema, pool.get(name), chance)
                    for name, schema in tool.inputSchema["properties"].items()
                    if name in tool.inputSchema.get("required", ()) or chance.random() < 0.5
                }
                shown = [(await bo.call_tool(tool.name, arguments)).model_dump_json()]
                if chance.random() < 0.1:
                    shown.append((await bo.get_prompt("recall", {"question": "What is striped?"})).model_dump_json())
                    uri = chance.choice(pool["uri"])
                    try:
                        shown.append((await bo.read_resource(AnyUrl(uri))).model_dump_json())
                    except McpError as error:
                        shown.append(str(error))
                assert SECRET not in "".join(shown), (tool.name, arguments)

        assert (await mine.memories.list(), await mine.proposals.list(state=None)) == before


def _value(schema: dict[str, Any], pool: list[str] | None, chance: random.Random) -> Any:
    """Return a value that the schema of an argument allows."""
    if pool is not None:
        return chance.choice(pool)
    schema = next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema)
    if "enum" in schema or "const" in schema:
        return chance.choice(schema.get("enum") or [schema["const"]])
    kinds = {"integer": chance.randrange(1, 9), "boolean": chance.random() < 0.5}
    return kinds.get(schema.get("type", ""), "a")


class TestOtherInterfaces:
    async def test_same_memories_in_the_same_order(self, gateway: GatewayWorld):
        texts = ("Ana drinks green tea.", "Ana lives in Rome.", "Ana drinks black coffee.", "Ana plays chess.")
        await kept(gateway, "ana", *texts)
        async with session(gateway) as client, gateway.client() as http:
            here = await call(client, "search_memory", query="What does Ana drink?")
            there = (await http.get("/memories/search", params={"q": "What does Ana drink?"})).json()
        assert here == there
        assert len(here["found"]) >= 2

    async def test_written_here_read_there(self, gateway: GatewayWorld):
        async with session(gateway) as client, gateway.client() as http:
            proposed = await call(client, "remember", text="Ana plays the oboe.")
            await http.post(f"/proposals/{proposed['proposal_id']}/decide", json={"approve": True})
            there = (await http.get("/memories")).json()["memories"]
            await http.post("/memories", json={"text": "Ana lives in Rome."})
            here = (await call(client, "list_memories"))["memories"]
        assert [one["text"] for one in there] == ["Ana plays the oboe."]
        assert [one["text"] for one in here] == ["Ana lives in Rome.", "Ana plays the oboe."]


class TestUnplugged:
    async def test_off(self, open_gateway: Open):
        gateway = open_gateway(interfaces=("api",))
        async with httpx.AsyncClient(base_url=gateway.origin) as client:
            assert (await client.post("/mcp", json={})).status_code == 404
