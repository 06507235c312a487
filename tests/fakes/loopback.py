"""A server of the standard library's on the loopback interface, for as long as it is entered."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import ClassVar, Final, Self

_POLL_SECONDS: Final = 0.02


@dataclass(eq=False)
class LoopbackServer:
    """Listens on a free port, each connection in a thread of its own; a handler finds it in ``served``."""

    handler: ClassVar[type[BaseHTTPRequestHandler]]
    _released: threading.Event = field(default_factory=threading.Event, init=False)
    _server: ThreadingHTTPServer | None = field(default=None, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        """Listen on a free port of the loopback interface."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("_Bound", (self.handler,), {"served": self}))
        self._server.daemon_threads = True
        name = f"{type(self).__name__.lower()}-loopback"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name=name, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Let go of what hangs, and stop."""
        self._released.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        if self._thread is not None:
            self._thread.join()

    @property
    def origin(self) -> str:
        """Where clients find it, without a path."""
        port = self._server.server_address[1] if self._server else 0
        return f"http://127.0.0.1:{port}"

    def wait_for_release(self) -> None:
        """Block until the server is closed."""
        self._released.wait()
