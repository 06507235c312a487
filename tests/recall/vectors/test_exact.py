"""The engine that the others are measured against keeps the contract itself."""

from __future__ import annotations

import pytest

from threadkeep.testing.vectors_contract import ExactVectors, OpenEngine, VectorsContract


class TestExactVectors(VectorsContract):
    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        return lambda *, key_prefix="": ExactVectors()  # noqa: PLW0108 - the name says that nothing is shared
