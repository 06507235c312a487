"""Encryption of items: a wrapper around any storage.

:class:`~threadkeep.storage.encryption.storage.EncryptedStorage` is the wrapper; ``cipher`` encrypts and decrypts the
items of a partition and caches keys; ``key_store`` stores the keys. Everything else is imported only if a master key
is set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from threadkeep.errors import SealError
from threadkeep.storage.interface import Partition, Ref

if TYPE_CHECKING:
    from threadkeep.storage.interface import Storage

MARKER: Final = Ref(Partition("root", (".sealed",)), (".sealed",), "marker")
FORMAT: Final = 1


async def refuse_encrypted(storage: Storage) -> None:
    """Check that the connected *storage* is not encrypted.

    Raises:
        SealError: It is encrypted, and no master key is set.
    """
    (marker,) = await storage.get([MARKER])
    if marker is not None:
        msg = f"The items in {storage.location} are encrypted: set THREADKEEP_MASTER_KEY to their master key."
        raise SealError(msg, storage=storage.name)
