"""How commands reach Redis: one server or a cluster, waiting where that helps and repeating where that is safe."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, cast

from redis.exceptions import AskError, MovedError, NoScriptError, RedisError

from threadkeep.storage.redis.connections import Server
from threadkeep.storage.redis.errors import (
    NotSentError,
    code_of,
    is_lost_connection,
    is_passing,
    is_worth_another_connection,
    storage_error,
)
from threadkeep.storage.redis.scripts import Argument, Command

T = TypeVar("T")

_FIRST_PAUSE_SECONDS: Final = 0.01
_LONGEST_PAUSE_SECONDS: Final = 0.25
_ASKING: Final = cast("tuple[Argument, ...]", ("ASKING",))


class Topology(Protocol):
    """Which server holds a key."""

    one_slot: bool
    """Whether keys of one command have to share a hash slot."""

    async def server_for(self, key: str) -> Server:
        """Return the server that holds *key*; raises what :meth:`Server.exchange` does."""
        ...

    def moved(self, error: MovedError) -> Server:
        """Learn where a slot has moved, and return the server that holds it now."""
        ...

    def asked(self, error: AskError) -> Server:
        """Return the server that a slot is moving to."""
        ...

    def doubted(self) -> None:
        """Hear that a server could not be reached: what is known may be old."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


class OneServer:
    """All keys are on one server."""

    one_slot: bool = False

    def __init__(self, server: Server) -> None:
        self._server = server

    async def server_for(self, key: str) -> Server:  # noqa: ARG002 - they are all there
        """Return the server."""
        return self._server

    def moved(self, error: MovedError) -> Server:
        """Say that it is one of a cluster after all."""
        raise error

    def asked(self, error: AskError) -> Server:
        """Say that it is one of a cluster after all."""
        raise error

    def doubted(self) -> None:
        """There is no other."""

    async def close(self) -> None:
        """Close its connections."""
        await self._server.close()


@dataclass(slots=True)
class _Attempt:
    """What has happened to one call so far."""

    server: Server | None = None
    last: BaseException | None = None
    refused_as_replica: bool = False


class Link:
    """Sends commands and returns replies; what cannot be survived is raised as a :class:`StorageError`.

    Args:
        topology: Where keys are.
        location: Where the server is, for messages; its password masked.
        seconds: How long a call may take, its repetitions included.
    """

    def __init__(self, topology: Topology, *, location: str, seconds: float) -> None:
        self._topology = topology
        self._location = location
        self._seconds = seconds

    @property
    def one_slot(self) -> bool:
        """Whether keys of one command have to share a hash slot."""
        return self._topology.one_slot

    async def call(self, command: Command, *, repeatable: bool = True, longer: float = 1.0) -> Any:
        """Return the reply to *command*.

        Args:
            command: What to send.
            repeatable: Whether doing it twice is as good as once. What is not is sent again only where
                it was certainly not carried out.
            longer: So many times the usual time is given.

        Raises:
            StorageError: What the server refused, or ``StorageUnavailableError`` where it did not answer.
        """
        attempt = _Attempt()
        return await self._in_time(self._call(command, attempt, repeatable=repeatable), attempt, longer)

    async def many(self, commands: Sequence[Command], *, longer: float = 1.0) -> list[Any]:
        """Return the replies to *commands*, which are repeatable; what goes to one server is sent together."""
        attempt = _Attempt()
        return await self._in_time(self._many(commands, attempt), attempt, longer)

    async def close(self) -> None:
        """Wait for what runs, and close every connection."""
        await self._topology.close()

    async def _in_time(self, work: Awaitable[T], attempt: _Attempt, longer: float) -> T:
        try:
            async with asyncio.timeout(self._seconds * longer):
                return await work
        except (NotSentError, RedisError) as error:
            raise storage_error(error, self._location) from error
        except TimeoutError as error:
            if attempt.server is not None:
                await attempt.server.forget_idle()
            self._topology.doubted()
            raise storage_error(attempt.last or error, self._location) from error

    async def _call(self, command: Command, attempt: _Attempt, *, repeatable: bool) -> Any:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._answer(command, attempt)
            except NoScriptError:
                command = command.in_full()
                continue
            except NotSentError as error:
                attempt.last = error
                if not is_worth_another_connection(error.__cause__):
                    raise
            except RedisError as error:
                attempt.last = error
                if not _may_be_sent_again(error, attempt, repeatable=repeatable):
                    raise
            if attempt.server is not None and not is_passing(attempt.last):
                await attempt.server.forget_idle()
            self._topology.doubted()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _answer(self, command: Command, attempt: _Attempt) -> Any:
        """Return the reply to *command*, asked of whichever server says that it is the one."""
        server = await self._topology.server_for(command.key)
        asking: list[tuple[Argument, ...]] = []
        while True:
            attempt.server = server
            reply = (await server.exchange([*asking, command.arguments]))[-1]
            if isinstance(reply, MovedError):  # which is an AskError, too
                server, asking = self._topology.moved(reply), []
            elif isinstance(reply, AskError):
                server, asking = self._topology.asked(reply), [_ASKING]
            elif isinstance(reply, Exception):
                raise reply
            else:
                return reply

    async def _many(self, commands: Sequence[Command], attempt: _Attempt) -> list[Any]:
        together: dict[Server, list[int]] = {}
        for i, command in enumerate(commands):
            together.setdefault(await self._topology.server_for(command.key), []).append(i)
        replies: list[Any] = [None] * len(commands)
        for server, places in together.items():
            try:
                answered = await server.exchange([commands[i].arguments for i in places])
            except (NotSentError, RedisError) as error:
                answered = [error] * len(places)
            for i, reply in zip(places, answered, strict=True):
                refused = isinstance(reply, Exception)
                replies[i] = await self._call(commands[i], attempt, repeatable=True) if refused else reply
        return replies


def _may_be_sent_again(error: RedisError, attempt: _Attempt, *, repeatable: bool) -> bool:
    if code_of(error) == "READONLY" and not attempt.refused_as_replica:
        attempt.refused_as_replica = True  # it was the primary once, or its address would not be ours: ask anew
        return True
    return is_passing(error) or (repeatable and is_lost_connection(error))
