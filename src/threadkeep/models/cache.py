"""A cache of the vectors of recent queries."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from cachetools import LRUCache

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ENTRY_OVERHEAD_BYTES: Final = 300
"""What an entry costs beside its text and its vector: dictionary slot, list node, two object heads."""

MAX_QUESTIONS: Final = 4
"""A call with more texts than that is not a question, and does not push questions out."""


class VectorCache:
    """A least-recently-used map from text to vector, bounded in bytes; safe in threads.

    Texts over ``max_characters`` are not kept: they are documents, which are embedded once.
    """

    def __init__(self, *, max_bytes: int, max_characters: int = 2_000) -> None:
        self._max_characters = max_characters
        self._guard = threading.Lock()
        self._vectors: LRUCache[str, tuple[str, NDArray[np.float32]]] = LRUCache(max_bytes, _cost)

    async def embed(
        self, texts: Sequence[str], unknown: Callable[[Sequence[str]], Awaitable[Sequence[NDArray[np.float32]]]]
    ) -> NDArray[np.float32]:
        """Return the vectors of *texts* in their order, shape ``(len(texts), dims)``; *texts* is not empty.

        What is not kept is asked of *unknown*, each text once; the answers to short calls are kept.
        """
        import numpy as np

        vectors = {text: vector for text in set(texts) if (vector := self.get(text)) is not None}
        missing = [text for text in dict.fromkeys(texts) if text not in vectors]
        if missing:
            vectors.update(zip(missing, await unknown(missing), strict=True))
            for text in missing if len(texts) <= MAX_QUESTIONS else ():
                self.put(text, vectors[text])
        return np.stack([vectors[text] for text in texts])

    def get_all(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """Return the vectors of *texts* in their order; ``None`` without texts, or if one is not in the cache."""
        import numpy as np

        vectors = [vector for text in texts if (vector := self.get(text)) is not None]
        return np.stack(vectors) if 0 < len(vectors) == len(texts) else None

    def get(self, text: str) -> NDArray[np.float32] | None:
        """Return the vector of *text*, shape ``(dims,)``; do not write to it."""
        with self._guard:
            entry = self._vectors.get(text)
        return entry[1] if entry is not None else None

    def put(self, text: str, vector: NDArray[np.float32]) -> None:
        """Add a copy of *vector*, and drop the least recently used ones until all fit."""
        if len(text) > self._max_characters:
            return
        entry = (text, vector.copy())
        with self._guard:
            if _cost(entry) <= self._vectors.maxsize:
                self._vectors[text] = entry

    @property
    def bytes(self) -> int:
        """The estimated size."""
        return int(self._vectors.currsize)


def _cost(entry: tuple[str, NDArray[np.float32]]) -> int:
    text, vector = entry
    return 4 * len(text) + int(vector.nbytes) + ENTRY_OVERHEAD_BYTES
