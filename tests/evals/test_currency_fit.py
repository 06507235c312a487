"""The weights by which recall marks a statement as earlier are fitted to the shipped pairs."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest

from tests.evals.embedding import WordsEmbedder
from threadkeep_evals.currency_fit import NAMES, Item, find_pairs, fit, read_items
from threadkeep_evals.personal import IN_ONE_MEMORY, run_personal

DATA = Path(str(files("threadkeep_evals"))) / "data"


def test_shipped_files_have_updates_and_pairs_that_stay_apart():
    items = [*read_items(DATA / "updates_first.json"), *read_items(DATA / "updates_second.json")]

    assert sum(item.is_update for item in items) == 129
    assert sum(not item.outdated for item in items) == 80
    assert all(len(item.told) == 2 for item in items)


def test_shipped_memories_say_which_turns_are_outdated():
    names = ("personal", "work", "other_languages", "held_out")
    items = [item for name in names for item in read_items(DATA / f"memories_{name}.json")]

    assert len(items) == 380
    assert sum(bool(item.outdated) for item in items) == 132
    assert all(place < len(item.told) - 1 for item in items for place in item.outdated)


async def test_fit_tells_updates_from_additions():
    items = [
        Item((f"My {thing} is at {place}.", f"The {thing} moved to {other}."), f"Where is my {thing}?", frozenset([0]))
        for thing, place, other in (("desk", "Bonn", "Kiel"), ("boat", "Pula", "Split"), ("barn", "Ede", "Tiel"))
    ] + [
        Item((f"I like {one}.", f"I also like {other}."), "What do I like?")
        for one, other in (("tea", "jam"), ("oats", "rye"), ("figs", "plums"))
    ]

    weights = fit(await find_pairs(items, sizes=(1, 6), embedder=WordsEmbedder()))

    assert tuple(weights) == NAMES
    assert weights["shared words"] > 0
    assert weights["adds"] < 0


async def test_of_several_later_turns_the_nearest_counts_as_the_change():
    """The others say something else, and are no examples of a change."""
    memories = [
        Item((f"My {thing} is at {place}.", f"The {thing} moved to {other}.", "Lunch was late."), thing, frozenset([0]))
        for thing, place, other in (("desk", "Bonn", "Kiel"), ("boat", "Pula", "Split"), ("barn", "Ede", "Tiel"))
    ]
    pairs = [Item(one.told[:2], one.question, one.outdated) for one in memories]

    among_others = fit(await find_pairs(memories, sizes=(1,), embedder=WordsEmbedder()))
    alone = fit(await find_pairs(pairs, sizes=(1,), embedder=WordsEmbedder()))

    assert among_others["shared words"] >= alone["shared words"]


def sampled(name: str, folder: Path, every: int) -> Path:
    """Return a file with one of *every* items of each list of a shipped file."""
    lists = json.loads((DATA / name).read_text("utf-8"))
    path = folder / name
    path.write_text(json.dumps({part: items[every - 1 :: every] for part, items in lists.items()}), "utf-8")
    return path


SIZES = pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
"""A third of the items in CI, with the bounds of the full size."""


@pytest.mark.long
@SIZES
@pytest.mark.parametrize("name", ["updates_first.json", "updates_second.json"])
def test_outdated_values_are_marked(name: str, every: int, tmp_path: Path):
    """With the local embedder."""
    report = run_personal(sampled(name, tmp_path, every), parts=["updates", "several"])
    shares = {row["figure"]: row["share"] for row in report["results"]}

    assert shares["stale_as_fact"] <= 0.1
    assert shares["current_in_block"] >= 0.95
    assert shares["several_both"] >= 0.95
    assert shares["several_unmarked"] >= 0.35


@SIZES
def test_true_statements_are_hardly_ever_marked(every: int, tmp_path: Path):
    """With the local embedder, on wording that no weight was fitted to."""
    report = run_personal(sampled("statements_held_out.json", tmp_path, every), parts=["facts", "updates"])
    shares = {row["figure"]: row["share"] for row in report["results"]}

    assert shares["true_as_earlier"] <= 0.05
    assert shares["lines_as_earlier"] <= 0.04
    assert shares["stale_as_fact"] <= 0.07
    assert shares["in_block"] >= 0.9


@SIZES
def test_true_statements_in_long_and_hurried_messages_are_hardly_ever_marked(every: int, tmp_path: Path):
    """With the weights of the lengths of both, which were learnt from short messages, 13 % had a mark."""
    report = run_personal(sampled("statements_hurried_held_out.json", tmp_path, every), parts=["facts"])
    shares = {row["figure"]: row["share"] for row in report["results"]}

    assert shares["lines_as_earlier"] <= 0.05


@pytest.mark.long
@SIZES
def test_turns_of_small_memories_are_marked_where_a_later_one_outdates_them(every: int, tmp_path: Path):
    """The same; their writer had seen no rule."""
    report = run_personal(sampled("memories_held_out.json", tmp_path, every))
    shares = {row["figure"]: row["share"] for row in report["results"]}

    for count in IN_ONE_MEMORY:
        assert shares[f"true_marked:{count}"] <= 0.1
        assert shares[f"outdated_unmarked:{count}"] <= 0.65
