"""Where the settings say that threads are kept: told without I/O and without loading LangGraph."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from threadkeep.errors import SettingsError
from threadkeep.threads.codec import Cipher

if TYPE_CHECKING:
    from pydantic import SecretStr

    from threadkeep.settings import Settings

_TYPE: Final = "LANGGRAPH_CHECKPOINT_TYPE"
_TTL: Final = "LANGGRAPH_CHECKPOINT_TTL_MINUTES"
_EXPIRING: Final = ("redis", "mongodb")
_NEEDED: Final = {
    "postgres": (("langgraph.checkpoint.postgres", "psycopg", "psycopg_pool"), "postgres"),
    "redis": (("langgraph.checkpoint.redis", "redisvl", "redis"), "redis-checkpoints"),
    "mongodb": (("langgraph.checkpoint.mongodb", "pymongo"), "mongodb"),
}
"""What has to be installed, and the extra that brings it."""


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """Where threads are kept, and how.

    Attributes:
        kind: ``memory``, ``sqlite``, ``postgres``, ``redis`` or ``mongodb``.
        location: A server's URL, password included; ``""`` where there is no server.
        variable: The setting that says so; ``""`` where there is no server.
        ttl: After how long checkpoints expire; ``None``: never.
        keys: What they are encrypted with; ``None``: they are not.
    """

    kind: str
    location: str = ""
    variable: str = ""
    ttl: timedelta | None = None
    keys: str | None = None


def chosen(settings: Settings) -> CheckpointSettings:
    """Return where *settings* say that threads are kept: as the memories, unless they say otherwise.

    Raises:
        SettingsError: That cannot be; the message names the variable and what to do.
    """
    kind = settings.checkpoint_type or settings.store_type or "sqlite"
    modules, extra = _NEEDED.get(kind, ((), ""))
    if not all(map(_installed, modules)):
        reason = f"{_TYPE} is {kind}" if settings.checkpoint_type else f"Threads are kept as memories are, in {kind}"
        msg = f"{reason}, which needs a package that is missing; run: pip install threadkeep[{extra}], or set {_TYPE}."
        raise SettingsError(msg, variable=_TYPE)
    variable, url = _location(kind, settings)
    if variable and url is None:
        msg = f"{_TYPE} is {kind}, which needs {variable}; set it to where the server is."
        raise SettingsError(msg, variable=variable)
    if settings.checkpoint_ttl and kind not in _EXPIRING:
        msg = f"{_TTL} is set, and checkpoints in {kind} cannot expire; set it to 0, or {_TYPE} to redis or mongodb."
        raise SettingsError(msg, variable=_TTL)
    keys = settings.checkpoint_key
    return CheckpointSettings(
        kind,
        location=url.get_secret_value() if url else "",
        variable=variable,
        ttl=settings.checkpoint_ttl,
        keys=keys.get_secret_value() if keys else None,
    )


def check(settings: Settings) -> None:
    """Raise where what *settings* say of threads cannot be; under a LangGraph server nothing is ours to keep.

    Raises:
        SettingsError: The message names the variable and what to do.
    """
    if settings.under_langgraph_server:
        return
    keys = chosen(settings).keys
    if keys is not None:
        Cipher(keys)


def _location(kind: str, settings: Settings) -> tuple[str, SecretStr | None]:
    """Return the variable that says where the server of *kind* is, and what it says."""
    own, memories, name = {
        "postgres": (settings.checkpoint_postgres_dsn, settings.store_postgres_dsn, "postgres_dsn"),
        "redis": (settings.checkpoint_redis_url, settings.store_redis_url, "redis_url"),
        "mongodb": (settings.checkpoint_mongodb_uri, settings.store_mongodb_uri, "mongodb_uri"),
    }.get(kind, (None, None, ""))
    if not name:
        return "", None
    of = "store" if own is None and memories is not None else "checkpoint"
    return settings.variable_of(f"{of}_{name}"), own or memories


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a parent of it is not there
        return False
