"""Push notifications: off by default; each is one HTTPS request to a public address that the client named."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import httpx
from a2a.server.agent_execution.active_task import TERMINAL_TASK_STATES
from a2a.server.tasks import BasePushNotificationSender, PushNotificationConfigStore
from a2a.server.tasks.push_notification_config_store import normalize_push_notification_config
from a2a.types.a2a_pb2 import Task, TaskPushNotificationConfig, TaskStatusUpdateEvent
from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import MessageToDict, ParseDict
from typing_extensions import override

from threadkeep.a2a.tasks import MINUTES, RUNNING
from threadkeep.gateway.public_http import PublicTransport
from threadkeep.ids import short_digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from a2a.server.context import ServerCallContext
    from a2a.server.tasks.push_notification_sender import PushNotificationEvent

    from threadkeep.client import Threadkeep
    from threadkeep.gateway.operations import Caller
    from threadkeep.identity import Owner

_logger: Final = logging.getLogger(BasePushNotificationSender.__module__)
_OF_TASK: Final = 5
_OF_OWNER: Final = 500


class PushConfigs(PushNotificationConfigStore):
    """The addresses of tasks: items of the owner, kept for a day, so every process calls them.

    Args:
        caller: Returns the program that makes a call.
        tk: The memory.

    Attributes:
        owners: The owners of the tasks that this process works on: changes of state name the task alone.
    """

    def __init__(self, caller: Callable[[ServerCallContext], Caller], tk: Threadkeep) -> None:
        self._caller = caller
        self._tk = tk
        self.owners: dict[str, Owner] = {}

    @override
    async def set_info(
        self, task_id: str, notification_config: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        owner = self._caller(context).principal.owner
        config = normalize_push_notification_config(task_id, notification_config)
        others = [one for one in await self._of_task(owner, task_id) if one.id != config.id]
        store = self._store(owner)
        if len(others) >= _OF_TASK or await store.asearch(_items(owner), limit=1, offset=_OF_OWNER - 1):
            msg = f"A task has {_OF_TASK} addresses at most, and the tasks of a user have {_OF_OWNER}."
            raise InvalidParamsError(msg)
        value = {"config": MessageToDict(config)}
        await store.aput(_items(owner, task_id), short_digest(config.id), value, index=False, ttl=MINUTES)
        return config

    @override
    async def get_info(self, task_id: str, context: ServerCallContext) -> list[TaskPushNotificationConfig]:
        return await self._of_task(self._caller(context).principal.owner, task_id)

    @override
    async def get_info_for_dispatch(self, task_id: str) -> list[TaskPushNotificationConfig]:
        owner = self.owners.get(task_id)
        return [] if owner is None else await self._of_task(owner, task_id)

    @override
    async def delete_info(self, task_id: str, context: ServerCallContext, config_id: str | None = None) -> None:
        await self._delete(self._caller(context).principal.owner, task_id, config_id)

    async def forget(self, task_id: str) -> None:
        """Remove the addresses of a task that this process works on."""
        if task_id in self.owners:
            await self._delete(self.owners[task_id], task_id)

    async def _delete(self, owner: Owner, task_id: str, config_id: str | None = None) -> None:
        for config in await self._of_task(owner, task_id):
            if config_id in (None, config.id):
                await self._store(owner).adelete(_items(owner, task_id), short_digest(config.id))

    async def _of_task(self, owner: Owner, task_id: str) -> list[TaskPushNotificationConfig]:
        rows = await self._store(owner).asearch(_items(owner, task_id), limit=_OF_TASK)
        return [ParseDict(row.value["config"], TaskPushNotificationConfig()) for row in reversed(rows)]

    def _store(self, owner: Owner) -> Any:
        return self._tk.for_owner(owner).store


def _items(owner: Owner, *task_ids: str) -> tuple[str, ...]:
    """Return the namespace of the addresses of an owner, or of a task of the owner."""
    return "users", owner.label, "gateway", "a2a_push", *map(short_digest, task_ids)


class PushNotifications(BasePushNotificationSender):
    """Tells the addresses of a task its changes of state, and forgets them at its end.

    Args:
        caller: Returns the program that makes a call.
        tk: The memory.
        transport: Sends; ``None``: to public addresses only.
    """

    def __init__(
        self,
        caller: Callable[[ServerCallContext], Caller],
        tk: Threadkeep,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.configs = PushConfigs(caller, tk)
        self._http = httpx.AsyncClient(transport=transport or PublicTransport(), trust_env=False)
        super().__init__(self._http, self.configs)
        _logger.disabled = True  # it writes addresses, which may hold secrets; the transport says what failed

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    @override
    async def send_notification(self, task_id: str, event: PushNotificationEvent) -> None:
        if not isinstance(event, Task | TaskStatusUpdateEvent):
            return  # the parts of a text are for streams
        await super().send_notification(task_id, event)
        if event.status.state in TERMINAL_TASK_STATES:
            await self.configs.forget(task_id)
        if event.status.state not in RUNNING:
            self.configs.owners.pop(task_id, None)
