"""Check that every encrypted item decrypts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from threadkeep.errors import ConflictError, DamagedItemError, SealError
from threadkeep.storage.encryption import MARKER
from threadkeep.storage.encryption.cipher import UnknownKeyError, encrypted_with
from threadkeep.storage.interface import Batch, Delete, Item, Partition, Storage, iterate_pages, iterate_partitions

if TYPE_CHECKING:
    from threadkeep.storage.encryption.key_store import KeyStore, StoredKeys


@dataclass(slots=True)
class VerificationReport:
    """The result of a verification.

    Attributes:
        items: How many items decrypt.
        damaged: How many are damaged or were changed, by partition.
        erased: How many are of destroyed keys: a backup was restored, or an erasure was interrupted.
        no_key: The stored ids of partitions with a missing or unusable key.
        removed: How many were removed.
    """

    items: int = 0
    damaged: dict[Partition, int] = field(default_factory=dict[Partition, int])
    erased: int = 0
    no_key: list[str] = field(default_factory=list[str])
    removed: int = 0

    @property
    def sound(self) -> bool:
        """Whether everything decrypts."""
        return not self.damaged and not self.no_key


async def verify(inner: Storage, keys: KeyStore, *, remove: bool = False) -> VerificationReport:
    """Decrypt every item in *inner*.

    Args:
        inner: The connected storage of the encrypted items.
        keys: The connected storage of their keys.
        remove: Whether to remove damaged items and those of destroyed keys; items without a key stay.
    """
    report = VerificationReport()
    async for partition in iterate_partitions(inner):
        if partition == MARKER.partition:
            continue
        try:
            (stored,) = await keys.load(list(partition.parts[:1]))
        except (SealError, DamagedItemError):
            report.no_key.append(partition.parts[0])
            continue
        await _verify_partition(inner, partition, stored, report, remove=remove)
    return report


async def _verify_partition(
    inner: Storage, stored: Partition, keys: StoredKeys, report: VerificationReport, *, remove: bool
) -> None:
    async for page in iterate_pages(inner, stored):
        bad: list[Item] = []
        for row in page:
            if keys.cipher is None and not keys.destroyed:
                report.no_key.append(stored.parts[0])
                return
            if _is_erased(row, keys):
                report.erased += 1
                bad.append(row)
            elif _decrypts(row, keys):
                report.items += 1
            else:
                owner = keys.cipher.partition if keys.cipher is not None else stored
                report.damaged[owner] = report.damaged.get(owner, 0) + 1
                bad.append(row)
        if remove:
            report.removed += await _remove_items(inner, stored, bad)


def _is_erased(row: Item, keys: StoredKeys) -> bool:
    return encrypted_with(row) in keys.former


def _decrypts(row: Item, keys: StoredKeys) -> bool:
    if keys.cipher is None:
        return False
    try:
        keys.cipher.decrypt([row])
    except (DamagedItemError, UnknownKeyError):
        return False
    return True


async def _remove_items(inner: Storage, stored: Partition, rows: list[Item]) -> int:
    removed = 0
    for row in rows:
        delete = Delete(row.ref.namespace, row.ref.key, expect=row.revision)
        try:
            await inner.commit(Batch(stored, [delete]))
        except ConflictError:  # written again in the meantime
            continue
        removed += 1
    return removed
