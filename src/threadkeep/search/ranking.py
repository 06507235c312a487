"""Rank the items of one partition for a query, over an immutable snapshot of its index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

import numpy as np

from threadkeep.memories.codec import is_memory_namespace
from threadkeep.search.conversations import NONE
from threadkeep.search.scoring import (
    OF_ANOTHER_DAY,
    WEIGHTS,
    Candidates,
    Hits,
    best,
    closeness,
    near_dates,
    near_events,
    penalty_for_others,
    recency,
    said_by,
    similarity,
)
from threadkeep.search.vectors import unit
from threadkeep.storage.interface import Namespace
from threadkeep.text.tokenizing import tokenise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.memories.models import Memory
    from threadkeep.search.conversations import ConversationsSnapshot
    from threadkeep.search.index import StatementKeys, Values
    from threadkeep.search.lexical import PostingsSnapshot
    from threadkeep.search.query import Query
    from threadkeep.search.scoring import Spread
    from threadkeep.search.vectors import Rows
    from threadkeep.search.vectorstores.base import NearItem
    from threadkeep.text.tokenizing import Language

_Scalar = TypeVar("_Scalar", bound=np.generic)

COSINE_DECIMALS: Final = 6
_COSINE_STEPS: Final = 10.0**COSINE_DECIMALS
_FEW: Final = 8
"""Below an eighth of the items, their vectors are gathered before they are multiplied."""

_PREFIXES_CACHED: Final = 8

Method: TypeAlias = Literal["hybrid", "dense", "lexical"]
Subject: TypeAlias = Literal["participant", "known", "unknown"]
"""The person a question names: a participant, a name that is kept, or only names that are not."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What was found for a question.

    Attributes:
        hits: Best first.
        degraded: What could not be used, so that only words were compared: ``embedder``, or ``vectors`` where a
            vector engine is down or late.
        subject: The person the question names; ``None``: it names none.
        closest: How close the closest hit is to the question, in [0, 1], wherever it stands.
        by_words: Whether nothing but words was compared.
        alike: Cosines of the first hits with each other, shape ``(n, n)``, where that was asked for.
        index: The snapshot that was searched.
    """

    hits: Hits
    degraded: tuple[str, ...] = ()
    subject: Subject | None = None
    closest: float = 0.0
    by_words: bool = False
    alike: NDArray[np.float32] | None = field(default=None, compare=False)
    index: IndexSnapshot | None = field(default=None, compare=False, repr=False)

    def memories(self, places: Sequence[int]) -> dict[int, Memory | None]:
        """Return the memories at *places* of the hits, by place; ``None`` for what is no memory.

        What only the storage has, or is gone, is left out.
        """
        if self.index is None:
            return dict.fromkeys(places)
        slots = self.hits.slots_at(places)
        memories = self.index.values.memories(slots, self.index)
        return {place: memories[slot] for place, slot in zip(places, slots, strict=True) if slot in memories}

    def beside(self, place: int) -> tuple[Memory | None, Memory | None]:
        """Return what was said before and after the hit at *place* in its session; ``None`` if it is not indexed."""
        return self.index.beside(*self.hits.slots_at([place])) if self.index is not None else (None, None)


@dataclass(frozen=True, slots=True, eq=False)
class EngineHits:
    """What an engine has found near a question.

    Attributes:
        cosines: Of each slot with the question, and with the question without its names: NaN where the engine did
            not name it, because others are nearer. ``None``: not asked for.
        spread: Mean and standard deviation of each in the partition, by a sample.
    """

    cosines: tuple[NDArray[np.float64], NDArray[np.float64] | None]
    spread: tuple[Spread, Spread | None]


@dataclass(frozen=True, eq=False)
class IndexSnapshot:
    """The index of one partition at one moment: searched from any thread, while the index changes.

    Its arrays never change. Its dictionaries and lists are shared with the index, which only adds to them;
    what is newer than the snapshot is skipped.

    Attributes:
        names: Namespace and key of each slot.
        slots: The slot of each item's newest version.
        alive: Which slots are items, ``bool``, shape ``(slots,)``.
        revisions: Of each item.
        updated_at: Of each item, seconds since 1970.
        starts: First row of each slot.
        namespace_of: Number of each slot's namespace.
        namespaces_below: For each prefix, the numbers of the namespaces that begin with it.
        namespace_count: How many namespaces the snapshot knows.
        vectors: Of all texts; ``None``: none were seen.
        postings: Of all texts.
        conversations: Where each item was said.
        values: Of the memories among the items.
        statements: Their secondary keys, as far as computed.
        next_expiry: From when on an item is expired, seconds since 1970.
        language: What all texts are in; ``None``: each in its own.
    """

    names: list[tuple[Namespace, str]]
    slots: Mapping[tuple[Namespace, str], int]
    alive: NDArray[np.bool_]
    revisions: NDArray[np.int64]
    updated_at: NDArray[np.float64]
    starts: NDArray[np.int64]
    namespace_of: NDArray[np.int32]
    namespaces_below: Mapping[Namespace, Sequence[int]]
    namespace_count: int
    vectors: Rows | None
    postings: PostingsSnapshot
    conversations: ConversationsSnapshot
    values: Values
    statements: StatementKeys
    next_expiry: float
    language: Language | None
    _selected: dict[tuple[Namespace, ...], NDArray[np.intp] | None] = field(default_factory=dict)

    @property
    def participants(self) -> tuple[str, ...]:
        """The names of the speakers in the partition's conversations."""
        return self.conversations.participants

    @property
    def dims(self) -> int | None:
        """The length of the vectors; ``None``: not known yet."""
        return None if self.vectors is None else self.vectors.numbers.shape[1]

    @property
    def rows(self) -> int:
        """How many texts are compared at each search."""
        return len(self.postings.marked)

    @cached_property
    def standing(self) -> NDArray[np.float64]:
        """The query-independent part of each slot's score: trust, pinned, recency."""
        standing = self.conversations.standing.astype(np.float64)
        standing[self.alive] += WEIGHTS.recency * recency(self.updated_at[self.alive])
        return standing

    def search(
        self,
        query: Query,
        vector: NDArray[np.float32] | None = None,
        *,
        aspect: NDArray[np.float32] | None = None,
        prefixes: Sequence[Namespace] = ((),),
        threads: Sequence[str] = (),
        method: Method = "hybrid",
        limit: int | None,
        compared: int = 0,
        far: EngineHits | None = None,
    ) -> Ranking:
        """Return the *limit* best items, best first; all of them, if there are fewer.

        For ``dense`` the score is the cosine, and items without a vector come last with a score of -1;
        for ``lexical`` it is BM25 as a share. Equals are ordered newest revision first, then by
        namespace and key.

        Args:
            query: The query.
            vector: Of the query, shape ``(dims,)``; ``None``: compare words only.
            aspect: Of the query without its names; ``None``: it has none.
            prefixes: Only items in namespaces that begin with one of these.
            threads: The conversation in progress, and those it branched off.
            method: The signals to use.
            limit: The number of hits; ``None``: all.
            compared: The number of first hits to compare with each other.
            far: The nearest items by a vector engine; then *vector* and *aspect* are its own.
        """
        search = _Search(self, query, self._slots_below(tuple(prefixes)))
        lexical = search.of_items(self.postings.query(query.terms).score())
        names = search.holding_names() if method == "hybrid" else []
        cosine, aspect_cosine = None, None
        if method != "lexical":
            cosine, aspect_cosine = search.cosines(vector, aspect if method == "hybrid" else None, far)
        if method == "hybrid":
            spread = far.spread if far is not None else (None, None)
            near = similarity(Candidates(cosine, lexical, aspect_cosine, spread))
            order_by = search.fused(near, names, threads)
        elif method == "lexical":
            order_by = lexical
        else:
            order_by = np.full(len(lexical), -1.0) if cosine is None else np.where(np.isnan(cosine), -1.0, cosine)
        places = best(order_by, search.picked(self.revisions), limit)
        slots = places if search.slots is None else search.slots[places]
        strength, lexical, cosine = order_by[places], lexical[places], None if cosine is None else cosine[places]
        hits = Hits(
            self.names,
            slots,
            strength=strength,
            revisions=self.revisions[slots],
            closeness=closeness(cosine, lexical) if method == "hybrid" else strength,
            cosine=cosine,
            lexical=lexical,
            limit=limit,
        )
        return Ranking(
            hits,
            subject=search.subject(names) if method == "hybrid" else None,
            closest=float(hits.closeness.max()) if len(places) else 0.0,
            by_words=cosine is None,
            alike=self._alike(hits, compared) if compared else None,
            index=self,
        )

    def far(self, near: Sequence[Sequence[NearItem]], spread: Sequence[Spread]) -> EngineHits:
        """Place the results of a vector engine in the slots of their items; items changed since are skipped.

        Args:
            near: For the query, and for its aspect if it has one.
            spread: For each, the mean and standard deviation of the cosines in the partition.
        """
        cosines: list[NDArray[np.float64]] = []
        for results in near:
            column = np.full(len(self.alive), np.nan)
            for result in results:
                slot = self.slots.get((result.namespace, result.key))
                if slot is not None and slot < len(column) and self.revisions.item(slot) == result.revision:
                    column[slot] = round(min(result.cosine, 1.0), COSINE_DECIMALS)
            cosines.append(column)
        more = len(cosines) > 1
        return EngineHits((cosines[0], cosines[1] if more else None), (spread[0], spread[1] if more else None))

    def beside(self, slot: int) -> tuple[Memory | None, Memory | None]:
        """Return the memories before and after *slot* in its session; ``None`` if there is none, or not here."""
        order, follows = self.conversations.order, self.conversations.neighbours.follows
        found = np.flatnonzero(order == slot)
        if not len(found):
            return None, None
        at = int(found[0])
        before = int(order[at - 1]) if at and follows[at] else None
        after = int(order[at + 1]) if at + 1 < len(order) and follows[at + 1] else None
        memories = self.values.memories([slot for slot in (before, after) if slot is not None], self)
        return (
            None if before is None else memories.get(before),
            None if after is None else memories.get(after),
        )

    def unkeyed(self) -> list[int]:
        """Return the slots of the memories without secondary keys so far."""
        return [
            slot
            for slot in range(self.statements.keyed_to, len(self.alive))
            if self.alive[slot] and is_memory_namespace(self.names[slot][0])
        ]

    def key(self, slots: Sequence[int]) -> list[int]:
        """Compute the secondary keys of the memories in *slots*; return those that only the storage has."""
        memories = self.values.memories(slots, self)
        for slot, memory in memories.items():
            if memory is not None:
                self.statements.add(slot, memory)
        return [slot for slot in slots if slot not in memories]

    def find_statements(self, texts: Iterable[str]) -> set[tuple[Namespace, str]]:
        """Return where the memories are that may say the same as one of *texts*, or fill the same slot."""
        slots = {slot for text in texts for slot in self.statements.find(text)}
        return {self.names[slot] for slot in slots if slot < len(self.alive) and self.alive[slot]}

    def _slots_below(self, prefixes: tuple[Namespace, ...]) -> NDArray[np.intp] | None:
        """Return the slots of the items below one of *prefixes*; ``None``: all slots."""
        if prefixes not in self._selected:
            if len(self._selected) >= _PREFIXES_CACHED:
                self._selected.clear()
            self._selected[prefixes] = self._below_any(prefixes)
        return self._selected[prefixes]

    def _below_any(self, prefixes: Sequence[Namespace]) -> NDArray[np.intp] | None:
        mask = self.alive
        allowed = np.zeros(self.namespace_count, np.bool_)
        for prefix in prefixes:
            numbers = np.array(self.namespaces_below.get(prefix, ()), np.intp)
            allowed[numbers[numbers < self.namespace_count]] = True
        if not allowed.all():
            mask = mask & allowed[self.namespace_of]
        elif np.count_nonzero(mask) == len(mask):
            return None
        return mask.nonzero()[0]

    def _alike(self, hits: Hits, first: int) -> NDArray[np.float32] | None:
        """Return the cosines of the *first* hits with each other, by the first text of each; ``None``: no vectors."""
        if self.vectors is None:
            return None
        vectors = self.vectors.at(self.starts[hits.slots(first)]).floats()
        return np.vecdot(vectors[:, None], vectors[None])


class _Search:
    """The signals of one search.

    Args:
        index: The snapshot.
        query: The query.
        slots: Of the items to rank; ``None``: all slots.
    """

    def __init__(self, index: IndexSnapshot, query: Query, slots: NDArray[np.intp] | None) -> None:
        self.slots = slots
        self._index = index
        self._query = query
        self._people = query.named(index.participants)
        self._has_parts = len(index.starts) != index.rows

    def subject(self, names: Sequence[NDArray[np.intp]]) -> Subject | None:
        """Return whom the query names."""
        if self._people:
            return "participant"
        if not names:
            return None
        if any(map(len, names)):
            return "known"
        return None if self._query.first_person else "unknown"  # of themselves a user may say something new

    def holding_names(self) -> list[NDArray[np.intp]]:
        """Return for each name in the query, other than the participants', the places of the items that hold it."""
        language, postings = self._index.language, self._index.postings
        terms = [
            [term for word in name if word not in self._people for term in tokenise(word, language)]
            for name in self._query.names
        ]
        return [self._holding(postings.holding(name)) for name in terms if name]

    def fused(
        self, near: NDArray[np.float64], names: Sequence[NDArray[np.intp]], threads: Sequence[str]
    ) -> NDArray[np.float64]:
        """Return what to order the ranked items by, higher first.

        Args:
            near: How like the query each is.
            names: Which hold which name.
            threads: The conversation in progress, and those it branched off.
        """
        index, talk, query = self._index, self._index.conversations, self._query
        if self.slots is None:
            fused = talk.neighbours.smoothed(near)
        else:
            of_all = np.zeros(len(index.alive))  # what is not ranked stands at the mean
            of_all[self.slots] = near
            fused = talk.neighbours.smoothed(of_all)[self.slots]
        fused += self.picked(index.standing)
        for places in names:
            fused[places] += WEIGHTS.name / len(names)
        speakers = set(self._people.values())
        if len(speakers) == 1:
            label = talk.label_numbers.get(speakers.pop(), NONE)
            fused += WEIGHTS.speaker * said_by(self.picked(talk.labels), label)
        if query.first_person and not self._people:
            fused += WEIGHTS.speaker * penalty_for_others(self.picked(talk.said.roles))
        if query.dates or query.periods:
            first, last = map(self.picked, talk.events.days(len(index.alive)))
            near_one = near_events(first, last, (*query.dates, *query.periods))
            if query.dates:
                near_saying = near_dates(self.picked(talk.said.said_at), query.dates)
                near_saying[~np.isnan(first)] *= OF_ANOTHER_DAY
                np.maximum(near_one, near_saying, out=near_one)
            fused += WEIGHTS.date * near_one
        if query.when:
            fused += WEIGHTS.when * self.of_items(index.postings.marked.astype(np.float64))
        if threads:
            numbers = self.picked(talk.said.threads)
            for number in {talk.thread_numbers.get(thread, NONE - 1) for thread in threads}:
                fused += WEIGHTS.branch * (numbers == number)
        return fused

    def picked(self, of_slots: NDArray[_Scalar]) -> NDArray[_Scalar]:
        """Reduce a column of all slots to the ranked items."""
        return of_slots if self.slots is None else of_slots[self.slots]

    def of_items(self, of_rows: NDArray[_Scalar]) -> NDArray[_Scalar]:
        """Reduce a signal of texts to the ranked items: the best text counts."""
        starts = self._index.starts
        if len(of_rows) != len(starts):
            of_rows = np.maximum.reduceat(of_rows, starts)
        return of_rows if self.slots is None else of_rows[self.slots]

    def _holding(self, rows: NDArray[np.int32]) -> NDArray[np.intp]:
        """Return the places of the ranked items that have one of *rows*, which are ascending."""
        slots: NDArray[np.intp] = rows.astype(np.intp)
        if self._has_parts:
            slots = np.unique(self._index.starts.searchsorted(slots, "right") - 1)
        if self.slots is None:
            return slots
        places = self.slots.searchsorted(slots)
        return places[self.slots.take(places, mode="clip") == slots] if len(self.slots) else places[:0]

    def cosines(
        self, vector: NDArray[np.float32] | None, aspect: NDArray[np.float32] | None, far: EngineHits | None
    ) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        """Return the cosines of each ranked item with both, NaN without a vector; ``None``: none has one."""
        if far is not None:
            cosine, others = self.picked(far.cosines[0]), far.cosines[1]
            if np.isnan(cosine).all():
                return None, None
            return cosine, None if others is None or aspect is None else self.picked(others)
        vectors = self._index.vectors
        if vectors is None or vector is None or len(vector) != vectors.numbers.shape[1]:
            return None, None
        asked = np.array((unit(vector),) if aspect is None else (unit(vector), unit(aspect)))
        rows = len(vectors)
        of_items = self.slots is not None and len(self._index.starts) == rows and len(self.slots) * _FEW < rows
        if self.slots is not None and of_items:
            vectors = vectors.at(self.slots)
        # What np.round does, and the only passes over all of them that are needed.
        cosines = np.multiply(vectors.products(asked), _COSINE_STEPS, dtype=np.float64)
        np.rint(cosines, out=cosines)
        cosines /= _COSINE_STEPS
        np.minimum(cosines, 1.0, out=cosines)
        missing = np.count_nonzero(vectors.present) < len(vectors)  # a tenth of what all() costs
        if missing:
            cosines[:, ~vectors.present] = -np.inf
        each = [row if of_items else self.of_items(row) for row in cosines]
        if missing:
            without = np.isneginf(each[0])
            if without.all():
                return None, None
            for row in each:
                row[without] = np.nan
        return each[0], each[1] if aspect is not None else None
