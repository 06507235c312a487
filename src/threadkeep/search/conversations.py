"""Where items stand in conversations: who said them when, the days they tell of, and the items beside them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from threadkeep.search.scoring import ASSISTANT, DOCUMENT, OTHER, TOOL, USER, WEIGHTS, Weights, runs
from threadkeep.search.vectors import Column, total_bytes
from threadkeep.text.dates import MAX_CHARACTERS, event_in, may_tell_of_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.storage.interface import Namespace
    from threadkeep.text.dates import Span


SESSION_GAP_SECONDS: Final = 6 * 3600.0
"""After so long a silence a thread goes on as another session. In LoCoMo, sessions are days apart."""

_ROLES: Final = {"user": USER, "assistant": ASSISTANT, "tool": TOOL, "document": DOCUMENT}
_TRUST: Final = {"user": 1.0, "import": 0.75, "document": 0.5, "tool": 0.25, "assistant": 0.0}
LABEL: Final = re.compile(r"\s{0,3}([^\W\d_][\w.'’-]{0,63}(?: [^\W\d_][\w.'’-]{0,63}){0,2}):\s")
"""The name that a text begins with, as in ``Name: …``; the first group."""
_LONGEST_LABEL: Final = 64
_END_CHARACTERS: Final = 80
_NOTHING: Final[Mapping[str, Any]] = {}

_FEW: Final = 512
"""So many new items are put into their places; more are sorted with all others."""


class Traits(NamedTuple):
    """What is known of some items: place *i* of each field is one item's.

    Attributes:
        threads: The conversation that it is from; ``None``: none.
        said_at: When it was said, seconds since 1970.
        roles: Who said it: one of this module's numbers.
        trust: How far its speaker is trusted, in [0, 1].
        pinned: Whether it is pinned.
        labels: The name of who said it, where the text begins with ``Name: ``; empty otherwise.
        asks: Whether it ends in a question.
        dated: The beginning of its text, where that may tell of a day; empty otherwise.
    """

    threads: list[str | None]
    said_at: list[float]
    roles: list[int]
    trust: list[float]
    pinned: list[bool]
    labels: list[str]
    asks: list[bool]
    dated: list[str]


def traits_of(
    values: Sequence[Mapping[str, Any]], texts: Sequence[Sequence[str]], created_at: Sequence[float]
) -> Traits:
    """Read the traits of some items, whatever others may have put into their values.

    Args:
        values: Of memories or something else.
        texts: Of each, its searchable texts.
        created_at: When each was made, seconds since 1970.
    """
    # Field by field: one loop over the items, with a list for each field, takes a third longer.
    sources = [_first(value.get("sources")) for value in values]
    threads = [
        source.get("thread_id") or value.get("source_thread") for source, value in zip(sources, values, strict=True)
    ]
    speakers, trusted = [source.get("speaker") for source in sources], [value.get("trust") for value in values]
    said_at = list(map(_said_at, sources, values, created_at))
    firsts = [own[0] if own else "" for own in texts]
    ends = [text[-_END_CHARACTERS:] for text in firsts]
    return Traits(
        threads=[thread if isinstance(thread, str) else None for thread in threads],
        said_at=said_at,
        roles=[_ROLES.get(speaker, OTHER) if isinstance(speaker, str) else OTHER for speaker in speakers],
        trust=[_TRUST.get(trust, 0.0) if isinstance(trust, str) else 0.0 for trust in trusted],
        pinned=[value.get("pinned") is True for value in values],
        labels=[label[1] if ": " in text[:_LONGEST_LABEL] and (label := LABEL.match(text)) else "" for text in firsts],
        asks=["?" in end or "？" in end or "؟" in end for end in ends],
        dated=[text[:MAX_CHARACTERS] if may_tell_of_time(text) else "" for text in firsts],
    )


def _first(sources: object) -> Mapping[str, Any]:
    """Return the first of a value's *sources*; nothing where that is no such thing."""
    if isinstance(sources, list) and sources and isinstance(sources[0], dict):
        return cast("Mapping[str, Any]", sources[0])
    return _NOTHING


def _said_at(source: Mapping[str, Any], value: Mapping[str, Any], made_at: float) -> float:
    said_at = _seconds(source.get("at"))
    if said_at is None and (said_at := _seconds(value.get("timestamp"))) is None:
        return made_at
    return said_at


def _seconds(moment: object) -> float | None:
    """Read ISO text as seconds since 1970; ``None`` where it is none."""
    if not isinstance(moment, str):
        return None
    try:
        read = datetime.fromisoformat(moment)
        return read.timestamp() if read.tzinfo is not None else read.replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True, eq=False)
class ConversationColumns:
    """Columns of an index, one element for each slot.

    Attributes:
        threads: Number of the conversation; -1: none.
        said_at: Seconds since 1970.
        revisions: Of the item.
        roles: See :mod:`threadkeep.search.scoring`.
        asks: Whether it ends in a question.
        names: Namespace and key.
    """

    threads: NDArray[np.int32]
    said_at: NDArray[np.float64]
    revisions: NDArray[np.int64]
    roles: NDArray[np.int8]
    asks: NDArray[np.bool_]
    names: Sequence[tuple[Namespace, str]]


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """The items of conversations in the order in which they were said, session by session.

    Attributes:
        order: Their slots.
        starts: Where in *order* each session begins.
        lengths: How many items each session has.
        previous: Of each item in *order*, the share of the item before it that counts for it.
        second: The same of the item two before; it is as much of the item two after, for that one.
        follows: 1 where an item is of the same session as the one before it.
    """

    order: NDArray[np.intp]
    starts: NDArray[np.intp]
    lengths: NDArray[np.intp]
    previous: NDArray[np.float64]
    follows: NDArray[np.float64]
    second: NDArray[np.float64]

    def smoothed(self, similarity: NDArray[np.float64], weights: Weights = WEIGHTS) -> NDArray[np.float64]:
        """Return *similarity* (one element for each slot) with what was said beside each item counted in.

        An item gains shares of its neighbours', of what it answers more, and moves towards the best
        of its session. An item of no conversation is a session of its own.

        Source:
            LoCoMo: neighbours and session are worth 6 points of recall@10, and an answer's question
            another point (2.6 of NDCG), with no text embedded twice.
        """
        smoothed = (1 + weights.session) * similarity
        if not len(self.order):
            return smoothed
        own = similarity[self.order]
        gained = np.repeat(np.maximum.reduceat(own, self.starts), self.lengths)
        gained -= own
        gained *= weights.session
        gained[1:] += self.previous[1:] * own[:-1]
        gained[:-1] += weights.next * self.follows[1:] * own[1:]
        gained[2:] += self.second[2:] * own[:-2]
        gained[:-2] += self.second[2:] * own[2:]
        smoothed[self.order] += gained
        return smoothed


_NO_SLOTS: Final = np.zeros(0, np.intp)
_NO_SHARES: Final = np.zeros(0, np.float64)
NO_NEIGHBOURS: Final = Neighbours(_NO_SLOTS, _NO_SLOTS, _NO_SLOTS, _NO_SHARES, _NO_SHARES, _NO_SHARES)


def ordered(
    said: ConversationColumns, alive: NDArray[np.bool_], known: NDArray[np.intp], fresh: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the slots of conversations in their order: by thread, time, revision, and name.

    Args:
        said: The columns.
        alive: Which slots are there.
        known: The order before, which may hold slots that are there no more.
        fresh: Slots that are not in it.
    """
    fresh = fresh[alive[fresh] & (said.threads[fresh] >= 0)]
    known = known[alive[known]]
    if not len(fresh):
        return known
    if len(fresh) > min(_FEW, len(known)):
        return _sorted(said, np.concatenate((known, fresh)))
    fresh = _sorted(said, fresh)
    threads, said_at = said.threads[known], said.said_at[known]
    places: list[int] = []
    for slot in fresh.tolist():
        start, end = (
            np.searchsorted(threads, said.threads[slot], "left"),
            np.searchsorted(threads, said.threads[slot], "right"),
        )
        moment = said.said_at[slot]
        place = int(start + np.searchsorted(said_at[start:end], moment, "left"))
        while place < end and said_at[place] == moment and _rank(said, int(known[place])) < _rank(said, slot):
            place += 1
        places.append(place)
    return np.insert(known, places, fresh)


def neighbours(said: ConversationColumns, order: NDArray[np.intp], weights: Weights = WEIGHTS) -> Neighbours:
    """Tell where sessions begin in *order*, and what follows what."""
    if not len(order):
        return NO_NEIGHBOURS
    threads, said_at = said.threads[order], said.said_at[order]
    follows = np.zeros(len(order), np.bool_)
    follows[1:] = (threads[1:] == threads[:-1]) & (said_at[1:] - said_at[:-1] <= SESSION_GAP_SECONDS)
    starts = np.flatnonzero(~follows)
    answers = np.zeros(len(order), np.bool_)
    answers[1:] = said.asks[order[:-1]] & (said.roles[order[1:]] == USER)
    second = np.zeros(len(order), np.bool_)
    second[2:] = follows[2:] & follows[1:-1]
    return Neighbours(
        order=order,
        starts=starts,
        lengths=np.diff(starts, append=len(order)),
        previous=np.where(follows, np.where(answers, weights.previous + weights.answer, weights.previous), 0.0),
        follows=follows.astype(np.float64),
        second=np.where(second, weights.second, 0.0),
    )


def _sorted(said: ConversationColumns, slots: NDArray[np.intp]) -> NDArray[np.intp]:
    columns = (said.revisions[slots], said.said_at[slots], said.threads[slots])
    by = np.lexsort(columns)
    order = slots[by]
    tied = np.ones(max(len(order) - 1, 0), np.bool_)  # with the one before
    for column in columns:
        in_order = column[by]
        tied &= in_order[1:] == in_order[:-1]
    if not tied.any():
        return order
    # What was learnt from one message stands in the order of its names, however it came here.
    place = order.tolist()
    for start, end in runs(tied):
        place[start:end] = sorted(place[start:end], key=said.names.__getitem__)
    return np.array(place, np.intp)


def _rank(said: ConversationColumns, slot: int) -> tuple[int, tuple[Namespace, str]]:
    return int(said.revisions[slot]), said.names[slot]


NONE: Final = -1

_A_PARTICIPANT_SAYS: Final = 3
"""From so many statements on a name that texts begin with is a participant, rather than a heading."""

_NAME_BYTES: Final = 120
_NEIGHBOUR_BYTES: Final = 40  # of an item in a snapshot's order
_EVENT_BYTES: Final = 250
_UNREAD_BYTES: Final = 450


class Events:
    """The days that the texts of an index tell of.

    Texts are read at the first query that names a day: reading one takes a hundred microseconds and more. One writer
    at a time; :meth:`days` is safe to call from any thread.
    """

    def __init__(self) -> None:
        self._unread: dict[int, tuple[str, float]] = {}  # slot -> text, and when it was said
        self._spans: dict[int, Span] = {}

    @property
    def nbytes(self) -> int:
        """Bytes in RAM, an estimate."""
        return len(self._unread) * _UNREAD_BYTES + len(self._spans) * _EVENT_BYTES

    def extend(self, slot: int, traits: Traits) -> None:
        """Append the items of *traits*, from *slot* on."""
        for number, (text, said_at) in enumerate(zip(traits.dated, traits.said_at, strict=True), slot):
            if text:
                self._unread[number] = (text, said_at)

    def drop(self, slots: Iterable[int]) -> None:
        """Forget what the items in *slots* tell of."""
        for slot in slots:
            self._unread.pop(slot, None)
            self._spans.pop(slot, None)

    def clear(self) -> None:
        """Forget everything."""
        self._unread.clear()
        self._spans.clear()

    def kept(self, alive: NDArray[np.bool_]) -> Events:
        """Return the events of the slots in the mask *alive*, numbered anew."""
        kept, numbers, is_alive = Events(), (np.cumsum(alive) - 1).tolist(), alive.tolist()
        # In this order: a query moves entries from the one to the other.
        kept._unread = {numbers[slot]: text for slot, text in list(self._unread.items()) if is_alive[slot]}
        kept._spans = {numbers[slot]: span for slot, span in list(self._spans.items()) if is_alive[slot]}
        return kept

    def days(self, count: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the first and the last day that each of the first *count* slots tells of.

        Returns:
            Days since 1970, shape ``(count,)`` each; NaN where an item tells of none.
        """
        for slot, (text, said_at) in list(self._unread.items()):
            if (span := _event(text, said_at)) is not None:
                self._spans[slot] = span
            self._unread.pop(slot, None)
        first, last = np.full((2, count), np.nan, np.float32)
        told = [(slot, span.first, span.last) for slot, span in list(self._spans.items()) if slot < count]
        if told:
            slots, first_days, last_days = zip(*told, strict=True)
            first[list(slots)], last[list(slots)] = first_days, last_days
        return first, last


def _event(text: str, said_at: float) -> Span | None:
    try:
        said = datetime.fromtimestamp(said_at, UTC).date()
    except (ValueError, OverflowError, OSError):  # a row of another program may have any number
        return None
    return event_in(text, said=said)


@dataclass(frozen=True, eq=False)
class ConversationsSnapshot:
    """The traits of an index's items at one moment, one element for each slot; safe to read from any thread.

    Attributes:
        said: Where and when each was said.
        labels: Number of the name that the text begins with; -1: none.
        standing: The query-independent part of each item's score.
        events: The days that they tell of, as far as read.
        alive: Which slots are there.
        participants: The names of the speakers, as texts begin with them: ``Melanie: …``.
        thread_numbers: Of each conversation, its number in ``said.threads``.
        label_numbers: Of each name, its number in *labels*.
        before: The order of the slots at an earlier moment.
        ordered_to: The first slot that *before* does not know.
    """

    said: ConversationColumns
    labels: NDArray[np.int32]
    standing: NDArray[np.float32]
    events: Events
    alive: NDArray[np.bool_]
    participants: tuple[str, ...]
    thread_numbers: Mapping[str, int]
    label_numbers: Mapping[str, int]
    before: NDArray[np.intp]
    ordered_to: int

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The slots of conversations in their order."""
        return ordered(self.said, self.alive, self.before, np.arange(self.ordered_to, len(self.alive)))

    @cached_property
    def neighbours(self) -> Neighbours:
        """Which items stand beside each other."""
        return neighbours(self.said, self.order)


class Conversations:
    """Columns of traits, one element for each slot of an index; one writer at a time.

    They are appended to and dropped from together with the index's own.
    """

    def __init__(self) -> None:
        self.said_at = Column(np.float64)
        self.roles = Column(np.int8)
        self.labels = Column(np.int32)  # number of the name that the text begins with
        self.threads = Column(np.int32)  # number of the conversation
        self.standing = Column(np.float32)  # what speaks for an item whatever is asked
        self._asks = Column(np.bool_)
        self._events = Events()
        self._thread_numbers: dict[str, int] = {}
        self._label_numbers: dict[str, int] = {}
        self._said_by: list[int] = []  # how many items each label has
        self._participants: tuple[str, ...] | None = ()
        self._order: NDArray[np.intp] = np.zeros(0, np.intp)
        self._ordered_to = 0  # slot up to which the order goes
        self._latest: ConversationsSnapshot | None = None

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        names = len(self._thread_numbers) + len(self._label_numbers)
        dictionaries = sys.getsizeof(self._thread_numbers) + sys.getsizeof(self._label_numbers)
        beside = len(self.said_at) * _NEIGHBOUR_BYTES
        return total_bytes((*self._columns, self._events)) + beside + dictionaries + names * _NAME_BYTES

    @property
    def _columns(self) -> tuple[Column, ...]:
        return (self.said_at, self.roles, self.labels, self.threads, self.standing, self._asks)

    @property
    def participants(self) -> tuple[str, ...]:
        """The names of who takes part, as texts begin with them: ``Melanie: …``."""
        if self._participants is None:
            counted = zip(self._label_numbers, self._said_by, strict=True)
            self._participants = tuple(sorted(name for name, count in counted if count >= _A_PARTICIPANT_SAYS))
        return self._participants

    def extend(self, traits: Traits) -> None:
        """Append a slot for each item of *traits*."""
        threads = self._thread_numbers
        self._events.extend(len(self.said_at), traits)
        self.labels.extend(self._numbered(traits.labels))
        self.threads.extend(
            [NONE if thread is None else threads.setdefault(thread, len(threads)) for thread in traits.threads]
        )
        self.said_at.extend(traits.said_at)
        self.roles.extend(traits.roles)
        self.standing.extend(WEIGHTS.trust * np.array(traits.trust) + WEIGHTS.pinned * np.array(traits.pinned))
        self._asks.extend(traits.asks)

    def _numbered(self, labels: Sequence[str]) -> list[int]:
        """Return the number of each label, new ones included, and count who said what."""
        if not any(labels):
            return [NONE] * len(labels)
        numbers: list[int] = []
        for label in labels:
            if not label:
                numbers.append(NONE)
                continue
            number = self._label_numbers.setdefault(label, len(self._label_numbers))
            if number == len(self._said_by):
                self._said_by.append(0)
            self._said_by[number] += 1
            numbers.append(number)
        self._participants = None
        return numbers

    def drop(self, slots: Sequence[int]) -> None:
        """Let *slots* be passed over from now on."""
        labels = self.labels.filled
        for slot in slots:
            if (label := int(labels[slot])) != NONE:
                self._said_by[label] -= 1
                self._participants = None
        self._events.drop(slots)

    def forget_events(self) -> None:
        """Forget the days that items tell of, and the texts that say so."""
        self._events.clear()

    def keep(self, alive: NDArray[np.bool_]) -> None:
        """Drop all slots but those of the mask *alive*, and number the rest anew."""
        self._adopt_order()
        self._order = (np.cumsum(alive) - 1)[self._order[alive[self._order]]]
        self._ordered_to = int(np.count_nonzero(alive[: self._ordered_to]))
        for column in self._columns:
            column.replace(column.filled[alive])
        self._events = self._events.kept(alive)

    def snapshot(
        self, *, alive: NDArray[np.bool_], revisions: NDArray[np.int64], names: Sequence[tuple[Namespace, str]]
    ) -> ConversationsSnapshot:
        """Return what queries read, as of now; later changes do not show in it.

        Args:
            alive: Which slots are there; nothing may change it afterwards.
            revisions: Of each item.
            names: Namespace and key of each item.
        """
        self._adopt_order()
        self._latest = ConversationsSnapshot(
            said=ConversationColumns(
                threads=self.threads.filled,
                said_at=self.said_at.filled,
                revisions=revisions,
                roles=self.roles.filled,
                asks=self._asks.filled,
                names=names,
            ),
            labels=self.labels.filled,
            standing=self.standing.filled,
            events=self._events,
            alive=alive,
            participants=self.participants,
            thread_numbers=self._thread_numbers,
            label_numbers=self._label_numbers,
            before=self._order,
            ordered_to=self._ordered_to,
        )
        return self._latest

    def _adopt_order(self) -> None:
        """Take over the order that a query has computed from the latest snapshot."""
        latest, self._latest = self._latest, None
        if latest is not None and "order" in vars(latest):
            self._order, self._ordered_to = latest.order, len(latest.alive)
