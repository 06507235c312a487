"""Runs the graph of a turn, and tells its events, its end and what was learnt from it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import aclosing
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from threadkeep.errors import NothingToResumeError, StorageError, ThreadkeepError
from threadkeep.gateway.bodies import learnt_of
from threadkeep.gateway.idempotency import try_write
from threadkeep.gateway.run_models import ChatRun, GraphCall, MultitaskStrategy, Status
from threadkeep.ids import new_id, short_digest
from threadkeep.models.base import SPEAKER_KEY
from threadkeep.observability import log

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.gateway.metrics import GatewayMetrics
    from threadkeep.langgraph.per_run import PerRunOwnerView

LEARNING_SECONDS: Final = 5.0
"""How long a stream stays open after ``done`` for what is learnt from the turn."""

DOCUMENT_NAME: Final = "document"
"""The name of a message that holds a file: what a named message says is not learnt as the user's word."""


class GraphRunner:
    """Runs one graph for all owners.

    Args:
        tk: The memory.
        view: The parts of one graph that serves all owners.
        graph: The graph, compiled with them.
        metrics: Counts first tokens and recalls.
    """

    def __init__(self, tk: Threadkeep, view: PerRunOwnerView, graph: Any, metrics: GatewayMetrics) -> None:
        self._tk = tk
        self._view = view
        self._graph = graph
        self._metrics = metrics

    async def run(self, run: ChatRun, stop_others: Callable[[ChatRun, MultitaskStrategy], None]) -> None:
        """Run the graph, with the lease on the thread from before the first read.

        Args:
            run: The run.
            stop_others: Called once it has the lease: stops the runs that have lost the thread to it.
        """
        request, call = run.request, run.request.call or self._chat_call(run)
        thread: dict[str, Any] = {"thread_id": request.thread_id, "memory": request.memory, "run_name": run.token}
        named = self._view.config(request.owner, **thread).get("configurable", {})
        config: dict[str, Any] = {**call.config, "configurable": {**call.configurable, **named}}
        if "metadata" in config:
            config["metadata"] = {**config["metadata"], "run_id": run.run_id, "thread_id": request.thread_id}
        saver: Any = self._graph.checkpointer
        begun = run.buffer.last
        try:
            lease = saver.leased(self._view.config(request.owner, **thread, multitask_strategy=call.strategy))
            async with lease:
                stop_others(run, call.strategy)
                if call.answers:
                    await self._require_question(config, call)
                elif run.key is not None and request.call is None:
                    await self._name_messages(run, config, call)
                run.began.set()
                await self._relay(run, self._graph, call.given, config, **call.options)
        except StorageError:
            if request.call is not None or run.buffer.last > begun:
                raise
            # The thread cannot be read: the user is answered without it, and "recorded" says that nothing was kept.
            # Memory is off: a storage that is back by then would learn from a message that is in no thread.
            run.began.set()
            run.events.noted = True
            alone: dict[str, Any] = {**thread, "memory": False}
            off: Any = self._view.config(request.owner, **alone).get("configurable", {})
            config["configurable"] |= off
            await self._relay(run, self._graph.copy({"checkpointer": None}), call.given, config)

    def _chat_call(self, run: ChatRun) -> GraphCall:
        """Return the call of a turn of the user."""
        request, message_id = run.request, new_id()
        run.events.message_ids.append(message_id)
        messages = [
            {"role": "user", "name": DOCUMENT_NAME, "content": document.quoted(), "id": new_id()}
            for document in request.documents
        ]
        message: dict[str, Any] = {"role": "user", "content": request.message, "id": message_id}
        if request.speaker != "user":
            message[SPEAKER_KEY] = request.speaker
        place = {} if request.checkpoint_id is None else {"checkpoint_id": request.checkpoint_id}
        return GraphCall({"messages": [*messages, message]}, run.events, configurable=place)

    async def _name_messages(self, run: ChatRun, config: Any, call: GraphCall) -> None:
        """Give the messages the ids of the attempt before with the same key, so that the thread has them once.

        Such an attempt was cut off: its process stopped, or was killed.
        """
        if run.key is None:
            return
        given: list[dict[str, Any]] = call.given["messages"]
        ids = [short_digest(run.key.key, run.key.fingerprint, str(place)) for place in range(len(given))]
        state = await self._graph.aget_state(config)
        known = [one for one in state.values.get("messages", ()) if getattr(one, "type", "") == "human"]
        if any(one.id == ids[-1] for one in known) and not (state.next and known[-1].id == ids[-1]):
            return  # a day ago
        for message, message_id in zip(given, ids, strict=True):
            message["id"] = message_id
        run.events.message_ids[:1] = ids[-1:]

    async def _require_question(self, config: Any, call: GraphCall) -> None:
        state = await self._graph.aget_state(config)
        asked = {one.id for one in state.interrupts}
        if not asked or not call.answered <= asked:
            msg = "The thread waits for no such answer."
            raise NothingToResumeError(msg)
        if call.answers_one and len(asked) > 1:
            msg = "The thread asks several questions. Answer them by their ids, as an object."
            raise NothingToResumeError(msg)

    async def _relay(self, run: ChatRun, graph: Any, given: Any, config: Any, **options: Any) -> None:
        began, events = time.monotonic(), run.events
        replied = False
        async with aclosing(graph.astream(given, config, **events.stream, **options)) as parts:
            async for part in parts:
                for event in events.translate(part):
                    run.emit(*event)
                if events.replying and not replied:
                    self._metrics.first_token(time.monotonic() - began)
                    replied = True
                while events.recalls:
                    self._metrics.recalled(events.recalls.pop())

    async def settle(self, run: ChatRun, status: Status) -> None:
        """Note the end of the run in the list of threads; delete a thread that was made for it."""
        threads = self._tk.for_owner(run.owner).threads
        if run.request.temporary:
            await try_write(threads.delete([run.thread_id]), "The thread of a run without one is left")
        elif run.began.is_set():  # otherwise it was refused, and the thread is as it was
            await self._note(run, status)

    async def _note(self, run: ChatRun, status: Status) -> None:
        """Note the end of the turn in the list of threads, unless the middleware does."""
        request = run.request
        if status == "done" and run.events.noted:
            return
        noted: Literal["idle", "interrupted", "error"] = status if status in ("interrupted", "error") else "idle"
        threads = self._tk.for_owner(request.owner).threads
        note = threads.note_turn(request.thread_id, question=request.message or "", status=noted, memory=request.memory)
        await try_write(note, "A turn is not noted in the list of threads")

    async def learn(self, run: ChatRun) -> None:
        """Tell what was learnt from the turn, once it was."""
        try:
            await self._tell_learnt(run)
        except ThreadkeepError as error:
            log.warning("The client is not told what was learnt from a turn: %s", error)

    async def _tell_learnt(self, run: ChatRun) -> None:
        mine = self._tk.for_owner(run.owner)
        receipt = await mine.settle(run.events.turn_ids, timeout=timedelta(seconds=LEARNING_SECONDS))
        for memory_id in receipt.memory_ids:
            memory = await mine.memories.get(memory_id)
            if memory is not None:
                written = learnt_of(memory, receipt.turn_ids)
                run.memories.append(written)
                run.emit("memory_written", written)
        for proposal_id in receipt.proposal_ids:
            proposal = await mine.proposals.get(proposal_id)
            if proposal is not None:
                names = ("action", "text", "kind", "reason", "memory_id")
                waiting = {"proposal_id": proposal_id, **{name: getattr(proposal, name) for name in names}}
                run.proposals.append(waiting)
                run.emit("proposal", waiting)
