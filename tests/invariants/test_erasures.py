"""A few owners are erased while others write for them, so that a break shows before `make invariants` runs."""

from __future__ import annotations

import pytest

from tests.conftest import missing
from tests.invariants import erasures
from threadkeep_conformance.servers import PostgresServer

pytestmark = pytest.mark.slow

KINDS = ["sqlite", "postgres"]
"""`make invariants` takes every storage."""


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_an_erased_owner_is_left_or_comes_back(kind: str):
    """Nine writers at work for each; afterwards every byte is looked at."""
    if kind == "postgres" and (lacking := PostgresServer.missing()):
        missing(", ".join(lacking))

    row = erasures.run(10, kinds=(kind,))[kind]

    assert row["turns"] > 0
    assert {name: row[name] for name in ("residues", "late", "lost")} == {"residues": 0, "late": 0, "lost": 0}, row
