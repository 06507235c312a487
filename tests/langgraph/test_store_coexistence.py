"""The LangGraph store under programs that were written for LangGraph's own: graphs, LangMem, deep agents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langgraph.config import get_store
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from tests.capture.extractors.test_langmem import Answering, calling, patching, shown_id
from tests.langgraph.store_world import StoreWorld, on_memory
from threadkeep.identity import Owner
from threadkeep.langgraph.store import ThreadkeepStore
from threadkeep.memories.models import Approval, Memory, NewMemory
from threadkeep.recall.service import RecallRequest
from threadkeep.testing import ScriptedModel

ANA = Owner("ana@x.org")
CONFIG: Any = {"configurable": {"langgraph_user_id": ANA.label}}
SAID: Any = {"messages": [{"role": "user", "content": "My dog Rex is called Max now, and I like tea"}]}


class State(TypedDict):
    key: str
    found: list[str]


async def memories_of(world: StoreWorld) -> list[Memory]:
    async def walked() -> list[Memory]:
        return [memory async for memory in world.memories.walk(owner=ANA)]

    return await world.home.run(walked())


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
        recall = await world.home.run(world.recalls.run(RecallRequest("What is my dog called?", ANA)))
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


class TestLangMemConsolidation:
    """The manager over a namespace that Threadkeep, LangMem's tools, a deep agent and an application write to."""

    @pytest.fixture
    def manage(self, store: ThreadkeepStore) -> Callable[..., Any]:
        langmem = pytest.importorskip("langmem", reason="LangMem is not installed")

        def manager(rule: Callable[[str], Any], **options: Any) -> Any:
            namespace = ("memories", "{langgraph_user_id}")
            return langmem.create_memory_store_manager(
                Answering(rule=rule), namespace=namespace, store=store, query_limit=20, **options
            )

        return manager

    async def write_ours(self, world: StoreWorld, *texts: str) -> list[str]:
        await world.services()
        kept = [await world.home.run(world.memories.remember(NewMemory(text), owner=ANA)) for text in texts]
        return [one.memory.memory_id for one in kept]

    async def test_it_inserts_beside_ours(self, manage: Callable[..., Any], store: ThreadkeepStore, world: StoreWorld):
        """What it inserts is recalled, and our memory stays as it was."""
        (key,) = await self.write_ours(world, "My dog is called Rex")

        await manage(lambda _: calling(("Memory", {"content": "Ana drinks green tea"}))).ainvoke(SAID, CONFIG)
        recall = await world.home.run(world.recalls.run(RecallRequest("What does Ana drink?", ANA)))

        assert "Ana drinks green tea" in [one.memory.text for one in recall.memories]
        assert (await store.aget(("memories", ANA.label), key)).value["data"] == "My dog is called Rex"  # type: ignore[union-attr]

    @pytest.mark.parametrize("blocking", [True, False])
    async def test_it_updates_ours(
        self, manage: Callable[..., Any], store: ThreadkeepStore, world: StoreWorld, *, blocking: bool
    ):
        """By a patch of what it was shown; the row keeps its key, and the old statement is not recalled."""
        (key,) = await self.write_ours(world, "My dog is called Rex")
        manager = manage(lambda prompt: patching(shown_id(prompt, "My dog is called Rex"), "My dog is called Max"))

        if blocking:
            manager.invoke(SAID, CONFIG)
        else:
            await manager.ainvoke(SAID, CONFIG)
        recall = await world.home.run(world.recalls.run(RecallRequest("What is my dog called?", ANA)))

        assert [one.memory.text for one in recall.memories] == ["My dog is called Max"]
        assert [item.key for item in await store.asearch(("memories", ANA.label))] == [key]

    async def test_it_consolidates_ours(self, manage: Callable[..., Any], world: StoreWorld):
        """Of two memories it keeps one that says both."""
        await self.write_ours(world, "My dog is called Rex", "My dog Rex likes tea")

        def rule(prompt: str) -> Any:
            gone = ("RemoveDoc", {"json_doc_id": shown_id(prompt, "My dog is called Rex")})
            changed = patching(shown_id(prompt, "My dog Rex likes tea"), "My dog Max likes tea").tool_calls[0]
            return calling(gone, (changed["name"], changed["args"]))

        await manage(rule, enable_deletes=True).ainvoke(SAID, CONFIG)

        assert [one.text for one in await memories_of(world)] == ["My dog Max likes tea"]

    async def test_all_writers_share_a_namespace(
        self, manage: Callable[..., Any], store: ThreadkeepStore, world: StoreWorld
    ):
        """The manager is shown all rows, and each other reader finds its own as it wrote it."""
        langmem = pytest.importorskip("langmem", reason="LangMem is not installed")
        backends = pytest.importorskip("deepagents.backends", reason="deepagents is not installed")
        place = ("memories", ANA.label)
        files = backends.StoreBackend(store=store, namespace=lambda _: place)
        tool = langmem.create_manage_memory_tool(place, store=store)
        search = langmem.create_search_memory_tool(place, store=store)
        by_hand = {"data": "Ana writes rows about tea by hand", "source_thread": "t1"}
        odd = {"tea": {"sorts": 3}}

        await self.write_ours(world, "Ana's dog likes tea")
        await tool.ainvoke({"content": "Ana's tool mentions tea", "action": "create"})
        await files.awrite("/AGENTS.md", "Ana's file mentions tea")
        await store.aput(place, "hand", by_hand)
        await store.aput(place, "odd", odd)
        seen: list[str] = []

        def rule(prompt: str) -> Any:
            seen.append(prompt)
            return patching(shown_id(prompt, "Ana writes rows"), "Ana writes about tea")

        found = json.loads(await search.ainvoke({"query": "tea"}))
        got = [(await store.aget(place, key)).value for key in ("hand", "odd")]  # type: ignore[union-attr]
        listed = (await files.agrep("tea")).matches
        await manage(rule).ainvoke(SAID, CONFIG)
        texts = {memory.text for memory in await memories_of(world)}

        assert all(text in seen[0] for text in ("Ana's dog likes tea", "Ana's tool", "Ana's file", "sorts"))
        assert texts == {
            "Ana's dog likes tea",
            "Ana's tool mentions tea",
            "Ana's file mentions tea",
            "Ana writes about tea",
        }
        assert by_hand in [item["value"] for item in found]
        assert got == [by_hand, odd]
        assert "content" not in got[0]
        assert [match["path"] for match in listed] == ["/AGENTS.md"]
        assert "Ana's file" in (await files.aread("/AGENTS.md")).file_data["content"]

    @on_memory
    @pytest.mark.parametrize("kind", ["semantic", "episodic", "procedural"])
    async def test_a_value_that_is_read_and_written_back_stays_the_memory(
        self, store: ThreadkeepStore, world: StoreWorld, kind: Any
    ):
        """Its kind and its statement are those that were remembered."""
        await world.services()
        approval = Approval("carla", world.clock.now()) if kind == "procedural" else None
        new = NewMemory("Ana likes short answers", kind=kind, approval=approval)
        kept = await world.home.run(world.memories.remember(new, owner=ANA))
        item = await store.aget(kept.memory.namespace, kept.memory.memory_id)
        assert item is not None

        await store.aput(item.namespace, item.key, {**item.value, "tag": "x"})
        (read,) = await memories_of(world)

        assert (read.text, read.kind, read.trust) == (kept.memory.text, kind, kept.memory.trust)
        assert json.loads(json.dumps(item.value)) == item.value


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

    async def test_a_composite_backend_keeps_one_folder_in_the_store(self, store: ThreadkeepStore):
        """Of a deep agent's files those below /memories/ outlive the thread, for their owner alone."""
        deepagents = pytest.importorskip("deepagents", reason="deepagents is not installed")
        backends = pytest.importorskip("deepagents.backends", reason="deepagents is not installed")

        def agent(owner: Owner, *replies: Any) -> Any:
            files = backends.StoreBackend(store=store, namespace=lambda _: ("users", owner.label, "files"))
            backend = backends.CompositeBackend(default=backends.StateBackend(), routes={"/memories/": files})
            return deepagents.create_deep_agent(ScriptedModel(replies=list(replies)), backend=backend)

        def using(tool: str, **arguments: Any) -> AIMessage:
            return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": tool}])

        def asked(text: str) -> dict[str, Any]:
            return {"messages": [{"role": "user", "content": text}]}

        write = using("write_file", file_path="/memories/tea.md", content="Ana drinks green tea")
        draft = using("write_file", file_path="/draft.md", content="a draft")
        await agent(ANA, write, draft, "Noted.").ainvoke(asked("I drink green tea"))
        listing = using("ls", path="/memories/")
        read = using("read_file", file_path="/memories/tea.md")
        lost = using("read_file", file_path="/draft.md")
        later = await agent(ANA, listing, read, lost, "Green tea.").ainvoke(asked("What do I drink?"))
        other = await agent(Owner("bob@x.org"), read, "I do not know.").ainvoke(asked("What does Ana drink?"))

        tools = [message.text for message in later["messages"] if message.type == "tool"]
        assert "/memories/tea.md" in tools[0]
        assert "Ana drinks green tea" in tools[1]
        assert "not found" in tools[2]
        assert ["not found" in message.text for message in other["messages"] if message.type == "tool"] == [True]
        assert [item.key for item in await store.asearch(("users", ANA.label, "files"))] == ["/tea.md"]
