"""What was learnt on top of the published weights: how it is added, and that it is for this network."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "packages" / "minilm"
LAYER = "encoder.layer.0.output.dense"


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    return importlib.import_module("minilm_adapter")


def test_the_product_is_added_to_the_weights_of_its_layer(adapter: ModuleType):
    """In float32; nothing else changes."""
    rng = np.random.default_rng(3)
    weights = {f"{LAYER}.weight": rng.normal(size=(6, 4)).astype("f4"), f"{LAYER}.bias": np.ones(6, "f4")}
    inner, outer = rng.normal(size=(2, 4)).astype("f2"), rng.normal(size=(6, 2)).astype("f2")

    changed = adapter.adapted(weights, {f"{LAYER}.a": inner, f"{LAYER}.b": outer})

    added = outer.astype("f8") @ inner.astype("f8")
    assert changed[f"{LAYER}.weight"] == pytest.approx(weights[f"{LAYER}.weight"] + added, abs=1e-6)
    assert changed[f"{LAYER}.weight"].dtype == np.float32
    assert changed[f"{LAYER}.bias"] is weights[f"{LAYER}.bias"]


def test_an_adapter_of_another_network_is_refused(adapter: ModuleType):
    """It would change nothing, and nothing would show it."""
    with pytest.raises(KeyError, match=LAYER):
        adapter.adapted({}, {f"{LAYER}.a": np.zeros((2, 4), "f2"), f"{LAYER}.b": np.zeros((6, 2), "f2")})


def test_every_dense_layer_of_the_encoder_is_adapted(adapter: ModuleType):
    """Six layers with six dense layers each, two matrices for each."""
    tensors = pytest.importorskip("safetensors.numpy").load_file(adapter.ADAPTER_PATH)

    assert len(tensors) == 6 * 6 * 2
    assert all(np.abs(matrix).max() > 0 for matrix in tensors.values())
