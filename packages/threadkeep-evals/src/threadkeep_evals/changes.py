"""Facts that change, and facts that nearly everybody has: what is so now is recalled, and only to whom it belongs.

Both worlds are generated from a seed, sent turn by turn, and learnt by the local extractor.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from threadkeep.errors import InvalidInputError
from threadkeep.recall.service import DEFAULT_BUDGET_TOKENS
from threadkeep_evals.data_banks import CARRIERS, SUBJECTS
from threadkeep_evals.metrics import share_interval, told_interval
from threadkeep_evals.progress import Progress, Steps, silent
from threadkeep_evals.replay import ReplayClock
from threadkeep_evals.rig import TIMEOUT, open_for_replay

if TYPE_CHECKING:
    from rich.table import Table

    from threadkeep.client import Threadkeep
    from threadkeep.models.base import Embedder
    from threadkeep.recall.models import Recalled

DEFAULT_CHANGES: Final = (1, 2, 3, 5, 8)
DEFAULT_OWNERS: Final = 200
MAX_CHANGES: Final = 9

REPEATED: Final = "repeated"
NATURAL: Final = "natural"
WORDINGS: Final = (NATURAL, REPEATED)
"""How changes are told: in passing and in other words, asked in other words, too; or repeating subject and question."""

_A_WEEK: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Story:
    """One subject's values in order, the message for each, and the question that is asked at the end."""

    question: str
    values: tuple[str, ...]
    messages: tuple[str, ...]


def make_stories(changes: int, *, seed: int, wording: str = REPEATED) -> tuple[Story, ...]:
    """Return a story about every subject that changes so often; no value comes twice in a row, and some come back.

    Args:
        changes: How often; a subject with fewer values changes as often as it can.
        seed: Of values and wordings.
        wording: Of :data:`WORDINGS`. Only subjects with such wordings have a story.

    Raises:
        InvalidInputError: It cannot change so often.
    """
    natural = wording == NATURAL
    if not 1 <= changes <= MAX_CHANGES:
        msg = f"A fact changes between 1 and {MAX_CHANGES} times, not {changes}."
        raise InvalidInputError(msg, changes=changes)
    rng = random.Random(f"{seed}/{changes}")  # noqa: S311 - reproducible on purpose; nothing here is a secret
    stories: list[Story] = []
    for subject in SUBJECTS:
        later = subject.natural if natural else subject.later
        if not later:
            continue
        values = rng.sample(subject.values, min(changes + 1, len(subject.values)))
        if changes > 2 and rng.random() < 1 / 3:  # noqa: PLR2004 - "back in Lisbon" needs to have left it
            values[-1] = values[0]
        messages = [subject.first.format(values[0])]
        messages += [rng.choice(later).format(value) for value in values[1:]]
        question = rng.choice(subject.questions) if natural else subject.questions[0]
        if natural:
            messages = [CARRIERS.told(message, rng) for message in messages]
        stories.append(Story(question, tuple(values), tuple(messages)))
    return tuple(stories)


def run_staleness(
    changes: Sequence[int] = DEFAULT_CHANGES,
    *,
    seed: int = 0,
    rounds: int = 5,
    embedder: Embedder | str | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Measure whether facts that changed are recalled as they are now, and return the figures as JSON.

    Args:
        changes: How often each fact changes, one measurement each.
        seed: Of values, wordings and their order.
        rounds: How many owners a measurement has, each with a story about every subject.
        embedder: Instead of the one that the settings say; ``"none"``: search by words only.
        progress: Called after each step.

    Raises:
        InvalidInputError: A fact cannot change so often.
    """
    worlds = {
        (k, wording): [make_stories(k, seed=seed * 1_000 + one, wording=wording) for one in range(rounds)]
        for wording in WORDINGS
        for k in changes
    }
    results = asyncio.run(_staleness(worlds, seed, embedder, progress))
    return {"dataset": "staleness", "seed": seed, "results": results}


async def _staleness(
    worlds: dict[tuple[int, str], list[tuple[Story, ...]]],
    seed: int,
    embedder: Embedder | str | None,
    progress: Progress,
) -> list[dict[str, Any]]:
    rng = random.Random(seed)  # noqa: S311 - the same
    steps = Steps(sum(len(world) for worlds_of in worlds.values() for world in worlds_of), progress)
    rows: list[dict[str, Any]] = []
    for (k, wording), of_owners in worlds.items():
        outcomes: list[Outcome] = []
        for stories in of_owners:
            outcomes += await _told_and_asked(stories, rng, embedder)
            steps.advance()
        rows.append(_row(k, wording, outcomes))
        rows[-1]["missed"] = [
            story.messages
            for story, outcome in zip((s for stories in of_owners for s in stories), outcomes, strict=True)
            if not outcome.current or outcome.stale
        ]
    return rows


class Outcome(NamedTuple):
    """What the block for a question says.

    Attributes:
        current: Whether it says what is so now.
        stale: Whether it says what was so as a fact that is not marked as earlier.
        unmarked: The same of any line, the user's own words of a turn included.
        in_episodes: Whether the user's words in it, marked or not, say what was so.
    """

    current: bool
    stale: bool
    unmarked: bool
    in_episodes: bool


def _row(k: int, wording: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    current, stale, unmarked, episodes = (sum(outcome[place] for outcome in outcomes) for place in range(4))
    return {
        "k": k,
        "wording": wording,
        "questions": len(outcomes),
        "current@k": round(current / len(outcomes), 4),
        "stale_as_current": stale,
        "stale_unmarked": unmarked,
        "stale_in_episodes": episodes,
        "interval95": {
            "current@k": share_interval(current, len(outcomes)),
            "stale_as_current": share_interval(stale, len(outcomes)),
            "stale_unmarked": share_interval(unmarked, len(outcomes)),
        },
    }


async def _told_and_asked(
    stories: Sequence[Story], rng: random.Random, embedder: Embedder | str | None
) -> list[Outcome]:
    """Tell the stories, interleaved, a turn a week, and ask for each value at the end."""
    from threadkeep.testing.clock import START

    clock = ReplayClock(START)
    async with open_for_replay(embedder, clock) as tk:
        left = [list(story.messages) for story in stories]
        number = 0
        while any(left):
            messages = rng.choice([waiting for waiting in left if waiting])
            clock.move(clock.at + _A_WEEK)
            await _send(tk, messages.pop(0), owner="user", number=number)
            number += 1
        return [await _asked(tk, story) for story in stories]


async def _asked(tk: Threadkeep, story: Story) -> Outcome:
    """Ask and compare the block with the story."""
    recall = await tk.recall(story.question, owner="user", budget_tokens=DEFAULT_BUDGET_TOKENS, timeout=TIMEOUT)
    now, old = story.values[-1], set(story.values[:-1]) - {story.values[-1]}
    unmarked = [one for one in recall.memories if not one.earlier]
    facts = [one for one in unmarked if one.memory.kind != "episodic"]
    episodes = [one for one in recall.memories if one.memory.kind == "episodic"]
    return Outcome(_says(recall.memories, {now}), _says(facts, old), _says(unmarked, old), _says(episodes, old))


def _says(recalled: Sequence[Recalled], values: set[str]) -> bool:
    return any(re.search(rf"(?<![\w:-]){re.escape(value)}(?![\w:-])", one.text) for one in recalled for value in values)


async def _send(tk: Threadkeep, text: str, *, owner: str, number: int) -> None:
    messages = [
        {"role": "user", "content": text, "id": f"said-{number}"},
        {"role": "assistant", "content": "All right.", "id": f"reply-{number}"},
    ]
    await tk.capture(messages, owner=owner, thread_id=f"thread-{number}", wait=True)


def run_leakage(
    owners: int = DEFAULT_OWNERS,
    *,
    seed: int = 0,
    embedder: Embedder | str | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Ask many owners with nearly the same facts for theirs, and return the foreign values that come back.

    Args:
        owners: How many; their ids are nearly the same, too.
        seed: Of the facts.
        embedder: Instead of the one that the settings say; ``"none"``: search by words only.
        progress: Called after each step.

    Raises:
        InvalidInputError: There are fewer than two owners.
    """
    if not 2 <= owners <= 10_000:  # noqa: PLR2004 - digits of a code
        msg = f"--owners is between 2 and 10,000, not {owners}."
        raise InvalidInputError(msg, owners=owners)
    return asyncio.run(_leakage(owners, seed, embedder, progress))


async def _leakage(owners: int, seed: int, embedder: Embedder | str | None, progress: Progress) -> dict[str, Any]:
    from threadkeep.testing.clock import START

    rng = random.Random(seed)  # noqa: S311 - the same
    codes = [f"BX-{code:05d}" for code in rng.sample(range(100_000), owners)]
    ids = [_alike(number) for number in range(owners)]
    steps = Steps(2 * owners, progress)
    leaks: list[dict[str, str]] = []
    found = asked = 0
    async with open_for_replay(embedder, ReplayClock(START)) as tk:
        for number, (owner, code) in enumerate(zip(ids, codes, strict=True)):
            await _send(tk, f"My badge number is {code} and my desk is in room {code}.", owner=owner, number=number)
            steps.advance()
        for owner, code in zip(ids, codes, strict=True):
            # What others have is asked for, too: a word that only their memory holds must not bring it here.
            for question in ("What is my badge number?", f"Whose badge number is {rng.choice(codes)}?"):
                texts = await _given(tk, question, owner)
                asked += 1
                found += question.startswith("What") and code in texts
                leaks += [
                    {"owner": owner, "question": question, "leaked": other}
                    for other in codes
                    if other != code and other in texts
                ]
            steps.advance()
    return {
        "dataset": "leakage",
        "seed": seed,
        "owners": owners,
        "questions": asked,
        "own_found": round(found / owners, 4),
        "leaks": len(leaks),
        "leaked": leaks,
        "interval95": {
            "leaks": share_interval(len({(one["owner"], one["question"]) for one in leaks}), asked),
            "own_found": share_interval(found, owners),
        },
    }


async def _given(tk: Threadkeep, question: str, owner: str) -> str:
    """Return everything that recall, search, the list and LangGraph's store tell *owner*."""
    recall = await tk.recall(question, owner=owner, budget_tokens=DEFAULT_BUDGET_TOKENS, timeout=TIMEOUT)
    searched = [one.memory.text for one in await tk.memories.search(question, owner=owner)]
    listed = [memory.text for memory in await tk.memories.list(owner=owner)]
    items = await tk.for_owner(owner).store.asearch(("memories", tk.label(owner)), query=question)
    return "\n".join((recall.text, *searched, *listed, *(str(item.value) for item in items)))


def _alike(number: int) -> str:
    """Return an id that is nearly another's: as a prefix, in its separators, or in its case."""
    forms = ("user{}", "user{}@x.org", "user{}_x_org", "User{}@x.org", "user.{}@x.org")
    return forms[number % len(forms)].format(number // len(forms))


def render_staleness(report: dict[str, Any]) -> Table:
    """Return the figures of :func:`run_staleness` for people."""
    from rich.table import Table

    table = Table(title=f"Facts that change (seed {report['seed']})", title_justify="left")
    names = (
        "current value in the block",
        "95 % interval",
        "old fact as current",
        "95 % interval",
        "any old line unmarked",
        "95 % interval",
        "changes",
        "questions",
    )
    table.add_column("told and asked")
    for name in names:
        table.add_column(name, justify="right")
    for row in report["results"]:
        figures = (
            f"{row['current@k']:.1%}",
            told_interval(row["interval95"]["current@k"]),
            *(
                text
                for name in ("stale_as_current", "stale_unmarked")
                for text in (f"{row[name] / row['questions']:.1%}", told_interval(row["interval95"][name]))
            ),
        )
        table.add_row(
            "in passing" if row["wording"] == NATURAL else "repeated",
            *figures,
            str(row["k"]),
            f"{row['questions']:,}",
        )
    return table


def render_leakage(report: dict[str, Any]) -> Table:
    """Return the figures of :func:`run_leakage` for people."""
    from rich.table import Table

    table = Table(title=f"What owners see of each other (seed {report['seed']})", title_justify="left")
    for name in ("owners", "questions", "leaks", "95 % interval", "find their own", "95 % interval"):
        table.add_column(name, justify="right")
    leaks, own = (told_interval(report["interval95"][name]) for name in ("leaks", "own_found"))
    figures = (str(report["leaks"]), leaks, f"{report['own_found']:.1%}", own)
    table.add_row(f"{report['owners']:,}", f"{report['questions']:,}", *figures)
    return table
