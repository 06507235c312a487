"""A server on this machine that speaks OpenAI's chat completions, so that real clients are tested without a network.

It says what it was told to: texts, tool calls, and everything that goes wrong on a wire.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar, Final, TypeAlias, cast

from tests.fakes.loopback import LoopbackServer

_MAX_REQUEST_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """A reply that calls tools: each is a name and its arguments, or arguments as they come over the wire."""

    calls: Sequence[tuple[str, Mapping[str, Any] | str]]


@dataclass(frozen=True, slots=True)
class Raw:
    """A reply that is no completion at all.

    Attributes:
        body: What is sent.
        status: With which HTTP status.
    """

    body: bytes = b""
    status: int = 200


class Hang:
    """A reply that never comes: the connection is held until the server is closed."""


Reply: TypeAlias = "str | ToolCalls | Raw | Hang | Mapping[str, Any]"
"""A text, tool calls, a whole body, silence, or the completion itself as a JSON object."""


class _Conversation(BaseHTTPRequestHandler):
    served: ClassVar[OpenAIServer]
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet: two would wait for each other

    def do_POST(self) -> None:
        length = min(int(self.headers.get("content-length") or 0), _MAX_REQUEST_BYTES)
        request = cast("dict[str, Any]", json.loads(self.rfile.read(length) or b"{}"))
        reply = self.served.next_reply(request)
        if isinstance(reply, Hang):
            self.served.wait_for_release()
            self.close_connection = True
            return
        status, body = (reply.status, reply.body) if isinstance(reply, Raw) else (200, _body(reply, request))
        try:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):  # the client gave up
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        """Say nothing."""


@dataclass(eq=False)
class OpenAIServer(LoopbackServer):
    """An OpenAI-compatible server; give ``base_url`` to ``ChatOpenAI``, with any key.

    Attributes:
        replies: What to say, request by request; the last one again and again.
        requests: What was asked, request by request.
    """

    handler = _Conversation
    replies: Sequence[Reply] = ("Noted.",)
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def base_url(self) -> str:
        """Where clients find it."""
        return f"{self.origin}/v1"

    def next_reply(self, request: dict[str, Any]) -> Reply:
        """Note *request* and return what to say to it."""
        with self._guard:
            self.requests.append(request)
            return self.replies[min(len(self.requests), len(self.replies)) - 1]


def _body(reply: str | ToolCalls | Mapping[str, Any], request: Mapping[str, Any]) -> bytes:
    if isinstance(reply, Mapping):
        return json.dumps(reply).encode()
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if isinstance(reply, str):
        message["content"] = reply
    else:
        message["tool_calls"] = [
            {
                "id": f"call_{place}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
                },
            }
            for place, (name, arguments) in enumerate(reply.calls)
        ]
    asked, said = len(json.dumps(request.get("messages", []))) // 4, len(json.dumps(message)) // 4
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": request.get("model", "scripted"),
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
                }
            ],
            "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
        }
    ).encode()
