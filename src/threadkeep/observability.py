"""Tracing and logs: what is measured, under which names, what LangSmith is told of a run, and logs as JSON.

Spans are OpenTelemetry's and go where the application sends its own. Without OpenTelemetry in the process nothing is
imported or measured. A span says who, where, how many and how long; what a memory or a message says is in none,
unless THREADKEEP_TRACE_CONTENT asks for it, and neither is an error's text, which may quote one.

Logs of a server are JSON, one object a line: no text of a message or a memory, and owners as keyed digests only.
"""

from __future__ import annotations

import hashlib
import hmac
import inspect
import json
import logging
import secrets
import sys
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeAlias, TypeVar, cast

from typing_extensions import override

from threadkeep.clock import SystemClock
from threadkeep.errors import StorageUnavailableError

if TYPE_CHECKING:
    from datetime import datetime

    from opentelemetry.context import Context
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import Tracer

    from threadkeep.identity import Owner
    from threadkeep.settings import Settings


P = ParamSpec("P")
R = TypeVar("R")
_About: TypeAlias = Callable[[tuple[Any, ...], dict[str, Any]], tuple[str, dict[str, str | None]]]

# Spans
RECALL: Final = "threadkeep.recall"
"""Finding what matters for a question."""
CAPTURE: Final = "threadkeep.capture"
"""Recording a turn; learning from it happens later."""
LEARN: Final = "threadkeep.learn"
"""Learning from a recorded turn, in the trace of the request that it came with, whichever process learns."""
COMPACT: Final = "threadkeep.compact"
"""Putting a summary in the place of older messages, the model's call for it included."""
AGENT: Final = "invoke_agent"
"""A traced agent; its name follows. Source: OpenTelemetry's conventions for generative AI."""
TOOL: Final = "execute_tool"
"""A call of a sub-agent's MCP server; the tool's name follows. Source: the same."""

# Attributes
USER: Final = "user.id"
THREAD: Final = "gen_ai.conversation.id"
OPERATION: Final = "gen_ai.operation.name"
AGENT_NAME: Final = "gen_ai.agent.name"
TOOL_NAME: Final = "gen_ai.tool.name"
ERROR: Final = "error.type"
TENANT: Final = "threadkeep.tenant"
TRACE: Final = "threadkeep.trace_id"
"""The application's own id of the request, where it gives one."""
TRACE_NAME: Final = "threadkeep.trace_name"
"""The name of the application's trace."""
INPUT: Final = "threadkeep.input"
"""What an agent was asked; only where its decorator and THREADKEEP_TRACE_CONTENT ask for it."""
MEMORIES: Final = "threadkeep.recall.memories"
TOKENS: Final = "threadkeep.recall.tokens"
RECALLED: Final = "threadkeep.recall.text"
"""What was recalled; only where THREADKEEP_TRACE_CONTENT is true."""
STATUS: Final = "threadkeep.capture.status"
TURNS: Final = "threadkeep.capture.turns"
REMOVED: Final = "threadkeep.compact.removed"
DEGRADED: Final = "threadkeep.degraded"
HTTP_METHOD: Final = "http.request.method"
HTTP_ROUTE: Final = "http.route"
HTTP_STATUS: Final = "http.response.status_code"

_SAID: Final = {
    "user_id": USER,
    "thread_id": THREAD,
    "context_id": THREAD,
    "trace_id": TRACE,
    "langfuse_user_id": USER,
    "langfuse_session_id": THREAD,
    "session_id": THREAD,
    "sessionId": THREAD,
}
"""Which parameters of a traced function, and which keys of a run's config, become which attribute."""

_API: Final = "opentelemetry.trace"


class Recording:
    """A span that is being recorded; does nothing without tracing."""

    def __init__(self, span: OtelSpan | None) -> None:
        self._span = span

    def rename(self, name: str) -> None:
        """Give it another name."""
        if self._span is not None:
            self._span.update_name(name)

    def set(self, attributes: Mapping[str, str | float | bool | list[str] | None]) -> None:
        """Note *attributes*, by the names above; ``None`` notes nothing."""
        if self._span is not None:
            for name, value in attributes.items():
                if value is not None:
                    self._span.set_attribute(name, value)

    def failed(self, error: BaseException) -> None:
        """Note that it failed, and by which type of error."""
        if self._span is not None and isinstance(error, Exception):
            status = sys.modules[_API].Status(sys.modules[_API].StatusCode.ERROR)
            self._span.set_status(status)
            self._span.set_attribute(ERROR, type(error).__name__)


@contextmanager
def span(
    name: str,
    attributes: Mapping[str, str | None] | None = None,
    *,
    began: datetime | None = None,
    parent: str | None = None,
) -> Generator[Recording]:
    """Record what happens inside, as a child of the application's span.

    Args:
        name: One of the names above.
        attributes: By the names above; ``None`` for what is not known.
        began: When it did, where that was before this.
        parent: A ``traceparent`` of another process, where that is its parent.
    """
    tracer = _tracer()
    if tracer is None or (parent is None and isinstance(tracer, sys.modules[_API].ProxyTracer)):  # nothing records
        yield _NOBODY
        return
    known = {key: value for key, value in (attributes or {}).items() if value is not None}
    # An exception's words may quote a message, so OpenTelemetry does not get to write them down.
    with tracer.start_as_current_span(
        name,
        context=None if parent is None else _remote_context(parent),
        attributes=known,
        start_time=None if began is None else int(began.timestamp() * 1e9),
        record_exception=False,
        set_status_on_exception=False,
    ) as begun:
        recording = Recording(begun)
        try:
            yield recording
        except BaseException as error:
            recording.failed(error)
            raise


def trace_agent(
    name: str | None = None, *, trace_name: str | None = None, with_input: Callable[[], bool] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that records each call of an agent's function as a span.

    Functions, coroutines, generators and async generators stay what they are, and every argument, also those by
    keyword that the decorator knows nothing of, reaches the function as it was given. ``user_id``, ``thread_id`` (or
    ``context_id``) and ``trace_id`` become attributes where they are arguments, or stand in a ``config``.

    Args:
        name: The agent's; ``None``: the function's.
        trace_name: The name of the application's trace.
        with_input: Whether the span of a call carries the input, the first text among the arguments; ``None``: never.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        agent = name or function.__name__
        told = inspect.signature(function)

        def about(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, dict[str, str | None]]:
            said = _said(told, args, kwargs)
            wanted = with_input is not None and _tracer() is not None and with_input()
            text = _input(told, args, kwargs) if wanted else None
            return f"{AGENT} {agent}", {
                OPERATION: AGENT,
                AGENT_NAME: agent,
                TRACE_NAME: trace_name,
                INPUT: text,
                **said,
            }

        if inspect.isasyncgenfunction(function):
            return wraps(function)(cast("Callable[P, R]", _streaming(function, about)))
        if inspect.isgeneratorfunction(function):
            return wraps(function)(cast("Callable[P, R]", _generating(function, about)))
        if inspect.iscoroutinefunction(function):

            async def run(*args: P.args, **kwargs: P.kwargs) -> Any:
                with span(*about(args, kwargs)):
                    return await function(*args, **kwargs)

            return wraps(function)(cast("Callable[P, R]", run))

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with span(*about(args, kwargs)):
                return function(*args, **kwargs)

        return call

    return decorate


def _input(told: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Return the first text among the arguments that is no id."""
    try:
        given = told.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return None
    return next((value for name, value in given.items() if isinstance(value, str) and name not in _SAID), None)


def run_metadata(*, user_id: str, thread_id: str, trace_id: str | None = None) -> dict[str, str]:
    """Return a run's metadata for LangSmith, Langfuse and other tracers: user, thread and trace.

    Args:
        user_id: The user of the run.
        thread_id: The thread of the run; LangSmith groups runs by it.
        trace_id: The application's; ``None``: that of the OpenTelemetry span that is open, if one is.
    """
    trace_id = trace_id or current_trace_id()
    langfuse = {"langfuse_user_id": user_id, "langfuse_session_id": thread_id}
    return {"user_id": user_id, "thread_id": thread_id, **langfuse, **({"trace_id": trace_id} if trace_id else {})}


def current_trace_id() -> str | None:
    """Return the id of the OpenTelemetry trace that is open, 32 hexadecimal digits; ``None`` where there is none."""
    api: Any = sys.modules.get(_API)
    if api is None:
        return None
    context = api.get_current_span().get_span_context()
    return api.format_trace_id(context.trace_id) if context.is_valid else None


def current_traceparent() -> str | None:
    """Return the open span as W3C's ``traceparent``, with which another process goes on; ``None``: there is none."""
    api: Any = sys.modules.get(_API)
    if api is None or not (context := api.get_current_span().get_span_context()).is_valid:
        return None
    return f"00-{api.format_trace_id(context.trace_id)}-{api.format_span_id(context.span_id)}-{context.trace_flags:02x}"


def _remote_context(traceparent: str) -> Context:
    """Return the context of a span of another process; what is no ``traceparent`` begins a trace of its own."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": traceparent})


def _streaming(function: Callable[..., Any], about: _About) -> Callable[..., AsyncIterator[Any]]:
    async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        with _steps(*about(args, kwargs)) as step:
            items = function(*args, **kwargs)
            try:
                while True:
                    with step():
                        item = await anext(items, _NOBODY)
                    if item is _NOBODY:
                        return
                    yield item
            finally:
                await items.aclose()

    return stream


def _generating(function: Callable[..., Any], about: _About) -> Callable[..., Iterator[Any]]:
    def generate(*args: Any, **kwargs: Any) -> Iterator[Any]:
        with _steps(*about(args, kwargs)) as step:
            items = function(*args, **kwargs)
            try:
                while True:
                    with step():
                        item = next(items, _NOBODY)
                    if item is _NOBODY:
                        return
                    yield item
            finally:
                items.close()

    return generate


@contextmanager
def _steps(name: str, attributes: Mapping[str, str | None]) -> Generator[Callable[[], Any]]:
    """Record a span that is current in its steps only: between them the caller's own code runs."""
    tracer = _tracer()
    if tracer is None:
        yield nullcontext
        return
    api: Any = sys.modules[_API]
    begun = tracer.start_span(name, attributes={key: value for key, value in attributes.items() if value is not None})
    try:
        yield lambda: api.use_span(begun, record_exception=False, set_status_on_exception=False)
    except BaseException as error:
        Recording(begun).failed(error)
        raise
    finally:
        begun.end()


def _said(told: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, str | None]:
    """Return what the arguments of a call say of who and where; a call that does not fit fails by itself."""
    try:
        given = told.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return {}
    by_name: dict[str, Any] = dict(given)
    for parameter in told.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            by_name |= by_name.pop(parameter.name, {})
    config: Any = by_name.get("config")
    sources: list[Any] = [by_name]
    if isinstance(config, Mapping):
        settled = cast("Mapping[str, Any]", config)
        sources += [settled.get("configurable"), settled.get("metadata")]
    found: dict[str, str | None] = {}
    for source in sources:
        if isinstance(source, Mapping):
            values = cast("Mapping[str, Any]", source)
            for key, attribute in _SAID.items():
                if isinstance(values.get(key), str):
                    found.setdefault(attribute, values[key])
    return found


def _tracer() -> Tracer | None:
    """Return OpenTelemetry's tracer where the application has imported OpenTelemetry; it is not imported for this."""
    api: Any = sys.modules.get(_API)
    return None if api is None else api.get_tracer("threadkeep")


_NOBODY: Final = Recording(None)


log: Final = logging.getLogger("threadkeep")

_REPEAT_AFTER_SECONDS: Final = 60.0


BOUNDS_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a duration was, over all times that it was measured.

    Attributes:
        count: How often.
        seconds: All together.
        longest: The longest, in seconds.
        buckets: How many were at most as long as each of :data:`BOUNDS_SECONDS`.
    """

    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    buckets: tuple[int, ...] = (0,) * len(BOUNDS_SECONDS)


@dataclass(slots=True)
class _Times:
    """Durations as they are counted: each in the first bucket that it fits into, the last one for longer ones."""

    numbers: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_SECONDS) + 1))
    seconds: float = 0.0
    longest: float = 0.0

    def measured(self) -> Measured:
        *buckets, count = accumulate(self.numbers)
        return Measured(count, self.seconds, self.longest, tuple(buckets))


class Telemetry:
    """Counts events of one Threadkeep; a failure that was survived is counted and logged.

    The same failure is logged once a minute, with how often it came, so that a storage that is
    down for an hour does not fill the log.

    Attributes:
        closing: Whether failures of a storage are counted and not logged: closing logs them once.
    """

    def __init__(self) -> None:
        self.closing = False
        self._guard = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._times: dict[str, _Times] = {}
        self._logged_at: dict[tuple[str, str], float] = {}

    def measure(self, name: str, seconds: float) -> None:
        """Note that *name* took so long, e.g. ``capture.lag_seconds``."""
        place = bisect_left(BOUNDS_SECONDS, seconds)
        with self._guard:
            times = self._times.get(name)
            if times is None:
                times = self._times[name] = _Times()
            times.numbers[place] += 1
            times.seconds += seconds
            times.longest = max(times.longest, seconds)

    def measured(self) -> dict[str, Measured]:
        """Return all durations by name."""
        with self._guard:
            return {name: times.measured() for name, times in self._times.items()}

    def count(self, name: str, amount: int = 1) -> None:
        """Add *amount* to the counter *name*, e.g. ``recall.turns``."""
        with self._guard:
            self._counts[name] += amount

    def degraded(self, where: str, error: BaseException) -> None:
        """Count and log that *where* went on without what *error* took away.

        Only the type and the message of our own errors are logged; others may quote data.
        """
        kind = type(error).__name__
        key = (where, kind)
        with self._guard:
            self._counts[f"{where}.degraded"] += 1
            if self.closing and isinstance(error, StorageUnavailableError | TimeoutError):
                return
            now = time.monotonic()
            last = self._logged_at.get(key)
            if last is not None and now - last < _REPEAT_AFTER_SECONDS:
                return
            self._logged_at[key] = now
            times = self._counts[f"{where}.degraded"]
        detail = f": {error}" if hasattr(error, "code") else ""
        log.warning("%s failed and was left out (%s%s); %d times so far", where, kind, detail, times)

    def counts(self) -> dict[str, int]:
        """Return all counters by name."""
        with self._guard:
            return dict(self._counts)


LOGGERS: Final = ("threadkeep", "uvicorn", "uvicorn.error")
"""The loggers of a server. Others keep their handlers: what they log is the application's."""

PROTOCOLS: Final = ("a2a", "mcp")
"""The packages of protocols that a server mounts: what they log quotes what clients send."""


FIELDS: Final = ("owner", "run", "outcome", "seconds")
"""What a record may have beside its message, given as ``extra``."""


class OwnerDigests:
    """Stands for owners in logs by 16 hexadecimal digits, which cannot be computed without the key.

    Args:
        secret: THREADKEEP_ERASURE_KEY, so that all processes write the same digits; ``None``: a random key.
    """

    def __init__(self, secret: str | None) -> None:
        self._key = hashlib.sha256(b"logs" + secret.encode()).digest() if secret else secrets.token_bytes(32)

    def of(self, owner: Owner) -> str:
        """Return the digits of *owner*."""
        return hmac.digest(self._key, owner.label.encode("utf-8", "surrogatepass"), hashlib.sha256).hex()[:16]


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object; of an exception it has the type only, as its words may quote a message.

    Of what the packages of protocols log, it has the place only.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str | float] = {
            "time": SystemClock().now().isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message_of(record),
        }
        for name in FIELDS:
            if isinstance(value := getattr(record, name, None), str | float | int):
                line[name] = value
        if (trace_id := current_trace_id()) is not None:
            line["trace_id"] = trace_id
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
        return json.dumps(line)


class TextFormatter(logging.Formatter):
    """Formats a record as its message, and an exception with its traceback.

    Of what the packages of protocols log, it has the place only.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        return _message_of(record) if _quotes_clients(record) else super().format(record)


def _quotes_clients(record: logging.LogRecord) -> bool:
    package = Path(record.pathname).parts if record.name == "root" else record.name.split(".")  # mcp uses the root, too
    return any(one in package for one in PROTOCOLS)


def _message_of(record: logging.LogRecord) -> str:
    if _quotes_clients(record):
        return f"{record.module}, line {record.lineno}; the message is left out, as it may quote a client."
    return record.getMessage()


def use_log_format(settings: Settings) -> None:
    """Let the loggers of a server write to standard error from now on, in the format of THREADKEEP_LOG_FORMAT.

    The root logger does, too, unless the application has given it handlers.
    """
    handler = logging.StreamHandler(sys.stderr)
    if settings.log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(TextFormatter())
        handler.setLevel(logging.WARNING)
    if not logging.root.handlers:
        logging.root.addHandler(handler)
    if settings.log_format != "json":
        return
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler] if name != "uvicorn.error" else []
        logger.propagate = name == "uvicorn.error"
        logger.setLevel(logging.INFO)
