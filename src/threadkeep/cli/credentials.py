"""``threadkeep credentials``: the access of users to MCP servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from threadkeep.cli.output import (
    DEFAULT_USER,
    CommandGroup,
    DataDir,
    Json,
    User,
    Yes,
    confirm,
    emit,
    location_of,
    plain,
    read,
    run,
)

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.credentials.models import Credential

app = typer.Typer(
    cls=CommandGroup,
    help="List and revoke the access of users to MCP servers. Users connect servers in your application.",
    no_args_is_help=True,
)


@app.command("list")
def list_(user: User = DEFAULT_USER, data_dir: DataDir = None, *, json: Json = False) -> None:
    """List the servers that a user connected; no token is shown."""
    credentials = read(lambda tk: tk.credentials.list(owner=user), data_dir)
    lines = map(_line, credentials)
    emit(credentials, lines if credentials else [f"{plain(user)} has connected no server."], json=json)


@app.command()
def revoke(
    server: Annotated[str, typer.Argument(help="The URL of the server, as `credentials list` prints it.")],
    user: User = DEFAULT_USER,
    data_dir: DataDir = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Revoke the tokens of a user at the authorization server, and delete them. The user can connect again."""

    async def revoke_confirmed(tk: Threadkeep) -> bool:
        confirm(f"Revoke the access of {plain(user)} to {plain(server)}, in {location_of(tk)}?", yes=yes)
        return await tk.credentials.revoke(server, owner=user)

    revoked = run(revoke_confirmed, data_dir)
    line = "Revoked and deleted." if revoked else f"{plain(user)} has not connected {plain(server)}."
    emit({"revoked": revoked}, [line], json=json)


def _line(credential: Credential) -> str:
    expires = f", expires {credential.expires_at:%Y-%m-%d %H:%M}" if credential.expires_at else ""
    state = f"{credential.state} since {credential.connected_at:%Y-%m-%d}{expires}"
    return f"{plain(credential.server)}  {state}  {plain(' '.join(credential.scopes))}".rstrip()
