"""Find the adapter of :mod:`minilm_adapter`: ``python packages/minilm/train_adapter.py DATA FOLDER``.

*DATA* is the folder with the files of ``threadkeep_evals``, *FOLDER* that with the published ``model.safetensors``,
``config.json`` and ``tokenizer.json``. Needs ``torch`` and ``transformers``, which the project does not install, and
five minutes on two cores. Another machine finds other last digits, so the result is committed.

A request must be nearer to the statement that it needs than to others' statements. How near statements, requests and
both are to each other otherwise may hardly change, because floors and weights are measured by it, and a request about
the world stays far from every statement. The files ``statements_usual``, ``statements_hurried`` and those of which
``held_out`` is a part of the name are not read: they measure the result.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModel, AutoTokenizer

from minilm_adapter import ADAPTER_PATH

RANK = 16
PAIRS_AT_ONCE = 56
UNRELATED_AT_ONCE = 12
LEARNING_RATE = 1e-3
EPOCHS = 2
SHARPNESS = 20.0
UNCHANGED = 20.0
"""What a changed cosine of what does not belong together costs."""
UNRELATED = 0.5
FAR = 0.25
MAX_TOKENS = 64
UPDATES = ("updates_first", "updates_second", "updates_third")
STATEMENTS = ("statements_dev", "statements_second", "statements_third")


@dataclass(frozen=True, slots=True)
class Pair:
    """A request and a statement that it needs."""

    request: str
    statement: str


class Adapted(nn.Module):
    """A dense layer and the thin matrices beside it."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer
        self.a = nn.Parameter(torch.randn(RANK, layer.in_features) / math.sqrt(layer.in_features))
        self.b = nn.Parameter(torch.zeros(layer.out_features, RANK))

    def forward(self, tensor: Tensor) -> Tensor:
        """Return what both make of *tensor*."""
        return self.layer(tensor) + (tensor @ self.a.T) @ self.b.T


def read_pairs(data: Path) -> Iterator[Pair]:
    """Yield the pairs of all files."""
    for path in sorted(set(data.glob("memories_*.json")) - set(data.glob("*_held_out*.json"))):
        for item in read_json(path)["memories"]:
            yield Pair(item["question"], item["turns"][item["answer"]])
    for name in (*STATEMENTS, *UPDATES):
        file = read_json(data / f"{name}.json")
        for fact in file.get("facts", ()):
            yield Pair(fact["question"], fact["told"])
        for update in file.get("updates", ()):
            yield Pair(update["question"], update["told"][-1])
        for item in file.get("several", ()):
            yield from (Pair(item["question"], told) for told in item["told"])
    for person in read_json(data / "tasks.json")["people"]:
        yield from (Pair(task["request"], task["told"]) for task in person["pairs"])
    for path in sorted(data.glob("requests_*.json")):
        for item in read_json(path)["pairs"]:
            yield from (Pair(request, item["told"]) for request in item["asks"])


def read_unrelated(data: Path) -> list[str]:
    """Return the requests about the world of all files."""
    paths = [*sorted(data.glob("requests_*.json")), *(data / f"{name}.json" for name in STATEMENTS)]
    return [request for path in paths for request in read_json(path)["unrelated"]]


def train(data: Path, folder: Path) -> dict[str, Tensor]:
    """Return the adapter's matrices by their names."""
    torch.manual_seed(0)
    rng = random.Random(0)  # noqa: S311 - the order is the same in each run
    tokenizer, model = AutoTokenizer.from_pretrained(str(folder)), AutoModel.from_pretrained(str(folder)).eval()
    model.requires_grad_(requires_grad=False)
    pairs, unrelated = list(read_pairs(data)), read_unrelated(data)
    texts = dict.fromkeys([text for pair in pairs for text in (pair.request, pair.statement)] + unrelated)
    with torch.no_grad():
        before = dict(zip(texts, vectors(tokenizer, model, list(texts)), strict=True))
    layers = adapted_layers(model)
    parameters = [matrix for layer in layers.values() for matrix in (layer.a, layer.b)]
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=0.0)
    each = len(pairs) // PAIRS_AT_ONCE
    steps = EPOCHS * each
    for step in range(steps):
        start = step % each * PAIRS_AT_ONCE
        if start == 0:
            rng.shuffle(pairs)
        some = pairs[start : start + PAIRS_AT_ONCE]
        said = [one.request for one in some] + [one.statement for one in some]
        said += rng.sample(unrelated, UNRELATED_AT_ONCE)
        loss = cost(some, vectors(tokenizer, model, said), torch.stack([before[text] for text in said]))
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, (step + 1) / 20) * (1 - 0.9 * step / steps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{step + 1} of {steps}: {loss.item():.3f}", flush=True)
    return matrices_of(layers)


def cost(pairs: Sequence[Pair], now: Tensor, before: Tensor) -> Tensor:
    """Return what is wrong with the vectors *now* of the requests, the statements and the unrelated ones."""
    count = len(pairs)
    requests, statements, others = now[:count], now[count : 2 * count], now[2 * count :]
    old_requests, old_statements = before[:count], before[count : 2 * count]
    cosines = requests @ statements.T
    apart = ~torch.eye(count, dtype=torch.bool)
    same = torch.tensor([[one.statement == other.statement for other in pairs] for one in pairs]) & apart
    right = functional.cross_entropy((SHARPNESS * cosines).masked_fill(same, -1e4), torch.arange(count))
    moved = sum(
        ((new - old)[apart & ~same] ** 2).mean()
        for new, old in (
            (statements @ statements.T, old_statements @ old_statements.T),
            (cosines, old_requests @ old_statements.T),
            (requests @ requests.T, old_requests @ old_requests.T),
        )
    )
    near = functional.softplus(SHARPNESS * (others @ statements.T - FAR)).mean()
    return right + UNCHANGED * moved + UNRELATED * near


def vectors(tokenizer: Any, model: nn.Module, texts: Sequence[str], *, at_once: int = 34) -> Tensor:
    """Return a unit vector for each text, shape ``(len(texts), 384)``; texts of a length are computed together."""
    found: dict[int, Tensor] = {}
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    for start in range(0, len(order), at_once):
        places = order[start : start + at_once]
        inputs = tokenizer(
            [texts[place] for place in places],
            padding=True,
            truncation=True,
            max_length=MAX_TOKENS,
            return_tensors="pt",
        )
        mask = inputs["attention_mask"].unsqueeze(-1).float()
        mean = (model(**inputs).last_hidden_state * mask).sum(1) / mask.sum(1)
        found.update(zip(places, functional.normalize(mean, dim=-1), strict=True))
    return torch.stack([found[place] for place in range(len(texts))])


def adapted_layers(model: nn.Module) -> dict[str, Adapted]:
    """Put thin matrices beside the encoder's dense layers, and return them by the layers' names."""
    layers: dict[str, Adapted] = {}
    for name, module in list(model.named_modules()):
        for part, layer in list(module.named_children()):
            if name.startswith("encoder") and isinstance(layer, nn.Linear):
                layers[f"{name}.{part}"] = Adapted(layer)
                setattr(module, part, layers[f"{name}.{part}"])
    return layers


def matrices_of(layers: Mapping[str, Adapted]) -> dict[str, Tensor]:
    """Return what was learnt beside *layers*, in float16, by the names that :mod:`minilm_adapter` reads."""
    return {
        f"{name}.{part}": matrix.detach().half().contiguous()
        for name, layer in layers.items()
        for part, matrix in (("a", layer.a), ("b", layer.b))
    }


def read_json(path: Path) -> dict[str, Any]:
    """Return what a file holds."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    save_file(train(Path(sys.argv[1]), Path(sys.argv[2])), ADAPTER_PATH)
