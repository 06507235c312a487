"""API keys, acting for others, and what administrators do to other owners."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

import threadkeep
from tests.command_line import CliRunner
from tests.gateway.conftest import Open
from tests.gateway.oidc import AUDIENCE, OidcProvider
from tests.gateway.test_sessions import Browser, with_browsers
from tests.gateway.world import GatewayWorld
from threadkeep.cli.main import app
from threadkeep.errors import InvalidInputError
from threadkeep.gateway.app import create_app
from threadkeep.gateway.auth.api_keys import ApiKeys
from threadkeep.gateway.settings import GatewaySettings
from threadkeep.identity import Owner
from threadkeep.testing import FrozenClock, Held, ScriptedModel

WAITED_SECONDS = 30.0


def bearer(secret: str, **headers: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}", **headers}


async def until(client: httpx.AsyncClient, status: int, headers: dict[str, str]) -> httpx.Response:
    """Return the first answer with *status*; a process follows after some seconds."""
    deadline = time.monotonic() + WAITED_SECONDS
    while True:
        answer = await client.get("/memories", headers=headers)
        if answer.status_code == status or time.monotonic() > deadline:
            assert answer.status_code == status, answer.text
            return answer
        await asyncio.sleep(0.1)


@pytest.fixture
async def keys(token_gateway: GatewayWorld) -> ApiKeys:
    return token_gateway.app.state.gateway.api_keys


class TestApiKeys:
    async def test_a_key_acts_as_its_owner_within_its_scopes(
        self, token_gateway: GatewayWorld, provider: OidcProvider, keys: ApiKeys
    ):
        secret, key = await keys.create(Owner("ana", provider.origin), ["memory:read"], name="backup")
        async with token_gateway.client(None) as client:
            await client.post("/memories", json={"text": "I live in Rome."}, headers=provider.headers("ana"))
            read = await client.get("/memories", headers=bearer(secret))
            write = await client.post("/memories", json={"text": "x"}, headers=bearer(secret))
        (listed,) = await keys.list()

        assert [one["text"] for one in read.json()["memories"]] == ["I live in Rome."]
        assert (write.status_code, write.json()["detail"]) == (403, "The request needs the scope memory:write.")
        assert (listed.key_id, listed.name, listed.scopes) == (key.key_id, "backup", ("memory:read",))
        assert listed.used_at is not None

    async def test_the_secret_is_not_kept(self, token_gateway: GatewayWorld, provider: OidcProvider, keys: ApiKeys):
        secret, _ = await keys.create(Owner("ana", provider.origin), ["chat"])
        items = await token_gateway.tk.store.asearch(("threadkeep", "gateway", "api_keys"))
        assert len(secret) == 46
        assert secret not in repr(items)

    async def test_a_revoked_key_is_refused_everywhere(
        self, open_gateway: Open, provider: OidcProvider, storage_url: str
    ):
        """Another process revokes it, and a gateway that just used it refuses it within 5 seconds."""
        gateway = open_gateway(url=storage_url, issuers=(provider.origin,), audience=AUDIENCE)
        other = threadkeep.open(storage_url, embedder="none")
        keys = ApiKeys(other.store, FrozenClock(), other.app.timeout_budget)
        secret, key = await ApiKeys(
            other.store, gateway.app.state.gateway.api_keys._clock, other.app.timeout_budget
        ).create(Owner("ana", provider.origin), ["memory:read"])
        async with gateway.client(None) as client:
            assert (await client.get("/memories", headers=bearer(secret))).status_code == 200
            assert await keys.revoke(key.key_id)
            await until(client, 401, bearer(secret))
        assert not await keys.revoke(key.key_id)
        await other.aclose()

    async def test_a_key_expires(self):
        clock = FrozenClock()
        async with threadkeep.open("memory:", embedder="none") as tk:
            keys = ApiKeys(tk.store, clock, tk.app.timeout_budget)
            secret, _ = await keys.create(Owner("ana"), ["chat"], lifetime=timedelta(days=1))
            before = await keys.verify(secret)
            clock.advance(timedelta(days=1))
            after = await keys.verify(secret)
        assert before is not None
        assert before.owner == Owner("ana")
        assert after is None

    @pytest.mark.parametrize("secret", ["tk_", "tk_x", "tk_" + "A" * 43, "tk_" + "A" * 44, "TK_" + "A" * 43, "tk_é"])
    async def test_invalid_keys(self, token_gateway: GatewayWorld, secret: str):
        async with token_gateway.client(None) as client:
            answer = await client.get("/memories", headers=[(b"authorization", b"Bearer " + secret.encode())])
        assert answer.status_code == 401

    @pytest.mark.parametrize("scopes", [[], ["root"], ["chat", ""]])
    async def test_unknown_scopes(self, keys: ApiKeys, scopes: list[str]):
        with pytest.raises(InvalidInputError, match="memory:read"):
            await keys.create(Owner("ana"), scopes)


class TestCommands:
    def test_create_list_and_revoke(self, tmp_path: Path):
        def run(*arguments: str) -> Any:
            result = CliRunner().invoke(app, ["api-keys", *arguments, "--data-dir", str(tmp_path), "--json"])
            assert result.exit_code == 0, result.output
            return json.loads(result.stdout)

        created = run("create", "--user", "ana", "--scope", "chat", "--scope", "memory:read", "--days", "7")
        listed = run("list")
        revoked = run("revoke", created["key_id"][:8], "--yes")

        assert created["secret"].startswith("tk_")
        assert [(one["key_id"], one["scopes"]) for one in listed] == [(created["key_id"], ["chat", "memory:read"])]
        assert revoked == {"key_id": created["key_id"], "revoked": True}
        assert run("list") == []

    def test_a_key_without_a_tenant_is_refused_where_there_are_issuers(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """No token can be its owner; the user of a key alone is asked for by name."""
        monkeypatch.setenv("THREADKEEP_ISSUERS", "https://issuer.example")
        create = ["api-keys", "create", "--user", "ana", "--scope", "chat", "--data-dir", str(tmp_path)]

        with pytest.raises(InvalidInputError, match=r"--tenant is required: .* https://issuer\.example"):
            CliRunner().invoke(app, create, catch_exceptions=False)
        assert not list(tmp_path.iterdir())
        assert "without a tenant" in CliRunner().invoke(app, [*create, "--tenant", ""]).stderr
        assert "see THREADKEEP_ISSUERS" in CliRunner().invoke(app, [*create, "--tenant", "https://else.example"]).stderr
        assert CliRunner().invoke(app, [*create, "--tenant", "https://issuer.example"]).stderr == ""

    def test_a_key_without_a_tenant_is_no_secret_elsewhere(self, tmp_path: Path):
        """The processes of the gateway may have other settings."""
        create = ["api-keys", "create", "--user", "ana", "--scope", "chat", "--data-dir", str(tmp_path)]
        assert "without a tenant" in CliRunner().invoke(app, create).stderr

    def test_a_claim_names_the_tenant_of_an_issuer(self):
        settings = GatewaySettings(issuers=("https://a.example",), tenant_claim="org")
        assert settings.can_name("https://a.example\nacme")
        assert not settings.can_name("https://a.example")


class TestActing:
    async def test_a_key_with_the_scope_acts_for_users_of_its_tenant(
        self, token_gateway: GatewayWorld, provider: OidcProvider, keys: ApiKeys
    ):
        secret, _ = await keys.create(Owner("bot", provider.origin), ["act", "admin", "memory:read"])
        weak, _ = await keys.create(Owner("bot", provider.origin), ["memory:read"])
        acting = {"X-Threadkeep-Acting-For": "ana"}
        async with token_gateway.client(None) as client:
            await client.post("/memories", json={"text": "I live in Rome."}, headers=provider.headers("ana"))
            read = await client.get("/memories", headers=bearer(secret, **acting))
            refused = await client.get("/memories", headers=bearer(weak, **acting))
            token = await client.get("/memories", headers={**provider.headers("bo"), **acting})
            me = (await client.get("/me", headers=bearer(secret, **acting))).json()
            empty = await client.get("/memories", headers=bearer(secret, **{"X-Threadkeep-Acting-For": ""}))

        assert len(read.json()["memories"]) == 1
        assert {one.json()["detail"] for one in (refused, token)} == {"The request needs the scope act."}
        assert (me["user_id"], me["tenant"], me["scopes"]) == ("ana", provider.origin, ["memory:read"])
        assert empty.status_code == 422

    async def test_names_are_utf_8_and_one(self, token_gateway: GatewayWorld, provider: OidcProvider, keys: ApiKeys):
        """Servers give headers as Latin-1, in which `é` of UTF-8 are two letters: another user."""
        secret, _ = await keys.create(Owner("bot", provider.origin), ["act", "memory:read"])
        name = b"X-Threadkeep-Acting-For"
        signed = (b"Authorization", f"Bearer {secret}".encode())
        async with token_gateway.client(None) as client:
            me = await client.get("/me", headers=[signed, (name, "josé".encode())])
            twice = await client.get("/me", headers=[signed, (name, b"ana"), (name, b"bo")])
            latin = await client.get("/me", headers=[signed, (name, "josé".encode("latin-1"))])

        assert me.json()["user_id"] == "josé"
        assert [(one.status_code, one.json()["code"]) for one in (twice, latin)] == [(422, "input_invalid")] * 2


class TestSingleUser:
    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({}, 200),
            ({"Origin": "http://127.0.0.1:3000"}, 200),
            ({"Origin": "http://localhost"}, 200),
            ({"Origin": "https://evil.example"}, 401),
            ({"Origin": "https://127.0.0.1.evil.example"}, 401),
            ({"Origin": "null"}, 401),
            ({"Host": "evil.example"}, 401),
        ],
    )
    async def test_pages_of_other_sites_are_refused(self, headers: dict[str, str], status: int):
        """A browser sends their forms without asking, and says where they are from."""
        settings = GatewaySettings(single_user="ana", interfaces=("api",))
        async with threadkeep.open("memory://", embedder="none", model=ScriptedModel()) as tk:
            served = create_app(tk, tk.per_run_owner().graph(), settings)
            transport = httpx.ASGITransport(served)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                answer = await client.post("/api/chat/stream_files", data={"message": "Hello"}, headers=headers)

        assert answer.status_code == status, answer.text


class TestAdministrators:
    async def test_suspend_and_restore(self, open_gateway: Open, provider: OidcProvider, storage_url: str):
        """A suspension holds for tokens and keys, in another gateway within 5 seconds, and is in the audit."""
        settings: dict[str, Any] = {"url": storage_url, "issuers": (provider.origin,), "audience": AUDIENCE}
        first, second = open_gateway(**settings), open_gateway(**settings)
        owner = Owner("ana", provider.origin)
        secret, _ = await first.app.state.gateway.api_keys.create(owner, ["memory:read"])
        ana, admin = provider.headers("ana"), provider.headers("root", scope="admin")
        address = f"/admin/owners/{owner.label}"
        async with first.client(None) as one, second.client(None) as two:
            await two.post("/memories", json={"text": "I live in Rome."}, headers=ana)
            assert (await two.get("/memories", headers=bearer(secret))).status_code == 200
            suspended = await one.post(f"{address}/suspend", json={"reason": "Left the company."}, headers=admin)
            here = await one.get("/memories", headers=ana)
            there = [await until(two, 403, headers) for headers in (ana, bearer(secret))]
            restored = await one.post(f"{address}/restore", json={"reason": "Came back."}, headers=admin)
            again = await until(two, 200, ana)
            audit = (await two.get("/audit", headers=ana)).json()["entries"]
            undone = (await two.post("/memories/undo", json={"last": 1}, headers=ana)).json()

        assert suspended.json() == {"label": owner.label, "suspended": True}
        assert {answer.json()["code"] for answer in (here, *there)} == {"suspended"}
        assert restored.json()["suspended"] is False
        assert len(again.json()["memories"]) == 1
        assert [(entry["by"], entry["why"]) for entry in audit[:2]] == [
            ("root", "Came back."),
            ("root", "Left the company."),
        ]
        assert len(undone["removed"]) == 1

    async def test_a_suspension_ends_sessions_and_runs_of_all_processes(
        self, open_gateway: Open, provider: OidcProvider, storage_url: str
    ):
        """Within 5 seconds; the key of a suspended owner acts for no other user."""
        model = ScriptedModel(replies=(Held(asyncio.Event(), "Never said."),))
        first, second = (with_browsers(open_gateway, provider, storage_url, model=model) for _ in range(2))
        owner, admin = Owner("ana", provider.origin), provider.headers("root", scope="admin")
        secret, _ = await second.app.state.gateway.api_keys.create(owner, ["act", "memory:read"])
        acting = bearer(secret, **{"X-Threadkeep-Acting-For": "bo"})
        async with first.client(None) as one, second.client(None) as two, Browser(second) as browser:
            two.headers.update(provider.headers("ana"))
            await browser.login()
            assert (await two.get("/memories", headers=acting)).status_code == 200
            async with second.stream(two, {"message": "Hello"}) as events:
                await anext(events)
                address = f"/admin/owners/{owner.label}/suspend"
                await one.post(address, json={"reason": "Left the company."}, headers=admin)
                rest = [event async for event in events]
            refused = await until(two, 403, acting)
            listed = await browser.request("GET", "/api/memories")

        (done,) = [event.data for event in rest if event.kind == "done"]
        assert done["status"] == "cancelled"
        assert {refused.json()["code"], listed.json()["code"]} == {"suspended"}

    async def test_erase(self, token_gateway: GatewayWorld, provider: OidcProvider):
        owner = Owner("ana", provider.origin)
        admin = provider.headers("root", scope="admin memory:read")
        async with token_gateway.client(None) as client:
            await client.post("/memories", json={"text": "I live in Rome."}, headers=provider.headers("ana"))
            answer = await client.post(
                f"/admin/owners/{owner.label}/erase", json={"reason": "Asked for it."}, headers=admin
            )
            after = await client.get("/memories", headers=provider.headers("ana"))
        entries = await token_gateway.tk.owners.audit(owner)

        assert answer.json()["receipt_id"]
        assert after.json()["code"] == "suspended"
        assert await token_gateway.tk.memories.list(owner=owner) == []
        assert [(entry.by, entry.why) for entry in entries] == [("root", "Asked for it.")]

    async def test_only_administrators_of_the_tenant(self, open_gateway: Open, provider: OidcProvider):
        with OidcProvider() as second:
            gateway = open_gateway(issuers=(provider.origin, second.origin), audience=AUDIENCE)
            label, body = Owner("ana", provider.origin).label, {"reason": "x"}
            async with gateway.client(None) as client:
                for action in ("suspend", "restore", "erase"):
                    address = f"/admin/owners/{label}/{action}"
                    user = await client.post(address, json=body, headers=provider.headers("ana"))
                    other = await client.post(address, json=body, headers=second.headers("root", scope="admin"))
                    nothing = await client.post(address, json={}, headers=provider.headers("root", scope="admin"))
                    assert (user.status_code, user.json()["detail"]) == (403, "The request needs the scope admin.")
                    assert (other.status_code, other.json()["code"]) == (404, "owner_not_found")
                    assert nothing.status_code == 422
                unharmed = await client.get("/memories", headers=provider.headers("ana"))
        assert unharmed.status_code == 200
