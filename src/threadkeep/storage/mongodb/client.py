"""The client of a MongoDB storage: creating it from a URI, checking the server, creating indexes, and errors.

No message contains a password or a document.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from bson.errors import BSONError
from pymongo import ASCENDING, AsyncMongoClient, IndexModel
from pymongo import errors as mongo
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.read_preferences import ReadPreference
from pymongo.uri_parser import parse_uri

from threadkeep.errors import (
    NotAStorageError,
    SettingsError,
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    StorageVersionError,
    ThreadkeepError,
    TooLargeError,
)
from threadkeep.ids import new_id
from threadkeep.storage.mongodb.documents import Document

VARIABLE: Final = "LANGGRAPH_STORE_MONGODB_URI"

SCHEMA_VERSION: Final = 1
OLDEST_SERVER: Final = (5, 0)

_ABOUT: Final = "storage"
_DEFAULTS: Final[dict[str, Any]] = {
    # Acknowledged writes survive the loss of a member and of its power.
    "w": "majority",
    "journal": True,
    "readConcernLevel": "majority",
    # A turn waits for none of these: they limit work in the background, which is retried later.
    "serverSelectionTimeoutMS": 2_000,
    "connectTimeoutMS": 2_000,
    "timeoutMS": 10_000,
}
_ITEM_INDEXES: Final = (
    IndexModel([("place", ASCENDING)], name="place", sparse=True),
    IndexModel([("order", ASCENDING)], name="order", sparse=True),
    IndexModel([("feed", ASCENDING)], name="feed", sparse=True),
    IndexModel([("prefix", ASCENDING), ("namespace", ASCENDING)], name="namespace"),
    IndexModel(
        [("prefix", ASCENDING), ("due_kind", ASCENDING), ("due_at", ASCENDING)],
        name="due",
        partialFilterExpression={"due_kind": {"$exists": True}},
    ),
    IndexModel(
        [("prefix", ASCENDING), ("expires_at", ASCENDING)],
        name="expiring",
        partialFilterExpression={"expires_at": {"$exists": True}},
    ),
    IndexModel(
        [("prefix", ASCENDING), ("pending", ASCENDING)],
        name="pending",
        partialFilterExpression={"pending": {"$exists": True}},
    ),
)
_BATCH_INDEXES: Final = (IndexModel([("open", ASCENDING)], name="open", sparse=True),)


def mask_uri(uri: str, variable: str = VARIABLE) -> str:
    """Return *uri* without its password and options, for messages.

    Raises:
        SettingsError: It is not a URI.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:  # its message may contain a part of the password
        raise invalid_uri(None, variable) from None
    user, at, hosts = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    return urlunsplit((parts.scheme, f"{name}{colon}{'***' if colon else ''}{at}{hosts}", parts.path, "", ""))


def check_uri(uri: str, variable: str = VARIABLE) -> None:
    """Check that the driver can use *uri*, without I/O.

    Raises:
        SettingsError: It cannot; the message does not quote it.
    """
    if uri.startswith("mongodb+srv://"):  # its hosts and options are in DNS
        mask_uri(uri, variable)
        return
    try:
        parse_uri(uri)
    except (mongo.PyMongoError, ValueError, TypeError) as error:
        raise invalid_uri(error, variable) from None


def create_client(uri: str) -> AsyncMongoClient[Document]:
    """Return a client, which connects when it is first used; the URI's options override our defaults.

    Raises:
        pymongo.errors.PyMongoError: The URI cannot be used.
    """
    given = {name.lower() for name, _ in parse_qsl(urlsplit(uri).query, keep_blank_values=True)}
    options = {name: value for name, value in _DEFAULTS.items() if name.lower() not in given}
    return AsyncMongoClient(uri, **options, tz_aware=True, appname="threadkeep")


def get_database(client: AsyncMongoClient[Document]) -> AsyncDatabase[Document]:
    """Return the database of the URI, by default ``threadkeep``, with reads from the primary."""
    return client.get_default_database("threadkeep").with_options(read_preference=ReadPreference.PRIMARY)


async def prepare_database(
    client: AsyncMongoClient[Document], database: AsyncDatabase[Document], *, location: str, migrate: bool
) -> str:
    """Check the server, create missing indexes, and return the epoch of partitions that were never erased.

    Raises:
        StorageVersionError: The server or the schema has an unsupported version.
        NotAStorageError: The database holds something else; it was not touched.
    """
    _check_server(await client.server_info(), location)
    meta, items, batches = (database[f"threadkeep_{name}"] for name in ("about", "items", "batches"))
    about = await meta.find_one({"_id": _ABOUT})
    if about is None:
        if not migrate:
            msg = (
                f"MongoDB at {location} has no storage of Threadkeep, and THREADKEEP_MIGRATE is check: "
                "run once with auto, or choose another database."
            )
            raise NotAStorageError(msg, location=location)
        await items.create_indexes(list(_ITEM_INDEXES))
        await batches.create_indexes(list(_BATCH_INDEXES))
        with suppress(mongo.DuplicateKeyError):  # last: a process that finds it finds the indexes, too
            await meta.insert_one({"_id": _ABOUT, "schema": SCHEMA_VERSION, "epoch": new_id()})
        meta, items, batches = (database[f"threadkeep_{name}"] for name in ("about", "items", "batches"))
    about = await meta.find_one({"_id": _ABOUT})
    return _check_schema(about, location)


def _check_server(info: dict[str, Any], location: str) -> None:
    version = info.get("version")  # servers that only implement the protocol may omit it
    numbers = str(version).split(".")
    if version is None or not all(number.isdigit() for number in numbers[:2]):
        return
    if tuple(map(int, numbers[:2])) < OLDEST_SERVER:
        oldest = ".".join(map(str, OLDEST_SERVER))
        msg = f"MongoDB at {location} is version {version}, and Threadkeep needs {oldest} or later: upgrade the server."
        raise StorageVersionError(msg, location=location)


def _check_schema(about: Document | None, location: str) -> str:
    """Return the epoch of partitions that were never erased."""
    schema, epoch = (about or {}).get("schema"), (about or {}).get("epoch")
    if not isinstance(schema, int) or not isinstance(epoch, str):
        msg = f"The collection threadkeep_about at {location} was not created by Threadkeep: choose another database."
        raise NotAStorageError(msg, location=location)
    if schema != SCHEMA_VERSION:
        msg = (
            f"MongoDB at {location} was written by another version of Threadkeep (its schema is {schema}, this one's "
            f"{SCHEMA_VERSION}). Upgrade Threadkeep, or choose another database."
        )
        raise StorageVersionError(msg, location=location)
    return epoch


class _ErrorMeaning(NamedTuple):
    """The error class, and the message after "MongoDB at …"."""

    kind: type[ThreadkeepError]
    message: str


_REFUSED: Final = _ErrorMeaning(
    StorageDeniedError,
    "refused the user name or the password: correct them in the URI, where a % is spelled %25 and an @ %40, "
    "and name the database that the user belongs to as authSource.",
)
_DENIED: Final = _ErrorMeaning(
    StorageDeniedError, "denies this user a right: grant it the role readWrite on the database of the URI."
)
_NOT_PRIMARY: Final = _ErrorMeaning(
    StorageReadOnlyError,
    "is a secondary, or has just become one; nothing was written. Name the whole replica set in the URI.",
)
_FULL: Final = _ErrorMeaning(
    StorageFullError, "has no space left on its disk or in its quota; nothing was written. Free some space."
)
_TOO_LARGE: Final = _ErrorMeaning(
    TooLargeError,
    "allows at most 16 MB in one document, and an item is too large. Split it, or store a reference to it.",
)
_SLOW: Final = _ErrorMeaning(StorageUnavailableError, "timed out: check its load, or raise timeoutMS in the URI.")
_UNCONFIRMED: Final = _ErrorMeaning(
    StorageUnavailableError,
    "did not confirm a write on the majority of its members; it may have been applied. Check its members.",
)
_IN_TRANSITION: Final = _ErrorMeaning(
    StorageUnavailableError, "is starting up, shutting down or electing a primary; try again."
)

_MEANINGS: Final[dict[int, _ErrorMeaning]] = {
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
    91: _IN_TRANSITION,  # ShutdownInProgress
    11600: _IN_TRANSITION,  # InterruptedAtShutdown
}

_MESSAGE_MEANINGS: Final = (
    (re.compile(r"no space left|out of disk space|quota", re.IGNORECASE), _FULL),
    (re.compile(r"not authori[sz]ed|requires authentication", re.IGNORECASE), _DENIED),
    (re.compile(r"bad auth|authentication failed|password", re.IGNORECASE), _REFUSED),
    (
        re.compile(r"object to insert too large|document is larger|exceeds.{0,200} maximum.{0,200}size", re.IGNORECASE),
        _TOO_LARGE,
    ),
    (re.compile(r"not primary|not master|node is recovering", re.IGNORECASE), _NOT_PRIMARY),
)
_TLS: Final = re.compile(r"\bSSL\b|\bTLS\b|certificate", re.IGNORECASE)
_NO_NAME: Final = re.compile(r"name or service not known|nodename nor servname|DNS|does not exist", re.IGNORECASE)
_NO_VALUE: Final = re.compile(r"must be\b")
_NOT_MONGODB: Final = _ErrorMeaning(StorageError, "is not a MongoDB server: correct the address in the URI.")

_CLASSES: Final[tuple[tuple[type[Exception], _ErrorMeaning], ...]] = (
    (mongo.DocumentTooLarge, _TOO_LARGE),
    (mongo.NotPrimaryError, _NOT_PRIMARY),
    (mongo.NetworkTimeout, _SLOW),
    (mongo.WaitQueueTimeoutError, _SLOW),
    (mongo.ProtocolError, _NOT_MONGODB),
    (BSONError, _NOT_MONGODB),
)


@contextmanager
def mongo_errors(location: str, variable: str = VARIABLE) -> Generator[None]:
    """Raise the driver's errors as Threadkeep's.

    Args:
        location: The server, with its password masked.
        variable: The setting that the URI is from.
    """
    try:
        yield
    except (mongo.PyMongoError, BSONError, OSError) as error:
        raise parse_error(error, location, variable) from error


def parse_error(error: Exception, location: str, variable: str = VARIABLE) -> ThreadkeepError:
    """Return the error of ours for *error*."""
    if isinstance(error, mongo.ConfigurationError | mongo.InvalidURI | mongo.InvalidName):
        return invalid_uri(error, variable)
    kind, message = _meaning(error)
    return kind(f"MongoDB at {location} {message}", location=location)


def invalid_uri(error: Exception | None, variable: str = VARIABLE) -> SettingsError:
    """Return the error for a URI that the driver cannot use.

    Args:
        error: The driver's error.
        variable: The setting that the URI is from.
    """
    text = str(error)
    if "dnspython" in text:
        msg = f"{variable} begins with mongodb+srv, which needs dnspython: run pip install dnspython."
    elif _NO_NAME.search(text):
        msg = f"The host in {variable} is unknown: correct it, or check DNS."
    elif "escaped" in text or "RFC 3986" in text:
        msg = f"{variable} has an unescaped character in the user name or password: write % as %25 and @ as %40."
    elif "option" in text.lower():
        msg = f"{variable} has an unknown option, or an option with an invalid value: correct it."
    elif isinstance(error, ValueError | TypeError) or _NO_VALUE.search(text):
        msg = f"{variable} has an option with an invalid value: correct it."
    else:
        msg = f"{variable} is not a MongoDB URI: write mongodb://user:password@host:27017/database?option=value."
    return SettingsError(msg, variable=variable)


def _meaning(error: Exception) -> _ErrorMeaning:
    for kind, meaning in _CLASSES:
        if isinstance(error, kind):
            return meaning
    if isinstance(error, mongo.OperationFailure):
        return _failure_meaning(error)
    if isinstance(error, mongo.ConnectionFailure | OSError):
        return _connection_meaning(error)
    return _ErrorMeaning(StorageError, f"failed ({type(error).__name__}): see the server's log.")


def _failure_meaning(error: mongo.OperationFailure) -> _ErrorMeaning:
    failures = [(error.code, str(error.details.get("errmsg", "")) if error.details else "")]
    if isinstance(error, mongo.BulkWriteError):
        details: Any = error.details
        writes = [*details.get("writeErrors", ()), *details.get("writeConcernErrors", ())]
        failures = [(failure.get("code"), str(failure.get("errmsg", ""))) for failure in writes] or failures
    for code, text in failures:
        if code in _MEANINGS:
            return _MEANINGS[code]
        for pattern, meaning in _MESSAGE_MEANINGS:
            if pattern.search(text):
                return meaning
    code = failures[0][0]
    name = (error.details or {}).get("codeName") or "no name"
    return _ErrorMeaning(StorageError, f"refused a command (error {code}, {name}): see the server's log.")


def _connection_meaning(error: Exception) -> _ErrorMeaning:
    text = str(error)
    if isinstance(error, ssl.SSLError) or _TLS.search(text):
        return _ErrorMeaning(
            StorageUnavailableError,
            "failed in the TLS handshake: set tls=true in the URI for a server with TLS only, "
            "and tlsCAFile for a certificate of your own.",
        )
    if "No primary available" in text or "No replica set members" in text:
        return _ErrorMeaning(
            StorageUnavailableError,
            "has no primary now, or not in the replicaSet of the URI: try again.",
        )
    return _ErrorMeaning(
        StorageUnavailableError,
        "cannot be reached: check that it runs, that the URI is right, and that tls in it matches the server.",
    )
