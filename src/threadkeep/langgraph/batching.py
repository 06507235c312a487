"""Many calls of one store at the same moment: some go at once, those that wait are performed together."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from langgraph.store.base import Result

from threadkeep.errors import ClosedError, DamagedItemError, InvalidInputError, SealError
from threadkeep.event_loop import closed_error
from threadkeep.langgraph.operations import CallPlan

if TYPE_CHECKING:
    from threadkeep.event_loop import EventLoopThread

AT_ONCE: Final = 32
"""So many calls of a store are under way at a time. A pool of connections lends none to those that ask for too long."""

_TOGETHER: Final = 500
_ONE_CALLS: Final = (InvalidInputError, DamagedItemError, SealError)  # one call's fault, and nothing was written

_Results: TypeAlias = list[Result]


class _StoreCall(NamedTuple):
    plan: CallPlan
    answer: Future[_Results]


class CallBatcher:
    """Performs calls, each for itself while there are few; what waits meanwhile is put together by what it does.

    Gets are one read. Writes of one partition are one commit, in the order in which they were called. Calls
    that ask the same are answered by one of them, each with a copy of its own. Everything else goes alone. A
    call that is refused takes no other with it. What waits costs the event loop nothing: ten thousand calls at
    a time would keep it from its connections.

    Args:
        event_loop: Where plans are performed; calls come from any loop or thread.
        perform: Performs one plan.
    """

    def __init__(
        self, event_loop: EventLoopThread, perform: Callable[[CallPlan], Coroutine[Any, Any, _Results]]
    ) -> None:
        self._event_loop = event_loop
        self._perform = perform
        self._guard = threading.Lock()
        self._under_way = 0  # while anything waits, something is under way, and begins what waits when it ends
        self._lanes: dict[Hashable, deque[_StoreCall]] = {}
        self._busy: set[Hashable] = set()

    async def perform(self, plan: CallPlan) -> _Results:
        """Return the results of *plan*, alone or together with others."""
        answer = self._waits(plan)
        if answer is not None:
            return await asyncio.wrap_future(answer)
        try:
            return await self._event_loop.run(self._perform(plan))
        finally:
            self._left()

    def perform_sync(self, plan: CallPlan) -> _Results:
        """Do what :meth:`perform` does, and block the calling thread until it is done."""
        answer = self._waits(plan)
        if answer is not None:
            try:
                return answer.result()
            finally:
                answer.cancel()  # Ctrl-C while waiting
        try:
            return self._event_loop.run_sync(self._perform(plan))
        finally:
            self._left()

    def _waits(self, plan: CallPlan) -> Future[_Results] | None:
        """Take a place among those under way, or where there is none, wait in a lane; return what to wait for."""
        with self._guard:
            if self._under_way < AT_ONCE and not (self._lanes and _lane(plan) in self._lanes):
                self._under_way += 1
                return None
            self._event_loop.require_open()
            answer: Future[_Results] = Future()
            self._lanes.setdefault(_lane(plan), deque()).append(_StoreCall(plan, answer))
            return answer

    def _left(self) -> None:
        """Begin a round of the lane that has waited longest and has none under way."""
        with self._guard:
            self._under_way -= 1
            if not self._lanes:
                return
            lane = next((lane for lane in self._lanes if lane not in self._busy), None)
            if lane is None:
                return
            try:
                self._event_loop.begin(self._round(lane), partial(self._ended, lane))
            except ClosedError as error:
                closed = error
                waiting, self._lanes = self._lanes, {}
            else:
                self._under_way += 1
                self._busy.add(lane)
                return
        for calls in waiting.values():
            _refused(calls, closed)

    def _ended(self, lane: Hashable) -> None:
        """Put those of *lane* that are left behind those that wait longer, and begin what is next."""
        with self._guard:
            self._busy.discard(lane)
            waiting = self._lanes.pop(lane, None)
            if waiting:
                self._lanes[lane] = waiting
        self._left()

    async def _round(self, lane: Hashable) -> None:
        with self._guard:
            waiting = self._lanes.get(lane, deque[_StoreCall]())
            calls = [waiting.popleft() for _ in range(min(len(waiting), _TOGETHER))]
        calls = [call for call in calls if call.answer.set_running_or_notify_cancel()]
        if not calls:
            return
        try:
            await self._answered(calls)
        except asyncio.CancelledError:
            _refused(calls, closed_error())
            raise

    async def _answered(self, calls: Sequence[_StoreCall]) -> None:
        try:
            answers = await self._together([call.plan for call in calls])
        except _ONE_CALLS as error:
            if len(calls) == 1:
                _refused(calls, error)
            else:
                for call in calls:
                    await self._answered([call])
        except Exception as error:  # noqa: BLE001 - passed to the caller
            _refused(calls, error)
        else:
            for call, results in zip(calls, answers, strict=True):
                call.answer.set_result(results)

    async def _together(self, plans: Sequence[CallPlan]) -> list[_Results]:
        first = plans[0]
        if len(plans) == 1 or first.finds or first.listings:
            results = await self._perform(first)
            return [results, *(copy.deepcopy(results) for _ in plans[1:])]
        whole = CallPlan(first.owner)
        for plan in plans:
            whole.reads += [replace(read, place=whole.size + read.place) for read in plan.reads]
            for ref, write in plan.writes.items():
                whole.writes.pop(ref, None)
                whole.writes[ref] = write
            whole.size += plan.size
        results = await self._perform(whole)
        ends, answers = 0, list[_Results]()
        for plan in plans:
            answers.append(results[ends : ends + plan.size])
            ends += plan.size
        return answers


def _lane(plan: CallPlan) -> Hashable:
    """Return what calls have in common that can be performed together with *plan*; itself, where it goes alone."""
    kinds = [bool(plan.reads), bool(plan.writes), bool(plan.finds), bool(plan.listings)]
    partitions = {ref.partition for ref in plan.writes}
    if sum(kinds) != 1 or len(partitions) > 1 or plan.size > _TOGETHER:
        return id(plan)
    if plan.reads:
        return "reads"
    if plan.writes:
        return partitions.pop()
    return repr((plan.finds, plan.listings, plan.owner, plan.shared))


def _refused(calls: Iterable[_StoreCall], error: Exception) -> None:
    for call in calls:
        if not call.answer.done():
            call.answer.set_exception(error)
