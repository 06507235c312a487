"""What MongoDB and its driver raise, and what it means here; no password and no document is in any sentence."""

from __future__ import annotations

import re
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from bson.errors import BSONError
from pymongo import errors as mongo

from threadkeep.errors import (
    SettingsError,
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    ThreadkeepError,
    TooLargeError,
)

VARIABLE: Final = "LANGGRAPH_STORE_MONGODB_URI"


class _Meaning(NamedTuple):
    kind: type[ThreadkeepError]
    sentence: str


_REFUSED: Final = _Meaning(
    StorageDeniedError,
    "refused the user name or the password; correct them in the URI, where a % is spelled %25 and an @ %40, "
    "and name the database that the user belongs to as authSource.",
)
_DENIED: Final = _Meaning(
    StorageDeniedError, "denies this user a right; grant it the role readWrite on the database of the URI."
)
_NOT_PRIMARY: Final = _Meaning(
    StorageReadOnlyError,
    "is a secondary, or has just become one; nothing was written. Name the whole replica set in the URI.",
)
_FULL: Final = _Meaning(
    StorageFullError, "has no space left on its disk or in its quota; nothing was written. Free some space there."
)
_TOO_LARGE: Final = _Meaning(
    TooLargeError, "keeps at most 16 MB in one document, and an item is larger. Split it, or store a reference to it."
)
_SLOW: Final = _Meaning(
    StorageUnavailableError, "did not answer in time; see what keeps it busy, or raise timeoutMS in the URI."
)
_UNCONFIRMED: Final = _Meaning(
    StorageUnavailableError,
    "did not confirm a write on the majority of its members; it may have been made. See that they are up.",
)
_GOING: Final = _Meaning(StorageUnavailableError, "is starting up, shutting down or electing a primary; try again.")

_MEANINGS: Final[dict[int, _Meaning]] = {
    11: _REFUSED,  # UserNotFound
    18: _REFUSED,  # AuthenticationFailed
    13: _DENIED,  # Unauthorized
    17280: _TOO_LARGE,  # KeyTooLong
    10334: _TOO_LARGE,  # BSONObjectTooLarge
    14031: _FULL,  # OutOfDiskSpace
    12501: _FULL,
    50: _SLOW,  # MaxTimeMSExpired
    262: _SLOW,  # ExceededTimeLimit
    64: _UNCONFIRMED,  # WriteConcernTimeout
    100: _UNCONFIRMED,  # UnsatisfiableWriteConcern
    91: _GOING,  # ShutdownInProgress
    11600: _GOING,  # InterruptedAtShutdown
}

_SAYINGS: Final = (
    (re.compile(r"no space left|out of disk space|quota", re.IGNORECASE), _FULL),
    (re.compile(r"not authori[sz]ed|requires authentication", re.IGNORECASE), _DENIED),
    (re.compile(r"bad auth|authentication failed|password", re.IGNORECASE), _REFUSED),
    (re.compile(r"object to insert too large|document is larger|exceeds.* maximum.*size", re.IGNORECASE), _TOO_LARGE),
    (re.compile(r"not primary|not master|node is recovering", re.IGNORECASE), _NOT_PRIMARY),
)
_TLS: Final = re.compile(r"\bSSL\b|\bTLS\b|certificate", re.IGNORECASE)
_NO_NAME: Final = re.compile(r"name or service not known|nodename nor servname|DNS|does not exist", re.IGNORECASE)
_NO_VALUE: Final = re.compile(r"must be\b")
_OTHER: Final = _Meaning(StorageError, "does not answer as MongoDB does; correct the address in the URI.")

_CLASSES: Final[tuple[tuple[type[Exception], _Meaning], ...]] = (
    (mongo.DocumentTooLarge, _TOO_LARGE),
    (mongo.NotPrimaryError, _NOT_PRIMARY),
    (mongo.NetworkTimeout, _SLOW),
    (mongo.WaitQueueTimeoutError, _SLOW),
    (mongo.ProtocolError, _OTHER),
    (BSONError, _OTHER),
)


@contextmanager
def mongo_errors(location: str, variable: str = VARIABLE) -> Generator[None]:
    """Raise what the driver raises inside as an error of ours.

    Args:
        location: The server, its password masked.
        variable: The setting that its URI came from.
    """
    try:
        yield
    except (mongo.PyMongoError, BSONError, OSError) as error:
        raise error_of(error, location, variable) from error


def error_of(error: Exception, location: str, variable: str = VARIABLE) -> ThreadkeepError:
    """Return what *error* means, as one sentence that names what to do."""
    if isinstance(error, mongo.ConfigurationError | mongo.InvalidURI | mongo.InvalidName):
        return unusable(error, variable)
    kind, sentence = _meaning(error)
    return kind(f"MongoDB at {location} {sentence}", location=location)


def unusable(error: Exception | None, variable: str = VARIABLE) -> SettingsError:
    """Return what to say of a URI that the driver cannot use.

    Args:
        error: What it said of it.
        variable: The setting that the URI came from.
    """
    said = str(error)
    if "dnspython" in said:
        msg = f"{variable} begins with mongodb+srv, which needs dnspython; run: pip install dnspython."
    elif _NO_NAME.search(said):
        msg = f"The host that {variable} names is not known; correct it, or see that DNS works."
    elif "escaped" in said or "RFC 3986" in said:
        msg = (
            f"{variable} has a user name or password with a sign in it that URIs do not take; spell % as %25, @ as %40."
        )
    elif "option" in said.lower():
        msg = f"{variable} has an option that MongoDB's driver does not know, or a value that it cannot have."
    elif isinstance(error, ValueError | TypeError) or _NO_VALUE.search(said):
        msg = f"{variable} has an option with a value that it cannot have."
    else:
        msg = f"{variable} is no URI of MongoDB's; it is mongodb://user:password@host:27017/database?option=value."
    return SettingsError(msg, variable=variable)


def _meaning(error: Exception) -> _Meaning:
    for kind, meaning in _CLASSES:
        if isinstance(error, kind):
            return meaning
    if isinstance(error, mongo.OperationFailure):
        return _meaning_of_failure(error)
    if isinstance(error, mongo.ConnectionFailure | OSError):
        return _meaning_of_absence(error)
    return _Meaning(StorageError, f"refused to work ({type(error).__name__}); see the server's log.")


def _meaning_of_failure(error: mongo.OperationFailure) -> _Meaning:
    failures = [(error.code, str(error.details.get("errmsg", "")) if error.details else "")]
    if isinstance(error, mongo.BulkWriteError):
        details: Any = error.details
        told = [*details.get("writeErrors", ()), *details.get("writeConcernErrors", ())]
        failures = [(failure.get("code"), str(failure.get("errmsg", ""))) for failure in told] or failures
    for code, said in failures:
        if code in _MEANINGS:
            return _MEANINGS[code]
        for saying, meaning in _SAYINGS:
            if saying.search(said):
                return meaning
    code = failures[0][0]
    name = (error.details or {}).get("codeName") or "no name"
    return _Meaning(StorageError, f"refused a command (error {code}, {name}); see the server's log.")


def _meaning_of_absence(error: Exception) -> _Meaning:
    said = str(error)
    if isinstance(error, ssl.SSLError) or _TLS.search(said):
        return _Meaning(
            StorageUnavailableError,
            "did not agree on TLS; see that the URI has tls=true for a server with TLS and not for one without, "
            "and give tlsCAFile where its certificate is your own.",
        )
    if "No primary available" in said or "No replica set members" in said:
        return _Meaning(
            StorageUnavailableError,
            "has no primary at the moment, or not under the replicaSet that the URI names; try again.",
        )
    return _Meaning(
        StorageUnavailableError,
        "cannot be reached; see that it runs, that the URI is right, and that tls in it is as the server wants it.",
    )
