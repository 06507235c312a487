"""Group commit: batches that wait for the disk together are written with one wait."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from threadkeep.clock import Clock
from threadkeep.storage.encoding import micros
from threadkeep.storage.port import Batch, Position
from threadkeep.storage.row import encoded
from threadkeep.storage.sqlite.connections import SqliteConnections

_MOST: Final = 100
"""So many batches are written in one transaction at most, so that the first of them does not wait for long."""


@dataclass(slots=True)
class _Waiting:
    batch: Batch
    answer: asyncio.Future[Position]


class GroupCommit:
    """Takes batches on the event loop and commits them in the writer's thread, in the order they came.

    Where one batch of a group cannot be committed, none is, and each is tried alone: so one that is
    refused takes no other with it.

    Args:
        clock: What the time is.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queue: deque[_Waiting] = deque()

    async def add(self, opened: SqliteConnections, batch: Batch) -> Position:
        """Commit *batch* with those that wait at this moment; return when it is durable."""
        waiting = _Waiting(batch, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        # Each batch brings its own call; those that find the queue empty have nothing left to do.
        opened.writer.submit(self._work, opened)
        return await waiting.answer

    def _work(self, opened: SqliteConnections) -> None:
        group: list[_Waiting] = []
        with suppress(IndexError):
            while len(group) < _MOST:
                group.append(self._queue.popleft())
        if not group:
            return
        outcomes = self._together(opened, group) or [self._alone(opened, waiting) for waiting in group]
        # A loop that was closed meanwhile has nobody left who waits.
        with suppress(RuntimeError):
            group[0].answer.get_loop().call_soon_threadsafe(_answer, group, outcomes)

    def _together(self, opened: SqliteConnections, group: Sequence[_Waiting]) -> Sequence[Position | Exception] | None:
        """Return the positions; ``None`` where a batch was refused, and then nothing was written."""
        if len(group) == 1:
            return None
        try:
            return self._committed(opened, group)
        except Exception:  # noqa: BLE001 - nothing is swallowed: each is tried alone, and its error is its caller's
            return None

    def _alone(self, opened: SqliteConnections, waiting: _Waiting) -> Position | Exception:
        try:
            (position,) = self._committed(opened, [waiting])
        except Exception as error:  # noqa: BLE001 - it is raised where the batch came from
            return error
        return position

    def _committed(self, opened: SqliteConnections, group: Sequence[_Waiting]) -> list[Position]:
        """Write *group* in one transaction; encoding, which may take a while, is done before it begins."""
        changes = [encoded(waiting.batch) for waiting in group]

        def write(connection: sqlite3.Connection) -> list[Position]:
            return [
                opened.tables.commit(connection, waiting.batch, its, micros(self._clock.now()))
                for waiting, its in zip(group, changes, strict=True)
            ]

        return opened.write(write)


def _answer(group: Sequence[_Waiting], outcomes: Sequence[Position | Exception]) -> None:
    for waiting, outcome in zip(group, outcomes, strict=True):
        if waiting.answer.done():  # whoever waited was cancelled; the batch stands all the same
            continue
        if isinstance(outcome, Exception):
            waiting.answer.set_exception(outcome)
        else:
            waiting.answer.set_result(outcome)
