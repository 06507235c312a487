"""What memories and capture need of search; the composition root gives ``recall.search.Search``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from threadkeep.storage.interface import Embedding, Namespace, Partition


class Found(Protocol):
    """Where a search found something."""

    @property
    def namespace(self) -> Namespace:
        """Of the item."""
        ...

    @property
    def key(self) -> str:
        """Of the item."""
        ...


class FoundInOrder(Protocol):
    """What a search found, best first."""

    @property
    def hits(self) -> Sequence[Found]:
        """What was found."""
        ...


class Searcher(Protocol):
    """Makes vectors, and finds what is like a text in a partition."""

    async def embed_put(self, texts: Sequence[str]) -> Embedding | None:
        """Return the vectors of *texts*; ``None`` where there is no embedder or it failed."""
        ...

    async def ranking(
        self, partition: Partition, query: str, *, prefixes: Sequence[Namespace], limit: int | None
    ) -> FoundInOrder:
        """Return what is most like *query* below *prefixes*."""
        ...

    async def statements(self, partition: Partition, texts: Sequence[str]) -> frozenset[tuple[Namespace, str]]:
        """Return where the memories are that may say the same as one of *texts*, or answer the same question."""
        ...

    def refresh(self, partition: Partition) -> None:
        """Begin to read what is new in *partition*, if it is held; the next search finds it read."""
        ...
