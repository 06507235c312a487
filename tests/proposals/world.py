"""What the tests of the proposals room share: every room on one storage, with a clock and an embedder of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from threadkeep.container import Container
from threadkeep.identity import Owner
from threadkeep.memories.models import Source
from threadkeep.settings import Settings
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing import FrozenClock, HashingEmbedder

ANA: Final = Owner("ana@example.org")
TOOL: Final = Source("tool")


@dataclass(eq=False)
class World:
    """An app on a storage in RAM."""

    clock: FrozenClock
    storage: InMemoryStorage
    app: Container


def world(**settings: str) -> World:
    clock = FrozenClock()
    storage = InMemoryStorage(clock=clock)
    return World(clock, storage, Container(Settings.load(**settings), storage, HashingEmbedder(), clock))
