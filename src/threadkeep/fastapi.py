"""For FastAPI applications: a client for the authenticated user as a dependency, and responses to errors.

It needs FastAPI: ``pip install fastapi``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from threadkeep.errors import (
    AgentUnavailableError,
    ApprovalRequiredError,
    ClosedError,
    CollectionNotFoundError,
    ConflictError,
    CredentialRequiredError,
    DocumentNotFoundError,
    EmbedderUnavailableError,
    ExtractionError,
    FileTypeUnsupportedError,
    InvalidInputError,
    MemoryNotFoundError,
    ModelUnavailableError,
    OptedOutError,
    OverloadedError,
    OwnerConflictError,
    OwnerMismatchError,
    OwnerRequiredError,
    ProposalNotFoundError,
    RestartingError,
    RoleRequiredError,
    RunNotFoundError,
    ScopeNotFoundError,
    ScopeRequiredError,
    SlotNotFoundError,
    StorageError,
    StorageFullError,
    ThreadkeepError,
    ThreadNotFoundError,
    TooLargeError,
    VectorEngineError,
)
from threadkeep.identity import Owner
from threadkeep.observability import log

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from threadkeep.client import Threadkeep

STATUSES: Final[Mapping[type[ThreadkeepError], int]] = {
    OwnerRequiredError: 401,
    OwnerMismatchError: 403,
    OwnerConflictError: 403,
    OptedOutError: 403,
    RoleRequiredError: 403,
    ScopeNotFoundError: 404,
    ScopeRequiredError: 403,
    MemoryNotFoundError: 404,
    SlotNotFoundError: 404,
    ProposalNotFoundError: 404,
    CollectionNotFoundError: 404,
    DocumentNotFoundError: 404,
    RunNotFoundError: 404,
    ThreadNotFoundError: 404,
    ConflictError: 409,
    ApprovalRequiredError: 409,
    CredentialRequiredError: 403,
    TooLargeError: 413,
    FileTypeUnsupportedError: 415,
    InvalidInputError: 422,
    OverloadedError: 503,
    StorageError: 503,
    StorageFullError: 507,
    VectorEngineError: 503,
    EmbedderUnavailableError: 503,
    ModelUnavailableError: 503,
    AgentUnavailableError: 503,
    ExtractionError: 503,
    RestartingError: 503,
    ClosedError: 503,
    ThreadkeepError: 500,
}
"""The HTTP status of each error; an error that is not listed has that of its nearest base class."""

RETRY_SECONDS: Final = 1
"""When a client may try again after a 503."""


def owner_dependency(tk: Threadkeep, user: Callable[..., Any]) -> Callable[..., Threadkeep]:
    """Return a FastAPI dependency that gives a client of *tk* which is locked to the authenticated user.

    Args:
        tk: The memory.
        user: A dependency of the application that authenticates the request and returns a user id, an ``Owner``, or
            ``None`` if there is no user.

    Raises:
        OwnerRequiredError: In a request without a user.
    """
    from fastapi import Depends

    authenticated = Depends(user)

    def owned(user_id: Any = authenticated) -> Threadkeep:
        if user_id is None or user_id == "":
            msg = "owner is required: the application authenticated no user for this request."
            raise OwnerRequiredError(msg)
        return tk.for_owner(user_id if isinstance(user_id, Owner) else str(user_id))

    return owned


def status_of(error: ThreadkeepError) -> int:
    """Return the HTTP status of *error*."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


async def respond(request: Request, error: Exception) -> Response:
    """Answer *request* with the status of *error*, its code and its message; a 500 does not show the message."""
    from starlette.responses import JSONResponse

    del request
    status = status_of(error) if isinstance(error, ThreadkeepError) else 500
    code = error.code if isinstance(error, ThreadkeepError) else "internal_error"
    message = str(error)
    if status == 500:  # noqa: PLR2004 - an HTTP status
        log.error("A request failed: %s", message)
        message = "The server is not configured correctly; its log says why."
    headers = {"Retry-After": str(RETRY_SECONDS)} if status == 503 else None  # noqa: PLR2004 - an HTTP status
    return JSONResponse({"error": {"code": code, "message": message}}, status, headers)


def exception_handlers() -> dict[type[Exception], Callable[[Request, Exception], Any]]:
    """Return the handlers for ``FastAPI(exception_handlers=…)``: each of our errors has a status and a JSON body."""
    return {ThreadkeepError: respond}
