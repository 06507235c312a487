"""Lines of JSON that are brought in as memories: ours, as any export writes them, and plain ones. Pure rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, cast

from threadkeep.errors import InvalidInputError
from threadkeep.ids import MemoryId, ProposalId, short_digest
from threadkeep.memories.codec import MEMORIES, memory_of
from threadkeep.memories.models import NewMemory, Source, Version
from threadkeep.storage.interface import Item, Partition, Ref
from threadkeep.text.normalization import same_words

_NOBODY: Final = Partition("root", ())
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_LONGEST_ID: Final = 1_000


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the lines of a file.

    Attributes:
        memory_ids: What is new, in the order of the lines.
        duplicates: What was there already, by id.
        refused: Lines that must not be kept, with the reason: they were rejected or forgotten before.
        left_out: How many lines are no memories: an export's first line, its audit and so on.
        faults: Lines that could not be read, with the reason; the others were taken.
        proposal_ids: What waits for approval: how to behave, and what else the policy asks about.
    """

    memory_ids: tuple[MemoryId, ...]
    duplicates: tuple[MemoryId, ...]
    refused: Mapping[int, str]
    left_out: int
    faults: Mapping[int, str]
    proposal_ids: tuple[ProposalId, ...] = ()


def parsed(line: str) -> NewMemory | None:
    """Return the memory that *line* is; ``None``: it is something else of an export.

    It may be a line of ``threadkeep owners export`` or ``threadkeep memories export``, or an object with a ``text``
    and perhaps ``kind``, ``memory_id``, ``created_at``. Its speaker becomes ``import``.

    Raises:
        InvalidInputError: It is no JSON object, or one without a statement.
    """
    try:
        row: object = json.loads(line)
    except (ValueError, RecursionError) as error:  # the latter of thousands of brackets
        msg = f"it is no JSON that can be read ({error})"
        raise InvalidInputError(msg) from error
    if not isinstance(row, dict):
        msg = "it is no JSON object"
        raise InvalidInputError(msg)
    fields = cast("dict[str, Any]", row)
    exported = isinstance(fields.get("value"), dict)
    if "type" in fields and "text" not in fields and fields["type"] != "memory":
        return None
    value = dict(fields["value"]) if exported else fields
    key = fields.get("key") if exported else fields.get("memory_id", fields.get("id"))
    value.setdefault("timestamp", fields.get("created_at"))
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= _LONGEST_ID):
        msg = "its id is no text of 1 to 1,000 characters"
        raise InvalidInputError(msg)
    memory = memory_of(Item(Ref(_NOBODY, (MEMORIES, ""), key or ""), value, 0, _LONG_AGO, _LONG_AGO))
    if memory is None:
        msg = "it says nothing: there is no text in data, text or content"
        raise InvalidInputError(msg)
    if value.get("status") in ("proposed", "rejected"):
        return None
    sources = imported(memory.sources)
    return NewMemory(
        memory.text,
        memory.kind,
        sources,
        created_at=memory.created_at if memory.created_at != _LONG_AGO else None,
        valid_from=memory.valid_from,
        valid_to=memory.valid_to,
        pinned=memory.pinned,
        memory_id=MemoryId(key or short_digest("imported", memory.kind, same_words(memory.text))),
        history=tuple(_imported_version(old) for old in memory.history),
    )


def imported(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Return *sources* as an import tells them: where and when, but on its own word."""
    return tuple(replace(source, speaker="import") for source in sources) or (Source("import"),)


def _imported_version(old: Version) -> Version:
    return replace(old, sources=imported(old.sources) if old.sources else (), approval=None)
