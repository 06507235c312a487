"""Read proposals, as they are at the time of reading."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from threadkeep.proposals.models import Decision, Proposal, ProposalPage, State, proposal_of, proposals_namespace
from threadkeep.storage.encoding import Cursor, decode_cursor, encode_cursor, scan_position
from threadkeep.storage.interface import Item, Ref, Storage, iterate_items

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
        after = None if cursor is None else decode_cursor(cursor)
        found: list[tuple[Proposal, Item]] = []
        end = offset + limit
        if limit == 0:
            return ProposalPage()
        async with aclosing(iterate_items(self._storage, owner.partition, prefix=proposals_namespace(owner))) as rows:
            async for item in rows:
                if after is not None and _position(item) >= after:
                    continue
                proposal = self._read(item)
                if proposal is not None and state in (None, proposal.state):
                    found.append((proposal, item))
                if len(found) > end:
                    break
        page = ProposalPage(proposal for proposal, _ in found[offset:end])
        if len(found) > end:
            page.cursor = encode_cursor(_position(found[end - 1][1]))
        return page

    def _read(self, item: Item) -> Proposal | None:
        proposal = proposal_of(item)
        if proposal is None or proposal.state != "pending" or proposal.expires_at > self._clock.now():
            return proposal
        return replace(proposal, state="expired", decision=Decision("expired", "time", proposal.expires_at))
