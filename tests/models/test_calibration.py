"""The scale of an embedder's cosines: floors that were measured with the local model serve others, too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

import threadkeep
from threadkeep.errors import EmbedderUnavailableError
from threadkeep.models.base import LOCAL_NAME, Embedder
from threadkeep.models.calibration import LOCAL, SAMPLES, Calibration, CosineScale, scale_of
from threadkeep.observability import Telemetry
from threadkeep.registry import create_embedder
from threadkeep.settings import Settings
from threadkeep.testing import HashingEmbedder

pytestmark = pytest.mark.model

HANDBOOK = (
    "The canteen serves lunch from half past eleven. Vegetarian dishes are on the left counter.",
    "Visitors get a badge at the reception and are met there by their host.",
    "The server room is cooled to nineteen degrees, and its door is locked at night.",
)


class Shifted:
    """An embedder whose cosines are those of the local model, moved to [0.5, 1] as some providers' are."""

    dims: int | None = None
    remote: bool = True

    def __init__(self, *, failures: int = 0) -> None:
        self.name = "shifted"
        self.failures = failures
        self.calls = 0
        self._inner = local()

    async def ready(self) -> None:
        await self._inner.ready()

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls += 1
        if self.failures:
            self.failures -= 1
            msg = "The embedder is down."
            raise EmbedderUnavailableError(msg)
        vectors = await self._inner.embed(texts)
        common = np.full((len(vectors), 1), np.sqrt(3.0), np.float32)
        return np.hstack([vectors, common]) / np.float32(2.0)  # (cosine + 3) / 4


def local() -> Embedder:
    embedder = create_embedder(Settings())
    assert embedder is not None
    assert embedder.name == LOCAL_NAME
    return embedder


async def vectors(embedder: Embedder) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    questions, passages = zip(*SAMPLES, strict=True)
    return await embedder.embed(questions), await embedder.embed(passages)


async def test_the_scale_of_the_local_model_is_as_written_down():
    scale = scale_of(*await vectors(local()))

    assert scale is not None
    assert (scale.unrelated, scale.related) == pytest.approx((LOCAL.unrelated, LOCAL.related), abs=0.005)


async def test_cosines_of_another_embedder_are_carried_over():
    scale = await Calibration(Shifted(), Telemetry()).scale()

    assert scale is not None
    cosines = np.array([-0.1, 0.0, 0.24, 0.5, 1.0])
    assert scale.to_local((cosines + 3) / 4) == pytest.approx(cosines, abs=0.02)


async def test_it_is_measured_once_and_the_local_model_never():
    shifted = Shifted()
    calibration = Calibration(shifted, Telemetry())

    assert await calibration.scale() == await calibration.scale()
    assert shifted.calls == 2
    assert await Calibration(local(), Telemetry()).scale() is None
    assert await Calibration(None, Telemetry()).scale() is None


async def test_an_embedder_without_meaning_has_none():
    assert await Calibration(HashingEmbedder(), Telemetry()).scale() is None


async def test_a_failure_is_counted_and_the_next_use_measures_again():
    telemetry = Telemetry()
    calibration = Calibration(Shifted(failures=1), telemetry)

    assert await calibration.scale() is None
    assert isinstance(await calibration.scale(), CosineScale)
    assert telemetry.counts()["embedder.calibration.degraded"] == 1


@pytest.mark.parametrize("shifted", [False, True])
async def test_a_collection_says_nothing_to_an_unrelated_question(*, shifted: bool):
    """Whatever the embedder's cosines are."""
    async with threadkeep.open("memory://", embedder=Shifted() if shifted else None) as tk:
        for number, text in enumerate(HANDBOOK):
            await tk.collections.ingest("handbook", text, document_id=f"page-{number}")

        related = await tk.collections.search("handbook", "Where can I eat without meat?", limit=1)
        unrelated = await tk.collections.search("handbook", "Who won the chess championship?")

    assert [one.document_id for one in related.passages] == ["page-0"]
    assert unrelated.passages == ()
