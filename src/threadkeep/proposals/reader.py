"""Read proposals, as they are at the time of reading."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from threadkeep.memories.reader import read_page
from threadkeep.proposals.models import Decision, Proposal, ProposalPage, State, proposal_of, proposals_namespace
from threadkeep.storage.encoding import Cursor, scan_position
from threadkeep.storage.interface import Item, Ref, Storage, iterate_pages

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.identity import Owner


def _position(item: Item) -> Cursor:
    """Return the position of a proposal among its owner's, which does not name the owner."""
    return scan_position(item)._replace(namespace="")


class ProposalReader:
    """Reads proposals; it decides and writes nothing."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def get(self, proposal_id: str, owner: Owner) -> Proposal | None:
        """Return a proposal, or None if the owner has none with this id; expired after its lifetime."""
        (item,) = await self._storage.get([Ref(owner.partition, proposals_namespace(owner), proposal_id)])
        return self._read(item) if item else None

    async def list(
        self, owner: Owner, *, state: State | None, limit: int, offset: int = 0, cursor: str | None = None
    ) -> ProposalPage:
        """Return proposals in *state* (``None``: in any), newest first.

        A page begins behind the last proposal of the page of *cursor*, also if that one was decided since.
        """

        def read(item: Item) -> Proposal | None:
            proposal = self._read(item)
            return proposal if proposal is not None and state in (None, proposal.state) else None

        batches = iterate_pages(self._storage, owner.partition, prefix=proposals_namespace(owner))
        page = ProposalPage()
        page[:], page.cursor = await read_page(batches, read, _position, limit=limit, offset=offset, cursor=cursor)
        return page

    def _read(self, item: Item) -> Proposal | None:
        proposal = proposal_of(item)
        if proposal is None or proposal.state != "pending" or proposal.expires_at > self._clock.now():
            return proposal
        return replace(proposal, state="expired", decision=Decision("expired", "time", proposal.expires_at))
