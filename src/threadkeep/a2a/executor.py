"""Runs a turn of the agent as a task: its text is an artifact, and its state follows the run."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from a2a.helpers.proto_helpers import new_data_part, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import Task, TaskState, TaskStatus
from a2a.utils.errors import UnsupportedOperationError
from google.protobuf.timestamp_pb2 import Timestamp
from typing_extensions import override

from threadkeep.a2a.messages import AgentTurn, as_protocol_errors, get_caller, read_message
from threadkeep.a2a.tasks import RUN
from threadkeep.errors import NothingToResumeError, RunNotFoundError
from threadkeep.gateway.events import Event, decode_events
from threadkeep.gateway.run_models import ChatRun, TurnRequest, describe_error

if TYPE_CHECKING:
    from a2a.server.events import EventQueue

    from threadkeep.client import Threadkeep
    from threadkeep.gateway.operations import Caller
    from threadkeep.gateway.runs import RunRegistry
    from threadkeep.identity import Owner


class TurnExecutor(AgentExecutor):
    """Begins runs for tasks.

    Args:
        runs: The runs of this process.
        callers: Gets the program for which this process works on a task; ``None``: that is not needed.
    """

    def __init__(self, runs: RunRegistry, callers: dict[str, Caller] | None = None) -> None:
        self._runs = runs
        self._callers = callers

    @override
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task_id, context_id = context.task_id or "", context.context_id or ""
        caller = get_caller(context.call_context)
        with as_protocol_errors():
            run = await self._begin(context, caller.principal.owner)
        if self._callers is not None:
            self._callers[task_id] = caller
        if context.current_task is None:
            await event_queue.enqueue_event(_submitted(context, run))
        await self._relay(run, TaskUpdater(event_queue, task_id, context_id), caller.tk)

    @override
    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        task, caller = context.current_task, get_caller(context.call_context)
        if task is not None and RUN in task.metadata:
            # A run that is not found has written nothing, or its thread was deleted.
            with as_protocol_errors(), suppress(RunNotFoundError):
                await self._runs.cancel(caller.principal.owner, str(task.metadata[RUN]))
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()

    async def _begin(self, context: RequestContext, owner: Owner) -> ChatRun:
        assert context.message is not None  # noqa: S101 - a task is executed for a message
        turn, context_id = read_message(context.message), context.context_id or ""
        assert isinstance(turn, AgentTurn)  # noqa: S101 - skills are answered before
        task = context.current_task
        if task is not None:
            if RUN not in task.metadata:
                raise NothingToResumeError("The task waits for no answer.", thread_id=context_id)
            run = await self._runs.resume(owner, str(task.metadata[RUN]), turn.answer)
        else:
            run = await self._runs.begin(TurnRequest(owner, context_id, turn.text, speaker="agent"))
        assert isinstance(run, ChatRun)  # noqa: S101 - only a request with a key returns an earlier run
        return run

    async def _relay(self, run: ChatRun, updater: TaskUpdater, tk: Threadkeep) -> None:
        """Report the events of *run* until its end; what is learnt afterwards is not waited for."""
        await run.began.wait()
        await updater.update_status(TaskState.TASK_STATE_WORKING, metadata={RUN: run.run_id})  # this one, if it answers
        begun: set[str] = set()
        lost = False
        async for chunk in self._runs.follow(run):
            events = [*decode_events(chunk)]
            lost = lost or any(kind == "reset" for kind, _ in events)
            for message_id, text in _texts([] if lost else events).items():
                await updater.add_artifact([new_text_part(text)], message_id, "reply", append=message_id in begun)
                begun.add(message_id)
            if any(kind in ("done", "error", "reset") for kind, _ in events) and run.status != "running":
                break
        else:
            return  # the process ends; another one says so of the task
        if lost:
            await _replace_artifact(run, updater, tk)
        await _end(run, updater)


async def _replace_artifact(run: ChatRun, updater: TaskUpdater, tk: Threadkeep) -> None:
    """Replace the text of a reply by what the thread has of it: events were dropped before they were read."""
    with as_protocol_errors():
        messages = await tk.threads.messages(run.thread_id)
    for last in messages[-1:]:
        if last.role == "assistant":
            await updater.add_artifact([new_text_part(last.text)], last.message_id or "reply", "reply")


def _texts(events: Iterable[Event]) -> dict[str, str]:
    """Return the texts of the tokens, which are joined, by the ids of their messages."""
    texts: dict[str, str] = {}
    for kind, data in events:
        if kind == "token":
            message_id = data["message_id"] or "reply"
            texts[message_id] = texts.get(message_id, "") + data["text"]
    return texts


async def _end(run: ChatRun, updater: TaskUpdater) -> None:
    """Report the state in which *run* has ended."""
    if run.failure is not None:
        await updater.failed(updater.new_agent_message([new_data_part(describe_error(run.failure))]))
    elif run.status == "interrupted":
        asked = {"interrupts": run.events.interrupts}
        await updater.requires_input(updater.new_agent_message([new_data_part(asked)]))
    elif run.status == "cancelled":
        await updater.cancel()
    elif run.status == "done":
        await updater.complete()
    else:
        raise UnsupportedOperationError("The turn has ended in a way that no task has.")


def _submitted(context: RequestContext, run: ChatRun) -> Task:
    now = Timestamp()
    now.FromDatetime(run.created_at)
    status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED, timestamp=now)
    history = [] if context.message is None else [context.message]
    task = Task(id=context.task_id, context_id=context.context_id, status=status, history=history)
    task.metadata[RUN] = run.run_id
    return task
