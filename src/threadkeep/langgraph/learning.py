"""The middleware that learns: after the agent is done it records the turn, of several people for each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from langchain.agents.middleware.types import ModelRequest
from langgraph.config import get_config
from langgraph.runtime import Runtime
from typing_extensions import override

from threadkeep.capture.models import Receipt
from threadkeep.capture.turns import TurnRecall
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.concurrency import until_available
from threadkeep.errors import (
    ClosedError,
    ConflictError,
    InvalidInputError,
    OwnerMismatchError,
    PartitionErasedError,
    StorageError,
)
from threadkeep.ids import ThreadId, TurnId
from threadkeep.langgraph.history import mark_of_newest_turn, positions_without_memory
from threadkeep.langgraph.identity import (
    Participants,
    count_stored_input,
    count_user_messages,
    foreign_saver,
    is_scoped,
    participants_from,
    saver_of,
    saver_with_input,
    written_by_a_model,
)
from threadkeep.langgraph.middleware import LEFT_OUT, RecalledTurn, State, ThreadkeepMiddleware, TurnContext
from threadkeep.langgraph.unfinished_turns import (
    NO_ANSWERS,
    Answers,
    answers_from,
    answers_of_input,
    earlier_answers,
    follows_unfinished_turn,
    own_unanswered,
    question_after_another,
)
from threadkeep.models.base import replied_to
from threadkeep.models.langchain import (
    PlainMessages,
    messages_by_participant,
    plain_messages,
    work_steps,
)
from threadkeep.observability import CAPTURE, DEGRADED, STATUS, TENANT, THREAD, TURNS, USER, span
from threadkeep.run_events import CurrentRun, current_run, is_memory_off

if TYPE_CHECKING:
    from langchain.agents.middleware.types import ModelRequest
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.runtime import Runtime

    from threadkeep.capture.service import CaptureService
    from threadkeep.checkpoints.directory import TurnNote
    from threadkeep.checkpoints.leases import Lease
    from threadkeep.container import Services
    from threadkeep.identity import Owner
    from threadkeep.langgraph.middleware import TurnContext
    from threadkeep.models.base import Message, WorkStep

T = TypeVar("T")

_WORK_READ: Final = 200
"""So many of the newest messages are read for what a turn taught an agent: the turn, and the one before it."""


class LearningMiddleware(ThreadkeepMiddleware):
    """Learns from each turn, too: a class of its own, because LangGraph makes a step of every ``after_agent``."""

    def after_agent(self, state: State, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Record the turn for capture; it is durable when this returns. One without memory is marked in the state."""
        if (work := self._capture(state, runtime)) is None:
            return mark_of_newest_turn(state["messages"]) if is_memory_off(get_config()) else None
        try:
            receipt = self._app.event_loop.run_sync(work)
        except ClosedError as error:
            receipt = self._not_recorded(error)
        _tell_captured(receipt, runtime)
        return None

    async def aafter_agent(self, state: State, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Record the turn for capture; it is durable when this returns. One without memory is marked in the state."""
        if (work := self._capture(state, runtime)) is None:
            return mark_of_newest_turn(state["messages"]) if is_memory_off(get_config()) else None
        try:
            receipt = await self._app.event_loop.run(work)
        except ClosedError as error:
            receipt = self._not_recorded(error)
        _tell_captured(receipt, runtime)
        return None

    @override
    def _turn(self, request: ModelRequest[Any], messages: PlainMessages, config: Any) -> TurnContext:
        turn, saver = super()._turn(request, messages, config), saver_of(config)
        lease = saver.lease_of(config) if isinstance(saver, ThreadkeepCheckpointer) else None
        if lease is not None and self._is_recorded(None, config):  # else the thread gets its title with the record
            lease.question = partial(self._title, turn, messages.newest_human[2])
        return turn

    def _title(self, turn: TurnContext, question: str) -> str:
        """Return the question that names the thread of a turn that failed."""
        services = self._tk.app.services
        return "" if services.opt_outs.holds(turn.owner, turn.thread_id) else services.redact(question)

    @override
    def _release_after_run(self, turn: TurnContext) -> None:
        """Nothing to do: :meth:`after_agent` lets go of it, which after an interrupt is in another run."""

    def _capture(self, state: State, runtime: Runtime[Any]) -> Coroutine[Any, Any, Receipt] | None:
        config, messages = get_config(), PlainMessages(state["messages"])
        turn = self._turn_of(messages, runtime, config)
        seen = self._seen.pop(turn, None)
        if not self._is_recorded(seen, config):
            return None
        question, run, saver = messages.newest_human[2], current_run(), saver_of(config)
        ours = saver if isinstance(saver, ThreadkeepCheckpointer) else None
        foreign, lease = saver is not ours, None if ours is None else ours.lease_of(config)
        noting = partial(self._turn_note, turn, question, scoped=ours is not None and ours.is_scoped)
        unbound = self._unbound_thread(turn, config) if ours is None else None
        shown = partial(self._shown, turn, messages, run, foreign=foreign)
        inputs: Any = {} if run is None else run.root.inputs
        after_unanswered = foreign and question_after_another(messages) > 0
        if not isinstance(inputs, Mapping) or after_unanswered or follows_unfinished_turn(messages):
            recording = self._record_with_checkpoints(
                turn, messages, shown, config, inputs, ours, seen, run, unbound, noting, lease=lease
            )
        else:
            recording = self._record(turn, shown(), seen, run, unbound, noting, lease=lease)
        if self._experience is None:
            return recording
        newest = state["messages"][-_WORK_READ:]
        off = positions_without_memory(newest, memory=True)
        steps = work_steps([message for i, message in enumerate(newest) if i not in off])
        return self._with_experience(recording, turn, self._experience, steps)

    def _is_recorded(self, seen: RecalledTurn | None, config: Any) -> bool:
        """Return whether a turn that *seen* was recalled for is learnt from."""
        if not self._app.capturing or (seen is not None and seen.off):
            return False
        return not is_memory_off(config) and not written_by_a_model(config)

    async def _with_experience(
        self, recording: Coroutine[Any, Any, Receipt], turn: TurnContext, agent: Owner, steps: Sequence[WorkStep]
    ) -> Receipt:
        """Record the turn, then propose to *agent* what it taught, which the turn does not wait for beyond its time."""
        receipt = await recording
        if receipt.status in ("queued", "pending"):
            app = self._app
            learning = self._tk.scopes.learn(agent, steps, owner=turn.owner, thread_id=turn.thread_id)
            try:
                await app.timeout_budget.wait(learning, timeout=self._timeout)
            except (StorageError, ConflictError, InvalidInputError, TimeoutError) as error:
                app.telemetry.degraded("experience", error)
        return receipt

    @override
    async def _leave_out(self, turn: TurnContext, request: ModelRequest[Any], config: Any) -> None:
        """Mark the turn as seen; otherwise the next one brings it along."""
        if not self._app.capturing or not self._mark_left_out(turn):
            return
        messages, run = PlainMessages(request.state["messages"]), current_run()
        shown = self._shown(turn, messages, run, foreign=foreign_saver(config) is not None)
        unbound = self._unbound_thread(turn, config)
        await self._record(turn, shown, None, run, unbound, lambda _: None, without_memory=True)

    def _mark_left_out(self, turn: TurnContext) -> bool:
        """Mark a turn as one without memory; return False if it was marked before."""
        if self._seen.get(turn) is LEFT_OUT:
            return False
        self._seen[turn] = LEFT_OUT
        return True

    def _shown(
        self,
        turn: TurnContext,
        messages: PlainMessages,
        run: CurrentRun | None,
        *,
        foreign: bool,
        given: int = 0,
        own: Collection[str] = (),
    ) -> Sequence[Message]:
        """Return those of the thread's messages that are the owner's; *foreign*: another checkpointer keeps the thread.

        *given* is how many the run was given that asked the question which *run* answers; 0: it answers none. *own* are
        the ids of messages without a reply that are known to be the owner's.
        """
        trusted = self._vouched.get((turn.owner, turn.thread_id or ""), True)  # else earlier messages may be another's
        if trusted and not foreign:
            return messages
        start = messages.input_start(1 if run is None else given or count_user_messages(run.root.inputs))
        return replied_to(messages, start, own) if trusted else messages[start:]

    async def _record_with_checkpoints(
        self,
        turn: TurnContext,
        messages: PlainMessages,
        shown: Callable[..., Sequence[Message]],
        config: Any,
        inputs: Any,
        ours: ThreadkeepCheckpointer | None,
        seen: RecalledTurn | None,
        run: CurrentRun | None,
        *about: Any,
        lease: Lease | None,
    ) -> Receipt:
        """Record a turn with what the checkpoints tell: answers to questions, and who wrote messages without a reply.

        *about* is passed to :meth:`_record`.
        """
        saver = saver_with_input(messages, run, config)
        given = 0 if saver is None else await self._count_input(saver, turn)
        own, earlier = None, None
        if foreign_saver(config) is not None and question_after_another(messages):
            own = await self._own_unanswered(turn, messages, config)
        resumed, unfinished = not isinstance(inputs, Mapping), follows_unfinished_turn(messages)
        if ours is not None and turn.thread_id and (resumed or unfinished):
            earlier = await self._read(earlier_answers(ours, turn.owner, turn.thread_id, turns=1 + unfinished))
        answers = answers_from([*(earlier or ()), *answers_of_input(inputs)], messages, resumed=resumed)
        said = shown(given=given, own=own or ())
        return await self._record(turn, said, seen, run, *about, answers=answers, lease=lease)

    async def _own_unanswered(self, turn: TurnContext, messages: PlainMessages, config: Any) -> Collection[str] | None:
        """Return the ids of messages without a reply that are the owner's, as far as checkpoints tell."""
        if self._app.settings.under_langgraph_server:  # there, clients write the metadata
            return None
        return await self._read(asyncio.to_thread(own_unanswered, messages, turn.owner, config))

    async def _read(self, reading: Coroutine[Any, Any, T]) -> T | None:
        """Return what is read of the checkpoints; ``None`` where they cannot be read in time."""
        app = self._app
        try:
            return await app.timeout_budget.wait(reading, timeout=self._timeout)
        except Exception as error:  # noqa: BLE001 - every checkpointer fails in its own way; what the run has is known
            app.telemetry.degraded("capture.input", error)
            return None

    async def _count_input(self, saver: BaseCheckpointSaver[Any], turn: TurnContext) -> int:
        """Return how many messages of the user the run was given that asked the question; 0: that cannot be read."""
        app = self._app
        try:
            reading = asyncio.to_thread(count_stored_input, saver, turn.thread_id or "")
            return await app.timeout_budget.wait(reading, timeout=self._timeout)
        except (NotImplementedError, TimeoutError) as error:  # then the newest message alone is surely the user's
            app.telemetry.degraded("capture.input", error)
            return 0

    async def _record(
        self,
        turn: TurnContext,
        messages: Sequence[Message],
        seen: RecalledTurn | None,
        run: CurrentRun | None,
        to_bind: str | None,
        note_of: Callable[[Services], TurnNote | None],
        *,
        without_memory: bool = False,
        answers: Answers = NO_ANSWERS,
        lease: Lease | None = None,
    ) -> Receipt:
        """Commit the turn record, and wait for it no longer than the time-out: it goes on without the turn.

        While the storage is away, the record is tried again for as long as a checkpoint is. A turn of which its thread
        keeps nothing when *lease* ends is not learnt from: the thread was deleted, or another run has undone this one.
        """
        app = self._app

        async def record() -> Receipt:
            services = await app.connect()
            if services.opt_outs.holds(turn.owner, turn.thread_id):
                return Receipt("nothing")
            if to_bind is not None:  # nothing is learnt from a thread of another owner, or of one who was erased
                try:
                    await app.threads.bind(to_bind, turn.owner, seen.epoch if seen else None)
                except (OwnerMismatchError, PartitionErasedError):
                    return Receipt("nothing")
            note = note_of(services)
            together = services.thread_storage is services.storage
            recorded = partial(
                services.captures.record,
                messages,
                owner=turn.owner,
                thread_id=ThreadId(turn.thread_id) if turn.thread_id is not None else None,
                recalled=[recalled.memory.text for recalled in seen.recall.memories] if seen else (),
                given=TurnRecall.from_recall(seen.recall) if seen and turn.recalls else None,
                epoch=seen.epoch if seen else None,
                later=partial(self._wake_at_the_end, services.captures, turn.owner, run, lease) if run else None,
                note=note if together else None,
                without_memory=without_memory,
                answers=answers.newest,
                overdue=answers.overdue,
            )
            try:
                return await until_available(recorded, app.threads.timeout)
            finally:
                if note is not None and not note.written:
                    await self._note_turn(services, note)

        about = {USER: turn.owner.user_id, TENANT: turn.owner.tenant or None, THREAD: turn.thread_id}
        with span(CAPTURE, about) as recorded:
            try:
                receipt = await app.timeout_budget.wait(record(), timeout=self._timeout)
            except TimeoutError as error:  # recording goes on
                app.telemetry.degraded("capture", error)
                receipt = Receipt("pending", degraded=("storage",))
            except StorageError as error:
                receipt = self._not_recorded(error)
            recorded.set(
                {STATUS: receipt.status, TURNS: len(receipt.turn_ids), DEGRADED: list(receipt.degraded) or None}
            )
            return receipt

    def _wake_at_the_end(
        self,
        captures: CaptureService,
        owner: Owner,
        run: CurrentRun,
        lease: Lease | None,
        wake: Callable[[], object],
        newest: Sequence[TurnId],
    ) -> None:
        """Let nothing be learnt before *run* is over, which would slow down its end, nor what no thread keeps."""
        app = self._app

        async def withdraw() -> None:
            try:
                await until_available(partial(captures.withdraw, owner, newest), app.threads.timeout)
            finally:
                wake()  # for turns that an outage had left

        wake_after_run = partial(run.root.when_ended, partial(app.event_loop.soon, wake))
        if lease is None:
            wake_after_run()
        else:
            lease.when_over(wake_after_run, withdraw)

    @staticmethod
    def _turn_note(turn: TurnContext, question: str, services: Services, *, scoped: bool) -> TurnNote | None:
        """Return what the list of threads says of the turn."""
        if turn.thread_id is None:
            return None
        return services.thread_directory.turn_note(
            turn.owner, turn.thread_id, scoped=scoped, question=lambda: services.redact(question)
        )

    async def _note_turn(self, services: Services, note: TurnNote) -> None:
        """Note a turn in the list of threads if it was not recorded, or if another storage keeps its thread."""
        try:
            await services.thread_directory.note_turn(note)
        except (StorageError, ConflictError) as error:
            self._app.telemetry.degraded("threads", error)

    def _not_recorded(self, error: Exception) -> Receipt:
        self._app.telemetry.degraded("capture", error)
        return Receipt("nothing", degraded=("storage",))


def _tell_captured(receipt: Receipt, runtime: Runtime[Any]) -> None:
    runtime.stream_writer(
        {
            "type": "captured",
            "status": receipt.status,
            "turns": list(receipt.turn_ids),
            "degraded": list(receipt.degraded),
        }
    )


class ParticipantsMiddleware(LearningMiddleware):
    """Learns about each participant. Nothing is recalled: everyone in the thread reads the replies.

    In the turns of a thread without participants, it does what the base class does.
    """

    @override
    def _capture(self, state: State, runtime: Runtime[Any]) -> Coroutine[Any, Any, Receipt] | None:
        people = participants_from(self._participants, runtime)
        if people is None:
            return super()._capture(state, runtime)
        config, messages = get_config(), PlainMessages(state["messages"])
        turn = self._turn_of(messages, runtime, config)
        seen = self._seen.pop(turn, None)
        if not self._is_recorded(seen, config):
            return None
        run, question, scoped = current_run(), messages.newest_human[2], is_scoped(config)
        saver, foreign = saver_with_input(messages, run, config), foreign_saver(config) is not None

        async def record() -> Receipt:
            given = 0 if saver is None else await self._count_input(saver, turn)
            shown = messages.given_for(self._shown(turn, messages, run, foreign=foreign, given=given)[:])
            note = partial(self._turn_note, turn, question, scoped=scoped)
            return await self._record_each(turn, shown, people, note)

        return record()

    @override
    async def _leave_out(self, turn: TurnContext, request: ModelRequest[Any], config: Any) -> None:
        """Mark the turn as seen for the participant who began it; otherwise that one's next turn brings it along."""
        people = participants_from(self._participants, request.runtime)
        if people is None:
            await super()._leave_out(turn, request, config)
        elif self._app.capturing and self._mark_left_out(turn):
            messages = PlainMessages(request.state["messages"])
            foreign = foreign_saver(config) is not None
            shown = messages.given_for(self._shown(turn, messages, current_run(), foreign=foreign)[:])
            if (name := messages.given[messages.newest_human[0]].name) in people:
                await self._mark_seen(turn, shown, str(name), people)

    async def _mark_seen(self, turn: TurnContext, messages: Sequence[Any], name: str, people: Participants) -> None:
        app, owner = self._app, self._tk.resolve_owner(people[name])
        said = plain_messages(messages_by_participant(messages, [name])[name])

        async def mark(services: Services) -> None:
            await services.record(said, owner=owner, thread_id=turn.thread_id, without_memory=True)

        try:
            await app.timeout_budget.wait(app.call(mark), timeout=self._timeout)
        except (StorageError, ConflictError, TimeoutError) as error:
            self._not_recorded(error)

    async def _record_each(
        self,
        turn: TurnContext,
        messages: Sequence[Any],
        people: Participants,
        note_of: Callable[[Services], TurnNote | None],
    ) -> Receipt:
        """Record the turns of each; a storage that fails costs the time-out, and the next turn brings them along."""
        app = self._app

        async def record() -> Receipt:
            receipts = await self._tk.capture_participants(messages, participants=people, thread_id=turn.thread_id)
            new = tuple(key for receipt in receipts.values() if receipt.status == "queued" for key in receipt.turn_ids)
            return Receipt("queued", new) if new else Receipt("nothing")

        async def note(services: Services) -> None:
            if (noted := note_of(services)) is not None:
                await self._note_turn(services, noted)

        try:
            receipt = await app.timeout_budget.wait(record(), timeout=self._timeout)
            await app.timeout_budget.wait(app.call(note), timeout=self._timeout)
        except (StorageError, ConflictError, TimeoutError) as error:
            return self._not_recorded(error)
        return receipt
