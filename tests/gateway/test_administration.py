"""What administrators see: the state of the service, the queue and owners of their tenant, and no text of anyone."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import Open
from tests.gateway.dead_turns import add_dead_turn
from tests.gateway.oidc import AUDIENCE, OidcProvider
from threadkeep.errors import StorageUnavailableError
from threadkeep.identity import Owner
from threadkeep.storage.sqlite.storage import SqliteStorage

WAITED_SECONDS = 30.0


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of the gateway's storage."""
    return f"sqlite:///{tmp_path / 'memory.db'}"


async def learnt(client: httpx.AsyncClient, headers: dict[str, str]) -> list[str]:
    """Return the texts of a user's memories, once there are some."""
    deadline = time.monotonic() + WAITED_SECONDS
    while True:
        texts = [one["text"] for one in (await client.get("/memories", headers=headers)).json()["memories"]]
        if texts or time.monotonic() > deadline:
            return texts
        await asyncio.sleep(0.05)


class TestStatus:
    async def test_parts_queue_and_growth(self, open_gateway: Open, provider: OidcProvider, url: str):
        add_dead_turn(url, Owner("ana", provider.origin), "I live in Xanadu", "th")
        gateway = open_gateway(url=url, issuers=(provider.origin,), audience=AUDIENCE)
        admin = provider.headers("root", scope="admin")
        async with gateway.client(None) as client:
            status = (await client.get("/admin/status", headers=admin)).json()
            again = (await client.get("/admin/status", headers=admin)).json()

        parts = {part["part"]: part for part in status["parts"]}
        assert parts.keys() == {"storage", "embedder", "issuer"}
        assert [part["error"] for part in status["parts"]] == [None] * 3
        assert parts["storage"]["name"] == "sqlite"
        assert parts["storage"]["milliseconds"] > 0
        assert parts["issuer"] == {"part": "issuer", "name": provider.origin, "error": None, "milliseconds": None}
        assert (status["learning"]["dead"], status["learning"]["waiting"]) == (1, 0)
        assert status["degraded"]["embedder"] == 0
        (sample,) = status["growth"]
        assert sample["items"] > 0
        assert sample["size_bytes"] > 0
        assert again["growth"] == status["growth"]
        assert str(url) not in str(status)

    async def test_turns_that_were_answered_with_less_are_counted_by_cause(
        self, open_gateway: Open, provider: OidcProvider
    ):
        gateway = open_gateway(issuers=(provider.origin,), audience=AUDIENCE)
        admin = provider.headers("root", scope="admin")
        async with gateway.client(None) as client:
            client.headers.update(provider.headers("ana"))
            await gateway.turn(client, "Hello")
            gateway.runs.metrics.recalled({"memories": [], "degraded": ["embedder"]})
            status = (await client.get("/admin/status", headers=admin)).json()

        assert status["degraded"]["embedder"] == 1
        assert status["turns"]["done"] == 1

    async def test_a_part_that_is_away_is_named(
        self, open_gateway: Open, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch
    ):
        """The rest of the answer stays."""
        gateway = open_gateway(issuers=(provider.origin,), audience=AUDIENCE)
        admin = provider.headers("root", scope="admin")
        async with gateway.client(None) as client:
            await client.get("/admin/status", headers=admin)

            async def away(*_: Any) -> Any:
                msg = "It is away."
                raise StorageUnavailableError(msg)

            monkeypatch.setattr(SqliteStorage, "position", away)
            status = (await client.get("/admin/status", headers=admin)).json()

        errors = {part["part"]: part["error"] for part in status["parts"]}
        assert errors == {"storage": "storage_unavailable", "embedder": None, "issuer": None}
        assert (status["learning"], status["growth"]) == (None, [])
        assert status["turns"]["done"] == 0

    async def test_a_day_has_one_sample(self, open_gateway: Open, provider: OidcProvider):
        """Another count replaces it; a recent one is not repeated."""
        gateway = open_gateway(issuers=(provider.origin,), audience=AUDIENCE)
        growth = gateway.app.state.gateway.growth
        await gateway.tk.memories.remember("I like tea.", owner=Owner("bo", provider.origin))
        await growth.note(max_age=timedelta(0))
        await growth.note(max_age=timedelta(0))  # now the first note, a row of the service, is counted
        (first,) = await growth.list()
        await gateway.tk.memories.remember("I live in Rome.", owner=Owner("ana", provider.origin))
        await growth.note(max_age=timedelta(hours=1))
        (same,) = await growth.list()
        await growth.note(max_age=timedelta(0))
        (newer,) = await growth.list()

        assert same == first
        assert newer.items > first.items
        assert newer.owners == first.owners + 1


class TestQueue:
    async def test_dead_turns_of_the_tenant_are_listed_and_retried(
        self, open_gateway: Open, provider: OidcProvider, url: str
    ):
        """Those of another tenant are not; the worker learns from what is retried."""
        with OidcProvider() as second:
            add_dead_turn(url, Owner("ana", provider.origin), "I live in Rome.", "th")
            add_dead_turn(url, Owner("bo", second.origin), "I live in Oslo.", "other")
            gateway = open_gateway(url=url, issuers=(provider.origin, second.origin), audience=AUDIENCE)
            admin = provider.headers("root", scope="admin")
            stranger = second.headers("root", scope="admin")
            async with gateway.client(None) as client:
                listed = (await client.get("/admin/queue", headers=admin)).json()
                (turn,) = listed["turns"]
                body = {"turn_ids": [turn["turn_id"]]}
                refused = (await client.post("/admin/queue/retry", json=body, headers=stranger)).json()
                retried = (await client.post("/admin/queue/retry", json=body, headers=admin)).json()
                texts = await learnt(client, provider.headers("ana"))
                left = (await client.get("/admin/queue", headers=admin)).json()
                theirs = (await client.get("/admin/queue", headers=stranger)).json()

        assert (turn["label"], turn["state"], turn["reason"]) == (
            Owner("ana", provider.origin).label,
            "dead",
            "RuntimeError",
        )
        assert "Rome" not in str(listed)
        assert refused == {"turns": [], "total": 0}
        assert retried["total"] == 1
        assert "I live in Rome." in texts
        assert left["total"] == 0
        assert theirs["total"] == 1


class TestOwners:
    async def test_counts_and_audit_have_no_text(self, open_gateway: Open, provider: OidcProvider):
        """An owner is found by user id and by label; the audit by words of who, why and what."""
        gateway = open_gateway(issuers=(provider.origin,), audience=AUDIENCE)
        ana, admin = provider.headers("ana"), provider.headers("root", scope="admin")
        label = Owner("ana", provider.origin).label
        async with gateway.client(None) as client:
            await client.post("/memories", json={"text": "I live in Xanadu."}, headers=ana)
            await client.post("/memories", json={"text": "I like quagga."}, headers=ana)
            found = await client.get("/admin/owners", params={"user_id": "ana"}, headers=admin)
            shown = await client.get(f"/admin/owners/{label}", headers=admin)
            reason = {"reason": "Left the company."}
            blank = await client.post(f"/admin/owners/{label}/suspend", json={"reason": " "}, headers=admin)
            await client.post(f"/admin/owners/{label}/suspend", json=reason, headers=admin)
            suspended = (await client.get(f"/admin/owners/{label}", headers=admin)).json()["suspended"]
            audit = await client.get(f"/admin/owners/{label}/audit", headers=admin)
            words = await client.get(f"/admin/owners/{label}/audit", params={"q": "ROOT company"}, headers=admin)
            nothing = await client.get(f"/admin/owners/{label}/audit", params={"q": "unheard of"}, headers=admin)

        assert found.json() == shown.json()
        assert blank.status_code == 422
        assert shown.json()["label"] == label
        assert shown.json()["memories"] == {"semantic": 2}
        assert (shown.json()["suspended"], suspended) == (False, True)
        assert len(audit.json()["entries"]) == 3
        assert [entry["why"] for entry in words.json()["entries"]] == ["Left the company."]
        assert nothing.json() == {"entries": []}
        assert "Xanadu" not in found.text + audit.text

    async def test_only_administrators_of_the_tenant(self, open_gateway: Open, provider: OidcProvider):
        with OidcProvider() as second:
            gateway = open_gateway(issuers=(provider.origin, second.origin), audience=AUDIENCE)
            label, namesake = Owner("ana", provider.origin).label, Owner("ana", second.origin)
            stranger = second.headers("root", scope="admin")
            async with gateway.client(None) as client:
                await client.post("/memories", json={"text": "I live in Rome."}, headers=provider.headers("ana"))
                for path in ("status", "queue", "owners?user_id=ana", f"owners/{label}", f"owners/{label}/audit"):
                    user = await client.get(f"/admin/{path}", headers=provider.headers("ana"))
                    assert (user.status_code, user.json()["detail"]) == (403, "The request needs the scope admin.")
                for path in (f"owners/{label}", f"owners/{label}/audit"):
                    other = await client.get(f"/admin/{path}", headers=stranger)
                    assert (other.status_code, other.json()["code"]) == (404, "owner_not_found")
                theirs = (await client.get("/admin/owners?user_id=ana", headers=stranger)).json()
        assert (theirs["label"], theirs["memories"]) == (namesake.label, {})
