"""Vectors of statements, one by one: pure arithmetic on what the storage keeps."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from dataclasses import replace

from threadkeep.storage.interface import Embedding

_FLOAT_BYTES = 4


def rows_of(embedding: Embedding | None, texts: Sequence[str]) -> dict[str, Embedding]:
    """Return the vector of each of *texts*, which *embedding* holds in their order; nothing for ``None``."""
    if embedding is None:
        return {}
    return {text: row_of(embedding, place) for place, text in enumerate(texts)}


def row_of(embedding: Embedding, place: int) -> Embedding:
    """Return one vector of several."""
    width = embedding.dims * _FLOAT_BYTES
    return replace(embedding, data=embedding.data[place * width : (place + 1) * width])


def comparable(one: Embedding | None, other: Embedding | None) -> bool:
    """Return whether both are there, of the same model and length."""
    return one is not None and other is not None and (one.model, one.dims) == (other.model, other.dims)


def cosine(one: Embedding | None, other: Embedding | None) -> float:
    """Return the cosine of two vectors, in [0, 1]; 0 where they cannot be compared."""
    if one is None or other is None or not comparable(one, other):
        return 0.0
    return max(0.0, sum(a * b for a, b in zip(_floats(one), _floats(other), strict=True)))


def _floats(embedding: Embedding) -> array[float]:
    floats = array("f", embedding.data)
    if sys.byteorder == "big":
        floats.byteswap()
    return floats
