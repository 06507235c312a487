"""Read and write shared scopes: which there are, who their members are, what members contribute, and how that ends."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import InvalidInputError, RevisionConflictError, ScopeNotFoundError
from threadkeep.identity import Owner, owner_of_label
from threadkeep.ids import short_digest
from threadkeep.memories.codec import moment_of, put_of, uses_namespace
from threadkeep.memories.models import Source
from threadkeep.proposals.models import NewProposal, proposal_put, proposals_namespace, tombstones_namespace
from threadkeep.scopes.models import (
    ROLES,
    Membership,
    Role,
    SharedScope,
    Words,
    checked_member,
    checked_scope,
    role_required,
    words_of,
)
from threadkeep.storage.interface import Batch, Delete, Item, Operation, Partition, Put, Ref, Storage, read_items

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.memories.audited_writer import AuditedWriter
    from threadkeep.memories.repository import MemoryRepository
    from threadkeep.proposals.models import Proposed
    from threadkeep.proposals.policies import Tombstones
    from threadkeep.proposals.repository import ProposalRepository

SCOPES: Final = ".scopes"
MEMBERS: Final = ".members"
_MOST_PROPOSALS: Final = 100_000
_REMOVED_AT_ONCE: Final = 2_000


def directory_of(tenant: str) -> Partition:
    """Return the partition that lists the scopes of a tenant."""
    return Partition("root", (SCOPES, tenant))


def _listed(scope: Owner) -> Ref:
    return Ref(directory_of(scope.tenant), (SCOPES,), scope.partition.digest.hex())


def member_ref(scope: Owner, member: Owner) -> Ref:
    """Return where *scope* keeps the role of *member*: a row that every contribution of the member expects."""
    return Ref(scope.partition, (MEMBERS, scope.label), member.partition.digest.hex())


class ScopeRepository:
    """The shared scopes of all tenants."""

    def __init__(
        self,
        storage: Storage,
        memories: MemoryRepository,
        proposals: ProposalRepository,
        tombstones: Tombstones,
        clock: Clock,
        *,
        audited_writer: AuditedWriter,
    ) -> None:
        self._storage = storage
        self._memories = memories
        self._proposals = proposals
        self._tombstones = tombstones
        self._clock = clock
        self._audited_writer = audited_writer
        self._known: set[Owner] = set()

    async def create(self, scope: Owner) -> SharedScope:
        """Create *scope*, or return it as it is if it exists.

        Raises:
            InvalidInputError: It is no shared scope, or its name is invalid.
        """
        checked_scope(scope)
        ref, now = _listed(scope), self._clock.now()
        value = {"kind": scope.kind, "name": scope.user_id, "created_at": now.isoformat()}
        with suppress(RevisionConflictError):  # it exists
            await self._storage.commit(Batch(ref.partition, [Put(ref.namespace, ref.key, value, expect="absent")]))
        (item,) = await self._storage.get([ref])
        self._known.add(scope)
        return (_scope_of(item, scope.tenant) if item is not None else None) or SharedScope(scope, now)

    async def list(self, tenant: str) -> list[SharedScope]:
        """Return the scopes of *tenant* by kind and name."""
        items = await read_items(self._storage, directory_of(tenant), prefix=(SCOPES,))
        scopes = [one for item in items if (one := _scope_of(item, tenant)) is not None]
        self._known = {known for known in self._known if known.tenant != tenant} | {one.scope for one in scopes}
        return sorted(scopes, key=lambda one: (one.scope.kind, one.scope.user_id))

    def knows(self, scopes: Sequence[Owner]) -> bool:
        """Return whether all of *scopes* are known to exist, without I/O, on any thread."""
        return self._known.issuperset(scopes)

    async def require(self, scopes: Sequence[Owner]) -> None:
        """Check that all of *scopes* exist.

        Raises:
            ScopeNotFoundError: One does not.
        """
        for scope in scopes:
            if scope not in self._known:
                await self.list(scope.tenant)
            if scope not in self._known:
                msg = (
                    f"The {scope.kind} {scope.user_id[:80]!r} was not found; create it by tk.scopes.create() "
                    "or threadkeep scopes create."
                )
                raise ScopeNotFoundError(msg, kind=scope.kind, scope=scope.user_id)

    async def members(self, scope: Owner) -> list[Membership]:
        """Return who has, or had, a role in *scope*, oldest change first."""
        items = await read_items(self._storage, scope.partition, prefix=(MEMBERS, scope.label))
        members = [one for item in items if (one := _membership_of(item, scope)) is not None]
        return sorted(members, key=lambda one: (one.since, one.member.user_id))

    async def memberships(self, member: Owner) -> list[Membership]:
        """Return the roles of *member* in the scopes of the tenant."""
        scopes = [one.scope for one in await self.list(member.tenant)]
        items = await self._storage.get([member_ref(scope, member) for scope in scopes])
        found = [_membership_of(item, scope) for scope, item in zip(scopes, items, strict=True) if item is not None]
        return [one for one in found if one is not None and one.role is not None]

    async def set_role(self, scope: Owner, member: Owner, role: Role | None) -> Membership:
        """Give *member* a role in *scope*, or take it away. What the member contributed stays.

        Raises:
            ScopeNotFoundError: There is no such scope.
            InvalidInputError: The role is unknown, or the member is no user of the tenant.
        """
        checked_member(member, scope)
        if role is not None and role not in ROLES:
            msg = f"The role must be one of {', '.join(ROLES)}, got {str(role)[:40]!r}."
            raise InvalidInputError(msg)
        await self.require([scope])
        granted = Membership(scope, member, role, self._clock.now())
        await self._storage.commit(Batch(scope.partition, [_member_put(granted)]))
        return granted

    async def require_role(self, scope: Owner, member: Owner, role: Role) -> Item:
        """Return the row with the role of *member*, if that includes *role*.

        Raises:
            RoleRequiredError: It does not, or there is no such scope.
        """
        if scope.is_shared and scope.tenant == member.tenant:
            (item,) = await self._storage.get([member_ref(scope, member)])
            membership = _membership_of(item, scope) if item is not None else None
            if item is not None and membership is not None and membership.may(role):
                return item
        raise role_required(scope, role)

    async def propose(self, new: NewProposal, *, scope: Owner, member: Owner) -> Proposed:
        """Propose a change of *scope* as the word of *member*.

        The commit expects the member's role as it was read. Erasing the member removes that row, so nothing of a
        contribution in flight stays.

        Raises:
            RoleRequiredError: The member may not propose.
        """

        async def propose() -> Proposed:
            row = await self.require_role(scope, member, "propose")
            return await self._contribute(new, scope, member, row)

        return await retry_conflicts(propose)

    async def promote(self, memory_id: str, *, scope: Owner, member: Owner) -> Proposed:
        """Propose a memory of *member* to *scope*, with its sources.

        Raises:
            RoleRequiredError: The member may not propose.
            MemoryNotFoundError: The member has no such memory.
            InvalidInputError: The memory is not active.
        """

        async def propose() -> Proposed:
            row = await self.require_role(scope, member, "propose")
            memory = await self._memories.require(memory_id, owner=member)
            if memory.status != "active":
                msg = f"Memory {memory.memory_id} is {memory.status}; only active memories can be promoted."
                raise InvalidInputError(msg)
            key = short_digest("promoted", member.label, memory.memory_id, memory.text)
            reason = f"promoted by {member.user_id}"
            new = NewProposal(memory.text, "add", memory.kind, memory.sources, reason=reason, key=key)
            return await self._contribute(new, scope, member, row)

        return await retry_conflicts(propose)

    async def _contribute(self, new: NewProposal, scope: Owner, member: Owner, row: Item) -> Proposed:
        sources = new.sources or (Source("user", at=self._clock.now()),)
        stamped = replace(new, sources=tuple(replace(source, author=member.label) for source in sources))
        fence = Put(row.ref.namespace, row.ref.key, row.value, expect=row.revision)
        return await self._proposals.propose(stamped, owner=scope, also=[fence])

    async def forget(self, owner: Owner) -> int:
        """Remove what scopes hold of an owner who is erased; return how many rows.

        Of a user: their role and their words in every scope of the tenant. Of a scope: its name in the list.
        """
        if owner.is_shared:
            ref = _listed(owner)
            await self._storage.commit(Batch(ref.partition, [Delete(ref.namespace, ref.key)]))
            self._known.discard(owner)
            return 1
        return sum([await self._remove_words(one.scope, owner) for one in await self.list(owner.tenant)])

    async def _remove_words(self, scope: Owner, member: Owner) -> int:
        """Remove the words of *member*, 2,000 rows in a commit; the last one removes the member's role, too."""
        ref, removed = member_ref(scope, member), 0

        async def commit() -> tuple[int, bool]:
            head = await self._audited_writer.head(scope)
            (row,) = await self._storage.get([ref])
            if row is None:  # never a member: nothing in the scope is theirs
                return 0, True
            operations = await self._removing(scope, await self._words(scope, member))
            batch, last = operations[:_REMOVED_AT_ONCE], len(operations) <= _REMOVED_AT_ONCE
            role: Operation = Delete(ref.namespace, ref.key) if last else Put(ref.namespace, ref.key, row.value)
            await self._audited_writer.commit_from(head, scope, [*batch, role], by="erasure", why="member erased")
            return len(batch), last

        last = False
        while not last:
            count, last = await retry_conflicts(commit)
            removed += count
        if removed:
            await self._storage.scrub()
        return removed

    async def _words(self, scope: Owner, member: Owner) -> Words:
        memories, summaries = await self._memories.everything(scope)
        proposals = await self._proposals.list(owner=scope, state=None, limit=_MOST_PROPOSALS)
        return words_of(member, [*memories, *summaries], proposals, await self._tombstones.list(owner=scope))

    async def _removing(self, scope: Owner, words: Words) -> list[Operation]:
        items = await self._memories.items([one.memory_id for one in words.versions], scope)
        operations: list[Operation] = [Delete(one.namespace, one.memory_id, one.revision) for one in words.memories]
        operations += [Delete(uses_namespace(scope), one.memory_id) for one in words.memories]
        operations += [
            put_of(one, embedding=items[one.memory_id].embedding, expect=one.revision)
            for one in words.versions
            if one.memory_id in items
        ]
        operations += [Delete(proposals_namespace(scope), one.proposal_id, one.revision) for one in words.proposals]
        operations += [proposal_put(one, scope, expect=one.revision) for one in words.comments]
        return operations + [Delete(tombstones_namespace(scope), one.tombstone_id) for one in words.tombstones]


def _member_put(membership: Membership) -> Put:
    ref = member_ref(membership.scope, membership.member)
    value = {"member": membership.member.label, "role": membership.role, "since": membership.since.isoformat()}
    return Put(ref.namespace, ref.key, {name: field for name, field in value.items() if field is not None})


def _membership_of(item: Item, scope: Owner) -> Membership | None:
    value: dict[str, Any] = item.value
    label, role, since = value.get("member"), value.get("role"), moment_of(value.get("since"))
    member = owner_of_label(label) if isinstance(label, str) else None
    if member is None or since is None or role not in (None, *ROLES):
        return None
    return Membership(scope, member, role, since)


def _scope_of(item: Item, tenant: str) -> SharedScope | None:
    kind, name, created_at = (item.value.get(field) for field in ("kind", "name", "created_at"))
    moment = moment_of(created_at)
    if not isinstance(name, str) or moment is None or kind not in ("team", "agent"):
        return None
    return SharedScope(Owner(name, tenant, kind), moment)
