"""What learning has to know of proposals: what is kept by itself, what must not be learnt, what waits already."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from cachetools import LRUCache

from threadkeep.capture.models import Candidate
from threadkeep.capture.reconcile import Propose
from threadkeep.ids import MemoryId, ProposalId, TurnId, short_digest
from threadkeep.memories.models import Source, least_trusted
from threadkeep.proposals.models import Decision, Proposal, proposal_put
from threadkeep.proposals.reader import PolicyRepository, ProposalReader
from threadkeep.proposals.repository import LIFETIME
from threadkeep.proposals.tombstones import Tombstones, Unwanted
from threadkeep.storage.interface import Embedding, Item, Put, Ref, Storage
from threadkeep.text.semantics import normalised

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.identity import Owner
    from threadkeep.memories.audited_writer import AuditedWriter
    from threadkeep.memories.reader import Searcher
    from threadkeep.proposals.models import Policy

_WAITING: Final = 500
"""How many pending proposals are compared; a long inbox must not slow down learning."""

_CACHED_OWNERS: Final = 8
"""So many owners have their pending proposals in RAM: an import learns thousands of turns of one owner."""


class HeadVersion(NamedTuple):
    """The state of an owner's memory that something was read at: every change of a proposal moves it.

    Attributes:
        epoch: Of the owner's partition.
        head: The revision of the row that every commit expects; ``None``: there is none yet.
    """

    epoch: str
    head: int | None


class PendingCache:
    """The pending proposals of the owners that were learnt about last, newest first, with their version."""

    def __init__(self) -> None:
        self._entries: LRUCache[bytes, tuple[HeadVersion, tuple[Proposal, ...]]] = LRUCache(_CACHED_OWNERS)

    def get(self, owner: Owner, version: HeadVersion) -> tuple[Proposal, ...] | None:
        """Return the proposals as of *version*, or None if they must be read."""
        cached = self._entries.get(owner.partition.digest)
        return cached[1] if cached is not None and version.head is not None and cached[0] == version else None

    def put(self, owner: Owner, version: HeadVersion, pending: tuple[Proposal, ...]) -> None:
        """Keep *pending* as of *version*."""
        self._entries[owner.partition.digest] = (version, pending)


@dataclass(frozen=True, slots=True)
class Review:
    """What was read of an owner before deciding."""

    policy: Policy
    unwanted: Unwanted
    pending: tuple[Proposal, ...]

    def why_unwanted(self, text: str, vectors: Mapping[str, Embedding]) -> str | None:
        """Return why *text* must not be learnt again, if so."""
        tombstone = self.unwanted.blocks(text, vectors.get(text))
        return f"{tombstone.cause} before" if tombstone else None


@dataclass(frozen=True, slots=True)
class ReviewContext:
    """Reads what learning has to know, and spells what it proposes.

    Attributes:
        rows: The proposals.
        tombstones: What must not be learnt again.
        policies: Who is believed about what.
        lifetime: How long a proposal waits.
        cache: The pending proposals that were read last.
    """

    rows: ProposalReader
    tombstones: Tombstones
    policies: PolicyRepository
    lifetime: timedelta = LIFETIME
    cache: PendingCache = field(default_factory=PendingCache)

    @classmethod
    def of(cls, storage: Storage, searcher: Searcher, clock: Clock, audited_writer: AuditedWriter) -> Self:
        """Return the reviews that hold where nothing is set."""
        tombstones = Tombstones(storage, searcher, clock, lifetime=None, audited_writer=audited_writer)
        return cls(ProposalReader(storage, clock), tombstones, PolicyRepository(storage, audited_writer=audited_writer))

    def ref(self, owner: Owner) -> Ref:
        """Return the item that :meth:`read` needs."""
        return self.policies.ref(owner)

    async def read(self, owner: Owner, item: Item | None, *, version: HeadVersion, now: datetime) -> Review:
        """Read what holds for *owner* at *version*; *item* is what is at :meth:`ref`."""
        unwanted, pending = await asyncio.gather(self.tombstones.of(owner), self._pending(owner, version))
        waiting = tuple(one for one in pending if one.expires_at > now)
        return Review(self.policies.read(item, owner), unwanted, waiting)

    async def _pending(self, owner: Owner, version: HeadVersion) -> tuple[Proposal, ...]:
        cached = self.cache.get(owner, version)
        return cached if cached is not None else tuple(await self.rows.list(owner, state="pending", limit=_WAITING))

    def committed(
        self,
        owner: Owner,
        version: HeadVersion,
        review: Review,
        *,
        proposed: Sequence[Proposal],
        confirmed: Collection[ProposalId],
    ) -> None:
        """Keep what waits after a commit that added *proposed* and approved *confirmed*; *version*: after it."""
        left = [one for one in review.pending if one.proposal_id not in confirmed]
        added = [replace(one, revision=version.head or 0) for one in proposed]
        self.cache.put(owner, version, tuple([*added, *left][:_WAITING]))

    def proposed(self, decision: Propose, turn_id: TurnId, *, key: MemoryId, now: datetime) -> Proposal:
        """Return what *decision* lets wait.

        Args:
            decision: One that no proposal waits for yet.
            turn_id: The turn that it comes from.
            key: Of the memory that an added statement becomes.
            now: The time of learning.
        """
        candidate, base = decision.candidate, decision.base
        sources = (candidate.source,) if candidate else (Source("assistant", turn_id=turn_id, at=now),)
        text = candidate.text.strip() if candidate else ""
        return Proposal(
            proposal_id=proposal_id_of(turn_id, decision),
            action=decision.action,
            text=text,
            kind=candidate.kind if candidate else base.kind if base else "semantic",
            sources=sources,
            trust=least_trusted(sources),
            reason=_reason(candidate),
            memory_id=base.memory_id if base else key,
            base_revision=base.revision if base else None,
            base_text=base.text if base else None,
            created_at=now,
            expires_at=now + self.lifetime,
            metadata=candidate.metadata if candidate else {},
        )


def proposal_id_of(turn_id: TurnId, decision: Propose) -> ProposalId:
    """Return the key of what *decision* of a turn lets wait: the same however often the turn is learnt from."""
    candidate, base = decision.candidate, decision.base
    said = (candidate.kind, normalised(candidate.text)) if candidate else ("", "")
    return ProposalId(
        short_digest("captured proposal", turn_id, decision.action, base.memory_id if base else "", *said)
    )


def confirming(proposal: Proposal, memory_id: MemoryId, owner: Owner, *, now: datetime) -> Put:
    """Return the put that approves *proposal*: the user has said it themselves since."""
    decision = Decision("approved", "user", now, comment="said again by the user", memory_id=memory_id)
    return proposal_put(replace(proposal, state="approved", decision=decision), owner, expect=proposal.revision)


def _reason(candidate: Candidate | None) -> str:
    if candidate is None:
        return "an extractor would have it removed"
    if candidate.kind == "procedural":
        return "how to behave is always asked"
    if candidate.source.speaker == "user":
        return "the policy asks"
    return f"no words of the user bear it out; said by {candidate.source.speaker}"
