"""``POST /chat/stream``: the events of a turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.types import interrupt

import threadkeep
from tests.gateway.conftest import Open
from tests.gateway.langgraph_api.conftest import sdk
from tests.gateway.world import GatewayWorld, joined, kinds, owner_of, problem_of, text_of, until
from threadkeep.ids import short_digest
from threadkeep.testing import Held, ScriptedModel


@tool
def weather(place: str) -> str:
    """Tell the weather."""
    return f"It rains in {place}."


@tool
def confirm(place: str) -> str:
    """Ask the user about a place."""
    return str(interrupt(place))


CALL = AIMessage("", tool_calls=[{"name": "weather", "args": {"place": "Rome"}, "id": "1"}])


def with_tool(tk: threadkeep.Threadkeep) -> Any:
    return tk.per_run_owner().graph(tools=[weather])


async def first_comments(response: httpx.Response, count: int) -> AsyncIterator[str]:
    async for line in response.aiter_lines():
        if line.startswith(":"):
            yield line
            count -= 1
        if not count:
            return


class TestEvents:
    async def test_a_turn_is_streamed_acknowledged_and_learnt_from(self, open_gateway: Open, storage_url: str):
        """On SQLite and on PostgreSQL; the second turn recalls what the first one taught."""
        gateway = open_gateway(ScriptedModel(replies=("Rome is nice.", "In Rome.")), url=storage_url)
        async with gateway.client() as client:
            first = await gateway.turn(client, "I live in Rome.")
            second = await gateway.turn(client, "Where do I live?")

        assert kinds(first) == ["run", "memory_recalled", *["token"] * 3, "done", "memory_written", "memory_written"]
        run = first[0].data
        assert [event.event_id for event in first] == [f"{run['run_id']}:{n}" for n in range(1, 9)]
        assert text_of(first) == "Rome is nice."
        done = first[5].data
        assert (done["status"], done["recorded"], len(done["message_ids"])) == ("done", True, 2)
        assert {event.data["text"] for event in first[6:]} >= {"I live in Rome."}
        (recalled,) = [event.data for event in second if event.kind == "memory_recalled"]
        memory = recalled["memories"][0]
        assert "Rome" in memory["text"]
        assert set(memory) == {
            *("memory_id", "text", "score", "kind", "said_at", "thread_id", "message_id", "why"),
        }
        assert memory["thread_id"] == run["thread_id"]
        assert memory["message_id"] == done["message_ids"][0]
        assert memory["why"] == {"said_by": "user", "approved_by": None, "earlier": False, "may_hold": False}
        assert recalled["tokens"] > 0

    async def test_a_graph_of_the_application_tells_the_texts_of_memories(self, open_gateway: Open):
        """Also with the defaults of the view's middleware."""

        def graph(tk: threadkeep.Threadkeep) -> Any:
            view = tk.per_run_owner()
            return create_agent(model, [], middleware=[view.middleware()], checkpointer=view.checkpointer)

        model = ScriptedModel()
        gateway = open_gateway(model, graph=graph)
        async with gateway.client() as client:
            await gateway.turn(client, "I live in Rome.")
            events = await gateway.turn(client, "Where do I live?")

        (recalled,) = [event.data for event in events if event.kind == "memory_recalled"]
        assert "I live in Rome." in [memory["text"] for memory in recalled["memories"]]

    async def test_tools_are_listed(self, open_gateway: Open):
        gateway = open_gateway(ScriptedModel(replies=(CALL, "Take an umbrella.")), graph=with_tool)
        async with gateway.client() as client:
            events = await gateway.turn(client, "Weather?")

        told = {event.kind: event.data for event in events}
        assert told["tool_call"] == {"id": "1", "name": "weather", "args": {"place": "Rome"}}
        assert told["tool_result"] == {"id": "1", "name": "weather", "status": "success", "text": "It rains in Rome."}
        assert text_of(events) == "Take an umbrella."
        assert len(told["done"]["message_ids"]) == 4

    async def test_a_token_is_sent_when_the_model_says_it(self, open_gateway: Open):
        """The first events are there while the model has not answered."""
        release = asyncio.Event()
        gateway = open_gateway(ScriptedModel(replies=(Held(release, "Now."),)))
        async with gateway.client() as client, gateway.stream(client, {"message": "Hello"}) as events:
            first = [await anext(events), await anext(events)]
            gateway.call(release.set)
            rest = [event async for event in events]

        assert kinds(first) == ["run", "memory_recalled"]
        assert kinds(rest)[:2] == ["token", "done"]

    async def test_a_silent_stream_has_heartbeats(self, open_gateway: Open, monkeypatch: pytest.MonkeyPatch):
        """Comments, which clients of server-sent events ignore."""
        monkeypatch.setattr("threadkeep.gateway.runs.HEARTBEAT_SECONDS", 0.05)
        release = asyncio.Event()
        gateway = open_gateway(ScriptedModel(replies=(Held(release, "Now."),)))
        async with (
            gateway.client() as client,
            client.stream("POST", "/chat/stream", json={"message": "Hello"}) as response,
        ):
            comments = [line async for line in first_comments(response, 3)]
            gateway.call(release.set)

        assert comments == [": heartbeat"] * 3

    async def test_a_model_that_fails_is_an_error(self, open_gateway: Open):
        """The client reads no detail of it, and the thread goes on."""
        gateway = open_gateway(ScriptedModel(replies=(RuntimeError("key sk-123"), "Again.")))
        async with gateway.client() as client:
            events = await gateway.turn(client, "Hello", thread_id="t")
            listed = (await client.get("/threads")).json()["threads"]
            again = await gateway.turn(client, "Hello?", thread_id="t")

        assert kinds(events)[-1] == "error"
        assert events[-1].data["code"] == "internal_error"
        assert "sk-123" not in str(events)
        assert [(one["title"], one["status"]) for one in listed] == [("Hello", "error")]
        assert text_of(again) == "Again."

    async def test_a_turn_without_memory(self, gateway: GatewayWorld):
        async with gateway.client() as client:
            events = await gateway.turn(client, "I live in Rome.", memory="off", thread_id="t")
            listed = (await client.get("/threads")).json()["threads"]

        assert kinds(events) == ["run", "token", "done"]
        assert events[-1].data["recorded"] is False
        assert await gateway.tk.memories.list(owner=owner_of("ana")) == []
        assert [one["title"] for one in listed] == ["I live in Rome."]

    async def test_two_users_with_one_thread_id(self, gateway: GatewayWorld):
        async with gateway.client("ana") as ana, gateway.client("bob") as bob:
            await gateway.turn(ana, "I am Ana.", thread_id="t")
            await gateway.turn(bob, "I am Bob.", thread_id="t")
            said = [(await one.get("/threads/t/messages")).json()["messages"][0]["text"] for one in (ana, bob)]

        assert said == ["I am Ana.", "I am Bob."]
        assert "Ana" not in str(gateway.model.prompts[-1])

    async def test_a_repeated_request_joins_its_run(self, gateway: GatewayWorld):
        async with gateway.client() as client:
            client.headers["Idempotency-Key"] = "k1"
            first = await gateway.turn(client, "Hello")
            second = await gateway.turn(client, "Hello")
            async with gateway.client("bob") as bob:
                bob.headers["Idempotency-Key"] = "k1"
                others = await gateway.turn(bob, "Hello")

        assert first == second
        assert others[0].data["run_id"] != first[0].data["run_id"]
        assert len(gateway.model.prompts) == 2

    async def test_a_request_that_a_restart_stopped_is_run_when_it_is_repeated(self, open_gateway: Open):
        """The client was told to send it again; it does so with the same key, and the thread has it once."""
        gateway = open_gateway(ScriptedModel(replies=(Held(asyncio.Event(), "Never."), "Hello.")))
        async with gateway.client() as client:
            client.headers["Idempotency-Key"] = "k1"
            async with gateway.stream(client, {"message": "Hello", "thread_id": "t"}) as events:
                await anext(events)
                await until(lambda: gateway.model.prompts)
                gateway.call(lambda: gateway.runs.drain_soon(0))
                stopped = [event async for event in events]
            await gateway.runs.start()
            before = (await client.get("/threads/t/messages")).json()["messages"]
            repeated = await gateway.turn(client, "Hello", thread_id="t")
            after = (await client.get("/threads/t/messages")).json()["messages"]

        assert stopped[-1].data["code"] == "restarting"
        assert text_of(repeated) == "Hello."
        assert [one["text"] for one in before] == ["Hello"]
        assert [one["text"] for one in after] == ["Hello", "Hello."]
        done = next(one.data for one in repeated if one.kind == "done")
        assert done["message_ids"] == [one["message_id"] for one in after]

    async def test_a_key_that_was_forgotten_begins_a_turn_of_its_own(self, open_gateway: Open):
        """After a day, another request with the key of an answered one is another message of the thread."""
        one, other = open_gateway(), open_gateway()
        namespace = ("users", owner_of("ana").label, "gateway", "idempotency")
        async with one.client() as client, other.client() as later:
            for sending in (client, later):
                sending.headers["Idempotency-Key"] = "daily"
            await one.turn(client, "The news?", thread_id="t")
            await one.tk.store.adelete(namespace, short_digest("daily"))
            await other.turn(later, "The news?", thread_id="t")
            messages = (await later.get("/threads/t/messages")).json()["messages"]

        assert [message["text"] for message in messages if message["role"] == "user"] == ["The news?"] * 2

    async def test_a_repeated_request_reaches_another_process(self, open_gateway: Open, storage_url: str):
        """The turn runs once; the other process answers with the thread, also to requests at the same time."""
        model = ScriptedModel(replies=("Noted.",))
        one, other = open_gateway(model, url=storage_url), open_gateway(model, url=storage_url)
        async with one.client() as client, other.client() as elsewhere:
            for sending in (client, elsewhere):
                sending.headers["Idempotency-Key"] = "k1"
            first = await one.turn(client, "Hello")
            again = await other.turn(elsewhere, "Hello")
            changed = await elsewhere.post("/chat/stream", json={"message": "Goodbye"})
            created = [await sending.post("/threads", json={"title": "Trip"}) for sending in (client, elsewhere)]
            for sending in (client, elsewhere):
                sending.headers["Idempotency-Key"] = "k2"
            created += [await sending.post("/threads", json={"title": "Trip"}) for sending in (client, elsewhere)]
            for sending in (client, elsewhere):
                sending.headers["Idempotency-Key"] = "k3"
            turns = [one.turn(client, "At once"), other.turn(elsewhere, "At once")] * 3
            together = await asyncio.gather(*turns)

        run_id = first[0].data["run_id"]
        assert kinds(again) == ["reset"]
        assert (again[0].data["run_id"], again[0].data["thread_id"]) == (run_id, first[0].data["thread_id"])
        assert [message["text"] for message in again[0].data["messages"]] == ["Hello", "Noted."]
        assert (changed.status_code, changed.json()["code"]) == (422, "idempotency_key_reused")
        assert [answer.status_code for answer in created] == [422, 422, 201, 201]
        assert created[2].json() == created[3].json()
        assert len({events[0].data["run_id"] for events in together}) == 1
        assert len(model.prompts) == 2


class TestInterrupts:
    async def test_a_question_is_answered_in_a_run_of_its_own(self, open_gateway: Open):
        def asking(tk: threadkeep.Threadkeep) -> Any:
            view = tk.per_run_owner()
            approval = HumanInTheLoopMiddleware(interrupt_on={"weather": True})
            return create_agent(
                gateway_model, [weather], middleware=[view.middleware(), approval], checkpointer=view.checkpointer
            )

        gateway_model = ScriptedModel(replies=(CALL, "It rains."))
        gateway = open_gateway(gateway_model, graph=asking)
        async with gateway.client() as client, gateway.client("bob") as bob:
            asked = await gateway.turn(client, "Weather?", thread_id="t")
            run_id = asked[0].data["run_id"]
            state = (await client.get("/threads/t/state")).json()
            answer = {"answer": {"decisions": [{"type": "approve"}]}}
            other = await bob.post(f"/runs/{run_id}/resume", json=answer)
            async with gateway.stream(client, answer, f"/runs/{run_id}/resume") as events:
                resumed = [event async for event in events]
            again = await client.post(f"/runs/{run_id}/resume", json=answer)

        assert kinds(asked)[-2:] == ["interrupt", "done"]
        assert asked[-1].data["status"] == "interrupted"
        assert state["interrupts"] == asked[-2].data["interrupts"]
        assert other.status_code == 404
        assert text_of(resumed) == "It rains."
        assert resumed[0].data["run_id"] != run_id
        assert again.status_code == 409

    async def test_a_message_in_place_of_an_answer_gives_the_open_call_a_result(self, open_gateway: Open):
        """Models refuse messages with a call that has no result, so the thread would fail from then on."""
        call = AIMessage("", tool_calls=[{"name": "confirm", "args": {"place": "Rome"}, "id": "1"}])
        model = ScriptedModel(replies=(call, "Fine."))
        gateway = open_gateway(model, graph=lambda tk: tk.per_run_owner().graph(model=model, tools=[confirm]))
        async with gateway.client() as client:
            asked = await gateway.turn(client, "Where to?", memory="off", thread_id="t")
            after = await gateway.turn(client, "Never mind.", memory="off", thread_id="t")

        assert kinds(asked)[-2:] == ["interrupt", "done"]
        assert text_of(after) == "Fine."
        called, result, newest = model.prompts[-1][-3:]
        assert (called.type, result.type, newest.text) == ("ai", "tool", "Never mind.")

    @pytest.mark.parametrize("interface", ["api", "langgraph"])
    async def test_a_turn_without_memory_goes_on_without_it(self, open_gateway: Open, tmp_path: Path, interface: str):
        """Also in another process, and by the run id that the thread's state names."""
        url, models = f"sqlite:///{tmp_path / 'shared.db'}", (ScriptedModel(replies=(CALL,)), ScriptedModel())

        def asking(model: ScriptedModel) -> Callable[[threadkeep.Threadkeep], Any]:
            approval = HumanInTheLoopMiddleware(interrupt_on={"weather": True})

            def graph(tk: threadkeep.Threadkeep) -> Any:
                view = tk.per_run_owner()
                middleware: Any = [view.middleware(), approval]
                return create_agent(model, [weather], middleware=middleware, checkpointer=view.checkpointer)

            return graph

        one, other = (open_gateway(model, graph=asking(model), url=url) for model in models)
        decisions = {"decisions": [{"type": "approve"}]}
        async with one.client() as client, other.client() as elsewhere, sdk(other) as graph:
            await one.turn(client, "I live in Rome. Weather?", memory="off", thread_id="t")
            if interface == "api":
                run_id = (await elsewhere.get("/threads/t/state")).json()["run_id"]
                async with other.stream(elsewhere, {"answer": decisions}, f"/runs/{run_id}/resume") as events:
                    assert [event async for event in events][-1].data["status"] == "done"
            else:
                await graph.runs.wait("t", "agent", command={"resume": decisions})
            await other.tk.drain()
            mine = other.tk.for_owner(owner_of("ana"))
            assert await mine.memories.list() == []
            await other.turn(elsewhere, "I work at Acme.", thread_id="t")
            await other.tk.drain()
            assert [one.text for one in await mine.memories.list() if one.kind == "semantic"] == ["I work at Acme."]


class TestJoins:
    async def test_a_client_reads_on_where_it_was(self, gateway: GatewayWorld):
        async with gateway.client() as client:
            events = await gateway.turn(client, "I live in Rome.")
            run_id = events[0].data["run_id"]
            again = [await joined(client, run_id, last) for last in (None, events[2].event_id, events[-1].event_id)]
            foreign = await joined(client, run_id, "another:3")

        assert again == [events, events[3:], []]
        assert foreign == events

    async def test_several_clients_read_one_run(self, open_gateway: Open):
        release = asyncio.Event()
        gateway = open_gateway(ScriptedModel(replies=(Held(release, "Now it is told."),)))
        async with gateway.client() as client, gateway.stream(client, {"message": "Hello"}) as events:
            first = [await anext(events)]
            joining = [asyncio.create_task(joined(client, first[0].data["run_id"])) for _ in range(5)]
            gateway.call(release.set)
            first += [event async for event in events]
            others = await asyncio.gather(*joining)

        assert others == [first] * 5

    async def test_a_run_of_another_process_is_answered_from_the_thread(self, open_gateway: Open, tmp_path: Any):
        url = f"sqlite:///{tmp_path / 'shared.db'}"
        one, other = open_gateway(url=url), open_gateway(url=url)
        async with one.client() as client, other.client() as elsewhere, other.client("bob") as bob:
            run_id = (await one.turn(client, "Hello", thread_id="t"))[0].data["run_id"]
            events = await joined(elsewhere, run_id, f"{run_id}:2")
            seen = (await elsewhere.get(f"/runs/{run_id}")).json()
            stopped = (await elsewhere.post(f"/runs/{run_id}/cancel")).json()
            hidden = [await bob.get(f"/runs/{run_id}/stream"), await bob.get("/runs/none.bm9uZQ/stream")]

        assert kinds(events) == ["reset"]
        assert [one["text"] for one in events[0].data["messages"]] == ["Hello", "Noted."]
        assert (seen["thread_id"], seen["status"]) == ("t", "unknown")
        assert stopped["status"] == "unknown"  # it had ended
        assert [one.status_code for one in hidden] == [404, 404]
        assert problem_of(hidden[0]) == problem_of(hidden[1])

    async def test_a_client_that_lags_behind_gets_the_thread(self, open_gateway: Open):
        """Of a long run, the newest 256 kB are kept."""
        words = ["x" * 1_000] * 600
        gateway = open_gateway(ScriptedModel(replies=(words,)))
        async with gateway.client() as client:
            run_id = (await gateway.turn(client, "Go on", thread_id="t"))[0].data["run_id"]
            events = await joined(client, run_id)
            newest = await joined(client, run_id, f"{run_id}:601")

        assert kinds(events) == ["reset"]
        assert events[0].data["messages"][-1]["text"] == "".join(words)
        assert "done" in kinds(newest)
        assert "reset" not in kinds(newest)

    async def test_what_was_learnt_is_in_the_run(self, gateway: GatewayWorld):
        async with gateway.client() as client, gateway.client("bob") as bob:
            events = await gateway.turn(client, "I live in Rome.")
            run_id = events[0].data["run_id"]
            run = (await client.get(f"/runs/{run_id}")).json()
            other = await bob.get(f"/runs/{run_id}")

        assert run["status"] == "done"
        assert run["memories"] == [event.data for event in events if event.kind == "memory_written"]
        assert other.status_code == 404


class TestRefusals:
    @pytest.mark.parametrize(
        "body",
        [
            b'{"message": ""}',
            b'{"message": "a\\u0000b"}',
            b'{"message": "\\ud800"}',
            b'{"message": 5}',
            b'{"message": "a", "thread_id": 5}',
            b'{"message": "a", "thread_id": ""}',
            b'{"message": "a", "thread_id": "\\udfff"}',
            b'{"message": "a", "memory": "maybe"}',
            b'{"message": "a", "user_id": "bob"}',
            b'{"message": "\xff"}',
            b"[]",
            b"nonsense",
            b'{"message": "' + b"a" * 70_000 + b'"}',
        ],
    )
    async def test_what_is_invalid_begins_no_run(self, gateway: GatewayWorld, body: bytes):
        async with gateway.client() as client:
            response = await client.post("/chat/stream", content=body, headers={"Content-Type": "application/json"})

        assert response.status_code in (400, 413, 422)
        assert response.headers["content-type"] == "application/problem+json"
        assert gateway.model.prompts == []

    async def test_a_request_without_a_user_is_refused(self, gateway: GatewayWorld):
        async with gateway.client(None) as client:
            answers = [
                await client.post("/chat/stream", json={"message": "a"}),
                await client.get("/threads"),
                await client.get("/runs/x.eA"),
            ]

        assert {one.status_code for one in answers} == {401}
        assert all(one.headers["www-authenticate"] for one in answers)
