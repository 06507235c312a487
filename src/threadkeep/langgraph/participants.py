"""The middleware of threads with several people: each is learnt about from the turns that they began, and no others."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from langgraph.config import get_config
from typing_extensions import override

from threadkeep.capture.models import Receipt
from threadkeep.errors import ConflictError, StorageError
from threadkeep.langgraph.identity import Participants, is_scoped, participants_from, saver_with_input
from threadkeep.langgraph.learning import LearningMiddleware
from threadkeep.langgraph.middleware import State
from threadkeep.models.langchain import PlainMessages, messages_by_participant, plain_messages
from threadkeep.run_events import current_run

if TYPE_CHECKING:
    from langchain.agents.middleware.types import ModelRequest
    from langgraph.runtime import Runtime

    from threadkeep.checkpoints.directory import TurnNote
    from threadkeep.container import Services
    from threadkeep.langgraph.middleware import TurnContext


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
        saver = saver_with_input(messages, run, config)

        async def record() -> Receipt:
            given = 0 if saver is None else await self._count_input(saver, turn)
            shown = messages.given_for(self._shown(turn, messages, run, config, given=given)[:])
            note = partial(self._turn_note, turn, question, scoped=scoped)
            return await self._record_each(turn, shown, people, note)

        return record()

    @override
    async def _leave_out(self, turn: TurnContext, request: ModelRequest[Any], config: Any) -> None:
        """Mark the turn as seen for the participant who began it; otherwise that one's next turn brings it along."""
        people = participants_from(self._participants, request.runtime)
        if people is None:
            await super()._leave_out(turn, request, config)
        elif self._tk.app.capturing and self._mark_left_out(turn):
            messages = PlainMessages(request.state["messages"])
            shown = messages.given_for(self._shown(turn, messages, current_run(), config)[:])
            if (name := messages.given[messages.newest_human[0]].name) in people:
                await self._mark_seen(turn, shown, str(name), people)

    async def _mark_seen(self, turn: TurnContext, messages: Sequence[Any], name: str, people: Participants) -> None:
        app, owner = self._tk.app, self._tk.resolve_owner(people[name])
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
        app = self._tk.app

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
