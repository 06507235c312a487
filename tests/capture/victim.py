"""A process that records turns and learns from them until it is killed; each acknowledged turn is a line of output."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.capture.world import ANA, room, turn
from threadkeep.clock import SystemClock
from threadkeep.ids import ThreadId
from threadkeep.storage.sqlite import SqliteStorage


async def main(path: str, first: int) -> None:
    clock = SystemClock()
    storage = SqliteStorage(Path(path), clock=clock)
    await storage.connect()
    captures = room(storage, clock)
    await captures.start()
    number = first
    while True:
        await captures.record(turn(f"I have a cat called Cat{number}"), owner=ANA, thread_id=ThreadId(f"t{number}"))
        print(number, flush=True)
        number += 1


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
