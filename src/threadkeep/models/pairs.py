"""Small models on this machine's CPU that read two texts at once.

One tells whether a statement makes an earlier one untrue, the other whether a request needs a statement. They come
with the local embedder, in ``threadkeep-minilm``, and may be used beside any other. No text leaves the machine.
"""

from __future__ import annotations

import asyncio
import importlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from threadkeep.concurrency import queued
from threadkeep.errors import EmbedderUnavailableError
from threadkeep.models.embedding import Batches, Encode, VectorCache
from threadkeep.models.local import (
    ADVICE,
    default_threads,
    embeddable,
    inputs_of,
    missing_packages,
    open_session,
    open_tokenizer,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PairModelName: TypeAlias = Literal["changes", "needs"]

_PATHS: Final[Mapping[PairModelName, str]] = {"changes": "CHANGES_PATH", "needs": "NEEDS_PATH"}
_TOKENS: Final = 128
_CHARACTERS: Final = 1_000
"""What is read of a text; with two of that length the model sees about a quarter."""
_SEPARATOR: Final = "\x1f"
CACHE_BYTES: Final = 4 * 1024 * 1024


def is_installed(name: PairModelName) -> bool:
    """Return whether the model is there, without importing anything heavy."""
    if missing_packages():
        return False
    package: Any = importlib.import_module("threadkeep_minilm")
    model = getattr(package, _PATHS[name], None)  # an earlier version has none
    return model is not None and model.is_file() and package.TOKENIZER_PATH.is_file()


class PairModel:
    """Weighs two texts that it reads at once.

    A weight is a logarithm of odds, from about -20 to 9. Constructing a model does nothing; it is loaded once, in a
    worker thread, and may be used from any event loop. The weights of recent pairs are kept.

    Args:
        name: Which model.
        threads: Cores that one batch may use; by default half of them, at most 4.
    """

    def __init__(self, name: PairModelName, *, threads: int | None = None) -> None:
        self.name: Final[PairModelName] = name
        self._threads = threads or default_threads()
        self._cache = VectorCache(max_bytes=CACHE_BYTES, max_characters=2 * _CHARACTERS + 1, max_questions=math.inf)
        self._batches = Batches(self._loaded)

    @property
    def loaded(self) -> bool:
        """Whether the model is loaded."""
        return self._batches.loaded

    async def ready(self) -> None:
        """Load the model.

        Raises:
            EmbedderUnavailableError: A package or the model is missing or broken; the message says which.
        """
        if not self.loaded:
            await asyncio.wrap_future(self._batches.submit(()))

    def known(self, pair: tuple[str, str]) -> float | None:
        """Return the weight of *pair* if it was computed before, and is still kept."""
        weight = self._cache.get(_joined(pair))
        return None if weight is None else float(weight[0])

    async def weigh(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the weight of each of *pairs*, and keep it.

        Raises:
            EmbedderUnavailableError: The model could not be loaded or did not run.
        """
        if not pairs:
            return []
        weights = await self._cache.embed(list(map(_joined, pairs)), self._compute)
        return [float(weight) for weight in weights[:, 0]]

    async def _compute(self, texts: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        with queued():  # it computes in this process
            return await asyncio.wrap_future(self._batches.submit(texts))

    def _loaded(self) -> Encode:
        """Load tokenizer and model; runs in the worker."""
        try:
            package: Any = importlib.import_module("threadkeep_minilm")
            session = open_session(getattr(package, _PATHS[self.name]), threads=self._threads)
            words = open_tokenizer(package.TOKENIZER_PATH, max_tokens=_TOKENS)
        except Exception as error:
            msg = f"The model of {self.name} could not be loaded ({type(error).__name__}); {ADVICE}"
            raise EmbedderUnavailableError(msg) from error

        def encode(texts: Sequence[str]) -> NDArray[np.float32]:
            try:
                given, _ = inputs_of(session, [words.encode(*text.split(_SEPARATOR)) for text in texts])
                weights: NDArray[np.float32] = session.run(None, given)[0]
            except Exception as error:
                msg = f"The model of {self.name} did not run ({type(error).__name__})."
                raise EmbedderUnavailableError(msg) from error
            return weights

        return encode


def _joined(pair: tuple[str, str]) -> str:
    return _SEPARATOR.join(embeddable(text)[:_CHARACTERS].replace(_SEPARATOR, " ") for text in pair)
