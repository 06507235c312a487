"""A few turns of each kind of writer with each strategy, so that a break shows before `make invariants` runs."""

from __future__ import annotations

import os

import pytest

from tests.conftest import missing
from tests.invariants import strategies
from threadkeep_conformance.servers import PostgresServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.linux,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

KINDS = ["sqlite", "postgres"]
"""`make invariants` takes every storage."""


@pytest.mark.parametrize("kind", KINDS)
def test_returned_turns_stay_and_losers_get_an_error(kind: str):
    """One writer alone, two in threads and two in processes; with every strategy."""
    if kind == "postgres" and (lacking := PostgresServer.missing()):
        missing(", ".join(lacking))

    row = strategies.run(12, kinds=(kind,))[kind]

    assert row["n"] == 12 * 12
    assert row["told"] > 0  # they met
    assert {name: row[name] for name in ("lost", "doubled")} == {"lost": 0, "doubled": 0}
