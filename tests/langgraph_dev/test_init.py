"""The project of ``threadkeep init`` under ``langgraph dev``, through the unmodified LangGraph SDK."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from langgraph_sdk import get_sync_client

from tests.command_line import CliRunner
from tests.langgraph_dev.conftest import serving
from threadkeep.cli.main import app
from threadkeep.identity import Owner

pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.timeout(300), pytest.mark.xdist_group("langgraph_dev")]

LEARN_SECONDS: Final = 30.0
ASKING: Final = """
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt


class State(TypedDict, total=False):
    answer: str
    listed: list[Any]


async def ask(state: State, runtime: Runtime[Any]) -> State:
    answer = interrupt("Which color?")
    await runtime.store.aput(("prefs",), "color", {"color": answer})
    await runtime.store.aput(("users", "@me", "prefs"), "color", {"color": answer})
    return {"answer": answer, "listed": [list(one) for one in await runtime.store.alist_namespaces()]}


async def pry(state: State, runtime: Runtime[Any]) -> State:
    await runtime.store.asearch(("memories", "ana"))
    return {}


def compiled(node: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile()


graph, prying = compiled(ask), compiled(pry)
"""


@pytest.fixture(scope="module")
def project(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Write the project, add two graphs to it, and serve it."""
    folder = tmp_path_factory.mktemp("init")
    assert CliRunner().invoke(app, ["init", str(folder)]).exit_code == 0
    configuration = json.loads((folder / "langgraph.json").read_text())
    configuration["graphs"] |= {"asking": "./asking.py:graph", "prying": "./asking.py:prying"}
    (folder / "langgraph.json").write_text(json.dumps(configuration))
    (folder / "asking.py").write_text(ASKING)
    with serving(environment, folder) as url:
        yield url


@pytest.fixture
def client(project: str) -> Iterator[Callable[[str | None], Any]]:
    """Return the SDK's client of a user; without one, no header is sent."""
    with ExitStack() as clients:

        def as_user(user: str | None) -> Any:
            headers = {"authorization": f"Bearer {user}"} if user else {}
            return clients.enter_context(get_sync_client(url=project, headers=headers))

        yield as_user


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def reply(client: Any, text: str) -> str:
    thread = client.threads.create()
    state = client.runs.wait(thread["thread_id"], "agent", input=said(text))
    assert "__error__" not in state, state
    return state["messages"][-1]["content"]


class TestTurns:
    def test_the_first_turn_is_answered_and_the_second_thread_remembers(self, client: Any):
        """Without a header, as Studio and curl send them."""
        ana = client("ana")
        assert reply(client(None), "Hello!")
        reply(ana, "I live in Lisbon and I work as a nurse.")

        until = time.monotonic() + LEARN_SECONDS
        while "I live in Lisbon" not in (answer := reply(ana, "Do I live in Lisbon?")):
            assert time.monotonic() < until, answer
        assert "I live in Lisbon" not in reply(client("bob"), "Do I live in Lisbon?")

    @pytest.mark.parametrize("mode", ["values", "updates", "messages-tuple", "custom"])
    def test_every_stream_mode_works(self, client: Any, mode: str):
        ana = client("ana")
        thread = ana.threads.create()

        events = list(ana.runs.stream(thread["thread_id"], "agent", input=said("Hello!"), stream_mode=mode))

        named = {"messages-tuple": "messages"}.get(mode, mode)
        assert any(event.event == named for event in events), events
        assert not any(event.event == "error" for event in events)

    def test_an_interrupt_is_answered(self, client: Any):
        """The node writes to a root of the graph's own, and to the user's own namespace as @me."""
        ana = client("ana")
        thread = ana.threads.create()

        waiting = ana.runs.wait(thread["thread_id"], "asking", input={})
        done = ana.runs.wait(thread["thread_id"], "asking", command={"resume": "green"})

        assert waiting["__interrupt__"][0]["value"] == "Which color?"
        assert done["answer"] == "green"
        assert ["prefs"] in done["listed"]
        assert ["users", "ana", "prefs"] in done["listed"]

    def test_a_refusal_in_a_run_says_why(self, client: Any):
        """Our sentence, not "An internal error occurred"."""
        bob = client("bob")
        thread = bob.threads.create()

        state = bob.runs.wait(thread["thread_id"], "prying", input={}, raise_error=False)

        assert state["__error__"]["error"] == "OwnerMismatchError"
        assert "namespace is not that owner's" in state["__error__"]["message"]


class TestResources:
    def test_assistants_of_the_server_stay_visible(self, client: Any):
        """Those of users do not, and nobody changes the server's."""
        ana, bob = client("ana"), client("bob")
        made = ana.assistants.create("agent", name="helper", metadata={"created_by": "system"})

        assert {one["graph_id"] for one in bob.assistants.search()} == {"agent", "asking", "prying"}
        assert made["assistant_id"] in {one["assistant_id"] for one in ana.assistants.search()}
        system = next(one for one in bob.assistants.search() if one["graph_id"] == "agent")
        assert bob.assistants.get(system["assistant_id"])["graph_id"] == "agent"
        for change in (
            lambda: bob.assistants.get(made["assistant_id"]),
            lambda: bob.assistants.update(system["assistant_id"], name="mine"),
            lambda: bob.assistants.delete(system["assistant_id"]),
        ):
            with pytest.raises(httpx.HTTPStatusError) as refused:
                change()
            assert refused.value.response.status_code in (403, 404)

    def test_threads_are_each_users_own(self, client: Any):
        ana, bob = client("ana"), client("bob")
        thread = ana.threads.create()

        assert thread["thread_id"] in {one["thread_id"] for one in ana.threads.search()}
        assert thread["thread_id"] not in {one["thread_id"] for one in bob.threads.search()}
        with pytest.raises(httpx.HTTPStatusError) as refused:
            bob.threads.get(thread["thread_id"])
        assert refused.value.response.status_code in (403, 404)


class TestStore:
    def test_one_spelling_means_each_users_own_namespace(self, client: Any):
        """A client needs no label."""
        ana, bob = client("ana.maria@x.org"), client("bob")
        ana.store.put_item(["users", "@me", "notes"], "k", {"text": "blue"})

        found = ana.store.search_items(["users", "@me", "notes"])["items"]

        label = Owner("ana.maria@x.org").label
        assert [(item["namespace"], item["value"]) for item in found] == [(["users", label, "notes"], {"text": "blue"})]
        assert bob.store.search_items(["users", "@me"], limit=50)["items"] == []
        assert ana.store.get_item(["users", "@me", "notes"], "k")["value"] == {"text": "blue"}

    def test_namespaces_are_listed_without_a_prefix(self, client: Any):
        """Only the user's own; shared roots are not shown to clients."""
        ana, bob = client("ana.maria@x.org"), client("bob")
        ana.store.put_item(["users", "@me", "listed"], "k", {"text": "blue"})
        bob.store.put_item(["users", "@me", "listed"], "k", {"text": "red"})

        assert ["users", "bob", "listed"] in bob.store.list_namespaces()["namespaces"]
        assert all(labels[1] == "bob" for labels in bob.store.list_namespaces(limit=100)["namespaces"])

    @pytest.mark.parametrize("namespace", [["memories", "ana"], ["memories"], ["prefs"], []])
    def test_other_namespaces_are_403_with_our_sentence(self, client: Any, namespace: list[str]):
        with pytest.raises(httpx.HTTPStatusError) as refused:
            client("bob").store.search_items(namespace)

        assert refused.value.response.status_code == 403
        assert "namespace is not that owner's" in refused.value.response.json()["detail"]


class TestDevelopment:
    @pytest.mark.parametrize("origin", ["https://example.com", "http://evil.localhost.example.com"])
    def test_a_web_page_of_another_site_is_401(self, project: str, origin: str):
        answer = httpx.post(f"{project}/threads", json={}, headers={"origin": origin})

        assert answer.status_code == 401
        assert "auth.py is for development" in answer.text
        assert httpx.post(f"{project}/threads", json={}, headers={"origin": "http://localhost:3000"}).status_code == 200
