"""What is remembered before a model call: the memories that matter, within a budget and a time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from threadkeep.errors import InvalidInputError, OwnerRequiredError, RerankerUnavailableError
from threadkeep.identity import Owner
from threadkeep.ids import MemoryId
from threadkeep.memories.codec import memory_namespaces, memory_of
from threadkeep.memories.models import ASKED, Kind, Memory
from threadkeep.recall.at_hand import AtHand, Finder, at_once
from threadkeep.recall.models import Recall, Recalled
from threadkeep.recall.packing import Fitting, estimate_tokens
from threadkeep.recall.relevance import SHORT, concerns, in_order, matters
from threadkeep.recall.rendering import END, HEADING, block, line
from threadkeep.search.hits import Hit, Ranking
from threadkeep.search.query import asks_about_everything, asks_what_was_asked
from threadkeep.storage.port import Ref, Storage
from threadkeep.text.slots import slot_of, slots_asked

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.ids import MessageId, ThreadId, TurnId
    from threadkeep.memories.last_used import Uses
    from threadkeep.models.base import Reranker
    from threadkeep.observability import Telemetry
    from threadkeep.search.retriever import Search
    from threadkeep.storage.port import Partition

DEFAULT_BUDGET_TOKENS: Final = 300
DEFAULT_TIMEOUT: Final = timedelta(milliseconds=300)

_CONSIDERED: Final = 256
_COMPARED: Final = 64
"""So many of the best are chosen from by what they add to each other."""

RERANK_TIMEOUT: Final = timedelta(milliseconds=150)
_RERANKED: Final = 32
"""So many of the best are compared once more where there is a reranker."""
_OF_WHAT_IS_LEFT: Final = 0.7
"""The share of a turn's time that reranking may take; the order as it was still has to become a block."""

QUESTIONS_AT_FIRST: Final = 2
"""So many questions that the user asked before are in a block before everything else that matters was offered.

Source:
    What was asked in the same words is nearest to a question, and answers nothing: with 1,000 facts that were asked for
    once each before, 79 % of the blocks of 300 tokens held the fact; with this all do. Of the evidence of the replays
    of LoCoMo's development half blocks hold 62.1 %, with four at first 62.0, with none 59.9: some tell something.
"""

_CHUNK: Final = 20
_AT_HAND: Final = 64
"""More than these are read out where nobody waits for it."""
_FRAME: Final = f"{HEADING}\n{END}"


RERANKER: Final = "reranker"
"""What stands in ``degraded`` when the order is that of before."""


class NewestMemories(Protocol):
    """What this room needs of memories."""

    async def newest(self, *, owner: Owner, limit: int) -> Sequence[Memory]:
        """Return the active memories of *owner* that were learnt last, newest first."""
        ...


Elsewhere: TypeAlias = Callable[[Sequence[Memory]], Awaitable[Collection[MemoryId]]]
"""Tells which memories were learnt on another branch of the thread that goes on."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question, checked."""

    question: str
    owner: Owner
    thread_id: ThreadId | None
    elsewhere: Elsewhere | None = None
    shown: Collection[MessageId] = ()


class Recalls:
    """Chooses what an owner's turn should know."""

    def __init__(
        self,
        search: Search,
        storage: Storage,
        memories: NewestMemories,
        clock: Clock,
        telemetry: Telemetry,
        *,
        reranker: Reranker | None = None,
        rerank_timeout: timedelta = RERANK_TIMEOUT,
        uses: Uses | None = None,
    ) -> None:
        self._search = search
        self._storage = storage
        self._memories = memories
        self._clock = clock
        self._telemetry = telemetry
        self._reranker = reranker
        self._rerank_seconds = rerank_timeout.total_seconds()
        self._uses = uses

    async def recall(
        self,
        question: str,
        *,
        owner: Owner,
        thread_id: ThreadId | None = None,
        budget_tokens: int = DEFAULT_BUDGET_TOKENS,
        max_facts: int | None = None,
        max_episodes: int | None = None,
        timeout: timedelta | None = None,
        elsewhere: Elsewhere | None = None,
        shown: Collection[MessageId] = (),
    ) -> Recall:
        """Find the memories that matter for *question* and fit them into *budget_tokens*.

        What does not matter is left out, so an
        unrelated question may give nothing; a question about the user as such may give anything. Where
        nothing is asked, the newest memories are given. The episode of a turn that the model reads anyway
        takes no room: it would only say again what stands there in full.
        Whatever fails, the answer is an empty or poorer one that says so in ``degraded``; what was
        being loaded when the time was over goes on, and the next turn finds it.

        Args:
            question: The newest user message; the first 32,768 characters count.
            owner: Whose memories may be seen; nothing outside it is read.
            thread_id: The thread that is going on; the block calls it so.
            budget_tokens: Upper bound for the rendered text, by :func:`~threadkeep.recall.packing.estimate_tokens`.
            max_facts: At most so many that are no episodes.
            max_episodes: At most so many episodes.
            timeout: How long it may take; ``None``: 300 ms.
            elsewhere: Tells what was learnt on another branch of the thread, and is left out; ``None``: nothing is.
            shown: Which messages of the thread the model is given with the question.

        Raises:
            OwnerRequiredError: *owner* is none.
            InvalidInputError: *question* is no text, or a bound is negative.
        """
        asked = replace(_checked(question, owner, thread_id), elsewhere=elsewhere, shown=shown)
        fitting = _fitting(asked, budget_tokens, max_facts, max_episodes)
        degraded: list[str] = []
        try:
            async with asyncio.timeout((DEFAULT_TIMEOUT if timeout is None else timeout).total_seconds()) as time:
                await self._fill(self._search, fitting, asked, degraded, time.when())
        except TimeoutError as error:
            degraded.append("timeout")
            self._telemetry.degraded("recall", error)
        except Exception as error:  # noqa: BLE001 - a memory failure never fails a turn; counted and logged
            degraded.append("storage")
            self._telemetry.degraded("recall", error)
        return self._rendered(fitting, asked, degraded)

    def recall_at_hand(
        self,
        question: str,
        *,
        owner: Owner,
        thread_id: ThreadId | None = None,
        budget_tokens: int = DEFAULT_BUDGET_TOKENS,
        max_facts: int | None = None,
        max_episodes: int | None = None,
        elsewhere: Elsewhere | None = None,
        shown: Collection[MessageId] = (),
    ) -> Recall | None:
        """Return what :meth:`recall` would, in any thread and without waiting; ``None``: it has to be waited for.

        Whatever fails is left to that, which says so.

        Raises:
            OwnerRequiredError: As there.
            InvalidInputError: As there.
        """
        asked = replace(_checked(question, owner, thread_id), elsewhere=elsewhere, shown=shown)
        fitting = _fitting(asked, budget_tokens, max_facts, max_episodes)
        if not question.strip() or self._reranker is not None:
            return None
        try:
            at_once(self._fill(AtHand(self._search), fitting, asked, [], None))
        except Exception:  # noqa: BLE001 - nothing is swallowed: whoever waits for it meets it again, and tells
            return None
        return self._rendered(fitting, asked, ())

    async def still_holds(self, recalled: Sequence[Recalled], *, owner: Owner) -> bool:
        """Return whether all of *recalled* still say what they said: nothing was corrected, forgotten or expired.

        Raises:
            StorageError: The storage cannot be used.
        """
        refs = [Ref(owner.partition, one.memory.namespace, one.memory.memory_id) for one in recalled]
        now = self._clock.now()
        for item, one in zip(await self._storage.get(refs), recalled, strict=True):
            memory = memory_of(item) if item is not None else None
            if memory is None or memory.text != one.memory.text or not holds(memory, at=now):
                return False
        return True

    async def search(self, query: str, *, owner: Owner, kind: Kind | None = None, limit: int = 10) -> list[Recalled]:
        """Return the owner's *limit* memories that are most like *query*, best first, however little that is.

        Raises:
            InvalidInputError: *query* is no text, or *limit* is negative.
            StorageError: The storage cannot be used.
        """
        asked = _checked(query, owner, None, limit=limit)
        partition, prefixes = owner.partition, memory_namespaces(owner.label)
        most = limit if kind is None else None
        ranking = await self._search.ranking(partition, asked.question, prefixes=prefixes, limit=most)
        found: list[Recalled] = []
        size = max(limit, _CHUNK)
        for start in range(0, len(ranking.hits), size):
            chunk = ranking.hits[start : start + size]
            found += _recalled(chunk, await self._search.memories(partition, chunk), kind)
            if len(found) >= limit:
                break
        self._used(found[:limit], owner)
        return found[:limit]

    def search_at_hand(
        self, query: str, *, owner: Owner, kind: Kind | None = None, limit: int = 10
    ) -> list[Recalled] | None:
        """Return what :meth:`search` would, in any thread and without waiting; ``None``: it has to be waited for.

        Raises:
            InvalidInputError: As there.
        """
        asked = _checked(query, owner, None, limit=limit)
        if kind is not None or limit > _AT_HAND:
            return None
        partition, prefixes = owner.partition, memory_namespaces(owner.label)
        ranking = self._search.ranking_at_hand(partition, asked.question, prefixes=prefixes, limit=limit)
        memories = self._search.memories_at_hand(partition, ranking.hits) if ranking is not None else None
        if ranking is None or memories is None:
            return None
        found = _recalled(ranking.hits, memories, kind)
        self._used(found, owner)
        return found

    def _used(self, found: Sequence[Recalled], owner: Owner) -> None:
        if self._uses is not None and found:
            self._uses.note(owner, [recalled.memory.memory_id for recalled in found])

    def _rendered(self, fitting: Fitting, asked: _Asked, degraded: Sequence[str]) -> Recall:
        chosen = tuple(fitting.chosen)
        self._used(chosen, asked.owner)
        text = block([recalled.memory for recalled in chosen], thread_id=asked.thread_id)
        self._telemetry.count("recall.turns")
        return Recall(chosen, text, tuple(degraded), estimate_tokens(text))

    async def _fill(
        self, finder: Finder, fitting: Fitting, asked: _Asked, degraded: list[str], until: float | None
    ) -> None:
        """Offer candidates to *fitting*, best first, until it is full; *until* is when the loop's time is over."""
        if not asked.question.strip():
            newest = await self._memories.newest(owner=asked.owner, limit=_CONSIDERED)
            left_out = await _elsewhere(newest, asked)
            for memory in newest:
                if fitting.full:
                    break
                if memory.memory_id not in left_out and not _is_read_anyway(memory, asked):
                    fitting.offer(Recalled(memory, 0.0))
            return
        partition, prefixes = asked.owner.partition, memory_namespaces(asked.owner.label)
        threads = () if asked.thread_id is None else (asked.thread_id,)
        ranking = await finder.ranking(
            partition, asked.question, prefixes=prefixes, limit=_CONSIDERED, threads=threads, compared=_COMPARED
        )
        degraded.extend(ranking.degraded)
        everything = asks_about_everything(asked.question)
        close = everything or await _concerns(finder, partition, ranking)
        answers = await _answers(finder, asked, ranking)
        mattering = iter(_wanted(ranking, answers, close=close, everything=everything))
        hits = chain(await self._reranked(asked, mattering, degraded, until), mattering)
        now = self._clock.now()
        offered = _Offered(fitting, asked)
        while not fitting.full and (chunk := list(islice(hits, _CHUNK))):
            memories = await finder.memories(partition, chunk)
            found = [
                Recalled(memory, hit.score)
                for hit, memory in zip(chunk, memories, strict=True)
                if memory is not None and holds(memory, at=now)
            ]
            if left_out := await _elsewhere([recalled.memory for recalled in found], asked):
                found = [recalled for recalled in found if recalled.memory.memory_id not in left_out]
            offered.take(found)
        offered.take_the_rest()

    async def _reranked(
        self, asked: _Asked, mattering: Iterator[Hit], degraded: list[str], until: float | None
    ) -> Sequence[Hit]:
        """Take the best of *mattering*, as the reranker orders them, or as they are where it does not in time."""
        reranker = self._reranker
        if reranker is None:
            return ()
        hits = list(islice(mattering, _RERANKED))
        if not hits:
            return hits
        memories = await self._search.memories(asked.owner.partition, hits)
        texts = [memory.text if memory is not None else "" for memory in memories]
        seconds, loop = self._rerank_seconds, asyncio.get_running_loop()
        if until is not None:
            seconds = min(seconds, _OF_WHAT_IS_LEFT * (until - loop.time()))
        began = loop.time()
        try:
            async with asyncio.timeout(seconds):
                scores = await reranker.scores(asked.question, texts)
        except (TimeoutError, RerankerUnavailableError) as error:
            degraded.append(RERANKER)
            self._telemetry.degraded(RERANKER, error)
            return hits
        self._telemetry.measure("recall.reranking", loop.time() - began)
        self._telemetry.count("recall.reranked")
        # A stable sort: what the reranker does not tell apart stays in its own order.
        return [hits[place] for place in sorted(range(len(hits)), key=lambda place: -scores[place])]


class _Offered:
    """What is offered to a block, best first, and what of it waits until the rest was.

    Args:
        fitting: The block.
        asked: The question.
    """

    def __init__(self, fitting: Fitting, asked: _Asked) -> None:
        self._fitting = fitting
        self._asked = asked
        self._taught: set[TurnId] = set()
        self._questions_left = math.inf if asks_what_was_asked(asked.question) else QUESTIONS_AT_FIRST
        self._waiting: list[Recalled] = []

    def take(self, found: Sequence[Recalled]) -> None:
        """Offer what was *found*, but for what says again what is recalled or read anyway."""
        self._taught.update(turn for recalled in found for turn in turns_of_fact(recalled.memory))
        for recalled in found:
            if self._says_again(recalled.memory):
                continue
            if not recalled.memory.text.startswith(ASKED):
                self._fitting.offer(recalled)
            elif self._questions_left > 0:
                self._questions_left -= self._fitting.offer(recalled)
            else:
                self._waiting.append(recalled)

    def take_the_rest(self) -> None:
        """Offer what has waited."""
        for recalled in self._waiting:
            if not self._says_again(recalled.memory):
                self._fitting.offer(recalled)

    def _says_again(self, memory: Memory) -> bool:
        return repeats(memory, self._taught) or _is_read_anyway(memory, self._asked)


async def _concerns(finder: Finder, partition: Partition, ranking: Ranking) -> bool:
    """Whether the question has to do with anything that was found; how long the nearest is, may decide that."""
    if concerns(ranking):
        return True
    if not concerns(ranking, short=True):
        return False
    (nearest,) = await finder.memories(partition, [ranking.hits.closest])
    return nearest is not None and len(nearest.text) <= SHORT


async def _answers(finder: Finder, asked: _Asked, ranking: Ranking) -> list[Hit]:
    """Return the facts among the hits that answer what the question asks for, in whichever words they say it.

    ``I joined Acme.`` says nothing of a company or of work, and is where the user works all the same.
    """
    slots = slots_asked(asked.question)
    if not slots:
        return []
    memories = await finder.memories(asked.owner.partition, ranking.hits)
    return [
        hit._replace(score=ranking.hits[0].score)
        for hit, memory in zip(ranking.hits, memories, strict=True)
        if memory is not None and memory.kind != "episodic" and slot_of(memory.text) in slots
    ]


async def _elsewhere(memories: Sequence[Memory], asked: _Asked) -> Collection[MemoryId]:
    return () if asked.elsewhere is None else await asked.elsewhere(memories)


def _wanted(ranking: Ranking, answers: Sequence[Hit], *, close: bool, everything: bool) -> Iterator[Hit]:
    """Yield the hits that are offered: what answers the question first, then, if any is close to it, what matters."""
    yield from answers
    if not close:
        return
    first = {(hit.namespace, hit.key) for hit in answers}
    wanted = range(len(ranking.hits)) if everything else frozenset(matters(ranking))
    for place in in_order(ranking):
        if place in wanted:
            hit = ranking.hits[place]
            if (hit.namespace, hit.key) not in first:
                yield hit


def turns_of_fact(memory: Memory) -> set[TurnId]:
    """Return the turns that taught a fact, what it said before included; none for an episode."""
    if memory.kind == "episodic":
        return set()
    sources = (*memory.sources, *(source for old in memory.history for source in old.sources))
    return {source.turn_id for source in sources if source.turn_id is not None}


def repeats(memory: Memory, taught: Collection[TurnId]) -> bool:
    """Whether *memory* is the episode of a turn whose facts are recalled: it says them again, or what they replaced."""
    return memory.kind == "episodic" and any(source.turn_id in taught for source in memory.sources)


def _is_read_anyway(memory: Memory, asked: _Asked) -> bool:
    """Whether *memory* is the episode of a message that the model is given with the question."""
    return memory.kind == "episodic" and any(
        source.message_id in asked.shown and source.thread_id == asked.thread_id for source in memory.sources
    )


def holds(memory: Memory, *, at: datetime) -> bool:
    """Whether *memory* may be recalled: active, and true as far as known."""
    return memory.status == "active" and (memory.valid_to is None or memory.valid_to > at)


def _fitting(asked: _Asked, budget_tokens: int | None, max_facts: int | None, max_episodes: int | None) -> Fitting:
    """Return the empty block that the answers to *asked* are fitted into."""
    return Fitting(
        lambda recalled: line(recalled.memory, thread_id=asked.thread_id),
        frame=_FRAME,
        budget_tokens=budget_tokens,
        max_facts=max_facts,
        max_episodes=max_episodes,
    )


def _checked(question: object, owner: object, thread_id: ThreadId | None, *, limit: int = 0) -> _Asked:
    if owner is None:
        msg = "Nothing says whose memories may be recalled; pass owner=."
        raise OwnerRequiredError(msg)
    if not isinstance(owner, Owner):
        msg = f"The owner must be an Owner, not {type(owner).__name__}."
        raise InvalidInputError(msg)
    if not isinstance(question, str):
        msg = f"The question must be a text, not {type(question).__name__}."
        raise InvalidInputError(msg)
    if limit < 0:
        msg = "limit must be 0 or more."
        raise InvalidInputError(msg)
    return _Asked(question, owner, thread_id)


def _recalled(hits: Sequence[Hit], memories: Sequence[Memory | None], kind: Kind | None) -> list[Recalled]:
    """Return those of *hits* that are *memories* of this *kind*; ``None``: of any."""
    return [
        Recalled(memory, hit.score)
        for hit, memory in zip(hits, memories, strict=True)
        if memory is not None and kind in (None, memory.kind)
    ]
