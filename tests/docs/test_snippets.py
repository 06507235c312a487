"""The code in the documents runs as it stands there."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any, Final

import pytest
from langchain.agents import create_agent

import threadkeep
from threadkeep.testing import HashingEmbedder, ScriptedModel

ROOT: Final = Path(__file__).parents[2]
FENCED: Final = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
DIFF: Final = re.compile(r"^```diff\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run where the documents' relative files may be written, with no model needed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")


@dataclass
class Ctx:
    """The context that the documents' plain graph reads."""

    user_id: str


def blocks(name: str) -> str:
    return "\n".join(FENCED.findall((ROOT / name).read_text(encoding="utf-8")))


def run(code: str, **names: Any) -> dict[str, Any]:
    exec(compile(code, "document", "exec"), names)
    return names


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
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            graph = run(blocks("docs/plain-graphs.md"), tk=tk, model=model, Ctx=Ctx)["graph"]

            async def talk(text: str, thread_id: str) -> None:
                said = {"messages": [{"role": "user", "content": text}]}
                await graph.ainvoke(said, {"configurable": {"thread_id": thread_id}}, context=Ctx("ana"))
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
