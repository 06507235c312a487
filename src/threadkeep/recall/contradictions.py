"""Which facts of an owner contradict each other, so that the owner is asked, by a proposal, which of them counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from threadkeep.errors import EmbedderUnavailableError
from threadkeep.ids import short_digest
from threadkeep.memories.codec import memory_namespaces
from threadkeep.memories.kinds import family
from threadkeep.memories.models import Memory, recallable
from threadkeep.models.base import StatementPair
from threadkeep.proposals.models import NewProposal, Proposed
from threadkeep.recall.currency import find_earlier
from threadkeep.text.semantics import normalised
from threadkeep.text.slots import slot_of

if TYPE_CHECKING:
    from threadkeep.identity import Owner
    from threadkeep.memories.repository import MemoryRepository
    from threadkeep.models.pairs import PairModel
    from threadkeep.proposals.repository import ProposalRepository
    from threadkeep.search.ranking import Ranking
    from threadkeep.search.retriever import Retriever

LOOKED_AT: Final = 50
"""So many of the facts that were changed last are compared with their neighbours."""
NEIGHBOURS: Final = 20
MOST_WAITING: Final = 5
"""More questions of this kind at a time are a burden; the next round asks the others."""
REASON: Final = "A newer memory probably replaces an older one. Approve: only the newer one counts. Reject: both stay."


class FactPair(NamedTuple):
    """Two facts that probably are not true at the same time.

    Attributes:
        older: The one that was said first.
        newer: The one that probably replaces it.
    """

    older: Memory
    newer: Memory

    @property
    def key(self) -> str:
        """The idempotency key of its proposal: another statement of either memory is another question."""
        older, newer = self
        words = normalised(older.text), normalised(newer.text)
        return f"contradiction:{short_digest('contradiction', older.memory_id, newer.memory_id, *words)}"


class Contradictions:
    """Finds contradictions and asks about them.

    Args:
        memories: Reads memories.
        searcher: Finds neighbours.
        proposals: Asks.
        changes: Weighs whether a statement makes an earlier one untrue; ``None``: words and cosines alone decide.
    """

    def __init__(
        self,
        memories: MemoryRepository,
        searcher: Retriever,
        proposals: ProposalRepository,
        changes: PairModel | None = None,
    ) -> None:
        self._memories = memories
        self._searcher = searcher
        self._proposals = proposals
        self._changes = changes

    async def ask(self, owner: Owner) -> tuple[Proposed, ...]:
        """Propose to let newer facts replace older ones; what was asked before is not asked again.

        At most :data:`MOST_WAITING` such proposals wait at a time.

        Raises:
            StorageError: The storage failed; what was proposed stays.
        """
        waiting = [one for one in await self._proposals.list(owner=owner) if one.action == "supersede"]
        left, asked = MOST_WAITING - len(waiting), list[Proposed]()
        asked_about = {one.memory_id for one in waiting}
        if left <= 0:
            return ()
        for pair in await self.find(owner):
            if len(asked) == left:
                break
            older, newer = pair
            if older.memory_id in asked_about:
                continue
            new = NewProposal(
                newer.text,
                "supersede",
                older.kind,
                newer.sources,
                older.memory_id,
                reason=REASON,
                key=pair.key,
                by_memory_id=newer.memory_id,
            )
            proposed = await self._proposals.propose(new, owner=owner)
            if proposed.status == "proposed":
                asked.append(proposed)
                asked_about.add(older.memory_id)
        return tuple(asked)

    async def find(self, owner: Owner) -> list[FactPair]:
        """Return the contradictions among the facts of *owner*, those of the last changes first."""
        memories, _ = await self._memories.everything(owner)
        facts = [one for one in memories if _is_fact(one)]
        found = {(pair.older.memory_id, pair.newer.memory_id): pair for pair in in_one_slot(facts)}
        for memory in facts[:LOOKED_AT]:
            for pair in await self._near(memory, owner):
                found.setdefault((pair.older.memory_id, pair.newer.memory_id), pair)
        return list(found.values())

    async def _near(self, memory: Memory, owner: Owner) -> list[FactPair]:
        """Return the contradictions that *memory* is a part of, among what is most like it."""
        ranking = await self._searcher.ranking(
            owner.partition,
            memory.text,
            prefixes=memory_namespaces(owner.label),
            limit=NEIGHBOURS,
            compared=NEIGHBOURS,
        )
        found = await self._searcher.memories(owner.partition, ranking, range(len(ranking.hits)))
        facts = [one if one is not None and _is_fact(one) else None for one in found]
        pairs: list[FactPair] = []
        for place, by in (await self._earlier(facts, ranking)).items():
            older, newer = facts[place], facts[by]
            if older and newer and older != newer and memory.memory_id in (older.memory_id, newer.memory_id):
                pairs.append(FactPair(older, newer))
        return pairs

    async def _earlier(self, facts: Sequence[Memory | None], ranking: Ranking) -> Mapping[int, int]:
        """Return what :func:`find_earlier` does, with what the model makes of the facts."""
        find = partial(find_earlier, facts, ranking.alike, strength=ranking.hits.strength)
        if self._changes is None:
            return find()
        unread: list[StatementPair] = []
        found = find(weigh=unread.append)
        if not unread:
            return found
        try:
            weights = await self._changes.weigh(unread)
        except EmbedderUnavailableError:  # each recall meets the same failure, and reports it
            return found
        return find(weigh=dict(zip(unread, weights, strict=True)).get)


def in_one_slot(facts: Iterable[Memory]) -> list[FactPair]:
    """Return the facts of which only one can be true at a time, each with the newest of them."""
    by_slot: dict[str, list[Memory]] = defaultdict(list)
    for fact in facts:
        if (slot := slot_of(fact.text)) is not None:
            by_slot[slot].append(fact)
    pairs: list[FactPair] = []
    for several in by_slot.values():
        newest = max(several, key=_said_at)
        pairs += [FactPair(one, newest) for one in several if normalised(one.text) != normalised(newest.text)]
    return pairs


def _is_fact(memory: Memory) -> bool:
    return recallable(memory) and family(memory.kind) == "semantic"


def _said_at(memory: Memory) -> tuple[datetime, str]:
    return (memory.sources[-1].at if memory.sources else None) or memory.created_at, memory.memory_id
