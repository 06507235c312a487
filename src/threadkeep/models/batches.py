"""Embedding on this machine, batch by batch: who arrives while a batch runs goes into the next one.

One thread works while there is work and ends with it. Few texts go before many, so that a question waits for one
batch at most while a thousand documents are being read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Encode = Callable[[Sequence[str]], "NDArray[np.float32]"]

TOKENS_PER_BATCH: Final = 320
"""Rows times the longest row, in tokens: about 8 turns of a conversation, over in 40–80 ms.

Larger batches are slower, not faster: what passes between the layers no longer fits the core's cache.
"""

CHARACTERS_PER_TOKEN: Final = 4
MAX_TOKENS: Final = 256


@dataclass(eq=False, slots=True)
class _Request:
    """Texts that somebody waits for; those not embedded yet stand in ``left``, the longest first."""

    texts: Sequence[str]
    left: list[int]
    vectors: dict[int, NDArray[np.float32]] = field(default_factory=dict)
    done: Future[list[NDArray[np.float32]]] = field(default_factory=Future)


class Batches:
    """Merges concurrent requests into batches of like length and runs them in one worker thread."""

    def __init__(self, load: Callable[[], Encode]) -> None:
        """Store *load*, which runs in the worker, once; where it raises, the next request tries again."""
        self._load = load
        self._encode: Encode | None = None
        self._guard = threading.Lock()
        self._waiting: list[_Request] = []
        self._working = False

    @property
    def loaded(self) -> bool:
        """Whether the model is loaded."""
        return self._encode is not None

    @property
    def encode(self) -> Encode | None:
        """The model, which is safe to call from any thread; ``None`` if it is not loaded."""
        return self._encode

    def submit(self, texts: Sequence[str]) -> Future[list[NDArray[np.float32]]]:
        """Return what will be the vectors of *texts*, in their order. Cancelling it drops what is not embedded yet.

        No texts load the model and nothing more.
        """
        by_length = sorted(range(len(texts)), key=lambda place: len(texts[place]), reverse=True)
        request = _Request(texts, by_length)
        with self._guard:
            self._waiting.append(request)
            if self._working:
                return request.done
            self._working = True
        try:
            threading.Thread(target=self._work, name="threadkeep-embedder").start()
        except RuntimeError:
            self._work()  # the interpreter is ending and starts no threads, but what is drained now needs its vectors
        return request.done

    def _work(self) -> None:
        while batch := self._next():
            try:
                if self._encode is None:
                    self._encode = self._load()
                self._run(self._encode, [place for place in batch if place[1] >= 0])
            except Exception as error:  # noqa: BLE001 - it is raised where somebody waits for it
                self._fail({request for request, _ in batch}, error)

    def _next(self) -> list[tuple[_Request, int]]:
        """Take the texts of the next batch.

        The smallest requests go first and whole, as many as fit; a large one is only cut where it stands alone, so
        that nobody's question is computed together with a piece of somebody's thousand documents. A request
        without texts, which waits for loading, stands in the batch as place -1.
        """
        with self._guard:
            self._waiting = [request for request in self._waiting if not request.done.cancelled()]
            self._waiting.sort(key=lambda request: len(request.left))
            batch: list[tuple[_Request, int]] = []
            longest = 0
            for request in self._waiting:
                count, tokens = _fitting(request, taken=len(batch), longest=longest)
                if batch and count < len(request.left):
                    break
                longest = max(longest, tokens)
                batch += [(request, request.left.pop()) for _ in range(count)] or [(request, -1)]
            self._working = bool(batch)
            return batch

    def _run(self, encode: Encode, batch: list[tuple[_Request, int]]) -> None:
        if batch:
            vectors = encode([request.texts[place] for request, place in batch])
            for (request, place), vector in zip(batch, vectors, strict=True):
                request.vectors[place] = vector
        with self._guard:
            complete = [request for request in self._waiting if len(request.vectors) == len(request.texts)]
            self._waiting = [request for request in self._waiting if len(request.vectors) < len(request.texts)]
        for request in complete:
            if request.done.set_running_or_notify_cancel():
                request.done.set_result([request.vectors[place] for place in range(len(request.texts))])

    def _fail(self, requests: set[_Request], error: Exception) -> None:
        with self._guard:
            self._waiting = [request for request in self._waiting if request not in requests]
        for request in requests:
            if request.done.set_running_or_notify_cancel():
                request.done.set_exception(error)


def _fitting(request: _Request, *, taken: int, longest: int) -> tuple[int, int]:
    """Return how many of the texts left fit beside those taken (at least one if none is), and the longest's tokens."""
    count = 0
    for place in reversed(request.left):
        tokens = max(longest, _tokens_about(request.texts[place]))
        if taken + count and tokens * (taken + count + 1) > TOKENS_PER_BATCH:
            break
        longest = tokens
        count += 1
    return count, longest


def _tokens_about(text: str) -> int:
    return min(MAX_TOKENS, 2 + len(text) // CHARACTERS_PER_TOKEN)
