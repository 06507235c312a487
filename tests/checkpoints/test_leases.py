"""Leases: who may go on with a thread, what becomes of a second input, and how a thread gets free again."""

from __future__ import annotations

import asyncio
import gc
from datetime import timedelta
from typing import Any, TypedDict

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from tests.checkpoints.checkpoints import Words, config_of, echo_graph
from tests.checkpoints.test_fence import HERE, Gates, Make, gated, said
from tests.servers import SERVERS_IN_SOAK
from threadkeep.checkpoints.directory import thread_partition
from threadkeep.checkpoints.head import Head, reserve
from threadkeep.checkpoints.lease_waits import LeaseTerms
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.errors import InvalidInputError, ThreadBusyError, ThreadMovedOnError
from threadkeep.ids import ThreadId

SOON = LeaseTerms(lease=timedelta(seconds=0.4), queue=timedelta(seconds=20))
shared = pytest.mark.parametrize("kind", ["sqlite", *SERVERS_IN_SOAK], indirect=True)
IMPATIENT = LeaseTerms(queue=timedelta(seconds=0.1))


def here(strategy: str) -> Any:
    return config_of("1", multitask_strategy=strategy)


async def at_work(checkpointer: ThreadkeepCheckpointer, gates: Gates) -> tuple[Any, asyncio.Task[Any]]:
    """Return a graph that has said ``before`` on its thread, and a run on it that is in the middle of ``slow one``."""
    graph = gated(checkpointer, gates)
    await graph.ainvoke(said("before"), HERE)
    running = asyncio.create_task(graph.ainvoke(said("slow one"), HERE, durability="sync"))
    await gates.arrived("slow one")
    return graph, running


async def words_of(graph: Any) -> list[str]:
    return (await graph.aget_state(HERE)).values["words"]


async def head_of(checkpointer: ThreadkeepCheckpointer) -> Head:
    """Return the head of the thread as another process reads it."""

    async def read() -> Head | None:
        return await checkpointer._threads.get(thread_partition(ThreadId("1"), None), "1").head()

    head = await checkpointer._loop.run(read())
    assert head is not None
    return head


async def until_reserved(checkpointer: ThreadkeepCheckpointer) -> None:
    async with asyncio.timeout(30):
        while not (await head_of(checkpointer)).next_run:
            await asyncio.sleep(0.02)


class TestOtherProcesses:
    """A checkpointer stands for each process: runs of one wait in line, and a run of another asks again and again."""

    @shared
    async def test_a_run_that_waited_long_goes_before_later_ones(self, kind: str, make: Make):
        """A process that begins its next run at once let no other process in."""
        here_, there = (make(kind), make(kind))
        gates = Gates()
        graph, running = await at_work(here_, gates)
        other = asyncio.create_task(gated(there, gates).ainvoke(said("other"), HERE))
        later = asyncio.create_task(graph.ainvoke(said("later"), HERE))
        await until_reserved(here_)

        gates.let_through("slow one")
        await asyncio.gather(running, other, later)

        assert (await words_of(graph))[-4:] == ["other", "OTHER", "later", "LATER"]
        assert (await head_of(there)).next_run == ""

    async def test_a_reservation_of_a_process_that_died_holds_up_one_run_only(self, kind: str, make: Make):
        checkpointer = make(kind)
        graph = echo_graph(checkpointer)
        await graph.ainvoke(said("one"), HERE)
        thread = checkpointer._threads.get(thread_partition(ThreadId("1"), None), "1")
        await checkpointer._loop.run(thread.commit(reserve("gone")))

        assert (await graph.ainvoke(said("two"), here("reject")))["words"][-1] == "TWO"
        assert (await head_of(checkpointer)).next_run == "gone"
        assert (await graph.ainvoke(said("three"), HERE))["words"][-1] == "THREE"
        assert (await head_of(checkpointer)).next_run == ""

    @shared
    async def test_a_run_that_gives_up_takes_its_reservation_back(self, kind: str, make: Make):
        here_, there = (make(kind), make(kind))
        gates = Gates()
        _, running = await at_work(here_, gates)
        other = asyncio.create_task(gated(there, gates).ainvoke(said("other"), HERE))
        await until_reserved(here_)

        other.cancel()
        with pytest.raises(asyncio.CancelledError):
            await other

        async with asyncio.timeout(30):
            while (await head_of(here_)).next_run:
                await asyncio.sleep(0.02)
        gates.let_through("slow one")
        await running


class TestCancelling:
    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore:.*socket:pytest.PytestUnraisableExceptionWarning")  # PyMongo leaves them
    async def test_a_run_that_is_cancelled_keeps_no_lease(self, kind: str, make: Make):
        """At any point: while it begins, while it ends, and while it waits for another run."""
        checkpointer = make(kind, terms=LeaseTerms(lease=timedelta(minutes=10)))  # one that is kept is not waited out
        graph = echo_graph(checkpointer)
        for number in range(60):
            config = config_of(str(number % 3))
            running = [asyncio.create_task(graph.ainvoke(said("word"), config)) for _ in range(1 + number % 2)]
            await asyncio.sleep(number % 50 * 0.0002)
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

        for number in range(3):
            ended = asyncio.create_task(graph.ainvoke(said("last"), config_of(str(number))))
            assert (await asyncio.wait_for(ended, 60))["words"][-2:] == ["last", "LAST"]
        await checkpointer.aclose()
        heads = [
            await checkpointer._loop.run(
                checkpointer._threads.get(thread_partition(ThreadId(str(number)), None), str(number)).head()
            )
            for number in range(3)
        ]
        assert [head.lease for head in heads if head is not None] == [None] * 3


class TestSecondInput:
    async def test_enqueue_waits_and_goes_on_from_what_the_first_said(self, kind: str, make: Make):
        """The default: both turns are kept, one after the other."""
        gates = Gates()
        graph, running = await at_work(make(kind), gates)
        second = asyncio.create_task(graph.ainvoke(said("two"), HERE))
        await asyncio.sleep(0)

        gates.let_through("slow one")

        assert (await running)["words"][-2:] == ["slow one", "SLOW ONE"]
        assert (await second)["words"] == ["before", "BEFORE", "slow one", "SLOW ONE", "two", "TWO"]

    async def test_reject_raises_at_once(self, kind: str, make: Make):
        gates = Gates()
        graph, running = await at_work(make(kind), gates)

        with pytest.raises(ThreadBusyError, match="at work"):
            await graph.ainvoke(said("two"), here("reject"))
        gates.let_through("slow one")
        await running

        assert (await graph.ainvoke(said("two"), here("reject")))["words"][-3:] == ["SLOW ONE", "two", "TWO"]

    async def test_interrupt_keeps_what_the_first_had_finished(self, kind: str, make: Make):
        gates = Gates()
        graph, running = await at_work(make(kind), gates)

        second = await graph.ainvoke(said("two"), here("interrupt"))
        gates.let_through("slow one")

        with pytest.raises(ThreadMovedOnError, match="passed to another run"):
            await running
        assert second["words"] == await words_of(graph) == ["before", "BEFORE", "slow one", "two", "TWO"]

    async def test_rollback_keeps_nothing_of_the_first(self, kind: str, make: Make):
        gates = Gates()
        graph, running = await at_work(make(kind), gates)

        second = await graph.ainvoke(said("two"), here("rollback"))
        gates.let_through("slow one")

        with pytest.raises(ThreadMovedOnError, match="passed to another run"):
            await running
        assert second["words"] == await words_of(graph) == ["before", "BEFORE", "two", "TWO"]
        history = [one.values.get("words", []) async for one in graph.aget_state_history(HERE)]
        assert not any("slow one" in words for words in history)

    async def test_rollback_of_a_threads_first_run(self, kind: str, make: Make):
        gates = Gates()
        graph = gated(make(kind), gates)
        running = asyncio.create_task(graph.ainvoke(said("slow one"), HERE, durability="sync"))
        await gates.arrived("slow one")

        second = await graph.ainvoke(said("two"), here("rollback"))
        gates.let_through("slow one")

        with pytest.raises(ThreadMovedOnError):
            await running
        assert second["words"] == await words_of(graph) == ["two", "TWO"]

    @pytest.mark.parametrize("noticed", [False, True])
    async def test_a_question_that_is_not_written_is_not_returned(self, make: Make, *, noticed: bool):
        """Its run lost the lease; *noticed*: by a renewal, before it asked."""
        gates, checkpointer = Gates(), make("memory", terms=SOON)

        async def ask(state: Words) -> dict[str, list[str]]:
            await gates.node(state)
            return {"words": [interrupt("well?")]}

        builder = StateGraph(Words)
        builder.add_node("ask", ask)
        builder.add_edge(START, "ask")
        running = asyncio.create_task(builder.compile(checkpointer=checkpointer).ainvoke(said("slow one"), HERE))
        await gates.arrived("slow one")
        while len([one async for one in checkpointer.alist(HERE)]) < 2:  # its input, and the step that asks
            await asyncio.sleep(0.01)
        await echo_graph(checkpointer).ainvoke(said("two"), here("interrupt"))
        while noticed and checkpointer._leases._active:  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0.01)
        gates.let_through("slow one")

        with pytest.raises(ThreadMovedOnError, match="passed to another run"):
            await running

    @pytest.mark.parametrize("sync", [False, True])
    async def test_a_run_that_is_undone_at_its_end_raises_that_and_logs_no_failed_callback(
        self, make: Make, caplog: pytest.LogCaptureFixture, *, sync: bool
    ):
        """It is the run's own outcome: LangChain would log it as an error of a callback, besides."""
        graph = echo_graph(make("memory"))
        parts = graph.stream(said("one"), HERE, durability="sync") if sync else None
        aparts = graph.astream(said("one"), HERE, durability="sync")

        async def read() -> Any:
            return await asyncio.to_thread(next, parts) if parts is not None else await anext(aparts)

        first = await read()
        async with asyncio.timeout(10):
            while await words_of(graph) != ["one", "ONE"]:  # its last checkpoint may wait for a few milliseconds
                await asyncio.sleep(0)
        second = await graph.ainvoke(said("two"), here("rollback"))

        with pytest.raises(ThreadMovedOnError, match="undid"):
            await read()
        assert first
        assert second["words"] == await words_of(graph) == ["two", "TWO"]
        assert caplog.messages == []

    async def test_the_setting_speaks_for_inputs_that_do_not(self, make: Make):
        gates = Gates()
        graph, running = await at_work(make("memory", terms=LeaseTerms("reject")), gates)

        with pytest.raises(ThreadBusyError):
            await graph.ainvoke(said("two"), HERE)

        gates.let_through("slow one")
        await running

    async def test_waiting_ends(self, make: Make):
        gates = Gates()
        graph, running = await at_work(make("memory", terms=IMPATIENT), gates)

        with pytest.raises(ThreadBusyError, match="at work"):
            await graph.ainvoke(said("two"), HERE)

        gates.let_through("slow one")
        await running
        assert (await graph.ainvoke(said("two"), HERE))["words"][-1] == "TWO"

    async def test_one_that_gives_up_waiting_leaves_its_place(self, kind: str, make: Make):
        gates = Gates()
        graph, running = await at_work(make(kind), gates)
        second = asyncio.create_task(graph.ainvoke(said("two"), HERE))
        third = asyncio.create_task(graph.ainvoke(said("three"), HERE))
        await asyncio.sleep(0.05)

        second.cancel()
        gates.let_through("slow one")

        await running
        assert (await third)["words"][-3:] == ["SLOW ONE", "three", "THREE"]
        with pytest.raises(asyncio.CancelledError):
            await second

    async def test_what_is_no_strategy(self, make: Make):
        with pytest.raises(InvalidInputError, match="enqueue, reject, interrupt, rollback"):
            await echo_graph(make("memory")).ainvoke(said("a"), here("whatever"))

    def test_in_blocking_code(self, kind: str, make: Make):
        """Nodes run in the caller's own context there, and other runs begin and end in it meanwhile."""
        inner = RunnableLambda(lambda word: str(word).upper())

        def echo(state: Words) -> dict[str, list[str]]:
            return {"words": [inner.invoke(state["words"][-1])]}

        builder = StateGraph(Words)
        builder.add_node("echo", echo)
        builder.add_edge(START, "echo")
        graph = builder.compile(checkpointer=make(kind))

        for word in "abc":
            graph.invoke(said(word), here("reject"))

        assert graph.get_state(HERE).values["words"] == ["a", "A", "b", "B", "c", "C"]


class TestGettingFree:
    """A thread is free when its run has ended, however it has."""

    async def test_after_an_error(self, kind: str, make: Make):
        def fail(state: Words) -> dict[str, list[str]]:
            raise ValueError(state["words"][-1])

        builder = StateGraph(Words)
        builder.add_node("fail", fail)
        builder.add_edge(START, "fail")
        graph = builder.compile(checkpointer=make(kind, terms=IMPATIENT))
        gc.disable()  # the error's traceback holds the run's variables
        try:
            errors: list[Exception] = []
            for word in "ab":
                try:
                    await graph.ainvoke(said(word), HERE)
                except ValueError as error:
                    errors.append(error)
        finally:
            gc.enable()

        assert [str(error) for error in errors] == ["a", "b"]

    async def test_while_an_approval_is_pending(self, kind: str, make: Make):
        """Whoever answers may be another process."""
        builder = StateGraph(Words)
        builder.add_node("ask", lambda state: {"words": [interrupt("well?")]})
        builder.add_edge(START, "ask")
        graph = builder.compile(checkpointer=make(kind))
        gc.disable()
        try:
            await graph.ainvoke(said("hello"), HERE)
            ended = await graph.ainvoke(Command(resume="fine"), here("enqueue"))
        finally:
            gc.enable()

        assert ended["words"] == ["hello", "fine"]

    async def test_after_an_abandoned_stream(self, kind: str, make: Make):
        graph = echo_graph(make(kind))

        async for _ in graph.astream(said("a"), HERE):
            break

        assert (await graph.ainvoke(said("b"), HERE))["words"][-2:] == ["b", "B"]

    async def test_after_a_stream_that_is_kept_and_closed(self, kind: str, make: Make):
        """While it is kept it may be read on, so until it is closed another input finds the thread at work."""
        graph = echo_graph(make(kind))
        stream = graph.astream(said("a"), HERE)
        await anext(stream)
        with pytest.raises(ThreadBusyError):
            await graph.ainvoke(said("b"), here("reject"))

        await stream.aclose()

        assert (await graph.ainvoke(said("b"), HERE))["words"][-2:] == ["b", "B"]

    async def test_after_a_run_that_was_cancelled(self, kind: str, make: Make):
        gates = Gates()
        graph, running = await at_work(make(kind), gates)

        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert (await graph.ainvoke(said("two"), HERE))["words"][-2:] == ["two", "TWO"]

    async def test_node_with_its_own_thread_gets_an_error(self, make: Make):
        """It would wait for itself."""

        async def again(state: Words) -> dict[str, list[str]]:
            if len(state["words"]) < 2:
                await graph.ainvoke(said("inner"), HERE)
            return {"words": ["done"]}

        builder = StateGraph(Words)
        builder.add_node("again", again)
        builder.add_edge(START, "again")
        graph = builder.compile(checkpointer=make("memory"))

        with pytest.raises(ThreadBusyError):
            await graph.ainvoke(said("outer"), HERE)

    async def test_a_node_may_run_another_thread(self, kind: str, make: Make):
        inner = echo_graph(make(kind))

        async def ask(state: Words) -> dict[str, list[str]]:
            return {"words": (await inner.ainvoke(said("inner"), config_of("2")))["words"]}

        builder = StateGraph(Words)
        builder.add_node("ask", ask)
        builder.add_edge(START, "ask")
        graph = builder.compile(checkpointer=inner.checkpointer)

        assert (await graph.ainvoke(said("outer"), HERE))["words"] == ["outer", "inner", "INNER"]


EXPIRING = ["sqlite", *SERVERS_IN_SOAK]


class TestAnotherProcess:
    """Two checkpointers on one place know nothing of each other but what stands there."""

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", EXPIRING)
    async def test_waits_for_a_run_elsewhere(self, kind: str, make: Make):
        gates = Gates()
        graph, running = await at_work(make(kind, terms=SOON), gates)
        elsewhere = gated(make(kind), gates)
        with pytest.raises(ThreadBusyError):
            await elsewhere.ainvoke(said("two"), here("reject"))
        second = asyncio.create_task(elsewhere.ainvoke(said("two"), HERE))
        await asyncio.sleep(1)  # longer than a lease lasts: it is renewed
        assert not second.done()

        gates.let_through("slow one")

        await running
        assert (await second)["words"] == ["before", "BEFORE", "slow one", "SLOW ONE", "two", "TWO"]
        assert await words_of(graph) == (await second)["words"]

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", EXPIRING)
    async def test_takes_over_from_one_that_went_down_and_comes_back(self, kind: str, make: Make):
        """Nobody renews, so the lease ends; whoever had it and writes after all is told."""
        gates = Gates()
        down = make(kind, terms=SOON)
        _, running = await at_work(down, gates)
        down._leases._renewing.cancel()  # type: ignore[union-attr]  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]

        taken = await asyncio.wait_for(gated(make(kind), gates).ainvoke(said("two"), HERE), 15)
        gates.let_through("slow one")

        with pytest.raises(ThreadMovedOnError, match="passed to another run"):
            await running
        assert taken["words"] == ["before", "BEFORE", "slow one", "two", "TWO"]

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", EXPIRING)
    async def test_a_lease_that_ended_unseen_is_still_good(self, kind: str, make: Make):
        """As after the machine slept: nobody has taken it, so nothing is lost."""
        gates = Gates()
        asleep = make(kind, terms=SOON)
        graph, running = await at_work(asleep, gates)
        asleep._leases._renewing.cancel()  # type: ignore[union-attr]  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]
        await asyncio.sleep(0.5)

        gates.let_through("slow one")

        assert (await running)["words"][-1] == "SLOW ONE"
        assert await words_of(graph) == (await running)["words"]


class Notes(TypedDict):
    words: list[str]


class TestSubgraphs:
    @pytest.mark.parametrize("durability", ["sync", "async"])
    async def test_run_without_its_lease_writes_nothing_more(self, kind: str, make: Make, durability: Any):
        """Its checkpoints stand in a namespace of their own, and are its run's all the same."""
        gates = Gates()
        inner = StateGraph(Words)
        inner.add_node("slowly", gates.node)
        inner.add_node("after", lambda state: {"words": ["after"]})
        inner.add_edge(START, "slowly")
        inner.add_edge("slowly", "after")
        builder = StateGraph(Words)
        builder.add_node("inner", inner.compile(checkpointer=True))
        builder.add_edge(START, "inner")
        checkpointer = make(kind)
        graph = builder.compile(checkpointer=checkpointer)
        running = asyncio.create_task(graph.ainvoke(said("slow one"), HERE, durability=durability))
        await gates.arrived("slow one")
        while not [one async for one in checkpointer.alist(config_of("1", checkpoint_ns="inner"))]:
            await asyncio.sleep(0.001)  # it is durable soon, and only with ``sync`` before the node
        await graph.aupdate_state(HERE, said("seen"), as_node="inner")
        await echo_graph(checkpointer).ainvoke(said("two"), here("interrupt"))
        nested = config_of("1", checkpoint_ns="inner")
        before = [one.checkpoint["id"] async for one in checkpointer.alist(nested)]

        gates.let_through("slow one")

        with pytest.raises(ThreadMovedOnError):
            await running
        assert before
        assert [one.checkpoint["id"] async for one in checkpointer.alist(nested)] == before

    async def test_one_goes_on_with_its_run(self, kind: str, make: Make):
        inner = StateGraph(Words)
        inner.add_node("ask", lambda state: {"words": [interrupt("well?")]})
        inner.add_edge(START, "ask")
        builder = StateGraph(Words)
        builder.add_node("inner", inner.compile())
        builder.add_edge(START, "inner")
        graph = builder.compile(checkpointer=make(kind))

        await graph.ainvoke(said("hello"), HERE)
        ended = await graph.ainvoke(Command(resume="fine"), HERE)

        assert ended["words"][-1] == "fine"
