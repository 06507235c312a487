"""Runs a turn of the agent as a task: its text is an artifact, and its state follows the run."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from a2a.helpers.proto_helpers import new_data_part, new_task, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import TaskState
from typing_extensions import override

from threadkeep.a2a.messages import as_protocol_errors, get_caller, read_message
from threadkeep.a2a.tasks import RUN
from threadkeep.gateway.events import decode_events
from threadkeep.gateway.operations import Caller
from threadkeep.gateway.run_models import ChatRun, TurnRequest, describe_error
from threadkeep.gateway.runs import RunRegistry

_STATES: Final = {
    "done": TaskState.TASK_STATE_COMPLETED,
    "interrupted": TaskState.TASK_STATE_INPUT_REQUIRED,
    "cancelled": TaskState.TASK_STATE_CANCELED,
    "error": TaskState.TASK_STATE_FAILED,
}
"""The state of a task by the status of its run."""


class TurnExecutor(AgentExecutor):
    """Begins runs of this process for tasks."""

    def __init__(self, runs: RunRegistry) -> None:
        self._runs = runs

    @override
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        caller, message, task = get_caller(context.call_context), context.message, context.current_task
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        assert message is not None  # noqa: S101 - a task is executed for a message
        owner, (_, content) = caller.principal.owner, read_message(message)
        with as_protocol_errors():
            if task is None:
                run = await self._runs.begin(TurnRequest(owner, updater.context_id, content, speaker="agent"))
            else:
                run = await self._runs.resume(owner, str(task.metadata[RUN]), content)
        assert isinstance(run, ChatRun)  # noqa: S101 - only a request with a key returns an earlier run
        if task is None:
            task = new_task(updater.task_id, updater.context_id, TaskState.TASK_STATE_SUBMITTED, history=[message])
            task.status.timestamp.FromDatetime(run.created_at)
            task.metadata[RUN] = run.run_id
            await event_queue.enqueue_event(task)
        await self._relay(run, updater, caller)

    @override
    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()

    async def _relay(self, run: ChatRun, updater: TaskUpdater, caller: Caller) -> None:
        """Report the events of *run* until its end; what is learnt afterwards is not waited for."""
        await run.began.wait()
        await updater.update_status(TaskState.TASK_STATE_WORKING, metadata={RUN: run.run_id})  # this one, if it answers
        begun: set[str] = set()
        lost = False
        async for chunk in self._runs.follow(run):
            events = [*decode_events(chunk)]
            kinds = {kind for kind, _ in events}
            lost = lost or "reset" in kinds
            texts: defaultdict[str, str] = defaultdict(str)  # what the tokens of each message are together
            for kind, data in events:
                if kind == "token" and not lost:
                    texts[data["message_id"] or "reply"] += data["text"]
            for message_id, text in texts.items():
                await updater.add_artifact([new_text_part(text)], message_id, "reply", append=message_id in begun)
                begun.add(message_id)
            if kinds & {"done", "error", "reset"} and run.status != "running":
                break
        else:
            return  # the process ends; another one says so of the task
        if lost:  # events were dropped before they were read: the thread has the whole reply
            with as_protocol_errors():
                messages = await caller.tk.threads.messages(run.thread_id)
            for last in messages[-1:]:
                if last.role == "assistant":
                    await updater.add_artifact([new_text_part(last.text)], last.message_id or "reply", "reply")
        told = {"interrupts": run.events.interrupts} if run.status == "interrupted" else None
        told = told if run.failure is None else describe_error(run.failure)
        message = None if told is None else updater.new_agent_message([new_data_part(told)])
        await updater.update_status(_STATES[run.status], message)
