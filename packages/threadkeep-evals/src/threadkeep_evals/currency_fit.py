"""Fit the weights by which recall marks a statement as earlier: ``python -m threadkeep_evals.currency_fit FILE …``.

The files have the form of ``threadkeep eval personal``. A message of an item of ``updates`` outdates those
before it, and of ``several`` none does. Each message is compared among those of one item, of eight and of forty,
because the nearest of many is near by chance. Prints the weights as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from threadkeep.ids import TurnId
from threadkeep.recall.currency import DatedStatement, pairs_with
from threadkeep.testing.clock import START
from threadkeep.text.claims import FEATURES, asks_for_several, compare
from threadkeep_evals.replay import ReplayClock
from threadkeep_evals.rig import open_for_replay

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.models.base import Embedder

SIZES: Final = (1, 8, 40)
"""So many items share a memory."""
_SHOWN: Final = 16
"""So many messages that are nearest to a question are compared."""
_WEIGHT_OF_STRANGERS: Final = 6.0
"""The pairs of different items count together as much as so many pairs an item, at each size."""
_PENALTY: Final = 1.0
_STEPS: Final = 60
NAMES: Final = ("bias", "cosine", "less than nearest", "several", *FEATURES)


@dataclass(frozen=True, slots=True)
class Item:
    """Messages about one subject, in order, the question, and whether each outdates those before it."""

    told: Sequence[str]
    question: str
    changes: bool


def read_items(paths: Sequence[Path]) -> list[Item]:
    """Read the ``updates`` and ``several`` of files."""
    items: list[Item] = []
    for path in paths:
        data: dict[str, list[dict[str, Any]]] = json.loads(path.read_text(encoding="utf-8"))
        for part in ("updates", "several"):
            items += [Item(one["told"], one["question"], part == "updates") for one in data.get(part, ())]
    return items


async def _embed(texts: list[str], embedder: Embedder | str | None) -> dict[str, NDArray[np.float32]]:
    async with open_for_replay(embedder, ReplayClock(START)) as tk:
        embedding = await tk.app.call(lambda services: services.search.embed_put(texts))
    if embedding is None:
        msg = "The embedder gave no vectors."
        raise RuntimeError(msg)
    return dict(zip(texts, np.frombuffer(embedding.data, "<f4").reshape(len(texts), embedding.dims), strict=True))


def _examples(
    items: Sequence[Item], vectors: dict[str, NDArray[np.float32]], rng: np.random.Generator
) -> Iterator[tuple[bool, bool, list[float]]]:
    """Yield of each pair whether the newer outdates the older, whether both are of one item, and the features."""
    spoken = [(item, place, text) for item in items for place, text in enumerate(item.told)]
    keys = {id(one): one[1] + float(rng.random()) for one in spoken}
    spoken.sort(key=lambda one: keys[id(one)])
    matrix = np.stack([vectors[text] for _, _, text in spoken])
    for asked in items:
        nearest: list[int] = np.argsort(-(matrix @ vectors[asked.question]))[:_SHOWN].tolist()
        shown = sorted(nearest)
        said = [
            DatedStatement(START + timedelta(days=place), spoken[place][2], frozenset({TurnId(str(place))}), number, [])
            for number, place in enumerate(shown)
        ]
        alike = matrix[shown] @ matrix[shown].T
        several = asks_for_several(asked.question)
        for number, newer in enumerate(said):
            for pair in pairs_with(number, said, alike):
                (old, _, text), (new, _, _) = spoken[shown[pair.older]], spoken[shown[number]]
                together = old is new
                outdates = together and new.changes
                features = [1.0, pair.cosine, pair.behind, float(several), *compare(newer.text, text)]
                yield outdates, together, [float(one) for one in features]


def fit(items: Sequence[Item], vectors: dict[str, NDArray[np.float32]], *, seed: int = 0) -> dict[str, float]:
    """Return the weights of a logistic regression over the pairs in memories of :data:`SIZES`."""
    rng = np.random.default_rng(seed)
    rows: list[list[float]] = []
    labels: list[bool] = []
    weights: list[float] = []
    for size in SIZES:
        order: list[int] = rng.permutation(len(items)).tolist()
        drawn = [items[place] for place in order]
        examples = [
            one for start in range(0, len(drawn), size) for one in _examples(drawn[start : start + size], vectors, rng)
        ]
        strangers = Counter(together for _, together, _ in examples)[False]
        share = min(1.0, _WEIGHT_OF_STRANGERS * len(items) / max(strangers, 1))
        for outdates, together, features in examples:
            rows.append(features)
            labels.append(outdates)
            weights.append(1.0 if together else share)
    found = _regression(np.array(rows), np.array(labels, float), np.array(weights))
    return dict(zip(NAMES, np.round(found, 2).tolist(), strict=True))


def _regression(
    rows: NDArray[np.float64], labels: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the coefficients by Newton's method, with a penalty on the squares of all but the first."""
    found = np.zeros(rows.shape[1])
    penalty = np.full(rows.shape[1], _PENALTY)
    penalty[0] = 1e-6
    for _ in range(_STEPS):
        expected = 1 / (1 + np.exp(-rows @ found))
        gradient = rows.T @ (weights * (expected - labels)) + penalty * found
        curvature = (rows * (weights * expected * (1 - expected))[:, None]).T @ rows + np.diag(penalty)
        found -= np.linalg.solve(curvature, gradient)
    return found


def main(paths: Sequence[str]) -> None:
    """Fit and print."""
    items = read_items([Path(path) for path in paths])
    texts = list(dict.fromkeys(text for item in items for text in (*item.told, item.question)))
    vectors = asyncio.run(_embed(texts, None))
    print(json.dumps(fit(items, vectors), indent=1))  # noqa: T201 - a command


if __name__ == "__main__":
    main(sys.argv[1:])
