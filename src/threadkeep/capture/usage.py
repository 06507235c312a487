"""Count what models took, and add it to the accounts of owners."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from threadkeep.capture.models import Prices, Usage, account_put, account_ref, priced
from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import ExtractionError, PartitionErasedError, RevisionConflictError
from threadkeep.storage.interface import Batch

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.identity import Owner
    from threadkeep.observability import Telemetry
    from threadkeep.storage.interface import Storage

T = TypeVar("T")


class UsageAccounts:
    """The accounts of all owners.

    Args:
        storage: Keeps them.
        clock: The time.
        telemetry: Counts calls and tokens.
        prices: The prices of the model; ``None``: unknown.
    """

    def __init__(self, storage: Storage, clock: Clock, telemetry: Telemetry, prices: Prices | None = None) -> None:
        self._storage = storage
        self._clock = clock
        self._telemetry = telemetry
        self._prices = prices

    def count(self, usage: Usage) -> Usage:
        """Count *usage* in the telemetry, and return it with what it cost."""
        for name in ("calls", "input_tokens", "output_tokens"):
            self._telemetry.count(f"extraction.{name}", getattr(usage, name))
        return priced(usage, self._prices)

    async def charge(self, owner: Owner, usage: Usage, *, failed: bool, epoch: str) -> None:
        """Count *usage*, and add it to the owner's account outside any turn.

        It is lost if the owner was erased since *epoch*, or without an attempt that is free of conflicts.
        """
        usage = self.count(usage)

        async def charge() -> None:
            (before,) = await self._storage.get([account_ref(owner)])
            put = account_put(owner, before, usage, turns=0, failed=int(failed), at=self._clock.now())
            await self._storage.commit(Batch(owner.partition, [put], epoch=epoch))

        with suppress(PartitionErasedError, RevisionConflictError):
            await retry_conflicts(charge)

    async def charge_failure(self, owner: Owner, error: ExtractionError, *, epoch: str) -> None:
        """Charge what a model took before *error*, if the error says it; see :meth:`charge`."""
        if isinstance(usage := error.details.get("usage"), Usage):
            await self.charge(owner, usage, failed=True, epoch=epoch)

    async def metered(self, owner: Owner, ask: Callable[[], Awaitable[tuple[T, Usage]]]) -> T:
        """Return the result of *ask*, which asks a model, and charge what it took, also if it fails.

        Raises:
            ExtractionError: As *ask* does.
        """
        epoch = (await self._storage.position(owner.partition)).epoch
        try:
            result, usage = await ask()
        except ExtractionError as error:
            await self.charge_failure(owner, error, epoch=epoch)
            raise
        await self.charge(owner, usage, failed=False, epoch=epoch)
        return result
