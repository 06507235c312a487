"""Runs: joined again, resumed once, refused, stopped, and left by their clients."""

from __future__ import annotations

import ast
import asyncio
import json
import operator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from langgraph_sdk.errors import ConflictError, NotFoundError
from typing_extensions import TypedDict

from tests.gateway.conftest import Open
from tests.gateway.langgraph_api.conftest import sdk, served_graph
from tests.gateway.langgraph_api.script import ALL_MODES, say
from tests.gateway.world import USER, GatewayWorld, joined, owner_of, until
from threadkeep.gateway import runs as gateway_runs
from threadkeep.gateway.events import decode_events
from threadkeep.testing import ScriptedModel


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


async def events_of(parts: Any) -> list[Any]:
    return [part async for part in parts]


async def texts_of(client: Any, thread_id: str) -> list[str]:
    state = await client.threads.get_state(thread_id)
    return [message["content"] for message in state["values"].get("messages", [])]


async def new_thread(client: Any) -> str:
    return (await client.threads.create())["thread_id"]


async def hanging(client: Any, thread_id: str | None, **options: Any) -> tuple[Any, str]:
    """Return the events of a run that hangs, and its id, once it has begun."""
    named: list[Any] = []
    parts = client.runs.stream(
        thread_id, "agent", input=say("hang"), stream_mode="custom", on_run_created=named.append, **options
    )
    async for part in parts:
        if part.event == "custom":
            break
    return parts, named[0]["run_id"]


async def settled(world: GatewayWorld, before: int) -> None:
    """Wait until the server has no more tasks than before."""
    for _ in range(500):
        if world.tasks() <= before:
            return
        await asyncio.sleep(0.02)
    pytest.fail("A task of the run is left.")


class TestStream:
    async def test_first_and_last_event_and_ids(self, client: Any):
        thread_id = await new_thread(client)
        parts = await events_of(client.runs.stream(thread_id, "agent", input=say("hi"), stream_mode=ALL_MODES))

        run_id = parts[0].data["run_id"]
        assert (parts[0].event, parts[-1].event) == ("metadata", "end")
        assert parts[-1].data == {"run_id": run_id, "status": "success"}
        assert [part.id for part in parts] == [f"{run_id}:{number}" for number in range(1, len(parts) + 1)]

    async def test_addresses_are_in_the_headers(self, world: GatewayWorld, client: Any):
        thread_id = await new_thread(client)
        body = {"assistant_id": "agent", "input": say("hi")}
        url = f"{world.origin}/lg/threads/{thread_id}/runs/stream"
        async with httpx.AsyncClient(headers=dict(client.http.client.headers)) as http:
            answer = await http.post(url, json=body)

        place = answer.headers["content-location"]
        assert place.startswith(f"/threads/{thread_id}/runs/")
        assert answer.headers["location"] == f"{place}/stream"
        assert answer.headers["content-type"].startswith("text/event-stream")

    async def test_nothing_of_ours_is_streamed(self, client: Any):
        thread_id = await new_thread(client)
        options = {"stream_mode": ALL_MODES, "stream_subgraphs": True}
        parts = await events_of(client.runs.stream(thread_id, "agent", input=say("hi"), **options))
        history = await client.threads.get_history(thread_id)

        told = json.dumps([[part.data for part in parts], history])
        assert "threadkeep" not in told
        assert "issuer.example" not in told

    async def test_join_behind_an_event(self, client: Any):
        thread_id = await new_thread(client)
        first = await events_of(client.runs.stream(thread_id, "agent", input=say("hi"), stream_mode=ALL_MODES))
        run_id = first[0].data["run_id"]

        rest = await events_of(client.runs.join_stream(thread_id, run_id, last_event_id=first[3].id))
        custom = await events_of(client.runs.join_stream(thread_id, run_id, stream_mode="custom"))
        listed = await events_of(client.runs.join_stream(thread_id, run_id, stream_mode='["custom"]'))

        with pytest.raises(NotFoundError):
            await client.runs.get(await new_thread(client), run_id)
        assert rest == first[4:]
        assert [part.event for part in custom] == ["metadata", "custom", "end"]
        assert listed == custom

    async def test_events_that_are_gone_give_the_state(self, client: Any, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(gateway_runs, "CALL_BYTES", 2_000)
        thread_id = await new_thread(client)
        run = await client.runs.create(thread_id, "agent", input=say("hi " * 500), stream_mode=ALL_MODES)
        await client.runs.join(thread_id, run["run_id"])

        parts = await events_of(client.runs.join_stream(thread_id, run["run_id"]))

        assert [part.event for part in parts] == ["values"]
        assert parts[0].data == (await client.threads.get_state(thread_id))["values"]


class TestResume:
    async def test_two_answers_resume_once(self, client: Any):
        thread_id = await new_thread(client)
        await client.runs.wait(thread_id, "agent", input=say("ask"))

        answers = [client.runs.wait(thread_id, "agent", command={"resume": color}) for color in ("red", "blue")]
        found = await asyncio.gather(*answers, return_exceptions=True)

        refused = [one for one in found if isinstance(one, httpx.HTTPStatusError)]
        (values,) = [one for one in found if isinstance(one, dict)]
        assert [one.response.status_code for one in refused] == [409]
        assert values["count"] == 1
        assert len(await texts_of(client, thread_id)) == 2

    @pytest.mark.parametrize("resume", ["blue", {"f" * 32: "blue"}])
    async def test_nothing_waits(self, client: Any, resume: Any):
        thread_id = await new_thread(client)
        await client.runs.wait(thread_id, "agent", input=say("hi"))
        before = await client.threads.get_history(thread_id)

        with pytest.raises(ConflictError):
            await client.runs.create(thread_id, "agent", command={"resume": resume})

        assert await client.threads.get_history(thread_id) == before

    async def test_an_answer_to_another_question(self, client: Any):
        thread_id = await new_thread(client)
        await client.runs.wait(thread_id, "agent", input=say("ask"))

        with pytest.raises(ConflictError):
            await client.runs.create(thread_id, "agent", command={"resume": {"f" * 32: "blue"}})

        assert (await client.threads.get(thread_id))["status"] == "interrupted"

    async def test_several_questions_are_answered_by_their_ids(self, open_gateway: Open):
        builder = StateGraph(Log)
        for name in ("a", "b"):
            builder.add_node(name, lambda _: {"log": [interrupt("Which color?")]})
            builder.add_edge(START, name)
        world = open_gateway(graph=lambda tk: builder.compile(checkpointer=tk.per_run_owner().checkpointer))
        async with sdk(world) as client:
            thread_id = await new_thread(client)
            asked = (await client.runs.wait(thread_id, "agent", input={"log": ["in"]}))["__interrupt__"]
            before = await client.threads.get_history(thread_id)
            with pytest.raises(httpx.HTTPStatusError, match="409"):
                await client.runs.wait(thread_id, "agent", command={"resume": "blue"})
            kept = await client.threads.get_history(thread_id)
            answers = {one["id"]: "blue" for one in asked}
            values = await client.runs.wait(thread_id, "agent", command={"resume": answers})

        assert kept == before
        assert (len(answers), values) == (2, {"log": ["in", "blue", "blue"]})


class TestStrategies:
    async def test_a_refused_run_writes_nothing(self, client: Any):
        thread_id = await new_thread(client)
        parts, run_id = await hanging(client, thread_id)
        with pytest.raises(ConflictError):
            await client.runs.create(thread_id, "agent", input=say("x"), multitask_strategy="reject")
        await client.runs.cancel(thread_id, run_id)
        await parts.aclose()

        assert await texts_of(client, thread_id) == ["hang"]
        assert [one["status"] for one in await client.runs.list(thread_id)] == ["interrupted"]

    async def test_cancel_with_rollback(self, client: Any):
        thread_id = await new_thread(client)
        await client.runs.wait(thread_id, "agent", input=say("hi"))
        parts, run_id = await hanging(client, thread_id)
        await client.runs.cancel(thread_id, run_id, wait=True, action="rollback")
        await parts.aclose()

        assert await texts_of(client, thread_id) == ["hi", "you said hi"]
        with pytest.raises(NotFoundError):
            await client.runs.get(thread_id, run_id)
        assert (await client.runs.wait(thread_id, "agent", input=say("on")))["count"] == 2


class TestStoppedRuns:
    """What a run streamed last may be in no checkpoint: it answers with an error, and not as one that succeeded."""

    @pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
    async def test_a_run_that_another_one_stops(self, world: GatewayWorld, client: Any, strategy: str):
        thread_id = await new_thread(client)
        waiting = asyncio.create_task(client.runs.wait(thread_id, "agent", input=say("hang"), raise_error=False))
        await until(lambda: any(run.events.values for run in world.runs.of_thread(owner_of("ana"), thread_id)))
        (run,) = await client.runs.list(thread_id)
        values = await client.runs.wait(thread_id, "agent", input=say("x"), multitask_strategy=strategy)
        answer = await waiting

        assert values["messages"][-1]["content"] == "you said x"
        assert (answer.keys(), answer["__error__"]["error"]) == ({"__error__"}, "run_cancelled")
        if strategy == "interrupt":
            assert await client.runs.join(thread_id, run["run_id"]) == answer

    async def test_a_run_that_a_client_cancels(self, client: Any):
        thread_id = await new_thread(client)
        parts, run_id = await hanging(client, thread_id)
        waiting = asyncio.create_task(client.runs.join(thread_id, run_id))
        queued = await client.runs.create(thread_id, "agent", input=say("x"))
        await client.runs.cancel(thread_id, queued["run_id"], wait=True)
        await client.runs.cancel(thread_id, run_id, wait=True)
        await parts.aclose()

        answers = [await waiting, await client.runs.join(thread_id, queued["run_id"])]
        assert [answer["__error__"]["error"] for answer in answers] == ["run_cancelled"] * 2


class TestLeaving:
    async def test_a_run_is_cancelled_as_asked(self, world: GatewayWorld, client: Any):
        thread_id = await new_thread(client)
        before = world.tasks()
        parts, run_id = await hanging(client, thread_id, on_disconnect="cancel")
        await parts.aclose()
        await settled(world, before)

        assert (await client.runs.get(thread_id, run_id))["status"] == "interrupted"
        assert (await client.runs.wait(thread_id, "agent", input=say("on")))["count"] == 1

    async def test_a_joined_run_is_cancelled_as_asked(self, client: Any):
        thread_id = await new_thread(client)
        parts, run_id = await hanging(client, thread_id)
        async with aclosing(client.runs.join_stream(thread_id, run_id, cancel_on_disconnect=True)) as more:
            async for _ in more:
                break
        async with asyncio.timeout(10):
            async for _ in parts:
                pass

        assert (await client.runs.get(thread_id, run_id))["status"] == "interrupted"

    async def test_a_thread_that_was_made_for_a_run_goes(self, world: GatewayWorld, client: Any):
        before = world.tasks()
        parts, _ = await hanging(client, None, on_disconnect="cancel")
        await parts.aclose()
        await settled(world, before)
        await client.runs.wait(None, "agent", input=say("once"))

        assert await client.threads.search() == []

    async def test_it_stays_if_asked(self, client: Any):
        await client.runs.wait(None, "agent", input=say("once"), on_completion="keep")

        (kept,) = await client.threads.search()
        assert kept["values"]["messages"][-1]["content"] == "you said once"


class TestSearch:
    @pytest.mark.parametrize("by", [{}, {"sort_by": "updated_at"}])
    async def test_the_last_change_first_or_last(self, client: Any, by: dict[str, Any]):
        """A thread without a turn stands at the time of its creation."""
        for thread_id in ("one", "two", "three"):
            await client.threads.create(thread_id=thread_id)
        await client.runs.wait("one", "agent", input=say("hi"))

        orders = {
            order: [thread["thread_id"] for thread in await client.threads.search(sort_order=order, **by)]
            for order in ("asc", "desc")
        }

        assert orders == {"asc": ["two", "three", "one"], "desc": ["one", "three", "two"]}


class TestOtherProcesses:
    async def test_a_run_of_another_process(self, world: GatewayWorld, open_gateway: Open, client: Any, tmp_path: Any):
        url = f"sqlite:///{tmp_path / 'shared.db'}"
        first, second = (open_gateway(url=url, graph=served_graph) for _ in range(2))
        async with sdk(first) as begun, sdk(second) as other:
            thread_id = await new_thread(begun)
            run = await begun.runs.create(thread_id, "agent", input=say("hi"))
            values = await begun.runs.join(thread_id, run["run_id"])

            assert (await other.runs.get(thread_id, run["run_id"]))["status"] == "success"
            assert await other.runs.join(thread_id, run["run_id"]) == values
            parts = await events_of(other.runs.join_stream(thread_id, run["run_id"]))
            assert [part.event for part in parts] == ["values", "end"]
            hung, run_id = await hanging(begun, thread_id)
            assert (await other.runs.get(thread_id, run_id))["status"] == "running"
            with pytest.raises(ConflictError):
                await other.runs.create(thread_id, "agent", input=say("x"), multitask_strategy="reject")
            await other.runs.cancel(thread_id, run_id)
            assert (await other.runs.wait(thread_id, "agent", input=say("on")))["count"] == 2
            await begun.runs.cancel(thread_id, run_id)
            await hung.aclose()

    async def test_the_end_of_a_run_of_another_process(self, open_gateway: Open, tmp_path: Any):
        """Joining it waits for its end, with heartbeats, and gives the state of the thread then."""
        url = f"sqlite:///{tmp_path / 'shared.db'}"
        first, second = (open_gateway(url=url, graph=served_graph) for _ in range(2))
        answers: dict[str, tuple[bytes, bytes]] = {}
        async with sdk(first) as begun, sdk(second) as other:
            for how in ("join", "stream"):
                thread_id = await new_thread(begun)
                hung, run_id = await hanging(begun, thread_id)
                async with other.http.client.stream("GET", f"/threads/{thread_id}/runs/{run_id}/{how}") as answer:
                    chunks = answer.aiter_raw()
                    before = await anext(chunks)
                    await begun.runs.cancel(thread_id, run_id)
                    answers[how] = before, b"".join([chunk async for chunk in chunks])
                await hung.aclose()

        assert [before for before, _ in answers.values()] == [b"\n", b": heartbeat\n\n"]
        assert json.loads(answers["join"][1])["messages"][0]["content"] == "hang"
        assert [kind for kind, _ in decode_events(answers["stream"][1])] == ["values", "end"]

    async def test_a_run_that_waits_and_one_that_is_stopped(self, open_gateway: Open, tmp_path: Any):
        """Joined elsewhere, the one answers after its turn, and the other with an error."""
        url = f"sqlite:///{tmp_path / 'shared.db'}"
        first, second = (open_gateway(url=url, graph=served_graph) for _ in range(2))
        async with sdk(first) as begun, sdk(second) as other:
            thread_id = await new_thread(begun)
            hung, run_id = await hanging(begun, thread_id)
            queued = await begun.runs.create(thread_id, "agent", input=say("queued"))
            async with other.http.client.stream("GET", f"/threads/{thread_id}/runs/{queued['run_id']}/join") as answer:
                chunks = answer.aiter_raw()
                before = await anext(chunks)
                await begun.runs.wait(thread_id, "agent", input=say("x"), multitask_strategy="interrupt")
                values = json.loads(b"".join([chunk async for chunk in chunks]))
            stopped = await other.runs.join(thread_id, run_id)
            parts = await events_of(other.runs.join_stream(thread_id, run_id))
            await hung.aclose()

        assert before == b"\n"
        assert values["messages"][-1]["content"] == "you said queued"
        assert stopped["__error__"]["error"] == parts[-1].data["error"] == "run_cancelled"


class TestMemory:
    async def test_what_is_said_here_is_known_in_chat(self, open_gateway: Open):
        gateway = open_gateway(ScriptedModel())
        async with sdk(gateway) as client, gateway.client() as http:
            thread_id = await new_thread(client)
            await client.runs.wait(thread_id, "agent", input=say("My favourite color is turquoise."))
            gateway.tk.sync.drain()
            chat = await gateway.turn(http, "What is my favourite color?")
            parts = await events_of(
                client.runs.stream(None, "agent", input=say("What is my favourite color?"), stream_mode="custom")
            )
            listed = (await http.get("/threads")).json()["threads"]

        (recalled,) = [event.data for event in chat if event.kind == "memory_recalled"]
        (told,) = [part.data for part in parts if part.event == "custom" and part.data["type"] == "recalled"]
        assert "turquoise" in recalled["memories"][0]["text"]
        assert told["memories"][0]["text"] == recalled["memories"][0]["text"]
        titles = {one["title"] for one in listed}
        assert "My favourite color is turquoise." in titles

    async def test_a_run_of_the_chat_is_joined_here(self, open_gateway: Open):
        gateway = open_gateway(ScriptedModel())
        async with sdk(gateway) as client, gateway.client() as http:
            run = (await gateway.turn(http, "Hello."))[0].data
            shown = await client.runs.get(run["thread_id"], run["run_id"])
            state = await client.threads.get_state(run["thread_id"])
            mine = await client.runs.create(run["thread_id"], "agent", input=say("And?"))
            await client.runs.join(run["thread_id"], mine["run_id"])
            events = await joined(http, mine["run_id"])

        assert shown["status"] == "success"
        assert state["values"]["messages"][0]["content"] == "Hello."
        assert events[0].kind == "metadata"


class TestDocument:
    async def test_the_example_runs(self, open_gateway: Open, capsys: pytest.CaptureFixture[str]):
        gateway = open_gateway(ScriptedModel(replies=("Nice.",)))
        page = (Path(__file__).parents[3] / "docs" / "langgraph-api.md").read_text(encoding="utf-8")
        code = page.partition("```python\n")[2].partition("```")[0]
        code = code.replace('url="http://localhost:8000/lg"', f'url="{gateway.origin}/lg", headers={{"{USER}": "ana"}}')
        names: dict[str, Any] = {}
        await eval(compile(code, "document", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        await names["client"].aclose()

        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("metadata")
        assert any(line.startswith("messages") and "Nice." in line for line in lines)
        assert lines[-1].startswith("end")
