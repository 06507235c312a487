"""Learning from one turn: extract, review by the owner's policy, reconcile, and commit with the record's end.

The review says what is kept by itself, what must not be learnt and what waits already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, Self
from weakref import WeakValueDictionary

from cachetools import LRUCache

from threadkeep.capture import reconcile as rules
from threadkeep.capture.extractors import Extraction
from threadkeep.capture.extractors.local import LocalExtractor, topics_to_forget
from threadkeep.capture.models import Candidate, NotKept, Turn, account_put, account_ref
from threadkeep.capture.provenance import backing, why_nothing, without_refused
from threadkeep.capture.reconcile import Propose
from threadkeep.capture.turn_history import off_loop_if
from threadkeep.capture.turns import TurnRecord, done, is_long, put_of, record_of
from threadkeep.capture.usage import UsageAccounts
from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import ExtractionError, PartitionErasedError
from threadkeep.ids import MemoryId, ProposalId, TurnId, short_digest
from threadkeep.memories import codec as shapes
from threadkeep.memories.audited_writer import AuditedWriter, head_of
from threadkeep.memories.codec import comparable, cosine, rows_of
from threadkeep.memories.kinds import Kind
from threadkeep.memories.models import Memory, Source, Speaker, least_trusted
from threadkeep.memories.reader import Searcher
from threadkeep.models.base import INPUT_ROLES
from threadkeep.observability import LEARN, TENANT, THREAD, USER, span
from threadkeep.proposals.models import Decision, Proposal, Verdict, proposal_put, waiting_reason
from threadkeep.proposals.policies import PolicyRepository, Tombstones, Unwanted, lifting_operations
from threadkeep.proposals.reader import ProposalReader
from threadkeep.proposals.repository import LIFETIME
from threadkeep.storage.interface import Embedding, Expectation, Item, Namespace, Operation, Put, Ref, Storage
from threadkeep.text.redaction import redact
from threadkeep.text.semantics import content_words, normalised

if TYPE_CHECKING:
    from threadkeep.capture.extractors import Extractor
    from threadkeep.clock import Clock
    from threadkeep.identity import Owner
    from threadkeep.memories.audited_writer import AuditedWriter
    from threadkeep.memories.reader import Searcher
    from threadkeep.observability import Telemetry
    from threadkeep.proposals.models import Policy
    from threadkeep.proposals.policies import Unwanted

_WAITING: Final = 500
"""How many pending proposals are compared; a long inbox must not slow down learning."""

_CACHED_PROPOSALS: Final = 4096
"""So many pending proposals, and owners with none, are in RAM: most turns are of owners who had others lately."""


class HeadVersion(NamedTuple):
    """The state of an owner's memory that something was read at: every change of a proposal moves it.

    Attributes:
        epoch: Of the owner's partition.
        head: The revision of the row that every commit expects; ``None``: there is none yet.
    """

    epoch: str
    head: int | None


class PendingCache:
    """The pending proposals of the owners that were learnt about last, newest first, with their version."""

    def __init__(self) -> None:
        self._entries: LRUCache[bytes, tuple[HeadVersion, tuple[Proposal, ...]]] = LRUCache(
            _CACHED_PROPOSALS, lambda entry: 1 + len(entry[1])
        )

    def get(self, owner: Owner, version: HeadVersion) -> tuple[Proposal, ...] | None:
        """Return the proposals as of *version*, or None if they must be read."""
        cached = self._entries.get(owner.partition.digest)
        return cached[1] if cached is not None and version.head is not None and cached[0] == version else None

    def put(self, owner: Owner, version: HeadVersion, pending: tuple[Proposal, ...]) -> None:
        """Keep *pending* as of *version*."""
        self._entries[owner.partition.digest] = (version, pending)


@dataclass(frozen=True, slots=True)
class Review:
    """What was read of an owner before deciding."""

    policy: Policy
    unwanted: Unwanted
    pending: tuple[Proposal, ...]

    def why_unwanted(self, text: str, vectors: Mapping[str, Embedding]) -> str | None:
        """Return why *text* must not be learnt again, if so."""
        tombstone = self.unwanted.blocks(text, vectors.get(text))
        return f"{tombstone.cause} before" if tombstone else None


@dataclass(frozen=True, slots=True)
class ReviewContext:
    """Reads what learning has to know, and spells what it proposes.

    Attributes:
        rows: The proposals.
        tombstones: What must not be learnt again.
        policies: Who is believed about what.
        lifetime: How long a proposal waits.
        cache: The pending proposals that were read last.
    """

    rows: ProposalReader
    tombstones: Tombstones
    policies: PolicyRepository
    lifetime: timedelta = LIFETIME
    cache: PendingCache = field(default_factory=PendingCache)

    @classmethod
    def of(cls, storage: Storage, searcher: Searcher, clock: Clock, audited_writer: AuditedWriter) -> Self:
        """Return the reviews that hold where nothing is set."""
        tombstones = Tombstones(storage, searcher, clock, lifetime=None, audited_writer=audited_writer)
        return cls(ProposalReader(storage, clock), tombstones, PolicyRepository(storage, audited_writer=audited_writer))

    def ref(self, owner: Owner) -> Ref:
        """Return the item that :meth:`read` needs."""
        return self.policies.ref(owner)

    async def read(self, owner: Owner, item: Item | None, *, version: HeadVersion, now: datetime) -> Review:
        """Read what holds for *owner* at *version*; *item* is what is at :meth:`ref`."""
        unwanted, pending = await asyncio.gather(self.tombstones.of(owner), self._pending(owner, version))
        waiting = tuple(one for one in pending if one.expires_at > now)
        return Review(self.policies.read(item, owner), unwanted, waiting)

    async def _pending(self, owner: Owner, version: HeadVersion) -> tuple[Proposal, ...]:
        cached = self.cache.get(owner, version)
        return cached if cached is not None else tuple(await self.rows.list(owner, state="pending", limit=_WAITING))

    def committed(
        self,
        owner: Owner,
        version: HeadVersion,
        review: Review,
        *,
        proposed: Sequence[Proposal],
        confirmed: Collection[ProposalId],
    ) -> None:
        """Keep what waits after a commit that added *proposed* and approved *confirmed*; *version*: after it."""
        left = [one for one in review.pending if one.proposal_id not in confirmed]
        added = [replace(one, revision=version.head or 0) for one in proposed]
        self.cache.put(owner, version, tuple([*added, *left][:_WAITING]))

    def proposed(self, decision: Propose, turn_id: TurnId, *, key: MemoryId, now: datetime) -> Proposal:
        """Return what *decision* lets wait.

        Args:
            decision: One that no proposal waits for yet.
            turn_id: The turn that it comes from.
            key: Of the memory that an added statement becomes.
            now: The time of learning.
        """
        candidate, base = decision.candidate, decision.base
        sources = (candidate.source,) if candidate else (Source(decision.speaker, turn_id=turn_id, at=now),)
        text = candidate.text.strip() if candidate else ""
        return Proposal(
            proposal_id=proposal_id_of(turn_id, decision),
            action=decision.action,
            text=text,
            kind=candidate.kind if candidate else base.kind if base else "semantic",
            sources=sources,
            trust=least_trusted(sources),
            reason=_reason(decision),
            memory_id=base.memory_id if base else key,
            base_revision=base.revision if base else None,
            base_text=base.text if base else None,
            created_at=now,
            expires_at=now + self.lifetime,
            metadata=candidate.metadata if candidate else {},
        )


def proposal_id_of(turn_id: TurnId, decision: Propose) -> ProposalId:
    """Return the key of what *decision* of a turn lets wait: the same however often the turn is learnt from."""
    candidate, base = decision.candidate, decision.base
    said = (candidate.kind, normalised(candidate.text)) if candidate else ("", "")
    return ProposalId(
        short_digest("captured proposal", turn_id, decision.action, base.memory_id if base else "", *said)
    )


def confirming(proposal: Proposal, memory_id: MemoryId, owner: Owner, *, now: datetime) -> Put:
    """Return the put that approves *proposal*: the user has said it themselves since."""
    decision = Decision("approved", "user", now, comment="said again by the user", memory_id=memory_id)
    return proposal_put(replace(proposal, state="approved", decision=decision), owner, expect=proposal.revision)


def _reason(decision: Propose) -> str:
    if decision.candidate is not None:
        return waiting_reason(decision.candidate.kind, decision.candidate.source.speaker)
    return "the user asks to forget it" if decision.speaker == "user" else "an extractor would have it removed"


_ALIKE: Final = 20
MAX_CANDIDATES: Final = 64
"""What comes after so many candidates of a turn is left out: no turn says so much."""


@dataclass(slots=True)
class _Rows:
    """What learning reads first, of one moment: everything else is read after it.

    Attributes:
        item: The row of the turn record; ``None``: it is gone.
        record: The turn record, if it waits to be learnt from.
        head: The row that every commit of memories expects.
        account: The owner's account of extractions.
        policy: The owner's own rules.
    """

    item: Item | None
    record: TurnRecord | None
    head: Item | None
    account: Item | None
    policy: Item | None


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of an owner before deciding."""

    candidates: tuple[Candidate, ...]
    memories: Mapping[MemoryId, Item]
    foreign: frozenset[str]
    review: Review


class Learning:
    """Turns pending records into memories and proposals.

    Args:
        storage: Where records and memories are.
        search: Makes vectors, and finds what is like a turn for extractors that ask for it.
        extractor: What turns a turn into candidates, where a call names no other.
        clock: What the time is.
        telemetry: Counts what was learnt.
        audited_writer: Commits with an audit entry.
        reviews: What is kept by itself, and what must not be learnt; ``None``: the default policy.
        accounts: The accounts of what models took; ``None``: those without prices.
        redact: Cuts out what is not to be kept: secrets at least.
        ttl: How long a captured memory lives; ``None``: for ever.
    """

    def __init__(
        self,
        storage: Storage,
        search: Searcher,
        extractor: Extractor,
        clock: Clock,
        telemetry: Telemetry,
        *,
        audited_writer: AuditedWriter,
        reviews: ReviewContext | None = None,
        accounts: UsageAccounts | None = None,
        redact: Callable[[str], str] = redact,
        ttl: timedelta | None = None,
    ) -> None:
        self._storage = storage
        self._audited_writer = audited_writer
        self._search = search
        self._extractor = extractor
        self._clock = clock
        self._telemetry = telemetry
        self._reviews = reviews or ReviewContext.of(storage, search, clock, audited_writer)
        self._accounts = accounts or UsageAccounts(storage, clock, telemetry)
        self._redact = redact
        self._ttl = ttl
        self._writing: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    async def learn(
        self, ref: Ref, owner: Owner, epoch: str | None = None, *, extractor: Extractor | None = None
    ) -> bool:
        """Learn from the turn record at *ref*, by *extractor*; return whether it was this call that finished it.

        Extraction happens before the commit and once. The one commit expects everything at the revision that was read;
        after a conflict with another writer, it is read and decided again.
        If the owner was erased meanwhile, the work is dropped.

        Args:
            ref: The record.
            owner: Its owner.
            epoch: The owner's epoch when it was recorded; ``None``: it is read first.
            extractor: Takes the place of the usual one.

        Raises:
            StorageError: Nothing was written.
            RevisionConflictError: Other writers kept getting in the way; nothing was written.
            Exception: Whatever the extractor raised; nothing was written.
        """
        if epoch is None:
            epoch = (await self._storage.position(owner.partition)).epoch
        rows: _Rows | None = await self._first_rows(ref, owner)
        record = rows.record
        if record is None:
            return False
        turn, vectors = record.turn, dict[str, Embedding]()
        # Two threads of one owner are learnt from at once; their commits would only get in each other's way.
        writing = self._writing.setdefault(owner.partition.digest, asyncio.Lock())

        async def finish() -> bool:
            nonlocal rows
            if writing.locked():  # it is about to change what was read
                rows = None
            async with writing:
                current, rows = rows or await self._first_rows(ref, owner), None
                return await self._finish(current, owner, extraction, vectors, epoch)

        about = {USER: owner.user_id, TENANT: owner.tenant or None, THREAD: turn.thread_id}
        with span(LEARN, about, parent=record.trace):
            long = is_long(turn)
            left = await off_loop_if(long, without_refused, turn.messages)
            wanted = turn if left is None else replace(turn, messages=left)
            found = await self._extracted(wanted, owner, extractor or self._extractor, epoch)
            checked = await off_loop_if(long, judged, found.candidates, wanted, redact=self._redact)
            forgotten = () if turn.played else await off_loop_if(long, topics_to_forget, turn)
            why = None if checked else await off_loop_if(long, why_nothing, wanted.messages)
            remarks = (*found.remarks, why) if why else found.remarks
            extraction = replace(found, candidates=checked, forgotten=forgotten, remarks=remarks)
            try:
                return await retry_conflicts(finish)
            except PartitionErasedError:
                return False

    async def _extracted(self, turn: Turn, owner: Owner, extractor: Extractor, epoch: str) -> Extraction:
        """Ask *extractor*, and keep account of what it took, whether it gave something or not."""
        if turn.played or not turn.messages:  # no model is asked what it would take for facts
            extractor = LocalExtractor()
        try:
            known = await self._alike(turn, owner) if extractor.uses_known else []
            found = await extractor.extract(turn, known)
        except ExtractionError as error:
            self._telemetry.count("extraction.failed")
            await self._accounts.charge_failure(owner, error, epoch=epoch)
            raise
        if found.usage is None:
            return found
        usage = self._accounts.count(found.usage)
        if found.remarks:
            self._telemetry.count("extraction.remarked")
        if all(candidate.kind == "episodic" for candidate in found.candidates):
            self._telemetry.count("extraction.empty")
        return replace(found, usage=usage)

    async def _first_rows(self, ref: Ref, owner: Owner) -> _Rows:
        refs = [ref, shapes.head_ref(owner), account_ref(owner), self._reviews.ref(owner)]
        item, head, account, policy = await self._storage.get(refs)
        record = None if item is None else record_of(item)
        if record is not None and record.state != "pending":
            record = None
        return _Rows(item, record, head, account, policy)

    async def _finish(
        self, rows: _Rows, owner: Owner, extraction: Extraction, vectors: dict[str, Embedding], epoch: str
    ) -> bool:
        """Decide by *rows* and what is read after them, and commit; *vectors*: those made so far, by text."""
        record = rows.record
        if rows.item is None or record is None:
            return False
        read = await self._read(rows, owner, extraction, epoch)
        texts = list(dict.fromkeys([text for one in read.candidates if (text := one.text.strip()) not in vectors]))
        vectors.update(rows_of(await self._search.embed_memories(texts), texts))
        known = [memory for item in read.memories.values() if (memory := shapes.memory_of(item)) is not None]
        asked = [(c.text, row) for c in read.candidates if rules.asks_again(c) for row in [vectors.get(c.text)]]
        lifted = read.review.unwanted.lifted_by(asked)
        review = replace(read.review, unwanted=read.review.unwanted.without(lifted))
        given = rules.Rules(
            namespace=(shapes.MEMORIES, owner.label),
            now=self._clock.now(),
            similarity=_similarity(vectors, known, read.memories),
            recalled=record.turn.recalled,
            verdict=asking(read.review.policy.verdict) if record.ask else read.review.policy.verdict,
            unwanted=lambda text: review.why_unwanted(text, vectors),
            pending=read.review.pending,
        )
        candidates = [c for c in read.candidates if normalised(c.text) not in read.foreign]
        decided = rules.reconcile(candidates, known, given)
        written = rules.writes(decided, known)
        changed = {memory.memory_id for memory, _ in written}  # it says something else now
        forgotten = [key for key in rules.saying(extraction.forgotten, known) if key not in changed]
        decisions = (
            *decided,
            *rules.removals(forgotten, known, given, speaker="user"),
            *rules.removals([key for key in extraction.removals if key not in forgotten], known, given),
        )
        puts: list[Operation] = [self._put(memory, expect, vectors, read.memories) for memory, expect in written]
        waiting, proposed = self._waiting(decisions, record.turn)
        puts += [proposal_put(proposal, owner, expect="absent") for proposal in proposed]
        confirmed = rules.confirmed(decisions, read.review.pending)
        puts += [confirming(proposal, memory_id, owner, now=given.now) for proposal, memory_id in confirmed]
        refused = [decision for decision in decisions if isinstance(decision, rules.Reject)]
        finished = done(
            record,
            learnt(decisions),
            waiting,
            extraction.usage,
            rejected=tuple(dict.fromkeys((*extraction.remarks, *(one.reason for one in refused)))),
            not_kept=[NotKept(one.candidate.kind, one.reason, one.candidate.source.message_id) for one in refused],
            lifted=[one.tombstone_id for one in lifted],
        )
        puts += lifting_operations(owner, lifted)
        if extraction.usage is not None:
            puts.append(account_put(owner, rows.account, extraction.usage, turns=1, failed=0, at=given.now))
        puts.append(put_of(finished, owner, due_at=None, expect=rows.item.revision))
        why = f"turn:{record.turn.turn_id}"
        position = await self._audited_writer.commit_from(
            head_of(rows.head), owner, puts, by="capture", why=why, epoch=epoch
        )
        self._reviews.committed(
            owner,
            HeadVersion(epoch, position.sequence),
            read.review,
            proposed=proposed,
            confirmed={proposal.proposal_id for proposal, _ in confirmed},
        )
        self._search.refresh(owner.partition)
        self._count(decisions, record)
        return True

    async def _read(self, rows: _Rows, owner: Owner, extraction: Extraction, epoch: str) -> _Read:
        """Read everything else that the decision rests on."""
        partition = owner.partition
        namespace = (shapes.MEMORIES, owner.label)
        version = HeadVersion(epoch, head_of(rows.head).revision)
        review = await self._reviews.read(owner, rows.policy, version=version, now=self._clock.now())
        candidates = without_unwanted(extraction.candidates, review.unwanted)
        texts = [*(candidate.text for candidate in candidates), *extraction.forgotten]
        places = await self._search.statements(partition, texts)
        own = {(namespace, rules.memory_id_of(c.source.turn_id, c.kind, c.text)) for c in candidates}
        meant = (*extraction.removals, *(c.target for c in candidates if c.target))
        refs = [Ref(partition, *place) for place in sorted(places | own | {(namespace, key) for key in meant})]
        items = [item for item in await self._storage.get(refs) if item is not None]
        memories = {MemoryId(item.ref.key): item for item in items if is_ours(item, namespace)}
        foreign = [shapes.memory_of(item) for item in items if not is_ours(item, namespace)]
        said = frozenset(normalised(memory.text) for memory in foreign if memory is not None)
        return _Read(candidates, memories, said, review)

    def _waiting(
        self, decisions: Sequence[rules.Decision], turn: Turn
    ) -> tuple[tuple[ProposalId, ...], list[Proposal]]:
        """Return the ids of the proposals that *decisions* leave waiting, and those that are new."""
        keys: list[ProposalId] = []
        made: dict[ProposalId, Proposal] = {}
        for decision in decisions:
            if not isinstance(decision, rules.Propose):
                continue
            if decision.known is not None:
                keys.append(decision.known.proposal_id)
                continue
            key = proposal_id_of(turn.turn_id, decision)
            candidate = decision.candidate
            future = rules.memory_id_of(turn.turn_id, candidate.kind, candidate.text) if candidate else MemoryId("")
            made[key] = self._reviews.proposed(decision, turn.turn_id, key=future, now=self._clock.now())
            keys.append(key)
        return tuple(dict.fromkeys(keys)), list(made.values())

    def _put(
        self,
        memory: Memory,
        expect: Expectation,
        vectors: Mapping[str, Embedding],
        items: Mapping[MemoryId, Item],
    ) -> Put:
        before = items.get(memory.memory_id)
        embedding = vectors.get(memory.text)
        if before is not None and before.value.get("data") == memory.text:
            embedding = before.embedding
        return shapes.put_of(memory, embedding=embedding, expect=expect, ttl=self._ttl)

    async def _alike(self, turn: Turn, owner: Owner) -> list[Memory]:
        said = "\n".join(message.text for message in turn.messages if message.role in INPUT_ROLES)
        if not said:
            return []
        found = await self._search.ranking(
            owner.partition, said, prefixes=shapes.memory_namespaces(owner.label), limit=_ALIKE
        )
        items = await self._storage.get([Ref(owner.partition, hit.namespace, hit.key) for hit in found.hits])
        return [memory for item in items if item and (memory := shapes.memory_of(item))]

    def _count(self, decisions: Sequence[rules.Decision], record: TurnRecord) -> None:
        self._telemetry.count("capture.processed")
        if not record.ask:  # an import took place long before
            self._telemetry.measure("capture.lag_seconds", (self._clock.now() - record.turn.at).total_seconds())
        for decision in decisions:
            self._telemetry.count(f"capture.{type(decision).__name__.lower()}")
        if record.tries:
            self._telemetry.count("capture.retried")


def asking(verdict: Callable[[Kind, Speaker], Verdict]) -> Callable[[Kind, Speaker], Verdict]:
    """Return *verdict* with what it would keep by itself proposed instead; episodes are not kept then."""

    def asked(kind: Kind, speaker: Speaker) -> Verdict:
        if kind == "episodic" or verdict(kind, speaker) == "never":
            return "never"
        return "ask"

    return asked


def judged(
    candidates: Sequence[Candidate], turn: Turn, *, redact: Callable[[str], str] = redact
) -> tuple[Candidate, ...]:
    """Return *candidates*, redacted, each with its source in *turn*.

    The source is looked up in the turn; an extractor's own claim does not count.
    """
    found: list[Candidate] = []
    for candidate in candidates[:MAX_CANDIDATES]:
        text = candidate.text[: rules.MAX_CHARACTERS + 1]  # what is longer is refused, and need not be read
        backed = backing(text, candidate.kind, turn.messages)
        source = replace(
            candidate.source,
            speaker=backed.speaker,
            thread_id=turn.thread_id,
            turn_id=turn.turn_id,
            message_id=backed.message.message_id if backed.message else None,
            at=candidate.source.at or turn.at,
        )
        found.append(replace(candidate, text=redact(text), source=source))
    return tuple(found)


def without_unwanted(candidates: Sequence[Candidate], unwanted: Unwanted) -> tuple[Candidate, ...]:
    """Return *candidates*, the episodes without the sentences that must not be learnt again.

    An episode of which nothing would be left stays as it is, and is refused with the reason.
    """
    asked = [(candidate.text, None) for candidate in candidates if rules.asks_again(candidate)]
    rest = unwanted.without(unwanted.lifted_by(asked))
    kept = [replace(one, text=rest.cut(one.text) or one.text) if one.kind == "episodic" else one for one in candidates]
    return tuple(kept)


def is_ours(item: Item, namespace: Namespace) -> bool:
    """Return whether capture may rewrite *item*: a memory that Threadkeep wrote, not another program's."""
    ours = item.ref.namespace == namespace and namespace[:1] == (shapes.MEMORIES,)
    return ours and shapes.text_paths_of(item.value) == ("data",)


def learnt(decisions: Sequence[rules.Decision]) -> tuple[MemoryId, ...]:
    """Return the memories that *decisions* made, changed or found again, each once."""
    kept = [one.memory.memory_id for one in decisions if isinstance(one, rules.Add | rules.Update | rules.Duplicate)]
    return tuple(dict.fromkeys(kept))


def _similarity(
    vectors: Mapping[str, Embedding], known: Sequence[Memory], items: Mapping[MemoryId, Item]
) -> Callable[[str, str], float]:
    """Return the cosine of two texts, from the vectors at hand; 0 where one is missing or of another model.

    Without a vector, texts with the same content words are taken for alike: nothing better is to be had.
    """
    by_text = dict(vectors)
    for memory in known:
        embedding = items[memory.memory_id].embedding
        if embedding is not None:
            by_text.setdefault(memory.text, embedding)

    def similarity(one: str, other: str) -> float:
        a, b = by_text.get(one), by_text.get(other)
        if not comparable(a, b):
            return float(content_words(one) == content_words(other))
        return cosine(a, b)

    return similarity
