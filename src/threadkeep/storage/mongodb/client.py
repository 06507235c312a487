"""The client of a MongoDB storage: made from a URI, checked, and its collections made ready."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from pymongo import ASCENDING, AsyncMongoClient, IndexModel
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DuplicateKeyError, PyMongoError
from pymongo.read_preferences import ReadPreference
from pymongo.uri_parser import parse_uri

from threadkeep.errors import NotAStorageError, StorageVersionError
from threadkeep.ids import new_id
from threadkeep.storage.mongodb.collections import MongoCollections
from threadkeep.storage.mongodb.documents import Document
from threadkeep.storage.mongodb.errors import VARIABLE, unusable

SCHEMA_VERSION: Final = 1
OLDEST_SERVER: Final = (5, 0)

_ABOUT: Final = "storage"
_DEFAULTS: Final[dict[str, Any]] = {
    # What was acknowledged outlives the loss of a member and of its power.
    "w": "majority",
    "journal": True,
    "readConcernLevel": "majority",
    # A turn waits for none of these; they are how soon work behind it gives up, and tries again later.
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


def masked(uri: str, variable: str = VARIABLE) -> str:
    """Return *uri* for people: its password masked, its options left out.

    Raises:
        SettingsError: It is no URI.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:  # its text may repeat a part of the password
        raise unusable(None, variable) from None
    user, at, hosts = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    return urlunsplit((parts.scheme, f"{name}{colon}{'***' if colon else ''}{at}{hosts}", parts.path, "", ""))


def check_uri(uri: str, variable: str = VARIABLE) -> None:
    """Refuse what the driver cannot use, as far as that is known without asking anybody.

    Raises:
        SettingsError: One sentence that says what is wrong with it, and nothing of it.
    """
    if uri.startswith("mongodb+srv://"):  # its hosts and options are in DNS
        masked(uri, variable)
        return
    try:
        parse_uri(uri)
    except (PyMongoError, ValueError, TypeError) as error:
        raise unusable(error, variable) from None


def client_of(uri: str) -> AsyncMongoClient[Document]:
    """Make a client, which connects when it is first used; what the URI says wins over our defaults.

    Raises:
        pymongo.errors.PyMongoError: The URI cannot be used.
    """
    said = {name.lower() for name, _ in parse_qsl(urlsplit(uri).query, keep_blank_values=True)}
    options = {name: value for name, value in _DEFAULTS.items() if name.lower() not in said}
    return AsyncMongoClient(uri, **options, tz_aware=True, appname="threadkeep")


def database_of(client: AsyncMongoClient[Document]) -> AsyncDatabase[Document]:
    """Return the database that the URI names, else ``threadkeep``; read from the primary, whatever the URI says."""
    return client.get_default_database("threadkeep").with_options(read_preference=ReadPreference.PRIMARY)


async def make_ready(
    client: AsyncMongoClient[Document], collections: MongoCollections, *, location: str, migrate: bool
) -> None:
    """Check the server and make the collections' indexes, where they are not made yet.

    Raises:
        StorageVersionError: The server, or what is in the database, is of a version that is not understood.
        NotAStorageError: Something else is there; it was not touched.
    """
    _check_server(await client.server_info(), location)
    about = await collections.about.find_one({"_id": _ABOUT})
    if about is None:
        if not migrate:
            msg = (
                f"MongoDB at {location} has no storage of Threadkeep's, and THREADKEEP_MIGRATE is check; "
                "run once with auto, or choose another database."
            )
            raise NotAStorageError(msg, location=location)
        await collections.items.create_indexes(list(_ITEM_INDEXES))
        await collections.batches.create_indexes(list(_BATCH_INDEXES))
        with suppress(DuplicateKeyError):  # last, so that whoever finds it finds the indexes, too
            await collections.about.insert_one({"_id": _ABOUT, "schema": SCHEMA_VERSION, "epoch": new_id()})
        about = await collections.about.find_one({"_id": _ABOUT})
    collections.birth = _checked(about, location)


def _check_server(info: dict[str, Any], location: str) -> None:
    version = info.get("version")  # servers that only speak the protocol may not say
    numbers = str(version).split(".")
    if version is None or not all(number.isdigit() for number in numbers[:2]):
        return
    if tuple(map(int, numbers[:2])) < OLDEST_SERVER:
        oldest = ".".join(map(str, OLDEST_SERVER))
        msg = f"MongoDB at {location} is version {version}; {oldest} is the oldest that works. Upgrade the server."
        raise StorageVersionError(msg, location=location)


def _checked(about: Document | None, location: str) -> str:
    """Return the epoch of partitions that were never erased."""
    schema, epoch = (about or {}).get("schema"), (about or {}).get("epoch")
    if not isinstance(schema, int) or not isinstance(epoch, str):
        msg = f"The collection threadkeep_about at {location} is not Threadkeep's; choose another database."
        raise NotAStorageError(msg, location=location)
    if schema != SCHEMA_VERSION:
        msg = (
            f"MongoDB at {location} was written by another version of Threadkeep (its schema is {schema}, this one's "
            f"{SCHEMA_VERSION}). Upgrade Threadkeep, or choose another database."
        )
        raise StorageVersionError(msg, location=location)
    return epoch
