"""Browser sessions: a login at the issuer by authorization code with PKCE, and a cookie. Tokens stay on the server."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import httpx
from cachetools import TTLCache

from threadkeep.errors import InvalidInputError
from threadkeep.gateway.auth.claims import ID_TYPES, InvalidTokenError, scopes_of, text_claim
from threadkeep.gateway.auth.login_state import LoginState, open_login
from threadkeep.gateway.auth.reading import read_in_time
from threadkeep.gateway.principals import SCOPES, USER_SCOPES, Principal
from threadkeep.gateway.public_errors import ProblemError
from threadkeep.gateway.shared_secret import SharedSecret
from threadkeep.identity import Owner
from threadkeep.ids import base64url
from threadkeep.observability import log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import Request
    from langgraph.store.base import BaseStore

    from threadkeep.clock import Clock
    from threadkeep.concurrency import TimeoutBudget
    from threadkeep.gateway.auth.issuers import Issuer, TokenVerifier
    from threadkeep.gateway.settings import GatewaySettings

COOKIE: Final = "__Host-threadkeep"
LOGIN_COOKIE: Final = "__Host-threadkeep-login"
CSRF_HEADER: Final = "X-CSRF-Token"
IDLE: Final = timedelta(minutes=30)
LIFETIME: Final = timedelta(hours=12)
LOGIN_MINUTES: Final = 10
CACHE_SECONDS: Final = 2.0
"""How long a process uses a session without reading it again; so one that ended is refused after that time."""

_SESSIONS: Final = ("threadkeep", "gateway", "sessions")
_USES: Final = ("threadkeep", "gateway", "session_uses")
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_SEEN: Final = timedelta(minutes=1)
_RELATIVE: Final = re.compile(r"/(?![/\\])[!-\[\]-~]*", re.ASCII)
_LOGOUT_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"
_TIMEOUT_SECONDS: Final = 10.0
_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that is logged in.

    Attributes:
        owner: The user.
        scopes: What it may do.
        csrf_token: What unsafe requests repeat in a header.
        created_at: When the user logged in.
        seen_at: When it was used last, within a minute.
    """

    owner: Owner
    scopes: frozenset[str]
    csrf_token: str
    created_at: datetime
    seen_at: datetime

    @property
    def expires_at(self) -> datetime:
        """When it ends if it is not used."""
        return min(self.created_at + LIFETIME, self.seen_at + IDLE)


class Sessions:
    """The sessions of all users. They are items, so every process knows them.

    When a session was used is an item of its own: a request that notes it while the session ends does not bring the
    session back.

    Args:
        store: Keeps them.
        clock: The time.
        settings: The client at the issuer, and the address of the gateway.
        verifier: Verifies the tokens of the issuer.
        budget: How long a request waits for its session.
    """

    def __init__(
        self,
        store: BaseStore,
        clock: Clock,
        settings: GatewaySettings,
        verifier: TokenVerifier,
        budget: TimeoutBudget,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._verifier = verifier
        self._budget = budget
        self._secret = SharedSecret(store)
        self._known: TTLCache[str, Session] = TTLCache(10_000, CACHE_SECONDS)
        self._origin = (settings.public_url or "").rstrip("/")

    async def begin_login(self, return_to: str) -> tuple[str, str]:
        """Return the address of the issuer to go to, and the value of the login cookie; nothing is written.

        Args:
            return_to: Where the browser goes after the login.

        Raises:
            ProblemError: *return_to* is no path here, or the issuer is unreachable.
        """
        if not _RELATIVE.fullmatch(return_to):
            detail = "return_to must be a path that begins with one slash."
            raise ProblemError(422, "input_invalid", detail)
        metadata = await self._issuer.metadata()
        login = LoginState(return_to, (self._clock.now() + timedelta(minutes=LOGIN_MINUTES)).timestamp())
        challenge = base64url(hashlib.sha256(login.verifier.encode()).digest())
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._callback,
            "scope": "openid",
            "state": login.state,
            "nonce": login.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{metadata['authorization_endpoint']}?{urlencode(query)}", await login.seal(self._secret)

    async def finish_login(self, code: str, state: str, *, browser: str, earlier: str) -> tuple[str, str]:
        """Return the value of the session cookie, and where the browser goes.

        Args:
            code: What the issuer gave.
            state: What the issuer returned.
            browser: The value of the login cookie.
            earlier: The value of an earlier session cookie; that session ends.

        Raises:
            ProblemError: The login is not one of this browser, or the issuer refuses the code.
        """
        login = await open_login(browser, state, self._secret, now=self._clock.now())
        if login is None:
            raise _login_failed()
        claims = await self._redeem(code, login)
        try:
            owner = self._verifier.owner_of(claims)
            subject = text_claim(claims, "sub")
        except (InvalidTokenError, InvalidInputError) as error:
            raise _login_failed() from error
        settings = self._settings
        groups = {name: value for name, value in claims.items() if name == settings.groups_claim}
        scopes = SCOPES & (USER_SCOPES | scopes_of(groups, settings.groups_claim, settings.group_scopes))
        now, secret = self._clock.now().isoformat(), secrets.token_urlsafe(32)
        value = {
            "user_id": owner.user_id,
            "tenant": owner.tenant,
            "scopes": sorted(scopes),
            "csrf_token": secrets.token_urlsafe(32),
            "created_at": now,
            "subject": subject,
            "sid": claims.get("sid"),
        }
        if earlier:
            await self.end(earlier)
        await self._put(_SESSIONS, _digest(secret), value)
        return secret, login.return_to

    async def find(self, secret: str) -> Session | None:
        """Return the session of a cookie, or None if there is none or it has ended.

        Raises:
            StorageUnavailableError: The storage does not answer in time.
        """
        place, now = _digest(secret), self._clock.now()
        session = self._known.get(place)
        if session is None:
            session = await read_in_time(self._budget, self._read(place, now))
        return session if session is not None and now < session.expires_at else None

    async def _read(self, place: str, now: datetime) -> Session | None:
        item = await self._store.aget(_SESSIONS, place)
        if item is None:
            return None
        use = await self._store.aget(_USES, place)
        session = _session_of(item.value, seen_at=item.value["created_at"] if use is None else use.value["at"])
        if now < session.expires_at and now - session.seen_at >= _SEEN:
            await self._put(_USES, place, {"at": now.isoformat()})
            session = replace(session, seen_at=now)
        self._known[place] = session
        return session

    async def principal(self, request: Request) -> Principal | None:
        """Return who makes a request with a session cookie.

        Raises:
            ProblemError: A request that changes something has not the CSRF token, or comes from elsewhere.
        """
        secret = request.cookies.get(COOKIE)
        session = None if secret is None else await self.find(secret)
        if session is None:
            return None
        if request.method not in _SAFE_METHODS:
            token = request.headers.get(CSRF_HEADER, "")
            matches = hmac.compare_digest(token.encode(), session.csrf_token.encode())
            if not matches or request.headers.get("origin") != self._origin:
                detail = f"The request needs the session's {CSRF_HEADER} and the Origin of this server."
                raise ProblemError(403, "csrf_refused", detail)
        return Principal(session.owner, session.scopes, session.owner.user_id)

    async def end(self, secret: str) -> None:
        """End the session of a cookie; other processes refuse it within 2 seconds."""
        place = _digest(secret)
        await self._store.adelete(_SESSIONS, place)
        await self._store.adelete(_USES, place)
        self._known.pop(place, None)

    async def end_by_issuer(self, token: str) -> None:
        """End the sessions that a logout token of the issuer names.

        Raises:
            ProblemError: The token is invalid.
        """
        audience = self._settings.client_id or ""
        refused = ProblemError(400, "invalid_request", "The logout token is invalid.")
        try:
            claims = await self._verifier.verify_claims(token, audience=audience, types=("logout+jwt", "jwt"))
        except InvalidTokenError as error:
            raise refused from error
        events = claims.get("events")
        if not isinstance(events, dict) or _LOGOUT_EVENT not in events or "nonce" in claims:
            raise refused
        if claims.get("iss") != self._issuer.url:  # browsers log in at one issuer
            raise refused
        named = {name: claims[claim] for name, claim in (("sid", "sid"), ("subject", "sub")) if claim in claims}
        if not named or not all(isinstance(value, str) and value for value in named.values()):
            raise refused
        while found := await self._store.asearch(_SESSIONS, filter=named, limit=_PAGE):
            for item in found:
                await self._store.adelete(_SESSIONS, item.key)
        self._known.clear()

    async def logout_url(self) -> str | None:
        """Return where the user logs out of the issuer, too, if it has such a place."""
        url = (await self._issuer.metadata()).get("end_session_endpoint")
        return url if isinstance(url, str) else None

    @property
    def _issuer(self) -> Issuer:
        return self._verifier.issuers[self._settings.issuers[0]]

    @property
    def _callback(self) -> str:
        return f"{self._origin}/auth/callback"

    async def _put(self, namespace: tuple[str, ...], place: str, value: dict[str, Any]) -> None:
        await self._store.aput(namespace, place, value, index=False, ttl=LIFETIME / timedelta(minutes=1))

    async def _redeem(self, code: str, login: LoginState) -> Mapping[str, Any]:
        """Return the claims of the ID token that the issuer gives for *code*."""
        settings, metadata = self._settings, await self._issuer.metadata()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._callback,
            "code_verifier": login.verifier,
            "client_id": settings.client_id,
        }
        secret = settings.client_secret
        basic = httpx.Auth() if secret is None else httpx.BasicAuth(settings.client_id or "", secret.get_secret_value())
        try:
            async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as client:
                answer = await client.post(metadata["token_endpoint"], data=form, auth=basic)
            token = json.loads(answer.content)["id_token"] if answer.status_code == httpx.codes.OK else None
            claims = await self._verifier.verify_claims(str(token), audience=settings.client_id or "", types=ID_TYPES)
        except httpx.HTTPError as error:
            detail = "The issuer is unreachable; try again."
            raise ProblemError(503, "issuer_unavailable", detail, retry_after=5) from error
        except (InvalidTokenError, ValueError, KeyError, TypeError) as error:
            log.warning("A login failed: %s", error)
            raise _login_failed() from error
        if claims.get("iss") != self._issuer.url or claims.get("nonce") != login.nonce:
            raise _login_failed()
        return claims


def _login_failed() -> ProblemError:
    return ProblemError(400, "login_failed", "The login failed; begin again at /auth/login.")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _session_of(value: Mapping[str, Any], *, seen_at: str) -> Session:
    return Session(
        Owner(str(value["user_id"]), str(value["tenant"])),
        frozenset(value["scopes"]),
        str(value["csrf_token"]),
        datetime.fromisoformat(value["created_at"]),
        datetime.fromisoformat(seen_at),
    )
