"""A small OIDC provider on the loopback interface: discovery, keys, the code flow with PKCE, and tokens."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Annotated, Any, Final, Self
from urllib.parse import urlencode

import uvicorn
from fastapi import FastAPI, Form
from fastapi.responses import JSONResponse, RedirectResponse
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

AUDIENCE: Final = "https://memory.example"
CLIENT_ID: Final = "web"
ALL_SCOPES: Final = "chat memory:read memory:write memory:review"


class LoopbackServer:
    """An application on a free port of the loopback interface, in a thread of its own."""

    def __init__(self, app: Any) -> None:
        self._server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve()))

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        waited = threading.Event()
        while not self._server.started:
            waited.wait(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()


class OidcProvider(LoopbackServer):
    """The provider. Every user is logged in there; the parameter ``login_hint`` chooses one.

    Args:
        key: Its first key, ``key-1``; by default a new one.

    Attributes:
        fetches: How often its keys were fetched.
        user: Who logs in without a hint.
        groups: The groups of each user.
        down: Whether it answers every request with an error.
    """

    def __init__(self, key: RSAKey | None = None) -> None:
        self.fetches = 0
        self.user = "ana"
        self.groups: dict[str, list[str]] = {}
        self.down = False
        self.codes: dict[str, dict[str, str]] = {}
        self.keys: dict[str, Any] = {}
        self.rotate("key-1", key=key)
        app = FastAPI()

        @app.get("/.well-known/openid-configuration")
        async def discovery() -> Any:
            if self.down:
                return JSONResponse({}, 503)
            return {
                "issuer": self.origin,
                "jwks_uri": f"{self.origin}/jwks",
                "authorization_endpoint": f"{self.origin}/authorize",
                "token_endpoint": f"{self.origin}/token",
                "end_session_endpoint": f"{self.origin}/end",
            }

        @app.get("/jwks")
        async def jwks() -> Any:
            self.fetches += 1
            if self.down:
                return JSONResponse({}, 503)
            return {"keys": [key.as_dict(private=False) for key in self.keys.values()]}

        @app.get("/authorize")
        async def authorize(
            redirect_uri: str,
            state: str,
            nonce: str,
            code_challenge: str,
            code_challenge_method: str,
            login_hint: str | None = None,
        ) -> Any:
            assert code_challenge_method == "S256"
            code = secrets.token_urlsafe(16)
            self.codes[code] = {
                "challenge": code_challenge,
                "nonce": nonce,
                "user": login_hint or self.user,
                "uri": redirect_uri,
            }
            return RedirectResponse(f"{redirect_uri}?{urlencode({'code': code, 'state': state})}", 302)

        @app.post("/token")
        async def token(
            code: Annotated[str, Form()], code_verifier: Annotated[str, Form()], redirect_uri: Annotated[str, Form()]
        ) -> Any:
            grant = self.codes.pop(code, None)
            challenge = base64.urlsafe_b64encode(hashlib.sha256(code_verifier.encode()).digest()).rstrip(b"=").decode()
            if grant is None or grant["challenge"] != challenge or grant["uri"] != redirect_uri:
                return JSONResponse({"error": "invalid_grant"}, 400)
            claims = self.claims(grant["user"], aud=CLIENT_ID, nonce=grant["nonce"], sid=f"sid-{grant['user']}")
            claims |= {"groups": groups} if (groups := self.groups.get(grant["user"])) else {}
            identity = self.sign(claims, {"typ": "JWT"})
            return {"id_token": identity, "access_token": self.token(grant["user"]), "token_type": "Bearer"}

        super().__init__(app)

    def rotate(self, key_id: str, kind: str = "RSA", *, keep: bool = False, key: RSAKey | None = None) -> None:
        """Sign with *key*, or a new one; without *keep*, the earlier ones are withdrawn."""
        parameters: Any = {"kid": key_id, "use": "sig"}
        if not keep:
            self.keys.clear()
        if key is not None:
            self.keys[key_id] = key
        elif kind == "RSA":
            self.keys[key_id] = RSAKey.generate_key(2048, parameters)
        elif kind == "EC":
            self.keys[key_id] = ECKey.generate_key("P-256", parameters)
        else:
            self.keys[key_id] = OKPKey.generate_key("Ed25519", parameters)
        self.key_id = key_id
        self.algorithm = {"RSA": "RS256", "EC": "ES256", "OKP": "Ed25519"}[kind]

    def claims(self, user: str = "ana", **changes: Any) -> dict[str, Any]:
        now = int(time.time())
        claims = {"iss": self.origin, "aud": AUDIENCE, "sub": user, "iat": now, "exp": now + 3600, "scope": ALL_SCOPES}
        return {name: value for name, value in {**claims, **changes}.items() if value is not None}

    def sign(self, claims: Mapping[str, Any], header: Mapping[str, Any] | None = None) -> str:
        full = {"alg": self.algorithm, "kid": self.key_id, "typ": "at+jwt", **(header or {})}
        return jwt.encode(full, dict(claims), self.keys[self.key_id], algorithms=[full["alg"]])

    def token(self, user: str = "ana", **changes: Any) -> str:
        return self.sign(self.claims(user, **changes))

    def headers(self, user: str = "ana", **changes: Any) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token(user, **changes)}"}
