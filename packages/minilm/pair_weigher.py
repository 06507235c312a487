"""The network that reads two texts at once, for training: ``train_changes.py`` and ``train_needs.py`` teach it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModel, AutoTokenizer

from train_adapter import adapted_layers, matrices_of

HIDDEN = 96
DROPPED = 0.1
MAX_TOKENS = 112

T = TypeVar("T")


class PairWeigher(nn.Module):
    """The network: what both texts' tokens became, by their mean and their difference, gives a weight."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(str(folder))
        self.model = AutoModel.from_pretrained(str(folder)).eval()
        self.model.requires_grad_(requires_grad=False)
        self.layers = adapted_layers(self.model)
        size = self.model.config.hidden_size
        self.hidden, self.weight = nn.Linear(2 * size, HIDDEN), nn.Linear(HIDDEN, 1)

    def forward(self, pairs: Sequence[tuple[str, str]]) -> Tensor:
        """Return the weight of each pair, shape ``(len(pairs),)``."""
        inputs = self.tokenizer(
            [first for first, _ in pairs],
            [second for _, second in pairs],
            padding=True,
            truncation=True,
            max_length=MAX_TOKENS,
            return_tensors="pt",
        )
        tokens = self.model(**inputs).last_hidden_state
        of_second = inputs["token_type_ids"].unsqueeze(-1).float()
        of_first = inputs["attention_mask"].unsqueeze(-1).float() - of_second
        first, second = ((tokens * mask).sum(1) / mask.sum(1) for mask in (of_first, of_second))
        both = torch.cat([(first + second) / 2, first - second], dim=1)
        hidden = functional.dropout(functional.gelu(self.hidden(both)), DROPPED, training=self.training)
        return self.weight(hidden).squeeze(-1)

    def weights(self, pairs: Sequence[tuple[str, str]], *, at_once: int = 40) -> Tensor:
        """Return the weights of *pairs*; those of a length are computed together."""
        order = sorted(range(len(pairs)), key=lambda place: sum(map(len, pairs[place])))
        some = [order[start : start + at_once] for start in range(0, len(order), at_once)]
        found = torch.cat([self([pairs[place] for place in places]) for places in some])
        return found[torch.argsort(torch.tensor(order))]

    def matrices(self) -> dict[str, Tensor]:
        """Return what was learnt, by the names that :mod:`minilm_adapter` reads."""
        of_head = {
            f"{name}.{part}": matrix.detach().contiguous()
            for name, layer in (("pair.hidden", self.hidden), ("pair.weight", self.weight))
            for part, matrix in (("weight", layer.weight), ("bias", layer.bias))
        }
        return matrices_of(self.layers) | of_head


class Descent:
    """Takes the steps of a training, or of a part of it.

    Args:
        network: What learns.
        learning_rate: At the beginning; it falls to a twentieth.
        steps: How many there are.
    """

    def __init__(self, network: PairWeigher, learning_rate: float, steps: int) -> None:
        self._parameters = [each for each in network.parameters() if each.requires_grad]
        self._optimizer = torch.optim.AdamW(self._parameters, lr=learning_rate, weight_decay=0.01)
        self._learning_rate = learning_rate
        self._steps = steps
        self._began = time.perf_counter()

    def take(self, step: int, loss: Tensor) -> None:
        """Let the network learn from *loss*, and say how far it is."""
        for group in self._optimizer.param_groups:
            group["lr"] = self._learning_rate * min(1.0, (step + 1) / 50) * (1 - 0.95 * step / self._steps)
        self._optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimizer.step()
        seconds = time.perf_counter() - self._began
        print(f"{step + 1} of {self._steps}: {loss.item():.3f}, {seconds:.0f} s", flush=True)


def endlessly(some: Sequence[T], rng: random.Random) -> Iterator[T]:
    """Yield each of *some* once in each round, in another order."""
    while True:
        yield from rng.sample(some, len(some))
