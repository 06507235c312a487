"""Tests of what is said in a part that is played: over several turns, and from where on it is meant again."""

from __future__ import annotations

import pytest

import threadkeep
from tests.capture.test_lasting import facts_of, kept
from threadkeep.text.quoted import LONGEST_PLAY, in_play

BARE = "i can't eat gluten".replace("'", "")


async def _facts(*said: str) -> list[str]:
    """Return the facts that a thread teaches with *said*, each with a reply, one capture a turn as in an agent."""
    async with threadkeep.open("memory://", owner="ana", embedder="none") as tk:
        messages: list[tuple[str, str]] = []
        for text in said:
            messages += [("user", text), ("assistant", "All right.")]
            await tk.capture(messages, thread_id="t", wait=True)
        return sorted(one.text for one in await tk.memories.list() if one.kind == "semantic")


async def test_nothing_that_a_part_says_is_a_fact():
    """From the message that begins it to the one that ends it, which is meant again."""
    assert await _facts(
        "You are a bartender and I am a pirate called Edward.",
        "I live on a ship and I lost my leg to a shark.",
        "Game over. I have a son, Emil.",
        "I live in Ghent.",
    ) == ["I have a son, Emil.", "I live in Ghent."]


async def test_the_words_of_a_part_do_not_fill_the_profile():
    """They stay findable, as what was asked."""
    async with threadkeep.open("memory://", owner="ana", embedder="none") as tk:
        messages = [("user", "Let's do a role play: you are a waiter."), ("assistant", "Good evening!")]
        messages += [("user", "I am vegan and I live in Oz."), ("assistant", "Of course.")]
        await tk.capture(messages, thread_id="t", wait=True)

        assert not any((await tk.profile.get()).slots.values())
        texts = [one.text for one in await tk.memories.list()]
        assert any("Oz" in text for text in texts)
        assert not any(text.startswith("Said: ") for text in texts)


@pytest.mark.parametrize(
    "text",
    [
        "Let's practise a job interview. You're the interviewer.",
        "lets simulate a first date, you are Julia",
        "Be my dungeon master.",
        "I'll be the murderer and you are the detective.",
        "I want to do a mock interview.",
        "Lass uns ein Rollenspiel machen.",
    ],
)
def test_how_a_part_begins(text: str):
    assert in_play([text, "I live in Oz."]) == [True, True]


@pytest.mark.parametrize(
    "text",
    [
        "Act as my therapist.",
        "Let's pretend I'm a pirate.",
        "You are my maths tutor and I am your student.",
        "Act as a Linux terminal.",
        "You are right and I am wrong.",
        "To be honest, I'm slow with paperwork.",
        "You be careful, I'm a bit clumsy.",
        "Let's play chess on Friday.",
        "I play the cello and you are a great help.",
        "I work in game design.",
    ],
)
def test_what_begins_no_part(text: str):
    """An assistant with a part leaves the user themselves."""
    assert in_play([text, "I live in Ghent."]) == [False, False]


@pytest.mark.parametrize(
    "text", ["ok stop, that's enough", "End of the interview.", "Back to reality.", "In real life I teach."]
)
def test_how_a_part_ends(text: str):
    assert in_play(["Let's do a role play.", "I am a king.", text, "I live in Ghent."]) == [True, True, False, False]


def test_a_part_that_nothing_ends_is_over_in_the_end():
    played = in_play(["Let's do a role play.", *["I live in Ghent."] * (LONGEST_PLAY + 5)])
    assert played.count(True) == LONGEST_PLAY


@pytest.mark.parametrize(
    "text",
    [
        "My favourite colour is green. Or no, blue.",
        "I live in Prague, no wait, Brno.",
        "I was born in Lyon. Sorry, I mean Lille.",
        "Oh great, another outage. I absolutely love spending my nights on this.",
        "My favourite hobby is restarting agents, obviously",
        "I'm a millionaire — not!",
        "I love Mondays... NOT!",
        "I own a yacht – in my dreams.",
        "I speak ten languages, just kidding!",
        "I have five cats. I wish.",
        "We have a castle in Scotland (not).",
        "Ich bin Veganer – Scherz!",
        "Ich habe zwei Yachten, schön wär's.",
        "Je suis végétarien — je plaisante.",
        "J'adore le lundi – ou pas !",
        "Soy vegano, es broma.",
        "Vivo en un castillo — ¡no!",
        "Sou vegano, só que não.",
        "Moro em Paris. Quem me dera!",
        "Sono vegano, scherzo.",
    ],
)
def test_what_the_user_takes_back_or_mocks_is_no_fact(text: str):
    assert facts_of(text) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "I'm a nurse, not a doctor.",
        "I live in Graz — not in Salzburg.",
        "I drink tea, coffee not.",
        "I have two cats — no dogs.",
        "I run a no-nonsense bakery in Graz.",
        "Ich mag Tee, Kaffee eher nicht.",
        "Je bois du thé, du café non.",
    ],
)
def test_what_denies_a_part_of_a_sentence_takes_nothing_back(sentence: str):
    """``Not`` with a word behind or before it says of what it is not so."""
    assert " ".join(kept(sentence)).startswith(sentence[:12])


@pytest.mark.parametrize(
    "sentence",
    [
        "My boss thinks I am lazy.",
        "Everyone believes I live in Bonn.",
        "Apparently I have a reputation as a night owl.",
        "Mein Nachbar hat gesagt, ich wohne zu laut.",
        "I almost became a priest.",
        "I nearly bought a house in Olomouc.",
        "I don't want one.",
        "tell me a joke about cats, I have two of them",
        "solve: I have 5 apples and I give 2 to Tom",
        "I have 6 eggs left and half a cabbage.",
        "For the test use: my name is Carol, I'm from Oslo, I like jazz",
        "next one: Name Jane Roe, I was born in 1980, I am married",
    ],
)
def test_what_others_think_and_what_was_not_so_is_no_fact(sentence: str):
    assert kept(sentence) == []


@pytest.mark.parametrize(
    ("sentence", "statement"),
    [
        ("great. btw I use pytest everywhere", "I use pytest everywhere"),
        ("Seriously though, we moved to Jenkins in 2021", "we moved to Jenkins in 2021"),
        ("Hallo, ich wohne in Köln.", "ich wohne in Köln."),
        ("I don't have a car", "I don't have a car"),
        ("I can't climb stairs because of my hip.", "I can't climb stairs because of my hip."),
        ("I'm looking for a flat in Malmö", "I'm looking for a flat in Malmö"),
        ("ich hab zwei Kinder", "ich hab zwei Kinder"),
        ("I get seasick", "I get seasick"),
        ("also im 67 and retired", "im 67 and retired"),
        (BARE, BARE),
        ("Keep in mind I'm colour blind", "I'm colour blind"),
    ],
)
def test_statements_of_everyday_talk(sentence: str, statement: str):
    assert kept(sentence) == [statement]
