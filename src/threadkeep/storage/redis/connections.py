"""The connections to one Redis server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ResponseError

from threadkeep.errors import ClosedError
from threadkeep.storage.redis.errors import NotSentError
from threadkeep.storage.redis.scripts import Argument

MAX_CONNECTIONS: Final = 32
"""Enough for a busy process: a command takes a fraction of a millisecond, and a server has one thread."""


class Server:
    """Connections to one server, made when they are needed and kept.

    redis-py's own pool does not tell whether a command was sent before its connection failed, which
    decides whether a commit may be sent again; nor does it give a connection back when the one who
    waits for the pool's lock is cancelled.

    Args:
        make: Makes a connection, without I/O.
        most: So many at once; who comes later waits.
    """

    def __init__(self, make: Callable[[], AbstractConnection], *, most: int = MAX_CONNECTIONS) -> None:
        self._make = make
        self._most = most
        self._free = asyncio.Semaphore(most)
        self._idle: list[AbstractConnection] = []
        self._closed = False

    async def exchange(self, commands: Sequence[tuple[Argument, ...]]) -> list[Any]:
        """Send *commands* together and return their replies; a reply that is an error is returned as such.

        Raises:
            NotSentError: There is no connection; nothing was sent.
            redis.RedisError: The connection broke; the commands may have been carried out.
        """
        async with self._free:
            connection = await self._connected()
            try:
                packed = connection.pack_commands(commands)
                await connection.send_packed_command(packed, check_health=False)
                replies = [await _reply(connection) for _ in commands]
            except BaseException:
                await connection.disconnect(nowait=True)
                raise
            self._idle.append(connection)
            return replies

    async def forget_idle(self) -> None:
        """Let go of the connections that nobody uses: what broke one has mostly broken them all."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.disconnect(nowait=True)

    async def close(self) -> None:
        """Wait for what runs, and close every connection."""
        self._closed = True
        for _ in range(self._most):
            await self._free.acquire()
        while self._idle:
            await self._idle.pop().disconnect()
        for _ in range(self._most):
            self._free.release()

    async def _connected(self) -> AbstractConnection:
        if self._closed:
            msg = "This storage was closed; open a new one."
            raise ClosedError(msg)
        while self._idle:
            connection = self._idle.pop()
            if await _is_usable(connection):
                return connection
            await connection.disconnect(nowait=True)
        connection = self._make()
        try:
            await connection.connect()
        except Exception as error:
            await connection.disconnect(nowait=True)
            raise NotSentError from error
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection


async def _is_usable(connection: AbstractConnection) -> bool:
    """Whether nothing has arrived on an idle *connection*: neither bytes that nobody asked for nor its end."""
    try:
        return connection.is_connected and not await connection.can_read()
    except OSError:
        return False


async def _reply(connection: AbstractConnection) -> Any:
    try:
        return cast("Any", await connection.read_response())
    except ResponseError as error:
        return error
