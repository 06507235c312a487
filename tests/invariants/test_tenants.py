"""The invariant of two owners finds what it is there to find."""

from __future__ import annotations

import pytest

from tests.invariants import tenants
from threadkeep.doors import Whose, as_owner
from threadkeep.owners.owner import Owner
from threadkeep.storage.port import Partition

pytestmark = pytest.mark.slow


def test_two_owners_never_meet() -> None:
    """On the storages that need no server; ``make invariants`` takes 10,000 steps on every one."""
    found = tenants.run(200, storages=("memory", "sqlite"))

    assert found["n"] >= 200
    assert found["leaks"] == 0


def test_partitions_that_meet_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two owners have one place, it is seen within a few steps, in more than one way."""
    monkeypatch.setattr(Partition, "digest", b"the same".ljust(32))

    assert tenants.run(120, storages=("memory",))["leaks"] > 2


def test_a_door_that_is_not_locked_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where naming the other is not refused."""

    def let_in(door: Whose, given: str | Owner | None) -> Owner | None:
        return door.default if given is None else as_owner(given)

    monkeypatch.setattr(Whose, "__call__", let_in)

    assert tenants.run(120, storages=("memory",))["leaks"] > 2
