"""What was acknowledged is kept: each message once and in order in its thread, each statement learnt once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import threadkeep
from threadkeep.identity import Owner

QUEUE_SECONDS = 60
"""How many seconds are waited for the queue to be empty."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A turn whose client read ``done``.

    Attributes:
        owner: The user.
        thread_id: The thread.
        word: A word that stands in its message and in no other.
        learnt: Whether the message is a statement, which becomes a memory.
    """

    owner: str | Owner
    thread_id: str
    word: str
    learnt: bool = True


@dataclass
class Faults:
    """What is wrong with acknowledged turns, by kind; empty lists where nothing is."""

    lost: list[str] = field(default_factory=list[str])
    doubled: list[str] = field(default_factory=list[str])
    misread: list[str] = field(default_factory=list[str])

    def __bool__(self) -> bool:
        return bool(self.lost or self.doubled or self.misread)


async def until_learnt(tk: threadkeep.Threadkeep) -> float:
    """Wait until the queue of all owners is empty, at most a minute; return how many seconds that took."""
    for waited in range(QUEUE_SECONDS * 2):
        if not await tk.queue.list():
            return waited / 2
        await asyncio.sleep(0.5)
    return float(QUEUE_SECONDS)


async def faults_of(
    tk: threadkeep.Threadkeep,
    turns: Sequence[Acknowledged],
    *,
    repeated: frozenset[str] = frozenset(),
    threads: bool = True,
) -> Faults:
    """Return what is lost, doubled or in another order than it was said.

    Args:
        tk: The memory, of all owners.
        turns: The acknowledged turns, those of a thread in the order in which they were said.
        repeated: Words of messages that the client sent again because its stream was cut.
        threads: Whether the threads are in this memory; else only what was learnt is looked at.
    """
    faults = Faults()
    for owner in dict.fromkeys(turn.owner for turn in turns):
        said = [turn for turn in turns if turn.owner == owner]
        memories = await tk.memories.list(owner=owner, kind="semantic", limit=100_000)
        _check_memories(faults, said, [memory.text for memory in memories])
        for thread_id in dict.fromkeys(turn.thread_id for turn in said if threads):
            messages = await tk.for_owner(owner).threads.messages(thread_id)
            texts = {role: [one.text for one in messages if one.role == role] for role in ("user", "assistant")}
            _check_thread(faults, [turn.word for turn in said if turn.thread_id == thread_id], texts, repeated)
    return faults


def _check_memories(faults: Faults, said: Iterable[Acknowledged], memories: Sequence[str]) -> None:
    counts = Counter(word for text in memories for word in dict.fromkeys(_words(text)))
    for turn in said:
        if turn.learnt and counts[turn.word] == 0:
            faults.lost.append(f"memory of {turn.word}")
        if turn.learnt and counts[turn.word] > 1:
            faults.doubled.append(f"memory of {turn.word}")


def _check_thread(
    faults: Faults, words: Sequence[str], texts: Mapping[str, Sequence[str]], repeated: frozenset[str]
) -> None:
    counts = Counter(word for text in texts["user"] for word in dict.fromkeys(_words(text)))
    faults.lost.extend(f"message {word}" for word in words if counts[word] == 0)
    faults.doubled.extend(f"message {word}" for word in words if counts[word] > 1 and word not in repeated)
    if len(texts["assistant"]) < len(words):
        faults.lost.append(f"{len(words) - len(texts['assistant'])} answers beside {words[0]}")
    order = [word for text in texts["user"] for word in _words(text) if word in words]
    if list(dict.fromkeys(order)) != [word for word in words if counts[word]]:
        faults.misread.append(f"{order} was said as {words}")


def _words(text: str) -> list[str]:
    return [word.strip(".,?!") for word in text.split()]
