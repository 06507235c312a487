"""``tk.credentials``: the access of users to MCP servers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

from threadkeep.concurrency import retry_conflicts
from threadkeep.credentials import oauth
from threadkeep.credentials.models import (
    AUTHORIZATION_LIFETIME,
    Authorization,
    Credential,
    StoredCredential,
    Tokens,
    authorization_of,
    authorization_put,
    authorization_ref,
    credential_of,
    credential_put,
    credential_ref,
    require_private,
)
from threadkeep.errors import (
    AgentUnavailableError,
    CredentialRequiredError,
    InvalidInputError,
    RevisionConflictError,
    SettingsError,
)
from threadkeep.identity import Service, operation
from threadkeep.memories.audited_writer import ACCESS, USER
from threadkeep.memories.codec import CREDENTIALS
from threadkeep.observability import log
from threadkeep.storage.interface import Batch, Delete, Put, read_items

if TYPE_CHECKING:
    from httpx import Auth

    from threadkeep.identity import Owner

_CLAIM: Final = timedelta(seconds=30)
"""How long a process may take to refresh a token; after that another one does."""

_POLL_SECONDS: Final = 0.05

_OAUTH: Final = "oauth"
"""The author of audit entries about what the authorization server issued or refused."""


class CredentialService(Service):
    """The access of users to MCP servers, by OAuth 2.1. Tokens never leave this package but to the server they are for.

    A user consents once for each server: ``begin`` gives the URL for the browser, ``finish`` takes what comes back.
    """

    @operation
    async def begin(
        self,
        server: str,
        *,
        redirect_uri: str,
        owner: str | Owner | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
    ) -> Authorization:
        """Ask an MCP server how it is authorized, and return the URL to which the user's browser goes.

        Args:
            server: The URL of the server: ``https://``, or ``http://`` on this machine. Name servers that you trust.
            redirect_uri: The address of your application that gets ``code`` and ``state``.
            owner: The user.
            client_id: A client that is registered at the authorization server; ``None``: the client registers itself.
            client_secret: Its secret, if it has one.

        Raises:
            SettingsError: The storage is not encrypted, or ``threadkeep[mcp]`` is not installed.
            InvalidInputError: The server asks for no authorization, or its metadata cannot be used.
            AgentUnavailableError: The server or its authorization server does not answer.
        """
        owner = self._user(owner)
        self._require_encryption()
        checked_server(server)
        registration = _registered(client_id, client_secret, redirect_uri)
        if registration is None:
            registration = await self._earlier_registration(server, owner, redirect_uri)
        epoch = (await self._services.storage.position(owner.partition)).epoch
        url, state, pending = await oauth.begin(server, redirect_uri=redirect_uri, registration=registration)
        for endpoint in (url, pending.client.token_endpoint, pending.client.revocation_endpoint):
            if endpoint is not None:
                checked_server(endpoint)
        await self._services.storage.commit(Batch(owner.partition, [authorization_put(pending, owner, state)], epoch))
        return Authorization(url, state, self._services.clock.now() + AUTHORIZATION_LIFETIME)

    @operation
    async def finish(
        self, *, state: str, code: str, issuer: str | None = None, owner: str | Owner | None = None
    ) -> Credential:
        """Exchange what the authorization server sent to the redirect URI for a credential.

        Args:
            state: The parameter ``state``. It is good once, for the user that began, for 10 minutes.
            code: The parameter ``code``.
            issuer: The parameter ``iss``, if it came.
            owner: The user who came back: the one that your application authenticated.

        Raises:
            CredentialRequiredError: The state is not one of this user, or was used or expired; or the code is refused.
            AgentUnavailableError: The authorization server does not answer.
        """
        owner, storage = self._user(owner), self._services.storage
        epoch = (await storage.position(owner.partition)).epoch
        ref = authorization_ref(owner, state)
        (item,) = await storage.get([ref])
        if item is None:
            raise _unknown_state()
        try:
            await storage.commit(Batch(owner.partition, [Delete(ref.namespace, ref.key, item.revision)], epoch))
        except RevisionConflictError as error:  # it was used at the same time
            raise _unknown_state() from error
        pending = authorization_of(item)
        if issuer is not None and issuer.rstrip("/") != pending.client.issuer.rstrip("/"):
            msg = "The code comes from another authorization server than the one that was asked; connect again."
            raise CredentialRequiredError(msg, server=pending.server)
        now = self._services.clock.now()
        try:
            tokens = await oauth.exchange(pending, code, now=now)
        except oauth.TokenRefusedError as error:
            refused = Put((ACCESS,), "credential-refused", {"at": now.isoformat()})
            await self._commit(owner, refused, pending.server, by=_OAUTH, epoch=epoch)
            msg = f"The authorization server of {pending.server} refused the code; connect again."
            raise CredentialRequiredError(msg, server=pending.server) from error
        stored = StoredCredential(pending.server, pending.client, tokens, now)
        await self._commit(owner, credential_put(stored, owner, expect="any"), stored.server, by=USER, epoch=epoch)
        return stored.public()

    @operation
    async def list(self, owner: str | Owner | None = None) -> list[Credential]:
        """Return the owner's credentials, ordered by server. They hold no secret."""
        owner = self._user(owner)
        prefix = (CREDENTIALS, owner.label)
        items = await read_items(self._services.storage, owner.partition, prefix=prefix)
        found = [stored.public() for item in items if (stored := credential_of(item)) is not None]
        return sorted(found, key=lambda credential: credential.server)

    @operation
    async def revoke(self, server: str, *, owner: str | Owner | None = None) -> bool:
        """Revoke the tokens for *server* at its authorization server, and delete the credential.

        Where the authorization server does not answer, the credential is deleted all the same, with a line in the log.

        Returns:
            Whether there was one.
        """
        owner = self._user(owner)

        async def delete() -> StoredCredential | None:
            stored = await self._stored(server, owner)
            if stored is not None:
                ref = credential_ref(owner, server)
                await self._commit(owner, Delete(ref.namespace, ref.key, stored.revision), server, by=USER)
            return stored

        stored = await retry_conflicts(delete)
        if stored is not None and stored.tokens is not None:
            try:
                await oauth.revoke(stored, stored.tokens)
            except AgentUnavailableError as error:
                self._services.telemetry.degraded("credentials.revoke", error)
                log.warning("A token was deleted here and not revoked there: %s", error)
        return stored is not None

    def auth(self, server: str, *, owner: str | Owner | None = None) -> Auth:
        """Return what authenticates requests of *httpx*, and so of MCP clients, as the owner at *server*.

        Tokens are read for each request and refreshed before they expire. A request fails with
        ``CredentialRequiredError`` where the user must connect the server, for the first time or again.

        Args:
            server: The URL of the server; no other origin gets the token.
            owner: The user.

        Raises:
            SettingsError: ``threadkeep[mcp]`` is not installed.
        """
        from threadkeep.credentials.auth import OwnerAuth

        owner = self._user(owner)
        token = partial(self._access_token, checked_server(server), owner)
        return OwnerAuth(server, lambda refused: self._services.run(partial(token, refused)))

    async def _access_token(self, server: str, owner: Owner, refused: str | None) -> str:
        """Return an access token that is fresh and not the one that the server *refused*.

        Raises:
            CredentialRequiredError: There is none, and none can be had without the user.
            AgentUnavailableError: The authorization server does not answer.
        """
        deadline = asyncio.get_running_loop().time() + _CLAIM.total_seconds()
        lock = self._services.refreshing.setdefault(credential_ref(owner, server), asyncio.Lock())
        async with lock:
            while asyncio.get_running_loop().time() < deadline:
                stored = await self._stored(server, owner)
                tokens = stored.tokens if stored else None
                if stored is None or tokens is None:
                    raise _required(server, "is not connected" if stored is None else "has ended its access")
                now = self._services.clock.now()
                if tokens.is_fresh(now) and tokens.access != refused:
                    return tokens.access
                if tokens.refresh is None:
                    raise _required(server, "has let its token expire, or revoked it,")
                if stored.claimed_until is not None and now < stored.claimed_until:  # another process refreshes it
                    await asyncio.sleep(_POLL_SECONDS)
                    continue
                with suppress(RevisionConflictError):
                    return await self._refreshed(stored, tokens, owner)
        msg = f"Another process has been refreshing the token for {server} for too long; try again."
        raise AgentUnavailableError(msg, server=server)

    async def _refreshed(self, stored: StoredCredential, tokens: Tokens, owner: Owner) -> str:
        """Refresh the tokens, keep the new ones, and return the access token.

        The claim keeps other processes from using the refresh token, too: many servers end the access if one is used
        twice.

        Raises:
            RevisionConflictError: Another process was first; nothing was sent.
            CredentialRequiredError: The refresh token is refused; the credential has ended.
            AgentUnavailableError: The authorization server does not answer; the tokens stay.
        """
        storage, now = self._services.storage, self._services.clock.now()
        epoch = (await storage.position(owner.partition)).epoch

        async def put(changed: StoredCredential, revision: int) -> int:
            batch = Batch(owner.partition, [credential_put(changed, owner, expect=revision)], epoch)
            return (await storage.commit(batch)).sequence

        async def put_audited(changed: StoredCredential, revision: int) -> None:
            operation = credential_put(changed, owner, expect=revision)
            await self._commit(owner, operation, stored.server, by=_OAUTH, epoch=epoch)

        claimed = await put(replace(stored, claimed_until=now + _CLAIM), stored.revision)
        try:
            issued = await oauth.refresh(stored, tokens, now=now)
        except oauth.TokenRefusedError as error:
            await put_audited(replace(stored, tokens=None, claimed_until=None), claimed)
            raise _required(stored.server, "has ended its access") from error
        except BaseException:
            await asyncio.shield(put(replace(stored, claimed_until=None), claimed))
            raise
        await put_audited(replace(stored, tokens=issued, claimed_until=None), claimed)
        self._services.telemetry.count("credentials.refreshed")
        return issued.access

    async def _commit(
        self, owner: Owner, operation: Put | Delete, server: str, *, by: str, epoch: str | None = None
    ) -> None:
        """Commit a change of the owner's access with an audit entry that names the server and no secret."""
        why = f"server:{_address(server)}"
        await self._services.audited_writer.commit(owner, [operation], by=by, why=why, epoch=epoch)

    async def _stored(self, server: str, owner: Owner) -> StoredCredential | None:
        (item,) = await self._services.storage.get([credential_ref(owner, server)])
        return credential_of(item) if item else None

    async def _earlier_registration(self, server: str, owner: Owner, redirect_uri: str) -> dict[str, Any] | None:
        """Return the owner's registration for *server*, if it has the same redirect URI."""
        stored = await self._stored(server, owner)
        known = dict(stored.client.registration) if stored else {}
        return known if redirect_uri in known.get("redirect_uris", ()) else None

    def _user(self, owner: str | Owner | None) -> Owner:
        resolved = self._scope.resolve(owner)
        if resolved.is_shared:
            msg = f"A credential belongs to a user, not to a {resolved.kind}."
            raise InvalidInputError(msg)
        return resolved

    def _require_encryption(self) -> None:
        settings = self._services.settings
        if not settings.sealed and not settings.plain_credentials:
            msg = (
                "The storage is not encrypted, so tokens of users are not kept in it: set THREADKEEP_MASTER_KEY, or "
                "THREADKEEP_PLAIN_CREDENTIALS=true to keep them in the clear."
            )
            raise SettingsError(msg, variable="THREADKEEP_MASTER_KEY")


def checked_server(url: str) -> str:
    """Return *url*, if a third party cannot read what is sent there.

    Raises:
        InvalidInputError: It is neither ``https://`` nor this machine.
    """
    try:
        require_private(url)
    except ValueError as error:
        msg = f"The server {url[:200]!r} cannot be used: {error}."
        raise InvalidInputError(msg) from None
    return url


def _address(server: str) -> str:
    """Return *server* without a user, a password and a query: those may be secrets."""
    parts = urlsplit(server)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _registered(client_id: str | None, client_secret: str | None, redirect_uri: str) -> dict[str, Any] | None:
    if client_id is None:
        return None
    method = "none" if client_secret is None else "client_secret_post"
    registration = {"client_id": client_id, "redirect_uris": [redirect_uri], "token_endpoint_auth_method": method}
    return registration | ({} if client_secret is None else {"client_secret": client_secret})


def _required(server: str, state: str) -> CredentialRequiredError:
    msg = f"{server} {state} for this user: let the user connect it with tk.credentials.begin(…)."
    return CredentialRequiredError(msg, server=server)


def _unknown_state() -> CredentialRequiredError:
    msg = "The state is not one of this user, or was used or has expired; begin again with tk.credentials.begin(…)."
    return CredentialRequiredError(msg)
