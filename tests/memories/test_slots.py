from __future__ import annotations

import pytest

from threadkeep.text.slots import slot_of

SAME = [
    ("My favourite colour is red", "My favourite colour is blue now"),
    ("My favorite color is red.", "Blue is my favourite colour now"),
    ("my favourite food is pizza", "My favourite food is now ramen!"),
    ("I live in Lisbon", "I moved to Berlin"),
    ("I live in Lisbon", "I live in Berlin now"),
    ("i live in lisbon", "Actually, I live in Porto."),
    ("I'm based in Munich", "I've relocated to Madrid for work"),
    ("I live in New York with my sister", "I have moved to São Paulo"),
    ("I live in the Netherlands", "I live in Porto, Portugal"),
    ("I work at Acme", "I now work for Globex as an engineer"),
    ("I work at Acme", "I've just joined Globex as a designer"),
    ("I work at Acme", "I started my new role at Globex"),
    ("I work as a nurse", "I work as a teacher now"),
    ("call me Max", "Please call me Maximilian"),
    ("My name is Priya Raman", "My name is Priya Osei now"),
    ("My birthday is on 3 May", "My birthday is 4 May"),
    ("I'm 34", "I turned 35"),
    ("I am 34 years old", "I'm 35 now"),
    ("My time zone is CET", "I'm in the PST timezone"),
    ("My manager is Ana", "My manager is now Bruno Costa"),
    ("My job title is Staff Engineer", "My job title is Principal Engineer"),
    ("My email is a@b.co", "My email is now c@d.org"),
    ("our standup is at 9:30", "Our standup is now at 10am."),
    ("Our standup is at 9 on Mondays", "Our standup is at 10 on Mondays"),
    ("I prefer short answers", "I prefer detailed answers now"),
    ("I prefer dark mode", "I prefer light mode"),
    ("I prefer tea to coffee", "I prefer coffee over tea"),
    ("I like coffee", "I don't like coffee anymore"),
    ("I love olives", "I hate olives now"),
    ("I'm allergic to nuts", "I'm no longer allergic to nuts"),
    ("I'm married", "I'm divorced now"),
    ("I'm vegetarian", "I'm vegan now"),
    ("I have two dogs", "We have three dogs now"),
    ("I have one kid", "I have two children"),
    ("My mother lives in Porto", "My mother moved to Faro"),
]

NONE = """
My sister is Ana
My sister is a nurse
My dog's name is Rex
My favourite colour used to be red
My favourite colour is not red
My favourite part is the end
I don't live in Lisbon
I used to live in Lisbon
I lived in Lisbon
I live in a small flat
I live in fear of spiders
I live in Lisbon and Porto
I live in Lisbon during the week
I live in Lisbon and I work at Acme
I'm moving to Berlin next month
I want to live in Rome
I might live in Rome
I moved to Linux last year
I moved to Kubernetes
I moved to the platform team
I moved to Canada when I was 10
I moved to Spain ten years ago
I work at night
I work at home
I work for myself
I also work at Globex
I joined Greenpeace
I work part-time at Globex
My name is spelled with a K
My name was Meyer
My manager is on holiday
My manager is great
My team is remote
My role is very important
My birthday is next week
My birthday is coming up
I prefer French answers
I prefer trains
I like it
I like to swim
I like coffee because it wakes me
I'm a nurse
I'm a mother of two
We deploy with ArgoCD on prod-west
We use Postgres
I speak Polish
Do I live in Lisbon?
Maria lives in Lisbon
Said: I live in Lisbon
""".strip().splitlines()

DIFFERENT = [
    ("My favourite colour is red", "My favourite food is red curry"),
    ("I like coffee", "I like coffee in the morning"),
    ("I like coffee", "I like tea"),
    ("Our standup is at 9 on Mondays", "Our standup is at 10 on Fridays"),
    ("Our standup is at 9", "Our retro is at 9"),
    ("I have two dogs", "I have two cats"),
    ("My manager is Ana", "My mentor is Ana"),
    ("I'm allergic to nuts", "I'm allergic to shellfish"),
    ("My mother lives in Porto", "My father lives in Faro"),
    ("My name is Max", "Call me Max"),
]


class TestSlotOf:
    @pytest.mark.parametrize(("earlier", "later"), SAME)
    def test_later_answer_to_the_same_question_has_the_same_slot(self, earlier: str, later: str):
        """Two statements that cannot both be true now stand in one slot."""
        assert slot_of(earlier) is not None
        assert slot_of(earlier) == slot_of(later)

    @pytest.mark.parametrize("text", NONE)
    def test_what_may_be_true_beside_others_has_none(self, text: str):
        """Where more than one answer may be true, or it is not about now, nothing is replaced."""
        assert slot_of(text) is None

    @pytest.mark.parametrize(("one", "other"), DIFFERENT)
    def test_different_subjects_have_different_slots(self, one: str, other: str):
        """Statements on different subjects never replace each other."""
        assert slot_of(one) != slot_of(other)

    @pytest.mark.parametrize("text", ["", " ", "\x00", "\ud800", "a" * 5000, "I live in " + "Porto " * 40])
    def test_any_text_is_taken(self, text: str):
        """Nothing makes it raise or take long."""
        assert slot_of(text) is None or isinstance(slot_of(text), str)
