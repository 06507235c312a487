"""The rooms of the Python door: ``tk.memories``, ``tk.proposals``, ``tk.queue``, ``tk.owners``, ``tk.collections``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from threadkeep.capture.models import QueuedTurn
from threadkeep.collections.models import Document, Ingested, Passages, Similar, collection
from threadkeep.errors import InvalidInputError, OwnerMismatchError, OwnerRequiredError
from threadkeep.identity import Owner
from threadkeep.ids import MemoryId, TurnId
from threadkeep.memories.audit import Entry
from threadkeep.memories.importer import Imported, parsed
from threadkeep.memories.maintenance import Merge
from threadkeep.memories.models import (
    Approval,
    Forgotten,
    Kind,
    Memory,
    NewMemory,
    RememberResult,
    Source,
    Undone,
    Version,
    Why,
)
from threadkeep.memories.retention import RetentionReport
from threadkeep.owners.models import Erased, Holdings, Replayed, Verified
from threadkeep.owners.opt_out import require_wanted
from threadkeep.proposals.models import (
    Action,
    Choice,
    DecisionResult,
    NewProposal,
    Proposal,
    Proposed,
    State,
    Tombstone,
    name,
)
from threadkeep.proposals.policy import Policy
from threadkeep.recall.models import Recalled

if TYPE_CHECKING:
    from pathlib import Path

    from threadkeep.container import Container, Services
    from threadkeep.owners.receipts import ErasureReceipt
    from threadkeep.storage.interface import Partition


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose memory a call means: what it says, else the default; a locked one allows no other.

    Attributes:
        default: The owner where a call names none.
        locked: Whether naming another is refused.
    """

    default: Owner | None = None
    locked: bool = False

    def __call__(self, given: str | Owner | None) -> Owner:
        """Return the owner that is meant.

        Raises:
            OwnerRequiredError: Nothing says which.
            OwnerMismatchError: It is locked to another.
        """
        owner = as_owner(given) if given is not None else self.default
        if owner is None:
            msg = "Whose memory is meant? Pass owner=, or open the memory with one."
            raise OwnerRequiredError(msg)
        if self.locked and owner != self.default:
            msg = "This memory is locked to another owner."
            raise OwnerMismatchError(msg)
        return owner

    def require_unlocked(self) -> None:
        """Refuse what concerns all owners where this is locked to one.

        Raises:
            OwnerMismatchError: It is.
        """
        if self.locked:
            msg = "This memory is locked to one owner, and this concerns all; open it without for_owner()."
            raise OwnerMismatchError(msg)


def as_owner(given: str | Owner) -> Owner:
    """Return a user id as an owner of the default tenant."""
    return given if isinstance(given, Owner) else Owner(given)


class MemoryDoor:
    """What is remembered about an owner."""

    def __init__(self, app: Container, whose: Whose) -> None:
        self._app = app
        self._whose = whose

    async def remember(
        self,
        text: str,
        *,
        owner: str | Owner | None = None,
        kind: Kind = "semantic",
        source: Source | None = None,
        valid_from: datetime | None = None,
        pinned: bool = False,
        approved_by: str | None = None,
    ) -> RememberResult:
        """Keep a statement of 1–8,000 characters; one that an active memory makes already is a duplicate.

        Where *source* is an assistant, a tool or a document, or *kind* is ``procedural`` (how to behave), it is
        proposed: it is not recalled before somebody approves it. Where they have, say who: *approved_by*.

        Raises:
            OptedOutError: The owner wants no memory.
        """
        approval = self._approval(approved_by)
        sources = (source,) if source else ()
        new = NewMemory(text, kind, sources, valid_from=valid_from, pinned=pinned, approval=approval)
        whose = self._whose(owner)

        async def keep(rooms: Services) -> RememberResult:
            require_wanted(rooms.opt_outs.holds(whose, source.thread_id if source else None))
            return await rooms.proposals.keep(new, owner=whose)

        return await self._app.call(keep)

    async def remember_many(
        self,
        news: Sequence[NewMemory],
        *,
        owner: str | Owner | None = None,
        progress: Callable[[int], object] = lambda _: None,
    ) -> tuple[MemoryId, ...]:
        """Keep many statements, 500 in a commit; a repeated import changes nothing where they have ids.

        What was rejected or forgotten before is left out; the ids of what is kept are returned.
        """
        whose = self._whose(owner)

        async def keep(rooms: Services) -> tuple[MemoryId, ...]:
            require_wanted(rooms.opt_outs.holds(whose))
            return await rooms.memories.remember_many(news, owner=whose, progress=progress)

        return await self._app.call(keep)

    async def import_lines(self, lines: Iterable[str], *, owner: str | Owner | None = None) -> Imported:
        """Bring in memories from lines of JSON: an export's, or objects with a ``text``; ids are kept.

        It may be repeated: what is there already stays as it is. They carry the trust ``import``, and the policy
        says what becomes of them: how to behave waits for approval. A line that cannot be read is named, and the
        others are taken.

        Raises:
            OptedOutError: The owner wants no memory.
        """
        whose = self._whose(owner)
        faults: dict[int, str] = {}
        news: dict[MemoryId, tuple[int, NewMemory]] = {}
        left_out = 0
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                new = parsed(line)
                if new is None:
                    left_out += 1
                elif new.memory_id is None or new.memory_id in news:
                    faults[number] = "an earlier line has the same id"
                else:
                    news[new.memory_id] = (number, new)
            except InvalidInputError as error:
                faults[number] = str(error)

        proposed: dict[int, Proposed] = {}

        async def bring(rooms: Services) -> list[RememberResult]:
            require_wanted(rooms.opt_outs.holds(whose))
            policy = await rooms.policies.of(whose)
            checked = dict(news)
            for key, (number, new) in checked.items():
                try:
                    rooms.memories.check(new)
                except InvalidInputError as error:
                    faults[number] = str(error)
                    del news[key]
                    continue
                if policy.verdict(new.kind, "import") != "auto" and await rooms.memories.get(key, owner=whose) is None:
                    given = NewProposal(new.text, kind=new.kind, sources=new.sources, key=f"import:{key}")
                    proposed[number] = await rooms.proposals.propose(given, owner=whose)
                    del news[key]
            return await rooms.memories.bring([new for _, new in news.values()], owner=whose, by="import")

        kept = await self._app.call(bring)
        refused = {
            number: one.reason or ""
            for (number, _), one in zip(news.values(), kept, strict=True)
            if one.status == "rejected"
        }
        refused |= {number: one.reason or "" for number, one in proposed.items() if one.status == "rejected"}
        known = [one.memory_id for one in proposed.values() if one.status == "duplicate" and one.memory_id]
        return Imported(
            tuple(one.memory_id for one in kept if one.status == "accepted"),
            (*(one.memory_id for one in kept if one.status == "duplicate"), *known),
            dict(sorted(refused.items())),
            left_out,
            dict(sorted(faults.items())),
            tuple(one.proposal.proposal_id for one in proposed.values() if one.status == "proposed" and one.proposal),
        )

    async def get(self, memory_id: str, *, owner: str | Owner | None = None) -> Memory | None:
        """Return a memory, or ``None`` where the owner has none with this id."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.memories.get(memory_id, owner=whose))

    async def require(self, memory_id: str, *, owner: str | Owner | None = None) -> Memory:
        """Return a memory, or raise ``MemoryNotFoundError``."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.memories.require(memory_id, owner=whose))

    async def list(
        self, *, owner: str | Owner | None = None, kind: Kind | None = None, limit: int = 100, offset: int = 0
    ) -> list[Memory]:
        """Return memories, most recently changed first."""
        whose = self._whose(owner)
        return await self._app.call(
            lambda rooms: rooms.memories.list(owner=whose, kind=kind, limit=limit, offset=offset)
        )

    async def walk(self, *, owner: str | Owner | None = None) -> AsyncIterator[Memory]:
        """Yield every memory, most recently changed first."""
        whose = self._whose(owner)

        async def started(rooms: Services) -> AsyncIterator[Memory]:
            return rooms.memories.walk(owner=whose)

        memories = await self._app.call(started)
        while (memory := await self._app.home.run(_next(memories))) is not None:
            yield memory

    async def search(
        self,
        query: str,
        *,
        owner: str | Owner | None = None,
        kind: Kind | None = None,
        limit: int = 10,
    ) -> list[Recalled]:
        """Return the memories most like *query*, best first, with scores in [0, 1]."""
        whose = self._whose(owner)
        found = self._app.at_hand(lambda rooms: rooms.recalls.try_search(query, owner=whose, kind=kind, limit=limit))
        if found is not None:
            return found
        return await self._app.call(lambda rooms: rooms.recalls.search(query, owner=whose, kind=kind, limit=limit))

    async def correct(
        self,
        memory_id: str,
        text: str,
        *,
        owner: str | Owner | None = None,
        revision: int | None = None,
        source: Source | None = None,
        approved_by: str | None = None,
    ) -> Memory:
        """Replace what a memory says; what it said before stays in its history.

        Raises:
            ApprovalRequiredError: *source* is an assistant, a tool or a document, or the memory is how to behave:
                propose it instead, or say who approved it.
        """
        whose, approval = self._whose(owner), self._approval(approved_by)
        return await self._app.call(
            lambda rooms: rooms.memories.correct(
                memory_id, text, owner=whose, revision=revision, source=source, approval=approval
            )
        )

    def _approval(self, by: str | None) -> Approval | None:
        return Approval(name(by, "who approved it"), self._app.clock.now()) if by is not None else None

    async def forget(self, memory_id: str, *, owner: str | Owner | None = None) -> Forgotten:
        """Remove a statement with its history and what was derived from it; say where it still stands."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.memories.forget(memory_id, owner=whose))

    async def pin(self, memory_id: str, *, owner: str | Owner | None = None, pinned: bool = True) -> Memory:
        """Let a memory never expire (or let it expire again)."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.memories.pin(memory_id, owner=whose, pinned=pinned))

    async def history(self, memory_id: str, *, owner: str | Owner | None = None) -> tuple[Version, ...]:
        """Return what a memory said before, oldest first."""
        return (await self.require(memory_id, owner=owner)).history

    async def why(self, memory_id: str, *, owner: str | Owner | None = None) -> Why:
        """Tell why something is remembered: who said it in which thread and message, and who approved it."""
        whose = self._whose(owner)

        async def told(rooms: Services) -> Why:
            return await rooms.upkeep.why(memory_id, await rooms.audit.list(whose), owner=whose)

        return await self._app.call(told)

    async def undo(self, last: int = 1, *, owner: str | Owner | None = None) -> Undone:
        """Undo the *last* changes of memories; what was forgotten stays so, and is named in ``left``."""
        whose = self._whose(owner)

        async def undone(rooms: Services) -> Undone:
            return await rooms.upkeep.undo(await rooms.audit.list(whose), owner=whose, last=last)

        return await self._app.call(undone)

    async def consolidate(self, *, owner: str | Owner | None = None, dry: bool = False) -> tuple[Merge, ...]:
        """Merge memories that say the same in other words; the sources stay for thirty days and can be had back.

        Args:
            owner: Whose.
            dry: Only tell what would be merged.
        """
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.upkeep.consolidate(owner=whose, dry=dry))

    async def tidy(self, *, owner: str | Owner | None = None, dry: bool = False) -> RetentionReport:
        """Archive now what was not used for ``THREADKEEP_INACTIVE_DAYS`` or is too much; it is done every ten minutes.

        Args:
            owner: Whose.
            dry: Only tell what would be archived.
        """
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.tidying.tidy(whose, dry=dry))

    async def restore(self, memory_id: str, *, owner: str | Owner | None = None) -> Memory:
        """Let a memory that was archived or merged be recalled again."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.upkeep.restore(memory_id, owner=whose))


class ProposalDoor:
    """Changes to an owner's memory that wait for a decision, and what must not be learnt again."""

    def __init__(self, app: Container, whose: Whose) -> None:
        self._app = app
        self._whose = whose

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
        """Propose to ``add`` a statement, or to ``correct`` or ``forget`` a memory; it waits until somebody decides.

        Args:
            text: The statement; none to forget.
            owner: About whom.
            action: What shall be done.
            kind: Of the memory.
            memory_id: What to correct or to forget.
            base_revision: The memory's revision that was looked at; ``None``: what it is now.
            source: Where it comes from; ``None``: an assistant, outside any thread.
            reason: For whoever decides.
            key: The client's; the same key is the same proposal, however often it is made.
        """
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
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.proposals.propose(new, owner=whose))

    async def list(
        self,
        *,
        owner: str | Owner | None = None,
        state: State | None = "pending",
        limit: int = 100,
        offset: int = 0,
    ) -> list[Proposal]:
        """Return proposals, newest first: those that wait, those in another *state*, or all (``None``)."""
        whose = self._whose(owner)
        return await self._app.call(
            lambda rooms: rooms.proposals.list(owner=whose, state=state, limit=limit, offset=offset)
        )

    async def get(self, proposal_id: str, *, owner: str | Owner | None = None) -> Proposal | None:
        """Return a proposal, or ``None`` where the owner has none with this id."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.proposals.get(proposal_id, owner=whose))

    async def require(self, proposal_id: str, *, owner: str | Owner | None = None) -> Proposal:
        """Return a proposal, or raise ``ProposalNotFoundError``."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.proposals.require(proposal_id, owner=whose))

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
        """Do what was proposed. It is decided once: a second decision raises ``ProposalDecidedError``.

        Args:
            proposal_id: Which one.
            owner: About whom.
            by: Who decides; ``None``: the owner.
            comment: What there is to say to it.
            base_revision: The revision of the memory that was looked at, where it was changed since.
            key: The client's; the same decision with the same key is told again, not refused.

        Raises:
            ProposalNotFoundError, ProposalDecidedError, RevisionConflictError: As they say.
        """
        whose = self._whose(owner)
        return await self._app.call(
            lambda rooms: rooms.proposals.approve(
                proposal_id,
                owner=whose,
                by=by or whose.user_id,
                comment=comment,
                base_revision=base_revision,
                key=key,
            )
        )

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
        """Approve a proposal, but with *text* as its statement; otherwise as :meth:`approve`."""
        whose = self._whose(owner)
        return await self._app.call(
            lambda rooms: rooms.proposals.approve(
                proposal_id,
                owner=whose,
                by=by or whose.user_id,
                text=text,
                comment=comment,
                base_revision=base_revision,
                key=key,
            )
        )

    async def reject(
        self,
        proposal_id: str,
        *,
        owner: str | Owner | None = None,
        by: str | None = None,
        comment: str | None = None,
        key: str | None = None,
    ) -> Proposal:
        """Refuse what was proposed; what it says is not learnt again until its tombstone is lifted or expires."""
        whose = self._whose(owner)
        return await self._app.call(
            lambda rooms: rooms.proposals.reject(
                proposal_id, owner=whose, by=by or whose.user_id, comment=comment, key=key
            )
        )

    async def decide(
        self, choices: Sequence[Choice], *, owner: str | Owner | None = None, by: str | None = None
    ) -> list[DecisionResult]:
        """Decide on many proposals; what cannot be decided says why, and the others are."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.proposals.decide(choices, owner=whose, by=by or whose.user_id))

    async def policy(self, owner: str | Owner | None = None) -> Policy:
        """Return which statements about the owner are kept by themselves, asked, or never kept."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.policies.of(whose))

    async def set_policy(self, rules: str, *, owner: str | Owner | None = None) -> Policy:
        """Give the owner rules of their own, such as ``assistant=never``; an empty text takes them away."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.policies.set(rules, owner=whose))

    async def tombstones(self, owner: str | Owner | None = None) -> list[Tombstone]:
        """Return what is not learnt again, newest first: rejected statements, and digests of forgotten ones."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.tombstones.list(owner=whose))

    async def lift(self, tombstone_id: str, *, owner: str | Owner | None = None) -> bool:
        """Let a statement be learnt again; return whether there was such a tombstone."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.tombstones.lift(tombstone_id, owner=whose))


class QueueDoor:
    """Recorded turns that are not learnt from yet."""

    def __init__(self, app: Container, whose: Whose) -> None:
        self._app = app
        self._whose = whose

    async def list(self, owner: str | Owner | None = None) -> list[QueuedTurn]:
        """Return the turns that wait, run or are dead, oldest first: the owner's, or everybody's."""
        whose = self._of(owner)
        return await self._app.call(lambda rooms: rooms.captures.queued(whose))

    async def retry(
        self, turn_ids: Sequence[str] | None = None, *, owner: str | Owner | None = None
    ) -> list[QueuedTurn]:
        """Let turns be tried at once, as if they had never been: these, or all that are dead.

        Returns:
            Those that are, as they were; what a worker is at, or what does not wait, is left out.
        """
        whose = self._of(owner)
        keys = None if turn_ids is None else [TurnId(turn_id) for turn_id in turn_ids]
        return await self._app.call(lambda rooms: rooms.captures.retry(keys, owner=whose))

    def _of(self, owner: str | Owner | None) -> Owner | None:
        return None if owner is None and self._whose.default is None else self._whose(owner)


class OwnerDoor:
    """Everything that is held about one owner."""

    def __init__(self, app: Container, whose: Whose) -> None:
        self._app = app
        self._whose = whose

    async def show(self, owner: str | Owner | None = None) -> Holdings:
        """Count what is held."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.owners.show(whose))

    async def export(self, owner: str | Owner | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yield everything that is held, one JSON object a line of a JSON Lines file."""
        whose = self._whose(owner)

        async def started(rooms: Services) -> AsyncIterator[dict[str, Any]]:
            return rooms.owners.export(whose)

        rows = await self._app.call(started)
        while (row := await self._app.home.run(_next(rows))) is not None:
            yield row

    async def erase(self, owner: str | Owner | None = None) -> Erased:
        """Remove everything that is held, threads included; writes of work in flight are refused.

        A receipt with counts is kept apart from the owner's data; it does not name them.
        """
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.erasing.erase(whose))

    async def opt_out(
        self, owner: str | Owner | None = None, *, thread_id: str | None = None, out: bool = True
    ) -> None:
        """Recall and learn nothing from now on, at all or in one thread; ``out=False`` takes it back.

        What is remembered stays: :meth:`erase` removes it.
        """
        whose = self._whose(owner)
        await self._app.call(lambda rooms: rooms.owners.opt_out(whose, thread_id=thread_id, out=out))

    async def opted_out(self, owner: str | Owner | None = None, *, thread_id: str | None = None) -> bool:
        """Whether nothing is recalled and learnt: of the owner at all, or in this thread."""
        whose = self._whose(owner)

        async def off(rooms: Services) -> bool:
            await rooms.opt_outs.notice()
            return rooms.opt_outs.holds(whose, thread_id)

        return await self._app.call(off)

    async def replay_erasures(self, *files: Path) -> Replayed:
        """Erase again whoever was erased and is there again, because a backup was put back. It sees every owner.

        Args:
            files: Further receipts, from other machines, as ``erasure_receipts`` gives them.
        """
        self._whose.require_unlocked()
        return await self._app.call(lambda rooms: rooms.erasing.replay(*files))

    async def erasure_receipts(self) -> list[ErasureReceipt]:
        """Return the receipts of all erasures, oldest first; they name nobody."""
        self._whose.require_unlocked()
        return await self._app.call(lambda rooms: rooms.erasing.receipts.all())

    async def audit(self, owner: str | Owner | None = None, *, limit: int | None = 100) -> list[Entry]:
        """Return what was changed: who, what, why and when, newest first; no entry says what a memory says."""
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.audit.list(whose, limit=limit))

    async def verify_audit(self, owner: str | Owner | None = None, *, anchor: str | None = None) -> Verified:
        """Check that nothing of the audit was changed or taken out.

        Args:
            owner: Whose.
            anchor: What an earlier check gave as its ``anchor``, noted elsewhere.
        """
        whose = self._whose(owner)
        return await self._app.call(lambda rooms: rooms.audit.verify(whose, anchor=anchor))


async def _next(rows: AsyncIterator[T]) -> T | None:
    return await anext(rows, None)


class CollectionDoor:
    """Documents that a tenant shares. Who is locked to an owner reads their tenant's, and writes none."""

    def __init__(self, app: Container, whose: Whose) -> None:
        self._app = app
        self._whose = whose

    async def ingest(
        self,
        name: str,
        text: str,
        *,
        document_id: str,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        tenant: str = "",
    ) -> Ingested:
        """Keep a document in the collection *name*, in parts; one with this id is replaced.

        Args:
            name: The collection's; made with its first document.
            text: Plain text, or Markdown; at most some 4 million characters.
            document_id: Any text, such as a path or an address.
            title: What it is called.
            metadata: Anything that is JSON; given back, never searched.
            tenant: Whose collection it is.

        Raises:
            OwnerMismatchError: This memory is locked to an owner.
            InvalidInputError: Something of it cannot be kept.
            SettingsError: The splitter is not installed.
        """
        partition = self._to_write(name, tenant)
        given = dict(metadata or {})
        return await self._app.call(
            lambda rooms: rooms.collections.ingest(
                partition, text, document_id=document_id, title=title, metadata=given
            )
        )

    async def search(self, name: str, query: str, *, limit: int = 10, tenant: str | None = None) -> Passages:
        """Return the passages of the collection *name* that are closest to *query*, ranked as memories are."""
        partition = self._to_read(name, tenant)
        return await self._app.call(lambda rooms: rooms.collections.search(partition, query, limit=limit))

    async def similar(self, name: str, document_id: str, *, limit: int = 5, tenant: str | None = None) -> list[Similar]:
        """Return the documents of the collection *name* that are most like one of them.

        Raises:
            DocumentNotFoundError: There is none with this id.
        """
        partition = self._to_read(name, tenant)
        return await self._app.call(lambda rooms: rooms.collections.similar(partition, document_id, limit=limit))

    async def names(self, *, tenant: str | None = None) -> tuple[str, ...]:
        """Return the names of a tenant's collections, in order; it looks at every partition there is."""
        whose = self._tenant_to_read(tenant)
        return await self._app.call(lambda rooms: rooms.collections.names(whose))

    async def list(self, name: str, *, tenant: str | None = None) -> list[Document]:
        """Return the documents of the collection *name*, the newest first."""
        partition = self._to_read(name, tenant)
        return await self._app.call(lambda rooms: rooms.collections.list(partition))

    async def delete(self, name: str, document_id: str, *, tenant: str = "") -> None:
        """Remove a document from the collection *name*.

        Raises:
            OwnerMismatchError: This memory is locked to an owner.
            DocumentNotFoundError: There is none with this id.
        """
        partition = self._to_write(name, tenant)
        await self._app.call(lambda rooms: rooms.collections.delete(partition, document_id))

    async def erase(self, name: str, *, tenant: str = "") -> int:
        """Remove the collection *name* with everything in it; return how many documents there were.

        Raises:
            OwnerMismatchError: This memory is locked to an owner.
        """
        partition = self._to_write(name, tenant)
        return await self._app.call(lambda rooms: rooms.collections.erase(partition))

    def _to_write(self, name: str, tenant: str) -> Partition:
        if self._whose.locked:
            msg = "Collections are shared, and this memory is locked to one owner; write without for_owner()."
            raise OwnerMismatchError(msg)
        return collection(name, tenant)

    def _to_read(self, name: str, tenant: str | None) -> Partition:
        return collection(name, self._tenant_to_read(tenant))

    def _tenant_to_read(self, tenant: str | None) -> str:
        own = self._whose.default.tenant if self._whose.default is not None else ""
        if self._whose.locked and tenant not in (None, own):
            msg = "This collection belongs to another tenant."
            raise OwnerMismatchError(msg)
        return own if tenant is None else tenant
