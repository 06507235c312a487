"""The chain of the audit on every storage: it holds as written, and a row that somebody changed past us shows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from pymongo import MongoClient
from redis import Redis

import threadkeep
from threadkeep.identity import Owner
from threadkeep.testing import HashingEmbedder

ANA: Final = Owner("ana@x.org")
OLD, NEW = '"carla"', '"david"'
"""Who decided; of the same length, because Redis counts a row's bytes."""


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.slow),
        pytest.param("redis", marks=pytest.mark.slow),
        pytest.param("mongodb", marks=pytest.mark.slow),
    ]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where an empty storage of each kind is."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/memory.db"
    return request.getfixturevalue(f"{request.param}_url")


def tamper(url: str) -> int:
    """Put another name into every row of the audit, past everything of ours; return how many rows that are."""
    swap = "UPDATE {} SET value = replace(value, ?, ?) WHERE namespace LIKE '%.audit%' AND value LIKE ?"
    given = (OLD, NEW, f"%{OLD}%")
    match url.partition(":")[0]:
        case "sqlite":
            with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
                return connection.execute(swap.format("items"), given).rowcount
        case "postgresql":
            with psycopg.connect(url, autocommit=True) as connection:
                statement: Any = swap.format("threadkeep.items").replace("%.", "%%.").replace("it%", "it%%")
                return connection.execute(statement.replace("?", "%s"), given).rowcount
        case "mongodb":
            return _in_mongodb(url)
        case _:
            return _in_redis(url)


def _in_mongodb(url: str) -> int:
    changed = 0
    client: MongoClient[dict[str, Any]]
    with MongoClient(url) as client:
        items = client.get_default_database("threadkeep")["threadkeep_items"]
        for document in list(items.find()):
            fields = {
                name: text.replace(OLD, NEW) for name, text in document.items() if isinstance(text, str) and OLD in text
            }
            if fields and ".audit" in str(document):
                items.update_one({"_id": document["_id"]}, {"$set": fields})
                changed += 1
    return changed


def _in_redis(url: str) -> int:
    changed = 0
    with Redis.from_url(url) as redis:
        for key in redis.scan_iter(_type="hash"):
            rows: Any = redis.hgetall(key)
            for field, body in rows.items():
                if b".audit" in field and OLD.encode() in body:
                    redis.hset(key, field, body.replace(OLD.encode(), NEW.encode()))
                    changed += 1
    return changed


class TestVerify:
    async def test_a_row_that_was_changed_past_us_shows(self, url: str):
        """Whoever it was; until then the chain holds, with texts of every kind in it."""
        async with threadkeep.open(url, owner=ANA, embedder=HashingEmbedder()) as tk:
            for text in ("I live in Málaga.", "私は東京に住んでいます。", "half \ud800 a pair"):
                await tk.memories.remember(text)
            kept = await tk.memories.remember("Always answer in French.", kind="procedural", approved_by="carla")
            await tk.memories.forget(kept.memory_id)
            before = await tk.owners.verify_audit()
        assert (before.entries, before.fault, before.untold) == (5, None, ())

        assert tamper(url) == 1

        async with threadkeep.open(url, owner=ANA, embedder=HashingEmbedder()) as tk:
            after = await tk.owners.verify_audit(anchor=before.anchor)
        assert after.fault == "entry 4 is not what was written, or the one before it is not"
