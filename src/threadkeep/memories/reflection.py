"""Condense what happened: a summary of the old episodes of each thread and month, which recall finds.

Nothing is removed: the episodes stay, and ``why`` of a summary names them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from cachetools import LRUCache

from threadkeep.arguments import check_age
from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import ExtractionError
from threadkeep.ids import MemoryId, ThreadId, short_digest
from threadkeep.memories.codec import SUMMARIES, is_summary, spell_sources
from threadkeep.memories.models import ASKED, SAID, TRUSTED, Memory, Source, least_trusted
from threadkeep.memories.reader import OF_ONE_OWNER, OwnersInTurn
from threadkeep.storage.interface import Put
from threadkeep.text.extractive import SpokenMessage, extractive_summary

if TYPE_CHECKING:
    from threadkeep.capture.models import Usage
    from threadkeep.clock import Clock
    from threadkeep.identity import Owner
    from threadkeep.memories.audited_writer import AuditedWriter
    from threadkeep.memories.reader import Searcher
    from threadkeep.memories.repository import MemoryRepository
    from threadkeep.observability import Telemetry
    from threadkeep.proposals.policies import Tombstones
    from threadkeep.storage.interface import Storage

OLDER_THAN: Final = timedelta(days=30)
FEWEST: Final = 3
"""Fewer episodes of a thread and month are as short as their summary."""
EVERY: Final = timedelta(days=1)
"""How often an owner is reflected on in the background: summaries are of months."""

_OWNERS_A_ROUND: Final = 100
_REMEMBERED: Final = 10_000
_SUMMARY_TOKENS: Final = 120
_CHARACTERS_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Reflected:
    """A summary of the episodes of one thread and month.

    Attributes:
        memory_id: Of the summary.
        thread_id: The thread.
        month: Such as ``2026-01``.
        text: The sentences that say most.
        derived_from: The episodes.
    """

    memory_id: MemoryId
    thread_id: ThreadId
    month: str
    text: str
    derived_from: tuple[MemoryId, ...]


def months_of(memories: Iterable[Memory], *, until: datetime) -> dict[tuple[ThreadId, str], list[Memory]]:
    """Return the episodes to condense by thread and month, oldest first.

    Those are active passages of the user's words, said before *until*. What a person pinned or approved stands for
    itself, and so do months with fewer than :data:`FEWEST` episodes.
    """
    months: dict[tuple[ThreadId, str], list[Memory]] = {}
    for memory in sorted(memories, key=lambda one: (_said_at(one), one.memory_id)):
        thread_id = memory.sources[0].thread_id if memory.sources else None
        kept = memory.pinned or memory.approval is not None or _said_at(memory) >= until
        own = memory.kind == "episodic" and memory.trust in TRUSTED and not is_summary(memory)
        if thread_id and own and memory.status == "active" and not kept:
            months.setdefault((thread_id, f"{_said_at(memory):%Y-%m}"), []).append(memory)
    return {month: episodes for month, episodes in months.items() if len(episodes) >= FEWEST}


class Summarizer(Protocol):
    """Summarizes what a user said."""

    async def summarize(self, texts: Sequence[str]) -> tuple[str, Usage]:
        """Return a summary in which the user's words stand behind every sentence (empty: none), and what it took.

        Raises:
            ExtractionError: It failed, or took too long.
        """
        ...


class Reflection:
    """Writes summaries of old episodes, and asks about contradictions, each owner once a day.

    Args:
        storage: Where memories are.
        memories: Reads them.
        searcher: Makes vectors.
        tombstones: What must not be said again.
        clock: The time.
        telemetry: Counts what failed.
        audited_writer: Commits with an audit entry.
        after: From which age on episodes are condensed in the background; ``None``: never.
        ask: Asks an owner about contradictions; returns what is asked.
        summarize: Returns a summary of what an owner said, as a :class:`Summarizer` does; ``None``, or where it
            fails: the sentences that say most are the summary.
    """

    def __init__(
        self,
        storage: Storage,
        memories: MemoryRepository,
        searcher: Searcher,
        tombstones: Tombstones,
        clock: Clock,
        telemetry: Telemetry,
        *,
        audited_writer: AuditedWriter,
        after: timedelta | None,
        ask: Callable[[Owner], Awaitable[Sequence[object]]],
        summarize: Callable[[Owner, Sequence[str]], Awaitable[str]] | None = None,
    ) -> None:
        self._ask = ask
        self._summarize = summarize
        self._owners = OwnersInTurn(storage, _OWNERS_A_ROUND)
        self._telemetry = telemetry
        self._older_than = after
        self._looked: LRUCache[bytes, datetime] = LRUCache(_REMEMBERED)
        self._memories = memories
        self._searcher = searcher
        self._tombstones = tombstones
        self._clock = clock
        self._audited_writer = audited_writer

    async def reflect(
        self, owner: Owner, *, older_than: timedelta = OLDER_THAN, dry: bool = False
    ) -> tuple[Reflected, ...]:
        """Summarize the old episodes of each thread and month; return the summaries that are new or changed.

        Raises:
            InvalidInputError: *older_than* is negative.
            RevisionConflictError: Other writers kept getting in the way; nothing was written.
        """
        check_age(older_than)
        until = self._clock.now() - older_than
        condensed: dict[tuple[MemoryId, ...], str] = {}  # a repeated commit asks no model again

        async def reflect() -> tuple[Reflected, ...]:
            head = await self._audited_writer.head(owner)
            memories, summaries = await self._memories.everything(owner)
            months = months_of(memories, until=until)
            known = {one.memory_id: frozenset(one.derived_from) for one in summaries}
            unwanted = await self._tombstones.of(owner)
            made: list[Reflected] = []
            puts: list[Put] = []
            for (thread_id, month), episodes in months.items():
                key = MemoryId(short_digest("reflection", thread_id, month))
                ids = tuple(one.memory_id for one in episodes)
                if known.get(key) == frozenset(ids):
                    continue
                if ids not in condensed:
                    condensed[ids] = await self._condense(owner, episodes, dry=dry)
                if not (text := unwanted.cut(condensed[ids])):
                    continue
                made.append(Reflected(key, thread_id, month, text, ids))
                vectors = None if dry else await self._searcher.embed_memories([text])
                value = _value(made[-1], episodes)
                puts.append(Put((SUMMARIES, owner.label), key, value, index=("summary",), embedding=vectors))
            if puts and not dry:
                await self._audited_writer.commit_from(head, owner, puts, by="reflection")
                self._searcher.refresh(owner.partition)
            return tuple(made)

        return await retry_conflicts(reflect)

    async def _condense(self, owner: Owner, episodes: Sequence[Memory], *, dry: bool) -> str:
        """Return a summary of *episodes* by the model; without one, or where it fails, by their own sentences."""
        texts = [one.text.removeprefix(SAID).removeprefix(ASKED) for one in episodes]
        if self._summarize is not None and not dry:
            try:
                if text := await self._summarize(owner, texts):
                    self._telemetry.count("reflection.summarized")
                    return text
                self._telemetry.count("reflection.unsupported")
            except ExtractionError as error:
                self._telemetry.degraded("reflection.model", error)
        return _condensed(texts)

    async def round(self) -> int:
        """Reflect on the next owners in turn, each once a day; return how many summaries were written.

        Each is asked about contradictions, too.

        Raises:
            StorageError: The storage failed; the next round continues with the next owners.
        """
        if self._older_than is None:
            return 0
        written, now = 0, self._clock.now()
        for owner in await self._owners.next():
            looked = self._looked.get(owner.partition.digest)
            if looked is not None and now - looked < EVERY:
                continue
            try:
                written += len(await self.reflect(owner, older_than=self._older_than))
                await self._ask(owner)
                self._looked[owner.partition.digest] = now
            except OF_ONE_OWNER as error:
                self._telemetry.degraded("memories.reflect", error)
        return written


def _said_at(memory: Memory) -> datetime:
    return (memory.sources[0].at if memory.sources else None) or memory.created_at


def _condensed(texts: Iterable[str]) -> str:
    said = [SpokenMessage("User", text) for text in texts]
    count = _SUMMARY_TOKENS
    return extractive_summary(said, budget_tokens=count, count=lambda text: len(text) // _CHARACTERS_PER_TOKEN + 1)


def _value(reflected: Reflected, episodes: Sequence[Memory]) -> Mapping[str, Any]:
    last = episodes[-1]
    speaker = least_trusted(source for one in episodes for source in one.sources)
    source = Source(speaker, reflected.thread_id, at=_said_at(last))
    return {
        "summary": reflected.text,
        "thread_id": reflected.thread_id,
        "timestamp": _said_at(last).isoformat(),
        "trust": speaker,
        "sources": spell_sources([source]),
        "derived_from": list(reflected.derived_from),
    }
