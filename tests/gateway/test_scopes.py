"""``/scopes`` over HTTP: members read, propose, promote and review by their roles."""

from __future__ import annotations

from tests.gateway.conftest import Open
from tests.gateway.world import TENANT, GatewayWorld, owner_of
from threadkeep import Owner

TEAM = Owner("platform", TENANT, kind="team")
PATH = "/scopes/team/platform"


async def shared(open_gateway: Open, url: str) -> GatewayWorld:
    """Open a gateway with a team: Ana proposes, Carla reviews, Bo reads; Dan has no role."""
    gateway = open_gateway(url=url)
    await gateway.tk.scopes.create(TEAM)
    await gateway.tk.scopes.create(Owner("platform", "https://elsewhere.example", kind="team"))
    for user, role in (("ana", "propose"), ("carla", "review"), ("bo", "read")):
        await gateway.tk.scopes.grant(TEAM, owner_of(user), role=role)
    return gateway


class TestScopes:
    async def test_promote_review_read_and_forget(self, open_gateway: Open, storage_url: str):
        gateway = await shared(open_gateway, storage_url)
        async with gateway.client("ana") as ana, gateway.client("carla") as carla, gateway.client("bo") as bo:
            mine = (await ana.post("/memories", json={"text": "Staging runs on Hetzner."})).json()["memory_id"]
            promoted = await ana.post(f"{PATH}/proposals", json={"memory_id": mine})
            stated = await ana.post(f"{PATH}/proposals", json={"text": "We deploy on Tuesdays.", "reason": "agreed"})
            waiting = (await carla.get(f"{PATH}/proposals")).json()["proposals"]
            before = (await bo.get(f"{PATH}/memories")).json()["memories"]
            approved = await carla.post(
                f"{PATH}/proposals/{promoted.json()['proposal_id']}/decide", json={"approve": True}
            )
            rejected = await carla.post(
                f"{PATH}/proposals/{stated.json()['proposal_id']}/decide", json={"approve": False, "comment": "no"}
            )
            (memory,) = (await bo.get(f"{PATH}/memories")).json()["memories"]
            found = (await bo.get(f"{PATH}/memories/search", params={"q": "staging"})).json()["found"]
            scopes = (await bo.get("/scopes")).json()["scopes"]
            kept = (await ana.get("/memories")).json()["memories"]
            gone = await carla.delete(f"{PATH}/memories/{memory['memory_id']}")
            after = (await bo.get(f"{PATH}/memories")).json()["memories"]

        assert (promoted.json()["status"], stated.json()["status"]) == ("proposed", "proposed")
        assert [one["text"] for one in waiting] == ["We deploy on Tuesdays.", "Staging runs on Hetzner."]
        assert (before, after) == ([], [])
        assert (approved.json()["state"], rejected.json()["state"]) == ("approved", "rejected")
        assert memory["text"] == "Staging runs on Hetzner."
        assert [one["memory"]["memory_id"] for one in found] == [memory["memory_id"]]
        assert [(one["kind"], one["name"], one["role"]) for one in scopes] == [("team", "platform", "read")]
        assert [one["memory_id"] for one in kept] == [mine]
        assert gone.json()["memory_ids"] == [memory["memory_id"]]

    async def test_a_user_does_what_the_role_allows_and_no_more(self, open_gateway: Open, storage_url: str):
        """A scope that does not exist, and one without a role, look the same."""
        gateway = await shared(open_gateway, storage_url)
        async with gateway.client("ana") as ana, gateway.client("bo") as bo, gateway.client("dan") as dan:
            refused = [
                await dan.get(f"{PATH}/memories"),
                await dan.get("/scopes/team/unknown/memories"),
                await dan.get("/scopes/agent/platform/memories"),
                await dan.get(f"{PATH}/memories/search", params={"q": "x"}),
                await dan.post(f"{PATH}/proposals", json={"text": "I was here."}),
                await bo.post(f"{PATH}/proposals", json={"text": "I was here."}),
                await bo.get(f"{PATH}/proposals"),
                await ana.get(f"{PATH}/proposals"),
                await ana.post(f"{PATH}/proposals/x/decide", json={"approve": True}),
                await ana.delete(f"{PATH}/memories/x"),
            ]
            none = (await dan.get("/scopes")).json()["scopes"]

        assert [(one.status_code, one.json()["code"]) for one in refused] == [(403, "role_required")] * 10
        assert none == []
        assert await gateway.tk.proposals.list(owner=TEAM) == []

    async def test_bad_input(self, open_gateway: Open, storage_url: str):
        """A memory of another user is not found; a user is no scope."""
        gateway = await shared(open_gateway, storage_url)
        theirs = await gateway.tk.memories.remember("I live in Rome.", owner=owner_of("bo"))
        async with gateway.client("ana") as ana, gateway.client("carla") as carla:
            foreign = await ana.post(f"{PATH}/proposals", json={"memory_id": theirs.memory_id})
            both = await ana.post(f"{PATH}/proposals", json={"memory_id": theirs.memory_id, "text": "x"})
            neither = await ana.post(f"{PATH}/proposals", json={})
            user = await ana.get("/scopes/user/bo/memories")
            unknown = await carla.post(f"{PATH}/proposals/x/decide", json={"approve": True})
            cursor = await carla.get(f"{PATH}/proposals", params={"cursor": "0.AAAAAAAAAAAAAAAAAAAAAA"})

        assert (foreign.status_code, foreign.json()["code"]) == (404, "memory_not_found")
        assert [one.status_code for one in (both, neither, user, cursor)] == [422] * 4
        assert unknown.status_code == 404
