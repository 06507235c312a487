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

ROUTES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    _NO_CRON: (
        ("POST", "/runs/crons"),
        ("POST", "/runs/crons/search"),
        ("POST", "/runs/crons/count"),
        ("PATCH", "/runs/crons/{id}"),
        ("DELETE", "/runs/crons/{id}"),
        ("POST", "/threads/{id}/runs/crons"),
    ),
    _ONE_ASSISTANT: (
        ("POST", "/assistants"),
        ("PATCH", "/assistants/{id}"),
        ("DELETE", "/assistants/{id}"),
        ("POST", "/assistants/count"),
        ("POST", "/assistants/{id}/versions"),
        ("POST", "/assistants/{id}/latest"),
        ("GET", "/assistants/{id}/subgraphs"),
        ("GET", "/assistants/{id}/subgraphs/{namespace}"),
    ),
    _ONE_BY_ONE: (
        ("POST", "/runs"),
        ("POST", "/runs/batch"),
        ("POST", "/runs/cancel"),
        ("POST", "/threads/prune"),
        ("DELETE", "/threads/{id}/runs/{run}"),
    ),
    _OTHER_STREAM: (
        ("GET", "/threads/{id}/stream"),
        ("POST", "/threads/{id}/stream/events"),
        ("POST", "/threads/{id}/commands"),
    ),
}
"""The routes by what is said of them."""


def not_implemented(detail: str) -> ProblemError:
    """Return the answer to what is not served."""
    return ProblemError(501, "not_implemented", detail)


def _refusal(detail: str) -> Callable[[], Awaitable[None]]:
    async def refuse() -> None:
        raise not_implemented(detail)

    return refuse


for _detail, _routes in ROUTES.items():
    for _method, _path in _routes:
        router.add_api_route(_path, _refusal(_detail), methods=[_method])
