"""Erasing an owner: nothing is left in any layer, nobody else is touched, and nothing comes back."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import shutil
import sqlite3
import stat
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, empty_checkpoint
from langgraph.graph import StateGraph

import threadkeep
from tests.owners.erasing import EACH, Canaries, GatedEmbedder, State, plant, raw, rows_of, shut
from threadkeep.errors import (
    InvalidInputError,
    OwnerMismatchError,
    PartitionErasedError,
    SettingsError,
    StorageFullError,
    ThreadMovedOnError,
)
from threadkeep.identity import Owner
from threadkeep.models.base import Message
from threadkeep.owners.erasure import receipts_in
from threadkeep.storage.interface import Partition, iterate_items, iterate_partitions
from threadkeep.testing import FrozenClock, HashingEmbedder

ANA: Final = Owner("ana.canaryana@x.org")
BOB: Final = Owner("bob@x.org")
KEY: Final = "k" * 40
PLACES: Final = ("memory", "sqlite", "postgres", "redis", "mongodb")
FULL: Final[list[tuple[str, dict[str, Any]]]] = [
    *((kind, {}) for kind in PLACES),
    ("sqlite", {"vectors": "faiss"}),
    ("postgres", {"vectors": "pgvector"}),
    *((kind, {"sealed": True}) for kind in PLACES[1:]),
    ("sqlite", {"inactive_days": 30, "max_memories_per_owner": 1_000}),
]
"""Each storage alone, with engines for vectors, sealed, and with limits."""


@pytest.fixture(
    params=[
        "memory",
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.slow),
        pytest.param("redis", marks=pytest.mark.slow),
        pytest.param("mongodb", marks=pytest.mark.slow),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Return a kind of storage, and where one is."""
    return request.param, place_of_kind(request.param, request, tmp_path)


def place_of_kind(kind: str, request: pytest.FixtureRequest | None, folder: Path) -> str:
    """Return where an empty storage of this kind is."""
    match kind:
        case "memory":
            return "memory://"
        case "sqlite":
            return f"sqlite:///{folder}/db/memory.db"
        case _:
            assert request is not None
            return request.getfixturevalue(f"{kind}_url")


def opened(url: str, folder: Path, *, embedder: Any = None, clock: Any = None, **more: Any) -> threadkeep.Threadkeep:
    """Open a memory whose receipts are in *folder*."""
    settings = threadkeep.Settings.load(
        **more,
        erasure_log=folder / "kept" / "erasures.jsonl",
        erasure_key=KEY,
        recall_timeout_ms=30_000,  # a run that is not told its epoch in time is refused by the fence alone
    )
    return threadkeep.open(url, settings=settings, embedder=embedder or HashingEmbedder(), clock=clock)


async def is_nowhere(tk: threadkeep.Threadkeep, owner: Owner) -> bool:
    """Whether nothing of *owner* is in the storage: no row, no partition, and no thread that is theirs."""
    storage = tk.app.storage

    async def found() -> bool:
        async for partition in iterate_partitions(storage):
            if partition == owner.partition:
                return True
            async for item in iterate_items(storage, partition):
                if owner.user_id in str(item.value) or owner.label in str(item.value):
                    return True
        return False

    return not await tk.app.event_loop.run(found())


async def erase_killed(tk: threadkeep.Threadkeep, monkeypatch: pytest.MonkeyPatch) -> None:
    """Erase Ana, and end as if the process were killed before the storage of the memories is erased."""

    async def killed(_: Partition) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(tk.app.storage, "erase", killed)
        with pytest.raises(KeyboardInterrupt):
            await tk.owners.erase(ANA)


def back_up(folder: Path) -> None:
    """Copy the database, and nothing but that."""
    shutil.copytree(folder / "db", folder / "backup")


def restore(folder: Path) -> None:
    """Put back the backup."""
    shutil.rmtree(folder / "db")
    shutil.copytree(folder / "backup", folder / "db")


def bytes_in(folder: Path) -> bytes:
    """Return what all files of *folder* hold."""
    return b"\n".join(path.read_bytes() for path in folder.iterdir())


def written(path: Path, text: str) -> Path:
    """Write a file."""
    path.write_text(text)
    return path


def erased_at(path: Path) -> int | None:
    """Return when rows of a SQLite storage were last erased; ``None`` if it was rewritten since."""
    with closing(sqlite3.connect(path)) as raw:
        return raw.execute("SELECT erased_at FROM birth").fetchone()[0]


@pytest.fixture
async def tk(tmp_path: Path) -> AsyncIterator[threadkeep.Threadkeep]:
    """Return a memory in a file."""
    async with opened(f"sqlite:///{tmp_path}/memory.db", tmp_path) as memory:
        yield memory


async def nothing_is_left(
    kind: str,
    url: str,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    *,
    each: int,
    sealed: bool = False,
    **settings: Any,
) -> None:
    """Plant canaries about two owners, erase one of them, and look everywhere."""
    caplog.set_level(logging.DEBUG, "threadkeep")
    ana, bob = Canaries("ana"), Canaries("bob")
    path = folder / "db" / "memory.db"
    seen = 10 * each - each // 2  # some were forgotten
    async with opened(url, folder, **settings) as tk:
        await plant(tk, ANA, ana, each=each)
        await plant(tk, BOB, bob, each=each)
        await tk.drain()
        assert len(ana.planted) == 10 * each
        before = await rows_of(tk, BOB)
        looked_at = kind != "memory" and not sealed  # sealed, no more than the names of threads can be seen
        if looked_at:
            assert len(ana.found_in(raw(kind, path=path, url=url))) == seen

        erased = await tk.owners.erase(ANA)
        await tk.app.event_loop.run(tk.app.storage.sweep(now=tk.app.clock.now()))

        assert await rows_of(tk, ANA) == []
        assert await rows_of(tk, BOB) == before
        counted = {name: erased.counts[name] for name in ("summaries", "turns", "threads")}
        assert counted == {"summaries": each, "turns": each, "threads": each}
        left = raw(kind, path=path, url=url)
        assert ana.found_in(left) == []
        assert ANA.user_id.encode() not in left
        if looked_at:
            assert len(bob.found_in(left)) == seen
        assert [word for word in ana.planted if word in str(tk.app.storage.__dict__)] == []
    assert ana.found_in(raw(kind, path=path, url=url)) == []
    assert ana.found_in(bytes_below(folder)) == []
    assert ANA.user_id.encode() not in bytes_below(folder)
    assert ana.found_in(caplog.text.encode()) == []


def bytes_below(folder: Path) -> bytes:
    """Return what all files below *folder* hold: receipts, databases and indexes."""
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def in_folder(folder: Path) -> threadkeep.Settings:
    """Return settings with the receipts and their key in *folder*."""
    return threadkeep.Settings.load(erasure_log=folder / "erasures.jsonl")


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let this process write no file beyond *size*, as a full disk does."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class TestErase:
    """After it, nothing is there."""

    @pytest.mark.slow
    async def test_no_canary_is_left_in_any_layer(
        self, place: tuple[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
    ):
        """200 in memories, history, items, summaries, proposals, tombstones, audit, queue, threads and effects."""
        each = EACH if place[0] in ("memory", "sqlite") else 3  # all of them on servers take a minute; `make soak` does
        await nothing_is_left(*place, tmp_path, caplog, each=each)

    @pytest.mark.soak
    @pytest.mark.timeout(1_200)
    @pytest.mark.parametrize(("kind", "more"), FULL, ids=[f"{kind}-{'-'.join(more) or 'plain'}" for kind, more in FULL])
    async def test_no_canary_is_left_at_full_size(
        self,
        request: pytest.FixtureRequest,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        kind: str,
        more: dict[str, Any],
    ):
        """On each storage, beside each engine for vectors, sealed, and with limits: all of them."""
        url = place_of_kind(kind, request, tmp_path)
        given = dict(more)
        if "vectors" in given:
            given |= {"vectors_from": 1, "vectors_folder": tmp_path / "vectors", "vectors_timeout_ms": 60_000}
        if "sealed" in given:
            del given["sealed"]
            given |= {"master_key": base64.b64encode(os.urandom(32)).decode(), "checkpoint_key": KEY}
        await nothing_is_left(kind, url, tmp_path, caplog, each=EACH, sealed="sealed" in more, **given)

    async def test_a_hundred_late_writes_are_refused(self, place: tuple[str, str], tmp_path: Path):
        """Work that began before the erasure and embeds while it happens writes nothing, whatever it is."""
        kind, url = place
        embedder, canary = GatedEmbedder(), Canaries("late")
        async with opened(url, tmp_path, embedder=embedder) as tk:
            kept = await tk.memories.remember("I live in Lisbon.", owner=ANA)
            services = await tk.app.event_loop.run(tk.app.connect())
            position = await tk.app.event_loop.run(tk.app.storage.position(ANA.partition))

            async def turn(word: str) -> None:
                said = [Message("user", f"I like {word}.", None)]
                receipt = await services.captures.record(said, owner=ANA, thread_id=None, epoch=position.epoch)
                assert receipt.status == "nothing"
                msg = "said before"
                raise PartitionErasedError(msg)

            async def work() -> list[BaseException | None]:
                late: list[Coroutine[Any, Any, Any]] = []
                for nth, word in enumerate(canary.some(80)):
                    late.append(
                        services.memory_repository.put_summary(f"About {word}.", owner=ANA, thread_id=None)
                        if nth % 4 == 0
                        else tk.memories.remember(f"I like {word}.", owner=ANA)
                        if nth % 4 == 1
                        else tk.store.aput(("memories", ANA.label), word, {"data": word})
                        if nth % 4 == 2
                        else tk.memories.correct(kept.memory_id, f"I live in {word}.", owner=ANA)
                    )
                with shut(embedder):
                    tasks = [asyncio.ensure_future(one) for one in late]
                    async with asyncio.timeout(5):
                        while embedder.waiting < len(tasks):
                            await asyncio.sleep(0.01)
                    await services.erasure.erase(ANA)
                done = await asyncio.gather(*tasks, return_exceptions=True)
                turns = await asyncio.gather(*(turn(word) for word in canary.some(20)), return_exceptions=True)
                return [one if isinstance(one, BaseException) else None for one in (*done, *turns)]

            refused = await tk.app.event_loop.run(work())

            assert len(refused) == len(canary.planted) == 100
            assert {type(one).__name__ for one in refused} == {"PartitionErasedError", "MemoryNotFoundError"}
            said = [item for item in await rows_of(tk, ANA) if canary.found_in(str(item).encode())]
            assert said == []
            again = await tk.memories.remember("I live in Porto.", owner=ANA)
            assert again.status == "accepted"
        assert canary.found_in(raw(kind, path=tmp_path / "db" / "memory.db", url=url)) == []

    async def test_a_job_that_outlives_its_owner_keeps_nothing(self, place: tuple[str, str], tmp_path: Path):
        """Neither how it stands, nor what its effects gave, nor checkpoints."""
        kind, url = place
        began, gate, done = asyncio.Event(), asyncio.Event(), list[str]()
        async with opened(url, tmp_path) as tk:

            async def pay(key: str) -> str:
                done.append(key)
                return "canarypaid"

            async def node(_: State) -> dict[str, Any]:
                began.set()
                await gate.wait()
                await tk.runs.once("refund", pay)
                return {"messages": [("ai", "canaryreply")]}

            graph = StateGraph(State).add_node("node", node).set_entry_point("node")
            compiled = graph.compile(checkpointer=tk.checkpointer)
            said = {"messages": [("human", "I want canarymoney.")]}
            job = asyncio.ensure_future(tk.runs.start(compiled, said, thread_id="canaryjob", owner=ANA))
            await began.wait()

            await tk.owners.erase(ANA)
            gate.set()

            with pytest.raises(PartitionErasedError):
                await job
            assert done == []
            assert await is_nowhere(tk, ANA)
        held = raw(kind, path=tmp_path / "db" / "memory.db", url=url)
        words = (b"canaryjob", b"canarymoney", b"canarypaid", b"canaryreply", ANA.user_id.encode())
        assert [word for word in words if word in held] == []

    @pytest.mark.parametrize("scoped", [False, True], ids=["bound", "scoped"])
    async def test_a_run_that_outlives_its_owner_binds_no_thread(
        self, place: tuple[str, str], tmp_path: Path, scoped: bool
    ):
        """Nothing says any more that the owner had a thread, or that there was such an owner."""
        kind, url = place
        began, gate = asyncio.Event(), asyncio.Event()
        async with opened(url, tmp_path) as tk:

            async def node(_: State) -> dict[str, Any]:
                began.set()
                await gate.wait()
                return {"messages": [("ai", "canaryreply")]}

            saver: Any = tk.checkpointer
            graph = StateGraph(State).add_node("node", node).set_entry_point("node")
            compiled = graph.compile(checkpointer=saver.scoped(ANA) if scoped else saver)
            config = tk.config(user_id=ANA.user_id, thread_id="canaryrun")
            run = asyncio.ensure_future(compiled.ainvoke({"messages": [("human", "canarymoney")]}, config))
            await began.wait()

            await tk.owners.erase(ANA)
            gate.set()

            with pytest.raises((PartitionErasedError, ThreadMovedOnError)):  # whoever sees it first
                await run
            assert await is_nowhere(tk, ANA)
        held = raw(kind, path=tmp_path / "db" / "memory.db", url=url)
        words = (b"canaryrun", b"canarymoney", b"canaryreply", ANA.user_id.encode())
        assert [word for word in words if word in held] == []

    @pytest.mark.parametrize("scoped", [False, True], ids=["bound", "scoped"])
    async def test_no_run_begins_while_its_owner_is_erased(
        self, place: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scoped: bool
    ):
        """Neither a new thread, nor one that the erasing has listed: it would be left behind."""
        kind, url = place
        erasing, go = asyncio.Event(), asyncio.Event()
        async with opened(url, tmp_path) as tk:
            saver: Any = tk.checkpointer
            graph = StateGraph(State).add_node("node", lambda _: {"messages": [("ai", "canaryreply")]})
            compiled = graph.set_entry_point("node").compile(checkpointer=saver.scoped(ANA) if scoped else saver)
            said = {"messages": [("human", "canarymoney")]}
            await compiled.ainvoke(said, tk.config(user_id=ANA.user_id, thread_id="canarythread"))
            erase, here = tk.app.storage.erase, asyncio.get_running_loop()

            async def late(partition: Partition) -> int:
                if partition == ANA.partition:
                    here.call_soon_threadsafe(erasing.set)
                    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(go.wait(), here))
                return await erase(partition)

            monkeypatch.setattr(tk.app.storage, "erase", late)
            gone = asyncio.ensure_future(tk.owners.erase(ANA))
            await erasing.wait()
            for thread_id in ("canaryrun", "canarythread"):
                with pytest.raises(PartitionErasedError, match="being erased"):
                    await compiled.ainvoke(said, tk.config(user_id=ANA.user_id, thread_id=thread_id))
            go.set()

            assert (await gone).threads == ("canarythread",)
            assert await is_nowhere(tk, ANA)
        held = raw(kind, path=tmp_path / "db" / "memory.db", url=url)
        words = (b"canaryrun", b"canarythread", b"canarymoney", b"canaryreply", ANA.user_id.encode())
        assert [word for word in words if word in held] == []

    async def test_an_erasing_that_was_killed_is_finished_by_the_next_start(
        self, place: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """Until then the owner can begin nothing."""
        kind, url = place
        if kind == "memory":
            pytest.skip("what is in RAM does not outlive its process")
        async with opened(url, tmp_path) as tk:
            await tk.memories.remember("I keep a canaryjar.", owner=ANA)
            await echo(tk).ainvoke(
                {"messages": [("human", "canarymoney")]}, tk.config(user_id=ANA.user_id, thread_id="t")
            )

            await erase_killed(tk, monkeypatch)

        async with opened(url, tmp_path) as tk:
            await tk.ready()
            assert await is_nowhere(tk, ANA)
        held = raw(kind, path=tmp_path / "db" / "memory.db", url=url)
        assert [word for word in (b"canaryjar", b"canarymoney", ANA.user_id.encode()) if word in held] == []

    @pytest.mark.parametrize("apart", ["key", "file", "key of a file"])
    async def test_threads_from_before_they_were_kept_apart_are_erased(self, tmp_path: Path, apart: str):
        """Threads got a key or a file of their own later: what was said before is elsewhere, and goes, too."""
        url = place_of_kind("sqlite", None, tmp_path)
        file = {"checkpoint_type": "sqlite", "checkpoint_sqlite_path": tmp_path / "db" / "threads.db"}
        before: dict[str, Any] = file if apart == "key of a file" else {}
        more: dict[str, Any] = {"checkpoint_key": KEY, **before} if "key" in apart else file
        async with opened(url, tmp_path, **before) as tk:
            for user, canary in ((ANA, "canaryearly"), (BOB, "canarybob")):
                await turn_of(tk, user, canary)
                scoped: Any = tk.for_owner(user).checkpointer
                await scoped.aput(*checkpoint_with(f"{canary}scoped"))

        async with opened(url, tmp_path, **more) as tk:
            await turn_of(tk, ANA, "canarylate", thread_id="late")
            erased = await tk.owners.erase(ANA)

        assert set(erased.threads) == {"early", "scoped", "late"}
        assert erased.counts["threads"] == 3
        held = bytes_below(tmp_path)
        assert [word for word in (b"canaryearly", b"canarylate", ANA.user_id.encode()) if word in held] == []
        assert b"canarybob" in held
        assert b"canarybobscoped" in held

    async def test_an_erasing_that_was_killed_between_two_storages_is_finished(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """The threads are gone and the memories are not."""
        url = place_of_kind("sqlite", None, tmp_path)
        async with opened(url, tmp_path, checkpoint_key=KEY) as tk:
            await tk.memories.remember("I keep a canaryjar.", owner=ANA)
            await turn_of(tk, ANA, "canarymoney")

            await erase_killed(tk, monkeypatch)

        async with opened(url, tmp_path, checkpoint_key=KEY) as tk:
            await tk.ready()
            assert await is_nowhere(tk, ANA)
        assert b"canaryjar" not in bytes_below(tmp_path)

    async def test_a_sqlite_file_is_rewritten_at_once_for_an_owner_only(
        self, tk: threadkeep.Threadkeep, tmp_path: Path
    ):
        """After a thread was deleted, the rewrite may wait; after an owner was erased, the call waited for it."""
        said = {"messages": [("human", "canarymoney")]}
        for thread_id in ("one", "other"):
            await echo(tk).ainvoke(said, tk.config(user_id=ANA.user_id, thread_id=thread_id))

        await tk.threads.delete(["one"], owner=ANA)
        waits = erased_at(tmp_path / "memory.db") is not None
        await tk.owners.erase(ANA)

        assert waits
        assert erased_at(tmp_path / "memory.db") is None

    async def test_another_process_drops_what_it_holds_in_ram(self, tmp_path: Path):
        """Its index is gone without anybody asking it about the owner."""
        url = f"sqlite:///{tmp_path}/memory.db"
        async with opened(url, tmp_path) as one, opened(url, tmp_path) as other:
            await one.memories.remember("I live in Lisbon.", owner=ANA)
            await other.memories.search("Lisbon", owner=ANA)
            await other.memories.search("Lisbon", owner=BOB)
            services = await other.app.event_loop.run(other.app.connect())
            await other.app.event_loop.run(services.erasure.notice())
            assert services.search.stats().partitions == 2

            await one.owners.erase(ANA)

            assert await other.app.event_loop.run(services.erasure.notice()) == 1
            assert services.search.stats().partitions == 1
            assert await other.app.event_loop.run(services.erasure.notice()) == 0


class TestReceipt:
    """What is kept of an erasure."""

    async def test_it_counts_without_naming_users(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        """In the storage and in a file, by a keyed digest, first begun and then done."""
        await tk.memories.remember("I live in Lisbon.", owner=ANA)
        await tk.memories.remember("I have two cats.", owner=ANA)

        erased = await tk.owners.erase(ANA)

        assert erased.kept_in == ("storage", "file")
        assert (erased.counts["memories"], erased.counts["audit"]) == (2, 2)
        (receipt,) = await tk.owners.erasure_receipts()
        assert (receipt.receipt_id, receipt.state, receipt.counts) == (erased.receipt_id, "done", erased.counts)
        lines = [json.loads(line) for line in bytes_in(tmp_path / "kept").splitlines()]
        assert [line["state"] for line in lines] == ["begun", "done"]
        assert "ana" not in str(lines)

    async def test_a_file_that_cannot_be_written_stops_nothing(self, tmp_path: Path, caplog: pytest.LogCaptureFixture):
        """The receipt is in the storage alone, and it is said."""
        written(tmp_path / "kept", "no folder")
        async with opened(f"sqlite:///{tmp_path}/memory.db", tmp_path) as tk:
            await tk.memories.remember("I live in Lisbon.", owner=ANA)
            erased = await tk.owners.erase(ANA)
        assert (erased.counts["memories"], erased.kept_in) == (1, ("storage",))
        assert "cannot be written" in caplog.text

    async def test_a_key_is_made_where_none_is_set(self, tmp_path: Path):
        """Beside the receipts, for their owner alone; it stays the same."""
        names: list[str] = []
        for _ in range(2):
            async with threadkeep.open(f"sqlite:///{tmp_path}/memory.db", embedder="none") as tk:
                await tk.memories.remember("I live in Lisbon.", owner=ANA)
                await tk.owners.erase(ANA)
                names = [one.name for one in await tk.owners.erasure_receipts()]
        assert stat.S_IMODE(os.stat(tmp_path / "memory-erasures.key").st_mode) == 0o600  # noqa: PTH116
        assert len(names) == 2
        assert len(set(names)) == 1

    @pytest.mark.linux
    async def test_a_full_disk_is_named_where_no_key_can_be_made(self, tmp_path: Path):
        """Nothing is left of the key, nothing is erased, and the erasure succeeds once there is room."""
        async with threadkeep.open("memory:", embedder="none", settings=in_folder(tmp_path)) as tk:
            await tk.memories.remember("I live in Lisbon.", owner=ANA)
            with files_of_at_most(0), pytest.raises(StorageFullError, match="full"):
                await tk.owners.erase(ANA)

            assert not any(tmp_path.iterdir())  # noqa: ASYNC240
            assert len(await tk.memories.list(owner=ANA)) == 1
            assert (await tk.owners.erase(ANA)).kept_in == ("storage", "file")

    @pytest.mark.linux
    async def test_a_receipt_that_does_not_fit_leaves_no_part_of_itself(self, tmp_path: Path):
        """Otherwise the next one would continue its line, and no receipt of the file could be read."""
        receipts = tmp_path / "erasures.jsonl"
        async with threadkeep.open("memory:", embedder="none", settings=in_folder(tmp_path)) as tk:
            await tk.memories.remember("I live in Lisbon.", owner=ANA)
            await tk.owners.erase(ANA)
            size = receipts.stat().st_size
            with files_of_at_most(size + 20):
                cut = await tk.owners.erase("ben")
            whole = await tk.owners.erase("carla")

        assert (cut.kept_in, whole.kept_in) == (("storage",), ("storage", "file"))
        assert {one.receipt_id for one in receipts_in(receipts)} >= {whole.receipt_id}

    async def test_a_short_key_is_refused(self, tmp_path: Path):
        """At start, by the variable's name."""
        settings = threadkeep.Settings.load(erasure_key="short")
        with pytest.raises(SettingsError, match="THREADKEEP_ERASURE_KEY"):
            threadkeep.open(f"sqlite:///{tmp_path}/memory.db", settings=settings)


class TestReplay:
    """After a restore, whoever was erased is erased again; `test_restored.py` does it on every storage."""

    async def test_who_came_back_stays(self, tk: threadkeep.Threadkeep):
        """What they said after they were erased is theirs, however often it is replayed; without a clock's help."""
        await tk.memories.remember("I live in Lisbon.", owner=ANA)
        await tk.owners.erase(ANA)
        await tk.memories.remember("I live in Porto.", owner=ANA)

        done = await tk.owners.replay_erasures()

        assert done.erased == ()
        assert [memory.text for memory in await tk.memories.list(owner=ANA)] == ["I live in Porto."]

    async def test_who_was_never_known_may_come(self, tk: threadkeep.Threadkeep):
        """Erasing somebody about whom nothing is held marks nothing that comes later."""
        await tk.owners.erase(ANA)
        await tk.memories.remember("I live in Porto.", owner=ANA)
        assert (await tk.owners.replay_erasures()).erased == ()

    async def test_an_erasure_that_was_cut_off_is_finished(self, tk: threadkeep.Threadkeep):
        """Its receipt was begun; the owner is there as before."""
        await tk.memories.remember("I live in Lisbon.", owner=ANA)
        services = await tk.app.event_loop.run(tk.app.connect())
        position = await tk.app.event_loop.run(tk.app.storage.position(ANA.partition))
        await tk.app.event_loop.run(services.erasure.receipts.begin(ANA, at=tk.app.clock.now(), epoch=position.epoch))

        assert len((await tk.owners.replay_erasures()).erased) == 1
        assert await rows_of(tk, ANA) == []

    async def test_a_copy_from_before_is_known_by_its_times(self, tmp_path: Path):
        """In another storage the epochs are others."""
        clock = FrozenClock()
        async with opened("memory://", tmp_path, clock=clock) as tk:
            await tk.memories.remember("I live in Lisbon.", owner=ANA)
            clock.advance(timedelta(hours=1))
            await tk.owners.erase(ANA)
        clock = FrozenClock()
        async with opened("memory://", tmp_path, clock=clock) as tk:  # as it was
            await tk.memories.remember("I live in Lisbon.", owner=ANA)
            assert len((await tk.owners.replay_erasures()).erased) == 1

    async def test_receipts_of_another_machine(self, tmp_path: Path):
        """They are given as files, kept from then on, and a line that is none is named."""
        one, other = tmp_path, tmp_path / "other"
        async with opened(f"sqlite:///{other}/db/memory.db", other) as tk:
            await tk.memories.remember("I live in Lisbon.", owner=ANA)
        back_up(other)
        async with opened(f"sqlite:///{other}/db/memory.db", other) as tk:
            await tk.owners.erase(ANA)
        restore(other)
        shutil.move(other / "kept" / "erasures.jsonl", one / "receipts.jsonl")
        async with opened(f"sqlite:///{other}/db/memory.db", other) as tk:
            assert (await tk.owners.replay_erasures()).erased == ()
            assert len((await tk.owners.replay_erasures(one / "receipts.jsonl")).erased) == 1
            assert len(await tk.owners.erasure_receipts()) == 2
            bad = written(one / "bad.jsonl", '{"receipt_id": 1}\n{}\n')
            with pytest.raises(InvalidInputError, match="Line 1"):
                await tk.owners.replay_erasures(bad)

    async def test_another_key_is_reported(self, tmp_path: Path):
        """Whom those receipts are of cannot be known."""
        async with opened(f"sqlite:///{tmp_path}/memory.db", tmp_path) as tk:
            await tk.memories.remember("I live in Lisbon.", owner=ANA)
            await tk.owners.erase(ANA)
        settings = threadkeep.Settings.load(erasure_log=tmp_path / "kept" / "erasures.jsonl", erasure_key="o" * 40)
        async with threadkeep.open(f"sqlite:///{tmp_path}/memory.db", settings=settings, embedder="none") as tk:
            assert (await tk.owners.replay_erasures()).strange == 1

    async def test_it_is_not_for_one_owner(self, tk: threadkeep.Threadkeep):
        """A door that is locked to somebody cannot look at everybody."""
        locked = tk.for_owner(ANA)
        with pytest.raises(OwnerMismatchError):
            await locked.owners.replay_erasures()
        with pytest.raises(OwnerMismatchError):
            await locked.owners.erasure_receipts()

    async def test_receipts_are_outside_of_every_owner(self, tk: threadkeep.Threadkeep):
        """In a partition of their own, so that erasing an owner cannot take them along."""
        await tk.memories.remember("I live in Lisbon.", owner=ANA)
        await tk.owners.erase(ANA)
        partitions = await tk.app.event_loop.run(tk.app.storage.partitions(limit=10))
        assert Partition("root", (".erasures",)) in partitions


def echo(tk: threadkeep.Threadkeep) -> Any:
    """Compile a graph that answers."""
    graph = StateGraph(State).add_node("node", lambda _: {"messages": [("ai", "fine")]})
    return graph.set_entry_point("node").compile(checkpointer=tk.checkpointer)


async def turn_of(tk: threadkeep.Threadkeep, owner: Owner, text: str, *, thread_id: str = "early") -> None:
    """Run a turn of *owner*, in a thread that Bob has, too, under another id."""
    config = tk.config(user_id=owner.user_id, thread_id=thread_id if owner == ANA else f"{thread_id}-of-bob")
    await echo(tk).ainvoke({"messages": [("human", text)]}, config)


def checkpoint_with(text: str) -> tuple[RunnableConfig, Checkpoint, CheckpointMetadata, ChannelVersions]:
    """Return the arguments of ``aput`` for a checkpoint with *text*."""
    versions: ChannelVersions = {"said": 1}
    checkpoint: Checkpoint = {**empty_checkpoint(), "channel_values": {"said": text}, "channel_versions": versions}
    config: RunnableConfig = {"configurable": {"thread_id": "scoped", "checkpoint_ns": ""}}
    return config, checkpoint, {"source": "input", "step": -1, "parents": {}}, versions
