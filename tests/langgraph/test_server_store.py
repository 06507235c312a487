"""The store of a LangGraph server is the user's, inside graphs as well; on the real server: tests/langgraph_dev."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime

import threadkeep
from threadkeep.errors import OwnerMismatchError, OwnerRequiredError
from threadkeep.langgraph.server import owner_of_request, server_store

ANA, BOB = "ana@x.org", "bob@x.org"


@dataclass
class User:
    """Whom a server authenticated."""

    identity: str
    is_authenticated: bool = True


@dataclass
class Request:
    """As much of a request as says who asks."""

    scope: dict[str, Any] = field(default_factory=dict[str, Any])


@pytest.fixture
def tk() -> Iterator[threadkeep.Threadkeep]:
    with threadkeep.open("memory://", embedder="none") as opened:
        yield opened


def graph_of(tk: threadkeep.Threadkeep) -> Any:
    async def note(state: MessagesState, runtime: Runtime[Any]) -> dict[str, Any]:
        assert runtime.store is not None
        await runtime.store.aput(("users", tk.label(ANA), "notes"), "k", {"text": state["messages"][-1].text})
        listed = await runtime.store.alist_namespaces()
        return {"messages": [("ai", repr(listed))]}

    builder = StateGraph(MessagesState)
    builder.add_node(note)
    builder.add_edge(START, "note")
    builder.add_edge("note", END)
    return builder.compile(store=server_store(tk))


def as_user(user: object) -> dict[str, Any]:
    return {"configurable": {"langgraph_auth_user": user, "user_id": ANA}}


class TestInAGraph:
    async def test_it_is_the_authenticated_users(self, tk: threadkeep.Threadkeep):
        await tk.store.aput(("users", tk.label(BOB), "notes"), "k", {"text": "Bob's"})

        state = await graph_of(tk).ainvoke({"messages": [("user", "mine")]}, as_user(User(ANA)))

        item = await tk.store.aget(("users", tk.label(ANA), "notes"), "k")
        assert item is not None
        assert item.value == {"text": "mine"}
        assert state["messages"][-1].text == repr([("users", tk.label(ANA), "notes")])

    async def test_what_a_client_claims_does_not_count(self, tk: threadkeep.Threadkeep):
        with pytest.raises(OwnerMismatchError):
            await graph_of(tk).ainvoke({"messages": [("user", "forged")]}, as_user(User(BOB)))

        assert await tk.store.asearch(()) == []

    @pytest.mark.parametrize("user", [None, User(""), User(ANA, is_authenticated=False)])
    async def test_nobody_has_none(self, tk: threadkeep.Threadkeep, user: object):
        with pytest.raises(OwnerRequiredError, match="authenticated no user"):
            await graph_of(tk).ainvoke({"messages": [("user", "?")]}, as_user(user))


class TestRequest:
    def test_who_asks(self):
        assert owner_of_request(Request({"user": User(ANA)})).user_id == ANA

    @pytest.mark.parametrize("scope", [{}, {"user": User(ANA, is_authenticated=False)}, {"user": User("")}])
    def test_nobody_is_refused(self, scope: dict[str, Any]):
        with pytest.raises(OwnerRequiredError, match="enable_custom_route_auth"):
            owner_of_request(Request(scope))
