"""What search and recall give back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from threadkeep.memories.record import Memory
from threadkeep.recall.render import put_before
from threadkeep.storage.port import Namespace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from threadkeep.recall.hits import Hits

Method: TypeAlias = Literal["hybrid", "dense", "lexical"]
Subject: TypeAlias = Literal["participant", "known", "unknown"]
"""Whom a question names: somebody who takes part, a name that is kept, or only names that are not."""


class Hit(NamedTuple):
    """Where something was found.

    Attributes:
        namespace: Of the item.
        key: Of the item.
        score: Higher is closer. In [0, 1] for ``hybrid`` and ``lexical``; the raw cosine for ``dense``.
        cosine: Of the question and the nearest of the item's texts, in [-1, 1]; ``None`` where either has no vector.
        lexical: BM25 of the best of the item's texts as a share of what is possible for the question, in [0, 1].
        strength: What the order is by; for ``hybrid`` in standard deviations from the partition's mean.
    """

    namespace: Namespace
    key: str
    score: float
    cosine: float | None
    lexical: float
    strength: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """What was found for a question.

    Attributes:
        hits: Best first.
        degraded: What could not be used, so that only words were compared: ``embedder``, or ``vectors`` where a
            vector engine is down or late.
        subject: Whom the question names; ``None``: nobody.
        closest: How close the closest hit is to the question, in [0, 1], wherever it stands.
        by_words: Whether nothing but words was compared.
        alike: Cosines of the first hits with each other, shape ``(n, n)``, where that was asked for.
    """

    hits: Hits
    degraded: tuple[str, ...] = ()
    subject: Subject | None = None
    closest: float = 0.0
    by_words: bool = False
    alike: NDArray[np.float32] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that matters for a question.

    Attributes:
        memory: The memory.
        score: In [0, 1], higher is closer; 0 where nothing was asked.
    """

    memory: Memory
    score: float


@dataclass(frozen=True, slots=True)
class Recall:
    """What is remembered before a model call.

    Attributes:
        memories: Best first.
        text: The block for the model; empty where nothing matters.
        degraded: What was missing: ``embedder`` or ``vectors`` (compared by words only), ``reranker`` (in the order
            before it), ``storage`` (nothing read), ``timeout`` (nothing read in time).
        tokens: Estimate of the block's length in model tokens.
    """

    memories: tuple[Recalled, ...] = ()
    text: str = ""
    degraded: tuple[str, ...] = ()
    tokens: int = 0

    def into(self, messages: Sequence[Any]) -> list[Any]:
        """Return *messages* with the block in front of the newest human message's content.

        Neither the list nor any message in it is changed. Takes LangChain messages, ``{"role",
        "content"}`` and ``("user", text)``; where there is no block or no human message, the list is
        as it was.
        """
        return put_before(messages, self.text)
