"""``/me/profile`` over HTTP."""

from __future__ import annotations

from typing import Any

import httpx

from tests.gateway.conftest import Open


def texts(profile: Any) -> dict[str, list[str]]:
    return {one["name"]: [value["text"] for value in one["values"]] for one in profile["slots"] if one["values"]}


class TestProfile:
    async def test_show_set_and_clear(self, open_gateway: Open, storage_url: str):
        gateway = open_gateway(url=storage_url)
        async with gateway.client() as client:
            told = await client.post("/memories", json={"text": "I'm vegetarian."})
            kept = await client.put("/me/profile/location", json={"text": "Ghent"})
            replaced = await client.put("/me/profile/location", json={"text": "I live in Leeds."})
            profile = (await client.get("/me/profile")).json()
            cleared = await client.delete("/me/profile/diet")
            after = (await client.get("/me/profile")).json()
            memories = (await client.get("/memories")).json()["memories"]

        assert (kept.status_code, kept.json()["status"]) == (200, "accepted")
        assert replaced.json()["memory_id"] == kept.json()["memory_id"]
        assert texts(profile) == {"location": ["I live in Leeds."], "diet": ["I'm vegetarian."]}
        assert [one["name"] for one in profile["slots"]][:3] == ["name", "role", "team"]
        assert cleared.json() == {"memory_ids": [told.json()["memory_id"]]}
        assert texts(after) == {"location": ["I live in Leeds."]}
        assert [one["text"] for one in memories] == ["I live in Leeds."]

    async def test_users_have_profiles_of_their_own(self, open_gateway: Open, storage_url: str):
        gateway = open_gateway(url=storage_url)
        async with gateway.client("ana") as ana, gateway.client("bo") as bo:
            theirs = (await ana.put("/me/profile/diet", json={"text": "no nuts"})).json()["memory_id"]
            replaced = await bo.put("/me/profile/diet", json={"text": "meat", "memory_id": theirs})
            cleared = await bo.delete("/me/profile/diet")
            profile = (await ana.get("/me/profile")).json()

        assert (replaced.status_code, replaced.json()["code"]) == (404, "memory_not_found")
        assert cleared.json() == {"memory_ids": []}
        assert texts(profile) == {"diet": ["no nuts"]}

    async def test_bad_input(self, open_gateway: Open, storage_url: str):
        gateway = open_gateway(url=storage_url)
        async with gateway.client() as client:
            answers: list[httpx.Response] = [
                await client.put("/me/profile/shoe", json={"text": "42"}),
                await client.delete("/me/profile/shoe"),
                await client.put("/me/profile/diet", json={"text": ""}),
                await client.put("/me/profile/diet", json={"text": "a\0"}),
                await client.put("/me/profile/diet", json={"slot": "x", "text": "vegan"}),
                await client.put(f"/me/profile/{'a' * 33}", json={"text": "vegan"}),
            ]
            memories = (await client.get("/memories")).json()["memories"]

        assert [(one.status_code, one.json()["code"]) for one in answers[:2]] == [(404, "slot_not_found")] * 2
        assert [one.status_code for one in answers[2:]] == [422] * 4
        assert memories == []
