"""What every storage backend does, as tests to inherit.

The tests are arranged by what the methods of :class:`threadkeep.storage.interface.Storage` promise and quote
its docstrings. A backend's test file gives a fixture::

    class TestMyStorage(SharedStorageContract):
        @pytest.fixture
        def open_storage(self, clock: FrozenClock, server: MyServer) -> OpenStorage:
            return lambda *, key_prefix="": MyStorage(server.url, key_prefix=key_prefix, clock=clock)

``SharedStorageContract`` is for a backend that two processes can open at one location, and
``StorageContract`` for one that is its own. It needs pytest and pytest-asyncio.
"""

from __future__ import annotations

import pytest

from threadkeep.testing.storage_contract.changes import Following
from threadkeep.testing.storage_contract.committing import Committing
from threadkeep.testing.storage_contract.expiring import Expiring
from threadkeep.testing.storage_contract.item_bytes import ItemBytes
from threadkeep.testing.storage_contract.limiting import Limiting
from threadkeep.testing.storage_contract.reading import Reading
from threadkeep.testing.storage_contract.scanning import Scanning
from threadkeep.testing.storage_contract.serving import Serving
from threadkeep.testing.storage_contract.sharing import Sharing
from threadkeep.testing.storage_contract.world import OpenStorage

__all__ = ["OpenStorage", "SharedStorageContract", "StorageContract"]


@pytest.mark.asyncio
class StorageContract(Reading, Committing, ItemBytes, Expiring, Scanning, Following, Serving, Limiting):
    """Everything that one storage promises."""


@pytest.mark.asyncio
class SharedStorageContract(StorageContract, Sharing):
    """The same, and what two storages at one location promise."""
