"""Tests of what kind of question a text is."""

from __future__ import annotations

import pytest

from threadkeep.search.query import question_kind


@pytest.mark.parametrize(
    "text",
    [
        "Where do I live?",
        "What's my sister's name?",
        "Which framework do we use?",
        "Hey, remind me: who is our landlord?",
        "Do you remember where I parked?",
        "Describe my desk.",
        "List the allergies that I have.",
        "In which drawer did I put the passports?",
        "Why do I avoid that street?",
        "How do we deploy?",
        "After the merger, who signs my leave?",
        "What should a guest know about our cat?",
        "Wo wohnt meine Schwester?",
        "Welches Auto fahren wir?",
        "Quel est mon sport préféré ?",
        "¿Dónde trabajo?",
        "¿Cómo se llama mi perra?",
        "Onde moro?",
        "Qual é o nome do meu gato?",
        "Dove vive mio fratello?",
        "Que dois-je éviter ?",
        "À quelle association j'appartiens ?",
        "¿Qué idioma hablamos con los suegros?",
        "¿En qué barrio resido?",
        "¿Qué colecciono?",
        "Em que rua moramos?",
        "Onde almoço às sextas?",
        "Tenho alergias?",
        "Trinke ich Kaffee?",
        "Which app suits my phone?",
        "my chess rating?",
        "dónde doy las clases de baile",
        "que dia vou ao ginásio",
        "dove insegno yoga",
        "How do I bleed the boiler?",
        "Je peux courir avec mon genou ?",
        "We have guests on Sunday. How do I cook a goose?",
    ],
)
def test_question_about_the_user(text: str):
    """A word of the first person in the sentence that asks."""
    assert question_kind(text) == "own"


@pytest.mark.parametrize(
    "text",
    [
        "What is the capital of Peru?",
        "Who wrote Dune?",
        "Can you tell me the boiling point of mercury?",
        "¿Qué tipo de animal es la ballena?",
        "¿En qué siglo vivió Cervantes?",
        "Quantos primos há até cem?",
        "Comment dit-on merci en turc ?",
        "Wann wurde der Dom gebaut?",
        "Is 91 prime?",
        "Who invented the telephone?",
        "How much does a whale weigh?",
        "",
        "ok",
    ],
)
def test_question_about_the_world(text: str):
    """It names nothing of the user's."""
    assert question_kind(text) == "task"


@pytest.mark.parametrize(
    "text",
    [
        "Write a sonnet about rain.",
        "Give me three synonyms of 'slow'.",
        "Explain monads to me.",
        "Translate this into Danish.",
        "Schreib mir ein Gedicht über Regen.",
        "Donne-moi trois synonymes de « lent ».",
        "écris moi un poème sur la pluie",
        "list me three rivers",
        "design us a flag",
    ],
)
def test_order(text: str):
    """``Give me`` and ``to me`` say nothing of the user."""
    assert question_kind(text) == "order"


@pytest.mark.parametrize(
    "text",
    [
        "Who minds the kids?",
        "When does the standup begin?",
        "Who has to sign the invoices?",
        "How often is the pump serviced?",
        "On which floor are the lockers?",
        "Where are the plates kept here?",
        "What should I eat before a race?",
        "Which sauce do you suggest to me?",
        "Wann ist die Besprechung?",
        "À quelle heure est le rendez-vous ?",
        "Avec quel outil teste-t-on ici ?",
        "¿Quién cuida de los niños?",
        "Como se chama o cão?",
    ],
)
def test_question_about_an_arrangement(text: str):
    """It names no owner, and there are many such arrangements."""
    assert question_kind(text) == "near"


@pytest.mark.parametrize(
    "text",
    [
        "What are the user's working hours?",
        "Is the user a smoker?",
        "user's dietary preferences",
        "In welcher Stadt wohnt der Nutzer?",
        "Comment l'utilisateur va-t-il au travail ?",
        "¿Dónde vive la usuaria?",
        "Onde mora o usuário?",
    ],
)
def test_question_of_an_agent_about_the_user(text: str):
    """An agent that searches the memory calls its owner so; a program may have users, too."""
    assert question_kind(text) == "near"


@pytest.mark.parametrize("text", ["Write SQL that counts the user's orders.", "List users by age.", "What is a user?"])
def test_users_of_a_program_are_not_the_user(text: str):
    assert question_kind(text) in {"task", "order"}


@pytest.mark.parametrize(
    "text",
    [
        "My parser throws an exception, why?",
        "How do I sort an array?",
        "Can I use null here?",
        "Is my function pure?",
        "My build hangs. What am I doing wrong?",
        "Our tests fail. Which framework do we use?",
        "Why does my query time out?",
        "I want to rename a branch. How?",
        "My printer prints only blank sheets. Normal?",
        "Why is the screen of my phone so dark?",
    ],
)
def test_problem_of_the_moment(text: str):
    """A program, a device or a fault."""
    assert question_kind(text) == "problem"


@pytest.mark.parametrize("text", ["Write a poem for my mother.", "Find mudguards that fit my bicycle."])
def test_order_about_something_of_the_user(text: str):
    """What is known of it helps to carry it out."""
    assert question_kind(text) == "near"


@pytest.mark.parametrize(
    "text",
    [
        "I moved to Ghent last week.",
        "Why won't my bread rise?",
        "Where do I live? " * 30,
    ],
)
def test_statement_and_story(text: str):
    """It may go with anything that is kept."""
    assert question_kind(text) == "open"


def test_long_texts_are_read_in_linear_time():
    """Only the first sentences of a short text count."""
    assert question_kind("why " * 100_000) == "open"
    assert question_kind("a" * 399) == "task"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("give me ten useful phrases in the language im learning", "own"),
        ("what do im allergic to", "own"),
        ("plan dinners for the diet im on", "near"),
        ("Was blüht im Garten?", "task"),
        ("Tipps fürs Fahren im Winter", "task"),
    ],
)
def test_the_first_person_may_lack_its_apostrophe(text: str, kind: str):
    """``im`` is a word of German, too."""
    assert question_kind(text) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [("Do I put smoker or non smoker on this form?", "own"), ("Why does the form not submit?", "task")],
)
def test_a_form_to_fill_in_is_no_device(text: str, kind: str):
    assert question_kind(text) == kind
