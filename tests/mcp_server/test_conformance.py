"""The conformance suite of MCP on the production mount, on Node 22 or newer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
import yaml

import threadkeep
from tests.gateway.node_packages import modern_node, node_folder
from tests.gateway.oidc import LoopbackServer
from threadkeep.gateway.app import create_app
from threadkeep.gateway.settings import GatewaySettings

SOURCE = Path(__file__).with_name("node")
ALLOWED = "allowed-failures.yaml"
OFFERED = {"server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection"}


class TestConformance:
    @pytest.mark.long
    @pytest.mark.slow
    async def test_what_is_offered_passes(self, tmp_path: Path):
        """Every scenario passes, except those of the list; one of the list that passes fails the suite, too."""
        node = modern_node()
        folder = node_folder(SOURCE, SOURCE.parents[2] / ".build" / "node-mcp")
        program = str(folder / "node_modules" / ".bin" / "conformance")
        settings = GatewaySettings(single_user="ana", interfaces=("api", "mcp"))
        with threadkeep.open("memory://") as tk:
            application = create_app(tk, tk.per_run_owner().graph(), settings)
            with LoopbackServer(application) as server:
                options = ("--url", f"{server.origin}/mcp", "--suite", "all", "--expected-failures", ALLOWED)
                suite = await asyncio.create_subprocess_exec(
                    node, program, "server", *options, "-o", tmp_path, cwd=folder, stdout=-1, stderr=-2
                )
                output = (await suite.communicate())[0].decode()
                async with httpx.AsyncClient(base_url=server.origin) as client:
                    assert (await client.get("/healthz")).status_code == 200

        assert suite.returncode == 0, output[-4_000:]
        passed = {line.split(":")[0].split()[-1] for line in output.splitlines() if line.startswith("✓")}
        assert passed >= OFFERED
        allowed = yaml.safe_load((SOURCE / ALLOWED).read_text())["server"]
        assert not OFFERED & set(allowed)
