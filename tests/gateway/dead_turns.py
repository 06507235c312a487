"""Turns that failed too often, in the storage of a gateway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import threadkeep
from threadkeep.capture.extractors import Extraction
from threadkeep.capture.models import Turn
from threadkeep.clock import SystemClock
from threadkeep.container import Container
from threadkeep.identity import Owner
from threadkeep.memories.models import Memory
from threadkeep.registry import create_storage, resolve_settings


@dataclass
class FailingExtractor:
    """Fails on every turn."""

    name: str = "failing"
    uses_known: bool = False

    async def extract(self, turn: Turn, known: Sequence[Memory]) -> Extraction:
        msg = "no"
        raise RuntimeError(msg)


def add_dead_turn(url: str, owner: Owner, text: str, thread_id: str) -> None:
    """Record a turn in which *owner* says *text*, and fail to learn from it as often as is tried."""
    settings = resolve_settings(url, None).model_copy(update={"capture_workers": 0, "capture_tries": 1})
    clock = SystemClock()
    app = Container(settings, create_storage(settings, clock), None, clock, extractor=FailingExtractor())
    with threadkeep.Threadkeep(app) as tk:
        tk.sync.capture([{"role": "user", "content": text}], owner=owner, thread_id=thread_id)
        tk.sync.drain()
