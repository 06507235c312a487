"""The context window, kept by pure rules: what is repaired, where a history may be split, what has to go.

The rules see one :class:`WindowEntry` for each message and answer with positions; who holds the messages
(:mod:`threadkeep.langgraph.history`) builds the new list from them. A call is never parted from its
result, system messages and the newest message are always kept, and the order never changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from threadkeep.errors import ContextTooLargeError, InvalidInputError

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

PREFLIGHT_SHARE: Final = 0.8
"""A history that fills more of the limit than this is compacted before the model is called."""

TARGET_SHARE: Final = 0.5
"""A history that was compacted fills so much of the limit at most, so that the next turns need not do it again."""

SUMMARY_SHARE: Final = 0.1
"""So much of the limit is the summary's."""

MAX_SUMMARY_TOKENS: Final = 2_000
"""What a summary takes at most, however much the model could read."""


def kept_messages(keep: tuple[str, int]) -> int:
    """Return how many of the newest messages stay.

    Args:
        keep: ``("messages", n)``.

    Raises:
        InvalidInputError: It counts something else, or *n* is negative.
    """
    match keep:
        case ("messages", int(number)) if number >= 0:
            return number
        case _:
            msg = f'keep must be ("messages", number), got {str(keep)[:60]}.'
            raise InvalidInputError(msg)


@dataclass(frozen=True, slots=True)
class WindowEntry:
    """What the rules know of a message.

    Attributes:
        role: Who speaks; a summary counts as the assistant's, whatever class carries it.
        tokens: What it takes of the window.
        calls: Ids of the tool calls that it makes, in their order; ``""`` for one that has no id.
        answers: Ids of the calls that it brings results of; none for what is no result.
    """

    role: Role
    tokens: int = 0
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()

    @property
    def is_result(self) -> bool:
        """Whether it stands or falls with a message before it."""
        return bool(self.answers) or self.role == "tool"


@dataclass(frozen=True, slots=True)
class KeepStep:
    """The message at *index* stays as it is."""

    index: int


@dataclass(frozen=True, slots=True)
class Strip:
    """The message at *index* stays without the calls that nothing could ever answer."""

    index: int


@dataclass(frozen=True, slots=True)
class AnswerStep:
    """A result is made up for the call *call_id* of the message at *index*: that it was never answered."""

    index: int
    call_id: str


Step: TypeAlias = KeepStep | Strip | AnswerStep


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """How a history is made to fit.

    Attributes:
        kept: Positions of what stays, in order.
        removed: Positions of what goes, in order; never empty.
        place: How many of *kept* come before the summary, which stands where the first removed message was.
    """

    kept: tuple[int, ...]
    removed: tuple[int, ...]
    place: int


def repaired(entries: Sequence[WindowEntry]) -> tuple[Step, ...]:
    """Return the history in which every call is followed by its results, and every result has its call.

    A result moves up to its call, and of several for one call the last counts; one without a call goes.
    A call that has no result gets one that says so; a call without an id, or with one that the same
    message uses twice, goes. A history that is whole comes back as it was: one :class:`KeepStep` each.
    """
    found = _results(entries)
    steps: list[Step] = []
    for i, entry in enumerate(entries):
        if entry.answers:
            continue
        usable = _usable(entry)
        steps.append(KeepStep(i) if len(usable) == len(entry.calls) else Strip(i))
        answered = {call: found[i, call] for call in usable if (i, call) in found}
        steps.extend(KeepStep(j) for j in sorted(set(answered.values())))
        steps.extend(AnswerStep(i, call) for call in usable if call not in answered)
    return tuple(steps)


def is_whole(steps: Sequence[Step], count: int) -> bool:
    """Whether :func:`repaired` found nothing to repair in *count* entries."""
    return len(steps) == count and all(step == KeepStep(i) for i, step in enumerate(steps))


def safe_split(entries: Sequence[WindowEntry], at: int) -> int:
    """Return the last position, *at* or before it, where no call is parted from its result.

    What comes before that position can go, and what comes after it stands alone.
    """
    pairs = [(i, j) for (i, _), j in _results(entries).items()]
    split = max(0, min(at, len(entries)))
    while crossing := [i for i, j in pairs if i < split <= j]:
        split = min(crossing)
    return split


def compacted(
    entries: Sequence[WindowEntry], *, limit: int, keep: int, overhead: int = 0, summary: bool = True
) -> WindowPlan | None:
    """Return what has to go so that the rest, with a summary of what went, fits half of the limit.

    The newest *keep* messages stay as far as they fit, and so does the newest user message, which is
    what the reply is to; what came between it and them may go. The history must be whole: see
    :func:`repaired`.

    Args:
        entries: The history, oldest first.
        limit: Tokens that the model takes.
        keep: How many of the newest messages should stay.
        overhead: Tokens of what else is sent: the system prompt, the tools.
        summary: Whether a summary will stand for what goes; without one, what stays begins with a user message,
            as some providers want it.

    Returns:
        The plan; ``None`` where nothing can go.

    Raises:
        ContextTooLargeError: What must stay is over the limit by itself.
    """
    must = _protected_entries(entries)
    needed = overhead + sum(entries[i].tokens for i in must)
    if needed > limit:
        raise _too_large(entries, must, limit=limit, overhead=overhead, needed=needed)
    reserve = summary_tokens(limit) if summary else 0
    wished, room = int(limit * TARGET_SHARE) - needed - reserve, limit - needed - reserve
    start = len(entries)
    for block in reversed(_blocks(entries)):
        cost = sum(entries[i].tokens for i in block if i not in must)
        within = len(entries) - block[0] <= keep  # these stay even where half of the limit is passed
        if cost > (room if within else wished):
            break
        wished, room, start = wished - cost, room - cost, block[0]
    question = max((i for i, entry in enumerate(entries) if entry.role == "user"), default=-1)
    while not summary and start < question and entries[start].role != "user":
        start += 1
    kept = tuple(i for i in range(len(entries)) if i >= start or i in must)
    removed = tuple(i for i in range(start) if i not in must)
    return WindowPlan(kept, removed, sum(i < removed[0] for i in kept)) if removed else None


def over(tokens: int, *, limit: int) -> bool:
    """Whether a history of so many tokens is to be compacted before the next model call."""
    return tokens > int(limit * PREFLIGHT_SHARE)


def summary_tokens(limit: int) -> int:
    """Return how much of *limit* a summary may take."""
    return min(MAX_SUMMARY_TOKENS, int(limit * SUMMARY_SHARE))


def _usable(entry: WindowEntry) -> list[str]:
    """Return the calls that a result can name."""
    return [call for call in entry.calls if call and entry.calls.count(call) == 1]


def _results(entries: Sequence[WindowEntry]) -> dict[tuple[int, str], int]:
    """Return where the result of each call is, by the position of who calls and the call's id.

    A result belongs to the nearest earlier message that makes a call of its id: providers give the same
    ids again.
    """
    caller: dict[str, int] = {}
    found: dict[tuple[int, str], int] = {}
    for i, entry in enumerate(entries):
        found.update({(caller[call], call): i for call in entry.answers if call in caller})
        caller.update(dict.fromkeys(_usable(entry), i))
    return found


def _blocks(entries: Sequence[WindowEntry]) -> list[list[int]]:
    """Return the positions in blocks that stay or go together: a message with calls and their results, or one."""
    blocks: list[list[int]] = []
    for i, entry in enumerate(entries):
        if entry.is_result and blocks:
            blocks[-1].append(i)
        else:
            blocks.append([i])
    return blocks


def _protected_entries(entries: Sequence[WindowEntry]) -> set[int]:
    must = {i for i, entry in enumerate(entries) if entry.role == "system"}
    if blocks := _blocks(entries):
        must.update(blocks[-1])
    users = [i for i, entry in enumerate(entries) if entry.role == "user"]
    return must | set(users[-1:])


def _too_large(
    entries: Sequence[WindowEntry], must: set[int], *, limit: int, overhead: int, needed: int
) -> ContextTooLargeError:
    largest = max(must, key=lambda i: entries[i].tokens)
    entry = entries[largest]
    msg = (
        f"What has to be sent takes more than the model's {limit:,} tokens: the {entry.role} message at position "
        f"{largest} alone {entry.tokens:,}, system prompt and tools {overhead:,}. Shorten it, or choose a model that "
        "takes more."
    )
    return ContextTooLargeError(msg, limit=limit, position=largest, tokens=entry.tokens, needed=needed)
