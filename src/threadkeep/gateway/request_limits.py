"""Limits of a request, checked before a route reads it: size, JSON depth and encoding."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from starlette.requests import ClientDisconnect

from threadkeep.gateway.problems import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES: Final = 1_000_000
MAX_DEPTH: Final = 32
_DROPPED_BYTES: Final = 10 * MAX_BODY_BYTES

_OUTSIDE_TEXTS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_ESCAPES: Final = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)", re.DOTALL)
"""An escape of JSON; the group is half a surrogate pair, which is no character."""

_INVALID_PATH: Final = re.compile("[\x00\ufffd\ud800-\udfff]")
_NUL: Final = b"%00"
_SLASH: Final = re.compile(rb"%2F", re.IGNORECASE)


class RequestLimits:
    """Refuses requests that are too large, too deep, or not UTF-8.

    Multipart bodies pass: the route that takes files has limits of its own.

    Args:
        app: Answers the other requests.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        if _INVALID_PATH.search(scope["path"]) or _NUL in scope["query_string"]:
            await _refuse(422, "input_invalid", "The address is no valid text.", scope, receive, send)
            return
        _keep_slashes_in_ids(scope)
        content = headers.get(b"content-type", b"").lower()
        if content.startswith(b"multipart/") or not _has_body(headers):
            await self._app(scope, receive, send)
            return
        try:
            body = await _read(receive, headers.get(b"content-length", b"0"))
        except ClientDisconnect:  # what it meant to send is unknown
            return
        if body is None:
            detail = f"The body has more than {MAX_BODY_BYTES:,} bytes."
            await _refuse(413, "too_large", detail, scope, receive, send)
        elif not _is_text(body):
            await _refuse(422, "input_invalid", "The body is no UTF-8.", scope, receive, send)
        elif b"ndjson" not in content and _has_half_pair(body):  # of lines, each is answered
            await _refuse(422, "input_invalid", "The body has half a surrogate pair.", scope, receive, send)
        elif _depth(body) > MAX_DEPTH:
            await _refuse(422, "input_invalid", f"The body has more than {MAX_DEPTH} levels.", scope, receive, send)
        else:
            await self._app(scope, _Replay(body, receive), send)


class _Replay:
    """Gives the body that was read, and then what the connection says."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


def _keep_slashes_in_ids(scope: Scope) -> None:
    """Mark each slash of an id in the path, so that routes do not take it for the end of the id."""
    raw: bytes = scope.get("raw_path") or b""
    inside = raw.partition(b"?")[0].removeprefix(str(scope.get("root_path", "")).encode())
    if _SLASH.search(raw) and inside.startswith((b"/api/", b"/lg/")):
        scope["path"] = unquote(_SLASH.sub(_NUL, raw.partition(b"?")[0]).decode("ascii", "replace"))


def _has_body(headers: dict[bytes, bytes]) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


async def _read(receive: Receive, announced: bytes) -> bytes | None:
    """Return the body, or None if it is too large.

    A client that still sends would not see the answer, so some of a large body is read and dropped.

    Raises:
        ClientDisconnect: The client has left before the end of the body.
    """
    body, size = bytearray(), 0
    fits = announced.isdigit() and int(announced) <= MAX_BODY_BYTES
    while size <= _DROPPED_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part = message.get("body", b"")
        size += len(part)
        fits = fits and size <= MAX_BODY_BYTES
        if fits:
            body += part
        else:
            body.clear()
        if not message.get("more_body"):
            return bytes(body) if fits else None
    return None


def _is_text(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _has_half_pair(body: bytes) -> bool:
    return any(found[1] for found in _ESCAPES.finditer(body))


def _depth(body: bytes) -> int:
    depth = deepest = 0
    for found in _OUTSIDE_TEXTS.finditer(body):
        if found[0] in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif found[0] in (b"]", b"}"):
            depth -= 1
    return deepest


async def _refuse(status: int, code: str, detail: str, scope: Scope, receive: Receive, send: Send) -> None:
    await problem(status, code, detail, headers={"Connection": "close"})(scope, receive, send)
