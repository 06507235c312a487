"""Checkpoints with a key: nothing that anybody said is readable where they are kept."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from deepagents import create_deep_agent
from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from tests.threads.checkpoints import (
    KEY,
    METADATA,
    ScriptedModel,
    checkpoint_of,
    config_of,
    connection_of,
    put,
    value_of,
)
from tests.threads.conftest import Places
from tests.threads.dumps import dump_of
from threadkeep.errors import SettingsError, StorageError
from threadkeep.identity import Owner
from threadkeep.threads.checkpointers import ThreadkeepCheckpointer
from threadkeep.threads.codec import Cipher

ANA = Owner("ana@x.org")
OTHER_KEY = KEY.swapcase()
HERE = config_of("1", checkpoint_ns="")
Make = Callable[..., ThreadkeepCheckpointer]

lasting = pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis", "mongodb"], indirect=True)


class Asked(TypedDict):
    words: Annotated[list[str], operator.add]
    summary: str
    phone: int
    nothing: str | None


def _ask(state: Asked) -> dict[str, Any]:
    return {"words": ["canary-in-a-list"], "summary": "canary-in-a-text", "phone": 7700900461}


def _wait(state: Asked) -> dict[str, Any]:
    answer = interrupt({"question": "canary-in-an-interrupt"})
    return {"words": [answer]}


def _graph(checkpointer: ThreadkeepCheckpointer) -> Any:
    graph = StateGraph(Asked)
    graph.add_node("ask", _ask)
    graph.add_node("wait", _wait)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", "wait")
    return graph.compile(checkpointer=checkpointer)


class TestSealing:
    @lasting
    def test_no_canary_is_in_a_dump(self, kind: str, make: Make, places: Places):
        """Texts, numbers, lists, interrupts, answers and metadata: planted, run, and looked for in every byte."""
        url = places.url(kind)
        graph = _graph(make(kind, url=url, cipher=Cipher(KEY)).scoped(ANA))
        config = {**config_of("canary-thread"), "metadata": {"note": "canary-in-metadata", "count": 7700900462}}

        graph.invoke({"words": ["canary-in-the-input"], "summary": "canary-first", "nothing": None}, config)
        said = graph.invoke(Command(resume="canary-in-the-answer"), config)

        assert said["words"][-1] == "canary-in-the-answer"
        assert said["phone"] == 7700900461
        dump = dump_of(kind, path=places.path, url=url)
        assert b"ask" in dump  # the names of nodes and channels are there: it is the right dump
        assert [secret for secret in _secrets() if secret in dump] == []

    @lasting
    def test_without_a_key_the_canaries_are_there(self, kind: str, make: Make, places: Places):
        """So the search for them finds what is there to be found."""
        url = places.url(kind)
        graph = _graph(make(kind, url=url).scoped(ANA))

        graph.invoke(
            {"words": ["canary-in-the-input"], "summary": "", "nothing": None},
            {**config_of("1"), "metadata": {"note": "canary-in-metadata"}},
        )

        dump = dump_of(kind, path=places.path, url=url)
        assert all(secret in dump for secret in (b"canary-in-a-text", b"canary-in-metadata", b"canary-in-an-interrupt"))

    def test_a_graph_runs_on_sealed_checkpoints(self, kind: str, make: Make):
        """State, history, forks and filters are as without a key."""
        graph = _graph(make(kind, cipher=Cipher(KEY)))
        config = {**config_of("1"), "metadata": {"customer": "acme"}}

        graph.invoke({"words": ["a"], "summary": "s", "nothing": None}, config)
        before = graph.get_state(config)
        graph.invoke(Command(resume="yes"), config)
        forked = graph.update_state(before.config, {"summary": "edited"}, as_node="ask")
        said = graph.invoke(Command(resume="no"), forked)

        assert said["words"] == ["a", "canary-in-a-list", "no"]
        assert graph.get_state(config).values["summary"] == "edited"
        assert graph.get_state(before.config).values["summary"] == "canary-in-a-text"
        assert len([*graph.get_state_history(config, filter={"customer": "acme"})]) >= 4
        assert [*graph.get_state_history(config, filter={"customer": "other"})] == []
        assert [one.metadata["source"] for one in graph.get_state_history(config, filter={"source": "input"})] == [
            "input"
        ]

    def test_a_deep_agent_keeps_its_channels_of_changes(self, kind: str, make: Make):
        """Its messages are kept as changes since a snapshot, and each change is sealed."""
        checkpointer = make(kind, cipher=Cipher(KEY))
        model = ScriptedModel(messages=iter([AIMessage(f"canary-{n}") for n in range(4)]))
        agent = create_deep_agent(model, checkpointer=checkpointer)

        for n in range(3):
            agent.invoke({"messages": [("user", f"question {n}")]}, config_of("1"))

        said = [message.content for message in agent.get_state(config_of("1")).values["messages"]]
        assert said == ["question 0", "canary-0", "question 1", "canary-1", "question 2", "canary-2"]
        checkpointer.prune(["1"])
        assert [message.content for message in agent.get_state(config_of("1")).values["messages"]] == said


class TestKeys:
    @lasting
    def test_a_thread_begun_in_the_clear_goes_on_sealed(self, kind: str, make: Make, places: Places):
        """What was kept before is read, and what comes is sealed, unchanged channels, too."""
        url = places.url(kind)
        config = {**config_of("1"), "metadata": {"customer": "acme"}}
        _graph(make(kind, url=url)).invoke({"words": ["a"], "summary": "old", "nothing": None}, config)

        graph = _graph(make(kind, url=url, cipher=Cipher(KEY)))
        said = graph.invoke(Command(resume="yes"), config)

        assert said["words"] == ["a", "canary-in-a-list", "yes"]
        assert graph.get_state(config).values["phone"] == 7700900461
        clear, sealed = ([*graph.get_state_history(config, filter={"step": step})] for step in (0, 2))
        assert clear[0].values["summary"] == "old"
        assert sealed[0].metadata["customer"] == "acme"
        assert len([*graph.get_state_history(config, filter={"customer": "acme"})]) == 4

    @lasting
    def test_a_new_key_in_front_reads_what_the_old_one_sealed(self, kind: str, make: Make, places: Places):
        """Keys can be changed without rewriting anything; the old one alone cannot read what the new one sealed."""
        url = places.url(kind)
        put(make(kind, url=url, cipher=Cipher(KEY)), HERE, "first")

        both = make(kind, url=url, cipher=Cipher(f"{OTHER_KEY}, {KEY}"))
        before = value_of(both, HERE)
        put(both, HERE, "second")

        assert before == "first"
        assert value_of(make(kind, url=url, cipher=Cipher(OTHER_KEY)), HERE) == "second"
        with pytest.raises(StorageError, match="another key"):
            value_of(make(kind, url=url, cipher=Cipher(KEY)), HERE)

    @lasting
    def test_without_the_key_it_says_which_setting_is_missing(self, kind: str, make: Make, places: Places):
        """Nothing sealed is ever given out as a value."""
        url = places.url(kind)
        put(make(kind, url=url, cipher=Cipher(KEY)), HERE, "first")

        with pytest.raises(StorageError, match="THREADKEEP_CHECKPOINT_KEY"):
            value_of(make(kind, url=url), HERE)

    @pytest.mark.parametrize("keys", ["", "short", f"{KEY},short", " , "])
    def test_a_key_that_is_too_short_is_refused(self, keys: str):
        """It says how to make one, and repeats nothing of it."""
        with pytest.raises(SettingsError, match="openssl rand") as caught:
            Cipher(keys)

        assert "short" not in str(caught.value).replace("shorter", "")


class TestMoving:
    def test_what_is_sealed_opens_in_its_own_place_only(self):
        """Another thread, another channel, a changed byte: each is refused."""
        cipher = Cipher(KEY)
        sealed = cipher.seal(b"text", thread="1", place="a")

        assert cipher.open(sealed, thread="1", place="a") == b"text"
        for thread, place, data in [
            ("2", "a", sealed),
            ("1", "b", sealed),
            ("1", "a", sealed[:-1] + b"x"),
            ("1", "a", sealed[:10]),
        ]:
            with pytest.raises(StorageError, match="damaged"):
                cipher.open(data, thread=thread, place=place)
        with pytest.raises(StorageError, match="another key"):
            cipher.open(b"", thread="1", place="a")

    def test_a_row_moved_to_another_thread_is_refused(self, make: Make):
        """Who can write to the file still cannot give one person another's state."""
        checkpointer = make("sqlite", cipher=Cipher(KEY))
        put(checkpointer, config_of("ana"), "ana's")
        connection = connection_of(checkpointer)
        connection.execute("UPDATE checkpoints SET thread_id = 'bob'")
        connection.commit()

        with pytest.raises(StorageError, match="moved"):
            value_of(checkpointer, config_of("bob"))


class TestPacking:
    @pytest.mark.parametrize(
        "value",
        [
            "nul\x00 and half \ud800"[:5],
            float("inf"),
            -0.0,
            1e22,
            1.5,
            2**63 - 1,
            True,
            None,
            "~tk~packed~AAAA",
            b"~tk~sealed~\x00",
            "~tk~sealed~",
            {"nul": "\x00"},
        ],
        ids=repr,
    )
    def test_values_that_json_cannot_hold_come_back_as_they_were(self, kind: str, make: Make, value: Any):
        """Also those that look like what was packed."""
        checkpointer = make(kind)
        saved = put(checkpointer, HERE, value)
        checkpointer.put_writes(saved, [("x", value)], "task")

        found = checkpointer.get_tuple(HERE)

        assert found is not None
        back = found.checkpoint["channel_values"]["x"]
        assert (back, type(back)) == (value, type(value))
        assert found.pending_writes == [("task", "x", value)]

    def test_damaged_text_is_an_error_of_ours(self, make: Make):
        """A value that was packed as text and cut."""
        checkpointer = make("sqlite", cipher=Cipher(KEY))
        checkpointer.put(HERE, checkpoint_of(1), {**METADATA, "note": "secret"}, {})  # type: ignore[typeddict-unknown-key]
        connection = connection_of(checkpointer)
        connection.execute("UPDATE checkpoints SET metadata = replace(metadata, '~tk~sealed~', '~tk~sealed~!')")
        connection.commit()

        with pytest.raises(StorageError, match="damaged"):
            checkpointer.get_tuple(HERE)


def _secrets() -> list[bytes]:
    return [b"canary", b"7700900461", b"7700900462", (7700900461).to_bytes(8), b"canary".hex().encode(), b"ana@x.org"]
