"""What a place for checkpoints has to offer: LangGraph's saver for it, opened, closed, and its errors in our words."""

from __future__ import annotations

import asyncio
import copy
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, TypeAlias, TypeVar, cast

from langgraph.checkpoint.base import BaseCheckpointSaver

from threadkeep.event_loop import OUTCOMES, settle

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from threadkeep.threads.fencing import Grant, Strategy, ThreadClaim
    from threadkeep.threads.maintenance import Place


T = TypeVar("T")
Saver: TypeAlias = BaseCheckpointSaver[str]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What holds of checkpoints that are kept there.

    Attributes:
        lasting: They outlive the process.
        shared: Several machines can use them at once.
        whole_writes: What a task wrote is all there or not at all, also after a crash.
        expires: They go by themselves after LANGGRAPH_CHECKPOINT_TTL_MINUTES.
        fenced: Whether a late writer is told so in the very transaction of its write, or just before it.
    """

    lasting: bool = False
    shared: bool = False
    whole_writes: bool = True
    expires: bool = False
    fenced: Literal["in the write", "before the write"] = "in the write"


class ThreadRead(NamedTuple):
    """What was read with a lease: a checkpoint, or that there is none."""

    found: CheckpointTuple | None


class Backend(ABC):
    """One place for checkpoints; constructing it does no I/O. Everything runs on the home loop.

    Attributes:
        name: Its value of LANGGRAPH_CHECKPOINT_TYPE.
        capabilities: What holds of checkpoints that are kept there.
        longest_name: The most bytes of a thread's name that it can find a thread by; ``None``: any.
        filters: The keys of the metadata that it can filter by itself; ``None``: all.
        texts_only: It keeps JSON, so whatever is not text is packed as text.
        plain_texts: It keeps only what JSONB can: no NUL, no NaN.
        waits: Calls of it may take time, so a limit is set to them.
        reachable: Its saver is a :class:`ThreadedSaver` whose calls can be begun from any thread, and need not take the
            way over the home loop.
        leases_expire: Leases outlive a process that went down, so they end by the clock and have to be renewed.
    """

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    longest_name: ClassVar[int | None] = None
    filters: ClassVar[frozenset[str] | None] = None
    texts_only: ClassVar[bool] = False
    plain_texts: ClassVar[bool] = False
    waits: ClassVar[bool] = True
    reachable: ClassVar[bool] = False
    leases_expire: ClassVar[bool] = True

    @property
    @abstractmethod
    def location(self) -> str:
        """Where it is, without a secret."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What its driver raises and :meth:`explained` understands; asked for after the first opening began."""
        return ()

    @abstractmethod
    async def open(self) -> Saver:
        """Connect, make what is missing there, and return a saver whose async methods work on this loop.

        Raises:
            StorageError: It cannot be used; a sentence says why and what to do.
        """

    @abstractmethod
    async def close(self) -> None:
        """Let go of everything that :meth:`open` took, also where that failed half-way."""

    def explained(self, error: Exception) -> Exception:
        """Return what *error*, one of :attr:`errors`, means, as an error of ours."""
        return error

    def gone(self, error: Exception) -> bool:  # noqa: ARG002 - most have no connection that could go
        """Whether *error* says that a connection broke, so that the same call may work over a new one.

        Every call of a saver may be made twice: what it writes has an id.
        """
        return False

    @abstractmethod
    async def call(
        self, saver: Saver, work: Callable[[Saver], Awaitable[T]], *, seconds: float, claim: ThreadClaim | None = None
    ) -> T:
        """Return what *work*, one call of *saver*, returns.

        Args:
            saver: What :meth:`with_serializer` returned.
            work: Calls one method of it.
            seconds: After so many nobody waits for it any more.
            claim: Who writes what; :func:`~threadkeep.threads.fencing.judge` has to allow it, where
                :attr:`Capabilities.fenced` says so in the transaction of *work*.

        Raises:
            ThreadBusyError, ThreadMovedOnError: It was not allowed, and nothing was written.
        """

    def begin(
        self,
        saver: Saver,
        work: Callable[[Saver], T],
        *,
        claim: ThreadClaim | None = None,
        lost: Callable[[T], object] | None = None,
    ) -> asyncio.Future[T]:
        """Begin a call from whichever loop runs here, where :attr:`reachable` says that this can be.

        Args:
            saver: What :meth:`with_serializer` returned.
            work: Calls one blocking method of it.
            claim: Who writes what; it is judged in the transaction of *work*.
            lost: Is told what *work* returned where nobody waits for it any more; in whichever thread.

        Raises:
            RuntimeError: It is closed.

        Returns:
            What it comes to. Whoever settles it first keeps what has not begun from ever beginning.
        """
        raise NotImplementedError

    def begin_giving_back(self, saver: Saver, thread: str, token: int, *, then: Callable[[], object]) -> None:
        """Begin what :meth:`give_back` does, from any thread, where :attr:`reachable` says that this can be.

        Args:
            saver: What :meth:`open` returned.
            thread: The thread's stored name.
            token: Of the lease.
            then: Is called when it is done, or came to nothing; in whichever thread.

        Raises:
            RuntimeError: It is closed.
        """
        raise NotImplementedError

    @abstractmethod
    async def take(self, saver: Saver, thread: str, *, holder: str, seconds: float, strategy: Strategy) -> Grant | None:
        """Give *holder* the lease on a thread.

        Args:
            saver: What :meth:`open` returned.
            thread: The thread's stored name.
            holder: Who asks; whoever has it already gets it anew.
            seconds: How long it lasts, by the clock of the database.
            strategy: ``interrupt`` and ``rollback`` take it from whoever has it.

        Returns:
            ``None`` where another one has it and keeps it.
        """

    async def take_and_read(
        self, saver: Saver, thread: str, *, holder: str, seconds: float, strategy: Strategy, config: RunnableConfig
    ) -> tuple[Grant | None, ThreadRead | None]:
        """Do what :meth:`take` does, and read what *config* names in the same visit, where that saves one.

        Returns:
            The lease, and what was read; ``None`` where nothing was, because it would be a visit of its own or what
            is newest may have to go.
        """
        del config
        return await self.take(saver, thread, holder=holder, seconds=seconds, strategy=strategy), None

    @abstractmethod
    async def renew(self, saver: Saver, tokens: Mapping[str, int], *, seconds: float) -> set[str]:
        """Prolong the leases of these threads; return those that still have these *tokens*."""

    @abstractmethod
    async def give_back(self, saver: Saver, thread: str, token: int) -> None:
        """End the lease on a thread, if it still has this *token*."""

    @abstractmethod
    async def forget_newer(self, saver: Saver, thread: str, checkpoint_id: str) -> None:
        """Delete the checkpoints of a thread that are newer than that one, in all namespaces, with their writes."""

    @abstractmethod
    async def remove(self, saver: Saver, thread: str, gone: Sequence[Place]) -> None:
        """Delete these checkpoints of a thread, what tasks wrote after them, and values that only they held."""

    @abstractmethod
    async def reparent(self, saver: Saver, thread: str, place: Place, parent_id: str) -> None:
        """Let one checkpoint be the child of that other one of its namespace."""

    async def scrub(self, saver: Saver) -> None:  # noqa: ARG002 - servers see to it themselves
        """Rid the place of what deleted checkpoints have left in it beside those that stay."""
        return

    def with_serializer(self, saver: Saver, serde: SerializerProtocol) -> Saver:
        """Return *saver* for one operation, reading and writing by *serde*."""
        one = copy.copy(saver)
        one.serde = serde
        return one


class ThreadedSaver(BaseCheckpointSaver[str]):
    """The async methods of a saver that has only blocking ones: each is one call in a thread of ``threads``.

    What is abstract here does what the method of that name of :class:`Backend` does.

    A cancelled caller interrupts none that has begun.
    """

    threads: Executor

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Do what ``get_tuple`` does."""
        return await self.there(partial(self.get_tuple, config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do what ``list`` does; all of it is read before the first is given."""

        def listed() -> list[CheckpointTuple]:
            return [*self.list(config, filter=filter, before=before, limit=limit)]

        for found in await self.there(listed):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Do what ``put`` does."""
        return await self.there(partial(self.put, config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Do what ``put_writes`` does."""
        await self.there(partial(self.put_writes, config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Do what ``delete_thread`` does."""
        await self.there(partial(self.delete_thread, thread_id))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Do what ``get_delta_channel_history`` does."""
        return await self.there(partial(self.get_delta_channel_history, config=config, channels=channels))

    async def there(self, work: Callable[[], T]) -> T:
        """Return what *work* returns in one of the threads."""
        return await begun_in(self.threads, work)

    @abstractmethod
    def take(self, thread: str, holder: str, seconds: float, strategy: Strategy) -> Grant | None:
        """Give *holder* the lease on a thread."""

    def take_and_read(
        self, thread: str, holder: str, seconds: float, strategy: Strategy, config: RunnableConfig
    ) -> tuple[Grant | None, ThreadRead | None]:
        """Give *holder* the lease on a thread, and read it."""
        grant = self.take(thread, holder, seconds, strategy)
        if grant is None or grant.back_to is not None:
            return grant, None
        try:
            return grant, ThreadRead(self.get_tuple(config))
        except BaseException:
            self.give_back(thread, grant.token)
            raise

    @abstractmethod
    def renew(self, tokens: Mapping[str, int], seconds: float) -> set[str]:
        """Prolong leases; return those that are still held."""

    @abstractmethod
    def give_back(self, thread: str, token: int) -> None:
        """End a lease."""

    @abstractmethod
    def forget_newer(self, thread: str, checkpoint_id: str) -> None:
        """Delete what is newer than a checkpoint."""

    @abstractmethod
    def remove(self, thread: str, gone: Sequence[Place]) -> None:
        """Delete checkpoints with their writes."""

    @abstractmethod
    def reparent(self, thread: str, place: Place, parent_id: str) -> None:
        """Give a checkpoint another parent."""


class ThreadedBackend(Backend):
    """A place for checkpoints whose saver is a :class:`ThreadedSaver`: each change is one call in a thread."""

    async def take(self, saver: Saver, thread: str, *, holder: str, seconds: float, strategy: Strategy) -> Grant | None:
        """Give *holder* the lease on a thread; see :meth:`Backend.take`."""
        real = cast("ThreadedSaver", saver)
        return await real.there(partial(real.take, thread, holder, seconds, strategy))

    async def renew(self, saver: Saver, tokens: Mapping[str, int], *, seconds: float) -> set[str]:
        """Prolong leases; see :meth:`Backend.renew`."""
        real = cast("ThreadedSaver", saver)
        return await real.there(partial(real.renew, tokens, seconds))

    async def give_back(self, saver: Saver, thread: str, token: int) -> None:
        """End a lease; see :meth:`Backend.give_back`."""
        real = cast("ThreadedSaver", saver)
        await real.there(partial(real.give_back, thread, token))

    async def forget_newer(self, saver: Saver, thread: str, checkpoint_id: str) -> None:
        """Delete what is newer; see :meth:`Backend.forget_newer`."""
        real = cast("ThreadedSaver", saver)
        await real.there(partial(real.forget_newer, thread, checkpoint_id))

    async def remove(self, saver: Saver, thread: str, gone: Sequence[Place]) -> None:
        """Delete checkpoints; see :meth:`Backend.remove`."""
        real = cast("ThreadedSaver", saver)
        await real.there(partial(real.remove, thread, gone))

    async def reparent(self, saver: Saver, thread: str, place: Place, parent_id: str) -> None:
        """Give a checkpoint another parent; see :meth:`Backend.reparent`."""
        real = cast("ThreadedSaver", saver)
        await real.there(partial(real.reparent, thread, place, parent_id))


def begun_in(
    threads: Executor, work: Callable[[], T], *, lost: Callable[[T], object] | None = None
) -> asyncio.Future[T]:
    """Begin *work* in one of *threads*, and return what it comes to, on the loop that runs here.

    Where somebody else settles that before *work* has begun, it never does; where they do so later, *lost* is told what
    it returned. ``run_in_executor`` does the same by
    way of a second future, whose callbacks come two rounds of the loop later: a third of what the way costs.

    Raises:
        RuntimeError: The threads have ended.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def carried_out() -> None:
        if answer.done():
            return
        try:
            result = work()
        except OUTCOMES as error:
            with suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(settle, answer, None, error)
            return
        try:
            loop.call_soon_threadsafe(told, result)
        except RuntimeError:  # the same
            if lost is not None:
                lost(result)

    def told(result: T) -> None:
        if answer.done() and lost is not None:
            lost(result)
        settle(answer, result, None)

    threads.submit(carried_out)
    return answer


_PAGE: Final = 20
_GROWTH: Final = 4

Fetch: TypeAlias = "Callable[[RunnableConfig | None, int | None], Awaitable[Sequence[CheckpointTuple]]]"
Keeps: TypeAlias = "Callable[[CheckpointTuple], bool] | None"


@dataclass
class ThreadListing:
    """How far a list of checkpoints has come.

    The ids of one thread and namespace are unique and in order, so the last one continues a page.
    What spans namespaces or threads is fetched in one: there LangGraph promises neither.

    Attributes:
        config: Which thread's, and which namespace's; ``None``: all.
        filter: What their metadata has to say.
        before: Only what is older than this checkpoint.
        left: How many are still to come; ``None``: all there are.
    """

    config: RunnableConfig | None
    filter: dict[str, Any] | None
    before: RunnableConfig | None
    left: int | None

    async def next_page(self, fetch: Fetch, keeps: Keeps) -> Sequence[CheckpointTuple]:
        """Return the next checkpoints, none where the list is at its end.

        Args:
            fetch: Reads that many checkpoints before that one.
            keeps: Which of them belong into the list; ``None``: all.
        """
        if not self._paged:
            return await self._whole(fetch, keeps)
        while self.left is None or self.left > 0:
            size = _PAGE if self.left is None or keeps else min(_PAGE, self.left)
            found = await fetch(self.before, size)
            kept = _sieved(found, keeps)[: self.left]
            if len(found) < size:
                self.left = 0
                return kept
            self.before = {"configurable": {"checkpoint_id": _configurable(found[-1].config)["checkpoint_id"]}}
            self.left = None if self.left is None else self.left - len(kept)
            if kept:
                return kept
        return ()

    async def _whole(self, fetch: Fetch, keeps: Keeps) -> Sequence[CheckpointTuple]:
        limit, self.left = self.left, 0
        if limit is not None and limit <= 0:
            return ()
        size = limit if limit is None or keeps is None else max(_PAGE, limit) * _GROWTH
        while True:
            found = await fetch(self.before, size)
            kept = _sieved(found, keeps)[:limit]
            if size is None or limit is None or len(found) < size or len(kept) >= limit:
                return kept
            size *= _GROWTH

    @property
    def _paged(self) -> bool:
        return self.config is not None and _configurable(self.config).get("checkpoint_ns") is not None


def _sieved(found: Sequence[CheckpointTuple], keeps: Keeps) -> Sequence[CheckpointTuple]:
    return found if keeps is None else [one for one in found if keeps(one)]


def _configurable(config: RunnableConfig) -> dict[str, Any]:
    return config.get("configurable", {})
