"""What Redis and its driver raise, and what it means here."""

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
"""The codes of errors; an old server puts one that a script met into the middle of its text."""

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
_PASSING: Final = frozenset({"LOADING", "BUSY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN"})
_MAX_CLIENTS: Final = "max number of clients reached"


class NotSentError(Exception):
    """No connection came about, so nothing was sent; its cause says why."""


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


def code_of(error: BaseException) -> str | None:
    """Return Redis's own code for *error*; ``None`` where it has none that matters here."""
    for kind, code in _CODES_OF_CLASSES.items():
        if isinstance(error, kind):
            return code
    found = _CODES.search(str(error)) if isinstance(error, redis.ResponseError) else None
    return found[1] if found else None


def is_passing(error: BaseException) -> bool:
    """Whether the server said that it did nothing, and will do it soon."""
    return code_of(error) in _PASSING


def is_worth_another_connection(error: BaseException | None) -> bool:
    """Whether a connection that did not come about may come about soon."""
    return (
        isinstance(error, redis.ConnectionError | redis.TimeoutError)
        and not isinstance(error, redis.AuthenticationError | redis.InvalidResponse)
        and _tls_error(error) is None
    )


def is_lost_connection(error: BaseException) -> bool:
    """Whether *error* leaves open if the command was carried out."""
    return (
        isinstance(error, redis.ConnectionError | redis.TimeoutError)
        and not isinstance(error, redis.AuthenticationError | redis.InvalidResponse)
        and code_of(error) is None
    )


def is_denied(error: BaseException | None) -> bool:
    """Whether the user may not give the command, or the server, mostly a managed one, does not have it."""
    return error is not None and (code_of(error) == "NOPERM" or "unknown command" in str(error).lower())


def storage_error(error: BaseException, location: str) -> StorageError:
    """Return what *error* means, as one sentence that names what to do; it holds no secret.

    Args:
        error: What the driver raised.
        location: Where the server is, its password masked.
    """
    while isinstance(error, NotSentError) and error.__cause__ is not None:
        error = error.__cause__
    kind, sentence = _meaning(error)
    if kind is StorageUnavailableError and sentence in _SILENT:
        sentence = f"{sentence} {_WITHOUT_TLS if location.startswith('rediss:') else _WITH_TLS}"
    return kind(f"Redis at {location} {sentence}", location=location)


def _meaning(error: BaseException) -> _Meaning:
    code, text = code_of(error), str(error)[:_SHOWN_CHARACTERS]
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


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _tls_error(error: BaseException) -> ssl.SSLError | None:
    return next((cause for cause in _chain(error) if isinstance(cause, ssl.SSLError)), None)


def _tls_reason(error: ssl.SSLError) -> str:
    return getattr(error, "verify_message", "") or error.reason or "no reason given"


def _reason(error: BaseException) -> str:
    """Say why there is no connection, in the system's own words."""
    for cause in reversed(_chain(error)):
        if isinstance(cause, OSError):
            if cause.errno is not None and cause.errno > 0:
                return os.strerror(cause.errno)
            if several := _NUMBERS.findall(str(cause)):  # one for each address that the name has
                return os.strerror(int(several[-1]))
            if cause.strerror:
                return cause.strerror
    return _HUNG_UP
