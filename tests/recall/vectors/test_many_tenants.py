"""Many tenants in one table or one folder: each gets as many as asked for, and its own nearest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from tests.storage.postgres_world import run
from threadkeep.identity import Owner
from threadkeep.search.vectorstores.base import Space, VectorEngine, VectorEntry
from threadkeep.search.vectorstores.faiss import FaissEngine
from threadkeep.search.vectorstores.pgvector import PgVectorEngine
from threadkeep.storage.postgres.pool import PostgresPool
from threadkeep.testing.vectors_contract import fill

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

K = 10
RECALLS = 256
"""So many candidates recall asks an engine for, at least."""
DIMS = 16
SPACE = Space("crowds", DIMS)
SIZES = [(10, 400, 40), pytest.param((50, 1_000, 200), marks=pytest.mark.soak)]
"""Large tenants, vectors of each, and small tenants with 50 vectors."""


@pytest.fixture
async def pool(postgres_url: str) -> AsyncIterator[PostgresPool]:
    opened = PostgresPool(postgres_url)
    yield opened
    await opened.close()


@pytest.fixture(params=["pgvector", "faiss"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[VectorEngine]:
    opened: VectorEngine
    pool = None
    if request.param == "pgvector":
        pool = PostgresPool(request.getfixturevalue("postgres_url"))
        opened = PgVectorEngine(pool)
    else:
        opened = FaissEngine(tmp_path / "vectors")
    await opened.connect()
    yield opened
    await opened.close()
    if pool is not None:
        await pool.close()


def cloud(user: str, number: int, *, dims: int = DIMS) -> np.ndarray:
    """Vectors of a tenant, around a direction of its own: those of others are nearer to most questions."""
    dice = np.random.default_rng(list(user.encode()))
    rows = dice.standard_normal(dims) + 0.5 * dice.standard_normal((number, dims))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def entries(user: str, rows: np.ndarray) -> list[VectorEntry]:
    return [VectorEntry(("memories", Owner(user).label), f"{at:06}", 1, row[None]) for at, row in enumerate(rows)]


async def met(engine: VectorEngine, user: str, rows: np.ndarray, question: np.ndarray, *, asked: int = K) -> float:
    """Return which share of the true nearest is found first; everything found is the tenant's own."""
    found = await engine.search(Owner(user).partition, question, limit=asked)
    assert len({near.key for near in found}) == asked
    assert {near.namespace for near in found} == {("memories", Owner(user).label)}
    least = np.sort(rows @ question)[-K]
    return sum(near.cosine >= least - 1e-3 for near in found[:K]) / K


@pytest.mark.parametrize("sizes", SIZES)
async def test_each_tenant_gets_its_own_nearest(engine: VectorEngine, sizes: tuple[int, int, int]):
    """Large and small ones, asked for what is everybody else's: recall is complete."""
    large, vectors, small = sizes
    clouds = {f"large{number}": cloud(f"large{number}", vectors) for number in range(large)}
    clouds |= {f"small{number}": cloud(f"small{number}", 50) for number in range(small)}
    for user, rows in clouds.items():
        await fill(engine, entries(user, rows), partition=Owner(user).partition, space=SPACE)
    users = list(clouds)

    recall = [
        await met(engine, user, rows, clouds[users[place - 7]][place % 50])
        for place, (user, rows) in enumerate(clouds.items())
    ]

    print(f"{engine.name}: recall@{K} beside exact, {len(users)} tenants: {np.mean(recall):.4f}")  # noqa: T201
    assert min(recall) == 1.0


@pytest.mark.parametrize(("others", "size"), [(10, 2_000), pytest.param(40, 6_000, marks=pytest.mark.soak)])
async def test_an_index_of_its_own_finds_nearly_all_above_the_threshold(
    pool: PostgresPool, postgres_url: str, others: int, size: int
):
    """HNSW by iterative scan for one large tenant among others in the same table."""
    engine = PgVectorEngine(pool, exact_milliseconds=0)
    await engine.connect()
    space = Space("wide", 64)
    for user in (f"other{number}" for number in range(others)):
        rows = cloud(user, 300, dims=64)
        await fill(engine, entries(user, rows), partition=Owner(user).partition, space=space)
    rows = cloud("one", size, dims=64)
    await fill(engine, entries("one", rows), partition=Owner("one").partition, space=space)
    await engine.indexing()

    near = cloud("one", size + 50, dims=64)[-50:]
    far = [cloud(f"other{number}", 1, dims=64)[0] for number in range(others)]
    recall = {
        (name, asked): float(np.mean([await met(engine, "one", rows, one, asked=asked) for one in questions]))
        for name, questions in (("near", near), ("far", far))
        for asked in (K, RECALLS)
    }

    print(f"HNSW: recall@{K} beside exact: {recall}")  # noqa: T201 - what docs/vectors.md says
    assert run(postgres_url, "SELECT count(*) FROM pg_class WHERE relname LIKE 'hnsw%'") == [(1,)]
    assert min(recall["near", K], recall["near", RECALLS], recall["far", RECALLS]) >= 0.95
    assert recall["far", K] >= 0.8
    await engine.close()
