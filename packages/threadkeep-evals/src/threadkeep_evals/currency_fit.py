"""Fit the weights by which recall marks a statement as earlier: ``python -m threadkeep_evals.currency_fit FILE …``.

The files have the form of ``threadkeep eval personal``. A message of an item of ``updates`` outdates those before it,
of ``several`` and ``facts`` none does, and items of ``memories`` say which are outdated. Every message is captured and
every question searched, in memories of one item and of more items of a file, because the nearest of many is near by
chance. Where items share a memory, half of the updates tell only their first message, because most of what is told is
never changed. Prints the weights as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from threadkeep.identity import Owner
from threadkeep.memories.codec import recalled_namespaces
from threadkeep.recall.currency import NUMBERS, pairs_of, statements
from threadkeep.recall.selection import COMPARED, CONSIDERED
from threadkeep.search.query import asks_for_several
from threadkeep.testing.clock import START
from threadkeep.text.claims import FEATURES, compare
from threadkeep_evals.regression import Regression
from threadkeep_evals.replay import ReplayClock
from threadkeep_evals.rig import open_for_replay

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.client import Threadkeep
    from threadkeep.models.base import Embedder
    from threadkeep.search.ranking import Ranking

SIZES: Final = (1, 4, 10, 30)
"""So many items share a memory."""
_FINISHED: Final = 0.5
"""Such a share of the updates that share a memory tell all their messages."""
_WEIGHT_OF_OTHERS: Final = 6.0
"""The pairs that no question asks for count together as much as so many pairs an item, at each size."""
_PENALTY: Final = 6.0
_ROUNDS: Final = 3
"""So often it is decided which of the later statements outdates one, first by the cosines, then by the last weights."""
_TWO_DAYS: Final = timedelta(days=2)
NAMES: Final = ("bias", "several", *NUMBERS, *FEATURES)
_COSINE: Final = NAMES.index("cosine")


@dataclass(frozen=True, slots=True)
class Item:
    """Messages about one subject, in order, the question, and the places of the messages that later ones outdate."""

    told: Sequence[str]
    question: str
    outdated: frozenset[int] = frozenset()

    @property
    def is_update(self) -> bool:
        """Whether every message but the last is outdated."""
        return bool(self.outdated) and len(self.outdated) == len(self.told) - 1


@dataclass(slots=True)
class Examples:
    """Pairs of statements.

    Attributes:
        items: How many items they are from.
        features: Of each, by :data:`NAMES`.
        outdates: The question and the older message, if that is outdated and the newer is a later one of its item;
            else ``None``. One of the pairs of both tells the change.
        asked: Whether both are of the item that was asked for.
    """

    items: int
    features: list[list[float]] = field(default_factory=list[list[float]])
    outdates: list[tuple[str, str] | None] = field(default_factory=list[tuple[str, str] | None])
    asked: list[bool] = field(default_factory=list[bool])


def read_items(path: Path) -> list[Item]:
    """Read the ``updates``, ``several``, ``facts`` and ``memories`` of a file."""
    data: dict[str, list[dict[str, Any]]] = json.loads(path.read_text(encoding="utf-8"))
    items = [
        Item(one["told"], one["question"], frozenset(range(len(one["told"]) - 1))) for one in data.get("updates", ())
    ]
    items += [Item(one["told"], one["question"]) for one in data.get("several", ())]
    for fact in data.get("facts", ()):
        message = " ".join(filter(None, (fact["before"], fact["told"], fact["after"])))
        items.append(Item((message,), fact["question"]))
    items += [Item(one["turns"], one["question"], frozenset(one["outdated"])) for one in data.get("memories", ())]
    return items


async def find_pairs(
    items: Sequence[Item], *, sizes: Sequence[int] = SIZES, embedder: Embedder | str | None = None, seed: int = 0
) -> list[Examples]:
    """Capture and ask for *items*, and return the pairs that recall compares, in memories of each of *sizes*."""
    rng = np.random.default_rng(seed)
    clock = ReplayClock(START)
    found: list[Examples] = []
    async with open_for_replay(embedder, clock) as tk:
        for size in sizes:
            examples = Examples(len(items))
            order: list[int] = rng.permutation(len(items)).tolist()
            for start in range(0, len(order), size):
                owner = Owner(f"{size}-{start}")
                shared = [items[place] for place in order[start : start + size]]
                said = await _tell(tk, clock, owner, shared, rng)
                async for asked, ranking in _search(tk, owner, shared):
                    _add(examples, asked, ranking, said)
            found.append(examples)
    return found


async def _tell(
    tk: Threadkeep, clock: ReplayClock, owner: Owner, items: Sequence[Item], rng: np.random.Generator
) -> Mapping[str, tuple[Item, int]]:
    """Capture the messages of *items*, mixed but each item's in order, and return them by message id."""
    alone = len(items) == 1
    spoken = [
        (place + float(rng.random()), item, place)
        for item in items
        for place in range(len(item.told) if alone or not item.is_update or rng.random() < _FINISHED else 1)
    ]
    spoken.sort(key=lambda one: one[0])
    said: dict[str, tuple[Item, int]] = {}
    for number, (_, item, place) in enumerate(spoken):
        clock.move(clock.at + _TWO_DAYS)
        key = f"said-{number}"
        said[key] = (item, place)
        messages = [
            {"role": "user", "content": item.told[place], "id": key},
            {"role": "assistant", "content": "All right.", "id": f"reply-{number}"},
        ]
        await tk.capture(messages, owner=owner, thread_id=f"{owner.user_id}-{number}", wait=True)
    return said


async def _search(tk: Threadkeep, owner: Owner, items: Sequence[Item]) -> AsyncIterator[tuple[Item, Ranking]]:
    for item in items:
        ranking = await tk.app.call(
            lambda services, question=item.question: services.search.ranking(
                owner.partition,
                question,
                prefixes=recalled_namespaces(owner.label),
                limit=CONSIDERED,
                compared=COMPARED,
            )
        )
        yield item, ranking


def _add(examples: Examples, asked: Item, ranking: Ranking, said: Mapping[str, tuple[Item, int]]) -> None:
    """Add the pairs that recall compares for a question."""
    places = range(min(COMPARED, len(ranking.hits)))
    memories = ranking.memories(places)
    compared = statements([memories[place] for place in places])
    origins = [said[str(memories[one.place].sources[-1].message_id)] for one in compared]  # pyright: ignore[reportOptionalMemberAccess]
    pairs = pairs_of(compared, ranking.alike, ranking.hits.strength[: len(places)])
    several = asks_for_several(asked.question)
    for newer, older in np.argwhere(pairs.compared & pairs.shown).tolist():
        (new, new_place), (old, old_place) = origins[newer], origins[older]
        numbers: list[float] = pairs.numbers[:, newer, older].tolist()
        of_words = map(float, compare(compared[newer].text, compared[older].text))
        examples.features.append([1.0, float(several), *numbers, *of_words])
        outdates = new is old and old_place in old.outdated and new_place > old_place
        examples.outdates.append((asked.question, old.told[old_place]) if outdates else None)
        examples.asked.append(new is old is asked)


def fit(found: Sequence[Examples]) -> dict[str, float]:
    """Return the weights of a logistic regression over the pairs in memories of each file and size."""
    rows = np.array([features for one in found for features in one.features])
    labels = np.array([outdates is not None for one in found for outdates in one.outdates], float)
    weights = np.array(list(_weights(found)))
    changes = _changes(found)
    weighed = rows[:, _COSINE]
    coefficients = np.zeros(rows.shape[1])
    for _ in range(_ROUNDS):
        counted = weights.copy()
        for places in changes:
            counted[places] *= np.arange(len(places)) == np.argmax(weighed[places])
        coefficients = _regression(rows, labels, counted)
        weighed = rows @ coefficients
    return dict(zip(NAMES, np.round(coefficients, 2).tolist(), strict=True))


def _weights(found: Sequence[Examples]) -> Iterator[float]:
    for one in found:
        share = min(1.0, _WEIGHT_OF_OTHERS * one.items / max(one.asked.count(False), 1))
        yield from (1.0 if asked else share for asked in one.asked)


def _changes(found: Sequence[Examples]) -> list[list[int]]:
    """Return the rows of the pairs of each change, of which one tells it."""
    rows: dict[tuple[int, tuple[str, str]], list[int]] = defaultdict(list)
    every = ((number, outdates) for number, one in enumerate(found) for outdates in one.outdates)
    for row, (number, outdates) in enumerate(every):
        if outdates is not None:
            rows[number, outdates].append(row)
    return list(rows.values())


def _regression(
    rows: NDArray[np.float64], labels: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the coefficients, with a penalty on the squares of all but the first."""
    penalty = np.full(rows.shape[1], _PENALTY)
    penalty[0] = 1e-6
    return Regression(rows.__matmul__, rows.T.__matmul__, labels, weights, penalty).fit()


async def _find_in_files(paths: Sequence[Path]) -> list[Examples]:
    return [examples for path in paths for examples in await find_pairs(read_items(path))]


def main(paths: Sequence[str]) -> None:
    """Fit and print."""
    found = asyncio.run(_find_in_files([Path(path) for path in paths]))
    print(json.dumps(fit(found), indent=1))  # noqa: T201 - a command


if __name__ == "__main__":
    main(sys.argv[1:])
