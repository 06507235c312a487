"""Branches of a thread: which turns led to the current one, after the user went back and continued differently.

A branch is known by the turn that it begins with; a thread without such a return has one branch without a name.
These are pure rules on turns and on what is on record of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, get_args

from threadkeep.capture.models import NotKept, Turn, Usage, spell_usage, usage_of
from threadkeep.identity import Owner
from threadkeep.ids import MemoryId, MessageId, ProposalId, ThreadId, TurnId, short_digest
from threadkeep.memories.kinds import is_kind
from threadkeep.models.base import INPUT_ROLES, Message, Role
from threadkeep.storage.interface import Due, Item, Namespace, Put
from threadkeep.text.quoted import strip_blocks
from threadkeep.text.redaction import redact

if TYPE_CHECKING:
    from threadkeep.recall.models import Recall, Recalled


@dataclass(frozen=True, slots=True)
class GivenMemory:
    """A memory that a question found.

    Attributes:
        memory_id: The memory.
        score: In [0, 1], higher is closer.
        earlier: Whether a newer memory said that it is no longer so.
        may_hold: Whether an earlier one might still be so.
    """

    memory_id: MemoryId
    score: float
    earlier: bool = False
    may_hold: bool = False


@dataclass(frozen=True, slots=True)
class TurnRecall:
    """What a turn was given.

    Attributes:
        memories: The memories in its block, best first.
        left_out: Those that did not fit, best first.
        degraded: What was missing; see :class:`~threadkeep.Recall`.
    """

    memories: tuple[GivenMemory, ...] = ()
    left_out: tuple[GivenMemory, ...] = ()
    degraded: tuple[str, ...] = ()

    @classmethod
    def from_recall(cls, recall: Recall) -> TurnRecall:
        """Return what of *recall* is kept."""
        return cls(tuple(map(_given, recall.memories)), tuple(map(_given, recall.left_out)), recall.degraded)


def spell_recall(recall: TurnRecall) -> dict[str, Any]:
    """Return *recall* as it is kept."""
    value: dict[str, Any] = {"memories": [_row(one) for one in recall.memories]}
    if recall.left_out:
        value["left_out"] = [_row(one) for one in recall.left_out]
    if recall.degraded:
        value["degraded"] = list(recall.degraded)
    return value


def recall_of(value: object) -> TurnRecall | None:
    """Read what :func:`spell_recall` wrote; ``None``: earlier versions kept nothing."""
    if not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[str, Any]", value)
    degraded = cast("list[object]", fields.get("degraded") or [])
    return TurnRecall(
        tuple(_rows(fields.get("memories"))),
        tuple(_rows(fields.get("left_out"))),
        tuple(one for one in degraded if isinstance(one, str)),
    )


def _given(recalled: Recalled) -> GivenMemory:
    return GivenMemory(recalled.memory.memory_id, round(float(recalled.score), 3), recalled.earlier, recalled.may_hold)


def _row(given: GivenMemory) -> list[Any]:
    return [given.memory_id, given.score, *[True] * (given.earlier + given.may_hold)]


def _rows(rows: object) -> Iterator[GivenMemory]:
    for row in cast("list[object]", rows) if isinstance(rows, list) else []:
        match row:
            case [str() as memory_id, (int() | float()) as score]:
                yield GivenMemory(MemoryId(memory_id), float(score))
            case [str() as memory_id, (int() | float()) as score, True]:
                yield GivenMemory(MemoryId(memory_id), float(score), earlier=True)
            case [str() as memory_id, (int() | float()) as score, True, True]:
                yield GivenMemory(MemoryId(memory_id), float(score), earlier=True, may_hold=True)
            case _:
                pass


MAX_FORKS: Final = 100
"""How many of the newest forks on its way a branch knows."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One way through a thread.

    Attributes:
        name: The turn that it begins with; empty: the thread's first one.
        forks: The branches that led to it, oldest first, each with the time of its last turn on this way.
    """

    name: TurnId | str = ""
    forks: tuple[tuple[str, datetime], ...] = ()

    def left(self, *, at: datetime, by: TurnId) -> Branch:
        """Return the branch that the turn *by* begins, by going on from what was said *at* that time on this one."""
        return Branch(by, (*self.forks, (self.name, at))[-MAX_FORKS:])

    def led_to(self, other: Branch, *, at: datetime, until: datetime) -> bool:
        """Whether a turn of this branch, recorded *at* a time, led to what was recorded *until* a time on *other*."""
        return any(name == self.name and at <= end for name, end in (*other.forks, (other.name, until)))


THE_FIRST: Final = Branch()


def spell_branch(branch: Branch) -> dict[str, Any]:
    """Return *branch* as it is kept; empty for a thread's first one."""
    if branch == THE_FIRST:
        return {}
    return {"name": branch.name, "forks": [[name, end.isoformat()] for name, end in branch.forks]}


def branch_of(value: object) -> Branch:
    """Read what :func:`spell_branch` wrote; what cannot be understood is a thread's first one."""
    if not isinstance(value, Mapping):
        return THE_FIRST
    fields = cast("Mapping[str, Any]", value)
    name, forks = fields.get("name"), fields.get("forks")
    if not isinstance(name, str) or not isinstance(forks, list):
        return THE_FIRST
    try:
        return Branch(name, tuple(_forks(cast("list[object]", forks))))
    except ValueError:
        return THE_FIRST


def _forks(rows: Sequence[object]) -> Iterator[tuple[str, datetime]]:
    for row in rows:
        match row:
            case [str() as name, str() as end]:
                yield name, datetime.fromisoformat(end)
            case _:
                pass


TURNS: Final = ".turns"
TRACES: Final = ".turn-traces"
DUE: Final = "capture"
DUE_PARKED: Final = "capture-parked"
"""Parked records wait for nothing; this is how they are found."""

WITHOUT_MEMORY: Final = "without memory"
"""Why nothing of a turn was kept that was without memory."""

MAX_UNKNOWN: Final = 200
"""How many turns of a thread are recorded of which nothing is known: it may be older than the memory."""
MAX_TEXT_CHARACTERS: Final = 32_768
MAX_RECALLED: Final = 200
_LONG_CHARACTERS: Final = 4_096
"""Rules on sentences read so much text in about 20 ms."""
TURN_SPACING: Final = timedelta(milliseconds=1)
"""Turns are at least this far apart, so that what was said within one keeps its order, too."""

State: TypeAlias = Literal["pending", "done", "failed"]

_STATES: Final = frozenset(get_args(State))
_HAS_MEMORY: Final[Callable[[Message], bool]] = attrgetter("memory")
_TEXT: Final[Callable[[Message], str]] = attrgetter("text")
_ROLES: Final = frozenset(get_args(Role))


@dataclass(frozen=True)
class SpokenTurn:
    """A turn as a thread shows it. Its digests are made when they are asked for: of a long thread, few are.

    Attributes:
        messages: As they came, from the user's on; without what neither user nor assistant wrote.
        thread_id: Where.
        before: The words of the turn before it.
        memory: Whether the thread marks no message of it as said without memory.
    """

    messages: tuple[Message, ...]
    thread_id: ThreadId | None
    before: tuple[str, ...] = ()
    memory: bool = True

    @cached_property
    def turn_id(self) -> TurnId:
        """The digest of the ids and texts of its messages; where none has an id, of its words in this thread."""
        parts: list[str] = []
        named = False
        for message in self.messages:
            if message.message_id or message.text:
                named = named or bool(message.message_id)
                parts += (message.message_id or "", message.text)
        return TurnId(short_digest("turn", *parts) if named else self._chained)

    @property
    def traces(self) -> tuple[str, ...]:
        """Digests under which it is known when it is not the newest turn any more."""
        return (self._chained,) if self.before else (self._chained, self.alone)

    @cached_property
    def alone(self) -> str:
        """The digest of its words in this thread, whatever came before."""
        return short_digest("turn alone", self.thread_id or "", *self.words)

    @cached_property
    def said(self) -> str | None:
        """The digest of the user's messages alone, by ids and texts; ``None`` where one has no id.

        A turn with a regenerated or continued reply has another id; its user messages are the same.
        """
        parts: list[str] = []
        for message in self.messages:
            if message.role in INPUT_ROLES:
                if not message.message_id:
                    return None
                parts += (message.message_id, message.text)
        return short_digest("said", *parts)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The roles and texts of its messages that have a text."""
        words: list[str] = []
        for message in self.messages:
            if message.text.strip():
                words += (message.role, message.text)
        return tuple(words)

    @cached_property
    def _chained(self) -> str:
        return short_digest("turn in thread", self.thread_id or "", *self.words, "after", *self.before)


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """What the outbox holds of a turn.

    Attributes:
        turn: The turn; without messages once it is done.
        state: ``pending``, ``done`` or ``failed`` (tried often enough and kept).
        tries: How often it failed.
        reason: Kind of the last failure.
        memory_ids: What it taught, once it is done.
        proposal_ids: What of it waits for approval, once it is done.
        usage: What a model took for it, once it is done.
        worker: Who has taken it, while that is so; its lease ends when the row is due.
        rejected: Why statements of it were not kept, once it is done.
        not_kept: Which statements, once it is done.
        lifted: The tombstones that it lifted, once it is done.
        branch: Which branch of its thread it is on.
        given: What recall gave to it; ``None``: not known.
        trace: The span that it was recorded in, as ``traceparent``, until it is done.
        ask: Whether its statements are proposed, whatever the policy keeps by itself.
    """

    turn: Turn
    state: State
    tries: int = 0
    reason: str | None = None
    memory_ids: tuple[MemoryId, ...] = ()
    proposal_ids: tuple[ProposalId, ...] = ()
    usage: Usage | None = None
    worker: str | None = None
    rejected: tuple[str, ...] = ()
    not_kept: tuple[NotKept, ...] = ()
    lifted: tuple[str, ...] = ()
    branch: Branch = THE_FIRST
    given: TurnRecall | None = None
    trace: str | None = None
    ask: bool = False


def is_long(turn: Turn) -> bool:
    """Return whether the texts of *turn* are so long that they are read in a thread, not on the event loop."""
    return sum(map(len, map(_TEXT, turn.messages))) > _LONG_CHARACTERS


def turns_namespace(owner: Owner) -> Namespace:
    """Return where the turn records of *owner* are."""
    return (TURNS, owner.label)


def traces_namespace(owner: Owner) -> Namespace:
    """Return where the traces of *owner*'s turns are."""
    return (TRACES, owner.label)


def split(
    messages: Sequence[Message], *, thread_id: ThreadId | None, newest: int | None = None
) -> tuple[SpokenTurn, ...]:
    """Part the messages of a thread into turns, oldest first; what is older than the turns asked for is not read.

    A turn starts with a user's message; further ones before anything is replied belong to it. What
    stands before the first user's message belongs to no turn; system and tool messages are left out.

    Args:
        messages: Of the thread.
        thread_id: Which.
        newest: How many of its newest turns; ``None``: all.
    """
    turns: list[list[Message]] = []  # each the newest first, and so are they
    for message in reversed(messages):
        if message.role != "assistant" and message.role not in INPUT_ROLES:
            continue
        if not turns or (message.role == "assistant" and turns[-1][-1].role in INPUT_ROLES):
            if newest is not None and len(turns) > newest:
                break
            turns.append([])
        turns[-1].append(message)
    if turns and turns[-1][-1].role not in INPUT_ROLES:
        turns.pop()
    spoken: list[SpokenTurn] = []
    before: tuple[str, ...] = ()
    for turn in reversed(turns):
        spoken.append(SpokenTurn(tuple(reversed(turn)), thread_id, before, all(map(_HAS_MEMORY, turn))))
        before = spoken[-1].words
    return tuple(spoken[len(spoken) - newest :] if newest is not None and len(spoken) > newest else spoken)


def every_trace(turn: SpokenTurn) -> tuple[str, ...]:
    """Return what is left behind of *turn*, to know it again whatever is shown of the thread later."""
    said = [turn.said] if turn.said else []
    return tuple(dict.fromkeys((*turn.traces, turn.alone, *said, *message_traces(turn))))


def message_trace(message_id: MessageId) -> str:
    """Return the trace of a user's message, which tells its turn."""
    return short_digest("message", message_id)


@lru_cache(maxsize=4096)
def newest_trace(thread_id: ThreadId) -> str:
    """Return the key under which a thread's newest turn is found, as :func:`newest_put` left it."""
    return short_digest("newest turn in thread", thread_id)


def names_of(turn: SpokenTurn) -> tuple[str, ...]:
    """Return what *turn* alone is on record by, the surest first: not the traces, which the same words leave again."""
    return (turn.turn_id, turn.said) if turn.said else (turn.turn_id,)


def missing_turns(turns: Sequence[SpokenTurn], known: Collection[str]) -> tuple[SpokenTurn, ...]:
    """Return the turns that are newer than the newest known one, oldest first; all where none is known.

    The newest turn is known by its own id only: said again, the same words are another turn. An
    older one is known by its traces, too.

    Args:
        turns: Of one thread, oldest first.
        known: Ids and traces that are on record.
    """
    missing: list[SpokenTurn] = []
    for turn in reversed(turns):
        if turn.turn_id in known or (missing and any(trace in known for trace in turn.traces)):
            break
        missing.append(turn)
    return tuple(reversed(missing))


def pending(
    turn: SpokenTurn,
    *,
    thread_id: ThreadId | None,
    at: datetime,
    recalled: Sequence[str],
    redact: Callable[[str], str] = redact,
    played: bool = False,
) -> TurnRecord:
    """Return the record of *turn*: redacted, bounded, and without the blocks that recall put in."""
    kept = [
        Message(message.role, _bounded(message.text, redact), message.message_id)
        for message in turn.messages
        if message.text.strip()
    ]
    texts = tuple([_bounded(text, redact) for text in recalled[:MAX_RECALLED]])
    return TurnRecord(Turn(turn.turn_id, thread_id, _within(kept), at, texts, played), "pending")


def put_of(record: TurnRecord, owner: Owner, *, due_at: datetime | None, expect: int | Literal["absent"]) -> Put:
    """Return the put that writes *record*; once it is done, nothing of what was said is left in it."""
    turn = record.turn
    value: dict[str, Any] = {
        "state": record.state,
        "thread_id": turn.thread_id,
        "at": turn.at.isoformat(),
    }
    if branch := spell_branch(record.branch):
        value["branch"] = branch
    if record.given is not None:
        value["given"] = spell_recall(record.given)
    if record.state == "done":
        value["memory_ids"] = list(record.memory_ids)
        if record.proposal_ids:
            value["proposal_ids"] = list(record.proposal_ids)
        if record.rejected:
            value["rejected"] = list(record.rejected)
        if record.not_kept:
            value["not_kept"] = [[one.kind, one.reason, one.message_id] for one in record.not_kept]
        if record.lifted:
            value["lifted"] = list(record.lifted)
        if record.usage:
            value["usage"] = spell_usage(record.usage)
    else:
        value |= _spell_unlearnt(record)
    due = {
        "pending": Due(DUE, due_at or turn.at),
        "failed": Due(DUE_PARKED, due_at or turn.at),
        "done": None,
    }[record.state]
    return Put(turns_namespace(owner), turn.turn_id, value, due=due, expect=expect)


def _spell_unlearnt(record: TurnRecord) -> dict[str, Any]:
    """Return what a record has until its turn is learnt from."""
    rows = [{"role": one.role, "text": one.text, "message_id": one.message_id} for one in record.turn.messages]
    value = {
        "messages": rows,
        "recalled": list(record.turn.recalled),
        "tries": record.tries,
        "reason": record.reason,
        "worker": record.worker if record.state == "pending" else None,
        "trace": record.trace,
        "ask": record.ask or None,
        "played": record.turn.played or None,
    }
    return {name: field for name, field in value.items() if field is not None or name == "reason"}


def trace_puts(turn: SpokenTurn, owner: Owner, *, memory: bool = True, taught_by: TurnId | None = None) -> list[Put]:
    """Return the puts that leave the traces of *turn*, which tell later whether it had *memory*.

    *taught_by* is the record that is learnt from, where the same messages of the user were recorded before.
    """
    value = {"turn_id": turn.turn_id, "memory": memory, "taught_by": taught_by}
    value = {name: field for name, field in value.items() if field is not None and field is not True}
    namespace = traces_namespace(owner)
    return [Put(namespace, trace, value) for trace in every_trace(turn)]


def is_without_memory(trace: Item) -> bool:
    """Return whether *trace*, as :func:`trace_puts` left it, is of a turn without memory."""
    return trace.value.get("memory") is False


def message_traces(turn: SpokenTurn) -> list[str]:
    """Return the traces of the user's messages in *turn*."""
    return [message_trace(one.message_id) for one in turn.messages if one.role in INPUT_ROLES and one.message_id]


def newest_put(thread_id: ThreadId, turn_id: TurnId, branch: Branch, owner: Owner) -> Put:
    """Return the put that says which turn of a thread was recorded last, and on which branch."""
    value = {"turn_id": turn_id, "branch": spell_branch(branch)}
    return Put(traces_namespace(owner), newest_trace(thread_id), value)


def done(
    record: TurnRecord,
    memory_ids: Sequence[MemoryId],
    proposal_ids: Sequence[ProposalId] = (),
    usage: Usage | None = None,
    *,
    rejected: Sequence[str] = (),
    not_kept: Sequence[NotKept] = (),
    lifted: Sequence[str] = (),
) -> TurnRecord:
    """Return *record* as it is for ever: which turn it was and what it taught, and no text."""
    turn = Turn(record.turn.turn_id, record.turn.thread_id, (), record.turn.at)
    return TurnRecord(
        turn,
        "done",
        memory_ids=tuple(memory_ids),
        proposal_ids=tuple(proposal_ids),
        usage=usage,
        rejected=tuple(rejected),
        not_kept=tuple(not_kept),
        lifted=tuple(lifted),
        branch=record.branch,
        given=record.given,
    )


def record_of(item: Item) -> TurnRecord | None:
    """Read a turn record; ``None`` where the row cannot be understood."""
    value = item.value
    state, at = value.get("state"), value.get("at")
    if state not in _STATES or not isinstance(at, str):
        return None
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    thread, branch, given = value.get("thread_id"), branch_of(value.get("branch")), recall_of(value.get("given"))
    turn_id, thread_id = TurnId(item.ref.key), ThreadId(thread) if isinstance(thread, str) else None
    if state == "done":
        return TurnRecord(
            Turn(turn_id, thread_id, (), moment),
            "done",
            memory_ids=tuple(map(MemoryId, _texts(value.get("memory_ids")))),
            proposal_ids=tuple(map(ProposalId, _texts(value.get("proposal_ids")))),
            usage=usage_of(value.get("usage")),
            rejected=tuple(_texts(value.get("rejected"))),
            not_kept=tuple(_not_kept(value.get("not_kept"))),
            lifted=tuple(_texts(value.get("lifted"))),
            branch=branch,
            given=given,
        )
    reason, tries, worker, trace = value.get("reason"), value.get("tries"), value.get("worker"), value.get("trace")
    return TurnRecord(
        Turn(
            turn_id,
            thread_id,
            tuple(_messages(value.get("messages"))),
            moment,
            tuple(_texts(value.get("recalled"))),
            value.get("played") is True,
        ),
        cast("State", state),
        tries if isinstance(tries, int) else 0,
        reason if isinstance(reason, str) else None,
        worker=worker if isinstance(worker, str) else None,
        branch=branch,
        given=given,
        trace=trace if isinstance(trace, str) else None,
        ask=value.get("ask") is True,
    )


def _bounded(text: str, redact: Callable[[str], str]) -> str:
    """Redact *text* and cut it; what is cut is never the second half of a secret."""
    head = text[: 2 * MAX_TEXT_CHARACTERS]
    if len(head) < len(text):
        head = head.rpartition(" ")[0] or ""
    return redact(strip_blocks(head)).strip()[:MAX_TEXT_CHARACTERS]


def _within(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Bound what the user said together, and what the assistant said together."""
    room: dict[Role, int] = dict.fromkeys((*INPUT_ROLES, "assistant"), MAX_TEXT_CHARACTERS)
    kept: list[Message] = []
    for message in messages:
        text = message.text[: room.get(message.role, 0)]
        if text:
            room[message.role] -= len(text)
            kept.append(Message(message.role, text, message.message_id))
    return tuple(kept)


def _messages(rows: object) -> list[Message]:
    found: list[Message] = []
    for row in cast("list[object]", rows) if isinstance(rows, list) else []:
        if not isinstance(row, Mapping):
            continue
        fields = cast("Mapping[str, Any]", row)
        role, text, key = fields.get("role"), fields.get("text"), fields.get("message_id")
        if role in _ROLES and isinstance(text, str):
            found.append(Message(cast("Role", role), text, MessageId(key) if isinstance(key, str) else None))
    return found


def _not_kept(rows: object) -> Iterator[NotKept]:
    for row in cast("list[object]", rows) if isinstance(rows, list) else []:
        match row:
            case [str() as kind, str() as reason, (str() | None) as message_id] if is_kind(kind):
                yield NotKept(kind, reason, MessageId(message_id) if message_id else None)
            case _:
                pass


def _texts(rows: object) -> list[str]:
    return [row for row in cast("list[object]", rows) if isinstance(row, str)] if isinstance(rows, list) else []
