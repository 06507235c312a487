"""Push notifications: off by default; each is one HTTPS request to a public address that the client named."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import httpx
from a2a.server.tasks import BasePushNotificationSender, InMemoryPushNotificationConfigStore
from a2a.types.a2a_pb2 import Task, TaskPushNotificationConfig, TaskStatusUpdateEvent
from a2a.utils.errors import InvalidParamsError
from typing_extensions import override

from threadkeep.a2a.tasks import RUNNING
from threadkeep.gateway.public_http import PublicTransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from a2a.server.context import ServerCallContext
    from a2a.server.tasks.push_notification_sender import PushNotificationEvent

    from threadkeep.gateway.operations import Caller

_logger: Final = logging.getLogger(BasePushNotificationSender.__module__)
_OF_TASK: Final = 5
_OF_OWNER: Final = 100


class PushConfigs(InMemoryPushNotificationConfigStore):
    """The addresses of the tasks in progress in this process.

    Args:
        caller: Returns the program that makes a call.
    """

    def __init__(self, caller: Callable[[ServerCallContext], Caller]) -> None:
        super().__init__(lambda context: caller(context).principal.owner.label)

    @override
    async def set_info(
        self, task_id: str, notification_config: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        tasks = self._push_notification_infos.get(self.owner_resolver(context), {})
        if len(tasks.get(task_id, ())) >= _OF_TASK or len(tasks) >= _OF_OWNER:
            msg = f"A task has {_OF_TASK} addresses at most, and {_OF_OWNER} tasks of a user have some."
            raise InvalidParamsError(msg)
        return await super().set_info(task_id, notification_config, context)

    def forget(self, task_id: str) -> None:
        """Remove the addresses of a task."""
        for owner, tasks in [*self._push_notification_infos.items()]:
            tasks.pop(task_id, None)
            if not tasks:
                del self._push_notification_infos[owner]


class PushNotifications(BasePushNotificationSender):
    """Tells the addresses of a task its changes of state, and forgets them at its end.

    Args:
        caller: Returns the program that makes a call.
        transport: Sends; ``None``: to public addresses only.
    """

    def __init__(
        self, caller: Callable[[ServerCallContext], Caller], transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.configs = PushConfigs(caller)
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
        if event.status.state not in RUNNING:
            self.configs.forget(task_id)
