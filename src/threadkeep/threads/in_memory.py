"""Checkpoints in the process's own memory."""

from __future__ import annotations

from typing import ClassVar

from langgraph.checkpoint.memory import InMemorySaver

from threadkeep.threads.backend import Backend, Capabilities, Saver


class MemoryCheckpoints(Backend):
    """LangGraph's in-memory saver, which answers at once."""

    name: ClassVar[str] = "memory"
    capabilities: ClassVar[Capabilities] = Capabilities()
    waits: ClassVar[bool] = False

    @property
    def location(self) -> str:
        """Where it is."""
        return "(in this process)"

    async def open(self) -> Saver:
        """Return a new saver."""
        return InMemorySaver()

    async def close(self) -> None:
        """Do nothing: what is in memory goes with the process."""
