"""Connecting to a Redis: what is there is looked at before anything is written."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from threadkeep.errors import NotAStorageError, StorageError, StorageVersionError
from threadkeep.ids import new_id
from threadkeep.storage.redis.cluster import Cluster
from threadkeep.storage.redis.durability import told
from threadkeep.storage.redis.errors import is_denied
from threadkeep.storage.redis.keys import Keys
from threadkeep.storage.redis.link import Link, OneServer
from threadkeep.storage.redis.location import RedisLocation
from threadkeep.storage.redis.scripts import Command, command

LAYOUT: Final = 1
"""The version of keys, members and marks; a storage says which it has."""

OLDEST: Final = (6, 2)


class Birth:
    """The epoch of every partition that was never erased, which the storage keeps.

    A server that keeps nothing on disk forgets it when it is started again, and a new one is made. So
    whoever begins a partition says in which runs of the servers the epoch was looked up.

    Args:
        link: Where the storage is.
        keys: What its keys are called.
    """

    def __init__(self, link: Link, keys: Keys) -> None:
        self.epoch: str = ""
        self._link = link
        self._key = keys.storage
        self._runs = {"-"}

    @property
    def runs(self) -> str:
        """The runs in which it was looked up."""
        return " ".join(sorted(self._runs))

    async def learn(self, run: str | None = None) -> str:
        """Look it up, or make one where there is none; return it.

        Raises:
            StorageVersionError: A newer version wrote here.
            NotAStorageError: The key holds something else.
        """
        version, epoch = await self._read()
        if version is None or epoch is None:
            await self._link.call(command("HSETNX", self._key, "birth", new_id()))
            await self._link.call(command("HSETNX", self._key, "layout", LAYOUT))
            version, epoch = await self._read()
        if version is None or not version.isdigit() or epoch is None:
            msg = f"Redis holds another {self._key!r}; choose another LANGGRAPH_STORE_KEY_PREFIX. Nothing was written."
            raise NotAStorageError(msg, key=self._key)
        if int(version) > LAYOUT:
            msg = (
                f"A newer version of Threadkeep keeps layout {int(version)} in this Redis, and this one knows "
                f"{LAYOUT}; upgrade it, or choose another LANGGRAPH_STORE_KEY_PREFIX."
            )
            raise StorageVersionError(msg, layout=int(version))
        if run is not None:
            self._runs.add(run)
        self.epoch = epoch.decode("ascii")
        return self.epoch

    async def _read(self) -> tuple[bytes | None, bytes | None]:
        version, epoch = await self._link.call(command("HMGET", self._key, "layout", "birth"))
        return version, epoch


async def opened(where: RedisLocation, keys: Keys, timeout: timedelta) -> tuple[Link, Birth]:
    """Connect, and make what a storage needs where nothing is there.

    Raises:
        StorageError: What the server or what is on it forbids.
    """
    seconds = timeout.total_seconds()
    link = Link(OneServer(where.server()), location=where.masked, seconds=seconds)
    try:
        info = await server_info(link, "server", "cluster")
        _check_server(info, where.masked)
        if info.get("cluster_enabled") == "1":
            await link.close()
            link = Link(Cluster(where.server, where.address), location=where.masked, seconds=seconds)
        birth = Birth(link, keys)
        await birth.learn(info.get("run_id"))
    except BaseException:
        await link.close()
        raise
    return link, birth


async def server_info(link: Link, *sections: str) -> dict[str, str]:
    """Return what the server says of itself; nothing where its user may not ask."""
    found: dict[str, str] = {}
    for section in sections:
        found |= told(await allowed(link, command("INFO", section)) or b"")
    return found


async def allowed(link: Link, asked: Command) -> Any:
    """Return the reply to *asked*, ``None`` where the user may not ask it or the server does not know it."""
    try:
        return await link.call(asked)
    except StorageError as error:
        if is_denied(error.__cause__):
            return None
        raise


def _check_server(info: dict[str, str], location: str) -> None:
    if "sentinel" in (info.get("redis_mode"), info.get("server_mode")):
        msg = f"Redis at {location} is a Sentinel; give the address of the primary that it watches."
        raise StorageError(msg, location=location)
    version = info.get("redis_version", "")
    numbers = tuple(int(number) for number in version.split(".")[:2] if number.isdigit())
    if len(numbers) == len(OLDEST) and numbers < OLDEST:
        msg = f"Redis at {location} is version {version[:20]}; Threadkeep needs 6.2 or newer, or Valkey. Upgrade it."
        raise StorageError(msg, location=location, version=version)
