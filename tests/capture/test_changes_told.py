"""Tests of what changes in a life, as people tell it in six languages: a move, a job, a parting, a loss."""

from __future__ import annotations

import pytest

from threadkeep.text.claims import adds_to_it, change_in
from threadkeep.text.facts import statements


def kept(sentence: str) -> list[str]:
    return [found.text for found in statements(sentence)]


@pytest.mark.parametrize(
    "sentence",
    [
        "Ich bin letzte Woche nach Wien gezogen.",
        "Wir sind im Herbst nach Graz umgezogen.",
        "Vor einem Monat bin ich nach Erfurt gezogen.",
        "Seit Montag arbeite ich für Porsche.",
        "Je suis partie vivre à Lille en mai.",
        "On a déménagé à Nîmes.",
        "Resido en Salta.",
        "Habito em Coimbra.",
        "Habitamos em Tavira.",
        "Mudei-me para Viseu há duas semanas.",
        "Ci siamo trasferiti a Siena.",
    ],
)
def test_a_move_and_a_new_job_are_kept(sentence: str):
    """Also with the time in front, where the verb comes before its subject."""
    assert kept(sentence) == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "We broke up.",
        "I got laid off.",
        "We had to give the dog away.",
        "Ich habe gekündigt.",
        "Mir wurde gekündigt.",
        "Wir mussten den Hund weggeben.",
        "On s'est séparés.",
        "J'ai démissionné.",
        "He dejado mi trabajo.",
        "Me han despedido.",
        "Perdi o emprego.",
        "Ci siamo lasciati.",
        "Ho perso il lavoro.",
    ],
)
def test_what_is_over_is_kept(sentence: str):
    """So that what it ends is not told as a fact, however the regression weighs its words."""
    assert kept(sentence) == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "If I got laid off, I'd move to Rome.",
        "Did we break up?",
        "My friend says we broke up.",
        "Maybe I got laid off.",
        "The singer died last week.",
        "Rex died on Sunday.",
        "Beethoven died in 1827.",
        "Seit heute Morgen spinnt das WLAN.",
        "Seit gestern bin ich erkältet.",
        "Wenn mir gekündigt wird, ziehe ich nach Wien.",
        "Depuis hier j'ai la crève.",
        "Da ieri ho la tosse.",
        "Desde ayer tengo tos.",
        "Ich habe den Faden verloren.",
        "Perdí el tren.",
    ],
)
def test_what_is_possible_passing_or_of_others_is_not_kept(sentence: str):
    """A name alone may be of a stranger; the sentence stays an episode."""
    assert kept(sentence) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "Mi sono trasferita a Parigi.",
        "Ci siamo trasferiti a Siena.",
        "Ho traslocato a Bari.",
        "Ich bin nach Wien gezogen.",
        "J'ai emménagé à Lille.",
    ],
)
def test_a_move_tells_of_a_change(sentence: str):
    """The former home is marked as earlier."""
    assert change_in(sentence) == "change"


@pytest.mark.parametrize(
    "sentence",
    [
        "Ich habe jetzt einen zweiten Job bei Spar.",
        "J'ai maintenant un deuxième boulot chez Paul.",
        "Ahora tengo un segundo trabajo en un bar.",
        "Agora tenho um segundo emprego num bar.",
        "Adesso ho un secondo lavoro in pizzeria.",
    ],
)
def test_a_second_job_adds_to_the_first(sentence: str):
    """Also with a word that tells of a change elsewhere, such as ``now``."""
    assert adds_to_it(sentence)
    assert change_in(sentence) is None
