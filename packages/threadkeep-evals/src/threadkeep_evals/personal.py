"""Personal statements told in passing and asked for in other words: capture and recall together.

Every message goes through ``tk.capture`` and every question through ``tk.recall``, with the product's defaults. The
file is not part of this package; ``docs/evaluation.md`` describes its format.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from operator import itemgetter
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

from threadkeep.errors import InvalidInputError
from threadkeep.ids import MemoryId
from threadkeep.memories.models import ASKED, SAID, Memory, Source
from threadkeep.recall.service import DEFAULT_BUDGET_TOKENS
from threadkeep.text.quoted import END, HEADING
from threadkeep_evals.blocks import Pages
from threadkeep_evals.metrics import share_interval, told_interval
from threadkeep_evals.progress import Progress, Steps, silent
from threadkeep_evals.replay import ReplayClock, every_memory
from threadkeep_evals.rig import TIMEOUT, open_for_replay
from threadkeep_evals.tables import build_table

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from threadkeep.client import Threadkeep
    from threadkeep.models.base import Embedder
    from threadkeep.recall.models import Recall, Recalled

PARTS: Final = ("facts", "unrelated", "updates", "several", "pastes", "dialogues", "memories")
"""The lists of a file; a file may leave some out."""

FACTS_OF_ONE: Final = 10
"""So many facts are told to each owner of whom none changes, and none may be marked as earlier."""
IN_ONE_MEMORY: Final = (1, 4, 10)
"""So many items of ``memories`` share a memory of about 3, 13 and 34 turns."""
_TWO_DAYS: Final = timedelta(days=2)
_MARKED: Final = re.compile(r"\([^()]*\bearlier\b[^()]*\)$")
_IN_DOUBT: Final = re.compile(r"\([^()]*\bmay still hold\b[^()]*\)$")
_LINE: Final = re.compile(rf'^- "(?:{ASKED}|{SAID})?')
_FRAME: Final = frozenset({HEADING, END})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one item of the file.

    Attributes:
        groups: The figures that it counts for.
        passed: Whether it passed.
        item: What it is, for people.
        shown: The block, or the memories, that decided.
    """

    groups: tuple[str, ...]
    passed: bool
    item: str
    shown: Sequence[str] = ()


def run_personal(
    path: Path,
    *,
    parts: Sequence[str] = PARTS,
    embedder: Embedder | str | None = None,
    show: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Tell, ask and count, and return the figures as JSON.

    Args:
        path: The file.
        parts: Only these lists of it.
        embedder: Instead of the one that the settings say; ``"none"``: search by words only.
        show: Whether the items that did not pass are in the report, with what was shown.
        progress: Called after each step.

    Raises:
        InvalidInputError: It is no such file, or a part is unknown.
    """
    if unknown := set(parts) - set(PARTS):
        msg = f"--part is {min(unknown)[:40]!r}; choose from {', '.join(PARTS)}."
        raise InvalidInputError(msg)
    data, digest = _read(path)
    outcomes = asyncio.run(_measured({part: data[part] for part in parts if part in data}, embedder, progress))
    report: dict[str, Any] = {
        "dataset": "personal",
        "file": path.name,
        "file_sha256": digest,
        "budget_tokens": DEFAULT_BUDGET_TOKENS,
        "results": figures_of(outcomes),
    }
    if show:
        report["missed"] = [
            {"figures": list(one.groups), "item": one.item, "shown": list(one.shown)}
            for one in outcomes
            if one.passed is (one.groups[0].partition(":")[0] in _FEWER_IS_BETTER)
        ]
    return report


_FEWER_IS_BETTER: Final = frozenset(
    {
        "block_empty",
        "stale_as_fact",
        "pasted_as_user",
        "true_as_earlier",
        "true_in_doubt",
        "lines_as_earlier",
        "lines_in_doubt",
        "outdated_unmarked",
        "answers_marked",
        "true_marked",
    }
)


def figures_of(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return the count, the share and its interval of each figure."""
    groups = dict.fromkeys(group for one in outcomes for group in one.groups)
    rows: list[dict[str, Any]] = []
    for group in groups:
        passed = [one.passed for one in outcomes if group in one.groups]
        interval = share_interval(sum(passed), len(passed))
        share = round(sum(passed) / len(passed), 4)
        rows.append(
            {"figure": group, "items": len(passed), "count": sum(passed), "share": share, "interval95": interval}
        )
    return rows


def _read(path: Path) -> tuple[Mapping[str, Sequence[Any]], str]:
    try:
        content = path.read_bytes()
        data = json.loads(content)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}."
        raise InvalidInputError(msg) from error
    except ValueError as error:
        msg = f"{path} is not JSON ({error})."
        raise InvalidInputError(msg) from error
    if not isinstance(data, dict) or not all(isinstance(cast("Any", data).get(part, []), list) for part in PARTS):
        msg = f"{path} is not a file of personal statements; it must be an object with lists {', '.join(PARTS)}."
        raise InvalidInputError(msg)
    return cast("Mapping[str, Sequence[Any]]", data), hashlib.sha256(content).hexdigest()


async def _measured(
    data: Mapping[str, Sequence[Any]], embedder: Embedder | str | None, progress: Progress
) -> list[Outcome]:
    memories = data.get("memories", ())
    steps = Steps(sum(map(len, data.values())) + len(memories) * (len(IN_ONE_MEMORY) - 1), progress)
    outcomes: list[Outcome] = []
    if facts := data.get("facts"):
        async with open_told(embedder) as told:
            outcomes += await _unchanged(told, facts)
    async with open_told(embedder) as told:
        outcomes += await _facts(told, data.get("facts", ()), data.get("unrelated", ()), steps)
    for part, measure in (("updates", _update), ("several", _several), ("pastes", _paste), ("dialogues", _dialogue)):
        if items := data.get(part):
            async with open_told(embedder) as told:
                for number, item in enumerate(items):
                    outcomes += await measure(told, item, f"{part}-{number}")
                    steps.advance()
    for count in IN_ONE_MEMORY if memories else ():
        async with open_told(embedder) as told:
            outcomes += await _shared(told, memories, count, steps)
    return outcomes


class ToldMemory:
    """A memory that is told messages and asked questions, two days apart."""

    def __init__(self, tk: Threadkeep, clock: ReplayClock) -> None:
        self.tk = tk
        self.clock = clock
        self._number = 0

    async def tell(self, text: str, owner: str, *, thread_id: str | None = None) -> str:
        """Capture a message of *owner* in a thread of its own, or in *thread_id*, and return the message's id."""
        self._number += 1
        self.clock.move(self.clock.at + _TWO_DAYS)
        messages = [
            {"role": "user", "content": text, "id": f"said-{self._number}"},
            {"role": "assistant", "content": "All right.", "id": f"reply-{self._number}"},
        ]
        thread = thread_id or f"thread-{self._number}"
        await self.tk.capture(messages, owner=owner, thread_id=thread, wait=True)
        return f"said-{self._number}"

    async def ask(self, question: str, owner: str) -> list[str]:
        """Return the lines of the block for *question*."""
        return self.lines(await self.recall(question, owner))

    async def recall(self, question: str, owner: str) -> Recall:
        """Return what is recalled for *question*."""
        return await self.tk.recall(question, owner=owner, budget_tokens=DEFAULT_BUDGET_TOKENS, timeout=TIMEOUT)

    @staticmethod
    def lines(recall: Recall) -> list[str]:
        """Return the lines of a block, without its heading and end."""
        return [line for line in recall.text.splitlines() if line not in _FRAME]

    async def facts(self, owner: str) -> list[str]:
        """Return the semantic facts of *owner* that the user is the source of."""
        memories = await every_memory(self.tk, owner)
        return [one.text for one in memories if one.kind == "semantic" and one.trust == "user"]


@asynccontextmanager
async def open_told(embedder: Embedder | str | None) -> AsyncGenerator[ToldMemory]:
    """Open a memory in RAM."""
    from threadkeep.testing.clock import START

    clock = ReplayClock(START)
    async with open_for_replay(embedder, clock) as tk:
        yield ToldMemory(tk, clock)


async def _facts(
    told: ToldMemory, facts: Sequence[Mapping[str, str]], unrelated: Sequence[str], steps: Steps
) -> list[Outcome]:
    """Tell all facts to one owner, and ask for each; then ask what has nothing to do with any."""
    messages = list(map(_message, facts))
    for message in messages:
        await told.tell(message, "user")
    outcomes: list[Outcome] = []
    for fact in facts:
        shown = await told.ask(fact["question"], "user")
        groups = ("in_block", f"in_block:{fact['lang']}", *(() if fact["lang"] == "en" else ("in_block:other",)))
        item = f"{fact['told']} | {fact['question']}"
        outcomes.append(Outcome(groups, matches(fact["answer"], shown), item, shown))
        outcomes.append(Outcome(("block_empty",), not shown, item))
        steps.advance()
    outcomes += await _dense(told, messages, facts)
    for request in unrelated:
        shown = await told.ask(request, "user")
        outcomes.append(Outcome(("unrelated_empty",), not shown, request, shown))
        steps.advance()
    return outcomes


async def _unchanged(told: ToldMemory, facts: Sequence[Mapping[str, str]]) -> list[Outcome]:
    """Tell ten facts to each owner and ask for each: none of them changes, so none is earlier."""
    outcomes: list[Outcome] = []
    for start in range(0, len(facts), FACTS_OF_ONE):
        owner, own = f"unchanged-{start}", facts[start : start + FACTS_OF_ONE]
        for fact in own:
            await told.tell(_message(fact), owner)
        for fact in own:
            for line in await told.ask(fact["question"], owner):
                of = ("true", "lines") if matches(fact["answer"], [line]) else ("lines",)
                for mark, has_mark in (("as_earlier", _as_earlier(line)), ("in_doubt", _in_doubt(line))):
                    groups = tuple(f"{one}_{mark}" for one in of)
                    outcomes.append(Outcome(groups, has_mark, f"{line} | {fact['question']}"))
    return outcomes


def _message(fact: Mapping[str, str]) -> str:
    return " ".join(filter(None, (fact["before"], fact["told"], fact["after"])))


async def _dense(told: ToldMemory, messages: Sequence[str], facts: Sequence[Mapping[str, str]]) -> list[Outcome]:
    """Fill the same block from whole messages in the order of their cosines alone."""
    import numpy as np

    at = told.clock.at

    texts = [*messages, *(fact["question"] for fact in facts)]
    embedding = await told.tk.app.call(lambda services: services.search.embed_put(texts))
    if embedding is None:
        return []
    matrix = np.frombuffer(embedding.data, "<f4").reshape(len(texts), embedding.dims)
    pages = Pages(
        Memory(MemoryId(str(n)), (), text, "episodic", "active", "user", (Source("user", at=at),), 0, at, at)
        for n, text in enumerate(messages)
    )
    said = matrix[: len(messages)]
    outcomes: list[Outcome] = []
    for fact, asked in zip(facts, matrix[len(messages) :], strict=True):
        order = [str(place) for place in np.argsort(-(said @ asked), kind="stable")]
        shown = [messages[int(turn)] for turn in pages.filled(order, DEFAULT_BUDGET_TOKENS).turns]
        group = "dense_in_block" if fact["lang"] == "en" else "dense_in_block:other"
        outcomes.append(Outcome((group,), matches(fact["answer"], shown), fact["question"]))
    return outcomes


async def _update(told: ToldMemory, item: Mapping[str, Any], owner: str) -> list[Outcome]:
    for message in item["told"]:
        await told.tell(message, owner)
    shown = await told.ask(item["question"], owner)
    as_fact = [line for line in shown if not _is_marked(line)]
    stale = any(matches(old, as_fact) for old in item["stale"])
    in_doubt = not stale and any(matches(old, filter(_in_doubt, shown)) for old in item["stale"])
    current = all(matches(new, shown) for new in item["current"])
    name = f"{' → '.join(item['told'])} | {item['question']}"
    return [
        Outcome(("current_in_block", f"current_in_block:{item['kind']}"), current, name, shown),
        Outcome(("stale_as_fact", f"stale_as_fact:{item['kind']}"), stale, name, shown),
        Outcome(("stale_in_doubt",), in_doubt, name, shown),
    ]


async def _several(told: ToldMemory, item: Mapping[str, Any], owner: str) -> list[Outcome]:
    for message in item["told"]:
        await told.tell(message, owner)
    shown = await told.ask(item["question"], owner)
    groups = ("several_both", "several_both:near") if item["near"] else ("several_both",)
    both = all(matches(value, shown) for value in item["current"])
    as_earlier = any(map(_as_earlier, shown))
    name = f"{' + '.join(item['told'])} | {item['question']}"
    return [
        Outcome(groups, both, name, shown),
        Outcome(("several_unmarked",), not any(map(_is_marked, shown)), name, shown),
        Outcome(("several_in_doubt",), not as_earlier and any(map(_in_doubt, shown)), name, shown),
    ]


async def _paste(told: ToldMemory, item: Mapping[str, Any], owner: str) -> list[Outcome]:
    await told.tell(item["message"], owner)
    facts = await told.facts(owner)
    taken = any(matches(other, facts) for other in item["not_user"])
    kept = [Outcome(("own_words_kept",), matches(own, facts), item["message"], facts) for own in item["user"]]
    return [Outcome(("pasted_as_user",), taken, item["message"], facts), *kept]


async def _dialogue(told: ToldMemory, item: Mapping[str, Any], owner: str) -> list[Outcome]:
    for message in item["turns"]:
        await told.tell(message, owner, thread_id=owner)
    facts = await told.facts(owner)
    kept = [Outcome(("keep_recall",), matches(keep, facts), f"{owner}: {keep}", facts) for keep in item["keep"]]
    right = [
        Outcome(("keep_precision",), _any(item["keep"], fact) and not _any(item["never"], fact), f"{owner}: {fact}")
        for fact in facts
    ]
    return [*kept, *right]


async def _shared(told: ToldMemory, items: Sequence[Mapping[str, Any]], count: int, steps: Steps) -> list[Outcome]:
    """Tell the turns of *count* items of one language to each owner, mixed at random, and ask for each item."""
    rng = Random(count)  # noqa: S311 - the order is the same in each run
    order = sorted(rng.sample(items, len(items)), key=itemgetter("lang"))
    outcomes: list[Outcome] = []
    for start in range(0, len(order), count):
        owner, own = f"shared-{count}-{start}", order[start : start + count]
        turns = [(time, item, turn) for item in own for turn, time in enumerate(_times(item, rng))]
        said: dict[str | None, tuple[Mapping[str, Any], int]] = {}
        for _, item, turn in sorted(turns, key=itemgetter(0)):
            said[await told.tell(item["turns"][turn], owner)] = item, turn
        for item in own:
            recall = await told.recall(item["question"], owner)
            shown = [(*said[one.memory.sources[-1].message_id], one) for one in recall.memories]
            outcomes += _of_turns(item, shown, f":{count}", told.lines(recall))
            steps.advance()
    return outcomes


def _times(item: Mapping[str, Any], rng: Random) -> list[float]:
    return sorted(rng.random() for _ in item["turns"])


def _of_turns(
    item: Mapping[str, Any], shown: Sequence[tuple[Mapping[str, Any], int, Recalled]], group: str, lines: Sequence[str]
) -> Iterator[Outcome]:
    """Yield what became of the turns of *item*, and of each true line.

    Args:
        item: What was asked for.
        shown: The item, the turn and the memory of each line.
        group: Follows the names of the figures.
        lines: The block.
    """
    name = f"{' / '.join(item['turns'])} | {item['question']}"
    own = [(turn, line) for other, turn, line in shown if other is item]
    answers = [_is_outdated(line) for turn, line in own if turn == item["answer"]]
    yield Outcome((f"answer_in_block{group}",), bool(answers), name, lines)
    if answers:
        yield Outcome((f"answers_marked{group}",), all(answers), name, lines)
    marks = [(turn, line.earlier) for turn, line in own]
    for outdated in item["outdated"]:
        yield Outcome((f"outdated_unmarked{group}",), (outdated, False) in marks, name, lines)
    for other, turn, line in shown:
        if turn not in other["outdated"]:
            true = f"{other['turns'][turn]} | {name}"
            yield Outcome((f"true_marked{group}",), _is_outdated(line), true, lines)
            yield Outcome((f"true_in_doubt{group}",), line.may_hold, true, lines)


def _is_outdated(recalled: Recalled) -> bool:
    return recalled.earlier and not recalled.may_hold


def _is_marked(line: str) -> bool:
    return _MARKED.search(line) is not None


def _in_doubt(line: str) -> bool:
    return _IN_DOUBT.search(line) is not None


def _as_earlier(line: str) -> bool:
    return _is_marked(line) and not _in_doubt(line)


def matches(pattern: str, lines: Iterable[str]) -> bool:
    """Return whether *pattern* is found in the statement of one of *lines*."""
    return any(re.search(pattern, _LINE.sub("", line)) for line in lines)


def _any(patterns: Iterable[str], text: str) -> bool:
    return any(re.search(pattern, text) for pattern in patterns)


def render_table(report: dict[str, Any]) -> Table:
    """Return the figures of :func:`run_personal` as a table for people."""
    return table_of_figures(f"Personal statements, {report['budget_tokens']} tokens", report["results"])


def table_of_figures(title: str, figures: Sequence[Mapping[str, Any]]) -> Table:
    """Return what :func:`figures_of` returns as a table for people."""
    rows = [
        (row["figure"], f"{row['items']:,}", f"{row['share']:.1%}", told_interval(row["interval95"])) for row in figures
    ]
    return build_table(title, ("figure", ">items", ">share", ">95 % interval"), rows)
