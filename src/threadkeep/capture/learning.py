"""Learning from one turn: extract, reconcile, and commit memories and the record's end together."""

from __future__ import annotations

import asyncio
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from threadkeep.capture import reconcile as rules
from threadkeep.capture.known import KnownStatements, is_ours
from threadkeep.capture.record import Candidate, Turn
from threadkeep.capture.redact import redact
from threadkeep.capture.turns import TurnRecord, done, put_of, record_of
from threadkeep.capture.wording import content_words, normalised
from threadkeep.errors import PartitionErasedError, RevisionConflictError
from threadkeep.ids import MemoryId
from threadkeep.memories import shapes
from threadkeep.memories.port import Searcher
from threadkeep.memories.record import Memory
from threadkeep.storage.port import Batch, Embedding, Expectation, Item, Put, Ref, Storage

if TYPE_CHECKING:
    from threadkeep.capture.extractors.port import Extractor
    from threadkeep.clock import Clock
    from threadkeep.owners.owner import Owner
    from threadkeep.telemetry import Telemetry

_TRIES: Final = 6
_FIRST_PAUSE_SECONDS: Final = 0.01
_ALIKE: Final = 20


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of an owner before deciding, and the epoch that it belongs to."""

    epoch: str
    record: Item
    head: Item | None
    memories: Mapping[MemoryId, Item]
    foreign: frozenset[str]


class Learning:
    """Turns pending records into memories."""

    def __init__(
        self,
        storage: Storage,
        search: Searcher,
        extractor: Extractor,
        clock: Clock,
        telemetry: Telemetry,
        *,
        ttl: timedelta | None,
    ) -> None:
        self._storage = storage
        self._search = search
        self._extractor = extractor
        self._clock = clock
        self._telemetry = telemetry
        self._ttl = ttl
        self._known = KnownStatements(storage)

    async def learn(self, ref: Ref, owner: Owner) -> bool:
        """Learn from the turn record at *ref*; return whether it was this call that finished it.

        Embedding and extraction happen before and outside the commit. It is one commit, which says
        what it expects of everything that was read; where somebody else wrote first, it is read and
        decided again. Where the owner was erased meanwhile, the work is dropped.

        Raises:
            StorageError: Nothing was written.
            RevisionConflictError: Other writers kept getting in the way; nothing was written.
            Exception: Whatever the extractor raised; nothing was written.
        """
        (item,) = await self._storage.get([ref])
        record = record_of(item) if item else None
        if record is None or record.state != "pending":
            return False
        extracted = (await self._extractor.extract(record.turn, await self._alike(record.turn, owner))).candidates
        candidates = tuple(replace(candidate, text=redact(candidate.text)) for candidate in extracted)
        texts = tuple(dict.fromkeys(candidate.text.strip() for candidate in candidates))
        vectors = _rows(await self._search.embed_put(texts), texts)
        for attempt in range(_TRIES):
            try:
                return await self._finish(ref, owner, candidates, vectors)
            except PartitionErasedError:
                return False
            except RevisionConflictError:
                if attempt == _TRIES - 1:
                    raise
                await asyncio.sleep(_FIRST_PAUSE_SECONDS * 2**attempt)
        return False

    async def _finish(
        self, ref: Ref, owner: Owner, candidates: Sequence[Candidate], vectors: Mapping[str, Embedding]
    ) -> bool:
        read = await self._read(ref, owner, candidates)
        record = record_of(read.record) if read else None
        if read is None or record is None or record.state != "pending":
            return False
        namespace = (shapes.MEMORIES, owner.label)
        known = [memory for item in read.memories.values() if (memory := shapes.memory_of(item)) is not None]
        decisions = rules.reconcile(
            [c for c in candidates if normalised(c.text) not in read.foreign],
            known,
            namespace=namespace,
            now=self._clock.now(),
            similarity=_similarity(vectors, known, read.memories),
            recalled=record.turn.recalled,
        )
        written = rules.writes(decisions, known)
        puts = [self._put(memory, expect, vectors, read.memories) for memory, expect in written]
        finished = done(record, learnt(decisions))
        puts += [
            put_of(finished, owner, due_at=None, expect=read.record.revision),
            Put(
                (shapes.HEAD, owner.label),
                shapes.HEAD_KEY,
                {"turn_id": record.turn.turn_id},
                expect=read.head.revision if read.head else "absent",
            ),
        ]
        await self._storage.commit(Batch(owner.partition, puts, epoch=read.epoch))
        self._count(decisions, record)
        return True

    async def _read(self, ref: Ref, owner: Owner, candidates: Sequence[Candidate]) -> _Read | None:
        """Read everything that the decision rests on; the epoch and the head first."""
        partition = owner.partition
        namespace = (shapes.MEMORIES, owner.label)
        position = await self._storage.position(partition)
        record, head = await self._storage.get([ref, Ref(partition, (shapes.HEAD, owner.label), shapes.HEAD_KEY)])
        if record is None:
            return None
        places = await self._known.places(partition, [candidate.text for candidate in candidates])
        own = {(namespace, rules.memory_id_of(c.source.turn_id, c.kind, c.text)) for c in candidates}
        refs = [Ref(partition, *place) for place in sorted(places | own)]
        items = [item for item in await self._storage.get(refs) if item is not None]
        memories = {MemoryId(item.ref.key): item for item in items if is_ours(item, namespace)}
        foreign = [shapes.memory_of(item) for item in items if not is_ours(item, namespace)]
        return _Read(
            position.epoch, record, head, memories, frozenset(normalised(m.text) for m in foreign if m is not None)
        )

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
        said = "\n".join(message.text for message in turn.messages if message.role == "user")
        if not self._extractor.uses_known or not said:
            return []
        found = await self._search.ranking(
            owner.partition, said, prefixes=shapes.memory_namespaces(owner.label), limit=_ALIKE
        )
        items = await self._storage.get([Ref(owner.partition, hit.namespace, hit.key) for hit in found.hits])
        return [memory for item in items if item and (memory := shapes.memory_of(item))]

    def _count(self, decisions: Sequence[rules.Decision], record: TurnRecord) -> None:
        self._telemetry.count("capture.processed")
        for decision in decisions:
            self._telemetry.count(f"capture.{type(decision).__name__.lower()}")
        if record.tries:
            self._telemetry.count("capture.retried")


def learnt(decisions: Sequence[rules.Decision]) -> tuple[MemoryId, ...]:
    """Return the memories that *decisions* made, changed or found again, each once."""
    return tuple(dict.fromkeys(d.memory.memory_id for d in decisions if not isinstance(d, rules.Reject)))


def _rows(embedding: Embedding | None, texts: Sequence[str]) -> dict[str, Embedding]:
    if embedding is None:
        return {}
    width = embedding.dims * 4
    return {
        text: replace(embedding, data=embedding.data[place * width : (place + 1) * width])
        for place, text in enumerate(texts)
    }


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

    def cosine(one: str, other: str) -> float:
        a, b = by_text.get(one), by_text.get(other)
        if a is None or b is None or a.model != b.model or a.dims != b.dims:
            return float(content_words(one) == content_words(other))
        return max(0.0, sum(x * y for x, y in zip(_floats(a), _floats(b), strict=True)))

    return cosine


def _floats(embedding: Embedding) -> array[float]:
    floats = array("f", embedding.data)
    if sys.byteorder == "big":
        floats.byteswap()
    return floats
