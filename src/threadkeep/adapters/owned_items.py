"""Items of one owner that an adapter keeps; they are erased, encrypted and copied like everything of the owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import OptedOutError, OwnerRequiredError
from threadkeep.storage.interface import Batch, Delete, Item, Put, Ref, read_items

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.container import Services
    from threadkeep.identity import Owner
    from threadkeep.storage.interface import Namespace

T = TypeVar("T")


def require_owner(tk: Threadkeep) -> Owner:
    """Return the owner that *tk* is locked to.

    Raises:
        OwnerRequiredError: It is locked to none.
    """
    if tk.locked_to is None:
        msg = "Pass tk.for_owner(owner): the adapter keeps the memory of one owner."
        raise OwnerRequiredError(msg)
    return tk.locked_to


class OwnedItems:
    """Reads and writes items below one namespace of an owner.

    Args:
        tk: A client that is locked to the owner.
        root: The first label of the namespace.
        below: Its further labels, behind that of the owner.
    """

    def __init__(self, tk: Threadkeep, root: str, *below: str) -> None:
        self._tk = tk
        self._owner = require_owner(tk)
        self._namespace: Namespace = (root, self._owner.label, *below)

    def put(self, key: str, value: dict[str, object], *, before: Item | None) -> Put:
        """Return what writes an item, if it is still as it was *before*."""
        return Put(self._namespace, key, value, expect="absent" if before is None else before.revision)

    def delete(self, before: Item) -> Delete:
        """Return what deletes an item, if it is still as it was *before*."""
        return Delete(before.ref.namespace, before.ref.key, expect=before.revision)

    async def all(self) -> list[Item]:
        """Return every item, ordered by key."""
        return await self._tk.app.call(
            lambda services: read_items(services.storage, self._owner.partition, prefix=self._namespace)
        )

    async def get(self, keys: Sequence[str]) -> tuple[Item | None, ...]:
        """Return the items at *keys*; ``None`` for what is missing."""
        refs = [Ref(self._owner.partition, self._namespace, key) for key in keys]
        return await self._tk.app.call(lambda services: services.storage.get(refs)) if refs else ()

    async def change(self, plan: Callable[[], Awaitable[tuple[Sequence[Put | Delete], T]]]) -> T:
        """Commit what *plan* returns, at once, and return its result; *plan* is asked again after a conflict."""

        async def commit(services: Services) -> T:
            async def attempt() -> T:
                writes, result = await plan()
                if writes:
                    await services.storage.commit(Batch(self._owner.partition, [*writes]))
                return result

            return await retry_conflicts(attempt)

        return await self._tk.app.call(commit)

    async def require_memory(self) -> None:
        """Require that the owner wants something to be remembered.

        Raises:
            OptedOutError: The owner has opted out.
        """

        async def holds(services: Services) -> bool:
            return services.opt_outs.holds(self._owner, None)

        if await self._tk.app.call(holds):
            msg = "The user has opted out of memory; nothing was kept."
            raise OptedOutError(msg)

    async def redacted(self, text: str) -> str:
        """Return *text* without secrets."""

        async def redact(services: Services) -> str:
            return services.redact(text)

        return await self._tk.app.call(redact)
