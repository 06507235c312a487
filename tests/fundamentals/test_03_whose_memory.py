"""A memory that is locked to one owner cannot name anything of another."""

from __future__ import annotations

import pytest

import threadkeep
from threadkeep.errors import OwnerMismatchError, OwnerRequiredError


class TestLock:
    """``for_owner`` is what a service holds for one request."""

    async def test_another_owner_is_refused(self, tk: threadkeep.Threadkeep) -> None:
        """Naming another owner raises, in every room."""
        anas = tk.for_owner("ana@x.org")

        with pytest.raises(OwnerMismatchError):
            await anas.memories.list(owner="bob@x.org")
        with pytest.raises(OwnerMismatchError):
            await anas.recall("Where do I live?", owner="bob@x.org")
        with pytest.raises(OwnerMismatchError):
            anas.for_owner("bob@x.org")
        with pytest.raises(OwnerMismatchError):
            await anas.store.asearch(("memories", tk.label("bob@x.org")))

    async def test_no_owner_need_be_named(self, tk: threadkeep.Threadkeep) -> None:
        """Calls without an owner mean the one it is locked to."""
        anas = tk.for_owner("ana@x.org")

        await anas.memories.remember("I have two cats.")

        assert [memory.text for memory in await tk.memories.list(owner="ana@x.org")] == ["I have two cats."]


class TestRequire:
    """There is no shared default owner."""

    async def test_a_call_without_owner_is_refused(self, tk: threadkeep.Threadkeep) -> None:
        """Nobody's memory is not everybody's."""
        with pytest.raises(OwnerRequiredError):
            await tk.memories.remember("I have two cats.")
