"""Extractors: what turns a turn into candidates. This is their interface; ``local`` needs no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from threadkeep.capture.models import Candidate, Turn, Usage
from threadkeep.ids import MemoryId
from threadkeep.memories.models import Memory


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an extractor found in a turn.

    Attributes:
        candidates: Lasting facts and an episode, best first; reconciled with what is known afterwards. Their
            sources are checked afterwards, too.
        removals: Memories that should go; they are proposed, never removed.
        usage: What it took of a model; ``None`` where none was asked.
        remarks: What the extractor has to say of how it went, for the receipt, such as that a model only talked.
        forgotten: What the user asks to forget, in their words. Learning finds it, whatever extractor there is, and
            proposes to forget the memories that say it.
    """

    candidates: tuple[Candidate, ...] = ()
    removals: tuple[MemoryId, ...] = ()
    usage: Usage | None = None
    remarks: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()


class Extractor(Protocol):
    """Reads a turn and proposes what to keep of it."""

    name: str
    """``local``, ``structured``, …"""

    uses_known: bool
    """Whether *known* is looked at; searching for it is left out where it is not."""

    async def extract(self, turn: Turn, known: Sequence[Memory]) -> Extraction:
        """Return what is worth keeping of *turn*.

        Only what the user said is extractable; everything else is context. Whatever it raises is
        taken for a failure of this turn: the turn is tried again later and then parked.

        Args:
            turn: Its texts are redacted, and without the blocks that recall put in.
            known: Memories that are like the user's words, best first; empty unless :attr:`uses_known`.
        """
        ...
