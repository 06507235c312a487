"""The HTTP connections of the gateway."""

from __future__ import annotations

import asyncio
import sys

import httptools
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from threadkeep.gateway.events import STALLED_SECONDS


class GatewayProtocol(HttpToolsProtocol):
    """An HTTP connection.

    It is closed if the client reads nothing of what waits for it for 30 seconds. A request that offers to go on in
    another protocol, such as HTTP/2, is answered in HTTP/1.1.
    """

    _stalled: asyncio.TimerHandle | None = None
    _data = b""

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    @override
    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
        super().resume_writing()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        self._data = data
        super().data_received(data)
        self._data = b""

    # The parser skips the body of a request with an upgrade, so such a request is parsed again without it.

    @override
    def on_headers_complete(self) -> None:
        if not self._declines:
            super().on_headers_complete()

    @override
    def on_message_complete(self) -> None:
        if not self._declines:
            super().on_message_complete()

    @override
    def _unsupported_upgrade_warning(self) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, httptools.HttpParserUpgrade):
            return
        behind = self._data[error.args[0] :]
        lines = [b" ".join((self.parser.get_method(), self.url, b"HTTP/" + self.parser.get_http_version().encode()))]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self.data_received(b"\r\n".join((*lines, b"", behind)))

    @property
    def _declines(self) -> bool:
        """Whether the request has an upgrade that is not supported."""
        return self.parser.should_upgrade() and not self._should_upgrade()
