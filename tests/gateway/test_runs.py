"""The registry of runs: which run is stopped, how many an owner may begin, what is kept, and what a key returns."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.a2a.test_tasks import asking
from tests.gateway.conftest import Open
from tests.gateway.langgraph_api.conftest import sdk, served_graph
from tests.gateway.langgraph_api.script import say
from tests.gateway.test_streams import CALL
from tests.gateway.world import (
    USER,
    GatewayWorld,
    joined,
    kinds,
    owner_of,
    text_of,
    until,
    until_claim_outlasted,
)
from threadkeep.gateway import idempotency
from threadkeep.gateway import runs as gateway_runs
from threadkeep.gateway.idempotency import KeptAnswers, RequestKey
from threadkeep.gateway.run_models import TurnRequest
from threadkeep.langgraph.threads import ThreadService
from threadkeep.testing import Held, ScriptedModel

APPROVE = {"decisions": [{"type": "approve"}]}


def begun(gateway: GatewayWorld, message: str, thread_id: str, **options: Any) -> asyncio.Future[Any]:
    """Begin a run in the server's event loop."""
    turn = TurnRequest(owner_of("ana"), thread_id, message, **options)
    return gateway.call(lambda: asyncio.ensure_future(gateway.runs.begin(turn)))


class TestCancel:
    @pytest.mark.parametrize("fabricated", [False, True])
    async def test_an_earlier_run_does_not_stop_the_newest(self, open_gateway: Open, tmp_path: Path, fabricated: bool):
        """A run's id names its thread, and another run may be at work on that: only the named run is stopped."""
        url, release = f"sqlite:///{tmp_path / 'shared.db'}", asyncio.Event()
        model = ScriptedModel(replies=("First.", Held(release, "Second.")))
        one, other = open_gateway(model, url=url), open_gateway(url=url)
        async with one.client() as client, other.client() as elsewhere:
            first = (await one.turn(client, "One", thread_id="t"))[0].data["run_id"]
            async with one.stream(client, {"message": "Two", "thread_id": "t"}) as events:
                second = (await anext(events)).data["run_id"]
                await until(lambda: len(model.prompts) == 2)
                named = f"x.{second.partition('.')[2]}" if fabricated else first
                stopped = (await elsewhere.post(f"/runs/{named}/cancel")).json()
                one.call(release.set)
                rest = [event async for event in events]

        assert stopped["status"] == "unknown"
        assert text_of(rest) == "Second."
        assert next(event.data["status"] for event in rest if event.kind == "done") == "done"

    async def test_a_turn_that_waits_is_stopped_alone(self, open_gateway: Open):
        """Undoing a turn that waits for its thread undoes nothing of the turn that it waits for."""
        release = asyncio.Event()
        model = ScriptedModel(replies=(Held(release, "First."), "Never."))
        gateway = open_gateway(model)
        async with gateway.client() as client, sdk(gateway) as graph:
            async with gateway.stream(client, {"message": "One", "thread_id": "t"}) as events:
                await until(lambda: model.prompts)
                waiting = begun(gateway, "Two", "t")
                await until(waiting.done)
                await graph.runs.cancel("t", waiting.result().run_id, action="rollback")
                gateway.call(release.set)
                rest = [event async for event in events]
            messages = (await client.get("/threads/t/messages")).json()["messages"]

        assert waiting.result().status == "cancelled"
        assert text_of(rest) == "First."
        assert [one["text"] for one in messages] == ["One", "First."]


class TestWaiting:
    async def test_a_turn_that_waits_for_a_place_is_stopped(self, open_gateway: Open):
        release = asyncio.Event()
        model = ScriptedModel(replies=(Held(release, "First."), "Never."))
        gateway = open_gateway(model, max_runs=1)
        begun(gateway, "One", "a")
        waiting = begun(gateway, "Two", "b")
        await until(lambda: gateway.runs.limiter.waiting == 1)
        gateway.call(lambda: gateway.runs.cancel_all(owner_of("ana")))
        await until(waiting.done)
        await until(lambda: waiting.result().status != "running")

        assert waiting.result().status == "cancelled"
        assert len(model.prompts) <= 1

    async def test_nothing_waits_for_a_turn_that_is_refused(self, open_gateway: Open, monkeypatch: pytest.MonkeyPatch):
        """A deletion of its thread does, and would for ever."""
        monkeypatch.setattr("threadkeep.gateway.run_limiter.WAIT_SECONDS", 2)
        release = asyncio.Event()
        gateway = open_gateway(ScriptedModel(replies=(Held(release, "First."),)), max_runs=1)
        begun(gateway, "One", "a")
        async with sdk(gateway) as client:
            thread_id = (await client.threads.create())["thread_id"]
            refused = begun(gateway, "Two", thread_id)
            await until(lambda: gateway.runs.limiter.waiting == 1)
            async with asyncio.timeout(20):
                await client.threads.delete(thread_id)
                await until(refused.done)
            gateway.call(release.set)

        assert refused.exception() is not None

    async def test_nothing_waits_for_a_turn_that_was_cut_off(self, open_gateway: Open):
        """A task that is cancelled twice does not settle its run; who waits for the run would spin."""
        gateway = open_gateway(ScriptedModel(replies=(Held(asyncio.Event(), "Never."),)))
        run = begun(gateway, "One", "a")
        await until(lambda: gateway.model.prompts)
        waited = gateway.call(lambda: asyncio.ensure_future(run.result().wait()))
        gateway.call(run.result().task.cancel)
        async with asyncio.timeout(20):
            await until(waited.done)

        assert run.result().status == "error"


class TestLimits:
    async def test_turns_at_once_of_an_owner(self, open_gateway: Open):
        """As many requests at once, each with a key that is looked up first, do not pass the limit together."""
        release = asyncio.Event()
        gateway = open_gateway(ScriptedModel(replies=(Held(release, "Now."),)), max_turns_per_owner=2)

        async def one(number: int) -> int:
            keyed = {USER: "ana", "Idempotency-Key": f"k{number}"}
            async with client.stream("POST", "/chat/stream", json={"message": "Hello"}, headers=keyed) as response:
                if response.status_code == 200:
                    async for _ in response.aiter_bytes():
                        pass
                return response.status_code

        async with gateway.client() as client:
            turns = [asyncio.create_task(one(number)) for number in range(8)]
            await until(lambda: sum(turn.done() for turn in turns) >= 6)
            gateway.call(release.set)
            statuses = await asyncio.gather(*turns)

        assert sorted(statuses) == [200, 200, *[429] * 6]


class TestKept:
    async def test_only_so_many_bytes_of_ended_runs(self, open_gateway: Open, monkeypatch: pytest.MonkeyPatch):
        """An owner who begins many runs does not fill the process; the oldest are joined by the thread's state."""
        monkeypatch.setattr(gateway_runs, "KEPT_BYTES", 20_000)
        gateway = open_gateway(ScriptedModel(replies=("word " * 20,)))
        async with gateway.client() as client:
            ids = [(await gateway.turn(client, "Hello"))[0].data["run_id"] for _ in range(12)]
            first, last = await joined(client, ids[0]), await joined(client, ids[-1])
        kept = gateway.call(lambda: sum(run.buffer.size for run in gateway.runs._runs.values()))

        assert (kinds(first), kinds(last)[0]) == (["reset"], "run")
        assert kept <= 20_000


class TestResume:
    async def test_two_answers_at_once_resume_once(self, open_gateway: Open):
        model = ScriptedModel(replies=(CALL, "It rains.", "Again."))
        gateway = open_gateway(model, graph=asking(model))
        async with gateway.client() as client:
            run_id = (await gateway.turn(client, "Weather?", thread_id="t"))[0].data["run_id"]
            answers = await asyncio.gather(
                *(client.post(f"/runs/{run_id}/resume", json={"answer": APPROVE}) for _ in range(4))
            )

        assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
        assert len(model.prompts) == 2

    async def test_the_thread_is_read_once(self, open_gateway: Open, monkeypatch: pytest.MonkeyPatch):
        model = ScriptedModel(replies=(CALL, "It rains."))
        gateway = open_gateway(model, graph=asking(model))
        read, reads = ThreadService.get, list[str]()

        async def counted(self: ThreadService, thread_id: str, **more: Any) -> Any:
            reads.append(thread_id)
            return await read(self, thread_id, **more)

        async with gateway.client() as client:
            run_id = (await gateway.turn(client, "Weather?", thread_id="t"))[0].data["run_id"]
            monkeypatch.setattr(ThreadService, "get", counted)
            answer = await client.post(f"/runs/{run_id}/resume", json={"answer": APPROVE})

        assert (answer.status_code, reads) == (200, ["t"])

    async def test_an_answer_of_any_characters(self, gateway: GatewayWorld):
        async with gateway.client() as client:
            run_id = (await gateway.turn(client, "Hello", thread_id="t"))[0].data["run_id"]
            body = rb'{"answer": "\u0000\ud83d\ude00\\ud800"}'
            answer = await client.post(
                f"/runs/{run_id}/resume",
                content=body,
                headers={"Content-Type": "application/json", "Idempotency-Key": "k"},
            )

        assert (answer.status_code, answer.json()["code"]) == (409, "nothing_to_resume")


class TestUnreachableStorage:
    async def test_clients_are_not_told_where_it_is(self, open_gateway: Open):
        """Neither its address nor its user is in an answer or an event."""
        gateway = open_gateway(url="postgresql://quagga@127.0.0.1:1/quagga")
        async with gateway.client() as client:
            answers = [
                await client.get("/memories"),
                await client.post("/memories", json={"text": "I live in Rome."}),
                await client.post("/chat/stream", json={"message": "Hello"}),
                await client.post(f"{gateway.origin}/lg/threads", json={}),
            ]

        assert {one.status_code for one in answers} == {503}
        assert {one.json()["code"] for one in answers} == {"storage_unavailable"}
        assert "quagga" not in "".join(one.text for one in answers)


class TestKeys:
    async def test_a_claim_lasts_as_long_as_its_request(self, open_gateway: Open, monkeypatch: pytest.MonkeyPatch):
        """Of a run that takes longer than a claim without renewal, another process knows all the time."""
        monkeypatch.setattr(idempotency, "CLAIM_MINUTES", 0.03)
        monkeypatch.setattr(idempotency, "RENEW_SECONDS", 0.1)
        release = asyncio.Event()
        model = ScriptedModel(replies=(Held(release, "Once."), "Twice."))
        one = open_gateway(model)
        other = open_gateway(model)
        body = {"message": "Hello", "thread_id": "t"}
        async with one.client() as client, other.client() as elsewhere:
            for sending in (client, elsewhere):
                sending.headers["Idempotency-Key"] = "k"
            async with one.stream(client, body) as events:
                await until(lambda: model.prompts)
                await until_claim_outlasted(one, "k")
                again = await elsewhere.post("/chat/stream", json=body)
                assert "event: reset" in again.text
                one.call(release.set)
                rest = [event async for event in events]
            await asyncio.sleep(2)
            later = await elsewhere.post("/chat/stream", json=body)

        assert text_of(rest) == "Once."
        assert "event: reset" in later.text
        assert len(model.prompts) == 1

    async def test_a_key_that_is_claimed_late_is_kept(
        self, open_gateway: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch
    ):
        """A run begins although the storage does not answer; once it does, every process knows its key."""
        monkeypatch.setattr(idempotency, "STORAGE_SECONDS", 0.01)
        gateway, other = open_gateway(url=postgres_url), open_gateway(url=postgres_url)
        key, request, release = RequestKey("k", "f"), TurnRequest(owner_of("ana"), "t", "Hello"), asyncio.Event()
        for one in (gateway, other):
            await one.tk.app.event_loop.run(one.tk.app.connect())
        gate: Any = gateway.tk.app.storage.gate
        backend: Any = gateway.tk.app.backend
        monkeypatch.setattr(gate, "_patience", math.inf)

        async def hold() -> None:
            async with gate.place():
                await release.wait()

        loop = gateway.tk.app.event_loop
        holding = [asyncio.create_task(loop.run(hold())) for _ in range(backend.pool.size)]
        await until(lambda: gate._free == 0)
        running = gateway.call(lambda: asyncio.ensure_future(gateway.runs.begin(request, key=key)))
        await until(running.done)
        assert not release.is_set()
        loop.soon(release.set)
        await asyncio.gather(*holding)
        answers = KeptAnswers(other.tk, request.owner)
        async with asyncio.timeout(20):
            while (kept := await answers.find(key)) is None:
                await asyncio.sleep(0.01)

        assert kept["run_id"] == running.result().run_id

    async def test_the_key_of_a_killed_process_is_free(self, open_gateway: Open, monkeypatch: pytest.MonkeyPatch):
        """Its claim is renewed no longer, and the message can be sent again."""
        monkeypatch.setattr(idempotency, "CLAIM_MINUTES", 0.005)
        gateway, other = open_gateway(ScriptedModel(replies=(Held(asyncio.Event(), "Never."),))), open_gateway()
        body = {"message": "Hello"}
        async with gateway.client() as client, other.client() as elsewhere:
            for sending in (client, elsewhere):
                sending.headers["Idempotency-Key"] = "k"
            async with gateway.stream(client, body) as events:
                await anext(events)
                (run,) = gateway.call(lambda: [*gateway.runs._active])
                gateway.call(run.claim.stop)  # as if the process were no more
                await asyncio.sleep(0.4)
                again = await other.turn(elsewhere, "Hello")

        assert text_of(again) == "Noted."

    @pytest.mark.parametrize(
        "path", ["/threads/t/runs/wait", "/threads/t/runs/stream", "/threads/t/runs", "/runs/wait"]
    )
    async def test_runs_of_langgraphs_api(self, open_gateway: Open, path: str):
        """A repeated request gets the run of the first one, from every process; another body is refused."""
        one, other = open_gateway(graph=served_graph), open_gateway(graph=served_graph)
        body = {"assistant_id": "agent", "input": say("hi"), "on_completion": "keep"}
        body |= {} if path == "/runs/wait" else {"if_not_exists": "create"}
        keyed = {USER: "ana", "Idempotency-Key": "k"}
        async with (
            httpx.AsyncClient(base_url=f"{one.origin}/lg", headers=keyed) as client,
            httpx.AsyncClient(base_url=f"{other.origin}/lg", headers=keyed) as elsewhere,
            sdk(one) as reading,
        ):
            answers = [await client.post(path, json=body) for _ in range(2)]
            await until(lambda: not one.call(lambda: one.runs.running(owner_of("ana"))))
            answers.append(await elsewhere.post(path, json=body))
            changed = await client.post(path, json={**body, "input": say("ho")})
            (thread,) = await reading.threads.search()

        assert [answer.status_code for answer in answers] == [200] * 3
        assert (changed.status_code, changed.json()["code"]) == (422, "idempotency_key_reused")
        assert thread["values"]["count"] == 1
        assert [one["content"] for one in thread["values"]["messages"]] == ["hi", "you said hi"]
