"""One owner's proposals as they are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from threadkeep.proposals.record import Decision, Proposal, State
from threadkeep.proposals.shapes import proposal_of, proposals_namespace
from threadkeep.storage.port import Ref, Storage

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.owners.owner import Owner

_PAGE: Final = 500


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
        after: str | None = None
        while len(found) < offset + limit:
            page = await self._storage.scan(
                owner.partition, prefix=proposals_namespace(owner), after=after, limit=_PAGE
            )
            rows = (self._as_it_is(one) for item in page.items if (one := proposal_of(item)) is not None)
            found += [one for one in rows if state in (None, one.state)]
            after = page.after
            if after is None:
                break
        return found[offset : offset + limit]

    def _as_it_is(self, proposal: Proposal) -> Proposal:
        if proposal.state != "pending" or proposal.expires_at > self._clock.now():
            return proposal
        return replace(proposal, state="expired", decision=Decision("expired", "time", proposal.expires_at))
