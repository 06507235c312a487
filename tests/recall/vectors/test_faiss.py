"""Tests of the engine over FAISS: the contract, and what its folder holds after a crash, an erasure or damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("faiss")

from threadkeep.errors import VectorEngineError
from threadkeep.search.vectorstores.base import FENCE, VectorUpdate
from threadkeep.search.vectorstores.faiss import FaissEngine
from threadkeep.testing.vectors_contract import (
    ANA,
    BOB,
    SPACE,
    OpenEngine,
    VectorsContract,
    at,
    entry,
    fill,
    keys,
    random_entries,
    unit,
)


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


class TestFaissEngine(VectorsContract):
    @pytest.fixture
    def open_engine(self, tmp_path: Path) -> OpenEngine:
        return lambda *, key_prefix="": FaissEngine(tmp_path / "vectors", key_prefix=key_prefix)


class TestFolder:
    async def test_what_was_closed_is_there_again(self, tmp_path: Path):
        """Positions, names and vectors, of an item with several texts, too; what was dropped stays away."""
        engine = FaissEngine(tmp_path)
        await fill(engine, [*random_entries(40), entry("two", unit(0, 1), unit(1))])
        await engine.apply(
            VectorUpdate(ANA, SPACE, at(1), at(2), reset=False, puts=[], removed=[(("memories", "user1"), "000003")])
        )
        before = await engine.search(ANA, unit(1), limit=100)
        await engine.close()

        again = FaissEngine(tmp_path)

        assert await again.position(ANA, SPACE) == at(2)
        after = await again.search(ANA, unit(1), limit=100)
        assert [near[:3] for near in after] == [near[:3] for near in before]
        assert len(after) == 40
        await again.close()

    async def test_a_crash_leaves_an_older_position(self, tmp_path: Path):
        """So what came after it is read again from the storage."""
        engine = FaissEngine(tmp_path)
        await fill(engine, random_entries(40))
        await engine.apply(VectorUpdate(ANA, SPACE, at(1), at(2), reset=False, puts=[entry("late", unit(1))]))

        crashed = FaissEngine(tmp_path)

        assert await crashed.position(ANA, SPACE) == at(1)
        assert "late" not in await keys(crashed, unit(1), limit=100)

    @pytest.mark.parametrize("ending", ["faiss", "names", "json"])
    async def test_a_damaged_file_is_no_copy(self, tmp_path: Path, ending: str):
        """It is made anew, as if it were missing."""
        engine = FaissEngine(tmp_path)
        await fill(engine, random_entries(40))
        await engine.close()
        (damaged,) = (path for path in files(tmp_path) if path.suffix == f".{ending}")
        damaged.write_bytes(damaged.read_bytes()[:40])

        again = FaissEngine(tmp_path)

        assert await again.position(ANA, SPACE) is None
        await fill(again, random_entries(40))
        assert len(await keys(again, unit(1), limit=100)) == 40

    async def test_an_erasure_leaves_no_vector_in_any_file(self, tmp_path: Path):
        """And another process neither shows nor writes what it still holds in RAM."""
        engine, other = FaissEngine(tmp_path), FaissEngine(tmp_path)
        (one,) = random_entries(1)
        await fill(engine, [one])
        await fill(engine, [entry("bob", unit(1))], partition=BOB)
        assert await other.position(ANA, SPACE) == at(1)
        await other.apply(VectorUpdate(ANA, SPACE, at(1), at(2), reset=False, puts=[one._replace(key="other's")]))

        await engine.erase(ANA)

        assert await other.search(ANA, unit(1), limit=10) == []
        assert await other.position(ANA, SPACE) == FENCE
        await other.close()
        await engine.close()
        held = b"".join(path.read_bytes() for path in files(tmp_path))
        assert one.vectors.tobytes() not in held
        assert b"other's" not in held
        assert unit(1).tobytes() in held

    async def test_what_does_not_fit_in_memory_is_in_the_folder(self, tmp_path: Path):
        """The longest unused goes, with what has changed in it, and comes back when it is asked for."""
        engine = FaissEngine(tmp_path, max_bytes=1)
        await fill(engine, random_entries(40))
        await engine.apply(VectorUpdate(ANA, SPACE, at(1), at(2), reset=False, puts=[entry("late", unit(1))]))
        await fill(engine, random_entries(40), partition=BOB)

        assert len(engine._copies) == 1
        assert await engine.position(ANA, SPACE) == at(2)
        assert (await keys(engine, unit(1)))[0] == "late"

    async def test_many_changes_leave_no_waste(self, tmp_path: Path):
        """Rows that are passed over are dropped now and then, and the answers stay."""
        engine = FaissEngine(tmp_path)
        await fill(engine, random_entries(1_500))
        for round_ in range(1, 4):
            changed = [one._replace(revision=round_ + 1) for one in random_entries(1_500, seed=round_)]
            await engine.apply(VectorUpdate(ANA, SPACE, at(round_), at(round_ + 1), reset=False, puts=changed))

        (copy,) = engine._copies.values()
        found = await engine.search(ANA, random_entries(1_500, seed=3)[7].vectors[0], limit=1)

        assert copy.index.ntotal < 3_000
        assert found[0][1:3] == ("000007", 4)
        assert np.isclose(found[0].cosine, 1.0)

    async def test_unwritable_folder_is_reported(self, tmp_path: Path):
        """As an error of ours."""
        (tmp_path / "file").touch()

        with pytest.raises(VectorEngineError, match="check the folder"):
            await FaissEngine(tmp_path / "file" / "vectors").connect()
