"""Which memories say the same in other words, and what one of them becomes: pure rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from threadkeep.memories.lifecycle import recallable, same_words
from threadkeep.memories.meaning import gist_of, same_meaning
from threadkeep.memories.record import Memory, least_trusted

MERGED_KEPT: Final = timedelta(days=30)
"""How long a memory that gave way to another can be had back."""

MOST_MERGES: Final = 500
"""So many at once; what is left is merged by the next call."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Memories that say the same.

    Attributes:
        kept: The one that stays, as it is.
        after: The same, as it is then: with the sources of all.
        gone: Those that give way.
    """

    kept: Memory
    after: Memory
    gone: tuple[Memory, ...]


def merges_of(memories: Sequence[Memory]) -> tuple[Merge, ...]:
    """Return what can be merged: facts of one kind and trust that mean the same, by their words.

    Pinned and approved ones stay; of others the newest does. Who stands behind them is no less trusted afterwards:
    a statement of the user's is never merged with somebody else's.
    """
    groups: list[list[Memory]] = []
    gists = {memory.memory_id: gist_of(memory.text) for memory in memories}
    for memory in sorted(memories, key=_standing, reverse=True):
        if not recallable(memory) or memory.kind == "episodic":
            continue
        for group in groups:
            first = group[0]
            if (first.kind, first.trust, first.namespace) != (memory.kind, memory.trust, memory.namespace):
                continue
            same = same_meaning(gists[first.memory_id], gists[memory.memory_id])
            if same or same_words(first.text) == same_words(memory.text):
                group.append(memory)
                break
        else:
            groups.append([memory])
    merges = [_merge(group) for group in groups if len(group) > 1]
    return tuple(merge for merge in merges if merge.gone)[:MOST_MERGES]


def _merge(group: Sequence[Memory]) -> Merge:
    kept, *rest = group
    gone = tuple(one for one in rest if not one.pinned and one.approval is None)
    sources = tuple(dict.fromkeys(source for one in (*gone, kept) for source in one.sources))
    return Merge(kept, replace(kept, sources=sources, trust=least_trusted(sources)), gone)


def _standing(memory: Memory) -> tuple[bool, bool, float, str]:
    return memory.pinned, memory.approval is not None, memory.created_at.timestamp(), memory.memory_id
