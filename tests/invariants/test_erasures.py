"""A few owners are erased while others write for them, so that a break shows before `make invariants` runs."""

from __future__ import annotations

import pytest

from tests.invariants import erasures
from threadkeep_conformance.servers import MongoServer, PostgresServer, RedisServer

pytestmark = pytest.mark.slow

_SERVERS = {"postgres": PostgresServer, "redis": RedisServer, "mongodb": MongoServer}


@pytest.mark.parametrize("kind", erasures.KINDS)
def test_nothing_of_an_erased_owner_is_left_or_comes_back(kind: str):
    """Nine writers at work for each; afterwards every byte is looked at."""
    server = _SERVERS.get(kind)
    if server is not None and (lacking := server.missing()):
        pytest.skip(f"missing here: {', '.join(lacking)}")

    row = erasures.run(10, kinds=(kind,))[kind]

    assert row["turns"] > 0
    assert {name: row[name] for name in ("residues", "late", "lost")} == {"residues": 0, "late": 0, "lost": 0}
