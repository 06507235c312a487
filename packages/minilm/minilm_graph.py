"""The network of all-MiniLM-L6-v2 as ONNX graphs, written node by node from its published weights.

Six BERT layers, the mean over the tokens, unit length: token ids go in, a sentence's vector comes out. Another graph
reads two texts at once and weighs them, as it was taught: whether the first makes the second untrue, or needs it.
Nothing else is needed to run them than onnxruntime.

In int8 the weights of a dense layer have one scale per output channel, and those of the word table one per word.
What goes into a dense layer has one scale per channel, fixed when the graph is made; after Gelu, where few values are
large and which they are depends on the text, it has one per token. onnxruntime's own dynamic quantisation has one
scale for a whole batch instead, so that a text's vector depends on which texts are embedded with it.

Source:
    Devlin et al. 2019 (BERT, post-layer-norm encoder); Reimers & Gurevych 2019 (mean pooling); the sizes are those of
    the model's published ``config.json``. Xiao et al. 2023 (SmoothQuant): a channel that reaches far is divided, and
    its weights multiplied, before either is rounded. Figures stand in ``docs/performance.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from numpy.typing import NDArray

LAYERS = 6
HEADS = 12
DIMS = 384
HEAD_DIMS = DIMS // HEADS
NORM_EPSILON = 1e-12
MASKED_SCORE = -10_000.0
OPSET = 20  # the first with Gelu; LayerNormalization is there since 17
CONTRIB_OPSET = 1
CONTRIB = "com.microsoft"
IR_VERSION = 9
LARGEST_WEIGHT = 63
"""7 bits: on x86 without VNNI two products of 8 bits are added up in 16, and could overflow."""
LARGEST_INPUT = 127
INPUT_ZERO = 128
GELU_ZERO = 32
"""Gelu never falls below -0.17, so most of the 8 bits are for what is above zero."""
LEAST_GELU_TOP = 1.2
"""Where a token's largest value is less, -0.17 would not fit below ``GELU_ZERO``."""

Weights = Mapping[str, "NDArray[np.float32]"]
Reach = Mapping[str, "NDArray[np.float64]"]
"""For the name of a dense layer: the largest magnitude that each channel of what goes into it has."""


def sentence_encoder(weights: Weights, reach: Reach | None = None) -> onnx.ModelProto:
    """Return the checked model: ``input_ids``, ``attention_mask`` -> ``embedding`` of shape ``(batch, 384)``.

    In fp32, or with *reach* in int8.
    """
    graph = _graph(weights, reach)
    _mean_of_unit_length(graph, _encoded(graph, _embeddings(graph)))
    return graph.finish(("input_ids", "attention_mask"), "embedding", DIMS)


def pair_weigher(weights: Weights, reach: Reach | None = None) -> onnx.ModelProto:
    """Return the checked model: ``input_ids``, ``attention_mask``, ``token_type_ids`` -> ``weight``, ``(batch, 1)``.

    The tokens of type 0 are the first text, those of type 1 the second one. In fp32, or with *reach* in int8; the
    two layers at the end are in fp32.
    """
    graph = _graph(weights, reach)
    _weight_of_pair(graph, _encoded(graph, _embeddings_of_pair(graph)))
    return graph.finish(("input_ids", "attention_mask", "token_type_ids"), "weight", 1)


def _graph(weights: Weights, reach: Reach | None) -> _Graph:
    return _Graph(weights) if reach is None else _Int8Graph(weights, reach)


class _Graph:
    """Collects nodes and constants; every method returns the name of the tensor that it added."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def node(self, operator: str, *inputs: str, output: str | None = None, **attributes: object) -> str:
        return self._add(operator, inputs, [output or f"{operator.lower()}_{len(self._nodes)}"], attributes)[0]

    def split(self, tensor: str, parts: int) -> list[str]:
        """Cut the last axis into equal parts."""
        outputs = [f"{tensor}_{part}" for part in range(parts)]
        return self._add("Split", [tensor], outputs, {"axis": -1, "num_outputs": parts})

    def weight(self, name: str) -> str:
        return self._constant(name, self._weights[name])

    def word_vectors(self, table: str, ids: str) -> str:
        return self.node("Gather", self.weight(table), ids, axis=0)

    def numbers(self, name: str, *values: int) -> str:
        return self._constant(name, np.array(values, dtype=np.int64))

    def scalar(self, name: str, value: float) -> str:
        return self._constant(name, np.array(value, dtype=np.float32))

    def positions(self) -> str:
        """The table of positions, with the first token type added."""
        table = self._weights["embeddings.position_embeddings.weight"]
        return self._constant("positions", table + self._weights["embeddings.token_type_embeddings.weight"][0])

    def second_type(self) -> str:
        """What the second token type has beside the first."""
        first, second = self._weights["embeddings.token_type_embeddings.weight"]
        return self._constant("second_type", second - first)

    def dense(self, tensor: str, *layers: str) -> str:
        """Several layers side by side are one product."""
        name = layers[0]
        matrix = self._constant(f"{name}.weight", joined(self._weights, *layers))
        return self.node("Add", self.node("MatMul", tensor, matrix), self.bias(*layers))

    def dense_after_gelu(self, tensor: str, layer: str) -> str:
        return self.dense(tensor, layer)

    def exact_dense(self, tensor: str, layer: str, *, output: str | None = None) -> str:
        """A layer that stays in fp32."""
        parts = self.weight(f"{layer}.weight"), self.weight(f"{layer}.bias")
        return self.node("Gemm", tensor, *parts, output=output, transB=1)

    def bias(self, *layers: str) -> str:
        return self._constant(f"{layers[0]}.bias", np.concatenate([self._weights[f"{each}.bias"] for each in layers]))

    def layer_norm(self, tensor: str, layer: str) -> str:
        scale, bias = self.weight(f"{layer}.weight"), self.weight(f"{layer}.bias")
        return self.node("LayerNormalization", tensor, scale, bias, axis=-1, epsilon=NORM_EPSILON)

    def finish(self, inputs: Sequence[str], output: str, dims: int) -> onnx.ModelProto:
        """Return the checked model with these *inputs* of token ids, and *dims* numbers for each text."""
        given = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in inputs]
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", dims])]
        graph = helper.make_graph(self._nodes, "minilm-l6-v2", given, outputs, list(self._constants.values()))
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, CONTRIB_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        onnx.checker.check_model(model, full_check=True)
        return model

    def _add(
        self, operator: str, inputs: Sequence[str], outputs: list[str], attributes: Mapping[str, object]
    ) -> list[str]:
        name = f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, outputs, name=name, **attributes))
        return outputs

    def _constant(self, name: str, values: NDArray[np.generic]) -> str:
        if name not in self._constants:
            # Not ascontiguousarray: it makes a list of one out of a scalar.
            self._constants[name] = numpy_helper.from_array(np.asarray(values, order="C"), name)
        return name


class _Int8Graph(_Graph):
    """The same with dense layers and the word table in int8."""

    def __init__(self, weights: Weights, reach: Reach) -> None:
        super().__init__(weights)
        self._reach = reach

    def dense(self, tensor: str, *layers: str) -> str:
        matrix = joined(self._weights, *layers)
        steps = input_steps(self._reach[layers[0]], matrix)
        scaled = self.node("Mul", tensor, self._constant(f"{layers[0]}.per_step", (1 / steps).astype(np.float32)))
        unit, zero = self.scalar("unit", 1.0), self._whole("input_zero", INPUT_ZERO)
        whole = self.node("QuantizeLinear", scaled, unit, zero)
        weight, scales = self._whole_weights(layers[0], matrix * steps[:, np.newaxis])
        # The sixth input, the weights' zero point, is left out.
        return self.node(
            "MatMulIntegerToFloat", whole, weight, unit, scales, zero, "", self.bias(*layers), domain=CONTRIB
        )

    def dense_after_gelu(self, tensor: str, layer: str) -> str:
        largest = self.node("ReduceMax", tensor, self.numbers("last_axis", -1), keepdims=1)
        top = self.node("Max", largest, self.scalar("least_gelu_top", LEAST_GELU_TOP))
        step, zero = self.scalar("gelu_step", 1 / (255 - GELU_ZERO)), self._whole("gelu_zero", GELU_ZERO)
        whole = self.node("QuantizeLinear", self.node("Div", tensor, top), step, zero)
        weight, scales = self._whole_weights(layer, joined(self._weights, layer))
        product = self.node("MatMulIntegerToFloat", whole, weight, step, scales, zero, domain=CONTRIB)
        return self.node("Add", self.node("Mul", product, top), self.bias(layer))

    def word_vectors(self, table: str, ids: str) -> str:
        rows = self._weights[table]
        scales = np.abs(rows).max(axis=1, keepdims=True) / np.float32(LARGEST_INPUT)
        whole = self._constant(table, np.rint(rows / scales).astype(np.int8))
        numbers = self.node("Cast", self.node("Gather", whole, ids, axis=0), to=TensorProto.FLOAT)
        return self.node("Mul", numbers, self.node("Gather", self._constant(f"{table}.scales", scales), ids, axis=0))

    def _whole_weights(self, layer: str, matrix: NDArray[np.floating]) -> tuple[str, str]:
        """Return *matrix* in int8 and the scale of each of its columns."""
        scales = np.abs(matrix).max(axis=0) / LARGEST_WEIGHT
        whole = np.rint(matrix / scales).astype(np.int8)
        return self._constant(f"{layer}.weight", whole), self._constant(f"{layer}.scales", scales.astype(np.float32))

    def _whole(self, name: str, value: int) -> str:
        return self._constant(name, np.array(value, dtype=np.uint8))


def joined(weights: Weights, *layers: str) -> NDArray[np.float32]:
    """Return the matrix that takes what goes into *layers* to their outputs, side by side."""
    return np.concatenate([weights[f"{layer}.weight"].T for layer in layers], axis=1)


def input_steps(reach: NDArray[np.float64], matrix: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return by how much each channel of a layer's input is divided, so that all of them fit into 8 bits.

    A channel's reach is shared out between input and weights, in fourth parts of its logarithm. The roots are exact on
    every machine, as powers are not.
    """
    share = np.sqrt(np.sqrt(reach * np.abs(matrix).max(axis=1)))
    return np.asarray(reach / share * (share.max() / LARGEST_INPUT))


def _embeddings(graph: _Graph) -> str:
    """Word + position + token type, normalised; shape (batch, tokens, 384)."""
    return graph.layer_norm(_placed_words(graph), "embeddings.LayerNorm")


def _embeddings_of_pair(graph: _Graph) -> str:
    """The same with the token type of each token."""
    types = graph.node("Cast", "token_type_ids", to=TensorProto.FLOAT)
    is_second = graph.node("Unsqueeze", types, graph.numbers("last_axis", -1))
    typed = graph.node("Add", _placed_words(graph), graph.node("Mul", is_second, graph.second_type()))
    return graph.layer_norm(typed, "embeddings.LayerNorm")


def _placed_words(graph: _Graph) -> str:
    words = graph.word_vectors("embeddings.word_embeddings.weight", "input_ids")
    length = graph.node("Shape", "input_ids", start=1)
    zero = graph.numbers("zero", 0)
    return graph.node("Add", words, graph.node("Slice", graph.positions(), zero, length, zero))


def _encoded(graph: _Graph, hidden: str) -> str:
    """What all layers make of the embeddings."""
    mask = graph.node("Cast", "attention_mask", to=TensorProto.INT32)
    for layer in range(LAYERS):
        hidden = _encoder_layer(graph, hidden, mask, f"encoder.layer.{layer}")
    return hidden


def _encoder_layer(graph: _Graph, hidden: str, mask: str, layer: str) -> str:
    attended = graph.dense(_self_attention(graph, hidden, mask, layer), f"{layer}.attention.output.dense")
    hidden = graph.layer_norm(graph.node("Add", attended, hidden), f"{layer}.attention.output.LayerNorm")
    widened = graph.node("Gelu", graph.dense(hidden, f"{layer}.intermediate.dense"))
    narrowed = graph.dense_after_gelu(widened, f"{layer}.output.dense")
    return graph.layer_norm(graph.node("Add", narrowed, hidden), f"{layer}.output.LayerNorm")


def _self_attention(graph: _Graph, hidden: str, mask: str, layer: str) -> str:
    """What each token takes from the others; padding gives nothing."""
    parts = [f"{layer}.attention.self.{part}" for part in ("query", "key", "value")]
    query, key, value = graph.split(graph.dense(hidden, *parts), len(parts))
    no_bias = ""
    return graph.node(
        "MultiHeadAttention",
        *(query, key, value, no_bias, mask),
        domain=CONTRIB,
        num_heads=HEADS,
        scale=HEAD_DIMS**-0.5,
        mask_filter_value=MASKED_SCORE,
    )


def _mean_of_unit_length(graph: _Graph, hidden: str) -> str:
    """The sum over the tokens that are not padding, at unit length, as the model's output."""
    total = _sum_over(graph, hidden, graph.node("Cast", "attention_mask", to=TensorProto.FLOAT))
    return graph.node("LpNormalization", total, axis=-1, p=2, output="embedding")


def _sum_over(graph: _Graph, hidden: str, mask: str) -> str:
    """The sum over the tokens of a mask, shape (batch, 384)."""
    axis = graph.numbers("one", 1)
    return graph.node("Squeeze", graph.node("MatMul", graph.node("Unsqueeze", mask, axis), hidden), axis)


def _weight_of_pair(graph: _Graph, hidden: str) -> str:
    """What two layers make of the mean of both texts' means and of their difference, as the model's output."""
    every = graph.node("Cast", "attention_mask", to=TensorProto.FLOAT)
    of_second = graph.node("Cast", "token_type_ids", to=TensorProto.FLOAT)
    first, second = (
        graph.node("Div", _sum_over(graph, hidden, mask), graph.node("ReduceSum", mask, graph.numbers("one", 1)))
        for mask in (graph.node("Sub", every, of_second), of_second)
    )
    half = graph.node("Mul", graph.node("Add", first, second), graph.scalar("half", 0.5))
    both = graph.node("Concat", half, graph.node("Sub", first, second), axis=-1)
    inner = graph.node("Gelu", graph.exact_dense(both, "pair.hidden"))
    return graph.exact_dense(inner, "pair.weight", output="weight")
