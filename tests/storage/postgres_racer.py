"""A process that adds to a counter in PostgreSQL, beside others that do the same; the URL is its argument."""

from __future__ import annotations

import asyncio
import sys

from tests.storage.postgres_world import commit, connected, get, note
from threadkeep.errors import RevisionConflictError

STEPS = 10


async def race(url: str) -> None:
    async with connected(url) as storage:
        done = 0
        while done < STEPS:
            item = await get(storage, "counter")
            count = item.value["count"] if item else 0
            try:
                await commit(storage, note("counter", {"count": count + 1}, expect=item.revision if item else "absent"))
            except RevisionConflictError:
                continue
            done += 1


if __name__ == "__main__":
    asyncio.run(race(sys.argv[1]))
