"""One recall: answered where it is asked if nothing has to be waited for, else on the home loop."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict

from threadkeep.capture.turn_history import doubtful
from threadkeep.clock import SystemClock
from threadkeep.errors import StorageError
from threadkeep.observability import DEGRADED, MEMORIES, RECALL, RECALLED, TENANT, THREAD, TOKENS, USER, span
from threadkeep.recall.at_hand import NotAtHandError
from threadkeep.recall.models import Recall

if TYPE_CHECKING:
    from threadkeep.capture.models import Message
    from threadkeep.container import App, Rooms
    from threadkeep.identity import Owner
    from threadkeep.ids import MemoryId, MessageId, ThreadId
    from threadkeep.memories.models import Memory
    from threadkeep.observability import Recording


class _Asked(TypedDict):
    owner: Owner
    thread_id: ThreadId | None
    budget_tokens: int
    max_facts: int | None
    max_episodes: int | None
    shown: Collection[MessageId]


@dataclass(frozen=True, slots=True)
class Recalling:
    """What is asked of an owner's memory before a model call.

    Attributes:
        app: Whose rooms are asked.
        question: The latest user message.
        said: The messages of the thread that end with it, as the model is given them; empty where nobody knows them.
        owner: Whose memories; nothing else is read.
        thread_id: The thread that asks.
        budget_tokens: Upper bound of the rendered text; ``None``: the setting.
        max_facts: At most so many that are no episodes.
        max_episodes: At most so many episodes.
        timeout: How long to wait; ``None``: the setting. Loading the embedder is not counted.
    """

    app: App
    question: str
    said: Sequence[Message]
    owner: Owner
    thread_id: ThreadId | None
    budget_tokens: int | None = None
    max_facts: int | None = None
    max_episodes: int | None = None
    timeout: timedelta | None = None

    def at_hand(self) -> Recall | None:
        """Return what :meth:`waited_for` would, in this thread and without waiting; ``None``: it has to be waited for.

        Raises:
            ClosedError: This was closed, or belongs to the process that this one was forked from.
        """
        began = SystemClock().now()
        found = self.app.at_hand(self._at_hand)
        if found is not None:
            with span(RECALL, self._about(), began=began) as recorded:
                self._tell(found, recorded)
        return found

    async def waited_for(self) -> Recall:
        """Return what is remembered; runs on the home loop. What fails or takes too long is in ``degraded``."""
        with span(RECALL, self._about()) as recorded:
            found = await self._waited_for()
            self._tell(found, recorded)
        return found

    def _at_hand(self, rooms: Rooms) -> Recall | None:
        if rooms.opt_outs.holds(self.owner, self.thread_id):
            return None

        async def elsewhere(memories: Sequence[Memory]) -> Collection[MemoryId]:
            if self.thread_id and self.said and doubtful(memories, self.said, thread_id=self.thread_id):
                raise NotAtHandError
            return ()

        return rooms.recalls.recall_at_hand(self.question, elsewhere=elsewhere, **self._asked())

    async def _waited_for(self) -> Recall:
        app = self.app
        timeout = app.settings.recall_timeout if self.timeout is None else self.timeout
        try:
            rooms = app.connected or await app.patience.wait(app.rooms(), timeout=timeout)
        except (StorageError, TimeoutError) as error:
            app.telemetry.degraded("recall", error)
            return Recall(degraded=("storage",))
        if rooms.opt_outs.holds(self.owner, self.thread_id):
            return Recall()
        if not app.embedder_seen:
            await app.warm(app.loading)

        async def elsewhere(memories: Sequence[Memory]) -> Collection[MemoryId]:
            if not self.thread_id or not self.said:
                return ()
            on_record = rooms.captures.on_record
            return await on_record.elsewhere(memories, self.said, owner=self.owner, thread_id=self.thread_id)

        return await rooms.recalls.recall(
            self.question, timeout=app.patience.for_recall(timeout), elsewhere=elsewhere, **self._asked()
        )

    def _asked(self) -> _Asked:
        budget = self.app.settings.recall_budget_tokens if self.budget_tokens is None else self.budget_tokens
        return {
            "owner": self.owner,
            "thread_id": self.thread_id,
            "budget_tokens": budget,
            "max_facts": self.max_facts,
            "max_episodes": self.max_episodes,
            "shown": {message.message_id for message in self.said if message.message_id is not None},
        }

    def _about(self) -> dict[str, str | None]:
        return {USER: self.owner.user_id, TENANT: self.owner.tenant or None, THREAD: self.thread_id}

    def _tell(self, found: Recall, recorded: Recording) -> None:
        recorded.set(MEMORIES, len(found.memories))
        recorded.set(TOKENS, found.tokens)
        recorded.set(DEGRADED, list(found.degraded) or None)
        recorded.set(RECALLED, found.text if self.app.settings.trace_content else None)
