"""What search and recall give back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from threadkeep.memories.models import Memory, html_table, shortened
from threadkeep.recall.rendering import put_before


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that matters for a question.

    Attributes:
        memory: The memory.
        score: In [0, 1], higher is closer; 0 where nothing was asked.
        earlier: Whether a newer memory says that it is no longer so.
        slot: The slot of the profile that it fills, if it stands in the block for that.
        value: What it says of the slot.
    """

    memory: Memory
    score: float
    earlier: bool = False
    slot: str | None = None
    value: str | None = None

    @property
    def text(self) -> str:
        """What the memory says."""
        return self.memory.text

    def __repr__(self) -> str:
        """Return score and text on one line."""
        return f"<Recalled {self.score:.2f} {shortened(self.text)!r}{' (earlier)' if self.earlier else ''}>"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        return _table([self])


@dataclass(frozen=True, slots=True)
class Recall:
    """What is remembered before a model call.

    Attributes:
        memories: Best first.
        text: The block for the model; empty where nothing matters.
        degraded: What was missing: ``embedder`` or ``vectors`` (compared by words only), ``reranker`` (in the order
            before it), ``storage`` (nothing read), ``timeout`` (nothing read in time).
        tokens: Estimate of the block's length in model tokens.
        left_out: Memories that matter, too, and did not fit into the block, best first; at most 10.
    """

    memories: tuple[Recalled, ...] = ()
    text: str = ""
    degraded: tuple[str, ...] = ()
    tokens: int = 0
    left_out: tuple[Recalled, ...] = ()

    def __repr__(self) -> str:
        """Return how much was recalled on one line."""
        missing = f", degraded: {', '.join(self.degraded)}" if self.degraded else ""
        return f"<Recall of {len(self.memories)} memories, {self.tokens} tokens{missing}>"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        return _table(self.memories)

    def into(self, messages: Sequence[Any]) -> list[Any]:
        """Return *messages* with the block in front of the newest human message's content.

        Neither the list nor any message in it is changed. Takes LangChain messages, ``{"role",
        "content"}`` and ``("user", text)``; where there is no block or no human message, the list is
        as it was.
        """
        return put_before(messages, self.text)


def _table(recalled: Sequence[Recalled]) -> str:
    rows = [(f"{one.score:.2f}", *one.memory.html_row()) for one in recalled]
    return html_table(("score", "memory", "kind", "since", "id"), rows)
