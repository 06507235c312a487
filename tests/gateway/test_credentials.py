"""``/me/credentials`` over HTTP: connect, list and disconnect the server of an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from tests.credentials.mcp_oauth import McpServer, serving_mcp
from tests.gateway.conftest import Open
from tests.gateway.world import GatewayWorld
from threadkeep.gateway.serve import load_graph
from threadkeep.testing import ScriptedModel

AGENTS = """
[billing]
description = "Invoices."
prompt = "You look up invoices."
url = "{url}"
oauth = true
tools = ["whoami"]

[shared]
description = "Weather."
prompt = "You look up the weather."
url = "https://weather.example/mcp"
tools = ["forecast"]
"""


@pytest.fixture
def server() -> Iterator[McpServer]:
    with serving_mcp() as running:
        yield running


@pytest.fixture
def model() -> ScriptedModel:
    call = AIMessage("", tool_calls=[{"name": "whoami", "args": {}, "id": "1"}])
    return ScriptedModel(replies=(call, "Done."))


@pytest.fixture
def connectable(
    open_gateway: Open, server: McpServer, model: ScriptedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> GatewayWorld:
    file = tmp_path / "agents.toml"
    file.write_text(AGENTS.format(url=server.url))
    monkeypatch.setenv("THREADKEEP_AGENTS", str(file))
    monkeypatch.setenv("THREADKEEP_MASTER_KEY", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=")
    return open_gateway(model, graph=lambda tk: load_graph(None, tk), public_url="http://localhost:8000")


class TestCredentials:
    async def test_connect_list_and_disconnect(self, connectable: GatewayWorld, server: McpServer):
        async with connectable.client("ana") as ana, connectable.client("bo") as bo:
            before = (await ana.get("/me/credentials")).json()["credentials"]
            begun = (await ana.post("/me/credentials", json={"agent": "billing"})).json()
            state, code = await asyncio.to_thread(server.consent, begun["url"], "ana")
            forged = await ana.get("/me/credentials/callback", params={"state": "forged", "code": code})
            stolen = await bo.get("/me/credentials/callback", params={"state": state, "code": code})
            connected = await ana.get("/me/credentials/callback", params={"state": state, "code": code})
            repeated = await ana.get("/me/credentials/callback", params={"state": state, "code": code})
            after = (await ana.get("/me/credentials")).json()["credentials"]
            theirs = (await bo.get("/me/credentials")).json()["credentials"]
            gone = await ana.delete("/me/credentials/billing")
            again = await ana.delete("/me/credentials/billing")

        assert [(one["agent"], one["state"]) for one in before] == [("billing", "missing")]
        for refused in (forged, stolen, repeated):
            assert (refused.status_code, refused.json()["code"]) == (403, "credential_required")
        assert (connected.status_code, connected.json()["state"]) == (200, "connected")
        assert after == [connected.json()]
        assert [one["state"] for one in theirs] == ["missing"]
        assert (gone.json(), again.json()) == ({"revoked": True}, {"revoked": False})
        assert server.users.access == {}

    async def test_the_agent_of_the_gateway_works_with_the_access_of_the_user(
        self, connectable: GatewayWorld, server: McpServer, model: ScriptedModel
    ):
        """A user who has not connected gets an answer, too."""
        said = {"thread_id": "1", "message": "Which invoices are mine?"}
        async with connectable.client("ana") as ana, connectable.client("bo") as bo:
            begun = (await ana.post("/me/credentials", json={"agent": "billing"})).json()
            state, code = await asyncio.to_thread(server.consent, begun["url"], "ana")
            await ana.get("/me/credentials/callback", params={"state": state, "code": code})
            with_access = await ana.post("/chat/stream", json=said)
            prompts = str(model.prompts)
            without = await bo.post("/chat/stream", json=said)

        assert "invoices of ana" in prompts
        assert "Done." in with_access.text
        assert "Done." in without.text
        assert "Not connected now: billing" in str(model.prompts[-1])
        assert "Not connected" not in prompts

    async def test_bad_input(self, connectable: GatewayWorld):
        """Only declared agents can be connected, so no client chooses where the gateway connects to."""
        async with connectable.client("ana") as client:
            unknown = await client.post("/me/credentials", json={"agent": "http://127.0.0.1/"})
            other = await client.post("/me/credentials", json={"agent": "shared"})
            extra = await client.post("/me/credentials", json={"agent": "billing", "redirect_uri": "https://evil"})
            denied = await client.get("/me/credentials/callback", params={"state": "x", "error": "access_denied"})
            stateless = await client.get("/me/credentials/callback", params={"code": "x"})

        assert [one.json()["code"] for one in (unknown, other)] == ["agent_not_found", "agent_not_found"]
        assert extra.status_code == 422
        assert (denied.status_code, denied.json()["code"]) == (403, "consent_denied")
        assert stateless.status_code == 422

    async def test_without_a_public_address_nothing_is_begun(
        self, open_gateway: Open, connectable: GatewayWorld, tmp_path: Path
    ):
        gateway = open_gateway(url=f"sqlite:///{tmp_path}/other.db")
        async with gateway.client("ana") as client:
            answer = await client.post("/me/credentials", json={"agent": "billing"})

        assert (answer.status_code, answer.json()["code"]) == (409, "public_url_missing")
