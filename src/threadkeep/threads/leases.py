"""Leases: which run may go on with a thread, who waits for it, and how a run that has ended gives it back.

A lease is a row beside the checkpoints, in their own database and by its clock: a token that grows, who holds it,
and until when. Whoever holds one renews it; a process that went down stops doing so, and the next run takes over. The
token is the fence: each write names it, and one that is not the newest is refused (:mod:`~threadkeep.threads.fencing`).

What waits for anybody runs on the home loop. A lease that nobody of this process is before, where the place can be
reached from any thread, is taken and given back where it is asked for, and ``Leases._guard`` keeps the two apart.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from threadkeep.errors import InvalidInputError, StorageError
from threadkeep.ids import new_id
from threadkeep.threads.base import ThreadRead
from threadkeep.threads.fencing import ADDRESSED, STRATEGIES, Grant, Strategy, refused
from threadkeep.threads.thread_access import configurable_of

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from threadkeep.event_loop import EventLoopThread
    from threadkeep.ids import ThreadId
    from threadkeep.threads.base import ThreadedSaver
    from threadkeep.threads.maintenance import ThreadMaintenance
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
class LeaseTerms:
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
class LeaseReading:
    """What a run reads as it begins: with its lease, where that can be.

    Attributes:
        config: What it reads, for the real saver.
        serde: What it reads by.
        read: What was read; ``None``: nothing yet.
    """

    config: RunnableConfig
    serde: SerializerProtocol
    read: ThreadRead | None = None


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

    def __init__(self, thread: str, run: str, token: int, leases: Leases) -> None:
        self.thread = thread
        self.run = run
        self.token = token
        self.running: object = None
        self.ended = False
        self.over = False
        self._leases = leases

    def end(self) -> None:
        """Give it back, some time soon; from any thread, and more than once."""
        self.ended = True
        self._leases.end(self)

    def forgotten(self) -> None:
        """Do the same; it may be called at any point of any thread, as finalizers are, and takes no lock."""
        self.ended = True
        self._leases.end_soon(self)


class Leases:
    """The leases of this process's runs on one place for checkpoints.

    Args:
        shared: The saver.
        terms: How they are given.
    """

    def __init__(self, shared: SharedSaver, terms: LeaseTerms) -> None:
        self.terms = terms
        self._shared = shared
        self._holds: dict[str, Hold] = {}
        self._turns: dict[str, object] = {}
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def take(
        self, thread: str, strategy: Strategy, *, addressed: bool = False, reading: LeaseReading | None = None
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
        run = _name(addressed=addressed)
        ends = self._loop.time() + self.terms.queue.total_seconds()
        if strategy in ("interrupt", "rollback"):
            return self._held(thread, run, await self._grant(thread, run, strategy, reading))
        mine: object = object()
        while (turn := self._placed(thread, strategy, mine)) is not None:
            mine = await self._my_turn(thread, turn, ends)
            if self._turns.get(thread) is mine:
                break  # else a run took the thread in between
        try:
            return await self._looked_for(thread, run, strategy, reading, ends)
        except BaseException:
            self._pass_on(thread, mine)
            raise

    async def take_at_once(
        self,
        thread: str,
        strategy: Strategy,
        reading: LeaseReading,
        *,
        addressed: bool,
        at_home: Callable[[Coroutine[Any, Any, Hold]], Awaitable[Hold]],
    ) -> Hold | None:
        """Do what :meth:`take` does, on whichever loop, where nobody of this process is before this run.

        Args:
            thread: Its stored name.
            strategy: What becomes of this run, or of the other one, where another one has it.
            reading: What it reads then, which is filled.
            addressed: Whether the run was told where to go on from.
            at_home: Does on the home loop what has to wait for a run of another process.

        Returns:
            ``None``: :meth:`take` has to be asked.
        """
        mine, loop = object(), self._loop
        if loop is None or strategy in ("interrupt", "rollback") or self._turns.setdefault(thread, mine) is not mine:
            return None
        run, seconds = _name(addressed=addressed), self.terms.lease.total_seconds()
        try:
            grant, reading.read = await self._shared.reach(
                reading.serde,
                lambda saver: cast("ThreadedSaver", saver).take_and_read(
                    thread, run, seconds, strategy, reading.config
                ),
                lost=lambda got: self._lost(thread, got[0]),
            )
            if grant is not None:
                return self._held(thread, run, grant)
            ends = loop.time() + self.terms.queue.total_seconds()
            return await at_home(self._looked_for(thread, run, strategy, reading, ends))
        except BaseException:
            self._pass_on_soon(thread, mine)
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

    async def _looked_for(
        self, thread: str, run: str, strategy: Strategy, reading: LeaseReading | None, ends: float
    ) -> Hold:
        """Return the lease for a run whose turn it is in this process; another process may have it."""
        look = _FIRST_LOOK
        while (grant := await self._grant(thread, run, strategy, reading)) is None:
            if strategy == "reject" or asyncio.get_running_loop().time() > ends:
                break
            await asyncio.sleep(look)
            look = min(look * 1.5, _LAST_LOOK)
        return self._held(thread, run, grant)

    async def _grant(self, thread: str, run: str, strategy: Strategy, reading: LeaseReading | None) -> Grant | None:
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
        if not asked.cancelled() and not asked.exception():
            self._lost(thread, asked.result())

    def _lost(self, thread: str, grant: Grant | None) -> None:
        if grant is not None:
            Hold(thread, "", grant.token, self).end()

    def _held(self, thread: str, run: str, grant: Grant | None) -> Hold:
        if grant is None:
            raise refused("busy")
        hold = Hold(thread, run, grant.token, self)
        with self._guard:
            before = self._holds.get(thread)
            if before is not None and before.token > hold.token:
                hold.over = True  # a run that does not wait has taken it since it was granted
                return hold
            if before is not None:
                before.over = True  # it has passed to this one
            self._holds[thread] = self._turns[thread] = hold
            renewed = self._renewing is not None and not self._renewing.done()
        if self._shared.backend.leases_expire and not renewed:
            self._at_home(self._keep_renewing)
        return hold

    def _is_over(self, hold: Hold) -> None:
        with self._guard:
            hold.over = True
            if self._holds.get(hold.thread) is hold:
                del self._holds[hold.thread]

    def _placed(self, thread: str, strategy: Strategy, mine: object) -> asyncio.Future[None] | None:
        """Return what tells this input of its turn in this process; ``None``: it is its turn, and *mine* stands for it.

        An input that does not wait is refused, unless what it would wait for has ended and is about to be given back.
        """
        with self._guard:
            before = self._turns.setdefault(thread, mine)
            if before is mine:
                return None
            ending = isinstance(before, Hold) and before.ended and not self._queues.get(thread)
            if strategy == "reject" and not ending:
                raise refused("busy")
            turn = asyncio.get_running_loop().create_future()
            self._queues.setdefault(thread, deque()).append(turn)
            return turn

    async def _my_turn(self, thread: str, turn: asyncio.Future[None], ends: float) -> object:
        """Wait until it is this input's turn in this process; return what stands for it."""
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
        with self._guard:
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

    def _pass_on_soon(self, thread: str, mine: object) -> None:
        """Do the same from any thread."""
        with self._guard:
            if self._turns.get(thread) is not mine:
                return
            if not self._queues.get(thread):  # nobody has to be woken
                self._turns.pop(thread)
                return
        self._at_home(self._pass_on, thread, mine)

    def end(self, hold: Hold) -> None:
        """Give *hold* back where this is asked, if that can be, and on the home loop otherwise."""
        if hold.over:
            return
        if not self._shared.reachable:
            self.end_soon(hold)
            return
        self._is_over(hold)
        with suppress(RuntimeError):  # it was closed just now; the lease expires
            self._shared.give_back(hold.thread, hold.token, then=lambda: self._pass_on_soon(hold.thread, hold))

    def end_soon(self, hold: Hold) -> None:
        """Give *hold* back on the home loop."""
        if not hold.over:
            self._at_home(self._later, hold)

    def _at_home(self, call: Callable[..., object], *given: object) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed, and with it everything was given back
                self._loop.call_soon_threadsafe(call, *given)

    def _later(self, hold: Hold) -> None:
        ending = asyncio.ensure_future(self.give_back(hold))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _keep_renewing(self) -> None:
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.ensure_future(self._renew())

    async def _renew(self) -> None:
        """Renew what is held, until nothing is."""
        every = self.terms.lease.total_seconds() / 3
        while True:
            await asyncio.sleep(every)
            with self._guard:  # whoever takes one from now on sees that nobody renews
                if not self._holds:
                    self._renewing = None
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


def _name(*, addressed: bool) -> str:
    return f"{ADDRESSED if addressed else ''}{new_id()}"


def strategy_of(configurable: Mapping[str, Any], terms: LeaseTerms) -> Strategy:
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


class Begun(NamedTuple):
    """What a run begins with.

    Attributes:
        hold: Its lease.
        found: The checkpoint that it goes on from; ``None``: there is none.
        epoch: Its owner's; ``None``: nobody knows.
    """

    hold: Hold
    found: CheckpointTuple | None
    epoch: str | None


@dataclass(frozen=True, slots=True)
class Beginning:
    """Begins runs on the threads of one view of a checkpointer.

    Attributes:
        upkeep: Its threads.
        home: The loop that its saver lives on.
    """

    upkeep: ThreadMaintenance
    home: EventLoopThread

    async def begun(self, config: RunnableConfig) -> Begun:
        """Return what the run of *config* begins with, which may have to wait for another run; on any loop.

        Where nobody has to be asked or waited for, the caller's loop takes and reads from the saver's thread itself.
        """
        upkeep = self.upkeep
        if self.home.here and upkeep.shared.reachable:
            known = upkeep.admission.begins_at_once(config)
            if known is not None and (begun := await self._at_once(config, *known)) is not None:
                return begun
        return await self.home.run(self.at_home(config))

    async def at_home(self, config: RunnableConfig) -> Begun:
        """Do the same on the home loop."""
        upkeep = self.upkeep
        epoch = await upkeep.admission.epoch(config)  # before it waits: what was said before an erasure is not kept
        async with upkeep.shared.using():
            thread_id, inner = await upkeep.admission.admitted(config, writing=False)
            reading = LeaseReading(inner, upkeep.serde)
            hold = await self._leased(config, thread_id, reading)
            try:
                read = reading.read or ThreadRead(await upkeep.run(lambda saver: saver.aget_tuple(inner)))
                await upkeep.admission.admitted(config, writing=False)  # it may have waited, and be another's by now
                return Begun(hold, upkeep.seen(read.found, config, thread_id), epoch)
            except BaseException:
                hold.end()
                raise

    async def leased(self, config: RunnableConfig) -> Hold:
        """Return a lease on the thread of *config*; on the home loop."""
        async with self.upkeep.shared.using():
            thread_id, _ = await self.upkeep.admission.admitted(config, writing=False)
            return await self._leased(config, thread_id)

    async def _at_once(
        self, config: RunnableConfig, thread_id: ThreadId, inner: RunnableConfig, epoch: str | None
    ) -> Begun | None:
        upkeep, configurable = self.upkeep, configurable_of(config)
        reading = LeaseReading(inner, upkeep.serde)
        hold = await upkeep.leases.take_at_once(
            upkeep.admission.name(thread_id),
            strategy_of(configurable, upkeep.leases.terms),
            reading,
            addressed=bool(configurable.get("checkpoint_id")),
            at_home=self.home.run,
        )
        if hold is None:
            return None
        try:
            read = reading.read or ThreadRead(await self.home.run(upkeep.run(lambda saver: saver.aget_tuple(inner))))
            if not upkeep.admission.still_reads(config, thread_id):  # it may be another's by now
                await self.home.run(upkeep.admission.admitted(config, writing=False))
            return Begun(hold, upkeep.seen(read.found, config, thread_id), epoch)
        except BaseException:
            hold.end()
            raise

    async def _leased(self, config: RunnableConfig, thread_id: ThreadId, reading: LeaseReading | None = None) -> Hold:
        configurable = configurable_of(config)
        return await self.upkeep.leases.take(
            self.upkeep.admission.name(thread_id),
            strategy_of(configurable, self.upkeep.leases.terms),
            addressed=bool(configurable.get("checkpoint_id")),
            reading=reading,
        )
