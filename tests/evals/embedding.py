"""An embedder for tests: quick, without a model, and near for texts that share words."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from threadkeep_evals.baselines import terms


class WordsEmbedder:
    """Each word is a direction; a text is the sum of its words."""

    name: str = "words"
    dims: int | None = 64
    remote: bool = False

    async def ready(self) -> None:
        pass

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([_vector(text) for text in texts])


def _vector(text: str) -> NDArray[np.float32]:
    words = [np.random.default_rng(zlib.crc32(word.encode())).standard_normal(64) for word in terms(text)]
    vector = np.sum(words, axis=0) if words else np.ones(64)
    return (vector / np.linalg.norm(vector)).astype(np.float32)
