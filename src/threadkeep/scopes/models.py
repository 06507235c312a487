"""Scopes, members and roles: values, and the rule of what is a member's word."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, get_args

from threadkeep.errors import InvalidInputError, RoleRequiredError
from threadkeep.identity import Owner
from threadkeep.memories.models import Memory, Source, goes_with
from threadkeep.proposals.models import Proposal, Tombstone

Role: TypeAlias = Literal["read", "propose", "review"]
"""What a member may do; each role may do what those before it may."""

ROLES: Final[tuple[Role, ...]] = get_args(Role)
MAX_NAME_CHARACTERS: Final = 100
_NAME: Final = re.compile(r"[\w][\w .@:/+-]*")


@dataclass(frozen=True, slots=True)
class SharedScope:
    """A scope that users share.

    Attributes:
        scope: The owner of its memories; its kind is ``team`` or ``agent``.
        created_at: When it was created.
    """

    scope: Owner
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Membership:
    """What a user may do in a scope.

    Attributes:
        scope: The scope.
        member: The user.
        role: ``read``, ``propose`` or ``review``; ``None``: they were a member, and what they contributed stays.
        since: When the role was granted or revoked.
    """

    scope: Owner
    member: Owner
    role: Role | None
    since: datetime

    def may(self, role: Role) -> bool:
        """Return whether the member's role includes *role*."""
        return self.role is not None and ROLES.index(self.role) >= ROLES.index(role)


def checked_scope(scope: object) -> Owner:
    """Return *scope*.

    Raises:
        InvalidInputError: It is no team and no agent, or its name cannot be shown to a model.
    """
    if not isinstance(scope, Owner) or not scope.is_shared:
        msg = 'A shared scope must be an Owner of another kind than user: threadkeep.Owner("platform", kind="team").'
        raise InvalidInputError(msg)
    if len(scope.user_id) > MAX_NAME_CHARACTERS or not _NAME.fullmatch(scope.user_id):
        msg = (
            f"The name of a scope has 1 to {MAX_NAME_CHARACTERS} letters, digits, spaces and . _ @ : / + -, "
            f"got {scope.user_id[:40]!r}."
        )
        raise InvalidInputError(msg)
    return scope


def checked_member(member: Owner, scope: Owner) -> Owner:
    """Return *member*.

    Raises:
        InvalidInputError: It is no user of the tenant of *scope*.
    """
    if member.is_shared or member.tenant != scope.tenant:
        msg = "A member of a scope must be a user of the same tenant."
        raise InvalidInputError(msg)
    return member


def role_required(scope: Owner, role: Role) -> RoleRequiredError:
    """Return the error for a user without *role* in *scope*; the same if there is no such scope."""
    msg = f"The role {role} in {scope.kind} {scope.user_id[:80]!r} is required; ask the application to grant it."
    return RoleRequiredError(msg, kind=scope.kind, scope=scope.user_id, role=role)


def authored(sources: Iterable[Source], author: str) -> bool:
    """Return whether the user with the label *author* said one of *sources*."""
    return any(source.author == author for source in sources)


@dataclass(frozen=True, slots=True)
class Words:
    """What a scope holds of the words of one user.

    Attributes:
        memories: Memories that say them, or were made of such.
        versions: Memories with earlier versions that say them, as they are without those.
        proposals: Proposals that say them.
        comments: Decided proposals with a comment of the user's, as they are without it.
        tombstones: Tombstones of rejected statements of the user's.
    """

    memories: tuple[Memory, ...]
    versions: tuple[Memory, ...]
    proposals: tuple[Proposal, ...]
    comments: tuple[Proposal, ...]
    tombstones: tuple[Tombstone, ...]


def words_of(
    member: Owner, memories: Sequence[Memory], proposals: Sequence[Proposal], tombstones: Sequence[Tombstone]
) -> Words:
    """Return what *memories*, *proposals* and *tombstones* of a scope hold of the words of *member*.

    A statement that a reviewer has edited is the reviewer's word, too.
    """
    label, edited = member.label, {one.memory_id for one in proposals if _edited_by(one, member)}
    gone: Mapping[str, Memory] = {}
    for memory in memories:
        if memory.memory_id not in gone and (authored(memory.sources, label) or memory.memory_id in edited):
            gone = {**gone, **{one.memory_id: one for one in goes_with(memory, memories)}}
    versions = tuple(
        replace(memory, history=tuple(old for old in memory.history if not authored(old.sources, label)))
        for memory in memories
        if memory.memory_id not in gone and any(authored(old.sources, label) for old in memory.history)
    )
    said = tuple(one for one in proposals if _says(one, member, gone))
    commented = [one for one in proposals if one not in said and _decided_by(one, member)]
    return Words(
        tuple(gone.values()),
        versions,
        said,
        tuple(_without_comment(one) for one in commented if one.decision is not None and one.decision.comment),
        tuple(one for one in tombstones if label in one.authors),
    )


def _says(proposal: Proposal, member: Owner, gone: Collection[str]) -> bool:
    return authored(proposal.sources, member.label) or proposal.memory_id in gone or _edited_by(proposal, member)


def _decided_by(proposal: Proposal, member: Owner) -> bool:
    return proposal.decision is not None and proposal.decision.by == member.user_id


def _edited_by(proposal: Proposal, member: Owner) -> bool:
    return _decided_by(proposal, member) and proposal.decision is not None and proposal.decision.text is not None


def _without_comment(proposal: Proposal) -> Proposal:
    decision: Any = proposal.decision
    return replace(proposal, decision=replace(decision, comment=None))
