"""What a run is: values, free of any framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

RunStatus: TypeAlias = Literal["new", "running", "waiting", "paused", "failed", "cancelled", "done"]


@dataclass(frozen=True, slots=True)
class Ask:
    """A question that a node waits for an answer to.

    Attributes:
        ask_id: What the answer names.
        node: Who asks.
        value: What is asked, as the node gave it to ``interrupt()``.
    """

    ask_id: str
    node: str
    value: Any


@dataclass(frozen=True, slots=True)
class Run:
    """A job as it stands.

    Attributes:
        thread_id: The job's id.
        status: ``new``: never started; ``running``: at work in this process; ``waiting``: for answers to its *asks*;
            ``paused``: cut off, or forked, and not resumed; ``failed``: a node raised; ``cancelled``;
            ``done``.
        values: The graph's state. Of a function (``@entrypoint``) what it returned, under ``__end__`` where that is
            no mapping.
        asks: What is waited for; each is answered by its id.
        next_nodes: What runs when the job goes on.
        checkpoint_id: Where the job is; a fork names it.
        error: What the failing node raised; ``None`` where another process saw it, or nothing failed.
    """

    thread_id: str
    status: RunStatus
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    asks: tuple[Ask, ...] = ()
    next_nodes: tuple[str, ...] = ()
    checkpoint_id: str | None = None
    error: Exception | None = None

    def require_done(self) -> Mapping[str, Any]:
        """Return the state of a job that is done; raise what it failed with.

        Raises:
            RunUnfinishedError: It waits, was cancelled, or was cut off.
        """
        from threadkeep.errors import RunUnfinishedError

        if self.error is not None:
            raise self.error
        if self.status != "done":
            msg = f"The job is {self.status}; answer what it asks, or retry it."
            raise RunUnfinishedError(msg, thread_id=self.thread_id, status=self.status)
        return self.values


@dataclass(frozen=True, slots=True)
class Step:
    """One checkpoint of a job.

    Attributes:
        checkpoint_id: Names it.
        at: When it was made.
        made_by: ``input``, ``loop``, ``update`` or ``fork``.
        next_nodes: What ran after it.
        values: The state.
        parent_id: The checkpoint before it.
    """

    checkpoint_id: str
    at: datetime | None
    made_by: str
    next_nodes: tuple[str, ...]
    values: Mapping[str, Any]
    parent_id: str | None
