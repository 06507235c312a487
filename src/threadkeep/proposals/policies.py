"""Which policy holds for whom: the deployment's rules, and an owner's own beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from threadkeep.errors import InvalidInputError
from threadkeep.memories.ledger import USER, Ledger
from threadkeep.owners.owner import Owner
from threadkeep.proposals.policy import Policy, Rule, rules_of, spelled
from threadkeep.proposals.record import Verdict
from threadkeep.proposals.shapes import POLICY_KEY, policy_namespace
from threadkeep.storage.port import Delete, Operation, Put, Ref, Storage


class Policies:
    """The policies of all owners.

    Args:
        storage: Where an owner's own rules are.
        rules: The deployment's.
        ledger: Commits with an audit entry.
    """

    def __init__(self, storage: Storage, rules: Mapping[Rule, Verdict] | None = None, *, ledger: Ledger) -> None:
        self._storage = storage
        self._ledger = ledger
        self._rules = rules or {}

    async def of(self, owner: Owner) -> Policy:
        """Return the rules that hold for *owner*."""
        (item,) = await self._storage.get([Ref(owner.partition, policy_namespace(owner), POLICY_KEY)])
        return self._with(item.value if item else None)

    async def set(self, rules: str, *, owner: Owner) -> Policy:
        """Give *owner* rules of their own, such as ``assistant=never``; an empty text takes them away.

        Raises:
            InvalidInputError: One sentence that names the rule to correct.
        """
        value = {"rules": spelled(rules_of(rules))}
        epoch = (await self._storage.position(owner.partition)).epoch
        namespace = policy_namespace(owner)
        operation: Operation = Put(namespace, POLICY_KEY, value) if value["rules"] else Delete(namespace, POLICY_KEY)
        await self._ledger.commit(owner, [operation], by=USER, epoch=epoch)
        return self._with(value)

    def _with(self, row: Mapping[str, Any] | None) -> Policy:
        """Add the rules of an owner's *row*; one that cannot be read says nothing."""
        own = row.get("rules") if row else None
        try:
            return Policy(self._rules, rules_of(own) if isinstance(own, str) else {})
        except InvalidInputError:
            return Policy(self._rules)
