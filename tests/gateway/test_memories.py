"""``/memories``, ``/proposals``, ``/me`` and ``/collections`` over HTTP."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, Request

from tests.gateway.conftest import Open
from tests.gateway.oidc import OidcProvider
from tests.gateway.world import GatewayWorld, owner_of, until, until_claim_outlasted
from threadkeep.errors import MemoryNotFoundError, StorageFullError
from threadkeep.gateway import idempotency
from threadkeep.gateway.idempotency import IdempotentRoute
from threadkeep.memories.models import Source
from threadkeep.storage.interface import Batch, Position, Put
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing import Held, ScriptedModel


async def added(client: httpx.AsyncClient, text: str = "I live in Rome.") -> str:
    answer = await client.post("/memories", json={"text": text})
    assert answer.status_code == 201, answer.text
    return answer.json()["memory_id"]


async def proposed(gateway: GatewayWorld, text: str, user: str = "ana") -> str:
    result = await gateway.tk.proposals.propose(text, owner=owner_of(user), source=Source("tool"))
    assert result.proposal is not None
    return result.proposal.proposal_id


class TestMemories:
    async def test_a_body_without_its_content_type(self, gateway: GatewayWorld):
        """The answer names the header."""
        async with gateway.client("ana") as client:
            unnamed = await client.post("/memories", content=b'{"text": "I live in Rome."}')
            empty = await client.post("/memories", json={})

        assert unnamed.status_code == 422
        assert "Content-Type: application/json" in unnamed.json()["detail"]
        assert "Content-Type" not in empty.json()["detail"]

    async def test_kinds_of_the_application(
        self, open_gateway: Open, storage_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """They are listed, kept, filtered by and checked as in the library; an unknown one names those that exist."""
        file = tmp_path / "kinds.toml"
        file.write_text(
            '[incident]\ndescription = "An outage."\n[incident.schema]\ntype = "object"\nrequired = ["severity"]\n'
            '[incident.schema.properties.severity]\nenum = ["low", "high"]\n'
        )
        monkeypatch.setenv("THREADKEEP_KINDS", str(file))
        gateway = open_gateway(url=storage_url)
        outage = {"text": "The checkout was down.", "kind": "incident", "metadata": {"severity": "high"}}
        async with gateway.client() as client:
            await added(client)
            kept = await client.post("/memories", json=outage)
            kinds = (await client.get("/memories/kinds")).json()["kinds"]
            listed = (await client.get("/memories", params={"kind": "incident"})).json()["memories"]
            found = (await client.get("/memories/search", params={"q": "down", "kind": "incident"})).json()["found"]
            refused = [
                await client.post("/memories", json={**outage, "kind": "outage"}),
                await client.post("/memories", json={**outage, "metadata": {"severity": "huge"}}),
                await client.get("/memories", params={"kind": "outage"}),
                await client.get("/memories", params={"kind": "In valid"}),
            ]
        assert kept.status_code == 201
        assert [one["name"] for one in kinds] == ["semantic", "episodic", "procedural", "incident"]
        assert kinds[-1]["fields"]["properties"] == {"severity": {"enum": ["low", "high"]}}
        assert [one["kind"] for one in listed] == ["incident"]
        assert [one["memory"]["memory_id"] for one in found] == [kept.json()["memory_id"]]
        assert [one.status_code for one in refused] == [422] * 4
        assert "semantic, episodic, procedural, incident" in refused[0].text
        assert "severity: Input should be 'low' or 'high'" in refused[1].text

    async def test_tags_and_metadata(self, open_gateway: Open, storage_url: str):
        gateway = open_gateway(url=storage_url)
        labels = {"tags": ["work", "home"], "metadata": {"week": 3, "open": True, "project": "atlas", "none": None}}
        async with gateway.client() as client:
            kept = await client.post("/memories", json={"text": "I live in Rome.", **labels})
            memory_id = kept.json()["memory_id"]
            await added(client, "I live with a cat.")
            shown = (await client.get(f"/memories/{memory_id}")).json()
            listed = (await client.get("/memories", params={"tag": ["work", "home"]})).json()["memories"]
            found = (await client.get("/memories/search", params={"q": "live", "any_tag": "home"})).json()["found"]
            by_values = [
                (await client.get(path, params={"q": "live", "metadata": wanted})).json()
                for path in ("/memories", "/memories/search")
                for wanted in ('{"week": 3, "open": true}', '{"week": 4}')
            ]
            no_object = await client.get("/memories", params={"metadata": "week=3"})
            pinned = (await client.get("/memories/search", params={"q": "live", "pinned": "true"})).json()["found"]
            changed = await client.put(f"/memories/{memory_id}/labels", json={"tags": ["x"]})
            bad = [
                {"tags": ["a" * 65]},
                {"tags": [7]},
                {"metadata": {"a": [1]}},
                {"tags": [f"t{n}" for n in range(33)]},
            ]
            refused = [await client.post("/memories", json={"text": "I ski.", **one}) for one in bad]
            gone = await client.put("/memories/unknown/labels", json={"tags": ["x"]})

        assert {name: shown[name] for name in labels} == labels
        assert [one["memory_id"] for one in listed] == [memory_id]
        assert [one["memory"]["memory_id"] for one in found] == [memory_id]
        assert pinned == []
        assert [len(one.get("memories", one.get("found"))) for one in by_values] == [1, 0, 1, 0]
        assert (no_object.status_code, no_object.json()["code"]) == (422, "input_invalid")
        assert (changed.json()["tags"], changed.json()["metadata"]) == (["x"], labels["metadata"])
        assert [one.status_code for one in refused] == [422] * 4
        assert gone.status_code == 404

    async def test_add_list_search_correct_forget(self, open_gateway: Open, storage_url: str):
        gateway = open_gateway(url=storage_url)
        async with gateway.client() as client:
            memory_id = await added(client)
            shown = await client.get(f"/memories/{memory_id}")
            listed = (await client.get("/memories")).json()
            found = (await client.get("/memories/search", params={"q": "Rome"})).json()
            headers = {"If-Match": shown.headers["etag"]}
            changed = await client.patch(f"/memories/{memory_id}", json={"text": "I live in Oslo."}, headers=headers)
            history = (await client.get(f"/memories/{memory_id}/history")).json()
            why = (await client.get(f"/memories/{memory_id}/why")).json()
            headers = {"If-Match": changed.headers["etag"]}
            forgotten = await client.delete(f"/memories/{memory_id}", headers=headers)
            gone = await client.get(f"/memories/{memory_id}")

        assert shown.json()["text"] == "I live in Rome."
        assert shown.headers["etag"] == f'"{shown.json()["revision"]}"'
        assert ([one["memory_id"] for one in listed["memories"]], listed["cursor"]) == ([memory_id], None)
        assert found["found"][0]["memory"]["memory_id"] == memory_id
        assert (changed.status_code, changed.json()["text"]) == (200, "I live in Oslo.")
        assert [one["text"] for one in history["versions"]] == ["I live in Rome."]
        assert why["memory"]["text"] == "I live in Oslo."
        assert forgotten.json()["memory_ids"] == [memory_id]
        assert (gone.status_code, gone.json()["code"]) == (404, "memory_not_found")
        with pytest.raises(MemoryNotFoundError):
            await gateway.tk.memories.require(memory_id, owner=owner_of("ana"))

    async def test_a_dry_run_names_everything_that_forgetting_removes(self, gateway: GatewayWorld):
        """The same that is removed then; a dry run changes nothing."""
        async with gateway.client() as client:
            events = await gateway.turn(client, "I live in Rome.")
            (fact,) = [one.data for one in events if one.kind == "memory_written" and one.data["kind"] == "semantic"]
            path = f"/memories/{fact['memory_id']}"
            headers = {"If-Match": (await client.get(path)).headers["etag"]}
            told = (await client.delete(path, params={"dry": True}, headers=headers)).json()
            kept = await client.get(path)
            done = (await client.delete(path, headers=headers)).json()
            gone = await client.get(path)

        assert (kept.status_code, gone.status_code) == (200, 404)
        assert told == done
        assert len(told["memory_ids"]) == 2  # the episode of the turn holds it
        assert len(told["still_in"]) == 1

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [("PATCH", "", {"text": "Else."}), ("DELETE", "", None), ("POST", "/pin", {"pinned": True})],
    )
    async def test_a_change_needs_the_current_revision(
        self, gateway: GatewayWorld, method: str, path: str, body: dict[str, Any] | None
    ):
        async with gateway.client() as client:
            memory_id = await added(client)
            address = f"/memories/{memory_id}{path}"
            without = await client.request(method, address, json=body)
            any_revision = await client.request(method, address, json=body, headers={"If-Match": "*"})
            answers = [
                await client.request(method, address, json=body, headers={"If-Match": tag})
                for tag in ('"0"', '"999999"', 'W/"1"', "1", '"x"')
            ]
            unchanged = (await client.get(f"/memories/{memory_id}")).json()

        assert (without.status_code, without.json()["code"]) == (428, "precondition_required")
        assert (any_revision.status_code, any_revision.json()["code"]) == (428, "precondition_required")
        assert "names no revision" in any_revision.json()["detail"]
        assert {(one.status_code, one.json()["code"]) for one in answers} == {(412, "revision_conflict")}
        assert (unchanged["text"], unchanged["pinned"]) == ("I live in Rome.", False)

    async def test_of_many_changes_of_one_revision_one_is_made(self, gateway: GatewayWorld):
        async with gateway.client() as client:
            path = f"/memories/{await added(client)}"
            headers = {"If-Match": (await client.get(path)).headers["etag"]}
            pins = [client.post(f"{path}/pin", json={}, headers=headers) for _ in range(8)]
            deletions = [client.delete(path, headers=headers) for _ in range(2)]
            answers = await asyncio.gather(*pins, *deletions)

        assert [one.status_code for one in answers].count(200) == 1
        assert {one.status_code for one in answers} <= {200, 404, 412}  # 404: the deletion was the one

    async def test_pin_and_undo(self, gateway: GatewayWorld):
        async with gateway.client() as client:
            memory_id = await added(client)
            etag = (await client.get(f"/memories/{memory_id}")).headers["etag"]
            pinned = await client.post(f"/memories/{memory_id}/pin", json={}, headers={"If-Match": etag})
            undone = await client.post("/memories/undo", json={"last": 2})

        assert pinned.json() == {"memory_id": memory_id, "pinned": True, "revision": pinned.json()["revision"]}
        assert pinned.headers["etag"] == f'"{pinned.json()["revision"]}"'
        assert undone.json()["removed"] == [memory_id]

    async def test_an_export_keeps_what_only_looks_like_the_end_of_a_line(self, gateway: GatewayWorld):
        """Unicode has more line separators than JSON Lines, and a JSON string holds them as they are."""
        text = "I live\u2028in\x85Rome\u2029now."
        async with gateway.client() as ana, gateway.client("bo") as bo:
            await ana.post("/memories", json={"text": text, "metadata": {"from": "a\u2028b"}})
            exported = await ana.get("/memories/export")
            imported = (await bo.post("/memories/import", content=exported.content)).json()
            (memory,) = (await bo.get("/memories")).json()["memories"]

        assert (len(imported["accepted"]), imported["invalid"]) == (1, [])
        assert (memory["text"], memory["metadata"]) == (text, {"from": "a\u2028b"})

    async def test_a_memory_with_a_slash_in_its_id(self, gateway: GatewayWorld):
        """Another program's key, or an imported id: the user can correct and forget it."""
        async with gateway.client() as client:
            await client.post("/memories/import", content='{"text": "I live in Rome.", "memory_id": "places/home"}')
            read = await client.get("/memories/places%2Fhome")
            why = await client.get("/memories/places%2fhome/why")
            headers = {"If-Match": read.headers["etag"], "Idempotency-Key": "k"}
            changed = await client.patch("/memories/places%2Fhome", json={"text": "I live in Oslo."}, headers=headers)
            gone = await client.delete("/memories/places%2Fhome", headers={"If-Match": changed.headers["etag"]})
            unknown = [
                await client.get(path)
                for path in ("/memories/places/home", "/memories/a%2Fb", "/me%2Fprofile", "/runs/a%2Fb", "/nowhere%2F")
            ]

        assert (read.json()["memory_id"], why.status_code) == ("places/home", 200)
        assert (changed.status_code, gone.status_code) == (200, 200)
        assert [one.status_code for one in unknown] == [404] * 5

    async def test_export_and_import(self, gateway: GatewayWorld):
        async with gateway.client() as ana, gateway.client("bo") as bo:
            memory_id = await added(ana)
            lines = (await ana.get("/memories/export")).text
            imported = await bo.post("/memories/import", content=lines + '\n{"x": 1\n')
            again = await bo.post("/memories/import", content=lines)

        assert json.loads(lines)["text"] == "I live in Rome."
        assert (imported.json()["accepted"], len(imported.json()["invalid"])) == ([memory_id], 1)
        assert again.json()["duplicates"] == [memory_id]

    async def test_how_to_behave_waits_for_a_decision(self, gateway: GatewayWorld):
        async with gateway.client() as client:
            kept = (await client.post("/memories", json={"text": "Always answer in French."})).json()
            (waiting,) = (await client.get("/proposals")).json()["proposals"]
            decided = await client.post(f"/proposals/{kept['proposal_id']}/decide", json={"approve": True})
            direct = await client.post("/memories", json={"text": "Always be brief.", "approved": True})

        assert (kept["status"], kept["memory_id"]) == ("proposed", None)
        assert waiting["proposal_id"] == kept["proposal_id"]
        assert (decided.json()["state"], decided.json()["error"]) == ("approved", None)
        assert direct.json()["status"] == "accepted"


class TestCursors:
    async def test_pages(self, gateway: GatewayWorld):
        async with gateway.client() as client:
            ids = [await added(client, f"My number {n} is {n * 7919}.") for n in range(7)]
            seen: list[str] = []
            cursor: str | None = None
            for _ in range(4):
                parameters = {"limit": 2} if cursor is None else {"limit": 2, "cursor": cursor}
                page = (await client.get("/memories", params=parameters)).json()
                seen += [one["memory_id"] for one in page["memories"]]
                cursor = page["cursor"]

        assert sorted(seen) == sorted(ids)
        assert cursor is None

    async def test_pages_of_memories_that_are_forgotten_meanwhile(self, gateway: GatewayWorld):
        """Every memory comes once, also where those of each page go, and new ones come, before the next page."""
        async with gateway.client() as client:
            ids = [await added(client, f"My number {n} is {n * 7919}.") for n in range(7)]
            seen: list[str] = []
            cursor: str | None = None
            while cursor is not None or not seen:
                page = (
                    await client.get("/memories", params={"limit": 2, **({"cursor": cursor} if cursor else {})})
                ).json()
                for memory in page["memories"]:
                    seen.append(memory["memory_id"])
                    revision = {"If-Match": f'"{memory["revision"]}"'}
                    assert (await client.delete(f"/memories/{seen[-1]}", headers=revision)).status_code == 200
                await added(client, f"I have {len(seen) + 70} friends.")
                cursor = page["cursor"]

        assert seen == ids[::-1]

    async def test_pages_of_proposals_that_are_decided_meanwhile(self, gateway: GatewayWorld):
        async with gateway.client() as client:
            for n in range(5):
                await client.post("/memories", json={"text": f"Always answer in {n + 10} words."})
            seen: list[str] = []
            cursor: str | None = None
            while cursor is not None or not seen:
                parameters = {"limit": 2, **({"cursor": cursor} if cursor else {})}
                page = (await client.get("/proposals", params=parameters)).json()
                for proposal in page["proposals"]:
                    seen.append(proposal["text"])
                    await client.post(f"/proposals/{proposal['proposal_id']}/decide", json={"approve": False})
                cursor = page["cursor"]

        assert seen == [f"Always answer in {n + 10} words." for n in reversed(range(5))]

    async def test_a_cursor_names_no_user(self, gateway: GatewayWorld):
        async with gateway.client("zacharias") as client:
            for n in range(2):
                await added(client, f"My number {n} is {n * 7919}.")
            cursor = (await client.get("/memories", params={"limit": 1})).json()["cursor"]

        position = cursor.partition(".")[0]
        assert b"zacharias" not in base64.urlsafe_b64decode(position + "=" * (-len(position) % 4))

    async def test_a_cursor_is_for_one_owner_route_and_filter(self, gateway: GatewayWorld):
        async with gateway.client() as client, gateway.client("bo") as other:
            for number in range(2):
                await added(client, f"My number {number} is {number * 7919}.")
            cursor = (await client.get("/memories", params={"limit": 1})).json()["cursor"]
            refused = [
                await other.get("/memories", params={"cursor": cursor}),
                await client.get("/memories", params={"cursor": cursor, "kind": "semantic"}),
                await client.get("/proposals", params={"cursor": cursor}),
                await client.get("/memories", params={"cursor": "0" + cursor[1:]}),
                *[await client.get("/memories", params={"cursor": text}) for text in ("x", "1.", cursor + "A", "٣.a")],
            ]
            good = await client.get("/memories", params={"cursor": cursor})

        assert {(one.status_code, one.json()["code"]) for one in refused} == {(422, "input_invalid")}
        assert good.status_code == 200


class TestIdempotency:
    async def test_a_request_has_its_key_as_long_as_it_takes(self, open_gateway: Open, monkeypatch: pytest.MonkeyPatch):
        """A second one does not begin while the first one is answered, however long that takes."""
        monkeypatch.setattr(idempotency, "CLAIM_MINUTES", 0.03)
        monkeypatch.setattr(idempotency, "RENEW_SECONDS", 0.05)
        gateway, release, began = open_gateway(), asyncio.Event(), list[str]()
        router = APIRouter(prefix="/api", route_class=IdempotentRoute)

        @router.post("/slow")
        async def slow(request: Request) -> dict[str, int]:
            began.append(str(request.url))
            await release.wait()
            return {"number": len(began)}

        gateway.call(lambda: gateway.app.include_router(router))
        async with gateway.client() as client:
            client.headers["Idempotency-Key"] = "1"
            first = asyncio.create_task(client.post("/slow"))
            await until(lambda: began)
            await until_claim_outlasted(gateway, "1")
            second = asyncio.create_task(client.post("/slow"))
            other = await client.post("/slow", params={"a": 1})
            gateway.call(release.set)
            answers = [await first, await second]

        assert (len(began), [one.json() for one in answers]) == (1, [{"number": 1}] * 2)
        assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")

    async def test_the_answer_is_kept(self, open_gateway: Open, storage_url: str):
        gateway = open_gateway(url=storage_url)
        async with gateway.client() as client, gateway.client("bo") as other:
            post = {"json": {"text": "I live in Rome."}, "headers": {"Idempotency-Key": "1"}}
            answers = await asyncio.gather(*(client.post("/memories", **post) for _ in range(5)))
            changed = await client.post("/memories", json={"text": "Else."}, headers={"Idempotency-Key": "1"})
            theirs = await other.post("/memories", **post)
            count = len((await client.get("/memories")).json()["memories"])

        assert {(one.status_code, one.text) for one in answers} == {(201, answers[0].text)}
        assert [one.headers.get("idempotent-replay") for one in answers].count("true") == 4
        assert (changed.status_code, changed.json()["code"]) == (422, "idempotency_key_reused")
        assert theirs.json()["status"] == "accepted"
        assert theirs.json()["memory_id"] != answers[0].json()["memory_id"]
        assert count == 1

    async def test_repeated_requests_count(self, open_gateway: Open):
        """A client that repeats itself reads the storage each time."""
        gateway = open_gateway(max_requests_per_minute=3)
        async with gateway.client() as client:
            post = {"json": {"text": "I live in Rome."}, "headers": {"Idempotency-Key": "1"}}
            answers = [await client.post("/memories", **post) for _ in range(4)]

        assert [one.status_code for one in answers] == [201, 201, 201, 429]

    async def test_what_was_done_is_answered_without_storage_for_the_answer(
        self, open_gateway: Open, monkeypatch: pytest.MonkeyPatch
    ):
        """An error would make the client repeat what was done."""
        gateway = open_gateway(url="memory://")
        commit = InMemoryStorage.commit

        async def full(self: InMemoryStorage, batch: Batch) -> Position:
            if any(isinstance(one, Put) and "etag" in str(one.value) for one in batch.operations):
                msg = "The disk is full."
                raise StorageFullError(msg)
            return await commit(self, batch)

        monkeypatch.setattr(InMemoryStorage, "commit", full)
        async with gateway.client() as client:
            headers = {"Idempotency-Key": "1"}
            answer = await client.post("/memories", json={"text": "I live in Rome."}, headers=headers)

        assert answer.status_code == 201

    async def test_no_text_is_kept(self, gateway: GatewayWorld):
        """What is forgotten later is not in the kept answer."""
        async with gateway.client() as client:
            headers = {"Idempotency-Key": "1"}
            await client.post("/memories", json={"text": "I live in Xanadu."}, headers=headers)
            memory_id = await added(client, "I live in Xanadu.")
            etag = (await client.get(f"/memories/{memory_id}")).headers["etag"]
            await client.delete(f"/memories/{memory_id}", headers={"If-Match": etag})
            everything = (await client.post("/me/export")).text

        assert "idempotency" in everything
        assert "Xanadu" not in everything


class TestTombstones:
    async def test_each_is_on_one_page(self, gateway: GatewayWorld):
        """Also if one that was read is lifted before the next page."""
        texts = [f"Ana has {number} dogs." for number in ("two", "three", "four", "five", "six")]
        for text in texts:
            await gateway.tk.proposals.reject(await proposed(gateway, text), owner=owner_of("ana"))
        async with gateway.client() as client:
            first = (await client.get("/tombstones", params={"limit": 2})).json()
            await client.delete(f"/tombstones/{first['tombstones'][1]['tombstone_id']}")
            second = (await client.get("/tombstones", params={"limit": 2, "cursor": first["cursor"]})).json()
            third = (await client.get("/tombstones", params={"limit": 2, "cursor": second["cursor"]})).json()
            whole = (await client.get("/tombstones")).json()
            forged = await client.get("/tombstones", params={"cursor": first["cursor"][:-1]})

        pages = [[one["text"] for one in page["tombstones"]] for page in (first, second, third)]
        assert pages == [texts[4:2:-1], texts[2:0:-1], texts[:1]]
        assert third["cursor"] is None
        assert ([one["text"] for one in whole["tombstones"]], whole["cursor"]) == (
            texts[4::-1][:1] + texts[2::-1],
            None,
        )
        assert forged.status_code == 422


class TestProposals:
    async def test_decide_many(self, gateway: GatewayWorld):
        first, second = await proposed(gateway, "Ana likes tea."), await proposed(gateway, "Ana has a dog.")
        choices = [
            {"proposal_id": first, "approve": True, "text": "Ana likes green tea."},
            {"proposal_id": second, "approve": False, "comment": "A cat."},
            {"proposal_id": "unknown", "approve": True},
        ]
        async with gateway.client() as client:
            decided = (await client.post("/proposals/decide", json={"choices": choices})).json()["decided"]
            again = await client.post(f"/proposals/{first}/decide", json={"approve": False})
            rejected = (await client.get("/proposals", params={"state": "rejected"})).json()["proposals"]
            tombstones = (await client.get("/tombstones")).json()["tombstones"]
            lifted = await client.delete(f"/tombstones/{tombstones[0]['tombstone_id']}")
            unknown = await client.delete("/tombstones/unknown")
            memories = (await client.get("/memories")).json()["memories"]

        assert [(one["state"], one["error"]) for one in decided] == [
            ("approved", None),
            ("rejected", None),
            (None, "proposal_not_found"),
        ]
        assert (again.status_code, again.json()["code"]) == (409, "proposal_decided")
        assert [one["proposal_id"] for one in rejected] == [second]
        assert [one["text"] for one in tombstones] == ["Ana has a dog."]
        assert (lifted.status_code, unknown.status_code) == (204, 404)
        assert [(one["text"], one["approved_by"]) for one in memories] == [("Ana likes green tea.", "ana")]

    async def test_deciding_needs_its_scope(self, token_gateway: GatewayWorld, provider: OidcProvider):
        async with token_gateway.client(None) as client:
            weak = provider.headers(scope="memory:read memory:write")
            answers = [
                await client.post("/proposals/x/decide", json={"approve": True}, headers=weak),
                await client.post("/memories", json={"text": "Be brief.", "approved": True}, headers=weak),
            ]
            read_only = await client.post(
                "/memories", json={"text": "x"}, headers=provider.headers(scope="memory:read")
            )

        assert {(one.status_code, one.json()["detail"]) for one in answers} == {
            (403, "The request needs the scope memory:review.")
        }
        assert read_only.json()["detail"] == "The request needs the scope memory:write."


class TestMe:
    async def test_profile_opt_out_and_erasure(self, gateway: GatewayWorld):
        async with gateway.client() as client:
            await added(client)
            me = (await client.get("/me")).json()
            policy = await client.patch("/me", json={"policy": "assistant=never, tool.semantic=ask"})
            wrong = await client.patch("/me", json={"policy": "x"})
            out = await client.post("/me/opt_out", json={})
            refused = await client.post("/memories", json={"text": "I like tea."})
            back = await client.post("/me/opt_out", json={"out": False})
            audit = (await client.get("/audit")).json()["entries"]
            exported = (await client.post("/me/export")).text
            queue = (await client.get("/queue")).json()
            retried = await client.post("/queue/retry", json={})
            receipt = (await client.post("/me/erase")).json()
            after = (await client.get("/me")).json()

        assert (me["user_id"], me["memories"], me["opted_out"]) == ("ana", {"semantic": 1}, False)
        assert policy.json()["policy"] == "assistant=never, tool.semantic=ask"
        assert wrong.status_code == 422
        assert (out.json(), back.json()) == ({"opted_out": True}, {"opted_out": False})
        assert (refused.status_code, refused.json()["code"]) == (403, "opted_out")
        assert audit[-1]["changes"][0]["what"] == "added"
        assert "I live in Rome." in exported
        assert (queue, retried.json()) == ({"turns": []}, {"turns": []})
        assert receipt["receipt_id"]
        assert receipt["items"] > 0
        assert after["memories"] == {}

    async def test_export_as_zip(self, gateway: GatewayWorld):
        """It has the lines of the other export, of this user alone, and is not stored."""
        async with gateway.client() as client, gateway.client("bo") as bo:
            await added(client)
            await added(bo, "I live in Xanadu.")
            lines = (await client.post("/me/export")).text.splitlines()
            packed = await client.post("/me/export?file=zip")
            unknown = await client.post("/me/export?file=rar")

        with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
            read = {name: archive.read(name).decode() for name in archive.namelist()}
        assert read.keys() == {"README.md", "export.jsonl"}
        assert read["export.jsonl"].splitlines()[1:] == lines[1:]
        assert "I live in Rome." in read["export.jsonl"]
        assert "Xanadu" not in read["export.jsonl"]
        assert packed.headers["content-type"] == "application/zip"
        assert packed.headers["content-disposition"] == 'attachment; filename="threadkeep.zip"'
        assert packed.headers["cache-control"] == "no-store"
        assert unknown.status_code == 422

    async def test_opt_out_in_a_thread(self, gateway: GatewayWorld):
        """The profile names the threads; another user's are not among them."""
        async with gateway.client() as client, gateway.client("bo") as bo:
            (started, *_) = await gateway.turn(client, "Hello")
            thread_id = started.data["thread_id"]
            out = await client.post("/me/opt_out", json={"thread_id": thread_id})
            me, other = (await client.get("/me")).json(), (await bo.get("/me")).json()
            await client.post("/me/opt_out", json={"thread_id": thread_id, "out": False})
            after = (await client.get("/me")).json()

        assert out.json() == {"opted_out": True}
        assert (me["opted_out"], me["opted_out_threads"]) == (False, [thread_id])
        assert other["opted_out_threads"] == []
        assert after["opted_out_threads"] == []


class TestCollections:
    async def test_search(self, gateway: GatewayWorld):
        await gateway.tk.collections.ingest(
            "guides", "The office opens at nine.", document_id="1", tenant=owner_of("ana").tenant
        )
        await gateway.tk.collections.ingest("guides", "The vault opens at noon.", document_id="2", tenant="other")
        async with gateway.client() as client:
            found = (await client.get("/collections/guides/search", params={"q": "opens"})).json()
        assert [one["text"] for one in found["passages"]] == ["The office opens at nine."]

    async def test_filters_and_further_collections(self, gateway: GatewayWorld):
        """Passages have their citation; a collection that is not there and a filter that is none are refused."""
        tenant = owner_of("ana").tenant
        ingest = gateway.tk.collections.ingest
        await ingest("guides", "# A\n## Hours\nThe office opens at nine.\n# B", document_id="1", tenant=tenant)
        await ingest("rooms", "The vault opens at noon.", document_id="2", metadata={"floor": 3}, tenant=tenant)
        async with gateway.client() as client:

            async def search(**params: Any) -> Any:
                return await client.get("/collections/guides/search", params={"q": "opens", **params})

            both = (await search(also="rooms")).json()["passages"]
            third = (await search(also="rooms", where='{"floor": {"$gte": 3}}')).json()["passages"]
            refused = [await search(also="none"), await search(where="[1]"), await search(where='{"a": {"$x": 1}}')]

        assert {(one["collection"], one["citation"]) for one in both} == {("guides", "1 › A › Hours"), ("rooms", "2")}
        assert [one["collection"] for one in third] == ["rooms"]
        assert [answer.json()["code"] for answer in refused] == [
            "collection_not_found",
            "input_invalid",
            "input_invalid",
        ]


class TestOtherUsers:
    async def test_ids_of_others_are_unknown(self, gateway: GatewayWorld):
        """The answer is the same as to an id that does not exist, whatever the route."""
        theirs = await proposed(gateway, "Bo likes tea.", "bo")
        async with gateway.client() as ana, gateway.client("bo") as bo:
            memory_id = await added(bo, "I live in Oslo.")
            etag = (await bo.get(f"/memories/{memory_id}")).headers["etag"]
            thread_id = (await bo.post("/threads", json={"title": "Secret"})).json()["thread_id"]
            real = {"memory_id": memory_id, "proposal_id": theirs, "thread_id": thread_id, "tombstone_id": theirs}
            differing: list[str] = []
            for path, methods in gateway.app.openapi()["paths"].items():
                if not path.startswith("/api/") or "{" not in path or "name}" in path or "/admin/" in path:
                    continue
                if "{slot}" in path or "{agent}" in path:  # these have no ids: they are the user's own
                    continue
                for method in methods:
                    answers: list[tuple[int, dict[str, Any]]] = []
                    for ids in (real, dict.fromkeys(real, "f" * 32)):
                        address = path.removeprefix("/api").format(**ids, run_id="0" * 32)
                        body = {"text": "Mine.", "approve": True, "answer": 1}
                        field = {"proposals": ["approve"], "memories": ["text"], "runs": ["answer"]}
                        sent = {name: body[name] for name in field.get(address.split("/")[1], [])}
                        sent = {} if address.endswith(("/pin", "/fork")) else sent
                        sent = {"tags": ["work"]} if address.endswith("/labels") else sent
                        answer = await ana.request(method, address, json=sent, headers={"If-Match": etag})
                        answers.append((answer.status_code, {**answer.json(), "trace_id": None} if answer.text else {}))
                    if answers[0] != answers[1] or answers[0][0] not in (404, 204):
                        differing.append(f"{method} {path} {answers}")
            still = [await bo.get(f"/memories/{memory_id}"), await bo.get(f"/threads/{thread_id}")]

        assert differing == []
        assert [one.status_code for one in still] == [200, 200]


class TestBadInput:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[]",
            b"null",
            b'"x"',
            b'{"text": 1}',
            b'{"text": ""}',
            b'{"text": null}',
            b'{"text": "a\\u0000b"}',
            b'{"text": "\\ud800"}',
            b'{"text": "\xff"}',
            b'\xff\xfe{"text": "x"}',
            b'{"text": "x", "kind": "other"}',
            b'{"text": "x", "extra": 1}',
            b'{"text": "x", "valid_from": "2020-01-01T00:00:00"}',
            b'{"text": "x", "valid_from": 1e400}',
            b'{"text": "x", "valid_from": "9999-12-31T23:59:59-14:00"}',
            b'{"text": ' + b"[" * 33 + b"]" * 33 + b"}",
            b"[" * 100_000,
            json.dumps({"text": "x" * 8_001}).encode(),
        ],
    )
    async def test_bodies(self, gateway: GatewayWorld, body: bytes):
        async with gateway.client() as client:
            answer = await client.post("/memories", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (413, 422), answer.text
        assert answer.headers["content-type"] == "application/problem+json"

    @pytest.mark.parametrize(
        "address",
        [
            "/memories/%00",
            "/memories/a%00b",
            "/memories/%ff",
            "/memories/%ed%a0%80",
            "/memories/" + "x" * 1_001,
            "/memories?limit=0",
            "/memories?limit=x",
            "/memories?limit=99999999999999999999",
            "/memories?kind=x",
            "/memories/search",
            "/memories/search?q=",
            "/memories/search?q=%00",
            "/proposals?state=x",
            "/collections/x/search?q=%00",
        ],
    )
    async def test_addresses(self, gateway: GatewayWorld, address: str):
        async with gateway.client() as client:
            answer = await client.get(address)
        assert answer.status_code == 422, answer.text
        assert answer.headers["content-type"] == "application/problem+json"

    async def test_a_large_body_is_refused(self, gateway: GatewayWorld):
        async def endless():
            for _ in range(2_000):
                yield b" " * 1_000

        async with gateway.client() as client:
            announced = await client.post("/memories", content=b" " * 1_000_001)
            streamed = await client.post("/memories", content=endless())
        assert (announced.status_code, streamed.status_code) == (413, 413)

    async def test_too_many_requests(self, open_gateway: Open):
        gateway = open_gateway(max_requests_per_minute=3)
        async with gateway.client() as ana, gateway.client("bo") as bo:
            answers = [await ana.get("/memories") for _ in range(4)]
            other = await bo.get("/memories")
        assert [one.status_code for one in answers] == [200, 200, 200, 429]
        assert 1 <= int(answers[3].headers["retry-after"]) <= 20
        assert other.status_code == 200

    async def test_too_many_turns(self, open_gateway: Open):
        release = asyncio.Event()
        model = ScriptedModel(replies=(Held(release, "Now."), "Hello."))
        gateway = open_gateway(model, max_turns_per_owner=1, max_turns_per_minute=2)
        async with gateway.client() as ana:
            async with gateway.stream(ana, {"message": "Hello"}) as events:
                await anext(events)
                at_once = await ana.post("/chat/stream", json={"message": "Hello"})
                gateway.call(release.set)
                async for _ in events:
                    pass
            await gateway.turn(ana, "Hello")
            third = await ana.post("/chat/stream", json={"message": "Hello"})
        assert (at_once.status_code, at_once.json()["code"]) == (429, "too_many_turns")
        assert (third.status_code, third.json()["code"]) == (429, "too_many_requests")
        assert int(third.headers["retry-after"]) > 1

    async def test_headers_of_every_answer(self, gateway: GatewayWorld):
        async with gateway.client() as client:
            answers = [await client.get("/memories"), await client.get("/nothing"), await client.get("/memories/%00")]
        for answer in answers:
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
            assert "default-src 'none'" in answer.headers["content-security-policy"]


class TestFilters:
    async def test_memories_are_listed_by_source_thread_pin_and_time(self, gateway: GatewayWorld):
        """Filters hold together; a page of one filter is no page of another."""
        async with gateway.client() as client:
            await gateway.turn(client, "I live in Rome.", thread_id="t")
            gateway.tk.for_owner(owner_of("ana")).sync.drain()
            kept = (await client.post("/memories", json={"text": "I like tea.", "pinned": True})).json()["memory_id"]
            kinds: dict[str, Any] = {}
            for query in (
                "thread_id=t&kind=semantic",
                "thread_id=none",
                "pinned=true",
                "trust=document",
                "trust=user&pinned=false&kind=semantic",
            ):
                kinds[query] = [one["text"] for one in (await client.get(f"/memories?{query}")).json()["memories"]]
            changed = (await client.get(f"/memories/{kept}")).json()["updated_at"]
            recent = (await client.get("/memories", params={"since": changed})).json()["memories"]
            page = (await client.get("/memories?limit=1&trust=user")).json()["cursor"]
            other = await client.get("/memories", params={"cursor": page, "limit": 1, "trust": "tool"})

        assert kinds["thread_id=t&kind=semantic"] == ["I live in Rome."]
        assert kinds["thread_id=none"] == kinds["trust=document"] == []
        assert kinds["pinned=true"] == ["I like tea."]
        assert kinds["trust=user&pinned=false&kind=semantic"] == ["I live in Rome."]
        assert [one["text"] for one in recent] == ["I like tea."]
        assert other.status_code == 422

    async def test_privacy_names_receivers_without_addresses(self, gateway: GatewayWorld):
        async with gateway.client() as client:
            answer = (await client.get("/me/privacy")).json()
        receivers = [one["to"] for one in answer["data_flows"]]
        assert any(one.startswith("storage sqlite") for one in receivers)
        assert not any("/" in one for one in receivers)
        assert answer["tombstone_days"] > 0
