"""The one item by which a sealed storage is told from one that is not, with a key or without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from threadkeep.errors import SealError
from threadkeep.storage.port import Partition, Ref

if TYPE_CHECKING:
    from threadkeep.storage.port import Storage

MARKER: Final = Ref(Partition("root", (".sealed",)), (".sealed",), "marker")
FORMAT: Final = 1


async def refuse_sealed(storage: Storage) -> None:
    """Do nothing for a storage that is not sealed; it is connected.

    Raises:
        SealError: It is sealed, and no key was given.
    """
    (marker,) = await storage.get([MARKER])
    if marker is not None:
        msg = f"The items in {storage.location} are sealed; set THREADKEEP_MASTER_KEY to the key they were sealed with."
        raise SealError(msg, storage=storage.name)
