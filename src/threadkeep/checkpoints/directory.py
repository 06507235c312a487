"""The threads of each owner, listed in the owner's partition of the storage that keeps the threads.

The item of a thread also holds its title and status. Its creation is that of the thread, and its update the last turn.

A thread is listed before it is bound, in the owner's epoch, so erasing an owner finds every thread. While an owner is
being erased no thread can be listed; an erasure that was killed is found again as due work. A thread that is bound and
not listed is what an earlier version left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from threadkeep.arguments import check_string
from threadkeep.checkpoints.codec import HEAD
from threadkeep.checkpoints.head import Head, ThreadStatus, bind_to
from threadkeep.concurrency import retry_conflicts, until_available
from threadkeep.errors import InvalidInputError, PartitionErasedError, RevisionConflictError
from threadkeep.identity import Owner, owner_of_label, owner_of_partition
from threadkeep.ids import ThreadId, digest
from threadkeep.storage.encoding import encode_value
from threadkeep.storage.interface import (
    Batch,
    Delete,
    Due,
    Item,
    Partition,
    Put,
    Ref,
    Storage,
    iterate_items,
    iterate_partitions,
)

if TYPE_CHECKING:
    from threadkeep.checkpoints.thread_store import Threads, ThreadStore
    from threadkeep.clock import Clock

THREADS: Final = ".threads"
ERASING: Final = ".erasing"

_SCOPED: Final = "scoped-"
_MARK: Final = ((ERASING,), "owner")
_LOOKED_UP: Final = 500
_NEVER_WRITTEN: Final = Partition("owner", ("", ".never"))
"""Its epoch is the one that every partition begins with."""


_TITLE_WORDS: Final = 7
_TITLE_CHARACTERS: Final = 200
_METADATA_CHARACTERS: Final = 8_000

NO_METADATA: Final[Mapping[str, Any]] = MappingProxyType({})


class ListedThread(NamedTuple):
    """A thread of an owner.

    Attributes:
        thread_id: Its id.
        scoped: Whether it is kept in a view that no other owner can name.
        title: The first words of the user, or the title that the user gave; ``""``: none yet.
        status: How the last turn ended.
        pinned: Whether the user pinned it.
        created_at: When it was listed first; ``None``: unknown.
        last_turn_at: When its last turn ended; ``None``: unknown.
        metadata: What the application keeps with it.
        memory: Whether the turn that was interrupted uses memory when it goes on.
    """

    thread_id: ThreadId
    scoped: bool
    title: str = ""
    status: ThreadStatus = "idle"
    pinned: bool = False
    created_at: datetime | None = None
    last_turn_at: datetime | None = None
    metadata: Mapping[str, Any] = NO_METADATA
    memory: bool = True

    @classmethod
    def from_item(cls, item: Item) -> ListedThread:
        """Return the thread of an item, of which its first run wrote the id only."""
        value = item.value
        return cls(
            ThreadId(value["thread"]),
            item.ref.key.startswith(_SCOPED),
            str(value.get("title", "")),
            value.get("status", "idle"),
            bool(value.get("pinned", False)),
            item.created_at,
            item.updated_at,
            value.get("metadata", NO_METADATA),
            bool(value.get("memory", True)),
        )

    def partition_of(self, owner: Owner) -> Partition:
        """Return the partition that it is kept in."""
        return thread_partition(self.thread_id, owner if self.scoped else None)


@dataclass(slots=True)
class TurnNote:
    """What the list of threads says of a turn that has ended; one commit of the owner's partition may take it along.

    Attributes:
        ref: The item of the thread in the list.
        question: Returns what the user said; the first question of a thread gives it its title.
        status: How the turn ended.
        memory: Whether the turn uses memory.
        written: Whether it is committed; set by what commits it.
    """

    ref: Ref
    question: Callable[[], str]
    status: ThreadStatus = "idle"
    memory: bool = True
    written: bool = False

    def puts(self, item: Item | None) -> list[Put]:
        """Return what writes it, if *item* is what is at :attr:`ref`; nothing of a thread that is not listed."""
        if item is None:
            return []
        title = item.value.get("title") or title_from(self.question())
        value = {**item.value, "title": title, "status": self.status}
        value.pop("memory", None)
        if not self.memory and self.status == "interrupted":
            value["memory"] = False
        return [Put(self.ref.namespace, self.ref.key, value, expect=item.revision)]


class UnlistedThread(NamedTuple):
    """A thread with an owner who does not have it on the list.

    Attributes:
        partition: Where it is kept.
        thread_id: Its id; ``""``: there is no head, so nothing says which it was.
        owner: Its owner; ``None``: nothing says who.
        erased: Whether the owner was erased since it began, so nothing of it may stay.
    """

    partition: Partition
    thread_id: str
    owner: Owner | None
    erased: bool


class ThreadDirectory:
    """Lists the threads of each owner.

    Args:
        storage: Keeps the threads.
        clock: Returns the time.
    """

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def epoch(self, owner: Owner) -> str:
        """Return the owner's epoch: another one once the owner was erased."""
        return (await self._storage.position(owner.partition)).epoch

    async def was_erased(self, *partitions: Partition) -> bool:
        """Return whether one of *partitions* was erased at any time, whatever was written to it since."""
        first, *epochs = [(await self._storage.position(one)).epoch for one in (_NEVER_WRITTEN, *partitions)]
        return any(epoch != first for epoch in epochs)

    async def enter(self, owner: Owner, thread_id: str, *, scoped: bool, epoch: str | None) -> None:
        """List a thread of *owner*; it may be listed already.

        Raises:
            PartitionErasedError: The owner was erased since *epoch*, or is being erased; nothing was written.
        """
        put = Put((THREADS, owner.label), _key(thread_id, scoped=scoped), {"thread": thread_id})
        barrier = Delete(*_MARK, expect="absent")
        try:
            await self._storage.commit(Batch(owner.partition, [put, barrier], epoch))
        except RevisionConflictError as error:
            msg = "The owner is being erased; try again when that is done."
            raise PartitionErasedError(msg) from error

    async def leave(self, owner: Owner, thread_id: str, *, scoped: bool) -> None:
        """Remove a thread from the list, after it was deleted."""
        item = await self._item(owner, thread_id, scoped=scoped)
        if item is None:  # an owner who was erased must not get a partition again
            return
        with suppress(RevisionConflictError, PartitionErasedError):  # another writer removed it
            gone = Delete(item.ref.namespace, item.ref.key, expect=item.revision)
            await self._storage.commit(Batch(owner.partition, [gone], await self.epoch(owner)))

    async def of_owner(self, owner: Owner) -> tuple[ListedThread, ...]:
        """Return the threads of *owner*, newest first."""
        await self._storage.connect()  # the first read may come before any run
        rows = iterate_items(self._storage, owner.partition, prefix=(THREADS, owner.label))
        return tuple([ListedThread.from_item(item) async for item in rows])

    async def page(self, owner: Owner, *, after: str | None, limit: int) -> tuple[list[ListedThread], str | None]:
        """Return threads of *owner*, the last turn first, and what continues the list; one read.

        Raises:
            InvalidInputError: *after* is not what an earlier page returned.
        """
        await self._storage.connect()
        prefix = (THREADS, owner.label)
        page = await self._storage.scan(owner.partition, prefix=prefix, after=after, limit=limit)
        return [ListedThread.from_item(item) for item in page.items], page.after

    async def find(self, owner: Owner, thread_id: str, *, scoped: bool) -> ListedThread | None:
        """Return one thread of *owner*; ``None``: it is not listed."""
        item = await self._item(owner, thread_id, scoped=scoped)
        return None if item is None else ListedThread.from_item(item)

    @staticmethod
    def turn_note(
        owner: Owner,
        thread_id: str,
        *,
        scoped: bool,
        question: Callable[[], str],
        status: ThreadStatus = "idle",
        memory: bool = True,
    ) -> TurnNote:
        """Return the note of a turn of a thread that has ended, for :meth:`note_turn`."""
        ref = listing_ref(owner, thread_id, scoped=scoped)
        return TurnNote(ref, question, status, memory)

    async def note_turn(self, note: TurnNote) -> None:
        """Commit *note* on its own. A thread that was deleted meanwhile is not listed again."""
        await self._storage.connect()

        async def commit() -> None:
            (item,) = await self._storage.get([note.ref])
            if puts := note.puts(item):
                await self._storage.commit(Batch(note.ref.partition, puts))

        await retry_conflicts(commit)
        note.written = True

    async def edit(
        self,
        owner: Owner,
        thread_id: str,
        *,
        scoped: bool,
        title: str | None = None,
        pinned: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
        last_turn_at: datetime | None = None,
    ) -> ListedThread | None:
        """Change what the list says of a thread; ``None``: it is not listed.

        The thread keeps its place in the list, unless *last_turn_at* is another. *metadata* is added to what is there;
        ``None`` leaves each as it is.

        Raises:
            InvalidInputError: The metadata are invalid; see :func:`checked_metadata`.
        """
        added = checked_metadata(metadata)

        async def change() -> ListedThread | None:
            item = await self._item(owner, thread_id, scoped=scoped)
            if item is None:
                return None
            merged = None if added is None else checked_metadata({**item.value.get("metadata", {}), **added})
            changes = {"title": title, "pinned": pinned, "metadata": merged}
            value = {**item.value, **{name: change for name, change in changes.items() if change is not None}}
            at = last_turn_at or item.updated_at
            put = Put(item.ref.namespace, item.ref.key, value, expect=item.revision, updated_at=at)
            await self._storage.commit(Batch(owner.partition, [put]))
            return ListedThread.from_item(replace(item, value=value, updated_at=at))

        return await retry_conflicts(change)

    async def _item(self, owner: Owner, thread_id: str, *, scoped: bool) -> Item | None:
        await self._storage.connect()
        ref = listing_ref(owner, thread_id, scoped=scoped)
        (item,) = await self._storage.get([ref])
        return item

    async def ids_of(self, owner: Owner) -> tuple[ThreadId, ...]:
        """Return the ids of the threads of *owner*, newest first, each once."""
        return tuple(dict.fromkeys(one.thread_id for one in await self.of_owner(owner)))

    async def unlisted(self) -> list[UnlistedThread]:
        """Return the threads that have an owner and are on no list; it reads the head of every thread.

        A thread is bound after it was listed, and taken off the list after it was deleted, so none is on its way.
        """
        await self._storage.connect()
        found: list[UnlistedThread] = []
        partitions = [one async for one in iterate_partitions(self._storage) if one.kind == "thread"]
        for start in range(0, len(partitions), _LOOKED_UP):
            found += await self._unlisted_of(partitions[start : start + _LOOKED_UP])
        return found

    async def mend(self) -> int:
        """List the unlisted threads again; delete those of owners who were erased. Return how many there were."""
        threads = await self.unlisted()
        for thread in threads:
            if thread.owner is None or thread.erased:
                await self._storage.erase(thread.partition)
            else:
                await self.enter(thread.owner, thread.thread_id, scoped=len(thread.partition.parts) > 1, epoch=None)
        return len(threads)

    async def is_erasing(self, owner: Owner) -> bool:
        """Return whether an erasing of *owner* has begun and not ended."""
        (mark,) = await self._storage.get([Ref(owner.partition, *_MARK)])
        return mark is not None

    async def begin_erasing(self, owner: Owner) -> None:
        """From now on no thread of *owner* can be listed, until the owner's partition is erased."""
        mark = Put(*_MARK, {}, due=Due(ERASING, self._clock.now()))
        await retry_conflicts(lambda: self._storage.commit(Batch(owner.partition, [mark])))

    async def unfinished(self) -> tuple[Owner, ...]:
        """Return the owners with an erasing that has begun and not ended."""
        await self._storage.connect()
        items = await self._storage.due(ERASING, now=self._clock.now(), limit=100)
        owners = [owner_of_partition(item.ref.partition) for item in items]
        return tuple(owner for owner in owners if owner is not None)

    async def _unlisted_of(self, partitions: Sequence[Partition]) -> list[UnlistedThread]:
        heads = await self._storage.get([Ref(one, *HEAD) for one in partitions])
        owned: list[tuple[Partition, str, Owner]] = []
        found: list[UnlistedThread] = []
        for partition, item in zip(partitions, heads, strict=True):
            if item is None:
                if (await self._storage.scan(partition, limit=1)).items:
                    found.append(UnlistedThread(partition, "", None, erased=True))
                continue
            head = Head.from_value(item.value)
            owner = owner_of_thread(partition, head)
            if owner is not None:  # otherwise it belongs to no owner
                owned.append((partition, head.thread_id, owner))
        refs = [listing_ref(owner, thread_id, scoped=len(partition.parts) > 1) for partition, thread_id, owner in owned]
        first = (await self._storage.position(_NEVER_WRITTEN)).epoch
        for (partition, thread_id, owner), listed in zip(owned, await self._storage.get(refs), strict=True):
            if listed is None:
                erased = await self.epoch(owner) != first
                found.append(UnlistedThread(partition, thread_id, owner, erased))
        return found


class ThreadOwners:
    """Binds threads to their owners, also threads that another saver keeps.

    Args:
        threads: The threads.
        directory: The threads of each owner.
    """

    def __init__(self, threads: Threads, directory: ThreadDirectory) -> None:
        self._threads = threads
        self._directory = directory

    async def bind(self, thread: ThreadStore | str, owner: Owner, *, epoch: str | None, scoped: bool = False) -> None:
        """Bind a thread to *owner*; it may be bound to the owner already.

        Args:
            thread: The thread, or the id of an unscoped one.
            owner: The owner.
            scoped: Whether it is of a scoped view.
            epoch: The owner's epoch when the run began; ``None``: the present one.

        Raises:
            OwnerMismatchError: It belongs to another owner.
            PartitionErasedError: The owner was erased since *epoch*.
        """
        thread = self._unscoped(thread) if isinstance(thread, str) else thread
        head = await self._head(thread)
        head.require_owner(owner)
        if not head.owner:
            await self.enter(thread, owner, scoped=scoped, epoch=epoch)
            await thread.commit(bind_to(owner))

    async def enter(self, thread: ThreadStore, owner: Owner, *, scoped: bool, epoch: str | None) -> None:
        """List a thread of *owner* before it is bound; see :meth:`ThreadDirectory.enter`. It waits for the storage.

        Without *epoch*, the present one is read first: the owner may be erased while the listing waits.
        """
        begun = epoch or await self.epoch(owner)
        enter = partial(self._directory.enter, owner, thread.thread_id, scoped=scoped, epoch=begun)
        await self._threads.call(until_available, enter, self._threads.timeout)

    async def epoch(self, owner: Owner) -> str:
        """Return the owner's epoch: another one once the owner was erased. It waits for the storage."""
        ask = partial(self._directory.epoch, owner)
        return await self._threads.call(until_available, ask, self._threads.timeout)

    async def note_end(
        self, thread: ThreadStore, owner: str, status: ThreadStatus, question: Callable[[], str]
    ) -> None:
        """Note in the list how a run on a thread ended; nothing if the label *owner* names none."""
        if (listed := owner_of_label(owner)) is None:
            return
        scoped = len(thread.partition.parts) > 1
        note = self._directory.turn_note(listed, thread.thread_id, scoped=scoped, question=question, status=status)
        await self._threads.call(self._directory.note_turn, note)

    async def owner_of(self, thread_id: str) -> str | None:
        """Return the label of the owner that an unscoped thread is bound to; ``None``: no owner."""
        return (await self._head(self._unscoped(thread_id))).owner or None

    async def check(self, thread: ThreadStore | str, owner: Owner) -> None:
        """Check that a thread, or the unscoped one with this id, belongs to *owner* or to no owner.

        Raises:
            OwnerMismatchError: It belongs to another owner.
        """
        (await self._head(self._unscoped(thread) if isinstance(thread, str) else thread)).require_owner(owner)

    def _unscoped(self, thread_id: str) -> ThreadStore:
        return self._threads.get(thread_partition(thread_id, None), thread_id)

    @staticmethod
    async def _head(thread: ThreadStore) -> Head:
        return await thread.head() or Head(thread.thread_id)


@lru_cache(maxsize=4096)
def thread_partition(thread_id: str, owner: Owner | None) -> Partition:
    """Return the partition of a thread; *owner*: of that owner's scoped view."""
    parts = (thread_id,) if owner is None else (*owner.parts, thread_id)
    return Partition("thread", parts)


def owner_of_thread(partition: Partition, head: Head) -> Owner | None:
    """Return the owner of the thread in *partition* with this head; ``None``: it belongs to no owner."""
    if len(partition.parts) > 1:
        return owner_of_partition(Partition("owner", partition.parts[:-1]))
    return owner_of_label(head.owner)


def listing_ref(owner: Owner, thread_id: str, *, scoped: bool) -> Ref:
    """Return the item of a thread in its owner's list."""
    return Ref(owner.partition, (THREADS, owner.label), _key(thread_id, scoped=scoped))


def title_from(question: str) -> str:
    """Return the first seven words of *question*, of 200 characters at most."""
    words = "".join(one if one.isprintable() else " " for one in question[: 10 * _TITLE_CHARACTERS]).split()
    return " ".join(words[:_TITLE_WORDS])[:_TITLE_CHARACTERS]


def checked_title(title: str) -> str:
    """Return a title without superfluous white space.

    Raises:
        InvalidInputError: It has more than 200 characters.
    """
    check_string(title, "title")
    text = " ".join(title.split())
    if len(text) > _TITLE_CHARACTERS:
        msg = f"The title has {len(text):,} characters; at most {_TITLE_CHARACTERS} are allowed."
        raise InvalidInputError(msg)
    return text


def checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the metadata of a thread.

    Raises:
        InvalidInputError: It is not JSON, or has more than 8,000 characters.
    """
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        msg = f"metadata must be a mapping of names to values, got {type(metadata).__name__}."
        raise InvalidInputError(msg)
    size = len(encode_value(metadata))
    if size > _METADATA_CHARACTERS:
        msg = f"The metadata of a thread has {size:,} characters; at most {_METADATA_CHARACTERS:,} are allowed."
        raise InvalidInputError(msg)
    return dict(metadata)


@lru_cache(maxsize=4096)
def _key(thread_id: str, *, scoped: bool) -> str:
    key = digest("thread", thread_id).hex()
    return f"{_SCOPED}{key}" if scoped else key
