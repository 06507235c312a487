"""``/threads``: the list of a user's conversations, and what is in each."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.gateway.conftest import Open
from tests.gateway.langgraph_api.conftest import sdk
from tests.gateway.world import GatewayWorld, problem_of
from threadkeep.gateway.run_models import thread_of_run

MISSING = (
    "/threads/none",
    "/threads/none/messages",
    "/threads/none/state",
    "/threads/none/history",
    "/threads/none/turns",
)


class TestList:
    async def test_pages_hold_each_thread_once(self, open_gateway: Open, storage_url: str):
        gateway = open_gateway(url=storage_url)
        async with gateway.client() as client, gateway.client("bob") as bob:
            for number in range(5):
                await gateway.turn(
                    client, f"Talk number {number} about everything and nothing at all", thread_id=f"t{number}"
                )
            await gateway.turn(client, "Once more", thread_id="t1")
            pages: list[list[str]] = []
            cursor: str | None = None
            while True:
                params = {"limit": 2} if cursor is None else {"limit": 2, "cursor": cursor}
                page = (await client.get("/threads", params=params)).json()
                pages.append([one["thread_id"] for one in page["threads"]])
                cursor = page["cursor"]
                if cursor is None:
                    break
            other = (await bob.get("/threads")).json()
            first = (await client.get("/threads", params={"limit": 2})).json()["cursor"]
            forged = ("nonsense", "", first[:-1], f"x{first}", first.partition(".")[0], "é")
            wrong = [await client.get("/threads", params={"cursor": one}) for one in forged]
            stolen = await bob.get("/threads", params={"cursor": first})

        assert pages == [["t1", "t4"], ["t3", "t2"], ["t0"]]
        assert page["threads"][0]["title"] == "Talk number 0 about everything and nothing"
        assert other == {"threads": [], "cursor": None}
        assert {one.status_code for one in (*wrong, stolen)} == {422}

    async def test_a_thread_is_created_changed_and_deleted(self, gateway: GatewayWorld):
        async with gateway.client() as client, gateway.client("bob") as bob:
            made = await client.post("/threads", json={"title": "Plans"})
            thread_id = made.json()["thread_id"]
            again = await client.post("/threads", json={"thread_id": thread_id})
            same = await bob.post("/threads", json={"thread_id": thread_id})
            changed = await client.patch(f"/threads/{thread_id}", json={"title": "Holiday", "pinned": True})
            hidden = await bob.patch(f"/threads/{thread_id}", json={"title": "Mine"})
            read = [(await one.get(f"/threads/{thread_id}")).json() for one in (client, bob)]
            deleted = await client.delete(f"/threads/{thread_id}")
            gone = await client.get(f"/threads/{thread_id}")

        assert (made.status_code, again.status_code, same.status_code) == (201, 409, 201)
        assert (changed.json()["title"], changed.json()["pinned"]) == ("Holiday", True)
        assert hidden.status_code == 200  # bob's own thread of this id
        assert [(one["title"], one["pinned"]) for one in read] == [("Holiday", True), ("Mine", False)]
        assert (deleted.status_code, deleted.content) == (204, b"")
        assert gone.status_code == 404

    async def test_a_running_thread_says_so(self, open_gateway: Open):
        import asyncio

        from threadkeep.testing import Held, ScriptedModel

        release = asyncio.Event()
        gateway = open_gateway(ScriptedModel(replies=(Held(release, "Now."),)))
        async with gateway.client() as client, gateway.stream(client, {"message": "Hi", "thread_id": "t"}) as events:
            begun = await anext(events)
            await anext(events)
            during = (await client.get("/threads/t")).json()["status"]
            run_id = (await client.get("/threads/t/state")).json()["run_id"]
            gateway.call(release.set)
            _ = [event async for event in events]
            after = (await client.get("/threads/t")).json()["status"]

        assert (during, after) == ("running", "idle")
        assert (run_id, thread_of_run(run_id)) == (begun.data["run_id"], "t")


class TestTurns:
    async def test_a_turn_keeps_what_was_recalled_and_learnt(self, open_gateway: Open, storage_url: str):
        """Also after the memory was changed or forgotten; of a forgotten one the id is left alone."""
        gateway = open_gateway(url=storage_url)
        async with gateway.client() as client, gateway.client("bob") as bob:
            first = await gateway.turn(client, "I live in Rome.", thread_id="t")
            second = await gateway.turn(client, "Where do I live?", thread_id="t")
            third = await gateway.turn(client, "I live in Oslo now.", thread_id="t")
            await gateway.turn(client, "Without a trace", thread_id="t", memory="off")
            *turns, without = (await client.get("/threads/t/turns")).json()["turns"]
            (fact,) = [one for one in turns[0]["learnt"] if one["kind"] == "semantic"]
            named = (await client.get("/memories", params={"memory_id": [fact["memory_id"], "none"]})).json()
            etag = (await client.get(f"/memories/{fact['memory_id']}")).headers["etag"]
            await client.delete(f"/memories/{fact['memory_id']}", headers={"If-Match": etag})
            later = (await client.get("/threads/t/turns")).json()["turns"]
            other = await bob.get("/threads/t/turns")

        messages = [
            [event.data["message_ids"][0] for event in turn if event.kind == "done"] for turn in (first, second, third)
        ]
        assert [[one["message_id"]] for one in turns] == messages
        assert [one["state"] for one in turns] == ["done"] * 3
        assert [one["memory"] for one in (*turns, without)] == [True, True, True, False]
        assert (without["recalled"], without["learnt"]) == (None, [])
        assert turns[0]["recalled"] == []
        (told,) = [event.data for event in second if event.kind == "memory_recalled"]
        assert [one["memory_id"] for one in turns[1]["recalled"]] == [one["memory_id"] for one in told["memories"]]
        assert fact["memory_id"] in [one["memory_id"] for one in turns[1]["recalled"]]
        assert (fact["change"], fact["before"]) == ("new", None)
        (changed,) = [one for one in turns[2]["learnt"] if one["memory_id"] == fact["memory_id"]]
        assert (changed["change"], changed["before"]) == ("changed", "I live in Rome.")
        (written,) = [
            event.data for event in third if event.kind == "memory_written" and event.data["change"] == "changed"
        ]
        assert written == changed
        assert [one["memory_id"] for one in named["memories"]] == [fact["memory_id"]]
        assert fact["memory_id"] not in [one["memory_id"] for turn in later for one in turn["learnt"]]
        assert fact["memory_id"] in [one["memory_id"] for one in later[1]["recalled"]]
        assert "Rome" not in str(later)
        assert other.status_code == 404

    async def test_memories_without_room_are_named(self, open_gateway: Open):
        gateway = open_gateway()
        long = " ".join(["and there is more to say of it"] * 40)
        async with gateway.client() as client:
            for number in range(12):
                await client.post("/memories", json={"text": f"My sister number {number} lives in Rome, {long}."})
            events = await gateway.turn(client, "Where does my sister live?", thread_id="t")
            (turn,) = (await client.get("/threads/t/turns")).json()["turns"]

        (told,) = [event.data for event in events if event.kind == "memory_recalled"]
        left = [one["memory_id"] for one in told["left_out"]]
        assert 0 < len(left) <= 10
        assert not {one["memory_id"] for one in told["memories"]} & {*left}
        assert [one["memory_id"] for one in turn["left_out"]] == left
        assert all("sister" in one["text"] for one in told["left_out"])


class TestContents:
    async def test_a_thread_is_forked_at_a_checkpoint(self, gateway: GatewayWorld):
        async with gateway.client() as client:
            await gateway.turn(client, "One", thread_id="t")
            first = (await client.get("/threads/t/state")).json()
            await gateway.turn(client, "Two", thread_id="t")
            history = (await client.get("/threads/t/history", params={"limit": 100})).json()["checkpoints"]
            older = (await client.get("/threads/t/history", params={"before": first["checkpoint_id"]})).json()
            forked = await client.post("/threads/t/fork", json={"checkpoint_id": first["checkpoint_id"]})
            fork = forked.json()["thread_id"]
            await gateway.turn(client, "Three", thread_id=fork)
            messages = [(await client.get(f"/threads/{one}/messages")).json()["messages"] for one in ("t", fork)]
            none = await client.post("/threads/t/fork", json={"checkpoint_id": "none"})

        assert [first["messages"], history[0]["messages"], history[-1]["messages"]] == [2, 4, 0]
        assert first["checkpoint_id"] in {one["checkpoint_id"] for one in history}
        assert first["checkpoint_id"] not in {one["checkpoint_id"] for one in older["checkpoints"]}
        assert forked.status_code == 201
        assert [[one["text"] for one in of] for of in messages] == [
            ["One", "Noted.", "Two", "Noted."],
            ["One", "Noted.", "Three", "Noted."],
        ]
        assert none.status_code == 422

    async def test_another_users_thread_is_a_thread_that_is_not_there(self, gateway: GatewayWorld):
        """Byte for byte the same answers."""
        async with gateway.client() as client, gateway.client("bob") as bob:
            await gateway.turn(client, "Secret", thread_id="some")
            for path in MISSING:
                theirs, none = await bob.get(path.replace("none", "some")), await bob.get(path)
                assert (theirs.status_code, none.status_code) == (404, 404)
                assert problem_of(theirs) == problem_of(none)
            for path, body in (("", {"title": "x"}), ("/fork", {})):
                method = "PATCH" if not path else "POST"
                answers: list[Any] = [
                    await bob.request(method, f"/threads/{one}{path}", json=body) for one in ("some", "none")
                ]
                assert [one.status_code for one in answers] == [404, 404]
                assert problem_of(answers[0]) == problem_of(answers[1])
            deleted = [await bob.delete(f"/threads/{one}") for one in ("some", "none")]
            assert [one.status_code for one in deleted] == [404, 404]
            assert len((await client.get("/threads/some/messages")).json()["messages"]) == 2

    @pytest.mark.parametrize("thread_id", ["trip/1", "a/state", "a%2Fb", "/", "x?y#z"])
    async def test_a_thread_with_a_slash_in_its_id(self, gateway: GatewayWorld, thread_id: str):
        """It is read, changed and deleted like any other, and another id with the same words is another thread."""
        path = f"/threads/{quote(thread_id, safe='')}"
        async with gateway.client() as client, sdk(gateway) as graph:
            await gateway.turn(client, "I live in Rome.", thread_id=thread_id)
            await gateway.turn(client, "Hello.", thread_id="trip")
            messages = (await client.get(f"{path}/messages")).json()["messages"]
            state = await graph.http.get(f"{path}/state")
            strange = await client.get(f"{gateway.origin}/lg{path}/state/a%2Fb")
            changed = await client.patch(path, json={"title": "Holiday"})
            deleted = await client.delete(path)
            left = (await client.get("/threads")).json()["threads"]

        assert [message["text"] for message in messages][:1] == ["I live in Rome."]
        assert len(state["values"]["messages"]) == len(messages)
        assert strange.status_code in (404, 422)
        assert (changed.json()["thread_id"], changed.json()["title"]) == (thread_id, "Holiday")
        assert deleted.status_code == 204
        assert [thread["thread_id"] for thread in left] == ["trip"]

    @pytest.mark.parametrize("thread_id", ["a b", "ü" * 300, "a.b@x", "%00", "..%2Fetc", "x" * 1001])
    async def test_ids_of_any_text_answer(self, gateway: GatewayWorld, thread_id: str):
        async with gateway.client() as client:
            assert (await client.get(f"/threads/{thread_id}")).status_code in (404, 422)


class TestBranches:
    async def test_a_turn_extends_an_earlier_checkpoint(self, gateway: GatewayWorld):
        """Both branches stay readable; their checkpoints have the same parent."""
        async with gateway.client() as client:
            await gateway.turn(client, "I live in Rome.", thread_id="t")
            base = (await client.get("/threads/t/state")).json()["checkpoint_id"]
            await gateway.turn(client, "first", thread_id="t")
            tip = (await client.get("/threads/t/state")).json()["checkpoint_id"]
            await gateway.turn(client, "second", thread_id="t", checkpoint_id=base)
            newest = (await client.get("/threads/t/messages")).json()["messages"]
            earlier = (await client.get("/threads/t/messages", params={"checkpoint_id": tip})).json()["messages"]
            history = (await client.get("/threads/t/history", params={"limit": 100})).json()["checkpoints"]

        assert [one["text"] for one in newest] == ["I live in Rome.", "Noted.", "second", "Noted."]
        assert [one["text"] for one in earlier] == ["I live in Rome.", "Noted.", "first", "Noted."]
        assert len([one for one in history if one["parent_checkpoint_id"] == base]) == 2

    async def test_an_unknown_checkpoint_is_refused(self, gateway: GatewayWorld):
        """Without the thread, or with one that is not in it; nothing is written."""
        async with gateway.client() as client:
            await gateway.turn(client, "I live in Rome.", thread_id="t")
            body = {"message": "x", "checkpoint_id": "none"}
            alone = await client.post("/chat/stream", json=body)
            unknown = await client.post("/chat/stream", json={**body, "thread_id": "t"})
            read = await client.get("/threads/t/messages", params={"checkpoint_id": "none"})
            messages = (await client.get("/threads/t/messages")).json()["messages"]

        assert (alone.status_code, unknown.status_code, read.status_code) == (422, 422, 422)
        assert len(messages) == 2
