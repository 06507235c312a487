"""Find the adapter that tells needs: ``python packages/minilm/train_needs.py DATA FOLDER``.

*DATA* and *FOLDER* are those of :mod:`train_adapter`; it needs the same libraries, and 25 minutes on two cores.

A request gets a high weight beside the statement that it needs, and a low one beside others' statements. So do requests
about the world, small talk, and requests of a statement's field that do not depend on it. The sources are those of the
adapter, and the files ``needs_*``. Files that measure the result are not read.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from minilm_adapter import NEEDS_PATH
from pair_weigher import Descent, PairWeigher, endlessly
from train_adapter import read_json, read_pairs, read_unrelated, vectors


class Pair(NamedTuple):
    """A request and a statement."""

    request: str
    statement: str


class Round(NamedTuple):
    """A part of the training.

    Attributes:
        steps: How many.
        learning_rate: At its beginning; it falls to a twentieth.
        world: So many requests about the world are in a step.
    """

    steps: int
    learning_rate: float
    world: int


ROUNDS = (Round(850, 1e-3, 13), Round(450, 4e-4, 16))
NEEDED_AT_ONCE = 18
NEAR_AT_ONCE = 10
"""So many of the requests of a step are also read beside a statement that is near, and is not the one they need."""
BESIDE_AT_ONCE = 6
TALK_AT_ONCE = 3
"""So many statements are read as if they were requests."""
NEAREST_LEFT_OUT = 6
"""The statements nearest to a request may be needed as well: they are others', about the same."""
NEAREST = 70
NEAREST_TO_WORLD = 30
UNRELATED = 1.2
"""What a request that needs no statement costs beside one that needs it."""
NOT_NEEDED = 0.5
"""The same for one beside another statement."""


class Examples(NamedTuple):
    """What the network learns from.

    Attributes:
        needed: Requests, each with the statement that it needs.
        beside: Requests, each with a statement of its field on which it does not depend.
        world: Requests that need nothing of the user's, and small talk.
    """

    needed: list[Pair]
    beside: list[Pair]
    world: list[str]


def read_examples(data: Path) -> Examples:
    """Read all files."""
    needed = [Pair(pair.request, pair.statement) for pair in read_pairs(data)]
    found = Examples(needed, [], read_unrelated(data))
    for path in sorted(data.glob("needs_*.json")):
        file = read_json(path)
        for item in file["pairs"]:
            found.needed.extend(Pair(request, item["told"]) for request in item["asks"])
            found.beside.extend(Pair(request, item["told"]) for request in item.get("beside", ()))
        found.world.extend(file["unrelated"])
    return Examples(list(dict.fromkeys(found.needed)), found.beside, list(dict.fromkeys(found.world)))


class Batches:
    """Draws the pairs of each step.

    Args:
        network: Tells, before it learns anything, which statements are near to a request.
        examples: What it learns from.
        rng: Decides the order.
    """

    def __init__(self, network: PairWeigher, examples: Examples, rng: random.Random) -> None:
        self._rng = rng
        self._statements = list(dict.fromkeys(pair.statement for pair in examples.needed))
        needed = {(pair.request, pair.statement) for pair in examples.needed}
        requests = list(dict.fromkeys(pair.request for pair in examples.needed))
        world = examples.world + [pair.request for pair in examples.beside]
        near = self._nearest(network, requests, NEAREST)
        self._others = {
            request: [one for one in near[request][NEAREST_LEFT_OUT:] if (request, one) not in needed]
            for request in requests
        }
        self._near_world = self._nearest(network, world, NEAREST_TO_WORLD)
        self._needed, self._beside = endlessly(examples.needed, rng), endlessly(examples.beside, rng)
        self._world = endlessly(world, rng)

    @torch.no_grad()
    def _nearest(self, network: PairWeigher, requests: list[str], count: int) -> dict[str, list[str]]:
        of_requests, of_statements = (
            vectors(network.tokenizer, network.model, texts) for texts in (requests, self._statements)
        )
        found = (of_requests @ of_statements.T).topk(count).indices.tolist()
        return {
            request: [self._statements[place] for place in places]
            for request, places in zip(requests, found, strict=True)
        }

    def draw(self, world: int) -> Iterator[tuple[Pair, float, float]]:
        """Yield the pairs of a step, each with whether the request needs the statement, and what an error costs."""
        needed = [next(self._needed) for _ in range(NEEDED_AT_ONCE)]
        yield from ((pair, 1.0, 1.0) for pair in needed)
        for place, (request, _) in enumerate(needed):
            others = self._others[request] if place < NEAR_AT_ONCE else self._statements
            yield Pair(request, self._rng.choice(others)), 0.0, NOT_NEEDED
        for request in (next(self._world) for _ in range(world)):
            yield Pair(request, self._rng.choice(self._near_world[request])), 0.0, UNRELATED
        for _ in range(TALK_AT_ONCE):
            yield Pair(*self._rng.sample(self._statements, 2)), 0.0, NOT_NEEDED
        yield from ((next(self._beside), 0.0, UNRELATED) for _ in range(BESIDE_AT_ONCE))


def train(data: Path, folder: Path) -> dict[str, Tensor]:
    """Return the matrices by their names."""
    torch.manual_seed(0)
    rng = random.Random(0)  # noqa: S311 - the order is the same in each run
    network = PairWeigher(folder)
    batches = Batches(network, read_examples(data), rng)
    network.train()
    for steps, learning_rate, world in ROUNDS:
        descent = Descent(network, learning_rate, steps)
        for step in range(steps):
            pairs, is_needed, costs = zip(*batches.draw(world), strict=True)
            errors = functional.binary_cross_entropy_with_logits(
                network.weights(pairs), torch.tensor(is_needed), reduction="none"
            )
            descent.take(step, (errors * torch.tensor(costs)).sum() / NEEDED_AT_ONCE)
    return network.matrices()


if __name__ == "__main__":
    save_file(train(Path(sys.argv[1]), Path(sys.argv[2])), NEEDS_PATH)
