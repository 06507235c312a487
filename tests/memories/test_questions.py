from __future__ import annotations

import pytest

from threadkeep.text.slots import slot_of, slots_asked

ANSWERED = [
    ("Where do I live these days?", "I relocated to Porto"),
    ("Remind me, which town am I based in?", "I'm based in Ghent"),
    ("Do you still remember where I live?", "I moved back to Lisbon"),
    ("Do I still live in Lisbon?", "I've moved to Rome"),
    ("Where am I working now?", "I work for Acme"),
    ("who do I work for", "I've joined Acme as a nurse"),
    ("Which employer do I work for at the moment?", "I started a new role at Acme"),
    ("And what's my favorite dish again?", "My favourite dish is now ramen"),
    ("Please tell me what my favourite song is.", "Yesterday is my favourite song"),
    ("Who's my dentist?", "My dentist is Dr. Wu"),
    ("Can you remind me of my shoe size?", "My shoe size is 43"),
    ("What should you call me?", "Please call me Max"),
    ("When is my birthday?", "My birthday is 3 May"),
    ("I have to fill in a form. How old am I?", "I turned 35"),
    ("What time does our retro start?", "Our retro is now at 10:30"),
    ("How many dogs do we have?", "We have three dogs now"),
    ("Am I still vegetarian?", "I'm vegan now"),
    ("Do I like coffee?", "I don't like coffee anymore"),
    ("Am I allergic to nuts?", "I'm no longer allergic to nuts"),
    ("Where does my mother live?", "My mother moved to Faro"),
    ("What is my time zone?", "My time zone is CET"),
]

NONE = """
Where did I live before?
Which city did I live in as a child?
Where would I live if I moved?
What should I cook tonight?
Which company should I work for?
What is my sister's name?
What is my favourite part?
What am I doing wrong?
Am I right?
Do I need a visa?
Who am I?
What do you know about me?
Where does Maria live?
How many people do I have to invite?
Is our standup useful?
I live in Lisbon
""".strip().splitlines()


class TestSlotsAsked:
    @pytest.mark.parametrize(("question", "answer"), ANSWERED)
    def test_question_asks_for_the_slot_that_its_answer_stands_in(self, question: str, answer: str):
        """In whichever words either is put."""
        assert slot_of(answer) is not None
        assert slot_of(answer) in slots_asked(question)

    @pytest.mark.parametrize("question", NONE)
    def test_other_questions_ask_for_none(self, question: str):
        """About the past, about others, about what may have many answers: search by likeness has to do."""
        assert slots_asked(question) == frozenset()

    def test_each_question_counts(self):
        """A message may hold several."""
        assert slots_asked("Where do I live? And how old am I?") == {"home", "age"}

    @pytest.mark.parametrize("text", ["", " ", "\x00", "\ud800", "?" * 5000, "what is my " * 30, "do I " * 70])
    def test_any_text_is_taken(self, text: str):
        """Nothing makes it raise or take long."""
        assert all(isinstance(slot, str) for slot in slots_asked(text))
