"""The audit of an owner: its entries, and the writer that commits every change with its entry.

An entry names the changed item by its key and holds none of its text, so that forgetting a statement leaves
nothing of it here. Each entry holds a digest of itself and of the entry before it: a *chain*. Its end stands in the
head row that every commit expects. Changing or removing an entry requires changing every later one, and the head.

The revision after a change is the revision of the entry's own row: both are of one commit.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakValueDictionary

from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import RevisionConflictError
from threadkeep.identity import Owner
from threadkeep.ids import digest, short_digest
from threadkeep.memories.codec import CREDENTIALS, HEAD, HEAD_KEY, SUMMARIES, head_ref, is_memory_namespace, moment_of
from threadkeep.storage.interface import Batch, Delete, Item, Namespace, Operation, Position, Put, Storage

if TYPE_CHECKING:
    from threadkeep.clock import Clock


AUDIT: Final = ".audit"
ADDED: Final = "added"
CHANGED: Final = "changed"
WRITTEN: Final = "written"
"""Put by a program that did not say whether it was there before."""
REMOVED: Final = "removed"

ACCESS: Final = ".access"
"""Where administrators change what an owner may do; only the audit tells what they did."""

_THINGS: Final = {
    SUMMARIES: "summary",
    ".proposals": "proposal",
    ".tombstones": "tombstone",
    ".policy": "policy",
    ACCESS: "access",
    CREDENTIALS: "credential",
}
_LONGEST_ID: Final = 64
_LONGEST_WORD: Final = 200
_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class AuditedChange:
    """One thing that a commit changed.

    Attributes:
        what: ``added``, ``changed``, ``written`` (by a program that did not say which) or ``removed``.
        thing: ``memory``, ``summary``, ``proposal``, ``tombstone``, ``policy``, ``credential`` or ``access``.
        id: Its key; of a key that is long or holds white space, a digest.
        before: The revision that was replaced; ``None``: there was none, or the writer did not say.
        state: Of a memory, where it is not ``active`` and new: ``versions`` (how many statements it has had
            before), ``valid_to``, ``pinned``, ``status``. Of a proposal or a credential its ``state``.
    """

    what: str
    thing: str
    id: str
    before: int | None = None
    state: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What one commit did.

    Attributes:
        number: From 1 on, without gaps.
        at: When.
        by: Who changed it: ``user``, ``capture``, ``store``, ``import``, ``time``, ``oauth``, or the person who
            decided.
        why: Where it comes from, such as ``turn:…``, ``proposal:…`` or ``server:…``; empty: it was asked for.
        changes: What was changed.
        revision: The revision after it of everything that it changed.
        chain: Digest of this entry and the chain before it, 64 hexadecimal characters.
    """

    number: int
    at: datetime
    by: str
    why: str
    changes: tuple[AuditedChange, ...]
    revision: int
    chain: str


@dataclass(frozen=True, slots=True)
class AuditHead:
    """How long an owner's chain is.

    Attributes:
        revision: Of the row that says it; ``None``: there is none.
        number: Of the last entry; 0: there is none.
        chain: The last entry's; empty where there is none.
    """

    revision: int | None = None
    number: int = 0
    chain: str = ""


def audit_namespace(owner: Owner) -> Namespace:
    """Return where the audit of *owner* is."""
    return (AUDIT, owner.label)


def head_of(item: Item | None) -> AuditHead:
    """Read the end of a chain."""
    if item is None:
        return AuditHead()
    number, chain = item.value.get("entries"), item.value.get("chain")
    if not isinstance(number, int) or not isinstance(chain, str):
        return AuditHead(item.revision)
    return AuditHead(item.revision, number, chain)


def audited(
    owner: Owner, head: AuditHead, operations: Sequence[Operation], *, by: str, why: str, at: datetime
) -> tuple[list[Operation], AuditHead]:
    """Return *operations* with the entry that tells of them, and the chain's end after it.

    The end's row is written in any case and expects to be as *head* says: two writers cannot both write from
    what they read.

    Args:
        owner: The owner.
        head: The chain's end, as it was read.
        operations: What is to be committed.
        by: Who wants it.
        why: Where it comes from.
        at: When.
    """
    changes = [change for operation in operations if (change := _change(operation)) is not None]
    ref = head_ref(owner)
    expect = "absent" if head.revision is None else head.revision
    if not changes:
        value = {"entries": head.number, "chain": head.chain} if head.number else {}
        return [*operations, Put(ref.namespace, HEAD_KEY, value, expect=expect)], head
    value = {
        "at": at.isoformat(),
        "by": by[:_LONGEST_WORD],
        "why": why[:_LONGEST_WORD],
        "changes": [_spelled(change) for change in changes],
    }
    after = AuditHead(None, head.number + 1, chained(head.chain, head.number + 1, value))
    entry = Put(audit_namespace(owner), f"{after.number:0{_DIGITS}}", {**value, "chain": after.chain}, expect="absent")
    end = Put(ref.namespace, HEAD_KEY, {"entries": after.number, "chain": after.chain}, expect=expect)
    return [*operations, entry, end], after


def chained(before: str, number: int, value: Mapping[str, Any]) -> str:
    """Return the digest of an entry's *value* and of the chain *before* it."""
    said = {name: field for name, field in value.items() if name != "chain"}
    return digest("audit", before, str(number), json.dumps(said, sort_keys=True, ensure_ascii=True)).hex()


def is_changed(operation: Operation) -> bool:
    """Whether *operation* is of the kind that the audit tells of."""
    return _thing(operation.namespace, operation.key) is not None


def entry_of(item: Item) -> AuditEntry | None:
    """Read an entry; ``None`` where the row is none."""
    value = item.value
    at, by, why, chain = moment_of(value.get("at")), value.get("by"), value.get("why"), value.get("chain")
    if not item.ref.key.isdecimal() or at is None:
        return None
    if not isinstance(by, str) or not isinstance(why, str) or not isinstance(chain, str):
        return None
    return AuditEntry(int(item.ref.key), at, by, why, tuple(_changes(value.get("changes"))), item.revision, chain)


def fault_in(items: Sequence[Item], head: AuditHead) -> str | None:
    """Return what is wrong with a chain, in a sentence; ``None``: nothing is.

    Args:
        items: All of an owner's entries.
        head: Where the chain says that it ends.
    """
    chain = ""
    rows = {item.ref.key: item for item in items}
    for number in range(1, max(head.number, len(rows)) + 1):
        item = rows.get(f"{number:0{_DIGITS}}")
        if item is None:
            return f"entry {number} is missing"
        chain = chained(chain, number, item.value)
        if chain != item.value.get("chain"):
            return f"entry {number} is not what was written, or the one before it is not"
    if len(rows) != head.number or chain != head.chain:
        return f"the chain ends at entry {len(rows)}, and {head.number} were written"
    return None


def _change(operation: Operation) -> AuditedChange | None:
    thing = _thing(operation.namespace, operation.key)
    if thing is None or not isinstance(operation, Put | Delete):
        return None
    before = operation.expect if isinstance(operation.expect, int) else None
    key = _id(operation.key)
    if isinstance(operation, Delete):
        return AuditedChange(REMOVED, thing, key, before)
    what = ADDED if operation.expect == "absent" else WRITTEN if before is None else CHANGED
    state = state_of(operation.value) if thing == "memory" else {}
    if thing in ("proposal", "credential"):
        state = {"state": str(operation.value.get("state"))}
    return AuditedChange(what, thing, key, before, state or None)


def state_of(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a memory's *value* an entry holds: how it stands, and nothing of what it says."""
    history = value.get("history")
    valid_to = moment_of(value.get("valid_to"))
    state: dict[str, Any] = {
        "versions": len(cast("list[object]", history)) if isinstance(history, list) else 0,
        "valid_to": valid_to.isoformat() if valid_to else None,
        "pinned": value.get("pinned") is True,
        "status": value.get("status")
        if value.get("status") in ("merged", "archived", "rejected", "proposed")
        else None,
    }
    return {name: field for name, field in state.items() if field}


def stands_for(key: str, told: Collection[str]) -> bool:
    """Whether something with this *key* is among the ids that entries *told*."""
    return _id(key) in told


def _thing(namespace: Namespace, key: str) -> str | None:
    if is_memory_namespace(namespace):
        return "memory"
    thing = _THINGS.get(namespace[0]) if namespace else None
    return None if thing == "tombstone" and key == "digest-key" else thing


def _id(key: str) -> str:
    return key if len(key) <= _LONGEST_ID and not any(map(str.isspace, key)) else f"~{short_digest(key)}"


def _spelled(change: AuditedChange) -> dict[str, Any]:
    row = {
        "what": change.what,
        "thing": change.thing,
        "id": change.id,
        "before": change.before,
        "state": dict(change.state) if change.state else None,
    }
    return {name: field for name, field in row.items() if field is not None}


def _changes(rows: object) -> Iterator[AuditedChange]:
    for row in cast("list[object]", rows) if isinstance(rows, list) else []:
        if not isinstance(row, Mapping):
            continue
        fields = cast("Mapping[str, Any]", row)
        before, state = fields.get("before"), fields.get("state")
        yield AuditedChange(
            str(fields.get("what")),
            str(fields.get("thing")),
            str(fields.get("id")),
            before if isinstance(before, int) else None,
            cast("Mapping[str, Any]", state) if isinstance(state, Mapping) else None,
        )


USER: Final = "user"
"""The author of changes where no other is named: the owner, or an application on their behalf."""

_HEADS: Final = 4096
_WRITTEN: Final = 10_000


def is_about(error: RevisionConflictError, operations: Sequence[Operation]) -> bool:
    """Return whether *error* is about the expected revision of one of *operations*."""
    at = (error.details.get("namespace"), error.details.get("key"))
    return any(at == (operation.namespace, operation.key) for operation in operations)


def _is_about_the_audit(error: RevisionConflictError) -> bool:
    namespace = error.details.get("namespace")
    return isinstance(namespace, tuple) and namespace[:1] in ((HEAD,), (AUDIT,))


class AuditedWriter:
    """Commits with an audit entry.

    The end of an owner's chain is remembered here, so that a change costs no further read; where another
    process has written since, the commit is refused by the storage and made again from what is there.

    Args:
        storage: Keeps the items.
        clock: Tells the time of the entries.
        schedule: Returns operations with the work that is due later for those without vectors; ``None``: there is none.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        *,
        schedule: Callable[[Sequence[Operation]], Sequence[Operation]] | None = None,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._schedule = schedule
        self._heads: OrderedDict[bytes, AuditHead] = OrderedDict()
        self._writing: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        self._written: dict[Owner, None] = {}

    def written(self) -> list[Owner]:
        """Return the owners with changes in this process since the last call; at most 10,000."""
        owners, self._written = list(self._written), {}
        return owners

    async def head(self, owner: Owner) -> AuditHead:
        """Read the row by which two writers meet; read it before what you decide by."""
        (item,) = await self._storage.get([head_ref(owner)])
        return head_of(item)

    async def commit_from(
        self,
        head: AuditHead,
        owner: Owner,
        operations: Sequence[Operation],
        *,
        by: str,
        why: str = "",
        epoch: str | None = None,
    ) -> Position:
        """Commit what was decided by what was read since *head*.

        Raises:
            RevisionConflictError: Another writer changed something of the owner's since *head*, or an operation's
                expectation is not met; nothing was written.
            PartitionErasedError: The owner was erased since *epoch*.
        """
        if self._schedule and any(isinstance(one, Put) and one.index and not one.embedding for one in operations):
            operations = self._schedule(operations)
        whole, after = audited(owner, head, operations, by=by, why=why, at=self._clock.now())
        position = await self._storage.commit(Batch(owner.partition, whole, epoch))
        key = owner.partition.digest
        self._heads[key] = AuditHead(position.sequence, after.number, after.chain)
        self._heads.move_to_end(key)
        if len(self._written) < _WRITTEN:
            self._written[owner] = None
        while len(self._heads) > _HEADS:
            self._heads.popitem(last=False)
        return position

    async def commit(
        self, owner: Owner, operations: Sequence[Operation], *, by: str, why: str = "", epoch: str | None = None
    ) -> Position:
        """Commit what does not depend on anything but what *operations* themselves expect.

        Raises:
            RevisionConflictError: An operation's expectation is not met; nothing was written.
            PartitionErasedError: The owner was erased since *epoch*.
        """
        key = owner.partition.digest

        async def commit() -> Position:
            head = self._heads.get(key) or await self.head(owner)
            try:
                return await self.commit_from(head, owner, operations, by=by, why=why, epoch=epoch)
            except RevisionConflictError:
                self._heads.pop(key, None)
                raise

        async with self._writing.setdefault(key, asyncio.Lock()):
            return await retry_conflicts(commit, retry_if=_is_about_the_audit)
