"""A memory in a folder of its own, with hashed vectors so that no model is needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import threadkeep
from threadkeep.testing import HashingEmbedder


@pytest.fixture(params=["memory", "sqlite"])
def tk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[threadkeep.Threadkeep]:
    """Return an open memory on each storage."""
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/memory.db"
    with threadkeep.open(url, embedder=HashingEmbedder()) as opened:
        yield opened
