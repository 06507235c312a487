"""``tk.runs``: starts, resumes, retries, cancels and forks jobs on any compiled graph with a checkpointer."""

from __future__ import annotations

import asyncio
import inspect
import operator
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, TypedDict, TypeVar, cast

from langchain_core.messages import AnyMessage
from langgraph.config import get_config
from langgraph.constants import END
from langgraph.graph.message import add_messages
from langgraph.types import Command

from threadkeep.checkpoints.head import thread_id_from
from threadkeep.checkpoints.lease_waits import STRATEGY
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.errors import ConflictError, InvalidInputError, NothingToResumeError, ThreadMovedOnError
from threadkeep.identity import claimed_owner
from threadkeep.ids import ThreadId
from threadkeep.runs import Ask, Run, RunStatus, Step

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from threadkeep.checkpoints.head import Strategy
    from threadkeep.container import Container, Services
    from threadkeep.identity import Owner, OwnerScope

T = TypeVar("T")

_NOTHING: Final = object()

_job_epoch: ContextVar[str | None] = ContextVar("threadkeep_job_epoch", default=None)
"""The epoch of the owner when the job of this context began."""


def last_value(_: Any, new: Any) -> Any:
    """Let the last writer win; of parallel nodes that is the one that the graph runs last."""
    return new


class JobState(TypedDict, total=False):
    """What the nodes of a job read and write.

    Attributes:
        messages: The conversation; grows.
        extras: What one node hands to another; the last value wins.
        responses: What agents answered; grows, from parallel nodes, too.
        input_data: What the job was given; the last value wins.
        data: What tools and models brought; the last value wins.
        execution_variables: ``org_id``, ``workflow_id``, ``ticket_id``, the customer; the last value wins.
    """

    messages: Annotated[list[AnyMessage], add_messages]
    extras: Annotated[dict[str, Any], last_value]
    responses: Annotated[list[dict[str, Any]], operator.add]
    input_data: Annotated[dict[str, Any], last_value]
    data: Annotated[dict[str, Any], last_value]
    execution_variables: Annotated[dict[str, Any], last_value]


class RunService:
    """Jobs of an owner. A job is a thread; its id is the thread's.

    A method that runs a graph does so on the caller's loop and returns when the job waits, is done, or
    has failed: what a node raises is in the run's ``error``. Every step is on disk before the next one
    begins, so another process can go on where this one was killed.
    """

    def __init__(self, app: Container, scope: OwnerScope) -> None:
        self._app = app
        self._scope = scope
        self._running: dict[tuple[Owner, ThreadId], asyncio.Task[Any]] = {}
        self._stopped: set[tuple[Owner, ThreadId]] = set()

    async def start(
        self,
        graph: Any,
        state: Mapping[str, Any],
        *,
        thread_id: str,
        owner: str | Owner | None = None,
        context: Any = None,
        config: Mapping[str, Any] | None = None,
        multitask_strategy: Strategy | None = None,
    ) -> Run:
        """Start a job with *state* as its input.

        Args:
            graph: Compiled with a checkpointer.
            state: The graph's input.
            thread_id: The job's id.
            owner: The owner of the job.
            context: The graph's run-time context.
            config: Further fields for LangGraph's config, e.g. ``recursion_limit``.
            multitask_strategy: What becomes of it where the job is at work, here or elsewhere: ``enqueue`` waits,
                ``reject`` raises, ``interrupt`` and ``rollback`` stop the other; ``None``: the setting.

        Raises:
            ConflictError: The job was started before and is not done: resume or retry it.
            InvalidInputError: The graph has no checkpointer.
        """
        owner, named = await self._mine(owner, thread_id)
        async with self._hold_lease(graph, owner, named, multitask_strategy) as lease:
            before = await self.get(graph, thread_id=named, owner=owner)
            if before.status not in ("new", "done"):
                msg = f"The job was started before and is {before.status}; resume it, or retry it."
                raise ConflictError(msg, thread_id=thread_id, status=before.status)
            return await self._drive(graph, dict(state), owner, named, context, config, lease)

    async def resume(
        self,
        graph: Any,
        answer: Any = _NOTHING,
        *,
        thread_id: str,
        answers: Mapping[str, Any] | None = None,
        owner: str | Owner | None = None,
        context: Any = None,
        config: Mapping[str, Any] | None = None,
        multitask_strategy: Strategy | None = None,
    ) -> Run:
        """Answer what a job waits for; it goes on exactly where it stopped.

        Args:
            graph: As for :meth:`start`.
            answer: The answer, where one question is open.
            thread_id: The job's id.
            answers: Answers by the ids of their questions, where several are open; those that are left
                out stay open.
            owner: The owner of the job.
            context: The graph's run-time context.
            config: Further fields for LangGraph's config.
            multitask_strategy: As for :meth:`start`.

        Raises:
            NothingToResumeError: Nothing is asked; or what is answered was answered already.
            InvalidInputError: Several questions are open and no ids were given.
        """
        owner, named = await self._mine(owner, thread_id)
        async with self._hold_lease(graph, owner, named, multitask_strategy) as lease:
            resume = await self._resume_of(graph, named, owner, answer, answers)
            return await self._drive(graph, Command(resume=resume), owner, named, context, config, lease)

    async def resume_with_context(
        self,
        graph: Any,
        state: Mapping[str, Any],
        *,
        thread_id: str,
        answers: Mapping[str, Any] | None = None,
        owner: str | Owner | None = None,
        context: Any = None,
        config: Mapping[str, Any] | None = None,
        multitask_strategy: Strategy | None = None,
    ) -> Run:
        """Put new information into the state of a paused job, and let it go on: who waits sees it and may ask anew.

        Args:
            graph: As for :meth:`start`.
            state: What the graph's fields are given, each by its own rule.
            thread_id: The job's id.
            answers: Answers to questions, by their ids, for the same step.
            owner: The owner of the job.
            context: The graph's run-time context.
            config: Further fields for LangGraph's config.
            multitask_strategy: As for :meth:`start`.

        Raises:
            NothingToResumeError: The job is done, or was never started.
        """
        owner, named = await self._mine(owner, thread_id)
        async with self._hold_lease(graph, owner, named, multitask_strategy) as lease:
            standing = await self.get(graph, thread_id=named, owner=owner)
            if not standing.next_nodes:
                raise _nothing(named, standing.status)
            command: Command[Any] = Command(update=dict(state))
            if answers:
                resume = await self._resume_of(graph, named, owner, _NOTHING, answers)
                command = Command(update=dict(state), resume=resume)
            return await self._drive(graph, command, owner, named, context, config, lease)

    async def retry(
        self,
        graph: Any,
        *,
        thread_id: str,
        owner: str | Owner | None = None,
        context: Any = None,
        config: Mapping[str, Any] | None = None,
        multitask_strategy: Strategy | None = None,
    ) -> Run:
        """Let a job that failed or was cut off go on from its last good checkpoint; no finished node runs again.

        A job that waits for an answer keeps waiting, and one that is done stays so.

        Raises:
            NothingToResumeError: The job was never started.
        """
        owner, named = await self._mine(owner, thread_id)
        async with self._hold_lease(graph, owner, named, multitask_strategy) as lease:
            standing = await self.get(graph, thread_id=named, owner=owner)
            if standing.checkpoint_id is None:
                raise _nothing(named, "unknown")
            if standing.status in ("done", "waiting"):
                return standing
            return await self._drive(graph, None, owner, named, context, config, lease)

    async def get(self, graph: Any, *, thread_id: str, owner: str | Owner | None = None) -> Run:
        """Return how a job stands; without a checkpoint it was never started, and its ``checkpoint_id`` is ``None``."""
        owner, named = await self._mine(owner, thread_id)
        self._require_checkpointer(graph)
        snapshot = await graph.aget_state(self._config(owner, named))
        noted = (await self._app.call(lambda services: services.runs.noted(named, owner=owner))).get("status")
        return _run_of(named, snapshot, noted, running=(owner, named) in self._running)

    async def cancel(self, *, thread_id: str, owner: str | Owner | None = None) -> bool:
        """Stop a job: at once where it runs in this process, else after the step that it is at.

        Its checkpoints stay, so it can be retried.

        Returns:
            Whether it was running.
        """
        owner, named = await self._mine(owner, thread_id)
        task = self._running.get((owner, named))
        if task is not None:
            task.get_loop().call_soon_threadsafe(task.cancel)
            return True
        return await self._app.call(lambda services: services.runs.request_cancel(named, owner=owner))

    async def history(
        self, graph: Any, *, thread_id: str, owner: str | Owner | None = None, limit: int | None = None
    ) -> list[Step]:
        """Return the checkpoints of a job, newest first."""
        owner, named = await self._mine(owner, thread_id)
        self._require_checkpointer(graph)
        snapshots = graph.aget_state_history(self._config(owner, named), limit=limit)
        return [_step_of(snapshot) async for snapshot in snapshots]

    async def fork(
        self,
        graph: Any,
        *,
        thread_id: str,
        checkpoint_id: str,
        state: Mapping[str, Any] | None = None,
        as_node: str | None = None,
        owner: str | Owner | None = None,
    ) -> Run:
        """Go back to a checkpoint of a job, with *state* changed there; what came after it stays in the history.

        Nothing runs yet: :meth:`retry` lets it go on.

        Args:
            graph: As for :meth:`start`.
            thread_id: The job's id.
            checkpoint_id: One of :meth:`history`.
            state: What the graph's fields are given.
            as_node: The node that is taken to have written *state*; ``None``: the one that wrote last.
            owner: The owner of the job.

        Raises:
            InvalidInputError: The job has no such checkpoint.
        """
        owner, named = await self._mine(owner, thread_id)
        self._require_checkpointer(graph)
        snapshot = await graph.aget_state(self._config(owner, named, checkpoint_id=checkpoint_id))
        if snapshot.created_at is None:
            msg = "The job has no such checkpoint; history() lists them."
            raise InvalidInputError(msg, thread_id=thread_id, checkpoint_id=checkpoint_id)
        epoch = await self._app.call(lambda services: services.runs.epoch(owner))
        async with self._hold_lease(graph, owner, named, None):
            if state:
                await graph.aupdate_state(snapshot.config, dict(state), as_node=as_node)
            else:
                await graph.aupdate_state(snapshot.config, None, as_node="__copy__")
            await self._note(owner, named, "paused", epoch)
            return await self.get(graph, thread_id=named, owner=owner)

    async def once(self, key: str, effect: Callable[[str], Awaitable[T] | T]) -> T:
        """Do a side effect of a node once, however often the node runs: for refunds, mails, tickets.

        An effect that is known to have happened is not repeated, and its result is returned. If the process was killed
        in the middle of it, it is repeated with the same idempotency key: the service that performs it must check that.

        Args:
            key: Tells the job's effects apart, e.g. ``"refund"``; the same each time the node runs.
            effect: Gets the idempotency key, and returns a JSON value.
        """
        config = get_config()
        owner = self._scope.resolve(claimed_owner(config.get("configurable", {})))
        named = thread_id_from(config.get("configurable", {}).get("thread_id"))
        epoch = _job_epoch.get()
        begun = await self._app.call(
            lambda services: services.runs.begin_effect(key, owner=owner, thread_id=named, epoch=epoch)
        )
        if begun.done:
            return cast("T", begun.result)
        if inspect.iscoroutinefunction(effect):
            result = await effect(begun.idempotency_key)
        else:
            given = await asyncio.to_thread(effect, begun.idempotency_key)
            result = await given if inspect.isawaitable(given) else given

        async def end(services: Services) -> None:
            await services.runs.end_effect(begun, result, owner=owner, thread_id=named, key=key)

        await self._app.call(end)
        return cast("T", result)

    async def _mine(self, owner: str | Owner | None, thread_id: str) -> tuple[Owner, ThreadId]:
        """Return owner and job; a job of another owner is refused, whatever the checkpointer's owner is."""
        owner, named = self._scope.resolve(owner), thread_id_from(thread_id)
        await self._app.event_loop.run(self._check(named, owner))
        return owner, named

    async def _check(self, thread_id: ThreadId, owner: Owner) -> None:
        await (await self._app.threads.connect()).check(thread_id, owner)

    @asynccontextmanager
    async def _hold_lease(
        self, graph: Any, owner: Owner, thread_id: ThreadId, strategy: Strategy | None
    ) -> AsyncGenerator[bool]:
        """Hold the lease on a job; meanwhile no other process changes it. Runs in this block use the lease.

        Yields:
            Whether there is a lease: a graph with another saver has none, and its job runs once at a time in this
            process.
        """
        self._require_checkpointer(graph)
        if not isinstance(graph.checkpointer, ThreadkeepCheckpointer):
            yield False
            return
        more = {STRATEGY: strategy} if strategy else {}
        place = (owner, thread_id)
        try:
            async with graph.checkpointer.leased(self._config(owner, thread_id, **more)):
                before = self._running.pop(place, None)
                if before is not None and not before.done():  # the lease was taken from it, so it runs no more
                    self._stopped.add(place)
                    before.get_loop().call_soon_threadsafe(before.cancel)
                yield True
        except ThreadMovedOnError:  # a job that was stopped here says so by its status
            if place not in self._stopped:
                raise
            self._stopped.discard(place)

    async def _drive(
        self,
        graph: Any,
        given: Any,
        owner: Owner,
        thread_id: ThreadId,
        context: Any,
        config: Mapping[str, Any] | None,
        leased: bool,  # noqa: FBT001 - private
    ) -> Run:
        """Run *graph* until it waits, is done or has failed."""
        place = (owner, thread_id)
        epoch = await self._app.call(lambda services: services.runs.epoch(owner))
        if place in self._running and not leased:
            msg = "The job is already running: wait for it, or cancel it."
            raise ConflictError(msg, thread_id=thread_id)
        steps = asyncio.ensure_future(self._steps(graph, given, owner, thread_id, context, config, epoch))
        self._running[place] = steps
        error: Exception | None = None
        stopped = False
        try:
            stopped = await steps
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is not None and caller.cancelling():
                await self._note(owner, thread_id, "cancelled", epoch)
                raise
            stopped = True
        except Exception as failure:  # noqa: BLE001 - it is the run's error, and the caller's to raise
            error = failure
        finally:
            replaced = self._running.get(place) is not steps
            if not replaced:
                del self._running[place]
        snapshot = await graph.aget_state(self._config(owner, thread_id))
        noted = "failed" if error is not None else "cancelled" if stopped else None
        run = _run_of(thread_id, snapshot, noted)
        if not replaced:  # else how the job stands is for its other run to say
            await self._note(owner, thread_id, run.status, epoch)
        return replace(run, error=error)

    async def _steps(
        self,
        graph: Any,
        given: Any,
        owner: Owner,
        thread_id: ThreadId,
        context: Any,
        config: Mapping[str, Any] | None,
        epoch: str,
    ) -> bool:
        """Run *graph* step by step; return whether its cancellation was requested."""
        await self._note(owner, thread_id, "running", epoch)
        whole = {**(config or {}), **self._config(owner, thread_id)}
        _job_epoch.set(epoch)
        stream = graph.astream(given, whole, context=context, stream_mode="values", durability="sync")
        async with aclosing(stream):
            async for _ in stream:
                if await self._app.call(lambda services: services.runs.is_cancelled(thread_id, owner=owner)):
                    return True
        return False

    async def _note(self, owner: Owner, thread_id: ThreadId, status: RunStatus, epoch: str) -> None:
        await self._app.call(lambda services: services.runs.note(thread_id, status, owner=owner, epoch=epoch))

    async def _resume_of(
        self, graph: Any, thread_id: ThreadId, owner: Owner, answer: Any, answers: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Return answers by the ids of their questions, all of which are open."""
        standing = await self.get(graph, thread_id=thread_id, owner=owner)
        if not standing.asks:
            raise _nothing(thread_id, standing.status)
        open_ids = [ask.ask_id for ask in standing.asks]
        if answers is None:
            if answer is _NOTHING or len(open_ids) != 1:
                msg = f"{len(open_ids)} questions are open; give answers={{id: answer}}, with ids of get().asks."
                raise InvalidInputError(msg, thread_id=thread_id, asks=open_ids)
            return {open_ids[0]: answer}
        if not isinstance(answers, Mapping):
            kind = type(answers).__name__
            msg = f"answers must be a mapping of ids of questions to answers, got {kind}; pass a single one as answer."
            raise InvalidInputError(msg, thread_id=thread_id, asks=open_ids)
        if not answers:
            msg = "No answer was given; give answers={id: answer}, with ids of get().asks."
            raise InvalidInputError(msg, thread_id=thread_id, asks=open_ids)
        if unknown := [ask_id for ask_id in answers if ask_id not in open_ids]:
            msg = "A question that is answered is not open; it was answered already, or was never asked."
            raise NothingToResumeError(msg, thread_id=thread_id, asks=unknown)
        return dict(answers)

    def _config(self, owner: Owner, thread_id: ThreadId, **more: Any) -> RunnableConfig:
        named = {"thread_id": thread_id, "user_id": owner.user_id, "langgraph_user_id": owner.label}
        return {"configurable": {**named, **more}}

    def _require_checkpointer(self, graph: Any) -> None:
        if not getattr(graph, "checkpointer", None):
            msg = "The graph has no checkpointer, so a job could not be resumed; compile it with tk.checkpointer."
            raise InvalidInputError(msg)


def _run_of(thread_id: str, snapshot: Any, noted: str | None, *, running: bool = False) -> Run:
    asks = tuple(Ask(ask.id, task.name, ask.value) for task in snapshot.tasks for ask in task.interrupts)
    # Where a step's nodes are all finished and the process was killed before the next checkpoint, no node is next,
    # but the step still stands there; a job that is done has none.
    next_nodes = tuple(snapshot.next) or tuple(task.name for task in snapshot.tasks)
    status: RunStatus = "paused"
    if running:
        status = "running"
    elif snapshot.created_at is None:
        status = "new"
    elif not next_nodes:
        status = "done"
    elif noted in ("failed", "cancelled"):
        status = "failed" if noted == "failed" else "cancelled"
    elif asks:
        status = "waiting"
    checkpoint_id = None if status == "new" else snapshot.config["configurable"].get("checkpoint_id")
    return Run(thread_id, status, _values_of(snapshot), asks, next_nodes, checkpoint_id)


def _step_of(snapshot: Any) -> Step:
    parent = snapshot.parent_config
    metadata: Mapping[str, Any] = snapshot.metadata or {}
    return Step(
        snapshot.config["configurable"]["checkpoint_id"],
        None if snapshot.created_at is None else datetime.fromisoformat(snapshot.created_at),
        str(metadata.get("source", "")),
        tuple(snapshot.next),
        _values_of(snapshot),
        parent["configurable"].get("checkpoint_id") if parent else None,
    )


def _values_of(snapshot: Any) -> dict[str, Any]:
    """Return the state; a function (``@entrypoint``) has none, only what it has returned."""
    values = snapshot.values
    if isinstance(values, Mapping):
        return dict(cast("Mapping[str, Any]", values))
    return {} if values is None else {END: values}


def _nothing(thread_id: str, status: str) -> NothingToResumeError:
    msg = f"The job is {status} and does not wait for an answer; read its state with tk.runs.get()."
    return NothingToResumeError(msg, thread_id=thread_id, status=status)
