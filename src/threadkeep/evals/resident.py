"""How much RAM an owner's index takes, seen from a process that holds nothing else.

``python -m threadkeep.evals.resident FILE OWNER QUESTION`` prints two numbers, both in MB (10⁶ bytes):
what the index says it holds, and by how much the process grew while it was loaded.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep.evals.bench_rig import Lookup, opened

if TYPE_CHECKING:
    from threadkeep.app import Rooms
    from threadkeep.recall.search import IndexStats


async def measure(path: Path, owner: str, question: str) -> tuple[float, float]:
    """Load the index of *owner* and return its size by its own account and by the process's, in MB."""
    async with opened(path, Lookup([question], seed=0)) as tk:
        # Another, empty owner first: what numpy, SQLite and the stemmer take is not the index's.
        await tk.memories.search(question, owner="nobody")
        gc.collect()
        before = _resident_bytes()
        await tk.memories.search(question, owner=owner)
        gc.collect()
        grown = _resident_bytes() - before
        stats = await tk.app.call(_stats)
    return stats.nbytes / 1e6, grown / 1e6


async def _stats(rooms: Rooms) -> IndexStats:
    return rooms.search.stats()


def _resident_bytes() -> int:
    """Return what the process holds in RAM now; where only the peak can be told, the peak."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    index_mb, resident_mb = asyncio.run(measure(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
    sys.stdout.write(f"{index_mb} {resident_mb}\n")
