"""Errors as clients of every interface see them: a status, a code and a sentence. Imports no web framework."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from threadkeep.errors import OverloadedError, StorageError, StorageFullError, StorageUnavailableError, ThreadkeepError
from threadkeep.fastapi import RETRY_SECONDS, status_of
from threadkeep.observability import log

NOT_FOUND: Final = 404
UNPROCESSABLE: Final = 422
TOO_MANY: Final = 429
SERVER_ERROR: Final = 500
UNAVAILABLE: Final = 503


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


@dataclass(frozen=True, slots=True)
class PublicError:
    """What a client sees of an error.

    Attributes:
        status: The HTTP status.
        code: A stable snake_case name.
        detail: One sentence.
        retry_after: When the client may try again, in seconds.
    """

    status: int
    code: str
    detail: str
    retry_after: int | None = None


def public_error(error: Exception) -> PublicError:
    """Return what a client sees of *error*; the log has the rest of what is our fault.

    What is not found has the same sentence as what belongs to another owner.
    """
    if isinstance(error, ProblemError):
        return PublicError(error.status, error.code, str(error), error.retry_after)
    if not isinstance(error, ThreadkeepError):
        log.error("A request failed.", exc_info=error)
        return PublicError(SERVER_ERROR, "internal_error", "The request failed; the server's log says why.")
    status, detail = status_of(error), public_detail(error)
    if status == SERVER_ERROR:
        log.error("A request failed: %s", error)
        detail = "The server is not configured correctly; its log says why."
    elif status == NOT_FOUND:
        detail = f"There is no {error.code.removesuffix('_not_found')} with this id."
    return PublicError(status, error.code, detail, RETRY_SECONDS if status == UNAVAILABLE else None)


def public_detail(error: ThreadkeepError) -> str:
    """Return the sentence of *error*; one about the storage does not say where that is, and as whom it is used."""
    if isinstance(error, OverloadedError) or not isinstance(error, StorageError):
        return str(error)
    if isinstance(error, StorageUnavailableError):
        return "The storage does not answer; try again in a moment."
    log.error("The storage failed: %s", error)
    return (
        "The storage is full."
        if isinstance(error, StorageFullError)
        else "The storage failed; the server's log says why."
    )
