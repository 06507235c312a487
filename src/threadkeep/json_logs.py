"""Logs of a server as JSON, one object a line: no text of a message or a memory, and owners as keyed digests only."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
import sys
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from threadkeep.clock import SystemClock
from threadkeep.observability import current_trace_id

if TYPE_CHECKING:
    from threadkeep.identity import Owner
    from threadkeep.settings import Settings

LOGGERS: Final = ("threadkeep", "uvicorn", "uvicorn.error")
"""The loggers of a server. Others keep their handlers: what they log is the application's."""


FIELDS: Final = ("owner", "run", "outcome", "seconds")
"""What a record may have beside its message, given as ``extra``."""


class OwnerDigests:
    """Stands for owners in logs by 16 hexadecimal digits, which cannot be computed without the key.

    Args:
        secret: THREADKEEP_ERASURE_KEY, so that all processes write the same digits; ``None``: a random key.
    """

    def __init__(self, secret: str | None) -> None:
        self._key = hashlib.sha256(b"logs" + secret.encode()).digest() if secret else secrets.token_bytes(32)

    def of(self, owner: Owner) -> str:
        """Return the digits of *owner*."""
        return hmac.digest(self._key, owner.label.encode("utf-8", "surrogatepass"), hashlib.sha256).hex()[:16]


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object; of an exception it has the type only, as its words may quote a message."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str | float] = {
            "time": SystemClock().now().isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in FIELDS:
            if isinstance(value := getattr(record, name, None), str | float | int):
                line[name] = value
        if (trace_id := current_trace_id()) is not None:
            line["trace_id"] = trace_id
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
        return json.dumps(line)


def use_log_format(settings: Settings) -> None:
    """Let the loggers of a server write JSON to standard error from now on, if THREADKEEP_LOG_FORMAT asks for it."""
    if settings.log_format != "json":
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler] if name != "uvicorn.error" else []
        logger.propagate = name == "uvicorn.error"
        logger.setLevel(logging.INFO)
