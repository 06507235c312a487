"""``tk.owners``: everything that is held about an owner, also as a ZIP file, and which owners want no memory."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zipfile import ZIP_DEFLATED, ZipFile

from typing_extensions import override

from threadkeep.errors import OptedOutError
from threadkeep.identity import Service, operation
from threadkeep.ids import short_digest
from threadkeep.memories.audited_writer import ACCESS
from threadkeep.memories.codec import memory_of
from threadkeep.memories.models import checked_name
from threadkeep.owners.models import Holdings, exported_value, is_bookkeeping, place_of
from threadkeep.storage.interface import Batch, Delete, Partition, Put, Ref, Storage, iterate_items

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from threadkeep.clock import Clock
    from threadkeep.identity import Owner
    from threadkeep.ids import ThreadId
    from threadkeep.memories.audited_writer import AuditEntry
    from threadkeep.owners.erasure import ErasureReceipt
    from threadkeep.owners.models import Erased, Replayed, Verified
    from threadkeep.storage.interface import Item


README: Final = """# Everything that was remembered about you

`export.jsonl` holds one JSON object a line. `type` says what it is:

| type | what it is |
|---|---|
| owner | whom this is about, when it was written, and which threads there are |
| memory | a statement: `value.data` or `value.text`, who said it where, and what it said before |
| summary | what a conversation was about |
| message | what was said in a thread |
| turn, turn_seen | a turn that waits to be learnt from; one that was (no text) |
| proposal | a statement that was proposed, and the decision about it |
| tombstone | what must not be learnt again: a rejected statement, or digests of a forgotten one |
| audit | what was changed, by whom and why; no text |
| account | how much work of models was spent |
| credential | a server that you gave access to; without its tokens |
| item | what the application keeps |
| thread, internal | how threads and jobs are found; when a memory was used last |

Another Threadkeep takes the memories over: `threadkeep memories import FILE.zip --user YOU`.
Ids are kept, and it may be repeated.
"""

ROWS_FILE: Final = "export.jsonl"
"""The file of an export that has its rows."""

_CHUNK_BYTES: Final = 65_536


async def to_zip(rows: AsyncIterable[Mapping[str, Any]]) -> AsyncGenerator[bytes]:
    """Yield a ZIP file with ``README.md`` and the rows in ``export.jsonl``, in parts of about 64 KiB."""
    written = _Written()
    with ZipFile(written, "w", ZIP_DEFLATED) as archive:
        archive.writestr("README.md", README)
        with archive.open(ROWS_FILE, "w", force_zip64=True) as file:
            async for row in rows:
                file.write(json.dumps(row, default=str).encode() + b"\n")
                if len(written) >= _CHUNK_BYTES:
                    yield written.take()
    yield written.take()


class _Written(io.RawIOBase):
    """What was written to an archive and not taken yet."""

    def __init__(self) -> None:
        self._content = bytearray()

    def __len__(self) -> int:
        return len(self._content)

    @override
    def writable(self) -> bool:
        return True

    @override
    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data)
        self._content += view
        return view.nbytes

    def take(self) -> bytes:
        """Return what was written since the last call."""
        taken = bytes(self._content)
        self._content.clear()
        return taken


OPT_OUTS: Final = ".opt-outs"
PARTITION: Final = Partition("root", (OPT_OUTS,))

_BATCH: Final = 5_000


class OptOuts:
    """All opt-outs, in a partition of their own: an owner's would have to be read to know that it must not be.

    They are known in RAM, so that a turn of an owner who wants no memory reads and writes nothing.
    """

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._known: set[str] = set()
        self._ended: dict[str, datetime] = {}
        self._changes = 0
        self._noticed: tuple[str, int] | None = None

    def holds(self, owner: Owner, thread_id: str | None = None) -> bool:
        """Whether nothing may be recalled or learnt: for *owner* at all, or in this thread. It reads nothing."""
        if not self._known:
            return False
        return _key(owner) in self._known or (thread_id is not None and _key(owner, thread_id) in self._known)

    def ended(self, owner: Owner, thread_id: str | None = None) -> datetime | None:
        """Return since when *owner*, who had opted out at all or in this thread, is in again; ``None``: was never out.

        It reads nothing. It lasts until the owner is erased: messages have no time that says which came before.
        """
        if not self._ended:
            return None
        keys = [_key(owner)] if thread_id is None else [_key(owner), _key(owner, thread_id)]
        return max((self._ended[key] for key in keys if key in self._ended), default=None)

    def require_wanted(self, owner: Owner, thread_id: str | None = None) -> None:
        """Refuse to remember anything about an owner who wants no memory, at all or in this thread.

        Raises:
            OptedOutError: The owner has opted out.
        """
        if self.holds(owner, thread_id):
            raise opted_out_error()

    def threads(self, owner: Owner, thread_ids: Iterable[ThreadId]) -> tuple[ThreadId, ...]:
        """Return those of *thread_ids* in which *owner* wants no memory, in their order. It reads nothing."""
        return tuple(one for one in thread_ids if _key(owner, one) in self._known) if self._known else ()

    async def set(self, owner: Owner, *, thread_id: str | None = None, out: bool = True) -> None:
        """Opt out, or in again; it holds in this process from now on, and in others within seconds."""
        key = _key(owner, thread_id)
        if not out:
            (known,) = await self._storage.get([Ref(PARTITION, (OPT_OUTS,), key)])
            if known is None:
                return
        now = self._clock.now()
        value = {"at": now.isoformat(), "out": out}
        await self._storage.commit(Batch(PARTITION, [Put((OPT_OUTS,), key, value)]))
        self._known.discard(key)
        self._ended.pop(key, None)
        if out:
            self._known.add(key)
        else:
            self._ended[key] = now
        self._changes += 1

    async def forget(self, owner: Owner) -> None:
        """Remove every opt-out of an owner who is erased."""
        gone = sorted(key for key in await self._read() if key.startswith(_key(owner)))
        for start in range(0, len(gone), _BATCH):
            deletes = [Delete((OPT_OUTS,), key) for key in gone[start : start + _BATCH]]
            await self._storage.commit(Batch(PARTITION, deletes))
        self._known.difference_update(gone)
        self._ended = {key: at for key, at in self._ended.items() if key not in gone}
        self._changes += 1

    async def notice(self) -> None:
        """Read what was changed, by whichever process; one small read where nothing was."""
        position = await self._storage.position(PARTITION)
        seen = (position.epoch, position.sequence)
        if seen == self._noticed:
            return
        changes, read = self._changes, await self._read()
        if changes == self._changes:  # otherwise this process changed them meanwhile: the next time reads them again
            self._known = {key for key, since in read.items() if since is None}
            self._ended, self._noticed = {key: since for key, since in read.items() if since is not None}, seen

    async def _read(self) -> dict[str, datetime | None]:
        """Return all that ever opted out, and since when each is in again; ``None``: it is out."""
        items = iterate_items(self._storage, PARTITION)
        return {
            item.ref.key: datetime.fromisoformat(item.value["at"]) if item.value.get("out") is False else None
            async for item in items
        }


def _checked_thread_id(thread_id: str | None) -> str | None:
    if thread_id is None:
        return None
    from threadkeep.checkpoints.head import thread_id_from  # imports LangGraph, which a command that lists does without

    return thread_id_from(thread_id)


def _key(owner: Owner, thread_id: str | None = None) -> str:
    key = owner.partition.digest.hex()
    return key if thread_id is None else f"{key}-{short_digest('thread', thread_id)}"


def opted_out_error() -> OptedOutError:
    """Return the error for an owner who wants no memory."""
    return OptedOutError("The owner has opted out of memory; tk.owners.opt_out(owner, out=False) opts in again.")


FORMAT: Final = 1
"""Version of the export's lines."""


class OwnerService(Service):
    """Everything that is held about one owner: show, export, erase, opt out, audit.

    ``owner`` names the owner of a call; by default the one that the client was opened with.
    """

    @operation
    async def show(self, owner: str | Owner | None = None) -> Holdings:
        """Count what is held about the owner."""
        owner = self._scope.resolve(owner)
        limits = self._services.limits
        account: dict[str, float] = {}
        kinds: Counter[str] = Counter()
        aside: Counter[str] = Counter()
        rest: Counter[str] = Counter()
        async for item in iterate_items(self._services.storage, owner.partition, direction="oldest"):
            place = place_of(item)
            if place == "memory":
                memory = memory_of(item)
                kinds[memory.kind if memory else "unreadable"] += 1
                if memory is not None and memory.status in ("archived", "merged"):
                    aside[memory.status] += 1
            elif place == "proposal" and item.value.get("state") != "pending":
                rest["proposal_decided"] += 1
            else:
                rest[place] += 1
            if place == "account":
                account = {name: number for name, number in item.value.items() if isinstance(number, int | float)}
        return Holdings(
            owner=owner,
            memories=dict(kinds),
            summaries=rest["summary"],
            turns_waiting=rest["turn"],
            turns_seen=rest["turn_seen"],
            proposals=rest["proposal"],
            proposals_decided=rest["proposal_decided"],
            tombstones=rest["tombstone"],
            extraction=account,
            threads=await self._services.thread_directory.ids_of(owner),
            other=rest["item"],
            aside=dict(aside),
            most=limits.most,
            inactive_days=after / timedelta(days=1) if (after := limits.inactive_after) else None,
        )

    @operation
    async def export(self, owner: str | Owner | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yield everything that is held about the owner, one JSON object for each line of a JSON Lines file.

        The first object names the owner.
        """
        async for row in self._rows(self._scope.resolve(owner)):
            yield row

    @operation
    async def export_zip(self, owner: str | Owner | None = None) -> AsyncIterator[bytes]:
        """Yield a ZIP file with the lines of :meth:`export` and a README, in parts of about 64 KiB."""
        async for part in to_zip(self._rows(self._scope.resolve(owner))):
            yield part

    async def _rows(self, owner: Owner) -> AsyncIterator[dict[str, Any]]:
        from threadkeep.checkpoints.directory import ListedThread  # imports LangGraph

        yield {
            "type": "owner",
            "format": FORMAT,
            "user_id": owner.user_id,
            "tenant": owner.tenant,
            "exported_at": self._services.clock.now().isoformat(),
            "threads": list(await self._services.thread_directory.ids_of(owner)),
        }
        async for item in self._items(owner):
            if is_bookkeeping(item):
                continue
            if place_of(item) == "thread":
                listed = ListedThread.from_item(item)
                async for message in self._services.thread_messages(owner, listed.thread_id, scoped=listed.scoped):
                    yield {"type": "message", **message}
            yield {
                "type": place_of(item),
                "namespace": list(item.ref.namespace),
                "key": item.ref.key,
                "value": exported_value(item),
                "created_at": item.created_at.isoformat(),
                "updated_at": item.updated_at.isoformat(),
                "expires_at": item.expires_at.isoformat() if item.expires_at else None,
            }

    async def _items(self, owner: Owner) -> AsyncIterator[Item]:
        """Yield the rows of *owner*, also those of the list of threads where these have a storage of their own."""
        storage, threads = self._services.storage, self._services.thread_storage
        for place in (storage,) if threads is storage else (storage, threads):
            async for item in iterate_items(place, owner.partition, direction="oldest"):
                yield item

    @operation
    async def erase(self, owner: str | Owner | None = None) -> Erased:
        """Remove everything that is held about the owner, threads included; refuse writes of work in flight.

        A receipt with counts is kept apart from the owner's data. It does not name the owner.
        """
        return await self._services.erasure.erase(self._scope.resolve(owner))

    @operation
    async def opt_out(
        self, owner: str | Owner | None = None, *, thread_id: str | None = None, out: bool = True
    ) -> None:
        """Stop recalling and learning, at all or in one thread; ``out=False`` starts again.

        A turn then reads and writes nothing in the storage. Memories stay until :meth:`erase`; turns that wait to be
        learnt from are emptied. What is said meanwhile is not learnt later either. Other processes follow within
        five seconds.
        """
        owner = self._scope.resolve(owner)
        thread_id = _checked_thread_id(thread_id)
        await self._services.opt_outs.set(owner, thread_id=thread_id, out=out)
        if out:
            await self._services.captures.drop(owner, thread_id=thread_id)

    @operation
    async def opted_out(self, owner: str | Owner | None = None, *, thread_id: str | None = None) -> bool:
        """Return whether the owner has opted out, at all or in this thread."""
        owner = self._scope.resolve(owner)
        thread_id = _checked_thread_id(thread_id)
        await self._services.opt_outs.notice()
        return self._services.opt_outs.holds(owner, thread_id)

    @operation
    async def opted_out_threads(self, owner: str | Owner | None = None) -> tuple[ThreadId, ...]:
        """Return the owner's threads in which the owner has opted out."""
        owner = self._scope.resolve(owner)
        await self._services.opt_outs.notice()
        return self._services.opt_outs.threads(owner, await self._services.thread_directory.ids_of(owner))

    @operation
    async def replay_erasures(self, *files: str | Path) -> Replayed:
        """Erase every owner again that a restored backup brought back. Concerns all owners.

        Args:
            files: Further receipts, from other machines, as :meth:`erasure_receipts` returns them.

        Raises:
            OwnerMismatchError: The client is locked to one owner.
            InvalidInputError: A file cannot be read.
        """
        self._scope.require_unlocked()
        return await self._services.erasure.replay(*map(Path, files))

    @operation
    async def erasure_receipts(self) -> list[ErasureReceipt]:
        """Return the receipts of all erasures, oldest first. They name no owner.

        Raises:
            OwnerMismatchError: The client is locked to one owner.
        """
        self._scope.require_unlocked()
        return await self._services.erasure.receipts.all()

    @operation
    async def note_access(self, change: str, *, by: str, reason: str, owner: str | Owner | None = None) -> None:
        """Write to the owner's audit that an administrator changed what the owner may do.

        Args:
            change: What was changed, such as ``suspended``.
            by: The administrator.
            reason: Why; at most 200 characters are kept.
            owner: The owner.
        """
        change = checked_name(change, "change")
        value = {"change": change, "at": self._services.clock.now().isoformat()}
        await self._services.audited_writer.commit(
            self._scope.resolve(owner), [Put((ACCESS,), change, value)], by=by, why=reason
        )

    @operation
    async def audit(self, owner: str | Owner | None = None, *, limit: int | None = 100) -> list[AuditEntry]:
        """Return the audit, newest first: who changed what, why and when. No entry holds a memory's text."""
        return await self._services.audit.list(self._scope.resolve(owner), limit=limit)

    @operation
    async def verify_audit(self, owner: str | Owner | None = None, *, anchor: str | None = None) -> Verified:
        """Check that no audit entry was changed or removed.

        Args:
            owner: The owner of the audit.
            anchor: The ``anchor`` of an earlier check, kept elsewhere.

        Raises:
            InvalidInputError: *anchor* is invalid.
        """
        return await self._services.audit.verify(self._scope.resolve(owner), anchor=anchor)
