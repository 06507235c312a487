"""The graphs of the local model, made from random weights and run beside the same network in numpy."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

FOLDER = Path(__file__).parents[2] / "packages" / "minilm"
WORDS = 200
FAR = 7
"""A channel whose values reach much further than the others', as some of the published model's do."""
TEXTS = [[1, 5, 9, 2], [1, *range(20, 60), 2], [1, 2], [1, 150, 150, 150, 2]]
PAIRS = [
    ([1, 5, 9, 2, 7, 2], [0, 0, 0, 0, 1, 1]),
    ([1, *range(20, 50), 2, 2], [0] * 32 + [1]),
    ([1, 2, 8, 2], [0, 0, 1, 1]),
]
"""Token ids of two texts, and which belong to the second."""


class Made(NamedTuple):
    """The weights, the int8 graph that is made of them, and what the network makes of the texts."""

    weights: dict[str, NDArray[np.float32]]
    int8: bytes
    wanted: NDArray[np.float64]


@pytest.fixture(scope="module")
def graphs() -> ModuleType:
    return imported("minilm_graph")


@pytest.fixture(scope="module")
def numpys() -> ModuleType:
    return imported("minilm_reach")


@pytest.fixture(scope="module")
def made(graphs: ModuleType, numpys: ModuleType) -> Made:
    weights = drawn(graphs)
    texts = [numpys.Tokens(text, [0] * len(text)) for text in TEXTS]
    int8 = graphs.sentence_encoder(weights, numpys.reach(weights, texts)).SerializeToString()
    return Made(weights, int8, np.array([numpys.sentence_vector(weights, text) for text in texts]))


@pytest.mark.slow
class TestSentenceEncoder:
    def test_in_fp32_it_is_the_network(self, graphs: ModuleType, made: Made):
        """As written once more in numpy, without ONNX."""
        vectors = run(graphs.sentence_encoder(made.weights).SerializeToString(), TEXTS)

        assert cosines(vectors, made.wanted) == pytest.approx(1, abs=1e-5)

    def test_in_int8_it_is_near(self, made: Made):
        """Though one channel reaches twenty times as far as the others."""
        assert cosines(run(made.int8, TEXTS), made.wanted).min() >= 0.99

    def test_padding_changes_nothing(self, made: Made):
        """Nor who is embedded beside a text: each has the vector that it has alone."""
        alone = np.concatenate([run(made.int8, [text]) for text in TEXTS])

        assert np.allclose(run(made.int8, TEXTS), alone, atol=1e-6)

    def test_the_same_weights_make_the_same_bytes(self, graphs: ModuleType, numpys: ModuleType, made: Made):
        """So that the model of one machine is that of another, whose sums end in other digits."""
        nearly = {name: values * np.float64(1 + 1e-9) for name, values in made.weights.items()}

        texts = [numpys.Tokens(text, [0] * len(text)) for text in TEXTS]
        again = graphs.sentence_encoder(made.weights, numpys.reach(nearly, texts))

        assert again.SerializeToString() == made.int8


@pytest.mark.slow
class TestPairWeigher:
    def test_in_fp32_it_is_the_network(self, graphs: ModuleType, numpys: ModuleType, made: Made):
        """Padded or not, as written once more in numpy."""
        wanted = [numpys.weight_of_pair(made.weights, numpys.Tokens(*pair)) for pair in PAIRS]

        weights = weigh(graphs.pair_weigher(made.weights).SerializeToString(), PAIRS)

        assert weights == pytest.approx(wanted, abs=2e-3)

    def test_in_int8_it_is_near(self, graphs: ModuleType, numpys: ModuleType, made: Made):
        """The weights of random networks lie within a few tenths of each other, so that a tenth is much."""
        pairs = [numpys.Tokens(*pair) for pair in PAIRS]
        wanted = [numpys.weight_of_pair(made.weights, pair) for pair in pairs]
        int8 = graphs.pair_weigher(made.weights, numpys.reach(made.weights, pairs)).SerializeToString()

        assert weigh(int8, PAIRS) == pytest.approx(wanted, abs=0.1)

    def test_which_is_the_first_one_matters(self, graphs: ModuleType, made: Made):
        """By the types of the tokens."""
        model = graphs.pair_weigher(made.weights).SerializeToString()

        one, other = weigh(model, [([1, 5, 2, 7, 2], [0, 0, 0, 1, 1]), ([1, 7, 2, 5, 2], [0, 0, 0, 1, 1])])

        assert abs(one - other) > 1e-3


class TestInputSteps:
    def test_all_that_is_reached_fits(self, graphs: ModuleType):
        """The widest channel takes all of the 8 bits, and none takes more."""
        reach, matrix = np.array([30.0, 2.0, 2.0]), np.array([[0.1, -0.2], [0.4, 0.3], [0.01, 0.02]])

        whole = reach / graphs.input_steps(reach, matrix)

        assert whole.max() == pytest.approx(graphs.LARGEST_INPUT)
        assert whole.min() > 0

    def test_far_channel_leaves_budget_for_the_others(self, graphs: ModuleType):
        """Its neighbours are told apart in finer steps than it is."""
        steps = graphs.input_steps(np.array([30.0, 2.0]), np.full((2, 2), 0.2))

        assert steps[0] > 5 * steps[1]


def imported(name: str) -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(FOLDER), *sys.path])
        return importlib.import_module(name)


def drawn(graphs: ModuleType) -> dict[str, NDArray[np.float32]]:
    """Weights with the names and shapes of the published ones, but for a word table that is small."""
    rng = np.random.default_rng(5)
    dims, wide = graphs.DIMS, 4 * graphs.DIMS
    weights: dict[str, NDArray[np.float32]] = {}

    def put(name: str, *shape: int, about: float = 0.0) -> None:
        weights[name] = (about + rng.normal(0, 0.05, shape)).astype(np.float32)

    def norm(name: str) -> None:
        put(f"{name}.weight", dims, about=1.0)
        put(f"{name}.bias", dims)
        weights[f"{name}.weight"][FAR] = 20

    for kind, rows in (("word", WORDS), ("position", 64), ("token_type", 2)):
        put(f"embeddings.{kind}_embeddings.weight", rows, dims)
    norm("embeddings.LayerNorm")
    for layer in (f"encoder.layer.{number}" for number in range(graphs.LAYERS)):
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            put(f"{layer}.attention.{part}.weight", dims, dims)
            put(f"{layer}.attention.{part}.bias", dims)
        put(f"{layer}.intermediate.dense.weight", wide, dims)
        put(f"{layer}.intermediate.dense.bias", wide)
        put(f"{layer}.output.dense.weight", dims, wide)
        put(f"{layer}.output.dense.bias", dims)
        norm(f"{layer}.attention.output.LayerNorm")
        norm(f"{layer}.output.LayerNorm")
    for name, rows, columns in (("hidden", 96, 2 * dims), ("weight", 1, 96)):
        put(f"pair.{name}.weight", rows, columns)
        put(f"pair.{name}.bias", rows)
    return weights


def run(model: bytes, texts: list[list[int]]) -> NDArray[np.float32]:
    """Embed token ids in one batch, the shorter ones padded."""
    return _run(model, input_ids=texts, attention_mask=[[1] * len(text) for text in texts])


def weigh(model: bytes, pairs: list[tuple[list[int], list[int]]]) -> list[float]:
    """Weigh pairs in one batch, the shorter ones padded."""
    ids, types = zip(*pairs, strict=True)
    mask = [[1] * len(text) for text in ids]
    return _run(model, input_ids=ids, attention_mask=mask, token_type_ids=types)[:, 0].tolist()


def _run(model: bytes, **inputs: Sequence[list[int]]) -> NDArray[np.float32]:
    import onnxruntime

    longest = max(map(len, inputs["input_ids"]))
    given = {
        name: np.array([row + [0] * (longest - len(row)) for row in rows], np.int64) for name, rows in inputs.items()
    }
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, given)[0])


def cosines(left: NDArray[np.floating], right: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.sum(left * right, axis=1)
