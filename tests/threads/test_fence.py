"""Two runs on one thread: what one of them said is never lost without a word."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, TypedDict

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from tests.invariants import two_writers
from tests.threads.checkpoints import config_of, echo_graph, put, value_of
from threadkeep.errors import ThreadBusyError, ThreadMovedOnError
from threadkeep.threads.checkpointers import ThreadkeepCheckpointer
from threadkeep.threads.fencing import Head, ThreadClaim, judge, moved
from threadkeep.threads.postgres import REFUSALS, SQL

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
    async def test_the_one_that_comes_late_is_told_and_the_first_is_kept(self, kind: str, make: Make, *, begun: bool):
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
    async def test_of_many_that_take_it_from_each_other_each_is_kept_or_told(
        self, kind: str, make: Make, durability: Any
    ):
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

    async def test_a_run_on_a_deleted_thread_is_told(self, kind: str, make: Make):
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
CLAIMS = st.builds(
    ThreadClaim,
    st.sampled_from(["put", "writes"]),
    st.just("t"),
    run=st.sampled_from(["", "a", "b"]),
    checkpoint=IDS.filter(bool),
    parent=IDS,
    lease=st.sampled_from([None, 1, 2]),
    anywhere=st.booleans(),
)
HEADS = st.builds(
    Head, run=st.sampled_from(["", "a", "b"]), newest=IDS, token=st.sampled_from([1, 2]), held=st.booleans()
)


class TestJudging:
    @given(HEADS, CLAIMS, IDS)
    def test_nobody_writes_over_what_they_did_not_see(self, head: Head, claim: ThreadClaim, there: str):
        """A checkpoint is put only by the run that put the last, or over the newest that there is."""
        allowed = allows(head, claim, there)

        if allowed and claim.kind == "put":
            mine = head.run == claim.run != ""
            assert mine or claim.anywhere or max(head.newest, there) in (claim.parent, claim.checkpoint)
        if claim.lease is not None and claim.lease != head.token:
            assert not allowed
        if claim.lease is None and head.held and not claim.anywhere:
            assert not allowed

    @given(HEADS, CLAIMS)
    def test_a_call_may_be_made_twice(self, head: Head, claim: ThreadClaim):
        """A connection may break after the write: the same write is allowed again."""
        if claim.kind == "put" and allows(head, claim) and claim.checkpoint >= head.newest:
            assert allows(moved(head, claim), claim)

    def test_what_is_said(self):
        """Busy and too late are two errors."""
        with pytest.raises(ThreadBusyError, match="at work"):
            judge(Head(held=True), ThreadClaim("put", "t", checkpoint="1"))
        with pytest.raises(ThreadMovedOnError, match="lease"):
            judge(Head(token=2), ThreadClaim("writes", "t", checkpoint="1", lease=1))


class TestPostgres:
    def test_the_function_in_the_database_judges_as_the_rule_does(self, make: Make, postgres_url: str):
        """Every head, claim and newest checkpoint that they draw: allowed or refused alike, and moved alike."""
        put(make("postgres", url=postgres_url), config_of("elsewhere", checkpoint_ns=""), 1)
        with psycopg.connect(postgres_url, autocommit=True) as connection:

            @settings(max_examples=settings().max_examples * 3 // 2)
            @given(HEADS, CLAIMS, IDS)
            def alike(head: Head, claim: ThreadClaim, there: str) -> None:
                connection.execute("DELETE FROM threadkeep_heads WHERE thread_id = 't'")
                connection.execute("DELETE FROM checkpoints WHERE thread_id = 't'")
                until = "infinity" if head.held else None
                row = (head.run, head.newest, head.token, until)
                connection.execute("INSERT INTO threadkeep_heads VALUES ('t', %s, %s, %s, NULL, %s, '')", row)
                if there:
                    connection.execute("INSERT INTO checkpoints VALUES ('t', '', %s, NULL, NULL, '{}', '{}')", (there,))
                refusal: str | None = None
                try:
                    connection.execute(SQL["claim"], asdict(claim))
                except psycopg.Error as error:
                    refusal = error.sqlstate

                allowed = refusal is None
                assert allowed or refusal in REFUSALS
                assert allowed == allows(head, claim, there)
                found = connection.execute("SELECT run, newest FROM threadkeep_heads WHERE thread_id = 't'").fetchone()
                to = moved(head, claim) if allowed and claim.kind == "put" else head
                assert found == (to.run, to.newest)

            alike()


def allows(head: Head, claim: ThreadClaim, there: str = "") -> bool:
    try:
        judge(head, claim, there=there)
    except (ThreadBusyError, ThreadMovedOnError):
        return False
    return True
