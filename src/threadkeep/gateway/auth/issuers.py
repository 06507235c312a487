"""Issuers of tokens: their keys, found by OIDC discovery, and the verification of tokens."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import math
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpx
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from threadkeep.errors import InvalidInputError, SettingsError
from threadkeep.gateway.auth.claims import TYPES, InvalidTokenError, check_claims, parse_token, scopes_of, text_claim
from threadkeep.gateway.principals import SCOPES, Principal
from threadkeep.gateway.public_errors import ProblemError
from threadkeep.identity import Owner
from threadkeep.observability import log

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from threadkeep.clock import Clock
    from threadkeep.gateway.settings import GatewaySettings

REFETCH_SECONDS: Final = 30.0
"""How long a fetch of the keys is not repeated, whether it succeeded or not."""

KEYS_SECONDS: Final = 600.0
"""How long keys are used before they are fetched again."""

_TIMEOUT_SECONDS: Final = 5.0
_MAX_BYTES: Final = 1_000_000
_ASYMMETRIC: Final = frozenset({"RSA", "EC", "OKP"})


class Issuer:
    """An issuer and its keys. The keys are kept while the issuer is unreachable.

    Args:
        url: The issuer, exactly as tokens name it.
    """

    def __init__(self, url: str) -> None:
        require_safe_url(url, "THREADKEEP_ISSUERS")
        self.url = url
        self._keys: dict[str | None, Any] | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._fetched = self._tried = 0.0
        self._failed = False
        self._metadata: Mapping[str, Any] | None = None

    @property
    def has_keys(self) -> bool:
        """Whether there are keys of it, and so tokens are verified."""
        return self._keys is not None

    @property
    def reachable(self) -> bool:
        """Whether the last fetch of its keys succeeded."""
        return self._keys is not None and not self._failed

    async def metadata(self) -> Mapping[str, Any]:
        """Return the metadata that discovery found.

        Raises:
            ProblemError: The issuer is unreachable.
        """
        if self._metadata is None:
            await self.refresh()
        if self._metadata is None:
            raise self._unavailable()
        return self._metadata

    async def key(self, key_id: str | None) -> Any:
        """Return the key with this id; without an id, the only key.

        Raises:
            InvalidTokenError: There is no such key.
            ProblemError: The issuer is unreachable, and the key is not known.
        """
        if self._is_due():
            await self.refresh()
        if (key := self._find(key_id)) is None:
            await self.refresh()
            key = self._find(key_id)
        if key is None and not self.reachable:
            raise self._unavailable()
        if key is None:
            msg = "The issuer has no such key."
            raise InvalidTokenError(msg)
        return key

    async def refresh(self) -> None:
        """Fetch the keys, unless that was tried in the last 30 seconds; calls at the same time share one fetch."""
        if (fetching := self._begin_fetch()) is not None:
            await asyncio.shield(fetching)

    async def check(self) -> None:
        """Fetch the keys if they are missing, old, or were not fetched the last time; with keys, without waiting."""
        if not self.has_keys:
            await self.refresh()
        elif self._failed or self._is_due():
            self._begin_fetch()

    def _begin_fetch(self) -> asyncio.Task[None] | None:
        if self._fetching is None and self._seconds_to_fetch() <= 0:
            self._fetching = asyncio.create_task(self._fetch())
        return self._fetching

    def _seconds_to_fetch(self) -> float:
        """Return in how many seconds the keys may be fetched again."""
        return self._tried + REFETCH_SECONDS - asyncio.get_running_loop().time() if self._tried else 0.0

    def _is_due(self) -> bool:
        return self._keys is None or asyncio.get_running_loop().time() - self._fetched > KEYS_SECONDS

    def _unavailable(self) -> ProblemError:
        detail, seconds = "The issuer of the token is unreachable; try again.", math.ceil(self._seconds_to_fetch())
        return ProblemError(503, "issuer_unavailable", detail, retry_after=max(1, seconds))

    def _find(self, key_id: str | None) -> Any:
        keys = self._keys or {}
        if key_id is None:
            return next(iter(keys.values())) if len(keys) == 1 else None
        return keys.get(key_id)

    async def _fetch(self) -> None:
        try:
            self._metadata, self._keys = await self._discover()
            self._fetched = asyncio.get_running_loop().time()
            self._failed = False
        except (httpx.HTTPError, httpx.InvalidURL, JoseError, ValueError, KeyError, TypeError, RecursionError) as error:
            self._failed = True
            log.warning("The issuer %s is unreachable, or its keys are invalid: %s", self.url, error)
        finally:
            self._tried = asyncio.get_running_loop().time()
            self._fetching = None

    async def _discover(self) -> tuple[dict[str, Any], dict[str | None, Any]]:
        async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as client:
            metadata = await fetch_json(client, f"{self.url.rstrip('/')}/.well-known/openid-configuration")
            if metadata.get("issuer") != self.url:
                msg = "its metadata name another issuer."
                raise ValueError(msg)
            require_safe_url(metadata["jwks_uri"], "jwks_uri")
            found = await fetch_json(client, metadata["jwks_uri"])
        usable = [one for one in found["keys"] if one.get("kty") in _ASYMMETRIC and one.get("use", "sig") == "sig"]
        keys: dict[str | None, Any] = {}
        for one in usable:
            try:
                (key,) = KeySet.import_key_set({"keys": [one]}).keys
            except (JoseError, ValueError) as error:
                log.warning("A key of the issuer %s cannot be used: %s", self.url, error)
                continue
            keys[one.get("kid")] = key
        return metadata, keys


class TokenVerifier:
    """Turns bearer tokens into principals.

    Args:
        settings: The issuers, the audience, and which claims name the owner and the scopes.
        clock: The time that tokens are valid at.
    """

    def __init__(self, settings: GatewaySettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self.issuers = {url: Issuer(url) for url in settings.issuers}

    async def verify(self, token: str) -> Principal:
        """Return the principal of *token*.

        Raises:
            InvalidTokenError: The token is invalid.
            ProblemError: The issuer is unreachable, and the key of the token is not known.
        """
        settings = self._settings
        claims = await self.verify_claims(token, audience=settings.audience or "")
        try:
            owner = self.owner_of(claims)
        except InvalidInputError as error:
            raise InvalidTokenError(str(error)) from error
        scopes = SCOPES & scopes_of(claims, settings.groups_claim, settings.group_scopes)
        return Principal(owner, scopes, owner.user_id)

    async def verify_claims(self, token: str, *, audience: str, types: Collection[str] = TYPES) -> Mapping[str, Any]:
        """Return the claims of a *token* of one of *types* for *audience*; raises as :meth:`verify`."""
        parsed = parse_token(token, self._settings.token_algorithms, types)
        issuer = self.issuers.get(parsed.issuer)
        if issuer is None:
            msg = "The issuer is not in the list."
            raise InvalidTokenError(msg)
        check_claims(parsed.claims, audience=audience, now=self._clock.now().timestamp())
        key = await issuer.key(parsed.key_id)
        if key.get("alg") not in (None, parsed.algorithm):
            msg = "The key is for another algorithm."
            raise InvalidTokenError(msg)
        try:
            jws.deserialize_compact(token, key, algorithms=[parsed.algorithm])
        except (JoseError, ValueError, TypeError) as error:
            raise InvalidTokenError(str(error)) from error
        return parsed.claims

    def owner_of(self, claims: Mapping[str, Any]) -> Owner:
        """Return the owner that verified claims name.

        Raises:
            InvalidTokenError: A claim is missing.
        """
        settings = self._settings
        tenant = text_claim(claims, "iss")
        if settings.tenant_claim is not None:
            # A line end separates them: no issuer has one.
            tenant = f"{tenant}\n{text_claim(claims, settings.tenant_claim)}"
        return Owner(text_claim(claims, settings.owner_claim), tenant)


async def fetch_json(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    """Return the JSON object at *url*; redirects are not followed.

    Raises:
        httpx.HTTPError: The server is unreachable, or its answer is an error.
        ValueError: The answer is too large, or no object.
    """
    async with client.stream("GET", url) as response:
        if response.status_code != httpx.codes.OK:
            msg = f"{url} answers with status {response.status_code}."
            raise ValueError(msg)
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _MAX_BYTES:
                msg = f"{url} answers with more than {_MAX_BYTES:,} bytes."
                raise ValueError(msg)
    document = json.loads(body)
    if not isinstance(document, dict):
        msg = f"{url} answers with no JSON object."
        raise TypeError(msg)
    return document  # pyright: ignore[reportUnknownVariableType] - names of a JSON object are texts


def require_safe_url(url: str, variable: str) -> None:
    """Refuse a URL that is not HTTPS; on the loopback interface, HTTP will do.

    Raises:
        SettingsError: The URL is refused.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:  # no address, or no number of a port
        host = ""
    else:
        if host and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))):
            return
    msg = f"{variable} has the URL {url!r}; it must begin with https:// and name a host."
    raise SettingsError(msg, variable=variable)


def is_loopback(host: str) -> bool:
    """Whether *host* names the loopback interface."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
