"""The ``Idempotency-Key`` of runs: a key that was used names the run that was begun with it, in every process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from threadkeep.errors import StorageError
from threadkeep.gateway.idempotency import KeptAnswers, RequestKey, require_same
from threadkeep.observability import log

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.gateway.run_models import ChatRun
    from threadkeep.identity import Owner


class RunKeys:
    """The keys of this process's runs, also kept in the storage.

    While the storage is away, only this process is asked: the turn is answered in any case.

    Args:
        tk: The memory.
    """

    def __init__(self, tk: Threadkeep) -> None:
        self._tk = tk
        self._begun: dict[tuple[Owner, str], dict[str, Any]] = {}

    async def find(self, owner: Owner, key: RequestKey) -> str | None:
        """Return the id of the run that was begun with *key*, by any process.

        Raises:
            ProblemError: Another request has the key.
        """
        value = self._begun.get((owner, key.key))
        if value is None:
            answers = KeptAnswers(self._tk, owner)
            try:
                value = await answers.within_budget(answers.find(key))
            except (StorageError, TimeoutError) as error:
                log.warning("An Idempotency-Key could not be looked up: %s", str(error) or "it took too long")
        if value is None:
            return None
        require_same(value, key)
        return str(value["run_id"])

    async def claim(self, run: ChatRun, key: RequestKey) -> bool:
        """Keep *key* for *run*; ``False``: an earlier run has it."""
        owner, value = run.request.owner, {"run_id": run.run_id}
        known, answers = (owner, key.key) in self._begun, KeptAnswers(self._tk, owner)
        try:
            known = not await answers.within_budget(self._claim(answers, run, key, value))
        except (StorageError, TimeoutError) as error:
            log.warning("An Idempotency-Key is known to this process only: %s", str(error) or "it took too long")
        if not known:
            self._begun[owner, key.key] = {"fingerprint": key.fingerprint, **value}
        return not known

    async def _claim(self, answers: KeptAnswers, run: ChatRun, key: RequestKey, value: dict[str, Any]) -> bool:
        """Claim *key* in the storage; ``False``: an earlier run has it. The run may end before this does."""
        claim = await answers.claim(key, value)
        if claim is not None and run.status == "running":
            run.claim = claim
        elif claim is not None:
            await (claim.keep() if (run.request.owner, key.key) in self._begun else claim.release())
        return claim is not None

    async def settle(self, run: ChatRun, *, again: bool) -> None:
        """Keep the key of *run*, which has ended; free it if the request is to be sent *again*."""
        if again:
            self.forget(run)
        if run.claim is not None:
            await (run.claim.release() if again else run.claim.keep())

    def forget(self, run: ChatRun) -> None:
        """Keep the key of *run* in this process no longer."""
        if run.key is not None:
            self._begun.pop((run.request.owner, run.key.key), None)
