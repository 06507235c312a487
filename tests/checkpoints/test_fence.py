"""Two runs on one thread: what one of them said is never lost without a word."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from tests.checkpoints.checkpoints import config_of, echo_graph, put, value_of
from tests.invariants import two_writers
from threadkeep.checkpoints.head import Head, HeadLease, Write, admit
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.errors import ConflictError, ThreadBusyError, ThreadMovedOnError

HERE = config_of("1")
INSTEAD = config_of("1", multitask_strategy="interrupt")
Make = Callable[..., ThreadkeepCheckpointer]


class Words(TypedDict):
    words: Annotated[list[str], operator.add]


class Gates:
    """Nodes that stand still until they are let through, by the word that they were given."""

    def __init__(self) -> None:
        self._arrived: dict[str, asyncio.Event] = {}
        self._open: dict[str, asyncio.Event] = {}

    async def node(self, state: Words) -> dict[str, list[str]]:
        word = state["words"][-1]
        if word.startswith("slow"):
            self._of(self._arrived, word).set()
            await self._of(self._open, word).wait()
        return {"words": [word.upper()]}

    async def arrived(self, word: str) -> None:
        await asyncio.wait_for(self._of(self._arrived, word).wait(), 30)

    def let_through(self, word: str) -> None:
        self._of(self._open, word).set()

    @staticmethod
    def _of(events: dict[str, asyncio.Event], word: str) -> asyncio.Event:
        return events.setdefault(word, asyncio.Event())


def gated(checkpointer: ThreadkeepCheckpointer, gates: Gates) -> Any:
    graph = StateGraph(Words)
    graph.add_node("slowly", gates.node)
    graph.add_edge(START, "slowly")
    return graph.compile(checkpointer=checkpointer)


def said(word: str) -> dict[str, list[str]]:
    return {"words": [word]}


class TestTwoRuns:
    @pytest.mark.parametrize("begun", [False, True], ids=["new", "begun"])
    async def test_late_writer_gets_an_error_and_the_first_is_kept(self, kind: str, make: Make, *, begun: bool):
        """Both go on from one state; LangGraph would keep the one that ends last and forget the other."""
        checkpointer, gates = make(kind), Gates()
        graph = gated(checkpointer, gates)
        if begun:
            await graph.ainvoke(said("before"), HERE)

        first = asyncio.create_task(graph.ainvoke(said("slow one"), HERE, durability="sync"))
        await gates.arrived("slow one")
        second = await graph.ainvoke(said("two"), INSTEAD, durability="sync")
        gates.let_through("slow one")

        with pytest.raises(ThreadMovedOnError, match="lease"):
            await first
        assert second["words"][-2:] == ["two", "TWO"]
        assert (await graph.aget_state(HERE)).values == second

    async def test_a_refusal_is_no_fault_of_the_drivers(self, kind: str, make: Make, caplog: pytest.LogCaptureFixture):
        """Not even where so much is written that the answer comes while it is being sent: nothing is logged."""
        gates, long = Gates(), "slow" + "x" * 1_000_000
        graph = gated(make(kind), gates)
        first = asyncio.create_task(graph.ainvoke(said(long), HERE, durability="sync"))
        await gates.arrived(long)
        await graph.ainvoke(said("two"), INSTEAD, durability="sync")
        gates.let_through(long)

        with pytest.raises(ThreadMovedOnError, match="lease"):
            await first
        assert caplog.messages == []

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_of_many_at_once_each_is_kept_in_its_turn(self, kind: str, make: Make, durability: Any):
        """Eight inputs together on a thread that has some already: all are in the state, in the order they came."""
        graph = echo_graph(make(kind))
        await graph.ainvoke(said("before"), HERE)

        await asyncio.gather(*(graph.ainvoke(said(word), HERE, durability=durability) for word in "abcdefgh"))

        words = (await graph.aget_state(HERE)).values["words"]
        assert words[2:] == [spoken for word in "abcdefgh" for spoken in (word, word.upper())]

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_each_of_many_takeovers_is_kept_or_gets_an_error(self, kind: str, make: Make, durability: Any):
        """What was acknowledged is in the state, whoever won."""
        graph = echo_graph(make(kind))
        await graph.ainvoke(said("before"), HERE)

        ended = await asyncio.gather(
            *(graph.ainvoke(said(word), INSTEAD, durability=durability) for word in "abcdefgh"), return_exceptions=True
        )

        kept = [word for word, one in zip("abcdefgh", ended, strict=True) if not isinstance(one, BaseException)]
        assert all(isinstance(one, dict | ThreadMovedOnError) for one in ended), ended
        assert kept
        words = (await graph.aget_state(HERE)).values["words"]
        assert all(word in words and word.upper() in words for word in kept)

    async def test_two_answers_to_one_question_are_not_both_taken(self, kind: str, make: Make):
        """The second one is told that the thread has moved on, or that nothing waits."""
        checkpointer = make(kind)

        def ask(state: Words) -> dict[str, list[str]]:
            return {"words": [interrupt("well?")]}

        builder = StateGraph(Words)
        builder.add_node("ask", ask)
        builder.add_edge(START, "ask")
        graph = builder.compile(checkpointer=checkpointer)
        await graph.ainvoke(said("hello"), HERE)

        answers = [graph.ainvoke(Command(resume=answer), HERE, durability="sync") for answer in ("yes", "no")]
        ended = await asyncio.gather(*answers, return_exceptions=True)

        taken = [one["words"][-1] for one in ended if not isinstance(one, BaseException)]
        assert (await graph.aget_state(HERE)).values["words"] in (["hello", "yes"], ["hello", "no"])
        assert len({*taken}) == 1

    async def test_what_a_stopped_run_left_does_not_stop_the_next(self, kind: str, make: Make):
        """After the error the same input is given again, and works."""
        checkpointer, gates = make(kind), Gates()
        graph = gated(checkpointer, gates)
        first = asyncio.create_task(graph.ainvoke(said("slow one"), HERE, durability="sync"))
        await gates.arrived("slow one")
        await graph.ainvoke(said("two"), INSTEAD)
        gates.let_through("slow one")
        with pytest.raises(ThreadMovedOnError):
            await first

        again = await graph.ainvoke(said("slow one"), HERE)

        assert again["words"] == ["slow one", "two", "TWO", "slow one", "SLOW ONE"]

    async def test_run_on_a_deleted_thread_gets_an_error(self, kind: str, make: Make):
        """What was erased does not come back by a run that was under way."""
        checkpointer, gates = make(kind), Gates()
        graph = gated(checkpointer, gates)
        await graph.ainvoke(said("before"), HERE)
        running = asyncio.create_task(graph.ainvoke(said("slow one"), HERE, durability="sync"))
        await gates.arrived("slow one")

        await checkpointer.adelete_thread("1")
        gates.let_through("slow one")

        with pytest.raises(ThreadMovedOnError):
            await running
        assert value_of(checkpointer, HERE) is None


class TestCollisions:
    @pytest.mark.slow
    def test_nothing_acknowledged_is_lost_where_the_stock_saver_loses_it(self):
        """What `make invariants` does, in small: its search for lost turns finds those of the stock saver."""
        found = two_writers.run(60, kinds=("sqlite",))

        assert found["lost"] == 0
        assert 0 < found["refused"] <= 6
        assert found["stock"] > 0


class TestWhatIsMeant:
    async def test_an_older_checkpoint_is_gone_on_from_where_it_is_named(self, kind: str, make: Make):
        """Time travel, editing the past, and asking anew: all go on from what they name, however old."""
        graph = echo_graph(make(kind))
        for word in ("a", "b"):
            await graph.ainvoke(said(word), HERE)
        history = [one async for one in graph.aget_state_history(HERE)]
        (old,) = [one for one in history if one.values.get("words") == ["a", "A"] and not one.next]

        anew = await graph.ainvoke(said("c"), old.config)
        edited = await graph.aupdate_state(old.config, said("d"))
        after = await graph.ainvoke(None, edited)
        replayed = await graph.ainvoke(None, next(one for one in history if one.next == ("echo",)).config)
        latest = await graph.ainvoke(said("e"), HERE)

        assert anew["words"] == ["a", "A", "c", "C"]
        assert after["words"] == ["a", "A", "d"]
        assert replayed["words"] == ["a", "A", "b", "B"]
        assert latest["words"] == ["a", "A", "b", "B", "e", "E"]

    async def test_an_edit_wins_over_the_run_that_did_not_see_it(self, kind: str, make: Make):
        """A person who corrects the state while a run is at work is not overwritten; the run is told."""
        checkpointer, gates = make(kind), Gates()
        graph = gated(checkpointer, gates)
        await graph.ainvoke(said("before"), HERE)
        running = asyncio.create_task(graph.ainvoke(said("slow one"), HERE))
        await gates.arrived("slow one")

        await graph.aupdate_state(HERE, said("edited"), as_node="slowly")
        gates.let_through("slow one")

        with pytest.raises(ThreadMovedOnError):
            await running
        assert (await graph.aget_state(HERE)).values["words"][-1] == "edited"

    def test_a_saver_used_by_itself_is_free(self, kind: str, make: Make):
        """Whoever is no run of LangGraph's says by every call what it means."""
        checkpointer = make(kind)

        for n in range(3):
            put(checkpointer, config_of("1", checkpoint_ns=""), n)

        assert value_of(checkpointer, HERE) == 2

    async def test_the_runs_name_is_not_given_to_anybody_else(self, kind: str, make: Make):
        """States and histories have the configuration that they always had, and metadata holds nothing of it."""
        graph = echo_graph(make(kind))
        await graph.ainvoke(said("a"), HERE)
        await graph.ainvoke(said("b"), HERE)

        state = await graph.aget_state(HERE)

        assert set(state.config["configurable"]) == {"thread_id", "checkpoint_ns", "checkpoint_id"}
        assert all("threadkeep" not in key for key in state.metadata)


IDS = st.sampled_from(["", "1", "2", "3"])
RUNS = st.sampled_from(["", "a", "b"])
NOW = datetime(2026, 11, 23, tzinfo=UTC)
LEASES = st.none() | st.builds(HeadLease, RUNS.filter(bool), st.just(NOW), st.just(12.0), IDS)
HEADS = st.builds(Head, st.just("t"), newest=IDS, writer=RUNS, lease=LEASES)
WRITES = st.builds(
    Write,
    st.sampled_from(["put", "writes"]),
    st.sampled_from(["", "inner"]),
    IDS.filter(bool),
    IDS,
    st.none() | RUNS.filter(bool),
    st.booleans(),
)


class TestAdmitting:
    @given(HEADS, WRITES)
    def test_no_run_writes_over_what_it_did_not_see(self, head: Head, write: Write):
        """A run puts a checkpoint only with its lease, and only on what it has written or begun with."""
        after = admitted(head, write)

        if write.run is not None and (head.lease is None or head.lease.run != write.run):
            assert after is None
        if after is not None and write.run is not None and not write.namespace:
            assert head.lease is not None
            assert head.writer == write.run or head.newest == head.lease.began
        if after is not None:
            assert after.newest >= head.newest

    @given(HEADS, WRITES)
    def test_a_write_may_be_repeated(self, head: Head, write: Write):
        """A connection may break after the commit: the same write is admitted again."""
        after = admitted(head, write)

        if after is not None:
            assert admitted(after, write) == after

    def test_the_errors_differ(self):
        """A thread that is in use, and a lease that has passed on."""
        lease = HeadLease("a", NOW, 12)
        with pytest.raises(ThreadBusyError, match="at work"):
            admit(Head("t", lease=lease), Write("put", "", "1", in_graph=True), leased=True)
        with pytest.raises(ThreadMovedOnError, match="lease"):
            admit(Head("t", lease=lease), Write("writes", "", "1", run="b"), leased=True)

    @given(HEADS)
    def test_a_head_is_stored_as_it_is(self, head: Head):
        """Its value spells all of it."""
        assert Head.from_value(head.to_value()) == head


def admitted(head: Head, write: Write) -> Head | None:
    try:
        return admit(head, write, leased=head.lease is not None)
    except ConflictError:
        return None
