"""Leases: which run may go on with a thread, who waits for it, and how a run that has ended gives it back.

A lease is a row beside the checkpoints, in their own database and by its clock: a token that grows, who holds it,
and until when. Whoever holds one renews it; a process that went down stops doing so, and the next run takes over. The
token is the fence: each write names it, and one that is not the newest is refused (:mod:`~threadkeep.threads.fence`).

Everything here runs on the home loop, but for :meth:`Hold.end`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from threadkeep.errors import InvalidInputError, StorageError
from threadkeep.ids import new_id
from threadkeep.threads.fence import ADDRESSED, STRATEGIES, Grant, Strategy, refused

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from threadkeep.threads.backend import Read
    from threadkeep.threads.savers import SharedSaver

STRATEGY: Final = "multitask_strategy"
"""Where a run's ``configurable`` says what becomes of it, or of the other one, where another run is at work."""

LEASE_TIME: Final = timedelta(seconds=12)
"""How long a lease lasts that nobody renews: after a crash the next run waits no longer."""

QUEUE_TIME: Final = timedelta(minutes=5)
"""How long an input waits for the one before it."""

_FIRST_LOOK: Final = 0.02
_LAST_LOOK: Final = 0.5


@dataclass(frozen=True, slots=True)
class Terms:
    """How leases are given.

    Attributes:
        strategy: What becomes of a second input that does not say.
        lease: How long a lease lasts that is not renewed.
        queue: How long an input waits for the one before it.
    """

    strategy: Strategy = "enqueue"
    lease: timedelta = LEASE_TIME
    queue: timedelta = QUEUE_TIME


class RunName(str):
    """The name of a run, which lives as long as the run's configuration does."""

    __slots__ = ("__weakref__",)


@dataclass(slots=True)
class Reading:
    """What a run reads as it begins: with its lease, where that can be.

    Attributes:
        config: What it reads, for the real saver.
        serde: What it reads by.
        read: What was read; ``None``: nothing yet.
    """

    config: RunnableConfig
    serde: SerializerProtocol
    read: Read | None = None


class Hold:
    """A lease that this process holds for one run.

    Attributes:
        thread: The thread's stored name.
        run: The run's name, which its writes carry.
        token: Its fencing token.
        running: The run as callbacks know it: forgotten as soon as nobody keeps it.
        ended: Whether its run has ended; it is given back some time soon.
        over: Whether it was given back, or has passed to another run.
    """

    def __init__(self, thread: str, run: str, token: int, end: Callable[[Hold], None]) -> None:
        self.thread = thread
        self.run = run
        self.token = token
        self.running: object = None
        self.ended = False
        self.over = False
        self._end = end

    def end(self) -> None:
        """Give it back, some time soon; from any thread, and more than once."""
        self.ended = True
        self._end(self)


class Leases:
    """The leases of this process's runs on one place for checkpoints.

    Args:
        shared: The saver.
        terms: How they are given.
    """

    def __init__(self, shared: SharedSaver, terms: Terms) -> None:
        self.terms = terms
        self._shared = shared
        self._holds: dict[str, Hold] = {}
        self._turns: dict[str, object] = {}
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def take(
        self, thread: str, strategy: Strategy, *, addressed: bool = False, reading: Reading | None = None
    ) -> Hold:
        """Return a lease on *thread* for a new run, waiting for it where *strategy* says so.

        Inputs of one process get their turns in the order in which they came.

        Args:
            thread: Its stored name.
            strategy: What becomes of this run, or of the other one, where another one has it.
            addressed: Whether the run was told where to go on from.
            reading: What it reads then; filled where that costs no visit of its own.

        Raises:
            ThreadBusyError: Another run is at work, and *strategy* is not to wait; or it took too long.
        """
        self._loop = asyncio.get_running_loop()
        run = f"{ADDRESSED if addressed else ''}{new_id()}"
        ends = self._loop.time() + self.terms.queue.total_seconds()
        if strategy in ("interrupt", "rollback"):
            return self._held(thread, run, await self._grant(thread, run, strategy, reading))
        mine: object = object()
        while thread in self._turns:
            self._see_whether_to_wait(thread, strategy)
            mine = await self._my_turn(thread, ends)
            if self._turns.get(thread) is mine:
                break  # else a run took the thread in between
        else:
            self._turns[thread] = mine
        try:
            look = _FIRST_LOOK
            while (grant := await self._grant(thread, run, strategy, reading)) is None:
                if strategy == "reject" or self._loop.time() > ends:
                    break
                await asyncio.sleep(look)
                look = min(look * 1.5, _LAST_LOOK)
            return self._held(thread, run, grant)
        except BaseException:
            self._pass_on(thread, mine)
            raise

    def hold_of(self, thread: str) -> Hold | None:
        """Return the lease on *thread* that a run of this process has."""
        hold = self._holds.get(thread)
        return None if hold is None or hold.over else hold

    async def give_back(self, hold: Hold) -> None:
        """End a lease now; whoever waits for it is next."""
        if hold.over:
            return
        self._is_over(hold)
        try:
            with suppress(StorageError):  # it expires
                await self._shared.leasing(lambda backend, saver: backend.give_back(saver, hold.thread, hold.token))
        finally:
            self._pass_on(hold.thread, hold)

    async def close(self) -> None:
        """End all that this process holds."""
        if self._renewing is not None:
            self._renewing.cancel()
        for hold in [*self._holds.values()]:
            await self.give_back(hold)
        if self._ending:
            await asyncio.wait(self._ending)

    async def _grant(self, thread: str, run: str, strategy: Strategy, reading: Reading | None) -> Grant | None:
        seconds = self.terms.lease.total_seconds()

        async def ask() -> Grant | None:
            if reading is None:
                return await self._shared.leasing(
                    lambda backend, saver: backend.take(saver, thread, holder=run, seconds=seconds, strategy=strategy)
                )
            config = reading.config
            grant, reading.read = await self._shared.leasing(
                lambda backend, saver: backend.take_and_read(
                    saver, thread, holder=run, seconds=seconds, strategy=strategy, config=config
                ),
                serde=reading.serde,
            )
            return grant

        asking = asyncio.ensure_future(ask())
        try:
            grant = await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(lambda done: self._undo(thread, done))
            raise
        if grant is not None and grant.back_to is not None:
            await self._shared.forget_newer(thread, grant.back_to)
        return grant

    def _undo(self, thread: str, asked: asyncio.Future[Grant | None]) -> None:
        """Give back what a run was given that was cancelled while it asked."""
        if asked.cancelled() or asked.exception() or (grant := asked.result()) is None:
            return
        self._later(Hold(thread, "", grant.token, self._end_soon))

    def _held(self, thread: str, run: str, grant: Grant | None) -> Hold:
        if grant is None:
            raise refused("busy")
        if (before := self._holds.get(thread)) is not None:
            self._is_over(before)  # it has passed to this one
        hold = self._holds[thread] = self._turns[thread] = Hold(thread, run, grant.token, self._end_soon)
        if self._shared.backend.leases_expire and (self._renewing is None or self._renewing.done()):
            self._renewing = asyncio.ensure_future(self._renew())
        return hold

    def _is_over(self, hold: Hold) -> None:
        hold.over = True
        if self._holds.get(hold.thread) is hold:
            del self._holds[hold.thread]

    def _see_whether_to_wait(self, thread: str, strategy: Strategy) -> None:
        """Refuse an input that does not wait, unless what it would wait for has ended and is about to be given back."""
        before = self._turns[thread]
        ending = isinstance(before, Hold) and before.ended and not self._queues.get(thread)
        if strategy == "reject" and not ending:
            raise refused("busy")

    async def _my_turn(self, thread: str, ends: float) -> object:
        """Wait until it is this input's turn in this process; return what stands for it."""
        queue = self._queues.setdefault(thread, deque())
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await asyncio.wait_for(asyncio.shield(turn), ends - asyncio.get_running_loop().time())
        except TimeoutError:
            self._leave(thread, turn)
            raise refused("busy") from None
        except asyncio.CancelledError:
            self._leave(thread, turn)
            raise
        return turn

    def _leave(self, thread: str, turn: asyncio.Future[None]) -> None:
        if turn.done():
            self._pass_on(thread, turn)
        else:
            turn.cancel()

    def _pass_on(self, thread: str, mine: object) -> None:
        """Let the next one that waits here have its turn, unless somebody has taken it already."""
        if self._turns.get(thread) is not mine:
            return
        queue = self._queues.get(thread)
        while queue:
            turn = queue.popleft()
            if not turn.done():
                self._turns[thread] = turn  # nobody who comes now goes first
                turn.set_result(None)
                return
        self._turns.pop(thread, None)
        self._queues.pop(thread, None)

    def _end_soon(self, hold: Hold) -> None:
        if hold.over or self._loop is None:
            return
        with suppress(RuntimeError):  # the loop is closed, and with it everything was given back
            self._loop.call_soon_threadsafe(self._later, hold)

    def _later(self, hold: Hold) -> None:
        ending = asyncio.ensure_future(self.give_back(hold))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _renew(self) -> None:
        """Renew what is held, until nothing is."""
        every = self.terms.lease.total_seconds() / 3
        while True:
            await asyncio.sleep(every)
            if not self._holds:
                return
            with suppress(StorageError):  # the next time, or it expires and whoever comes takes it
                await self._renew_once([*self._holds.values()])

    async def _renew_once(self, held: Sequence[Hold]) -> None:
        seconds = self.terms.lease.total_seconds()
        tokens = {hold.thread: hold.token for hold in held}
        ours = await self._shared.leasing(lambda backend, saver: backend.renew(saver, tokens, seconds=seconds))
        for hold in held:
            if hold.thread not in ours and not hold.over:
                self._is_over(hold)
                self._pass_on(hold.thread, hold)


def strategy_of(configurable: Mapping[str, Any], terms: Terms) -> Strategy:
    """Return what a run says is to become of it where another one is at work.

    Raises:
        InvalidInputError: It is no such thing.
    """
    said = configurable.get(STRATEGY) or terms.strategy
    for strategy in STRATEGIES:
        if said == strategy:
            return strategy
    msg = f"{STRATEGY} is one of {', '.join(STRATEGIES)}, not {str(said)[:40]!r}."
    raise InvalidInputError(msg)
