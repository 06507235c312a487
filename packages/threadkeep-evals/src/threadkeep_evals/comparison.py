"""Recall of evidence in real conversations: ours beside its baselines and peers, in one run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from threadkeep.recall.service import DEFAULT_BUDGET_TOKENS
from threadkeep_evals.methods import (
    Answer,
    Bm25Method,
    DenseMethod,
    Method,
    RecordingEmbedder,
    ThreadkeepMethod,
)
from threadkeep_evals.metrics import first_seen, score
from threadkeep_evals.peers import NotRun, environments_folder, open_peers
from threadkeep_evals.progress import Progress, Steps, silent
from threadkeep_evals.rig import open_in_file

if TYPE_CHECKING:
    from threadkeep.models.base import Embedder
    from threadkeep_evals.blocks import Block, Pages
    from threadkeep_evals.conversation import Conversation, DataSet, Question

T = TypeVar("T")

BUDGETS: Final = (DEFAULT_BUDGET_TOKENS,)
"""Tokens of the block, where nothing else is asked for: the product's own."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a model would have been given for a question.

    Attributes:
        evidence: Share of the evidence in it; ``None`` where the file does not say which turns that is.
        tokens: Its length.
    """

    evidence: float | None
    tokens: int


@dataclass(frozen=True, slots=True)
class Scored:
    """One question answered by one method.

    Attributes:
        method: Its name.
        conversation_id: What the question is about.
        category: Of the question.
        figures: By level, ``turn`` or ``session``: each figure of ``METRICS``, and none of them where the method has no
            order; a level is left out where the file does not say what has to be found there.
        milliseconds: What the search took.
        given: By budget of the block.
        listed: A block of the default budget filled from the top of the list, whatever matters, with turns cut as ours
            are; ``None``: the method has no list.
    """

    method: str
    conversation_id: str
    category: int | str
    figures: Mapping[str, Mapping[str, float]]
    milliseconds: float
    given: Mapping[int, Given]
    listed: Given | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every question with evidence, answered by every method.

    Attributes:
        data: What was measured.
        embedder: Its name; ``None``: words only.
        scored: The answers.
        budgets: Tokens of the blocks; the first is the one of the tables.
        of_others: Of each question, asked of another conversation's memory, whether our block stayed empty.
        not_run: Peers that could not be had.
    """

    data: DataSet
    embedder: str | None
    scored: tuple[Scored, ...]
    budgets: tuple[int, ...] = BUDGETS
    of_others: tuple[bool, ...] = ()
    not_run: tuple[NotRun, ...] = ()

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in the order in which they ran."""
        return first_seen(one.method for one in self.scored)

    def chosen(self, method: str, categories: str, level: str) -> list[Scored]:
        """Return the questions of a group of categories that count at *level*, as *method* answered them."""
        group = self.data.groups[categories]
        return [one for one in self.scored if one.method == method and one.category in group and level in one.figures]


def compare(
    data: DataSet,
    *,
    embedder: Embedder | str | None = None,
    peers: Sequence[str] = (),
    peers_folder: Path | None = None,
    budgets: Sequence[int] = BUDGETS,
    progress: Progress = silent,
) -> Comparison:
    """Store the conversations of *data*, ask every question with evidence, and score the answers.

    Args:
        data: The conversations.
        embedder: Instead of the one that the settings say; ``"none"``: ours searches by words only, and there is no
            dense baseline.
        peers: Of ``PEERS``, beside the baselines.
        peers_folder: Where environments of peers are kept; unset: the user's cache.
        budgets: Tokens of the blocks.
        progress: Called after each step.
    """
    return asyncio.run(_compare(data, embedder, peers, peers_folder or environments_folder(), tuple(budgets), progress))


async def _compare(
    data: DataSet,
    embedder: Embedder | str | None,
    peers: Sequence[str],
    peers_folder: Path,
    budgets: tuple[int, ...],
    progress: Progress,
) -> Comparison:
    from threadkeep.registry import create_embedder
    from threadkeep.settings import Settings

    talks = data.conversations
    chosen = create_embedder(Settings.load()) if embedder is None else embedder
    recording = None if chosen is None or isinstance(chosen, str) else RecordingEmbedder(chosen)
    async with AsyncExitStack() as running:
        tk = await running.enter_async_context(open_in_file(recording or "none"))
        ours = ThreadkeepMethod(tk, budgets=budgets)
        methods: list[Method] = [ours, Bm25Method()]
        if recording:
            methods.append(DenseMethod(tk, recording))
        others, not_run = await open_peers(peers, recording, tk.app.event_loop, peers_folder, running)
        turns = sum(len(one.turns) for one in talks)
        questions = sum(question.has_evidence for one in talks for question in one.questions)
        steps = Steps(turns + questions * (2 if len(talks) > 1 else 1), progress)
        scored, failed = await _score_all(talks, ours, [*methods, *others], budgets, steps)
        empty = await _ask_others(talks, ours, steps)
        name = recording.name if recording else None
        return Comparison(data, name, scored, budgets, empty, (*not_run, *failed))


async def _ask_others(conversations: Sequence[Conversation], ours: ThreadkeepMethod, steps: Steps) -> tuple[bool, ...]:
    """Ask each conversation's questions of the others' memories in turn."""
    others = len(conversations) - 1
    empty: list[bool] = []
    for place, conversation in enumerate(conversations if others else ()):
        asked = [question for question in conversation.questions if question.has_evidence]
        for number, question in enumerate(asked):
            other = conversations[(place + 1 + number % others) % len(conversations)]
            empty.append(await ours.brings_nothing(question.text, other))
            steps.advance()
    return tuple(empty)


async def _score_all(
    conversations: Sequence[Conversation],
    ours: ThreadkeepMethod,
    methods: Sequence[Method],
    budgets: Sequence[int],
    steps: Steps,
) -> tuple[tuple[Scored, ...], list[NotRun]]:
    """Have every method learn a conversation and answer its questions; the lines of every block are ours.

    A method other than ours that fails is left out of all figures, and named with the reason.
    """
    scored: list[Scored] = []
    attempts = _Attempts(ours)
    for conversation in conversations:
        for method in methods:
            await attempts.run(method, partial(method.learn, conversation))
        steps.advance(len(conversation.turns))
        scoring = _Scoring(conversation, await ours.pages(), budgets)
        for question in conversation.questions:
            if not question.has_evidence:
                continue
            for method in methods:
                answer = await attempts.run(method, partial(method.answer, question.text))
                if answer is not None:
                    scored.append(scoring.score(method.name, question, answer))
            steps.advance()
    return tuple(one for one in scored if one.method not in attempts.failed), list(attempts.failed.values())


class _Attempts:
    """Runs the work of methods; one other than ours that failed is not asked again.

    Args:
        ours: Its errors are raised.
    """

    def __init__(self, ours: ThreadkeepMethod) -> None:
        self._ours = ours
        self.failed: dict[str, NotRun] = {}

    async def run(self, method: Method, work: Callable[[], Awaitable[T]]) -> T | None:
        """Return what *work* of *method* returns; None if the method fails or has failed."""
        if method is self._ours:
            return await work()
        if method.name in self.failed:
            return None
        try:
            return await work()
        except Exception as error:  # noqa: BLE001 - whatever a peer's own code raises, the others are measured
            self.failed[method.name] = NotRun.of(method.name, error)
            return None


class _Scoring:
    """Scores answers about one conversation."""

    def __init__(self, conversation: Conversation, pages: Pages, budgets: Sequence[int]) -> None:
        self._id = conversation.conversation_id
        self._session_of = {turn.turn_id: str(turn.session) for turn in conversation.turns}
        self._pages = pages
        self._budgets = budgets
        self._everything = pages.everything()

    def score(self, method: str, question: Question, answer: Answer) -> Scored:
        """Return the figures of one answer."""
        figures: dict[str, Mapping[str, float]] = {}
        if question.evidence:
            figures["turn"] = {} if answer.turns is None else score(answer.turns, question.evidence)
        # Where sessions are told, they are told of whole sessions, marked turns or not.
        wanted = frozenset(map(str, question.sessions)) or frozenset(self._session_of[one] for one in question.evidence)
        sessions = first_seen(self._session_of[turn] for turn in answer.deep)
        figures["session"] = {} if answer.turns is None else score(sessions, wanted)
        listed = None
        if answer.turns is not None:
            listed = self._pages.filled(answer.deep, DEFAULT_BUDGET_TOKENS, question=question.text)
        return Scored(
            method=method,
            conversation_id=self._id,
            category=question.category,
            figures=figures,
            milliseconds=answer.milliseconds,
            given={budget: _given(question, self._block(answer, budget)) for budget in self._budgets},
            listed=listed and _given(question, listed),
        )

    def _block(self, answer: Answer, budget: int) -> Block:
        if answer.turns is None:
            return self._everything
        return self._pages.filled(answer.deep, budget) if answer.blocks is None else answer.blocks[budget]


def _given(question: Question, block: Block) -> Given:
    evidence = question.evidence
    return Given(len(evidence.intersection(block.turns)) / len(evidence) if evidence else None, block.tokens)
