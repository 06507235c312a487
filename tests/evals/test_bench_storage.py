"""The benchmark of storages: its lines, its peers, and what it says where a peer cannot."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from threadkeep.errors import InvalidInputError, SettingsError
from threadkeep_conformance.servers import PostgresServer
from threadkeep_evals.bench_peers import KINDS
from threadkeep_evals.bench_storage import StorageSizes, run_storage_bench
from threadkeep_evals.facts import capacity, more_facts
from threadkeep_evals.rig import render_table

KEYS = ["name", "n", "ours_p50_ms", "ours_p95_ms", "peer", "peer_p50_ms", "ratio"]
TINY = StorageSizes(totals=(24,), writes=8, searches=8, peer_searches=5, cold=1)
WRITES = ["write, 1 client", "write, 8 clients"]
SEARCHES = ["search, warm, 1 client", "search, warm, 8 clients"]


def lines_of(kind: str) -> list[dict[str, Any]]:
    """Measure *kind* with tiny sizes; look at what every line has."""
    report = run_storage_bench([kind], TINY)
    assert set(report["machine"]["servers"]) == {kind}
    for line in report["lines"]:
        assert list(line) == KEYS
        assert line["name"].startswith(f"{kind}: ")
        assert line["peer"].startswith("LangGraph ")
        assert line["ours_p50_ms"] > 0
    return report["lines"]


def names_of(lines: list[dict[str, Any]]) -> list[str]:
    return [line["name"].partition(": ")[2] for line in lines]


@pytest.mark.slow
class TestLines:
    def test_memory_is_never_cold(self):
        """Everything of it is measured beside LangGraph's own, warm."""
        lines = lines_of("memory")

        assert names_of(lines) == [*WRITES, *SEARCHES]
        assert all(line["ratio"] for line in lines)

    def test_sqlite_is_measured_cold_too(self):
        """Where the peer cannot search on this Python, the line says why and has no figure of it."""
        lines = lines_of("sqlite")

        assert names_of(lines) == [*WRITES, *SEARCHES, "search, cold"]
        assert all(line["ratio"] for line in lines[:2])
        for line in lines[2:]:
            assert line["ratio"] or "cannot load the extension" in line["peer"]

    def test_people_read_a_table(self):
        """A peer without a figure is a dash."""
        report = run_storage_bench(["sqlite"], TINY)
        report["lines"][2] |= {"peer_p50_ms": None, "ratio": None}
        shown = StringIO()

        Console(file=shown, width=240).print(render_table(report))

        assert "sqlite: write, 8 clients" in shown.getvalue()
        assert "–" in shown.getvalue()


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["postgres", "redis", "mongodb"])
def test_servers_are_started_for_it(kind: str):
    lines = lines_of(kind)

    assert names_of(lines) == [*WRITES, *SEARCHES, "search, cold"]
    assert [bool(line["ratio"]) for line in lines] == [True, True, *(3 * [kind != "mongodb"])]


def test_there_are_as_many_facts_as_are_asked_for():
    """More than the generator has: each text is another one."""
    facts = more_facts(capacity() + 500, seed=11)

    assert len({fact.text for fact in facts}) == len(facts) == capacity() + 500


@pytest.mark.slow
def test_a_slow_peer_is_given_up_and_the_line_says_so():
    """What it could not store in time is no figure of its."""
    hasty = replace(TINY, totals=(600,), peer_seconds=0.0)

    lines = run_storage_bench(["memory"], hasty)["lines"]

    assert [bool(line["ratio"]) for line in lines] == [True, True, False, False]
    assert all("took 0 s to store" in line["peer"] for line in lines[2:])


@pytest.mark.slow
def test_a_server_that_takes_too_long_is_given_up_and_the_line_says_so():
    """Ours as well: nothing is searched that was not stored, and what fits is measured."""
    report = run_storage_bench(["memory"], replace(TINY, totals=(600,), ours_seconds=0.0))
    lines = report["lines"]

    assert render_table(report).row_count == 5
    assert [bool(line["ours_p50_ms"]) for line in lines] == [True, True, False, False, False]
    assert all("ours took 0 s to store 0 of 1,200" in line["peer"] for line in lines[2:])


def test_a_storage_that_there_is_not_is_refused():
    with pytest.raises(InvalidInputError, match=", ".join(KINDS)):
        run_storage_bench(["oracle"], TINY)


def test_a_server_that_cannot_be_started_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(PostgresServer, "needs", ("no_such_module",))

    with pytest.raises(SettingsError, match="no_such_module"):
        run_storage_bench(["postgres"], TINY)
