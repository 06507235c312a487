"""Many users at the same moment: no turn fails, is given up, is reported wrongly or goes unlearnt.

With an outage in the middle turns go on, each says what was not recorded, and everything else is learnt.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from langchain.agents import create_agent

import threadkeep
from tests.invariants.tenants import place
from threadkeep.errors import StorageError
from threadkeep.ids import new_id
from threadkeep.settings import Settings
from threadkeep.testing import HashingEmbedder, ScriptedModel
from threadkeep_conformance.servers import MongoServer, PostgresServer, RedisServer

_SERVERS: Final = {"postgres": PostgresServer, "redis": RedisServer, "mongodb": MongoServer}
KINDS: Final = ("sqlite", "postgres", "redis", "mongodb")

OUTAGE_SECONDS: Final = 5.0
_LEARNING_SECONDS: Final = 120
_THREADS_EACH: Final = 4


@dataclass
class Tally:
    """What became of the turns.

    Attributes:
        turns: How many were taken.
        failed: Those that raised, by the name of the error.
        given_up: Recalls that were degraded.
        misreported: Turns that were said not to be recorded.
        unlearnt: Facts that were not learnt in the end.
        seconds: How long the turns took together.
        slowest: The longest turn, in seconds.
        degraded: Operations that went on without the storage.
    """

    turns: int = 0
    failed: Counter[str] = field(default_factory=Counter[str])
    given_up: int = 0
    misreported: int = 0
    unlearnt: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    degraded: int = 0

    @property
    def row(self) -> dict[str, Any]:
        """The figures; all but ``n``, ``seconds`` and ``slowest`` have to be 0."""
        return {
            "n": self.turns,
            "failed": sum(self.failed.values()),
            "given_up": self.given_up,
            "misreported": self.misreported,
            "unlearnt": self.unlearnt,
            "seconds": round(self.seconds, 1),
            "slowest": round(self.slowest, 2),
        }


class Users:
    """Users of one agent, each with a thread and a fact to tell.

    Args:
        tk: The memory.
    """

    def __init__(self, tk: threadkeep.Threadkeep) -> None:
        self.tally = Tally()
        self._tk = tk
        self._said: dict[str, str] = {}
        self._agent: Any = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)

    async def burst(self, owners: int) -> None:
        """Let *owners* users send one message each at the same moment."""
        began = time.monotonic()
        await asyncio.gather(*(self._turn(f"user {number}", 0) for number in range(owners)))
        self.tally.seconds += time.monotonic() - began

    async def talk(self, users: int, seconds: float, *, until: asyncio.Event | None = None) -> None:
        """Let *users* users talk for so long, and *until* this is set, each in a thread after the other."""
        began = time.monotonic()

        async def one(user: int) -> None:
            turn = 0
            while time.monotonic() - began < seconds or not (until is None or until.is_set()):
                await self._turn(f"talker {user}", turn)
                turn += 1

        await asyncio.gather(*(one(user) for user in range(users)))
        self.tally.seconds += time.monotonic() - began

    async def settle(self) -> None:
        """Wait until everything is learnt, and count what is missing."""
        until = time.monotonic() + _LEARNING_SECONDS
        missing = dict(self._said)
        while missing and time.monotonic() < until:
            await asyncio.sleep(0.2)
            with suppress(StorageError):  # a slow machine is asked again, until the time is over
                for word, owner in [*missing.items()]:
                    if any(word in one.text for one in await self._tk.memories.list(owner=owner, limit=200)):
                        del missing[word]
        self.tally.unlearnt = len(missing)

    async def _turn(self, user: str, turn: int) -> None:
        word = f"x{new_id()[:10]}"
        config: Any = self._tk.config(user_id=user, thread_id=f"{user}-{turn % _THREADS_EACH}")
        said = {"messages": [("user", f"I own a boat called {word}.")]}
        began, recorded = time.monotonic(), False
        self.tally.turns += 1
        try:
            async for event in self._agent.astream(said, config, stream_mode="custom"):
                if event["type"] == "recalled":
                    self.tally.given_up += bool(event["degraded"])
                elif event["type"] == "captured":
                    recorded = event["status"] != "nothing"
        except Exception as error:  # noqa: BLE001 - what fails is counted
            self.tally.failed[f"{type(error).__name__}: {error}"[:150]] += 1
        else:
            self.tally.misreported += not recorded
            if recorded:
                self._said[word] = user
        self.tally.slowest = max(self.tally.slowest, time.monotonic() - began)


async def run_on(url: str, *, owners: int, users: int, seconds: float) -> Tally:
    """Return what becomes of a burst of *owners* and of *users* who talk for *seconds*, with default settings."""
    settings = Settings.load(store_key_prefix=new_id())
    async with threadkeep.open(url, settings=settings, embedder=HashingEmbedder()) as tk:
        users_of = Users(tk)
        await users_of.burst(owners)
        if users:
            await users_of.talk(users, seconds)
        await users_of.settle()
        return users_of.tally


def run(owners: int = 200, users: int = 50, seconds: float = 60, kinds: tuple[str, ...] = KINDS) -> dict[str, Any]:
    """Return the tally of each kind of storage."""
    rows: dict[str, Any] = {}
    for kind in kinds:
        with place(kind) as url:
            tally = asyncio.run(run_on(url, owners=owners, users=users, seconds=seconds))
        rows[kind] = {**tally.row, "errors": dict(tally.failed)}
    return rows


def run_outage(
    users: int = 50, seconds: float = 15, kinds: tuple[str, ...] = KINDS, outage_seconds: float = OUTAGE_SECONDS
) -> dict[str, Any]:
    """Return the tally of users who talk while the storage stops for *outage_seconds* in the middle of it.

    ``told``: turns that said they were not recorded; ``unlearnt``: facts of all others that were not learnt in the end;
    ``degraded``: operations of any kind that went on without the storage, as the metrics count them.
    """
    rows: dict[str, Any] = {}
    for kind in kinds:
        with _stopping(kind) as (url, stop):
            tally = asyncio.run(_through_outage(url, stop, users, seconds, outage_seconds))
        row = tally.row
        rows[kind] = {
            **row,
            "told": row.pop("misreported"),
            "degraded": tally.degraded,
            "errors": dict(tally.failed),
        }
    return rows


async def _through_outage(
    url: str, stop: Callable[[], AbstractContextManager[None]], users: int, seconds: float, outage_seconds: float
) -> Tally:
    settings, over = Settings.load(store_key_prefix=new_id()), asyncio.Event()

    async def outage(users_of: Users) -> None:
        await asyncio.sleep(seconds / 3)
        before = users_of.tally.turns
        while users_of.tally.turns < before + users:  # each of them talks, however slow the machine is
            await asyncio.sleep(0.01)
        with stop():
            await asyncio.sleep(outage_seconds)
        over.set()

    async with threadkeep.open(url, settings=settings, embedder=HashingEmbedder()) as tk:
        users_of = Users(tk)
        await users_of.burst(users)
        await asyncio.gather(users_of.talk(users, seconds, until=over), outage(users_of))
        await users_of.settle()
        counts = tk.app.telemetry.counts()
        users_of.tally.degraded = sum(n for name, n in counts.items() if name.endswith(".degraded"))
        return users_of.tally


@contextmanager
def _stopping(kind: str) -> Iterator[tuple[str, Callable[[], AbstractContextManager[None]]]]:
    """Give a storage, and what stops it: a server stands still; another process holds SQLite's file."""
    with ExitStack() as stack:
        if kind == "sqlite":
            url = stack.enter_context(place(kind))

            @contextmanager
            def held() -> Iterator[None]:
                with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as other:
                    other.execute("BEGIN EXCLUSIVE")
                    yield
                    other.execute("ROLLBACK")

            yield url, held
            return
        server = stack.enter_context(_SERVERS[kind]())

        @contextmanager
        def paused() -> Iterator[None]:
            server.pause()
            yield
            server.resume()

        yield f"{server.url}/outage?journal=false" if kind == "mongodb" else server.url, paused


if __name__ == "__main__":
    import json
    import sys

    if sys.argv[1] == "outage":
        for name in sys.argv[2:] or KINDS:
            sys.stdout.write(json.dumps(run_outage(kinds=(name,))) + "\n")
    else:
        given = [int(one) for one in sys.argv[1:4]]
        for name in sys.argv[4:] or KINDS:
            sys.stdout.write(json.dumps(run(*given, kinds=(name,))) + "\n")
