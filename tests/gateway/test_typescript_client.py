"""The client for TypeScript: its types, and its calls from Node with tokens of two users."""

from __future__ import annotations

import fcntl
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing
from tests.gateway.node_packages import modern_node
from tests.gateway.oidc import OidcProvider
from tests.gateway.world import GatewayWorld
from tools import web


@pytest.fixture(scope="module")
def client() -> Path:
    """Install what the client needs and check its types; of several processes one does."""
    modern_node()
    (web.ROOT / ".build").mkdir(exist_ok=True)
    with (web.ROOT / ".build" / "client-typescript.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            web.install()
            web.install(web.CLIENT)
        except subprocess.CalledProcessError as error:
            missing(f"the packages of the client for TypeScript ({error})")
        web.check_client()
    return web.CLIENT


@pytest.mark.long
@pytest.mark.slow
def test_the_client(client: Path, token_gateway: GatewayWorld, provider: OidcProvider):
    """Turns, joins, typed routes and errors; a route and a body that do not exist are errors of its types."""
    tokens = [provider.token(sub) for sub in ("ana", "bob")]
    command = [modern_node(), "test/client.ts", token_gateway.origin, *tokens]
    done = subprocess.run(command, cwd=client, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    seen: dict[str, Any] = json.loads(done.stdout)

    kinds = seen.pop("kinds")
    assert kinds[0] == "run"
    assert {"token", "done", "memory_written"} <= {*kinds}
    assert seen == {
        "text": "Noted.",
        "again": True,
        "joined": True,
        "memories": ["I live in Rome."],
        "corrected": "I live in Oslo.",
        "others": 0,
        "foreign": "404 run_not_found",
        "resumed": "409 nothing_to_resume",
        "unknown": "404 not_found",
        "wrong": "422 input_invalid",
        "nobody": "401 owner_required",
        "unreachable": "TypeError",
    }
