"""The code in the documents runs as it stands there."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from pathlib import Path
from textwrap import indent
from typing import Any, Final

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

import threadkeep
from threadkeep.langgraph.runs import JobState
from threadkeep.testing import HashingEmbedder, ScriptedModel

ROOT: Final = Path(__file__).parents[2]
FENCED: Final = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
DIFF: Final = re.compile(r"^```diff\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run where the documents' relative files may be written, with no model needed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")


def blocks(name: str) -> str:
    return "\n".join(FENCED.findall((ROOT / name).read_text(encoding="utf-8")))


def run(code: str, **names: Any) -> dict[str, Any]:
    exec(compile(code, "document", "exec", dont_inherit=True), names)
    return names


def awaited(code: str, **names: Any) -> dict[str, Any]:
    """Run *code*, which awaits at its top level, and return its names."""
    body = indent(code, "    ") + "\n    return locals()"
    return asyncio.run(run(f"async def main({', '.join(names)}):\n{body}", **names)["main"](**names))


def run_async(page: str, **names: Any) -> dict[str, Any]:
    return awaited(blocks(page), timedelta=timedelta, **names)


class TestRun:
    """Each document's code, from its first line to its last."""

    def test_quickstart(self) -> None:
        """Friday knows what Monday taught, and the memories are shown, corrected and forgotten."""
        model = ScriptedModel()

        names = run(blocks("docs/quickstart.md"), model=model)

        try:
            human = next(message for message in model.prompts[-1] if message.type == "human")
            assert "allergic to peanuts" in human.text
        finally:
            names["tk"].close()

    def test_plain_graph(self) -> None:
        """The two calls in a node are enough."""
        model = ScriptedModel()
        names = run(blocks("docs/plain-graphs.md"), model=model, __name__="__main__")
        with names["tk"] as tk:

            async def talk(text: str, thread_id: str) -> None:
                said = {"messages": [{"role": "user", "content": text}]}
                config = {"configurable": {"thread_id": thread_id}}
                await names["graph"].ainvoke(said, config, context=names["Ctx"]("ana"))
                await tk.drain()

            asyncio.run(talk("I live in Lisbon.", "1"))
            asyncio.run(talk("Where do I live?", "2"))

            assert "I live in Lisbon." in model.prompts[-1][-1].text

    def test_under_langgraph_dev(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The file for one's own machine brings no checkpointer, and nobody has to be authenticated."""
        monkeypatch.setenv("LANGGRAPH_DEV", "true")
        code = FENCED.findall((ROOT / "docs/langgraph-dev.md").read_text(encoding="utf-8"))[0]

        names = run(code)

        with names["tk"] as tk:
            said = {"messages": [{"role": "user", "content": "I live in Lisbon."}]}
            names["graph"].invoke(said, {"configurable": {"thread_id": "1"}})
            tk.sync.drain()
            assert names["graph"].checkpointer is None
            assert [m.text for m in tk.sync.memories.list(owner="me", kind="semantic")] == ["I live in Lisbon."]

    def test_the_readmes_diff(self) -> None:
        """The added lines make an agent that remembers."""
        (diff,) = DIFF.findall((ROOT / "README.md").read_text(encoding="utf-8"))
        code = "\n".join(line[1:] for line in diff.splitlines() if line[:1] in {"+", " "})
        question = {"role": "user", "content": "I live in Lisbon."}

        names = run(
            code,
            threadkeep=threadkeep,
            create_agent=create_agent,
            model=ScriptedModel(),
            tools=[],
            question=question,
        )

        tk = names["tk"]
        tk.sync.drain()
        assert [m.text for m in tk.sync.memories.list(owner="ana@x.org", kind="semantic")] == ["I live in Lisbon."]
        tk.close()

    def test_window(self) -> None:
        """A graph without middleware stays within its limit, and its thread holds one summary."""
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            model = ScriptedModel()
            names = run(blocks("docs/window.md"), tk=tk, model=model, tools=[], create_agent=create_agent)
            config = tk.config(user_id="ana@x.org", thread_id="1")

            async def talk() -> Any:
                for number in range(12):
                    said = {"role": "user", "content": f"{number}: " + "We talk about the hills. " * 20}
                    await names["graph"].ainvoke({"messages": [said]}, config)
                return (await names["graph"].aget_state(config)).values["messages"]

            held = asyncio.run(talk())
            assert sum(message.text.startswith("Summary of the conversation") for message in held) == 1

    @pytest.mark.slow
    def test_agents(self) -> None:
        """The supervisor answers, with no sub-agent connected."""
        names = run(blocks("docs/agents.md"), model=ScriptedModel(replies=["None."]))

        names["tk"].close()
        assert names["answer"]["messages"][-1].text == "None."

    def test_proposals(self) -> None:
        """What is proposed waits, and is remembered when it is approved."""
        code = blocks("docs/proposals.md")
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            names = run(f"async def main():\n{indent(code, '    ')}", tk=tk)
            asyncio.run(names["main"]())

            assert [m.text for m in tk.sync.memories.list(owner="ana")] == ["Ana prefers terse answers."]

    def test_index(self) -> None:
        """The home page's agent answers."""
        names = run(
            blocks("docs/index.md"), model=ScriptedModel(), tools=[], question={"role": "user", "content": "Hi"}
        )

        names["tk"].close()
        assert names["agent"]

    def test_recall(self) -> None:
        """The block stands in front of the question."""
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            tk.sync.memories.remember("I live in Lisbon.", owner="ana")
            question = [HumanMessage("Where do I live?")]

            names = run_async("docs/recall.md", tk=tk, messages=question)

            assert "I live in Lisbon." in names["messages"][-1].text

    def test_capture(self) -> None:
        """The receipt names what was learnt."""
        said = [HumanMessage("I live in Lisbon."), AIMessage("I see.")]
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            receipt = run_async("docs/capture.md", tk=tk, messages=said)["receipt"]

            assert receipt.status == "done"
            assert receipt.memory_ids

    def test_collections(self) -> None:
        """A passage of the document is found before the collection is erased."""
        text = "Travel\n\nNight trains are booked by the travel desk."
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            found = run_async("docs/collections.md", tk=tk, text=text)["found"]

            assert "Night trains" in found.passages[0].text

    def test_threads(self) -> None:
        """Threads are listed, pruned, forked, deleted and imported; a run on a free thread is accepted."""
        builder = StateGraph(MessagesState).add_node("reply", lambda _: {"messages": [AIMessage("I see.")]})
        builder.add_edge(START, "reply")
        message = {"messages": [HumanMessage("Hello")]}
        with SqliteSaver.from_conn_string("langgraph.sqlite3") as saver:
            before: Any = {"configurable": {"thread_id": "before", "user_id": "ana"}}
            builder.compile(checkpointer=saver).invoke(message, before)
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            config = tk.config(user_id="ana", thread_id="t1")
            graph = builder.compile(checkpointer=tk.checkpointer)
            graph.invoke(message, config)
            checkpoint_id = graph.get_state(config).config["configurable"]["checkpoint_id"]

            run_async("docs/threads.md", tk=tk, builder=builder, message=message, checkpoint_id=checkpoint_id)

            assert {thread.thread_id for thread in tk.sync.threads.list("ana")} == {"t1", "t1-again", "before"}

    def test_erasure_and_audit(self) -> None:
        """The audit holds before the owner is erased, and nothing is left after it."""
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            tk.sync.memories.remember("I live in Lisbon.", owner="ana")

            run_async("docs/audit.md", tk=tk)
            run_async("docs/erasure.md", tk=tk)

            assert tk.sync.memories.list(owner="ana") == []

    def test_identity(self) -> None:
        """The locked object belongs to the owner that it was made for."""
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            names = run(
                blocks("docs/identity.md"),
                tk=tk,
                threadkeep=threadkeep,
                create_agent=create_agent,
                model=ScriptedModel(),
                question={"messages": [HumanMessage("I live in Rome.")]},
            )
            tk.sync.drain()

            known = tk.sync.memories.list(owner=threadkeep.Owner("ana", "acme"), kind="semantic")
            assert [memory.text for memory in known] == ["I live in Rome."]
            assert names["mine"].locked_to.user_id == "ana@x.org"
            assert names["config"]["configurable"]["thread_id"] == "monday"

    def test_gateway(self) -> None:
        """The application has the routes of the page."""
        with threadkeep.open("memory://", embedder="none", model=ScriptedModel()) as tk:
            names = run(blocks("docs/gateway.md"), tk=tk, threadkeep=threadkeep)

        page = (ROOT / "docs/gateway.md").read_text(encoding="utf-8")
        for path in (re.sub(r"\{\w+_id\}", "{id}", one) for one in names["app"].openapi()["paths"]):
            assert path in page or f"`/{path.rpartition('/')[2]}`" in page, path

    def test_jobs(self) -> None:
        """The job asks, is answered, and pays once."""
        paid: list[str] = []

        class Bank:
            def pay(self, amount: int, *, idempotency_key: str) -> int:
                paid.append(idempotency_key)
                return amount

        def ask(state: Any) -> dict[str, Any]:
            return {"data": {**state["input_data"], "by": interrupt("?")}}

        code, pay = FENCED.findall((ROOT / "docs/jobs.md").read_text(encoding="utf-8"))
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            node = run(pay, tk=tk, bank=Bank())["pay"]
            flow: Any = StateGraph(JobState).add_node("pay", node)
            flow.add_node(
                "ask", lambda state: {"data": {"amount": state["input_data"]["amount"], "by": interrupt("?")}}
            )
            flow.add_edge(START, "ask").add_edge("ask", "pay")

            names = awaited(code, tk=tk, flow=flow)

            assert names["run"].status == "done"
            assert len(paid) == 1

    def test_production(self) -> None:
        """Opening and checking a storage at start; here one in memory."""
        code = blocks("docs/production.md").replace("postgresql://db.internal/memory", "memory://")

        awaited(code, threadkeep=threadkeep)
