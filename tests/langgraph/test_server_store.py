"""The store of a LangGraph server is the user's, inside graphs as well; on the real server: tests/langgraph_dev."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph_sdk import Auth

import threadkeep
from threadkeep.errors import OwnerMismatchError, OwnerRequiredError
from threadkeep.langgraph.server import development_user, owner_of_request, server_store

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
    async def test_unknown_user_has_none(self, tk: threadkeep.Threadkeep, user: object):
        with pytest.raises(OwnerRequiredError, match="authenticated no user"):
            await graph_of(tk).ainvoke({"messages": [("user", "?")]}, as_user(user))


class TestNamespaces:
    async def perform(self, tk: threadkeep.Threadkeep, user: str, work: Any) -> Any:
        """Run *work* with the server's store in a node of *user*."""

        async def node(_: MessagesState, runtime: Runtime[Any]) -> dict[str, Any]:
            return {"messages": [("ai", repr(await work(runtime.store)))]}

        builder = StateGraph(MessagesState)
        builder.add_node(node)
        builder.add_edge(START, "node")
        builder.add_edge("node", END)
        graph = builder.compile(store=server_store(tk))
        return (await graph.ainvoke({"messages": []}, as_user(User(user))))["messages"][-1].text

    async def test_at_me_is_the_users_own(self, tk: threadkeep.Threadkeep):
        """For reads, writes, searches and listings; a user of that name has no other namespace."""

        async def work(store: Any) -> Any:
            await store.aput(("memories", "@me"), "k", {"data": "likes tea"})
            got = await store.aget(("memories", "@me"), "k")
            found = await store.asearch(("memories", "@me"), query="tea")
            listed = await store.alist_namespaces(prefix=("memories", "@me"))
            await store.adelete(("memories", "@me"), "k")
            return [got.namespace, *(item.namespace for item in found), *listed]

        assert await self.perform(tk, ANA, work) == repr([("memories", tk.label(ANA))] * 3)
        assert await self.perform(tk, "@me", work) == repr([("memories", "@me")] * 3)
        assert await tk.store.asearch(()) == []

    async def test_roots_of_no_owner_are_shared_by_graphs(self, tk: threadkeep.Threadkeep):
        """As in LangGraph's own stores."""

        async def write(store: Any) -> None:
            await store.aput(("prefs", "team"), "color", {"color": "green"})

        async def read(store: Any) -> Any:
            item = await store.aget(("prefs", "team"), "color")
            return [item.value, *(await store.alist_namespaces()), *(await store.asearch(("prefs",)))[0].namespace]

        await self.perform(tk, ANA, write)

        assert await self.perform(tk, BOB, read) == repr([{"color": "green"}, ("prefs", "team"), "prefs", "team"])

    @pytest.mark.parametrize("namespace", [(), ("memories",), ("users",), ("memories", ANA.replace(".", "_"))])
    async def test_what_spans_owners_is_refused(self, tk: threadkeep.Threadkeep, namespace: tuple[str, ...]):
        with pytest.raises(OwnerMismatchError):
            await self.perform(tk, BOB, lambda store: store.asearch(namespace))


class TestDevelopmentUser:
    @pytest.mark.parametrize(
        ("host", "origin", "header", "user"),
        [
            ("127.0.0.1", None, None, "me"),
            ("::1", None, "Bearer ana", "ana"),
            (None, "http://localhost:3000", "Bearer  ana ", "ana"),
            ("127.0.0.1", "https://smith.langchain.com", None, "me"),
        ],
    )
    def test_a_caller_on_this_machine_is_believed(
        self, host: str | None, origin: str | None, header: str | None, user: str
    ):
        assert development_user(Caller(host, origin), header)["identity"] == user

    @pytest.mark.parametrize(
        ("host", "origin"),
        [
            ("10.0.0.7", None),
            ("192.168.1.2", "http://localhost"),
            ("127.0.0.1", "https://example.com"),
            ("127.0.0.1", "https://smith.langchain.com.example.com"),
            ("127.0.0.1", "http://smith.langchain.com"),
        ],
    )
    def test_another_machine_or_site_is_refused(self, host: str, origin: str | None):
        with pytest.raises(Auth.exceptions.HTTPException) as refused:
            development_user(Caller(host, origin), "Bearer ana")

        assert refused.value.status_code == 401


class Caller:
    """As much of a request as says where it comes from."""

    def __init__(self, host: str | None, origin: str | None) -> None:
        self.client = None if host is None else User(host)
        self.headers = {} if origin is None else {"origin": origin}
        if self.client is not None:
            self.client.host = host  # type: ignore[attr-defined]


class TestRequest:
    def test_who_asks(self):
        assert owner_of_request(Request({"user": User(ANA)})).user_id == ANA

    @pytest.mark.parametrize("scope", [{}, {"user": User(ANA, is_authenticated=False)}, {"user": User("")}])
    def test_no_owner_is_refused(self, scope: dict[str, Any]):
        with pytest.raises(OwnerRequiredError, match="enable_custom_route_auth"):
            owner_of_request(Request(scope))
