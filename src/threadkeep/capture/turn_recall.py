"""What recall gave to a turn, as its record keeps it: ids and scores, and no text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from threadkeep.ids import MemoryId

if TYPE_CHECKING:
    from threadkeep.recall.models import Recall, Recalled


@dataclass(frozen=True, slots=True)
class GivenMemory:
    """A memory that a question found.

    Attributes:
        memory_id: The memory.
        score: In [0, 1], higher is closer.
        earlier: Whether a newer memory said that it is no longer so.
    """

    memory_id: MemoryId
    score: float
    earlier: bool = False


@dataclass(frozen=True, slots=True)
class TurnRecall:
    """What a turn was given.

    Attributes:
        memories: The memories in its block, best first.
        left_out: Those that did not fit, best first.
        degraded: What was missing; see :class:`~threadkeep.Recall`.
    """

    memories: tuple[GivenMemory, ...] = ()
    left_out: tuple[GivenMemory, ...] = ()
    degraded: tuple[str, ...] = ()

    @classmethod
    def from_recall(cls, recall: Recall) -> TurnRecall:
        """Return what of *recall* is kept."""
        return cls(tuple(map(_given, recall.memories)), tuple(map(_given, recall.left_out)), recall.degraded)


def spell_recall(recall: TurnRecall) -> dict[str, Any]:
    """Return *recall* as it is kept."""
    value: dict[str, Any] = {"memories": [_row(one) for one in recall.memories]}
    if recall.left_out:
        value["left_out"] = [_row(one) for one in recall.left_out]
    if recall.degraded:
        value["degraded"] = list(recall.degraded)
    return value


def recall_of(value: object) -> TurnRecall | None:
    """Read what :func:`spell_recall` wrote; ``None``: earlier versions kept nothing."""
    if not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[str, Any]", value)
    degraded = cast("list[object]", fields.get("degraded") or [])
    return TurnRecall(
        tuple(_rows(fields.get("memories"))),
        tuple(_rows(fields.get("left_out"))),
        tuple(one for one in degraded if isinstance(one, str)),
    )


def _given(recalled: Recalled) -> GivenMemory:
    return GivenMemory(recalled.memory.memory_id, round(float(recalled.score), 3), recalled.earlier)


def _row(given: GivenMemory) -> list[Any]:
    return [given.memory_id, given.score, *([True] if given.earlier else [])]


def _rows(rows: object) -> Iterator[GivenMemory]:
    for row in cast("list[object]", rows) if isinstance(rows, list) else []:
        match row:
            case [str() as memory_id, (int() | float()) as score]:
                yield GivenMemory(MemoryId(memory_id), float(score))
            case [str() as memory_id, (int() | float()) as score, True]:
                yield GivenMemory(MemoryId(memory_id), float(score), earlier=True)
            case _:
                pass
