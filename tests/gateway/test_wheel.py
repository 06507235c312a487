"""What is installed: ``threadkeep serve`` from a built wheel, with users of a real OIDC provider."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import pytest

from tests.gateway.conftest import Open
from tests.gateway.node_packages import node_folder
from tests.gateway.oidc import ALL_SCOPES, AUDIENCE, CLIENT_ID
from tests.gateway.test_serve import served
from tests.gateway.test_sessions import PUBLIC, Browser
from tests.gateway.world import events_of, kinds, text_of
from threadkeep_conformance.servers import free_port

ROOT = Path(__file__).parents[2]
SECRET = "service-secret"
GRAPH = """
import threadkeep
from threadkeep.testing import ScriptedModel

def graph(tk):
    assert threadkeep.__file__.startswith({package!r}), threadkeep.__file__
    return tk.per_run_owner().graph(model=ScriptedModel(replies=("Noted.",)))
"""


class NodeProvider:
    """The npm package oidc-provider, in a process of its own: certified, and written by others."""

    def __init__(self, process: subprocess.Popen[str], origin: str) -> None:
        self._process = process
        self.origin = origin

    @classmethod
    @contextmanager
    def opened(cls, logout_uri: str = "", *, public_url: str = PUBLIC) -> Iterator[Self]:
        command = ["node", "provider.mjs", AUDIENCE, CLIENT_ID, f"{public_url}/auth/callback", SECRET, logout_uri]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, cwd=node_folder(), text=True, **pipes) as process:
            assert process.stdout is not None
            try:
                yield cls(process, process.stdout.readline().strip())
            finally:
                process.terminate()

    def rotate(self) -> None:
        """Sign with a new key, and withdraw the earlier one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        while self._process.stdout.readline() != "rotated\n":  # notices of the provider come before
            assert self._process.poll() is None

    def headers(self) -> dict[str, str]:
        """Return the headers of a program that has a token of its own."""
        form = {"grant_type": "client_credentials", "resource": AUDIENCE, "scope": ALL_SCOPES}
        answer = httpx.post(f"{self.origin}/token", data=form, auth=("service", SECRET))
        return {"Authorization": f"Bearer {answer.raise_for_status().json()['access_token']}"}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an unpacked wheel."""
    return unpacked_wheel(tmp_path_factory, "wheel")


def unpacked_wheel(factory: pytest.TempPathFactory, name: str) -> Path:
    """Build the wheel and unpack it, once for all workers of this run; return the folder of its packages."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    site = folder / "site"
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not site.exists():
            command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
            (wheel,) = folder.glob("*.whl")
            with zipfile.ZipFile(wheel) as packed:
                packed.extractall(site)
    return site


async def until_refused(browser: Browser) -> httpx.Response:
    """Return the first answer other than 200; a process knows an ended session for two seconds."""
    for _ in range(100):
        answer = await browser.request("GET", "/api/memories")
        if answer.status_code != 200:
            return answer
        await asyncio.sleep(0.1)
    pytest.fail("The session goes on.")


def storage_variables(url: str) -> dict[str, str]:
    if url.startswith("sqlite"):
        return {}
    return {"LANGGRAPH_STORE_TYPE": "postgres", "LANGGRAPH_STORE_POSTGRES_DSN": url}


@pytest.mark.slow
@pytest.mark.timeout(400)
class TestProvider:
    @pytest.mark.long
    @pytest.mark.parametrize("storage_url", ["sqlite", pytest.param("postgres", marks=pytest.mark.soak)], indirect=True)
    async def test_browsers_and_programs_of_a_provider(self, tmp_path: Path, package: Path, storage_url: str):
        """A login with PKCE, a turn of that browser, and a turn of a program; each has its own memory.

        A browser that logs out at the issuer is logged out here by the issuer.
        """
        port = free_port()
        with NodeProvider.opened(f"http://127.0.0.1:{port}/auth/backchannel_logout") as provider:
            (tmp_path / "wheel_module.py").write_text(GRAPH.format(package=str(package)))
            variables = {
                **storage_variables(storage_url),
                "THREADKEEP_SINGLE_USER": "",
                "THREADKEEP_ISSUERS": provider.origin,
                "THREADKEEP_AUDIENCE": AUDIENCE,
                "THREADKEEP_CLIENT_ID": CLIENT_ID,
                "THREADKEEP_PUBLIC_URL": PUBLIC,
            }
            arguments = ("--graph", "wheel_module:graph", "--port", str(port))
            with served(tmp_path, *arguments, package=package, **variables) as server:
                async with Browser(server) as browser, Browser(server) as other, server.client() as program:
                    done = await browser.login()
                    said = {"message": "I live in Rome."}
                    told = await browser.request("POST", "/api/chat/stream", json=said, headers=browser.safe())
                    program.headers.update(provider.headers())
                    async with program.stream("POST", "/chat/stream", json={"message": "I live in Oslo."}) as answer:
                        events = [event async for event in events_of(answer)]
                    theirs = (await program.get("/memories")).json()["memories"]
                    mine = (await browser.request("GET", "/api/memories")).json()["memories"]
                    session = (await browser.request("GET", "/auth/session")).json()
                    out = await browser.request("POST", "/auth/logout", headers=browser.safe())
                    refused = await browser.client.get("/api/memories")
                    await other.login()
                    before = await other.request("GET", "/api/memories")
                    await other.logout_at_issuer(out.json()["logout_url"])
                    ended = await until_refused(other)

        assert done.headers["location"] == "/page"
        assert session["user_id"] == "ana"
        assert "event: done" in told.text
        assert (text_of(events), "done" in kinds(events)) == ("Noted.", True)
        assert [one["text"] for one in theirs if one["kind"] == "semantic"] == ["I live in Oslo."]
        assert [one["text"] for one in mine if one["kind"] == "semantic"] == ["I live in Rome."]
        assert urlsplit(out.json()["logout_url"]).netloc == urlsplit(provider.origin).netloc
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert (before.status_code, ended.status_code) == (200, 401)

    async def test_keys_are_rotated(self, open_gateway: Open, monkeypatch: pytest.MonkeyPatch):
        """A token of the new key is accepted, one of the withdrawn key refused, and a browser logs in anew."""
        monkeypatch.setattr("threadkeep.gateway.auth.issuers.REFETCH_SECONDS", 0)
        with NodeProvider.opened() as provider:
            gateway = open_gateway(
                issuers=(provider.origin,), audience=AUDIENCE, client_id=CLIENT_ID, public_url=PUBLIC
            )
            async with gateway.client(None) as client, Browser(gateway) as browser:
                earlier = provider.headers()
                before = await client.get("/memories", headers=earlier)
                provider.rotate()
                after = await client.get("/memories", headers=provider.headers())
                withdrawn = await client.get("/memories", headers=earlier)
                login = await browser.login()

        assert [answer.status_code for answer in (before, after, withdrawn, login)] == [200, 200, 401, 303]
