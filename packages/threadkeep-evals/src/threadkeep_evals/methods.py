"""The methods that are compared on conversations: ours through the public surface, and the baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol

from threadkeep.ids import MemoryId, MessageId, ThreadId
from threadkeep.memories.models import TRUSTED, Approval, NewMemory, Source
from threadkeep.recall.service import DEFAULT_BUDGET_TOKENS
from threadkeep_evals.baselines import Bm25, Dense
from threadkeep_evals.blocks import Block, Pages
from threadkeep_evals.rig import TIMEOUT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from threadkeep.client import Threadkeep
    from threadkeep.models.base import Embedder
    from threadkeep.recall.models import Recall, Recalled
    from threadkeep_evals.conversation import Conversation, Turn

OURS: Final = "threadkeep"

SEARCH_LIMIT: Final = 20
"""How many turns a timed search asks for, and how many sessions are ranked: the deepest recall that is reported."""

_DEEP_AT_FIRST: Final = 128

_SLICE: Final = 500


@dataclass(frozen=True, slots=True)
class Answer:
    """What a method found for a question.

    Attributes:
        turns: Turn ids, best first; what was timed. ``None``: everything is given, in no order that counts.
        deep: Turn ids as deep as the method goes, for ranking sessions by their best turn.
        milliseconds: What finding *turns* took, embedding the question included.
        blocks: What a model is given, by budget in tokens; ``None``: whatever is first in *deep*, as much as fits.
    """

    turns: Sequence[str] | None
    deep: Sequence[str]
    milliseconds: float
    blocks: Mapping[int, Block] | None = None


class Method(Protocol):
    """Something that finds the turns of a conversation that answer a question."""

    name: str

    async def learn(self, conversation: Conversation) -> None:
        """Take in the turns of *conversation*; the questions that follow are about it."""
        ...

    async def answer(self, question: str) -> Answer:
        """Find the turns that answer *question*."""
        ...


class RecordingEmbedder:
    """An embedder that keeps the vectors it made, so that a baseline compares the very same ones.

    It also keeps how long a text took when it was new: the embedder may know recent questions, and
    the second method would seem faster.
    """

    remote: bool

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kept: dict[str, NDArray[np.float32]] = {}
        self._first_ms: dict[str, float] = {}
        self.name = embedder.name
        self.remote = embedder.remote

    @property
    def dims(self) -> int | None:
        """Length of a vector."""
        return self._embedder.dims

    async def ready(self) -> None:
        """Load the model."""
        await self._embedder.ready()

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed those of *texts* that were never seen, and keep their vectors."""
        import numpy as np

        if unseen := [text for text in dict.fromkeys(texts) if text not in self._kept]:
            started = perf_counter()
            vectors = await self._embedder.embed(unseen)
            # Ours may embed a question in several forms at once; each took its share.
            self._first_ms.update(dict.fromkeys(unseen, (perf_counter() - started) * 1000 / len(unseen)))
            self._kept.update(zip(unseen, vectors, strict=True))
        return np.stack([self._kept[text] for text in texts])

    def knows(self, texts: Sequence[str]) -> bool:
        """Whether all of *texts* were embedded before, so that nothing is waited for."""
        return self._kept.keys() >= set(texts)

    async def question(self, text: str) -> tuple[NDArray[np.float32], float]:
        """Return the vector of *text* and how many milliseconds embedding it took when it was new."""
        (vector,) = await self.embed([text])
        return vector, self._first_ms[text]


class ThreadkeepMethod:
    """Ours: each conversation is an owner, each turn a memory with its provenance.

    Args:
        tk: Where to keep them.
        budgets: Upper bounds of the rendered block.
    """

    name = OURS

    def __init__(self, tk: Threadkeep, *, budgets: Sequence[int]) -> None:
        self._tk = tk
        self._budgets = budgets
        self._owner = ""
        self._size = self._sessions = 0

    async def learn(self, conversation: Conversation) -> None:
        """Store the turns through the public write path, in batches."""
        self._owner = conversation.conversation_id
        self._size = len(conversation.turns)
        self._sessions = min(SEARCH_LIMIT, len({turn.session for turn in conversation.turns}))
        news = [memory_of_turn(turn) for turn in conversation.turns]
        for start in range(0, len(news), _SLICE):
            await self._tk.memories.remember_many(news[start : start + _SLICE], owner=self._owner)

    async def answer(self, question: str) -> Answer:
        """Search as an application would, and render the block that a model would see."""
        started = perf_counter()
        found = await self._tk.memories.search(question, owner=self._owner, limit=SEARCH_LIMIT)
        milliseconds = (perf_counter() - started) * 1000
        deep = await self._deep(question)
        blocks = {budget: await self._block(question, self._owner, budget) for budget in self._budgets}
        return Answer(
            [one.memory.memory_id for one in found],
            [one.memory.memory_id for one in deep],
            milliseconds,
            {
                budget: Block([one.memory.memory_id for one in block.memories], block.tokens)
                for budget, block in blocks.items()
            },
        )

    async def pages(self) -> Pages:
        """Return the conversation as lines of a block."""
        return Pages([memory async for memory in self._tk.memories.walk(owner=self._owner)])

    async def brings_nothing(self, question: str, conversation: Conversation) -> bool:
        """Whether *question*, asked of another conversation's memory, brings nothing."""
        return not (await self._block(question, conversation.conversation_id, DEFAULT_BUDGET_TOKENS)).memories

    async def _block(self, question: str, owner: str, budget_tokens: int) -> Recall:
        return await self._tk.recall(question, owner=owner, budget_tokens=budget_tokens, timeout=TIMEOUT)

    async def _deep(self, question: str) -> list[Recalled]:
        """Rank until as many sessions are met as count, or everything is ranked."""
        limit = _DEEP_AT_FIRST
        while True:
            found = await self._tk.memories.search(question, owner=self._owner, limit=limit)
            met = {source.thread_id for one in found for source in one.memory.sources}
            if len(met) >= self._sessions or limit >= self._size:
                return found
            limit *= 2


class Bm25Method:
    """BM25 alone, over speaker, words and caption."""

    name = "bm25"

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._index = Bm25(())

    async def learn(self, conversation: Conversation) -> None:
        """Index the turns."""
        self._ids = [turn.turn_id for turn in conversation.turns]
        self._index = Bm25([turn.text for turn in conversation.turns])

    async def answer(self, question: str) -> Answer:
        """Rank the turns that share a word with *question*."""
        started = perf_counter()
        ranking = [self._ids[place] for place in self._index.rank(question)]
        return Answer(ranking, ranking, (perf_counter() - started) * 1000)


class DenseMethod:
    """Cosine alone, with the vectors of the embedder that ours uses.

    It is given what ours is given: a turn with its date, speaker and caption, and the question without the speakers'
    names, which adds 14 points of recall@10 on LoCoMo.
    """

    name = "dense"

    def __init__(self, tk: Threadkeep, embedder: RecordingEmbedder) -> None:
        self._event_loop = tk.app.event_loop
        self._embedder = embedder
        self._ids: list[str] = []
        self._index: Dense | None = None
        self._conversation: Conversation | None = None

    async def learn(self, conversation: Conversation) -> None:
        """Gather the turns' vectors."""
        self._conversation = conversation
        self._ids = [turn.turn_id for turn in conversation.turns]
        vectors = await self._event_loop.run(self._embedder.embed([turn.dated for turn in conversation.turns]))
        self._index = Dense(vectors)

    async def answer(self, question: str) -> Answer:
        """Rank all turns by their cosine."""
        if self._conversation is not None:
            question = self._conversation.without_names(question)
        vector, embedding_ms = await self._event_loop.run(self._embedder.question(question))
        started = perf_counter()
        ranking = [self._ids[place] for place in self._index.rank(vector)] if self._index else []
        return Answer(ranking, ranking, embedding_ms + (perf_counter() - started) * 1000)


def memory_of_turn(turn: Turn) -> NewMemory:
    """Spell a turn as a memory: who said it, in which session, when, and its place in the order.

    If people talk with each other, both have the role ``user``; the text names the speaker.
    """
    source = Source(
        turn.role, thread_id=ThreadId(f"session-{turn.session}"), message_id=MessageId(turn.turn_id), at=turn.at
    )
    approval = None if turn.role in TRUSTED else Approval("benchmark", turn.at)
    return NewMemory(
        turn.text, "episodic", (source,), created_at=turn.at, memory_id=MemoryId(turn.turn_id), approval=approval
    )
