"""Open a Redis server: check its version and layout, detect a cluster, and advise on its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from threadkeep.errors import NotAStorageError, StorageError, StorageVersionError
from threadkeep.ids import new_id
from threadkeep.storage.redis.client import Command, RedisClient, RedisLocation, command
from threadkeep.storage.redis.codec import RedisKeys
from threadkeep.storage.redis.errors import is_denied

LAYOUT: Final = 1
"""The version of keys, members and marks; the storage's own hash names it."""

OLDEST_VERSION: Final = (6, 2)


class InitialEpoch:
    """The epoch of every partition that was never erased, kept in the storage's own hash.

    A server without persistence forgets it at a restart, and then gets a new one. Therefore a commit that begins a
    partition names the runs of the server in which the epoch was read.

    Args:
        client: The client of the storage.
        keys: The names of its keys.

    Attributes:
        epoch: The epoch as last read.
        runs: The ids of the server's runs in which it was read, with commas between them.
    """

    def __init__(self, client: RedisClient, keys: RedisKeys) -> None:
        self.epoch: str = ""
        self.runs: str = "-"
        self._client = client
        self._key = keys.storage
        self._runs = {"-"}

    async def refresh(self, run: str | None = None) -> str:
        """Read the epoch, or create it if there is none, and return it.

        Raises:
            StorageVersionError: A newer version of Threadkeep wrote the storage.
            NotAStorageError: The key holds something else.
        """
        version, epoch = await self._read()
        if version is None or epoch is None:
            await self._client.call(command("HSETNX", self._key, "birth", new_id()))
            await self._client.call(command("HSETNX", self._key, "layout", LAYOUT))
            version, epoch = await self._read()
        if version is None or not version.isdigit() or epoch is None:
            msg = (
                f"Redis key {self._key.decode()!r} exists and is not Threadkeep's; choose another "
                "LANGGRAPH_STORE_KEY_PREFIX. Nothing was written."
            )
            raise NotAStorageError(msg, key=self._key.decode())
        if int(version) > LAYOUT:
            msg = (
                f"A newer version of Threadkeep keeps layout {int(version)} in this Redis, and this version reads "
                f"layout {LAYOUT}; upgrade Threadkeep, or choose another LANGGRAPH_STORE_KEY_PREFIX."
            )
            raise StorageVersionError(msg, layout=int(version))
        if run is not None:
            self._runs.add(run)
            self.runs = ",".join(sorted(self._runs))
        self.epoch = epoch.decode("ascii")
        return self.epoch

    async def _read(self) -> tuple[bytes | None, bytes | None]:
        version, epoch = await self._client.call(command("HMGET", self._key, "layout", "birth"))
        return version, epoch


async def connect(
    location: RedisLocation, keys: RedisKeys, *, timeout_seconds: float
) -> tuple[RedisClient, InitialEpoch]:
    """Connect to the server or to its cluster, and create the storage's hash if it is missing.

    Raises:
        StorageError: The server cannot be used, or its content is not a storage that this version reads.
    """
    client = RedisClient(location, timeout_seconds=timeout_seconds)
    try:
        info = await read_info(client, "server", "cluster")
        _check_server(info, location.masked)
        if info.get("cluster_enabled") == "1":
            client.use_cluster()
        epoch = InitialEpoch(client, keys)
        await epoch.refresh(info.get("run_id"))
    except BaseException:
        await client.close()
        raise
    return client, epoch


async def read_advice(client: RedisClient) -> list[str]:
    """Return one or two sentences for each setting of the server that risks acknowledged writes."""
    info = await read_info(client, "persistence", "memory", "replication")
    config: dict[str, str] = {}
    for name in ("appendfsync", "save"):
        reply = await _call_if_allowed(client, command("CONFIG", b"GET", name))
        config |= {name: reply[1].decode()} if reply else {}
    return durability_advice(info, config)


async def read_info(client: RedisClient, *sections: str) -> dict[str, str]:
    """Return the reply to ``INFO``; nothing if the user may not call it."""
    info: dict[str, str] = {}
    for section in sections:
        info |= _parse_info(await _call_if_allowed(client, command("INFO", section.encode())) or b"")
    return info


def durability_advice(info: Mapping[str, str], config: Mapping[str, str]) -> list[str]:
    """Return what to change so that no acknowledged write is lost, one or two sentences each.

    Args:
        info: The reply to ``INFO``.
        config: ``appendfsync`` and ``save`` from ``CONFIG GET``; empty if the server does not tell.
    """
    advice = (_advise_on_role(info), _advise_on_persistence(info, config), _advise_on_eviction(info))
    return [sentence for sentence in advice if sentence]


def _advise_on_role(info: Mapping[str, str]) -> str | None:
    if info.get("role") != "slave" or info.get("slave_read_only") != "1":
        return None
    return "Redis is a read-only replica, and nothing can be remembered there. Give the address of the primary."


def _advise_on_persistence(info: Mapping[str, str], config: Mapping[str, str]) -> str | None:
    if info.get("aof_enabled") == "0":
        risk = (
            "Redis keeps nothing on disk: a restart loses every memory."
            if config.get("save") == ""
            else "Redis writes snapshots only: a crash loses what was acknowledged since the last one."
        )
        return f"{risk} Set appendonly yes and appendfsync always."
    if "aof_enabled" not in info or "appendfsync" not in config:
        return (
            "Redis does not say how it keeps data; check that its operator set appendonly yes and appendfsync always."
        )
    risk = {
        "everysec": "Redis syncs its append-only file once a second: a power cut loses what was acknowledged in the "
        "last one or two.",
        "no": "Redis leaves it to the system when its append-only file is synced: a power cut loses what was "
        "acknowledged in the last half minute or so.",
    }.get(config["appendfsync"])
    return f"{risk} Set appendfsync always." if risk else None


def _advise_on_eviction(info: Mapping[str, str]) -> str | None:
    policy = info.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        return None
    risk = (
        "Redis evicts any key once it has reached maxmemory, memories among them"
        if policy.startswith("allkeys-")
        else "Redis evicts keys with a time to live once it has reached maxmemory; memories have none, but commit "
        "tokens have one, and threads may"
    )
    return f"{risk} (maxmemory-policy {policy}). Set maxmemory-policy noeviction."


def _parse_info(text: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines() if not line.startswith("#"))
    return {name: value for name, _, value in lines if name}


async def _call_if_allowed(client: RedisClient, wanted: Command) -> Any:
    """Return the reply, or None if the user may not send the command or the server does not know it."""
    try:
        return await client.call(wanted)
    except StorageError as error:
        if is_denied(error.__cause__):
            return None
        raise


def _check_server(info: Mapping[str, str], location: str) -> None:
    if "sentinel" in (info.get("redis_mode"), info.get("server_mode")):
        msg = f"Redis at {location} is a Sentinel; give the address of the primary that it watches."
        raise StorageError(msg, location=location)
    version = info.get("redis_version", "")
    numbers = tuple(int(number) for number in version.split(".")[:2] if number.isdigit())
    if len(numbers) == len(OLDEST_VERSION) and numbers < OLDEST_VERSION:
        msg = f"Redis at {location} is version {version[:20]}; Threadkeep needs 6.2 or newer, or Valkey. Upgrade it."
        raise StorageError(msg, location=location, version=version)
