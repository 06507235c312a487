"""When a run of LangGraph's ends: savers are not told, but callbacks are.

A handler that LangChain adds to every run by itself remembers which one began last in a context, and tells whoever
wants to know when that one has ended, failed or been given up.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any, Final
from uuid import UUID
from weakref import WeakValueDictionary

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook


class Running:
    """A run that has begun.

    Attributes:
        ended: Whether it has ended.
    """

    def __init__(self, began_by: Running | None = None) -> None:
        self._outermost = began_by.outermost if began_by is not None else None
        self.ended = False
        self._told: list[Callable[[], object]] = []

    @property
    def outermost(self) -> Running:
        """The run that began it, or whoever began that, and so on; itself, if nobody did."""
        return self._outermost or self

    def when_ended(self, tell: Callable[[], object]) -> None:
        """Call *tell* when it has ended; at once if it has."""
        self._told.append(tell)
        if self.ended:
            tell()

    def end(self) -> None:
        """It has ended."""
        self.ended = True
        for tell in self._told:
            tell()


_began: ContextVar[Running | None] = ContextVar("threadkeep_run", default=None)
_running: WeakValueDictionary[UUID, Running] = WeakValueDictionary()


class _RunEnds(BaseCallbackHandler):
    run_inline = True
    """In the run's own context, where what it reads next can be told to be its."""

    ignore_llm = ignore_retry = ignore_agent = ignore_retriever = ignore_chat_model = ignore_custom_event = True  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def on_chain_start(self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any) -> None:
        running = _running[run_id] = Running(_running.get(parent_run_id) if parent_run_id else None)
        _began.set(running)

    def on_chain_end(self, *_: Any, run_id: UUID, **__: Any) -> None:
        if running := _running.pop(run_id, None):
            running.end()

    def on_chain_error(self, *_: Any, run_id: UUID, **__: Any) -> None:
        self.on_chain_end(run_id=run_id)


_ends: Final = _RunEnds()
_handler: ContextVar[BaseCallbackHandler | None] = ContextVar("threadkeep_run_ends", default=_ends)


@cache
def listen() -> None:
    """Hear of every run of this process from now on."""
    register_configure_hook(_handler, inheritable=True)


def current_run() -> Running | None:
    """Return the run that began last in this context and has not ended; ``None``: nobody heard of one."""
    running = _began.get()
    return running if running is not None and not running.ended else None
