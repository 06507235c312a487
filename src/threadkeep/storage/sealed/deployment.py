"""What a sealed deployment has of its own: an id, and the key that partitions and kinds of work are named by.

The key is made with the storage and stays; it is wrapped by a master key in the storage's marker.
"""

from __future__ import annotations

import base64
import hmac
import os
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from threadkeep.errors import DamagedItemError, RevisionConflictError, SealError
from threadkeep.ids import new_id
from threadkeep.storage.port import Batch, Expectation, Partition, Put, Storage
from threadkeep.storage.sealed.marker import FORMAT, MARKER
from threadkeep.storage.sealed.master import KEY_BYTES, MasterKeys, Wrapped, derived

if TYPE_CHECKING:
    from threadkeep.storage.port import Item

_PID_BYTES: Final = 16
_PIDS_KEPT: Final = 4096

MARKER_ITEMS: Final = 1
"""So many items, each in a partition of its own, are the storage's and nobody's."""


class Deployment:
    """Names what is looked for across partitions.

    Args:
        key: 32 random bytes.
        storage_id: Tells this storage from others.
    """

    def __init__(self, key: bytes, *, storage_id: str) -> None:
        self.storage_id: str = storage_id
        self._partitions = derived(key, b"partitions")
        self._kinds = derived(key, b"kinds of work")
        self._pids: OrderedDict[Partition, str] = OrderedDict()

    def pid(self, partition: Partition) -> str:
        """Return how *partition* is stored."""
        pid = self._pids.get(partition)
        if pid is None:
            pid = self._pids[partition] = _named(self._partitions, partition.digest)
            if len(self._pids) > _PIDS_KEPT:
                self._pids.popitem(last=False)
        return pid

    def due_kind(self, kind: str) -> str:
        """Return how the *kind* of work is stored."""
        return _named(self._kinds, kind.encode("utf-16-le", "surrogatepass"))


async def deployment_of(storage: Storage, masters: MasterKeys) -> Deployment:
    """Return the deployment of *storage*, which is connected; an empty one becomes sealed by this.

    Raises:
        SealError: It is not sealed, or by another master key.
        DamagedItemError: Its marker was changed.
    """
    (marker,) = await storage.get([MARKER])
    if marker is None:
        items = (await storage.stats()).items
        (marker,) = await storage.get([MARKER])  # what was counted may be the marker of another process
        if marker is None and items:
            msg = (
                f"The items in {storage.location} are not sealed, and a master key is set; unset it, "
                "or choose a new storage and copy them there."
            )
            raise SealError(msg, storage=storage.name)
    if marker is None:
        with suppress(RevisionConflictError):  # another process was first: its marker is the one
            await storage.commit(Batch(MARKER.partition, [_put(os.urandom(KEY_BYTES), new_id(), masters, "absent")]))
        (marker,) = await storage.get([MARKER])
    if marker is None:
        msg = f"The storage in {storage.location} was emptied while it was opened; open it again."
        raise SealError(msg, storage=storage.name)
    key, storage_id = _key_of(marker, masters)
    return Deployment(key, storage_id=storage_id)


async def rewrap_marker(storage: Storage, masters: MasterKeys) -> None:
    """Wrap the deployment's key with the current master key, where an older one does."""
    (marker,) = await storage.get([MARKER])
    if marker is not None and marker.value.get("master_id") != masters.current:
        key, storage_id = _key_of(marker, masters)
        with suppress(RevisionConflictError):  # somebody else is doing the same
            await storage.commit(Batch(MARKER.partition, [_put(key, storage_id, masters, marker.revision)]))


def _put(key: bytes, storage_id: str, masters: MasterKeys, expect: Expectation) -> Put:
    value = {"format": FORMAT, "storage": storage_id, **masters.wrap(key, bound_to=storage_id)._asdict()}
    return Put(MARKER.namespace, MARKER.key, value, expect=expect)


def _key_of(marker: Item, masters: MasterKeys) -> tuple[bytes, str]:
    match marker.value:
        case {"format": int() as written} if written > FORMAT:
            msg = "A newer version of Threadkeep sealed this storage; upgrade Threadkeep."
            raise SealError(msg)
        case {"storage": str() as storage_id, "master_id": str() as master_id, "data": str() as data} if (
            storage_id.isascii()
        ):
            return masters.unwrap(Wrapped(master_id, data), bound_to=storage_id), storage_id
        case _:
            msg = "The marker of this sealed storage is damaged, or was changed outside Threadkeep; restore a backup."
            raise DamagedItemError(msg)


def _named(key: bytes, what: bytes) -> str:
    digest = hmac.digest(key, what, "sha256")[:_PID_BYTES]
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
