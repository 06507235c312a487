"""What the tests of the capture room have in common: a clock that stands still, and a storage in RAM."""

from __future__ import annotations

import pytest

from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing import FrozenClock


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def storage(clock: FrozenClock) -> InMemoryStorage:
    return InMemoryStorage(clock=clock)
