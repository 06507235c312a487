"""Clients that leave, runs that are stopped, too many turns at once: nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
import random
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.fakes.faults import FaultProxy
from tests.gateway.conftest import Open
from tests.gateway.test_serve import turn
from tests.gateway.world import USER, GatewayWorld, events_of, joined, kinds, owner_of, text_of, until
from threadkeep.checkpoints.directory import thread_partition
from threadkeep.concurrency import Priority, current_priority
from threadkeep.gateway.events import STALLED_SECONDS
from threadkeep.gateway.run_models import TurnRequest
from threadkeep.testing import Held, ScriptedModel

WORDS = ["word "] * 40


async def leases(gateway: GatewayWorld, user: str, *threads: str) -> list[Any]:
    """Return the leases that are stored for the threads of a user."""
    saver: Any = gateway.tk.for_owner(owner_of(user)).checkpointer
    found: list[Any] = []
    for thread_id in threads:
        thread = saver._threads.get(thread_partition(thread_id, owner_of(user)), thread_id)
        head = await saver._loop.run(thread.head())
        found += [head.lease] if head is not None and head.lease is not None else []
    return found


class TestStops:
    async def test_a_run_that_is_stopped_before_it_starts_ends(self, open_gateway: Open):
        """A task that is cancelled before its first step would keep its place, and leave its clients waiting."""
        gateway = open_gateway(max_runs=1)

        async def stopped() -> str:
            run = await gateway.runs.begin(TurnRequest(owner_of("ana"), "t", "Hello"))
            run.halt("cancelled")
            await run.wait()
            return run.status

        stopping = gateway.call(lambda: asyncio.ensure_future(stopped()))
        await until(stopping.done)
        async with gateway.client() as client:
            later = await gateway.turn(client, "Hello", thread_id="t")

        assert stopping.result() == "cancelled"
        assert "done" in kinds(later)

    async def test_a_run_that_is_stopped_while_it_settles_ends_as_it_would_have(self, open_gateway: Open):
        """Its graph has ended and its thread has the reply: its clients are to be told so."""
        gateway = open_gateway()

        async def stopped() -> Any:
            run = await gateway.runs.begin(TurnRequest(owner_of("ana"), "t", "Hello", memory=False))
            while not run.settling:
                await asyncio.sleep(0)
            assert run.status == "running"
            run.halt("cancelled")
            await run.wait()
            return run

        stopping = gateway.call(lambda: asyncio.ensure_future(stopped()))
        await until(stopping.done)
        run = stopping.result()
        async with gateway.client() as client:
            events = await joined(client, run.run_id)
            messages = (await client.get("/threads/t/messages")).json()["messages"]

        assert run.status == "done"
        assert [event.data["status"] for event in events if event.kind == "done"] == ["done"]
        assert [one["role"] for one in messages] == ["user", "assistant"]


class TestEndedRuns:
    @pytest.mark.parametrize("reply", ["Noted.", ConnectionError("The model failed.")])
    async def test_they_keep_their_events_alone(self, open_gateway: Open, reply: Any):
        """Up to 10,000 are kept for five minutes: no task, which holds its context, and no frame of a turn is."""
        gateway = open_gateway(ScriptedModel(replies=(reply,)))
        async with gateway.client() as client:
            events = await gateway.turn(client, "Hello", thread_id="t")
            run = gateway.runs.find(owner_of("ana"), events[0].data["run_id"])
        assert run is not None
        await until(lambda: run.task is None)

        assert run.failure is None or run.failure.__traceback__ is None
        assert run.buffer.size > 0


class TestDisconnects:
    @pytest.mark.parametrize("choice", ["continue", "cancel"])
    async def test_a_run_goes_on_or_ends_as_asked(self, open_gateway: Open, choice: str):
        release = asyncio.Event()
        gateway = open_gateway(ScriptedModel(replies=(Held(release, "Now."), "Later.")))
        async with gateway.client() as client:
            body = {"message": "Hello", "thread_id": "t", "on_disconnect": choice}
            async with gateway.stream(client, body) as events:
                run_id = (await anext(events)).data["run_id"]
                await until(lambda: gateway.model.prompts)  # else a cancelled run leaves its reply to the next one
            if choice == "cancel":
                await until(lambda: gateway.runs.running(owner_of("ana")) == 0)
            gateway.call(release.set)
            events = await joined(client, run_id)
            messages = (await client.get("/threads/t/messages")).json()["messages"]
            later = await gateway.turn(client, "Hello again", thread_id="t")

        ended = next(event for event in events if event.kind == "done")
        assert ended.data["status"] == ("done" if choice == "continue" else "cancelled")
        assert [one["text"] for one in messages] == (["Hello", "Now."] if choice == "continue" else ["Hello"])
        assert text_of(later) == "Later."
        assert await leases(gateway, "ana", "t") == []

    async def test_another_client_keeps_the_run_alive(self, open_gateway: Open):
        release = asyncio.Event()
        gateway = open_gateway(ScriptedModel(replies=(Held(release, "Now."),)))
        async with gateway.client() as client, gateway.client() as second:
            async with gateway.stream(client, {"message": "Hello", "on_disconnect": "cancel"}) as events:
                run_id = (await anext(events)).data["run_id"]
                reading = asyncio.create_task(joined(second, run_id))
                await until(lambda: gateway.runs.find(owner_of("ana"), run_id).readers == 2)
            await until(lambda: gateway.runs.find(owner_of("ana"), run_id).readers == 1)
            gateway.call(release.set)

            assert text_of(await reading) == "Now."

    @pytest.mark.parametrize("count", [36, pytest.param(500, marks=[pytest.mark.soak, pytest.mark.timeout(400)])])
    async def test_nothing_is_left_of_many_clients_that_leave(self, open_gateway: Open, storage_url: str, count: int):
        """At random points of their turns; tasks, connections, leases and places are as before."""
        gateway = open_gateway(ScriptedModel(replies=(WORDS,)), url=storage_url, max_runs=8)
        chance = random.Random(1)
        async with gateway.client() as client:
            await gateway.turn(client, "Hello", thread_id="warm")
        before = gateway.tasks()
        assert gateway.connections() == 0

        async def leave(number: int) -> None:
            choice = chance.choice(["continue", "cancel"])
            body = {"message": f"Turn {number}", "thread_id": f"t{number % 10}", "on_disconnect": choice}
            read = chance.randrange(8)
            user = {USER: f"u{number % 5}"}
            async with sending.stream("POST", "/chat/stream", json=body, headers=user) as response:
                lines = response.aiter_lines()
                for _ in range(read):
                    if await anext(lines, None) is None:
                        break

        async with gateway.client(None) as sending:
            for start in range(0, count, 12):
                await asyncio.gather(*(leave(number) for number in range(start, min(count, start + 12))))
        await until(lambda: not gateway.runs.limiter.running and not gateway.runs.limiter.waiting)
        await until(lambda: gateway.tasks() <= before and not gateway.connections())

        for user in range(5):  # a lease that is not given back stays in the thread
            while await leases(gateway, f"u{user}", *(f"t{n}" for n in range(10))):
                await asyncio.sleep(0.05)
        async with gateway.client("u1") as client:
            assert "done" in kinds(await gateway.turn(client, "Hello", thread_id="t1"))

    @pytest.mark.soak
    async def test_a_reply_of_ten_megabytes(self, gateway: GatewayWorld):
        """The thread holds it whole; a client that lags behind reads it there, after ``reset``."""
        words = [f"{number:09} " * 100 for number in range(10_000)]
        gateway.model.replies = (words,)
        async with gateway.client() as client:
            events = await gateway.turn(client, "Go on", thread_id="t")
            messages = (await client.get("/threads/t/messages")).json()["messages"]

        assert "done" in kinds(events)
        assert messages[-1]["text"] == "".join(words)
        assert "reset" in kinds(events) or text_of(events) == messages[-1]["text"]

    async def test_a_client_that_reads_nothing_is_disconnected(
        self, open_gateway: Open, monkeypatch: pytest.MonkeyPatch
    ):
        """The run goes on, and its reply is in the thread."""
        monkeypatch.setattr("threadkeep.gateway.http_protocol.STALLED_SECONDS", 0.3)
        gateway = open_gateway(ScriptedModel(replies=(["x" * 10_000] * 2_000,)))
        host, port = gateway.origin.removeprefix("http://").split(":")
        body = b'{"message": "Hello", "thread_id": "t"}'
        head = f"POST /api/chat/stream HTTP/1.1\r\nHost: {host}\r\n{USER}: ana\r\nContent-Type: application/json\r\n"
        with socket.socket() as stalled:
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stalled.connect((host, int(port)))
            stalled.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await until(lambda: any(run.readers for run in gateway.runs._runs.values()))
            run = next(iter(gateway.runs._runs.values()))
            await until(lambda: run.status == "done" and run.readers == 0)

        monkeypatch.setattr("threadkeep.gateway.http_protocol.STALLED_SECONDS", STALLED_SECONDS)
        async with gateway.client() as client:
            messages = (await client.get("/threads/t/messages")).json()["messages"]
        assert len(messages[-1]["text"]) == 20_000_000


class TestOverload:
    async def test_the_end_of_a_run_waits_for_calls_before_it(
        self, open_gateway: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ):
        """A queue of this process is no time of the storage: the thread of a run without one is deleted."""
        monkeypatch.setattr("threadkeep.gateway.idempotency.STORAGE_SECONDS", 0.05)
        release, calls = asyncio.Event(), itertools.count()
        gateway = open_gateway(ScriptedModel(replies=(Held(release, "Now."),)), url=postgres_url)
        gate: Any = gateway.tk.app.storage.gate
        last = math.inf

        async def call_on_and_on() -> None:
            current_priority.set(Priority.CHECKPOINT)
            while next(calls) < last:
                async with gate.place():
                    await asyncio.sleep(0.01)

        async def run() -> None:
            begun = await gateway.runs.begin(TurnRequest(owner_of("ana"), "t", "Hello", temporary=True))
            await begun.wait()

        running = gateway.call(lambda: asyncio.ensure_future(run()))
        await until(lambda: gateway.model.prompts)
        others = [asyncio.create_task(gateway.tk.app.event_loop.run(call_on_and_on())) for _ in range(30)]
        gateway.call(release.set)
        await until(lambda: any(priority == Priority.RECALL for priority, *_ in gate._waiting))
        last = next(calls) + 300
        await asyncio.gather(*others)
        await until(running.done)

        assert "is left" not in caplog.text


class TestCancelling:
    async def test_a_run_is_cancelled(self, open_gateway: Open):
        """Its streams end, its thread is free, and another user cannot."""
        gateway = open_gateway(ScriptedModel(replies=(Held(asyncio.Event(), "Never."), "Later.")))
        async with gateway.client() as client, gateway.client("bob") as bob:
            async with gateway.stream(client, {"message": "Hello", "thread_id": "t"}) as events:
                first = [await anext(events), await anext(events)]
                run_id = first[0].data["run_id"]
                refused = await bob.post(f"/runs/{run_id}/cancel")
                stopped = await client.post(f"/runs/{run_id}/cancel")
                rest = [event async for event in events]
            later = await gateway.turn(client, "Again", thread_id="t")

        assert refused.status_code == 404
        assert stopped.json() == {"run_id": run_id, "status": "cancelled"}
        assert [(event.kind, event.data["status"]) for event in rest] == [("done", "cancelled")]
        assert text_of(later) == "Later."

    async def test_an_erasure_of_the_user_stops_it(self, open_gateway: Open):
        gateway = open_gateway(ScriptedModel(replies=(Held(asyncio.Event(), "Never."),)))
        async with gateway.client() as client:
            async with gateway.stream(client, {"message": "Hello", "thread_id": "t"}) as events:
                await anext(events)
                await anext(events)
                erased = await client.post("/me/erase")
                rest = [event async for event in events]
            left = (await client.get("/threads")).json()["threads"]

        assert erased.status_code == 200
        assert [(event.kind, event.data["status"]) for event in rest] == [("done", "cancelled")]
        assert left == []

    async def test_a_run_of_another_process_is_stopped(self, open_gateway: Open, tmp_path: Any):
        release = asyncio.Event()
        url = f"sqlite:///{tmp_path / 'shared.db'}"
        one = open_gateway(ScriptedModel(replies=(Held(release, "Too late."),)), url=url)
        other = open_gateway(ScriptedModel(replies=("Later.",)), url=url)
        async with one.client() as client, other.client() as elsewhere:
            async with one.stream(client, {"message": "Hello", "thread_id": "t"}) as events:
                run_id = (await anext(events)).data["run_id"]
                await anext(events)
                await elsewhere.post(f"/runs/{run_id}/cancel")
                later = await other.turn(elsewhere, "Again", thread_id="t")
                one.call(release.set)
                rest = [event async for event in events]
            messages = (await elsewhere.get("/threads/t/messages")).json()["messages"]

        assert text_of(later) == "Later."
        assert [event.data.get("code") for event in rest if event.kind == "error"] == ["thread_moved_on"]
        assert "Too late." not in str(messages)

    @pytest.mark.parametrize("place", ["in this process", "in the other process"])
    async def test_a_run_of_another_process_that_waits_is_stopped(self, open_gateway: Open, tmp_path: Any, place: str):
        """Any process may have the run that it waits for; its message is in no thread, and the other run continues."""
        release = asyncio.Event()
        url = f"sqlite:///{tmp_path / 'shared.db'}"
        here, other = (open_gateway(ScriptedModel(replies=(Held(release, "First."), "Later.")), url=url) for _ in "ab")
        holder = here if place == "in this process" else other
        async with holder.client() as client, other.client() as elsewhere, here.client() as canceller:
            async with holder.stream(client, {"message": "Hello", "thread_id": "t"}) as events:
                await until(lambda: holder.model.prompts)
                async with other.stream(elsewhere, {"message": "Never mind", "thread_id": "t"}) as waiting:
                    run_id = (await anext(waiting)).data["run_id"]
                    stopped = await canceller.post(f"/runs/{run_id}/cancel")
                    rest = [event async for event in waiting]
                again = await canceller.post(f"/runs/{run_id}/cancel")
                holder.call(release.set)
                first = [event async for event in events]
            later = await other.turn(elsewhere, "Again", thread_id="t")
            messages = (await canceller.get("/threads/t/messages")).json()["messages"]

        assert stopped.json() == {"run_id": run_id, "status": "cancelled"}
        assert [(event.kind, event.data["status"]) for event in rest] == [("done", "cancelled")]
        assert again.json()["status"] == "unknown"
        assert text_of(first) == "First."
        assert "done" in kinds(later)
        assert [one["text"] for one in messages if one["role"] == "user"] == ["Hello", "Again"]


class TestLimits:
    async def test_too_many_turns_are_refused_before_they_begin(self, open_gateway: Open):
        """Two run, two wait, and of the fifth nothing is written."""
        release = asyncio.Event()
        gateway = open_gateway(ScriptedModel(replies=(Held(release, "Now."),)), max_runs=2)
        async with gateway.client() as client:
            turns = [asyncio.create_task(gateway.turn(client, "Hello", thread_id=f"t{n}")) for n in range(4)]
            await until(lambda: gateway.runs.limiter.running == 2 and gateway.runs.limiter.waiting == 2)
            refused = await client.post("/chat/stream", json={"message": "Hello", "thread_id": "refused"})
            gateway.call(release.set)
            answered = await asyncio.gather(*turns)
            threads = (await client.get("/threads")).json()["threads"]

        assert (refused.status_code, refused.json()["code"]) == (503, "overloaded")
        assert int(refused.headers["retry-after"]) > 0
        assert [text_of(events) for events in answered] == ["Now."] * 4
        assert {one["thread_id"] for one in threads} == {"t0", "t1", "t2", "t3"}

    async def test_a_turn_waits_only_for_so_long(self, open_gateway: Open, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("threadkeep.gateway.run_limiter.WAIT_SECONDS", 0.1)
        release = asyncio.Event()
        gateway = open_gateway(ScriptedModel(replies=(Held(release, "Now."),)), max_runs=1)
        async with gateway.client() as client:
            first = asyncio.create_task(gateway.turn(client, "Hello", thread_id="t"))
            await until(lambda: gateway.runs.limiter.running == 1)
            refused = await client.post("/chat/stream", json={"message": "Hello"})
            gateway.call(release.set)

            assert text_of(await first) == "Now."
        assert refused.status_code == 503

    async def test_a_client_that_leaves_while_it_waits_takes_no_place(self, open_gateway: Open):
        release = asyncio.Event()
        gateway = open_gateway(ScriptedModel(replies=(Held(release, "Now."),)), max_runs=1)
        async with gateway.client() as client:
            first = asyncio.create_task(gateway.turn(client, "Hello", thread_id="t"))
            await until(lambda: gateway.runs.limiter.running == 1)
            leaving = asyncio.create_task(client.post("/chat/stream", json={"message": "Gone", "thread_id": "gone"}))
            await until(lambda: gateway.runs.limiter.waiting == 1)
            leaving.cancel()
            await asyncio.wait({leaving})
            gateway.call(release.set)
            await first
            await until(lambda: not gateway.runs.limiter.running and not gateway.runs.limiter.waiting)
            again = await gateway.turn(client, "Hello")

        assert text_of(again) == "Now."

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("count", "max_runs"), [(24, 8), pytest.param(200, 64, marks=[pytest.mark.soak, pytest.mark.timeout(300)])]
    )
    async def test_a_burst_is_answered_or_refused(
        self, open_gateway: Open, storage_url: str, count: int, max_runs: int
    ):
        """As many turns as three times the limit: each answered one is learnt from, and none is degraded."""
        gateway = open_gateway(ScriptedModel(replies=("Nice.",)), url=storage_url, max_runs=max_runs)
        owners = range(count)

        async def one(number: int) -> tuple[int, Any]:
            body, user = {"message": f"I live in Town{number}.", "thread_id": "t"}, {USER: f"u{number}"}
            async with sending.stream("POST", "/chat/stream", json=body, headers=user) as response:
                if response.status_code != 200:
                    return response.status_code, None
                return 200, [event async for event in events_of(response)]

        async with gateway.client(None) as sending:
            answers = await asyncio.gather(*(one(number) for number in owners))
        await gateway.tk.drain()

        assert {status for status, _ in answers} <= {200, 503}
        answered = [number for number, (status, _) in enumerate(answers) if status == 200]
        assert len(answered) >= max_runs
        for number, (status, events) in enumerate(answers):
            known = [one.text for one in await gateway.tk.memories.list(owner=owner_of(f"u{number}"), kind="semantic")]
            if status == 503:
                assert known == []
                assert await gateway.tk.for_owner(owner_of(f"u{number}")).threads.list() == []
                continue
            done = next(event.data for event in events if event.kind == "done")
            recalled = next(event.data for event in events if event.kind == "memory_recalled")
            assert (done["status"], done["recorded"], recalled["degraded"]) == ("done", True, [])
            assert known == [f"I live in Town{number}."]


class TestOutage:
    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # connections that were cut
    async def test_a_turn_is_answered_without_its_storage(
        self, open_gateway: Open, monkeypatch: pytest.MonkeyPatch, postgres_url: str
    ):
        """It says that it is not recorded; threads answer 503; once the storage is back, the next turn is kept."""
        monkeypatch.setenv("THREADKEEP_CHECKPOINT_TIMEOUT_SECONDS", "1")
        monkeypatch.setenv("THREADKEEP_RECALL_TIMEOUT_MS", "300")
        with FaultProxy(urlsplit(postgres_url).port or 0) as proxy:
            gateway = open_gateway(url=proxy.url_of(postgres_url))
            async with gateway.client() as client:
                before = await gateway.turn(client, "I live in Rome.", thread_id="t")
                proxy.refuse()
                proxy.cut()
                during = await gateway.turn(client, "Where do I live?", thread_id="t")
                refused = [await client.get(address) for address in ("/threads", "/memories", "/memories/search?q=a")]
                proxy.accept()
                after: list[Any] = []
                while not after or not after[-1].data.get("recorded"):
                    after = [one for one in await turn(client, "And now?", "t") if one.kind == "done"]  # or 503

        gc.collect()
        assert text_of(during) == "Noted."
        assert next(event.data["recorded"] for event in during if event.kind == "done") is False
        assert next(event.data["recorded"] for event in before if event.kind == "done") is True
        assert {(one.status_code, one.json()["code"]) for one in refused} == {(503, "storage_unavailable")}


class TestStopping:
    async def test_runs_in_progress_are_reported(self, open_gateway: Open):
        """A stopping process ends its streams with the run's id, and begins no run."""
        gateway = open_gateway(ScriptedModel(replies=(Held(asyncio.Event(), "Never."),)))
        async with gateway.client() as client:
            async with gateway.stream(client, {"message": "Hello", "thread_id": "t"}) as events:
                first = await anext(events)
                gateway.call(lambda: gateway.runs.drain_soon(0.1))
                rest = [event async for event in events]
            refused = await client.post("/chat/stream", json={"message": "Hello"})

        assert rest[-1].kind == "error"
        assert (rest[-1].data["code"], rest[-1].data["run_id"]) == ("restarting", first.data["run_id"])
        assert (refused.status_code, refused.json()["code"]) == (503, "restarting")
        assert await leases(gateway, "ana", "t") == []
