"""Which stored vectors the embedding model in use cannot be compared with: a pure rule."""

from __future__ import annotations

from collections.abc import Iterable

from threadkeep.errors import StaleVectorsError
from threadkeep.storage.port import Embedding


def stale(embeddings: Iterable[Embedding | None], model: str, dims: int | None) -> StaleVectorsError | None:
    """Return what is wrong with the first of *embeddings* that is of another model or length; ``None``: nothing.

    Args:
        embeddings: Of stored items; ``None`` for one without vectors.
        model: The name of the embedder in use.
        dims: The length of its vectors; ``None``: not known yet.
    """
    for embedding in embeddings:
        if embedding is None or (embedding.model == model and dims in (None, embedding.dims)):
            continue
        numbers = f" of {dims} numbers" if dims else ""
        msg = (
            f"Stored vectors are of {embedding.model} ({embedding.dims} numbers), and the embedder {model} gives "
            f"others{numbers}: what they belong to is found by words only. Run threadkeep storage re-embed."
        )
        return StaleVectorsError(msg, model=model, stored=embedding.model, dims=embedding.dims)
    return None
