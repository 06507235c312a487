"""Parse the URL of a Redis server and make redis-py's connection pools for it, without I/O."""

from __future__ import annotations

from typing import Any, Final, cast
from urllib.parse import SplitResult, urlsplit

from redis.asyncio.cluster import ClusterNode, NodesManager
from redis.asyncio.connection import AbstractConnection, Connection, UnixDomainSocketConnection, parse_url

from threadkeep.errors import SettingsError

VARIABLE: Final = "LANGGRAPH_STORE_REDIS_URL"

MAX_CONNECTIONS: Final = 32
"""Enough for a busy process: a command takes a fraction of a millisecond, and a server has one thread."""

_SCHEMES: Final = ("redis", "rediss", "unix")
_POOL_OPTIONS: Final = ("timeout", "connection_class", "max_connections", "host", "port")
_DEFAULT_PORT: Final = 6379


class RedisLocation:
    """The address and the connection options in a URL.

    Args:
        url: ``redis://``, ``rediss://`` (TLS) or ``unix://``, with redis-py's options.
        variable: The setting that holds the URL, for error messages.

    Attributes:
        masked: The URL without its password and its options.
        max_connections: The limit for each server.

    Raises:
        SettingsError: The URL or one of its options is invalid.
    """

    def __init__(self, url: str, variable: str = VARIABLE) -> None:
        parts = _split_url(url, variable)
        try:
            options = cast("dict[str, Any]", parse_url(url))
            self._address: tuple[str, int] = options.get("host", "localhost"), options.get("port", _DEFAULT_PORT)
            self.max_connections: int = int(options.get("max_connections") or MAX_CONNECTIONS)
            self._connection_class: type[AbstractConnection] = options.get("connection_class") or Connection
            self._options: dict[str, Any] = {
                **{name: value for name, value in options.items() if name not in _POOL_OPTIONS},
                "protocol": 2,
                "decode_responses": False,
                "socket_timeout": None,
            }
            self._connect_here()
        except (TypeError, ValueError):
            msg = f"{variable} has an unknown or invalid option; correct what follows the ? in the URL."
            raise SettingsError(msg, variable=variable) from None
        self.masked: str = _mask(parts)

    def server(self) -> ClusterNode:
        """Return the connection pool of the server in the URL.

        The pool resolves no name by itself: :meth:`_connect_here` passes the URL's own address on, or its socket.
        """
        return ClusterNode(
            self.masked,
            self._address[1],
            max_connections=self.max_connections,
            connection_class=cast("type[Connection]", self._connect_here),
        )

    def cluster(self) -> NodesManager:
        """Return the map of the cluster that the server in the URL belongs to; it is read later."""
        host, port = self._address
        return NodesManager(
            [self.cluster_node(host, port)],
            require_full_coverage=False,
            connection_kwargs=self._node_options,
            # A node that does not know its own address leaves the host out.
            address_remap=lambda address: (address[0] or host, address[1]),
        )

    def cluster_node(self, host: str, port: int) -> ClusterNode:
        """Return the connection pool of another node of the cluster."""
        return ClusterNode(host, port, **self._node_options)

    @property
    def _node_options(self) -> dict[str, Any]:
        spare = 1  # the map of the slots is read while all other connections are busy
        return {
            **self._options,
            "connection_class": self._connection_class,
            "max_connections": self.max_connections + spare,
        }

    def _connect_here(self, **pool_options: Any) -> AbstractConnection:
        """Make a connection to the URL's own address, whatever address a pool passes."""
        host, port = self._address
        is_socket = issubclass(self._connection_class, UnixDomainSocketConnection)
        address: dict[str, Any] = {} if is_socket else {"host": host, "port": port}
        retry = {name: value for name, value in pool_options.items() if name == "retry"}
        return self._connection_class(**{**self._options, **address, **retry})


def _split_url(url: str, variable: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = None
    database = parts.path.strip("/") if parts and parts.scheme != "unix" else ""
    if parts is None or parts.scheme not in _SCHEMES or (database and not database.isdecimal()):
        msg = f"{variable} is not a valid Redis URL; give redis://user:password@host:6379/0, or rediss:// for TLS."
        raise SettingsError(msg, variable=variable)
    return parts


def _mask(parts: SplitResult) -> str:
    """Return the URL without its password and without its options, which may hold another one."""
    user, _, host = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    shown = f"{name}:********@" if password else f"{name}@" if name else ""
    return f"{parts.scheme}://{shown}{host}{parts.path}"
