"""Redis commands, and the Lua scripts that a server knows by their digest.

redis-py's ``register_script`` loads a missing script with ``SCRIPT LOAD``: a right that a storage's user may lack, and
on a cluster a command to every primary. Here a call that meets NOSCRIPT is sent again as ``EVAL`` with the text, which
loads the script, too.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, cast
from urllib.parse import SplitResult, urlsplit

from redis.asyncio.cluster import ClusterNode, NodesManager, PipelineCommand
from redis.asyncio.connection import AbstractConnection, Connection, UnixDomainSocketConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    RedisClusterException,
    RedisError,
)

from threadkeep.concurrency import AnswerTimeout, PriorityGate, asking
from threadkeep.errors import ClosedError, SettingsError
from threadkeep.storage.redis.errors import (
    BRIEF_CODES,
    error_chain,
    error_code,
    is_retryable,
    to_storage_error,
)

Argument: TypeAlias = str | bytes | int

_FOLDER: Final = Path(__file__).with_name("lua")


class Command(NamedTuple):
    """One command.

    Attributes:
        arguments: Its name and arguments.
        key: One of its keys, which decides the node; all its keys share a hash slot.
        source: The text of the script that the command names by its digest.
    """

    arguments: tuple[Argument, ...]
    key: bytes
    source: str | None = None

    def with_source(self) -> Command:
        """Return the command with the script's text, for a server that does not know the script."""
        if self.source is None:
            return self
        return Command(("EVAL", self.source, *self.arguments[2:]), self.key)


def command(name: str, key: bytes, *arguments: Argument) -> Command:
    """Return a plain command on *key*."""
    return Command((name, key, *arguments), key)


@dataclass(frozen=True)
class Script:
    """A Lua script: the files *names* of the folder ``lua``, one after the other."""

    names: tuple[str, ...]
    text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts = [(_FOLDER / f"{name}.lua").read_text(encoding="utf-8") for name in self.names]
        object.__setattr__(self, "text", "\n".join(parts))

    @cached_property
    def digest(self) -> str:
        """The server's name for the script."""
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def command(self, keys: Sequence[bytes], *arguments: Argument) -> Command:
        """Return the command that runs the script; on a cluster *keys* share a hash slot."""
        return Command(("EVALSHA", self.digest, len(keys), *keys, *arguments), keys[0], self.text)


COMMIT: Final = Script(("partition", "commit"))
ERASE: Final = Script(("partition", "erase"))
CHANGES: Final = Script(("changes",))
SCAN: Final = Script(("scan",))
DUE: Final = Script(("due",))
NAMESPACES: Final = Script(("namespaces",))
STATS: Final = Script(("stats",))


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


_FIRST_PAUSE_SECONDS: Final = 0.01
_LONGEST_PAUSE_SECONDS: Final = 0.25
_MOST_ATTEMPTS: Final = 1_000
"""More than fit into a timeout; redis-py's exponential backoff overflows a float from 1,024 on."""


class _Call:
    """The state of one call.

    Attributes:
        commands: The commands as they were given.
        sent: The same as redis-py sends them; each holds its reply, which may be an error.
        pending: Those without a reply that counts.
        node: The node asked last.
        last_error: The error of the last attempt.
    """

    __slots__ = ("commands", "last_error", "node", "pending", "refused_by_replica", "sent")

    def __init__(self, commands: Sequence[Command]) -> None:
        self.commands = commands
        self.sent = [PipelineCommand(index, *command.arguments) for index, command in enumerate(commands)]
        self.pending = self.sent
        self.node: ClusterNode | None = None
        self.last_error: Exception | None = None
        self.refused_by_replica = False

    def is_retryable(self, error: Exception) -> bool:
        """Return whether another attempt may succeed.

        A primary that becomes a replica refuses writes once; a second refusal means that the address is a replica's.
        """
        if error_code(error) == "READONLY" and not self.refused_by_replica:
            self.refused_by_replica = True
            return True
        return is_retryable(error)


class RedisClient:
    """A client of one server, or of a cluster after :meth:`use_cluster`.

    Every command must be repeatable, because a command is sent again if its reply is lost: reads are, and scripts that
    write take a commit token.

    Args:
        location: The address and options of a server.
        timeout_seconds: The time limit of a call with all its attempts.
    """

    def __init__(self, location: RedisLocation, *, timeout_seconds: float) -> None:
        self._location = location
        self._timeout_seconds = timeout_seconds
        self._node = location.server()
        self._cluster: NodesManager | None = None
        self._slots_are_stale = True
        self._permits: dict[str, PriorityGate] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._closed = False
        backoff = ExponentialWithJitterBackoff(cap=_LONGEST_PAUSE_SECONDS, base=_FIRST_PAUSE_SECONDS)
        self._retry = Retry(backoff, _MOST_ATTEMPTS, supported_errors=(RedisError,))

    @property
    def is_cluster(self) -> bool:
        """Whether the keys of one command must share a hash slot."""
        return self._cluster is not None

    def use_cluster(self) -> None:
        """Treat the server as one node of a cluster; the first command reads the map of its slots."""
        self._cluster = self._location.cluster()

    async def call(self, command: Command, *, timeout_factor: float = 1.0) -> Any:
        """Return the reply to *command*; see :meth:`call_all`."""
        return (await self.call_all((command,), timeout_factor=timeout_factor))[0]

    async def call_all(self, commands: Sequence[Command], *, timeout_factor: float = 1.0) -> list[Any]:
        """Return the replies to *commands* in their order; commands for one server travel together.

        Args:
            commands: Repeatable commands.
            timeout_factor: Multiplies the time limit, for commands that read or write much.

        Raises:
            StorageError: The server refused a command.
            StorageUnavailableError: There was no reply in time; a write may have been carried out.
        """
        call = _Call(commands)
        try:
            async with AnswerTimeout(self._timeout_seconds * timeout_factor):
                with asking():
                    await self._retry.call_with_retry(
                        partial(self._attempt, call), partial(self._recover, call), call.is_retryable
                    )
        except RedisError as error:
            raise to_storage_error(error, self._location.masked) from error
        except TimeoutError as error:
            await self._recover(call, error)
            raise to_storage_error(call.last_error or error, self._location.masked) from error
        return [command.result for command in call.sent]

    @property
    def gate(self) -> PriorityGate | None:
        """The gate of the busiest server; ``None``: none was asked yet."""
        return max(self._permits.values(), key=lambda one: one.waiting, default=None)

    async def close(self) -> None:
        """Wait for the running calls, then close every connection."""
        self._closed = True
        for permits in self._permits.values():
            await permits.settle()
        await asyncio.gather(*self._background)
        await self._node.disconnect()
        if self._cluster is not None:
            await self._cluster.aclose("nodes_cache")
            await self._cluster.aclose("startup_nodes")

    async def _attempt(self, call: _Call) -> None:
        """Send the pending commands of *call* until each has a reply."""
        while call.pending:
            if self._cluster is None:
                await self._send(call, self._node, call.pending)
            else:
                for node, commands in (await self._group_by_primary(self._cluster, call)).items():
                    await self._send(call, node, commands)
            refused = [command for command in call.pending if isinstance(command.result, Exception)]
            call.pending = [command for command in refused if not await self._redirect(call, command)]

    async def _send(self, call: _Call, node: ClusterNode, commands: list[PipelineCommand]) -> None:
        """Send *commands* on one connection to *node*; each gets its reply, which may be an error."""
        call.node = node
        permits = self._permits.get(node.name)
        if permits is None:
            permits = self._permits[node.name] = PriorityGate(self._location.max_connections)
        async with permits.place():
            if self._closed:
                msg = "This storage is closed; open a new one."
                raise ClosedError(msg)
            await node.execute_pipeline(commands)

    async def _redirect(self, call: _Call, command: PipelineCommand) -> bool:
        """Return whether a refused command got its reply elsewhere; if not, it is to be sent again.

        Raises:
            RedisError: The server's error, if neither another node nor the text of a script helps.
        """
        error = command.result
        if isinstance(error, NoScriptError):
            command.args = call.commands[command.position].with_source().arguments
        elif self._cluster is None or not isinstance(error, AskError):
            raise error
        elif isinstance(error, MovedError):
            await self._cluster.move_slot(_with_host(error, call.node))
        else:
            node = self._importing_node(self._cluster, _with_host(error, call.node))
            await self._send(call, node, [PipelineCommand(0, "ASKING"), command])
            return not isinstance(command.result, Exception) or await self._redirect(call, command)
        return False

    async def _group_by_primary(self, cluster: NodesManager, call: _Call) -> dict[ClusterNode, list[PipelineCommand]]:
        """Return the pending commands of *call* by the primary of their keys."""
        if self._slots_are_stale:
            await self._read_slots(cluster)
        groups: dict[ClusterNode, list[PipelineCommand]] = {}
        for command in call.pending:
            try:
                node = cluster.slots_cache[key_slot(call.commands[command.position].key)][0]
            except LookupError as error:
                msg = "CLUSTERDOWN Hash slot not served"
                raise ClusterDownError(msg) from error
            groups.setdefault(node, []).append(command)
        return groups

    def _importing_node(self, cluster: NodesManager, error: AskError) -> ClusterNode:
        """Return the node that *error* points to; one that holds no slot yet is not on the map."""
        host = cast("str", error.host)
        node = cluster.get_node(host, error.port)
        if node is None:
            node = self._location.cluster_node(host, error.port)
            cluster.set_nodes(cluster.nodes_cache, {node.name: node})
        return node

    async def _read_slots(self, cluster: NodesManager) -> None:
        self._slots_are_stale = False
        try:
            await cluster.initialize()
        except (RedisClusterException, IndexError) as error:  # no node answered, or it knows no primary
            self._slots_are_stale = True
            causes = (cause for cause in error_chain(error) if isinstance(cause, RedisError))
            raise next(causes, ClusterDownError(f"CLUSTERDOWN {error}")) from error
        except BaseException:
            self._slots_are_stale = True
            raise

    async def _recover(self, call: _Call, error: Exception) -> None:
        """Drop the idle connections of the node that failed: what broke one has mostly broken them all."""
        if isinstance(error, RedisError):
            call.last_error = error
        if error_code(error) in BRIEF_CODES:
            return
        self._slots_are_stale = True
        if call.node is not None:  # in the background: closing TLS waits for the peer
            task = asyncio.create_task(call.node.disconnect_free_connections())
            self._background.add(task)
            task.add_done_callback(self._background.discard)


def _with_host(error: AskError, node: ClusterNode | None) -> AskError:
    """Fill in the host of a redirection that names only a port: it is the host of the *node* that sent it."""
    if not cast("str", error.host) and node is not None:
        error.host = node.host
    return error
