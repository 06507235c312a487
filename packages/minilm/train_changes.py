"""Find the adapter that tells changes: ``python packages/minilm/train_changes.py DATA FOLDER``.

*DATA* and *FOLDER* are those of :mod:`train_adapter`; it needs the same libraries, and twelve minutes on two cores.

A newer statement of a person gets a high weight beside an older one that it makes untrue, and a low weight beside one
that stays true. The files ``changes_*`` have changes, and what is close to each and stays true. The files
``memories_*`` say which of several turns are outdated: one of the later ones did it, so that with the highest weight
counts. Files with ``held_out`` in their name are not read: they measure the result.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from minilm_adapter import CHANGES_PATH
from pair_weigher import Descent, PairWeigher, endlessly
from train_adapter import read_json, vectors

CHANGES_AT_ONCE = 12
CLOSE_AT_ONCE = 17
"""So many of the pairs that ``changes_*`` says to be true beside each other."""
TOGETHER_AT_ONCE = 8
"""So many of the pairs of ``memories_*`` of which the newer outdates nothing."""
APART_AT_ONCE = 12
"""So many pairs of two people's statements about like things: taken for one person's, both stay true."""
UNRELATED_AT_ONCE = 3
"""So many pairs of any two people's statements."""
NEIGHBOURS = 12
LEAST_ALIKE = 0.2
MOST_ALIKE = 0.8
LEARNING_RATE = 1e-3
EPOCHS = 3
UNCHANGED = 1.5
"""What a pair that stays true costs beside a change."""
LONGEST_MEMORY = 8


class Pair(NamedTuple):
    """Two statements of a person."""

    newer: str
    older: str


class Examples(NamedTuple):
    """What the network learns from.

    Attributes:
        changes: For each outdated statement the pairs with the later ones, one of which outdates it.
        close: Pairs that are alike, and true beside each other.
        together: Pairs of one person that are true beside each other.
        people: The statements of each person.
    """

    changes: list[list[Pair]]
    close: list[Pair]
    together: list[Pair]
    people: list[list[str]]


def read_examples(data: Path) -> Examples:
    """Read all files."""
    found = Examples([], [], [], [])
    for path in sorted(data.glob("changes_*.json")):
        for item in read_json(path)["items"]:
            _add_change(found, item)
    for path in sorted(set(data.glob("memories_*.json")) - set(data.glob("*_held_out*.json"))):
        for item in read_json(path)["memories"]:
            if len(item["turns"]) <= LONGEST_MEMORY:
                _add_memory(found, item["turns"], item["outdated"])
    return found


def _add_change(found: Examples, item: dict[str, Any]) -> None:
    """Add what becomes untrue, in all ways to say so, and what stays true beside it."""
    old, said = item["old"], [item["new"], *item["ways"]]
    found.changes.extend([Pair(new, old)] for new in said)
    for near in item["near"]:
        for other in (old, *said[:2]):
            found.close.extend(_both_ways(near, other))
    if "second" in item:
        found.close.extend(_both_ways(item["second"]["a"], item["second"]["b"]))
    found.people.append([old, *said, *item["near"]])


def _add_memory(found: Examples, turns: Sequence[str], outdated: Sequence[int]) -> None:
    """Add the turns of a memory, each with the later ones."""
    for older, text in enumerate(turns[:-1]):
        pairs = [Pair(newer, text) for newer in turns[older + 1 :]]
        if older in outdated:
            found.changes.append(pairs)
        else:
            found.together.extend(pairs)
    found.people.append(list(turns))


def _both_ways(one: str, other: str) -> Iterator[Pair]:
    return (Pair(newer, older) for newer, older in permutations((one, other)))


def train(data: Path, folder: Path) -> dict[str, Tensor]:
    """Return the matrices by their names."""
    torch.manual_seed(0)
    rng = random.Random(0)  # noqa: S311 - the order is the same in each run
    examples, network = read_examples(data), PairWeigher(folder)
    texts = [text for person in examples.people for text in person]
    changes, close, together = (endlessly(some, rng) for some in examples[:3])
    apart = endlessly(_alike(network, examples.people), rng)
    steps = EPOCHS * len(examples.changes) // CHANGES_AT_ONCE
    descent = Descent(network, LEARNING_RATE, steps)
    for step in range(steps):
        groups = [next(changes) for _ in range(CHANGES_AT_ONCE)]
        true = [next(close) for _ in range(CLOSE_AT_ONCE)] + [next(together) for _ in range(TOGETHER_AT_ONCE)]
        true += [next(apart) for _ in range(APART_AT_ONCE)]
        true += [Pair(*rng.sample(texts, 2)) for _ in range(UNRELATED_AT_ONCE)]
        weights = network.weights([pair for group in groups for pair in group] + true)
        of_changes = torch.stack([each.max() for each in weights[: -len(true)].split([*map(len, groups)])])
        loss = functional.softplus(-of_changes).mean() + UNCHANGED * functional.softplus(weights[-len(true) :]).mean()
        descent.take(step, loss)
    return network.matrices()


@torch.no_grad()
def _alike(network: PairWeigher, people: Sequence[Sequence[str]]) -> list[Pair]:
    """Return pairs of statements of different people that are near each other, before anything is learnt."""
    texts = [text for person in people for text in person]
    of = torch.tensor([number for number, person in enumerate(people) for _ in person])
    rows = vectors(network.tokenizer, network.model, texts)
    found: list[Pair] = []
    for place, row in enumerate(rows):
        cosines = (rows @ row).masked_fill(of == of[place], -1.0)
        cosines = cosines.masked_fill(cosines > MOST_ALIKE, -1.0)
        nearest = cosines.topk(NEIGHBOURS)
        for cosine, other in zip(nearest.values.tolist(), nearest.indices.tolist(), strict=True):
            if cosine >= LEAST_ALIKE:
                found.append(Pair(texts[place], texts[other]))
    return found


if __name__ == "__main__":
    save_file(train(Path(sys.argv[1]), Path(sys.argv[2])), CHANGES_PATH)
