"""Which stored vectors the embedding model in use cannot be compared with: a pure rule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from threadkeep.errors import StaleVectorsError

VectorKind: TypeAlias = tuple[str, int]
"""The name of the model that made a vector, and how many numbers it has."""


def stale(kinds: Iterable[VectorKind], model: str, dims: int | None) -> StaleVectorsError | None:
    """Return what is wrong with the first of *kinds* that is of another model or length; ``None``: nothing.

    Args:
        kinds: Of stored vectors.
        model: The name of the embedder in use.
        dims: The length of its vectors; ``None``: not known yet.
    """
    for stored, length in kinds:
        if stored == model and dims in (None, length):
            continue
        numbers = f" of {dims} numbers" if dims else ""
        msg = (
            f"Stored vectors are of {stored} ({length} numbers), and the embedder {model} gives "
            f"others{numbers}: what they belong to is found by words only. Run threadkeep storage re-embed."
        )
        return StaleVectorsError(msg, model=model, stored=stored, dims=length)
    return None
