"""Routes of LangGraph's API that are not served: each says where to go instead."""

from __future__ import annotations

from functools import partial
from typing import Final

from fastapi import APIRouter, Depends

from threadkeep.gateway.auth import require
from threadkeep.gateway.public_errors import ProblemError

router = APIRouter(dependencies=[Depends(require("chat"))])

NO_WEBHOOK: Final = "Webhooks are not called here. Stream the run, join it, or wait for it."
NO_SCHEDULE: Final = "Nothing is scheduled here. Call the run from a scheduler of your own."

_TABLE: Final[dict[str, str]] = {
    NO_SCHEDULE: """
        POST /runs/crons, POST /runs/crons/search, POST /runs/crons/count, PATCH /runs/crons/{id},
        DELETE /runs/crons/{id}, POST /threads/{id}/runs/crons""",
    "The served graph is the one assistant. Run it on a LangGraph server to keep several versions.": """
        POST /assistants, PATCH /assistants/{id}, DELETE /assistants/{id}, POST /assistants/count,
        POST /assistants/{id}/versions, POST /assistants/{id}/latest,
        GET /assistants/{id}/subgraphs, GET /assistants/{id}/subgraphs/{namespace}""",
    "Send one request for each run or thread.": """
        POST /runs, POST /runs/batch, POST /runs/cancel, POST /threads/prune, DELETE /threads/{id}/runs/{run}""",
    "Stream a run by /threads/{thread_id}/runs/stream, or join it by /runs/{run_id}/stream.": """
        GET /threads/{id}/stream, POST /threads/{id}/stream/events, POST /threads/{id}/commands""",
}
ROUTES: Final = {route.strip(): detail for detail, routes in _TABLE.items() for route in routes.split(",")}
"""What is said of each route."""


def not_implemented(detail: str) -> ProblemError:
    """Return the answer to what is not served."""
    return ProblemError(501, "not_implemented", detail)


async def _refuse(detail: str) -> None:
    raise not_implemented(detail)


for _route, _detail in ROUTES.items():
    _method, _path = _route.split()
    router.add_api_route(_path, partial(_refuse, _detail), methods=[_method])
