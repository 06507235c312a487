"""The built page, a browser, and a gateway with users of a provider; what is missing skips the test, or fails in CI."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.gateway import conftest as gateway_conftest
from tests.gateway.oidc import AUDIENCE, CLIENT_ID, OidcProvider
from tests.gateway.test_serve import served
from tests.gateway.test_wheel import NodeProvider, unpacked_wheel
from tests.gateway.world import GatewayWorld
from tests.web.browser import CHROMIUM_OPTIONS, Network, chromium
from threadkeep.identity import Owner
from threadkeep.testing import ScriptedModel
from tools import web

open_gateway = gateway_conftest.open_gateway
provider = gateway_conftest.provider


INSTALLED_GRAPH = """
import asyncio
from pathlib import Path

import threadkeep
from threadkeep.testing import ScriptedModel

class Model(ScriptedModel):
    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        Path("prompts.txt").write_text(str(messages))
        async for chunk in super()._astream(messages, stop, run_manager, **kwargs):
            await asyncio.sleep({pause})
            yield chunk

def graph(tk):
    assert threadkeep.__file__.startswith({package!r}), threadkeep.__file__
    return tk.per_run_owner().graph(model=Model(replies={replies!r}))
"""

PATIENCE_MILLISECONDS = 30_000
"""How long a test waits for what a page shows, on a machine with other work."""

expect.set_options(timeout=PATIENCE_MILLISECONDS)


def missing(what: str) -> NoReturn:
    """Skip the test, or fail it in continuous integration."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a Chromium, leave one test that needs it; it is skipped and says what is missing."""
    if os.environ.get("CI") or chromium() is not None:
        return
    driven = [item for item in items if "browser" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=driven[1:])
    items[:] = [item for item in items if item not in driven[1:]]


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder of the built page."""
    try:
        return web.build()
    except (RuntimeError, subprocess.CalledProcessError) as error:
        missing(f"The web page cannot be built: {error}")


@pytest.fixture(scope="module")
def browser(assets: Path) -> Iterator[Browser]:
    """A Chromium of this machine. It runs an event loop, so a module that uses it has no asynchronous test."""
    program = chromium()
    if program is None:
        missing("There is no Chromium for the tests of the web page; on Debian: apt install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=list(CHROMIUM_OPTIONS))
        yield opened
        opened.close()


class Site:
    """A server with users of an OIDC provider, as browsers reach it.

    Attributes:
        browser: The browser.
        network: What is between the server and the browsers.
        foreign: The addresses outside it that a page asked for.
        problems: What pages wrote to their consoles as errors, and errors of scripts.
    """

    def __init__(self, network: Network, provider: OidcProvider | NodeProvider, browser: Browser) -> None:
        self.network = network
        self.foreign: list[str] = []
        self.problems: list[str] = []
        self._provider = provider
        self.browser = browser
        self._contexts: list[BrowserContext] = []

    def open(self, user: str = "ana", *, script: str = "", **options: Any) -> Page:
        """Return a page of a browser in which *user* has signed in; *script* runs first in every document."""
        context = self.browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        self._contexts.append(context)
        context.set_default_timeout(PATIENCE_MILLISECONDS)
        if script:
            context.add_init_script(script)
        page = context.new_page()
        page.on("request", lambda request: self._note(request.url))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        self._choose(user)
        context.request.get(f"{self.network.origin}/auth/login")
        page.goto(self.network.origin)
        page.get_by_label("Message", exact=True).wait_for()
        return page

    def sign_in(self, page: Page, user: str) -> None:
        """Sign in by the button of the page."""
        self._choose(user)
        page.goto(self.network.origin)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_label("Message", exact=True).wait_for()

    def _choose(self, user: str) -> None:
        """Have the provider sign in *user*; the npm package takes one from a hint in the address."""
        if isinstance(self._provider, OidcProvider):
            self._provider.user = user

    def owner(self, user: str) -> Owner:
        """Return the owner that a user of the provider is."""
        return Owner(user, self._provider.origin)

    def close(self) -> None:
        """Close the browsers."""
        for context in self._contexts:
            context.close()

    def _note(self, url: str) -> None:
        parts = urlsplit(url)
        known = {urlsplit(self.network.origin).netloc, urlsplit(self._provider.origin).netloc}
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc not in known:
            self.foreign.append(url)


class GatewaySite(Site):
    """A gateway of this process, from the sources.

    Attributes:
        gateway: The gateway.
    """

    def __init__(self, gateway: GatewayWorld, network: Network, provider: OidcProvider, browser: Browser) -> None:
        super().__init__(network, provider, browser)
        self.gateway = gateway


OpenSite = Callable[..., GatewaySite]
OpenInstalled = Callable[..., Site]


@pytest.fixture
def open_site(browser: Browser, provider: OidcProvider, tmp_path: Path) -> Iterator[OpenSite]:
    """Return what opens a site for this test."""
    with ExitStack() as stack:

        def opened(model: ScriptedModel | None = None, **options: Any) -> GatewaySite:
            network = stack.enter_context(Network())
            settings: dict[str, Any] = {"issuers": (provider.origin,), "audience": AUDIENCE, "client_id": CLIENT_ID}
            settings |= {"public_url": network.origin, "max_requests_per_minute": 10**6, **options}
            url = f"sqlite:///{tmp_path / 'memory.db'}"
            gateway = stack.enter_context(GatewayWorld(url, model or ScriptedModel(), **settings))
            network.target = urlsplit(gateway.origin).port or 0
            site = GatewaySite(gateway, network, provider, browser)
            stack.callback(site.close)
            return site

        yield opened


@pytest.fixture(scope="session")
def package(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an unpacked wheel with the built page."""
    del assets
    return unpacked_wheel(tmp_path_factory, "wheel-with-page")


@pytest.fixture
def open_installed(browser: Browser, package: Path, provider: OidcProvider, tmp_path: Path) -> Iterator[OpenInstalled]:
    """Return what starts ``threadkeep serve`` from the wheel, with a model that gives these replies.

    With ``certified``, users sign in at the npm package oidc-provider. The model writes each prompt to prompts.txt.
    """
    with ExitStack() as stack:

        def opened(*replies: str, pause: float = 0.0, certified: bool = False, **environment: str) -> Site:
            network = stack.enter_context(Network())
            issuer = stack.enter_context(NodeProvider.opened(public_url=network.origin)) if certified else provider
            module = INSTALLED_GRAPH.format(package=str(package), replies=replies, pause=pause)
            (tmp_path / "installed_module.py").write_text(module)
            variables = {
                "THREADKEEP_SINGLE_USER": "",
                "THREADKEEP_ISSUERS": issuer.origin,
                "THREADKEEP_AUDIENCE": AUDIENCE,
                "THREADKEEP_CLIENT_ID": CLIENT_ID,
                "THREADKEEP_PUBLIC_URL": network.origin,
                **environment,
            }
            server = served(tmp_path, "--graph", "installed_module:graph", package=package, **variables)
            network.target = urlsplit(stack.enter_context(server).origin).port or 0
            site = Site(network, issuer, browser)
            stack.callback(site.close)
            return site

        yield opened
