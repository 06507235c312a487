"""What is held about an owner, counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from threadkeep.arguments import checked_count
from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import InvalidInputError, RevisionConflictError
from threadkeep.identity import Owner
from threadkeep.memories.audited_writer import (
    AUDIT,
    AuditEntry,
    AuditHead,
    audit_namespace,
    entry_of,
    fault_in,
    head_of,
    stands_for,
)
from threadkeep.memories.codec import (
    ACCOUNTS,
    AUTHORIZATIONS,
    CREDENTIALS,
    HEAD,
    SECRET,
    SUMMARIES,
    head_ref,
    is_memory_namespace,
)
from threadkeep.memories.reader import MemoryReader
from threadkeep.proposals.models import DIGEST_KEY, PROPOSALS, TOMBSTONES
from threadkeep.storage.interface import Item, Storage, iterate_items

if TYPE_CHECKING:
    from threadkeep.identity import Owner


@dataclass(frozen=True, slots=True)
class Holdings:
    """What is held about an owner.

    Attributes:
        owner: About whom.
        memories: How many, by kind.
        summaries: How many summaries of threads.
        turns_waiting: Turns that are recorded and not yet learnt from.
        turns_seen: Turns that were learnt from; their texts are gone.
        threads: The threads that are bound to the owner.
        proposals: Changes that wait for a decision.
        proposals_decided: Changes that waited, and were decided or lapsed; they go in time.
        tombstones: What must not be learnt again, and the key of the forgotten ones' digests.
        extraction: What model extractors took: turns, failed, calls, input_tokens, output_tokens, cost_usd.
        other: Further LangGraph items of the owner.
        aside: Memories that are not recalled any more and go in time, by status: ``archived``, ``merged``.
        most: How many active memories they may have; ``None``: any number.
        inactive_days: After how many days without use memories are archived; ``None``: never.
    """

    owner: Owner
    memories: Mapping[str, int]
    summaries: int
    turns_waiting: int
    turns_seen: int
    threads: tuple[str, ...]
    other: int
    proposals: int = 0
    proposals_decided: int = 0
    tombstones: int = 0
    extraction: Mapping[str, float] = field(default_factory=dict[str, float])
    aside: Mapping[str, int] = field(default_factory=dict[str, int])
    most: int | None = None
    inactive_days: float | None = None


@dataclass(frozen=True, slots=True)
class Erased:
    """What was removed with an owner.

    Attributes:
        items: Rows of the storage: memories, summaries, turn records and everything else.
        threads: Threads that lost their checkpoints.
        counts: How many of what: memories, summaries, turns, proposals, tombstones, audit, threads, other.
        receipt_id: The receipt of it, which is kept apart from the owner's data and does not name them.
        kept_in: Where the receipt is: ``storage``, and ``file`` where one could be written.
    """

    items: int
    threads: tuple[str, ...]
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    receipt_id: str = ""
    kept_in: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of erased owners whom a backup may have brought back.

    Attributes:
        receipts: How many erasures are known.
        looked_at: How many owners there are.
        erased: What was removed once more.
        strange: Receipts that were made with another key; whom they are of cannot be told.
    """

    receipts: int
    looked_at: int
    erased: tuple[Erased, ...]
    strange: int = 0


@dataclass(frozen=True, slots=True)
class Verified:
    """What a check of an owner's audit found.

    Attributes:
        entries: How many entries there are.
        anchor: The chain's end. Note it elsewhere, and give it to a later check.
        fault: What is wrong, in a sentence; ``None``: nothing is.
        untold: Memories that no entry tells of: written before there was an audit, or past it.
    """

    entries: int
    anchor: str
    fault: str | None
    untold: tuple[str, ...] = ()


_PLACES: Final = {
    SUMMARIES: "summary",
    ".threads": "thread",
    PROPOSALS: "proposal",
    TOMBSTONES: "tombstone",
    ACCOUNTS: "account",
    AUDIT: "audit",
    CREDENTIALS: "credential",
}


def place_of(item: Item) -> str:
    """Return what *item* is: ``memory``, ``summary``, ``turn``, ``proposal`` and so on; ``item``: a program's own."""
    namespace = item.ref.namespace
    if is_memory_namespace(namespace):
        return "memory"
    root = namespace[0] if namespace else ""
    if root == ".turns":
        return "turn" if item.value.get("state") != "done" else "turn_seen"
    return _PLACES.get(root, "internal" if root.startswith(".") else "item")


def exported_value(item: Item) -> Mapping[str, Any]:
    """Return what an export tells of *item*: everything but the secrets of a credential."""
    if item.ref.namespace[:1] != (CREDENTIALS,):
        return item.value
    return {name: field for name, field in item.value.items() if name != SECRET}


def is_bookkeeping(item: Item) -> bool:
    """Whether a row says nothing of a person: heads of audits, unfinished authorizations, and the key of digests."""
    root = item.ref.namespace[:1]
    return root in ((HEAD,), (AUTHORIZATIONS,)) or (root == (TOMBSTONES,) and item.ref.key == DIGEST_KEY)


class AuditReader:
    """The audits of all owners; it writes nothing."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._rows = MemoryReader(storage)

    async def list(self, owner: Owner, *, limit: int | None = None) -> list[AuditEntry]:
        """Return what was changed, newest first: the *limit* newest, or everything."""
        if limit is not None:
            limit = checked_count(limit, "limit")
        found = [entry for item in await self._items(owner) if (entry := entry_of(item)) is not None]
        return sorted(found, key=lambda entry: entry.number, reverse=True)[:limit]

    async def verify(self, owner: Owner, *, anchor: str | None = None) -> Verified:
        """Check that nothing of the audit was changed, taken out or put in.

        A writer with access to the database can compute a whole new chain. Compare with the ``anchor`` of an earlier
        check, noted elsewhere, to detect that.

        Args:
            owner: The owner.
            anchor: What an earlier check gave as its ``anchor``.

        Raises:
            InvalidInputError: *anchor* is none.
        """
        number, chain = _anchor_of(anchor) if anchor is not None else (0, "")
        items, head = await self._read(owner)
        fault = fault_in(items, head)
        entries = [entry for item in items if (entry := entry_of(item)) is not None]
        if fault is None and number and (number, chain) not in ((entry.number, entry.chain) for entry in entries):
            fault = f"entry {number} is not the one that was noted"
        told = {change.id for entry in entries for change in entry.changes}
        untold = [
            memory.memory_id async for memory in self._rows.walk(owner=owner) if not stands_for(memory.memory_id, told)
        ]
        return Verified(head.number, f"{head.number}:{head.chain}", fault, tuple(untold))

    async def _read(self, owner: Owner) -> tuple[Sequence[Item], AuditHead]:
        """Read the whole chain, of one moment."""
        message = "Other writers kept changing the audit while it was read; try again."

        async def read() -> tuple[Sequence[Item], AuditHead]:
            (before,) = await self._storage.get([head_ref(owner)])
            items = await self._items(owner)
            (after,) = await self._storage.get([head_ref(owner)])
            if (before and before.revision) != (after and after.revision):
                raise RevisionConflictError(message)
            return items, head_of(after)

        return await retry_conflicts(read, message=message)

    async def _items(self, owner: Owner) -> Sequence[Item]:
        return [item async for item in iterate_items(self._storage, owner.partition, prefix=audit_namespace(owner))]


def _anchor_of(text: str) -> tuple[int, str]:
    number, _, chain = text.partition(":")
    if not number.isdecimal() or not (chain or number == "0"):
        msg = "An anchor is what an earlier check printed, such as 12:5f0c…; give all of it."
        raise InvalidInputError(msg)
    return int(number), chain
