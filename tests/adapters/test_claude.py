"""Claude's memory tool over our storage, driven by the tool runner of Anthropic's own client.

That client is imported where it is used, as it takes a second of every process that collects tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

import threadkeep
from tests.fakes.model_server import ModelServer, ToolCalls
from threadkeep.errors import OwnerRequiredError

NOTES = "/memories/notes.md"


@pytest.fixture
async def tk(tmp_path: Path) -> AsyncGenerator[threadkeep.Threadkeep]:
    async with threadkeep.open(f"sqlite:///{tmp_path / 'memory.db'}", embedder="none") as opened:
        yield opened


def create(path: str, text: str) -> dict[str, Any]:
    return {"command": "create", "path": path, "file_text": text}


def view(path: str, *lines: int) -> dict[str, Any]:
    return {"command": "view", "path": path, **({"view_range": [*lines]} if lines else {})}


async def called(tk: threadkeep.Threadkeep, *commands: dict[str, Any], owner: str = "ana") -> str:
    """Return what the last command answers."""
    from threadkeep.adapters.claude import AsyncClaudeMemoryTool

    tool = AsyncClaudeMemoryTool(tk.for_owner(owner))
    answers = [await tool.call(command) for command in commands]
    return str(answers[-1])


async def test_every_command(tk: threadkeep.Threadkeep):
    assert "created" in await called(tk, create(NOTES, "Likes tea.\nHas a cat.\n"))
    edited = await called(tk, {"command": "str_replace", "path": NOTES, "old_str": "tea", "new_str": "coffee"})
    assert "     1\tLikes coffee." in edited
    await called(tk, {"command": "insert", "path": NOTES, "insert_line": 1, "insert_text": "Lives in Rome."})
    shown = await called(tk, view(NOTES))
    assert shown.splitlines()[1:4] == ["     1\tLikes coffee.", "     2\tLives in Rome.", "     3\tHas a cat."]
    assert (await called(tk, view(NOTES, 2, 2))).splitlines()[1:] == ["     2\tLives in Rome."]

    await called(tk, create("/memories/work/team.md", "Ana leads it."), create("/memories/work/.secret", "x"))
    listed = await called(tk, view("/memories"))
    assert [row.split("\t")[1] for row in listed.splitlines()[1:]] == [
        "/memories",
        NOTES,
        "/memories/work/",
        "/memories/work/team.md",
    ]
    moved = {"command": "rename", "old_path": "/memories/work", "new_path": "/memories/job"}
    await called(tk, moved)
    assert "Ana leads it." in await called(tk, view("/memories/job/team.md"))
    await called(tk, {"command": "delete", "path": "/memories/job"})
    assert "job" not in await called(tk, view("/memories"))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (view("/etc/passwd"), "must start with /memories"),
        (view("/memories/../etc"), "must start with /memories"),
        (view("/memories/none.md"), "does not exist"),
        (create(NOTES, "Again."), "already exists"),
        (create(f"{NOTES}/below.md", "x"), "is a file"),
        (create("/memories", "x"), "cannot be changed"),
        (create("/memories/large.md", "x" * 100_001), "at most 100,000 characters"),
        (create("/memories/" + "x" * 600, "x"), "at most 500 characters"),
        ({"command": "str_replace", "path": NOTES, "old_str": "dog", "new_str": "x"}, "did not appear"),
        ({"command": "str_replace", "path": NOTES, "old_str": "", "new_str": "x"}, "did not appear"),
        ({"command": "str_replace", "path": NOTES, "old_str": "a", "new_str": "x"}, "Multiple occurrences"),
        ({"command": "insert", "path": NOTES, "insert_line": 9, "insert_text": "x"}, "Invalid `insert_line`"),
        ({"command": "delete", "path": "/memories"}, "cannot be changed"),
        ({"command": "rename", "old_path": NOTES, "new_path": NOTES}, "already exists"),
    ],
)
async def test_bad_input_tells_the_model_what_is_wrong(tk: threadkeep.Threadkeep, command: Any, message: str):
    from anthropic.lib.tools import ToolError

    await called(tk, create(NOTES, "a b a\n"))
    with pytest.raises(ToolError, match=message):
        await called(tk, command)
    assert (await called(tk, view(NOTES))).endswith("     1\ta b a\n     2\t")


async def test_files_are_their_owners_alone_and_erased(tk: threadkeep.Threadkeep, tmp_path: Path):
    from anthropic.lib.tools import ToolError

    await called(tk, create(NOTES, "Zanzibar is where Ana lives. The key is sk-proj-Aa1" + "b2" * 30))
    with pytest.raises(ToolError, match="does not exist"):
        await called(tk, view(NOTES), owner="bob")
    assert "sk-proj" not in await called(tk, view(NOTES))
    assert (await tk.recall("Where does Ana live?", owner="ana")).text == ""

    await tk.owners.erase("ana")
    with pytest.raises(ToolError, match="does not exist"):
        await called(tk, view(NOTES))
    await tk.aclose()
    assert not any(b"Zanzibar" in path.read_bytes() for path in tmp_path.iterdir())  # noqa: ASYNC240 - nothing else runs


async def test_opted_out_users_keep_no_files(tk: threadkeep.Threadkeep):
    from anthropic.lib.tools import ToolError

    await tk.owners.opt_out("ana")
    with pytest.raises(ToolError, match="opted out"):
        await called(tk, create(NOTES, "Likes tea."))


async def test_simultaneous_edits_are_all_kept(tk: threadkeep.Threadkeep):
    from threadkeep.adapters.claude import AsyncClaudeMemoryTool

    await called(tk, create(NOTES, ""))
    tool = AsyncClaudeMemoryTool(tk.for_owner("ana"))
    edits = [{"command": "insert", "path": NOTES, "insert_line": 0, "insert_text": f"Line {n}."} for n in range(10)]
    await asyncio.gather(*map(tool.call, edits))
    shown = await called(tk, view(NOTES))
    assert all(f"Line {n}." in shown for n in range(10))


async def test_the_number_of_files_is_limited(tk: threadkeep.Threadkeep, monkeypatch: pytest.MonkeyPatch):
    from anthropic.lib.tools import ToolError

    from threadkeep.adapters.claude import MAX_FILES

    assert MAX_FILES == 1_000
    monkeypatch.setattr("threadkeep.adapters.claude.MAX_FILES", 2)
    with pytest.raises(ToolError, match="files already"):
        await called(tk, *(create(f"/memories/{n}.md", "x") for n in range(3)))


def test_the_blocking_tool(tmp_path: Path):
    from anthropic.lib.tools import ToolError

    from threadkeep.adapters.claude import ClaudeMemoryTool

    with threadkeep.open(f"sqlite:///{tmp_path / 'memory.db'}", embedder="none") as tk:
        tool = ClaudeMemoryTool(tk.for_owner("ana"))
        tool.call(create(NOTES, "Likes tea."))
        assert "Likes tea." in str(tool.call(view(NOTES)))
        assert tool.clear_all_memory() == "All memory cleared"
        with pytest.raises(ToolError, match="does not exist"):
            tool.call(view(NOTES))


def test_an_owner_is_required():
    from threadkeep.adapters.claude import ClaudeMemoryTool

    with threadkeep.open("memory://", embedder="none") as tk, pytest.raises(OwnerRequiredError, match="for_owner"):
        ClaudeMemoryTool(tk)


async def test_the_runner_of_the_client(tk: threadkeep.Threadkeep):
    """The model creates a file by a tool call, and its next request holds the answer."""
    from anthropic import AsyncAnthropic

    from threadkeep.adapters.claude import AsyncClaudeMemoryTool

    replies = (ToolCalls((("memory", create(NOTES, "Likes tea.")),)), "Noted.")
    with ModelServer(replies=replies) as server:
        async with AsyncAnthropic(api_key="none", base_url=server.origin) as client:
            runner = client.beta.messages.tool_runner(
                model="claude",
                max_tokens=100,
                messages=[{"role": "user", "content": "Remember that I like tea."}],
                tools=[AsyncClaudeMemoryTool(tk.for_owner("ana"))],
            )
            last: Any = await runner.until_done()

    assert last.content[0].text == "Noted."
    assert "memory_20250818" in str(server.requests[0]["tools"])
    assert "File created successfully" in str(server.requests[1]["messages"])
    assert "Likes tea." in await called(tk, view(NOTES))


def test_the_documented_chat(tmp_path: Path):
    """The chat that the client's examples show: Claude looks into its memory first, keeps it up to date, and finds it.

    Each message of the runner is kept in the conversation with the result of its tool; a second conversation begins
    empty, reads the notes of the first, and the user looks at them and clears them.
    """
    from anthropic import Anthropic

    from threadkeep.adapters.claude import ClaudeMemoryTool

    look = ToolCalls((("memory", view("/memories")),))
    keep = ToolCalls((("memory", create("/memories/customer.xml", "<user><name>Ana</name></user>")),))
    read = ToolCalls((("memory", view("/memories/customer.xml")),))
    replies = (look, keep, "Hello Ana.", look, read, "You are Ana.")
    with (
        ModelServer(replies=replies) as server,
        threadkeep.open(f"sqlite:///{tmp_path / 'memory.db'}", embedder="none") as tk,
        Anthropic(api_key="none", base_url=server.origin) as client,
    ):
        memory = ClaudeMemoryTool(tk.for_owner("ana"))

        def say(messages: list[Any], text: str) -> str:
            messages.append({"role": "user", "content": text})
            runner = client.beta.messages.tool_runner(
                model="claude",
                max_tokens=2048,
                system="Check the memory before you answer, and keep it up to date.",
                messages=messages,
                tools=[memory],
                betas=["context-management-2025-06-27"],
                context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
            )
            answer = ""
            for message in runner:
                messages.append({"role": "assistant", "content": message.content})
                answer = "".join(block.text for block in message.content if block.type == "text")
                if response := runner.generate_tool_call_response():
                    messages.append(response)
            return answer

        assert say([], "My name is Ana.") == "Hello Ana."
        assert say([], "Who am I?") == "You are Ana."
        listed = str(memory.call(view("/memories")))
        cleared = memory.clear_all_memory()
        empty = str(memory.call(view("/memories")))

    seen = [str(request["messages"]) for request in server.requests]
    assert "customer.xml" not in seen[1]
    assert "/memories/customer.xml" in seen[4]
    assert "<name>Ana</name>" in seen[5]
    assert ("customer.xml" in listed, cleared, "customer.xml" in empty) == (True, "All memory cleared", False)
