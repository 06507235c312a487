"""What a check works with: a store at a place that is its own, and time to pass."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langgraph.store.base import BaseStore, IndexConfig, TTLConfig

DIMS: Final = 64

LIFE_SECONDS: Final = 3.0
"""How long an item lives that expires: whole seconds, because some servers know no others."""

LIFE_MINUTES: Final = LIFE_SECONDS / 60
"""The same as ``ttl=`` has it."""


class UnsupportedError(Exception):
    """A store cannot be opened in this way; says why. Its checks are skipped."""


class OpenStore(Protocol):
    """Opens a store at one place, any number of times."""

    def __call__(
        self, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None
    ) -> AbstractAsyncContextManager[BaseStore]:
        """Return a store that is set up when it is entered, and closed when it is left.

        Args:
            index: LangGraph's index configuration; ``None``: no search by meaning is asked for.
            ttl: LangGraph's expiry configuration.

        Raises:
            UnsupportedError: The store cannot do this here.
        """
        ...


Place: TypeAlias = Callable[[], AbstractAsyncContextManager[OpenStore]]
"""Gives a place where nothing is yet: an empty database, folder or prefix."""

Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""Lets so many seconds pass for the store."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a store is configured.

    Attributes:
        fields: What is searched by meaning; ``None``: the whole value; ``()``: nothing is.
        expires: Whether items may expire; what has expired is to be left out by reads.
    """

    fields: tuple[str, ...] | None = ()
    expires: bool = False

    def index(self) -> IndexConfig | None:
        """Return LangGraph's index configuration; it embeds by arithmetic on words."""
        if self.fields == ():
            return None
        return index_of(fields=self.fields)

    def ttl(self) -> TTLConfig | None:
        """Return LangGraph's expiry configuration."""
        return {"refresh_on_read": True, "omit_expired": True} if self.expires else None


PLAIN: Final = Options()
TEXT: Final = Options(fields=("text",))
WHOLE: Final = Options(fields=None)
EXPIRING: Final = Options(expires=True)
EXPIRING_TEXT: Final = Options(fields=("text",), expires=True)


def index_of(
    *, fields: tuple[str, ...] | None = ("text",), dims: int = DIMS, embed: Embeddings | None = None
) -> IndexConfig:
    """Return an index configuration; by default, texts that share words are near to each other."""
    from threadkeep.testing.models import HashingEmbeddings

    found: IndexConfig = {"dims": dims, "embed": embed or HashingEmbeddings(dims=dims)}
    if fields is not None:
        found["fields"] = list(fields)
    return found


@dataclass(frozen=True, slots=True)
class World:
    """What one check may use.

    Attributes:
        store: Configured as the check asks; others work in it, too, below other root labels.
        root: A label that is this check's own; every namespace begins with it.
        open_store: Opens further stores where ``store`` is.
        place: Gives a place of one's own.
        pass_time: Lets seconds pass.
    """

    store: BaseStore
    root: str
    open_store: OpenStore
    place: Place
    pass_time: Sleep

    def at(self, *labels: str) -> tuple[str, ...]:
        """Return a namespace of this check."""
        return (self.root, *labels)

    async def put(self, key: str, value: dict[str, Any], *labels: str, **options: Any) -> None:
        """Put an item into a namespace of this check."""
        await self.store.aput(self.at(*labels), key, value, **options)

    async def fill(self, values: Mapping[str, dict[str, Any]], *labels: str) -> None:
        """Put many items into a namespace of this check, in one call."""
        from langgraph.store.base import PutOp

        await self.store.abatch([PutOp(self.at(*labels), key, value) for key, value in values.items()])

    async def get(self, key: str, *labels: str, **options: Any) -> Any:
        """Return an item of a namespace of this check."""
        return await self.store.aget(self.at(*labels), key, **options)

    async def require(self, key: str, *labels: str) -> Any:
        """Return an item that must be there."""
        from threadkeep_conformance.check import CheckFailedError

        item = await self.get(key, *labels)
        if item is None:
            msg = f"the item {ascii(key)[:80]} is not found"
            raise CheckFailedError(msg)
        return item

    async def search(self, *labels: str, **asked: Any) -> list[Any]:
        """Search below a namespace of this check."""
        return await self.store.asearch(self.at(*labels), **asked)

    async def found(self, *labels: str, **asked: Any) -> set[str]:
        """Return the keys that a search finds."""
        return {item.key for item in await self.search(*labels, **{"limit": 100, **asked})}
