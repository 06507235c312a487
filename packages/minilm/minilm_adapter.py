"""What was learnt on top of the published weights, so that a request is near to the statement that it needs.

Every dense layer has two thin matrices, ``a`` of shape ``(rank, inputs)`` and ``b`` of shape ``(outputs, rank)``,
float16. Their product is added to the layer's weights before the graph is made, so the model is as large and as fast
as the published one. ``train_adapter.py`` says how they were found.

Source:
    Hu et al. 2021 (LoRA).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from minilm_graph import Weights

ADAPTER_PATH = Path(__file__).with_name("adapter.safetensors")
CHANGES_PATH = Path(__file__).with_name("changes.safetensors")
"""Of the network that tells whether one statement makes another untrue, with the two layers at its end."""
NEEDS_PATH = Path(__file__).with_name("needs.safetensors")
"""Of the network that tells whether a request needs a statement, with the same layers."""


def adapted(weights: Weights, adapter: Mapping[str, NDArray[np.float16]]) -> Weights:
    """Return *weights* with the products of *adapter* added, and with the layers that only *adapter* has.

    Args:
        weights: The published weights.
        adapter: The matrices of each layer, named as the layer with ``.a`` and ``.b``.

    Raises:
        KeyError: The adapter is for another network.
    """
    changed = dict(weights) | {name: matrix for name, matrix in adapter.items() if not name.endswith((".a", ".b"))}
    for name in adapter:
        if not name.endswith(".a"):
            continue
        layer = name.removesuffix(".a")
        inner, outer = (adapter[f"{layer}.{part}"].astype(np.float64) for part in "ab")
        # The last digits of a product of matrices differ between processors, so columns and rows are multiplied.
        added = sum(np.multiply.outer(outer[:, rank], inner[rank]) for rank in range(len(inner)))
        changed[f"{layer}.weight"] = (weights[f"{layer}.weight"] + added).astype(np.float32)
    return changed
