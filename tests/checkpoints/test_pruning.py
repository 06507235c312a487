"""Retention: what of a thread goes, what stays, and that what stays works as before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from deepagents import create_deep_agent
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from tests.checkpoints.checkpoints import ScriptedModel, Words, config_of, echo_graph
from tests.checkpoints.test_fence import HERE, Make, said
from threadkeep.checkpoints.codec import CheckpointPlace
from threadkeep.checkpoints.maintenance import CheckpointSummary, KeptCheckpoints, find_anchored, select_kept
from threadkeep.errors import ConflictError, InvalidInputError

TURNS = 20
ALL_KINDS_TURNS = 5
NEAR = 1.05


def deep(checkpointer: Any) -> Any:
    model = ScriptedModel(messages=iter([AIMessage(f"reply {n}, and some more words") for n in range(200)]))
    return create_deep_agent(model, checkpointer=checkpointer)


def asked(n: int) -> dict[str, Any]:
    return {"messages": [("user", f"question {n}, and some more words")]}


def contents(state: Any) -> list[str]:
    return [message.content for message in state.values["messages"]]


class TestPruning:
    @pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
    async def test_to_the_latest_leaves_as_much_as_a_fresh_thread_has(self, kind: str, make: Make, encrypted: bool):
        checkpointer = make(kind, encrypted=encrypted)
        graph = echo_graph(checkpointer)
        turns = TURNS if kind in ("memory", "sqlite") else ALL_KINDS_TURNS
        for n in range(turns):
            await graph.ainvoke(said(f"word {n}"), HERE)
        before = await graph.aget_state(HERE)
        await graph.ainvoke({"words": before.values["words"][:-1]}, config_of("fresh"))
        await checkpointer.run(checkpointer.maintenance.thin("fresh", KeptCheckpoints()))

        gone = await checkpointer.run(checkpointer.maintenance.thin("1", KeptCheckpoints()))

        after = await checkpointer.run(checkpointer.maintenance.stats("1"))
        fresh = await checkpointer.run(checkpointer.maintenance.stats("fresh"))
        assert gone == 3 * turns - 1
        assert after.checkpoints == 1
        assert after.size_bytes <= fresh.size_bytes * NEAR
        assert (await graph.aget_state(HERE)).values == before.values
        assert (await graph.ainvoke(said("more"), HERE))["words"][-2:] == ["more", "MORE"]

    @pytest.mark.slow
    async def test_a_deep_agents_thread(self, kind: str, make: Make):
        """Its messages stand in what was written since a snapshot; that is gathered before the rest goes."""
        checkpointer = make(kind)
        agent = deep(checkpointer)
        turns = TURNS if kind in ("memory", "sqlite") else ALL_KINDS_TURNS
        for n in range(turns):
            await agent.ainvoke(asked(n), HERE)
        before = contents(await agent.aget_state(HERE))
        first = await checkpointer.run(checkpointer.maintenance.stats("1"))
        fresh = {"messages": (await agent.aget_state(HERE)).values["messages"][:-1]}
        await agent.ainvoke(fresh, config_of("fresh"))
        await checkpointer.run(checkpointer.maintenance.thin("fresh", KeptCheckpoints()))
        size = (await checkpointer.run(checkpointer.maintenance.stats("fresh"))).size_bytes

        await checkpointer.run(checkpointer.maintenance.thin("1", KeptCheckpoints()))
        again = await checkpointer.run(checkpointer.maintenance.thin("1", KeptCheckpoints()))

        after = await checkpointer.run(checkpointer.maintenance.stats("1"))
        assert len(before) == 2 * turns
        assert again == 0
        assert (after.checkpoints, contents(await agent.aget_state(HERE))) == (1, before)
        assert after.size_bytes < first.size_bytes
        assert after.size_bytes <= size * NEAR
        assert len([one async for one in agent.aget_state_history(HERE)]) == 1
        await agent.ainvoke(asked(turns), HERE)
        await checkpointer.run(checkpointer.maintenance.thin("1", KeptCheckpoints(latest=2)))
        assert contents(await agent.aget_state(HERE))[:-1] == [*before, f"question {turns}, and some more words"]
        history = [contents(one) async for one in agent.aget_state_history(HERE)]
        assert len(history) == 2
        assert history[1] == history[0][: len(history[1])]

    async def test_time_travel_from_what_stays(self, kind: str, make: Make):
        checkpointer = make(kind)
        graph = echo_graph(checkpointer)
        for word in "abcd":
            await graph.ainvoke(said(word), HERE)
        await checkpointer.run(checkpointer.maintenance.thin("1", KeptCheckpoints(latest=4)))

        history = [one async for one in graph.aget_state_history(HERE)]
        old = next(one for one in history if not one.next and one.values["words"][-1] == "C")

        assert len(history) == 4
        assert (await graph.ainvoke(said("x"), old.config))["words"][-4:] == ["c", "C", "x", "X"]

    async def test_since_a_time(self, kind: str, make: Make):
        checkpointer = make(kind)
        graph = echo_graph(checkpointer)
        await graph.ainvoke(said("a"), HERE)
        moment = datetime.now(UTC)
        await graph.ainvoke(said("b"), HERE)

        gone = await checkpointer.run(checkpointer.maintenance.thin("1", KeptCheckpoints(since=moment)))

        assert gone == 3
        assert (await checkpointer.run(checkpointer.maintenance.stats("1"))).checkpoints == 3

    async def test_what_waits_for_an_answer_stays_with_its_subgraph(self, kind: str, make: Make):
        checkpointer = make(kind)
        inner = StateGraph(Words)
        inner.add_node("first", lambda state: {"words": ["inner"]})
        inner.add_node("ask", lambda state: {"words": [interrupt("well?")]})
        inner.add_edge(START, "first")
        inner.add_edge("first", "ask")
        builder = StateGraph(Words)
        builder.add_node("inner", inner.compile())
        builder.add_edge(START, "inner")
        graph = builder.compile(checkpointer=checkpointer)
        await graph.ainvoke(said("a"), HERE)
        await graph.ainvoke(Command(resume="fine"), HERE)
        await graph.ainvoke(said("b"), HERE)

        await checkpointer.run(checkpointer.maintenance.thin("1", KeptCheckpoints()))

        assert (await checkpointer.run(checkpointer.maintenance.stats("1"))).checkpoints == 2
        ended = await graph.ainvoke(Command(resume="good"), HERE)
        assert ended["words"][-1] == "good"

    async def test_a_branch_that_waits_stays(self, kind: str, make: Make):
        def ask(state: Words) -> dict[str, list[str]]:
            return {"words": [interrupt(state["words"][-1])]}

        checkpointer = make(kind)
        builder = StateGraph(Words)
        builder.add_node("ask", ask)
        builder.add_edge(START, "ask")
        graph = builder.compile(checkpointer=checkpointer)
        await graph.ainvoke(said("a"), HERE)
        waiting = await graph.aget_state(HERE)
        await graph.aupdate_state(waiting.config, {"words": ["edited"]}, as_node="__start__")
        await graph.ainvoke(None, HERE)
        start = [one async for one in graph.aget_state_history(HERE)][-1]
        await graph.ainvoke(said("other"), start.config)

        await checkpointer.run(checkpointer.maintenance.thin("1", KeptCheckpoints()))

        left = [one async for one in graph.aget_state_history(HERE)]
        assert all(one.interrupts for one in left)
        assert len(left) == 2

    async def test_a_deep_agents_branch_that_waits(self, kind: str, make: Make):
        """Its messages stand in writes before it, on a branch that the newest checkpoint is not on."""
        checkpointer = make(kind)
        ask = AIMessage("", tool_calls=[{"name": "pay", "args": {"amount": 7}, "id": "c1"}])
        lines = [AIMessage("first"), ask, AIMessage("other"), AIMessage("paid")]
        model = ScriptedModel(messages=iter(lines))
        agent = create_deep_agent(model, [pay], interrupt_on={"pay": True}, checkpointer=checkpointer)
        await agent.ainvoke(asked(0), HERE)
        before = await agent.aget_state(HERE)
        await agent.ainvoke(asked(1), HERE)
        waiting = await agent.aget_state(HERE)
        await agent.ainvoke(asked(2), before.config)
        newest = contents(await agent.aget_state(HERE))

        await checkpointer.run(checkpointer.maintenance.thin("1", KeptCheckpoints()))

        left = [one async for one in agent.aget_state_history(HERE)]
        assert [bool(one.interrupts) for one in left] == [False, True]
        assert [contents(one) for one in left] == [newest, contents(waiting)]
        await checkpointer.run(checkpointer.maintenance.copy("1", "copy"))
        for config in (
            left[1].config,
            config_of("copy", checkpoint_id=left[1].config["configurable"]["checkpoint_id"]),
        ):
            model.messages = iter([AIMessage("paid")])
            ended = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
            assert [one.content for one in ended["messages"]][-2:] == ["7 paid", "paid"]


@tool
def pay(amount: int) -> str:
    """Pay."""
    return f"{amount} paid"


class TestCopying:
    async def test_a_copy_goes_its_own_way(self, kind: str, make: Make):
        checkpointer = make(kind, encrypted=True)
        agent = deep(checkpointer)
        for n in range(3):
            await agent.ainvoke(asked(n), HERE)

        await checkpointer.run(checkpointer.maintenance.copy("1", "copy"))
        await agent.ainvoke(asked(3), config_of("copy"))

        mine = contents(await agent.aget_state(HERE))
        assert contents(await agent.aget_state(config_of("copy")))[: len(mine)] == mine
        assert len(mine) == 6

    async def test_until_a_checkpoint(self, make: Make):
        checkpointer = make("sqlite")
        graph = echo_graph(checkpointer)
        for word in "abc":
            await graph.ainvoke(said(word), HERE)
        history = [one async for one in graph.aget_state_history(HERE)]
        second = next(one for one in history if one.values.get("words", [""])[-1] == "B" and not one.next)

        last = second.config["configurable"]["checkpoint_id"]
        count = await checkpointer.run(checkpointer.maintenance.copy("1", "copy", until=last))

        assert count == 6
        assert (await graph.aget_state(config_of("copy"))).values["words"] == ["a", "A", "b", "B"]

    async def test_neither_over_a_thread_nor_of_none(self, make: Make):
        checkpointer = make("memory")
        await echo_graph(checkpointer).ainvoke(said("a"), HERE)

        with pytest.raises(ConflictError):
            await checkpointer.run(checkpointer.maintenance.copy("1", "1"))
        with pytest.raises(InvalidInputError):
            await checkpointer.run(checkpointer.maintenance.copy("none", "other"))
        with pytest.raises(InvalidInputError):
            await checkpointer.run(checkpointer.maintenance.copy("1", "other", until="none"))


NOW = datetime(2026, 11, 22, tzinfo=UTC)


@st.composite
def threads(draw: st.DrawFn) -> list[CheckpointSummary]:
    """A tree of checkpoints, some with subgraphs, some of which keep differences only."""
    rows: list[CheckpointSummary] = []
    for number in range(draw(st.integers(1, 12))):
        parent = draw(st.sampled_from(["", *(row.place[1] for row in rows if not row.place[0])])) if number else ""
        deltas = draw(st.sampled_from([(), ("messages",)]))
        at = NOW - timedelta(hours=12 - number)
        rows.append(
            CheckpointSummary(CheckpointPlace("", f"{number:02}"), parent, None, at, draw(st.booleans()), deltas)
        )
        if draw(st.booleans()):
            rows.append(CheckpointSummary(CheckpointPlace(f"inner:{number}", f"{number:02}s"), "", f"{number:02}", at))
    return rows


class TestRules:
    @given(threads(), st.integers(1, 4), st.booleans())
    def test_what_stays_can_be_rebuilt_and_the_newest_is_there(
        self, rows: list[CheckpointSummary], latest: int, waiting: bool
    ):
        keep = KeptCheckpoints(latest=latest, waiting=waiting)

        stays = select_kept(rows, keep)

        root = sorted((row for row in rows if not row.place[0]), key=lambda row: row.place, reverse=True)
        assert {row.place for row in root[:latest]} <= stays
        anchored = find_anchored(rows, stays)
        for row in rows:
            if row.place in stays and row.deltas and row.parent_id:
                parent = (row.place[0], row.parent_id)
                assert parent in stays or row in anchored[parent]
            if row.place in stays and row.place[0]:
                assert ("", row.root_id) in stays
        leaves = {row.place for row in root} - {("", row.parent_id) for row in root}
        if waiting:
            assert {row.place for row in root if row.waits} & leaves <= stays
