"""Chapter 3: capture a turn, and see in the receipt what was learnt."""

from __future__ import annotations

import threadkeep

ANA = "ana@x.org"
TURN = [
    {"role": "user", "content": "I live in Lisbon.", "id": "m1"},
    {"role": "assistant", "content": "Nice.", "id": "m2"},
]


class TestCapture:
    async def test_the_receipt_names_what_was_learnt(self, tk: threadkeep.Threadkeep) -> None:
        """A fact, and the episode of the turn."""
        receipt = await tk.capture(TURN, owner=ANA, thread_id="t1", wait=True)

        memories = [await tk.memories.require(memory_id, owner=ANA) for memory_id in receipt.memory_ids]
        assert receipt.status == "done"
        assert {(memory.kind, memory.text) for memory in memories} >= {("semantic", "I live in Lisbon.")}

    async def test_a_memory_names_its_source(self, tk: threadkeep.Threadkeep) -> None:
        """Thread, message and speaker."""
        await tk.capture(TURN, owner=ANA, thread_id="t1", wait=True)

        (fact,) = await tk.memories.list(owner=ANA, kind="semantic")

        (source,) = fact.sources
        assert (source.thread_id, source.message_id, source.speaker) == ("t1", "m1", "user")

    async def test_a_turn_is_learnt_once(self, tk: threadkeep.Threadkeep) -> None:
        """A repeated call changes nothing."""
        await tk.capture(TURN, owner=ANA, thread_id="t1", wait=True)

        again = await tk.capture(TURN, owner=ANA, thread_id="t1", wait=True)

        assert again.status == "duplicate"
        assert len(await tk.memories.list(owner=ANA, kind="semantic")) == 1
