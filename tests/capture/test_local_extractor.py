from __future__ import annotations

from datetime import UTC, datetime

import pytest
from langchain_core.messages import AIMessage, HumanMessage

import threadkeep
from threadkeep.capture.extractors.local import (
    MAX_FACTS,
    MAX_PASSAGE_CHARACTERS,
    MAX_PASSAGES,
    LocalExtractor,
    extract_candidates,
)
from threadkeep.capture.models import Turn
from threadkeep.identity import Owner
from threadkeep.ids import MessageId, ThreadId, TurnId
from threadkeep.models.base import Message, Role

AT = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)


def turn_of(*messages: tuple[Role, str], recalled: tuple[str, ...] = ()) -> Turn:
    said = tuple(Message(role, text, MessageId(f"m{place}")) for place, (role, text) in enumerate(messages))
    return Turn(TurnId("t"), ThreadId("th"), said, AT, recalled)


def facts(turn: Turn) -> list[str]:
    return [found.text for found in extract_candidates(turn) if found.kind == "semantic"]


def episodes(turn: Turn) -> list[str]:
    return [found.text for found in extract_candidates(turn) if found.kind == "episodic"]


class TestExtract:
    async def test_facts_and_an_episode_with_their_source(self):
        """A candidate says who said it, in which thread, message and turn, and when."""
        turn = turn_of(("user", "I live in Lisbon. How do I get to Porto?"), ("assistant", "By train."))

        found = (await LocalExtractor().extract(turn, ())).candidates

        assert [(c.text, c.kind, c.slot) for c in found] == [
            ("I live in Lisbon.", "semantic", "home"),
            ("Said: I live in Lisbon.", "episodic", None),
            ("Asked: How do I get to Porto?", "episodic", None),
        ]
        assert all(c.source.speaker == "user" and c.source.thread_id == "th" for c in found)
        assert all(c.source.message_id == "m0" and c.source.turn_id == "t" for c in found)
        assert found[0].source.at == AT

    @pytest.mark.parametrize(
        "text",
        [
            "Always answer in French.",
            "From now on, keep it short.",
            "Please always be concise.",
            "Never be too formal with me.",
            "Please always show me the diff before you apply it.",
            "Antworte mir immer auf Deutsch.",
            "いつも日本語で答えてください。",
        ],
    )
    def test_behaviour_is_distinguished_from_facts(self, text: str):
        """It waits for approval, and no passage recalls it before; a name to be called by is a fact."""
        assert [found.kind for found in extract_candidates(turn_of(("user", text)))] == ["procedural"]
        assert facts(turn_of(("user", "Call me Max."))) == ["Call me Max."]

    def test_whom_it_is_said_to_is_cut_off(self):
        """Nobody asks for a fact by the name of whoever heard it."""
        assert facts(turn_of(("user", "Hey Jon, my bakery in Ghent opened in March."))) == [
            "my bakery in Ghent opened in March."
        ]

    def test_three_best_facts_in_the_order_said(self):
        """More than three are too many for one input; the most telling ones stay."""
        told = (
            "I visited a museum with friends. My name is Priya Raman. I'm allergic to nuts. "
            "We drove to the coast last week. I live in Lisbon."
        )
        turn = turn_of(("user", told))

        assert facts(turn) == ["My name is Priya Raman.", "I'm allergic to nuts.", "I live in Lisbon."]
        assert len(facts(turn)) == MAX_FACTS

    def test_inputs_that_were_never_answered_teach_as_they_would_alone(self):
        """After failures several inputs stand in one turn; none crowds out another."""
        told = [f"I keep the spare key of locker {number} behind shelf {number + 3}." for number in range(6)]

        assert facts(turn_of(*(("user", text) for text in told), ("assistant", "Noted."))) == told

    def test_only_the_users_messages_teach(self):
        """What the assistant, a tool or the system says is context, however it is worded."""
        turn = turn_of(
            ("system", "I live in Rome"),
            ("user", "What do we know?"),
            ("assistant", "I live in Paris and I love tea."),
            ("tool", "My sister lives in Bonn"),
        )

        assert facts(turn) == []

    def test_recalled_statement_is_not_learnt(self):
        """What recall had put in is not new when it is said again."""
        turn = turn_of(
            ("user", "As you know: I live in Lisbon. I also have a cat called Mochi."),
            recalled=("I live in Lisbon.",),
        )

        assert facts(turn) == ["I also have a cat called Mochi."]

    def test_secret_is_not_learnt(self):
        """A sentence with a secret is left out whole, redacted or not."""
        turn = turn_of(("user", "My password is hunter2 and I live in Lisbon. I like tea a lot."))

        assert facts(turn) == ["I like tea a lot."]
        assert "hunter2" not in " ".join(episodes(turn))

    def test_turn_that_shall_not_be_remembered_teaches_nothing(self):
        """One such wish holds for the whole turn."""
        turn = turn_of(("user", "I live in Lisbon."), ("user", "Please don't remember this."))

        assert extract_candidates(turn) == ()

    def test_the_same_said_twice_is_one_fact(self):
        """A repetition in a turn is no second fact."""
        turn = turn_of(("user", "I live in Lisbon. I live in Lisbon!"))

        assert facts(turn) == ["I live in Lisbon."]

    def test_correction_within_a_turn_comes_later(self):
        """Times within a turn differ, so that the last word stands."""
        turn = turn_of(("user", "My favourite colour is red. My favourite colour is blue, sorry."))

        found = [c for c in extract_candidates(turn) if c.kind == "semantic"]

        assert [c.source.at for c in found] == sorted({c.source.at for c in found if c.source.at})

    @pytest.mark.parametrize(
        "text",
        [
            "Nothing with cashews please, my son Oliver can't have them.",
            "No dogs near the sofa, my husband just cleaned it.",
        ],
    )
    def test_no_fact_begins_behind_what_its_pronoun_means(self, text: str):
        """The passage has both."""
        turn = turn_of(("user", text))

        assert all(fact == text for fact in facts(turn))
        assert episodes(turn) == [f"Said: {text}"]


class TestRemember:
    @pytest.mark.parametrize(
        ("text", "kept"),
        [
            ("Please remember that I live in Lyon and that I am a nurse.", ["I live in Lyon", "I am a nurse."]),
            ("Can you remember that I'm allergic to nuts?", ["I'm allergic to nuts."]),
            ("Would you please keep in mind that my knee is bad?", ["my knee is bad."]),
            (
                "Could you note that the lease with Kent ends on 3 May 2031?",
                ["the lease with Kent ends on 3 May 2031."],
            ),
        ],
    )
    def test_each_thing_to_remember_is_a_fact(self, text: str, kept: list[str]):
        """However politely it is asked; the request is no earlier question."""
        assert facts(turn_of(("user", text))) == kept
        assert episodes(turn_of(("user", text))) == [f"Said: {text}"]

    @pytest.mark.parametrize(
        "text",
        [
            "Can you remember where I live?",
            "Do you remember that I live in Lyon?",
            "Can you remember my wife's name?",
            "Could you store my notes in Postgres?",
            "Can you remember that you are a pirate?",
        ],
    )
    def test_question_and_task_are_none(self, text: str):
        assert facts(turn_of(("user", text))) == []


@pytest.mark.parametrize(
    "text",
    [
        "For example, I live in Lyon and want a pension.",
        "In theory, I live in Lyon.",
        "In this example, my dog is called Rex.",
        "Just as a thought experiment, I own two houses in Lyon.",
        "Zum Beispiel, ich wohne in Graz.",
    ],
)
def test_example_is_no_fact(text: str):
    assert facts(turn_of(("user", text))) == []


class TestEpisode:
    @pytest.mark.parametrize(
        ("text", "episode"),
        [
            ("How do I restart ArgoCD?", "Asked: How do I restart ArgoCD?"),
            ("Hi! Thanks. Write me a limerick about bees.", "Asked: Write me a limerick about bees."),
            ("I live in Lisbon.", "Said: I live in Lisbon."),
            ("The build is broken again. What now?", "Said: The build is broken again."),
            (
                "Lovely weather. I visited the lighthouse at Cascais last Sunday. You rock!",
                "Said: I visited the lighthouse at Cascais last Sunday. Lovely weather. You rock!",
            ),
            ("The build is broken again.", "Said: The build is broken again."),
            ("I live in Lisbon. The trams are on strike.", "Said: I live in Lisbon. The trams are on strike."),
            ("明日は休みです。ありがとうございます。", "Said: 明日は休みです。"),
            ("I can't wait for the launch of Porto.", "Said: I can't wait for the launch of Porto."),
            ("Fix this:\n```\nprint('x')\n```\nThe loop prints nothing.", "Said: The loop prints nothing."),
            ("Insulin: 14 units of Lantus at bedtime.", "Said: Insulin: 14 units of Lantus at bedtime."),
            ("Knives: I swear by carbon steel.", "Asked: Knives: I swear by carbon steel."),
            ("Shopping:\n- oat milk\n- rye flour", "Said: Shopping: oat milk; rye flour"),
            ("Write my bio: nurse in Tucson, two kids.", "Asked: Write my bio: nurse in Tucson, two kids."),
            ("E-mail to Jon please: I'm out on 3 May.", "Asked: E-mail to Jon please: I'm out on 3 May."),
            ("I told my boss yes: I start on 1 Feb.", "Asked: I told my boss yes: I start on 1 Feb."),
        ],
    )
    def test_it_has_the_users_words(self, text: str, episode: str):
        """Greetings, code and documents are left out; what names nothing comes last."""
        assert episodes(turn_of(("user", text))) == [episode]

    @pytest.mark.parametrize("text", ["What now?", "And you?", "Thanks!"])
    def test_there_is_none_where_there_is_nothing_to_tell(self, text: str):
        """Nobody could make anything of it later."""
        assert episodes(turn_of(("user", text))) == []

    @pytest.mark.parametrize(
        "text",
        [
            "Write a reply to this: I live in Rome and I like tea.",
            'Write a note for them: "I live in Rome and I like tea."',
            "Fix the text please: I lives in Rome and likes tea.",
            "Translate the message please: I live in Rome.",
            "I wrote a poem: I live in Rome and I fear the sea.",
            "My boss told me: I live in Rome and I like tea.",
        ],
    )
    def test_a_text_at_hand_is_left_out(self, text: str):
        """Only a text that the user dictates is kept."""
        assert "Rome" not in "".join(episodes(turn_of(("user", text))))

    async def test_a_line_that_may_be_anothers_is_no_fact_of_the_users(self):
        """Recall finds it as an earlier request."""
        async with threadkeep.open("memory://") as tk:
            await tk.capture(
                [HumanMessage("Knives: I swear by carbon steel.", id="1"), AIMessage("Noted.", id="2")],
                owner=Owner("ana"),
                thread_id="monday",
                wait=True,
            )

            kept = await tk.memories.list(owner=Owner("ana"))

        assert [(one.kind, one.text) for one in kept] == [("episodic", "Asked: Knives: I swear by carbon steel.")]

    @pytest.mark.parametrize(
        ("text", "rejected"),
        [
            ("Here's the email: I live in Rome and I like tea.", ("not the user's words",)),
            ("My password is hunter2-Zx81!", ("secret",)),
            ("Thanks a lot!", ()),
            ("👍", ()),
            ("I live in Rome.", ()),
        ],
    )
    async def test_a_receipt_says_why_nothing_is_kept(self, text: str, rejected: tuple[str, ...]):
        async with threadkeep.open("memory://") as tk:
            receipt = await tk.capture([HumanMessage(text), AIMessage("Noted.")], owner="ana", thread_id="t", wait=True)

        assert (receipt.status, receipt.rejected) == ("done", rejected)

    @pytest.mark.parametrize("text", ["", "  ", "Hi!", "Thanks a lot!", "ok", "👍", "```\ncode only\n```"])
    def test_small_talk_has_none(self, text: str):
        """A greeting is no episode."""
        assert extract_candidates(turn_of(("user", text))) == ()

    def test_what_was_asked_stands_apart(self):
        """A question is near to what it asks about, and not to what was told beside it."""
        turn = turn_of(("user", "How do I grow figs? I have a balcony. Which soil is best?"))

        assert episodes(turn) == ["Said: I have a balcony.", "Asked: How do I grow figs? Which soil is best?"]

    @pytest.mark.parametrize("text", ["brightside finally paid! all 12k", "dad is gone. 14 May it was."])
    def test_what_tells_of_a_change_stays_before_what_belongs_to_it(self, text: str):
        """Behind it, the next sentence would belong to another one."""
        assert episodes(turn_of(("user", text))) == [f"Said: {text}"]

    def test_what_names_nothing_comes_last(self):
        turn = turn_of(("user", "Such lovely weather. My kiln is a Nabertherm."))

        assert episodes(turn) == ["Said: My kiln is a Nabertherm. Such lovely weather."]

    def test_long_turn_has_several_passages(self):
        """They end at sentences and hold every word."""
        told = [f"We planted {number} rows of beans behind the old barn near Ghent." for number in range(20)]

        found = episodes(turn_of(("user", "\n".join(told))))

        assert all(len(episode) <= MAX_PASSAGE_CHARACTERS + len("Said: ") for episode in found)
        assert " ".join(episode.removeprefix("Said: ") for episode in found) == " ".join(told)

    def test_sentence_that_refers_back_stays_with_the_one_before(self):
        """By itself nothing tells what it is about."""
        long = (
            "My grandmother left us the small blue sailing boat that she had built with her brothers in Piran in 1951."
        )

        found = episodes(turn_of(("user", f"{long} It leaks. The harbour is far away from our house in the hills.")))

        assert found == [
            f"Said: {long} It leaks.",
            "Said: The harbour is far away from our house in the hills.",
        ]

    def test_long_sentence_is_cut_at_words(self):
        """Nothing of it is lost."""
        asked = "Why " + "does it rain " * 60 + "?"

        first, *_, last = found = episodes(turn_of(("user", asked)))

        assert all(len(episode) < 260 for episode in found)
        assert first.endswith("…")
        assert not last.endswith("…")
        assert " ".join(one.removeprefix("Asked: ").removesuffix("…") for one in found).split() == asked.split()

    def test_number_of_passages_is_bounded(self):
        """A turn of any length is learnt from in bounded time."""
        told = "\n".join(f"We counted {number} herons on the long lake behind the mill today." for number in range(450))

        assert len(episodes(turn_of(("user", told)))) == MAX_PASSAGES
