"""One owner's proposals as they are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from threadkeep.errors import InvalidInputError
from threadkeep.memories.audited_writer import USER, AuditedWriter
from threadkeep.memories.kinds import BUILT_IN_NAMES, Kind
from threadkeep.proposals.models import (
    POLICY_KEY,
    Decision,
    Policy,
    Proposal,
    Rule,
    State,
    Verdict,
    policy_namespace,
    proposal_of,
    proposals_namespace,
    rules_of,
    spelled,
)
from threadkeep.storage.interface import Delete, Item, Operation, Put, Ref, Storage, iterate_items

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.identity import Owner


class ProposalReader:
    """Reads proposals; it decides and writes nothing."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def get(self, proposal_id: str, owner: Owner) -> Proposal | None:
        """Return a proposal, or None if the owner has none with this id; expired after its lifetime."""
        (item,) = await self._storage.get([Ref(owner.partition, proposals_namespace(owner), proposal_id)])
        proposal = proposal_of(item) if item else None
        return self._with_current_state(proposal) if proposal else None

    async def list(self, owner: Owner, *, state: State | None, limit: int, offset: int = 0) -> list[Proposal]:
        """Return proposals in *state* (``None``: in any), newest first."""
        found: list[Proposal] = []
        if limit == 0:
            return found
        async with aclosing(iterate_items(self._storage, owner.partition, prefix=proposals_namespace(owner))) as rows:
            async for item in rows:
                proposal = proposal_of(item)
                if proposal is None:
                    continue
                as_it_is = self._with_current_state(proposal)
                if state in (None, as_it_is.state):
                    found.append(as_it_is)
                if len(found) == offset + limit:
                    break
        return found[offset:]

    def _with_current_state(self, proposal: Proposal) -> Proposal:
        if proposal.state != "pending" or proposal.expires_at > self._clock.now():
            return proposal
        return replace(proposal, state="expired", decision=Decision("expired", "time", proposal.expires_at))


class PolicyRepository:
    """The policies of all owners.

    Args:
        storage: Where an owner's own rules are.
        rules: The deployment's.
        audited_writer: Commits with an audit entry.
        kinds: The kinds that new rules may name.
    """

    def __init__(
        self,
        storage: Storage,
        rules: Mapping[Rule, Verdict] | None = None,
        *,
        audited_writer: AuditedWriter,
        kinds: Sequence[Kind] = BUILT_IN_NAMES,
    ) -> None:
        self._storage = storage
        self._audited_writer = audited_writer
        self._rules = rules or {}
        self._kinds = kinds

    @staticmethod
    def ref(owner: Owner) -> Ref:
        """Return where the own rules of *owner* are."""
        return Ref(owner.partition, policy_namespace(owner), POLICY_KEY)

    async def of(self, owner: Owner) -> Policy:
        """Return the rules that hold for *owner*."""
        (item,) = await self._storage.get([self.ref(owner)])
        return self.read(item, owner)

    def read(self, item: Item | None, owner: Owner) -> Policy:
        """Return the rules that hold for *owner*, with this item at :meth:`ref`."""
        return self._with(item.value if item else None, owner)

    async def set(self, rules: str, *, owner: Owner) -> Policy:
        """Give *owner* rules of their own, such as ``assistant=never``; an empty text takes them away.

        Raises:
            InvalidInputError: One sentence that names the rule to correct.
        """
        value = {"rules": spelled(rules_of(rules, self._kinds))}
        epoch = (await self._storage.position(owner.partition)).epoch
        namespace = policy_namespace(owner)
        operation: Operation = Put(namespace, POLICY_KEY, value) if value["rules"] else Delete(namespace, POLICY_KEY)
        await self._audited_writer.commit(owner, [operation], by=USER, epoch=epoch)
        return self._with(value, owner)

    def _with(self, row: Mapping[str, Any] | None, owner: Owner) -> Policy:
        """Add the rules of an owner's *row*; one that cannot be read says nothing."""
        own = row.get("rules") if row else None
        try:
            rules = rules_of(own, None) if isinstance(own, str) else {}
        except InvalidInputError:
            rules = {}
        return Policy(self._rules, rules, owner.kind != "user")
