"""One kill of each server, so that a break shows before `make invariants` runs."""

from __future__ import annotations

import pytest

from tests.conftest import missing
from tests.invariants import restarts

pytestmark = [pytest.mark.slow, pytest.mark.linux]

KINDS = ("postgres", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("redis", "mongodb")))


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_acknowledged_outlives_a_kill_of_the_server(kind: str):
    """Each user has a turn before and after it, in one thread."""
    if lacking := restarts.SERVERS[kind].missing():
        missing(", ".join(lacking))

    found = restarts.run(1, kinds=(kind,))[kind]

    assert {name: found[name] for name in ("lost", "doubled", "misread")} == {"lost": 0, "doubled": 0, "misread": 0}
    assert found["turns"] >= found["recorded"] >= 2 * len(restarts.NAMES)
