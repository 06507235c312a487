"""Checkpoints in the process's own memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar, TypeVar

from langgraph.checkpoint.memory import InMemorySaver

from threadkeep.threads.backend import Backend, Capabilities, Saver
from threadkeep.threads.fence import Claim, Head, judge, moved

T = TypeVar("T")


class MemoryCheckpoints(Backend):
    """LangGraph's in-memory saver, which answers at once."""

    name: ClassVar[str] = "memory"
    capabilities: ClassVar[Capabilities] = Capabilities()
    waits: ClassVar[bool] = False

    def __init__(self) -> None:
        self._heads: dict[str, Head] = {}

    @property
    def location(self) -> str:
        """Where it is."""
        return "(in this process)"

    async def open(self) -> Saver:
        """Return a new saver."""
        return InMemorySaver()

    async def call(
        self,
        saver: Saver,
        work: Callable[[Saver], Awaitable[T]],
        *,
        seconds: float,  # noqa: ARG002 - whoever waits keeps the time
        claim: Claim | None = None,
    ) -> T:
        """Return what *work* returns; nothing comes in between, for nothing in it waits."""
        if claim is None:
            return await work(saver)
        head = self._heads.get(claim.thread, Head())
        judge(head, claim)
        done = await work(saver)
        if claim.kind == "delete":
            self._heads.pop(claim.thread, None)
        elif claim.kind == "put":
            self._heads[claim.thread] = moved(head, claim)
        return done

    async def close(self) -> None:
        """Do nothing: what is in memory goes with the process."""
