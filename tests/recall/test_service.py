"""Tests of recall before a turn: what matters, within budget and time, and never a failed turn."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from tests.recall.world import HeldStorage, StillClock, embedder, embedding, put
from threadkeep.errors import EmbedderUnavailableError, InvalidInputError, OwnerRequiredError, StorageUnavailableError
from threadkeep.identity import Owner
from threadkeep.ids import MessageId, ThreadId, TurnId
from threadkeep.memories.audited_writer import AuditedWriter
from threadkeep.memories.models import Approval, Kind, NewMemory, Source
from threadkeep.memories.repository import MemoryRepository
from threadkeep.models.base import Message
from threadkeep.models.local import LocalEmbedder
from threadkeep.observability import Telemetry
from threadkeep.recall.models import Recall
from threadkeep.recall.packing import estimate_tokens
from threadkeep.recall.selection import QUESTIONS_AT_FIRST
from threadkeep.recall.service import RecallRequest, RecallService
from threadkeep.search.retriever import Retriever
from threadkeep.storage.interface import Batch, Changes, Partition, Position, Put
from threadkeep.testing.models import HashingEmbedder
from threadkeep_evals.facts import make_facts

ANA = Owner("ana@x.org")
LONG = timedelta(seconds=30)


@dataclass
class World:
    """The services that recall needs, with a way to fill them."""

    storage: HeldStorage
    model: HashingEmbedder
    clock: StillClock
    search: Retriever
    memories: MemoryRepository
    recalls: RecallService
    telemetry: Telemetry

    async def happened(self, text: str, *, message: str, thread: str = "thread-1") -> None:
        source = Source("user", ThreadId(thread), MessageId(message), at=self.clock.now())
        await self.memories.bring([NewMemory(text, kind="episodic", sources=(source,))], owner=ANA, by="user")

    async def know(self, *texts: str, kind: Kind = "semantic", owner: Owner = ANA, thread: str | None = None) -> None:
        sources = (Source("user", ThreadId(thread), at=self.clock.now()),) if thread else ()
        await self.memories.bring(
            [NewMemory(text, kind=kind, sources=sources) for text in texts], owner=owner, by="user"
        )

    async def recall(self, question: str, **kwargs: Any) -> Recall:
        given: dict[str, Any] = {"owner": ANA, "timeout": LONG, **kwargs}
        return await self.recalls.run(RecallRequest(question, **given))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with opened(embedder()) as world:
        yield world


@asynccontextmanager
async def opened(model: Any) -> AsyncIterator[World]:
    """Yield the services with *model* as the embedder."""
    clock, telemetry = StillClock(), Telemetry()
    storage = HeldStorage(clock)
    await storage.connect()
    search = Retriever(storage, model, clock)
    memories = MemoryRepository(storage, search, clock, audited_writer=AuditedWriter(storage, clock))
    recalls = RecallService(search, storage, memories, clock, telemetry)
    yield World(storage, model, clock, search, memories, recalls, telemetry)
    storage.go.set()
    await search.close()
    await storage.close()


def message(message_id: str) -> Message:
    return Message("user", "Hello.", MessageId(message_id))


def texts(found: Recall) -> list[str]:
    return [recalled.memory.text for recalled in found.memories]


class TestWhatTheModelReadsAnyway:
    """The messages of the thread that goes on stand before the question; their episodes take no room beside them."""

    @pytest.mark.parametrize("question", ["What is my cat called?", "  "])
    async def test_the_episode_of_a_message_that_is_shown_is_left_out(self, world: World, question: str):
        await world.happened("Asked: What is my cat called, please?", message="m1")

        here = await world.recall(question, thread_id=ThreadId("thread-1"), messages=[message("m1")])
        cut = await world.recall(question, thread_id=ThreadId("thread-1"), messages=[message("m2")])
        elsewhere = await world.recall(question, thread_id=ThreadId("thread-2"), messages=[message("m1")])

        assert texts(here) == []
        assert texts(cut) == texts(elsewhere) == ["Asked: What is my cat called, please?"]

    async def test_fact_is_still_extracted(self, world: World):
        """It may have been corrected since."""
        source = Source("user", ThreadId("thread-1"), MessageId("m1"), at=world.clock.now())
        await world.memories.bring([NewMemory("My cat is called Biscuit.", sources=(source,))], owner=ANA, by="user")

        found = await world.recall("What is my cat called?", thread_id=ThreadId("thread-1"), messages=[message("m1")])

        assert texts(found) == ["My cat is called Biscuit."]


class TestPassages:
    """Beside the facts of a turn, its passage takes room for what they do not hold."""

    async def turn(self, world: World, fact: str, passage: str, *, kind: Kind = "semantic", turn: str = "turn") -> None:
        source = Source("user", ThreadId("thread-1"), MessageId("m"), at=world.clock.now(), turn_id=TurnId(turn))
        approval = Approval("carla", world.clock.now()) if kind == "procedural" else None
        memories = [
            NewMemory(fact, kind=kind, sources=(source,), approval=approval),
            NewMemory(passage, kind="episodic", sources=(source,)),
        ]
        await world.memories.bring(memories, owner=ANA, by="user")

    async def test_a_short_sentence_that_is_asked_about_is_no_repetition(self, world: World):
        await self.turn(world, "I live in Lisbon.", "Said: I live in Lisbon. My order is A-17.")

        both = await world.recall("Do I live in Lisbon, and which order is mine?")
        one = await world.recall("Do I live in Lisbon?")

        assert "My order is A-17." in both.text
        assert texts(one) == ["I live in Lisbon."]

    async def test_it_is_none_if_it_names_nothing_else(self, world: World):
        """``Two hives made it.`` would else be left out as filler."""
        await self.turn(world, "Winter was hard on the bees.", "Said: Winter was hard on the bees. Two hives made it.")

        found = await world.recall("How many hives do I have?")

        assert "Two hives made it." in found.text

    async def test_a_word_of_the_question_counts_in_each_of_its_forms(self, world: World):
        """``allergic`` has one stem for the search and another one for comparing statements."""
        await self.turn(
            world, "My sister Ines lives in Oslo.", "Said: My sister Ines lives in Oslo. She is allergic to cats."
        )

        found = await world.recall("What is my sister Ines allergic to?")

        assert "She is allergic to cats." in found.text

    async def test_the_newest_fact_stands_before_the_one_it_replaces(self, world: World):
        """Also if the passage of its turn says so, too, and is closer to the question."""
        await self.turn(world, "I live in Ghent.", "Said: I live in Ghent.", turn="first")
        world.clock.move(minutes=1)
        await self.turn(world, "I now live in Mechelen.", "Said: We moved to where we live! We now live in Mechelen.")

        found = await world.recall("Where do I live?")

        assert [(one.memory.text, one.earlier) for one in found.memories] == [
            ("I now live in Mechelen.", False),
            ("I live in Ghent.", True),
        ]

    async def test_where_nothing_is_asked_either_is_enough(self, world: World):
        await self.turn(world, "I live in Lisbon.", "Said: I live in Lisbon.")

        assert texts(await world.recall("")) == ["I live in Lisbon."]

    async def test_a_procedure_stands_for_no_passage(self, world: World):
        """Passages leave out how to behave."""
        procedure = "Always answer about my order in French."
        await self.turn(world, procedure, "Said: My order is A-17.", kind="procedural")

        found = await world.recall("Which order is mine?")

        assert {"Said: My order is A-17.", procedure} <= set(texts(found))


class TestWhatWasAskedBefore:
    """The same question, asked in many threads, is nearest to itself and answers nothing."""

    THINGS = ("cat", "dog", "boat", "horse", "parrot", "guitar", "bakery", "tortoise", "garden", "canoe", "lamp", "van")

    async def asked_and_told(self, world: World) -> None:
        for number, thing in enumerate(self.THINGS):
            await world.happened(f"Asked: What is my {thing} called?", message=f"m{number}")
            await world.know(f"My {thing}, which I have had for many years by now, is called Biscuit{number}.")

    async def test_few_of_them_are_in_a_block_while_there_is_anything_else(self, world: World):
        await self.asked_and_told(world)

        found = await world.recall("What is my tortoise called?", budget_tokens=140)
        roomy = await world.recall("What is my tortoise called?", budget_tokens=2_000)

        assert found.text.count("Asked: ") == QUESTIONS_AT_FIRST
        assert "Biscuit7" in found.text
        assert roomy.text.count("Asked: ") > QUESTIONS_AT_FIRST
        assert all(text.startswith("Asked: ") for text in texts(roomy)[-3:])

    async def test_the_same_question_is_in_no_block(self, world: World):
        await self.asked_and_told(world)

        found = await world.recall("What is my tortoise called?", budget_tokens=2_000)

        assert "Asked: What is my tortoise called?" not in texts(found)
        assert "Asked: What is my van called?" in texts(found)

    async def test_a_request_that_tells_something_is_no_question(self, world: World):
        """Many messages hold a fact and a request in one sentence, and no other memory has the fact."""
        await self.asked_and_told(world)
        for number, name in enumerate(("Ada", "Bruno", "Cleo", "Dora")):
            await world.happened(f"Asked: my tortoise is called {name}, can you draw it?", message=f"told{number}")

        found = await world.recall("What is my tortoise called?", budget_tokens=250)

        assert [name for name in ("Ada", "Bruno", "Cleo", "Dora") if name not in found.text] == []

    async def test_they_answer_what_was_asked(self, world: World):
        await self.asked_and_told(world)

        found = await world.recall("What is my tortoise called, did I ask?", budget_tokens=150)

        assert found.text.count("Asked: ") > QUESTIONS_AT_FIRST


class TestRecall:
    async def test_what_matters_comes_first_and_is_rendered(self, world: World):
        """The block holds the statement with its date and thread, best first, with scores."""
        await world.know("I am allergic to peanuts.", "My cat is called Biscuit.", thread="thread-1")

        found = await world.recall("What is my cat called?", thread_id=ThreadId("thread-1"))

        assert texts(found)[0] == "My cat is called Biscuit."
        assert 0 < found.memories[0].score <= 1
        assert '- "My cat is called Biscuit." (2026-11-20, this thread)' in found.text
        assert found.tokens == estimate_tokens(found.text) > 0
        assert found.degraded == ()

    async def test_an_unrelated_question_recalls_nothing(self, world: World):
        """What shares neither words nor meaning with the question does not fill the block."""
        await world.know(*(f"My cat number {n} is called Biscuit." for n in range(20)))

        assert await world.recall("boiling point tungsten") == Recall()

    @pytest.mark.parametrize(("words", "recalled"), [(8, True), (40, False)])
    async def test_one_statement_that_is_not_quite_close_is_enough(self, world: World, words: int, recalled: bool):
        """A long text that is as far away is near to much; among many memories it is not what the question is about."""
        question = (await world.model.embed(["Volcanoes?"]))[0]
        other = np.eye(len(question), dtype=np.float32)[int(np.abs(question).argmin())]
        near = 0.5 * question + 0.866 * other
        rows = [(f"far {number}", f"filler{number}", -question) for number in range(256)]
        rows.append(("near", " ".join(["zebra"] * words), near))
        namespace = ("memories", ANA.label)
        puts = [
            put(key, text, namespace=namespace, vectors=embedding(vector, model=world.model.name))
            for key, text, vector in rows
        ]
        await world.storage.commit(Batch(ANA.partition, puts))

        found = await world.recall("Volcanoes?")

        assert [one.memory.memory_id for one in found.memories] == (["near"] if recalled else [])

    @pytest.mark.model
    @pytest.mark.slow
    @pytest.mark.parametrize("size", [10, 200, pytest.param(1_000, marks=pytest.mark.soak)])
    async def test_the_asked_fact_is_in_the_block(self, size: int):
        """One fact among many about the same people and things stands in 300 tokens, 99 times of 100."""
        facts = make_facts(size, seed=1)
        asked = random.Random(2).sample(facts, min(100, size))
        async with opened(LocalEmbedder()) as world:
            await world.know(*(fact.text for fact in facts))

            found = [await world.recall(fact.question) for fact in asked]

        there = sum(fact.text in texts(each) for fact, each in zip(asked, found, strict=True))
        assert all(0 < each.tokens <= 300 for each in found)
        assert there >= 0.99 * len(asked)

    async def test_what_answers_the_question_is_recalled_in_whichever_words_it_says_so(self, world: World):
        """Where there can be one answer only, it need not be like the question, and it comes first."""
        others = [f"Which company do I work with on day {n}: the tax office." for n in range(20)]
        await world.know("I've joined Acme as a nurse.", *others)

        found = await world.recall("Which company do I work for?")

        assert texts(found)[0] == "I've joined Acme as a nurse."
        assert len(texts(found)) > 1
        assert found.memories[0].score == max(one.score for one in found.memories)

    async def test_an_answer_is_recalled_where_nothing_else_matters(self, world: World):
        """It is no less the answer because no memory is close to the question."""
        await world.know("I've joined Acme as a nurse.", *(f"Bridge {n} is made of steel." for n in range(20)))

        assert texts(await world.recall("Where am I employed? Who do I work for?")) == ["I've joined Acme as a nurse."]

    async def test_an_answer_that_no_longer_holds_is_none(self, world: World):
        """What is over answers nothing."""
        over = {"data": "I've joined Acme as a nurse.", "valid_to": (world.clock.now() - timedelta(days=1)).isoformat()}
        await world.storage.commit(Batch(ANA.partition, [Put(("memories", ANA.label), "k", over, index=("data",))]))

        assert await world.recall("Who do I work for?") == Recall()

    async def test_a_question_about_the_user_as_such_is_answered(self, world: World):
        """Nothing is close to it, and whatever is kept answers it."""
        await world.know("I drink tea.", "My cat is called Biscuit.")

        assert set(texts(await world.recall("What do you know about me?"))) == {
            "I drink tea.",
            "My cat is called Biscuit.",
        }

    async def test_only_this_owners_memories_are_read(self, world: World):
        """Neither a namesake by prefix nor anybody else is seen."""
        await world.know("The tea of bobby.", owner=Owner("bobby"))

        assert await world.recall("tea", owner=Owner("bob")) == Recall()

    async def test_both_layouts_are_recalled(self, world: World):
        """Items that other programs wrote under the users layout are memories, too."""
        await world.know("I drink green tea.")
        label = ANA.label
        foreign = Put(("users", label, "memories", "user"), "k", {"text": "I drink black tea."}, index=("text",))
        await world.storage.commit(Batch(ANA.partition, [foreign]))
        other = Put(("summaries", label), "s", {"summary": "We spoke about tea."}, index=("summary",))
        await world.storage.commit(Batch(ANA.partition, [other]))

        found = set(texts(await world.recall("tea")))
        assert found == {"I drink green tea.", "I drink black tea.", "We spoke about tea."}

    async def test_what_no_longer_holds_is_left_out(self, world: World):
        """Rows that are not active, or whose time is over, are not recalled though search finds them."""
        now = world.clock.now()
        rows = {
            "proposed": {"status": "proposed"},
            "past": {"valid_to": (now - timedelta(days=1)).isoformat()},
            "future": {"valid_to": (now + timedelta(days=1)).isoformat()},
            "plain": {},
        }
        puts = [
            Put(("memories", ANA.label), name, {"data": f"tea {name}", **row}, index=("data",))
            for name, row in rows.items()
        ]
        await world.storage.commit(
            Batch(ANA.partition, [*puts, Put(("memories", ANA.label), "odd", {"x": ["tea"]}, index=("$",))])
        )

        assert set(texts(await world.recall("tea"))) == {"tea future", "tea plain"}

    async def test_quotas_are_kept_and_filled(self, world: World):
        """Facts and episodes each have their number, though one kind leads the ranking."""
        await world.know(*(f"tea tea episode {n}" for n in range(50)), kind="episodic")
        await world.know(*(f"a fact of tea and other things {n}" for n in range(10)))

        found = await world.recall("tea", budget_tokens=1000, max_facts=4, max_episodes=3)

        kinds = [recalled.memory.kind for recalled in found.memories]
        assert (kinds.count("semantic"), kinds.count("episodic")) == (4, 3)

    async def test_episodes_after_the_first_two_are_cut_to_what_answers(self, world: World):
        """So that more of them fit the budget; where there is more room, more are whole."""
        rest = "The shed behind the house leans to the left, and nobody has painted it since the flood."
        await world.know(*(f"Tin {n} has tea from Assam. {rest}" for n in range(4)), kind="episodic")

        usual = texts(await world.recall("Which tea?", budget_tokens=300))
        large = texts(await world.recall("Which tea?", budget_tokens=360))

        assert [rest in text for text in usual] == [True, True, False, False]
        assert [rest in text for text in large] == [True, True, True, True]

    @pytest.mark.parametrize("question", ["", "  \n"])
    async def test_where_nothing_is_asked_the_newest_come(self, world: World, question: str):
        """An empty question gives the newest memories, newest first."""
        for text in ("oldest", "older", "newest"):
            await world.know(text)
            world.clock.move(minutes=1)

        assert texts(await world.recall(question, max_facts=2)) == ["newest", "older"]

    @pytest.mark.parametrize("question", ["\x00", "\ud800 tea", "tea " * 300_000])
    async def test_any_question_is_answered(self, world: World, question: str):
        """No text of a question fails a turn."""
        await world.know("I drink tea.")

        assert (await world.recall(question)).degraded == ()

    async def test_a_small_budget_gives_nothing_rather_than_a_part(self, world: World):
        """No statement is cut, and no heading stands alone."""
        await world.know("I drink tea " + "very " * 200 + "often.")

        assert (await world.recall("tea", budget_tokens=100)).text == ""
        assert (await world.recall("tea", budget_tokens=0)).text == ""


class TestDegraded:
    async def test_without_the_embedder_words_decide(self, world: World):
        """The answer is there and says what was missing."""
        await world.know("I drink tea.", "My cat is called Biscuit.")
        world.model.error = EmbedderUnavailableError("The model is away.")

        found = await world.recall("the name of my cat")

        assert texts(found) == ["My cat is called Biscuit."]
        assert found.degraded == ("embedder",)

    async def test_a_broken_storage_gives_an_empty_recall(self, world: World, monkeypatch: pytest.MonkeyPatch):
        """Nothing is raised; it is counted."""

        async def down(partition: Partition, since: Position | None) -> Changes:
            msg = "The storage is away."
            raise StorageUnavailableError(msg)

        await world.know("I drink tea.")
        monkeypatch.setattr(world.storage, "changes", down)

        assert await world.recall("tea") == Recall(degraded=("storage",))
        assert world.telemetry.counts()["recall.degraded"] == 1

    async def test_a_slow_storage_costs_the_time_and_no_more(self, world: World):
        """The turn goes on without memories, and the next one finds what was being loaded."""
        await world.know("I drink tea.")
        world.storage.go.clear()

        late = await world.recall("tea", timeout=timedelta(milliseconds=20))
        world.storage.go.set()
        found = await world.recall("tea")

        assert late == Recall(degraded=("timeout",))
        assert texts(found) == ["I drink tea."]
        assert world.storage.polls.count(None) == 1

    async def test_a_cancelled_turn_is_cancelled(self, world: World):
        """Cancelling is not a failure to be survived."""
        world.storage.go.clear()
        turn = asyncio.create_task(world.recall("tea"))
        await asyncio.sleep(0)
        turn.cancel()

        with pytest.raises(asyncio.CancelledError):
            await turn


class TestRefuse:
    async def test_no_owner_is_refused(self, world: World):
        """There is no shared default owner."""
        with pytest.raises(OwnerRequiredError):
            await world.recall("tea", owner=None)

    @pytest.mark.parametrize(
        "given", [{"question": 7}, {"owner": "ana"}, {"budget_tokens": -1}, {"max_facts": -1}, {"max_episodes": -1}]
    )
    def test_what_makes_no_sense_is_refused(self, given: dict[str, Any]):
        """The caller's mistakes are told, not hidden."""
        asked: dict[str, Any] = {"question": "tea", "owner": ANA, **given}

        with pytest.raises(InvalidInputError):
            RecallRequest(**asked)


class TestRequest:
    """What a request needs is the user's, though it shares no word with it."""

    @pytest.mark.parametrize(
        "request_",
        [
            "Pick colours for the page that I look at all day.",
            "We have guests on Sunday. How do I set up the projector?",
            "Which headphones suit my phone?",
        ],
    )
    async def test_request_on_the_users_behalf_recalls_what_is_hardly_near(self, world: World, request_: str):
        await world.know("Red and green look the same to me.")
        await world.know("I have had an old iPhone since 2016.")

        assert (await world.recall(request_)).memories

    @pytest.mark.parametrize("request_", ["Write a sonnet about autumn.", "What is the tallest tree?"])
    async def test_request_about_the_world_does_not(self, world: World, request_: str):
        await world.know("Red and green look the same to me.")
        await world.know("I have had an old iPhone since 2016.")

        assert not (await world.recall(request_)).memories
