"""Servers that break under load: nothing acknowledged is lost, nothing is done twice, and all goes on by itself."""

from __future__ import annotations

import re

import pytest

from tests.conftest import missing
from tests.faults.breaking import FAULTS, Sizes, break_it
from tests.faults.places import DiskError
from threadkeep_conformance.servers import PostgresServer, RedisServer

pytestmark = [pytest.mark.linux, pytest.mark.slow]

TOLD = {
    "killed": "cannot be reached|ended the connection",
    "cut": "connection|cannot be reached",
    "exhausted": "did not answer|were in use",
    "full disk": "Free some space|cannot be reached",
}
"""What writers hear; a Redis that syncs each commit and cannot ends itself."""


@pytest.mark.long
@pytest.mark.parametrize("fault", list(FAULTS))
@pytest.mark.parametrize("kind", ["postgres", pytest.param("redis", marks=pytest.mark.soak)])
def test_what_was_acknowledged_is_there_once(kind: str, fault: str):
    """`python -m tests.faults` does the same at full size, and says how long it took to go on."""
    if lacking := {"postgres": PostgresServer, "redis": RedisServer}[kind].missing():
        missing(", ".join(lacking))
    try:
        found = break_it(kind, fault, Sizes())
    except DiskError as error:
        pytest.skip(f"missing here: {error}")

    assert (found.lost, found.doubled) == (0, 0)
    assert found.acknowledged > 40
    if fault == "stalled":  # a second is waited for; the turns are what goes on
        assert found.turn_delay_ms
        return
    if (kind, fault) == ("redis", "cut"):  # a token makes a commit repeatable, and one attempt got through
        assert found.unknown == 0
        return
    assert found.unknown > 0
    assert any(re.search(TOLD[fault], said) for said in found.said), found.said
