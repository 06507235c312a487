"""Writes of an owner's memories: remember, correct, pin and forget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from threadkeep.arguments import check_moment
from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import InvalidInputError, RevisionConflictError
from threadkeep.ids import MemoryId, TurnId, new_id
from threadkeep.memories.audited_writer import USER, is_about
from threadkeep.memories.codec import (
    MEMORIES,
    SUMMARIES,
    memory_of,
    put_of,
    recalled_namespaces,
    row_of,
    uses_namespace,
)
from threadkeep.memories.kinds import BUILT_IN_KINDS, Kind, is_kind, ruled_kind
from threadkeep.memories.labels import Metadata, check_metadata, check_tags, check_text
from threadkeep.memories.models import (
    Approval,
    Forgotten,
    Memory,
    NewMemory,
    RememberResult,
    Source,
    corrected,
    goes_with,
    least_trusted,
    matcher_of,
    messages_of,
    require_approval,
    sources_in,
    statements_of,
    without_sentences,
)
from threadkeep.memories.reader import MemoryReader, Searcher, require_one
from threadkeep.storage.interface import (
    Delete,
    Embedding,
    Item,
    Operation,
    Put,
    Ref,
    Storage,
    read_items,
)
from threadkeep.text.semantics import gist_of, same_meaning, same_words

if TYPE_CHECKING:
    from threadkeep.capture.service import CaptureService
    from threadkeep.clock import Clock
    from threadkeep.identity import Owner
    from threadkeep.memories.audited_writer import AuditedWriter
    from threadkeep.proposals.policies import Tombstones


_BATCH: Final = 500
_LIKELY_EPISODES: Final = 64
"""So many memories that are most like a statement are looked through for it."""


class MemoryRepository(MemoryReader):
    """The memories of all owners; every method reads and writes one owner's partition only."""

    def __init__(
        self,
        storage: Storage,
        searcher: Searcher,
        clock: Clock,
        *,
        audited_writer: AuditedWriter,
        turns: CaptureService | None = None,
        tombstones: Tombstones | None = None,
        redact: Callable[[str], str] = str,
        ttl: timedelta | None = None,
    ) -> None:
        super().__init__(storage)
        self._audited_writer = audited_writer
        self._searcher = searcher
        self._clock = clock
        self._turns = turns
        self._tombstones = tombstones
        self._redact = redact
        self._ttl = ttl
        self._remembering: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    async def remember(
        self, new: NewMemory, *, owner: Owner, also: Callable[[MemoryId], Sequence[Operation]] = lambda _: ()
    ) -> RememberResult:
        """Keep one statement, unless an active memory with the same words exists.

        The caller decided to keep it: a statement that was forgotten or rejected before is kept again.

        Args:
            new: The statement. It needs an approval if its source is an assistant, a tool or a document, or its kind is
                ``procedural``.
            owner: The owner.
            also: Returns further operations for the same commit, given the id of the memory that holds the statement;
                also called for a duplicate.

        Raises:
            InvalidInputError, TooLargeError: The text cannot be kept.
            ApprovalRequiredError: It needs an approval and has none; nothing was written.
        """
        memory = self._memory(new, owner)
        require_approval(memory.kind, memory.trust, memory.approval, shared=owner.is_shared)
        epoch = await self._epoch(owner)
        embedding = await self._searcher.embed_memories([memory.text])
        lock = self._remembering.setdefault(owner.partition.digest, asyncio.Lock())

        async def remember() -> RememberResult:
            async with lock:
                return await self._remember(memory, embedding, owner, also, epoch)

        return await retry_conflicts(
            remember,
            retry_if=lambda error: not is_about(error, also(memory.memory_id)),
            message=f"Other writers kept getting in the way of memory {memory.memory_id}; try again.",
            memory_id=memory.memory_id,
        )

    async def bring(
        self,
        news: Sequence[NewMemory],
        *,
        owner: Owner,
        by: str,
        progress: Callable[[int], object] = lambda _: None,
    ) -> list[RememberResult]:
        """Keep many statements, each batch of 500 in one commit.

        They are not compared with each other or with what is there, but by ``memory_id``: what exists already is a
        duplicate, so an import may be repeated. What was rejected or forgotten before is not let in again.

        Args:
            news: The statements.
            owner: The owner.
            by: The author of the change, for the audit.
            progress: Told how many are through.

        Returns:
            What became of each, in the order given.

        Raises:
            ApprovalRequiredError: One of them needs an approval and has none; nothing was written.
        """
        memories = [self._memory(new, owner) for new in news]
        for memory in memories:
            require_approval(memory.kind, memory.trust, memory.approval, shared=owner.is_shared)
        keys = [memory.memory_id for memory in memories]
        if len(set(keys)) != len(keys):
            msg = "Two of the statements have the same memory_id; give each its own."
            raise InvalidInputError(msg)
        kept: list[RememberResult] = []
        for start in range(0, len(memories), _BATCH):
            kept += await self._bring(memories[start : start + _BATCH], owner, by)
            progress(len(kept))
        return kept

    async def _bring(self, memories: Sequence[Memory], owner: Owner, by: str) -> list[RememberResult]:
        epoch = await self._epoch(owner)
        refs = [Ref(owner.partition, memory.namespace, memory.memory_id) for memory in memories]
        there = await self._storage.get(refs)
        new = [memory for memory, item in zip(memories, there, strict=True) if item is None]
        made = await self._searcher.embed_memories([memory.text for memory in new]) if new else None
        vectors = {memory.memory_id: row_of(made, i) for i, memory in enumerate(new)} if made else {}

        async def commit() -> list[RememberResult]:
            head = await self._audited_writer.head(owner)
            there = await self._storage.get(refs)
            refusal = await self._tombstones.refusal(owner) if self._tombstones else None
            kept: list[RememberResult] = []
            puts: list[Put] = []
            for memory, item in zip(memories, there, strict=True):
                vector = vectors.get(memory.memory_id)
                if item is not None:
                    kept.append(RememberResult("duplicate", memory_of(item) or memory))
                elif reason := refusal(memory.text, vector) if refusal else None:
                    kept.append(RememberResult("rejected", memory, reason=reason))
                else:
                    kept.append(RememberResult("accepted", memory, () if vector else ("embedder",)))
                    puts.append(put_of(memory, embedding=vector, expect="absent", ttl=self._ttl))
            if puts:
                await self._audited_writer.commit_from(head, owner, puts, by=by, epoch=epoch)
            return kept

        return await retry_conflicts(
            commit, message="Other writers kept getting in the way of the import; run it again to continue."
        )

    def check(self, new: NewMemory) -> None:
        """Do nothing if *new* can be kept.

        Raises:
            InvalidInputError, TooLargeError: It cannot.
        """
        for text in (new.text, *(old.text for old in new.history)):
            check_text(text)
        check_tags(new.tags)
        check_metadata(new.metadata)

    async def correct(
        self,
        memory_id: str,
        text: str,
        *,
        owner: Owner,
        revision: int | None = None,
        source: Source | None = None,
        approval: Approval | None = None,
        also: Sequence[Operation] = (),
    ) -> Memory:
        """Replace what a memory says; the old statement stays in its history.

        Args:
            memory_id: Which one.
            text: What is true; 1–8,000 characters.
            owner: The owner.
            revision: The revision that was read; ``None``: whatever it is now.
            source: Where the new statement was made; ``None``: by the user, outside any thread.
            approval: Who approved it; needed where *source* is an assistant, a tool or a document, and for how to
                behave.
            also: Operations of the owner's for the same commit.

        Raises:
            MemoryNotFoundError: The owner has no such memory.
            RevisionConflictError: It was changed since *revision*.
            ApprovalRequiredError: The statement needs an approval and has none; nothing was written.
        """
        text = self._checked(text)
        embedding = await self._searcher.embed_memories([text])
        now = self._clock.now()
        source = source or Source("user", at=now)
        by, why = _decided_by(approval, source)

        async def commit() -> None:
            memory = await self.require(memory_id, owner=owner)
            require_approval(ruled_kind(memory.kind, text), source.speaker, approval, shared=owner.is_shared)
            _require_revision(memory, revision)
            changed = corrected(memory, text, source=source, at=now, approval=approval)
            if changed.status == "proposed":  # another program's row; the correction approves it
                changed = replace(changed, status="active")
            put = put_of(changed, embedding=embedding, expect=memory.revision, ttl=self._ttl)
            unsaid = await self.unsaying(owner, [memory.text]) if memory.kind != "episodic" else []
            unsaid = [one for one in unsaid if one.key != memory_id]
            await self._audited_writer.commit(owner, [put, *unsaid, *also], by=by, why=why)

        await retry_conflicts(
            commit,
            retry_if=lambda error: _has_other_writer(error) and not is_about(error, also),
            message=_changed_meanwhile(memory_id),
            memory_id=memory_id,
        )
        return await self.require(memory_id, owner=owner)

    async def label(
        self, memory_id: str, *, owner: Owner, tags: Sequence[str] | None = None, metadata: Metadata | None = None
    ) -> Memory:
        """Replace the tags or the metadata of a memory; ``None`` leaves them.

        Raises:
            InvalidInputError: They cannot be kept.
            MemoryNotFoundError: The owner has no such memory.
        """
        changes: dict[str, Any] = {}
        if tags is not None:
            changes["tags"] = check_tags(tags, redact=self._redact)
        if metadata is not None:
            changes["metadata"] = check_metadata(metadata, redact=self._redact)
        return await self._change(memory_id, owner, changes)

    async def pin(self, memory_id: str, *, owner: Owner, revision: int | None = None, pinned: bool = True) -> Memory:
        """Let a memory never expire (or let it expire again)."""
        return await self._change(memory_id, owner, {"pinned": pinned}, revision=revision)

    async def supersede(
        self,
        memory_id: str,
        newer: Memory,
        *,
        owner: Owner,
        revision: int | None,
        approval: Approval,
        also: Sequence[Operation] = (),
    ) -> Memory:
        """End what a memory says, as of when *newer* was said: it stays listed, and is not recalled any more.

        Args:
            memory_id: The memory that is no longer so.
            newer: The memory that holds since.
            owner: The owner.
            revision: The revision that was read; ``None``: whatever it is now.
            approval: Who decided it.
            also: Operations of the owner's for the same commit.

        Raises:
            MemoryNotFoundError: The owner has no such memory.
            RevisionConflictError: It was changed since *revision*.
        """
        ended = (newer.sources[-1].at if newer.sources else None) or newer.created_at
        by, why = _decided_by(approval)
        return await self._change(memory_id, owner, {"valid_to": ended}, revision=revision, by=by, why=why, also=also)

    async def _change(
        self,
        memory_id: str,
        owner: Owner,
        changes: Mapping[str, Any],
        *,
        revision: int | None = None,
        by: str = USER,
        why: str = "",
        also: Sequence[Operation] = (),
    ) -> Memory:
        """Change fields of a memory other than its text, and return it."""

        async def commit() -> None:
            item = await self.item(memory_id, owner)
            memory = memory_of(item) if item else None
            if item is None or memory is None:
                return
            _require_revision(memory, revision)
            put = put_of(replace(memory, **changes), embedding=item.embedding, expect=item.revision, ttl=self._ttl)
            await self._audited_writer.commit(owner, [put, *also], by=by, why=why)

        await retry_conflicts(
            commit,
            retry_if=lambda error: _has_other_writer(error) and not is_about(error, also),
            message=_changed_again(memory_id),
            memory_id=memory_id,
        )
        return await self.require(memory_id, owner=owner)

    async def forget(
        self,
        memory_id: str,
        *,
        owner: Owner,
        revision: int | None = None,
        approval: Approval | None = None,
        also: Sequence[Operation] = (),
        dry: bool = False,
    ) -> Forgotten:
        """Remove a statement: its memory with all history, what was derived from it, and its turn record.

        Memories that say the very same, and episodes of its turns that hold it, go with it. It is
        one commit: afterwards either all of it is gone or nothing. What was said is not learnt again.

        Args:
            memory_id: Which one.
            owner: The owner.
            revision: The revision that was read; ``None``: whatever it is now.
            approval: Who approved it, where it was proposed.
            also: Operations of the owner's for the same commit.
            dry: Whether only what would be removed is told.

        Raises:
            MemoryNotFoundError: The owner has no such memory.
            RevisionConflictError: It was changed since *revision*.
        """
        by, why = _decided_by(approval)

        async def commit() -> Forgotten:
            head = await self._audited_writer.head(owner)
            memories, summaries = await self.everything(owner)
            memory = require_one(memory_id, (*memories, *summaries), owner)
            _require_revision(memory, revision)
            gone = goes_with(memory, memories)
            sources = sources_in(gone)
            turn_ids = tuple(dict.fromkeys([s.turn_id for s in sources if s.turn_id]))
            if dry:
                return Forgotten(tuple([m.memory_id for m in gone]), turn_ids, messages_of(sources))
            emptied = await self._turns.forgetting(owner, turn_ids) if self._turns else ()
            operations: list[Operation] = [Delete(m.namespace, m.memory_id, m.revision) for m in gone]
            operations += [Delete(uses_namespace(owner), m.memory_id) for m in gone]
            removed = {one.memory_id for one in gone}
            rest = [one for one in (*memories, *summaries) if one.memory_id not in removed]
            statements = statements_of(gone)
            operations += await self.unsaying(owner, statements, among=rest)
            if self._tombstones:
                said = {(one.namespace, one.key) for one in also}
                deleted = {one.key for one in operations if isinstance(one, Delete)}
                unlearnt = await self._tombstones.forgetting(owner, statements, memory_ids=deleted)
                operations += [one for one in unlearnt if (one.namespace, one.key) not in said]
            await self._audited_writer.commit_from(head, owner, [*operations, *emptied, *also], by=by, why=why)
            return Forgotten(
                tuple([m.memory_id for m in gone]),
                tuple([TurnId(put.key) for put in emptied]),
                messages_of(sources),
            )

        forgotten = await retry_conflicts(
            commit,
            retry_if=lambda error: _has_other_writer(error) and not is_about(error, also),
            message=_changed_again(memory_id),
            memory_id=memory_id,
        )
        if not dry:
            await self._storage.scrub()
        return forgotten

    async def put_summary(self, summary: str, *, owner: Owner, thread_id: str | None, key: str | None = None) -> str:
        """Keep what a thread was about, in the documents' shape; return its key.

        The summary loses the sentences that say a tombstone again. If none is left, nothing is written.
        """
        key = key or new_id()
        text = self._checked(summary)
        if self._tombstones:
            text = (await self._tombstones.of(owner)).cut(text)
        if not text:
            return key
        value: Mapping[str, Any] = {
            "summary": text,
            "thread_id": thread_id,
            "timestamp": self._clock.now().isoformat(),
        }
        epoch = await self._epoch(owner)
        embedding = await self._searcher.embed_memories([text])
        put = Put((SUMMARIES, owner.label), key, value, index=("summary",), embedding=embedding, ttl=self._ttl)
        await self._audited_writer.commit(owner, [put], by="window", epoch=epoch)
        return key

    async def summaries(self, *, owner: Owner, limit: int) -> list[str]:
        """Return what the newest *limit* summaries say, newest first."""
        found = sorted(await self._summaries(owner), key=lambda one: (one.created_at, one.revision), reverse=True)
        return [one.text for one in found[:limit]]

    async def _summaries(self, owner: Owner) -> list[Memory]:
        items = await read_items(self._storage, owner.partition, prefix=(SUMMARIES, owner.label))
        return list(filter(None, map(memory_of, items)))

    async def _remember(
        self,
        memory: Memory,
        embedding: Embedding | None,
        owner: Owner,
        also: Callable[[MemoryId], Sequence[Operation]],
        epoch: str,
    ) -> RememberResult:
        """Look for the statement and write it; the commit conflicts with any other change of the owner's memories."""
        degraded = () if embedding else ("embedder",)
        by, why = _said_by(memory)
        head = await self._audited_writer.head(owner)
        if twin := await self._find_same(memory, owner):
            if operations := also(twin.memory_id):
                await self._audited_writer.commit(owner, operations, by=by, why=why, epoch=epoch)
            return RememberResult("duplicate", twin, degraded)
        lifted = await self._tombstones.lifting(owner, memory.text) if self._tombstones else ()
        put = put_of(memory, embedding=embedding, expect="absent", ttl=self._ttl)
        operations = [put, *lifted, *also(memory.memory_id)]
        await self._audited_writer.commit_from(head, owner, operations, by=by, why=why, epoch=epoch)
        accepted = await self.require(memory.memory_id, owner=owner)
        return RememberResult("accepted", accepted, degraded, lifted=tuple(one.key for one in lifted))

    async def find(self, text: str, *, kind: Kind, owner: Owner) -> Memory | None:
        """Return the active memory that says the same, if there is one: in the same words before others."""
        places = await self._searcher.statements(owner.partition, [text])
        refs = [Ref(owner.partition, *place) for place in sorted(places)]
        known = [memory for item in await self._storage.get(refs) if item and (memory := memory_of(item))]
        alike = [memory for memory in known if memory.kind == kind and memory.valid_to is None]
        said, gist = same_words(text), gist_of(text)
        exact = (memory for memory in alike if same_words(memory.text) == said)
        active = (memory for memory in alike if memory.status == "active" and same_meaning(gist_of(memory.text), gist))
        return next(exact, None) or next(active, None)

    async def unsaying(
        self, owner: Owner, statements: Sequence[str], *, among: Sequence[Memory] | None = None
    ) -> list[Operation]:
        """Return the operations that take *statements* out of the episodes and summaries that say them.

        Args:
            owner: The owner.
            statements: Statements that are not so, or not wanted.
            among: The memories to look at; ``None``: those most like the statements.
        """
        if among is None:
            among = await self._like(owner, statements)
        says = matcher_of(statements)
        left = {one: without_sentences(one.text, says) for one in among if one.kind == "episodic"}
        cut = [replace(one, text=text) for one, text in left.items() if text and text != one.text]
        vectors = await self._searcher.embed_memories([one.text for one in cut]) if cut else None
        operations: list[Operation] = [
            put_of(one, embedding=row_of(vectors, i) if vectors else None, expect=one.revision, ttl=self._ttl)
            for i, one in enumerate(cut)
        ]
        return [*operations, *(Delete(one.namespace, one.memory_id, one.revision) for one in left if not left[one])]

    async def _like(self, owner: Owner, statements: Sequence[str]) -> list[Memory]:
        refs: dict[Ref, None] = {}
        for statement in statements:
            found = await self._searcher.ranking(
                owner.partition, statement, prefixes=recalled_namespaces(owner.label), limit=_LIKELY_EPISODES
            )
            refs |= dict.fromkeys(Ref(owner.partition, hit.namespace, hit.key) for hit in found.hits)
        return [memory for item in await self._storage.get([*refs]) if item and (memory := memory_of(item))]

    async def _find_same(self, memory: Memory, owner: Owner) -> Memory | None:
        if item := await self._item_at(owner, memory):
            return memory_of(item)
        return await self.find(memory.text, kind=memory.kind, owner=owner)

    async def _item_at(self, owner: Owner, memory: Memory) -> Item | None:
        (item,) = await self._storage.get([Ref(owner.partition, memory.namespace, memory.memory_id)])
        return item

    async def _epoch(self, owner: Owner) -> str:
        """Tell the epoch that a work begins in: where the owner is erased before it ends, it writes nothing."""
        return (await self._storage.position(owner.partition)).epoch

    def _memory(self, new: NewMemory, owner: Owner) -> Memory:
        if not is_kind(new.kind):
            BUILT_IN_KINDS.require(new.kind)
        now = self._clock.now()
        created_at = new.created_at or now
        for name, moment in (("created_at", created_at), ("valid_from", new.valid_from), ("valid_to", new.valid_to)):
            if moment is not None:
                check_moment(moment, name)
        sources = new.sources or (Source("user", at=created_at),)
        return Memory(
            memory_id=new.memory_id or MemoryId(new_id()),
            namespace=(MEMORIES, owner.label),
            text=self._checked(new.text),
            kind=new.kind,
            status="active",
            trust=least_trusted(sources),
            sources=sources,
            revision=0,
            created_at=created_at,
            updated_at=now,
            valid_from=new.valid_from,
            valid_to=new.valid_to,
            pinned=new.pinned,
            approval=new.approval,
            history=tuple(replace(old, text=self._checked(old.text)) for old in new.history),
            tags=check_tags(new.tags, redact=self._redact),
            metadata=check_metadata(new.metadata, redact=self._redact),
        )

    def _checked(self, text: str) -> str:
        return self._redact(check_text(text))


def _require_revision(memory: Memory, revision: int | None) -> None:
    if revision is not None and memory.revision != revision:
        raise RevisionConflictError(_changed_meanwhile(memory.memory_id), memory_id=memory.memory_id)


def _has_other_writer(error: RevisionConflictError) -> bool:
    """Return whether a commit met another one, rather than the caller's own revision being out of date."""
    return "memory_id" not in error.details


def _changed_meanwhile(memory_id: str) -> str:
    return f"Memory {memory_id} was changed by another writer; read it again and decide again."


def _changed_again(memory_id: str) -> str:
    return f"Memory {memory_id} was changed again and again; try again."


def _said_by(memory: Memory) -> tuple[str, str]:
    return _decided_by(memory.approval, *memory.sources)


def _decided_by(approval: Approval | None, *sources: Source) -> tuple[str, str]:
    """Return who changes something and where it comes from, as the audit tells it."""
    if approval is not None and approval.proposal_id is not None:
        return approval.by, f"proposal:{approval.proposal_id}"
    turn = next((source.turn_id for source in sources if source.turn_id), None)
    thread = next((source.thread_id for source in sources if source.thread_id), None)
    why = f"turn:{turn}" if turn else f"thread:{thread}" if thread else ""
    return (approval.by if approval else USER), why
