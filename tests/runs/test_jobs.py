"""``tk.runs``: jobs that wait, fail, are told more, are cancelled, and go back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

import threadkeep
from threadkeep import functions
from threadkeep.errors import (
    ConflictError,
    InvalidInputError,
    NothingToResumeError,
    OwnerMismatchError,
    RunUnfinishedError,
    ThreadBusyError,
)
from threadkeep.langgraph.runs import JobState


@pytest.fixture
def tk() -> Iterator[threadkeep.Threadkeep]:
    with threadkeep.open("memory://", owner="ana", embedder="none") as opened:
        yield opened


class Job:
    """Two checks that ask side by side, then a last step; it counts what runs and fails when told to."""

    def __init__(self, tk: threadkeep.Threadkeep) -> None:
        self.ran: list[str] = []
        self.failing: set[str] = set()
        self.reached = asyncio.Event()
        self.held: asyncio.Event | None = None
        flow = StateGraph(JobState)
        for node in (self.load, self.fraud, self.policy, self.close):
            flow.add_node(node.__name__, node)
        flow.add_edge(START, "load")
        flow.add_edge("load", "fraud")
        flow.add_edge("load", "policy")
        flow.add_edge(["fraud", "policy"], "close")
        flow.add_edge("close", END)
        self.graph: Any = flow.compile(checkpointer=tk.checkpointer)

    async def load(self, state: JobState) -> dict[str, Any]:
        self._run("load")
        if self.held is not None:
            self.reached.set()
            await self.held.wait()
        return {"data": {"order": "A-17"}, "extras": {"by": "load"}}

    async def fraud(self, state: JobState) -> dict[str, Any]:
        answer = interrupt({"check": "fraud", "knows": state.get("extras")})
        self._run("fraud")
        return {"responses": [{"fraud": answer}], "extras": {"by": "fraud"}}

    async def policy(self, state: JobState) -> dict[str, Any]:
        answer = interrupt({"check": "policy"})
        self._run("policy")
        return {"responses": [{"policy": answer}], "extras": {"by": "policy"}}

    async def close(self, state: JobState) -> dict[str, Any]:
        self._run("close")
        return {"responses": [{"closed": True}]}

    def _run(self, node: str) -> None:
        self.ran.append(node)
        if node in self.failing:
            msg = f"{node} is down"
            raise ValueError(msg)


@pytest.fixture
def job(tk: threadkeep.Threadkeep) -> Job:
    return Job(tk)


async def started(tk: threadkeep.Threadkeep, job: Job, thread_id: str = "j1") -> Any:
    return await tk.runs.start(job.graph, {"input_data": {"ticket": 7}}, thread_id=thread_id)


class TestAnswer:
    async def test_parallel_questions_are_answered_by_id(self, tk: threadkeep.Threadkeep, job: Job):
        run = await started(tk, job)
        assert run.status == "waiting"
        asks = {ask.node: ask for ask in run.asks}
        assert asks["policy"].value == {"check": "policy"}

        run = await tk.runs.resume(job.graph, thread_id="j1", answers={asks["policy"].ask_id: "fine"})
        assert [ask.node for ask in run.asks] == ["fraud"]
        run = await tk.runs.resume(job.graph, "low", thread_id="j1")

        assert run.require_done()["responses"] == [{"fraud": "low"}, {"policy": "fine"}, {"closed": True}]
        assert job.ran == ["load", "policy", "fraud", "close"]

    async def test_nodes_that_write_one_field_at_once_do_not_collide(self, tk: threadkeep.Threadkeep, job: Job):
        run = await started(tk, job)

        run = await tk.runs.resume(job.graph, thread_id="j1", answers={ask.ask_id: "ok" for ask in run.asks})

        assert run.values["extras"] in ({"by": "fraud"}, {"by": "policy"})
        assert len(run.values["responses"]) == 3

    async def test_one_answer_for_two_questions_is_refused(self, tk: threadkeep.Threadkeep, job: Job):
        await started(tk, job)

        with pytest.raises(InvalidInputError, match="2 questions are open"):
            await tk.runs.resume(job.graph, "yes", thread_id="j1")

    async def test_a_question_is_answered_once(self, tk: threadkeep.Threadkeep, job: Job):
        run = await started(tk, job)
        answers = {run.asks[0].ask_id: "ok"}
        await tk.runs.resume(job.graph, thread_id="j1", answers=answers)

        with pytest.raises(NothingToResumeError, match="not open"):
            await tk.runs.resume(job.graph, thread_id="j1", answers=answers)

    async def test_nothing_to_answer(self, tk: threadkeep.Threadkeep, job: Job):
        with pytest.raises(NothingToResumeError, match="The job is new"):
            await tk.runs.resume(job.graph, "yes", thread_id="j1")

    async def test_no_answer_at_all(self, tk: threadkeep.Threadkeep, job: Job):
        await started(tk, job)

        with pytest.raises(InvalidInputError, match="No answer"):
            await tk.runs.resume(job.graph, thread_id="j1", answers={})

    async def test_answers_without_ids_are_refused(self, tk: threadkeep.Threadkeep, job: Job):
        await started(tk, job)
        text: Any = "approved"

        with pytest.raises(
            InvalidInputError, match="answers must be a mapping of ids of questions to answers, got str"
        ):
            await tk.runs.resume(job.graph, thread_id="j1", answers=text)


class TestRetry:
    async def test_no_finished_node_runs_again(self, tk: threadkeep.Threadkeep, job: Job):
        job.failing = {"policy"}
        run = await started(tk, job)
        run = await tk.runs.resume(job.graph, thread_id="j1", answers={ask.ask_id: "ok" for ask in run.asks})
        assert run.status == "failed"
        assert "policy is down" in str(run.error)

        job.failing = set()
        run = await tk.runs.retry(job.graph, thread_id="j1")

        assert run.status == "done"
        assert job.ran == ["load", "fraud", "policy", "policy", "close"]

    async def test_a_failed_job_says_why(self, tk: threadkeep.Threadkeep, job: Job):
        job.failing = {"load"}
        run = await started(tk, job)

        with pytest.raises(ValueError, match="load is down"):
            run.require_done()
        assert (await tk.runs.get(job.graph, thread_id="j1")).status == "failed"

    async def test_one_that_waits_keeps_waiting(self, tk: threadkeep.Threadkeep, job: Job):
        await started(tk, job)

        run = await tk.runs.retry(job.graph, thread_id="j1")

        assert run.status == "waiting"
        assert job.ran == ["load"]
        with pytest.raises(RunUnfinishedError, match="waiting"):
            run.require_done()

    async def test_one_that_was_never_started(self, tk: threadkeep.Threadkeep, job: Job):
        with pytest.raises(NothingToResumeError):
            await tk.runs.retry(job.graph, thread_id="j1")


class TestStart:
    async def test_a_job_is_started_once(self, tk: threadkeep.Threadkeep, job: Job):
        await started(tk, job)

        with pytest.raises(ConflictError, match="started before and is waiting"):
            await started(tk, job)

    async def test_a_graph_needs_a_checkpointer(self, tk: threadkeep.Threadkeep, job: Job):
        flow = StateGraph(JobState)
        flow.add_node("one", lambda state: {})
        flow.add_edge(START, "one")

        with pytest.raises(InvalidInputError, match="checkpointer"):
            await tk.runs.start(flow.compile(), {}, thread_id="j1")

    async def test_a_job_is_its_owners(self, tk: threadkeep.Threadkeep, job: Job):
        await started(tk, job)

        with pytest.raises(OwnerMismatchError):
            await tk.runs.get(job.graph, thread_id="j1", owner="bob")
        with pytest.raises(OwnerMismatchError):
            await tk.runs.resume(job.graph, "yes", thread_id="j1", owner="bob")

    def test_without_a_loop(self, tk: threadkeep.Threadkeep):
        job = Job(tk)

        run = tk.sync.runs.start(job.graph, {}, thread_id="j1")
        run = tk.sync.runs.resume(job.graph, thread_id="j1", answers={ask.ask_id: "ok" for ask in run.asks})

        assert run.status == "done"


class TestMoreContext:
    async def test_paused_job_gets_another_message(self, tk: threadkeep.Threadkeep, job: Job):
        """Who waits sees the new information, and asks anew with it."""
        await started(tk, job)

        run = await tk.runs.resume_with_context(job.graph, {"extras": {"customer": "gold"}}, thread_id="j1")

        asks = {ask.node: ask for ask in run.asks}
        assert asks["fraud"].value == {"check": "fraud", "knows": {"customer": "gold"}}
        assert job.ran == ["load"]

    async def test_with_the_answers_at_once(self, tk: threadkeep.Threadkeep, job: Job):
        run = await started(tk, job)
        answers = {ask.ask_id: "ok" for ask in run.asks}

        run = await tk.runs.resume_with_context(job.graph, {"data": {"note": "gold"}}, thread_id="j1", answers=answers)

        assert run.status == "done"
        assert run.values["data"] == {"note": "gold"}

    async def test_a_job_that_is_done_takes_none(self, tk: threadkeep.Threadkeep, job: Job):
        with pytest.raises(NothingToResumeError):
            await tk.runs.resume_with_context(job.graph, {"extras": {}}, thread_id="j1")


class TestTwoAtOnce:
    async def test_the_second_waits_and_finds_what_the_first_left(self, tk: threadkeep.Threadkeep, job: Job):
        """It is judged by what stands there when its turn has come, not by what stood there when it came."""
        job.held = asyncio.Event()
        first = asyncio.create_task(started(tk, job))
        await job.reached.wait()
        second = asyncio.create_task(started(tk, job))
        await asyncio.sleep(0.05)

        job.held.set()

        assert (await first).status == "waiting"
        with pytest.raises(ConflictError, match="started before and is waiting"):
            await second
        assert job.ran == ["load"]

    async def test_of_two_answers_one_is_taken(self, tk: threadkeep.Threadkeep, job: Job):
        run = await started(tk, job)
        answers = {ask.ask_id: "ok" for ask in run.asks}

        ended = await asyncio.gather(
            *(tk.runs.resume(job.graph, thread_id="j1", answers=answers) for _ in range(2)), return_exceptions=True
        )

        assert [type(one).__name__ for one in ended] == ["Run", "NothingToResumeError"]
        assert job.ran == ["load", "fraud", "policy", "close"]

    @pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
    async def test_the_second_stops_the_first(self, tk: threadkeep.Threadkeep, job: Job, strategy: Any):
        job.held = asyncio.Event()
        first = asyncio.create_task(started(tk, job))
        await job.reached.wait()
        held, job.held = job.held, None

        second = asyncio.create_task(
            tk.runs.retry(job.graph, thread_id="j1", multitask_strategy=strategy)
            if strategy == "interrupt"
            else tk.runs.start(job.graph, {}, thread_id="j1", multitask_strategy=strategy)
        )

        assert (await second).status == "waiting"
        assert (await first).status != "done"
        assert job.ran == ["load", "load"]
        held.set()


class TestCancel:
    async def test_at_once_in_this_process(self, tk: threadkeep.Threadkeep, job: Job):
        job.held = asyncio.Event()
        starting = asyncio.create_task(started(tk, job))
        await job.reached.wait()
        assert (await tk.runs.get(job.graph, thread_id="j1")).status == "running"
        with pytest.raises(ThreadBusyError, match="at work"):
            await tk.runs.retry(job.graph, thread_id="j1", multitask_strategy="reject")

        assert await tk.runs.cancel(thread_id="j1")

        assert (await starting).status == "cancelled"
        job.held = None
        assert (await tk.runs.retry(job.graph, thread_id="j1")).status == "waiting"
        assert not await tk.runs.cancel(thread_id="j1")

    async def test_after_its_step_in_another(self, tk: threadkeep.Threadkeep, job: Job):
        """Another door's registry does not hold it: the wish is kept, and the run looks for it after each step."""
        job.held = asyncio.Event()
        starting = asyncio.create_task(started(tk, job))
        await job.reached.wait()

        assert await tk.for_owner("ana").runs.cancel(thread_id="j1")
        job.held.set()

        assert (await starting).status == "cancelled"
        assert job.ran == ["load"]

    async def test_a_caller_that_gives_up_leaves_it_cancelled(self, tk: threadkeep.Threadkeep, job: Job):
        job.held = asyncio.Event()
        starting = asyncio.create_task(started(tk, job))
        await job.reached.wait()

        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

        assert (await tk.runs.get(job.graph, thread_id="j1")).status == "cancelled"


class TestFork:
    async def test_back_to_a_checkpoint(self, tk: threadkeep.Threadkeep, job: Job):
        run = await started(tk, job)
        await tk.runs.resume(job.graph, thread_id="j1", answers={ask.ask_id: "ok" for ask in run.asks})
        steps = await tk.runs.history(job.graph, thread_id="j1")
        before = next(step for step in steps if set(step.next_nodes) == {"fraud", "policy"})

        run = await tk.runs.fork(job.graph, thread_id="j1", checkpoint_id=before.checkpoint_id)
        assert run.status == "paused"
        run = await tk.runs.retry(job.graph, thread_id="j1")
        assert {ask.node for ask in run.asks} == {"fraud", "policy"}
        run = await tk.runs.resume(job.graph, thread_id="j1", answers={ask.ask_id: "other" for ask in run.asks})

        assert run.require_done()["responses"] == [{"fraud": "other"}, {"policy": "other"}, {"closed": True}]

    async def test_with_a_change(self, tk: threadkeep.Threadkeep, job: Job):
        await started(tk, job)
        steps = await tk.runs.history(job.graph, thread_id="j1")
        before = next(step for step in steps if set(step.next_nodes) == {"fraud", "policy"})

        await tk.runs.fork(
            job.graph,
            thread_id="j1",
            checkpoint_id=before.checkpoint_id,
            state={"extras": {"vip": True}},
            as_node="load",
        )
        run = await tk.runs.retry(job.graph, thread_id="j1")

        assert next(ask for ask in run.asks if ask.node == "fraud").value["knows"] == {"vip": True}

    async def test_one_that_is_not_there(self, tk: threadkeep.Threadkeep, job: Job):
        await started(tk, job)

        with pytest.raises(InvalidInputError, match="no such checkpoint"):
            await tk.runs.fork(job.graph, thread_id="j1", checkpoint_id="1ef00000-0000-6000-8000-000000000000")


class TestOnce:
    async def test_an_effect_happens_once_however_often_its_node_runs(self, tk: threadkeep.Threadkeep):
        done: list[str] = []

        async def pay(state: JobState) -> dict[str, Any]:
            paid = await tk.runs.once("pay", lambda key: done.append(key) or len(done))
            if len(done) < 2 and not state.get("extras"):
                interrupt("sure?")
            return {"responses": [{"paid": paid}]}

        flow = StateGraph(JobState)
        flow.add_node("pay", pay)
        flow.add_edge(START, "pay")
        graph = flow.compile(checkpointer=tk.checkpointer)

        await tk.runs.start(graph, {}, thread_id="j1")
        run = await tk.runs.resume(graph, True, thread_id="j1")
        other = await tk.runs.start(graph, {"extras": {"sure": True}}, thread_id="j2")

        assert run.values["responses"] == [{"paid": 1}]
        assert other.values["responses"] == [{"paid": 2}]
        assert len(set(done)) == 2


class TestFunctions:
    """The documents' names."""

    async def test_resume_retry_and_more_context(self, tk: threadkeep.Threadkeep, job: Job):
        run = await started(tk, job)
        run = await functions.resume_with_context(tk, job.graph, "j1", {"extras": {"vip": True}})
        job.failing = {"close"}

        run = await functions.resume_job(tk, job.graph, "j1", {ask.ask_id: "ok" for ask in run.asks})
        assert run.status == "failed"
        job.failing = set()

        assert (await functions.retry_job(tk, job.graph, "j1")).status == "done"

    async def test_the_only_question_takes_any_answer(self, tk: threadkeep.Threadkeep, job: Job):
        run = await started(tk, job)
        await functions.resume_job(tk, job.graph, "j1", {run.asks[0].ask_id: "ok"})

        run = await functions.resume_job(tk, job.graph, "j1", {"any": "dict"})

        assert {"any": "dict"} in [value for response in run.values["responses"] for value in response.values()]
