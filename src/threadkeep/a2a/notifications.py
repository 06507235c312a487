"""Push notifications: off by default; each is one HTTPS request to a public address that the client named."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import httpx
from a2a.server.agent_execution.active_task import TERMINAL_TASK_STATES
from a2a.server.tasks import BasePushNotificationSender, PushNotificationConfigStore
from a2a.server.tasks.push_notification_config_store import normalize_push_notification_config
from a2a.types.a2a_pb2 import Task, TaskPushNotificationConfig, TaskStatusUpdateEvent
from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import MessageToDict, ParseDict
from typing_extensions import override

from threadkeep.a2a.messages import get_caller
from threadkeep.a2a.tasks import MINUTES, RUNNING
from threadkeep.gateway.owner_items import OwnerItems
from threadkeep.gateway.public_http import PublicTransport
from threadkeep.ids import short_digest

if TYPE_CHECKING:
    from a2a.server.context import ServerCallContext
    from a2a.server.tasks.push_notification_sender import PushNotificationEvent

    from threadkeep.gateway.operations import Caller

_logger: Final = logging.getLogger(BasePushNotificationSender.__module__)
_OF_TASK: Final = 5
_OF_OWNER: Final = 500


class PushConfigs(PushNotificationConfigStore):
    """The addresses of tasks: items of the owner, kept for a day, so every process calls them.

    Attributes:
        callers: For whom this process works on a task: changes of state name the task alone.
    """

    def __init__(self) -> None:
        self.callers: dict[str, Caller] = {}

    @override
    async def set_info(
        self, task_id: str, notification_config: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        caller, config = get_caller(context), normalize_push_notification_config(task_id, notification_config)
        others = [one for one in await _of_task(caller, task_id) if one.id != config.id]
        if len(others) >= _OF_TASK or await _items(caller).list(limit=1, offset=_OF_OWNER - 1):
            msg = f"A task has {_OF_TASK} addresses at most, and the tasks of a user have {_OF_OWNER}."
            raise InvalidParamsError(msg)
        await _items(caller, task_id).put(config.id, {"config": MessageToDict(config)}, minutes=MINUTES)
        return config

    @override
    async def get_info(self, task_id: str, context: ServerCallContext) -> list[TaskPushNotificationConfig]:
        return await _of_task(get_caller(context), task_id)

    @override
    async def get_info_for_dispatch(self, task_id: str) -> list[TaskPushNotificationConfig]:
        caller = self.callers.get(task_id)
        return [] if caller is None else await _of_task(caller, task_id)

    @override
    async def delete_info(self, task_id: str, context: ServerCallContext, config_id: str | None = None) -> None:
        await _delete(get_caller(context), task_id, config_id)

    async def end(self, task_id: str, *, ends: bool) -> None:
        """Work on a task no longer; one that *ends* needs no addresses any more."""
        caller = self.callers.pop(task_id, None)
        if caller is not None and ends:
            await _delete(caller, task_id)


def _items(caller: Caller, *task_ids: str) -> OwnerItems:
    """Return the addresses of an owner, or of a task of the owner."""
    return OwnerItems(caller.tk, "a2a_push", *map(short_digest, task_ids))


async def _of_task(caller: Caller, task_id: str) -> list[TaskPushNotificationConfig]:
    rows = await _items(caller, task_id).list(limit=_OF_TASK)
    return [ParseDict(row["config"], TaskPushNotificationConfig()) for row in reversed(rows)]


async def _delete(caller: Caller, task_id: str, config_id: str | None = None) -> None:
    for config in await _of_task(caller, task_id):
        if config_id in (None, config.id):
            await _items(caller, task_id).delete(config.id)


class PushNotifications(BasePushNotificationSender):
    """Tells the addresses of a task its changes of state, and forgets them at its end.

    Args:
        configs: The addresses.
        transport: Sends; ``None``: to public addresses only.
    """

    def __init__(self, configs: PushConfigs, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._configs = configs
        self._http = httpx.AsyncClient(transport=transport or PublicTransport(), trust_env=False)
        super().__init__(self._http, configs)
        _logger.disabled = True  # it writes addresses, which may hold secrets; the transport says what failed

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    @override
    async def send_notification(self, task_id: str, event: PushNotificationEvent) -> None:
        if not isinstance(event, Task | TaskStatusUpdateEvent):
            return  # the parts of a text are for streams
        await super().send_notification(task_id, event)
        if event.status.state not in RUNNING:
            await self._configs.end(task_id, ends=event.status.state in TERMINAL_TASK_STATES)
