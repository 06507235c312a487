"""Where a Redis is: what its URL says, checked without I/O, and how to make a connection there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast
from urllib.parse import SplitResult, urlsplit

from redis.asyncio.connection import AbstractConnection, Connection, parse_url

from threadkeep.errors import SettingsError
from threadkeep.storage.redis.cluster import Address
from threadkeep.storage.redis.connections import MAX_CONNECTIONS, Server

VARIABLE: Final = "LANGGRAPH_STORE_REDIS_URL"

_SCHEMES: Final = ("redis", "rediss", "unix")
_OF_POOLS: Final = ("timeout", "connection_class", "max_connections")
_DEFAULT_PORT: Final = 6379


class RedisLocation:
    """What a URL says.

    Args:
        url: ``redis://``, ``rediss://`` (TLS) or ``unix://``, with redis-py's options.
        variable: The setting that it came from, for the message where it is none.

    Raises:
        SettingsError: It is no such URL.
    """

    def __init__(self, url: str, variable: str = VARIABLE) -> None:
        parts = _parts(url, variable)
        try:
            options = cast("dict[str, Any]", parse_url(url))
            self._most = int(options.get("max_connections") or MAX_CONNECTIONS)
            self._kind: Callable[..., AbstractConnection] = options.get("connection_class") or Connection
            self._options = {name: value for name, value in options.items() if name not in _OF_POOLS}
            self._options |= {"protocol": 2, "decode_responses": False, "socket_timeout": None}
            self._connection()
        except (TypeError, ValueError):
            msg = f"{variable} has an option that Redis's driver does not know, or a wrong one; correct it after the ?."
            raise SettingsError(msg, variable=variable) from None
        self.masked: str = _masked(parts)

    @property
    def address(self) -> Address:
        """Host and port; a socket of this machine has none."""
        return self._options.get("host", "localhost"), self._options.get("port", _DEFAULT_PORT)

    def server(self, address: Address | None = None) -> Server:
        """Return the server there, or another of its cluster at *address*; no I/O happens yet."""
        return Server(lambda: self._connection(address), most=self._most)

    def _connection(self, address: Address | None = None) -> AbstractConnection:
        elsewhere = {} if address is None else {"host": address[0], "port": address[1]}
        return self._kind(**{**self._options, **elsewhere})


def _parts(url: str, variable: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = None
    database = parts.path.strip("/") if parts and parts.scheme != "unix" else ""
    if parts is None or parts.scheme not in _SCHEMES or (database and not database.isdecimal()):
        msg = f"{variable} is no URL of Redis; give redis://user:password@host:6379/0, or rediss:// for TLS."
        raise SettingsError(msg, variable=variable)
    return parts


def _masked(parts: SplitResult) -> str:
    """Return the URL without its password and its options, which may hold another."""
    user, _, host = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    shown = f"{name}:********@" if password else f"{name}@" if name else ""
    return f"{parts.scheme}://{shown}{host}{parts.path}"
