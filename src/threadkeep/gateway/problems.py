"""Errors as ``application/problem+json``: each has a status, a code and a sentence, and no input of the client."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from threadkeep.errors import ThreadkeepError
from threadkeep.fastapi import RETRY_SECONDS
from threadkeep.gateway.public_errors import public_error
from threadkeep.observability import current_trace_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

PROBLEM_TYPE: Final = "application/problem+json"

PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "trace_id": {"type": "string"},
        "errors": {"type": "array", "items": {"type": "object"}},
    },
}
"""The JSON schema of a problem document."""


class ProblemError(Exception):
    """An answer of the gateway that no error of the library stands for.

    Args:
        status: The HTTP status.
        code: A stable snake_case name.
        detail: One sentence; no input of the client.
        retry_after: When the client may try again, in seconds.
    """

    def __init__(self, status: int, code: str, detail: str, *, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.retry_after = retry_after


def problem(
    status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: object
) -> Response:
    """Return a problem document."""
    document = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "code": code}
    document |= {"detail": detail, **more}
    if trace_id := current_trace_id():
        document["trace_id"] = trace_id
    return Response(json.dumps(document), status, dict(headers or {}), PROBLEM_TYPE)


async def threadkeep_problem(request: Request, error: Exception) -> Response:
    """Answer *request* with the status and the code of one of our errors."""
    shown = public_error(error)
    status = shown.status
    request.app.state.gateway.metrics.refused(shown.code)
    headers: dict[str, str] = {}
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_SECONDS)
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return problem(status, shown.code, shown.detail, headers=headers)


async def gateway_problem(request: Request, error: Exception) -> Response:
    """Answer *request* with a :class:`ProblemError`."""
    error = cast("ProblemError", error)
    request.app.state.gateway.metrics.refused(error.code)
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return problem(error.status, error.code, str(error), headers=headers)


async def invalid_request(request: Request, error: Exception) -> Response:
    """Answer *request* with the places of what is invalid in it, and not with what stands there."""
    found = cast("RequestValidationError", error).errors()
    errors = [{"at": [str(part) for part in one["loc"]], "message": str(one["msg"])} for one in found]
    detail = "The request is invalid; errors names the places."
    if any(one["at"] == ["body"] for one in errors) and "json" not in request.headers.get("content-type", ""):
        detail += " Send JSON with the header Content-Type: application/json."
    return problem(422, "input_invalid", detail, errors=errors)


async def http_problem(request: Request, error: Exception) -> Response:
    """Answer *request* with the status of an error of the framework."""
    del request
    error = cast("HTTPException", error)
    status = HTTPStatus(error.status_code)
    return problem(status, status.name.lower(), status.phrase, headers=error.headers)


async def internal_problem(request: Request, error: Exception) -> Response:
    """Answer *request* after a defect; the server logs the error itself."""
    del request, error
    return problem(500, "internal_error", "The request failed; the server's log says why.")


def problem_handlers() -> dict[Any, Callable[[Request, Exception], Any]]:
    """Return the handlers for ``FastAPI(exception_handlers=…)``."""
    return {
        ThreadkeepError: threadkeep_problem,
        ProblemError: gateway_problem,
        RequestValidationError: invalid_request,
        HTTPException: http_problem,
        Exception: internal_problem,
    }
