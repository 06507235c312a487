"""Task requests that resemble no memory, and the facts that they need: ``data/tasks.json``.

Each fact is told in passing through ``tk.capture``, and each request asked through ``tk.recall``, with the product's
defaults. The requests and facts were written before any rule of the profile. Rules were written with the half ``dev``
in view; the half ``held_out`` was measured afterwards.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from threadkeep.errors import InvalidInputError
from threadkeep.recall.models import line
from threadkeep.recall.packing import estimate_tokens
from threadkeep_evals.metrics import share_interval, told_interval
from threadkeep_evals.personal import Outcome, ToldMemory, matches, open_told
from threadkeep_evals.progress import Progress, Steps, silent
from threadkeep_evals.tables import build_table

if TYPE_CHECKING:
    from rich.table import Table

    from threadkeep.models.base import Embedder
    from threadkeep.recall.models import Recall

HALVES: Final = ("dev", "held_out")


@dataclass(frozen=True, slots=True)
class _Asked:
    """The outcomes of one request, and the tokens of its profile lines; ``None``: it has none."""

    outcomes: tuple[Outcome, ...]
    tokens: int | None


def run_profile(
    halves: Sequence[str] = HALVES,
    *,
    embedder: Embedder | str | None = None,
    show: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Tell, ask and count, and return the figures as JSON.

    Args:
        halves: Which halves of the requests.
        embedder: Instead of the one that the settings say; ``"none"``: words only.
        show: Whether the requests that did not pass are in the report, with the block.
        progress: Called after each request.

    Raises:
        InvalidInputError: A half is unknown.
    """
    if unknown := set(halves) - set(HALVES):
        msg = f"--half is {min(unknown)[:40]!r}; choose from {', '.join(HALVES)}."
        raise InvalidInputError(msg)
    asked = asyncio.run(_measured(halves, embedder, progress))
    outcomes = [outcome for one in asked for outcome in one.outcomes]
    tokens = [one.tokens for one in asked if one.tokens is not None]
    report: dict[str, Any] = {
        "dataset": "profile",
        "halves": list(halves),
        "results": _figures(outcomes),
        "profile_tokens": {"most": max(tokens, default=0), "mean": round(sum(tokens) / max(len(tokens), 1), 1)},
    }
    if show:
        missed = [one for one in outcomes if not one.passed and one.groups[0] != "needed_in_profile"]
        report["missed"] = [{"figures": list(one.groups), "item": one.item, "shown": list(one.shown)} for one in missed]
    return report


def _figures(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for group in dict.fromkeys(group for one in outcomes for group in one.groups):
        passed = [one.passed for one in outcomes if group in one.groups]
        count, interval = sum(passed), share_interval(sum(passed), len(passed))
        share = round(count / len(passed), 4)
        rows.append({"figure": group, "items": len(passed), "count": count, "share": share, "interval95": interval})
    return rows


async def _measured(halves: Sequence[str], embedder: Embedder | str | None, progress: Progress) -> list[_Asked]:
    data = json.loads((files("threadkeep_evals") / "data" / "tasks.json").read_text(encoding="utf-8"))
    people = [person for person in data["people"] if person["half"] in halves]
    unrelated = {half: data["unrelated"][half] for half in halves}
    steps = Steps(sum(len(person["pairs"]) for person in people) + sum(map(len, unrelated.values())), progress)
    asked: list[_Asked] = []
    left = dict(unrelated)
    for person in people:
        async with open_told(embedder) as told:
            for number, pair in enumerate(person["pairs"]):
                await told.tell(data["filler"][number % len(data["filler"])], "user")
                await told.tell(pair["told"], "user")
            for pair in person["pairs"]:
                asked.append(await _request(told, pair, person["half"]))
                steps.advance()
            for request in left.pop(person["half"], ()):
                asked.append(await _unrelated(told, request))
                steps.advance()
    return asked


async def _request(told: ToldMemory, pair: Mapping[str, str], half: str) -> _Asked:
    recall = await told.recall(pair["request"], "user")
    shown = told.lines(recall)
    profile = _profile_lines(recall)
    item = f"{pair['told']} | {pair['request']}"
    other = () if pair["lang"] == "en" else ("needed_in_block:other",)
    groups = ("needed_in_block", f"needed_in_block:{half}", *other)
    outcomes = (
        Outcome(groups, matches(pair["needed"], shown), item, shown),
        Outcome(("needed_in_profile",), matches(pair["needed"], profile), item, profile),
    )
    return _Asked(outcomes, _tokens(profile))


async def _unrelated(told: ToldMemory, request: str) -> _Asked:
    recall = await told.recall(request, "user")
    shown, profile = told.lines(recall), _profile_lines(recall)
    outcomes = (
        Outcome(("unrelated_without_profile",), not profile, request, profile),
        Outcome(("unrelated_empty_behind_profile",), len(shown) == len(profile), request, shown),
    )
    return _Asked(outcomes, _tokens(profile))


def _profile_lines(recall: Recall) -> list[str]:
    return [line(one) for one in recall.memories if one.slot is not None]


def _tokens(lines: Sequence[str]) -> int | None:
    return estimate_tokens("".join(f"{one}\n" for one in lines)) if lines else None


def render_table(report: dict[str, Any]) -> Table:
    """Return the figures of :func:`run_profile` as a table for people."""
    rows = [
        (row["figure"], f"{row['items']:,}", f"{row['share']:.1%}", told_interval(row["interval95"]))
        for row in report["results"]
    ]
    tokens = report["profile_tokens"]
    title = f"Profile, at most {tokens['most']} tokens, {tokens['mean']} in the mean"
    return build_table(title, ("figure", ">items", ">share", ">95 % interval"), rows)
