"""API keys: secrets with scopes that act as one owner. The storage keeps their digests only."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from cachetools import TTLCache

from threadkeep.errors import InvalidInputError
from threadkeep.gateway.auth.reading import read_in_time
from threadkeep.gateway.principals import SCOPES, Principal
from threadkeep.identity import Owner
from threadkeep.ids import new_id

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from langgraph.store.base import BaseStore

    from threadkeep.clock import Clock
    from threadkeep.concurrency import TimeoutBudget

PREFIX: Final = "tk_"
CACHE_SECONDS: Final = 2.0
"""How long a process uses a key without reading it again; so a revoked key is refused after that time."""

_KEYS: Final = ("threadkeep", "gateway", "api_keys")
_USES: Final = ("threadkeep", "gateway", "api_key_uses")
_FORM: Final = re.compile(r"tk_[A-Za-z0-9_-]{43}", re.ASCII)
_USE_SECONDS: Final = 60
_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key, without its secret.

    Attributes:
        key_id: Its id.
        name: What it is for.
        user_id: The user whom it acts as.
        tenant: The tenant of that user.
        scopes: What it may do.
        created_at: When it was created.
        expires_at: When it expires; ``None``: never.
        used_at: When it was used last, within a minute.
    """

    key_id: str
    name: str
    user_id: str
    tenant: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None = None

    @property
    def owner(self) -> Owner:
        """The owner whom it acts as."""
        return Owner(self.user_id, self.tenant)

    def is_expired(self, now: datetime) -> bool:
        """Return whether it is refused from *now* on."""
        return self.expires_at is not None and now >= self.expires_at


class ApiKeys:
    """The API keys of all owners.

    Args:
        store: Keeps them.
        clock: The time.
        budget: How long a request waits for its key.
    """

    def __init__(self, store: BaseStore, clock: Clock, budget: TimeoutBudget) -> None:
        self._store = store
        self._budget = budget
        self._clock = clock
        self._known: TTLCache[str, ApiKey] = TTLCache(10_000, CACHE_SECONDS)
        self._noted: TTLCache[str, bool] = TTLCache(10_000, _USE_SECONDS)

    async def create(
        self, owner: Owner, scopes: Collection[str], *, name: str = "", lifetime: timedelta | None = None
    ) -> tuple[str, ApiKey]:
        """Create a key.

        Args:
            owner: The owner whom it acts as.
            scopes: What it may do.
            name: What it is for.
            lifetime: After what time it expires; ``None``: never.

        Returns:
            The secret, which is not kept, and the key.

        Raises:
            InvalidInputError: A scope is unknown, or there is none.
        """
        unknown = sorted(set(scopes) - SCOPES)
        if unknown or not scopes:
            named = repr(unknown[0]) if unknown else "none"
            msg = f"A key needs scopes of {', '.join(sorted(SCOPES))}; got {named}."
            raise InvalidInputError(msg)
        secret, now = PREFIX + secrets.token_urlsafe(32), self._clock.now()
        expires = None if lifetime is None else now + lifetime
        key = ApiKey(new_id(), name, owner.user_id, owner.tenant, tuple(sorted(set(scopes))), now, expires)
        value = {**asdict(key), "created_at": now.isoformat(), "expires_at": expires.isoformat() if expires else None}
        await self._store.aput(_KEYS, _digest(secret), value, index=False)
        return secret, key

    async def list(self) -> list[ApiKey]:
        """Return all keys, oldest first."""
        keys: list[ApiKey] = []
        while found := await self._store.asearch(_KEYS, limit=_PAGE, offset=len(keys)):
            keys += [await self._with_use(_key_of(item.value)) for item in found]
        return sorted(keys, key=lambda key: key.created_at)

    async def revoke(self, key_id: str) -> bool:
        """Remove a key; return whether it existed. Other processes refuse it within 2 seconds."""
        offset = 0
        while found := await self._store.asearch(_KEYS, limit=_PAGE, offset=offset):
            for item in found:
                if item.value.get("key_id") == key_id:
                    await self._store.adelete(_KEYS, item.key)
                    await self._store.adelete(_USES, key_id)
                    self._known.clear()
                    return True
            offset += len(found)
        return False

    async def verify(self, secret: str) -> Principal | None:
        """Return the principal of a key, or None if it is unknown or has expired.

        Raises:
            StorageUnavailableError: The storage does not answer in time.
        """
        if not _FORM.fullmatch(secret):
            return None
        place, now = _digest(secret), self._clock.now()
        key = self._known.get(place)
        if key is None:
            key = await read_in_time(self._budget, self._read(place, now))
        if key is None or key.is_expired(now):
            return None
        return Principal(key.owner, frozenset(key.scopes), f"key:{key.key_id}")

    async def _read(self, place: str, now: datetime) -> ApiKey | None:
        """Return the key at *place*, and note its use once a minute."""
        item = await self._store.aget(_KEYS, place)
        if item is None:
            return None
        key = self._known[place] = _key_of(item.value)
        if not key.is_expired(now) and key.key_id not in self._noted:
            self._noted[key.key_id] = True
            await self._store.aput(_USES, key.key_id, {"at": now.isoformat()}, index=False)
        return key

    async def _with_use(self, key: ApiKey) -> ApiKey:
        item = await self._store.aget(_USES, key.key_id)
        if item is None:
            return key
        return replace(key, used_at=datetime.fromisoformat(item.value["at"]))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _key_of(value: Mapping[str, Any]) -> ApiKey:
    expires = value["expires_at"]
    return ApiKey(
        str(value["key_id"]),
        str(value["name"]),
        str(value["user_id"]),
        str(value["tenant"]),
        tuple(value["scopes"]),
        datetime.fromisoformat(value["created_at"]),
        datetime.fromisoformat(expires) if expires else None,
    )
