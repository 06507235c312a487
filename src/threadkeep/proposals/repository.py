"""Create and decide proposals: changes to memory that wait for a decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, get_args

from threadkeep.arguments import check_string, checked_count
from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import (
    ConflictError,
    InvalidInputError,
    ProposalDecidedError,
    ProposalNotFoundError,
    RevisionConflictError,
    ThreadkeepError,
)
from threadkeep.identity import Owner, owner_of_label
from threadkeep.ids import MemoryId, ProposalId, new_id, short_digest
from threadkeep.memories.audited_writer import USER
from threadkeep.memories.codec import MEMORIES
from threadkeep.memories.kinds import ruled_kind
from threadkeep.memories.models import (
    TRUSTED,
    Approval,
    Memory,
    NewMemory,
    RememberResult,
    Source,
    Speaker,
    checked_name,
    lacks_approval,
    least_trusted,
    recallable,
)
from threadkeep.proposals.models import (
    DUE,
    MAX_COMMENT_CHARACTERS,
    Choice,
    Decision,
    DecisionResult,
    NewProposal,
    Proposal,
    ProposalPage,
    Proposed,
    State,
    checked,
    proposal_of,
    proposal_put,
    statement,
    waiting_reason,
)
from threadkeep.proposals.reader import ProposalReader
from threadkeep.storage.interface import Operation, Put, Storage
from threadkeep.text.semantics import gist_of, same_meaning, same_words

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.memories.audited_writer import AuditedWriter
    from threadkeep.memories.reader import Searcher
    from threadkeep.memories.repository import MemoryRepository
    from threadkeep.observability import Telemetry
    from threadkeep.proposals.policies import PolicyRepository, Tombstones

LIFETIME: Final = timedelta(days=30)
_PAGE: Final = 500
_MOST_WAITING: Final = 10_000
_LAPSE_AT_ONCE: Final = 200


class ProposalRepository:
    """The proposals of all owners; every method but :meth:`lapse` reads and writes one owner's partition only."""

    def __init__(
        self,
        storage: Storage,
        searcher: Searcher,
        memories: MemoryRepository,
        tombstones: Tombstones,
        policies: PolicyRepository,
        clock: Clock,
        telemetry: Telemetry,
        *,
        audited_writer: AuditedWriter,
        lifetime: timedelta = LIFETIME,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._storage = storage
        self._audited_writer = audited_writer
        self._rows = ProposalReader(storage, clock)
        self._searcher = searcher
        self._memories = memories
        self._tombstones = tombstones
        self._clock = clock
        self._telemetry = telemetry
        self._policies = policies
        self._lifetime = lifetime
        self._redact = redact

    async def asked_about(self, owner: Owner) -> frozenset[MemoryId]:
        """Return the memories that proposals which wait would change or forget."""
        waiting = await self._rows.list(owner, state="pending", limit=_MOST_WAITING)
        return frozenset(one.memory_id for one in waiting if one.action != "add" and one.memory_id is not None)

    async def propose(self, new: NewProposal, *, owner: Owner, also: Sequence[Operation] = ()) -> Proposed:
        """Propose a change; what the policy lets pass is done at once, what it never keeps is refused.

        Args:
            new: The change.
            owner: The owner of the memory.
            also: Further operations for the commit of the proposal.

        Raises:
            InvalidInputError, TooLargeError: It cannot be kept, or names no change.
            MemoryNotFoundError: There is no memory to correct or to forget.
            RevisionConflictError: That memory is not at *base_revision* any more.
        """
        new = checked(new, self._redact)
        epoch = (await self._storage.position(owner.partition)).epoch
        proposal_id = self._id_of(new)
        if known := await self.get(proposal_id, owner=owner):
            return Proposed("duplicate", known, known.memory_id, "proposed before")
        trust = least_trusted(new.sources, otherwise="assistant")
        base = await self._base(new, owner) if new.action != "add" else None
        kind = ruled_kind(base.kind if base and new.action == "correct" else new.kind, new.text)
        verdict = (await self._policies.of(owner)).verdict(kind, trust)
        if verdict == "never":
            return Proposed("rejected", None, None, "never kept by policy")
        if new.action == "supersede":  # both statements are kept already; which one counts is for a person to say
            verdict = "ask"
        elif new.text and (refused := await self._refusal_reason(new, owner)):
            return refused
        now = self._clock.now()
        proposal = Proposal(
            proposal_id=proposal_id,
            action=new.action,
            text=new.text,
            kind=base.kind if base else new.kind,
            sources=new.sources,
            trust=trust,
            reason=new.reason or waiting_reason(kind, trust),
            memory_id=base.memory_id if base else MemoryId(new_id()),
            base_revision=base.revision if base else None,
            base_text=base.text if base else None,
            created_at=now,
            expires_at=now + self._lifetime,
            key=new.key,
            tags=tuple(new.tags),
            metadata=new.metadata,
            by_memory_id=new.by_memory_id,
        )
        try:
            put = proposal_put(proposal, owner, expect="absent")
            await self._audited_writer.commit(owner, [put, *also], by=trust, epoch=epoch)
        except RevisionConflictError:  # the same one, at the same time, or an expectation of the caller's
            if (known := await self.get(proposal_id, owner=owner)) is None:
                raise
            return Proposed("duplicate", known, known.memory_id, "proposed before")
        self._telemetry.count("proposals.made")
        if verdict == "ask":
            waiting = await self.require(proposal_id, owner=owner)
            return Proposed("proposed", waiting, proposal.memory_id, proposal.reason)
        done = await self.approve(proposal_id, owner=owner, by="policy")
        return Proposed("approved", done, done.decision.memory_id if done.decision else None)

    async def keep(self, new: NewMemory, *, owner: Owner, asked: bool = True) -> RememberResult:
        """Keep a statement, or propose it if it needs an approval.

        A statement that says how to behave ("Always answer in French.") is procedural, also if it comes as semantic.

        Args:
            new: The statement with all its sources.
            owner: The owner.
            asked: Whether the user wants just this kept: then a policy is not asked, and what was rejected
                or forgotten before is let in again. It counts only for what they stand behind themselves, and
                not for how to behave.

        Raises:
            InvalidInputError, TooLargeError: It cannot be kept.
        """
        kind = ruled_kind(new.kind, new.text)
        if new.kind == "semantic":
            new = replace(new, kind=kind)
        trust = least_trusted(new.sources)
        asked = asked and kind != "procedural" and not owner.is_shared
        if new.approval is not None or (trust in TRUSTED and asked):
            return await self._memories.remember(new, owner=owner)
        if trust in TRUSTED and not owner.is_shared and (await self._policies.of(owner)).verdict(kind, trust) == "auto":
            reason = await self._why_unwanted(new.text, owner)
            return (
                self._not_kept(new, trust, reason, owner) if reason else await self._memories.remember(new, owner=owner)
            )
        proposal = NewProposal(new.text, "add", new.kind, new.sources, tags=new.tags, metadata=new.metadata)
        proposed = await self.propose(proposal, owner=owner)
        if proposed.memory_id is not None and (memory := await self._memories.get(proposed.memory_id, owner=owner)):
            return RememberResult("accepted" if proposed.status == "approved" else "duplicate", memory)
        kept = self._not_kept(new, trust, proposed.reason or "", owner)
        if proposed.proposal is None:
            return kept
        memory = replace(kept.memory, memory_id=proposed.proposal.memory_id, status="proposed")
        return replace(kept, status="proposed", memory=memory, proposal_id=proposed.proposal.proposal_id)

    async def keep_many(
        self, news: Sequence[NewMemory], *, owner: Owner, progress: Callable[[int], object] = lambda _: None
    ) -> tuple[RememberResult, ...]:
        """Keep many statements as :meth:`MemoryRepository.bring` does, and propose those that need an approval.

        Returns:
            The result of each statement, in the order given.

        Raises:
            InvalidInputError, TooLargeError: One of them cannot be kept; nothing was written.
        """
        for new in news:
            self._memories.check(new)
        asked = {number: new for number, new in enumerate(news) if _asks(new, owner)}
        others = {number: new for number, new in enumerate(news) if number not in asked}
        kept = await self._memories.bring(list(others.values()), owner=owner, by=USER, progress=progress)
        results = dict(zip(others, kept, strict=True))
        for number, new in asked.items():
            results[number] = await self.keep(new, owner=owner)
            progress(len(results))
        return tuple(results[number] for number in range(len(news)))

    async def propose_imports(self, news: Mapping[int, NewMemory], *, owner: Owner) -> dict[int, Proposed]:
        """Propose those imported statements that the policy does not keep by itself and that do not exist yet.

        Args:
            news: The statements by line number; each has an id.
            owner: The owner of the memories.

        Returns:
            The outcome of each statement that was proposed, or would be if it were not there, by line number.
        """
        policy = await self._policies.of(owner)
        proposed: dict[int, Proposed] = {}
        for number, new in news.items():
            memory_id = str(new.memory_id)
            kind = ruled_kind(new.kind, new.text)
            if policy.verdict(kind, "import") == "auto" and not owner.is_shared:
                continue
            if known := await self._memories.get(memory_id, owner=owner):
                proposed[number] = Proposed("duplicate", None, known.memory_id)
                continue
            proposal = NewProposal(
                new.text,
                kind=kind if new.kind == "semantic" else new.kind,
                sources=new.sources,
                key=f"import:{memory_id}",
                tags=new.tags,
                metadata=new.metadata,
            )
            proposed[number] = await self.propose(proposal, owner=owner)
        return proposed

    async def get(self, proposal_id: str, *, owner: Owner) -> Proposal | None:
        """Return a proposal, or None if the owner has none with this id; expired after its lifetime."""
        return await self._rows.get(proposal_id, owner)

    async def require(self, proposal_id: str, *, owner: Owner) -> Proposal:
        """Return a proposal.

        Raises:
            ProposalNotFoundError: The owner has none with this id.
        """
        if proposal := await self.get(proposal_id, owner=owner):
            return proposal
        msg = f"Proposal {proposal_id[:80]!r} of this owner was not found; list the proposals."
        raise ProposalNotFoundError(msg, proposal_id=proposal_id)

    async def list(
        self,
        *,
        owner: Owner,
        state: State | None = "pending",
        limit: int = 100,
        offset: int = 0,
        cursor: str | None = None,
    ) -> ProposalPage:
        """Return proposals, newest first: those that wait, those in another *state*, or all (``None``)."""
        limit = checked_count(limit, "limit")
        offset = checked_count(offset, "offset")
        if state not in (None, *get_args(State)):
            msg = f"state must be one of {', '.join(get_args(State))}, or None."
            raise InvalidInputError(msg)
        return await self._rows.list(owner, state=state, limit=limit, offset=offset, cursor=cursor)

    async def approve(
        self,
        proposal_id: str,
        *,
        owner: Owner,
        by: str,
        text: str | None = None,
        comment: str | None = None,
        base_revision: int | None = None,
        key: str | None = None,
    ) -> Proposal:
        """Do what was proposed, or *text* instead; the decision and the change are one commit.

        Args:
            proposal_id: Which proposal.
            owner: The owner.
            by: Who decides.
            text: The statement as it shall be remembered; ``None``: as it was proposed.
            comment: What there is to say to it.
            base_revision: The revision of the memory that was looked at; ``None``: whichever says what the
                change was thought out for.
            key: The client's; deciding the same again with the same key changes nothing.

        Raises:
            ProposalNotFoundError: There is none with this id.
            ProposalDecidedError: It was decided before; the first decision counts.
            RevisionConflictError: The memory was changed since; the proposal still waits.
            MemoryNotFoundError: The memory is gone; the proposal still waits.
        """
        proposal, before = await self._undecided(proposal_id, owner, "approved", key)
        if before:
            return proposal
        edited = statement(text, self._redact) if text is not None else None
        if edited is not None and proposal.action in ("forget", "supersede"):
            msg = f"A proposal to {proposal.action} a memory cannot be edited; approve or reject it."
            raise InvalidInputError(msg)
        decision = self._decision("approved", by=by, text=edited, comment=comment, key=key)
        try:
            await self._apply(proposal, decision, owner, base_revision)
        except RevisionConflictError as error:
            raise await self._why(proposal_id, owner, error) from error
        self._telemetry.count("proposals.approved")
        return await self.require(proposal_id, owner=owner)

    async def reject(
        self,
        proposal_id: str,
        *,
        owner: Owner,
        by: str,
        comment: str | None = None,
        key: str | None = None,
    ) -> Proposal:
        """Refuse what was proposed; what it says is not learnt again until its tombstone is lifted or expires.

        If a memory was to supersede another one, both stay, and the owner is not asked again.

        Raises:
            ProposalNotFoundError: There is none with this id.
            ProposalDecidedError: It was decided before; the first decision counts.
        """

        async def commit() -> Proposal:
            proposal, before = await self._undecided(proposal_id, owner, "rejected", key)
            if before:
                return proposal
            decision = self._decision("rejected", by=by, comment=comment, key=key)
            head = await self._audited_writer.head(owner)
            operations: list[Operation] = [self._decided_put(proposal, decision, owner)]
            if proposal.text and proposal.action != "supersede":  # there, both memories stay
                operations += await self._tombstones.rejecting(
                    owner, proposal.text, by=decision.by, sources=proposal.sources
                )
                operations += await self._memories.unsaying(owner, [proposal.text])
            # A worker that learns a statement meanwhile conflicts with this commit, so that it reads the tombstone.
            await self._audited_writer.commit_from(
                head, owner, operations, by=decision.by, why=f"proposal:{proposal_id}"
            )
            self._telemetry.count("proposals.rejected")
            return await self.require(proposal_id, owner=owner)

        return await retry_conflicts(
            commit,
            message=f"Other writers kept getting in the way of proposal {proposal_id}; try again.",
            proposal_id=proposal_id,
        )

    async def decide(self, choices: Sequence[Choice], *, owner: Owner, by: str) -> list[DecisionResult]:
        """Decide on many proposals, each by itself: what cannot be decided says why, and the others are."""
        done: list[DecisionResult] = []
        for choice in choices:
            try:
                if choice.approve:
                    proposal = await self.approve(
                        choice.proposal_id, owner=owner, by=by, text=choice.text, comment=choice.comment
                    )
                else:
                    proposal = await self.reject(choice.proposal_id, owner=owner, by=by, comment=choice.comment)
            except (ConflictError, LookupError, InvalidInputError) as error:
                failed = error if isinstance(error, ThreadkeepError) else ThreadkeepError(str(error))
                done.append(DecisionResult(choice.proposal_id, None, failed))
            else:
                done.append(DecisionResult(choice.proposal_id, proposal))
        return done

    async def lapse(self) -> int:
        """Expire the proposals of all owners after their lifetime; return how many. Needs the service role."""
        now = self._clock.now()
        lapsed = 0
        for item in await self._storage.due(DUE, now=now, limit=_LAPSE_AT_ONCE):
            owner = owner_of_label(item.ref.namespace[1]) if len(item.ref.namespace) > 1 else None
            proposal = proposal_of(item)
            if owner is None or proposal is None or proposal.state != "pending":
                continue
            put = self._decided_put(proposal, Decision("expired", "time", proposal.expires_at), owner)
            try:
                await self._audited_writer.commit(owner, [put], by="time")
            except ConflictError:  # decided in the last moment, or the owner erased
                continue
            lapsed += 1
        self._telemetry.count("proposals.expired", lapsed)
        return lapsed

    async def _apply(self, proposal: Proposal, decision: Decision, owner: Owner, base_revision: int | None) -> None:
        """Make the change and write the decision in one commit."""
        approval = Approval(decision.by, decision.at, proposal.proposal_id)
        text = decision.text or proposal.text
        if proposal.action == "add":
            new = NewMemory(
                text,
                proposal.kind,
                proposal.sources or (Source(proposal.trust),),
                memory_id=proposal.memory_id,
                approval=approval,
                tags=proposal.tags,
                metadata=proposal.metadata,
            )
            await self._memories.remember(
                new,
                owner=owner,
                also=lambda memory_id: [self._decided_put(proposal, replace(decision, memory_id=memory_id), owner)],
            )
            return
        decided = self._decided_put(proposal, replace(decision, memory_id=proposal.memory_id), owner)
        revision = await self._read_current_revision(proposal, owner) if base_revision is None else base_revision
        if proposal.action == "forget":
            await self._memories.forget(
                proposal.memory_id, owner=owner, revision=revision, approval=approval, also=[decided]
            )
            return
        if proposal.action == "supersede":
            newer = await self._memories.get(proposal.by_memory_id or "", owner=owner)
            if newer is None or not recallable(newer) or newer.text != proposal.text:
                msg = f"Memory {proposal.by_memory_id} was changed by another writer; read it again and decide again."
                raise RevisionConflictError(msg, memory_id=proposal.by_memory_id)
            await self._memories.supersede(
                proposal.memory_id, newer, owner=owner, revision=revision, approval=approval, also=[decided]
            )
            return
        source = next((one for one in proposal.sources if one.speaker == proposal.trust), Source(proposal.trust))
        await self._memories.correct(
            proposal.memory_id,
            text,
            owner=owner,
            revision=revision,
            source=source,
            approval=approval,
            also=[decided],
        )

    async def _read_current_revision(self, proposal: Proposal, owner: Owner) -> int | None:
        """Return the revision of the memory that the change was thought out for, as it is by now.

        What it says is what counts: revisions are counted anew where a storage was copied.
        """
        memory = await self._memories.get(proposal.memory_id, owner=owner)
        if memory is None or proposal.base_text is None:
            return proposal.base_revision
        if memory.text != proposal.base_text:
            msg = f"Memory {proposal.memory_id} was changed by another writer; read it again and decide again."
            raise RevisionConflictError(msg, memory_id=proposal.memory_id)
        return memory.revision

    async def _undecided(
        self, proposal_id: str, owner: Owner, state: Literal["approved", "rejected"], key: str | None
    ) -> tuple[Proposal, bool]:
        """Return the proposal, and whether this very decision was made before."""
        proposal = await self.require(proposal_id, owner=owner)
        decision = proposal.decision
        if proposal.state == "pending" or decision is None:
            return proposal, False
        if key is not None and (decision.key, decision.state) == (key, state):
            return proposal, True
        raise _decided(proposal, decision)

    async def _why(self, proposal_id: str, owner: Owner, error: RevisionConflictError) -> ConflictError:
        """Return the error to raise: the proposal was decided meanwhile, or else *error*, the memory was changed."""
        proposal = await self.require(proposal_id, owner=owner)
        return _decided(proposal, proposal.decision) if proposal.decision else error

    def _decided_put(self, proposal: Proposal, decision: Decision, owner: Owner) -> Put:
        decided = replace(proposal, state=decision.state, decision=decision)
        if proposal.action == "forget" and decision.state == "approved":  # what was forgotten must not stand here
            decided = replace(decided, text="", base_text=None)
        if proposal.action == "supersede" and decision.state != "approved":  # it stays longer than what it speaks of
            decided = replace(decided, text="", base_text=None, sources=())
        return proposal_put(decided, owner, expect=proposal.revision)

    def _decision(
        self,
        state: Literal["approved", "rejected"],
        *,
        by: str,
        text: str | None = None,
        comment: str | None = None,
        key: str | None = None,
    ) -> Decision:
        by = checked_name(by, "by")
        if comment is not None:
            check_string(comment, "comment")
        said = self._redact(comment.strip())[:MAX_COMMENT_CHARACTERS] if comment else None
        return Decision(state, by, self._clock.now(), text, said, key=checked_name(key, "key") if key else None)

    async def _refusal_reason(self, new: NewProposal, owner: Owner) -> Proposed | None:
        """Return why the statement needs no proposal: it was rejected before, waits already, or is known."""
        if reason := await self._why_unwanted(new.text, owner):
            return Proposed("rejected", None, None, reason)
        gist = gist_of(new.text)
        for known in await self.list(owner=owner, limit=_PAGE):
            if (known.action, known.kind) == (new.action, new.kind) and (
                same_words(known.text) == same_words(new.text) or same_meaning(gist_of(known.text), gist)
            ):
                return Proposed("duplicate", known, known.memory_id, "proposed before")
        if new.action == "add" and (twin := await self._memories.find(new.text, kind=new.kind, owner=owner)):
            return Proposed("duplicate", None, twin.memory_id, "known already")
        return None

    async def _why_unwanted(self, text: str, owner: Owner) -> str | None:
        unwanted = await self._tombstones.of(owner)
        blocked = unwanted.blocks(text, await self._searcher.embed_memories([text])) if unwanted else None
        return f"{blocked.cause} before" if blocked else None

    def _not_kept(self, new: NewMemory, trust: Speaker, reason: str, owner: Owner) -> RememberResult:
        now = self._clock.now()
        memory = Memory(
            memory_id=MemoryId(""),
            namespace=(MEMORIES, owner.label),
            text=statement(new.text, self._redact),
            kind=new.kind,
            status="rejected",
            trust=trust,
            sources=new.sources,
            revision=0,
            created_at=now,
            updated_at=now,
        )
        return RememberResult("rejected", memory, reason=reason)

    async def _base(self, new: NewProposal, owner: Owner) -> Memory:
        if new.memory_id is None:
            msg = f"To {new.action} a memory, give its memory_id."
            raise InvalidInputError(msg)
        if new.action == "supersede" and new.by_memory_id is None:
            msg = "Which memories supersede others is found by tk.proposals.ask_contradictions()."
            raise InvalidInputError(msg)
        memory = await self._memories.require(new.memory_id, owner=owner)
        if new.base_revision not in (None, memory.revision):
            msg = f"Memory {memory.memory_id} was changed by another writer; read it again and decide again."
            raise RevisionConflictError(msg, memory_id=memory.memory_id)
        return memory

    def _id_of(self, new: NewProposal) -> ProposalId:
        return ProposalId(short_digest("proposed by key", new.key) if new.key else new_id())


def _asks(new: NewMemory, owner: Owner) -> bool:
    """Return whether a statement is proposed unless a policy keeps it."""
    kind = ruled_kind(new.kind, new.text)
    return lacks_approval(kind, least_trusted(new.sources), new.approval, shared=owner.is_shared)


def _decided(proposal: Proposal, decision: Decision | None) -> ProposalDecidedError:
    if decision is None:  # pragma: no cover - a proposal that is not pending has one
        return ProposalDecidedError("The proposal was decided before.", proposal_id=proposal.proposal_id)
    what = "expired" if decision.state == "expired" else f"{decision.state} by {decision.by}"
    msg = f"Proposal {proposal.proposal_id} was {what} on {decision.at:%Y-%m-%d at %H:%M}; the first decision counts."
    return ProposalDecidedError(
        msg, proposal_id=proposal.proposal_id, state=decision.state, by=decision.by, at=decision.at.isoformat()
    )
