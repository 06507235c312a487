"""The invariant of two owners finds what it is there to find."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest

import threadkeep
from tests.invariants import tenants
from tests.invariants.scopes import KINDS, NAMES
from tests.storage.postgres_world import run
from threadkeep.errors import ScopeNotFoundError
from threadkeep.identity import Owner, OwnerKind, OwnerScope, to_owner
from threadkeep.scopes.models import Role
from threadkeep.scopes.repository import ScopeRepository, member_ref
from threadkeep.settings import Settings
from threadkeep.storage.interface import Item, Partition
from threadkeep.testing import HashingEmbedder

pytestmark = pytest.mark.slow
FROZEN = datetime(2026, 1, 1, tzinfo=UTC)


def test_two_owners_never_meet() -> None:
    """Users, teams, agents and tenants, without a server; ``make soak`` takes 200,000 steps on every storage."""
    found = tenants.run(1_000, storages=("memory", "sqlite"))

    assert found["n"] >= 1_000
    assert found["leaks"] == 0


def test_partitions_that_meet_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two owners have one place, it is seen within a few steps, in more than one way."""
    monkeypatch.setattr(Partition, "digest", b"the same".ljust(32))

    assert tenants.run(120, storages=("memory",))["leaks"] > 2


def test_unprotected_route_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where naming the other is not refused."""

    def let_in(scope: OwnerScope, owner: str | Owner | None) -> Owner | None:
        return scope.default if owner is None else to_owner(owner)

    monkeypatch.setattr(OwnerScope, "resolve", let_in)

    assert tenants.run(400, storages=("memory",))["leaks"] > 0


def test_scopes_in_the_partition_of_a_user_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a team, an agent and a user of one name have one partition."""
    label = Owner.__dict__["label"].func
    monkeypatch.setattr(Owner, "parts", property(lambda owner: (owner.tenant, owner.user_id)))
    monkeypatch.setattr(Owner, "label", property(lambda owner: label(Owner(owner.user_id, owner.tenant))))

    with suppress(ScopeNotFoundError):  # what one of them erased, the others miss
        assert tenants.run(1_500, storages=("memory",))["leaks"] > 0


def test_scope_without_roles_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a user who is no member is let in."""

    async def let_in(scopes: ScopeRepository, scope: Owner, member: Owner, role: Role) -> Item:
        (item,) = await scopes._storage.get([member_ref(scope, member)])  # pyright: ignore[reportPrivateUsage]
        return item or Item(member_ref(scope, member), {}, revision=0, created_at=FROZEN, updated_at=FROZEN)

    monkeypatch.setattr(ScopeRepository, "require_role", let_in)

    assert tenants.run(200, storages=("memory",))["leaks"] > 0


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["promote", "propose", "reject"])
def test_words_that_erasing_leaves_in_scopes_are_found(
    monkeypatch: pytest.MonkeyPatch, kind: OwnerKind, how: str, *, broken: bool
) -> None:
    """Where erasing a user does not look into scopes; and only there.

    The step is taken here and not at random: which steps Hypothesis takes for a seed depends on the modules that are
    loaded.
    """

    async def forget(_scopes: ScopeRepository, _owner: Owner) -> int:
        return 0

    if broken:
        monkeypatch.setattr(ScopeRepository, "forget", forget)
    tally = tenants.Tally()
    with threadkeep.open("memory://", embedder=HashingEmbedder(), settings=Settings.load(capture="off")) as tk:
        pair = type("Pair", (tenants.Tenants,), {"tk": tk, "tally": tally, "raw": None})()
        pair.begin(tenants.ALIKE[0], NAMES[0])
        pair.contribute_and_be_erased(0, kind, how, 0)

    assert any("still says what an erased user has said" in leak for leak in tally.leaks) == broken


@pytest.mark.long
def test_two_who_share_a_database_never_meet(postgres_url: str) -> None:
    """By the storage, and by raw statements of a login that has the application's rights."""
    tally = tenants.Tally()

    tenants.walk(postgres_url, tally, until=300)

    assert tally.raw > 0
    assert tally.leaks == []


@pytest.mark.long
@pytest.mark.parametrize(
    "broken",
    [
        "ALTER TABLE threadkeep.items DISABLE ROW LEVEL SECURITY",
        (
            "CREATE OR REPLACE FUNCTION threadkeep.serves() RETURNS boolean LANGUAGE sql STABLE AS "
            "$$ SELECT current_setting('threadkeep.service', true) = 'on' $$"
        ),
    ],
    ids=["no policy", "whoever says so is the service"],
)
def test_a_database_that_does_not_keep_them_apart_is_found_out(postgres_url: str, broken: str) -> None:
    """Though the storage itself goes on asking for one owner only."""
    with threadkeep.open(postgres_url, embedder="none") as tk:
        tk.sync.ready()
    run(postgres_url, broken)
    tally = tenants.Tally()

    tenants.walk(postgres_url, tally, until=300)

    assert any("raw statement" in leak for leak in tally.leaks)
    assert all("raw statement" in leak for leak in tally.leaks)
