"""Translate errors of Redis and of its driver."""

from __future__ import annotations

import errno
import os
import re
import ssl
from typing import Final, NamedTuple, TypeAlias

from redis import exceptions as redis

from threadkeep.errors import (
    NotAStorageError,
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)

ErrorKind: TypeAlias = type[StorageError]

_SHOWN_CHARACTERS: Final = 200
_CODES: Final = re.compile(
    r"(?:^|-)(OOM|READONLY|MISCONF|NOPERM|NOREPLICAS|WRONGTYPE|BUSY|LOADING|CLUSTERDOWN|TRYAGAIN|MASTERDOWN|NOAUTH"
    r"|WRONGPASS|CROSSSLOT)\b"
)
"""Redis's error codes; before version 7 the code of an error in a script stands in the middle of its text."""

_CODES_OF_CLASSES: Final[dict[type[Exception], str]] = {
    redis.OutOfMemoryError: "OOM",
    redis.ReadOnlyError: "READONLY",
    redis.NoPermissionError: "NOPERM",
    redis.BusyLoadingError: "LOADING",
    redis.ClusterDownError: "CLUSTERDOWN",
    redis.TryAgainError: "TRYAGAIN",
    redis.MasterDownError: "MASTERDOWN",
    redis.ClusterCrossSlotError: "CROSSSLOT",
    redis.AskError: "MOVED",
}
_NUMBERS: Final = re.compile(r"\[Errno (\d+)\]")

BRIEF_CODES: Final = frozenset({"LOADING", "BUSY", "TRYAGAIN"})
"""The server did nothing and will soon; its connections and the map of the cluster are as good as before."""

_PASSING_CODES: Final = BRIEF_CODES | {"CLUSTERDOWN", "MASTERDOWN"}
_MAX_CLIENTS: Final = "max number of clients reached"


class _Meaning(NamedTuple):
    kind: ErrorKind
    sentence: str


_MEANINGS: Final[dict[str, _Meaning]] = {
    "OOM": _Meaning(
        StorageFullError,
        "has reached its maxmemory and takes no more; raise maxmemory, or forget what is not needed. "
        "Nothing was written.",
    ),
    "MISCONF": _Meaning(
        StorageFullError,
        "cannot write to its disk, and so refuses every write; free space on it and see the server's log. "
        "Nothing was written.",
    ),
    "READONLY": _Meaning(
        StorageReadOnlyError, "is a read-only replica; give the address of the primary. Nothing was written."
    ),
    "NOREPLICAS": _Meaning(
        StorageUnavailableError,
        "has fewer replicas than its min-replicas-to-write asks for; bring them back. Nothing was written.",
    ),
    "WRONGTYPE": _Meaning(
        NotAStorageError,
        "holds keys of another kind where Threadkeep's would be; choose another LANGGRAPH_STORE_KEY_PREFIX. "
        "Nothing was written.",
    ),
    "LOADING": _Meaning(StorageUnavailableError, "is still loading its data; try again in a moment."),
    "BUSY": _Meaning(
        StorageUnavailableError, "is busy with a script of another client; try again, or end it with SCRIPT KILL."
    ),
    "CLUSTERDOWN": _Meaning(
        StorageUnavailableError, "is a cluster without a node for this owner; see CLUSTER INFO on its nodes."
    ),
    "TRYAGAIN": _Meaning(StorageUnavailableError, "is moving this owner between nodes; try again in a moment."),
    "MASTERDOWN": _Meaning(
        StorageUnavailableError, "is a replica that has lost its primary; give the address of the primary."
    ),
    "MOVED": _Meaning(StorageDeniedError, "is a node of a cluster and does not tell this user so; grant +info."),
    "CROSSSLOT": _Meaning(
        StorageError, "is a cluster behind something that hides it; give the address of one of its nodes."
    ),
}
_REFUSED: Final = (
    "refused the user name or the password; correct them in the URL, where a % is spelled %25 and an @ %40."
)
_TOO_LATE: Final = "did not answer in time; see what keeps it busy, or raise THREADKEEP_REDIS_TIMEOUT_MS."
_HUNG_UP: Final = "the connection was lost"


def _unreachable(why: str) -> str:
    return f"cannot be reached ({why}); see that it runs and that the URL is right."


_SILENT: Final = frozenset({_TOO_LATE, _unreachable(_HUNG_UP), _unreachable(os.strerror(errno.ECONNRESET))})
"""What a server is like that speaks TLS where none is spoken to it, or the other way round."""

_WITHOUT_TLS: Final = "If it never answers, it may have no TLS: then its URL begins with redis://."
_WITH_TLS: Final = "If it never answers, it may want TLS: then its URL begins with rediss://."


def error_code(error: BaseException) -> str | None:
    """Return Redis's own code for *error*; ``None`` if it has none of the codes that matter here."""
    for kind, code in _CODES_OF_CLASSES.items():
        if isinstance(error, kind):
            return code
    match = _CODES.search(str(error)) if isinstance(error, redis.ResponseError) else None
    return match[1] if match else None


def is_retryable(error: BaseException) -> bool:
    """Return whether a repeatable command may succeed in another attempt: after a lost connection, or soon."""
    if (code := error_code(error)) is not None:
        return code in _PASSING_CODES
    return (
        isinstance(error, redis.ConnectionError | redis.TimeoutError)
        and not isinstance(error, redis.AuthenticationError | redis.InvalidResponse)
        and _tls_error(error) is None
    )


def is_denied(error: BaseException | None) -> bool:
    """Return whether the user may not send the command, or the server, usually a managed one, does not know it."""
    return error is not None and (error_code(error) == "NOPERM" or "unknown command" in str(error).lower())


def error_chain(error: BaseException | None) -> list[BaseException]:
    """Return *error* and its causes."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def to_storage_error(error: BaseException, location: str) -> StorageError:
    """Translate *error* into one sentence that names the remedy and contains no secret.

    Args:
        error: An error of the driver.
        location: The URL of the server, its password masked.
    """
    kind, sentence = _meaning(error)
    if kind is StorageUnavailableError and sentence in _SILENT:
        sentence = f"{sentence} {_WITHOUT_TLS if location.startswith('rediss:') else _WITH_TLS}"
    return kind(f"Redis at {location} {sentence}", location=location)


def _meaning(error: BaseException) -> _Meaning:
    code, text = error_code(error), str(error)[:_SHOWN_CHARACTERS]
    if isinstance(error, redis.AuthenticationError) or code in ("NOAUTH", "WRONGPASS"):
        return _Meaning(StorageDeniedError, _REFUSED)
    if code == "NOPERM":
        return _Meaning(StorageDeniedError, f"does not let this user do what is needed ({text}); see docs/storage.md.")
    if code is not None:
        return _MEANINGS[code]
    if isinstance(error, redis.InvalidResponse):
        return _Meaning(NotAStorageError, "does not answer as Redis does; correct the address in the URL.")
    if isinstance(error, redis.ConnectionError | redis.TimeoutError | TimeoutError):
        return _meaning_without_reply(error, text)
    return _Meaning(StorageError, f"refused a command ({text}); see the server's log.")


def _meaning_without_reply(error: BaseException, text: str) -> _Meaning:
    if tls := _tls_error(error):
        return _Meaning(
            StorageError,
            f"did not agree on TLS ({_tls_reason(tls)}); use rediss:// for a server with TLS and redis:// for one "
            "without, and give ssl_ca_certs= in the URL where its certificate is your own.",
        )
    if _MAX_CLIENTS in text:
        return _Meaning(StorageUnavailableError, "takes no more connections; raise its maxclients or run less.")
    if isinstance(error, redis.ConnectionError):
        return _Meaning(StorageUnavailableError, _unreachable(_reason(error)))
    return _Meaning(StorageUnavailableError, _TOO_LATE)


def _tls_error(error: BaseException) -> ssl.SSLError | None:
    """Return the failure of the TLS handshake in the causes of *error*; an abrupt end of the connection is none."""
    errors = (cause for cause in error_chain(error) if isinstance(cause, ssl.SSLError))
    return next((cause for cause in errors if not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError)), None)


def _tls_reason(error: ssl.SSLError) -> str:
    return getattr(error, "verify_message", "") or error.reason or "no reason given"


def _reason(error: BaseException) -> str:
    """Say why there is no connection, in the system's own words."""
    for cause in reversed(error_chain(error)):
        if isinstance(cause, OSError):
            if cause.errno is not None and cause.errno > 0:
                return os.strerror(cause.errno)
            if several := _NUMBERS.findall(str(cause)):  # one for each address that the name has
                return os.strerror(int(several[-1]))
            if cause.strerror:
                return cause.strerror
    return _HUNG_UP
