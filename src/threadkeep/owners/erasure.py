"""Erase owners, keep receipts of it, and erase again after a backup was restored.

A receipt holds counts under a keyed digest of the owner, and the epoch of the erased data. Data that a backup brings
back still has that epoch; what came after the erasure has another one. So the data to erase again is recognized without
a clock.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import json
import os
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast

from threadkeep.errors import FULL_ERRNOS, InvalidInputError, SettingsError, StorageFullError
from threadkeep.identity import Owner, owner_of_partition
from threadkeep.ids import digest, new_id
from threadkeep.memories.codec import moment_of
from threadkeep.observability import log
from threadkeep.owners.models import Erased, Replayed, place_of
from threadkeep.storage.interface import Batch, Partition, Put, Storage, iterate_items, iterate_partitions

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.owners.service import OptOuts


ERASURES: Final = ".erasures"
PARTITION: Final = Partition("root", (ERASURES,))
FEWEST_KEY_CHARACTERS: Final = 32

_KEY_BYTES: Final = 32
_KEY_ID_CHARACTERS: Final = 8
_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """The receipt of an erasure.

    Attributes:
        receipt_id: Of this erasure.
        name: The owner's keyed digest, 64 hexadecimal characters.
        key_id: Tells with which key; 8 hexadecimal characters.
        state: ``begun``, and ``done`` once everything is gone.
        at: When it began.
        epoch: The epoch that the erased data was of.
        counts: How many of what were removed: memories, summaries, turns, proposals, tombstones, audit, threads, other.
    """

    receipt_id: str
    name: str
    key_id: str
    state: Literal["begun", "done"]
    at: datetime
    epoch: str
    counts: Mapping[str, int] = field(default_factory=dict[str, int])


class ErasureKey:
    """The key of the digests: given, or in a file that is made when it is first needed.

    Args:
        text: The key; 32 or more characters.
        path: The file, where no key is given; ``None``: a key of this process alone.
    """

    def __init__(self, text: str | None = None, *, path: Path | None = None) -> None:
        if text is not None and len(text) < FEWEST_KEY_CHARACTERS:
            msg = f"THREADKEEP_ERASURE_KEY is too short; give {FEWEST_KEY_CHARACTERS} or more random characters."
            raise SettingsError(msg, variable="THREADKEEP_ERASURE_KEY")
        self._text = text
        self._path = path

    def name_of(self, owner: Owner) -> str:
        """Return the keyed digest that stands for *owner*."""
        return self._mac(digest("erased owner", *owner.parts))

    @property
    def key_id(self) -> str:
        """What tells this key from others."""
        return self._mac(b"key id")[:_KEY_ID_CHARACTERS]

    def _mac(self, message: bytes) -> str:
        if self._text is None:
            self._text = secrets.token_hex(_KEY_BYTES) if self._path is None else _key_in(self._path)
        return hmac.digest(self._text.encode(), message, "sha256").hex()


class ErasureReceipts:
    """The receipts of all erasures, kept twice: beside the owners in the storage, and in a file apart from it.

    Args:
        storage: Where the owners are.
        key: Of the digests.
        path: The file, JSON Lines; ``None``: there is none, and a restored storage knows what it knew.
    """

    def __init__(self, storage: Storage, key: ErasureKey, *, path: Path | None) -> None:
        self._storage = storage
        self.key = key
        self.path = path

    async def begin(self, owner: Owner, *, at: datetime, epoch: str) -> ErasureReceipt:
        """Say that *owner* is about to be erased, before anything is."""
        name, key_id = await asyncio.to_thread(lambda: (self.key.name_of(owner), self.key.key_id))
        receipt = ErasureReceipt(new_id(), name, key_id, "begun", at, epoch)
        await self.keep(receipt)
        return receipt

    async def keep(self, receipt: ErasureReceipt) -> tuple[str, ...]:
        """Write *receipt* in both places; return in which it is. The storage has to take it."""
        put = Put((ERASURES,), receipt.receipt_id, spelled(receipt))
        await self._storage.commit(Batch(PARTITION, [put]))
        if self.path is None:
            return ("storage",)
        try:
            await asyncio.to_thread(_append, self.path, json.dumps(spelled(receipt)))
        except OSError as error:
            log.warning("The receipt of an erasure cannot be written to %s (%s).", self.path, error.strerror)
            return ("storage",)
        return ("storage", "file")

    async def all(self, *files: Path) -> list[ErasureReceipt]:
        """Return every receipt that is known, each as it ended: of the storage, the file, and *files*.

        What the storage does not know, because it was restored, is written to it.

        Raises:
            InvalidInputError: One of *files* cannot be read, or a line of it is no receipt.
        """
        known: dict[str, ErasureReceipt] = {}
        async for item in iterate_items(self._storage, PARTITION, prefix=(ERASURES,)):
            _add(known, receipt_of(item.value))
        stored = dict(known)
        paths = [*files, *([self.path] if self.path is not None and self.path.exists() else [])]
        for path in paths:
            for receipt in await asyncio.to_thread(receipts_in, path):
                _add(known, receipt)
        missing = [one for one in known.values() if stored.get(one.receipt_id) != one]
        for start in range(0, len(missing), _BATCH):
            puts = [Put((ERASURES,), one.receipt_id, spelled(one)) for one in missing[start : start + _BATCH]]
            await self._storage.commit(Batch(PARTITION, puts))
        return sorted(known.values(), key=lambda one: (one.at, one.receipt_id))


def receipts_in(path: Path) -> list[ErasureReceipt]:
    """Read a file of receipts.

    Raises:
        InvalidInputError: It cannot be read, or a line is no receipt; the message says which.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        msg = f"{path} cannot be read ({type(error).__name__}); give a file of receipts."
        raise InvalidInputError(msg) from error
    found: list[ErasureReceipt] = []
    for number, line in enumerate(lines, 1):
        try:
            row: object = json.loads(line) if line.strip() else None
        except ValueError:
            row = ()
        if row is None or (row == () and number == len(lines)):  # cut off by a crash: its erasure has not begun
            continue
        receipt = receipt_of(cast("Mapping[str, Any]", row)) if isinstance(row, Mapping) else None
        if receipt is None:
            msg = f"Line {number} of {path} is not a receipt of an erasure; repair or remove that line."
            raise InvalidInputError(msg)
        found.append(receipt)
    return found


def spelled(receipt: ErasureReceipt) -> dict[str, Any]:
    """Spell *receipt* as a JSON object."""
    return {
        "receipt_id": receipt.receipt_id,
        "name": receipt.name,
        "key_id": receipt.key_id,
        "state": receipt.state,
        "at": receipt.at.isoformat(),
        "epoch": receipt.epoch,
        "counts": dict(receipt.counts),
    }


def receipt_of(row: Mapping[str, Any]) -> ErasureReceipt | None:
    """Read what :func:`spelled` spelled; ``None`` where it is something else."""
    texts = [row.get(name) for name in ("receipt_id", "name", "key_id", "epoch")]
    at, counts, state = moment_of(row.get("at")), row.get("counts"), row.get("state")
    if not all(isinstance(text, str) for text in texts) or at is None or state not in ("begun", "done"):
        return None
    numbers: Mapping[str, Any] = cast("Mapping[str, Any]", counts) if isinstance(counts, Mapping) else {}
    receipt_id, name, key_id, epoch = cast("Sequence[str]", texts)
    found = {what: number for what, number in numbers.items() if isinstance(number, int)}
    return ErasureReceipt(receipt_id, name, key_id, state, at, epoch, found)


def by_name(receipts: Iterable[ErasureReceipt]) -> dict[str, list[ErasureReceipt]]:
    """Return *receipts* by whom they are of."""
    found: dict[str, list[ErasureReceipt]] = {}
    for receipt in receipts:
        found.setdefault(receipt.name, []).append(receipt)
    return found


def _add(known: dict[str, ErasureReceipt], receipt: ErasureReceipt | None) -> None:
    if receipt is not None and (receipt.receipt_id not in known or receipt.state == "done"):
        known[receipt.receipt_id] = receipt


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        data, size = f"{line}\n".encode(), os.fstat(descriptor).st_size
        written = os.write(descriptor, data)
        if written < len(data):  # the disk is full: the next receipt would continue this line
            if os.fstat(descriptor).st_size == size + written:
                os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _key_in(path: Path) -> str:
    """Read the key, or make one; of two processes that make one at once, both have the same."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.{new_id()}")
        if not path.exists():
            try:
                _append(beside, secrets.token_hex(_KEY_BYTES))
                os.link(beside, path)
            except FileExistsError:
                pass
            finally:
                beside.unlink(missing_ok=True)
        text = path.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in FULL_ERRNOS:
            msg = f"The disk is full, so the key of erasures' receipts cannot be kept in {path}; free some space."
            raise StorageFullError(msg, path=str(path)) from error
        msg = (
            f"The key of erasures' receipts cannot be kept in {path} ({type(error).__name__}); "
            "set THREADKEEP_ERASURE_KEY, or THREADKEEP_ERASURE_LOG to a file in a folder that can be written."
        )
        raise SettingsError(msg, variable="THREADKEEP_ERASURE_KEY") from error
    if len(text) < FEWEST_KEY_CHARACTERS:
        msg = f"{path} has no key of {FEWEST_KEY_CHARACTERS} or more characters; restore it, or remove it."
        raise SettingsError(msg, variable="THREADKEEP_ERASURE_KEY")
    return text


_COUNTED: Final[Mapping[str, str]] = {
    "memory": "memories",
    "summary": "summaries",
    "turn": "turns",
    "turn_seen": "turns",
    "proposal": "proposals",
    "tombstone": "tombstones",
    "audit": "audit",
}


class Indexes(Protocol):
    """What erasing needs of search."""

    async def erase(self, partition: Partition) -> None:
        """Drop the index of *partition*, and remove what a vector engine holds of it."""
        ...

    async def drop_erased_indexes(self) -> int:
        """Drop every index of a partition that was erased since it was read; return how many."""
        ...


class OwnerErasure:
    """Erases owners, and owners again.

    Args:
        storage: Where everything is but checkpoints.
        indexes: What is held in RAM of it.
        receipts: What is kept of an erasure.
        clock: What the time is.
        erase_threads: Erases the threads of an owner, while no further one can begin, and returns their ids.
        thread_storage: Keeps the threads, or those since it has been another one.
        opt_outs: Who wants no memory.
        forget_in_scopes: Removes a user's words from shared scopes, or a scope from the list; returns how many rows.
    """

    def __init__(
        self,
        storage: Storage,
        indexes: Indexes,
        receipts: ErasureReceipts,
        clock: Clock,
        *,
        erase_threads: Callable[[Owner], Awaitable[Sequence[str]]],
        thread_storage: Storage,
        opt_outs: OptOuts,
        forget_in_scopes: Callable[[Owner], Awaitable[int]],
    ) -> None:
        self._storage = storage
        self._indexes = indexes
        self._clock = clock
        self._erase_threads = erase_threads
        self._thread_storage = thread_storage
        self._opt_outs = opt_outs
        self._forget_in_scopes = forget_in_scopes
        self._noticed: tuple[str, int] | None = None
        self.receipts = receipts

    async def erase(self, owner: Owner) -> Erased:
        """Remove everything that is held about *owner*, physically.

        First the receipt is begun. From then on no thread of the owner can begin, until everything is erased: the
        threads, then the owner's words in shared scopes, then every row with its vectors, the queue and the proposals
        among them, and the indexes in RAM, here at once and in other processes within seconds. An erasing that was
        interrupted is finished at the next start, by a further call, or by :meth:`replay`. Writes of work that was in
        flight are refused.
        """
        position = await self._storage.position(owner.partition)
        receipt = await self.receipts.begin(owner, at=self._clock.now(), epoch=position.epoch)
        counts: Counter[str] = Counter()
        listed = 0
        async for item in iterate_items(self._storage, owner.partition, direction="oldest"):
            place = place_of(item)
            listed += place == "thread"
            counts[_COUNTED.get(place, "other")] += 1
        threads = tuple(await self._erase_threads(owner))
        counts["shared"] = await self._forget_in_scopes(owner)
        listed += 1  # the mark that the owner is being erased
        if self._thread_storage is not self._storage:
            await self._thread_storage.erase(owner.partition)
        # Before the storage's, so that one that is down leaves an owner who is found again; after it, because
        # another process may have read the rows in between.
        await self._indexes.erase(owner.partition)
        items = await self._storage.erase(owner.partition)
        await self._indexes.erase(owner.partition)
        await self._opt_outs.forget(owner)
        await self._storage.scrub(rewrite=True)
        if self._thread_storage is not self._storage:
            await self._thread_storage.scrub(rewrite=True)
        counts["threads"] = len(threads)
        begun_anew = (await self._storage.position(owner.partition)).epoch != receipt.epoch
        # Nothing of an owner about whom nothing was held can come back, and who comes now is of that epoch.
        done = replace(receipt, state="done", counts=dict(counts), epoch=receipt.epoch if begun_anew else "")
        kept_in = await self.receipts.keep(done)
        return Erased(max(0, items - listed), threads, done.counts, done.receipt_id, kept_in)

    async def replay(self, *files: Path) -> Replayed:
        """Erase erased owners again that a restored backup has brought back.

        Owners that came back on their own stay: their new data has another epoch.

        Args:
            files: Further receipts, from other machines.

        Raises:
            InvalidInputError: A file cannot be read.
        """
        receipts = await self.receipts.all(*files)
        known = by_name(receipts)
        key_id = await asyncio.to_thread(lambda: self.receipts.key.key_id)  # the first time, it is read from its file
        strange = sum(receipt.key_id != key_id for receipt in receipts)
        again: list[Erased] = []
        looked_at = 0
        async for partition in iterate_partitions(self._storage):
            owner = owner_of_partition(partition)
            if owner is None:
                continue
            looked_at += 1
            if await self._was_restored(owner, known.get(self.receipts.key.name_of(owner), ())):
                again.append(await self.erase(owner))
        return Replayed(len(receipts), looked_at, tuple(again), strange)

    async def notice(self) -> int:
        """Drop what is held in RAM of owners whom another process has erased; one small read where none was.

        Returns:
            How many indexes were dropped.
        """
        position = await self._storage.position(PARTITION)
        seen = (position.epoch, position.sequence)
        if seen == self._noticed:
            return 0
        self._noticed = seen
        return await self._indexes.drop_erased_indexes()

    async def _was_restored(self, owner: Owner, receipts: Sequence[ErasureReceipt]) -> bool:
        """Whether what is there of *owner* is what was erased."""
        if not receipts:
            return False
        position = await self._storage.position(owner.partition)
        if any(receipt.epoch == position.epoch for receipt in receipts):
            return True
        # Of another storage, to which it was copied: epochs are others there, but the times are kept.
        newest = (await self._storage.scan(owner.partition, limit=1)).items
        return bool(newest) and newest[0].updated_at <= max(receipt.at for receipt in receipts)
