"""A browser in front of a gateway, with a network between them that a test can cut."""

from __future__ import annotations

import asyncio
import shutil
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

CHROMIUM: Final = ("chromium", "chromium-browser", "google-chrome")

_OFF: Final = (
    # Parts of the address bar: each new window would start a process for them, which takes longer than the page.
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxPopup",
    # As without CHROMIUM_OPTIONS: Playwright names these, too, and Chromium heeds the last list only.
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
)
CHROMIUM_OPTIONS: Final = ("--no-sandbox", f"--disable-features={','.join(_OFF)}")


def chromium() -> str | None:
    """Return the path of a Chromium of this machine, if there is one."""
    return next((path for name in CHROMIUM if (path := shutil.which(name)) is not None), None)


class Network:
    """Forwards the connections of a loopback port to a gateway, until it is cut.

    Attributes:
        target: The port of the gateway.
    """

    def __init__(self) -> None:
        self.target = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._down = False
        self.port = 0

    @property
    def origin(self) -> str:
        """The address of the gateway in the browser."""
        return f"http://localhost:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Close every connection, and refuse new ones."""
        self._run(self._cut())

    def mend(self) -> None:
        """Accept connections again."""
        self._down = False

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._forward, "localhost", 0, family=2)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._server.close()
        await self._cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _cut(self) -> None:
        self._down = True
        for writer in list(self._writers):
            writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._down:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers |= {writer, back}
        try:
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        finally:
            self._writers -= {writer, back}
            for one in (writer, back):
                one.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
