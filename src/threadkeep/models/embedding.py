"""How texts are embedded: calls of an embedder, which callers can do without, batches, and a cache of vectors."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import filterfalse
from typing import TYPE_CHECKING, Final, TypeAlias

from cachetools import LRUCache

from threadkeep.concurrency import AnswerTimeout, SharedTask, asking
from threadkeep.errors import EmbedderUnavailableError
from threadkeep.models.base import EMBEDDER, QueryEmbedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from threadkeep.models.base import Embedder
    from threadkeep.observability import Telemetry


ENTRY_OVERHEAD_BYTES: Final = 300
"""What an entry costs beside its text and its vector: dictionary slot, list node, two object heads."""

MAX_QUESTIONS: Final = 4
"""A call with more texts than that is not a question, and does not push questions out."""


class VectorCache:
    """A least-recently-used map from text to vector, bounded in bytes; safe in threads.

    Texts over ``max_characters`` are not kept: they are documents, which are embedded once. Nor are those of a call
    with more than ``max_questions``.
    """

    def __init__(self, *, max_bytes: int, max_characters: int = 2_000, max_questions: float = MAX_QUESTIONS) -> None:
        self._max_characters = max_characters
        self._max_questions = max_questions
        self._guard = threading.Lock()
        self._vectors: LRUCache[str, tuple[str, NDArray[np.float32]]] = LRUCache(max_bytes, _cost)

    async def embed(
        self, texts: Sequence[str], unknown: Callable[[Sequence[str]], Awaitable[Sequence[NDArray[np.float32]]]]
    ) -> NDArray[np.float32]:
        """Return the vectors of *texts* in their order, shape ``(len(texts), dims)``; *texts* is not empty.

        What is not kept is asked of *unknown*, each text once; the answers to short calls are kept.
        """
        import numpy as np

        with self._guard:
            vectors = {text: entry[1] for text in set(texts) if (entry := self._vectors.get(text)) is not None}
        missing = list(filterfalse(vectors.__contains__, dict.fromkeys(texts)))
        if missing:
            vectors.update(zip(missing, await unknown(missing), strict=True))
            for text in missing if len(texts) <= self._max_questions else ():
                self.put(text, vectors[text])
        return np.stack(list(map(vectors.__getitem__, texts)))

    def get_all(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """Return the vectors of *texts* in their order; ``None`` without texts, or if one is not in the cache."""
        import numpy as np

        with self._guard:
            vectors = [entry[1] for text in texts if (entry := self._vectors.get(text)) is not None]
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
        with self._guard, suppress(ValueError):  # it is larger than the cache
            self._vectors[text] = (text, vector.copy())

    @property
    def bytes(self) -> int:
        """The estimated size."""
        return int(self._vectors.currsize)


def _cost(entry: tuple[str, NDArray[np.float32]]) -> int:
    text, vector = entry
    return 4 * len(text) + int(vector.nbytes) + ENTRY_OVERHEAD_BYTES


Encode = Callable[[Sequence[str]], "NDArray[np.float32]"]

TOKENS_PER_BATCH: Final = 320
"""Rows times the longest row, in tokens: about 8 turns of a conversation, over in 40–80 ms.

Larger batches are slower, not faster: what passes between the layers no longer fits the core's cache.
"""

CHARACTERS_PER_TOKEN: Final = 4
MAX_TOKENS: Final = 256


@dataclass(eq=False, slots=True)
class _Request:
    """Texts that a caller waits for; those not embedded yet stand in ``left``, the longest first."""

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
        by_length = sorted(range(len(texts)), key=list(map(len, texts)).__getitem__, reverse=True)
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
            except Exception as error:  # noqa: BLE001 - it is raised in the waiting caller
                self._fail({request for request, _ in batch}, error)

    def _next(self) -> list[tuple[_Request, int]]:
        """Take the texts of the next batch.

        The smallest requests go first and whole, as many as fit; a large one is only cut where it stands alone, so
        that a question is not computed together with a part of a thousand documents. A request
        without texts, which waits for loading, stands in the batch as place -1.
        """
        with self._guard:
            if not self._waiting:
                self._working = False
                return []
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
        complete: list[_Request] = []
        with self._guard:
            waiting, self._waiting = self._waiting, []
            for request in waiting:
                (complete if len(request.vectors) == len(request.texts) else self._waiting).append(request)
        for request in complete:
            if request.done.set_running_or_notify_cancel():
                request.done.set_result(list(map(request.vectors.__getitem__, range(len(request.texts)))))

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
        tokens = max(longest, min(MAX_TOKENS, 2 + len(request.texts[place]) // CHARACTERS_PER_TOKEN))
        if taken + count and tokens * (taken + count + 1) > TOKENS_PER_BATCH:
            break
        longest = tokens
        count += 1
    return count, longest


EMBED_TIMEOUT: Final = timedelta(seconds=5)
"""How long a call waits for an embedder; three times as long for one in this process that may have to load first."""

_LOADING: Final = 3
_SECONDS_A_TEXT: Final = 0.1
_SILENT_SECONDS: Final = 0.25
"""How long a call waits for an embedder that did not answer the one before."""

_PROBE_SECONDS: Final = 60.0
"""How long the probe may take, for which no caller waits: servers load a model as long as the connection is open."""

_Embed: TypeAlias = "Callable[[Sequence[str]], Awaitable[NDArray[np.float32]]]"


class EmbedderCalls:
    """Calls an embedder, and counts and logs what fails. Methods run on one event loop.

    When a call gets no answer in time, later ones wait for a moment only: each would wait in vain. One of them stays
    open as the probe; when a call has an answer, later ones wait as before.

    Args:
        embedder: The embedder.
        timeout: How long a call of one text waits.
        telemetry: Counts and logs failures.

    Attributes:
        recovered: Set when the embedder answers after a call failed that was not for a question.
    """

    def __init__(self, embedder: Embedder, *, timeout: timedelta, telemetry: Telemetry | None) -> None:
        self._embedder = embedder
        self._embed_queries = embedder.embed_queries if isinstance(embedder, QueryEmbedder) else None
        self._seconds = timeout.total_seconds()
        self._telemetry = telemetry
        self._loaded = embedder.remote
        self._silent = False
        self._missed = False
        self.recovered = asyncio.Event()
        self._probe: SharedTask[NDArray[np.float32]] | None = None

    async def vectors(
        self, texts: Sequence[str], *, questions: bool = False, within: float | None = None
    ) -> NDArray[np.float32] | None:
        """Return the vectors of *texts*, shape ``(len(texts), dims)``; ``None`` if the embedder failed.

        Args:
            texts: One or more.
            questions: Whether they are questions.
            within: Limits the seconds that this call waits.
        """
        embed = self._embed_queries if questions and self._embed_queries else self._embedder.embed
        seconds = (self._seconds if self._loaded else _LOADING * self._seconds) + _SECONDS_A_TEXT * len(texts)
        allowed = seconds if within is None else min(seconds, within)
        try:
            if self._silent:
                return await self._ask_briefly(embed, texts, min(_SILENT_SECONDS, allowed))
            try:
                return await self._ask(embed, texts, allowed)
            except TimeoutError:
                self._silent = self._silent or allowed == seconds
                raise
        except Exception as error:  # noqa: BLE001 - an application's embedder may raise anything; counted and logged
            self._missed = self._missed or not questions
            if self._telemetry is not None:
                self._telemetry.degraded(EMBEDDER, error)
            return None

    def close(self) -> None:
        """Cancel the probe."""
        if self._probe is not None:
            self._probe.task.cancel()

    async def _ask_briefly(self, embed: _Embed, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        """Return the vectors of *texts*; after *seconds* the call becomes the probe, if there is none.

        Raises:
            TimeoutError: The embedder did not answer in time.
        """
        call = SharedTask(self._ask(embed, texts, _PROBE_SECONDS + _SECONDS_A_TEXT * len(texts)))
        if self._probe is None or self._probe.task.done():
            self._probe = call
        try:
            async with AnswerTimeout(seconds):
                return await call.wait()
        finally:
            if call is not self._probe:
                call.task.cancel()

    async def _ask(self, embed: _Embed, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        """Return the vectors of *texts*.

        Raises:
            TimeoutError: The embedder did not answer in time.
            EmbedderUnavailableError: It gave something else than one finite vector for each text: comparisons with one
                that is not a number would spoil every ranking.
        """
        import numpy as np

        began = time.monotonic()
        try:
            async with AnswerTimeout(seconds):
                with asking():
                    vectors = np.asarray(await embed(texts), np.float32)
            if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():  # noqa: PLR2004
                name, shape = self._embedder.name, vectors.shape
                msg = f"The embedder {name} gave {shape} numbers for {len(texts)} texts, or some that are not finite."
                raise EmbedderUnavailableError(msg)  # noqa: TRY301 - it did answer
        except Exception as error:
            if not isinstance(error, TimeoutError) and time.monotonic() - began < self._seconds:
                self._silent = False  # it answers, though with an error
            raise
        self._loaded, self._silent = True, False
        if self._missed:
            self._missed = False
            self.recovered.set()
        return vectors


async def no_vectors(_: Sequence[str], *, questions: bool = False, within: float | None = None) -> None:
    """Return ``None``, as :meth:`EmbedderCalls.vectors` does when the embedder failed: there is none."""
    del questions, within
