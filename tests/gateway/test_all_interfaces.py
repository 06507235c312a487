"""One memory behind HTTP, LangGraph's API, A2A and MCP: the same answers, and each reads what the others write."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.a2a.conftest import connected, skill
from tests.gateway.conftest import Open
from tests.gateway.langgraph_api.conftest import sdk
from tests.gateway.world import GatewayWorld, owner_of
from tests.mcp_server.conftest import session
from tests.mcp_server.test_tools import call

TEXTS = ("Ana drinks green tea.", "Ana lives in Rome.", "Ana drinks black coffee.", "Ana plays chess.")
QUESTION = "What does Ana drink?"

Search = Callable[[str], Awaitable[list[str]]]


@asynccontextmanager
async def searches(gateway: GatewayWorld) -> AsyncGenerator[tuple[dict[str, Search], dict[str, Any]]]:
    """Yield how each interface searches, and its client; a search returns the ids of memories, best first."""
    async with (
        gateway.client() as http,
        sdk(gateway, "ana") as langgraph,
        connected(gateway) as a2a,
        session(gateway) as mcp,
    ):

        async def by_http(query: str) -> list[str]:
            found = (await http.get("/memories/search", params={"q": query})).json()["found"]
            return [one["memory"]["memory_id"] for one in found]

        async def by_langgraph(query: str) -> list[str]:
            return [
                one["key"] for one in (await langgraph.store.search_items(["memories", "me"], query=query))["items"]
            ]

        async def by_a2a(query: str) -> list[str]:
            return [one["memory"]["memory_id"] for one in (await skill(a2a, "recall", query=query))["found"]]

        async def by_mcp(query: str) -> list[str]:
            found = (await call(mcp, "search_memory", query=query))["found"]
            return [one["memory"]["memory_id"] for one in found]

        ways: dict[str, Search] = {"http": by_http, "langgraph": by_langgraph, "a2a": by_a2a, "mcp": by_mcp}
        yield ways, {"http": http, "langgraph": langgraph, "a2a": a2a, "mcp": mcp}


class TestOneMemory:
    async def test_same_memories_in_the_same_order(self, open_gateway: Open):
        """With no interface named, all that are installed are on."""
        gateway = open_gateway()
        memories = gateway.tk.for_owner(owner_of("ana")).memories
        for text in TEXTS:
            await memories.remember(text)
        async with searches(gateway) as (ways, _):
            found = {name: await search(QUESTION) for name, search in ways.items()}

        assert len(found["http"]) >= 2
        assert found == dict.fromkeys(found, found["http"])

    async def test_written_through_one_is_read_through_the_others(self, open_gateway: Open):
        gateway = open_gateway()
        async with searches(gateway) as (ways, clients):
            http = clients["http"]

            async def approved(proposal: dict[str, Any]) -> str:
                decided = await http.post(f"/proposals/{proposal['proposal_id']}/decide", json={"approve": True})
                return decided.json()["memory_id"]

            kept = (await http.post("/memories", json={"text": "Ana drinks green tea."})).json()["memory_id"]
            asked = {
                "green tea": kept,
                "oboe": await approved(await skill(clients["a2a"], "remember", text="Ana plays the oboe.")),
                "chess": await approved(await call(clients["mcp"], "remember", text="Ana likes chess.")),
                "marmot": "of-langgraph",
            }
            value = {"content": "Ana owns a marmot."}
            await clients["langgraph"].store.put_item(["memories", "me"], "of-langgraph", value)
            found = {(name, query): (await ways[name](query))[:1] for name in ways for query in asked}

        assert found == {(name, query): [asked[query]] for name in ways for query in asked}
