"""A Redis cluster: which node holds which hash slot, learnt from the nodes themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from redis.crc import key_slot
from redis.exceptions import AskError, MovedError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError

from threadkeep.storage.redis.connections import Server
from threadkeep.storage.redis.errors import NotSentError
from threadkeep.storage.redis.scripts import Argument

Address = tuple[str, int]

_SLOTS: Final[tuple[Argument, ...]] = ("CLUSTER", "SLOTS")


class Cluster:
    """All nodes of a cluster that hold slots.

    Args:
        make: Makes a server from its address, without I/O.
        first: The node that the URL names; the others are learnt from it.
    """

    one_slot: bool = True

    def __init__(self, make: Callable[[Address], Server], first: Address) -> None:
        self._make = make
        self._first = first
        self._servers: dict[Address, Server] = {}
        self._holders: dict[int, Address] = {}
        self._known = False
        self._learning = asyncio.Lock()

    async def server_for(self, key: str) -> Server:
        """Return the primary that holds *key*."""
        if not self._known:
            async with self._learning:
                if not self._known:
                    await self._learn()
        address = self._holders.get(key_slot(key.encode()))
        if address is None:
            msg = "CLUSTERDOWN Hash slot not served"
            raise NotSentError from RedisConnectionError(msg)
        return self._server(address)

    def moved(self, error: MovedError) -> Server:
        """Learn where a slot has moved, and return the node that holds it now."""
        address = self._address(error)
        self._holders[error.slot_id] = address
        return self._server(address)

    def asked(self, error: AskError) -> Server:
        """Return the node that a slot is moving to."""
        return self._server(self._address(error))

    def doubted(self) -> None:
        """Ask the nodes anew before the next command."""
        self._known = False

    async def close(self) -> None:
        """Close every connection."""
        for server in self._servers.values():
            await server.close()

    async def _learn(self) -> None:
        """Ask one node after the other, those that are known first, then the one of the URL."""
        failure: Exception | None = None
        for address in dict.fromkeys([*self._servers, self._first]):
            try:
                (reply,) = await self._server(address).exchange([_SLOTS])
            except (NotSentError, RedisError) as error:
                failure = failure or error
                continue
            if isinstance(reply, Exception):
                failure = failure or reply
                continue
            self._holders = _holders(reply, address[0])
            self._known = True
            return
        if isinstance(failure, NotSentError):
            raise failure
        raise NotSentError from failure

    def _address(self, error: AskError) -> Address:
        """Return where *error* points to; a node that does not know its own address leaves the host out."""
        host = cast("str | None", error.host)
        return host or self._first[0], error.port

    def _server(self, address: Address) -> Server:
        if address not in self._servers:
            self._servers[address] = self._make(address)
        return self._servers[address]


def _holders(reply: Any, asked: str) -> dict[int, Address]:
    """Read what ``CLUSTER SLOTS`` says; a node that does not know its own address has the one that was *asked*."""
    holders: dict[int, Address] = {}
    for first, last, primary, *_ in cast("list[Any]", reply):
        host = primary[0].decode() if primary[0] else ""
        for slot in range(first, last + 1):
            holders[slot] = (host or asked, primary[1])
    return holders
