"""A few kills of each, so that a break shows before `make invariants` runs."""

from __future__ import annotations

import os

import pytest

from tests.invariants import workers

pytestmark = [pytest.mark.slow, pytest.mark.linux]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
class TestKilledWorkers:
    def test_sqlite(self):
        """Two at a time share one file."""
        found = workers.run(12)

        assert (found["turns"], found["lost"], found["doubled"]) == (48, 0, 0)
        assert found["caught"] > 0

    def test_postgres(self, postgres_url: str):
        """Two at a time share one server."""
        found = workers.run(12, url=postgres_url)

        assert (found["turns"], found["lost"], found["doubled"]) == (48, 0, 0)
        assert found["caught"] > 0
