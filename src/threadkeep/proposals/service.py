"""``tk.proposals``: changes to memory that wait for a decision, and statements that must not be learnt again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from threadkeep.arguments import check_object, check_string, checked_list
from threadkeep.identity import Service, operation
from threadkeep.ids import MemoryId
from threadkeep.memories.models import Source
from threadkeep.proposals.models import Action, Choice, NewProposal, State

if TYPE_CHECKING:
    from threadkeep.identity import Owner
    from threadkeep.memories.kinds import Kind
    from threadkeep.proposals.models import DecisionResult, Policy, Proposal, ProposalPage, Proposed, Tombstone


class ProposalService(Service):
    """Changes that wait for a decision: propose, list, approve, reject, edit; policies and tombstones.

    ``owner=`` names the owner of a call; by default the one that the client was opened with. ``by=`` names the person
    who decides; by default the owner.
    """

    @operation
    async def propose(
        self,
        text: str = "",
        *,
        owner: str | Owner | None = None,
        action: Action = "add",
        kind: Kind = "semantic",
        memory_id: str | None = None,
        base_revision: int | None = None,
        source: Source | None = None,
        reason: str = "",
        key: str | None = None,
    ) -> Proposed:
        """Propose to ``add`` a statement, or to ``correct`` or ``forget`` a memory.

        Args:
            text: The statement; empty for ``forget``.
            owner: The owner of the memory.
            action: What to do.
            kind: The kind of the memory.
            memory_id: The memory to correct or forget.
            base_revision: The revision of the memory that was read; None: the current one.
            source: Where the statement comes from; None: an assistant, outside any thread.
            reason: Shown to the person who decides.
            key: An idempotency key: the same key is the same proposal.

        Raises:
            InvalidInputError, TooLargeError: The text cannot be kept, the kind is unknown, or the arguments name no
                change.
            MemoryNotFoundError: There is no memory to correct or forget.
            RevisionConflictError: The memory was changed since *base_revision*.
        """
        self._services.kinds.require(kind)
        if source is not None:
            check_object(source, "source", Source)
        new = NewProposal(
            text,
            action,
            kind,
            (source,) if source else (),
            MemoryId(memory_id) if memory_id is not None else None,
            base_revision,
            reason,
            key,
        )
        return await self._services.proposal_repository.propose(new, owner=self._scope.resolve(owner))

    @operation
    async def ask_contradictions(self, *, owner: str | Owner | None = None) -> tuple[Proposed, ...]:
        """Ask which of two facts counts, where a newer one probably replaces an older one; return what is asked now.

        Each is a proposal to ``supersede`` the older memory, with both texts. Approved, the older one is no longer
        recalled; rejected, both stay. The same is not asked again. At most five wait at a time.
        """
        return await self._services.contradictions.ask(self._scope.resolve(owner))

    @operation
    async def list(
        self,
        *,
        owner: str | Owner | None = None,
        state: State | None = "pending",
        limit: int = 100,
        offset: int = 0,
        cursor: str | None = None,
    ) -> ProposalPage:
        """Return proposals in *state* (None: in any state), newest first; *cursor*: of the page before."""
        return await self._services.proposal_repository.list(
            owner=self._scope.resolve(owner), state=state, limit=limit, offset=offset, cursor=cursor
        )

    @operation
    async def get(self, proposal_id: str, *, owner: str | Owner | None = None) -> Proposal | None:
        """Return a proposal, or None if the owner has none with this id."""
        return await self._services.proposal_repository.get(proposal_id, owner=self._scope.resolve(owner))

    @operation
    async def require(self, proposal_id: str, *, owner: str | Owner | None = None) -> Proposal:
        """Return a proposal.

        Raises:
            ProposalNotFoundError: The owner has none with this id.
        """
        return await self._services.proposal_repository.require(proposal_id, owner=self._scope.resolve(owner))

    @operation
    async def approve(
        self,
        proposal_id: str,
        *,
        owner: str | Owner | None = None,
        by: str | None = None,
        comment: str | None = None,
        base_revision: int | None = None,
        key: str | None = None,
    ) -> Proposal:
        """Approve a proposal and make its change, in one commit.

        Args:
            proposal_id: The proposal.
            owner: The owner of the memory.
            by: The person who decides; None: the owner.
            comment: Kept with the decision.
            base_revision: The revision of the memory that was read, if it was changed since the proposal.
            key: An idempotency key: the same decision with the same key is returned again instead of refused.

        Raises:
            ProposalNotFoundError: The owner has none with this id.
            ProposalDecidedError: The proposal was decided before; the first decision stands.
            RevisionConflictError: The memory was changed since; the proposal still waits.
        """
        owner = self._scope.resolve(owner)
        return await self._services.proposal_repository.approve(
            proposal_id, owner=owner, by=by or owner.user_id, comment=comment, base_revision=base_revision, key=key
        )

    @operation
    async def edit(
        self,
        proposal_id: str,
        text: str,
        *,
        owner: str | Owner | None = None,
        by: str | None = None,
        comment: str | None = None,
        base_revision: int | None = None,
        key: str | None = None,
    ) -> Proposal:
        """Approve a proposal with *text* in place of its statement; otherwise as :meth:`approve`."""
        owner = self._scope.resolve(owner)
        return await self._services.proposal_repository.approve(
            proposal_id,
            owner=owner,
            by=by or owner.user_id,
            text=text,
            comment=comment,
            base_revision=base_revision,
            key=key,
        )

    @operation
    async def reject(
        self,
        proposal_id: str,
        *,
        owner: str | Owner | None = None,
        by: str | None = None,
        comment: str | None = None,
        key: str | None = None,
    ) -> Proposal:
        """Reject a proposal. Its statement is not learnt again until its tombstone is lifted or expires.

        Raises:
            ProposalNotFoundError: The owner has none with this id.
            ProposalDecidedError: The proposal was decided before; the first decision stands.
        """
        owner = self._scope.resolve(owner)
        return await self._services.proposal_repository.reject(
            proposal_id, owner=owner, by=by or owner.user_id, comment=comment, key=key
        )

    @operation
    async def decide(
        self, choices: Sequence[Choice], *, owner: str | Owner | None = None, by: str | None = None
    ) -> list[DecisionResult]:
        """Decide on many proposals. Each result holds the decided proposal or the error; one error stops no other."""
        choices = checked_list(choices, "choices", Choice)
        owner = self._scope.resolve(owner)
        return await self._services.proposal_repository.decide(choices, owner=owner, by=by or owner.user_id)

    @operation
    async def policy(self, owner: str | Owner | None = None) -> Policy:
        """Return which statements about the owner are kept, proposed, or never kept."""
        return await self._services.policies.of(self._scope.resolve(owner))

    @operation
    async def set_policy(self, rules: str, *, owner: str | Owner | None = None) -> Policy:
        """Set the owner's own rules, such as ``assistant=never``; an empty text removes them.

        Raises:
            InvalidInputError: A rule is invalid; the message names it.
        """
        check_string(rules, "rules")
        return await self._services.policies.set(rules, owner=self._scope.resolve(owner))

    @operation
    async def tombstones(self, owner: str | Owner | None = None) -> list[Tombstone]:
        """Return the tombstones, newest first: rejected statements, and digests of forgotten ones."""
        return await self._services.tombstones.list(owner=self._scope.resolve(owner))

    @operation
    async def lift(self, tombstone_id: str, *, owner: str | Owner | None = None) -> bool:
        """Remove a tombstone, so that its statement may be learnt again; return whether it existed."""
        return await self._services.tombstones.lift(tombstone_id, owner=self._scope.resolve(owner))
