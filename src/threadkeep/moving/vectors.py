"""Vectors for puts: the searchable texts of many at once, embedded in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from threadkeep.recall.text import texts_of
from threadkeep.storage.port import Embedding, Put

if TYPE_CHECKING:
    from threadkeep.models.port import Embedder

_FLOAT_BYTES: Final = 4


async def embedded(embedder: Embedder, puts: Sequence[Put]) -> list[Put]:
    """Return *puts* with the vectors of their searchable texts; those without such texts as they are.

    Raises:
        EmbedderUnavailableError: The embedder could not be loaded or did not answer.
    """
    texts = [texts_of(put.value, put.index) for put in puts]
    row_of = {text: row for row, text in enumerate(dict.fromkeys(text for found in texts for text in found))}
    if not row_of:
        return list(puts)
    vectors = (await embedder.embed(list(row_of))).astype("<f4", copy=False)
    dims = int(vectors.shape[1])
    return [
        replace(put, embedding=Embedding(embedder.name, dims, vectors[[row_of[text] for text in found]].tobytes()))
        if found
        else put
        for put, found in zip(puts, texts, strict=True)
    ]


def rows_of(embedding: Embedding) -> int:
    """Return how many vectors *embedding* holds."""
    return len(embedding.data) // (embedding.dims * _FLOAT_BYTES)
