"""Opens everything there is and says what does not: damage, and what is left of erased times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from threadkeep.errors import ConflictError, DamagedItemError, SealError
from threadkeep.storage.port import Batch, Delete, Partition
from threadkeep.storage.sealed.marker import MARKER
from threadkeep.storage.sealed.seal import UnknownKeyError, sealed_with
from threadkeep.storage.walking import pages_in, partitions_in

if TYPE_CHECKING:
    from threadkeep.storage.port import Item, Storage
    from threadkeep.storage.sealed.keystore import Keys, KeyStore


@dataclass(slots=True)
class Checked:
    """What was found.

    Attributes:
        items: How many open.
        damaged: How many were changed or are damaged, by whose they are.
        erased: How many are of keys that were destroyed: a backup was put back, or erasing was interrupted.
        no_key: Partitions whose key is missing or cannot be used, as they are stored.
        removed: How many were removed.
    """

    items: int = 0
    damaged: dict[Partition, int] = field(default_factory=dict[Partition, int])
    erased: int = 0
    no_key: list[str] = field(default_factory=list[str])
    removed: int = 0

    @property
    def sound(self) -> bool:
        """Whether everything opens."""
        return not self.damaged and not self.no_key


async def checked(inner: Storage, keys: KeyStore, *, remove: bool = False) -> Checked:
    """Open every item in *inner*.

    Args:
        inner: The sealed items, connected.
        keys: The keys to them, connected.
        remove: Remove what is damaged and what is of erased times; what only lacks its key is kept.
    """
    found = Checked()
    async for partition in partitions_in(inner):
        if partition == MARKER.partition:
            continue
        try:
            (known,) = await keys.load(list(partition.parts[:1]))
        except (SealError, DamagedItemError):
            found.no_key.append(partition.parts[0])
            continue
        await _check(inner, partition, known, found, remove=remove)
    return found


async def _check(inner: Storage, stored: Partition, known: Keys, found: Checked, *, remove: bool) -> None:
    async for page in pages_in(inner, stored):
        bad: list[Item] = []
        for row in page:
            if known.seal is None and not known.destroyed:
                found.no_key.append(stored.parts[0])
                return
            if _is_erased(row, known):
                found.erased += 1
                bad.append(row)
            elif _opens(row, known):
                found.items += 1
            else:
                whose = known.seal.partition if known.seal is not None else stored
                found.damaged[whose] = found.damaged.get(whose, 0) + 1
                bad.append(row)
        if remove:
            found.removed += await _removed(inner, stored, bad)


def _is_erased(row: Item, known: Keys) -> bool:
    return sealed_with(row) in known.former


def _opens(row: Item, known: Keys) -> bool:
    if known.seal is None:
        return False
    try:
        known.seal.opened([row])
    except (DamagedItemError, UnknownKeyError):
        return False
    return True


async def _removed(inner: Storage, stored: Partition, rows: list[Item]) -> int:
    removed = 0
    for row in rows:
        delete = Delete(row.ref.namespace, row.ref.key, expect=row.revision)
        try:
            await inner.commit(Batch(stored, [delete]))
        except ConflictError:  # written anew meanwhile
            continue
        removed += 1
    return removed
