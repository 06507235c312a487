"""What capture keeps of real conversations, and how much of what is asked for can be recalled from it.

Each speaker in turn is the user of a replay. Beside it stands the same speaker's every turn, kept
verbatim: what capture leaves out to be short is what lies between the two.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import combinations
from statistics import fmean
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from threadkeep.ids import MessageId
from threadkeep.memories.models import Approval, Memory, NewMemory, Source
from threadkeep.recall.service import DEFAULT_BUDGET_TOKENS
from threadkeep.storage.interface import Embedding
from threadkeep.text.semantics import content_words, gist_of, same_meaning
from threadkeep_evals.baselines import terms
from threadkeep_evals.conversation import Conversation, DataSet, Observation, Question, Turn
from threadkeep_evals.locomo import load_locomo
from threadkeep_evals.metrics import CATEGORY_GROUPS, percentile, rounded_interval, share_interval, told_interval
from threadkeep_evals.plot import Chart, Series
from threadkeep_evals.progress import Progress, Steps, silent
from threadkeep_evals.replay import Asking, ReplayClock, every_memory, exchanges, replay
from threadkeep_evals.rig import open_for_replay

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from threadkeep.client import Threadkeep
    from threadkeep.models.base import Embedder

BUDGETS: Final = (DEFAULT_BUDGET_TOKENS,)
"""Tokens of the block; the first is the product's own."""
DUPLICATE: Final = 0.92
"""Cosine from which two memories with mostly the same words are taken for one said twice."""
SHARED: Final = 0.8
"""Share of the words, of both together, that two duplicates have in common."""

CAPTURE: Final = "capture"
VERBATIM: Final = "verbatim"

_PAGE: Final = 1_000
_AFTERWARDS: Final = timedelta(days=1)
_GROUPS: Final = ("1-4", "1-5")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question about the user brought.

    Attributes:
        category: Of the question.
        wanted: The words of its answer that the user's turns of the evidence say.
        shown: Those of them that the block says, by budget and by what is kept.
        evidence: The user's turns that answer it.
        tokens: Of the block, likewise.
        milliseconds: Of the turn that recalled it, likewise: the agent, its model (scripted) and embedding included.
    """

    category: int | str
    wanted: frozenset[str]
    shown: Mapping[tuple[str, int], frozenset[str]]
    evidence: frozenset[str]
    tokens: Mapping[tuple[str, int], int]
    milliseconds: Mapping[tuple[str, int], float]


@dataclass(slots=True)
class ReplayedSide:
    """One speaker's replay, measured.

    Attributes:
        conversation_id: Of which conversation.
        speaker: Who was the user.
        turns: How often they spoke.
        memories: What was kept, episodes included.
        proposals: How much waits for approval.
        supported: How many facts the data set's notes support.
        noted: How many turns of the user the data set's notes are from.
        duplicates: How many memories say what an older one says.
        kept: The evidence that some memory is from; of facts alone.
        words: All words that the memories say, or said before.
        asked: The questions that the user's own turns answer.
    """

    conversation_id: str
    speaker: str
    turns: int
    memories: Sequence[Memory] = ()
    proposals: int = 0
    supported: int = 0
    noted: int = 0
    duplicates: Sequence[tuple[str, str]] = ()
    kept: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
    words: frozenset[str] = frozenset()
    asked: list[Asked] = field(default_factory=list[Asked])

    @property
    def facts(self) -> list[Memory]:
        """The kept memories that are no episodes."""
        return [memory for memory in self.memories if memory.kind != "episodic"]


def run_capture(
    path: Path,
    *,
    budgets: Sequence[int] = BUDGETS,
    conversations: Sequence[str] = (),
    embedder: Embedder | str | None = None,
    show: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Replay every conversation of a LoCoMo file from both sides, and return the figures as JSON.

    Args:
        path: The file.
        budgets: Tokens of the block in which evidence is looked for.
        conversations: Only these; empty: all.
        embedder: Instead of the one that the settings say; ``"none"``: search by words only.
        show: Whether what was kept is in the report, too.
        progress: Called after each step.

    Raises:
        InvalidInputError: It is no such file, or holds no such conversation.
    """
    data = load_locomo(path)
    sides = asyncio.run(_measured(data.chosen(conversations), tuple(budgets), embedder, progress))
    return report(data, sides, budgets=tuple(budgets), show=show)


async def _measured(
    conversations: Sequence[Conversation], budgets: Sequence[int], embedder: Embedder | str | None, progress: Progress
) -> list[ReplayedSide]:
    work = [(talk, speaker) for talk in conversations for speaker in talk.speakers]
    steps = Steps(sum(len(exchanges(*one)) + len(_own(*one)) for one in work), progress)
    return [await _side(talk, speaker, budgets, embedder, steps) for talk, speaker in work]


def _own(talk: Conversation, speaker: str) -> list[Question]:
    """Return the questions that at least one turn of *speaker* answers."""
    said = _said(talk, speaker)
    return [question for question in talk.questions if question.evidence & said.keys()]


def _said(talk: Conversation, speaker: str) -> dict[str, Turn]:
    return {turn.turn_id: turn for turn in talk.turns if turn.speaker == speaker and turn.words}


async def _side(
    talk: Conversation, speaker: str, budgets: Sequence[int], embedder: Embedder | str | None, steps: Steps
) -> ReplayedSide:
    """Replay one side, keep the same turns verbatim for another owner, and ask both."""
    said = _said(talk, speaker)
    clock = ReplayClock(talk.turns[0].at)
    async with open_for_replay(embedder, clock) as tk:
        await replay(tk, talk, speaker, user_id=CAPTURE, clock=clock, step=steps.advance)
        await tk.memories.remember_many([_verbatim(turn) for turn in said.values()], owner=VERBATIM)
        clock.move(talk.turns[-1].at + _AFTERWARDS)
        memories = await every_memory(tk, CAPTURE)
        side = ReplayedSide(talk.conversation_id, speaker, len(said), memories)
        side.proposals = len(await tk.proposals.list(owner=CAPTURE, limit=_PAGE))
        side.duplicates = await duplicates(memories, tk)
        notes = [note for note in talk.observations if note.speaker == speaker]
        side.supported = sum(is_supported(memory, notes) for memory in side.facts)
        side.noted = len({turn for note in notes for turn in note.turn_ids} & said.keys())
        side.kept = (_messages(memories) & said.keys(), _messages(side.facts) & said.keys())
        side.words = frozenset[str]().union(
            *(words_of(text) for one in memories for text in (one.text, *(old.text for old in one.history)))
        )
        asking = {budget: Asking(tk, budget_tokens=budget) for budget in budgets}
        for question in _own(talk, speaker):
            words = in_own_voice(question.text, speaker)
            side.asked.append(await _ask(asking, question, words, said))
            steps.advance()
    return side


def _verbatim(turn: Turn) -> NewMemory:
    return NewMemory(
        turn.words,
        sources=(Source("user", None, MessageId(turn.turn_id), None, turn.at),),
        created_at=turn.at,
        approval=Approval("benchmark", turn.at),
    )


def _messages(memories: Iterable[Memory]) -> frozenset[str]:
    """Return the messages that *memories* are from, and what they said before."""
    return frozenset(
        str(source.message_id)
        for memory in memories
        for source in (*memory.sources, *(old for version in memory.history for old in version.sources))
        if source.message_id is not None
    )


def words_of(text: str) -> frozenset[str]:
    """Return the stems of the words of *text*, without stop words."""
    return frozenset(terms(text))


async def _ask(
    asking: Mapping[int, Asking],
    question: Question,
    words: str,
    said: Mapping[str, Turn],
) -> Asked:
    """Ask in every budget, of what capture kept and of every turn verbatim."""
    shown: dict[tuple[str, int], frozenset[str]] = {}
    tokens: dict[tuple[str, int], int] = {}
    milliseconds: dict[tuple[str, int], float] = {}
    evidence = question.evidence & said.keys()
    spoken = frozenset[str]().union(*(words_of(said[turn].words) for turn in evidence))
    wanted = words_of(question.answer) & spoken - words_of(question.text)
    for kept in (CAPTURE, VERBATIM):
        for budget, agent in asking.items():
            started = perf_counter()
            block, tokens[kept, budget] = await agent.ask(words, user_id=kept)
            milliseconds[kept, budget] = (perf_counter() - started) * 1000
            shown[kept, budget] = wanted & words_of(block)
    return Asked(question.category, wanted, shown, evidence, tokens, milliseconds)


def in_own_voice(question: str, speaker: str) -> str:
    """Return *question* as *speaker* would ask it of an agent: ``When did I move?`` for ``When did Ana move?``.

    In the file, another person asks about them, by a name that they never say themselves.
    """
    name = re.escape(speaker)
    return re.sub(rf"\b{name}\b", "I", re.sub(rf"\b{name}['’]s?(?!\w)", "my", question))


def is_supported(memory: Memory, notes: Sequence[Observation]) -> bool:
    """Return whether a note on the same turn says something of what *memory* says."""
    wanted = set(gist_of(memory.text).words)
    turns = _messages([memory])
    return any(note.turn_ids & turns and wanted & set(gist_of(note.text).words) for note in notes)


async def duplicates(memories: Sequence[Memory], tk: Threadkeep) -> list[tuple[str, str]]:
    """Return the memories that say what an older one of their kind says, each with one of those.

    By other rules than those that capture itself keeps them apart with: by vectors, and by how many
    words the two share.
    """
    import numpy as np

    if not memories:
        return []
    ordered = sorted(memories, key=lambda memory: (memory.created_at, memory.memory_id))

    async def embedded(services: Any) -> Embedding | None:
        return await services.search.embed_put([memory.text for memory in ordered])

    vectors = await tk.app.call(embedded)
    rows = np.frombuffer(vectors.data, dtype="<f4").reshape(len(ordered), -1) if vectors else None
    cosines = None if rows is None else rows @ rows.T
    said = [frozenset(content_words(memory.text)) for memory in ordered]
    gists = [gist_of(memory.text) for memory in ordered]
    found: dict[int, tuple[str, str]] = {}
    for older, newer in combinations(range(len(ordered)), 2):
        if newer in found or ordered[older].kind != ordered[newer].kind:
            continue
        near = cosines is None or cosines[older, newer] >= DUPLICATE
        shared = len(said[older] & said[newer]) / max(1, len(said[older] | said[newer]))
        if same_meaning(gists[older], gists[newer]) or (near and shared >= SHARED):
            found[newer] = (ordered[newer].text, ordered[older].text)
    return list(found.values())


def report(
    data: DataSet, sides: Sequence[ReplayedSide], *, budgets: Sequence[int], show: bool = False
) -> dict[str, Any]:
    """Return the figures as JSON: for each side of each conversation, and for all together."""
    rows = [_row(f"{side.conversation_id} {side.speaker}", [side], budgets) for side in sides]
    if show:
        for row, side in zip(rows, sides, strict=True):
            row["memories"] = [
                {"kind": memory.kind, "text": memory.text, "turns": sorted(_messages([memory]))}
                for memory in sorted(side.memories, key=lambda memory: memory.created_at)
            ]
            row["duplicate_texts"] = list(side.duplicates)
    return {
        "dataset": data.name,
        "file_sha256": data.sha256,
        "extractor": "local",
        "budgets": list(budgets),
        "results": [*rows, _row("all", sides, budgets)],
    }


def _row(name: str, sides: Sequence[ReplayedSide], budgets: Sequence[int]) -> dict[str, Any]:
    turns = sum(side.turns for side in sides)
    facts = sum(len(side.facts) for side in sides)
    memories = sum(len(side.memories) for side in sides)
    evidence = sum(len(_evidence(side)) for side in sides)
    return {
        "conversation": name,
        "turns": turns,
        "facts_per_100_turns": _share(100 * facts, turns, 2),
        "episodes_per_100_turns": _share(100 * (memories - facts), turns, 2),
        "proposals": sum(side.proposals for side in sides),
        "facts_supported": _share(sum(side.supported for side in sides), facts),
        "facts_supported_interval95": share_interval(sum(side.supported for side in sides), facts),
        "turns_noted": _share(sum(side.noted for side in sides), turns),
        "duplicates_per_100_memories": _share(100 * sum(len(side.duplicates) for side in sides), memories, 2),
        "answer_words_kept": _share(
            sum(len(one.wanted & side.words) for side in sides for one in side.asked),
            sum(len(one.wanted) for side in sides for one in side.asked),
        ),
        "evidence_turns": evidence,
        "evidence_kept": _share(sum(len(side.kept[0] & _evidence(side)) for side in sides), evidence),
        "evidence_kept_as_facts": _share(sum(len(side.kept[1] & _evidence(side)) for side in sides), evidence),
        "recall": [
            _recall([one for side in sides for one in side.asked], kept, budget, group)
            for group in _GROUPS
            for budget in budgets
            for kept in (CAPTURE, VERBATIM)
        ],
    }


def _evidence(side: ReplayedSide) -> frozenset[str]:
    return frozenset[str]().union(*(one.evidence for one in side.asked))


def _recall(asked: Sequence[Asked], kept: str, budget: int, group: str) -> dict[str, Any]:
    chosen = [one for one in asked if one.category in CATEGORY_GROUPS[group] and one.wanted]
    shares = [len(one.shown[kept, budget]) / len(one.wanted) for one in chosen]
    return {
        "kept": kept,
        "budget_tokens": budget,
        "categories": group,
        "questions": len(chosen),
        "recall": round(fmean(shares), 4) if shares else None,
        "interval95": rounded_interval(shares) if shares else None,
        "all_words": _share(sum(share == 1 for share in shares), len(shares)),
        "empty": _share(sum(one.tokens[kept, budget] == 0 for one in chosen), len(chosen)),
        "tokens_mean": round(fmean(one.tokens[kept, budget] for one in chosen), 1) if chosen else None,
        "ms_p50": round(percentile([one.milliseconds[kept, budget] for one in chosen], 0.5), 3) if chosen else None,
    }


def _share(part: float, whole: int, digits: int = 4) -> float | None:
    return round(part / whole, digits) if whole else None


def render_table(figures: Mapping[str, Any]) -> Table:
    """Return the figures of :func:`run_capture` for people; recall is of categories 1-4."""
    from rich.table import Table

    table = Table(
        title=f"What capture keeps of {figures['dataset']} ({figures['extractor']} extractor)", title_justify="left"
    )
    table.add_column("conversation, user")
    for budget in figures["budgets"]:
        table.add_column(f"answer words in {budget}", justify="right")
        table.add_column("verbatim", justify="right")
    for name in (
        "answer words kept",
        "turns",
        "facts/100",
        "episodes/100",
        "supported",
        "95 % interval",
        "duplicates/100",
        "evidence kept",
    ):
        table.add_column(name, justify="right")
    for row in figures["results"]:
        recalled = [one for one in row["recall"] if one["categories"] == "1-4"]
        table.add_row(
            row["conversation"],
            *(f"{_percent(one['recall'])} ({_number(one['tokens_mean'])})" for one in recalled),
            _percent(row["answer_words_kept"]),
            f"{row['turns']:,}",
            _number(row["facts_per_100_turns"]),
            _number(row["episodes_per_100_turns"]),
            _percent(row["facts_supported"]),
            told_interval(row["facts_supported_interval95"]),
            _number(row["duplicates_per_100_memories"]),
            _percent(row["evidence_kept"]),
            end_section=row is figures["results"][-2],
        )
    table.caption = (
        "In brackets: tokens of the block. Verbatim: every turn of the user kept as it was said. Answer words: those "
        "that the user's turns of the evidence say and the question does not."
    )
    return table


def chart(figures: Mapping[str, Any]) -> Chart:
    """Return the trade-off of :func:`run_capture` as a chart: tokens of the block against what is recalled."""
    *_, every = figures["results"]
    asked = [row for row in every["recall"] if row["categories"] == "1-4" and row["tokens_mean"]]
    rows = sorted(asked, key=lambda row: row["budget_tokens"])
    names = {
        CAPTURE: f"what capture keeps: {_number(every['facts_per_100_turns'])} facts and "
        f"{_number(every['episodes_per_100_turns'])} episodes for 100 turns",
        VERBATIM: "every turn kept verbatim",
    }
    return Chart(
        title=f"{figures['dataset']}, replayed: words of the answers that the user said, recalled by the middleware",
        x="tokens of the block, mean",
        y="share of the answers' words in it",
        series=[
            Series(
                name,
                [(row["tokens_mean"], row["recall"]) for row in rows if row["kept"] == kept],
                [f"{row['budget_tokens']:,}" for row in rows if row["kept"] == kept],
            )
            for kept, name in names.items()
        ],
        percent=True,
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
