"""A process that records turns and learns from them until it is killed; each acknowledged turn is a line of output."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from tests.capture.world import room
from threadkeep.capture.queue import QueueTerms
from threadkeep.clock import SystemClock
from threadkeep.identity import Owner
from threadkeep.ids import MessageId, ThreadId
from threadkeep.models.base import Message
from threadkeep.storage.sqlite.storage import SqliteStorage


async def main(path: str, user_id: str, first: int) -> None:
    clock = SystemClock()
    storage = SqliteStorage(Path(path), clock=clock)
    await storage.connect()
    captures = room(storage, clock, terms=QueueTerms(lease=timedelta(seconds=1)))
    await captures.start()
    number = first
    while True:
        said = [
            Message("user", f"I have a cat called Cat{number}", MessageId(f"u{number}")),
            Message("assistant", "A fine name.", MessageId(f"a{number}")),
        ]
        await captures.record(said, owner=Owner(user_id), thread_id=ThreadId(f"t{number}"))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        number += 1


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
