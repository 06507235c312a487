"""Whose turn it is, asked inside real graphs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict
from uuid import UUID

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime, ServerInfo

from threadkeep.errors import InvalidInputError, OwnerConflictError, OwnerRequiredError, TooLargeError
from threadkeep.identity import Owner
from threadkeep.langgraph.identity import owner_from, thread_id_of

ANA, BOB = Owner("ana@x.org"), Owner("bob", "https://issuer.example")
SERVER = {"assistant_id": "assistant", "graph_id": "graph"}


@dataclass
class Ctx:
    user_id: Any = None


class User:
    """A user as a LangGraph server gives it."""

    def __init__(self, identity: str, *, is_authenticated: bool = True) -> None:
        self.identity = identity
        self.is_authenticated = is_authenticated


class State(TypedDict, total=False):
    messages: list[Any]
    owner: Owner | None
    thread_id: str | None


def asked(
    source: Any = None,
    *,
    context: Any = None,
    configurable: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    messages: Any = (),
    with_config: bool = True,
) -> State:
    """Ask a node of a compiled graph whose turn it is, with its runtime, and its configuration if so."""

    async def node(state: State, runtime: Runtime[Any], config: RunnableConfig) -> State:
        given = config if with_config else None
        return {
            "owner": owner_from(source, runtime=runtime, config=given),
            "thread_id": thread_id_of(runtime, given),
        }

    graph = StateGraph(State, context_schema=Ctx)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    config: RunnableConfig = {"configurable": dict(configurable or {}), "metadata": dict(metadata or {})}
    given: State = {"messages": list(messages)}
    compiled: Any = graph.compile()
    return asyncio.run(compiled.ainvoke(given, config, context=context))


class TestOwnerFrom:
    @pytest.mark.parametrize("with_config", [True, False], ids=["config", "no config"])
    @pytest.mark.parametrize(
        ("source", "context", "configurable", "owner"),
        [
            (None, Ctx("ana@x.org"), {}, ANA),
            (None, {"user_id": "ana@x.org"}, {}, ANA),
            (None, None, {"user_id": "ana@x.org"}, ANA),
            (None, None, {"langgraph_user_id": ANA.label}, ANA),
            (None, None, {"langgraph_user_id": BOB.label}, BOB),
            (None, Ctx("ana@x.org"), {"user_id": "ana@x.org", "langgraph_user_id": ANA.label}, ANA),
            (None, Ctx(None), {"user_id": "ana@x.org"}, ANA),
            ("ana@x.org", Ctx("bob"), {"user_id": "carl"}, ANA),
            (BOB, Ctx("ana@x.org"), {}, BOB),
            (lambda runtime: runtime.context.user_id.lower(), Ctx("ANA@X.org"), {}, ANA),
            (lambda runtime: BOB, Ctx("ana@x.org"), {"user_id": "carl"}, BOB),
            (None, Ctx("forged"), {**SERVER, "user_id": "forged", "langgraph_auth_user": User("ana@x.org")}, ANA),
            (None, None, {"langgraph_auth_user": User("ana@x.org"), "langgraph_user_id": "forged"}, ANA),
            ("ana@x.org", Ctx("forged"), SERVER, ANA),
            (BOB, None, {**SERVER, "langgraph_auth_user": User("ana@x.org")}, BOB),
            (lambda runtime: runtime.server_info.graph_id, None, SERVER, Owner("graph")),
        ],
    )
    def test_the_one_who_counts_is_found(
        self, source: Any, context: Any, configurable: dict[str, Any], owner: Owner, with_config: bool
    ):
        """Explicit first, then the server's user alone, then context and configuration."""
        assert asked(source, context=context, configurable=configurable, with_config=with_config).get("owner") == owner

    @pytest.mark.parametrize(
        ("source", "context", "configurable", "says"),
        [
            (None, None, {}, r"context with a user_id.*configurable\.user_id.*owner="),
            (None, Ctx(None), {"user_id": None}, "owner is required: pass context"),
            (lambda runtime: None, Ctx("ana@x.org"), {"user_id": "ana@x.org"}, "returned no owner"),
            (None, Ctx("ana@x.org"), SERVER, "authenticated no user"),
            (None, None, {**SERVER, "user_id": "ana@x.org", "langgraph_user_id": "ana"}, "authenticated no user"),
            (None, None, {"graph_id": "graph", "user_id": "ana@x.org"}, "langgraph.json"),
            (None, None, {**SERVER, "langgraph_auth_user": User("")}, "authenticated no user"),
            (None, None, {**SERVER, "langgraph_auth_user": User("x", is_authenticated=False)}, "authenticated no user"),
        ],
    )
    def test_missing_owner_is_never_a_shared_default(
        self, source: Any, context: Any, configurable: dict[str, Any], says: str
    ):
        """The error names what to do; a client's word is no way in on a server."""
        with pytest.raises(OwnerRequiredError, match=says) as raised:
            asked(source, context=context, configurable=configurable)

        assert not isinstance(raised.value, OwnerConflictError)

    @pytest.mark.parametrize(
        ("context", "configurable", "says"),
        [
            (Ctx("ana@x.org"), {"user_id": "bob"}, r"context\.user_id and configurable\.user_id"),
            (Ctx("bob"), {"langgraph_user_id": BOB.label}, "langgraph_user_id"),
            (None, {"user_id": "a.b@x.org", "langgraph_user_id": "a_b@x_org"}, "langgraph_user_id"),
        ],
    )
    def test_two_that_disagree_are_refused(self, context: Any, configurable: dict[str, Any], says: str):
        """Neither wins; they are compared as owners, not as spellings."""
        with pytest.raises(OwnerConflictError, match=says):
            asked(context=context, configurable=configurable)

    @pytest.mark.parametrize(
        ("source", "context", "configurable", "says"),
        [
            (None, Ctx(7), {}, r"context\.user_id must be a string"),
            (None, None, {"user_id": UUID(int=1)}, r"configurable\.user_id must be a string"),
            (None, Ctx(""), {}, "empty"),
            ("", None, {}, "empty"),
            (None, Ctx(" \t"), {}, "empty"),
            (None, None, {"user_id": "\n"}, "empty"),
            (" ", None, {}, "empty"),
            (lambda runtime: "", None, {}, "empty"),
            (None, None, {"user_id": "x" * 1001}, "1,001 characters"),
            (None, None, {"langgraph_user_id": "a.b@x.org"}, "label"),
            (None, None, {"langgraph_user_id": "~tk~%zz"}, "label"),
            (None, None, {"langgraph_user_id": 7}, "label"),
        ],
    )
    def test_what_is_no_user_id_is_refused(self, source: Any, context: Any, configurable: dict[str, Any], says: str):
        """In one sentence that says which."""
        with pytest.raises(InvalidInputError, match=says):
            asked(source, context=context, configurable=configurable)

    def test_messages_and_metadata_never_name_the_owner(self):
        """Whoever can write a message could write a name into it."""
        forged = HumanMessage(
            "I am user_id=ana", name="ana", additional_kwargs={"user_id": "ana"}, response_metadata={"user_id": "ana"}
        )

        with pytest.raises(OwnerRequiredError):
            asked(messages=[forged], metadata={"user_id": "ana", "langgraph_user_id": "ana", "owner": "ana"})

    def test_a_tool_is_asked_like_a_node(self):
        """Its runtime carries context and configuration."""
        told: list[Any] = []

        @tool
        def owner_of_run(runtime: ToolRuntime[Ctx, Any]) -> str:
            """Say whose turn it is."""
            told.append((owner_from(runtime=runtime), thread_id_of(runtime)))
            return "done"

        class Model(GenericFakeChatModel):
            def bind_tools(self, tools: Sequence[BaseTool | Any], **options: Any) -> Any:
                return self

        call = {"name": "owner_of_run", "args": {}, "id": "1"}
        model = Model(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("done")]))
        agent = create_agent(model, [owner_of_run], context_schema=Ctx, checkpointer=InMemorySaver())

        agent.invoke({"messages": [("user", "whose?")]}, {"configurable": {"thread_id": "t"}}, context=Ctx("ana@x.org"))

        assert told == [(ANA, "t")]

    def test_a_configuration_alone_will_do(self):
        """Where there is no runtime: a tool that takes the configuration, a store, a plain call."""
        assert owner_from(config={"configurable": {"user_id": "ana@x.org"}}) == ANA
        assert owner_from(lambda config: config["configurable"]["org"], config={"configurable": {"org": "bob"}}) == (
            Owner("bob")
        )
        runtime = Runtime(server_info=ServerInfo("a", "g", None))
        with pytest.raises(OwnerRequiredError, match="server"):
            owner_from(config={"configurable": {"user_id": "forged", "__pregel_runtime": runtime}})
        with pytest.raises(OwnerRequiredError):
            owner_from(config={})

    def test_outside_a_run_there_is_no_owner(self):
        """No runtime, no configuration, no node that runs."""
        with pytest.raises(OwnerRequiredError):
            owner_from()
        assert thread_id_of() is None


class TestThreadIdOf:
    @pytest.mark.parametrize("with_config", [True, False], ids=["config", "no config"])
    @pytest.mark.parametrize(
        ("given", "thread_id"), [("1", "1"), ("a.b/c", "a.b/c"), (7, "7"), (None, None), ("", None)]
    )
    def test_the_runs_thread_is_found(self, given: Any, thread_id: str | None, with_config: bool):
        """As a text, or none where the run has none."""
        said = asked("ana", configurable={"thread_id": given} if given is not None else {}, with_config=with_config)

        assert said.get("thread_id") == thread_id

    def test_too_long_a_thread_is_refused(self):
        """As the checkpointer does."""
        with pytest.raises(TooLargeError):
            asked("ana", configurable={"thread_id": "x" * 1001})
