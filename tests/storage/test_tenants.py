"""Many owners in one storage: each search gives as many as were asked for, the true nearest, and nobody else's."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from threadkeep.registry import create_storage, resolve_settings
from threadkeep.search.retriever import Retriever
from threadkeep.storage.interface import Batch, Embedding, Partition, Put, Storage
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.models import HashingEmbedder

K = 10
WORDS = [
    f"{first}{last}" for first in "bdfglmnprst" for last in ("ano", "eka", "ilu", "ora", "une", "ave", "ist", "omb")
]
QUESTIONS = 5


@pytest_asyncio.fixture(params=["memory", "sqlite", "postgres", "redis", "mongodb"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    """A storage of each kind, empty."""
    here = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/memory.db"}
    kind = str(request.param)
    url = here.get(kind) or request.getfixturevalue(f"{kind}_url")
    if kind == "mongodb":
        url += "?journal=false"  # the test server would sync for every document
    storage = create_storage(resolve_settings(url, None), FrozenClock())
    await storage.connect()
    yield storage
    await storage.close()


async def told(
    storage: Storage, embedder: HashingEmbedder, *, owners: int, memories: int
) -> dict[Partition, np.ndarray]:
    """Tell each owner so many things out of the same words; return everybody's vectors, in the order of their keys."""
    dice = random.Random(11)
    vectors: dict[Partition, np.ndarray] = {}
    for number in range(owners):
        owner = Partition("owner", ("", f"user{number}"))
        texts = [" ".join(dice.choices(WORDS, k=6)) for _ in range(memories)]
        vectors[owner] = await embedder.embed(texts)
        puts = [
            Put(
                ("memories", "u"), f"{at:06}", {"text": text}, ("text",), Embedding(embedder.name, 64, vector.tobytes())
            )
            for at, (text, vector) in enumerate(zip(texts, vectors[owner].astype("<f4"), strict=True))
        ]
        await storage.commit(Batch(owner, puts))
    return vectors


async def check(storage: Storage, *, owners: int, memories: int) -> None:
    """Ask every owner's memory, and compare with what arithmetic says."""
    embedder = HashingEmbedder()
    vectors = await told(storage, embedder, owners=owners, memories=memories)
    search = Retriever(storage, embedder, FrozenClock())
    dice = random.Random(12)
    for owner, matrix in vectors.items():
        for _ in range(QUESTIONS):
            question = " ".join(dice.choices(WORDS, k=4))
            (asked,) = await embedder.embed([question])
            exact = np.sort(matrix @ asked)[::-1][:K]

            dense = (await search.ranking(owner, question, ranking="dense", limit=K)).hits
            hybrid = (await search.ranking(owner, question, limit=K)).hits

            found = [float(matrix[int(hit.key)] @ asked) for hit in dense]
            assert len(dense) == len(hybrid) == K
            assert len({hit.key for hit in dense}) == K
            assert found == pytest.approx(exact.tolist(), abs=1e-6)
    await search.close()


class TestTenants:
    async def test_every_answer_is_full_and_exact(self, storage: Storage) -> None:
        """Recall is 1.0 against exact search, whatever else is in the same tables."""
        await check(storage, owners=12, memories=60)

    @pytest.mark.soak
    @pytest.mark.timeout(900)
    @pytest.mark.parametrize(("owners", "memories"), [(50, 1_000), (200, 50)])
    async def test_at_full_size(self, storage: Storage, owners: int, memories: int) -> None:
        """Where a vector index that is filtered after the search finds a tenth to a quarter."""
        await check(storage, owners=owners, memories=memories)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_langgraphs_own_store_beside(postgres_url: str) -> None:
    """What docs/storage.md says of it: of 50 owners with 1,000 memories each it finds too few."""
    from langgraph.store.base import PutOp
    from langgraph.store.postgres import AsyncPostgresStore

    embedder, dice = HashingEmbedder(), random.Random(11)

    async def embed(texts: list[str]) -> list[list[float]]:
        return (await embedder.embed(texts)).tolist()

    index: Any = {"dims": embedder.dims, "embed": embed, "fields": ["text"]}
    found: list[int] = []
    near: list[float] = []
    async with AsyncPostgresStore.from_conn_string(postgres_url, index=index) as store:
        await store.setup()
        texts = {f"user{n}": [" ".join(dice.choices(WORDS, k=6)) for _ in range(1_000)] for n in range(50)}
        for user, said in texts.items():
            await store.abatch([PutOp(("memories", user), f"{at:06}", {"text": text}) for at, text in enumerate(said)])
        for user, said in texts.items():
            question = " ".join(dice.choices(WORDS, k=4))
            scores = await embedder.embed(said) @ (await embedder.embed([question]))[0]
            nearest = {f"{at:06}" for at in np.argsort(-scores, kind="stable")[:K]}
            hits = await store.asearch(("memories", user), query=question, limit=K)
            found.append(len(hits))
            near.append(len(nearest & {hit.key for hit in hits}) / K)

    print(f"LangGraph's PostgresStore: recall {np.mean(near):.2f}, {found.count(0)} of {len(found)} answers empty")  # noqa: T201
    assert min(found) < K
    assert np.mean(near) < 1.0
