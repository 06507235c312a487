"""Turns as tasks, with the client of the SDK in both versions of the protocol."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from a2a.client.errors import A2AClientError
from a2a.helpers.proto_helpers import new_data_part
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware

import threadkeep
from tests.a2a.conftest import VERSIONS, connected, message, sent, text_of
from tests.gateway.conftest import Open
from tests.gateway.test_streams import CALL, weather
from tests.gateway.world import owner_of
from threadkeep.gateway.event_buffer import EventBuffer
from threadkeep.testing import Held, ScriptedModel

WORKING = TaskState.TASK_STATE_WORKING
COMPLETED = TaskState.TASK_STATE_COMPLETED
CANCELED = TaskState.TASK_STATE_CANCELED
INPUT_REQUIRED = TaskState.TASK_STATE_INPUT_REQUIRED
FAILED = TaskState.TASK_STATE_FAILED
REFUSED = (A2AError, A2AClientError)
UNKNOWN = "00000000-0000-4000-8000-000000000000"

both = pytest.mark.parametrize("version", VERSIONS)


def asking(model: ScriptedModel) -> Any:
    """Return what makes an agent that asks before it uses its tool."""

    def graph(tk: threadkeep.Threadkeep) -> Any:
        view = tk.per_run_owner()
        approval = HumanInTheLoopMiddleware(interrupt_on={"weather": True})
        return create_agent(model, [weather], middleware=[view.middleware(), approval], checkpointer=view.checkpointer)

    return graph


class TestTurns:
    @both
    async def test_stream_and_wait(self, open_gateway: Open, version: str):
        """A text is a turn; its text is an artifact, and the state follows the run."""
        gateway = open_gateway(ScriptedModel(replies=("Rome is nice.",)), interfaces=("a2a",))
        async with connected(gateway, version=version) as client:
            events = await sent(client, message("I live in Rome.", context_id="monday"))
        async with connected(gateway, version=version, streaming=False) as client:
            (answer,) = await sent(client, message("Where?"))

        assert events[0].task.status.state == TaskState.TASK_STATE_SUBMITTED
        states = [one.status_update.status.state for one in events if one.HasField("status_update")]
        assert (states, text_of(events)) == ([WORKING, COMPLETED], "Rome is nice.")
        assert {one.task.context_id or one.status_update.context_id for one in (events[0], events[-1])} == {"monday"}
        assert answer.task.status.state == COMPLETED
        assert answer.task.context_id not in ("", "monday")
        assert [part.text for one in answer.task.artifacts for part in one.parts] == ["Rome is nice."]
        owned = gateway.tk.for_owner(owner_of("ana")).threads
        assert {one.thread_id for one in await owned.list()} == {"monday", answer.task.context_id}

    @both
    async def test_context_is_the_thread(self, open_gateway: Open, version: str):
        """Several turns in a context are one conversation of the owner, and another user's is another one."""
        model = ScriptedModel(replies=("One.", "Two.", "Three."))
        gateway = open_gateway(model, interfaces=("a2a",))
        context_id = "a/b %_ ' · é " + "x" * 900
        async with connected(gateway, version=version) as ana, connected(gateway, "bo", version=version) as bo:
            await sent(ana, message("My first words.", context_id=context_id))
            await sent(ana, message("My second words.", context_id=context_id))
            await sent(bo, message("Other words.", context_id=context_id))

        prompts = ["\n".join(str(one.content) for one in prompt) for prompt in model.prompts]
        assert "My first words." in prompts[1]
        assert "My" not in prompts[2]
        owned = gateway.tk.for_owner(owner_of("ana")).threads
        assert [one.text for one in await owned.messages(context_id)] == [
            "My first words.",
            "One.",
            "My second words.",
            "Two.",
        ]

    async def test_what_an_agent_says_is_proposed(self, open_gateway: Open):
        """It has the trust `agent`, and is no memory before the user approves it."""
        gateway = open_gateway(ScriptedModel(replies=("Fine.",)), interfaces=("a2a",))
        async with connected(gateway) as client:
            await sent(client, message("I live in Lisbon. Please remember that I own a boat."))
        await gateway.tk.drain()

        mine = gateway.tk.for_owner(owner_of("ana"))
        assert await mine.memories.list() == []
        proposals = await mine.proposals.list()
        assert {one.text for one in proposals} == {"I live in Lisbon.", "I own a boat."}
        assert {one.trust for one in proposals} == {"agent"}

    @both
    async def test_interrupt(self, open_gateway: Open, version: str):
        """A question of the agent makes the task require input; an answer is taken once."""
        model = ScriptedModel(replies=(CALL, "It rains."))
        gateway = open_gateway(model, graph=asking(model), interfaces=("a2a",))
        decisions = new_data_part({"decisions": [{"type": "approve"}]})
        async with connected(gateway, version=version) as client:
            events = await sent(client, message("Weather?", context_id="t"))
            task_id = events[0].task.id
            asked = events[-1].status_update.status
            resumed = await sent(client, message(decisions, task_id=task_id, context_id="t"))
            with pytest.raises(REFUSED):
                await sent(client, message(decisions, task_id=task_id, context_id="t"))

        assert asked.state == INPUT_REQUIRED
        question = MessageToDict(asked.message.parts[0].data)["interrupts"][0]["value"]
        assert question["action_requests"][0]["name"] == "weather"
        assert (resumed[-1].status_update.status.state, text_of(resumed)) == (COMPLETED, "It rains.")
        assert len(model.prompts) == 2

    async def test_an_answered_task_is_cancelled(self, open_gateway: Open):
        """The run that the answer has begun is stopped, and not the one that has asked."""
        release = asyncio.Event()
        model = ScriptedModel(replies=(CALL, Held(release, "Never.")))
        gateway = open_gateway(model, graph=asking(model), interfaces=("a2a",))
        decisions = new_data_part({"decisions": [{"type": "approve"}]})
        async with connected(gateway) as client:
            events = await sent(client, message("Weather?", context_id="t"))
            task_id = events[0].task.id
            stream = client.send_message(message(decisions, task_id=task_id, context_id="t"))
            await anext(stream)
            while len(model.prompts) < 2:
                await asyncio.sleep(0.02)
            cancelled = await client.cancel_task(CancelTaskRequest(id=task_id))
            running = gateway.call(lambda: gateway.runs.running(owner_of("ana")))
            gateway.call(release.set)
            await _all(stream)
        messages = await gateway.tk.for_owner(owner_of("ana")).threads.messages("t")

        assert (cancelled.status.state, running) == (CANCELED, 0)
        assert "Never." not in [one.text for one in messages]

    async def test_a_reply_that_outruns_its_events(self, open_gateway: Open, monkeypatch: pytest.MonkeyPatch):
        """Events were dropped before they were read: the task goes on, and its text is that of the thread."""
        monkeypatch.setattr(EventBuffer.__init__, "__defaults__", (400,))
        reply = "word " * 400
        gateway = open_gateway(ScriptedModel(replies=(reply,)), interfaces=("a2a",))
        async with connected(gateway, streaming=False) as client:
            (answer,) = await sent(client, message("Count.", context_id="t"))

        assert answer.task.status.state == COMPLETED
        assert "".join(part.text for one in answer.task.artifacts for part in one.parts).strip() == reply.strip()

    @both
    async def test_get_and_list(self, open_gateway: Open, version: str):
        gateway = open_gateway(ScriptedModel(replies=("Yes.",)), interfaces=("a2a",))
        async with connected(gateway, version=version) as ana, connected(gateway, "bo", version=version) as bo:
            made = [(await sent(ana, message(str(number))))[0].task.id for number in range(3)]
            task = await ana.get_task(GetTaskRequest(id=made[0]))
            refusals: list[str] = []
            for task_id in (made[0], UNKNOWN):
                for call in (
                    bo.get_task(GetTaskRequest(id=task_id)),
                    bo.cancel_task(CancelTaskRequest(id=task_id)),
                    sent(bo, message("Go on.", task_id=task_id)),
                ):
                    with pytest.raises(REFUSED) as refused:
                        await call
                    refusals.append(str(refused.value).replace(task_id, ""))
            if version == "1.0":  # 0.3 has no such method
                listed = await ana.list_tasks(ListTasksRequest(page_size=2))
                rest = await ana.list_tasks(ListTasksRequest(page_token=listed.next_page_token))
                assert [one.id for one in (*listed.tasks, *rest.tasks)] == made[::-1]
                assert (await bo.list_tasks(ListTasksRequest())).total_size == 0

        assert (task.status.state, [part.text for one in task.artifacts for part in one.parts]) == (COMPLETED, ["Yes."])
        assert refusals[:3] == refusals[3:]

    @both
    async def test_cancel_and_subscribe(self, open_gateway: Open, version: str):
        """A second client joins a task; cancelling it stops the run, and both streams end."""
        model = ScriptedModel(replies=(Held(asyncio.Event(), "Never."),))
        gateway = open_gateway(model, interfaces=("a2a",))
        async with connected(gateway, version=version) as client, connected(gateway, version=version) as other:
            stream = client.send_message(message("Count.", context_id="t"))
            task_id = (await anext(stream)).task.id
            subscribed = other.subscribe(SubscribeToTaskRequest(id=task_id))
            joined = [await anext(subscribed)]
            cancelled = await other.cancel_task(CancelTaskRequest(id=task_id))
            events = await _all(stream)
            joined += await _all(subscribed)
            with pytest.raises(REFUSED):
                await other.cancel_task(CancelTaskRequest(id=task_id))

        assert cancelled.status.state == CANCELED
        assert events[-1].status_update.status.state == CANCELED
        assert joined[0].task.id == task_id
        assert joined[-1].status_update.status.state == CANCELED
        assert gateway.call(lambda: gateway.runs.running(owner_of("ana"))) == 0

    async def test_a_task_of_another_process(self, open_gateway: Open, tmp_path: Path):
        """Another process shows its state, cancels its run, and ends a subscription when the task ends."""
        url, release = f"sqlite:///{tmp_path / 'shared.db'}", asyncio.Event()
        model = ScriptedModel(replies=(Held(release, "Never."),))
        one = open_gateway(model, url=url, interfaces=("a2a",))
        two = open_gateway(url=url, interfaces=("a2a",))
        async with connected(one) as client, connected(two) as other, connected(two, "bo") as bo:
            stream = client.send_message(message("Count.", context_id="t"))
            task_id = (await anext(stream)).task.id
            working = await anext(stream)
            shown = await other.get_task(GetTaskRequest(id=task_id))
            with pytest.raises(REFUSED):
                await bo.cancel_task(CancelTaskRequest(id=task_id))
            subscribed = other.subscribe(SubscribeToTaskRequest(id=task_id))
            joined = [await anext(subscribed)]
            while not model.prompts:
                await asyncio.sleep(0.02)
            cancelled = await other.cancel_task(CancelTaskRequest(id=task_id))
            joined += await _all(subscribed)
            one.call(release.set)
            rest = await _all(stream)
            later = await other.get_task(GetTaskRequest(id=task_id))
        messages = await two.tk.for_owner(owner_of("ana")).threads.messages("t")

        assert (working.status_update.status.state, shown.status.state) == (WORKING, WORKING)
        assert (cancelled.status.state, joined[0].task.id) == (CANCELED, task_id)
        assert joined[-1].status_update.status.state == CANCELED
        assert "Never." not in [one.text for one in messages]
        assert later.status.state in (CANCELED, FAILED)
        assert rest[-1].status_update.status.state in (CANCELED, FAILED)
        assert one.call(lambda: one.runs.running(owner_of("ana"))) == 0

    async def test_model_fails(self, open_gateway: Open):
        """The task fails with our code, and without what the model's package says."""
        gateway = open_gateway(ScriptedModel(replies=(RuntimeError("secret key"),)), interfaces=("a2a",))
        async with connected(gateway) as client:
            status = (await sent(client, message("Hello.")))[-1].status_update.status
        assert status.state == FAILED
        assert MessageToDict(status.message.parts[0].data)["code"] == "internal_error"
        assert "secret" not in str(status)

    async def test_a_client_that_leaves(self, open_gateway: Open):
        """Its run goes on, and the task can be fetched."""
        gateway = open_gateway(ScriptedModel(replies=("One two three.",)), interfaces=("a2a",))
        async with connected(gateway) as client:
            stream: Any = client.send_message(message("Count."))
            task_id = (await anext(stream)).task.id
            await stream.aclose()
        async with connected(gateway) as client:
            task = await client.get_task(GetTaskRequest(id=task_id))
            while task.status.state != COMPLETED:
                await asyncio.sleep(0.02)
                task = await client.get_task(GetTaskRequest(id=task_id))
        assert [part.text for one in task.artifacts for part in one.parts]


async def _all(stream: Any) -> list[Any]:
    return [event async for event in stream]
