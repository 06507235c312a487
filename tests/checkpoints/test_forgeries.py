"""What an attacker with the database and without the key does to checkpoints: no thread says anything else by it."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tests.checkpoints.checkpoints import config_of, echo_graph
from tests.checkpoints.conftest import MakeCheckpointer
from threadkeep.checkpoints.head import Head
from threadkeep.errors import ThreadkeepError

THREADS: Final = 4
COLUMNS: Final = "item, partition, namespace, key, value, revision, updated_at, paths, embedding, data"

Row = dict[str, Any]
Rows = dict[int, Row]


class Attacker:
    """Changes rows of the database.

    Args:
        path: The file.
        seed: Of what it tries.
    """

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        self._rng = random.Random(seed)

    def rows(self) -> Rows:
        """Return the encrypted items, by their numbers."""
        with closing(sqlite3.connect(self._path)) as connection:
            connection.row_factory = sqlite3.Row
            found = connection.execute(f"SELECT {COLUMNS} FROM items WHERE embedding IS NOT NULL")
            return {row["item"]: dict(row) for row in found}

    def write(self, row: Row) -> None:
        """Write the columns of *row*."""
        names = [name for name in row if name != "item"]
        changes = ", ".join(f"{name} = :{name}" for name in names)
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            connection.execute(f"UPDATE items SET {changes} WHERE item = :item", row)

    def attack(self, now: Rows, earlier: Rows) -> tuple[Row, str]:
        """Change one row; return what it was before, and what was done."""
        kinds: list[tuple[str, Callable[[Row], Row]]] = [
            ("forged", self._forged),
            ("swapped", lambda row: self._swapped(row, now)),
            ("replayed", lambda row: self._replayed(row, earlier)),
            ("plain", self._plain),
        ]
        while True:
            row = now[self._rng.choice([*now])]
            name, change = self._rng.choice(kinds)
            changed = change(dict(row))
            if changed != row:
                self.write(changed)
                return row, name

    def _forged(self, row: Row) -> Row:
        column = self._rng.choice([name for name in ("embedding", "data") if row[name]])
        text = bytearray(row[column])
        for _ in range(self._rng.choice([1, 1, 8])):
            text[self._rng.randrange(len(text))] ^= self._rng.randrange(1, 256)
        if self._rng.random() < 0.2:
            text = text[: self._rng.randrange(len(text))]
        return {**row, column: bytes(text)}

    def _swapped(self, row: Row, now: Rows) -> Row:
        other = now[self._rng.choice([*now])]
        choices = [("embedding",), ("data",), ("embedding", "data"), ("embedding", "data", "updated_at")]
        columns = self._rng.choice(choices)
        return {**row, **{column: other[column] for column in columns}}

    def _replayed(self, row: Row, earlier: Rows) -> Row:
        before = earlier.get(row["item"])
        if before is None:
            return row
        return {**row, "embedding": before["embedding"], "data": before["data"]}

    def _plain(self, row: Row) -> Row:
        value = json.dumps(Head("1", newest="f" * 32).to_value())
        return {**row, "value": value, "embedding": None, "data": b"plain" if row["data"] else None}


def turns(graph: Any, number: int) -> None:
    for thread in range(THREADS):
        for turn in range(number):
            graph.invoke({"words": [f"t{thread} w{turn} {'x' * 3_000 * (turn % 2)}"]}, config_of(f"thread {thread}"))


def states_of(graph: Any) -> list[Any]:
    """Return all states of each thread; for one that cannot be read, nothing."""
    states: list[Any] = []
    for thread in range(THREADS):
        try:
            states.append([one.values for one in graph.get_state_history(config_of(f"thread {thread}"))])
        except ThreadkeepError:
            states.append(None)
    return states


class TestForgeries:
    @pytest.mark.slow
    @pytest.mark.parametrize("count", [100, pytest.param(500, marks=pytest.mark.soak)])
    def test_none_is_accepted(self, make: MakeCheckpointer, path: Path, count: int):
        """Each thread is read as it was, or not at all: no forged, swapped, older or plain row changes what it says."""
        graph = echo_graph(make("sqlite", encrypted=True))
        turns(graph, 2)
        attacker = Attacker(path, seed=5)
        earlier = attacker.rows()
        turns(graph, 2)
        now, states = attacker.rows(), states_of(graph)
        assert None not in states
        tried: dict[str, int] = {}
        refused, accepted = 0, list[str]()

        for _ in range(count):
            before, name = attacker.attack(now, earlier)
            found = states_of(graph)
            accepted += [name for one, true in zip(found, states, strict=True) if one not in (None, true)]
            refused += None in found
            tried[name] = tried.get(name, 0) + 1
            attacker.write(before)

        assert accepted == []
        assert set(tried) == {"forged", "swapped", "replayed", "plain"}
        assert refused > count // 2  # the others met rows that no state needs, such as what tasks had written
        assert states_of(graph) == states
