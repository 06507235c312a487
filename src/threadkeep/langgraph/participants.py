"""The middleware of threads with several people: each is learnt about from the turns that they began, and no others."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from langgraph.config import get_config
from typing_extensions import override

from threadkeep.capture.models import Receipt
from threadkeep.errors import ConflictError, InvalidInputError, StorageError
from threadkeep.langgraph.identity import is_scoped
from threadkeep.langgraph.middleware import LearningMiddleware, State
from threadkeep.models.langchain import PlainMessages
from threadkeep.run_events import current_run

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

    from threadkeep.checkpoints.directory import TurnNote
    from threadkeep.client import Threadkeep
    from threadkeep.container import Services
    from threadkeep.identity import Owner
    from threadkeep.langgraph.middleware import _TurnContext  # pyright: ignore[reportPrivateUsage]

Participants: TypeAlias = "Mapping[str, str | Owner]"
"""The owner of each name that messages carry."""

ParticipantsSource: TypeAlias = "Participants | Callable[[Any], Participants]"
"""The participants, or a function of the runtime that returns them."""


class ParticipantsMiddleware(LearningMiddleware):
    """Learns about each participant. Nothing is recalled: everyone in the thread reads the replies.

    Args:
        tk: The memory.
        participants: The owner of each name; your application names them, and no client does.
        options: Those of the base class.
    """

    def __init__(self, tk: Threadkeep, *, participants: ParticipantsSource, **options: Any) -> None:
        super().__init__(tk, **options)
        self._participants = participants

    @override
    def _capture(self, state: State, runtime: Runtime[Any]) -> Coroutine[Any, Any, Receipt] | None:
        config, messages = get_config(), PlainMessages(state["messages"])
        turn = self._turn_of(messages, runtime, config)
        seen = self._seen.pop(turn, None)
        if not self._is_recorded(seen, config):
            return None
        count = len(self._shown(turn, messages, current_run(), config))
        question, scoped = messages.newest_human[2], is_scoped(config)
        shown = state["messages"][len(messages) - count :]
        people = participants_from(self._participants, runtime)
        return self._record_each(turn, shown, people, lambda one: self._turn_note(turn, question, one, scoped=scoped))

    async def _record_each(
        self,
        turn: _TurnContext,
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


def participants_from(source: ParticipantsSource, runtime: object) -> Participants:
    """Return the participants of a run.

    Raises:
        InvalidInputError: It is no mapping of names to owners.
    """
    people: object = source(runtime) if callable(source) else source
    if not isinstance(people, Mapping) or not all(isinstance(name, str) and name for name in people):
        msg = 'participants must be a mapping of names to owners, such as {"Ana": "ana@x.org"}.'
        raise InvalidInputError(msg)
    return people
