"""The scale of an embedder's cosines: how close texts about different things are, and a question and its answer.

Cosines of one embedder say little about those of another: with some, texts about different things have .1, with others
.7. Floors are measured with the local model and carried over by what both say about the same samples.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from threadkeep.errors import EmbedderUnavailableError
from threadkeep.models.base import LOCAL_NAME, QueryEmbedder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.models.base import Embedder
    from threadkeep.observability import Telemetry

SAMPLES: Final[tuple[tuple[str, str], ...]] = (
    (
        "How long may a rented boat stay out?",
        "Boats are hired by the half day and are back at the pier after four hours.",
    ),
    ("Which flour does the rye bread need?", "For the dark loaf, mix coarse rye flour with a third of wheat."),
    (
        "Who waters the greenhouse at weekends?",
        "On Saturdays and Sundays the volunteers look after the plants under glass.",
    ),
    ("What voltage does the pump run on?", "The water pump is connected to a supply of 24 volts."),
    (
        "When does the museum close in winter?",
        "From November to February the exhibition ends its day at four in the afternoon.",
    ),
    ("How is a lost library card replaced?", "Readers who lose their card get a new one at the desk for two euros."),
    ("What must be done before the crane is moved?", "Lower the load and lock the boom before you drive the crane."),
    ("How many vacation days does a trainee have?", "Apprentices are entitled to twenty-five days of leave a year."),
    ("Why does the printer leave stripes?", "Streaks on the paper come from a dirty drum, which has to be cleaned."),
    ("Which bus goes to the harbour?", "Line 14 runs between the station and the docks."),
    ("How is the violin stored in summer?", "Keep the instrument in its case and away from the heat of the sun."),
    (
        "Who approves orders above a thousand euros?",
        "Purchases of more than 1,000 euros need the signature of the head of finance.",
    ),
    (
        "What does the warranty of the bicycle cover?",
        "Frame and fork are guaranteed for five years, tyres and chain are not.",
    ),
    (
        "How often is the swimming pool tested?",
        "Every morning a lifeguard takes a sample of the water and measures its chlorine.",
    ),
    ("Where do the bees find food in autumn?", "Ivy and asters feed the hives late in the year."),
    (
        "What happens if the exam is failed twice?",
        "After a second unsuccessful attempt, the course has to be repeated.",
    ),
)
"""Questions and passages that answer them, each about another thing; written for this, and part of no evaluation."""

_UNRELATED: Final = 95
"""The percentile of unrelated pairs that stands for the nearest of several that have nothing to do with a question."""

_LEAST_RIGHT: Final = 0.75
"""An embedder that finds the answers of fewer questions among the samples says nothing by its cosines."""

_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class CosineScale:
    """What cosines of an embedder mean.

    Attributes:
        unrelated: The cosine that 5 % of the pairs about different things reach.
        related: The cosine of a question and a passage that answers it, in the median.
    """

    unrelated: float
    related: float

    def to_local(self, cosines: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the cosines of the local model that stand where *cosines* do on this scale, in [-1, 1]."""
        share = (cosines - self.unrelated) / (self.related - self.unrelated)
        return np.clip(LOCAL.unrelated + share * (LOCAL.related - LOCAL.unrelated), -1.0, 1.0)


LOCAL: Final = CosineScale(0.280, 0.521)
"""The scale of the local model, with which floors are measured. Source: a test measures it again."""


def scale_of(questions: NDArray[np.float32], passages: NDArray[np.float32]) -> CosineScale | None:
    """Return the scale of the vectors of :data:`SAMPLES`; ``None``: they do not tell related from unrelated.

    Args:
        questions: Unit vectors of the questions, shape ``(n, dims)``.
        passages: Unit vectors of the passages, shape ``(n, dims)``.
    """
    cosines: NDArray[np.float64] = questions.astype(np.float64) @ passages.T.astype(np.float64)
    own = cosines.diagonal()
    right = np.count_nonzero(cosines.argmax(axis=1) == np.arange(len(cosines))) / len(cosines)
    others: NDArray[np.float64] = cosines[~np.eye(len(cosines), dtype=np.bool_)]
    scale = CosineScale(np.percentile(others, _UNRELATED).item(), np.median(own).item())
    return scale if right >= _LEAST_RIGHT and scale.related > scale.unrelated else None


class Calibration:
    """Measures the scale of an embedder once, at the first use. Methods run in one event loop.

    Args:
        embedder: The embedder to measure; ``None``: there is none.
        telemetry: Counts failures; the next use tries again.
    """

    def __init__(self, embedder: Embedder | None, telemetry: Telemetry) -> None:
        self._embedder = embedder
        self._telemetry = telemetry
        self._lock = asyncio.Lock()
        self._done = embedder is None or embedder.name == LOCAL_NAME
        self._scale: CosineScale | None = None

    async def scale(self) -> CosineScale | None:
        """Return the scale; ``None``: cosines are taken as those of the local model.

        That is so for the local model itself, for an embedder that does not tell the samples apart, and while it fails.
        """
        if self._done:
            return self._scale
        async with self._lock:
            if not self._done:
                try:
                    async with asyncio.timeout(_SECONDS):
                        self._scale = await self._measure()
                except (EmbedderUnavailableError, TimeoutError) as error:
                    self._telemetry.degraded("embedder.calibration", error)
                else:
                    self._done = True
        return self._scale

    async def _measure(self) -> CosineScale | None:
        embedder = self._embedder
        if embedder is None:
            return None
        questions, passages = zip(*SAMPLES, strict=True)
        ask = embedder.embed_queries if isinstance(embedder, QueryEmbedder) else embedder.embed
        return scale_of(await ask(questions), await embedder.embed(passages))
