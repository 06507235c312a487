"""Recall of evidence in real conversations: ours beside its baselines, in one run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from threadkeep.evals.beam import load_beam
from threadkeep.evals.conversation import Conversation, DataSet, Question
from threadkeep.evals.locomo import load_locomo
from threadkeep.evals.methods import Answer, Bm25Method, DenseMethod, Method, RecordingEmbedder, ThreadkeepMethod
from threadkeep.evals.metrics import (
    METRICS,
    bootstrap_interval,
    first_seen,
    mean_scores,
    percentile,
    score,
)
from threadkeep.evals.opening import opened_in_a_file
from threadkeep.evals.progress import Progress, Steps, silent

if TYPE_CHECKING:
    from rich.table import Table

    from threadkeep.models.port import Embedder


@dataclass(frozen=True, slots=True)
class Scored:
    """One question answered by one method.

    Attributes:
        method: Its name.
        category: Of the question.
        turn: Each figure of ``METRICS`` for the ranking of turns.
        session: Each figure for the ranking of sessions.
        milliseconds: What the search took.
        tokens: Length of the rendered block, where one was rendered.
        in_block: Share of the evidence that stands in it.
        in_list: The same of a block filled from the top of the list, whatever matters.
        empty: Whether nothing stands in it.
    """

    method: str
    category: int | str
    turn: dict[str, float]
    session: dict[str, float]
    milliseconds: float
    tokens: int | None
    in_block: float
    in_list: float
    empty: bool

    def at(self, level: str) -> dict[str, float]:
        """Return the figures of ``turn`` or ``session`` level."""
        return self.turn if level == "turn" else self.session


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every question with evidence, answered by every method.

    Attributes:
        data: What was measured.
        scored: The answers.
        of_others: Of each question, asked of another conversation's memory, whether our block stayed empty.
    """

    data: DataSet
    scored: tuple[Scored, ...]
    of_others: tuple[bool, ...] = ()

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in the order in which they ran."""
        return first_seen(one.method for one in self.scored)

    def chosen(self, method: str, categories: str) -> list[Scored]:
        """Return the questions of a group of categories, as *method* answered them."""
        group = self.data.groups[categories]
        return [one for one in self.scored if one.method == method and one.category in group]

    def as_json(self) -> dict[str, Any]:
        """Return the figures as the command line prints them; a group without questions is left out."""
        return {
            "dataset": self.data.kind,
            "file_sha256": self.data.sha256,
            "block": self.block(),
            "results": [
                self._row(method, level, categories, chosen)
                for method in self.methods
                for level in self.data.levels
                for categories in self.data.groups
                if (chosen := self.chosen(method, categories))
            ],
        }

    def block(self) -> dict[str, Any]:
        """Return what stands in our blocks, and how often nothing does where nothing can matter."""
        ours = [one for one in self.scored if one.tokens is not None]
        return {
            "n": len(ours),
            "tokens_mean": round(fmean(one.tokens or 0 for one in ours), 1),
            "evidence": round(fmean(one.in_block for one in ours), 4),
            "evidence_without_floor": round(fmean(one.in_list for one in ours), 4),
            "empty": round(fmean(one.empty for one in ours), 4),
            "empty_of_others": round(fmean(self.of_others), 4) if self.of_others else None,
        }

    def _row(self, method: str, level: str, categories: str, chosen: Sequence[Scored]) -> dict[str, Any]:
        tokens = [one.tokens for one in chosen if one.tokens is not None]
        figures = mean_scores([one.at(level) for one in chosen])
        return {
            "method": method,
            "level": level,
            "categories": categories,
            "n": len(chosen),
            **{name: round(figures[name], 4) for name in METRICS},
            "ms_p50": round(percentile([one.milliseconds for one in chosen], 0.5), 3),
            "tokens_mean": round(fmean(tokens), 1) if tokens else None,
        }


def compare_locomo(path: Path, *, embedder: Embedder | str | None = None, progress: Progress = silent) -> Comparison:
    """Measure a LoCoMo file; see :func:`compare`.

    Raises:
        InvalidInputError: It is not a LoCoMo file.
    """
    return compare(load_locomo(path), embedder=embedder, progress=progress)


def compare_beam(path: Path, *, embedder: Embedder | str | None = None, progress: Progress = silent) -> Comparison:
    """Measure a file of BEAM's chats; see :func:`compare`.

    Raises:
        InvalidInputError: It is not a BEAM file.
    """
    return compare(load_beam(path), embedder=embedder, progress=progress)


def compare(data: DataSet, *, embedder: Embedder | str | None = None, progress: Progress = silent) -> Comparison:
    """Store the conversations of *data*, ask every question with evidence, and score the answers.

    Args:
        data: The conversations.
        embedder: Instead of the one that the settings say; ``"none"``: ours searches by words only,
            and there is no dense baseline.
        progress: Told how far it is.
    """
    return Comparison(data, *asyncio.run(_compare(data.conversations, embedder, progress)))


async def _compare(
    conversations: Sequence[Conversation], embedder: Embedder | str | None, progress: Progress
) -> tuple[tuple[Scored, ...], tuple[bool, ...]]:
    from threadkeep.chosen import embedder_of
    from threadkeep.settings import Settings

    chosen = embedder_of(Settings.load()) if embedder is None else embedder
    recording = None if chosen is None or isinstance(chosen, str) else RecordingEmbedder(chosen)
    async with opened_in_a_file(recording or "none") as tk:
        ours = ThreadkeepMethod(tk)
        methods: list[Method] = [ours, Bm25Method()]
        if recording:
            methods.append(DenseMethod(tk, recording))
        turns = sum(len(one.turns) for one in conversations)
        questions = sum(bool(question.evidence) for one in conversations for question in one.questions)
        steps = Steps(turns + questions * (2 if len(conversations) > 1 else 1), progress)
        return await _score_all(conversations, methods, steps), await _ask_others(conversations, ours, steps)


async def _ask_others(conversations: Sequence[Conversation], ours: ThreadkeepMethod, steps: Steps) -> tuple[bool, ...]:
    """Ask each conversation's questions of the others' memories in turn."""
    others = len(conversations) - 1
    empty: list[bool] = []
    for place, conversation in enumerate(conversations if others else ()):
        asked = [question for question in conversation.questions if question.evidence]
        for number, question in enumerate(asked):
            other = conversations[(place + 1 + number % others) % len(conversations)]
            empty.append(await ours.brings_nothing(question.text, other))
            steps.advance()
    return tuple(empty)


async def _score_all(
    conversations: Sequence[Conversation], methods: Sequence[Method], steps: Steps
) -> tuple[Scored, ...]:
    scored: list[Scored] = []
    for conversation in conversations:
        for method in methods:
            await method.learn(conversation)
        steps.advance(len(conversation.turns))
        session_of = {turn.turn_id: str(turn.session) for turn in conversation.turns}
        for question in conversation.questions:
            if not question.evidence:
                continue
            scored += [
                _score(method.name, question, await method.answer(question.text), session_of) for method in methods
            ]
            steps.advance()
    return tuple(scored)


def _score(method: str, question: Question, answer: Answer, session_of: dict[str, str]) -> Scored:
    sessions = first_seen(session_of[turn] for turn in answer.deep)
    return Scored(
        method=method,
        category=question.category,
        turn=score(answer.turns, question.evidence),
        session=score(sessions, frozenset(session_of[turn] for turn in question.evidence)),
        milliseconds=answer.milliseconds,
        tokens=answer.tokens,
        in_block=len(question.evidence.intersection(answer.block)) / len(question.evidence),
        in_list=len(question.evidence.intersection(answer.listed)) / len(question.evidence),
        empty=not answer.block,
    )


def render_table(comparison: Comparison) -> Table:
    """Return the figures for people, with the interval that resampling the questions gives recall@10."""
    from rich.table import Table

    table = Table(title=f"{comparison.data.name}: {comparison.data.summary}", title_justify="left")
    table.add_column("method")
    table.add_column("level")
    table.add_column("categories")
    for name in ("n", "recall@5", "recall@10", "95 % interval", "recall@20", "all@10", "ndcg@10", "ms p50", "tokens"):
        table.add_column(name, justify="right")
    *_, last = comparison.data.groups
    for row in comparison.as_json()["results"]:
        chosen = comparison.chosen(row["method"], row["categories"])
        low, high = bootstrap_interval([one.at(row["level"])["recall@10"] for one in chosen])
        table.add_row(
            row["method"],
            row["level"],
            row["categories"],
            f"{row['n']:,}",
            f"{row['recall@5']:.1%}",
            f"{row['recall@10']:.1%}",
            f"{low:.1%} – {high:.1%}",
            f"{row['recall@20']:.1%}",
            f"{row['all@10']:.1%}",
            f"{row['ndcg@10']:.1%}",
            f"{row['ms_p50']:.2f}",
            "–" if row["tokens_mean"] is None else f"{row['tokens_mean']:.0f}",
            end_section=row["categories"] == last,
        )
    block = comparison.block()
    others = block["empty_of_others"]
    table.caption = (
        f"In our block of 300 tokens stands {block['evidence']:.1%} of the evidence "
        f"({block['evidence_without_floor']:.1%} without a floor of relevance)"
        + ("." if others is None else f"; asked of another's memory, {others:.1%} of the questions bring nothing.")
    )
    return table
