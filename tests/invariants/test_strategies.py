"""A few turns of each kind of writer with each strategy, so that a break shows before `make invariants` runs."""

from __future__ import annotations

import os

import pytest

from tests.invariants import strategies
from threadkeep_conformance.servers import MongoServer, PostgresServer, RedisServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.linux,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

_SERVERS = {"postgres": PostgresServer, "redis": RedisServer, "mongodb": MongoServer}


@pytest.mark.parametrize("kind", strategies.KINDS)
def test_returned_turns_stay_and_losers_get_an_error(kind: str):
    """One writer alone, two in threads and two in processes; with every strategy."""
    server = _SERVERS.get(kind)
    if server is not None and (lacking := server.missing()):
        pytest.skip(f"missing here: {', '.join(lacking)}")

    turns = 18 if kind == "mongodb" else 36  # the server that stands in for it takes 80 ms for each

    row = strategies.run(turns, kinds=(kind,))[kind]

    assert row["n"] == turns * (8 if kind == "memory" else 12)
    assert row["told"] > 0  # they met
    assert {name: row[name] for name in ("lost", "doubled")} == {"lost": 0, "doubled": 0}
