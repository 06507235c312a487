"""A Redis cluster of two nodes, for tests."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any, Final, Self

import redis

from threadkeep_conformance.servers import RedisServer, ServerError, free_port

SLOTS: Final = 16_384
FORMING_SECONDS: Final = 20.0


class RedisCluster:
    """Two nodes, each of which holds half of the hash slots; a context manager.

    Attributes:
        nodes: The servers, the one with the lower slots first.
    """

    def __init__(self) -> None:
        ports = [free_port() for _ in range(2)]
        self.nodes = [RedisServer(settings={"cluster-enabled": "yes", "cluster-port": str(port)}) for port in ports]
        self._ports = ports
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        """The URL of one node; the other is learnt from it."""
        return self.nodes[0].url

    def __enter__(self) -> Self:
        with self._stack as stack:
            for node in self.nodes:
                stack.enter_context(node)
            half = SLOTS // 2
            self.ask(0, "CLUSTER", "ADDSLOTSRANGE", 0, half - 1)
            self.ask(1, "CLUSTER", "ADDSLOTSRANGE", half, SLOTS - 1)
            self.ask(1, "CLUSTER", "SET-CONFIG-EPOCH", 2)
            self.ask(0, "CLUSTER", "MEET", "127.0.0.1", self.nodes[1].port, self._ports[1])
            until = time.monotonic() + FORMING_SECONDS
            while not all("cluster_state:ok" in self.ask(place, "CLUSTER", "INFO") for place in range(2)):
                if time.monotonic() > until:
                    msg = "The nodes did not form a cluster."
                    raise ServerError(msg)
                time.sleep(0.02)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def ask(self, place: int, *command: Any) -> Any:
        """Send *command* to the node at *place*."""
        with redis.Redis(port=self.nodes[place].port, decode_responses=True) as client:
            return client.execute_command(*command)

    def empty(self) -> None:
        """Remove everything from both nodes."""
        for place in range(2):
            self.ask(place, "FLUSHALL")
