"""Chapter 8: what the user did not say waits for a decision."""

from __future__ import annotations

import pytest

import threadkeep
from threadkeep.errors import ProposalDecidedError

ANA = "ana@x.org"


class TestDecide:
    async def test_an_approved_proposal_is_a_memory(self, tk: threadkeep.Threadkeep) -> None:
        """Before the decision it is not recalled; afterwards it names its approver."""
        await tk.proposals.propose("Ana prefers terse answers.", owner=ANA)
        before = await tk.memories.list(owner=ANA)
        (waiting,) = await tk.proposals.list(owner=ANA)

        await tk.proposals.approve(waiting.proposal_id, owner=ANA, by="carla")

        (memory,) = await tk.memories.list(owner=ANA)
        assert before == []
        assert memory.approval is not None
        assert (memory.text, memory.approval.by) == ("Ana prefers terse answers.", "carla")

    async def test_it_is_decided_once(self, tk: threadkeep.Threadkeep) -> None:
        """A second decision is refused and names the first."""
        await tk.proposals.propose("Ana prefers terse answers.", owner=ANA)
        (waiting,) = await tk.proposals.list(owner=ANA)
        await tk.proposals.reject(waiting.proposal_id, owner=ANA, by="carla")

        with pytest.raises(ProposalDecidedError, match="rejected"):
            await tk.proposals.approve(waiting.proposal_id, owner=ANA, by="carla")

    async def test_a_rejected_statement_is_not_learnt(self, tk: threadkeep.Threadkeep) -> None:
        """Its tombstone stops it."""
        await tk.proposals.propose("I live in Lisbon.", owner=ANA)
        (waiting,) = await tk.proposals.list(owner=ANA)
        await tk.proposals.reject(waiting.proposal_id, owner=ANA, by="carla")
        said = [{"role": "user", "content": "I live in Lisbon."}, {"role": "assistant", "content": "Nice."}]

        await tk.capture(said, owner=ANA, thread_id="t1", wait=True)

        assert await tk.memories.list(owner=ANA, kind="semantic") == []
