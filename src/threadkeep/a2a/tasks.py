"""The tasks of owners: items of the owner, kept for a day."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from a2a.helpers.proto_helpers import new_data_message
from a2a.server.tasks import InMemoryTaskStore, TaskStore
from a2a.types.a2a_pb2 import ListTasksRequest, ListTasksResponse, Task, TaskState, TaskStatus
from google.protobuf.json_format import MessageToDict, ParseDict
from typing_extensions import override

from threadkeep.a2a.messages import get_caller
from threadkeep.clock import SystemClock
from threadkeep.errors import RestartingError
from threadkeep.gateway.owner_items import OwnerItems

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from a2a.server.context import ServerCallContext

    from threadkeep.gateway.operations import Caller
    from threadkeep.identity import Owner

MINUTES: Final = 24 * 60
"""How long a task is kept after its last change of state."""

_LISTED: Final = 1_000
"""How many tasks of an owner are listed: those that were changed last."""

_ENDING_SECONDS: Final = 1.0
_WAITING_SECONDS: Final = 360.0
"""How long a turn may wait for its thread, and a little more."""

RUN: Final = "threadkeep/run_id"
"""The metadata of a task that name its run."""

RUNNING: Final = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})


class StoredTasks(TaskStore):
    """Keeps tasks among the items of the owner that a call names.

    A task that this process works on is written when its state changes, and not for every part of its text. A task in
    progress has failed if no process works on its run: its process was killed.

    Args:
        at_work: Returns whether a process works on a run of an owner.
    """

    def __init__(self, at_work: Callable[[Owner, str], Awaitable[bool]]) -> None:
        self._at_work = at_work
        self._working: dict[tuple[Owner, str], Task] = {}

    @override
    async def save(self, task: Task, context: ServerCallContext) -> None:
        caller = _admit(context)
        place = caller.principal.owner, task.id
        before = self._working.pop(place, None)
        if task.status.state in RUNNING:
            self._working[place] = _copy(task)
        if before is None or before.status.state != task.status.state:
            await _put(caller, task)

    @override
    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        caller = _admit(context)
        if (working := self._working.get((caller.principal.owner, task_id))) is not None:
            return _copy(working)
        return await self._settled(caller, await _get(caller, task_id))

    @override
    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        found = InMemoryTaskStore(lambda _: "")  # filters, orders and pages as every task store does
        for task in await self._all(_admit(context)):
            await found.save(task, context)
        return await found.list(params, context)

    @override
    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        caller = _admit(context)
        self._working.pop((caller.principal.owner, task_id), None)
        await _items(caller).delete(task_id)

    async def _all(self, caller: Caller) -> Sequence[Task]:
        """Return the tasks that were changed last."""
        owner = caller.principal.owner
        mine = {task_id: _copy(task) for (of, task_id), task in self._working.items() if of == owner}
        stored = [_parse(row) for row in await _items(caller).list(limit=_LISTED)]
        others = await asyncio.gather(*(self._settled(caller, task) for task in stored if task.id not in mine))
        return [*mine.values(), *(task for task in others if task is not None)]

    async def _settled(self, caller: Caller, task: Task | None) -> Task | None:
        """Return *task*; one that no process works on has failed, and is kept as such."""
        if task is None or await self._is_alive(caller, task):
            return task
        await asyncio.sleep(_ENDING_SECONDS)  # its process may be writing how it has ended
        again = await _get(caller, task.id)
        if again is None or again.status != task.status or await self._is_alive(caller, again):
            return again
        told = {"code": RestartingError.code, "message": "The process of the turn has ended. Send the message again."}
        message = new_data_message(told, context_id=again.context_id, task_id=again.id)
        again.status.CopyFrom(TaskStatus(state=TaskState.TASK_STATE_FAILED, message=message))
        again.status.timestamp.GetCurrentTime()
        await _put(caller, again)
        return again

    async def _is_alive(self, caller: Caller, task: Task) -> bool:
        """Return whether *task* is not in progress, or a process works on it or may wait for its thread."""
        state, run_id = task.status.state, str(task.metadata[RUN]) if RUN in task.metadata else ""
        if state not in RUNNING:
            return True
        age = SystemClock().now().timestamp() - task.status.timestamp.ToSeconds()
        if state == TaskState.TASK_STATE_SUBMITTED and age < _WAITING_SECONDS:
            return True
        return await self._at_work(caller.principal.owner, run_id)


def _admit(context: ServerCallContext) -> Caller:
    caller = get_caller(context)
    caller.principal.require("chat")
    return caller


def _items(caller: Caller) -> OwnerItems:
    return OwnerItems(caller.tk, "a2a")


async def _put(caller: Caller, task: Task) -> None:
    await _items(caller).put(task.id, {"task": MessageToDict(task)}, minutes=MINUTES)


async def _get(caller: Caller, task_id: str) -> Task | None:
    value = await _items(caller).get(task_id)
    return None if value is None else _parse(value)


def _parse(value: dict[str, Any]) -> Task:
    return ParseDict(value["task"], Task())


def _copy(task: Task) -> Task:
    copy = Task()
    copy.CopyFrom(task)
    return copy
