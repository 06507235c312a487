"""The queries of a MongoDB storage use indexes: a burst of turns reads a few documents of many, not all of them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from neosqlite import Connection
from pymongo import monitoring

from tests.conftest import missing
from tests.storage.mongodb_world import ANA, NOTES, commit, note
from threadkeep.storage.interface import Due, Put, Ref
from threadkeep.storage.mongodb.storage import MongoStorage
from threadkeep.testing.clock import FrozenClock
from threadkeep_conformance.servers import MongoServer


class Queries(monitoring.CommandListener):
    """Keeps the queries of a storage's process: collection and command, each once by its form."""

    def __init__(self) -> None:
        self.by_form: dict[str, dict[str, Any]] = {}

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command_name in ("find", "aggregate") and event.database_name == "indexes":
            command = dict(event.command)
            self.by_form[re.sub(r"[0-9a-f]{16,}", "", str({**command, "lsid": None}))] = command

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Its answer is not needed."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Its answer is not needed."""


@pytest.fixture
def server() -> Iterator[MongoServer]:
    """A server of this test; its file is read after its end."""
    if lacking := MongoServer.missing():
        missing(", ".join(lacking))
    with MongoServer() as server:
        yield server


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> Queries:
    """The queries that clients of this test send."""
    listening = Queries()
    listeners = monitoring._LISTENERS  # the driver has no way to take a listener away again
    monkeypatch.setattr(monitoring, "_LISTENERS", listeners._replace(command_listeners=[listening]))
    return listening


async def use(storage: MongoStorage) -> None:
    """Do what turns and learning do."""
    due = Due("work", FrozenClock().now())
    await commit(storage, note("a"), note("b"), Put(("work",), "w", {}, due=due))
    await storage.commits.drain()
    await storage.get([Ref(ANA, NOTES, "a")])
    await storage.get([Ref(ANA, NOTES, key) for key in ("a", "b", "missing")])
    start = (await storage.changes(ANA, None)).position
    await commit(storage, note("a", "likes coffee"), note("c"))
    await storage.changes(ANA, start)
    await storage.scan(ANA, prefix=NOTES)
    await storage.due("work", now=due.at, limit=8)


@pytest.mark.slow
async def test_no_query_of_a_turn_reads_a_whole_collection(server: MongoServer, queries: Queries) -> None:
    """Each is planned by the server's own engine, over its file."""
    for _ in range(2):  # the second one knows no record and no item of the first
        storage = MongoStorage(f"{server.url}/indexes", clock=FrozenClock())
        await storage.connect()
        await use(storage)
        await storage.close()
    server.stop()

    (file,) = (server.folder / "data").glob("indexes.db")
    collections = {str(command.get("find") or command.get("aggregate")) for command in queries.by_form.values()}
    assert {"threadkeep_items", "threadkeep_batches"} <= collections
    assert {plan for command in queries.by_form.values() for plan in scans(str(file), command)} == set()


def scans(file: str, command: dict[str, Any]) -> Iterator[str]:
    """Yield the statements of *command* that read every row of its collection."""
    name = str(command.get("find") or command.get("aggregate"))
    if name == "threadkeep_about":  # one document
        return
    statements: list[str] = []
    with Connection(file) as connection:
        collection = connection[name]
        connection.db.set_trace_callback(statements.append)
        if "find" in command:
            cursor = collection.find(command["filter"])
            list(cursor.sort(list(command["sort"].items())) if "sort" in command else cursor)
        else:
            list(collection.aggregate(command["pipeline"]))
    with sqlite3.connect(file) as database:
        for statement in statements:
            if f"FROM {name}" in statement and "COUNT(1)" not in statement:
                plan = [str(step[3]) for step in database.execute(f"EXPLAIN QUERY PLAN {statement}")]
                if any(step.startswith(f"SCAN {name}") for step in plan):
                    yield f"{statement[:400]} {plan}"
