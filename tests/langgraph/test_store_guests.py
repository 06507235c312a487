"""The LangGraph store under programs that were written for LangGraph's own: graphs, LangMem, deep agents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from langgraph.config import get_store
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from tests.langgraph.store_world import StoreWorld
from threadkeep.identity import Owner
from threadkeep.langgraph.store import ThreadkeepStore

ANA = Owner("ana@x.org")


class State(TypedDict):
    key: str
    found: list[str]


class TestGraphs:
    @pytest.fixture
    def graph(self, store: ThreadkeepStore) -> Any:
        """A graph with a blocking node and an async one, each writing and reading."""

        def blocking(state: State, runtime: Runtime) -> dict[str, Any]:
            assert runtime.store is not None
            runtime.store.put(("docs",), f"{state['key']}-sync", {"text": "written by the blocking node"})
            return {"found": [item.key for item in runtime.store.search(("docs",), query="written")]}

        builder: Any = StateGraph(State)
        builder.add_node("blocking", blocking)
        builder.add_edge(START, "blocking")
        builder.add_edge("blocking", END)
        return builder.compile(store=store)

    def test_invoke(self, graph: Any):
        """A blocking run uses the store that the graph was compiled with."""
        assert graph.invoke({"key": "a"})["found"] == ["a-sync"]

    async def test_ainvoke(self, graph: Any):
        """An async run of a blocking node does, too."""
        assert (await graph.ainvoke({"key": "a"}))["found"] == ["a-sync"]

    async def test_invoke_in_a_running_loop(self, graph: Any):
        """A notebook cell may call the blocking face."""
        assert graph.invoke({"key": "a"})["found"] == ["a-sync"]

    async def test_an_async_node(self, store: ThreadkeepStore):
        """``get_store()`` gives it to async nodes."""

        async def node(state: State) -> dict[str, Any]:
            await get_store().aput(("docs",), state["key"], {"text": "x"})
            return {"found": [item.key for item in await get_store().asearch(("docs",))]}

        builder: Any = StateGraph(State)
        builder.add_node("node", node)
        builder.add_edge(START, "node")
        builder.add_edge("node", END)

        assert (await builder.compile(store=store).ainvoke({"key": "a"}))["found"] == ["a"]


class TestLangMem:
    @pytest.fixture
    def tools(self, store: ThreadkeepStore) -> tuple[Any, Any]:
        langmem = pytest.importorskip("langmem", reason="LangMem is not installed")
        namespace = ("memories", "{langgraph_user_id}")
        return (
            langmem.create_manage_memory_tool(namespace, store=store),
            langmem.create_search_memory_tool(namespace, store=store),
        )

    async def test_its_tools_write_search_update_and_delete(self, tools: tuple[Any, Any], world: StoreWorld):
        """What they write is recalled, what they delete is gone; an e-mail address is a user by its label."""
        manage, search = tools
        config = {"configurable": {"langgraph_user_id": ANA.label}}

        said = await manage.ainvoke({"content": "My dog is called Rex", "action": "create"}, config)
        memory_id = re.findall(r"[0-9a-f-]{36}", said)[0]
        await manage.ainvoke({"content": "My dog is called Max", "action": "update", "id": memory_id}, config)
        (found,) = json.loads(await search.ainvoke({"query": "dog"}, config))
        recall = await world.home.run(world.recalls.recall("What is my dog called?", owner=ANA))
        await manage.ainvoke({"action": "delete", "id": memory_id}, config)

        assert found["value"] == {"content": "My dog is called Max"}
        assert [one.memory.text for one in recall.memories] == ["My dog is called Max"]
        assert json.loads(await search.ainvoke({"query": "dog"}, config)) == []

    def test_its_tools_work_blocking(self, tools: tuple[Any, Any]):
        """Outside any loop, too; and another user finds nothing."""
        manage, search = tools
        manage.invoke({"content": "likes tea"}, {"configurable": {"langgraph_user_id": "ana"}})

        assert json.loads(search.invoke({"query": "tea"}, {"configurable": {"langgraph_user_id": "an"}})) == []
        assert len(json.loads(search.invoke({"query": "tea"}, {"configurable": {"langgraph_user_id": "ana"}}))) == 1


class TestDeepAgents:
    @pytest.fixture
    def files(self, store: ThreadkeepStore) -> Callable[[Owner], Any]:
        backends = pytest.importorskip("deepagents.backends", reason="deepagents is not installed")
        return lambda owner: backends.StoreBackend(store=store, namespace=lambda _: ("users", owner.label, "files"))

    async def test_files_are_kept_for_each_owner(self, files: Callable[[Owner], Any]):
        """Written, read, edited, found and deleted below the label of an address; another owner has none."""
        ana, other = files(ANA), files(Owner("ana@x_org"))
        for number in range(120):
            await ana.awrite(f"/notes/{number}.md", f"note {number} about tea")

        await ana.aedit("/notes/7.md", "tea", "coffee")
        read = await ana.aread("/notes/7.md")

        assert "coffee" in read.file_data["content"]
        assert len((await ana.aglob("/notes/*.md")).matches) == 120
        assert [match["path"] for match in (await ana.agrep("coffee")).matches] == ["/notes/7.md"]
        assert not (await ana.adelete("/notes")).error
        assert not (await ana.aglob("*.md")).matches
        assert not (await other.aglob("*.md")).matches
