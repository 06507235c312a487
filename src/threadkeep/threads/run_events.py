"""When a run of LangGraph's begins and ends: savers and middleware are not told, but callbacks are.

A handler that LangChain adds to every run by itself tells with what a run begins, remembers which one began last in a
context, and tells whoever wants to know when that one has ended, failed or been given up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, Protocol
from uuid import UUID
from weakref import WeakSet, WeakValueDictionary

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook


class Running:
    """A run that has begun.

    Attributes:
        name: Of the graph, or as the run was given one.
        ended: Whether it has ended.
        within: The runs that it began and that go on: a graph within a step is in nobody else's context for long.
    """

    def __init__(self, name: str, began_by: Running | None = None) -> None:
        self.name = name
        self._outermost = began_by.outermost if began_by is not None else None
        self.ended = False
        self.within: dict[UUID, Running] = {}
        self._told: list[Callable[[], object]] = []

    @property
    def outermost(self) -> Running:
        """The run that began it, or whoever began that, and so on; itself, if nobody did."""
        return self._outermost or self

    def when_ended(self, call: Callable[[], object]) -> None:
        """Call *call* when it has ended; at once if it has."""
        self._told.append(call)
        if self.ended:
            call()

    def end(self) -> None:
        """It has ended."""
        self.ended = True
        told, self._told = self._told, []  # a caller's context remembers the run, and must not hold what it held
        for call in told:
            call()


class Hearer(Protocol):
    """Who wants to know with what runs begin."""

    def run_begins(self, name: str, given: object) -> None:
        """A run called *name*, which no other run began, begins with *given*. This is called in that run: be quick."""
        ...


_hearers: WeakSet[Hearer] = WeakSet()
_adding: Final = threading.Lock()
_began: ContextVar[Running | None] = ContextVar("threadkeep_run", default=None)
_running: WeakValueDictionary[UUID, Running] = WeakValueDictionary()


class _RunEvents(BaseCallbackHandler):
    run_inline = True
    """In the run's own context, where what it reads next can be told to be its."""

    ignore_llm = ignore_retry = ignore_agent = ignore_retriever = ignore_chat_model = ignore_custom_event = True  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

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
        began_by = _running.get(parent_run_id) if parent_run_id else None
        running = _running[run_id] = Running(name or "", began_by)
        if began_by is not None:
            began_by.within[run_id] = running
        _began.set(running)
        if parent_run_id is None:
            with _adding:
                hearers = tuple(_hearers)
            for hearer in hearers:
                hearer.run_begins(running.name, inputs)

    def on_chain_end(self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any) -> None:
        if parent_run_id is not None and (began_by := _running.get(parent_run_id)):
            began_by.within.pop(run_id, None)
        if running := _running.pop(run_id, None):
            running.end()

    def on_chain_error(self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any) -> None:
        self.on_chain_end(run_id=run_id, parent_run_id=parent_run_id)


_events: Final = _RunEvents()
_handler: ContextVar[BaseCallbackHandler | None] = ContextVar("threadkeep_run_events", default=_events)


@cache
def listen() -> None:
    """Hear of every run of this process from now on."""
    register_configure_hook(_handler, inheritable=True)


def tell(hearer: Hearer) -> None:
    """Tell *hearer* of every run that begins, as long as anybody else holds it."""
    listen()
    with _adding:
        _hearers.add(hearer)


def current_run() -> Running | None:
    """Return the run that began last in this context and has not ended; ``None``: nobody heard of one."""
    running = _began.get()
    return running if running is not None and not running.ended else None
