"""Where the local models lie: sentence-transformers/all-MiniLM-L6-v2 as ONNX, int8 per channel and fp32.

The graph takes ``input_ids`` and ``attention_mask`` (int64, shape ``(batch, tokens)``) and gives ``embedding``
(float32, shape ``(batch, 384)``, rows of unit length). Two graphs read two texts at once, take ``token_type_ids`` as
well, and give ``weight`` (float32, shape ``(batch, 1)``). That of changes reads two statements, the newer first: how
much speaks for it that the newer makes the older untrue. That of needs reads a request and a statement: how much speaks
for it that the request needs the statement. This package has paths and nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = [
    "CHANGES_PATH",
    "FP32_PATH",
    "MODEL_PATH",
    "NEEDS_PATH",
    "TOKENIZER_PATH",
    "TOKENIZER_SHA256",
    "WEIGHTS_SHA256",
]

_HERE: Final = Path(__file__).parent

MODEL_PATH: Final = _HERE / "minilm-l6-v2-int8.onnx"
FP32_PATH: Final = _HERE / "minilm-l6-v2-fp32.onnx"
"""Four times as large; built in a checkout, and in no distribution."""

CHANGES_PATH: Final = _HERE / "minilm-l6-v2-changes-int8.onnx"

NEEDS_PATH: Final = _HERE / "minilm-l6-v2-needs-int8.onnx"

TOKENIZER_PATH: Final = _HERE / "tokenizer.json"

WEIGHTS_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of the published ``model.safetensors``; the graphs are made from it and the adapters."""

TOKENIZER_SHA256: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
"""Of ``tokenizer.json``, which is the published file, unchanged."""
