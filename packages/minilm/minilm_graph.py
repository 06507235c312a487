"""The network of all-MiniLM-L6-v2 as an ONNX graph, written node by node from its published weights.

Six BERT layers, the mean over the tokens, unit length: token ids go in, a sentence's vector comes out. Nothing
else is needed to run it than onnxruntime.

In int8 the weights of a dense layer have one scale per output channel, those of the word table one per word, and what
goes into a dense layer one per token. onnxruntime's own dynamic quantisation has one scale for a whole batch instead,
so that a text's vector depends on which texts are embedded with it.

Source:
    Devlin et al. 2019 (BERT, post-layer-norm encoder); Reimers & Gurevych 2019 (mean pooling); the sizes are those of
    the model's published ``config.json``. Measured over turns of LoCoMo, mean cosine to fp32: 0.995, where
    onnxruntime's ``quantize_dynamic`` per channel has 0.990; the speed is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
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
IR_VERSION = 9
LARGEST_WEIGHT = 63
"""7 bits: on x86 without VNNI two products of 8 bits are added up in 16, and could overflow."""
LARGEST_INPUT = 127
INPUT_ZERO = 128

Weights = Mapping[str, "NDArray[np.float32]"]


def sentence_encoder(weights: Weights, *, int8: bool) -> onnx.ModelProto:
    """Return the checked model: ``input_ids``, ``attention_mask`` -> ``embedding`` of shape ``(batch, 384)``."""
    graph = _Int8Graph(weights) if int8 else _Graph(weights)
    mask = graph.node("Cast", "attention_mask", to=TensorProto.FLOAT)
    hidden = _embeddings(graph)
    bias = _attention_bias(graph, mask)
    for layer in range(LAYERS):
        hidden = _encoder_layer(graph, hidden, bias, f"encoder.layer.{layer}")
    _mean_of_unit_length(graph, hidden, mask)
    model = graph.finish()
    onnx.checker.check_model(model, full_check=True)
    return model


class _Graph:
    """Collects nodes and constants; every method returns the name of the tensor that it added."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def node(self, operator: str, *inputs: str, output: str | None = None, **attributes: object) -> str:
        name = f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [output or name], name=name, **attributes))
        return output or name

    def weight(self, name: str, *, transposed: bool = False) -> str:
        return self._constant(name, self._weights[name].T if transposed else self._weights[name])

    def word_vectors(self, table: str, ids: str) -> str:
        return self.node("Gather", self.weight(table), ids, axis=0)

    def numbers(self, name: str, *values: int) -> str:
        return self._constant(name, np.array(values, dtype=np.int64))

    def scalar(self, name: str, value: float) -> str:
        return self._constant(name, np.array(value, dtype=np.float32))

    def dense(self, tensor: str, layer: str) -> str:
        product = self.node("MatMul", tensor, self.weight(f"{layer}.weight", transposed=True))
        return self.node("Add", product, self.weight(f"{layer}.bias"))

    def layer_norm(self, tensor: str, layer: str) -> str:
        scale, bias = self.weight(f"{layer}.weight"), self.weight(f"{layer}.bias")
        return self.node("LayerNormalization", tensor, scale, bias, axis=-1, epsilon=NORM_EPSILON)

    def finish(self) -> onnx.ModelProto:
        shape = ["batch", "tokens"]
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("input_ids", "attention_mask")
        ]
        outputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", DIMS])]
        graph = helper.make_graph(self._nodes, "minilm-l6-v2", inputs, outputs, list(self._constants.values()))
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", CONTRIB_OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)

    def _constant(self, name: str, values: NDArray[np.generic]) -> str:
        if name not in self._constants:
            # Not ascontiguousarray: it makes a list of one out of a scalar.
            self._constants[name] = numpy_helper.from_array(np.asarray(values, order="C"), name)
        return name


class _Int8Graph(_Graph):
    """The same with dense layers and the word table in int8."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights)
        self._rows: dict[str, tuple[str, str]] = {}

    def dense(self, tensor: str, layer: str) -> str:
        matrix = self._weights[f"{layer}.weight"].T
        scales = np.abs(matrix).max(axis=0) / np.float32(LARGEST_WEIGHT)
        whole = np.rint(matrix / scales).astype(np.int8)
        numbers, row_scales = self._by_row(tensor)
        product = self.node(
            "MatMulIntegerToFloat",
            numbers,
            self._constant(f"{layer}.weight", whole),
            self.scalar("unit", 1.0),
            self._constant(f"{layer}.scales", scales),
            self._constant("input_zero", np.array(INPUT_ZERO, dtype=np.uint8)),
            domain="com.microsoft",
        )
        return self.node("Add", self.node("Mul", product, row_scales), self.weight(f"{layer}.bias"))

    def word_vectors(self, table: str, ids: str) -> str:
        rows = self._weights[table]
        scales = np.abs(rows).max(axis=1, keepdims=True) / np.float32(LARGEST_INPUT)
        whole = self._constant(table, np.rint(rows / scales).astype(np.int8))
        numbers = self.node("Cast", self.node("Gather", whole, ids, axis=0), to=TensorProto.FLOAT)
        return self.node("Mul", numbers, self.node("Gather", self._constant(f"{table}.scales", scales), ids, axis=0))

    def _by_row(self, tensor: str) -> tuple[str, str]:
        """Return *tensor* as uint8 and the scale of each of its rows; query, key and value share them."""
        if tensor not in self._rows:
            largest = self.node("ReduceMax", self.node("Abs", tensor), self.numbers("last_axis", -1), keepdims=1)
            scale = self.node("Mul", largest, self.scalar("step", 1.0 / LARGEST_INPUT))
            scale = self.node("Max", scale, self.scalar("least_scale", 1e-10))
            zero = self._constant("input_zero", np.array(INPUT_ZERO, dtype=np.uint8))
            whole = self.node("QuantizeLinear", self.node("Div", tensor, scale), self.scalar("unit", 1.0), zero)
            self._rows[tensor] = whole, scale
        return self._rows[tensor]


def _embeddings(graph: _Graph) -> str:
    """Word + position + (always the first) token type, normalised; shape (batch, tokens, 384)."""
    words = graph.word_vectors("embeddings.word_embeddings.weight", "input_ids")
    first, second = graph.numbers("one", 1), graph.numbers("two", 2)
    length = graph.node("Slice", graph.node("Shape", "input_ids"), first, second)
    table = graph.weight("embeddings.position_embeddings.weight")
    positions = graph.node("Slice", table, graph.numbers("zero", 0), length, graph.numbers("rows", 0))
    token_type = graph.node(
        "Gather", graph.weight("embeddings.token_type_embeddings.weight"), graph.numbers("zero", 0), axis=0
    )
    summed = graph.node("Add", words, graph.node("Add", positions, token_type))
    return graph.layer_norm(summed, "embeddings.LayerNorm")


def _attention_bias(graph: _Graph, mask: str) -> str:
    """What is added to the attention scores so that padding gets none; shape (batch, 1, 1, tokens)."""
    padding = graph.node("Sub", graph.scalar("unmasked", 1.0), mask)
    scores = graph.node("Mul", padding, graph.scalar("masked_score", MASKED_SCORE))
    return graph.node("Unsqueeze", scores, graph.numbers("head_and_query_axes", 1, 2))


def _encoder_layer(graph: _Graph, hidden: str, bias: str, layer: str) -> str:
    attended = graph.dense(
        _self_attention(graph, hidden, bias, f"{layer}.attention.self"), f"{layer}.attention.output.dense"
    )
    hidden = graph.layer_norm(graph.node("Add", attended, hidden), f"{layer}.attention.output.LayerNorm")
    widened = graph.node("Gelu", graph.dense(hidden, f"{layer}.intermediate.dense"))
    narrowed = graph.dense(widened, f"{layer}.output.dense")
    return graph.layer_norm(graph.node("Add", narrowed, hidden), f"{layer}.output.LayerNorm")


def _self_attention(graph: _Graph, hidden: str, bias: str, layer: str) -> str:
    split = graph.numbers("per_head", 0, 0, HEADS, HEAD_DIMS)
    merged = graph.numbers("all_heads", 0, 0, DIMS)

    def heads(part: str, order: list[int]) -> str:
        return graph.node("Transpose", graph.node("Reshape", graph.dense(hidden, f"{layer}.{part}"), split), perm=order)

    query, value = heads("query", [0, 2, 1, 3]), heads("value", [0, 2, 1, 3])
    products = graph.node("MatMul", query, heads("key", [0, 2, 3, 1]))
    scaled = graph.node("Mul", products, graph.scalar("score_scale", HEAD_DIMS**-0.5))
    shares = graph.node("Softmax", graph.node("Add", scaled, bias), axis=-1)
    mixed = graph.node("Transpose", graph.node("MatMul", shares, value), perm=[0, 2, 1, 3])
    return graph.node("Reshape", mixed, merged)


def _mean_of_unit_length(graph: _Graph, hidden: str, mask: str) -> str:
    """The mean over the tokens that are not padding, at unit length, as the model's output."""
    last, tokens = graph.numbers("last_axis", -1), graph.numbers("token_axis", 1)
    column = graph.node("Unsqueeze", mask, last)
    total = graph.node("ReduceSum", graph.node("Mul", hidden, column), tokens, keepdims=0)
    mean = graph.node("Div", total, graph.node("ReduceSum", column, tokens, keepdims=0))  # [CLS] is never padding
    length = graph.node("Clip", graph.node("ReduceL2", mean, last, keepdims=1), graph.scalar("not_zero", 1e-12))
    return graph.node("Div", mean, length, output="embedding")
