"""Processes that change a storage and are killed before the vector engine has it all; forked, so that each is cheap.

The program imports everything once, then forks a child for each line that it reads: where to be, and when to die.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from tests.recall.world import ANA, MEMORIES, put
from threadkeep.clock import SystemClock
from threadkeep.search.retriever import Retriever
from threadkeep.search.vectorstores.base import Replicator, VectorEngine, VectorEntry, VectorUpdate
from threadkeep.search.vectorstores.faiss import FaissEngine
from threadkeep.search.vectorstores.pgvector import PgVectorEngine
from threadkeep.search.vectorstores.pinecone import PineconeEngine
from threadkeep.storage.interface import Batch, Delete
from threadkeep.storage.postgres.pool import PostgresPool
from threadkeep.storage.sqlite.storage import SqliteStorage
from threadkeep.testing.models import HashingEmbedder

WORDS = ("tea", "trains", "chess", "rain", "copper", "violins", "bread", "tides", "zinc", "owls")
KEYS = 400
PLACES = ("before", "within", "after")


def die() -> NoReturn:
    """End as a process does whose machine is gone."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit  # never reached


class Mortal:
    """An engine, and the moment in :meth:`apply` at which its process is killed; ``""``: never.

    Everything else is the engine's own.
    """

    def __init__(self, engine: VectorEngine, dies: str) -> None:
        self._engine = engine
        self._dies = dies

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def apply(self, update: VectorUpdate) -> bool:
        if self._dies == "before":
            die()
        if self._dies == "within":
            puts = update.puts
            if isinstance(self._engine, PineconeEngine):  # some requests are answered, the next is never made
                setattr(self._engine, "_delete", lambda *_: die())  # noqa: B010 - not its type
            else:
                puts = _killing(puts)
            update = VectorUpdate(
                update.partition, update.space, update.since, update.position, update.reset, puts, update.removed
            )
        done = await self._engine.apply(update)
        if self._dies == "after":
            die()
        return done


def _killing(entries: Any) -> Iterator[VectorEntry]:
    for number, entry in enumerate(entries):
        if number == 3:
            die()
        yield entry
    die()


async def opened(told: dict[str, Any]) -> tuple[SqliteStorage, Retriever, VectorEngine, PostgresPool | None]:
    """Open storage, engine and search as *told*: ``kind``, ``place``, ``key``, ``file`` and ``dies``."""
    storage, pool = SqliteStorage(Path(told["file"]), clock=SystemClock()), None
    await storage.connect()
    engine: Any
    if told["kind"] == "pgvector":
        pool = PostgresPool(told["place"])
        engine = PgVectorEngine(pool)
    elif told["kind"] == "pinecone":
        engine = PineconeEngine(told["place"], told["key"])
    else:
        engine = FaissEngine(Path(told["place"]))
    mortal: Any = Mortal(engine, told["dies"])
    replicator = Replicator(mortal, storage, timeout=timedelta(seconds=20), large_from=1)
    return storage, Retriever(storage, HashingEmbedder(), SystemClock(), replicator=replicator), engine, pool


async def live(told: dict[str, Any]) -> None:
    """Write, change and delete some items in one commit, then search, which is when the engine is told."""
    storage, search, _, _ = await opened(told)
    dice = random.Random(told["seed"])
    keys = [f"{number:04}" for number in dice.sample(range(KEYS), 40)]
    texts = [" ".join(dice.choices(WORDS, k=4)) for _ in keys]
    operations: list[Any] = []
    for key, text in zip(keys, texts, strict=True):
        gone = dice.random() < 0.3
        operations.append(Delete(MEMORIES, key) if gone else put(key, text, vectors=await search.embed_put([text])))
    await storage.commit(Batch(ANA, operations))
    await search.ranking(ANA, "tea", limit=3)


async def live_to_the_end(told: dict[str, Any]) -> NoReturn:
    """Live, and end the process at once: what is open stays open, as when it is killed."""
    code = 1
    try:
        await live(told)
        code = 0
    finally:
        if code:
            traceback.print_exc()
        os._exit(code)


def main() -> None:
    """Fork a child for each line; say how it ended."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            asyncio.run(live_to_the_end(json.loads(line)))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
