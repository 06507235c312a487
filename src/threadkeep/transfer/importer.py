"""What a foreign item becomes: its owner, its namespace and its searchable fields; and what came of it. Pure rules.

A user id that holds a period is no LangGraph label, so programs have replaced the periods by ``_``,
and ``a_b@x_org`` may be ``a.b@x.org`` or itself. Nothing is guessed: a label with ``_`` is taken as a user
id only where a mapping says so, or where it is said that labels are ids. One without ``_`` is what it says.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from threadkeep.errors import InvalidInputError
from threadkeep.identity import OWNED_ROOTS, Owner, owner_of_label, partition_of
from threadkeep.ids import ProposalId, short_digest
from threadkeep.memories.codec import is_memory_namespace, memory_of, searchable_paths, spell_approval
from threadkeep.memories.kinds import ruled_kind
from threadkeep.memories.models import Approval, Memory
from threadkeep.proposals.models import PROPOSALS, Proposal, proposal_put
from threadkeep.storage.encoding import check_key, check_namespace, encode_value, to_micros
from threadkeep.storage.interface import Embedding, Item, Namespace, Partition, Put, Ref, same_put

_MICROSECOND: Final = timedelta(microseconds=1)
_BYTES: Final = 32
_MODULUS: Final = 1 << (8 * _BYTES)


@dataclass(frozen=True, slots=True)
class TransferItem:
    """An item on its way from one place to another: what its put will write, moments included.

    Attributes:
        partition: What it belongs to, in the target.
        put: ``created_at`` and ``updated_at`` are given, and ``expires_at`` where there is a ``ttl``.
    """

    partition: Partition
    put: Put

    @property
    def ref(self) -> Ref:
        """Where it will be."""
        return Ref(self.partition, self.put.namespace, self.put.key)

    def spelled(self, *, vectors: bool = True) -> bytes:
        """Return everything that it is, as bytes that are the same on every storage.

        The revision is not part of it: that is how far a partition has come, there and here.
        """
        put = self.put
        due = put.due and [put.due.kind, to_micros(put.due.at)]
        told: list[Any] = [
            self.partition.kind,
            self.partition.parts,
            put.namespace,
            put.key,
            put.value,
            put.index,
            None if put.created_at is None else to_micros(put.created_at),
            None if put.updated_at is None else to_micros(put.updated_at),
            None if put.ttl is None else put.ttl // _MICROSECOND,
            None if put.expires_at is None else to_micros(put.expires_at),
            due,
            _spelled_embedding(put.embedding) if vectors else None,
        ]
        if put.data is not None:
            told.append(hashlib.sha256(put.data).hexdigest())
        data = put.embedding.data if vectors and put.embedding else b""
        return json.dumps(told, sort_keys=True, separators=(",", ":")).encode("ascii") + data


def entry_of(item: Item) -> TransferItem:
    """Return *item* as an entry that writes the same one."""
    return TransferItem(item.ref.partition, replace(same_put(item), expect="any"))


@dataclass(slots=True)
class Tally:
    """How many entries there were, and a checksum over them that does not depend on their order.

    The checksum is the sum of the entries' SHA-256, modulo 2²⁵⁶: two storages have the same one where
    they hold the same entries, whatever they are and however they are ordered.
    """

    count: int = 0
    _sum: int = 0

    def add(self, spelled: bytes) -> None:
        """Count an entry that is :meth:`TransferItem.spelled` so."""
        self.count += 1
        self._sum = (self._sum + int.from_bytes(hashlib.sha256(spelled).digest(), "big")) % _MODULUS

    @property
    def checksum(self) -> str:
        """64 hexadecimal digits."""
        return self._sum.to_bytes(_BYTES, "big").hex()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that was not taken over, and why; the place, never the text."""

    namespace: Namespace
    key: str
    reason: str


@dataclass(slots=True)
class Copied:
    """What copying came to.

    Attributes:
        source: Where from, for people.
        target: Where to.
        dry_run: Whether nothing was written.
        resumed: Whether an interrupted copy was gone on with.
        partitions: Owners and other partitions that were met.
        read: Entries of the source.
        written: Of them, written now.
        present: Of them, there already, the same.
        differing: Of them, there already with another content, which was left as it is.
        without_vectors: Searchable entries without vectors of the embedder in use; ``re-embed`` makes them.
        shapes: How many entries of which shape; of foreign sources only.
        left_out: What could not be taken over.
        checksum: Over what was read, as it is to be in the target.
        verified: Entries that were read back and found to be the same.
        unequal: Entries that were read back and found otherwise, or not at all.
    """

    source: str
    target: str
    dry_run: bool = False
    resumed: bool = False
    partitions: int = 0
    read: int = 0
    written: int = 0
    present: int = 0
    differing: int = 0
    without_vectors: int = 0
    shapes: dict[str, int] = field(default_factory=dict[str, int])
    left_out: list[LeftOut] = field(default_factory=list[LeftOut])
    checksum: str = ""
    verified: int = 0
    unequal: int = 0

    @property
    def complete(self) -> bool:
        """Whether everything that was read is in the target, or would be."""
        return not self.left_out and not self.unequal and not self.differing


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Something that is not as it must be; the place, never the text.

    Attributes:
        what: Stable name, e.g. ``vector_shape``.
        namespace: Where it is.
        key: Which item; empty: all of them.
        detail: One sentence that says what to do.
    """

    what: str
    namespace: Namespace
    key: str
    detail: str


@dataclass(slots=True)
class Checked:
    """What checking came to.

    Attributes:
        partitions: How many.
        items: How many, in all of them.
        searchable: Items that a query may find.
        vectors: Searchable items by the model and dimensions of their vectors, ``none`` for those without.
        checksum: Over all items; see :class:`Tally`.
        wrong: What is not as it must be; at most 100 of each kind.
        counts: How many of each kind there are.
        advice: Sentences about what works and could be better.
    """

    partitions: int = 0
    items: int = 0
    searchable: int = 0
    vectors: dict[str, int] = field(default_factory=dict[str, int])
    checksum: str = ""
    wrong: list[Discrepancy] = field(default_factory=list[Discrepancy])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    advice: list[str] = field(default_factory=list[str])

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.counts


@dataclass(slots=True)
class Embedded:
    """What embedding anew came to.

    Attributes:
        model: The model of the vectors now.
        searchable: Items that a query may find.
        current: Of them, had vectors of this model already.
        embedded: Of them, were given some.
        changed: Of them, changed three times by other writers meanwhile; run it again.
    """

    model: str
    searchable: int = 0
    current: int = 0
    embedded: int = 0
    changed: int = 0


def _spelled_embedding(embedding: Embedding | None) -> list[Any] | None:
    return None if embedding is None else [embedding.model, embedding.dims]


LOSSY: Final = "_"
"""What a period became in labels."""

WHOLE: Final = ("$",)
"""An item that is no memory is found by all of its value, as in LangGraph's stores."""

_OURS: Final = "~tk~"
_WAITS: Final = timedelta(days=36_500)
"""Imported proposals do not expire: counted from now, each run would write another proposal."""
_LATEST: Final = datetime.max.replace(tzinfo=UTC) - _WAITS


class LeftOutError(Exception):
    """A foreign item is not taken over; says why. It never leaves this room."""


class UnmappedLabelError(LeftOutError):
    """A label may stand for more than one user id, and nothing says for which.

    Args:
        label: The label.
    """

    def __init__(self, label: str) -> None:
        super().__init__(f"the label {label[:80]!r} may have lost its periods; say in --mapping which user id it is")
        self.label = label


@dataclass(frozen=True, slots=True)
class ForeignItem:
    """An item as a stock store keeps it; moments are aware.

    Attributes:
        namespace: Labels.
        key: Within it.
        value: A JSON object.
        created_at: When it was first put.
        updated_at: When it was last put.
        ttl: How long it lives after a put or a read.
        expires_at: When it ends; given with *ttl*.
    """

    namespace: Namespace
    key: str
    value: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime
    ttl: timedelta | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Labels:
    """Who is meant by a label.

    Attributes:
        mapping: Owners by label; ``None`` leaves out what belongs to the label.
        exact: Whether labels are user ids as they are.
    """

    mapping: Mapping[str, Owner | None]
    exact: bool = False

    def __post_init__(self) -> None:
        """Refuse a mapping that exchanges users: ``{"a_b": "c_d", "c_d": "a_b"}``.

        Raises:
            InvalidInputError: It goes in a circle.
        """
        for label in self.mapping:
            passed, here = [label], self._other_label(label)
            while here is not None and here not in passed:
                passed.append(here)
                here = self._other_label(here)
            if here is not None:
                circle = " → ".join([*passed, here])
                msg = f"The mapping goes in a circle ({circle[:200]}), which would exchange users; correct it."
                raise InvalidInputError(msg)

    def _other_label(self, label: str) -> str | None:
        """Return the user id of *label* where it is another label of the mapping."""
        owner = self.mapping.get(label)
        return owner.user_id if owner is not None and owner.user_id != label and owner.user_id in self.mapping else None

    def owner(self, label: str) -> Owner:
        """Return the owner of *label*.

        Raises:
            UnmappedLabelError: It may belong to several people.
            LeftOutError: The mapping leaves it out, or it is no owner's.
        """
        if label in self.mapping:
            owner = self.mapping[label]
            if owner is None:
                msg = f"the mapping leaves out {label[:80]!r}"
                raise LeftOutError(msg)
            return owner
        if label.startswith(_OURS):
            owner = owner_of_label(label)
            if owner is None:
                msg = f"{label[:80]!r} looks like a label of Threadkeep, but is not valid"
                raise LeftOutError(msg)
            return owner
        if LOSSY in label and not self.exact:
            raise UnmappedLabelError(label)
        try:
            return Owner(label)
        except InvalidInputError as error:
            raise LeftOutError(str(error)) from error


def mapping_of(text: str) -> dict[str, Owner | None]:
    """Read a mapping file: a JSON object with labels, or ids of threads, as keys.

    A value is a user id, ``{"user_id": …, "tenant": …}``, or ``null``, which leaves out what the key names.

    Raises:
        InvalidInputError: It is something else, or a key stands there twice.
    """
    try:
        read: object = json.loads(text, object_pairs_hook=_unique_keys)
    except ValueError as error:
        msg = f"The mapping is no JSON object ({error}): write labels or thread ids, and the user id of each."
        raise InvalidInputError(msg) from error
    if not isinstance(read, dict):
        msg = 'The mapping is no JSON object: write {"label or thread id": "user id"}.'
        raise InvalidInputError(msg)
    return {label: _mapped(label, meant) for label, meant in cast("dict[str, object]", read).items()}


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    counted = Counter(name for name, _ in pairs)
    if twice := [name for name, count in counted.items() if count > 1]:
        msg = f"The mapping names {twice[0][:60]!r} twice; name it once."
        raise InvalidInputError(msg)
    return dict(pairs)


def arrived(item: ForeignItem, labels: Labels, approval: Approval | None = None) -> TransferItem:
    """Return the entry that *item* becomes, without vectors.

    A memory that needs an approval and names none is approved by *approval*; without one it becomes a proposal.

    Raises:
        LeftOutError: It cannot be taken over, or has no owner.
    """
    match item.namespace:
        case (root, label, *below) if root in OWNED_ROOTS:
            namespace: Namespace = (root, labels.owner(label).label, *below)
        case other:
            namespace = other
    if "".join(namespace[:1]).startswith("."):
        msg = "its first label begins with a period, which is kept for Threadkeep's own"
        raise LeftOutError(msg)
    try:
        check_namespace(namespace)
        check_key(item.key)
        value: dict[str, Any] = json.loads(encode_value(item.value))
    except InvalidInputError as error:
        raise LeftOutError(str(error)) from error
    if asked := _asked(namespace, item, value):
        if approval is None:
            return _proposed(namespace, item, asked)
        value["approval"] = spell_approval(approval)
    paths, pinned = searchable_paths(namespace, item.key, value)
    ttl = None if pinned else item.ttl
    put = Put(
        namespace,
        item.key,
        value,
        index=paths if paths is not None else WHOLE,
        ttl=ttl,
        created_at=item.created_at,
        updated_at=max(item.created_at, item.updated_at),  # MongoDBStore takes the time of creation last
        expires_at=item.expires_at if ttl else None,
    )
    return TransferItem(partition_of(namespace), put)


def _asked(namespace: Namespace, item: ForeignItem, value: dict[str, Any]) -> Memory | None:
    """Return the memory of *value* if it needs an approval and has none."""
    if not is_memory_namespace(namespace) or value.get("status") == "proposed":
        return None
    ref = Ref(partition_of(namespace), namespace, item.key)
    memory = memory_of(Item(ref, value, 0, item.created_at, item.updated_at))
    if memory is None:
        return None
    asks = memory.approval is None and ruled_kind(memory.kind, memory.text) == "procedural"
    return memory if memory.status == "proposed" or (memory.status == "active" and asks) else None


def _proposed(namespace: Namespace, item: ForeignItem, memory: Memory) -> TransferItem:
    """Return the proposal to keep *memory*: the same one whenever the same is moved in."""
    owner = owner_of_label(namespace[1])
    if owner is None:
        msg = "it needs an approval and has no owner who could be asked"
        raise LeftOutError(msg)
    proposal = Proposal(
        proposal_id=ProposalId(short_digest("moved in", *namespace, item.key)),
        action="add",
        text=memory.text,
        kind=ruled_kind(memory.kind, memory.text) if memory.kind == "semantic" else memory.kind,
        sources=memory.sources,
        trust=memory.trust,
        reason="imported without an approval",
        memory_id=memory.memory_id,
        base_revision=None,
        base_text=None,
        created_at=item.created_at,
        expires_at=min(item.created_at, _LATEST) + _WAITS,
    )
    put = proposal_put(proposal, owner, expect="any")
    return TransferItem(owner.partition, replace(put, created_at=item.created_at, updated_at=item.created_at))


def shape_of(namespace: Namespace, value: Mapping[str, Any]) -> str:
    """Return how *value* is spelled, in words of ``docs/moving-in.md``."""
    if namespace[:1] == (PROPOSALS,):
        return "proposal: it waits for approval"
    if not is_memory_namespace(namespace):
        return "summary" if namespace[:1] == ("summaries",) else "item"
    match value:
        case {"data": str()}:
            shape = "data"
        case {"text": str()}:
            shape = "text and type"
        case {"content": dict()}:
            shape = "LangMem's manager"
        case {"content": str()}:
            shape = "LangMem's tool"
        case _:
            shape = "without a statement"
    return f"memory: {shape}"


def _mapped(label: str, meant: object) -> Owner | None:
    match meant:
        case None:
            return None
        case str():
            return Owner(meant)
        case {"user_id": str() as user_id, "tenant": str() as tenant}:
            return Owner(user_id, tenant)
        case {"user_id": str() as user_id}:
            return Owner(user_id)
        case _:
            msg = (
                f'The mapping of {label[:80]!r} is neither a user id, nor {{"user_id", "tenant"}}, '
                "nor null, which leaves it out."
            )
            raise InvalidInputError(msg)
