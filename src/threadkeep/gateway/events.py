"""The events of a turn: what a graph streams, translated and framed as server-sent events."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import datetime
from typing import Any, ClassVar, Final, TypeAlias, cast

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from threadkeep.gateway.bodies import as_object

HEARTBEAT_SECONDS: Final = 15.0
STALLED_SECONDS: Final = 30.0
"""How long a client may read nothing of what was sent before its connection is closed."""

HEARTBEAT: Final = b": heartbeat\n\n"
_RESULT_CHARACTERS: Final = 10_000

KINDS: Final = (
    "run",
    "memory_recalled",
    "token",
    "tool_call",
    "tool_result",
    "policy",
    "interrupt",
    "done",
    "error",
    "memory_written",
    "proposal",
    "reset",
)
"""The events of a run."""

Event: TypeAlias = tuple[str, Any]


def encode_event(event_id: str, kind: str, data: Any) -> bytes:
    """Return an event as it is sent; every text survives, as JSON escapes what is not ASCII."""
    return f"id: {event_id}\nevent: {kind}\ndata: {encode_json(data)}\n\n".encode("ascii")


def encode_json(value: Any) -> str:
    """Return *value* as ASCII JSON; what JSON has no form for becomes a text, an object, a list or null."""
    try:
        return json.dumps(value, default=to_json, allow_nan=False)
    except (TypeError, ValueError):  # a key that is no text, or a number that is not finite
        return json.dumps(_to_plain(json.loads(json.dumps(_with_text_keys(value), default=to_json))))


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _with_text_keys(part) for key, part in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_with_text_keys(part) for part in cast("Sequence[Any]", value)]
    return value


def _to_plain(value: Any) -> Any:
    """Return JSON with null for numbers that are not finite."""
    if isinstance(value, dict):
        return {key: _to_plain(part) for key, part in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_to_plain(part) for part in cast("list[Any]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def decode_events(chunk: bytes) -> Iterator[Event]:
    """Yield the events of whole chunks that :func:`encode_event` made; heartbeats are left out."""
    for block in chunk.decode("ascii").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
        if "event" in fields:
            yield fields["event"], json.loads(fields["data"])


def interrupts_body(interrupts: Iterable[Any]) -> list[dict[str, Any]]:
    """Return what a graph asks, as clients see it."""
    return [{"id": one.id, "value": one.value} for one in interrupts]


def to_json(value: object) -> Any:
    """Return what JSON has no form for as texts, lists and objects."""
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if isinstance(value, list | tuple | set | frozenset):
        return list(cast("Sequence[Any]", value))
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else str(value)


@dataclass
class TurnEvents:
    """Translates what a graph streams into the events of the gateway; a subclass, into those of another interface.

    Attributes:
        message_ids: The ids of the messages that the turn added.
        turn_ids: The recorded turns.
        interrupts: What the graph asks, each with an id.
        recorded: Whether the turn is recorded for learning.
        unrecorded: Whether it was to be recorded and is not: no middleware says so, or the storage was unavailable.
        noted: Whether the list of threads needs no note of the turn: the middleware makes it, or it is in no thread.
        replying: Whether the reply has begun.
        recalls: What ``memory_recalled`` tells, and was not counted yet.
        tells_learning: Whether the stream goes on after its end with what is learnt.
    """

    message_ids: list[str] = field(default_factory=list[str])
    turn_ids: list[str] = field(default_factory=list[str])
    interrupts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    recorded: bool = False
    unrecorded: bool = True
    noted: bool = False
    replying: bool = False
    recalls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    tells_learning: ClassVar[bool] = True

    @property
    def stream(self) -> dict[str, Any]:
        """What ``astream`` of the graph is asked for."""
        return {"stream_mode": ["messages", "updates", "custom"]}

    def begin(self, run_id: str, thread_id: str) -> Event:
        """Return the first event of a run."""
        return "run", {"run_id": run_id, "thread_id": thread_id}

    def end(self, run_id: str, thread_id: str, status: str, failure: dict[str, str] | None) -> Event:
        """Return the event that says how a run ended; *failure*: the code and the message of its error."""
        about = {"run_id": run_id, "thread_id": thread_id}
        if failure is not None:
            return "error", {**about, **failure}
        return "done", {**about, "status": status, "message_ids": self.message_ids, "recorded": self.recorded}

    def translate(self, part: Any) -> Iterator[Event]:
        """Yield the events of one part of the stream."""
        mode, payload = part
        if mode == "messages":
            message, metadata = payload
            if metadata.get("langgraph_node") != "tools" and _is_reply(message) and (text := str(message.text)):
                self.replying = True
                yield "token", {"text": text, "message_id": message.id}
        elif mode == "updates":
            yield from self._updated(payload)
        else:
            yield from self._custom(as_object(payload))

    def _updated(self, payload: Mapping[str, Any]) -> Iterator[Event]:
        for node, update in payload.items():
            if node == "__interrupt__":
                asked = interrupts_body(update)
                self.interrupts += asked
                yield "interrupt", {"interrupts": asked}
                continue
            for part in cast("list[Any]", update) if isinstance(update, list) else [update]:
                messages: Any = as_object(part).get("messages")
                messages = getattr(messages, "value", messages)  # replaced as a whole
                if messages:
                    yield from self._messages(cast("list[Any]", messages) if isinstance(messages, list) else [messages])

    def _messages(self, messages: Sequence[Any]) -> Iterator[Event]:
        if any(getattr(one, "type", "") == "remove" for one in messages):
            messages = messages[-1:]  # the history was compacted: only the reply is new
        for message in messages:
            kind, message_id = getattr(message, "type", ""), getattr(message, "id", None)
            if kind in ("ai", "tool") and message_id and message_id not in self.message_ids:
                self.message_ids.append(message_id)
            if kind == "ai":
                for call in message.tool_calls:
                    yield "tool_call", {"id": call["id"], "name": call["name"], "args": call["args"]}
            elif kind == "tool":
                text = str(message.text)[:_RESULT_CHARACTERS]
                call_id, status = message.tool_call_id, message.status
                yield "tool_result", {"id": call_id, "name": message.name, "status": status, "text": text}

    def _custom(self, payload: Mapping[str, Any]) -> Iterator[Event]:
        kind = payload.get("type")
        if kind == "recalled":
            recall = {
                "memories": [_recalled(one) for one in payload.get("memories", ())],
                "left_out": [_recalled(one) for one in payload.get("left_out", ())],
                "tokens": payload.get("tokens", 0),
                "degraded": payload.get("degraded", []),
            }
            self.recalls.append(recall)
            yield "memory_recalled", recall
        elif kind == "captured":
            self.recorded = payload.get("status") in ("queued", "duplicate", "done")
            self.unrecorded = not self.recorded and bool(payload.get("degraded"))
            self.noted = self.recorded or self.unrecorded
            self.turn_ids += payload.get("turns", ())
        elif kind == "policy":
            yield "policy", {key: value for key, value in payload.items() if key != "type"}


def _is_reply(message: Any) -> bool:
    return getattr(message, "type", "") in ("ai", "AIMessageChunk")


def _recalled(memory: Mapping[str, Any]) -> dict[str, Any]:
    why = {key: memory.get(key) for key in ("said_by", "approved_by", "earlier", "may_hold")}
    names = ("text", "score", "kind", "said_at", "thread_id", "message_id")
    return {"memory_id": memory.get("id"), **{name: memory.get(name) for name in names}, "why": why}


class EventStreamResponse(Response):
    """Sends chunks until they end, the client disconnects, or the client reads nothing for too long.

    Args:
        chunks: What is sent.
        on_end: Called once when the response has ended, with whether the client left before.
        status_code: The status, which the OpenAPI document takes from here.
        headers: Further headers.
        media_type: What the chunks are; ``None``: events.
        stalled_seconds: How long the client may read nothing.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        on_end: Callable[[bool], object],
        *,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
        stalled_seconds: float = STALLED_SECONDS,
    ) -> None:
        every = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})}
        super().__init__(None, status_code, every, media_type)
        del self.headers["content-length"]
        self._chunks = chunks
        self._on_end = on_end
        self._stalled_seconds = stalled_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response; see the class."""
        del scope
        left = True
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            left = not sending.done()
            if sending.done() and not sending.cancelled() and (error := sending.exception()) is not None:
                left = True
                if not isinstance(error, OSError | TimeoutError):
                    raise error
        finally:
            for task in (sending, leaving):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(sending, leaving, return_exceptions=True)
            self._on_end(left)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for chunk in self._chunks:
            async with asyncio.timeout(self._stalled_seconds):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
