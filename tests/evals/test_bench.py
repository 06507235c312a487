from __future__ import annotations

import asyncio
from io import StringIO
from itertools import groupby

import pytest
from rich.console import Console

from threadkeep.errors import InvalidInputError
from threadkeep.models.base import LOCAL_NAME
from threadkeep_evals import bench_checkpoints
from threadkeep_evals.bench import run_bench
from threadkeep_evals.bench_turn import embedding_lines
from threadkeep_evals.facts import make_facts
from threadkeep_evals.rig import Line, Lookup, Side, alternate, alternated, render_table

KEYS = ["name", "n", "ours_p50_ms", "ours_p95_ms", "peer", "peer_p50_ms", "ratio"]


class TestLine:
    def test_ratio_is_the_peers_over_ours(self):
        """A peer that takes four times as long gives a ratio of 4."""
        line = Line("search", 10, [1.0, 2.0, 3.0], "peer", [8.0]).as_json()

        assert line == {
            "name": "search",
            "n": 10,
            "ours_p50_ms": 2.0,
            "ours_p95_ms": 2.9,
            "peer": "peer",
            "peer_p50_ms": 8.0,
            "ratio": 4.0,
        }

    def test_memory_has_no_milliseconds(self):
        """A line about memory says megabytes and leaves the times empty."""
        line = Line("memory", 10, megabytes=1.234567).as_json()

        assert list(line) == [*KEYS, "ours_mb"]
        assert line["ours_mb"] == 1.23
        assert all(line[key] is None for key in KEYS[2:])


class TestLookup:
    async def test_gives_both_sides_the_same_vectors(self):
        """What we embed and what the peer embeds are equal and of unit length."""
        lookup = Lookup(["a", "b"], seed=1, dims=8)

        ours, theirs = await lookup.embed(["b", "a"]), await lookup.as_langgraph(["b", "a"])

        assert ours.tolist() == theirs
        assert (ours**2).sum(axis=1) == pytest.approx([1.0, 1.0], abs=1e-6)

    async def test_are_the_same_in_every_process(self):
        """What one process stores is near what another asks for, and everything else is not."""
        first, second = await Lookup(["a"]).embed(["a", "b"]), await Lookup().embed(["b", "a"])

        assert first.tolist() == second[::-1].tolist()
        assert (first[0] @ first[0]) == pytest.approx(1.0)
        assert abs(first[0] @ first[1]) < 0.3


class TestAlternate:
    async def test_each_round_of_many_sides_begins_with_another_one(self):
        """No side always follows the same one."""
        calls: list[str] = []

        def side(name: str) -> Side:
            async def measure(_number: int) -> float:
                calls.append(name)
                return 1.0

            return Side(measure, 3)

        milliseconds = await alternate(*map(side, "abc"), in_a_row=1)

        assert milliseconds == [[1.0] * 3] * 3
        assert "".join(calls) == "abc" + "abc" + "bca" + "cab"

    @pytest.mark.parametrize(
        ("ours_times", "peer_times", "rounds"),
        [(240, 24, 12), (24, 240, 12), (240, 240, 12), (60, 20, 10), (20, 20, 10), (6, 6, 6), (20, 0, 10)],
    )
    async def test_rounds_take_turns(self, ours_times, peer_times, rounds):
        """After one unmeasured time each, rounds of twenty of what is measured more often, but ten of them at least."""
        calls: list[tuple[str, int]] = []

        async def one(who: str, number: int) -> None:
            await asyncio.sleep(0)
            calls.append((who, number))

        ours, theirs = await alternated(
            lambda number: one("ours", number),
            lambda number: one("peer", number),
            ours_times=ours_times,
            peer_times=peer_times,
        )

        assert (len(ours), len(theirs)) == (ours_times, peer_times)
        assert calls[:2] == [("ours", 0), ("peer", 0)]
        assert {who: [number for one, number in calls if one == who] for who in ("ours", "peer")} == {
            "ours": list(range(ours_times + 1)),
            "peer": list(range(peer_times + 1)),
        }
        in_a_row = [(who, len(list(group))) for who, group in groupby(who for who, _ in calls[2:])]
        both = [(who, times // rounds) for who, times in (("ours", ours_times), ("peer", peer_times)) if times]
        assert in_a_row == (both * rounds if peer_times else [("ours", ours_times)])


class TestCheckpoints:
    def test_each_load_is_measured_alone_at_once_and_on_disk(self, monkeypatch: pytest.MonkeyPatch):
        """Both savers keep every run, so both grow with what a run keeps; a text that stays is stored once by ours."""
        monkeypatch.setattr(bench_checkpoints, "_MEGABYTE", 50_000)

        report = bench_checkpoints.run_checkpoint_bench(["sqlite"], quick=True)

        loads = ("small state", "1 MB that stays", "1 MB that each node replaces")
        measured = ("1 run", "8 runs at once", "bytes on disk")
        lines = {line["name"]: line for line in report["lines"]}
        assert list(lines) == [f"SQLite: {load}, {one}" for load in loads for one in measured]
        assert {line["peer"] for line in lines.values()} == {"LangGraph AsyncSqliteSaver, FULL"}
        assert all(line["ratio"] > 0 for line in lines.values())
        small, stays, replaced = (lines[f"SQLite: {load}, bytes on disk"] for load in loads)
        assert small["ours_mb"] < stays["ours_mb"] < replaced["ours_mb"]
        assert stays["ours_mb"] < stays["peer_mb"]

    def test_an_unknown_place_is_refused(self):
        """The error names what there is."""
        with pytest.raises(InvalidInputError, match="sqlite, postgres or all"):
            bench_checkpoints.run_checkpoint_bench(["oracle"])


@pytest.mark.slow
class TestRun:
    def test_quick_gives_every_line(self, monkeypatch):
        """A small run through the real doors has every line, each with exactly the documented keys."""
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")
        seen: list[tuple[int, int]] = []

        report = run_bench(quick=True, progress=lambda *step: seen.append(step))

        assert list(report) == ["machine", "lines"]
        assert {"cpu", "cores", "python", "threadkeep", "langgraph", "embedder"} <= set(report["machine"])
        assert [(line["name"], line["n"], line["peer"]) for line in report["lines"]] == [
            ("search, one owner", 20, "LangGraph InMemoryStore.asearch"),
            ("search, one owner, on the event loop thread", 20, "the same through the API"),
            ("search, one owner", 50, "LangGraph InMemoryStore.asearch"),
            ("search, one owner, on the event loop thread", 50, "the same through the API"),
            ("search, one owner", 200, "LangGraph InMemoryStore.asearch"),
            ("search, one owner, on the event loop thread", 200, "the same through the API"),
            ("search, 5 owners × 20, warm", 5, "one owner"),
            ("search, 5 owners × 20, warm, on the event loop thread", 5, "the same through the API"),
            ("first search of an owner, loaded from SQLite", 200, None),
            ("first search of an owner, loaded from SQLite while another reads on and on", 200, None),
            ("another owner's read during that load", 200, "the same read, nothing loading"),
            ("memory of one owner's index, its arrays and terms", 200, None),
            ("memory of one owner's index, growth of the process while loading", 200, None),
            ("memory of one owner's index, what the process keeps of it", 200, None),
            ("SQLite commit of one item, FULL", 10, "LangGraph AsyncSqliteStore.aput, FULL"),
            ("SQLite item in a commit of 500, FULL", 1000, "LangGraph AsyncSqliteStore.abatch, FULL"),
            ("turn with memory, embedding included", 50, "the same graph on LangGraph's AsyncSqliteSaver, FULL"),
            ("turn with memory, embedding included", 50, "the same graph, keeping nothing"),
            ("what an empty step adds to a turn with a checkpointer", 50, None),
            ("what memory adds to a turn with a checkpointer", 50, None),
            ("what memory of words alone adds to it", 50, None),
            ("turn with lease and fence", 50, "the same graph on LangGraph's AsyncSqliteSaver, FULL"),
            ("turn with lease, fence, recall and window", 50, "the same graph on LangGraph's AsyncSqliteSaver, FULL"),
            ("what lease, fence, recall and window add to a turn", 50, None),
            ("what they add, embedding apart", 50, None),
        ]
        for line in report["lines"]:
            assert list(line)[:7] == KEYS
            assert ("ours_mb" in line) == (line["ours_p50_ms"] is None)
            assert (line["ratio"] is None) == (line["peer"] is None)
        assert seen[-1] == (7, 7)
        table = StringIO()
        Console(width=200, file=table).print(render_table(report))
        assert "InMemoryStore" in table.getvalue()


@pytest.mark.model
@pytest.mark.slow
async def test_the_local_model_has_a_line_of_its_own():
    """Turns that are embedded at once, beside one after the other; none where another embedder is used."""
    facts = make_facts(1_650, seed=8)

    (line,) = await embedding_lines(facts, name=LOCAL_NAME)

    assert (line.n, len(line.ours), len(line.theirs)) == (100, 5, 50)
    assert min(line.ours) > 0
    assert await embedding_lines(facts, name="lookup") == []
