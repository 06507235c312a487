"""A server of each kind to break, with a network before it, and on a small disk where that is asked for."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

from tests.fakes.faults import FaultProxy
from threadkeep.clock import SystemClock
from threadkeep.registry import create_storage, resolve_settings
from threadkeep.settings import Settings
from threadkeep.storage.interface import Storage
from threadkeep.storage.redis.client import COMMIT
from threadkeep_conformance.servers import PostgresServer, RedisServer, Server

DISK: Final = "144m"
"""An empty cluster of PostgreSQL's takes 40 MB, and its log up to 64."""

POSTGRES: Final = {"max_wal_size": "48MB", "min_wal_size": "32MB", "shared_buffers": "16MB"}
REDIS: Final = {"appendfsync": "always"}


class DiskError(Exception):
    """No file system can be mounted here."""


class Place:
    """A server, a network before it, and a thread that starts and stops it while the loop goes on.

    Args:
        kind: ``postgres`` or ``redis``.
        small_disk: Its data are on a file system of their own, which can be filled to the last byte.

    Attributes:
        commits: Bytes that every commit sends.
        repeats_commits: Whether the storage sends a commit again after a lost reply, unseen by its caller.
        server: It is durable: what it acknowledges outlives its process.
        proxy: The network.

    Raises:
        DiskError: A small disk is asked for, and none can be mounted here.
    """

    def __init__(self, kind: str, *, small_disk: bool = False) -> None:
        self.kind = kind
        there = {"dir": "data"} if small_disk else {}
        server = PostgresServer(POSTGRES) if kind == "postgres" else RedisServer(settings={**REDIS, **there})
        self.server: Server = server
        self.commits = b"threadkeep.commit" if kind == "postgres" else COMMIT.digest.encode()
        self.repeats_commits = kind == "redis"
        self._small_disk = small_disk
        self._stack = ExitStack()
        self._keeper = ThreadPoolExecutor(1, "keeper")

    def __enter__(self) -> Self:
        with self._stack:
            self._stack.callback(self._keeper.shutdown)
            if self._small_disk:
                self._stack.enter_context(_mounted(self.server.folder / "data"))
            self._keeper.submit(self.server.__enter__).result()
            self._stack.callback(lambda: self._keeper.submit(self.server.__exit__).result())
            self.proxy = self._stack.enter_context(FaultProxy(self.server.port))
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    async def do(self, work: Callable[[], object]) -> None:
        """Do something to the server: it ends with the thread that started it."""
        await asyncio.get_running_loop().run_in_executor(self._keeper, work)

    async def up(self) -> None:
        """Start the server, if it has ended."""
        if self.server.process is not None and self.server.process.poll() is not None:
            await self.do(self.server.restart)

    def fill(self) -> None:
        """Leave no byte free on its disk."""
        for step in (1 << 16, 1):
            with self._ballast.open("ab", buffering=0) as ballast, suppress(OSError):
                while True:
                    ballast.write(bytes(step))

    def free(self) -> None:
        """Make room again."""
        self._ballast.unlink()

    @asynccontextmanager
    async def opened(self, options: str = "", **chosen: Any) -> AsyncIterator[Storage]:
        """Yield a storage there, behind the network; *options* of its URL, and further settings."""
        url = self.proxy.url_of(self.server.url) + options
        storage = create_storage(resolve_settings(url, Settings.load(**chosen)), SystemClock())
        try:
            await storage.connect()
            yield storage
        finally:
            await storage.close()

    @property
    def _ballast(self) -> Path:
        return self.server.folder / "data" / "ballast"


@contextmanager
def _mounted(folder: Path) -> Iterator[None]:
    """Let *folder* be a small file system, of the owner of the folder that it is in."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0700", "tmpfs", str(folder)]
    try:
        if sys.platform != "linux" or os.geteuid() != 0 or subprocess.run(command, check=False).returncode:
            msg = "a small file system to fill: only root on Linux may mount one"
            raise DiskError(msg)
        owner = folder.parent.stat()
        os.chown(folder, owner.st_uid, owner.st_gid)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False, capture_output=True)
        shutil.rmtree(folder.parent, ignore_errors=True)
