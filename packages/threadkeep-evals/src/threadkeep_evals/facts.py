"""Recall of one fact among many: a seeded world of facts told in passing, and a question in other words for each.

Each fact goes through ``tk.capture`` as a message with other sentences around it. The figure is the share of questions
with a line in the rendered block that has both the subject and the answer.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import fmean
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from threadkeep.errors import InvalidInputError
from threadkeep.identity import Owner
from threadkeep.recall.service import DEFAULT_BUDGET_TOKENS
from threadkeep_evals.data_banks import CARRIERS, FAMILIES, Aspect, Family
from threadkeep_evals.metrics import percentile, rounded_interval
from threadkeep_evals.progress import Progress, Steps, silent
from threadkeep_evals.replay import ReplayClock
from threadkeep_evals.rig import TIMEOUT, open_for_replay

if TYPE_CHECKING:
    from rich.table import Table

    from threadkeep.client import Threadkeep
    from threadkeep.models.base import Embedder

DEFAULT_SIZES: Final = (10, 100, 1_000)


OWNER: Final = "user"
TEAM: Final = Owner("team", kind="team")
_AN_HOUR: Final = timedelta(hours=1)
_DIGIT: Final = re.compile("#")


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement about the user, and the question that it alone answers.

    Attributes:
        text: The statement, one sentence.
        question: Holds the subject but never the answer.
        answer: What the question asks for.
        subject: What both are about.
        told: The message that tells it.
    """

    text: str
    question: str
    answer: str
    subject: str = ""
    told: str = ""


def capacity() -> int:
    """Return how many distinct facts there can be."""
    return sum(len(family.subjects) * len(family.aspects) for family in FAMILIES)


def make_facts(count: int, *, seed: int) -> tuple[Fact, ...]:
    """Return *count* distinct facts in random order; the same for the same seed.

    Each family gives its share, as a block of subjects crossed with aspects, so that at every size facts
    share their subject with some and their aspect with others.

    Raises:
        InvalidInputError: There are not that many.
    """
    if not 1 <= count <= capacity():
        msg = f"The fact benchmark has between 1 and {capacity():,} facts, not {count:,}."
        raise InvalidInputError(msg)
    rng = random.Random(seed)  # noqa: S311 - reproducible on purpose; nothing here is a secret
    facts = [
        _make_fact(subject, aspect, rng)
        for family, share in zip(FAMILIES, _shares(count), strict=True)
        for subject, aspect in _block(family, share, rng)
    ]
    rng.shuffle(facts)
    return tuple(facts)


def more_facts(count: int, *, seed: int) -> list[Fact]:
    """Return so many facts; where there are not as many, the same ones again, each with a number of its own."""
    some = make_facts(min(count, capacity()), seed=seed)
    return [
        fact if place < len(some) else replace(fact, text=f"{fact.text} Noted on page {place}.")
        for place, fact in zip(range(count), itertools.cycle(some), strict=False)
    ]


def _shares(count: int) -> list[int]:
    """Split *count* over the families in proportion to their sizes, by largest remainder."""
    sizes = [len(family.subjects) * len(family.aspects) for family in FAMILIES]
    exact = [count * size / sum(sizes) for size in sizes]
    shares = [math.floor(one) for one in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda place: shares[place] - exact[place])
    for place in by_remainder[: count - sum(shares)]:
        shares[place] += 1
    return shares


def _block(family: Family, share: int, rng: random.Random) -> list[tuple[str, Aspect]]:
    """Choose *share* pairs of subject and aspect that overlap as much as they can.

    Subjects are taken from the front, where names share their parts; aspects at random.
    """
    width = min(len(family.aspects), max(1, round(math.sqrt(share)), math.ceil(share / len(family.subjects))))
    aspects = rng.sample(family.aspects, width)
    subjects = family.subjects[: math.ceil(share / width)]
    return [(subject, aspect) for subject in subjects for aspect in aspects][:share]


def _make_fact(subject: str, aspect: Aspect, rng: random.Random) -> Fact:
    answer = _DIGIT.sub(lambda _: str(rng.randrange(10)), rng.choice(aspect.answers))
    text = aspect.fact.format(subject=subject, answer=answer)
    question = rng.choice(aspect.questions).format(subject=subject)
    statement = _sentence(text)
    return Fact(statement, _sentence(question), answer, subject, CARRIERS.told(statement, rng))


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def run_facts(
    sizes: Sequence[int] = DEFAULT_SIZES,
    *,
    seed: int = 0,
    team: int = 0,
    embedder: Embedder | str | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Measure how often the asked-for fact is in the rendered block, and return the figures as JSON.

    Args:
        sizes: How many facts the user is known by, one measurement each.
        seed: Of the facts.
        team: How many further facts a team knows that the user reads, too.
        embedder: Instead of the one that the settings say; ``"none"``: search by words only.
        progress: Called after each step.

    Raises:
        InvalidInputError: There are not as many facts as a size asks for.
    """
    worlds = [(make_facts(size + team, seed=seed), size) for size in sizes]
    results = asyncio.run(_measure([(made[:size], made[size:]) for made, size in worlds], embedder, progress))
    return {"dataset": "facts", "seed": seed, "results": results}


async def _measure(
    worlds: Sequence[tuple[Sequence[Fact], Sequence[Fact]]], embedder: Embedder | str | None, progress: Progress
) -> list[dict[str, Any]]:
    from threadkeep.testing.clock import START

    results: list[dict[str, Any]] = []
    steps = Steps(sum(2 * (len(facts) + len(team)) for facts, team in worlds), progress)
    for facts, team in worlds:
        clock = ReplayClock(START)
        async with open_for_replay(embedder, clock) as tk:
            results.append(await _measure_one(tk, facts, team, clock, steps))
    return results


async def _measure_one(
    tk: Threadkeep, facts: Sequence[Fact], team: Sequence[Fact], clock: ReplayClock, steps: Steps
) -> dict[str, Any]:
    for number, fact in enumerate(facts):
        clock.move(clock.at + _AN_HOUR)
        messages = [
            {"role": "user", "content": fact.told, "id": f"said-{number}"},
            {"role": "assistant", "content": "All right.", "id": f"reply-{number}"},
        ]
        await tk.capture(messages, owner=OWNER, thread_id=f"thread-{number}", wait=True)
        steps.advance()
    if team:
        await tk.scopes.create(TEAM)
    for fact in team:
        await tk.memories.remember(fact.text, owner=TEAM, approved_by="reviewer")
        steps.advance()
    hits: list[float] = []
    tokens: list[int] = []
    milliseconds: list[float] = []
    scopes = (TEAM,) if team else ()
    for fact in (*facts, *team):
        started = perf_counter()
        block = await tk.recall(
            fact.question, owner=OWNER, budget_tokens=DEFAULT_BUDGET_TOKENS, timeout=TIMEOUT, read_scopes=scopes
        )
        milliseconds.append((perf_counter() - started) * 1000)
        tokens.append(block.tokens)
        hits.append(float(any(is_told(fact, line) for line in block.text.splitlines())))
        steps.advance()
    own, shared = hits[: len(facts)], hits[len(facts) :]
    return {
        **({"team_facts": len(team), "team_in_block": round(fmean(shared), 4)} if team else {}),
        "n": len(facts),
        "questions": len(facts),
        "in_block": round(fmean(own), 4),
        "tokens_mean": round(fmean(tokens), 1),
        "ms_p50": round(percentile(milliseconds, 0.5), 3),
        "ms_p95": round(percentile(milliseconds, 0.95), 3),
        "interval95": rounded_interval(own),
    }


def is_told(fact: Fact, line: str) -> bool:
    """Return whether *line* has the subject and the answer of *fact*, as whole words."""
    return all(
        re.search(rf"(?<!\w){re.escape(part)}(?!\w)", line, re.IGNORECASE) for part in (fact.subject, fact.answer)
    )


def render_table(results: dict[str, Any]) -> Table:
    """Return the figures of :func:`run_facts` for people."""
    from rich.table import Table

    table = Table(title=f"Facts about one user (seed {results['seed']})", title_justify="left")
    for name in ("in the block", "95 % interval", "facts", "questions", "tokens", "ms p50"):
        table.add_column(name, justify="right")
    for row in results["results"]:
        table.add_row(
            f"{row['in_block']:.1%}",
            "{:.1%} – {:.1%}".format(*row["interval95"]),
            f"{row['n']:,}",
            f"{row['questions']:,}",
            f"{row['tokens_mean']:.0f}",
            f"{row['ms_p50']:.2f}",
        )
        if "team_facts" in row:
            table.add_row(f"{row['team_in_block']:.1%}", "", f"{row['team_facts']:,}", "of the team", "", "")
    return table
