"""How far the values reach that go into the dense layers of all-MiniLM-L6-v2, found by running it over some texts.

The network once more, in float64 and without ONNX, since a graph in float32 has other last digits on other processors:
what is found here is rounded up, so that every machine makes the same int8 graph, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from minilm_graph import HEAD_DIMS, HEADS, LAYERS, NORM_EPSILON, Weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MARGIN = 1.4
"""How much further than in ``TEXTS`` a value may reach before it is cut off."""

STEPS_PER_UNIT = 64
KINDS = ("word", "position", "token_type")

TEXTS = (
    "I finally painted the boat last weekend, and the kids loved mixing the colours; next month we try the mountains!",
    "What did Marta say about the budget for the second quarter, and who has to approve it?",
    "def area(r):\n    return [3.14159 * x ** 2 for x in r if x > 0]\n\nprint(area([1, 2, 3]))",
    'ERROR 0x80070005: access denied at /var/lib/app/config.json (line 42): {"retry": null, "codes": [1, [2, 3]]}',
    "SELECT name, total FROM orders WHERE paid = 1 ORDER BY total DESC LIMIT 10;",
    "https://example.org/docs/setup?lang=en&page=2#step-3, then mail ana@example.org",
    "これは日本語の文章です。来週の会議は木曜日です。",
    "Я живу в Гданьске и работаю инженером на верфи.",
    "Ich bin allergisch gegen Nüsse, und meine Schwester verträgt keine Milch.",
    "J'habite à Gand depuis mars 2021 ; avant, c'était Lisbonne.",
    "- [ ] buy milk\n- [x] call mum\n* 2 kg of flour\n| a | b |\n|---|---|",
    "0123456789 " * 30,
    "the " * 260,
    "x" * 120,
    "🎉🎉 thanks!!! 🙏",
    "!!! ??? ...",
    "yes",
    "a",
    "",
)
"""Of many kinds, so that what users write stays within the margin."""

PAIRS = tuple(zip(TEXTS, TEXTS[3:] + TEXTS[:3], strict=True))
"""Two texts each, for the networks that read both at once."""


class Tokens(NamedTuple):
    """The ids of the tokens of one text or two, and for each whether it belongs to the second."""

    ids: Sequence[int]
    types: Sequence[int]


def reach(weights: Weights, texts: Iterable[Tokens]) -> dict[str, Array]:
    """Return the largest magnitude in each channel of what goes into each dense layer, with the margin, rounded up.

    Query, key and value share their input; its reach stands under the name of the query.
    """
    exact = {name: values.astype(np.float64) for name, values in weights.items()}
    largest: dict[str, Array] = {}

    def seen(layer: str, tensor: Array) -> None:
        largest[layer] = np.maximum(largest.get(layer, 0.0), np.abs(tensor).max(axis=0))

    for tokens in texts:
        hidden_states(exact, tokens, seen)
    return {layer: np.ceil(values * MARGIN * STEPS_PER_UNIT) / STEPS_PER_UNIT for layer, values in largest.items()}


def sentence_vector(weights: Mapping[str, Array], tokens: Tokens) -> Array:
    """Return the vector of one text, shape ``(384,)``."""
    mean = hidden_states(weights, tokens).mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def weight_of_pair(weights: Mapping[str, Array], tokens: Tokens) -> float:
    """Return what a network that reads two texts makes of them."""
    hidden, is_second = hidden_states(weights, tokens), np.array(tokens.types, np.bool_)
    first, second = (hidden[mask].mean(axis=0) for mask in (~is_second, is_second))
    both = np.concatenate([(first + second) / 2, first - second])
    inner = gelu(both @ weights["pair.hidden.weight"].T + weights["pair.hidden.bias"])
    return float((inner @ weights["pair.weight.weight"].T + weights["pair.weight.bias"])[0])


def _ignored(layer: str, tensor: Array) -> None:
    """Ignore what goes into a layer."""


def hidden_states(weights: Mapping[str, Array], tokens: Tokens, seen: Callable[[str, Array], None] = _ignored) -> Array:
    """Return what becomes of each token, shape ``(tokens, 384)``; *seen* gets each layer's name and input."""

    def dense(tensor: Array, layer: str) -> Array:
        seen(layer, tensor)
        return np.asarray(tensor @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"])

    def layer_norm(tensor: Array, layer: str) -> Array:
        centred = tensor - tensor.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + NORM_EPSILON)
        return np.asarray(centred / deviation * weights[f"{layer}.weight"] + weights[f"{layer}.bias"])

    def attended(tensor: Array, layer: str) -> Array:
        heads = [dense(tensor, f"{layer}.{part}").reshape(-1, HEADS, HEAD_DIMS) for part in ("query", "key", "value")]
        query, key, value = (each.swapaxes(0, 1) for each in heads)
        scores = query @ key.swapaxes(1, 2) * HEAD_DIMS**-0.5
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = shares / shares.sum(axis=-1, keepdims=True) @ value
        return mixed.swapaxes(0, 1).reshape(len(tensor), -1)

    words, positions, types = (weights[f"embeddings.{kind}_embeddings.weight"] for kind in KINDS)
    summed = words[list(tokens.ids)] + positions[: len(tokens.ids)] + types[list(tokens.types)]
    hidden = layer_norm(summed, "embeddings.LayerNorm")
    for layer in (f"encoder.layer.{number}" for number in range(LAYERS)):
        mixed = dense(attended(hidden, f"{layer}.attention.self"), f"{layer}.attention.output.dense")
        hidden = layer_norm(mixed + hidden, f"{layer}.attention.output.LayerNorm")
        narrowed = dense(gelu(dense(hidden, f"{layer}.intermediate.dense")), f"{layer}.output.dense")
        hidden = layer_norm(narrowed + hidden, f"{layer}.output.LayerNorm")
    return hidden


def gelu(tensor: Array) -> Array:
    """By the hyperbolic tangent, which is off by less than 0.001; numpy has no error function."""
    return np.asarray(tensor / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (tensor + 0.044715 * tensor**3))))
