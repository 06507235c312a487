"""Browser sessions with a real login at a provider on the loopback interface."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from http.cookies import SimpleCookie
from typing import Any, Self
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import pytest

from tests.gateway.conftest import Open
from tests.gateway.oidc import AUDIENCE, CLIENT_ID, OidcProvider
from tests.gateway.test_serve import Served
from tests.gateway.world import GatewayWorld
from threadkeep.errors import SettingsError
from threadkeep.gateway.auth.sessions import COOKIE, LOGIN_COOKIE, Sessions
from threadkeep.gateway.settings import GatewaySettings
from threadkeep.gateway.shared_secret import SharedSecret
from threadkeep.storage.interface import iterate_items, iterate_partitions
from threadkeep.testing import FrozenClock, ScriptedModel

PUBLIC = "http://localhost:8000"
EVENTS = {"http://schemas.openid.net/event/backchannel-logout": {}}


def with_browsers(
    open_gateway: Open, provider: OidcProvider, url: str | None = None, model: ScriptedModel | None = None
) -> GatewayWorld:
    settings: Any = {"issuers": (provider.origin,), "audience": AUDIENCE}
    return open_gateway(model, url=url, client_id=CLIENT_ID, public_url=PUBLIC, **settings)


@pytest.fixture
def browser_gateway(open_gateway: Open, provider: OidcProvider) -> GatewayWorld:
    return with_browsers(open_gateway, provider)


def cookies_of(answer: httpx.Response) -> dict[str, str]:
    """Return the cookies that an answer sets, and check their attributes."""
    found: dict[str, str] = {}
    for header in answer.headers.get_list("set-cookie"):
        cookie: Any = SimpleCookie(header)
        for name, morsel in cookie.items():
            assert name.startswith("__Host-")
            assert (morsel["path"], morsel["httponly"], morsel["secure"]) == ("/", True, True)
            assert (morsel["samesite"], morsel["domain"]) == ("lax", "")
            found[name] = morsel.value
    return found


class Browser:
    """A browser: it keeps cookies, also those for HTTPS only, and follows the login."""

    def __init__(self, gateway: GatewayWorld | Served) -> None:
        self.client = httpx.AsyncClient(base_url=gateway.origin, timeout=60)
        self.issuer = httpx.AsyncClient()
        self.cookies: dict[str, str] = {}
        self.csrf = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()
        await self.issuer.aclose()

    async def request(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        given = {"Cookie": cookie, **(headers or {})} if cookie else dict(headers or {})
        answer = await self.client.request(method, path, headers=given, **more)
        self.cookies |= cookies_of(answer)
        self.cookies = {name: value for name, value in self.cookies.items() if value}
        return answer

    async def start(self, return_to: str = "/page") -> dict[str, str]:
        """Go to the issuer and return what it sends back."""
        leave = await self.request("GET", "/auth/login", params={"return_to": return_to})
        assert leave.status_code == 303, leave.text
        location = leave.headers["location"]
        while not location.startswith(f"{PUBLIC}/auth/callback?"):
            back = await self.issuer.get(location)
            assert back.is_redirect, back.text
            location = urljoin(location, back.headers["location"])
        return {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}

    async def login(self) -> httpx.Response:
        answer = await self.request("GET", "/auth/callback", params=await self.start())
        assert answer.status_code == 303, answer.text
        self.csrf = (await self.request("GET", "/auth/session")).json()["csrf_token"]
        return answer

    async def logout_at_issuer(self, url: str) -> None:
        """Log out at the address that ``/auth/logout`` returned, and confirm it."""
        page = (await self.issuer.get(url)).text
        form = dict(re.findall(r'name="(xsrf)" value="([^"]+)"', page))
        action = re.search(r'action="([^"]+)"', page)
        assert action, page
        answer = await self.issuer.post(action[1], data={**form, "logout": "yes"})
        assert answer.status_code < 400, answer.text

    def safe(self, **changes: str) -> dict[str, str]:
        return {"X-CSRF-Token": self.csrf, "Origin": PUBLIC, **changes}


class TestLogin:
    async def test_log_in_use_and_log_out(self, open_gateway: Open, provider: OidcProvider, storage_url: str):
        browser_gateway = with_browsers(open_gateway, provider, storage_url)
        async with Browser(browser_gateway) as browser:
            done = await browser.login()
            session = (await browser.request("GET", "/auth/session")).json()
            body = {"text": "I live in Rome."}
            added = await browser.request("POST", "/api/memories", json=body, headers=browser.safe())
            listed = await browser.request("GET", "/api/memories")
            secret = browser.cookies[COOKIE]
            out = await browser.request("POST", "/auth/logout", headers=browser.safe())
            after = await browser.request("GET", "/api/memories", headers={"Cookie": f"{COOKIE}={secret}"})
            token = await browser.client.get("/api/memories", headers=provider.headers("ana"))

        assert done.headers["location"] == "/page"
        assert LOGIN_COOKIE not in browser.cookies
        assert (session["user_id"], session["scopes"]) == (
            "ana",
            ["chat", "memory:read", "memory:review", "memory:write"],
        )
        assert added.status_code == 201
        assert listed.json() == token.json()
        assert out.json() == {"logout_url": f"{provider.origin}/end"}
        assert COOKIE not in browser.cookies
        assert after.status_code == 401

    async def test_each_login_has_a_new_session(self, browser_gateway: GatewayWorld):
        async with Browser(browser_gateway) as browser:
            await browser.login()
            first = browser.cookies[COOKIE]
            await browser.login()
            earlier = await browser.client.get("/api/memories", headers={"Cookie": f"{COOKIE}={first}"})
            now = await browser.request("GET", "/api/memories")
        assert browser.cookies[COOKIE] != first
        assert (earlier.status_code, now.status_code) == (401, 200)

    async def test_a_login_that_begins_writes_nothing(self, browser_gateway: GatewayWorld):
        """Anyone can send such a request, so many of them must not fill the storage."""

        async def stored() -> list[tuple[Any, int]]:
            found: list[tuple[Any, int]] = []
            async for partition in iterate_partitions(storage):
                found += [(item.ref, item.revision) async for item in iterate_items(storage, partition)]
            return found

        storage, loop = browser_gateway.tk.app.storage, browser_gateway.tk.app.event_loop
        async with Browser(browser_gateway) as browser:
            await browser.login()
            before = await loop.run(stored())
            for _ in range(20):
                await browser.start()
            after = await loop.run(stored())
        assert before == after

    async def test_a_login_ends_after_ten_minutes(self, browser_gateway: GatewayWorld):
        sessions = browser_gateway.app.state.gateway.sessions
        sessions._clock = clock = FrozenClock(sessions._clock.now())
        async with Browser(browser_gateway) as late, Browser(browser_gateway) as soon:
            given = [await late.start(), await soon.start()]
            clock.advance(timedelta(minutes=9))
            good = await soon.request("GET", "/auth/callback", params=given[1])
            clock.advance(timedelta(minutes=2))
            bad = await late.request("GET", "/auth/callback", params=given[0])
        assert good.status_code == 303
        assert (bad.status_code, bad.json()["code"]) == (400, "login_failed")

    async def test_a_login_goes_on_while_the_secret_is_rotated(self, open_gateway: Open, provider: OidcProvider):
        """It begins at one process, and the issuer sends the browser to another one."""
        here, other = with_browsers(open_gateway, provider), with_browsers(open_gateway, provider)
        async with Browser(here) as browser, Browser(other) as elsewhere:
            given = await browser.start()
            await SharedSecret(here.tk.store).rotate()
            elsewhere.cookies = browser.cookies
            done = await elsewhere.request("GET", "/auth/callback", params=given)
        assert done.status_code == 303

    @pytest.mark.parametrize("change", ["cut", "swapped", "plain", "empty", "long"])
    async def test_forged_login_cookies_are_refused(self, browser_gateway: GatewayWorld, change: str):
        async with Browser(browser_gateway) as browser:
            given = await browser.start()
            cookie = browser.cookies[LOGIN_COOKIE]
            header, key, nonce, text, tag = cookie.split(".")
            browser.cookies[LOGIN_COOKIE] = {
                "cut": cookie[:-2],
                "swapped": ".".join((header, key, nonce, text[:-8] + text[-8:][::-1], tag)),
                "plain": "eyJhbGciOiJub25lIn0.e30.",
                "empty": "",
                "long": "A" * 5_000,
            }[change]
            answer = await browser.request("GET", "/auth/callback", params=given)
        assert (answer.status_code, answer.json()["code"]) == (400, "login_failed")

    async def test_a_login_is_of_one_browser_and_once(self, browser_gateway: GatewayWorld):
        async with Browser(browser_gateway) as ana, Browser(browser_gateway) as other:
            given = await ana.start()
            await other.start()
            stolen = await other.request("GET", "/auth/callback", params=given)
            forged = await ana.request("GET", "/auth/callback", params={**given, "state": "x"})
            good = await ana.request("GET", "/auth/callback", params=given)
            again = await ana.request("GET", "/auth/callback", params=given)
            wrong_code = await other.request("GET", "/auth/callback", params={**await other.start(), "code": "x"})
            nothing = await other.request("GET", "/auth/callback")
        assert good.status_code == 303
        for answer in (stolen, forged, again, wrong_code, nothing):
            assert (answer.status_code, answer.json()["code"]) == (400, "login_failed")
        assert COOKIE not in other.cookies

    @pytest.mark.parametrize(
        "return_to",
        [
            "https://evil.example",
            "//evil.example",
            "/\\evil.example",
            "\\/evil",
            "evil",
            "/a\nb",
            "/\t/evil",
            "javascript:x",
        ],
    )
    async def test_redirects_stay_here(self, browser_gateway: GatewayWorld, return_to: str):
        async with Browser(browser_gateway) as browser:
            answer = await browser.request("GET", "/auth/login", params={"return_to": return_to})
        assert answer.status_code == 422

    async def test_the_tokens_of_a_login_are_no_access_tokens(
        self, browser_gateway: GatewayWorld, provider: OidcProvider
    ):
        identity = provider.token("ana", aud=CLIENT_ID)
        async with browser_gateway.client(None) as client:
            answer = await client.get("/memories", headers={"Authorization": f"Bearer {identity}"})
        assert answer.status_code == 401


class TestRequests:
    async def test_changes_need_the_token_and_the_origin(self, browser_gateway: GatewayWorld):
        async with Browser(browser_gateway) as browser:
            await browser.login()
            bad = [
                {},
                {"Origin": PUBLIC},
                {"X-CSRF-Token": browser.csrf},
                browser.safe(**{"X-CSRF-Token": "x"}),
                browser.safe(Origin="https://evil.example"),
                browser.safe(Origin="null"),
                browser.safe(Origin=PUBLIC + "/"),
            ]
            answers = [
                await browser.request(method, path, json={"text": "x"}, headers=headers)
                for headers in bad
                for method, path in (("POST", "/api/memories"), ("DELETE", "/api/threads/x"), ("POST", "/auth/logout"))
            ]
            unharmed = await browser.request("GET", "/api/memories")
        assert {(one.status_code, one.json()["code"]) for one in answers} == {(403, "csrf_refused")}
        assert unharmed.json()["memories"] == []

    @pytest.mark.parametrize("cookie", ["", "x", "A" * 43, "é", "A" * 5_000])
    async def test_other_cookies(self, browser_gateway: GatewayWorld, cookie: str):
        headers = [(b"cookie", f"{COOKIE}={cookie}".encode())]
        async with browser_gateway.client(None) as client:
            answer = await client.get("/memories", headers=headers)
        assert answer.status_code == 401

    async def test_sessions_end(self, browser_gateway: GatewayWorld):
        """After 30 minutes without a request, and 12 hours after the login."""
        sessions = browser_gateway.app.state.gateway.sessions
        clock = FrozenClock(sessions._clock.now())
        sessions._clock = clock
        async with Browser(browser_gateway) as browser, Browser(browser_gateway) as idle:
            await browser.login()
            await idle.login()
            statuses: list[int] = []
            for _ in range(25):
                clock.advance(timedelta(minutes=29))
                browser_gateway.call(sessions._known.clear)
                statuses.append((await browser.request("GET", "/api/memories")).status_code)
            ended = await idle.request("GET", "/api/memories")
        assert statuses == [200] * 24 + [401]
        assert ended.status_code == 401

    async def test_a_request_at_the_end_brings_nothing_back(self, browser_gateway: GatewayWorld):
        """It has read the session, and notes its time while the user logs out."""
        sessions = browser_gateway.app.state.gateway.sessions
        clock = FrozenClock(sessions._clock.now())
        async with Browser(browser_gateway) as browser:
            await browser.login()
            secret = browser.cookies[COOKIE]
            clock.advance(timedelta(minutes=2))

            class Ending(type(sessions._store)):
                """The store, in which the session ends behind every read of it."""

                async def aget(self, namespace: Any, key: str, **options: Any) -> Any:
                    found = await super().aget(namespace, key, **options)
                    if namespace[-1] == "sessions":
                        await ending.end(secret)
                    return found

            ending = Sessions(sessions._store, clock, sessions._settings, sessions._verifier, sessions._budget)
            store: Any = Ending.__new__(Ending)
            vars(store).update(vars(sessions._store))
            late = Sessions(store, clock, sessions._settings, sessions._verifier, sessions._budget)
            await late.find(secret)
            after = await ending.find(secret)

        assert after is None


class TestBackChannelLogout:
    @pytest.mark.parametrize("claim", ["sid", "sub"])
    async def test_the_issuer_ends_sessions(self, browser_gateway: GatewayWorld, provider: OidcProvider, claim: str):
        named = {"sid": "sid-ana", "sub": None} if claim == "sid" else {"sub": "ana"}
        other = {"sid": "sid-bo", "sub": None} if claim == "sid" else {"sub": "bo"}
        async with Browser(browser_gateway) as browser:
            await browser.login()
            statuses: list[int] = []
            for claims in (other, named):
                token = provider.sign(provider.claims(aud=CLIENT_ID, events=EVENTS, **claims), {"typ": "logout+jwt"})
                answer = await browser.client.post("/auth/backchannel_logout", data={"logout_token": token})
                statuses += [answer.status_code, (await browser.request("GET", "/api/memories")).status_code]
        assert statuses == [200, 200, 200, 401]

    async def test_another_issuer_ends_nothing(self, open_gateway: Open, provider: OidcProvider):
        """Its user with the same id is another user."""
        with OidcProvider() as other:
            settings: Any = {"issuers": (provider.origin, other.origin), "audience": AUDIENCE}
            gateway = open_gateway(client_id=CLIENT_ID, public_url=PUBLIC, **settings)
            async with Browser(gateway) as browser:
                await browser.login()
                token = other.sign(other.claims("ana", aud=CLIENT_ID, events=EVENTS), {"typ": "logout+jwt"})
                answer = await browser.client.post("/auth/backchannel_logout", data={"logout_token": token})
                still = await browser.request("GET", "/api/memories")
        assert (answer.status_code, still.status_code) == (400, 200)

    async def test_other_tokens_end_nothing(self, browser_gateway: GatewayWorld, provider: OidcProvider):
        tokens = [
            provider.token("ana", aud=CLIENT_ID),
            provider.token("ana", events=EVENTS),
            provider.token("ana", aud=CLIENT_ID, events=EVENTS, nonce="x"),
            provider.token("ana", aud=CLIENT_ID, events={}),
            provider.token("ana", aud=CLIENT_ID, events=[*EVENTS]),
            provider.sign(provider.claims(aud=CLIENT_ID, events=EVENTS, sub=None), {"typ": "logout+jwt"}),
            provider.sign(provider.claims(aud=CLIENT_ID, events=EVENTS, exp=1), {"typ": "logout+jwt"}),
            provider.token("ana", aud=CLIENT_ID, events=EVENTS)[:-3],
            "x",
        ]
        async with Browser(browser_gateway) as browser:
            await browser.login()
            for token in tokens:
                answer = await browser.client.post("/auth/backchannel_logout", data={"logout_token": token})
                assert answer.status_code == 400, token
            still = await browser.request("GET", "/api/memories")
        assert still.status_code == 200


class TestSettings:
    async def test_without_a_client_there_are_no_sessions(self, token_gateway: GatewayWorld):
        async with httpx.AsyncClient(base_url=token_gateway.origin) as client:
            answer = await client.get("/auth/login")
            session = await client.get("/auth/session")
        assert answer.status_code == 404
        assert (session.status_code, session.content) == (204, b"")

    @pytest.mark.parametrize("url", ["http://memory.example", "https://memory.example/path", "memory.example", None])
    def test_the_public_url_is_an_origin(self, url: str | None):
        with pytest.raises(SettingsError, match="THREADKEEP_PUBLIC_URL"):
            GatewaySettings(issuers=("https://a.example",), audience="a", client_id="web", public_url=url)

    def test_the_secret_is_masked(self):
        assert "hunter2" not in repr(GatewaySettings(client_secret="hunter2"))  # pyright: ignore[reportArgumentType]
