"""A process that is killed between the storage's commit and the engine's: the next one finds everything, once."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.pinecone_server import PineconeServer
from tests.processes import PIPE, PythonProcess, start_python
from tests.recall.vectors.victim import ANA, PLACES, opened
from tests.storage.postgres_world import run
from threadkeep.testing.models import HashingEmbedder

pytestmark = [pytest.mark.slow, pytest.mark.linux]

ROOT = Path(__file__).parents[3]
ROUNDS = pytest.mark.parametrize(
    ("rounds", "least"), [pytest.param(1, 50), pytest.param(3, 100, marks=pytest.mark.soak)]
)
"""So often a process is killed at each place, and more than so many items are kept at the end."""


@pytest.fixture(scope="module")
def victims() -> Iterator[PythonProcess]:
    """The program that forks them."""
    with start_python("-m", "tests.recall.vectors.victim", cwd=ROOT, stdin=PIPE, stdout=PIPE) as running:
        yield running
        running.kill()


@pytest.fixture
def pinecone() -> Iterator[PineconeServer]:
    with PineconeServer(dimension=64) as server:
        yield server


@pytest.mark.long
@ROUNDS
@pytest.mark.parametrize("kind", ["pgvector", "faiss", "pinecone"])
async def test_what_a_killed_process_missed_is_repaired(
    victims: PythonProcess, kind: str, rounds: int, least: int, tmp_path: Path, request: pytest.FixtureRequest
):
    """However often, before, within and after the engine's write: nothing is missing, nothing is left over."""
    told: dict[str, Any] = {"kind": kind, "file": str(tmp_path / "memory.db"), "key": "pc-right"}
    told["place"] = {
        "pgvector": lambda: request.getfixturevalue("postgres_url"),
        "faiss": lambda: str(tmp_path / "vectors"),
        "pinecone": lambda: request.getfixturevalue("pinecone").host,
    }[kind]()
    assert victims.stdin is not None
    assert victims.stdout is not None
    ends: list[int] = []

    for seed, dies in enumerate(["", *(PLACES * rounds)]):
        victims.stdin.write(json.dumps({**told, "seed": seed, "dies": dies}) + "\n")
        victims.stdin.flush()
        ends.append(int(victims.stdout.readline()))

    assert ends == [0] + [-signal.SIGKILL] * (len(PLACES) * rounds)
    storage, search, engine, pool = await opened({**told, "dies": ""})
    found = await search.ranking(ANA, "tea", limit=3)
    kept = {(item.ref.key, item.revision) for item in (await storage.changes(ANA, None)).puts}
    (vector,) = await HashingEmbedder().embed(["tea"])
    near = await engine.search(ANA, vector, limit=10_000)
    there = {(one.key, one.revision) for one in near}
    assert len(kept) > least
    assert (kept - there, there - kept, len(near)) == (set(), set(), len(kept))
    assert found.degraded == ()
    if kind == "pinecone":
        assert len(request.getfixturevalue("pinecone").ids()) == len(kept) + 1
    if kind == "pgvector":
        assert run(told["place"], "SELECT count(*) FROM threadkeep_vectors.vectors_64") == [(len(kept),)]
    await search.close()
    await storage.close()
    if pool is not None:
        await pool.close()
