"""``THREADKEEP_INTERFACES``: which interfaces are on, and what a missing extra says."""

from __future__ import annotations

import sys

import httpx
import pytest
from pydantic import ValidationError

import threadkeep
from tests.gateway.conftest import Open
from threadkeep.errors import SettingsError
from threadkeep.gateway.app import create_app
from threadkeep.gateway.interfaces import installed_interfaces
from threadkeep.gateway.settings import GatewaySettings


class TestNames:
    def test_lists(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("THREADKEEP_INTERFACES", "api, mcp,api")
        assert GatewaySettings().interfaces == ("api", "mcp")

    def test_empty_is_unset(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("THREADKEEP_INTERFACES", "")
        assert GatewaySettings().interfaces is None

    def test_unknown_name_is_refused(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("THREADKEEP_INTERFACES", "api,grpc")
        with pytest.raises((SettingsError, ValidationError), match=r"'grpc'; there are api, langgraph, a2a, mcp, web"):
            GatewaySettings()


class TestMount:
    async def test_api_is_off(self, open_gateway: Open):
        """Routes of an interface that is off do not exist; health does."""
        gateway = open_gateway(interfaces=("mcp",))
        async with httpx.AsyncClient(base_url=gateway.origin) as client:
            assert (await client.get("/api/memories")).status_code == 404
            assert (await client.get("/healthz")).status_code == 200

    async def test_all_are_off(self, open_gateway: Open):
        gateway = open_gateway(interfaces=())
        async with httpx.AsyncClient(base_url=gateway.origin) as client:
            assert (await client.get("/api/memories")).status_code == 404

    @pytest.mark.parametrize("name", ["a2a", "mcp"])
    def test_missing_extra_names_the_command(self, name: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(sys.modules, name, None)
        settings = GatewaySettings(single_user="ana", interfaces=("api", name))
        with threadkeep.open("memory://") as tk, pytest.raises(SettingsError) as refused:
            create_app(tk, tk.per_run_owner().graph(), settings)

        assert f'pip install "threadkeep[{name}]"' in str(refused.value)
        assert name not in installed_interfaces()
