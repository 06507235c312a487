"""The tasks of owners: items of the owner, kept for a day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from a2a.server.tasks import InMemoryTaskStore, TaskStore
from a2a.types.a2a_pb2 import ListTasksRequest, ListTasksResponse, Task, TaskState
from google.protobuf.json_format import MessageToDict, ParseDict
from typing_extensions import override

from threadkeep.gateway.operations import Caller
from threadkeep.ids import short_digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from a2a.server.context import ServerCallContext

    from threadkeep.identity import Owner

MINUTES: Final = 24 * 60
"""How long a task is kept after its last change of state."""

_PAGE: Final = 100
RUNNING: Final = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})


class StoredTasks(TaskStore):
    """Keeps tasks among the items of the owner that a call names.

    A task that this process works on is written when its state changes, and not for every part of its text.

    Args:
        caller: Returns the program that makes a call; it needs the scope ``chat``.
    """

    def __init__(self, caller: Callable[[ServerCallContext], Caller]) -> None:
        self._caller = caller
        self._working: dict[tuple[Owner, str], Task] = {}

    @override
    async def save(self, task: Task, context: ServerCallContext) -> None:
        owner = self._require(context).principal.owner
        before, kept = self._working.get((owner, task.id)), Task()
        kept.CopyFrom(task)
        self._working[owner, task.id] = kept
        if before is None or before.status.state != task.status.state or task.status.state not in RUNNING:
            store, namespace = self._items(context)
            value = {"task": MessageToDict(task)}
            await store.aput(namespace, short_digest(task.id), value, index=False, ttl=MINUTES)
        if task.status.state not in RUNNING:
            self._working.pop((owner, task.id), None)

    @override
    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        owner = self._require(context).principal.owner
        if (working := self._working.get((owner, task_id))) is not None:
            return _copy(working)
        store, namespace = self._items(context)
        item = await store.aget(namespace, short_digest(task_id))
        return None if item is None else ParseDict(item.value["task"], Task())

    @override
    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        found = InMemoryTaskStore(lambda _: "")  # filters, orders and pages as every task store does
        for task in await self._all(context):
            await found.save(task, context)
        return await found.list(params, context)

    @override
    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        self._working.pop((self._require(context).principal.owner, task_id), None)
        store, namespace = self._items(context)
        await store.adelete(namespace, short_digest(task_id))

    async def _all(self, context: ServerCallContext) -> list[Task]:
        owner = self._require(context).principal.owner
        store, namespace = self._items(context)
        tasks: dict[str, Task] = {}
        while rows := await store.asearch(namespace, limit=_PAGE, offset=len(tasks)):
            for row in rows:
                task = ParseDict(row.value["task"], Task())
                tasks[task.id] = task
            if len(rows) < _PAGE:
                break
        tasks |= {task_id: _copy(task) for (of, task_id), task in self._working.items() if of == owner}
        return [*tasks.values()]

    def _require(self, context: ServerCallContext) -> Caller:
        caller = self._caller(context)
        caller.require("chat")
        return caller

    def _items(self, context: ServerCallContext) -> tuple[Any, tuple[str, ...]]:
        caller = self._caller(context)
        return caller.tk.store, ("users", caller.principal.owner.label, "gateway", "a2a")


def _copy(task: Task) -> Task:
    copy = Task()
    copy.CopyFrom(task)
    return copy
