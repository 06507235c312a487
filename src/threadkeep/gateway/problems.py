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
from threadkeep.gateway.public_errors import ProblemError, public_error
from threadkeep.gateway.validation import SOURCES, invalid_fields
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


def problem(
    status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: object
) -> Response:
    """Return a problem document."""
    document = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "code": code}
    document |= {"detail": detail, **more}
    if trace_id := current_trace_id():
        document["trace_id"] = trace_id
    return Response(json.dumps(document), status, dict(headers or {}), PROBLEM_TYPE)


async def error_problem(request: Request, error: Exception) -> Response:
    """Answer *request* with the status and the code of an error of ours, or of a :class:`ProblemError`."""
    shown = public_error(error)
    request.app.state.gateway.metrics.refused(shown.code)
    headers = {} if shown.retry_after is None else {"Retry-After": str(shown.retry_after)}
    if shown.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return problem(shown.status, shown.code, shown.detail, headers=headers)


async def invalid_request(request: Request, error: Exception) -> Response:
    """Answer *request* with the places of what is invalid in it, and not with what stands there."""
    error = cast("RequestValidationError", error)
    errors = [field._asdict() for field in invalid_fields(error.errors(), error.body, root="The body", sources=SOURCES)]
    detail = "The request is invalid; errors names the places."
    if any(one["at"] == ("body",) for one in errors) and "json" not in request.headers.get("content-type", ""):
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
        ThreadkeepError: error_problem,
        ProblemError: error_problem,
        RequestValidationError: invalid_request,
        HTTPException: http_problem,
        Exception: internal_problem,
    }
