"""The embedder with no key: all-MiniLM-L6-v2 on this machine's CPU.

Needs the extra ``local``: onnxruntime, tokenizers, and the model itself, which is a distribution of its own
(``threadkeep-minilm``). Nothing of them is imported before the first text is embedded; no text leaves the machine.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from threadkeep.concurrency import queued
from threadkeep.errors import EmbedderUnavailableError
from threadkeep.models.cache import MAX_TOKENS, Batches, Encode, VectorCache
from threadkeep.models.onnx import embeddable, open_session, open_tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME: Final = "minilm-l6-v2-int8@2"
DIMS: Final = 384
ADVICE: Final = "run: pip install threadkeep[local]"

Precision: TypeAlias = Literal["int8", "fp32"]

MODELS: Final[Mapping[str, Precision]] = {"minilm-l6-v2-int8": "int8", "minilm-l6-v2-fp32": "fp32"}
"""What ``EMBEDDINGS_MODEL`` may be with ``EMBEDDINGS_PROVIDER=local``."""

_NAMES: Final[Mapping[Precision, str]] = {"int8": NAME, "fp32": "minilm-l6-v2-fp32@1"}
_ADVICE: Final[Mapping[Precision, str]] = {
    "int8": ADVICE,
    "fp32": "it is built by `make setup` in a checkout of Threadkeep; or set EMBEDDINGS_MODEL to minilm-l6-v2-int8",
}

MAX_CHARACTERS_NOW: Final = 600
"""Longer queries are embedded in the worker thread: on the calling thread they would take more than a few ms."""

NEEDED: Final = ("onnxruntime", "tokenizers", "threadkeep_minilm")


def available(precision: Precision = "int8") -> bool:
    """Return whether the local model is installed, without importing anything heavy."""
    return not _missing(precision)


def _missing(precision: Precision) -> list[str]:
    """Return what is not installed, or not built, of what the model needs."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        return missing
    model, tokenizer = _paths(precision)
    return [path.name for path in (model, tokenizer) if not path.is_file()]


def _paths(precision: Precision) -> tuple[Path, Path]:
    package: Any = importlib.import_module("threadkeep_minilm")
    return package.MODEL_PATH if precision == "int8" else package.FP32_PATH, package.TOKENIZER_PATH


class LocalEmbedder:
    """Embeds texts with MiniLM: 384 dimensions, 256 tokens; see ``models.port.Embedder``.

    Constructing it does nothing. The model is loaded once, in a worker thread, however many calls arrive together; it
    may be used from any event loop. A text's vector does not depend on what is embedded with it.

    Source:
        Measured on one core of a machine with AVX-512 VNNI: 0.4 s to load with all imports, 1.2–1.6 ms a question
        of 13 tokens (after a pause 1.8–2.6 ms), 500 turns of a conversation (34 tokens) a second.
    """

    dims: int | None = DIMS
    remote: bool = False

    def __init__(
        self, *, precision: Precision = "int8", threads: int | None = None, cache_bytes: int = 8 * 1024 * 1024
    ) -> None:
        """Choose how much of the machine to use.

        Args:
            precision: Of the model's weights; vectors of the two are near each other and never compared.
            threads: Cores that one batch may use; by default half of them, at most 4. The other half is for the turn.
            cache_bytes: Upper bound for the vectors of recent questions, in bytes.
        """
        self.name: str = _NAMES[precision]
        self._precision: Precision = precision
        self._threads = threads or min(4, max(1, (os.cpu_count() or 1) // 2))
        self._cache = VectorCache(max_bytes=cache_bytes)
        self._batches = Batches(self._loaded)

    async def ready(self) -> None:
        """Load the model.

        Raises:
            EmbedderUnavailableError: A package or the model is missing or broken; the message says which.
        """
        if not self._batches.loaded:
            await asyncio.wrap_future(self._batches.submit(()))

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors, shape ``(len(texts), 384)``, in the order given; the same text is embedded once.

        Raises:
            EmbedderUnavailableError: The model could not be loaded or did not run.
        """
        import numpy as np

        if not texts:
            return np.zeros((0, DIMS), dtype=np.float32)

        async def unknown(missing: Sequence[str]) -> Sequence[NDArray[np.float32]]:
            with queued():  # it computes in this process
                return await asyncio.wrap_future(self._batches.submit(missing))

        return await self._cache.embed([embeddable(text) for text in texts], unknown)

    def embed_now(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """See :meth:`threadkeep.models.base.ImmediateEmbedder.embed_now`."""
        texts = [embeddable(text) for text in texts]
        vectors = self._cache.get_all(texts)
        encode = self._batches.encode
        if vectors is not None or encode is None or sum(map(len, texts)) > MAX_CHARACTERS_NOW:
            return vectors
        vectors = encode(texts)
        for text, vector in zip(texts, vectors, strict=True):
            self._cache.put(text, vector)
        return vectors

    def _loaded(self) -> Encode:
        """Load tokenizer and model; runs in the worker."""
        missing, advice = _missing(self._precision), _ADVICE[self._precision]
        if missing:
            msg = f"The local embedding model is not installed ({', '.join(missing)} missing); {advice}"
            raise EmbedderUnavailableError(msg, missing=missing)
        try:
            return _encoder(*_paths(self._precision), threads=self._threads)
        except Exception as error:
            msg = f"The local embedding model could not be loaded ({type(error).__name__}); {advice} once more."
            raise EmbedderUnavailableError(msg) from error


def _encoder(model: Path, tokenizer: Path, *, threads: int) -> Encode:
    """Load the model and return the function from texts to vectors."""
    import numpy as np

    session = open_session(model, threads=threads)
    words = open_tokenizer(tokenizer, max_tokens=MAX_TOKENS)

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        try:
            # One by one: the batch call starts threads of its own, which warn when the process forks.
            rows: list[list[int]] = [words.encode(text).ids for text in texts]
            token_ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
            mask = np.zeros_like(token_ids)
            for place, row in enumerate(rows):
                token_ids[place, : len(row)] = row
                mask[place, : len(row)] = 1
            vectors: NDArray[np.float32] = session.run(None, {"input_ids": token_ids, "attention_mask": mask})[0]
        except Exception as error:
            msg = f"The local embedding model did not run ({type(error).__name__})."
            raise EmbedderUnavailableError(msg) from error
        return vectors

    return encode
