"""A small burst on each storage, so that a break shows before `make invariants` runs."""

from __future__ import annotations

import pytest

from tests.conftest import missing
from tests.invariants import burst
from threadkeep_conformance.servers import PostgresServer

pytestmark = pytest.mark.slow

KINDS = ["sqlite", "postgres"]
"""`make invariants` takes every storage."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_turn_of_a_burst_is_answered_and_learnt(kind: str):
    """As many users as five connection pools hold, at the same moment."""
    if kind == "postgres" and (lacking := PostgresServer.missing()):
        missing(", ".join(lacking))

    row = burst.run(50, 5, 0.5, kinds=(kind,))[kind]

    assert row["n"] > 50
    assert {name: row[name] for name in ("failed", "given_up", "misreported", "unlearnt")} == {
        "failed": 0,
        "given_up": 0,
        "misreported": 0,
        "unlearnt": 0,
    }, row["errors"]


@pytest.mark.parametrize("kind", KINDS)
def test_turns_go_on_through_an_outage_and_lose_nothing(kind: str):
    """The storage stops for two seconds while ten users talk."""
    if kind == "postgres" and (lacking := PostgresServer.missing()):
        missing(", ".join(lacking))

    row = burst.run_outage(10, 4, kinds=(kind,), outage_seconds=2)[kind]

    assert row["n"] > 20
    assert (row["failed"], row["unlearnt"]) == (0, 0), row["errors"]
    assert kind == "sqlite" or row["degraded"] > 0
