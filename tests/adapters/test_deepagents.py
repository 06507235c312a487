"""What is remembered as ``AGENTS.md`` of a deep agent."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from deepagents import MemoryMiddleware, create_deep_agent
from deepagents.backends import CompositeBackend, StateBackend, StoreBackend
from langchain_core.messages import AIMessage

import threadkeep
from threadkeep.adapters.deepagents import MAX_CHARACTERS, PATH, AgentsFile
from threadkeep.memories.models import Source
from threadkeep.testing import ScriptedModel


@pytest.fixture
def mine(tmp_path: Path) -> Generator[threadkeep.Threadkeep]:
    with threadkeep.open(f"sqlite:///{tmp_path / 'memory.db'}", embedder="none") as tk:
        yield tk.for_owner("ana")


def text(backend: AgentsFile) -> str:
    content = backend.download_files([PATH])[0].content
    assert content is not None
    return content.decode()


def test_facts_and_approved_rules_are_shown(mine: threadkeep.Threadkeep):
    """As quoted lines; nothing that waits, nothing forgotten, and no other owner's."""
    mine.sync.memories.remember("I live in Rome.")
    mine.sync.memories.remember('Ignore this.\n# Heading\n"And that"')
    gone = mine.sync.memories.remember("I have a dog.")
    mine.sync.memories.forget(gone.memory_id)
    rule = mine.sync.proposals.propose("Always answer in French.", kind="procedural", source=Source("user"))
    backend = AgentsFile(mine)
    assert "French" not in text(backend)
    assert rule.proposal is not None
    mine.sync.proposals.approve(rule.proposal.proposal_id)

    shown = text(backend)
    assert shown.index("French") < shown.index("Rome")
    assert "dog" not in shown
    assert "\n# Heading" not in shown


def test_the_file_is_bounded(mine: threadkeep.Threadkeep):
    for number in range(60):
        mine.sync.memories.remember(f"Fact {number}: " + "x" * 400)
    assert MAX_CHARACTERS / 2 < len(text(AgentsFile(mine))) < MAX_CHARACTERS + 100


def test_files_as_the_filesystem_tools_see_them(mine: threadkeep.Threadkeep):
    mine.sync.memories.remember("I live in Rome.")
    backend = AgentsFile(mine)
    read = backend.read(PATH, offset=2, limit=1)
    assert (read.start_line, read.end_line, read.next_offset) == (3, 3, 3)
    assert backend.read("/other.md").error == "/other.md does not exist; the memory has the file /AGENTS.md only."
    assert backend.read(PATH, limit=0).no_lines_requested
    assert [one["path"] for one in backend.ls("/").entries or ()] == [PATH]
    assert [one["path"] for one in backend.glob("**/*.md").matches or ()] == [PATH]
    assert backend.glob("*.py").matches == []
    assert [one["line"] for one in backend.grep("Rome").matches or ()] == [4]
    assert backend.grep("Rome", glob="*.py").matches == []
    assert "not deleted" in str(backend.delete(PATH).error)
    assert backend.upload_files([(PATH, b"x")])[0].error == "permission_denied"
    assert backend.download_files(["/other.md"])[0].error == "file_not_found"


def test_too_many_statements_at_once_are_refused_and_none_is_left_out(mine: threadkeep.Threadkeep):
    backend = AgentsFile(mine)

    refused = backend.write(PATH, "\n".join(f"- The user owns boat {number}." for number in range(21)))

    assert "21 statements, at most 20" in str(refused.error)
    assert mine.sync.proposals.list() == []


def test_what_an_agent_writes_waits_for_the_user(mine: threadkeep.Threadkeep):
    """Through deepagents' own tools; the next turn's prompt holds it once it is approved."""
    mine.sync.memories.remember("I live in Rome.")
    call = {
        "name": "edit_file",
        "args": {
            "file_path": "/memory/AGENTS.md",
            "old_string": "[End of notes]",
            "new_string": "- Ana likes tea.\n[End of notes]",
        },
        "id": "1",
    }
    model = ScriptedModel(replies=(AIMessage("", tool_calls=[call]), "Noted.", "Tea?"))
    backend: Any = CompositeBackend(default=StateBackend(), routes={"/memory/": AgentsFile(mine)})
    agent: Any = create_deep_agent(model=model, backend=backend, memory=["/memory/AGENTS.md"])
    agent.invoke({"messages": [("user", "I like tea.")]})

    assert "I live in Rome." in str(model.prompts[0])
    assert "wait for the user's approval" in str(model.prompts[1])
    (proposal,) = mine.sync.proposals.list()
    assert (proposal.text, proposal.trust) == ("Ana likes tea.", "assistant")
    mine.sync.proposals.approve(proposal.proposal_id)
    agent.invoke({"messages": [("user", "What do I like?")]})
    assert "Ana likes tea." in str(model.prompts[-1])
    assert "adds no statement" in str(AgentsFile(mine).edit(PATH, "x", "x").error)


def test_the_documented_agent_with_memory_and_files_of_its_own(mine: threadkeep.Threadkeep):
    """Two sources are joined in order, a file of the conversation stays with it, and a second conversation has memory.

    The middleware is the one of the docs: built by hand, with a source of another backend beside the memory.
    """
    mine.sync.memories.remember("Ana prefers tabs.")
    write = {"name": "write_file", "args": {"file_path": "/draft.txt", "content": "A draft."}, "id": "1"}
    model = ScriptedModel(replies=(AIMessage("", tool_calls=[write]), "Written.", "None."))
    checkpointer: Any = mine.checkpointer
    rules = StoreBackend(store=mine.store, namespace=lambda _runtime: ("users", "ana", "rules"))
    assert rules.write("/AGENTS.md", "Build with make.").error is None
    backend: Any = CompositeBackend(StateBackend(), {"/memories/": AgentsFile(mine), "/rules/": rules})
    middleware: Any = MemoryMiddleware(backend=backend, sources=["/rules/AGENTS.md", "/memories/AGENTS.md"])
    agent: Any = create_deep_agent(model=model, backend=backend, middleware=[middleware], checkpointer=checkpointer)

    def said(thread_id: str, text: str) -> dict[str, Any]:
        return agent.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": thread_id}})

    first, second = said("thread-1", "Write a draft."), said("thread-2", "Which files are there?")

    assert (sorted(first["files"]), second.get("files") or {}) == (["/draft.txt"], {})
    for prompt in (model.prompts[0], model.prompts[-1]):
        assert 0 < str(prompt).index("Build with make.") < str(prompt).index("Ana prefers tabs.")
