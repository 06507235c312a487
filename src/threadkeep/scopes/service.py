"""``tk.scopes``: memory that users share: teams and agents, their members, and what members contribute."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from threadkeep.errors import RoleRequiredError
from threadkeep.identity import Owner, Service, checked_agent, operation
from threadkeep.ids import ThreadId
from threadkeep.memories.models import Source
from threadkeep.models.base import WorkStep
from threadkeep.proposals.models import NewProposal, State
from threadkeep.scopes.models import Membership, Role, SharedScope, checked_scope
from threadkeep.text.quoted import is_pasted
from threadkeep.text.sentences import sentences

if TYPE_CHECKING:
    from threadkeep.memories.kinds import Kind
    from threadkeep.memories.models import Forgotten, MemoryPage
    from threadkeep.models.base import WorkStep
    from threadkeep.proposals.models import Proposal, ProposalPage, Proposed
    from threadkeep.recall.models import Recalled

MOST: Final = 3
"""So many procedures are proposed from a turn at most."""

_MOST_CHARACTERS: Final = 200
_MOST_TOOLS: Final = 3
_NAME: Final = re.compile(r"[A-Za-z][\w-]{0,63}")

_LEAD: Final = re.compile(
    r"^(?:no+(?:,? no+)*|nope|wrong(?: \w+)?|stop|not (?:like that|that one|that way)|"
    r"that(?:'s| is) (?:wrong|not (?:right|how)|the wrong [\w ]+?))[,.:;!]+\s*",
    re.IGNORECASE,
)
"""How a correction begins; what follows it may say how it is done."""

_ORDER: Final = re.compile(
    r"\b(?:first|before|after|instead|always|never|must|need to|make sure|next time|should have|forgot to)\b",
    re.IGNORECASE,
)
"""A sentence with one of these says how it is done, after :data:`_LEAD`."""

_INSTRUCTS: Final = re.compile(
    r"^(?:please )?(?:you (?:should(?: have|n't have)|need to|must|have to|forgot to)\b|next time\b|"
    r"(?:don't|do not|never)\b.*\b(?:instead|before|first)\b)",
    re.IGNORECASE,
)
"""A sentence that corrects by itself."""

_ABOUT_OTHERS: Final = re.compile(r"^(?:I|we|he|she|they|it|my|our|his|her|their|there)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _CallResult:
    name: str
    arguments: Mapping[str, Any]
    failed: bool


@dataclass(slots=True)
class _Turn:
    """What a user asked, and the calls that answered.

    Attributes:
        asked: The user's message; ``None`` before the first.
        calls: The calls with a result, in the order of the results.
    """

    asked: WorkStep | None
    calls: list[_CallResult] = field(default_factory=list[_CallResult])


def procedures(steps: Sequence[WorkStep], *, source: Source) -> list[NewProposal]:
    """Return the procedures that the newest turn of a thread teaches, at most :data:`MOST`.

    Args:
        steps: The messages of the thread, oldest first.
        source: The thread and time of the newest turn.
    """
    *_, before, newest = [_Turn(None), _Turn(None), *_turns(steps)]
    found = [_proposal(text, "user", source, newest) for text in _corrections(newest, before)]
    found += [_proposal(text, "tool", source, newest) for text in _outcomes(newest.calls)]
    return list({one.text: one for one in found}.values())[:MOST]


def corrections_in(text: str) -> list[str]:
    """Return the sentences of a user's message that correct how something was done, without how they begin."""
    found: list[str] = []
    corrects = False
    for sentence in sentences(text):
        if is_pasted(sentence, text):
            continue
        lead = _LEAD.match(sentence if sentence[-1:] in ".!?:;," else f"{sentence}.")
        said = sentence[lead.end() :] if lead else sentence
        corrects = corrects or lead is not None
        if not said or said.rstrip().endswith("?") or len(said) > _MOST_CHARACTERS or _ABOUT_OTHERS.match(said):
            continue
        if _INSTRUCTS.match(said) or (corrects and _ORDER.search(said)):
            found.append(said.strip())
    return found


def _proposal(text: str, speaker: Literal["user", "tool"], source: Source, turn: _Turn) -> NewProposal:
    message_id = turn.asked.message_id if turn.asked is not None else None
    said = Source(speaker, source.thread_id, message_id, source.turn_id, source.at)
    reason = "a user corrected the agent" if speaker == "user" else "a call failed, and another one succeeded"
    return NewProposal(text, "add", "procedural", (said,), reason=reason)


def _turns(steps: Sequence[WorkStep]) -> Iterator[_Turn]:
    turn, waiting = _Turn(None), dict[str, tuple[str, Mapping[str, Any]]]()
    for step in steps:
        if step.role == "user":
            yield turn
            turn, waiting = _Turn(step), {}
        for call in step.calls:
            waiting[call.call_id] = (call.name, call.arguments)
        if step.answers in waiting:
            name, arguments = waiting.pop(step.answers)
            turn.calls.append(_CallResult(name, arguments, step.failed))
    yield turn


def _corrections(newest: _Turn, before: _Turn) -> Iterator[str]:
    """Yield what the user says of the work before: nothing is corrected where no tool was used."""
    used = list(dict.fromkeys(call.name for call in before.calls if _NAME.fullmatch(call.name)))
    if newest.asked is None or not used:
        return
    for said in corrections_in(newest.asked.text):
        yield f"When using {_listed(used[-_MOST_TOOLS:])}: {said[0].lower()}{said[1:]}"


def _outcomes(calls: Sequence[_CallResult]) -> Iterator[str]:
    """Yield what helped after a call had failed: the next call that succeeded, in names alone."""
    for place, failed in enumerate(calls):
        if not failed.failed or not _NAME.fullmatch(failed.name):
            continue
        after = [call for call in calls[place + 1 :] if not call.failed and _NAME.fullmatch(call.name)]
        again = next((call for call in after if call.name == failed.name), None)
        between = list(dict.fromkeys(call.name for call in after[: after.index(again)])) if again is not None else []
        if again is None and after:
            yield f"If {failed.name} fails, try {after[0].name}."
        elif again is not None and between:
            yield f"If {failed.name} fails, call {_listed(between[:_MOST_TOOLS])} first, then {failed.name} again."
        elif again is not None and (changed := _changed(failed, again)):
            yield f"If {failed.name} fails, call it again with another {_listed(changed[:_MOST_TOOLS])}."


def _changed(failed: _CallResult, again: _CallResult) -> list[str]:
    names = dict.fromkeys((*failed.arguments, *again.arguments))
    return [one for one in names if _NAME.fullmatch(one) and failed.arguments.get(one) != again.arguments.get(one)]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


class ScopeService(Service):
    """Shared scopes: create, grant, propose, promote, review.

    A scope is an ``Owner`` of the kind ``team`` or ``agent``. ``owner=`` names the user who acts; by default the one
    that the client was opened with. Every call with ``owner=`` requires the user's role in the scope, also of the
    application. ``create``, ``list``, ``members``, ``grant`` and ``revoke`` are the application's.
    """

    @operation
    async def create(self, scope: Owner) -> SharedScope:
        """Create a scope, or return it as it is if it exists. ``tk.owners.erase(scope)`` removes it.

        Raises:
            InvalidInputError: It is no team and no agent, or its name is invalid.
            OwnerMismatchError: The client is locked to one owner.
        """
        self._scope.require_unlocked()
        return await self._services.scope_repository.create(scope)

    @operation
    async def list(self, *, tenant: str = "") -> list[SharedScope]:
        """Return the scopes of a tenant by kind and name.

        Raises:
            OwnerMismatchError: The client is locked to one owner.
        """
        self._scope.require_unlocked()
        return await self._services.scope_repository.list(tenant)

    @operation
    async def members(self, scope: Owner) -> list[Membership]:
        """Return who has a role in *scope*, or had one.

        Raises:
            ScopeNotFoundError: There is no such scope.
            OwnerMismatchError: The client is locked to one owner.
        """
        self._scope.require_unlocked()
        await self._services.scope_repository.require([checked_scope(scope)])
        return await self._services.scope_repository.members(scope)

    @operation
    async def grant(self, scope: Owner, member: str | Owner, *, role: Role) -> Membership:
        """Give a user a role: ``read``, ``propose`` or ``review``. A user has one role; it includes those before it.

        Raises:
            ScopeNotFoundError: There is no such scope.
            InvalidInputError: The role is unknown, or the member is no user of the scope's tenant.
            OwnerMismatchError: The client is locked to one owner.
        """
        self._scope.require_unlocked()
        return await self._services.scope_repository.set_role(checked_scope(scope), self._member(member, scope), role)

    @operation
    async def revoke(self, scope: Owner, member: str | Owner) -> Membership:
        """Take a user's role away. What the user contributed stays; erasing the user removes it.

        Raises:
            ScopeNotFoundError: There is no such scope.
            OwnerMismatchError: The client is locked to one owner.
        """
        self._scope.require_unlocked()
        return await self._services.scope_repository.set_role(checked_scope(scope), self._member(member, scope), None)

    @operation
    async def of(self, owner: str | Owner | None = None) -> list[Membership]:
        """Return the roles of a user; pass their scopes as ``read_scopes=`` to let a run read all of them."""
        return await self._services.scope_repository.memberships(self._scope.resolve(owner))

    @operation
    async def memories(
        self,
        scope: Owner,
        *,
        owner: str | Owner | None = None,
        limit: int = 100,
        offset: int = 0,
        cursor: str | None = None,
    ) -> MemoryPage:
        """Return the memories of *scope*, most recently changed first; *cursor*: of the page before.

        Raises:
            RoleRequiredError: The user may not read the scope.
        """
        await self._require(scope, owner, "read")
        return await self._services.memory_reader.list(owner=scope, limit=limit, offset=offset, cursor=cursor)

    @operation
    async def search(
        self, scope: Owner, query: str, *, owner: str | Owner | None = None, limit: int = 10
    ) -> list[Recalled]:
        """Return the memories of *scope* that are most like *query*, best first.

        Raises:
            RoleRequiredError: The user may not read the scope.
        """
        await self._require(scope, owner, "read")
        return await self._services.recalls.search(query, owner=scope, limit=limit)

    @operation
    async def propose(
        self,
        scope: Owner,
        text: str,
        *,
        owner: str | Owner | None = None,
        kind: Kind = "semantic",
        source: Source | None = None,
        reason: str = "",
        key: str | None = None,
    ) -> Proposed:
        """Propose a statement to *scope*, as the word of the user.

        Args:
            scope: The scope.
            text: The statement.
            owner: The user who proposes.
            kind: The kind of the memory.
            source: Where the user said it; None: outside any thread.
            reason: Shown to the person who decides.
            key: An idempotency key: the same key is the same proposal.

        Raises:
            RoleRequiredError: The user may not propose.
            InvalidInputError, TooLargeError: The text cannot be kept, or the kind is unknown.
        """
        member = self._scope.resolve(owner)
        self._services.kinds.require(kind)
        new = NewProposal(text, "add", kind, (source,) if source else (), reason=reason, key=key)
        return await self._services.scope_repository.propose(new, scope=scope, member=member)

    @operation
    async def promote(self, scope: Owner, memory_id: str, *, owner: str | Owner | None = None) -> Proposed:
        """Propose a memory of the user to *scope*. It keeps its sources; the user keeps the memory.

        Raises:
            RoleRequiredError: The user may not propose.
            MemoryNotFoundError: The user has no such memory.
        """
        member = self._scope.resolve(owner)
        return await self._services.scope_repository.promote(memory_id, scope=scope, member=member)

    @operation
    async def learn(
        self,
        agent: Owner,
        steps: Sequence[WorkStep],
        *,
        owner: str | Owner | None = None,
        thread_id: str | None = None,
    ) -> list[Proposed]:
        """Propose to *agent* what the newest turn of a thread taught: a user's correction, a call that helped.

        Args:
            agent: The scope of the agent.
            steps: The messages of the thread, oldest first, as ``threadkeep.models.langchain.work_steps`` reads them.
            owner: The user of the turn.
            thread_id: The thread.

        Returns:
            What became of each procedure; nothing if the user may not propose to the agent.

        Raises:
            InvalidInputError: *agent* is no agent.
        """
        checked_agent(checked_scope(agent))
        source = Source("user", ThreadId(thread_id) if thread_id else None, at=self._services.clock.now())
        found, member = procedures(steps, source=source), self._scope.resolve(owner)
        try:
            return [await self._services.scope_repository.propose(new, scope=agent, member=member) for new in found]
        except RoleRequiredError:
            self._services.telemetry.count("experience.refused")
            return []

    @operation
    async def proposals(
        self,
        scope: Owner,
        *,
        owner: str | Owner | None = None,
        state: State | None = "pending",
        limit: int = 100,
        offset: int = 0,
        cursor: str | None = None,
    ) -> ProposalPage:
        """Return the proposals to *scope* in *state* (None: in any state), newest first; *cursor*: of the page before.

        Raises:
            RoleRequiredError: The user may not review.
        """
        await self._require(scope, owner, "review")
        return await self._services.proposal_repository.list(
            owner=scope, state=state, limit=limit, offset=offset, cursor=cursor
        )

    @operation
    async def approve(
        self,
        scope: Owner,
        proposal_id: str,
        *,
        owner: str | Owner | None = None,
        text: str | None = None,
        comment: str | None = None,
    ) -> Proposal:
        """Approve a proposal to *scope*, with *text* in place of its statement if that is given.

        Raises:
            RoleRequiredError: The user may not review.
            ProposalNotFoundError: The scope has none with this id.
            ProposalDecidedError: It was decided before; the first decision stands.
        """
        by = await self._require(scope, owner, "review")
        return await self._services.proposal_repository.approve(
            proposal_id, owner=scope, by=by.user_id, text=text, comment=comment
        )

    @operation
    async def reject(
        self, scope: Owner, proposal_id: str, *, owner: str | Owner | None = None, comment: str | None = None
    ) -> Proposal:
        """Reject a proposal to *scope*; its statement is not proposed again.

        Raises:
            RoleRequiredError: The user may not review.
            ProposalNotFoundError: The scope has none with this id.
            ProposalDecidedError: It was decided before; the first decision stands.
        """
        by = await self._require(scope, owner, "review")
        return await self._services.proposal_repository.reject(proposal_id, owner=scope, by=by.user_id, comment=comment)

    @operation
    async def forget(self, scope: Owner, memory_id: str, *, owner: str | Owner | None = None) -> Forgotten:
        """Remove a memory of *scope*, as a reviewer.

        Raises:
            RoleRequiredError: The user may not review.
            MemoryNotFoundError: The scope has no such memory.
        """
        await self._require(scope, owner, "review")
        return await self._services.memory_repository.forget(memory_id, owner=scope)

    async def _require(self, scope: Owner, owner: str | Owner | None, role: Role) -> Owner:
        member = self._scope.resolve(owner)
        await self._services.scope_repository.require_role(checked_scope(scope), member, role)
        return member

    @staticmethod
    def _member(member: str | Owner, scope: Owner) -> Owner:
        return member if isinstance(member, Owner) else Owner(member, scope.tenant)
