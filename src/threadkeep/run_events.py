"""Beginnings and ends of LangGraph's runs, of which LangGraph tells savers and middleware by callbacks only.

A handler that LangChain adds to every run tracks which run is current in a context, and ends what a run holds before
the run returns to its caller: an async run awaits it, a sync run waits for it.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from enum import StrEnum
from functools import cache, partial
from typing import Any, Final, Protocol, TypeAlias, cast
from uuid import UUID
from weakref import WeakValueDictionary

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook

MEMORY_KEY: Final = "threadkeep_memory"
"""The key of ``configurable`` that turns memory off for a run; its value is ``MemorySwitch.OFF``."""


class MemorySwitch(StrEnum):
    """Whether a run uses memory: a text, so that LangGraph notes it in checkpoints; the object alone turns it off."""

    OFF = "off"


def is_memory_off(config: Mapping[str, Any]) -> bool:
    """Return whether the run of *config* neither recalls nor learns."""
    configurable: Mapping[str, object] = config.get("configurable") or {}
    return configurable.get(MEMORY_KEY) is MemorySwitch.OFF


class RunResource(Protocol):
    """What a run holds until it ends, such as the lease on its thread."""

    async def arelease(self) -> None:
        """Release it before the run returns; an error is raised in the run."""
        ...

    def release(self) -> None:
        """Do the same, blocking."""
        ...


class CurrentRun:
    """A run that has begun.

    Attributes:
        name: The name of the graph, or of the run if it was given one.
        ended: Whether it has ended.
        children: The runs that it began and that go on: a graph within a step is current in its own context only.
        resource: What it holds until it ends; ``None``: nothing.
        inputs: What it was given, until it ends.
    """

    def __init__(self, name: str, parent: CurrentRun | None = None, inputs: Any = None) -> None:
        self.name = name
        self.inputs = inputs
        self._root = parent.root if parent is not None else None
        self.ended = False
        self.children: dict[UUID, CurrentRun] = {}
        self.resource: RunResource | None = None
        self._at_end: deque[Callable[[], object]] = deque()

    @property
    def root(self) -> CurrentRun:
        """The outermost run around it, or itself."""
        return self._root or self

    def when_ended(self, call: Callable[[], object]) -> None:
        """Call *call* when it has ended; at once if it has."""
        self._at_end.append(call)
        if self.ended:
            self.end()

    def end(self) -> None:
        """Mark it as ended, and call what waits for that, each once.

        Contexts may keep the run for long: they must not keep its input, nor what was called.
        """
        self.ended, self.inputs = True, None
        with suppress(IndexError):  # another thread may be taking them, too
            while True:
                self._at_end.popleft()()


_began: ContextVar[CurrentRun | None] = ContextVar("threadkeep_run", default=None)
_current: WeakValueDictionary[UUID, CurrentRun] = WeakValueDictionary()
_Runs: TypeAlias = "dict[UUID, CurrentRun]"


class _RunEvents(BaseCallbackHandler):
    """Handles the events of one outermost run, and keeps that run: LangGraph keeps the handler until the run's end.

    The context that it began in may be gone before, as where a blocking stream is read from several threads.
    """

    run_inline = True
    """In the run's own context, so that what the run reads next sees it as current."""

    raise_error = True
    """An error ends the run with it; LangChain ignores the errors of other handlers."""

    ignore_llm = ignore_retry = ignore_agent = ignore_retriever = ignore_chat_model = ignore_custom_event = True  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __init__(self) -> None:
        self._outermost: _Runs = {}

    def on_chain_start(
        self,
        serialized: Any,  # noqa: ARG002 - LangChain's name
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        name: str | None = None,
        **_: Any,
    ) -> None:
        parent = _current.get(parent_run_id) if parent_run_id else None
        run = _current[run_id] = CurrentRun(name or "", parent, inputs if parent is None else None)
        (self._outermost if parent is None else parent.children)[run_id] = run
        _began.set(run)

    @property
    def on_chain_end(self) -> Callable[..., Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The handler of a run's end: LangChain awaits it where an async run is, and calls it elsewhere."""
        return partial(_end_async if _caller_awaits() else _end_sync, self._outermost)

    @property
    def on_chain_error(self) -> Callable[..., Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The handler of a run's failure."""
        return partial(_fail_async if _caller_awaits() else _fail_sync, self._outermost)


def _caller_awaits() -> bool:
    """Return whether the function that reads the handler's attribute is a coroutine: an async callback manager."""
    return bool(sys._getframe(2).f_code.co_flags & inspect.CO_COROUTINE)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


async def _end_async(outermost: _Runs, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any) -> None:
    run = _remove_run(outermost, run_id, parent_run_id)
    if run is None:
        return
    try:
        if run.resource is not None:
            await run.resource.arelease()
    finally:
        run.end()


def _end_sync(outermost: _Runs, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any) -> None:
    run = _remove_run(outermost, run_id, parent_run_id)
    if run is None:
        return
    try:
        if run.resource is not None:
            run.resource.release()
    finally:
        run.end()


async def _fail_async(outermost: _Runs, error: BaseException, **given: Any) -> None:
    try:
        await _end_async(outermost, **given)
    except Exception as late:  # noqa: BLE001 - the run's own error is raised
        error.add_note(f"The run's thread could not be released: {late}")


def _fail_sync(outermost: _Runs, error: BaseException, **given: Any) -> None:
    try:
        _end_sync(outermost, **given)
    except Exception as late:  # noqa: BLE001 - the run's own error is raised
        error.add_note(f"The run's thread could not be released: {late}")


def _remove_run(outermost: _Runs, run_id: UUID, parent_run_id: UUID | None) -> CurrentRun | None:
    run = _current.pop(run_id, None)
    outermost.pop(run_id, None)
    if parent_run_id is not None and (parent := _current.get(parent_run_id)):
        parent.children.pop(run_id, None)
    return run


class _NewRunEvents:
    """What LangChain takes for a context variable with the handler of a run."""

    get = _RunEvents


@cache
def listen() -> None:
    """Follow every run of this process from now on."""
    register_configure_hook(cast("ContextVar[Any]", _NewRunEvents), inheritable=True, handle_class=_RunEvents)
    logging.getLogger("langchain_core.callbacks.manager").addFilter(_is_no_outcome)


def _is_no_outcome(record: logging.LogRecord) -> bool:
    """Return False for LangChain's warning about an error of ours at a run's end: the run raises it to its caller."""
    args = record.args
    return not (isinstance(args, tuple) and args[:2] == (_RunEvents.__name__, "on_chain_end"))


def current_run() -> CurrentRun | None:
    """Return the run that began last in this context and has not ended; ``None``: there is none."""
    run = _began.get()
    return run if run is not None and not run.ended else None
