"""``threadkeep api-keys``: keys with which programs use the gateway."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threadkeep.cli.output import CommandGroup, DataDir, Json, Yes, confirm, emit, full_id, plain, run
from threadkeep.errors import optional_import

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.gateway.auth.api_keys import ApiKey, ApiKeys

app = typer.Typer(
    cls=CommandGroup, help="Keys with which programs use the gateway: create, list, revoke.", no_args_is_help=True
)


@app.command()
def create(
    user: Annotated[str, typer.Option("--user", "-u", help="The user whom the key acts as.")],
    scope: Annotated[list[str], typer.Option(help="A scope, such as chat or memory:read; may be repeated.")],
    tenant: Annotated[str, typer.Option(help="The tenant of the user: the issuer of tokens.")] = "",
    name: Annotated[str, typer.Option(help="What the key is for.")] = "",
    days: Annotated[int | None, typer.Option(min=1, help="After how many days it expires; unset: never.")] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Create a key and print its secret once."""

    async def created(tk: Threadkeep) -> tuple[str, ApiKey]:
        from threadkeep.identity import Owner

        lifetime = None if days is None else timedelta(days=days)
        return await _keys(tk).create(Owner(user, tenant), scope, name=name, lifetime=lifetime)

    secret, key = run(created, data_dir, creates=True)
    emit({"secret": secret, **_fields(key)}, [secret], json=json)


@app.command("list")
def list_(data_dir: DataDir = None, *, json: Json = False) -> None:
    """List the keys, oldest first; secrets are not kept."""
    keys = run(lambda tk: _keys(tk).list(), data_dir)
    emit([_fields(key) for key in keys], map(_line, keys) if keys else ["There are no API keys."], json=json)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="The key's id, as `list` shows it, or its first characters.")],
    data_dir: DataDir = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove a key; running gateways refuse it within 5 seconds."""

    async def found(tk: Threadkeep) -> str:
        return full_id(key_id, [key.key_id for key in await _keys(tk).list()], noun="API keys")

    whole = run(found, data_dir)
    confirm(f"Revoke the API key {whole}?", yes=yes)
    revoked = run(lambda tk: _keys(tk).revoke(whole), data_dir)
    emit({"key_id": whole, "revoked": revoked}, [f"Revoked {whole}"], json=json)


def _keys(tk: Threadkeep) -> ApiKeys:
    from threadkeep.clock import SystemClock

    with optional_import("threadkeep api-keys", extra="serve"):
        from threadkeep.gateway.auth.api_keys import ApiKeys

    return ApiKeys(tk.store, SystemClock())


def _fields(key: ApiKey) -> dict[str, Any]:
    return {name: getattr(key, name) for name in type(key).__slots__}


def _line(key: ApiKey) -> str:
    expires = f"until {key.expires_at:%Y-%m-%d}" if key.expires_at else "for ever"
    used = f"used {key.used_at:%Y-%m-%d %H:%M}" if key.used_at else "unused"
    return f"{key.key_id}  {plain(key.user_id)}  {' '.join(key.scopes)}  {expires}  {used}  {plain(key.name)}"
