"""What a login keeps until the issuer sends the browser back: sealed in a cookie, so that a login writes nothing."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

if TYPE_CHECKING:
    from threadkeep.gateway.shared_secret import SharedSecret

_PURPOSE: Final = b"threadkeep login cookie"
_HEADER: Final = {"alg": "dir", "enc": "A256GCM"}


def _random() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True)
class LoginState:
    """A login that has begun.

    Attributes:
        return_to: Where the browser goes after it.
        expires_at: When it can no longer be finished, in seconds since 1970.
        state: What the issuer returns with the browser.
        nonce: What the ID token has to repeat.
        verifier: The secret of PKCE, 43 characters.
    """

    return_to: str
    expires_at: float
    state: str = field(default_factory=_random)
    nonce: str = field(default_factory=_random)
    verifier: str = field(default_factory=_random)

    async def seal(self, secret: SharedSecret) -> str:
        """Return the value of the cookie: encrypted and authenticated."""
        key = _key(await secret.current())
        return jwe.encrypt_compact(_HEADER, json.dumps(asdict(self)), key, [*_HEADER.values()])


async def open_login(cookie: str, state: str, secret: SharedSecret, *, now: datetime) -> LoginState | None:
    """Return the login of a cookie; ``None``: it is forged, expired, or not the one that the issuer answers."""
    async for one in secret.candidates():
        try:
            value = jwe.decrypt_compact(cookie, _key(one), [*_HEADER.values()]).plaintext
        except (JoseError, ValueError):
            continue
        login = LoginState(**json.loads(value or b"{}"))
        fits = hmac.compare_digest(login.state.encode(), state.encode("utf-8", "replace"))
        return login if fits and now.timestamp() < login.expires_at else None
    return None


def _key(secret: bytes) -> OctKey:
    return OctKey.import_key(hmac.digest(secret, _PURPOSE, hashlib.sha256))
