"""What is kept of tasks, as items of their owners for a day: their states, and the addresses that are told those."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Final

from a2a.helpers.proto_helpers import new_data_message
from a2a.server.agent_execution.active_task import TERMINAL_TASK_STATES
from a2a.server.context import ServerCallContext
from a2a.server.tasks import BasePushNotificationSender, InMemoryTaskStore, PushNotificationConfigStore, TaskStore
from a2a.server.tasks.push_notification_config_store import normalize_push_notification_config
from a2a.server.tasks.push_notification_sender import PushNotificationEvent
from a2a.types.a2a_pb2 import ListTasksRequest, ListTasksResponse, Task, TaskState, TaskStatus, TaskStatusUpdateEvent
from a2a.types.a2a_pb2 import TaskPushNotificationConfig as PushConfig
from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import MessageToDict, ParseDict
from typing_extensions import override

from threadkeep.a2a.messages import CALL, get_caller
from threadkeep.clock import SystemClock
from threadkeep.errors import RestartingError
from threadkeep.gateway.operations import Caller
from threadkeep.gateway.owner_items import OwnerItems
from threadkeep.identity import Owner
from threadkeep.ids import short_digest

_MINUTES: Final = 24 * 60
"""How long a task is kept after its last change of state."""

_LISTED: Final = 1_000
"""How many tasks of an owner are listed: those that were changed last."""

_ENDING_SECONDS: Final = 1.0
_WAITING_SECONDS: Final = 360.0
"""How long a turn may wait for its thread, and a little more."""

_OF_TASK: Final = 5
_OF_OWNER: Final = 500
"""How many addresses a task has at most, and all tasks of an owner."""

RUN: Final = "threadkeep/run_id"
"""The metadata of a task that name its run."""

RUNNING: Final = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})


class StoredTasks(TaskStore):
    """Keeps tasks among the items of the owner that a call names.

    A task that this process works on is written when its state changes, and not for every part of its text. A task in
    progress has failed if no process is *at_work* on its run: its process was killed.
    """

    def __init__(self, at_work: Callable[[Owner, str], Awaitable[bool]]) -> None:
        self._at_work = at_work
        self._working: dict[tuple[Owner, str], Task] = {}

    @override
    async def save(self, task: Task, context: ServerCallContext) -> None:
        caller = get_caller(context, "chat")
        place = caller.principal.owner, task.id
        before = self._working.pop(place, None)
        if task.status.state in RUNNING:
            self._working[place] = deepcopy(task)
        if before is None or before.status.state != task.status.state:
            await _items(caller).put(task.id, {"task": MessageToDict(task)}, minutes=_MINUTES)

    @override
    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        caller = get_caller(context, "chat")
        if (working := self._working.get((caller.principal.owner, task_id))) is not None:
            return deepcopy(working)
        return await self._settled(caller, await _get(caller, task_id))

    @override
    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        caller, listed = (
            get_caller(context, "chat"),
            InMemoryTaskStore(lambda _: ""),
        )  # filters, orders and pages as all do
        stored = [ParseDict(row["task"], Task()) for row in await _items(caller).list(limit=_LISTED)]
        for task in await asyncio.gather(*(self._settled(caller, task) for task in stored)):
            if task is not None:
                await listed.save(self._working.get((caller.principal.owner, task.id), task), context)
        return await listed.list(params, context)

    @override
    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        caller = get_caller(context, "chat")
        self._working.pop((caller.principal.owner, task_id), None)
        await _items(caller).delete(task_id)

    async def _settled(self, caller: Caller, task: Task | None) -> Task | None:
        """Return *task*; one that no process works on has failed, and is kept as such."""
        if task is None or await self._is_alive(caller, task):
            return task
        await asyncio.sleep(_ENDING_SECONDS)  # its process may be writing how it has ended
        task = await _get(caller, task.id)
        if task is None or await self._is_alive(caller, task):
            return task
        told = {"code": RestartingError.code, "message": "The process of the turn has ended. Send the message again."}
        message = new_data_message(told, context_id=task.context_id, task_id=task.id)
        task.status.CopyFrom(TaskStatus(state=TaskState.TASK_STATE_FAILED, message=message))
        task.status.timestamp.GetCurrentTime()
        await _items(caller).put(task.id, {"task": MessageToDict(task)}, minutes=_MINUTES)
        return task

    async def _is_alive(self, caller: Caller, task: Task) -> bool:
        """Return whether *task* is not in progress, or a process works on it or may wait for its thread."""
        if task.status.state not in RUNNING:
            return True
        age = SystemClock().now().timestamp() - task.status.timestamp.ToSeconds()
        if task.status.state == TaskState.TASK_STATE_SUBMITTED and age < _WAITING_SECONDS:
            return True
        return await self._at_work(caller.principal.owner, str(task.metadata[RUN]) if RUN in task.metadata else "")


def _items(caller: Caller) -> OwnerItems:
    return OwnerItems(caller.tk, "a2a")


async def _get(caller: Caller, task_id: str) -> Task | None:
    value = await _items(caller).get(task_id)
    return None if value is None else ParseDict(value["task"], Task())


class PushConfigs(PushNotificationConfigStore):
    """The addresses of tasks: items of the owner, kept for a day, so every process calls them."""

    @override
    async def set_info(self, task_id: str, notification_config: PushConfig, context: ServerCallContext) -> PushConfig:
        config = normalize_push_notification_config(task_id, notification_config)
        others = [one for one in await self.get_info(task_id, context) if one.id != config.id]
        if len(others) >= _OF_TASK or await _addresses(context).list(limit=1, offset=_OF_OWNER - 1):
            msg = f"A task has {_OF_TASK} addresses at most, and the tasks of a user have {_OF_OWNER}."
            raise InvalidParamsError(msg)
        await _addresses(context, task_id).put(config.id, {"config": MessageToDict(config)}, minutes=_MINUTES)
        return config

    @override
    async def get_info(self, task_id: str, context: ServerCallContext) -> list[PushConfig]:
        rows = await _addresses(context, task_id).list(limit=_OF_TASK)
        return [ParseDict(row["config"], PushConfig()) for row in reversed(rows)]

    @override
    async def get_info_for_dispatch(self, task_id: str) -> list[PushConfig]:
        return await self.get_info(task_id, CALL.get())

    @override
    async def delete_info(self, task_id: str, context: ServerCallContext, config_id: str | None = None) -> None:
        for config in await self.get_info(task_id, context):
            if config_id in (None, config.id):
                await _addresses(context, task_id).delete(config.id)


def _addresses(context: ServerCallContext, *task_ids: str) -> OwnerItems:
    """Return the addresses of an owner, or of a task of the owner."""
    return OwnerItems(get_caller(context).tk, "a2a_push", *map(short_digest, task_ids))


class PushNotifications(BasePushNotificationSender):
    """Tells the addresses of a task its changes of state, and forgets them at its end."""

    @override
    async def send_notification(self, task_id: str, event: PushNotificationEvent) -> None:
        if not isinstance(event, Task | TaskStatusUpdateEvent):
            return  # the parts of a text are for streams
        # The SDK logs addresses, which may hold secrets; the transport says what failed.
        logging.getLogger(BasePushNotificationSender.__module__).disabled = True
        await super().send_notification(task_id, event)
        if event.status.state in TERMINAL_TASK_STATES:
            await self._config_store.delete_info(task_id, CALL.get())
