"""Credentials and pending authorizations, and the rows that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import urlsplit

from threadkeep.ids import short_digest
from threadkeep.memories.codec import AUTHORIZATIONS, CREDENTIALS, SECRET, moment_of
from threadkeep.storage.interface import Put, Ref

if TYPE_CHECKING:
    from threadkeep.identity import Owner
    from threadkeep.storage.interface import Expectation, Item

AUTHORIZATION_LIFETIME: Final = timedelta(minutes=10)
"""How long a user has for the consent at the authorization server."""

EARLY: Final = timedelta(seconds=30)
"""A token is refreshed so long before it expires: clocks differ, and a request takes time."""


@dataclass(frozen=True, slots=True)
class Authorization:
    """A consent that the user has to give.

    Attributes:
        url: Where the user's browser goes; the authorization server sends it back to the redirect URI.
        state: Comes back with the code; pass both to ``finish``.
        expires_at: Until when.
    """

    url: str
    state: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Credential:
    """A user's access to an MCP server. It holds no secret.

    Attributes:
        server: The URL of the server.
        issuer: The authorization server.
        scopes: What was granted.
        connected_at: When the user consented.
        expires_at: When the access token expires; ``None``: the server did not say. It is refreshed.
        state: ``connected``; or ``ended``: the authorization server refused to refresh it, so the user must consent
            again.
    """

    server: str
    issuer: str
    scopes: tuple[str, ...]
    connected_at: datetime
    expires_at: datetime | None
    state: Literal["connected", "ended"]


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """How the authorization server of an MCP server is reached, and as which client.

    Attributes:
        registration: The client's registration, as the server wrote it (RFC 7591).
        issuer: The authorization server.
        token_endpoint: Where tokens are issued.
        revocation_endpoint: Where they are revoked (RFC 7009); ``None``: nowhere.
        resource: The resource that tokens are for (RFC 8707); ``None``: it is not named.
    """

    registration: Mapping[str, Any] = field(repr=False)
    issuer: str
    token_endpoint: str
    revocation_endpoint: str | None
    resource: str | None


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the authorization server issued.

    Attributes:
        access: Sent to the MCP server.
        refresh: Exchanged for the next one; ``None``: there is none.
        expires_at: When *access* expires; ``None``: unknown.
        scopes: What was granted.
    """

    access: str = field(repr=False)
    refresh: str | None = field(repr=False)
    expires_at: datetime | None
    scopes: tuple[str, ...]

    def is_fresh(self, now: datetime) -> bool:
        """Whether the access token can be sent at *now*."""
        return self.expires_at is None or now + EARLY < self.expires_at


@dataclass(frozen=True, slots=True)
class StoredCredential:
    """A credential with its secrets, as it is stored.

    Attributes:
        server: The URL of the server.
        client: The client at its authorization server.
        tokens: The tokens; ``None``: the access has ended.
        connected_at: When the user consented.
        claimed_until: Until when a process refreshes the tokens; ``None``: none does.
        revision: Of the row.
    """

    server: str
    client: OAuthClient
    tokens: Tokens | None
    connected_at: datetime
    claimed_until: datetime | None = None
    revision: int = 0

    def public(self) -> Credential:
        """Return the credential without its secrets."""
        tokens = self.tokens
        return Credential(
            self.server,
            self.client.issuer,
            tokens.scopes if tokens else (),
            self.connected_at,
            tokens.expires_at if tokens else None,
            "connected" if tokens else "ended",
        )


@dataclass(frozen=True, slots=True)
class PendingAuthorization:
    """An authorization that the user has not finished.

    Attributes:
        server: The URL of the MCP server.
        client: The client at its authorization server.
        redirect_uri: Where the browser comes back to.
        verifier: The PKCE code verifier.
        revision: Of the row.
    """

    server: str
    client: OAuthClient
    redirect_uri: str
    verifier: str = field(repr=False)
    revision: int = 0


def credential_ref(owner: Owner, server: str) -> Ref:
    """Return where the owner's credential for *server* is."""
    return Ref(owner.partition, (CREDENTIALS, owner.label), short_digest("credential", server))


def authorization_ref(owner: Owner, state: str) -> Ref:
    """Return where the owner's authorization with *state* is; the row does not hold the state."""
    return Ref(owner.partition, (AUTHORIZATIONS, owner.label), short_digest("authorization", state))


def credential_put(stored: StoredCredential, owner: Owner, *, expect: Expectation) -> Put:
    """Return the put that writes a credential."""
    ref, public, tokens = credential_ref(owner, stored.server), stored.public(), stored.tokens
    value = {
        "server": public.server,
        "issuer": public.issuer,
        "scopes": list(public.scopes),
        "connected_at": public.connected_at.isoformat(),
        "expires_at": public.expires_at.isoformat() if public.expires_at else None,
        "state": public.state,
        SECRET: {
            "client": _spell_client(stored.client),
            "access": tokens.access if tokens else None,
            "refresh": tokens.refresh if tokens else None,
            "claimed_until": stored.claimed_until.isoformat() if stored.claimed_until else None,
        },
    }
    return Put(ref.namespace, ref.key, value, expect=expect)


def credential_of(item: Item) -> StoredCredential | None:
    """Read a credential; ``None`` where the row is none."""
    value, secret = item.value, item.value.get(SECRET)
    connected_at = moment_of(value.get("connected_at"))
    if not isinstance(secret, dict) or connected_at is None:
        return None
    fields = cast("dict[str, Any]", secret)
    access, refresh = fields.get("access"), fields.get("refresh")
    tokens = None
    if isinstance(access, str):
        expires_at = moment_of(value.get("expires_at"))
        tokens = Tokens(access, refresh if isinstance(refresh, str) else None, expires_at, tuple(value["scopes"]))
    claimed = moment_of(fields.get("claimed_until"))
    client = _parse_client(fields["client"])
    return StoredCredential(str(value["server"]), client, tokens, connected_at, claimed, item.revision)


def authorization_put(pending: PendingAuthorization, owner: Owner, state: str) -> Put:
    """Return the put that writes a pending authorization; it goes when it expires."""
    ref = authorization_ref(owner, state)
    value = {
        "server": pending.server,
        SECRET: {
            "client": _spell_client(pending.client),
            "redirect_uri": pending.redirect_uri,
            "verifier": pending.verifier,
        },
    }
    return Put(ref.namespace, ref.key, value, ttl=AUTHORIZATION_LIFETIME, expect="absent")


def authorization_of(item: Item) -> PendingAuthorization:
    """Read a pending authorization."""
    secret = item.value[SECRET]
    return PendingAuthorization(
        str(item.value["server"]),
        _parse_client(secret["client"]),
        str(secret["redirect_uri"]),
        str(secret["verifier"]),
        item.revision,
    )


def _spell_client(client: OAuthClient) -> dict[str, Any]:
    return {
        "registration": dict(client.registration),
        "issuer": client.issuer,
        "token_endpoint": client.token_endpoint,
        "revocation_endpoint": client.revocation_endpoint,
        "resource": client.resource,
    }


def _parse_client(row: Mapping[str, Any]) -> OAuthClient:
    return OAuthClient(
        row["registration"], row["issuer"], row["token_endpoint"], row["revocation_endpoint"], row["resource"]
    )


def require_private(url: str) -> None:
    """Check that no third party can read what is sent to *url*: https, or this machine.

    Raises:
        ValueError: It is neither, or no URL.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost"):
        return
    msg = "its url must begin with https:// (http:// on this machine only)"
    raise ValueError(msg)
