"""Which facts are earlier because a relationship or a job is over later, or an animal or a relative is gone."""

from __future__ import annotations

import pytest

import threadkeep
from tests.recall.test_currency import cosines, told
from threadkeep.recall.currency import find_earlier
from threadkeep.testing import HashingEmbedder

FAR = 0.1
"""A cosine at which the words alone must tell that one statement ends the other."""


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("My girlfriend is called Mia.", "We broke up."),
        ("My boyfriend Tom is a chef.", "Tom and I called it quits in March."),
        ("I'm engaged.", "My fiancé broke it off yesterday."),
        ("I work at Siemens.", "I quit my job."),
        ("I work for the city.", "I got laid off."),
        ("I'm working at Tesla.", "My company let me go last week."),
        ("I have a dog called Rex.", "We had to give the dog away."),
        ("I have a dog called Rex.", "Rex died on Sunday."),
        ("I've got a pony.", "We've finally sold the pony."),
        ("My dad lives in Cork.", "Sad news: my dad passed away in May."),
        ("My mama lives in Cork.", "My mama passed away in May."),
        ("Mon papa habite à Lyon.", "Mon papa est décédé."),
        ("Meine Freundin heißt Mia.", "Wir haben uns getrennt."),
        ("Ich arbeite bei Siemens.", "Mir wurde gekündigt."),
        ("Ich arbeite bei der Post.", "Ich bin jetzt in Rente."),
        ("Wir haben eine Katze.", "Leider mussten wir die Katze abgeben."),
        ("Mein Hund heißt Rex.", "Rex ist am Sonntag gestorben."),
        ("Ma copine s'appelle Léa.", "On s'est séparés."),
        ("Je travaille chez Renault.", "J'ai démissionné."),
        ("J'ai un chien qui s'appelle Rex.", "On a dû donner le chien."),
        ("Mi novia se llama Ana.", "Hemos roto."),
        ("Mi pareja se llama Rosa.", "Rosa y yo nos hemos separado."),
        ("Rosa es mi pareja.", "Rosa y yo hemos roto."),
        ("Mein Freund heißt Tom.", "Ich habe mich von Tom getrennt."),
        ("Mon copain s'appelle Paul.", "Je me suis séparée de Paul."),
        ("Mi novio se llama Luis.", "He roto con mi novio."),
        ("O meu namorado chama-se Rui.", "O Rui e eu separámo-nos."),
        ("La mia ragazza si chiama Giulia.", "Io e Giulia ci siamo lasciati."),
        ("Il mio ragazzo si chiama Marco.", "Mi sono lasciata con Marco."),
        ("Trabajo en Renfe.", "Me han despedido."),
        ("Mi perro se llama Rex.", "Se murió Rex."),
        ("A minha namorada chama-se Inês.", "A minha namorada deixou-me."),
        ("Trabalho na Galp.", "Perdi o emprego."),
        ("Tenho um cão chamado Rex.", "Tivemos de dar o cão."),
        ("La mia ragazza si chiama Giulia.", "Ci siamo lasciati."),
        ("Lavoro alla Fiat.", "Ho perso il lavoro."),
        ("Ho un cane che si chiama Rex.", "Rex è morto domenica."),
    ],
)
def test_what_is_over_is_earlier(older: str, newer: str):
    """Though the two share no word, and the later one does not say how it was."""
    assert find_earlier(told(older, "My favourite fruit is quince.", newer), cosines(3, FAR)) == {0: 2}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("My girlfriend is called Mia.", "We broke up the function into two."),
        ("My girlfriend is called Mia.", "We almost broke up."),
        ("My girlfriend is called Mia.", "My sister and her boyfriend broke up."),
        ("My girlfriend is called Lea.", "Mia and I broke up yesterday."),
        ("My sister's boyfriend is Tom.", "We broke up."),
        ("I'm married.", "My wife left me the car."),
        ("My wife works at Siemens.", "I quit my job."),
        ("I work at Siemens.", "I was fired from Acme last week."),
        ("I work at Siemens.", "I got laid off ten years ago."),
        ("I work at Siemens.", "I might quit my job."),
        ("I work at Siemens.", "My boss quit his job."),
        ("I work as a nurse.", "I quit my job."),
        ("I have a dog called Rex.", "My neighbour's dog died."),
        ("I have a dog called Rex.", "We had to give the dog a bath."),
        ("I have a dog called Rex.", "Rex died in the movie."),
        ("I have a dog called Rex.", "Did Rex die on Sunday?"),
        ("My neighbour has a dog.", "We had to give the dog away."),
        ("My grandmother taught me to knit.", "My grandmother died last week."),
        ("Ich arbeite bei Siemens.", "Ich habe gestern das Abo gekündigt."),
        ("Ich arbeite bei Siemens.", "Ich wurde aus dem Krankenhaus entlassen."),
        ("Mein Hund heißt Rex.", "Rex ist nicht gestorben."),
        ("Ma copine s'appelle Léa.", "On s'est séparés en deux équipes."),
        ("Mi novia se llama Ana.", "Hemos roto el jarrón."),
        ("Mi novia se llama Ana.", "Mi novia me dejó las llaves."),
        ("Trabalho na Galp.", "Perdi o trabalho de casa."),
        ("La mia ragazza si chiama Giulia.", "Ci siamo lasciati alle otto."),
    ],
)
def test_what_is_not_said_to_be_over_is_not_earlier(older: str, newer: str):
    """It is another's, long ago, of a story, only possible, or about something else."""
    assert find_earlier(told(older, "My favourite fruit is quince.", newer), cosines(3, FAR)) == {}


def test_one_of_two_animals_is_not_guessed():
    dogs = "I have a dog called Rex.", "We have a dog called Bella."

    assert find_earlier(told(*dogs, "We had to give the dog away."), cosines(3, FAR)) == {}
    assert find_earlier(told(*dogs, "Bella died on Sunday."), cosines(3, FAR)) == {1: 2}


def test_what_began_later_and_what_was_mended_is_not_earlier():
    new_job = told("I work at Siemens.", "I quit my job.", "I work at Bosch.")
    together = told("My girlfriend is called Mia.", "We broke up.", "We're back together.")

    assert 2 not in find_earlier(new_job, cosines(3, FAR))
    assert 0 not in find_earlier(together, cosines(3, FAR))


async def test_block_shows_that_it_is_over():
    """Also where the later statement is no fact of its own."""
    async with threadkeep.open("memory://", owner="ana", embedder=HashingEmbedder()) as tk:
        for number, text in enumerate(("I have a dog called Rex.", "We had to give the dog away.")):
            message = {"role": "user", "content": text, "id": f"m{number}"}
            await tk.capture([message], thread_id=f"t{number}", wait=True)
        found = {hit.memory.text: hit.earlier for hit in (await tk.recall("Do I have a dog?")).memories}

    assert found["I have a dog called Rex."] is True
