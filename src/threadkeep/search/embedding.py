"""Asks an embedder for vectors; callers do without them when the embedder does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from threadkeep.concurrency import AnswerTimeout, SharedTask, asking
from threadkeep.errors import EmbedderUnavailableError
from threadkeep.models.base import EMBEDDER, QueryEmbedder

if TYPE_CHECKING:
    from threadkeep.models.base import Embedder
    from threadkeep.observability import Telemetry

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
            call.task.add_done_callback(_retrieve)
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


def _retrieve(task: asyncio.Task[NDArray[np.float32]]) -> None:
    if not task.cancelled():
        task.exception()  # no caller waits for it
