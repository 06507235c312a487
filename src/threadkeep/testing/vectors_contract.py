"""What every vector engine does, as tests to inherit; and the plainest engine there is.

The tests quote :mod:`threadkeep.search.vectorstores.base`. An engine's test file gives a fixture::

    class TestMyEngine(VectorsContract):
        @pytest.fixture
        def open_engine(self, server: MyServer) -> OpenEngine:
            return lambda *, key_prefix="": MyEngine(server.url, key_prefix=key_prefix)

Set ``least_recall`` where the engine is approximate, and ``nearest_among`` to compare more entries. The tests need
pytest and pytest-asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

import numpy as np
import pytest
import pytest_asyncio

from threadkeep.search.vectorstores.base import FENCE, NearItem, Space, VectorEngine, VectorEntry, VectorUpdate
from threadkeep.storage.interface import Namespace, Partition, Position
from threadkeep.testing.texts import NASTY_TEXTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIMS: Final = 8
SPACE: Final = Space("contract", DIMS)
ANA: Final = Partition("owner", ("", "user1"))
BOB: Final = Partition("owner", ("", "user10"))
NOTES: Final = ("memories", "user1")


class ExactVectors:
    """The engine that every other one is measured against: numpy, in this process, for tests."""

    name: str = "exact"
    location: str = "this process"

    def __init__(self) -> None:
        self._copies: dict[bytes, tuple[Space | None, Position, dict[tuple[Namespace, str], VectorEntry]]] = {}

    async def connect(self) -> None:
        """Nothing is needed."""

    async def close(self) -> None:
        """Nothing is held."""

    async def position(self, partition: Partition, space: Space) -> Position | None:
        """See :meth:`VectorEngine.position`."""
        if partition.digest not in self._copies:
            return None
        kept, position, _ = self._copies[partition.digest]
        return position if kept in (None, space) else None

    async def holds(self, partition: Partition) -> bool:
        """See :meth:`VectorEngine.holds`."""
        return self._copies.get(partition.digest, (None,))[0] is not None

    async def apply(self, update: VectorUpdate) -> bool:
        """See :meth:`VectorEngine.apply`."""
        if await self.position(update.partition, update.space) != update.since:
            return False
        entries = {} if update.reset else dict(self._copies[update.partition.digest][2])
        for name in update.removed:
            entries.pop(name, None)
        entries.update({(entry.namespace, entry.key): entry for entry in update.puts})
        self._copies[update.partition.digest] = (update.space, update.position, entries)
        return True

    async def search(
        self, partition: Partition, vector: NDArray[np.float32], *, prefixes: Sequence[Namespace] = ((),), limit: int
    ) -> list[NearItem]:
        """See :meth:`VectorEngine.search`."""
        entries = self._copies[partition.digest][2] if partition.digest in self._copies else {}
        found = [
            NearItem(entry.namespace, entry.key, entry.revision, float((entry.vectors @ vector).max()))
            for entry in entries.values()
            if entry.vectors.shape[1] == len(vector) and any(entry.namespace[: len(one)] == one for one in prefixes)
        ]
        return sorted(found, key=lambda near: -near.cosine)[:limit]

    async def erase(self, partition: Partition) -> None:
        """See :meth:`VectorEngine.erase`."""
        self._copies[partition.digest] = (None, FENCE, {})


class OpenEngine(Protocol):
    """Makes an engine that is not connected, at the one place of the test."""

    def __call__(self, *, key_prefix: str = "") -> VectorEngine:
        """Return a new one; with another *key_prefix* it shares nothing with the rest."""
        ...


def unit(*numbers: float) -> NDArray[np.float32]:
    """Return a vector of the space that begins with *numbers*, of unit length."""
    vector = np.zeros(DIMS)
    vector[: len(numbers)] = numbers
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def entry(key: str, *rows: NDArray[np.float32], namespace: Namespace = NOTES, revision: int = 1) -> VectorEntry:
    """Return the vectors of an item."""
    return VectorEntry(namespace, key, revision, np.stack(rows))


def random_entries(number: int, *, dims: int = DIMS, seed: int = 7, namespace: Namespace = NOTES) -> list[VectorEntry]:
    """Return items with vectors in random directions."""
    rows = np.random.default_rng(seed).standard_normal((number, dims)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return [VectorEntry(namespace, f"{place:06}", 1, row[None]) for place, row in enumerate(rows)]


def at(sequence: int, epoch: str = "epoch") -> Position:
    """Return a position."""
    return Position(epoch, sequence)


async def fill(
    engine: VectorEngine, entries: Iterable[VectorEntry], *, partition: Partition = ANA, space: Space = SPACE
) -> None:
    """Tell *engine* everything there is of *partition*, at the first position."""
    since = await engine.position(partition, space)
    assert await engine.apply(VectorUpdate(partition, space, since, at(1), reset=True, puts=entries))


async def keys(engine: VectorEngine, vector: NDArray[np.float32], *, limit: int = 10) -> list[str]:
    """Return the keys of what is near in Ana's partition."""
    return [near.key for near in await engine.search(ANA, vector, limit=limit)]


@pytest.mark.asyncio
class VectorsContract:
    """Everything that an engine promises."""

    least_recall: ClassVar[float] = 1.0
    nearest_among: ClassVar[int] = 500
    """Share of the true ten nearest of 2,000 that it finds."""

    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        """Replaced by the engine's own."""
        raise NotImplementedError

    @pytest_asyncio.fixture
    async def engine(self, open_engine: OpenEngine) -> AsyncIterator[VectorEngine]:
        """A connected engine; closed in the end."""
        engine = open_engine()
        await engine.connect()
        yield engine
        await engine.close()

    async def test_without_a_copy_nothing_is_near(self, engine: VectorEngine) -> None:
        """ "Without a copy, or with one of another length, nothing is near"."""
        assert await engine.position(ANA, SPACE) is None
        assert await engine.search(ANA, unit(1), limit=10) == []
        assert not await engine.holds(ANA)

    async def test_the_nearest_come_first(self, engine: VectorEngine) -> None:
        """With their cosines, and the revision of the vectors that were compared."""
        await fill(engine, [entry("far", unit(0, 1)), entry("near", unit(1), revision=5), entry("mid", unit(1, 1))])

        found = await engine.search(ANA, unit(1), limit=2)

        assert [(near.namespace, near.key, near.revision) for near in found] == [(NOTES, "near", 5), (NOTES, "mid", 1)]
        assert [near.cosine for near in found] == pytest.approx([1.0, 0.5**0.5], abs=2e-3)
        assert await engine.search(ANA, unit(1), limit=0) == []
        assert await engine.position(ANA, SPACE) == at(1)

    async def test_an_item_is_there_once_with_its_nearest_text(self, engine: VectorEngine) -> None:
        """ "each at most once"."""
        many = [unit(1, share / 100) for share in range(30)]
        await fill(engine, [entry("many", *many), entry("one", unit(0, 1))])

        assert await keys(engine, unit(1), limit=2) == ["many", "one"]

    async def test_an_update_upserts_and_deletes(self, engine: VectorEngine) -> None:
        """What an item was before is replaced, with however many texts; what is put after it was removed is there."""
        await fill(engine, [entry("a", unit(1), unit(0, 1)), entry("b", unit(1)), entry("c", unit(1))])

        changed = VectorUpdate(
            ANA, SPACE, at(1), at(2), reset=False,
            puts=[entry("a", unit(0, 0, 1), revision=2), entry("c", unit(0, 0, 0, 1), revision=2)],
            removed=[(NOTES, "b"), (NOTES, "c"), (NOTES, "never there")],
        )  # fmt: skip

        assert await engine.apply(changed)
        found = await engine.search(ANA, unit(0, 0, 1), limit=10)
        assert [(near.key, near.revision) for near in found[:1]] == [("a", 2)]
        assert {near.key: round(near.cosine, 2) for near in found} == {"a": 1.0, "c": 0.0}
        assert max(near.cosine for near in await engine.search(ANA, unit(1), limit=10)) == pytest.approx(0, abs=1e-3)
        assert await engine.position(ANA, SPACE) == at(2)

    async def test_a_reset_leaves_nothing_else(self, engine: VectorEngine) -> None:
        """ "*puts* is everything there is, and nothing else stays"."""
        await fill(engine, random_entries(50))
        again = VectorUpdate(ANA, SPACE, at(1), at(9, "new"), reset=True, puts=iter([entry("only", unit(1))]))

        assert await engine.apply(again)

        assert await keys(engine, unit(1), limit=100) == ["only"]
        assert await engine.position(ANA, SPACE) == at(9, "new")

    async def test_an_update_from_elsewhere_is_refused(self, engine: VectorEngine) -> None:
        """ "return ``False``, and do nothing, where it is elsewhere than *since*"."""
        await fill(engine, [entry("a", unit(1))])

        for since in (None, at(0), at(2), at(1, "other"), FENCE):
            update = VectorUpdate(ANA, SPACE, since, at(7), reset=since is None, puts=[entry("late", unit(1))])
            assert not await engine.apply(update)

        assert await keys(engine, unit(1)) == ["a"]
        assert await engine.position(ANA, SPACE) == at(1)

    async def test_of_two_at_once_one_is_applied(self, engine: VectorEngine, open_engine: OpenEngine) -> None:
        """Two processes that read the same change do not undo each other."""
        await fill(engine, [entry("a", unit(1))])
        updates = [
            VectorUpdate(
                ANA, SPACE, at(1), at(2 + place), reset=False, puts=[entry(f"new{place}", unit(1, place / 10))]
            )
            for place in range(4)
        ]

        done = await asyncio.gather(*map(engine.apply, updates))

        assert sorted(done) == [False, False, False, True]
        assert await engine.position(ANA, SPACE) == at(2 + done.index(True))
        assert sorted(await keys(engine, unit(1))) == ["a", f"new{done.index(True)}"]

    async def test_the_partition_is_chosen_before_the_nearest(self, engine: VectorEngine) -> None:
        """Forty owners keep nearer things than Ana has: she gets as many as she has asked for, and only hers."""
        crowd = [Partition("owner", ("", f"user1{number}")) for number in range(40)]
        for partition in crowd:
            await fill(engine, [entry(str(n), unit(1, n / 1000)) for n in range(15)], partition=partition)
        await fill(engine, [entry(f"ana{n}", unit(0.1, 1, n / 100)) for n in range(12)])

        assert len(await keys(engine, unit(1), limit=10)) == 10
        assert all(key.startswith("ana") for key in await keys(engine, unit(1), limit=20))
        assert len(await engine.search(crowd[3], unit(1), limit=15)) == 15

    async def test_the_prefix_is_chosen_before_the_nearest(self, engine: VectorEngine) -> None:
        """However many nearer ones another namespace holds; and a label matches whole."""
        nearer = [entry(str(n), unit(1, n / 1000), namespace=("memories", "user10")) for n in range(300)]
        mine = [entry(f"mine{n}", unit(0.1, 1, n / 100), namespace=("memories", "user1", str(n))) for n in range(12)]
        await fill(engine, [*nearer, *mine])

        found = await engine.search(ANA, unit(1), prefixes=[("memories", "user1")], limit=10)
        both = await engine.search(ANA, unit(1), prefixes=[("memories", "user1"), ("memories", "user10")], limit=10)

        assert len(found) == 10
        assert all(near.namespace[:2] == ("memories", "user1") for near in found)
        assert all(near.namespace == ("memories", "user10") for near in both)
        assert await engine.search(ANA, unit(1), prefixes=[("memories", "user")], limit=10) == []
        assert await engine.search(ANA, unit(1), prefixes=[], limit=10) == []

    async def test_a_namespace_that_comes_after_a_search_is_a_prefix(self, engine: VectorEngine) -> None:
        """What was looked at before does not decide what is below it."""
        await fill(engine, [entry("a", unit(1))])
        before = await engine.search(ANA, unit(1), prefixes=[("later",)], limit=10)
        later = [entry("b", unit(1), namespace=("later", "x")), entry("c", unit(1))]
        await engine.apply(VectorUpdate(ANA, SPACE, at(1), at(2), reset=False, puts=later))

        assert before == []
        assert [near.key for near in await engine.search(ANA, unit(1), prefixes=[("later",)], limit=10)] == ["b"]
        assert {near.key for near in await engine.search(ANA, unit(1), prefixes=[NOTES], limit=10)} == {"a", "c"}

    async def test_any_text_is_a_name(self, engine: VectorEngine) -> None:
        """Labels and keys come back as they were given."""
        names = [((text, "x"), text) for text in NASTY_TEXTS]
        await fill(engine, [entry(key, unit(1, place / 9), namespace=ns) for place, (ns, key) in enumerate(names)])

        found = await engine.search(ANA, unit(1), limit=1000)

        assert sorted((near.namespace, near.key) for near in found) == sorted(set(names))

    async def test_an_erasure_leaves_nothing_and_refuses_what_was_on_its_way(self, engine: VectorEngine) -> None:
        """ "An update that was on its way from before, its *since* being ``None`` included, is refused"."""
        await fill(engine, random_entries(20))
        await fill(engine, [entry("bob", unit(1))], partition=BOB)

        await engine.erase(ANA)

        assert await engine.search(ANA, unit(1), limit=10) == []
        for since in (None, at(1)):
            assert not await engine.apply(VectorUpdate(ANA, SPACE, since, at(2), reset=True, puts=random_entries(20)))
        assert await engine.position(ANA, SPACE) == FENCE
        assert not await engine.holds(ANA)
        assert await engine.search(ANA, unit(1), limit=10) == []
        assert [near.key for near in await engine.search(BOB, unit(1), limit=10)] == ["bob"]
        assert await engine.apply(
            VectorUpdate(ANA, SPACE, FENCE, at(1, "new"), reset=True, puts=[entry("new", unit(1))])
        )
        assert await keys(engine, unit(1)) == ["new"]

    async def test_what_was_never_there_can_be_erased(self, engine: VectorEngine) -> None:
        """The first copy of it may be on its way."""
        await engine.erase(ANA)

        assert not await engine.apply(VectorUpdate(ANA, SPACE, None, at(2), reset=True, puts=random_entries(20)))
        assert await engine.search(ANA, unit(1), limit=10) == []

    async def test_another_models_vectors_are_no_copy(self, engine: VectorEngine) -> None:
        """Vectors of different models are never compared; the new ones take the place of the old."""
        await fill(engine, random_entries(20))
        other, longer = Space("another model", DIMS), Space("longer", 2 * DIMS)

        assert await engine.position(ANA, other) is None
        assert await engine.position(ANA, longer) is None
        assert await engine.apply(
            VectorUpdate(ANA, longer, None, at(1), reset=True, puts=random_entries(30, dims=2 * DIMS, seed=3))
        )
        assert await engine.position(ANA, SPACE) is None
        assert await engine.position(ANA, longer) == at(1)
        assert await engine.holds(ANA)
        assert await engine.search(ANA, unit(1), limit=10) == []
        question = random_entries(1, dims=2 * DIMS, seed=3)[0].vectors[0]
        assert len(await engine.search(ANA, question, limit=50)) == 30

    async def test_key_prefixes_share_nothing(self, engine: VectorEngine, open_engine: OpenEngine) -> None:
        """ "two with different key prefixes at one place share nothing"."""
        await fill(engine, [entry("a", unit(1))])
        other = open_engine(key_prefix="other")
        await other.connect()

        assert await other.position(ANA, SPACE) is None
        assert await other.search(ANA, unit(1), limit=10) == []
        await other.erase(ANA)
        await other.close()
        assert await keys(engine, unit(1)) == ["a"]

    async def test_it_finds_what_is_nearest(self, engine: VectorEngine) -> None:
        """Beside the exact nearest of ``nearest_among`` entries, over twenty questions."""
        entries = random_entries(self.nearest_among)
        await fill(engine, entries)
        exact = ExactVectors()
        await fill(exact, entries)
        met = 0

        for question in random_entries(20, seed=11):
            found = await keys(engine, question.vectors[0])
            assert len(set(found)) == 10
            met += len(set(found) & set(await keys(exact, question.vectors[0])))

        assert met / 200 >= self.least_recall
