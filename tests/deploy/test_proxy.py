"""nginx and Caddy in front of two gateways, with the configurations of the documentation."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.gateway.oidc import AUDIENCE, OidcProvider
from tests.gateway.test_serve import served, until_listening
from tests.gateway.world import events_of
from threadkeep_conformance.servers import free_port

ROOT = Path(__file__).parents[2]
AGENT = """
import asyncio
from pathlib import Path
from threadkeep.testing import ScriptedModel

class Waiting(ScriptedModel):
    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        async for chunk in super()._astream(messages, stop, run_manager, **kwargs):
            yield chunk
            while not Path(GO).exists():
                await asyncio.sleep(0.01)

def graph(tk):
    return tk.per_run_owner().graph(model=Waiting(replies=("one two three",)))
"""
USERS = 12


@contextmanager
def nginx(folder: Path, origins: list[str]) -> Iterator[str]:
    """Start nginx with the configuration of the repository; it writes down which gateway each request reached."""
    port = free_port()
    servers = "".join(f"server {origin.removeprefix('http://')};" for origin in origins)
    site = (ROOT / "deploy" / "nginx.conf").read_text()
    site = re.sub(r"resolver .*", "", site)
    site = re.sub(r"server gateway:8000 resolve .*", servers, site).replace("listen 80;", f"listen 127.0.0.1:{port};")
    assert servers in site
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    log = f"log_format reached '$upstream_addr $http_authorization$http_cookie'; access_log {folder}/reached reached;"
    file = folder / "nginx.conf"
    file.write_text(
        f"daemon off; pid {folder}/pid; error_log stderr; events {{}} http {{ {temporary} {log}\n{site}\n}}"
    )
    command = ["nginx", "-e", "stderr", "-c", str(file)]
    subprocess.run([*command, "-t"], check=True)
    with subprocess.Popen(command) as process:
        until_listening(f"http://127.0.0.1:{port}")
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
@pytest.mark.timeout(300)
async def test_nginx_neither_holds_back_events_nor_moves_users(tmp_path: Path):
    """The reply goes on only after its first word has come; a user stays with one gateway, by token or by cookie."""
    go = tmp_path / "go"
    with ExitStack() as stack:
        provider = stack.enter_context(OidcProvider())
        origins: list[str] = []
        for name in ("a", "b"):
            (folder := tmp_path / name).mkdir()
            (folder / "waiting_module.py").write_text(AGENT.replace("GO", repr(str(go))))
            settings = {
                "THREADKEEP_SINGLE_USER": "",
                "THREADKEEP_ISSUERS": provider.origin,
                "THREADKEEP_AUDIENCE": AUDIENCE,
                "PYTHONPATH": str(folder),
            }
            origins.append(stack.enter_context(served(folder, "--graph", "waiting_module:graph", **settings)).origin)
        origin = stack.enter_context(nginx(tmp_path, origins))
        users = [provider.headers(f"u{number}") for number in range(USERS)]
        users += [{"Cookie": f"__Host-threadkeep=s{number}"} for number in range(USERS)]
        async with httpx.AsyncClient(base_url=origin, timeout=60) as client:
            body = {"message": "Hello", "thread_id": "t"}
            async with client.stream("POST", "/api/chat/stream", json=body, headers=users[0]) as response:
                assert response.status_code == 200
                kinds: list[str] = []
                async for event in events_of(response):
                    kinds.append(event.kind)
                    if event.kind == "token":
                        go.touch()
            card = (await client.get("/.well-known/agent-card.json")).json()
            for _ in range(3):
                await asyncio.gather(*(client.get("/api/threads", headers=headers) for headers in users))
    reached: dict[str, set[str]] = {}
    for line in (tmp_path / "reached").read_text().splitlines():
        address, _, user = line.partition(" ")
        reached.setdefault(user, set()).add(address)

    assert "done" in kinds
    assert all(one["url"].startswith(origin) for one in card["supportedInterfaces"])
    assert [user for user, addresses in reached.items() if len(addresses) > 1] == []
    for sort in ("Bearer", "__Host-threadkeep"):
        assert len(set().union(*(addresses for user, addresses in reached.items() if sort in user))) == 2


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("caddy") is None, reason="Caddy is not installed")
def test_caddy_takes_the_configuration_of_the_documentation(tmp_path: Path):
    page = (ROOT / "docs" / "deployment.md").read_text()
    found = re.search(r"^    memory\.example \{\n.*?^    \}$", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    file = tmp_path / "Caddyfile"
    file.write_text(found[0])

    subprocess.run(["caddy", "validate", "--adapter", "caddyfile", "--config", str(file)], check=True)
