"""How much RAM an owner's index takes, seen from a process that holds nothing else.

``python -m threadkeep_evals.resident FILE OWNER QUESTION`` prints three numbers in MB (10⁶ bytes): what the
index says it holds, by how much the process grew while it was loaded, and how much of that it keeps once
the allocator has given back what loading needed only for a moment.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import platform
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep_evals.rig import Lookup, opened

if TYPE_CHECKING:
    from threadkeep.container import Services
    from threadkeep.search.index import IndexStats


async def measure(path: Path, owner: str, question: str) -> tuple[float, float, float]:
    """Load the index of *owner* and return its size by its own account, the growth, and what is kept, in MB."""
    async with opened(path, Lookup([question], seed=0)) as tk:
        # Another, empty owner first: what numpy, SQLite and the stemmer take is not the index's.
        await tk.memories.search(question, owner="nobody")
        give_back()
        before = resident_bytes()
        await tk.memories.search(question, owner=owner)
        gc.collect()
        grown = resident_bytes() - before
        give_back()
        kept = resident_bytes() - before
        stats = await tk.app.call(_stats)
    return stats.nbytes / 1e6, grown / 1e6, kept / 1e6


async def _stats(services: Services) -> IndexStats:
    return services.search.stats()


def give_back() -> None:
    """Let the allocator return what is free, if the C library can (glibc)."""
    gc.collect()
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def resident_bytes() -> int:
    """Return the RAM of the process in bytes; the peak if the system only knows the peak."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    figures = asyncio.run(measure(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
    sys.stdout.write(" ".join(map(str, figures)) + "\n")
