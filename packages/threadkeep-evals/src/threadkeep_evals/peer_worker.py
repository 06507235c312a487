"""A peer in a process and an environment of its own: ``python -I peer_worker.py PEER FOLDER DIMS``.

Lines of JSON drive it. It is given ``{"learn": {"owner", "ids", "texts"}}`` and ``{"search": {"owner", "question",
"limit"}}`` and answers with ``{"done": …, "ms": …}``. Where the peer wants vectors it writes ``{"embed": [text, …]}``
and is given ``{"vectors": [base64 of little-endian float32, …]}``, so every peer compares the same ones. What that
takes is not in its milliseconds.

It imports nothing of Threadkeep, which is not installed beside the peer.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import import_module
from time import perf_counter
from typing import IO, Any


class Connection:
    """The connection to the parent process, and the vectors that it sends.

    Args:
        replies: Written to; standard output itself is left to what the peer prints.
    """

    def __init__(self, replies: IO[str]) -> None:
        self._replies = replies
        self.waited = 0.0

    def say(self, value: dict[str, Any]) -> None:
        """Write one object."""
        self._replies.write(json.dumps(value) + "\n")
        self._replies.flush()

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """Ask for the vectors of *texts*."""
        started = perf_counter()
        self.say({"embed": list(texts)})
        given = json.loads(sys.stdin.readline())["vectors"]
        found = [list(struct.unpack(f"<{len(raw) // 4}f", raw)) for raw in map(base64.b64decode, given)]
        self.waited += perf_counter() - started
        return found


class Mem0:
    """mem0 as it runs with no key: nothing is inferred, Qdrant in this process, vectors from :class:`Connection`."""

    def __init__(self, line: Connection, folder: str, dims: int, _: ExitStack) -> None:
        key = {"provider": "openai", "config": {"api_key": "unused"}}
        store = {"path": f"{folder}/qdrant", "embedding_model_dims": dims, "on_disk": False}
        config = {
            "llm": key,
            "embedder": key,
            "vector_store": {"provider": "qdrant", "config": store},
            "history_db_path": f"{folder}/history.db",
        }
        self._memory = import_module("mem0").Memory.from_config(config)
        base = import_module("mem0.embeddings.base").EmbeddingBase

        def embed(_: object, text: str, *_for: str) -> list[float]:
            return line.vectors([text])[0]

        self._memory.embedding_model = type("Given", (base,), {"embed": embed})()

    def learn(self, owner: str, ids: Sequence[str], texts: Sequence[str]) -> None:
        """Store *texts* verbatim, one after the other: there is no batch without a model."""
        for key, text in zip(ids, texts, strict=True):
            self._memory.add(text, user_id=owner, metadata={"key": key}, infer=False)

    def search(self, owner: str, question: str, limit: int) -> list[str]:
        """Return the keys of what is found, best first; the threshold is mem0's own."""
        found = self._memory.search(question, filters={"user_id": owner}, top_k=limit)["results"]
        return [one["metadata"]["key"] for one in found]


class LangGraphSqlite:
    """LangGraph's SqliteStore with an index as its documentation shows it."""

    def __init__(self, line: Connection, folder: str, dims: int, running: ExitStack) -> None:
        store = import_module("langgraph.store.sqlite").SqliteStore
        index = {"dims": dims, "embed": line.vectors, "fields": ["text"]}
        self._store = running.enter_context(store.from_conn_string(f"{folder}/store.db", index=index))
        self._store.setup()

    def learn(self, owner: str, ids: Sequence[str], texts: Sequence[str]) -> None:
        """Store *texts* in one batch."""
        put = import_module("langgraph.store.base").PutOp
        self._store.batch([put((owner,), key, {"text": text}) for key, text in zip(ids, texts, strict=True)])

    def search(self, owner: str, question: str, limit: int) -> list[str]:
        """Return the keys of what is found, best first."""
        return [one.key for one in self._store.search((owner,), query=question, limit=limit)]


PEERS: dict[str, Callable[[Connection, str, int, ExitStack], Any]] = {"mem0": Mem0, "langgraph-sqlite": LangGraphSqlite}


def main(name: str, folder: str, dims: str) -> None:
    """Serve one peer until there is nothing more to read."""
    replies = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    line = Connection(replies)
    with ExitStack() as running:
        peer = PEERS[name](line, folder, int(dims), running)
        line.say({"done": "ready"})
        for request in sys.stdin:
            ((verb, given),) = json.loads(request).items()
            line.waited, started = 0.0, perf_counter()
            value = getattr(peer, verb)(**given)
            milliseconds = (perf_counter() - started - line.waited) * 1000
            line.say({"done": value, "ms": milliseconds})


if __name__ == "__main__":
    main(*sys.argv[1:])
