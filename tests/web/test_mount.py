"""``/`` and ``/assets``: what the gateway serves of the page, and with which headers."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import httpx
import pytest

from tests.gateway.conftest import Open
from tests.gateway.world import GatewayWorld
from threadkeep.web import mount

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'"
)


def asset_names(page: str) -> list[str]:
    return re.findall(r'(?:src|href)="(/assets/[^"]+)"', page)


@pytest.mark.usefixtures("assets")
class TestBuilt:
    async def test_the_page_has_the_headers(self, open_gateway: Open):
        gateway = open_gateway()
        async with httpx.AsyncClient(base_url=gateway.origin) as client:
            page = await client.get("/")

        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-security-policy"] == CSP
        assert page.headers["cross-origin-opener-policy"] == "same-origin"
        assert "camera=()" in page.headers["permissions-policy"]
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert "<noscript>" in page.text

    async def test_assets_are_compressed_and_kept_for_ever(self, open_gateway: Open):
        """Each form has the same content; an unknown coding gets the file as it is."""
        gateway = open_gateway()
        async with httpx.AsyncClient(base_url=gateway.origin) as client:
            names = asset_names((await client.get("/")).text)
            assert any(name.endswith(".js") for name in names)
            for name in names:
                plain = await client.get(name, headers={"Accept-Encoding": "identity"})
                packed = await client.get(name, headers={"Accept-Encoding": "gzip"})
                async with client.stream("GET", name, headers={"Accept-Encoding": "gzip, deflate, br"}) as answer:
                    raw = b"".join([part async for part in answer.aiter_raw()])
                assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
                assert plain.headers["vary"] == "Accept-Encoding"
                assert "content-encoding" not in plain.headers
                assert packed.headers["content-encoding"] == "gzip"
                assert packed.content == plain.content
                assert answer.headers["content-encoding"] == "br"
                assert len(raw) < len(gzip.compress(plain.content)) < len(plain.content)

    @pytest.mark.parametrize(
        "path", ["/assets/x.js", "/assets/..%2findex.html", "/assets/%2e%2e/mount.py", "/index.html"]
    )
    async def test_nothing_else_is_served(self, open_gateway: Open, path: str):
        gateway = open_gateway()
        async with httpx.AsyncClient(base_url=gateway.origin) as client:
            assert (await client.get(path)).status_code == 404

    async def test_answers_of_an_owner_are_not_stored(self, open_gateway: Open):
        gateway: GatewayWorld = open_gateway()
        async with gateway.client() as client:
            for path in ("/me", "/memories", "/threads", "/proposals", "/audit", "/queue"):
                assert (await client.get(path)).headers["cache-control"] == "no-store"


class TestNotBuilt:
    async def test_the_page_says_how_to_build_it(
        self, open_gateway: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """Everything else works."""
        monkeypatch.setattr(mount, "ASSETS", tmp_path / "none")
        gateway = open_gateway()
        async with httpx.AsyncClient(base_url=gateway.origin) as client:
            page = await client.get("/")
            health = await client.get("/healthz")

        assert page.status_code == 404
        assert page.text == "The web page is not built: run make web in the repository, and start the server again.\n"
        assert health.status_code == 200

    async def test_the_interface_may_be_off(self, open_gateway: Open):
        gateway = open_gateway(interfaces=("api",))
        async with httpx.AsyncClient(base_url=gateway.origin) as client:
            assert (await client.get("/")).status_code == 404
            assert "web page" not in (await client.get("/")).text
