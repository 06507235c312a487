"""Routes of LangGraph's API that are not served: each says where to go instead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import APIRouter, Depends

from threadkeep.gateway.auth import require
from threadkeep.gateway.problems import ProblemError

router = APIRouter(dependencies=[Depends(require("chat"))])

_ONE_ASSISTANT: Final = "The served graph is the one assistant. Run it on a LangGraph server to keep several versions."
_NO_CRON: Final = "Nothing is scheduled here. Call the run from a scheduler of your own."
_ONE_BY_ONE: Final = "Send one request for each run or thread."
_OTHER_STREAM: Final = "Stream a run by /threads/{thread_id}/runs/stream, or join it by /runs/{run_id}/stream."

NO_WEBHOOK: Final = "Webhooks are not called here. Stream the run, join it, or wait for it."
NO_SCHEDULE: Final = _NO_CRON

ROUTES: Final[dict[str, str]] = {
    "POST /runs/crons": _NO_CRON,
    "POST /runs/crons/search": _NO_CRON,
    "POST /runs/crons/count": _NO_CRON,
    "PATCH /runs/crons/{id}": _NO_CRON,
    "DELETE /runs/crons/{id}": _NO_CRON,
    "POST /threads/{id}/runs/crons": _NO_CRON,
    "POST /assistants": _ONE_ASSISTANT,
    "PATCH /assistants/{id}": _ONE_ASSISTANT,
    "DELETE /assistants/{id}": _ONE_ASSISTANT,
    "POST /assistants/count": _ONE_ASSISTANT,
    "POST /assistants/{id}/versions": _ONE_ASSISTANT,
    "POST /assistants/{id}/latest": _ONE_ASSISTANT,
    "GET /assistants/{id}/subgraphs": _ONE_ASSISTANT,
    "GET /assistants/{id}/subgraphs/{namespace}": _ONE_ASSISTANT,
    "POST /runs": _ONE_BY_ONE,
    "POST /runs/batch": _ONE_BY_ONE,
    "POST /runs/cancel": _ONE_BY_ONE,
    "POST /threads/prune": _ONE_BY_ONE,
    "DELETE /threads/{id}/runs/{run}": _ONE_BY_ONE,
    "GET /threads/{id}/stream": _OTHER_STREAM,
    "POST /threads/{id}/stream/events": _OTHER_STREAM,
    "POST /threads/{id}/commands": _OTHER_STREAM,
}
"""What is said of each route."""


def not_implemented(detail: str) -> ProblemError:
    """Return the answer to what is not served."""
    return ProblemError(501, "not_implemented", detail)


def _refusal(detail: str) -> Callable[[], Awaitable[None]]:
    async def refuse() -> None:
        raise not_implemented(detail)

    return refuse


for _route, _detail in ROUTES.items():
    _method, _path = _route.split()
    router.add_api_route(_path, _refusal(_detail), methods=[_method])
