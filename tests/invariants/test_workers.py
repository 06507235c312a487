"""A few kills of each, so that a break shows before `make invariants` runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.invariants import workers

pytestmark = [pytest.mark.slow, pytest.mark.linux]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
class TestAborted:
    def test_no_child_is_left(self, monkeypatch: pytest.MonkeyPatch):
        """Ctrl-C in the middle of it ends them all: a worker that lives on would take what others wait for."""
        born: list[int] = []

        class Noted(workers._Child):
            def __init__(self, live: Callable[[int, int], object]) -> None:
                super().__init__(live)
                born.append(self.pid)

            def killed(self) -> bytes:
                raise KeyboardInterrupt

        monkeypatch.setattr(workers, "_Child", Noted)
        with pytest.raises(KeyboardInterrupt):
            workers.run(3)

        assert len(born) == 3  # the one that records, and two workers
        assert [pid for pid in born if Path(f"/proc/{pid}").exists()] == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
class TestKilledWorkers:
    def test_sqlite(self):
        """Two at a time share one file."""
        found = workers.run(12)

        assert (found["lost"], found["doubled"]) == (0, 0)
        assert found["turns"] >= 48
        assert found["caught"] >= 9

    def test_postgres(self, postgres_url: str):
        """Two at a time share one server."""
        found = workers.run(4, url=postgres_url)

        assert (found["lost"], found["doubled"]) == (0, 0)
        assert found["turns"] >= 16
        assert found["caught"] >= 3
