"""``tk.runs`` on graphs of other kinds: the Functional API, an agent whose tools ask, subgraphs, and a fan-out."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt

import threadkeep
from tests.runs.test_refund_killed import cancelled_by_checkpoint, killed_by_checkpoint
from tests.storage.forking import ended_well, forked
from threadkeep.langgraph.runs import JobState
from threadkeep.runs import Run
from threadkeep.settings import Settings
from threadkeep.testing import ScriptedModel


@pytest.fixture
def tk() -> Iterator[threadkeep.Threadkeep]:
    with threadkeep.open("memory://", owner="ana", embedder="none") as opened:
        yield opened


class Work:
    """What the jobs of this module do: load, ask twice side by side, close.

    Attributes:
        ran: What ran to its end.
        failing: What fails.
        reached: Whether loading has begun.
        held: What loading waits for.
    """

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.failing: set[str] = set()
        self.reached = asyncio.Event()
        self.held: asyncio.Event | None = None

    async def load(self) -> str:
        self.reached.set()
        if self.held is not None:
            await self.held.wait()
        return self.done("load")

    def ask(self, name: str) -> str:
        answer = interrupt({"check": name})
        self.done(name)
        return f"{name}: {answer}"

    def done(self, name: str) -> str:
        if name in self.failing:
            msg = f"{name} is down"
            raise ValueError(msg)
        self.ran.append(name)
        return name


def functional(tk: threadkeep.Threadkeep, work: Work) -> tuple[Any, dict[str, Any]]:
    @task
    async def load() -> str:
        return await work.load()

    @task
    async def ask(name: str) -> str:
        return work.ask(name)

    @task
    async def close() -> str:
        return work.done("close")

    @entrypoint(checkpointer=tk.checkpointer)
    async def flow(given: dict[str, Any]) -> dict[str, Any]:
        await load()
        answers = await asyncio.gather(ask("fraud"), ask("policy"))
        await close()
        return {"answers": sorted(answers)}

    return flow, {"ticket": 7}


def agent(tk: threadkeep.Threadkeep, work: Work) -> tuple[Any, dict[str, Any]]:
    @tool
    async def load() -> str:
        """Load the order."""
        return await work.load()

    @tool
    async def ask(name: str) -> str:
        """Ask for a check."""
        return work.ask(name)

    @tool
    async def close() -> str:
        """Close the ticket."""
        return work.done("close")

    def calls(*named: tuple[str, dict[str, Any]]) -> AIMessage:
        ids = [f"{name}{args.get('name', '')}" for name, args in named]
        made = [{"name": name, "args": args, "id": one} for (name, args), one in zip(named, ids, strict=True)]
        return AIMessage("", tool_calls=made)

    both = calls(("ask", {"name": "fraud"}), ("ask", {"name": "policy"}))
    script = [calls(("load", {})), both, calls(("close", {})), AIMessage("Done.")]

    class ByHistory(ScriptedModel):
        """Says what comes next in its history, so that a branch says it again."""

        async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            said = sum(isinstance(message, AIMessage) for message in messages)
            self.replies = [script[said]]
            return await super()._agenerate(messages, *args, **kwargs)

    graph = create_agent(ByHistory(replies=script), [load, ask, close], checkpointer=tk.checkpointer)
    return graph, {"messages": [HumanMessage("Refund order A-17.")]}


def subgraphs(tk: threadkeep.Threadkeep, work: Work) -> tuple[Any, dict[str, Any]]:
    def check(name: str) -> Any:
        inner = StateGraph(JobState)
        inner.add_node("ask", lambda state: {"responses": [work.ask(name)]})
        inner.add_edge(START, "ask")
        return inner.compile()

    async def load(state: JobState) -> dict[str, Any]:
        return {"data": {"by": await work.load()}}

    def close(state: JobState) -> dict[str, Any]:
        return {"data": {"by": work.done("close")}}

    def nested(name: str) -> Callable[..., Any]:
        graph = check(name)

        async def run(state: JobState) -> dict[str, Any]:
            return {"responses": (await graph.ainvoke({"responses": []}))["responses"]}

        return run

    flow = StateGraph(JobState)
    flow.add_node("load", load)
    flow.add_node("fraud", nested("fraud"))
    flow.add_node("policy", nested("policy"))
    flow.add_node("close", close)
    flow.add_edge(START, "load")
    flow.add_edge("load", "fraud")
    flow.add_edge("load", "policy")
    flow.add_edge(["fraud", "policy"], "close")
    flow.add_edge("close", END)
    return flow.compile(checkpointer=tk.checkpointer), {"input_data": {"ticket": 7}}


def fan_out(tk: threadkeep.Threadkeep, work: Work) -> tuple[Any, dict[str, Any]]:
    """One node, sent to twice in one step, each time with what it has to ask."""

    async def load(state: JobState) -> dict[str, Any]:
        return {"data": {"by": await work.load()}}

    def ask(given: dict[str, Any]) -> dict[str, Any]:
        return {"responses": [work.ask(given["name"])]}

    def close(state: JobState) -> dict[str, Any]:
        return {"data": {"by": work.done("close")}}

    flow = StateGraph(JobState)
    flow.add_node("load", load)
    flow.add_node("ask", ask)
    flow.add_node("close", close)
    flow.add_edge(START, "load")
    flow.add_conditional_edges("load", lambda state: [Send("ask", {"name": name}) for name in CHECKS], ["ask"])
    flow.add_edge("ask", "close")
    flow.add_edge("close", END)
    return flow.compile(checkpointer=tk.checkpointer), {"input_data": {"ticket": 7}}


CHECKS = ("fraud", "policy")
FEWEST, MOST = 10, 40
"""Fewer and more writes of checkpoints than any of the jobs makes."""

SHAPES = {one.__name__: one for one in (functional, agent, subgraphs, fan_out)}


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def made(request: pytest.FixtureRequest, tk: threadkeep.Threadkeep) -> tuple[Any, dict[str, Any], Work]:
    work = Work()
    graph, given = request.param(tk, work)
    return graph, given, work


Made = tuple[Any, dict[str, Any], Work]


async def answered(tk: threadkeep.Threadkeep, graph: Any, run: Run, answer: str) -> Run:
    """Answer all that is asked, and what is asked then."""
    while run.status == "waiting":
        answers = {ask.ask_id: answer for ask in run.asks}
        run = await tk.runs.resume(graph, thread_id=run.thread_id, answers=answers)
    return run


class TestAnyGraph:
    @pytest.mark.parametrize("made", [agent, subgraphs, fan_out], indirect=True)
    async def test_parallel_questions_are_answered_by_id(self, tk: threadkeep.Threadkeep, made: Made):
        graph, given, work = made
        run = await tk.runs.start(graph, given, thread_id="j1")
        asks = {ask.value["check"]: ask.ask_id for ask in run.asks}
        assert (run.status, set(asks)) == ("waiting", {"fraud", "policy"})

        run = await tk.runs.resume(graph, thread_id="j1", answers={asks["policy"]: "fine"})
        assert [ask.value for ask in run.asks] == [{"check": "fraud"}]
        run = await tk.runs.resume(graph, "low", thread_id="j1")

        said = str(run.require_done())
        assert "fraud: low" in said
        assert "policy: fine" in said
        assert work.ran == ["load", "policy", "fraud", "close"]

    async def test_retrying_repeats_nothing_that_is_finished(self, tk: threadkeep.Threadkeep, made: Made):
        graph, given, work = made
        run = await tk.runs.start(graph, given, thread_id="j1")
        work.failing = {"close"}
        run = await answered(tk, graph, run, "ok")
        assert (run.status, str(run.error)) == ("failed", "close is down")

        work.failing = set()
        run = await tk.runs.retry(graph, thread_id="j1")

        assert run.status == "done"
        assert sorted(work.ran) == ["close", "fraud", "load", "policy"]

    async def test_cancelled_it_can_be_retried(self, tk: threadkeep.Threadkeep, made: Made):
        graph, given, work = made
        work.held = asyncio.Event()
        starting = asyncio.create_task(tk.runs.start(graph, given, thread_id="j1"))
        await work.reached.wait()

        assert await tk.runs.cancel(thread_id="j1")
        assert (await starting).status == "cancelled"
        work.held = None

        assert (await tk.runs.retry(graph, thread_id="j1")).status == "waiting"

    async def test_back_to_where_it_asked(self, tk: threadkeep.Threadkeep, made: Made):
        graph, given, _ = made
        run = await tk.runs.start(graph, given, thread_id="j1")
        asked = run.checkpoint_id
        await answered(tk, graph, run, "first")
        steps = await tk.runs.history(graph, thread_id="j1")
        assert asked in [step.checkpoint_id for step in steps]

        await tk.runs.fork(graph, thread_id="j1", checkpoint_id=str(asked))
        run = await tk.runs.retry(graph, thread_id="j1")
        run = await answered(tk, graph, run, "second")

        said = str(run.require_done())
        assert "fraud: second" in said
        assert "policy: second" in said
        assert "first" not in said


class TestAFunction:
    async def test_it_asks_one_question_at_a_time(self, tk: threadkeep.Threadkeep):
        """LangGraph ends an ``@entrypoint`` at the first of its tasks that asks; what is finished is not done again."""
        work = Work()
        graph, given = functional(tk, work)
        run = await tk.runs.start(graph, given, thread_id="j1")
        for name in ("fraud", "policy"):
            [ask] = run.asks
            assert ask.value == {"check": name}
            run = await tk.runs.resume(graph, thread_id="j1", answers={ask.ask_id: f"yes to {name}"})

        assert run.require_done() == {"answers": ["fraud: yes to fraud", "policy: yes to policy"]}
        assert work.ran == ["load", "fraud", "policy", "close"]

    async def test_what_it_returns_need_be_no_mapping(self, tk: threadkeep.Threadkeep):
        @entrypoint(checkpointer=tk.checkpointer)
        async def flow(given: dict[str, Any]) -> str:
            return f"ticket {given['ticket']}: {interrupt('refund?')}"

        run = await tk.runs.start(flow, {"ticket": 7}, thread_id="j1")
        assert run.values == {}
        run = await tk.runs.resume(flow, "yes", thread_id="j1")

        assert run.require_done() == {END: "ticket 7: yes"}


async def brought_to_its_end(tk: threadkeep.Threadkeep, graph: Any, given: dict[str, Any]) -> Run:
    """Go on with job ``j1`` wherever it stands, however often it is cut off."""
    run = await tk.runs.get(graph, thread_id="j1")
    while run.status != "done":
        if run.asks:
            run = await tk.runs.resume(graph, thread_id="j1", answers={ask.ask_id: "yes" for ask in run.asks})
        elif run.status == "new":
            run = await tk.runs.start(graph, given, thread_id="j1")
        else:
            run = await tk.runs.retry(graph, thread_id="j1")
    return run


def require_right(run: Run, ran: list[str]) -> None:
    """Everything was done, and at most what was in flight when it was cut off, twice."""
    said = str(run.values)
    assert all(f"{name}: yes" in said for name in CHECKS)
    times = Counter(ran)
    assert set(times) == {"load", "close", *CHECKS}
    twice = {name for name, number in times.items() if number == 2}
    assert max(times.values()) <= 2
    assert any(twice <= together for together in ({"load"}, set(CHECKS), {"close"})), times


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
class TestCutOff:
    """At writes of checkpoints, on every shape of a graph: what is finished is not done again."""

    @pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.soak)])
    @pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
    async def test_in_the_process(self, monkeypatch: pytest.MonkeyPatch, shape: Any, before: bool, every: int):
        """Before odd writes and after even ones in CI, so each write is the boundary of one."""
        number = 0
        for number in range(1 if before else every, MOST, every):
            async with threadkeep.open("memory://", owner="ana", embedder="none") as tk:
                work = Work()
                graph, given = shape(tk, work)
                with monkeypatch.context() as patch:
                    count = cancelled_by_checkpoint(number, patch, before=before)
                    run = await brought_to_its_end(tk, graph, given)

            require_right(run, work.ran)
            if count() < number:
                break
        assert FEWEST < number < MOST - 1, "nothing was cut off, or not everywhere"

    @pytest.mark.linux
    @pytest.mark.parametrize("every", [4, pytest.param(2, marks=pytest.mark.soak)])
    def test_with_its_process(self, tmp_path: Path, shape: Any, every: int):
        """Killed by ``SIGKILL`` after every fourth write, or every other; another process goes on."""

        def child(folder: Path, arm: Callable[[], None]) -> bool:
            def run() -> None:
                arm()
                asyncio.run(main(folder))

            return ended_well(forked(run))

        async def main(folder: Path) -> None:
            chosen = Settings.load(lease_seconds=0.05)
            url = f"sqlite:///{folder / 'jobs.sqlite3'}"
            async with threadkeep.open(url, owner="ana", embedder="none", settings=chosen) as tk:
                work = LoggedWork(folder / "ran")
                graph, given = shape(tk, work)
                run = await brought_to_its_end(tk, graph, given)
                (folder / "values").write_text(json.dumps(run.values, default=str))

        number = 0
        for number in range(1, MOST, every):
            folder = tmp_path / str(number)
            folder.mkdir()
            whole = child(folder, killed_by_checkpoint(number, before=False))
            if not whole:
                assert child(folder, lambda: None)

            values = json.loads((folder / "values").read_text())
            require_right(Run("j1", "done", values), (folder / "ran").read_text().split())
            if whole:
                break
        assert FEWEST < number < MOST - 1, "nothing was killed, or not everywhere"


class LoggedWork(Work):
    """Writes what ran to a file, which outlives the process."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def done(self, name: str) -> str:
        with self.path.open("a") as file:
            file.write(f"{name}\n")
        return name
