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
    batches: Sequence[Batch]
    answer: asyncio.Future[tuple[Position, ...]]


class GroupCommit:
    """Takes batches on the event loop and commits them in the writer's thread, in the order they came.

    Where one batch of a group cannot be committed, none is, and what was asked for at once is tried
    alone: so one that is refused takes nobody else's with it.

    Args:
        clock: What the time is.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queue: deque[_Waiting] = deque()

    async def add(self, opened: SqliteConnections, batches: Sequence[Batch]) -> tuple[Position, ...]:
        """Commit *batches*, all or none, with those that wait at this moment; return when they are durable."""
        waiting = _Waiting(batches, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        # Whoever comes brings a call; those that find the queue empty have nothing left to do.
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

    def _together(
        self, opened: SqliteConnections, group: Sequence[_Waiting]
    ) -> Sequence[tuple[Position, ...] | Exception] | None:
        """Return the positions; ``None`` where a batch was refused, and then nothing was written."""
        if len(group) == 1:
            return None
        try:
            return self._committed(opened, group)
        except Exception:  # noqa: BLE001 - nothing is swallowed: each is tried alone, and its error is its caller's
            return None

    def _alone(self, opened: SqliteConnections, waiting: _Waiting) -> tuple[Position, ...] | Exception:
        try:
            (positions,) = self._committed(opened, [waiting])
        except Exception as error:  # noqa: BLE001 - it is raised where the batches came from
            return error
        return positions

    def _committed(self, opened: SqliteConnections, group: Sequence[_Waiting]) -> list[tuple[Position, ...]]:
        """Write *group* in one transaction; encoding, which may take a while, is done before it begins."""
        changes = [[(batch, encoded(batch)) for batch in waiting.batches] for waiting in group]

        def write(connection: sqlite3.Connection) -> list[tuple[Position, ...]]:
            return [
                tuple(opened.tables.commit(connection, batch, its, micros(self._clock.now())) for batch, its in asked)
                for asked in changes
            ]

        return opened.write(write)


def _answer(group: Sequence[_Waiting], outcomes: Sequence[tuple[Position, ...] | Exception]) -> None:
    for waiting, outcome in zip(group, outcomes, strict=True):
        if waiting.answer.done():  # whoever waited was cancelled; what was written stands all the same
            continue
        if isinstance(outcome, Exception):
            waiting.answer.set_exception(outcome)
        else:
            waiting.answer.set_result(outcome)
