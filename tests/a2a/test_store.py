"""The task store, against the SDK's own one: the same calls have the same answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryTaskStore, TaskStore
from a2a.types.a2a_pb2 import ListTasksRequest, Task, TaskState, TaskStatus
from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import MessageToDict
from google.protobuf.timestamp_pb2 import Timestamp

import threadkeep
from tests.gateway.world import owner_of
from threadkeep.a2a import tasks
from threadkeep.a2a.messages import CALLER
from threadkeep.a2a.tasks import RUN, StoredTasks
from threadkeep.errors import ScopeRequiredError
from threadkeep.gateway.operations import Caller
from threadkeep.gateway.principals import USER_SCOPES, Principal
from threadkeep.identity import Owner

STATES = (
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_WORKING,
    TaskState.TASK_STATE_INPUT_REQUIRED,
    TaskState.TASK_STATE_CANCELED,
)


DEAD = "run 5"
"""No process works on it."""


def context(user: str, tk: threadkeep.Threadkeep, scopes: frozenset[str] = USER_SCOPES) -> ServerCallContext:
    """Return the context of a call of a program that acts for a user."""
    principal = Principal(owner_of(user), scopes, user)
    named: Any = SimpleNamespace(user_name=user, is_authenticated=True)
    caller = Caller(tk.for_owner(principal.owner), principal, "agent")
    return ServerCallContext.model_construct(user=named, state={CALLER: caller})


def stored_tasks() -> StoredTasks:
    async def at_work(owner: Owner, run_id: str) -> bool:
        del owner
        return run_id != DEAD

    return StoredTasks(at_work)


def task(number: int, state: int = TaskState.TASK_STATE_COMPLETED, *, context_id: str = "c") -> Task:
    status = TaskStatus(state=TaskState.Name(state), timestamp=Timestamp(seconds=1_700_000_000 + number // 2))
    made = Task(id=f"task-{number}", context_id=context_id, status=status)
    made.metadata[RUN] = f"run {number}"
    made.artifacts.add(artifact_id="a", name="reply").parts.add(text="é \x01 " + "x" * number)
    made.history.add(message_id="m").parts.add(text="Hello.")
    return made


async def both_answers(stores: list[TaskStore], call: Any) -> Any:
    """Return what both stores answer."""
    answers: list[Any] = []
    for store in stores:
        try:
            answers.append(await call(store))
        except InvalidParamsError as error:
            answers.append(type(error))
    assert answers[0] == answers[1]
    return answers[0]


class TestStore:
    async def test_same_as_the_sdks(self):
        """Saved, replaced, fetched, filtered, paged and deleted; each user's apart."""
        async with threadkeep.open("memory://") as tk:
            ana, bo = context("ana", tk), context("bo", tk)
            stores: list[TaskStore] = [stored_tasks(), InMemoryTaskStore()]
            for store in stores:
                for number in range(12):
                    made = task(number, STATES[number % 4], context_id="c" if number % 3 else "d")
                    await store.save(made, ana if number < 10 else bo)
                    made.metadata["changed"] = "after it was saved"
                await store.save(task(3, TaskState.TASK_STATE_FAILED), ana)

            for task_id in ("task-1", "task-3", "task-10", "task-99", "", "x" * 100_000):
                for who in (ana, bo):
                    await both_answers(stores, lambda store, one=task_id, who=who: store.get(one, who))
            for asked in (
                ListTasksRequest(),
                ListTasksRequest(context_id="d"),
                ListTasksRequest(context_id="none"),
                ListTasksRequest(status=TaskState.TASK_STATE_WORKING),
                ListTasksRequest(status_timestamp_after=Timestamp(seconds=1_700_000_003)),
                ListTasksRequest(page_token="made-up"),
            ):
                for who in (ana, bo):
                    await both_answers(stores, lambda store, one=asked, who=who: store.list(one, who))
            token, found = "", list[str]()
            while True:
                asked = ListTasksRequest(page_size=3, page_token=token)
                page = await both_answers(stores, lambda store, one=asked: store.list(one, ana))
                found += [one.id for one in page.tasks]
                token = page.next_page_token
                if not token:
                    break
            for task_id in ("task-1", "task-10", "task-99"):
                await both_answers(stores, lambda store, one=task_id: store.delete(one, ana))
            left = await both_answers(stores, lambda store: store.list(ListTasksRequest(), ana))
            theirs = await both_answers(stores, lambda store: store.get("task-10", bo))

        assert sorted(found) == sorted(f"task-{number}" for number in range(10))
        assert (left.total_size, theirs.id) == (9, "task-10")

    async def test_another_process_reads_it(self, tmp_path: Any):
        """A finished task is there for every process, and a state while it runs; erasing the owner removes them."""
        url = f"sqlite:///{tmp_path / 'memory.db'}"
        async with threadkeep.open(url) as one, threadkeep.open(url) as other:
            await stored_tasks().save(task(1), context("ana", one))
            await stored_tasks().save(task(2, TaskState.TASK_STATE_WORKING), context("ana", one))
            elsewhere = stored_tasks()
            found = [await elsewhere.get(f"task-{number}", context("ana", other)) for number in (1, 2)]
            await one.owners.erase(owner_of("ana"))
            erased = await elsewhere.get("task-1", context("ana", other))

        assert found == [task(1), task(2, TaskState.TASK_STATE_WORKING)]
        assert erased is None

    async def test_a_task_without_a_process_has_failed(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
        """The process was killed: the next one that reads the task says so, and keeps it; others go on."""
        monkeypatch.setattr(tasks, "_ENDING_SECONDS", 0.01)
        url = f"sqlite:///{tmp_path / 'memory.db'}"
        now = Timestamp()
        now.GetCurrentTime()
        async with threadkeep.open(url) as one, threadkeep.open(url) as other:
            killed, ana, there = stored_tasks(), context("ana", one), context("ana", other)
            await killed.save(task(5, TaskState.TASK_STATE_WORKING), ana)
            await killed.save(task(6, TaskState.TASK_STATE_WORKING), ana)
            waiting = task(5, TaskState.TASK_STATE_SUBMITTED)
            waiting.id = "waiting"
            waiting.status.timestamp.CopyFrom(now)
            await killed.save(waiting, ana)
            elsewhere = stored_tasks()
            listed = {one.id: one.status.state for one in (await elsewhere.list(ListTasksRequest(), there)).tasks}
            failed = await stored_tasks().get("task-5", there)

        assert listed == {
            "task-5": TaskState.TASK_STATE_FAILED,
            "task-6": TaskState.TASK_STATE_WORKING,
            "waiting": TaskState.TASK_STATE_SUBMITTED,
        }
        assert failed is not None
        assert MessageToDict(failed.status.message.parts[0].data)["code"] == "restarting"
        assert failed.artifacts == task(5).artifacts

    async def test_scope(self):
        async with threadkeep.open("memory://") as tk:
            with pytest.raises(ScopeRequiredError):
                await stored_tasks().get("task-1", context("ana", tk, frozenset({"memory:read"})))
