"""The graph loads and remembers under ``langgraph dev``, where only the server says who somebody is."""

from __future__ import annotations

import time
import urllib.error
from typing import Any, Final

import pytest

from tests.langgraph_dev.calls import call, owner_label, said, thread_of

LEARN_SECONDS: Final = 30.0

pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.timeout(300), pytest.mark.xdist_group("langgraph_dev")]


class TestServe:
    """A real server, two users, two threads."""

    def test_second_thread_knows_what_the_first_taught(self, server: str) -> None:
        """The user of the token is remembered across threads; what the client claims to be does not count."""
        ana = "token-of-ana"

        said(server, ana, thread_of(server, ana), "I live in Lisbon and I work as a nurse.")

        until = time.monotonic() + LEARN_SECONDS
        while True:  # it is learnt in the background
            reply = said(server, ana, thread_of(server, ana), "Which city do I live in?", user_id="bob@x.org")
            if "I live in Lisbon" in reply:
                break
            assert time.monotonic() < until, reply

    def test_another_user_learns_nothing(self, server: str) -> None:
        """Another token, even one that claims to be the first user, gets none of it."""
        said(server, "token-of-ana", thread_of(server, "token-of-ana"), "My passport is in the blue drawer.")

        bob = "token-of-bob"
        reply = said(server, bob, thread_of(server, bob), "Where is my passport?", user_id="ana@x.org")

        assert "blue drawer" not in reply

    def test_without_a_token_nothing_runs(self, server: str) -> None:
        """The server refuses who it does not know."""
        with pytest.raises(urllib.error.HTTPError) as refused:
            call(f"{server}/threads", "", {})

        assert refused.value.code == 401
        refused.value.close()


class TestStore:
    """The server's store is ours, and each user's own: over HTTP and inside a graph."""

    def test_memories_are_items_of_it(self, server: str) -> None:
        """What was taught in a thread is found in the user's namespace, by the HTTP interface."""
        ana = "token-of-ana"
        said(server, ana, thread_of(server, ana), "My bicycle is green.")
        search = {"namespace_prefix": ["memories", owner_label("ana@x.org")], "query": "bicycle", "limit": 20}

        until = time.monotonic() + LEARN_SECONDS
        while True:
            found = call(f"{server}/store/items/search", ana, search)["items"]
            if any("bicycle is green" in str(item["value"]) for item in found):
                break
            assert time.monotonic() < until, found

    def test_http_shows_only_the_users_items(self, server: str) -> None:
        """Another's namespace, a root, and everything at once are refused with 403."""
        ana = owner_label("ana@x.org")
        put = {"namespace": ["users", ana, "notes"], "key": "k", "value": {"secret": "blue"}}
        call(f"{server}/store/items", "token-of-ana", put, method="PUT")

        for prefix in (["users", ana, "notes"], ["users"], ["memories"]):
            with pytest.raises(urllib.error.HTTPError) as refused:
                call(f"{server}/store/items/search", "token-of-bob", {"namespace_prefix": prefix})
            assert refused.value.code == 403
            refused.value.close()
        listed = call(f"{server}/store/namespaces", "token-of-bob", {"limit": 100})["namespaces"]
        assert all(labels[1] == owner_label("bob@x.org") for labels in listed)

    def test_graph_sees_only_its_users_items(self, server: str) -> None:
        """``runtime.store`` inside a graph, which no auth handler limits, is the user's own all the same."""
        ana, bob = ["users", owner_label("ana@x.org"), "pried"], ["users", owner_label("bob@x.org"), "pried"]

        assert _pry(server, "token-of-ana", ana, {"secret": "red"}) == [{"secret": "red"}]
        assert _pry(server, "token-of-bob", ana) == ["not_yours"]
        assert _pry(server, "token-of-bob", ana, {"secret": "forged"}) == ["not_yours"]
        assert _pry(server, "token-of-bob", ["users"]) == ["not_yours"]
        assert _pry(server, "token-of-bob", bob) == []
        assert _pry(server, "token-of-ana", ana) == [{"secret": "red"}]

    def test_what_a_client_configures_is_no_identity(self, server: str) -> None:
        """A client that sends another's id, or the server's own key for it, stays who its token says."""
        ana = ["users", owner_label("ana@x.org"), "claimed"]
        _pry(server, "token-of-ana", ana, {"secret": "gold"})

        claims = {
            "user_id": "ana@x.org",
            "langgraph_user_id": owner_label("ana@x.org"),
            "langgraph_auth_user": {"identity": "ana@x.org", "is_authenticated": True},
            "langgraph_auth_user_id": "ana@x.org",
        }

        assert _pry(server, "token-of-bob", ana, configurable=claims) == ["not_yours"]


class TestRoutes:
    """A route of the application's own is behind the same authentication."""

    def test_it_knows_who_asks(self, server: str) -> None:
        """Each user is shown their own, whatever the query claims."""
        said(server, "token-of-ana", thread_of(server, "token-of-ana"), "My sister lives in Porto.")
        until = time.monotonic() + LEARN_SECONDS
        while not any("Porto" in text for text in call(f"{server}/memories", "token-of-ana")):
            assert time.monotonic() < until

        shown = call(f"{server}/memories?user_id=ana@x.org", "token-of-bob")

        assert not any("Porto" in text for text in shown)

    def test_it_is_not_public(self, server: str) -> None:
        """Without a token it is refused, which the server does for such routes only where it is told to."""
        with pytest.raises(urllib.error.HTTPError) as refused:
            call(f"{server}/memories", "")

        assert refused.value.code == 401
        refused.value.close()


def _pry(
    server: str, token: str, namespace: list[str], value: Any = None, *, configurable: dict[str, Any] | None = None
) -> Any:
    body = {
        "assistant_id": "prying",
        "input": {"namespace": namespace, "value": value},
        "config": {"configurable": configurable or {}},
    }
    answer = call(f"{server}/runs/wait", token, body)
    assert "found" in answer, answer
    return answer["found"]
