"""The documents' functions, over our store and over a stock one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

import threadkeep
from threadkeep import functions
from threadkeep.errors import InvalidInputError, OwnerMismatchError, ProposalDecidedError
from threadkeep.testing import HashingEmbedder

ANA = "ana.maria@x.org"


@pytest.fixture(params=["ours", "stock"])
def store(request: pytest.FixtureRequest) -> Iterator[BaseStore]:
    """Return our store and LangGraph's own."""
    if request.param == "stock":
        yield InMemoryStore()
        return
    with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
        yield tk.store


def dated(days_ago: int) -> str:
    return (datetime(2026, 5, 1, tzinfo=UTC) - timedelta(days=days_ago)).isoformat()


class TestStore:
    """One store a process, made without I/O."""

    def test_the_default_is_memory(self) -> None:
        """``create_store`` follows LANGGRAPH_STORE_TYPE, and RAM where it is unset."""
        store = functions.create_store()

        assert isinstance(store, BaseStore)

    def test_a_process_has_one(self) -> None:
        """``get_store`` gives the same one until it is reset."""
        first = functions.get_store()
        assert functions.get_store() is first

        functions.reset_store()
        second = functions.get_store()
        functions.reset_store()

        assert second is not first

    async def test_five_first_writes_open_one_connection(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
        """They arrive together and all are kept."""
        monkeypatch.setenv("LANGGRAPH_STORE_TYPE", "sqlite")
        monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", str(tmp_path / "m.db"))
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")
        store = functions.get_store()

        await asyncio.gather(*(functions.store_put_memory(store, ANA, f"fact {i}") for i in range(5)))

        assert len(await store.asearch(("memories", functions.sanitize_namespace_label(ANA)))) == 5
        functions.reset_store()


class TestContext:
    """What other threads left behind, for a new one."""

    async def test_newest_first_then_the_limit(self, store: BaseStore) -> None:
        """The limit keeps the newest, whatever the order of writing; headings are the documents'."""
        label = functions.sanitize_namespace_label(ANA)
        for i in (3, 0, 4, 1, 2):
            row = {"data": f"fact {i} days ago", "source_thread": "t", "timestamp": dated(i)}
            await store.aput(("memories", label), f"m{i}", row)
            summary = {"summary": f"summary {i} days ago", "thread_id": "t", "timestamp": dated(i)}
            await store.aput(("summaries", label), f"s{i}", summary)

        text = await functions.store_get_cross_thread_context(store, ANA, max_summaries=1, max_memories=2)

        assert "[Previous Conversation Summaries]" in text
        assert "[User Memories]" in text
        assert [line for line in ("summary 0 days ago", "fact 0 days ago", "fact 1 days ago") if line in text] == [
            "summary 0 days ago",
            "fact 0 days ago",
            "fact 1 days ago",
        ]
        assert "2 days ago" not in text
        assert text.index("fact 0") < text.index("fact 1")

    @pytest.mark.parametrize(
        "value",
        [
            {"data": "likes tea", "timestamp": "not a time"},
            {"text": "likes tea", "type": "user", "source_thread": "t", "timestamp": 1_700_000_000},
            {"kind": "Memory", "content": {"content": "likes tea"}},
            {"content": "likes tea"},
        ],
    )
    async def test_one_strange_row_hides_nothing(self, store: BaseStore, value: dict[str, Any]) -> None:
        """Every shape that others write is read as what it says, and never as its spelling."""
        label = functions.sanitize_namespace_label(ANA)
        await store.aput(("memories", label), "strange", {"anything": [1, 2]})
        await store.aput(("memories", label), "theirs", value)
        await functions.store_put_memory(store, ANA, "lives in Lisbon")

        text = await functions.store_get_cross_thread_context(store, ANA)

        assert "likes tea" in text
        assert "lives in Lisbon" in text
        assert "content" not in text

    async def test_it_shows_what_recall_would(self) -> None:
        """A fact and the words that it is from are shown once; nothing that was corrected is shown."""
        async with threadkeep.open("memory://", embedder=HashingEmbedder(), owner=ANA) as tk:
            said = [{"role": "user", "content": "I live in Porto. My sister Maria is a nurse in Faro."}]
            await tk.capture(said, thread_id="t", wait=True)
            await functions.store_put_summary(tk.store, ANA, "I live in Porto. We planned the trip to Kyoto.")
            (porto,) = [one for one in await tk.memories.list(kind="semantic") if "Porto" in one.text]

            before = await functions.store_get_cross_thread_context(tk.store, ANA)
            await tk.memories.correct(porto.memory_id, "I live in Braga.")
            after = await functions.store_get_cross_thread_context(tk.store, ANA)

            assert (before.count("Porto"), before.count("Maria"), before.count("Kyoto")) == (1, 1, 1)
            assert (after.count("Porto"), after.count("Braga"), after.count("Kyoto")) == (0, 1, 1)

    async def test_users_are_apart(self, store: BaseStore) -> None:
        """Ids that differ by a period, by their end or by case share nothing."""
        await functions.store_put_memory(store, "bobby", "likes tea")
        await functions.store_put_memory(store, "a.b@x.com", "likes milk")

        for other in ("bob", "a_b@x_com", "A.B@x.com", "a.b@x.co"):
            assert await functions.store_get_cross_thread_context(store, other) == ""

    async def test_nothing_is_refused(self, store: BaseStore) -> None:
        """An empty memory is an error."""
        with pytest.raises(InvalidInputError):
            await functions.store_put_memory(store, ANA, "  ")


class TestSearch:
    """Document 003's two functions."""

    def test_four_and_four_within_900_characters(self) -> None:
        """Facts and episodes of both layouts, best first, cut at a statement."""
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            label = functions.sanitize_namespace_label(ANA)
            for i in range(9):
                fact = {"text": f"drinks tea number {i} {'x' * 150}", "type": "user"}
                tk.store.put(("users", label, "memories", "user"), f"u{i}", fact)
                episode = {"text": f"asked about tea number {i}", "type": "episodic"}
                tk.store.put(("users", label, "memories", "episodic"), f"e{i}", episode)

            hits = functions.search_relevant_memories(tk.store, ANA, "which tea number")
            message = functions.memory_context_system_message(hits)

            kinds = [hit.memory.kind for hit in hits]
            assert (kinds.count("semantic"), kinds.count("episodic")) == (4, 4)
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
            assert message is not None
            assert message.text.startswith("You have durable memory about this user")
            assert len(message.text) <= 900
            assert "• drinks tea" in message.text
            assert "– asked about tea" in message.text

    def test_no_hits_no_message(self) -> None:
        """Nothing remembered is no message at all."""
        assert functions.memory_context_system_message([]) is None


class TestStoreWith:
    """A view for programs that rely on a stock store's ways."""

    async def test_dense_scores_are_raw_cosines(self) -> None:
        """The same text as the question has a cosine of 1, and an unlike one may be below 0."""
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            store = tk.store_with(ranking="dense", index={"dims": 64, "embed": "", "fields": ["text"]})
            await store.aput(("notes",), "1", {"text": "two cats"})
            await store.aput(("notes",), "2", {"text": "a green locker"})

            found = await store.asearch(("notes",), query="two cats")

            assert [item.key for item in found] == ["1", "2"]
            assert found[0].score == pytest.approx(1.0)


class TestProposals:
    """The documents' proposal workflow over our store."""

    async def test_the_whole_round(self) -> None:
        """Proposed, seen as waiting, approved, remembered; refused, and not proposed again."""
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            store = tk.store
            first = await functions.propose_memory_update(store, ANA, "Ana prefers terse answers.", key="k")
            again = await functions.propose_memory_update(store, ANA, "Ana prefers terse answers.", key="k")
            second = await functions.propose_memory_update(store, ANA, "Ana's manager is Olga.", source_thread="t1")
            assert first.proposal is not None
            assert second.proposal is not None
            assert again.proposal == first.proposal
            waiting = await functions.get_memory_state(store, ANA)
            assert (waiting.memories, len(waiting.pending)) == ((), 2)
            assert await functions.store_get_cross_thread_context(store, ANA) == ""

            await functions.approve_memory_update(store, ANA, first.proposal.proposal_id, by="carla")
            await functions.reject_memory_update(store, ANA, second.proposal.proposal_id, by="carla")

            state = await functions.get_memory_state(store, ANA)
            assert [memory.text for memory in state.memories] == ["Ana prefers terse answers."]
            assert state.pending == ()
            assert "Ana prefers terse answers." in await functions.store_get_cross_thread_context(store, ANA)
            refused = await functions.propose_memory_update(store, ANA, "Ana's manager is Olga")
            assert refused.status == "rejected"
            with pytest.raises(ProposalDecidedError, match="approved by carla"):
                await functions.reject_memory_update(store, ANA, first.proposal.proposal_id)

    async def test_change_of_a_memory(self) -> None:
        """With the revision that was looked at."""
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            kept = await tk.memories.remember("Ana lives in Lisbon.", owner=ANA)
            proposed = await functions.propose_memory_update(
                tk.store, ANA, "Ana lives in Porto.", memory_id=kept.memory_id, base_revision=kept.memory.revision
            )
            assert proposed.proposal is not None

            await functions.approve_memory_update(
                tk.store, ANA, proposed.proposal.proposal_id, text="Ana lives in Faro."
            )

            (memory,) = (await functions.get_memory_state(tk.store, ANA)).memories
            assert memory.text == "Ana lives in Faro."

    async def test_only_ours_and_only_ones_own(self) -> None:
        """A stock store has no proposals, and a locked one only those of its owner."""
        with threadkeep.open("memory://", embedder="none") as tk:
            with pytest.raises(InvalidInputError, match="create_store"):
                await functions.get_memory_state(InMemoryStore(), ANA)
            with pytest.raises(OwnerMismatchError):
                await functions.get_memory_state(tk.for_owner("bob").store, ANA)
