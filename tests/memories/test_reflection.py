"""Old episodes are condensed by thread and month: recall finds the summary, and nothing is removed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata

import threadkeep
from threadkeep.errors import InvalidInputError
from threadkeep.ids import ThreadId
from threadkeep.memories.models import SAID, Approval, NewMemory, Source
from threadkeep.settings import Settings
from threadkeep.testing import FrozenClock, HashingEmbedder, ScriptedModel

if TYPE_CHECKING:
    from threadkeep.services import Services

NOW: Final = datetime(2026, 6, 1, tzinfo=UTC)
JANUARY: Final = (
    "We moved the billing service to Falkenstein.",
    "The billing service needs Postgres 18.",
    "Maria led it.",
)


@pytest.fixture
async def tk() -> AsyncIterator[threadkeep.Threadkeep]:
    async with threadkeep.open("memory://", owner="ana", embedder=HashingEmbedder(), clock=FrozenClock(NOW)) as opened:
        yield opened


async def tell(tk: threadkeep.Threadkeep, *texts: str, month: int = 1, thread: str = "t", pinned: bool = False) -> None:
    """Keep episodes as capture does, said on the first days of a month."""
    news = [
        NewMemory(
            f"{SAID}{text}",
            "episodic",
            (Source("user", ThreadId(thread), at=datetime(2026, month, day, tzinfo=UTC)),),
            created_at=datetime(2026, month, day, tzinfo=UTC),
            pinned=pinned,
            approval=Approval("carla", NOW) if pinned else None,
        )
        for day, text in enumerate(texts, 1)
    ]
    await tk.memories.remember_many(news)


async def test_old_episodes_of_a_thread_and_month_become_a_summary(tk: threadkeep.Threadkeep):
    await tell(tk, *JANUARY)
    await tell(tk, *JANUARY, month=5, thread="new")

    (made,) = await tk.memories.reflect()

    assert (made.thread_id, made.month, len(made.derived_from)) == ("t", "2026-01", 3)
    assert "billing service" in made.text
    why = await tk.memories.why(made.memory_id)
    assert sorted(one.text for one in why.derived_from) == sorted(f"{SAID}{text}" for text in JANUARY)
    assert made.memory_id in [one.memory.memory_id for one in await tk.memories.search("billing service", limit=20)]


async def test_nothing_is_removed_and_repeating_changes_nothing(tk: threadkeep.Threadkeep):
    await tell(tk, *JANUARY)
    before = await tk.memories.list()

    await tk.memories.reflect()

    assert await tk.memories.list() == before
    assert await tk.memories.reflect() == ()


async def test_dry_run_writes_nothing(tk: threadkeep.Threadkeep):
    await tell(tk, *JANUARY)

    (planned,) = await tk.memories.reflect(dry=True)
    (made,) = await tk.memories.reflect()

    assert planned == made


async def test_what_a_person_pinned_or_approved_is_left_out(tk: threadkeep.Threadkeep):
    await tell(tk, *JANUARY, pinned=True)

    assert await tk.memories.reflect() == ()


async def test_few_or_recent_episodes_are_left_alone(tk: threadkeep.Threadkeep):
    await tell(tk, *JANUARY[:2])
    await tell(tk, *JANUARY, month=5, thread="new")

    assert await tk.memories.reflect(older_than=timedelta(days=60)) == ()


async def test_forgotten_episode_takes_the_summary_with_it(tk: threadkeep.Threadkeep):
    await tell(tk, *JANUARY)
    (made,) = await tk.memories.reflect()

    forgotten = await tk.memories.forget(made.derived_from[0])

    assert JANUARY[0] not in str(await tk.store.asearch(("summaries", tk.label("ana"))))
    assert forgotten.memory_ids
    (again,) = await tk.memories.reflect(dry=True) or (None,)
    assert again is None or JANUARY[0] not in again.text


async def test_age_must_not_be_negative(tk: threadkeep.Threadkeep):
    with pytest.raises(InvalidInputError, match="older_than must be 0 or more"):
        await tk.memories.reflect(older_than=timedelta(days=-1))


def opened_with_days(days: float, storage: str) -> threadkeep.Threadkeep:
    settings = Settings(THREADKEEP_REFLECT_DAYS=days)
    clock = FrozenClock(NOW)
    return threadkeep.open(storage, owner="ana", embedder=HashingEmbedder(), settings=settings, clock=clock)


async def summaries(tk: threadkeep.Threadkeep) -> int:
    async def count(services: Services) -> int:
        _, found = await services.memory_repository.everything(threadkeep.Owner("ana"))
        return len(found)

    return await tk.app.call(count)


async def test_a_setting_reflects_in_the_background(tmp_path: Path):
    """What a program left is condensed by the next one, by itself; without the setting nothing is."""
    url = f"sqlite:///{tmp_path}/m.db"
    async with opened_with_days(0, url) as tk:
        await tell(tk, *JANUARY)
        await tell(tk, *JANUARY, thread="kept", pinned=True)
        assert await tk.app.call(lambda services: services.reflection.round()) == 0

    async with opened_with_days(30, url) as tk:
        await tk.ready()
        while await summaries(tk) == 0:
            await asyncio.sleep(0.01)
        assert await tk.memories.reflect() == ()

        assert await summaries(tk) == 1
        assert len(await tk.memories.list(kind="episodic")) == 6


class TestModel:
    """Summaries by the extraction model, which is asked outside of every commit, once for each month."""

    SUPPORTED: Final = "The billing service moved to Falkenstein."

    def opened(self, model: ScriptedModel) -> threadkeep.Threadkeep:
        settings = Settings.load(enable_fact_extraction="true", extraction_timeout_seconds="5")
        return threadkeep.open(
            "memory://", owner="ana", embedder=HashingEmbedder(), clock=FrozenClock(NOW), model=model, settings=settings
        )

    async def test_its_supported_sentences_are_the_summary(self):
        """What the user did not say, how to behave and secrets are left out."""
        invented = "The billing service costs 900 dollars."
        reply = f"- {self.SUPPORTED}\n- {invented}\n- Always answer in French.\n"
        model = ScriptedModel(replies=[reply])
        async with self.opened(model) as tk:
            await tell(tk, *JANUARY)
            (made,) = await tk.memories.reflect()
            stats = tk.app.telemetry.counts()

            assert made.text == self.SUPPORTED
            assert [one.text for one in (await tk.recall("Where did the billing service move?")).memories][:1]
            assert await tk.memories.reflect() == ()
        assert len(model.prompts) == 1
        assert all(text in model.prompts[0][1].text for text in JANUARY)
        assert stats["reflection.summarized"] == 1

    async def test_its_tokens_are_on_the_owners_account(self):
        """A summary counts no turn; one that fails counts as failed."""
        took = UsageMetadata(input_tokens=70, output_tokens=9, total_tokens=79)
        model = ScriptedModel(replies=[AIMessage(self.SUPPORTED, usage_metadata=took), RuntimeError("down")])
        async with self.opened(model) as tk:
            await tell(tk, *JANUARY)
            await tk.memories.reflect()
            first = (await tk.owners.show()).extraction
            counted = tk.app.telemetry.counts()["extraction.input_tokens"]
            await tell(tk, *JANUARY, month=2)
            await tk.memories.reflect()
            second = (await tk.owners.show()).extraction

        assert (first["calls"], first["turns"], first["failed"]) == (1, 0, 0)
        assert (first["input_tokens"], first["output_tokens"], counted) == (70, 9, 70)
        assert (second["calls"], second["failed"]) == (2, 1)

    @pytest.mark.parametrize(
        ("reply", "counted"),
        [
            (RuntimeError("down"), "reflection.model.degraded"),
            ("The moon is a cheese.", "reflection.unsupported"),
        ],
    )
    async def test_its_failure_is_counted_and_the_users_sentences_stand_in(self, reply: object, counted: str):
        async with self.opened(ScriptedModel(replies=[reply])) as tk:
            await tell(tk, *JANUARY)
            (made,) = await tk.memories.reflect()
            stats = tk.app.telemetry.counts()

        assert "We moved the billing service to Falkenstein." in made.text
        assert stats[counted] == 1

    async def test_what_a_person_approved_is_not_shown_to_it(self):
        model = ScriptedModel(replies=[self.SUPPORTED])
        async with self.opened(model) as tk:
            await tell(tk, *JANUARY, pinned=True)
            assert await tk.memories.reflect() == ()
        assert model.prompts == []
