"""What the tests of the MongoDB storage stand on: short ways to write, raw eyes, and writers that stop where told."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, ClassVar, Final, Literal

from pymongo import MongoClient, monitoring
from pymongo.database import Database

from tests.storage.forking import forked
from threadkeep.storage.interface import Batch, Item, Operation, Partition, Position, Put, Ref
from threadkeep.storage.mongodb.storage import MongoStorage
from threadkeep.testing.clock import FrozenClock

ANA: Final = Partition("owner", ("", "ana"))
NOTES: Final = ("memories", "ana")

Moment = Literal["before", "after"]
"""Of a command: before it is sent, or once it is answered."""


@asynccontextmanager
async def opened(url: str, *, clock: FrozenClock | None = None) -> AsyncGenerator[MongoStorage]:
    """Give a connected storage, and close it."""
    storage = MongoStorage(url, clock=clock or FrozenClock())
    await storage.connect()
    try:
        yield storage
    finally:
        await storage.close()


def note(key: str, text: str = "likes tea", **more: Any) -> Put:
    """Return a put of a searchable item."""
    return Put(NOTES, key, {"data": text}, ("data",), **more)


async def commit(storage: MongoStorage, *operations: Operation, epoch: str | None = None) -> Position:
    """Commit *operations* as one batch."""
    return await storage.commit(Batch(ANA, operations, epoch))


async def get(storage: MongoStorage, key: str) -> Item | None:
    """Return one item."""
    (item,) = await storage.get([Ref(ANA, NOTES, key)])
    return item


async def texts(storage: MongoStorage) -> dict[str, str]:
    """Return what is there, key and text, after every way of reading has told the same."""
    scanned = {item.ref.key: item.value["data"] for item in (await storage.scan(ANA, limit=10_000)).items}
    followed = {item.ref.key: item.value["data"] for item in (await storage.changes(ANA, None)).puts}
    got = await storage.get([Ref(ANA, NOTES, key) for key in [*scanned, *"abcdefz"]])
    assert {item.ref.key: item.value["data"] for item in got if item} == scanned == followed
    return scanned


@contextmanager
def raw(url: str) -> Generator[Database[dict[str, Any]]]:
    """Give the database as it is kept, without a storage."""
    with MongoClient[dict[str, Any]](url) as client:
        yield client.get_default_database()


def left_over(url: str) -> dict[str, int]:
    """Return how much of each kind there is physically."""
    with raw(url) as database:
        items = database["threadkeep_items"]
        return {
            "versions": items.count_documents({"place": {"$exists": True}}),
            "notes": items.count_documents({"gone": {"$exists": True}}),
            "pending": items.count_documents({"pending": {"$exists": True}}),
            "open": database["threadkeep_batches"].count_documents({"open": {"$exists": True}}),
        }


class Trap(monitoring.CommandListener):
    """Ends or stops this process at a command to the storage's collections, counted from :meth:`arm` on.

    Args:
        sent: The signal.
        at: Which command, from 0 on.
        when: Before it is sent, or once it is answered.
    """

    def __init__(self, sent: signal.Signals, at: int, when: Moment) -> None:
        self._sent = sent
        self._at = at
        self._when: Moment = when
        self._seen = -1
        self._armed = False
        self._counted: set[int] = set()

    def arm(self) -> None:
        """Begin to count."""
        self._armed = True

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if not self._armed or event.command_name not in ("find", "aggregate", "insert", "update", "delete"):
            return
        self._seen += 1
        self._counted.add(event.request_id)
        if self._when == "before":
            self._spring()

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        if event.request_id in self._counted and self._when == "after":
            self._spring()

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """An error is an answer, too."""

    def _spring(self) -> None:
        if self._seen == self._at:
            os.kill(os.getpid(), self._sent)


class Writer:
    """A process that works on a storage of its own and falls into a trap.

    Args:
        url: The database.
        trap: Where it stops.
        then: What it does with the trap armed, up to the end of folding.
        first: What it does before.
    """

    running: ClassVar[set[int]] = set()
    """Those that are not waited for to their end; the fixture ``no_writer_left`` ends them."""

    def __init__(
        self,
        url: str,
        trap: Trap,
        *,
        then: Callable[[MongoStorage], Coroutine[Any, Any, Any]],
        first: Callable[[MongoStorage], Coroutine[Any, Any, Any]] | None = None,
    ) -> None:
        self._told, tell = os.pipe()

        async def work() -> None:
            monitoring.register(trap)
            async with opened(url) as storage:
                if first is not None:
                    await first(storage)
                    await storage.commits.drain()
                trap.arm()
                await then(storage)
                os.write(tell, b".")

        self.pid = forked(lambda: asyncio.run(work()))
        self.running.add(self.pid)
        os.close(tell)

    def wait(self) -> Literal["ended", "killed", "stopped"]:
        """Wait until it ends, is killed or stops itself."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return "stopped"
        self.running.discard(self.pid)
        if os.WIFSIGNALED(status):
            return "killed"
        assert os.waitstatus_to_exitcode(status) == 0, "the writer raised"
        return "ended"

    def go_on(self) -> None:
        """Let a stopped one go on to its end."""
        os.kill(self.pid, signal.SIGCONT)
        assert self.wait() == "ended"

    def acknowledged(self) -> bool:
        """Whether its work returned; once it has ended or been killed."""
        with os.fdopen(self._told, "rb") as told:
            return told.read() == b"."

    @classmethod
    def end_all(cls) -> None:
        """Kill those that a failed test has left standing."""
        for pid in cls.running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        cls.running.clear()
