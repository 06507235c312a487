"""``tk.memories``: what is remembered about an owner."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypedDict

from threadkeep.arguments import check_moment, check_object, checked_count, checked_list
from threadkeep.errors import InvalidInputError
from threadkeep.identity import Service, operation
from threadkeep.ids import MemoryId
from threadkeep.memories.kinds import Kind
from threadkeep.memories.labels import Metadata, check_metadata, check_tags, check_text
from threadkeep.memories.models import (
    EVERY,
    Approval,
    MemoryFilter,
    NewMemory,
    Source,
    Speaker,
    checked_name,
)

if TYPE_CHECKING:
    from threadkeep.identity import Owner
    from threadkeep.memories.codec import Imported
    from threadkeep.memories.maintenance import Merge
    from threadkeep.memories.models import Forgotten, Memory, MemoryPage, RememberResult, Undone, Version, Why
    from threadkeep.memories.reflection import Reflected
    from threadkeep.memories.retention import RetentionReport
    from threadkeep.recall.models import Recalled


class _Labels(TypedDict, total=False):
    tags: frozenset[str]
    any_tags: frozenset[str]
    metadata: Metadata


def _labels(tags: Sequence[str], any_tags: Sequence[str], metadata: Metadata | None) -> _Labels:
    """Return the checked tags and metadata of a filter."""
    return {
        "tags": frozenset(check_tags(tags)),
        "any_tags": frozenset(check_tags(any_tags, name="any_tags")),
        "metadata": {} if metadata is None else check_metadata(metadata),
    }


_NO_LABELS: Final = ((), (), None)


class MemoryService(Service):
    """What is remembered about an owner: remember, list, search, correct, forget.

    ``owner=`` names the owner of a call: a user id or an :class:`Owner`; by default the one that the client was
    opened with. Without either, every method raises ``OwnerRequiredError``.
    """

    @operation
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
        tags: Sequence[str] = (),
        metadata: Metadata | None = None,
    ) -> RememberResult:
        """Keep a statement of 1–8,000 characters; a statement that an active memory makes already is a duplicate.

        A statement is proposed instead, and not recalled before it is approved, if *source* is an assistant, a tool or
        a document, or it is how to behave: *kind* is ``procedural``, or the text is like "Always answer in French."
        A *kind* of the application checks the fields of its schema in *metadata*.
        Pass *approved_by* if a person has approved it.

        *tags* are at most 32 words of 64 characters, and *metadata* at most 32 names with strings, numbers, truth
        values or ``None``. Lists and searches filter by both. They are no part of what is recalled, and a duplicate
        keeps its own.

        Raises:
            InvalidInputError, TooLargeError: The text, a tag or the metadata cannot be kept, or the kind is unknown.
            OptedOutError: The owner wants no memory.
        """
        owner = self._scope.resolve(owner)
        if source is not None:
            check_object(source, "source", Source)
        sources = (source,) if source else ()
        new = NewMemory(
            check_text(text),
            kind,
            sources,
            valid_from=valid_from,
            pinned=pinned,
            approval=self._approval(approved_by),
            tags=tags,
            metadata=self._services.kinds.check_metadata(kind, {} if metadata is None else metadata),
        )
        self._services.opt_outs.require_wanted(owner, source.thread_id if source else None)
        return await self._services.proposal_repository.keep(new, owner=owner)

    @operation
    async def remember_many(
        self,
        news: Sequence[NewMemory],
        *,
        owner: str | Owner | None = None,
        progress: Callable[[int], object] = lambda _: None,
    ) -> tuple[RememberResult, ...]:
        """Keep many statements, 500 in a commit. Repeating the call changes nothing if they have ids.

        A statement that :meth:`remember` would propose is proposed, and the others are kept. Statements that were
        rejected or forgotten before are left out.

        Args:
            news: The statements.
            owner: The owner of the memories.
            progress: Called with the number of statements done, after each commit.

        Returns:
            The result of each statement, in the order given.

        Raises:
            InvalidInputError, TooLargeError: One of them cannot be kept; nothing was written.
            OptedOutError: The owner wants no memory.
        """
        owner = self._scope.resolve(owner)
        self._services.opt_outs.require_wanted(owner)
        news = checked_list(news, "news", NewMemory)
        kinds = self._services.kinds
        checked = [replace(new, metadata=kinds.check_metadata(new.kind, new.metadata)) for new in news]
        return await self._services.proposal_repository.keep_many(checked, owner=owner, progress=progress)

    @operation
    async def import_lines(self, lines: str | Iterable[str], *, owner: str | Owner | None = None) -> Imported:
        """Import memories from lines of JSON: an export's lines, or objects with a ``text``. Ids are kept.

        The call may be repeated: existing memories stay as they are. Imported memories carry the trust ``import``, and
        the policy decides about them: how to behave waits for approval. An invalid line is reported by its number, and
        the others are imported.

        Args:
            lines: The lines, or the text of a file, in which each line ends with a line feed.
            owner: The owner.

        Raises:
            OptedOutError: The owner wants no memory.
        """
        owner = self._scope.resolve(owner)
        self._services.opt_outs.require_wanted(owner)
        if not isinstance(lines, str):
            lines = checked_list(lines, "lines", str)
        news, faults, left_out = self._parsed(lines)
        proposed = await self._services.proposal_repository.propose_imports(news, owner=owner)
        accepted = {number: new for number, new in news.items() if number not in proposed}
        kept = await self._services.memory_repository.bring(list(accepted.values()), owner=owner, by="import")
        from threadkeep.memories.codec import Imported

        results = dict(zip(accepted, kept, strict=True))
        refused = {number: one.reason or "" for number, one in results.items() if one.status == "rejected"}
        refused |= {number: one.reason or "" for number, one in proposed.items() if one.status == "rejected"}
        known = [one.memory_id for one in proposed.values() if one.status == "duplicate" and one.memory_id]
        approved = [one.memory_id for one in proposed.values() if one.status == "approved" and one.memory_id]
        return Imported(
            (*(one.memory_id for one in kept if one.status == "accepted"), *approved),
            (*(one.memory_id for one in kept if one.status == "duplicate"), *known),
            dict(sorted(refused.items())),
            left_out,
            dict(sorted(faults.items())),
            tuple(one.proposal.proposal_id for one in proposed.values() if one.status == "proposed" and one.proposal),
        )

    @operation
    async def get(self, memory_id: str, *, owner: str | Owner | None = None) -> Memory | None:
        """Return a memory, or None if the owner has none with this id."""
        return await self._services.memory_reader.get(memory_id, owner=self._scope.resolve(owner))

    @operation
    async def require(self, memory_id: str, *, owner: str | Owner | None = None) -> Memory:
        """Return a memory.

        Raises:
            MemoryNotFoundError: The owner has none with this id.
        """
        return await self._services.memory_reader.require(memory_id, owner=self._scope.resolve(owner))

    @operation
    async def get_many(self, memory_ids: Sequence[str], *, owner: str | Owner | None = None) -> dict[str, Memory]:
        """Return the memories with these ids, by id; ids that the owner has no memory of are left out."""
        memory_ids = checked_list(memory_ids, "memory_ids", str)
        resolved = self._scope.resolve(owner)
        return {**await self._services.memory_reader.get_many(memory_ids, owner=resolved)}

    @operation
    async def list(  # noqa: PLR0913 - a filter each
        self,
        *,
        owner: str | Owner | None = None,
        kind: Kind | None = None,
        trust: Speaker | None = None,
        thread_id: str | None = None,
        pinned: bool | None = None,
        since: datetime | None = None,
        tags: Sequence[str] = (),
        any_tags: Sequence[str] = (),
        metadata: Metadata | None = None,
        limit: int = 100,
        offset: int = 0,
        cursor: str | None = None,
    ) -> MemoryPage:
        """Return memories of any status, most recently changed first.

        Args:
            owner: The owner.
            kind: Of this kind only.
            trust: With this least trusted speaker only.
            thread_id: Said in this thread only.
            pinned: Pinned ones only, or those that are not.
            since: Changed then or later only.
            tags: With all of these tags only.
            any_tags: With one of these tags only.
            metadata: With these names and values only.
            limit: How many at most.
            offset: How many are left out before; not together with *cursor*.
            cursor: The cursor of the page before, also if memories were changed or removed since.

        Raises:
            InvalidInputError: A filter is invalid, or *offset* and *cursor* are given.
        """
        if kind is not None:
            self._services.kinds.require(kind)
        labels: _Labels = {} if (tags, any_tags, metadata) == _NO_LABELS else _labels(tags, any_tags, metadata)
        if since is not None:
            check_moment(since, "since")
        wanted = MemoryFilter(kind, trust, thread_id, pinned, since, **labels)
        return await self._services.memory_reader.list(
            owner=self._scope.resolve(owner),
            matches=None if wanted == EVERY else wanted.matches,
            limit=limit,
            offset=offset,
            cursor=cursor,
        )

    @operation
    async def walk(self, *, owner: str | Owner | None = None) -> AsyncIterator[Memory]:
        """Yield every memory, most recently changed first."""
        async for memory in self._services.memory_reader.walk(owner=self._scope.resolve(owner)):
            yield memory

    async def search(  # noqa: PLR0913 - a filter each
        self,
        query: str,
        *,
        owner: str | Owner | None = None,
        kind: Kind | None = None,
        trust: Speaker | None = None,
        thread_id: str | None = None,
        pinned: bool | None = None,
        since: datetime | None = None,
        tags: Sequence[str] = (),
        any_tags: Sequence[str] = (),
        metadata: Metadata | None = None,
        limit: int = 10,
    ) -> list[Recalled]:
        """Return the memories most like *query*, best first, with scores in [0, 1].

        The filters are those of :meth:`list`; they hold before *limit* does.

        A current index answers on the calling thread; otherwise Threadkeep's event loop brings it up to date first.
        """
        owner = self._scope.resolve(owner)
        if kind is not None:
            self._services.kinds.require(kind)
        labels: _Labels = {} if (tags, any_tags, metadata) == _NO_LABELS else _labels(tags, any_tags, metadata)
        if since is not None:
            check_moment(since, "since")
        limit = checked_count(limit, "limit")
        wanted = MemoryFilter(kind, trust, thread_id, pinned, since, **labels)
        if self._services.connected:
            found = self._services.recalls.try_search(query, owner=owner, wanted=wanted, limit=limit)
            if found is not None:
                return found
        return await self._services.run(
            lambda: self._services.recalls.search(query, owner=owner, wanted=wanted, limit=limit)
        )

    @operation
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
        """Replace what a memory says; the old text stays in its history.

        Args:
            memory_id: The memory.
            text: What is true; 1–8,000 characters.
            owner: The owner of the memory.
            revision: The revision that was read; None: the current one.
            source: Where the new text comes from; None: the user.
            approved_by: The person who approved it.

        Raises:
            MemoryNotFoundError: The owner has no such memory.
            RevisionConflictError: The memory was changed since *revision*.
            ApprovalRequiredError: *source* is an assistant, a tool or a document, or the memory is how to behave:
                propose the change instead, or pass *approved_by*.
        """
        if source is not None:
            check_object(source, "source", Source)
        return await self._services.memory_repository.correct(
            memory_id,
            text,
            owner=self._scope.resolve(owner),
            revision=revision,
            source=source,
            approval=self._approval(approved_by),
        )

    @operation
    async def forget(
        self, memory_id: str, *, owner: str | Owner | None = None, revision: int | None = None, dry: bool = False
    ) -> Forgotten:
        """Remove a memory with its history and everything derived from it; report where its text still stands.

        Args:
            memory_id: The memory.
            owner: The owner.
            revision: The revision that was read; None: the current one.
            dry: Change nothing, and return what would be removed.

        Raises:
            MemoryNotFoundError: The owner has no such memory.
            RevisionConflictError: The memory was changed since *revision*.
        """
        owner = self._scope.resolve(owner)
        return await self._services.memory_repository.forget(memory_id, owner=owner, revision=revision, dry=dry)

    @operation
    async def pin(
        self, memory_id: str, *, owner: str | Owner | None = None, revision: int | None = None, pinned: bool = True
    ) -> Memory:
        """Make a memory never expire, or let it expire again (``pinned=False``).

        Args:
            memory_id: The memory.
            owner: The owner.
            revision: The revision that was read; None: the current one.
            pinned: Whether it never expires.

        Raises:
            MemoryNotFoundError: The owner has no such memory.
            RevisionConflictError: The memory was changed since *revision*.
        """
        owner = self._scope.resolve(owner)
        return await self._services.memory_repository.pin(memory_id, owner=owner, revision=revision, pinned=pinned)

    @operation
    async def label(
        self,
        memory_id: str,
        *,
        owner: str | Owner | None = None,
        tags: Sequence[str] | None = None,
        metadata: Metadata | None = None,
    ) -> Memory:
        """Replace the tags or the metadata of a memory; ``None`` leaves them as they are.

        The schema of the memory's kind checks its fields in the new *metadata*.

        Raises:
            InvalidInputError: They cannot be kept.
            MemoryNotFoundError: The owner has no such memory.
        """
        owner = self._scope.resolve(owner)
        if metadata is not None and (fields := self._services.kinds.fields):
            kind = (await self._services.memory_reader.require(memory_id, owner=owner)).kind
            metadata = self._services.kinds.check_metadata(kind, metadata) if kind in fields else metadata
        return await self._services.memory_repository.label(memory_id, owner=owner, tags=tags, metadata=metadata)

    @operation
    async def history(self, memory_id: str, *, owner: str | Owner | None = None) -> tuple[Version, ...]:
        """Return the earlier versions of a memory, oldest first."""
        return (await self._services.memory_reader.require(memory_id, owner=self._scope.resolve(owner))).history

    @operation
    async def why(self, memory_id: str, *, owner: str | Owner | None = None) -> Why:
        """Return where a memory comes from: thread, message, speaker and approval."""
        owner = self._scope.resolve(owner)
        return await self._services.maintenance.why(memory_id, await self._services.audit.list(owner), owner=owner)

    @operation
    async def undo(self, last: int = 1, *, owner: str | Owner | None = None) -> Undone:
        """Undo the *last* changes of memories. Forgotten memories stay forgotten and are listed in ``left``."""
        owner = self._scope.resolve(owner)
        return await self._services.maintenance.undo(await self._services.audit.list(owner), owner=owner, last=last)

    @operation
    async def consolidate(self, *, owner: str | Owner | None = None, dry: bool = False) -> tuple[Merge, ...]:
        """Merge memories that say the same in other words. The merged ones can be restored for thirty days.

        Args:
            owner: The owner of the memories.
            dry: Only report what would be merged.
        """
        return await self._services.maintenance.consolidate(owner=self._scope.resolve(owner), dry=dry)

    @operation
    async def reflect(
        self,
        *,
        owner: str | Owner | None = None,
        older_than: timedelta = timedelta(days=30),
        dry: bool = False,
    ) -> tuple[Reflected, ...]:
        """Summarize the episodes of each thread and month that are older; recall finds the summaries.

        Nothing is removed, and ``why`` of a summary names its episodes. Repeating the call changes nothing.

        Args:
            owner: The owner of the memories.
            older_than: The least age of an episode.
            dry: Only report what would be written.

        Raises:
            InvalidInputError: *older_than* is negative.
        """
        return await self._services.reflection.reflect(self._scope.resolve(owner), older_than=older_than, dry=dry)

    @operation
    async def tidy(self, *, owner: str | Owner | None = None, dry: bool = False) -> RetentionReport:
        """Archive memories that were not used for ``THREADKEEP_INACTIVE_DAYS`` or exceed the owner's limit.

        A running application does this every ten minutes.

        Args:
            owner: The owner of the memories.
            dry: Only report what would be archived.
        """
        return await self._services.retention.tidy(self._scope.resolve(owner), dry=dry)

    @operation
    async def restore(self, memory_id: str, *, owner: str | Owner | None = None) -> Memory:
        """Make an archived or merged memory active again."""
        return await self._services.maintenance.restore(memory_id, owner=self._scope.resolve(owner))

    def _approval(self, by: str | None) -> Approval | None:
        return Approval(checked_name(by, "approved_by"), self._services.clock.now()) if by is not None else None

    def _parsed(self, lines: str | Iterable[str]) -> tuple[dict[int, NewMemory], dict[int, str], int]:
        """Return the valid memories and the faults by line number, and how many lines are no memories."""
        from threadkeep.memories.codec import json_lines, parsed

        news: dict[int, NewMemory] = {}
        faults: dict[int, str] = {}
        seen: set[MemoryId] = set()
        left_out = 0
        for number, line in enumerate(json_lines(lines) if isinstance(lines, str) else lines, 1):
            try:
                new = parsed(line) if line.strip() else None
                if new is None:
                    left_out += bool(line.strip())
                elif new.memory_id is None or new.memory_id in seen:
                    faults[number] = "an earlier line has the same id"
                else:
                    self._services.kinds.require(new.kind)
                    self._services.memory_repository.check(new)
                    seen.add(new.memory_id)
                    news[number] = new
            except InvalidInputError as error:
                faults[number] = str(error)
        return news, faults, left_out
