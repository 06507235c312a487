"""Which of the memories that a question finds are no longer so: a newer one of them says it.

Where capture is certain, it replaces a memory and keeps the old statement in its history. What it cannot tell is found
here, among the memories that are compared for a block: both are shown, the newer first and the older marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from threadkeep.memories.models import ASKED, SAID, Memory
from threadkeep.text.changes import change_in, is_english, outdates, returns

if TYPE_CHECKING:
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

LEAST_ALIKE: Final = 0.25
"""Two statements with a word in common are about the same thing from this cosine on."""

ALIKE_WITHOUT_A_WORD: Final = 0.43
"""The same without a word in common.

Source:
    Of 1,650 pairs of unrelated facts with the mark of a change in the newer one, none is so alike, and one in sixty is
    from .30 on; half of the real changes are, and nine in ten of those that share a word are from .40 on.
"""


def find_earlier(memories: Sequence[Memory | None], alike: NDArray[np.float32] | None) -> Mapping[int, int]:
    """Return the places of memories that are no longer so, each with the place of the newest one that says so.

    Args:
        memories: What was found, best first; ``None`` where it is not known.
        alike: Their cosines with each other, shape ``(n, n)``; ``None``: words alone decide.
    """
    said = {place: _Said(memory) for place, memory in enumerate(memories) if memory is not None and _tells(memory)}
    order = sorted(said, key=lambda place: (said[place].at, place))
    found: dict[int, int] = {}
    for number, newer in enumerate(order):
        if change_in(said[newer].text) is None:
            continue
        before = [older for older in order[:number] if said[older].turns.isdisjoint(said[newer].turns)]
        restored = {one: found[one] for one in before if one in found and returns(said[newer].text, said[one].text)}
        for older in before:
            near = 1.0 if alike is None else float(alike[newer, older])
            if (near >= LEAST_ALIKE and outdates(said[newer].text, said[older].text)) or (
                alike is not None and near >= ALIKE_WITHOUT_A_WORD and said[newer].english and said[older].english
            ):
                found[older] = newer
        for one, instead in restored.items():  # what had taken the place of what is so again gives way to it
            found.pop(one, None)
            found[instead] = newer
    return found


class _Said:
    __slots__ = ("at", "english", "text", "turns")

    def __init__(self, memory: Memory) -> None:
        source = memory.sources[-1] if memory.sources else None
        self.at: datetime = (source.at if source is not None else None) or memory.created_at
        self.text = memory.text.removeprefix(SAID)
        self.english = is_english(self.text)
        self.turns = {source.turn_id for source in memory.sources if source.turn_id is not None}


def _tells(memory: Memory) -> bool:
    return not memory.text.startswith(ASKED)
