"""Tests of sentences that say several things: each clause that stands on its own is a fact of its own."""

from __future__ import annotations

import pytest

import threadkeep
from threadkeep.testing import HashingEmbedder
from threadkeep.text.facts import statements


def kept(sentence: str) -> list[str]:
    return [found.text for found in statements(sentence)]


@pytest.mark.parametrize(
    ("sentence", "clauses"),
    [
        ("Ich wohne in Graz und arbeite bei Zeiss.", ["Ich wohne in Graz", "arbeite bei Zeiss."]),
        ("Ich bin Vegetarier und meine Frau ist Ärztin.", ["Ich bin Vegetarier", "meine Frau ist Ärztin."]),
        (
            "Ich lebe in Bern, arbeite als Lehrer und habe zwei Kinder.",
            ["Ich lebe in Bern", "arbeite als Lehrer", "habe zwei Kinder."],
        ),
        ("Mein Bruder heißt Tom, aber ich heiße Lena.", ["Mein Bruder heißt Tom", "ich heiße Lena."]),
        ("J’habite à Lyon et je suis allergique aux noix.", ["J’habite à Lyon", "je suis allergique aux noix."]),
        ("Je m'appelle Luc et travaille chez Airbus.", ["Je m'appelle Luc", "travaille chez Airbus."]),
        (
            "Je vis à Nantes et ma femme travaille à l'hôpital.",
            ["Je vis à Nantes", "ma femme travaille à l'hôpital."],
        ),
        ("Vivo en Sevilla y trabajo en Iberia.", ["Vivo en Sevilla", "trabajo en Iberia."]),
        ("Hola, soy Pablo y vivo en Valencia.", ["soy Pablo", "vivo en Valencia."]),
        (
            "Soy alérgica al marisco y mi hijo tiene asma.",
            ["Soy alérgica al marisco", "mi hijo tiene asma."],
        ),
        ("Moro em Porto e trabalho na Galp.", ["Moro em Porto", "trabalho na Galp."]),
        ("Chamo-me Rui e trabalho como motorista.", ["Chamo-me Rui", "trabalho como motorista."]),
        ("Abito a Torino e lavoro alla Fiat.", ["Abito a Torino", "lavoro alla Fiat."]),
        ("Mi chiamo Giulia e sono allergica ai gatti.", ["Mi chiamo Giulia", "sono allergica ai gatti."]),
        ("I used to live in Rome but now I live in Milan.", ["I used to live in Rome", "now I live in Milan."]),
    ],
)
def test_each_clause_is_a_fact(sentence: str, clauses: list[str]):
    """Also one that leaves the subject out, where the verb tells that it is the speaker's."""
    assert kept(sentence) == clauses


@pytest.mark.parametrize(
    "sentence",
    [
        "Ich habe eine Schwester, die in Graz wohnt und bei Zeiss arbeitet.",
        "J'ai une sœur qui vit à Paris et travaille chez Airbus.",
        "J'ai un frère, il habite à Lyon et travaille chez Airbus.",
        "J'adore mon chien et mon petit chat noir.",
        "Mi hermana vive en Lima y trabaja en un banco.",
        "Vivo con Ana, mi hermana mayor.",
        "Vivo entre casa y trabajo en Madrid.",
        "Ho due gatti e sono neri.",
        "Ho due figlie e sono brave.",
        "Ich ziehe bald nach Wien und arbeite dann bei Zeiss.",
    ],
)
def test_a_clause_that_may_be_of_others_or_of_a_plan_stays_in_its_sentence(sentence: str):
    assert kept(sentence) in ([], [sentence])


@pytest.mark.parametrize(
    "sentence",
    [
        "Wenn ich in Rom wohne und bei ENI arbeite, bin ich froh.",
        "Si vivo en Roma y trabajo en ENI, soy feliz.",
        "Si j'habite à Rome et je travaille chez ENI, tout va bien.",
        "Mi hermano dice que vivo en Sevilla y trabajo en Iberia.",
        "Ma mère dit que j'habite à Lyon et je travaille trop.",
        "Mein Freund schreibt: „Ich wohne in Graz und arbeite bei Zeiss.“",
        "¿Vivo en Sevilla y trabajo en Iberia?",
        "Sogno: abito a Roma e lavoro all'ENI.",
    ],
)
def test_no_clause_of_a_supposition_a_report_or_a_question_is_a_fact(sentence: str):
    assert kept(sentence) == []


@pytest.mark.parametrize(
    ("both", "newer", "question", "stays", "ends"),
    [
        (
            "Ich wohne in Graz und arbeite bei Zeiss.",
            "Ich wohne nicht mehr in Graz.",
            "Wo wohne ich, und wo arbeite ich?",
            "arbeite bei Zeiss.",
            "Ich wohne in Graz",
        ),
        (
            "Vivo en Sevilla y trabajo en Iberia.",
            "Ya no vivo en Sevilla.",
            "¿Dónde vivo y dónde trabajo?",
            "trabajo en Iberia.",
            "Vivo en Sevilla",
        ),
    ],
)
async def test_what_outdates_a_clause_leaves_the_other_one(both: str, newer: str, question: str, stays: str, ends: str):
    async with threadkeep.open("memory://", owner="ana", embedder=HashingEmbedder()) as tk:
        for number, text in enumerate((both, newer)):
            message = {"role": "user", "content": text, "id": f"m{number}"}
            await tk.capture([message], thread_id=f"t{number}", wait=True)
        found = {hit.memory.text: hit.earlier for hit in (await tk.recall(question)).memories}

    assert found[stays] is False
    assert found[ends] is True
