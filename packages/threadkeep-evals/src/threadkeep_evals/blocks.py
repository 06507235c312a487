"""Fill a block for a model from a ranking: the same rendering and the same budget for every method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from threadkeep.recall.models import Recalled, line
from threadkeep.recall.packing import estimate_tokens, excerpt, fit, shown_whole
from threadkeep.search.query import parse_query
from threadkeep.text.quoted import END, HEADING

if TYPE_CHECKING:
    from threadkeep.memories.models import Memory

CURVE: Final = (100, 200, 300, 600, 1_200)
"""The budgets, in tokens, of a chart."""

_FRAME: Final = f"{HEADING}\n{END}"
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Nothing counts from it: of a question, only the words choose sentences."""


@dataclass(frozen=True, slots=True)
class Block:
    """The block that a model would read.

    Attributes:
        turns: Ids of the turns in it.
        tokens: Its length.
    """

    turns: Sequence[str] = ()
    tokens: int = 0


class Pages:
    """The turns of a conversation as lines of a block.

    Args:
        memories: One for each turn, with the turn's id.
    """

    def __init__(self, memories: Iterable[Memory]) -> None:
        self._memories: Mapping[str, Memory] = {str(memory.memory_id): memory for memory in memories}

    def filled(self, ranking: Sequence[str], budget_tokens: int, *, question: str | None = None) -> Block:
        """Fill a block from the top of *ranking*, whatever matters or not.

        Args:
            ranking: Ids of turns, best first.
            budget_tokens: Upper bound for the block.
            question: Long turns are cut as recall cuts them for it; ``None``: all are whole.
        """
        query = None if question is None else parse_query(question, now=_NOW)
        memories = enumerate(self._memories[turn] for turn in ranking)
        candidates = (
            Recalled(one if query is None else excerpt(one, query, brief=place >= shown_whole(budget_tokens)), 0.0)
            for place, one in memories
        )
        chosen = fit(candidates, line, frame=_FRAME, budget_tokens=budget_tokens)
        return _block([one.memory for one in chosen])

    def everything(self) -> Block:
        """Return the whole conversation."""
        return _block(list(self._memories.values()))

    def text(self) -> str:
        """Return the whole conversation as the text of a block."""
        return "\n".join((HEADING, *map(_line, self._memories.values()), END))


def _line(memory: Memory) -> str:
    return line(Recalled(memory, 0.0))


def _block(memories: Sequence[Memory]) -> Block:
    text = "\n".join((HEADING, *map(_line, memories), END))
    return Block([str(one.memory_id) for one in memories], estimate_tokens(text) if memories else 0)
