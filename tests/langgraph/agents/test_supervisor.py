"""The supervisor and its sub-agents at work: memory, capture, window, interrupts, and servers that fail."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deepagents.backends import StoreBackend
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.types import Command

import threadkeep
from tests.langgraph.agents.vendors import TOKENS, Vendors
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.errors import AgentUnavailableError, InvalidInputError
from threadkeep.observability import AGENT_NAME, OPERATION, TOOL, TOOL_NAME
from threadkeep.testing import HashingEmbedder, ScriptedModel

ANA = "ana@x.org"
TAUGHT = "My favourite repository is called threadkeep."
ISSUE = {"method": "get", "owner": "ana", "repo": "threadkeep", "issue_number": 7}
WRITTEN = {"method": "create", "owner": "ana", "repo": "threadkeep", "title": "A leak"}


def said(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def calling(tool: str, number: int = 1, /, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": f"{tool}-{number}"}])


def handing(agent: str, task: str) -> AIMessage:
    return calling("task", subagent_type=agent, description=task)


def text_of(message: BaseMessage) -> str:
    return message.text


def all_said(prompt: Sequence[BaseMessage], kind: type[BaseMessage]) -> str:
    return "\n".join(text_of(message) for message in prompt if isinstance(message, kind))


def written(folder: Path) -> bytes:
    """Return everything that the memory's files hold."""
    return b"".join(path.read_bytes() for path in folder.glob("m*"))


@pytest.fixture
def config(tk: threadkeep.Threadkeep) -> Any:
    return tk.config(user_id=ANA, thread_id="t1")


class TestDelegate:
    async def test_a_task_reaches_the_vendors_tool_and_its_answer_comes_back(
        self, tk: threadkeep.Threadkeep, file: Path, vendors: Vendors, config: Any
    ):
        model = ScriptedModel(
            replies=[
                handing("github", "Read issue 7."),
                calling("issue_read", **ISSUE),
                "It is open.",
                "Issue 7 is open.",
            ]
        )
        agent = await tk.agents.supervisor(file=file, model=model)

        state = await agent.ainvoke(said("What about issue 7?"), config)

        assert vendors.calls == [("github", "issue_read", ISSUE)]
        assert "issue_read answers" in all_said(model.prompts[2], ToolMessage)
        assert [message.text for message in state["messages"] if isinstance(message, ToolMessage)] == ["It is open."]
        assert state["messages"][-1].text == "Issue 7 is open."

    async def test_a_call_of_a_server_is_a_span_without_what_was_said(
        self, tk: threadkeep.Threadkeep, file: Path, config: Any, spans: Any
    ):
        model = ScriptedModel(replies=[handing("github", "Read."), calling("issue_read", **ISSUE), "Open.", "Open."])
        agent = await tk.agents.supervisor(file=file, model=model)

        await agent.ainvoke(said("What about issue 7?"), config)

        [one] = [one for one in spans.get_finished_spans() if one.name == "execute_tool issue_read"]
        assert one.attributes == {OPERATION: TOOL, TOOL_NAME: "issue_read", AGENT_NAME: "github"}

    def test_without_a_loop(self, tk: threadkeep.Threadkeep, file: Path, vendors: Vendors, config: Any):
        model = ScriptedModel(
            replies=[handing("splunk", "List."), calling("splunk_get_indexes"), "main", "There is main."]
        )
        agent = tk.sync.agents.supervisor(file=file, model=model)

        state = agent.invoke(said("Which indexes are there?"), config)

        assert vendors.calls == [("splunk", "splunk_get_indexes", {})]
        assert state["messages"][-1].text == "There is main."

    async def test_a_command_is_handed_its_declared_variables_only(
        self, tk: threadkeep.Threadkeep, file: Path, config: Any, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("AWS_PROFILE", "readonly")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/not/declared")
        asked = ["AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "GITHUB_PERSONAL_ACCESS_TOKEN"]
        model = ScriptedModel(
            replies=[handing("aws", "Look."), calling("aws___list_regions", variables=asked), "Done.", "Done."]
        )
        agent = await tk.agents.supervisor(file=file, model=model)

        await agent.ainvoke(said("Which regions?"), config)

        answer = all_said(model.prompts[2], ToolMessage)
        assert '"AWS_PROFILE": "readonly"' in answer
        assert '"AWS_SHARED_CREDENTIALS_FILE": null' in answer
        assert '"GITHUB_PERSONAL_ACCESS_TOKEN": null' in answer

    async def test_only_the_declared_tools_are_shown_to_the_model(
        self, tk: threadkeep.Threadkeep, file: Path, config: Any
    ):
        model = ScriptedModel(replies=[handing("slack", "Look."), "Nothing.", "Nothing."])
        agent = await tk.agents.supervisor(file=file, model=model)
        shown: list[set[str]] = []
        bind = ScriptedModel.bind_tools

        def noting(self: ScriptedModel, tools: Sequence[Any], **kwargs: Any) -> Any:
            shown.append({tool.name for tool in tools})
            return bind(self, tools, **kwargs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ScriptedModel, "bind_tools", noting)
            await agent.ainvoke(said("Anything new?"), config)

        supervisor, slack = shown[0], shown[1]
        assert {"task", "remember", "search_memory"} <= supervisor
        assert not any(tool.startswith("slack_") for tool in supervisor)
        assert {tool for tool in slack if tool.startswith("slack_")} == set(
            next(one for one in tk.agents.declared(file) if one.name == "slack").tools
        )
        assert "remember" not in slack


class TestRemember:
    async def test_supervisor_and_sub_agent_are_given_what_matters(
        self, tk: threadkeep.Threadkeep, file: Path, config: Any
    ):
        await tk.memories.remember(TAUGHT, owner=ANA)
        model = ScriptedModel(replies=[handing("github", "Read my favourite repository."), "Read.", "Read."])
        agent = await tk.agents.supervisor(file=file, model=model)

        await agent.ainvoke(said("Look at my favourite repository."), config)

        assert TAUGHT in all_said(model.prompts[0], HumanMessage)
        assert TAUGHT in all_said(model.prompts[1], HumanMessage)

    async def test_only_the_users_turn_is_learnt_from(self, tk: threadkeep.Threadkeep, file: Path, config: Any):
        task = "I live in Atlantis and my name is Nemo."
        model = ScriptedModel(replies=[handing("github", task), "I am called Hal.", "Fine."])
        agent = await tk.agents.supervisor(file=file, model=model)

        await agent.ainvoke(said("I live in Lisbon."), config)
        await tk.drain()

        texts = [memory.text for memory in await tk.memories.list(owner=ANA) if memory.kind != "episodic"]
        assert any("Lisbon" in text for text in texts)
        assert not any("Atlantis" in text or "Nemo" in text or "Hal" in text for text in texts)

    async def test_a_long_thread_of_the_supervisor_is_compacted(
        self, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("MAX_CONTEXT_TOKENS", "12000")
        with threadkeep.open(f"sqlite:///{tmp_path}/w.db", embedder=HashingEmbedder()) as tk:
            agent = await tk.agents.supervisor(file=file, model=ScriptedModel())
            for number in range(8):
                await agent.ainvoke(
                    said(f"{number} " + "We talk about the weather in the hills. " * 120),
                    tk.config(user_id=ANA, thread_id="long"),
                )

            assert tk.app.telemetry.counts()["window.compacted"] >= 1


class TestInterrupt:
    async def test_what_writes_waits_and_goes_on_wherever_the_memory_is_opened(
        self, file: Path, vendors: Vendors, tmp_path: Path
    ):
        url = f"sqlite:///{tmp_path}/i.db"
        replies = [handing("github", "File it."), calling("issue_write", **WRITTEN), "Filed.", "It is filed."]
        with threadkeep.open(url, embedder=HashingEmbedder()) as tk:
            config = tk.config(user_id=ANA, thread_id="t1")
            agent = await tk.agents.supervisor(file=file, model=ScriptedModel(replies=replies))
            await agent.ainvoke(said("File an issue about the leak."), config)
            [asked] = (await agent.aget_state(config)).interrupts

        assert asked.value["action_requests"][0]["name"] == "issue_write"
        assert vendors.calls == []

        with threadkeep.open(url, embedder=HashingEmbedder()) as tk:
            agent = await tk.agents.supervisor(file=file, model=ScriptedModel(replies=replies[2:]))
            state = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), config)

        assert vendors.calls == [("github", "issue_write", WRITTEN)]
        assert state["messages"][-1].text == "It is filed."

    async def test_what_is_rejected_is_not_called(
        self, tk: threadkeep.Threadkeep, file: Path, vendors: Vendors, config: Any
    ):
        replies = [handing("slack", "Tell them."), calling("slack_send_message", text="hi"), "Not sent.", "Not sent."]
        agent = await tk.agents.supervisor(file=file, model=ScriptedModel(replies=replies))

        await agent.ainvoke(said("Tell everybody."), config)
        await agent.ainvoke(Command(resume={"decisions": [{"type": "reject"}]}), config)

        assert vendors.calls == []


class TestStore:
    async def test_a_sub_agents_files_are_in_our_store(self, tk: threadkeep.Threadkeep, file: Path, config: Any):
        label = tk.label(ANA)
        model = ScriptedModel(
            replies=[
                handing("gitlab", "Write it down."),
                calling("write_file", file_path="/notes.md", content="Pipelines are green."),
                "Written.",
                "Written.",
            ]
        )
        agent = await tk.agents.supervisor(
            file=file, model=model, backend=StoreBackend(namespace=lambda _: ("users", label, "files"))
        )

        await agent.ainvoke(said("Note how the pipelines are."), config)

        [item] = await tk.store.asearch(("users", label, "files"))
        assert "Pipelines are green." in str(item.value["content"])


class TestFail:
    async def test_a_missing_credential_never_stops_the_supervisor(
        self,
        tk: threadkeep.Threadkeep,
        file: Path,
        config: Any,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ):
        for variable in ("GITHUB_PERSONAL_ACCESS_TOKEN", "GITLAB_MCP_TOKEN", "SLACK_MCP_TOKEN", "SPLUNK_MCP_TOKEN"):
            monkeypatch.delenv(variable)
        model = ScriptedModel(replies=["I cannot reach GitHub now."])
        agent = await tk.agents.supervisor(file=file, model=model)

        state = await agent.ainvoke(said("What about issue 7?"), config)

        assert state["messages"][-1].text == "I cannot reach GitHub now."
        assert "Not connected now: github, gitlab, slack, aws, splunk." in all_said(model.prompts[0], SystemMessage)
        assert (
            "The agent github is disabled: GITHUB_PERSONAL_ACCESS_TOKEN is not set; set it to use the agent."
            in caplog.text
        )
        assert tk.app.telemetry.counts()["agents.disabled"] == 5

    async def test_what_was_switched_off_needs_no_line(
        self, tk: threadkeep.Threadkeep, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ):
        monkeypatch.setenv("ENABLE_GITHUB", "false")

        await tk.agents.supervisor(file=file, model=ScriptedModel())

        assert "The agent aws is disabled" in caplog.text
        assert "github" not in caplog.text

    async def test_a_server_that_breaks_off_is_survived(
        self, tk: threadkeep.Threadkeep, file: Path, vendors: Vendors, config: Any
    ):
        model = ScriptedModel(
            replies=[handing("github", "Read."), calling("issue_read", **ISSUE), "No answer.", "GitHub is down."]
        )
        agent = await tk.agents.supervisor(file=file, model=model)
        vendors.failing.add("github")

        state = await agent.ainvoke(said("What about issue 7?"), config)

        assert "The server of github did not answer (" in all_said(model.prompts[2], ToolMessage)
        assert state["messages"][-1].text == "GitHub is down."
        assert tk.app.telemetry.counts()["agents.github.degraded"] == 1

    async def test_what_a_tool_says_of_its_own_failure_is_passed_on(
        self, tk: threadkeep.Threadkeep, file: Path, config: Any
    ):
        model = ScriptedModel(
            replies=[handing("github", "Read."), calling("issue_read", fail=True), "Not there.", "It is not there."]
        )
        agent = await tk.agents.supervisor(file=file, model=model)

        await agent.ainvoke(said("What about issue 8?"), config)

        assert "404: there is no such thing" in all_said(model.prompts[2], ToolMessage)

    async def test_no_credential_is_logged_or_shown_or_kept(
        self, tk: threadkeep.Threadkeep, file: Path, config: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path
    ):
        caplog.set_level(logging.DEBUG)
        model = ScriptedModel(
            replies=[handing("github", "Read."), calling("issue_read", **ISSUE), "It is open.", "It is open."]
        )

        agent = await tk.agents.supervisor(file=file, model=model)
        await agent.ainvoke(said("What about issue 7?"), config)

        seen = [caplog.text, repr(await tk.agents.standing(file)), repr(model.prompts), repr(agent)]
        kept = written(tmp_path)
        assert kept
        for token in TOKENS.values():
            assert all(token not in text for text in seen)
            assert token.encode() not in kept


class TestAlone:
    async def test_one_agent_has_memory_checkpointer_and_store_of_its_own(
        self, tk: threadkeep.Threadkeep, file: Path, vendors: Vendors, config: Any
    ):
        await tk.memories.remember(TAUGHT, owner=ANA)
        model = ScriptedModel(replies=[calling("issue_read", **ISSUE), "Issue 7 is open."])
        agent = await tk.agents.create("github", file=file, model=model)

        await agent.ainvoke(said("Look at my favourite repository."), config)

        assert isinstance(agent.checkpointer, ThreadkeepCheckpointer)
        assert agent.store is tk.store
        assert vendors.calls == [("github", "issue_read", ISSUE)]
        assert TAUGHT in all_said(model.prompts[0], HumanMessage)
        assert len((await agent.aget_state(config)).values["messages"]) == 4

    async def test_what_it_writes_waits_too(self, tk: threadkeep.Threadkeep, file: Path, vendors: Vendors, config: Any):
        model = ScriptedModel(replies=[calling("issue_write", **WRITTEN), "Filed."])
        agent = await tk.agents.create("github", file=file, model=model)

        await agent.ainvoke(said("File it."), config)

        assert (await agent.aget_state(config)).interrupts
        assert vendors.calls == []

    async def test_what_cannot_be_used_says_why(
        self, tk: threadkeep.Threadkeep, file: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.delenv("SLACK_MCP_TOKEN")

        with pytest.raises(AgentUnavailableError, match="SLACK_MCP_TOKEN is not set"):
            await tk.agents.create("slack", file=file, model=ScriptedModel())

    async def test_fact_extraction_is_none(self, tk: threadkeep.Threadkeep, file: Path):
        with pytest.raises(InvalidInputError, match="there are github, gitlab, slack, aws, splunk"):
            await tk.agents.create("fact_extraction", file=file, model=ScriptedModel())


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Keep what uvicorn and httpx say out of the way."""
    caplog.set_level(logging.WARNING, "httpx")
