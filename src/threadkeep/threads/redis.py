"""Checkpoints in Redis with its JSON and Search modules."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast
from urllib.parse import urlsplit

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.redis.aio import AsyncRedisSaver
from langgraph.checkpoint.redis.key_registry import AsyncCheckpointKeyRegistry
from langgraph.checkpoint.redis.util import (
    from_storage_safe_id,
    from_storage_safe_str,
    to_storage_safe_id,
    to_storage_safe_str,
)
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    WatchError,
)
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)
from redisvl.exceptions import RedisVLError
from redisvl.query import FilterQuery
from redisvl.query.filter import FilterExpression, Tag

from threadkeep.errors import (
    SettingsError,
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from threadkeep.threads.base import Backend, Capabilities, Saver
from threadkeep.threads.fencing import Grant, Head, Strategy, ThreadClaim, judge, moved
from threadkeep.threads.savers import ANSWER

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from redisvl.index import AsyncSearchIndex

    from threadkeep.threads.maintenance import Place

_OWNER: Final = "threadkeep_owner"
_PAGE: Final = 1000
_SET_UPS: Final = 3

UNWRITTEN_SECONDS: Final = 15
"""After so long a checkpoint that was claimed and is not there counts as never written."""

_NOW: Final = "local time = redis.call('TIME'); local now = time[1] + time[2] / 1000000\n"

_TAKE: Final = (
    _NOW
    + """
local head = {}
local kept = redis.call('HGETALL', KEYS[1])
for i = 1, #kept, 2 do head[kept[i]] = kept[i + 1] end
local held = tonumber(head['until'] or '0') > now and head.holder ~= ARGV[1]
if held and ARGV[3] ~= 'interrupt' and ARGV[3] ~= 'rollback' then return {false, false} end
local here, back = head.newest or '', false
if ARGV[4] > here or head.run == head.holder then here = ARGV[4] end
if held and ARGV[3] == 'rollback' then here = head.began or ''; back = here end
local token = math.max(tonumber(head.token or '0') + 1, math.floor(now * 1000000))
token = string.format('%.0f', token)
redis.call('HSET', KEYS[1], 'token', token, 'holder', ARGV[1], 'until', string.format('%.6f', now + ARGV[2]),
    'newest', here, 'began', here)
if tonumber(ARGV[5]) > 0 then redis.call('EXPIRE', KEYS[1], ARGV[5]) end
return {token, back}
"""
)
"""Gives a lease: key of the head; holder, seconds, strategy, newest checkpoint, seconds until the head expires.

What the holder before claimed and did not write counts as never written: its lease has ended.
"""

_RENEW: Final = (
    _NOW
    + """
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'until', string.format('%.6f', now + ARGV[2]))
return 1
"""
)
"""Prolongs a lease, or ends it with -1 seconds: key of the head; token, seconds."""

T = TypeVar("T")


class RedisCheckpoints(Backend):
    """LangGraph's Redis saver, given packed texts alone.

    Its own serializer makes objects of whatever class a row names, and its keys and searches confuse
    ids that hold ``:`` or ``,`` or differ in case only. So a thread's name is a digest and every value a
    packed text, and nothing it reads is more than JSON.

    Args:
        url: ``redis://user:password@host:6379/0``, or ``rediss://`` for TLS.
        variable: The setting that says so, for the message where it is none.
        ttl: After how long checkpoints expire; ``None``: never.
        timeout: How long an answer is waited for.

    Raises:
        SettingsError: The URL is none.
    """

    name: ClassVar[str] = "redis"
    capabilities: ClassVar[Capabilities] = Capabilities(
        lasting=True, shared=True, expires=True, fenced="before the write"
    )
    longest_name: ClassVar[int | None] = 0
    filters: ClassVar[frozenset[str] | None] = frozenset({_OWNER})
    texts_only: ClassVar[bool] = True

    def __init__(
        self,
        url: str,
        *,
        variable: str = "LANGGRAPH_CHECKPOINT_REDIS_URL",
        ttl: timedelta | None = None,
        timeout: timedelta = ANSWER,
    ) -> None:
        seconds = timeout.total_seconds()
        try:
            self._client = cast("Any", Redis).from_url(
                url,
                socket_timeout=seconds,
                socket_connect_timeout=min(seconds, 5.0),
                retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), 3),
                client_name="threadkeep",
            )
            parts = urlsplit(url)
            host, port = parts.hostname or "localhost", parts.port
        except ValueError:  # its text may repeat a part of the password
            msg = f"{variable} is no Redis URL; write redis://user:password@host:6379/0, where a % is spelled %25."
            raise SettingsError(msg, variable=variable) from None
        self._location = f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path}"
        self._ttl = {"default_ttl": max(1.0, ttl.total_seconds()) / 60, "refresh_on_read": False} if ttl else None

    @property
    def location(self) -> str:
        """The server and its database, without the password."""
        return self._location

    @property
    def _head_seconds(self) -> int | None:
        """After how long a thread's head expires: after its newest checkpoint."""
        return int(self._ttl["default_ttl"] * 60) + UNWRITTEN_SECONDS if self._ttl else None

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What redis-py and redisvl raise."""
        return (RedisError, RedisVLError)

    async def open(self) -> Saver:
        """Connect, see that the modules are there, and make the indexes that are missing."""
        await self._see_modules()
        saver = _RedisSaver(redis_client=self._client, ttl=self._ttl)
        for remaining in reversed(range(_SET_UPS)):
            try:
                await saver.asetup()
                break
            except RedisVLError:  # another process is just making them
                if not remaining:
                    raise
        return saver

    async def close(self) -> None:
        """Disconnect."""
        await self._client.aclose()

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
        key = _key(claim.thread)
        if claim.kind != "delete":
            await self._claimed(cast("_RedisSaver", saver), key, claim)
        done = await work(saver)
        if claim.kind == "delete":
            await self._client.delete(key)
        return done

    async def _claimed(self, saver: _RedisSaver, key: str, claim: ThreadClaim) -> None:
        while True:
            async with self._client.pipeline(transaction=True) as together:
                await together.watch(key)
                kept: dict[str, str] = {
                    name.decode(): value.decode() for name, value in (await together.hgetall(key)).items()
                }
                now = float((await together.time())[0])
                head = Head(
                    kept.get("run", ""),
                    kept.get("newest", ""),
                    int(kept.get("token", 0)),
                    float(kept.get("until", 0)) > now,
                )
                if head.newest and now - float(kept.get("at", 0)) > UNWRITTEN_SECONDS:
                    written = saver.key_of(claim.thread, head.newest)
                    if not await together.exists(written):  # whoever claimed it went down before the write
                        head = replace(head, newest=kept.get("before", ""))
                judge(head, claim, there=claim.parent)  # that it read, whatever the head says
                if claim.kind == "writes":
                    return
                to = moved(head, claim)
                together.multi()
                together.hset(key, mapping={"run": to.run, "newest": to.newest, "before": head.newest, "at": now})
                if self._head_seconds:
                    together.expire(key, self._head_seconds)
                try:
                    await together.execute()
                except WatchError:  # somebody else claims at the same time: read again
                    continue
                return

    async def take(self, saver: Saver, thread: str, *, holder: str, seconds: float, strategy: Strategy) -> Grant | None:
        """Give *holder* the lease on a thread; see :meth:`Backend.take`."""
        there = await cast("_RedisSaver", saver).newest(thread)
        asked = [holder, seconds, strategy, there, self._head_seconds or 0]
        token, back_to = await self._client.eval(_TAKE, 1, _key(thread), *asked)
        if not token:
            return None
        return Grant(int(token), back_to.decode() if isinstance(back_to, bytes) else None)

    async def renew(self, saver: Saver, tokens: Mapping[str, int], *, seconds: float) -> set[str]:  # noqa: ARG002 - a connection is enough
        """Prolong leases; see :meth:`Backend.renew`."""
        return {
            thread
            for thread, token in tokens.items()
            if await self._client.eval(_RENEW, 1, _key(thread), token, seconds)
        }

    async def give_back(self, saver: Saver, thread: str, token: int) -> None:  # noqa: ARG002 - as above
        """End a lease; see :meth:`Backend.give_back`."""
        await self._client.eval(_RENEW, 1, _key(thread), token, -1)

    async def forget_newer(self, saver: Saver, thread: str, checkpoint_id: str) -> None:
        """Delete what is newer; see :meth:`Backend.forget_newer`."""
        await cast("_RedisSaver", saver).adelete_some(thread, lambda _, one: one > checkpoint_id)

    async def remove(self, saver: Saver, thread: str, gone: Sequence[Place]) -> None:
        """Delete checkpoints; see :meth:`Backend.remove`."""
        places = {*gone}
        await cast("_RedisSaver", saver).adelete_some(thread, lambda where, one: (where, one) in places)

    async def reparent(self, saver: Saver, thread: str, place: Place, parent_id: str) -> None:
        """Give a checkpoint another parent; see :meth:`Backend.reparent`."""
        await cast("_RedisSaver", saver).areparent(thread, place, parent_id)

    def explained(self, error: Exception) -> Exception:
        """Return what redis-py's *error* means; nothing of it says a password."""
        if isinstance(error, RedisVLError) and isinstance(error.__cause__, RedisError):
            error = error.__cause__
        said = str(error).splitlines()[0][:200].rstrip(".") if str(error) else type(error).__name__
        kind: type[StorageError] = StorageError
        text = f"refused: {said}"
        if isinstance(error, AuthenticationError | AuthorizationError | NoPermissionError):
            kind, text = StorageDeniedError, f"refused this user, its password or a right ({said}); correct the URL"
        elif isinstance(error, ReadOnlyError):
            kind, text = StorageReadOnlyError, "is a read-only replica; give the URL of the primary"
        elif isinstance(error, OutOfMemoryError):
            kind, text = StorageFullError, "has reached its maxmemory; raise it, or let checkpoints expire"
        elif "SSL" in said or "certificate" in said:
            kind, text = (
                StorageUnavailableError,
                f"makes no TLS connection ({said}); correct the URL or the certificate",
            )
        elif isinstance(error, RedisConnectionError | RedisTimeoutError):
            kind, text = StorageUnavailableError, "cannot be reached; start it, correct the URL, or try again"
        return kind(f"{self.location} {text}.", server=self.location)

    def gone(self, error: Exception) -> bool:
        """Whether a connection broke."""
        lost = isinstance(error, RedisConnectionError | RedisTimeoutError)
        return lost and not isinstance(error, AuthenticationError | AuthorizationError)

    def with_serializer(self, saver: Saver, serde: SerializerProtocol) -> Saver:  # noqa: ARG002 - the values are packed
        """Return *saver* as it is: all that it keeps are texts."""
        return saver

    async def _see_modules(self) -> None:
        for command in (("FT._LIST",), ("JSON.GET", "threadkeep:no-such-key")):
            try:
                await self._client.execute_command(*command)
            except ResponseError as error:
                if "unknown command" not in str(error).lower():
                    raise
                msg = (
                    f"{self.location} lacks Redis's JSON and Search modules, which checkpoints need; use Redis 8 or "
                    "Redis Stack, or keep threads elsewhere with LANGGRAPH_CHECKPOINT_TYPE. Memories work without them."
                )
                raise StorageError(msg, server=self.location) from error


def _key(thread: str) -> str:
    return f"threadkeep_head:{thread}"


class _PlainJson:
    """A serializer that reads and writes JSON and nothing else."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return "json", json.dumps(obj).encode()

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return json.loads(data[1])


class _RedisSaver(AsyncRedisSaver):
    """LangGraph's Redis saver, but lists, deletions and a task's writes are complete.

    The stock one ignores ``before``, an empty namespace and most filters, finds 10,000 rows at most,
    and may leave a part of a task's writes behind where the server goes down.
    """

    def __init__(self, *, redis_client: Redis, ttl: dict[str, Any] | None) -> None:
        super().__init__(redis_client=redis_client, ttl=ttl)
        self.serde = cast("Any", _PlainJson())

    def key_of(self, thread: str, checkpoint_id: str) -> str:
        """Return the key of a checkpoint of the root graph."""
        return self._make_redis_checkpoint_key(thread, "", checkpoint_id)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = await super().aget_tuple(config)
        if found is None:
            return None
        # What the saver adds for itself.
        kept = {key: value for key, value in found.checkpoint.items() if key not in ("type", "pending_sends")}
        return found._replace(checkpoint=cast("Checkpoint", kept))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        asked: dict[str, Any] = dict(config.get("configurable", {})) if config else {}
        wanted: Any = Tag("thread_id") == asked["thread_id"] if "thread_id" in asked else FilterExpression("*")
        for value in (filter or {}).values():
            wanted &= Tag("run_id") == value
        older = before.get("configurable", {})["checkpoint_id"] if before else None
        found = sorted(
            (
                (
                    from_storage_safe_id(row["checkpoint_id"]),
                    row["thread_id"],
                    from_storage_safe_str(row["checkpoint_ns"]),
                )
                for row in await _rows(self.checkpoints_index, wanted)
            ),
            reverse=True,
        )
        given = 0
        for checkpoint_id, thread_id, namespace in found:
            if older is not None and checkpoint_id >= older:
                continue
            if asked.get("checkpoint_ns") not in (None, namespace) or asked.get("checkpoint_id") not in (
                None,
                checkpoint_id,
            ):
                continue
            if limit is not None and given >= limit:
                return
            where = {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}
            checkpoint = await self.aget_tuple({"configurable": where})
            if checkpoint is not None:
                given += 1
                yield checkpoint

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
        stream_mode: str = "updates",
    ) -> RunnableConfig:
        # The saver can be asked for rows by their run; whose they are stands there.
        where = {**config.get("configurable", {}), "run_id": str(metadata.get(_OWNER, ""))}
        return await super().aput({"configurable": where}, checkpoint, metadata, new_versions, stream_mode)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        where = config.get("configurable", {})
        place = (str(where["thread_id"]), str(where["checkpoint_ns"]), str(where["checkpoint_id"]))
        registry = AsyncCheckpointKeyRegistry.make_write_keys_zset_key(*place)
        seconds = int(self.ttl_config["default_ttl"] * 60) if self.ttl_config else None
        # As in other savers: an error or an interrupt replaces what was there, a result never does.
        only_new = not all(channel in WRITES_IDX_MAP for channel, _ in writes)
        async with cast("Any", self._redis).pipeline(transaction=True) as together:
            for number, (channel, value) in enumerate(writes):
                index = WRITES_IDX_MAP.get(channel, number)
                key = self._make_redis_checkpoint_writes_key(*place, task_id, index)
                kind, data = self.serde.dumps_typed(value)
                row = {
                    "thread_id": place[0],
                    "checkpoint_ns": to_storage_safe_str(place[1]),
                    "checkpoint_id": place[2],
                    "task_id": task_id,
                    "task_path": task_path,
                    "idx": index,
                    "channel": channel,
                    "type": kind,
                    "blob": self._encode_blob(data),
                }
                together.execute_command("JSON.SET", key, "$", json.dumps(row), *(["NX"] if only_new else []))
                together.zadd(registry, {key: index})
                if seconds is not None:
                    together.expire(key, seconds)
            if seconds is not None:
                together.expire(registry, seconds)
            await together.execute()

    async def newest(self, thread: str) -> str:
        """Return the id of the newest checkpoint of the root graph."""
        found = await cast("Any", self._redis).get(self._make_redis_checkpoint_latest_key(thread, ""))
        key = found.decode() if isinstance(found, bytes) else str(found or "")
        return from_storage_safe_id(key.rpartition(":")[2]) if key else ""

    async def areparent(self, thread: str, place: Place, parent_id: str) -> None:
        """Give a checkpoint another parent."""
        key = self._make_redis_checkpoint_key(thread, *place)
        parent = json.dumps(to_storage_safe_id(parent_id))
        await cast("Any", self._redis).execute_command("JSON.SET", key, "$.parent_checkpoint_id", parent)

    async def adelete_some(self, thread: str, doomed: Callable[[str, str], bool]) -> None:
        """Delete the checkpoints of a thread that *doomed* says so of, by namespace and id, with their writes."""
        wanted: Any = cast("Any", Tag("thread_id")) == thread
        keys: set[str] = set()
        left: dict[str, str] = {}
        for index in (self.checkpoints_index, self.checkpoint_writes_index):
            for row in await _rows(index, wanted):
                namespace = from_storage_safe_str(row["checkpoint_ns"])
                checkpoint_id = from_storage_safe_id(row["checkpoint_id"])
                left.setdefault(namespace, "")
                if doomed(namespace, checkpoint_id):
                    keys.add(row["id"])
                    keys.add(AsyncCheckpointKeyRegistry.make_write_keys_zset_key(thread, namespace, checkpoint_id))
                elif index is self.checkpoints_index:
                    left[namespace] = max(left[namespace], checkpoint_id)
        async with cast("Any", self._redis).pipeline(transaction=True) as together:
            for namespace, newest in left.items():
                latest = self._make_redis_checkpoint_latest_key(thread, namespace)
                if newest:
                    together.set(latest, self._make_redis_checkpoint_key(thread, namespace, newest), keepttl=True)
                else:
                    together.delete(latest)
            ordered = sorted(keys)
            for start in range(0, len(ordered), _PAGE):
                together.delete(*ordered[start : start + _PAGE])
            await together.execute()

    async def adelete_thread(self, thread_id: str) -> None:
        wanted: Any = cast("Any", Tag("thread_id")) == thread_id
        keys: set[str] = set()
        for index in (self.checkpoints_index, self.checkpoint_writes_index):
            for row in await _rows(index, wanted):
                namespace = from_storage_safe_str(row["checkpoint_ns"])
                keys.add(row["id"])
                keys.add(self._make_redis_checkpoint_latest_key(thread_id, namespace))
                keys.add(
                    AsyncCheckpointKeyRegistry.make_write_keys_zset_key(
                        thread_id, namespace, from_storage_safe_id(row["checkpoint_id"])
                    )
                )
        ordered = sorted(keys)
        for start in range(0, len(ordered), _PAGE):
            await cast("Redis", self._redis).delete(*ordered[start : start + _PAGE])


async def _rows(index: AsyncSearchIndex, wanted: FilterExpression) -> list[dict[str, Any]]:
    """Return where all the rows are that *wanted* describes."""
    found: list[dict[str, Any]] = []
    while True:
        query = FilterQuery(wanted, ["thread_id", "checkpoint_ns", "checkpoint_id"], num_results=_PAGE)
        query.paging(len(found), _PAGE)
        page = await index.query(query)
        found += page
        if len(page) < _PAGE:
            return found
