"""A model that reads two statements at once tells recall which of them is no longer so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import threadkeep
from tests.recall.test_currency import cosines, told
from threadkeep.identity import Owner
from threadkeep.ids import TurnId
from threadkeep.memories.models import Memory
from threadkeep.models.base import StatementPair
from threadkeep.models.pairs import PairModel
from threadkeep.recall.currency import MOST_READ, Outdated, find_earlier, find_outdated
from threadkeep.settings import Settings

OLDER, NEWER = (
    "I coach the under-11 girls on Saturday mornings.",
    "I'm in charge of the under-14 boys this season, we practise on Mondays.",
)
LEFT_OUT = (
    "changes failed and was left out (EmbedderUnavailableError: The model of changes could not be loaded "
    '(InvalidProtobuf); run: pip install "threadkeep[local]"); 1 times so far'
)
QUESTION = "Which team do I coach?"


def asked(text: str, *, days: int = 3, turn: str = "asked") -> list[Memory]:
    """Make an episode of a request, so many days after the first statement."""
    (memory,) = told(f"Asked: {text}")
    at = memory.created_at + timedelta(days=days)
    source = replace(memory.sources[0], turn_id=TurnId(turn), at=at)
    return [replace(memory, kind="episodic", sources=(source,), created_at=at)]


class TestFindEarlier:
    def test_what_the_model_reads_as_a_change_is_earlier(self):
        """Though the words alone are not enough."""
        memories, alike = told(OLDER, NEWER), cosines(2, 0.45)

        assert find_earlier(memories, alike) == {}
        assert find_earlier(memories, alike, weigh=lambda _pair: 3.0) == {0: 1}

    def test_what_the_model_reads_as_true_beside_each_other_is_not(self):
        """Though the words alone would do."""
        memories, alike = (
            told("The red bike is in the cellar.", "The blue bike is in the garage now."),
            cosines(2, 0.6),
        )

        assert find_earlier(memories, alike) == {0: 1}
        assert find_earlier(memories, alike, weigh=lambda _pair: -12.0) == {}

    @pytest.mark.parametrize(("weight", "changes"), [(3.0, Outdated({0: 1}, {})), (-2.0, Outdated({}, {0: 1}))])
    def test_what_it_is_not_sure_of_may_still_hold(self, weight: float, changes: Outdated):
        """A statement that is surely outdated is not doubtful."""
        memories, alike = told(OLDER, NEWER), cosines(2, 0.45)

        assert find_outdated(memories, alike, weigh=lambda _pair: weight) == changes
        assert find_outdated(memories, alike, weigh=lambda _pair: -12.0) == Outdated({}, {})

    def test_it_reads_the_newer_one_first(self):
        """As it was trained to."""
        asked: list[StatementPair] = []

        find_earlier(told(OLDER, NEWER), cosines(2, 0.45), weigh=asked.append)

        assert asked == [StatementPair(NEWER, OLDER)]

    def test_it_reads_a_few_pairs_of_many(self):
        """A pair takes milliseconds."""
        asked: list[StatementPair] = []
        texts = [f"We moved the stand-up to {hour} o'clock." for hour in range(9)]

        find_earlier(told(*texts), cosines(9, 0.45), weigh=asked.append)

        assert len(asked) == MOST_READ


class TestRequest:
    """What a request says of the user is not certain."""

    OLDER, NEWER = "My phone is a Pixel 6.", "How do I take a screenshot on the iPhone that my brother passed on to me?"

    def test_a_request_casts_doubt_on_a_statement(self):
        """However sure the model is."""
        memories, alike = [*told(self.OLDER), *asked(self.NEWER)], cosines(2, 0.45)

        assert find_outdated(memories, alike, weigh=lambda _pair: 9.0) == Outdated({}, {0: 1})
        assert find_outdated(memories, cosines(2, 0.2), weigh=lambda _pair: -12.0) == Outdated({}, {})

    def test_a_statement_casts_doubt_on_a_request(self):
        memories = [*asked("How do I free space on my Pixel 6?", days=-3), *told("My iPhone arrived.")]

        assert find_outdated(memories, cosines(2, 0.45), weigh=lambda _pair: 9.0) == Outdated({}, {0: 1})

    @pytest.mark.parametrize("text", ["Asked: Anna: my phone is an iPhone, isn't it?", "Anna: my phone is an iPhone."])
    def test_a_conversation_changes_nothing(self, text: str):
        """Another person speaks in it."""
        (line,) = asked("")
        memories = [*told(self.OLDER), replace(line, text=text)]

        assert find_outdated(memories, cosines(2, 0.45), weigh=lambda _pair: 9.0) == Outdated({}, {})

    def test_two_questions_tell_nothing_of_each_other(self):
        memories = [*asked("What is my cat called?", days=-3, turn="other"), *asked("What is my dog called?")]

        assert find_outdated(memories, cosines(2, 0.8), weigh=lambda _pair: 9.0) == Outdated({}, {})

    @pytest.mark.parametrize(
        ("told_before", "question"),
        [
            ("My cat is called Tom.", "What is my cat called?"),
            ("I drive a Skoda.", "How often does my Skoda need an oil change?"),
            ("I play the cello.", "Which strings should I buy for my cello?"),
            ("My son Ben is 6.", "Which bike fits Ben?"),
            ("Ich wohne in Bremen.", "Wo wohne ich?"),
        ],
    )
    def test_a_question_about_what_was_told_tells_nothing_else(self, told_before: str, question: str):
        memories = [*told(told_before), *asked(question)]

        assert find_outdated(memories, cosines(2, 0.7), weigh=lambda _pair: -6.0) == Outdated({}, {})

    def test_a_statement_leaves_the_question_that_it_answers(self):
        memories = [*asked("What is my cat called?", days=-3), *told("My cat is called Tom.")]

        assert find_outdated(memories, cosines(2, 0.7), weigh=lambda _pair: -6.0) == Outdated({}, {})

    def test_the_model_reads_statements_first(self):
        """However often the same was asked, what the model makes of two statements counts."""
        older, newer = told("We host the wiki on Confluence.", "The wiki has a page about Confluence and Outline.")
        question = "How do I export the wiki from Confluence into Outline 2?"
        days = range(4, 4 + MOST_READ)
        requests = [one for day in days for one in asked(question, days=day, turn=f"asked-{day}")]
        read: list[StatementPair] = []

        find_outdated([older, newer, *requests], cosines(2 + MOST_READ, 0.6), weigh=read.append)

        assert StatementPair(newer.text, older.text) in read
        assert len(read) == MOST_READ

    def test_the_same_words_as_a_fact_and_as_a_request_are_a_statement(self):
        """In whichever order both are found."""
        request = asked("My phone is a Pixel 6, right?", days=-3)
        fact = [replace(told("My phone is a Pixel 6, right?")[0], sources=request[0].sources)]
        newer = told("My phone is an iPhone now, I sold the Pixel 6.")

        for both in ([*request, *fact], [*fact, *request]):
            found = find_outdated([*both, *newer], cosines(3, 0.6), weigh=lambda _pair: 9.0)

            assert found == Outdated({0: 2, 1: 2}, {})

    def test_the_model_reads_only_what_the_words_put_in_doubt(self):
        """Also where no other statement is as close as the request."""
        read: list[StatementPair] = []
        memories = [*told("I live in Lisbon."), *asked("What is the weather going to be like?")]

        find_outdated(memories, cosines(2, 0.3), weigh=read.append)

        assert read == []

    def test_it_neither_ends_what_was_nor_tells_another_age(self):
        """Rules about endings and ages ask no model."""
        dog = [*told("We have a dog called Bella."), *asked("Our dog died. What do we tell the kids?")]
        age = [*told("My son Ben is 6."), *asked("My son Ben is 7. Which bike fits him?")]

        assert find_outdated(dog, cosines(2, 0.2), weigh=lambda _pair: -12.0).replaced == {}
        assert find_outdated(age, cosines(2, 0.2), weigh=lambda _pair: -12.0).replaced == {}

    def test_it_does_not_undo_an_ending(self):
        """The words may be those of a song."""
        parted = told("My girlfriend is called Jana.", "We broke up.")
        song = asked("We're back together. What does she mean by that in the song?", days=9)

        assert find_outdated([*parted, *song], cosines(3, 0.2), weigh=lambda _pair: -12.0).replaced == {0: 1}


class TestRivals:
    """Two statements that replace the same one."""

    TEXTS = (
        "We're going to Crete in September.",
        "The flights were too expensive, it will be Malta.",
        "The hotel in Madeira has confirmed our week in September.",
    )

    def find(self, memories: Sequence[Memory]) -> Outdated:
        """Let the model be sure that the last two replace the first, and of nothing else."""
        return find_outdated(
            memories, cosines(3, 0.45), weigh=lambda pair: 6.0 if pair.older == self.TEXTS[0] else -12.0
        )

    def test_the_earlier_one_is_in_doubt(self):
        """Though nothing else speaks for it."""
        found = self.find(told(*self.TEXTS))

        assert found == Outdated({0: 2}, {1: 2})

    def test_statements_of_one_turn_are_none(self):
        memories = told(*self.TEXTS)
        memories[2] = replace(memories[2], sources=memories[1].sources)

        assert self.find(memories).doubtful == {}


@pytest.mark.model
class TestRecall:
    async def test_the_older_of_two_statements_is_marked(self):
        """Through capture and recall, also where both were not read before."""
        async with threadkeep.open("memory://") as tk:
            await tell(tk)

            block = (await tk.recall(QUESTION, owner=Owner("ana"))).text

        lines = [line for line in block.splitlines() if line.startswith("- ")]
        assert "under-14 boys" in lines[0]
        assert "earlier" not in lines[0]
        assert "under-11 girls" in lines[1]
        assert "earlier" in lines[1]

    async def test_the_newer_of_two_stands_first_where_the_older_may_still_hold(self):
        """Though the older is nearer to the question."""
        async with threadkeep.open("memory://") as tk:
            await tell(tk, "The office is in Delft.", "The office is in Breda.")

            found = (await tk.recall("Is the office in Delft?", owner=Owner("ana"))).memories

        assert [(one.text, one.earlier, one.may_hold) for one in found] == [
            ("The office is in Breda.", False, False),
            ("The office is in Delft.", True, True),
        ]

    async def test_a_line_of_the_profile_is_marked_and_what_replaces_it_follows(self):
        """Though the newer statement fills no slot of the profile."""
        async with threadkeep.open("memory://") as tk:
            await tell(
                tk, "i'm on a keto diet", "im doing mediterranean style eating on doctor's orders, bread allowed"
            )

            block = (await tk.recall("Plan my meals for Thursday.", owner=Owner("ana"))).text

        lines = [line for line in block.splitlines() if line.startswith("- ")]
        assert [line.partition(" (")[2] for line in lines][:1] == ["diet, earlier)"]
        assert "mediterranean" in lines[1]
        assert "earlier" not in lines[1]

    async def test_a_broken_model_takes_no_memory(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ):
        """The block has both statements, and the failure is counted and logged once."""
        broken = tmp_path / "changes.onnx"
        broken.write_bytes(b"no model")
        monkeypatch.setattr("threadkeep_minilm.CHANGES_PATH", broken)
        async with threadkeep.open("memory://") as tk:
            await tell(tk)

            recalled = [await tk.recall(QUESTION, owner=Owner("ana")) for _ in range(3)]

            counted = tk._app.telemetry.counts()["changes.degraded"]
        assert all("under-11 girls" in one.text and "under-14 boys" in one.text for one in recalled)
        assert not any(one.degraded for one in recalled)
        assert counted == 1
        assert [record.message for record in caplog.records if "changes failed" in record.message] == [LEFT_OUT]

    async def test_a_model_that_is_late_takes_no_memory(self, monkeypatch: pytest.MonkeyPatch):
        """The time limit of the turn holds, and what is read meanwhile is known to the next turn."""
        settings = Settings(THREADKEEP_RECALL_TIMEOUT_MS=300)
        async with threadkeep.open("memory://", settings=settings) as tk:
            await tell(tk)
            await tk.recall("", owner=Owner("ana"))  # loads the models
            delay(tk._app.services.recalls._pair_models.changes, monkeypatch)

            recalled = await tk.recall(QUESTION, owner=Owner("ana"))

            counted = tk._app.telemetry.counts()["changes.degraded"]
        assert counted == 1
        assert "under-11 girls" in recalled.text
        assert "under-14 boys" in recalled.text

    async def test_contradictions_are_found_by_it(self):
        """And the owner is asked about them."""
        async with threadkeep.open("memory://") as tk:
            await tell(tk, "Our team runs everything on Jenkins.", "We're on Buildkite for all pipelines.")

            asked = await tk._app.call(lambda services: services.contradictions.ask(Owner("ana")))

            proposals = await tk.proposals.list(owner=Owner("ana"))
        assert len(asked) == 1
        assert [(one.action, one.text) for one in proposals] == [("supersede", "We're on Buildkite for all pipelines.")]


def delay(model: PairModel | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let *model* read three seconds later than it is asked to."""
    assert model is not None
    weigh = model.weigh

    async def late(pairs: Sequence[tuple[str, str]]) -> list[float]:
        await asyncio.sleep(3)
        return await weigh(pairs)

    monkeypatch.setattr(model, "weigh", late)


async def tell(tk: threadkeep.Threadkeep, *texts: str) -> None:
    for number, text in enumerate(texts or (OLDER, NEWER)):
        messages = [
            {"role": "user", "content": text, "id": f"said-{number}"},
            {"role": "assistant", "content": "All right.", "id": f"reply-{number}"},
        ]
        await tk.capture(messages, owner=Owner("ana"), thread_id=f"thread-{number}", wait=True)
