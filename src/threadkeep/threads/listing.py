"""How a list of checkpoints is read: page by page where that can be, and filtered where the database cannot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

_PAGE: Final = 20
_GROWTH: Final = 4

Fetch: TypeAlias = "Callable[[RunnableConfig | None, int | None], Awaitable[Sequence[CheckpointTuple]]]"
Keeps: TypeAlias = "Callable[[CheckpointTuple], bool] | None"


@dataclass
class Listing:
    """How far a list of checkpoints has come.

    The ids of one thread and namespace are unique and in order, so the last one continues a page.
    What spans namespaces or threads is fetched in one: there LangGraph promises neither.

    Attributes:
        config: Which thread's, and which namespace's; ``None``: all.
        filter: What their metadata has to say.
        before: Only what is older than this checkpoint.
        left: How many are still to come; ``None``: all there are.
    """

    config: RunnableConfig | None
    filter: dict[str, Any] | None
    before: RunnableConfig | None
    left: int | None

    async def next_page(self, fetch: Fetch, keeps: Keeps) -> Sequence[CheckpointTuple]:
        """Return the next checkpoints, none where the list is at its end.

        Args:
            fetch: Reads that many checkpoints before that one.
            keeps: Which of them belong into the list; ``None``: all.
        """
        if not self._paged:
            return await self._whole(fetch, keeps)
        while self.left is None or self.left > 0:
            size = _PAGE if self.left is None or keeps else min(_PAGE, self.left)
            found = await fetch(self.before, size)
            kept = _sieved(found, keeps)[: self.left]
            if len(found) < size:
                self.left = 0
                return kept
            self.before = {"configurable": {"checkpoint_id": _configurable(found[-1].config)["checkpoint_id"]}}
            self.left = None if self.left is None else self.left - len(kept)
            if kept:
                return kept
        return ()

    async def _whole(self, fetch: Fetch, keeps: Keeps) -> Sequence[CheckpointTuple]:
        limit, self.left = self.left, 0
        if limit is not None and limit <= 0:
            return ()
        size = limit if limit is None or keeps is None else max(_PAGE, limit) * _GROWTH
        while True:
            found = await fetch(self.before, size)
            kept = _sieved(found, keeps)[:limit]
            if size is None or limit is None or len(found) < size or len(kept) >= limit:
                return kept
            size *= _GROWTH

    @property
    def _paged(self) -> bool:
        return self.config is not None and _configurable(self.config).get("checkpoint_ns") is not None


def _sieved(found: Sequence[CheckpointTuple], keeps: Keeps) -> Sequence[CheckpointTuple]:
    return found if keeps is None else [one for one in found if keeps(one)]


def _configurable(config: RunnableConfig) -> dict[str, Any]:
    return config.get("configurable", {})
