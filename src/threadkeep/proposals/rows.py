"""One owner's proposals as they are kept."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from threadkeep.proposals.record import Decision, Proposal, State
from threadkeep.proposals.shapes import proposal_of, proposals_namespace
from threadkeep.storage.port import Ref, Storage
from threadkeep.storage.walking import items_in

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.owners.owner import Owner


class ProposalRows:
    """Reads proposals; it decides and writes nothing."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def get(self, proposal_id: str, owner: Owner) -> Proposal | None:
        """Return a proposal, or ``None`` where the owner has none with this id; one whose time is over is expired."""
        (item,) = await self._storage.get([Ref(owner.partition, proposals_namespace(owner), proposal_id)])
        proposal = proposal_of(item) if item else None
        return self._as_it_is(proposal) if proposal else None

    async def list(self, owner: Owner, *, state: State | None, limit: int, offset: int = 0) -> list[Proposal]:
        """Return proposals in *state* (``None``: in any), newest first."""
        found: list[Proposal] = []
        if limit == 0:
            return found
        async with aclosing(items_in(self._storage, owner.partition, prefix=proposals_namespace(owner))) as rows:
            async for item in rows:
                proposal = proposal_of(item)
                if proposal is None:
                    continue
                as_it_is = self._as_it_is(proposal)
                if state in (None, as_it_is.state):
                    found.append(as_it_is)
                if len(found) == offset + limit:
                    break
        return found[offset:]

    def _as_it_is(self, proposal: Proposal) -> Proposal:
        if proposal.state != "pending" or proposal.expires_at > self._clock.now():
            return proposal
        return replace(proposal, state="expired", decision=Decision("expired", "time", proposal.expires_at))
