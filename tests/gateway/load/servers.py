"""The servers that are measured: the gateway, workers and the bare application, each a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Self

from tests.gateway.oidc import AUDIENCE, OidcProvider
from tests.gateway.test_serve import COMMAND, Served, bare_server, forked_server, served
from tests.processes import THREADKEEP, PythonProcess, start_python
from tests.servers import empty_postgres_database
from threadkeep_conformance.servers import PostgresServer

MAX_RUNS: Final = 4_000
GRAPH: Final = "tests.gateway.load.agent:graph"
BARE: Final = "tests.gateway.load.agent:bare"


class Bench:
    """The servers of a part, started with the same agent, on SQLite or on one PostgreSQL.

    Args:
        words: How many words a reply has.
        pause: The seconds before each.
        postgres: Whether the storage is PostgreSQL; else each server has a SQLite file of its own.
        environment: Settings of the gateways and workers.
        forked: Whether servers fork from a process that has imported everything, where nothing is judged by figures.
        provider: The provider of tokens; ``None``: one of its own.
    """

    def __init__(
        self,
        *,
        words: int,
        pause: float,
        postgres: bool = False,
        environment: Mapping[str, str] | None = None,
        provider: OidcProvider | None = None,
        forked: bool = False,
    ) -> None:
        self._stack = ExitStack()
        self._paced = {"LOAD_WORDS": str(words), "LOAD_PAUSE": str(pause), "PYTHONPATH": os.pathsep.join(sys.path)}
        self._environment = environment or {}
        self._forked = forked
        self.provider = provider or self._stack.enter_context(OidcProvider())
        self.postgres = self._stack.enter_context(PostgresServer({"max_connections": "200"})) if postgres else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def folder(self) -> Path:
        """Make an empty folder."""
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))

    def database(self) -> str:
        """Make an empty database and return its URL."""
        assert self.postgres is not None
        return empty_postgres_database(self.postgres.url)

    def bare(self, database: str | None = None) -> Served:
        """Start the bare application on SQLite, or on a database of PostgreSQL."""
        folder = self.folder()
        place = {"LOAD_DATABASE": database or str(folder / "bare.db")}
        return self._stack.enter_context(bare_server(folder, BARE, self._paced | place, forked=self._forked))

    def gateway(self, database: str | None = None, **environment: str) -> Served:
        """Start the gateway on SQLite, or on a database of PostgreSQL."""
        variables: Any = self._variables(database) | environment
        start = forked_server if self._forked else served
        return self._stack.enter_context(start(self.folder(), "--graph", GRAPH, **variables))

    def worker(self, database: str) -> subprocess.Popen[str] | PythonProcess:
        """Start a worker that learns from the turns in a database of PostgreSQL."""
        return self._stack.enter_context(_worker(self.folder(), self._variables(database), forked=self._forked))

    def _variables(self, database: str | None) -> dict[str, str]:
        return {
            "EMBEDDINGS_PROVIDER": "",
            "THREADKEEP_SINGLE_USER": "",
            "THREADKEEP_ISSUERS": self.provider.origin,
            "THREADKEEP_AUDIENCE": AUDIENCE,
            "THREADKEEP_MAX_RUNS": str(MAX_RUNS),
            **({"LANGGRAPH_STORE_TYPE": "postgres", "LANGGRAPH_STORE_POSTGRES_DSN": database} if database else {}),
            **self._paced,
            **self._environment,
        }


@contextmanager
def _worker(
    folder: Path, variables: dict[str, str], *, forked: bool
) -> Generator[subprocess.Popen[str] | PythonProcess]:
    place: Any = {"cwd": folder, "env": {**os.environ, **variables}}
    start: Any = start_python(*THREADKEEP, "worker", **place) if forked else _new_worker(place)
    with start as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _new_worker(place: dict[str, Any]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "worker"], **place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    )
