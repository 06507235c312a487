"""``/me/credentials``: connect the MCP servers of agents that work with the user's own access."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from threadkeep.gateway.bodies import ID_CHARACTERS, RequestBody, Shown
from threadkeep.gateway.inputs import ItemId, Reader, Writer
from threadkeep.gateway.public_errors import ProblemError

if TYPE_CHECKING:
    from threadkeep.credentials.models import Credential
    from threadkeep.gateway.inputs import OwnerClient

router = APIRouter(prefix="/me/credentials", tags=["me"])

CALLBACK: Final = "/api/me/credentials/callback"


class CredentialBody(BaseModel):
    """The access of the user to the server of an agent. It holds no secret.

    Attributes:
        agent: The agent.
        state: ``connected``, ``ended`` (connect it again) or ``missing``.
        issuer: The authorization server; null: the agent is not connected.
        scopes: What was granted.
        connected_at: When the user consented.
        expires_at: When the token expires; it is refreshed.
    """

    agent: str
    state: str
    issuer: Shown | None = None
    scopes: list[str] = []
    connected_at: datetime | None = None
    expires_at: datetime | None = None


class CredentialsBody(BaseModel):
    """The agents that work with the user's own access.

    Attributes:
        credentials: One for each agent.
    """

    credentials: list[CredentialBody]


class ConnectBody(RequestBody):
    """What is to be connected.

    Attributes:
        agent: The name of a declared agent.
    """

    agent: str = Field(min_length=1, max_length=ID_CHARACTERS)


class AuthorizationBody(BaseModel):
    """A consent that the user has to give.

    Attributes:
        url: Where the browser goes. It comes back to ``/api/me/credentials/callback``.
        expires_at: Until when.
    """

    url: str
    expires_at: datetime


class DisconnectedBody(BaseModel):
    """The access is gone.

    Attributes:
        revoked: Whether there was one.
    """

    revoked: bool


@router.get("")
async def list_credentials(user: Reader) -> CredentialsBody:
    """Return the agents that work with the user's own access, and whether they have it."""
    tk = user.tk
    known = {one.server: one for one in await tk.credentials.list()}
    return CredentialsBody(credentials=[_body(agent, known.get(url)) for agent, url in _servers(tk).items()])


@router.post("")
async def begin_credential(body: ConnectBody, request: Request, user: Writer) -> AuthorizationBody:
    """Begin to connect an agent: the browser of the user goes to the URL."""
    public_url: str | None = request.app.state.gateway.settings.public_url
    if public_url is None:
        raise ProblemError(
            409, "public_url_missing", "The server does not know its address; set THREADKEEP_PUBLIC_URL."
        )
    tk = user.tk
    begun = await tk.credentials.begin(_server(tk, body.agent), redirect_uri=f"{public_url.rstrip('/')}{CALLBACK}")
    return AuthorizationBody(url=begun.url, expires_at=begun.expires_at)


@router.get("/callback")
async def finish_credential(
    user: Writer,
    state: Annotated[str, Query(min_length=1, max_length=200)],
    code: Annotated[str, Query(max_length=4_000)] = "",
    iss: Annotated[str | None, Query(max_length=2_000)] = None,
) -> CredentialBody:
    """Take what the authorization server sent the browser back with; it has to be the browser of the same user."""
    if not code:
        raise ProblemError(403, "consent_denied", "The authorization server gave no access; begin again.")
    tk = user.tk
    credential = await tk.credentials.finish(state=state, code=code, issuer=iss)
    agents = {url: agent for agent, url in _servers(tk).items()}
    return _body(agents.get(credential.server, ""), credential)


@router.delete("/{agent}")
async def revoke_credential(agent: ItemId, user: Writer) -> DisconnectedBody:
    """Revoke the access of an agent at its authorization server, and delete it here."""
    tk = user.tk
    return DisconnectedBody(revoked=await tk.credentials.revoke(_server(tk, agent)))


def _servers(tk: OwnerClient) -> dict[str, str]:
    """Return the URLs of the servers of agents that work with the user's own access, by agent."""
    return {one.name: one.url for one in tk.agents.declared() if one.oauth and one.url is not None}


def _server(tk: OwnerClient, agent: str) -> str:
    url = _servers(tk).get(agent)
    if url is None:
        raise ProblemError(404, "agent_not_found", "No agent with this name works with the user's own access.")
    return url


def _body(agent: str, credential: Credential | None) -> CredentialBody:
    if credential is None:
        return CredentialBody(agent=agent, state="missing")
    return CredentialBody(
        agent=agent,
        state=credential.state,
        issuer=credential.issuer,
        scopes=[*credential.scopes],
        connected_at=credential.connected_at,
        expires_at=credential.expires_at,
    )
