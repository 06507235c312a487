"""Chapter 9: errors refuse what has no owner or another one, and say what to do."""

from __future__ import annotations

import pytest

import threadkeep
from threadkeep.errors import OwnerMismatchError, OwnerRequiredError, ThreadkeepError


class TestLock:
    """``for_owner`` returns a client for one verified user."""

    async def test_another_owner_is_refused(self, tk: threadkeep.Threadkeep) -> None:
        """Every service refuses another owner."""
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
        """The error says how to name the owner."""
        with pytest.raises(OwnerRequiredError):
            await tk.memories.remember("I have two cats.")


class TestError:
    async def test_every_error_has_a_code_and_advice(self, tk: threadkeep.Threadkeep) -> None:
        """Programs read the code, people the sentence."""
        with pytest.raises(ThreadkeepError) as raised:
            await tk.memories.remember("", owner="ana@x.org")

        assert raised.value.code == "input_invalid"
        assert "empty" in str(raised.value)
