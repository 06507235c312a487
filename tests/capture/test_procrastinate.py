"""procrastinate as the engine, on a PostgreSQL of its own; memories are in SQLite, so that it can go away alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from pydantic import SecretStr

import threadkeep
from tests.fakes.faults import FaultProxy
from tests.servers import empty_postgres_database
from tests.storage.test_postgres_roles import CutError, cut_at
from threadkeep.errors import SettingsError
from threadkeep.observability import Telemetry
from threadkeep.settings import Settings

pytest.importorskip("procrastinate")
from threadkeep.capture.procrastinate import ProcrastinateEngine


def opened(path: Path, dsn: str, *, workers: int | None = None, **given: Any) -> threadkeep.Threadkeep:
    settings = Settings.load(
        queue="procrastinate",
        queue_postgres_dsn=SecretStr(dsn),
        store_sqlite_path=path / "m.db",
        capture_workers=workers,
        **given,
    )
    return threadkeep.open(settings=settings, embedder="none")


async def say(tk: threadkeep.Threadkeep, text: str, *, thread: str = "th", owner: str = "ana", **options: Any) -> Any:
    return await tk.capture([{"role": "user", "content": text}], owner=owner, thread_id=thread, **options)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.02)


async def jobs(dsn: str) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        try:
            found = await connection.execute("SELECT status::text, args::text, queueing_lock FROM procrastinate_jobs")
        except psycopg.errors.UndefinedTable:
            return []
        return await found.fetchall()


async def test_making_tables_may_be_killed_at_every_statement(
    tmp_path: Path, postgres_server: str, monkeypatch: pytest.MonkeyPatch
):
    """The next start makes them, and learns."""
    telemetry = Telemetry()
    for number in range(1, 5):
        url = empty_postgres_database(postgres_server)
        with monkeypatch.context() as patched:
            cut_at(number, patched)
            first = ProcrastinateEngine(url, location="", telemetry=telemetry, workers=1)
            with nullcontext() if number == 4 else pytest.raises(CutError):
                await first._make_tables()

        async with opened(tmp_path, url, workers=1) as tk:
            await say(tk, f"I own {number} boats.", owner=f"ana{number}", wait=True)
            assert len(await tk.memories.list(owner=f"ana{number}", kind="semantic")) == 1


class TestEngine:
    async def test_one_process_records_and_another_learns(self, tmp_path: Path, postgres_url: str):
        """By a job for each thread, in which nobody's id is, and of which nothing stays."""
        async with opened(tmp_path, postgres_url) as tk:
            await say(tk, "I live in Lisbon")
            await say(tk, "I work at Acme")
            await say(tk, "I live in Porto", thread="other", owner="bob")

            async def told() -> bool:
                return not tk.app.telemetry.counts().get("capture.wake.degraded") and len(await jobs(postgres_url)) == 2

            await until(told)
            waiting = await jobs(postgres_url)
            assert {status for status, _, _ in waiting} == {"todo"}
            assert "ana" not in str(waiting)

            async with opened(tmp_path, postgres_url, workers=2) as worker:
                await worker.ready()

                async def learnt() -> bool:
                    return not await tk.queue.list() and not await jobs(postgres_url)

                await until(learnt)

            assert {m.text for m in await tk.memories.list(owner="ana", kind="semantic")} == {
                "I live in Lisbon",
                "I work at Acme",
            }

    async def test_who_waits_sees_what_the_worker_did(self, tmp_path: Path, postgres_url: str):
        """A receipt is settled by whoever learnt."""
        async with opened(tmp_path, postgres_url) as tk, opened(tmp_path, postgres_url, workers=1) as worker:
            await worker.ready()

            receipt = await say(tk, "I live in Lisbon", wait=True)

        assert (receipt.status, len(receipt.memory_ids)) == ("done", 2)

    async def test_turn_with_a_lost_wake_up_is_found_by_polling(self, tmp_path: Path, postgres_url: str):
        """The record is the truth: here no job was ever made."""
        embedded = Settings.load(store_sqlite_path=tmp_path / "m.db", capture_workers=0)
        async with threadkeep.open(settings=embedded, embedder="none") as tk:
            await say(tk, "I live in Lisbon")

            async with opened(tmp_path, postgres_url, workers=1) as worker:
                await worker.ready()

                async def learnt() -> bool:
                    return not await tk.queue.list()

                await until(learnt)

    async def test_its_server_may_be_away(self, tmp_path: Path, postgres_url: str):
        """Turns are recorded as ever, nothing is raised, and it goes on when the server is back."""
        port = urlsplit(postgres_url).port
        assert port is not None
        with FaultProxy(port) as proxy:
            proxy.refuse()
            await self.told_late(tmp_path, postgres_url, proxy)

    async def told_late(self, path: Path, postgres_url: str, proxy: FaultProxy) -> None:
        async with opened(path, proxy.url_of(postgres_url)) as tk:
            receipt = await say(tk, "I live in Lisbon")

            async def noticed() -> bool:
                return tk.app.telemetry.counts().get("capture.wake.degraded", 0) > 0

            await until(noticed)
            assert receipt.status == "queued"
            proxy.accept()

            async def told() -> bool:
                return len(await jobs(postgres_url)) == 1

            await until(told)


class TestSettings:
    def test_it_has_to_be_said_where(self):
        """One sentence names the variable."""
        with pytest.raises(SettingsError, match="THREADKEEP_QUEUE_POSTGRES_DSN"):
            threadkeep.open(settings=Settings.load(queue="procrastinate"), embedder="none")
