"""Files of a test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.sealed.world import Files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Where the test's storage and its keys are."""
    return Files(tmp_path)
