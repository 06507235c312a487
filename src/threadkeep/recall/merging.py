"""How the candidates of an owner's memory and of shared scopes share one block. Pure rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from threadkeep.recall.models import Recalled

_AT_ONCE: Final = 20
"""So many candidates of each side are offered together: what repeats one of them is recognized in any order."""


def merged(own: Iterator[list[Recalled]], shared: Iterator[Recalled]) -> Iterator[list[Recalled]]:
    """Yield the owner's candidates and those of all shared scopes by turns, beginning with the owner's.

    Ranks are compared and not scores: the best of a large partition score higher by chance. However many scopes there
    are and however much they hold, each second candidate is the owner's.
    """
    lanes = (chain.from_iterable(own), shared)
    while any(chunks := [list(islice(lane, _AT_ONCE)) for lane in lanes]):
        yield [one for turn in zip_longest(*chunks) for one in turn if one is not None]


def by_closeness(shared: Sequence[Iterator[list[Recalled]]]) -> Iterator[Recalled]:
    """Yield the candidates of several shared scopes, each time the closest of those that are next in their scopes."""
    lanes = [chain.from_iterable(one) for one in shared]
    heads = [next(lane, None) for lane in lanes]
    while any(head is not None for head in heads):
        best = max(range(len(heads)), key=lambda place: -1.0 if (head := heads[place]) is None else head.score)
        if (candidate := heads[best]) is not None:
            yield candidate
        heads[best] = next(lanes[best], None)
