"""Each guide is followed from its first line to its last, as its reader would: its code, and its commands."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import shlex
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

import threadkeep
from tests.command_line import CliRunner
from tests.examples.curl import perform_commands
from threadkeep.cli.main import app
from threadkeep.testing import ScriptedModel

ROOT: Final = Path(__file__).parents[2]
FENCED: Final = re.compile(r"^( *)```python\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
COMMAND: Final = re.compile(r"^ {4,8}(threadkeep .*?)(?: +#.*)?$", re.MULTILINE)
ANA: Final = "ana@x.org"

pytestmark = pytest.mark.usefixtures("folder")


def section(page: str, heading: str = "") -> str:
    """Return a page of ``docs/``, or its section of this heading."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0] if heading else text


def code(text: str) -> str:
    return "\n".join(dedent(body) for _, body in FENCED.findall(text))


async def run(text: str, **names: Any) -> dict[str, Any]:
    """Run code that may await at its top level, as a notebook does."""
    await asyncio.sleep(0)
    compiled = compile(ast.parse(text), "guide", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(compiled, names)
    if inspect.iscoroutine(result):
        await result
    return names


def command(words: str) -> str:
    """Run a command of a guide and return what it prints."""
    done = CliRunner().invoke(app, shlex.split(words)[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def texts(tk: threadkeep.Threadkeep, owner: str = ANA) -> list[str]:
    return sorted(one.text for one in tk.sync.memories.list(owner=owner) if one.kind != "episodic")


def talk(saver: Any, text: str, config: Any, **options: Any) -> list[Any]:
    agent = create_agent(ScriptedModel(replies=["I see."]), [], checkpointer=saver, **options)
    return agent.invoke({"messages": [("user", text)]}, config)["messages"]


def test_tutorial(monkeypatch: pytest.MonkeyPatch):
    """Every step does what the page says, and the commands at its end see the same memory."""
    page = section("tutorial.md")
    begin, end = page.split("## 7. Erase a user")

    names = asyncio.run(run(code(begin)))

    assert "“I'm allergic to peanuts.”" in names["reply"] or "“I'm allergic to peanuts”" in names["reply"]
    assert names["city"].text.startswith("I live in Lisbon")
    assert [one.text for one in names["rules"]] == ["Always answer in French."]
    assert "another owner" in names["refusal"]
    asyncio.run(run(code(end), tk=names["tk"]))
    monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", "tutorial.db")
    for words in COMMAND.findall(end):
        done = CliRunner().invoke(app, shlex.split(words)[1:], input="")
        assert done.exit_code == 0, done.output


async def test_jupyter():
    names = await run(code(section("jupyter.md")))

    assert names["state"]["messages"]
    assert "I live in Lisbon." in names["recall"].text
    await names["tk"].aclose()


def test_fastapi():
    """The application as it stands there, the commands to talk to it, and an unknown user."""
    from fastapi.testclient import TestClient

    page = (ROOT / "docs/fastapi.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "app"}
    exec(compile("\n".join(code for _, code in FENCED.findall(page)), "fastapi.md", "exec", dont_inherit=True), names)

    with names["tk"], TestClient(names["app"]) as client:
        said, _ = perform_commands(page, client)
        names["tk"].sync.drain()
        listed = client.get("/memories", headers={"authorization": "Bearer token-of-ana"})
        of_bob = client.get("/memories", headers={"authorization": "Bearer token-of-bob"})
        refused = client.get("/memories")

    assert said.status_code == 200, said.text
    assert "I live in Lisbon." in listed.json()
    assert of_bob.json() == []
    assert refused.status_code == 401


class TestMovingIn:
    async def test_from_memory(self):
        """A thread goes on, and an item becomes a memory of its user."""
        saver, store = InMemorySaver(), InMemoryStore()
        talk(saver, "Hello.", {"configurable": {"thread_id": "thread-1"}})
        store.put(("memories", "ana"), "1", {"data": "I live in Lisbon."})

        names = await run(
            code(section("moving-in.md", "From InMemorySaver and InMemoryStore")), old_saver=saver, old_store=store
        )
        tk = names["tk"]
        await names["move_in"]()

        assert [one.text for one in await tk.memories.list(owner=ANA)] == ["I live in Lisbon."]
        agent: Any = create_agent(ScriptedModel(), [], checkpointer=tk.checkpointer)
        state = await agent.ainvoke({"messages": [("user", "More.")]}, tk.config(user_id=ANA, thread_id="thread-1"))
        assert state["messages"][0].text == "Hello."
        await tk.aclose()

    @pytest.mark.slow
    def test_from_postgres(self, postgres_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
        """An application with saver and store moves within its database; its own tables stay as they are."""
        from langgraph.checkpoint.postgres import PostgresSaver
        from langgraph.store.postgres import PostgresStore

        with (
            PostgresSaver.from_conn_string(postgres_url) as saver,
            PostgresStore.from_conn_string(postgres_url) as store,
        ):
            saver.setup()
            store.setup()
            store.put(("memories", "a_b@x_org"), "1", {"data": "I live in Lisbon."})
            talk(saver, "Hello.", {"configurable": {"thread_id": "thread-1", "user_id": ANA}})
            talk(saver, "Hi.", {"configurable": {"thread_id": "thread-2"}})
        (folder / "users.json").write_text(json.dumps({"a_b@x_org": ANA}))
        (folder / "threads.json").write_text(json.dumps({"thread-2": "bob@x.org"}))
        monkeypatch.setenv("LANGGRAPH_STORE_TYPE", "postgres")
        monkeypatch.setenv("LANGGRAPH_STORE_POSTGRES_DSN", postgres_url)
        text = section("moving-in.md", "From PostgresSaver and PostgresStore")

        for words in COMMAND.findall(text):
            command(words.replace("postgresql://localhost/app", postgres_url))
        names = asyncio.run(
            run(
                code(text).replace("postgresql://localhost/app", postgres_url),
                model=ScriptedModel(),
                threadkeep=threadkeep,
                create_agent=create_agent,
            )
        )

        with names["tk"] as tk:
            assert texts(tk) == ["I live in Lisbon."]
            assert tk.sync.threads.ids("bob@x.org") == ("thread-2",)
            messages = names["agent"].invoke({"messages": [("user", "More.")]}, names["config"])["messages"]
            assert messages[0].text == "Hello."
        with (
            PostgresSaver.from_conn_string(postgres_url) as saver,
            PostgresStore.from_conn_string(postgres_url) as store,
        ):
            assert store.get(("memories", "a_b@x_org"), "1") is not None
            assert len({one.config["configurable"]["thread_id"] for one in saver.list(None)}) == 2

    def test_from_langmem(self, folder: Path):
        """What LangMem's tools wrote into LangGraph's store are memories of the user."""
        langmem = pytest.importorskip("langmem", reason="LangMem is not installed")
        from langgraph.store.sqlite import SqliteStore

        with SqliteStore.from_conn_string(str(folder / "langmem.db")) as store:
            store.setup()
            tool = langmem.create_manage_memory_tool(("memories", "{user}"), store=store)
            tool.invoke({"content": "I live in Lisbon."}, {"configurable": {"user": "ana"}})

        (words,) = COMMAND.findall(section("moving-in.md", "From LangMem"))
        command(words)

        with threadkeep.open() as tk:
            assert texts(tk, "ana") == ["I live in Lisbon."]

    async def test_from_mem0(self):
        """By its export; mem0 itself is not installed."""

        class Exported:
            def get_all(self, *, filters: dict[str, str]) -> dict[str, Any]:
                row = {
                    "id": f"id-{filters['user_id']}",
                    "memory": "Likes green tea",
                    "created_at": "2024-07-26T08:44:41Z",
                }
                return {"results": [{**row, **filters}]}

        text = section("moving-in.md", "From mem0")
        await run(code(text), mem0_memory=Exported())
        (words,) = COMMAND.findall(text)
        await asyncio.to_thread(command, words)

        async with threadkeep.open() as tk:
            assert [one.text for one in await tk.memories.list(owner=ANA)] == ["Likes green tea"]
            assert [one.text for one in await tk.memories.list(owner="bob@x.org")] == ["Likes green tea"]


async def test_langmem():
    """What LangMem's tool keeps is recalled by the next turn, and its manager reads the same namespace."""
    pytest.importorskip("langmem", reason="LangMem is not installed")
    keep = {"name": "manage_memory", "args": {"content": "Ana lives in Lisbon.", "action": "create"}, "id": "1"}
    model = ScriptedModel(replies=[AIMessage("", tool_calls=[keep]), "Kept."])
    question = {"messages": [("user", "I moved to Lisbon.")]}

    names = await asyncio.to_thread(
        lambda: asyncio.run(run(code(section("langmem.md")), model=model, question=question))
    )
    with names["tk"] as tk:
        again = {"messages": [("user", "Where does Ana live? In Lisbon?")]}
        await asyncio.to_thread(names["agent"].invoke, again, tk.config(user_id=ANA, thread_id="friday"))

        assert "Ana lives in Lisbon." in [one.text for one in tk.sync.memories.list(owner=ANA)]
        assert "Ana lives in Lisbon." in str(model.prompts[-1])
