"""A server on loopback that speaks OpenAI's chat completions and Anthropic's messages: real clients, no network.

It sends scripted replies: texts, tool calls, and everything that goes wrong on a wire.
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
_MESSAGES: Final = "/messages"
"""Anthropic's path ends like this; OpenAI's ends with ``/chat/completions``."""


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """A reply that calls tools: each is a name and its arguments, or arguments as they come over the wire."""

    calls: Sequence[tuple[str, Mapping[str, Any] | str]]


@dataclass(frozen=True, slots=True)
class Raw:
    """A reply that is no completion at all.

    Attributes:
        body: The bytes of the response.
        status: The HTTP status of the response.
    """

    body: bytes = b""
    status: int = 200


class Hang:
    """A reply that never comes: the connection stays open until the server is closed."""


Reply: TypeAlias = "str | ToolCalls | Raw | Hang | Mapping[str, Any]"
"""A text, tool calls, a whole body, silence, or the completion itself as a JSON object."""


class _Exchange(BaseHTTPRequestHandler):
    served: ClassVar[ModelServer]
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet: two would wait for each other

    def do_POST(self) -> None:
        length = min(int(self.headers.get("content-length") or 0), _MAX_REQUEST_BYTES)
        request = cast("dict[str, Any]", json.loads(self.rfile.read(length) or b"{}"))
        reply = self.served.answer(self.path, request)
        if isinstance(reply, Hang):
            self.served.wait_for_release()
            self.close_connection = True
            return
        try:
            self.send_response(reply.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):  # the client gave up
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        """Print nothing."""


@dataclass(eq=False)
class ModelServer(LoopbackServer):
    """A server with the wire formats of OpenAI and Anthropic; connections are kept alive.

    Give ``base_url`` to ``ChatOpenAI``, or ``origin`` to ``ChatAnthropic``, with any key.

    Attributes:
        replies: The replies, request by request; the last one repeats.
        refuses: Fields of a request that the server answers with status 400.
        requests: Every request, refused ones included.
        refusals: How many requests were refused.
    """

    handler = _Exchange
    replies: Sequence[Reply] = ("Noted.",)
    refuses: frozenset[str] = frozenset()
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    refusals: int = 0
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def base_url(self) -> str:
        """The URL for clients of OpenAI."""
        return f"{self.origin}/v1"

    def answer(self, path: str, request: dict[str, Any]) -> Raw | Hang:
        """Record *request* and return the response to it."""
        if path.endswith("/count_tokens"):
            return _json({"input_tokens": len(json.dumps(request)) // 4})
        with self._guard:
            self.requests.append(request)
            refused = sorted(self.refuses & request.keys())
            self.refusals += bool(refused)
            if refused:
                return _json(_refusal(path, refused[0]), status=400)
            reply = self.next_reply(request)
        if isinstance(reply, Raw | Hang):
            return reply
        return _json(reply if isinstance(reply, Mapping) else _completion(path, reply, request))

    def next_reply(self, request: dict[str, Any]) -> Reply:
        """Return the reply to *request*, the last one in ``requests``; a subclass may compute it."""
        del request
        return self.replies[min(len(self.requests), len(self.replies)) - 1]


def _json(body: Mapping[str, Any], status: int = 200) -> Raw:
    return Raw(json.dumps(body).encode(), status)


def _refusal(path: str, name: str) -> Mapping[str, Any]:
    if path.endswith(_MESSAGES):
        error = {"type": "invalid_request_error", "message": f"`{name}` is not supported by this model."}
        return {"type": "error", "error": error}
    message = f"Unsupported value: '{name}' is not supported with this model."
    return {"error": {"message": message, "type": "invalid_request_error", "param": name, "code": "unsupported_value"}}


def _completion(path: str, reply: str | ToolCalls, request: Mapping[str, Any]) -> Mapping[str, Any]:
    prompt_tokens = len(json.dumps(request.get("messages", []))) // 4
    if path.endswith(_MESSAGES):
        return _anthropic_message(reply, request, prompt_tokens)
    return _openai_completion(reply, request, prompt_tokens)


def _openai_completion(reply: str | ToolCalls, request: Mapping[str, Any], prompt_tokens: int) -> Mapping[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if isinstance(reply, str):
        message["content"] = reply
    else:
        message["tool_calls"] = [
            {
                "id": f"call_{index}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
                },
            }
            for index, (name, arguments) in enumerate(reply.calls)
        ]
    tokens = len(json.dumps(message)) // 4
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": request.get("model", "scripted"),
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if message.get("tool_calls") else "stop"}
        ],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": tokens, "total_tokens": prompt_tokens + tokens},
    }


def _anthropic_message(reply: str | ToolCalls, request: Mapping[str, Any], prompt_tokens: int) -> Mapping[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": reply}]
    if isinstance(reply, ToolCalls):
        content = [
            {
                "type": "tool_use",
                "id": f"call_{index}",
                "name": name,
                "input": json.loads(arguments) if isinstance(arguments, str) else arguments,
            }
            for index, (name, arguments) in enumerate(reply.calls)
        ]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request.get("model", "scripted"),
        "content": content,
        "stop_reason": "tool_use" if isinstance(reply, ToolCalls) else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": prompt_tokens, "output_tokens": len(json.dumps(content)) // 4},
    }
