"""Each example, started as its docstring says."""

from __future__ import annotations

import ast
import asyncio
import html
import inspect
import json
import re
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import threadkeep
from tests.processes import run_python

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep everything in a folder of the test; search by words, and reply without a model."""
    monkeypatch.setenv("THREADKEEP_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")
    monkeypatch.delenv("THREADKEEP_MODEL", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(name: str, *arguments: str) -> str:
    """Start an example in a process of its own; return what it prints."""
    done = run_python(EXAMPLES / name, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
class TestPrograms:
    def test_plain_graph(self):
        said = run("plain_graph.py", "--user", "ana", "I live in Lisbon.", "Where do I live?")

        assert "“I live in Lisbon.”" in said.partition("Where do I live?")[2]

    @pytest.mark.long
    def test_support_bot(self, folder: Path):
        """What is told of the customer is known at once, and how to behave when a colleague has approved it."""
        run("support_bot.py", "say", "--user", "ana", "My order is A-17. Always answer me in French.")
        waits = run("support_bot.py", "review", "--user", "ana")
        proposal = re.match(r"(\w{8})  add “Always answer me in French\.”, said by the user", waits)
        assert proposal
        decided = run("support_bot.py", "review", "--user", "ana", "--by", "carla", "--approve", proposal[1])

        reply = run("support_bot.py", "say", "--user", "ana", "Which order is mine?")

        assert "in force: Always answer me in French. (approved by carla)" in decided
        assert "My order is A-17." in reply
        with threadkeep.open() as tk:
            assert any("My order is A-17." in one.text for one in tk.sync.memories.list(owner="ana"))

    def test_deep_agent(self):
        """The sub-agent knows from memory which floor is meant, and finds the ticket by the MCP server."""
        pytest.importorskip("langchain_mcp_adapters", reason="the MCP adapters are not installed")

        said = run("deep_agent.py", "--user", "ana", "I work on the second floor.", "Which ticket concerns my floor?")

        assert "T-1: The printer of the second floor" in said
        assert "T-2" not in said


class TestNotebook:
    def cells(self) -> list[str]:
        notebook: dict[str, Any] = json.loads((EXAMPLES / "notebook.ipynb").read_text("utf-8"))
        return [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]

    async def run(self, *cells: str) -> dict[str, Any]:
        """Run *cells* as a kernel does: on one loop, with ``await`` at the top level, the last value as ``_``."""
        names: dict[str, Any] = {"__name__": "__main__"}
        for cell in cells:
            tree = ast.parse(cell)
            if isinstance(tree.body[-1], ast.Expr):
                tree.body[-1] = ast.Assign([ast.Name("_", ast.Store())], tree.body[-1].value)
            compiled = compile(ast.fix_missing_locations(tree), "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            await self._value(compiled, names)
        return names

    async def _value(self, code: CodeType, names: dict[str, Any]) -> None:
        result = eval(code, names)
        if inspect.iscoroutine(result):
            await result

    async def test_every_cell_runs(self):
        """A recall and a memory show themselves as tables."""
        cells = self.cells()

        names = await self.run(*cells)

        assert "I'm allergic to peanuts" in html.unescape(names["recall"]._repr_html_())
        assert "I live in Porto." in names["home"]._repr_html_()

    async def test_a_kernel_that_is_restarted_in_the_middle_goes_on(self):
        """It ends without closing, and before the turn was learnt; the new one begins at the first cell."""
        opening, first, second, *_ = self.cells()
        before = await self.run(opening, first.replace("await tk.drain()", "pass"))

        defined = first.partition("print(")[0]
        names = await self.run(opening, "await tk.drain()", defined + second.replace("print(", "reply = (", 1))

        assert "allergic to peanuts" in names["reply"]
        await asyncio.gather(names["tk"].aclose(), before["tk"].aclose())
