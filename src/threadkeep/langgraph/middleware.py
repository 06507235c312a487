"""The middleware: recall before the model is called. What learns from turns is :mod:`threadkeep.langgraph.learning`.

Recall happens in ``wrap_model_call`` and not before the agent, because that hook does not run again
after an interrupt; it is remembered for the turn outside the graph's state, because a key there
would show in the user's streams.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cachetools import LRUCache
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import AgentState, ModelRequest, ModelResponse
from langchain_core.messages import SystemMessage
from langgraph.config import get_config
from langgraph.runtime import Runtime

from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.errors import (
    OwnerMismatchError,
    OwnerRequiredError,
    PartitionErasedError,
    StorageError,
)
from threadkeep.identity import checked_user
from threadkeep.ids import ThreadId, short_digest
from threadkeep.langgraph.history import answer_without_memory
from threadkeep.langgraph.identity import (
    NamedOwner,
    afind_owner,
    allow_response_types,
    find_owner,
    foreign_saver,
    owner_from,
    participants_from,
    read_scopes_from,
    require_agreement,
    saver_of,
    thread_id_of,
    uses_our_checkpointer,
)
from threadkeep.langgraph.unfinished_turns import amarking, had_memory, had_memory_sync, marking, question_after_another
from threadkeep.models.langchain import PlainMessages
from threadkeep.observability import log
from threadkeep.recall.models import Recall, Recalled, memory_context_text
from threadkeep.recall.service import RecallRequest
from threadkeep.run_events import current_run, is_memory_off, listen

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from threadkeep.client import OwnerSource, Threadkeep
    from threadkeep.identity import Owner
    from threadkeep.langgraph.identity import ParticipantsSource, ScopesSource

TURNS_REMEMBERED: Final = 1024
"""How many turns' recalls are kept, so that a turn with many model calls recalls once."""


_DOCUMENTS_MOST: Final = 4
"""Facts, and episodes, of the documents' form in the system message."""

State: TypeAlias = AgentState[Any]


@dataclass(frozen=True, slots=True)
class TurnContext:
    """What recall is remembered by: the newest human message of an owner's thread."""

    owner: Owner
    thread_id: ThreadId | None
    message: str
    read_scopes: tuple[Owner, ...] = ()
    recalls: bool = True


@dataclass(frozen=True, slots=True)
class RecalledTurn:
    """What a turn was given.

    Attributes:
        recall: The memories.
        epoch: The owner's, when the turn began; ``None`` where the storage did not say.
        off: Whether nothing is recalled into the turn or learnt from it.
    """

    recall: Recall
    epoch: str | None
    off: bool = False


LEFT_OUT: Final = RecalledTurn(Recall(), None, off=True)
"""Of a turn without memory."""


class ThreadkeepMiddleware(AgentMiddleware[State, Any, Any]):
    """Gives the model the memories that matter.

    The recalled block stands in front of the newest human message of the model call only; the
    thread's state never holds it. A memory that fails or is slow costs the turn at most the
    time-out; the turn goes on and says so in events of ``stream_mode="custom"``.
    """

    def __init__(
        self,
        tk: Threadkeep,
        *,
        owner: OwnerSource | None,
        recall: bool,
        budget_tokens: int,
        timeout: timedelta | None,
        placement: str,
        events: str,
        read_scopes: ScopesSource = (),
        experience: Owner | None = None,
        participants: ParticipantsSource | None = None,
    ) -> None:
        super().__init__()
        self._tk = tk
        self._app = tk.app
        self._locked = tk.locked_to is not None
        self._owner = owner if owner is not None else tk.owner_source
        self._recalls = recall
        self._budget_tokens = budget_tokens
        self._timeout = timeout
        self._placement = placement
        self._full_events = events == "full"
        self._read_scopes = read_scopes
        self._experience = experience
        self._participants = participants
        self._seen: OrderedDict[TurnContext, RecalledTurn] = OrderedDict()
        self._vouched: LRUCache[tuple[Owner, str], bool] = LRUCache(TURNS_REMEMBERED)
        self._begun: LRUCache[tuple[Owner, str], bool] = LRUCache(TURNS_REMEMBERED)
        listen()

    @property
    def name(self) -> str:
        """What graphs call it, whatever it does: a thread that waits in a step of it finds that again."""
        return ThreadkeepMiddleware.__name__

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with what is remembered about the user."""
        config, messages = get_config(), PlainMessages(request.messages)
        turn = self._turn(request, messages, config)
        unbound = self._unbound_thread(turn, config)
        if unbound is not None and (saver := self._saver_to_check(turn, messages, config)) is not None:
            named = find_owner(saver, unbound, self._app.owner_key)
            if not self._app.event_loop.run_sync(self._is_theirs(turn, named)):
                self._seen[turn] = LEFT_OUT
        if is_memory_off(config):
            self._app.event_loop.run_sync(self._leave_out(turn, request, config))
            return answer_without_memory(handler(request))
        if newest := question_after_another(messages):
            handler = handler if had_memory_sync(request.messages, newest, config) else marking(handler)
        before = self._seen.get(turn)
        if before is not None and before.off:
            return handler(request)
        seen = self._try_cached(turn, before, messages)
        if seen is None:
            seen = self._app.event_loop.run_sync(self._recalled(turn, messages))
        elif seen is not before and unbound is not None:
            self._app.event_loop.run_sync(self._bind(unbound, turn.owner, seen.epoch))
        if seen is not before:
            self._tell_recalled(turn, seen, request.runtime)
        return handler(self._with(seen.recall, request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Call the model with what is remembered about the user."""
        config, messages = get_config(), PlainMessages(request.messages)
        turn = self._turn(request, messages, config)
        unbound = self._unbound_thread(turn, config)
        if unbound is not None and (saver := self._saver_to_check(turn, messages, config)) is not None:
            named = await afind_owner(saver, unbound, self._app.owner_key)
            if not await self._app.event_loop.run(self._is_theirs(turn, named)):
                self._seen[turn] = LEFT_OUT
        if is_memory_off(config):
            await self._app.event_loop.run(self._leave_out(turn, request, config))
            return answer_without_memory(await handler(request))
        if newest := question_after_another(messages):
            handler = handler if await had_memory(request.messages, newest, config) else amarking(handler)
        before = self._seen.get(turn)
        if before is not None and before.off:
            return await handler(request)
        seen = self._try_cached(turn, before, messages)
        if seen is None:
            seen = await self._app.event_loop.run(self._recalled(turn, messages))
        elif seen is not before and unbound is not None:
            await self._app.event_loop.run(self._bind(unbound, turn.owner, seen.epoch))
        if seen is not before:
            self._tell_recalled(turn, seen, request.runtime)
        return await handler(self._with(seen.recall, request))

    async def _leave_out(self, turn: TurnContext, request: ModelRequest[Any], config: Any) -> None:
        """Do what a turn without memory needs, so that nothing is learnt from it later, either."""

    def _turn(self, request: ModelRequest[Any], messages: PlainMessages, config: Any) -> TurnContext:
        """Return the turn; the owner is required before the model is called."""
        if request.response_format is not None:
            allow_response_types(request.response_format, config)
        try:
            return self._turn_of(messages, request.runtime, config)
        except OwnerRequiredError:
            saver = saver_of(config)
            if isinstance(saver, ThreadkeepCheckpointer) and (lease := saver.lease_of(config)) is not None:
                lease.refused = lease.owner is None and bool(lease.head.owner)
            raise

    def _turn_of(self, messages: PlainMessages, runtime: Runtime[Any], config: Any) -> TurnContext:
        position, message, question = messages.newest_human
        key = message or short_digest(str(position), question)
        scopes = read_scopes_from(self._read_scopes, runtime=runtime, config=config)
        owner, thread_id = self._resolve_owner(runtime, config), thread_id_of(runtime, config)
        alone = self._participants is None or participants_from(self._participants, runtime) is None
        return TurnContext(owner, thread_id, key, scopes, self._recalls and alone)

    def _resolve_owner(self, runtime: Runtime[Any], config: Any) -> Owner:
        owner = self._tk.resolve_owner(owner_from(self._owner, runtime=runtime, config=config))
        if self._owner is not None:
            require_agreement(owner, config)
        return owner if owner.kind == "user" else checked_user(owner)

    def _try_cached(
        self, turn: TurnContext, before: RecalledTurn | None, messages: PlainMessages
    ) -> RecalledTurn | None:
        """Return what :meth:`_recalled` would, in this thread, without waiting; ``None``: it has to be waited for.

        Only the owner's memories are read, so this need not wait for the owner of the thread, which the checkpointer
        looks up meanwhile.
        """
        if before is not None:
            return None if before.recall.memories else before
        services = self._app.try_services()
        if services is None or (storage := services.immediate) is None:
            return None
        if services.opt_outs.holds(turn.owner, turn.thread_id):  # then nothing is bound either
            return None
        position = storage.try_position(turn.owner.partition)
        if position is None:
            return None
        recall = self._app.try_recall(self._request(turn, messages)) if turn.recalls else Recall()
        return None if recall is None else RecalledTurn(recall, position.epoch)

    async def _recalled(self, turn: TurnContext, messages: PlainMessages) -> RecalledTurn:
        """Return what the turn was given already, if all of it still holds; else recall."""
        app = self._app
        if await app.is_off(turn.owner, turn.thread_id):
            return RecalledTurn(Recall(), None)
        seen = self._seen.get(turn)
        if seen is not None:
            try:
                if await app.timeout_budget.wait(self._is_unchanged(seen, turn.owner)):
                    return seen
            except (StorageError, TimeoutError) as error:
                app.telemetry.degraded("recall", error)
                return seen
        epoch = seen.epoch if seen is not None else await self._epoch(turn.owner)
        thread_id = self._unbound_thread(turn, get_config())
        if thread_id is None:
            return RecalledTurn(await self._recall(turn, messages), epoch)
        recalling = asyncio.ensure_future(self._recall(turn, messages))
        try:
            await self._bind(thread_id, turn.owner, epoch)
            return RecalledTurn(await recalling, epoch)
        finally:
            recalling.cancel()

    async def _bind(self, thread_id: str, owner: Owner, epoch: str | None) -> None:
        app = self._app
        try:
            await app.timeout_budget.wait(app.threads.bind(thread_id, owner, epoch))
        except PartitionErasedError:  # the turn outlives its owner's erasing: nothing of it is kept
            return
        except (StorageError, TimeoutError) as error:  # the turn goes on, and is recorded only once this is known
            app.telemetry.degraded("binding", error)

    async def _recall(self, turn: TurnContext, messages: PlainMessages) -> Recall:
        if not turn.recalls:
            return Recall()
        return await self._app.recall(self._request(turn, messages))

    def _request(self, turn: TurnContext, messages: PlainMessages) -> RecallRequest:
        most = _DOCUMENTS_MOST if self._placement == "system" else None
        return RecallRequest(
            messages.newest_human[2],
            turn.owner,
            turn.thread_id,
            messages if turn.thread_id is not None else (),
            budget_tokens=self._budget_tokens,
            max_facts=most,
            max_episodes=most,
            timeout=self._timeout,
            read_scopes=turn.read_scopes,
        )

    async def _is_unchanged(self, seen: RecalledTurn, owner: Owner) -> bool:
        services = await self._app.connect()
        return await services.recalls.are_unchanged(seen.recall.memories, owner=owner)

    async def _epoch(self, owner: Owner) -> str | None:
        """Tell the owner's epoch, so that a turn that outlives the owner's erasing is not recorded."""

        async def position() -> str:
            return (await (await self._app.connect()).storage.position(owner.partition)).epoch

        try:
            return await self._app.timeout_budget.wait(position(), timeout=self._timeout)
        except (StorageError, TimeoutError):  # recall says so
            return None

    def _unbound_thread(self, turn: TurnContext, config: Any) -> str | None:
        """Return the thread that has to be bound to its owner here.

        Returns:
            None: the client is locked to an owner, or our checkpointer has bound it when the run began.
        """
        thread_id = turn.thread_id
        if thread_id is None or self._locked or uses_our_checkpointer(config):
            return None
        return thread_id

    def _saver_to_check(
        self, turn: TurnContext, messages: PlainMessages, config: Any
    ) -> BaseCheckpointSaver[Any] | None:
        """Return the application's checkpointer, if it has a longer thread that was not looked at for owners yet."""
        place = turn.owner, turn.thread_id or ""
        if messages.newest_human[0] <= 0:
            self._begun[place] = True
            return None
        if place in self._vouched:
            return None
        return None if self._app.settings.under_langgraph_server else foreign_saver(config)

    async def _is_theirs(self, turn: TurnContext, named: NamedOwner) -> bool:
        """Return whether a thread that we do not keep is that of the turn's owner: bound to this one, or *named* so.

        Returns:
            False: It has no owner; its metadata name none from the beginning, and it was not adopted.

        Raises:
            OwnerMismatchError: The metadata name another user, and the thread is not bound to the owner of the turn.
        """
        theirs = named.name in (turn.owner.user_id, turn.owner.label)
        bound_to = turn.owner.label if theirs and named.begun else await self._bound_to(turn)
        if bound_to != turn.owner.label:
            if bound_to is not None or (named.name and not theirs):
                msg = (
                    "This thread is another user's: it is bound so, or its checkpoints name another user. Use a thread "
                    "id of your own, or bind it to its owner: threadkeep threads adopt --from URL --mapping FILE."
                )
                raise OwnerMismatchError(msg, thread_id=turn.thread_id)
            if named.continued and (turn.owner, turn.thread_id or "") not in self._begun:
                log.warning(
                    "Memory is off in a thread without an owner: its first checkpoint names no user. Bind it to its "
                    "owner: threadkeep threads adopt --from URL --mapping FILE."
                )
                return False
        self._vouched[turn.owner, turn.thread_id or ""] = named.begun and theirs
        return True

    async def _bound_to(self, turn: TurnContext) -> str | None:
        """Return the label of the owner of the turn's thread; ``None`` if the storage does not answer, too."""
        app = self._app

        async def owner() -> str | None:
            return await (await app.threads.connect()).owner_of(turn.thread_id or "")

        try:
            return await app.timeout_budget.wait(owner())
        except (StorageError, TimeoutError) as error:
            app.telemetry.degraded("binding", error)
            return None

    def _with(self, found: Recall, request: ModelRequest[Any]) -> ModelRequest[Any]:
        if not found.memories:
            return request
        if self._placement == "user":
            return request.override(messages=found.into(request.messages))
        said = memory_context_text([recalled.memory for recalled in found.memories])
        before = request.system_message.text + "\n\n" if request.system_message else ""
        return request.override(system_message=SystemMessage(before + said))

    def _release_after_run(self, turn: TurnContext) -> None:
        """Forget what *turn* was given when the run has ended."""
        if (run := current_run()) is not None:
            run.root.when_ended(lambda: self._seen.pop(turn, None))

    def _tell_recalled(self, turn: TurnContext, seen: RecalledTurn, runtime: Runtime[Any]) -> None:
        self._seen[turn] = seen
        found = seen.recall
        while len(self._seen) > TURNS_REMEMBERED:
            self._seen.popitem(last=False)
        self._release_after_run(turn)
        if turn.recalls:
            runtime.stream_writer(
                {
                    "type": "recalled",
                    "memories": [self._event_of(recalled) for recalled in found.memories],
                    "left_out": [self._event_of(recalled) for recalled in found.left_out],
                    "tokens": found.tokens,
                    "degraded": list(found.degraded),
                }
            )

    def _event_of(self, recalled: Recalled) -> dict[str, Any]:
        event: dict[str, Any] = {"id": recalled.memory.memory_id, "score": recalled.score}
        if not self._full_events:
            return event
        memory = recalled.memory
        source = memory.sources[-1] if memory.sources else None
        return {
            **event,
            "text": recalled.text,
            "kind": memory.kind,
            "said_at": source.at.isoformat() if source is not None and source.at is not None else None,
            "thread_id": source.thread_id if source is not None else None,
            "message_id": source.message_id if source is not None else None,
            "said_by": memory.trust,
            "approved_by": memory.approval.by if memory.approval is not None else None,
            "earlier": recalled.earlier,
            "may_hold": recalled.may_hold,
        }
