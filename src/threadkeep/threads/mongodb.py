"""Checkpoints in MongoDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.mongodb import MongoDBSaver
from pymongo import MongoClient, UpdateOne
from pymongo.errors import (
    ConfigurationError,
    ConnectionFailure,
    DocumentTooLarge,
    DuplicateKeyError,
    InvalidURI,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from pymongo.uri_parser import parse_uri

from threadkeep.clock import SystemClock
from threadkeep.errors import (
    SettingsError,
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    TooLargeError,
)
from threadkeep.ids import new_id
from threadkeep.threads.base import Capabilities, Saver, ThreadedBackend, ThreadedSaver, begun_in
from threadkeep.threads.fencing import Grant, Head, Strategy, ThreadClaim, judge, moved
from threadkeep.threads.savers import ANSWER

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
    from pymongo.collection import Collection

    from threadkeep.threads.maintenance import Place

DATABASE: Final = "checkpointing_db"
"""Where LangGraph's own saver keeps checkpoints; unless the URI names another database, so does ours."""

_THREADS: Final = 8
_OWNER: Final = "threadkeep_owner"
_WHOLE: Final = "threadkeep_whole"

UNWRITTEN_SECONDS: Final = 15
"""After so long a checkpoint that was claimed and is not there counts as never written."""

T = TypeVar("T")

_SELECTION: Final = timedelta(seconds=5)

_CODES: Final[dict[int, tuple[type[StorageError | TooLargeError], str]]] = {
    **dict.fromkeys(
        (18, 8000), (StorageDeniedError, "refused this user or its password; correct it in the URI, where a % is %25")
    ),
    13: (StorageDeniedError, "denied this user a right ({said}); grant it the role readWrite on this database"),
    **dict.fromkeys(
        (10107, 13435, 13436),
        (StorageReadOnlyError, "is no primary and cannot be written to; name the replica set in the URI"),
    ),
    **dict.fromkeys(
        (10334, 17420), (TooLargeError, "keeps at most 16 MB in a checkpoint; keep less in the graph's state")
    ),
    14031: (StorageFullError, "has no disk space left; free some there"),
}


class MongoCheckpoints(ThreadedBackend):
    """LangGraph's MongoDB saver, whose blocking calls have threads of their own.

    Args:
        uri: ``mongodb://user:password@host:27017/database``; without a database: ``checkpointing_db``.
        variable: The setting that says so, for the message where it is none.
        ttl: After how long checkpoints expire; ``None``: never.
        timeout: How long an answer is waited for.

    Raises:
        SettingsError: The URI is none.
    """

    name: ClassVar[str] = "mongodb"
    capabilities: ClassVar[Capabilities] = Capabilities(
        lasting=True, shared=True, expires=True, fenced="before the write"
    )
    filters: ClassVar[frozenset[str] | None] = frozenset({_OWNER})

    def __init__(
        self,
        uri: str,
        *,
        variable: str = "LANGGRAPH_CHECKPOINT_MONGODB_URI",
        ttl: timedelta | None = None,
        timeout: timedelta = ANSWER,
    ) -> None:
        try:
            parts = parse_uri(uri, connect_timeout=_SELECTION.total_seconds())
        except (InvalidURI, ConfigurationError, ValueError):  # its text may repeat a part of the password
            msg = (
                f"{variable} is no MongoDB URI; write mongodb://user:password@host:27017/database,"
                " where a % in the password is spelled %25, an @ %40 and a / %2F."
            )
            raise SettingsError(msg, variable=variable) from None
        self._uri = uri
        self._database = str(parts["database"] or DATABASE)
        self._nodes = ",".join(f"{host}:{port}" if port else host for host, port in parts["nodelist"])
        self._ttl = max(1, round(ttl.total_seconds())) if ttl else None
        self._timeout = timeout
        self._threads: ThreadPoolExecutor | None = None
        self._client: MongoClient[dict[str, Any]] | None = None
        self._connecting = Lock()

    @property
    def location(self) -> str:
        """The servers and the database, without the password."""
        return f"mongodb://{self._nodes}/{self._database}"

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What PyMongo raises."""
        return (PyMongoError,)

    async def open(self) -> Saver:
        """Connect, and make the indexes that are missing."""
        self._threads = self._threads or ThreadPoolExecutor(_THREADS, thread_name_prefix="threadkeep-checkpoints")
        saver = await begun_in(self._threads, self._opened)
        saver.threads = self._threads
        return saver

    async def close(self) -> None:
        """Disconnect and end the threads."""
        if self._threads is None:
            return
        if self._client is not None:
            await begun_in(self._threads, self._client.close)
        self._threads.shutdown(wait=False)

    async def call(
        self,
        saver: Saver,
        work: Callable[[Saver], Awaitable[T]],
        *,
        seconds: float,  # noqa: ARG002 - whoever waits keeps the time
        claim: ThreadClaim | None = None,
    ) -> T:
        """Return what *work* returns; a claim is judged, and the thread's head moved, just before it."""
        if claim is None:
            return await work(saver)
        real = cast("_MongoSaver", saver)
        if claim.kind != "delete":
            await real.there(partial(real.claim, claim))
        done = await work(saver)
        if claim.kind == "delete":
            await real.there(partial(real.forget, claim.thread))
        return done

    def explained(self, error: Exception) -> Exception:
        """Return what PyMongo's *error* means; nothing of it says a password."""
        said = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        if isinstance(error, DocumentTooLarge):
            kind, text = _CODES[10334]
        elif isinstance(error, OperationFailure):
            kind, text = _CODES.get(_code_of(error), (StorageError, "refused: {said}"))
        elif "SSL" in said or "certificate" in said:
            kind, text = (
                StorageUnavailableError,
                "makes no TLS connection ({said}); correct tls and tlsCAFile in the URI",
            )
        elif isinstance(error, ConnectionFailure):
            kind, text = StorageUnavailableError, "cannot be reached; start it, correct the URI, or try again"
        else:
            kind, text = StorageError, "cannot be used: {said}"
        return kind(f"{self.location} {text.format(said=said.rstrip('.'))}.", server=self.location)

    def gone(self, error: Exception) -> bool:
        """Whether a connection broke; a server that is not to be found is not asked twice."""
        return isinstance(error, ConnectionFailure) and not isinstance(error, ServerSelectionTimeoutError)

    def _opened(self) -> _MongoSaver:
        client = self._connected()
        for name in ("checkpoints", "checkpoint_writes"):
            _forget_other_ttl(client[self._database][name], self._ttl)
        return _MongoSaver(client, self._database, ttl=self._ttl)

    def _connected(self) -> MongoClient[dict[str, Any]]:
        """Return the client; an attempt that nobody waits for any more leaves it to the next."""
        with self._connecting:
            if self._client is None:
                self._client = MongoClient(
                    self._uri,
                    appname="threadkeep",
                    serverSelectionTimeoutMS=_milliseconds(min(self._timeout, _SELECTION)),
                    connectTimeoutMS=_milliseconds(min(self._timeout, _SELECTION)),
                    socketTimeoutMS=_milliseconds(self._timeout),
                )
            return self._client


class _MongoSaver(ThreadedSaver, MongoDBSaver):
    """LangGraph's MongoDB saver, but it filters by the owner, and a task's writes are read all or not at all.

    MongoDB has no transactions on a standalone server, so a task's writes may be there in part after a
    crash, and a task with writes counts as done. Each write says how many there are of its task.
    """

    def __init__(self, client: MongoClient[Any], database: str, *, ttl: int | None) -> None:
        cast("Any", MongoDBSaver).__init__(self, client, db_name=database, ttl=ttl)
        self._writes = cast("Collection[dict[str, Any]]", self.writes_collection)
        self.writes_collection = cast("Any", _WholeWrites(self._writes))
        self._checkpoints = cast("Collection[dict[str, Any]]", self.checkpoint_collection)
        self._heads = cast("Collection[dict[str, Any]]", self.db["threadkeep_heads"])

    def claim(self, claim: ThreadClaim) -> None:
        """Judge *claim* and move the thread's head: by comparing and setting, for there are no transactions."""
        while True:
            kept = self._heads.find_one({"_id": claim.thread}) or {}
            now = self._now() if kept else 0.0
            head = Head(
                kept.get("run", ""), kept.get("newest", ""), kept.get("token", 0), float(kept.get("until") or 0) > now
            )
            if head.newest and now - kept.get("at", 0.0) > UNWRITTEN_SECONDS:
                place = {"thread_id": claim.thread, "checkpoint_ns": "", "checkpoint_id": head.newest}
                if self._checkpoints.find_one(place, {"_id": 1}) is None:  # whoever claimed it went down
                    head = replace(head, newest=kept.get("before", ""))
            judge(head, claim, there=claim.parent)  # that it read, whatever the head says
            if claim.kind == "writes":
                return
            to = moved(head, claim)
            at = now or self._now()
            place = {"run": to.run, "newest": to.newest, "before": head.newest, "at": at, "version": new_id()}
            if self._set(claim.thread, kept, place):
                return

    def take(self, thread: str, holder: str, seconds: float, strategy: Strategy) -> Grant | None:
        """Give a lease: by comparing and setting, as :meth:`claim`."""
        while True:
            kept = self._heads.find_one({"_id": thread}) or {}
            now = self._now()
            held = float(kept.get("until") or 0) > now and kept.get("holder") != holder
            if held and strategy in ("enqueue", "reject"):
                return None
            back_to = str(kept.get("began", "")) if held and strategy == "rollback" else None
            here = back_to
            if here is None:
                place = {"thread_id": thread, "checkpoint_ns": ""}
                newest = self._checkpoints.find_one(place, {"checkpoint_id": 1}, sort=[("checkpoint_id", -1)])
                here = str(newest["checkpoint_id"]) if newest else ""
                if kept.get("run") != kept.get("holder"):  # what its holder claimed and did not write, it never will
                    here = max(here, str(kept.get("newest", "")))
            token = max(int(kept.get("token", 0)) + 1, int(now * 1_000_000))
            given = {"token": token, "holder": holder, "until": now + seconds, "newest": here, "began": here}
            if self._set(thread, kept, {**given, "version": new_id()}):
                return Grant(token, back_to)

    def renew(self, tokens: Mapping[str, int], seconds: float) -> set[str]:
        """Prolong leases, one after the other."""
        return {thread for thread, token in tokens.items() if self._prolong(thread, token, seconds)}

    def give_back(self, thread: str, token: int) -> None:
        """Let a lease have ended a second ago."""
        self._prolong(thread, token, -1)

    def _prolong(self, thread: str, token: int, seconds: float) -> bool:
        """Let a lease last so long from now, if it still has this token."""
        changed = {"$set": {"until": self._now() + seconds}}
        return self._heads.update_one({"_id": thread, "token": token}, changed).matched_count > 0

    def forget_newer(self, thread: str, checkpoint_id: str) -> None:
        """Delete what is newer than a checkpoint."""
        newer = {"thread_id": thread, "checkpoint_id": {"$gt": checkpoint_id}}
        self._checkpoints.delete_many(newer)
        self._writes.delete_many(newer)

    def remove(self, thread: str, gone: Sequence[Place]) -> None:
        """Delete checkpoints and what was written after them."""
        for namespace in {one for one, _ in gone}:
            ids = [checkpoint_id for one, checkpoint_id in gone if one == namespace]
            doomed = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": {"$in": ids}}
            self._checkpoints.delete_many(doomed)
            self._writes.delete_many(doomed)

    def reparent(self, thread: str, place: Place, parent_id: str) -> None:
        """Give a checkpoint another parent."""
        one = {"thread_id": thread, "checkpoint_ns": place[0], "checkpoint_id": place[1]}
        self._checkpoints.update_one(one, {"$set": {"parent_checkpoint_id": parent_id}})

    def _set(self, thread: str, kept: Mapping[str, Any], changed: Mapping[str, Any]) -> bool:
        """Change a head that still is as it was read; return whether it was."""
        if kept:
            found = self._heads.update_one({"_id": thread, "version": kept["version"]}, {"$set": changed})
            return found.matched_count > 0
        try:
            self._heads.insert_one({"_id": thread, **changed})
        except DuplicateKeyError:
            return False
        return True

    def forget(self, thread: str) -> None:
        """Forget where a thread stood that is gone."""
        self._heads.delete_one({"_id": thread})

    def _now(self) -> float:
        """Return the server's time, in seconds."""
        return cast("Any", self.db).command("hello")["localTime"].timestamp()

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        owner = metadata.get(_OWNER)
        # A key that is there or not can be asked for; how its value is kept differs between serializers.
        kept = {**metadata, _OWNER: {str(owner): True}} if owner else metadata
        return super().put(config, checkpoint, cast("CheckpointMetadata", kept), new_versions)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = super().get_tuple(config)
        owner = found.metadata.get(_OWNER) if found else None
        if found is None or not isinstance(owner, Mapping):
            return found
        metadata = {**found.metadata, _OWNER: next(iter(cast("Mapping[str, Any]", owner)), "")}
        return found._replace(metadata=cast("CheckpointMetadata", metadata))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        asked: dict[str, Any] = dict(config.get("configurable", {})) if config else {}
        query: dict[str, Any] = {
            key: str(asked[key])
            for key in ("thread_id", "checkpoint_ns", "checkpoint_id")
            if asked.get(key) is not None
        }
        for value in (filter or {}).values():
            query[f"metadata.{_OWNER}.{value}"] = {"$exists": True}
        if before is not None:
            older = {"$lt": str(before.get("configurable", {})["checkpoint_id"])}
            query = (
                {"$and": [query, {"checkpoint_id": older}]}
                if "checkpoint_id" in query
                else {**query, "checkpoint_id": older}
            )
        ids = ("thread_id", "checkpoint_ns", "checkpoint_id")
        found = self._checkpoints.find(query, projection=ids, sort=[("checkpoint_id", -1)], limit=limit or 0)
        for one in [*found]:
            checkpoint = self.get_tuple({"configurable": {key: one[key] for key in ids}})
            if checkpoint is not None:
                yield checkpoint

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        where = config.get("configurable", {})
        place = {key: str(where[key]) for key in ("thread_id", "checkpoint_ns", "checkpoint_id")}
        # As in the saver's own: an error or an interrupt replaces what was there, a result never does.
        replacing = "$set" if all(channel in WRITES_IDX_MAP for channel, _ in writes) else "$setOnInsert"
        noted: dict[str, Any] = {_WHOLE: sum(channel not in WRITES_IDX_MAP for channel, _ in writes)}
        if self.ttl:
            noted["created_at"] = SystemClock().now()
        operations: list[UpdateOne] = []
        for number, (channel, value) in enumerate(writes):
            kind, data = self.serde.dumps_typed(value)
            key = {**place, "task_id": task_id, "task_path": task_path, "idx": WRITES_IDX_MAP.get(channel, number)}
            doc = {"channel": channel, "type": kind, "value": data, **noted}
            operations.append(UpdateOne(key, {replacing: doc}, upsert=True))
        self._writes.bulk_write(operations)


class _WholeWrites:
    """The collection of writes as the saver reads it: in order, and without tasks whose writes are there in part."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        self._collection = collection
        self.delete_many = collection.delete_many

    def find(self, query: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what :meth:`put_writes` kept for the checkpoint that *query* names."""
        found = [*self._collection.find(query)]
        there = Counter(one["task_id"] for one in found if one["idx"] >= 0)
        whole = [one for one in found if one["idx"] < 0 or there[one["task_id"]] >= one.get(_WHOLE, 0)]
        return sorted(whole, key=lambda one: (one.get("task_path", ""), one["task_id"], one["idx"]))


def _forget_other_ttl(collection: Collection[dict[str, Any]], ttl: int | None) -> None:
    """Remove an index that lets documents expire after another time than *ttl*, so that the saver makes its own."""
    for index in [*collection.list_indexes()]:
        if index.get("expireAfterSeconds") not in (None, ttl):
            collection.drop_index(index["name"])


def _code_of(error: OperationFailure) -> int:
    details = cast("Mapping[str, Any]", error.details or {})
    failed = [*details.get("writeErrors", ())]
    return int((failed[0].get("code") if failed else error.code) or 0)


def _milliseconds(time: timedelta) -> int:
    return max(1, round(time.total_seconds() * 1000))
