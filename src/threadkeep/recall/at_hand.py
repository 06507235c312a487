"""What is found without waiting, for the same steps that otherwise wait for it."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from threadkeep.memories.models import Memory
    from threadkeep.search.hits import Hit, Ranking
    from threadkeep.search.retriever import Search
    from threadkeep.storage.port import Namespace, Partition

T = TypeVar("T")

_AT_A_TIME: Final = 64
"""So many memories are read out before the event loop may be at the index again."""


class NotAtHandError(Exception):
    """Something has to be waited for."""


class Finder(Protocol):
    """Who finds: :class:`~threadkeep.search.retriever.Search`, which may have to wait, or what it has at hand."""

    async def ranking(
        self,
        partition: Partition,
        query: str,
        *,
        prefixes: Sequence[Namespace],
        limit: int | None,
        threads: Sequence[str],
        compared: int,
    ) -> Ranking:
        """See :meth:`threadkeep.search.retriever.Search.ranking`."""
        ...

    async def memories(self, partition: Partition, hits: Sequence[Hit]) -> list[Memory | None]:
        """See :meth:`threadkeep.search.retriever.Search.memories`."""
        ...


class AtHand:
    """Finds what *search* has at hand, in any thread; nothing in it ever waits.

    Each method raises :class:`NotAtHandError` where it would have to.
    """

    def __init__(self, search: Search) -> None:
        self._search = search

    async def ranking(
        self,
        partition: Partition,
        query: str,
        *,
        prefixes: Sequence[Namespace],
        limit: int | None,
        threads: Sequence[str],
        compared: int,
    ) -> Ranking:
        """See :meth:`Finder.ranking`."""
        found = self._search.ranking_at_hand(
            partition, query, prefixes=prefixes, limit=limit, threads=threads, compared=compared
        )
        if found is None:
            raise NotAtHandError
        return found

    async def memories(self, partition: Partition, hits: Sequence[Hit]) -> list[Memory | None]:
        """See :meth:`Finder.memories`."""
        found: list[Memory | None] = []
        for start in range(0, len(hits), _AT_A_TIME):
            part = self._search.memories_at_hand(partition, hits[start : start + _AT_A_TIME])
            if part is None:
                raise NotAtHandError
            found += part
        return found


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return what *work* returns, in any thread, with a loop or without.

    Raises:
        NotAtHandError: It would have had to wait; it was given up.
    """
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise NotAtHandError
