"""Which statements stay true beside a newer one that is near, and which a newer one about the same person outdates."""

from __future__ import annotations

import pytest

from tests.recall.test_currency import cosines, told
from threadkeep.recall.currency import Outdated, find_earlier, find_outdated
from threadkeep.text.ages import Age, ages_in
from threadkeep.text.ended_facts import ended_object
from threadkeep.text.frames import frame_of

NEAR = 0.8


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("At the studio I paint in oils.", "At the cottage I paint in watercolours."),
        ("On Tuesdays I teach judo.", "On Fridays I teach karate."),
        ("Im Labor benutze ich Linux.", "Für Spiele benutze ich Windows."),
        ("Chez ma tante, on mange du poisson.", "Chez ma cousine, on mange du riz."),
        ("Por las mañanas trabajo en Correos.", "Los sábados trabajo en una panadería."),
        ("Em casa uso um portátil.", "Na oficina uso um tablet."),
        ("Il lunedì lavoro in banca.", "Il sabato lavoro in pizzeria."),
        ("Max is 4 and Ida is 7.", "Ida turned 8 yesterday."),
        ("Meine Kinder sind Max (3) und Ida (6).", "Ida ist jetzt 7."),
        ("Nos filles sont Lina (5 ans) et Rose (2 ans).", "Lina a eu 6 ans samedi."),
        ("Max is 4.", "Ida just turned 4."),
        ("Project Apollo is due on 3 March.", "Project Gemini is due on 5 May."),
        ("Das Projekt Apollo endet im März.", "Das Projekt Gemini endet im Mai."),
        ("I take bus 12 to work.", "I take bus 14 to the gym."),
        ("Ich nehme den Bus 12 zur Arbeit.", "Ich nehme den Bus 14 zum Sport."),
        ("Je paie 30 euros pour le téléphone.", "Je paie 45 euros pour la piscine."),
        ("Uso Linux para o trabalho.", "Uso Windows para os jogos."),
        ("My locker at the gym is number 12.", "My locker at work is number 14."),
        ("Mi taquilla en el gimnasio es la 12.", "Mi taquilla en el trabajo es la 14."),
        ("Il mio armadietto in palestra è il 12.", "Il mio armadietto al lavoro è il 14."),
        ("my wife Carol and me adopted a cat", "me and Carol adopted a greyhound"),
        ("On a adopté un chat.", "On a adopté une chienne."),
    ],
)
def test_what_is_limited_to_others_stays_true(older: str, newer: str):
    assert find_earlier(told(older, newer), cosines(2, NEAR)) == {}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I drive a Skoda.", "My Skoda makes a strange noise."),
        ("We use Postgres.", "Our Postgres is slow."),
        ("I play the cello.", "I have a cello lesson tomorrow."),
        ("I live in Graz.", "The rents in Graz are crazy."),
        ("My dog is called Rex.", "Rex ate my shoe."),
        ("We bank with Barclays.", "Barclays charged me a fee twice."),
    ],
)
def test_what_a_statement_elaborates_on_stays_true(older: str, newer: str):
    """Unless the model is rather sure of a change."""
    memories = told(older, newer)

    assert find_outdated(memories, cosines(2, NEAR)) == Outdated({}, {})
    assert find_outdated(memories, cosines(2, NEAR), weigh=lambda _pair: -3.0) == Outdated({}, {})
    assert find_outdated(memories, cosines(2, NEAR), weigh=lambda _pair: None) == Outdated({}, {})
    assert find_outdated(memories, cosines(2, NEAR), weigh=lambda _pair: 3.0) == Outdated({0: 1}, {})


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("At the studio I paint in oils.", "At the studio I paint in watercolours now."),
        ("On Tuesdays I teach judo.", "On Fridays I teach judo now."),
        ("Project Apollo is due on 3 March.", "Project Apollo is due on 5 May now."),
        ("Project Apollo is our main project.", "Project Gemini is our main project."),
        ("I take bus 12 to work.", "I take bus 14 to work now."),
        ("My locker at the gym is number 12.", "My locker at work is number 14 now."),
        ("I teach maths at the school.", "I teach art at the academy now."),
        ("We adopted a cat.", "We gave the cat away and adopted a dog instead."),
        ("My daughter Ida goes to Hill School.", "We've moved Ida to another school, Brook Primary."),
        ("My son Max is 118 cm tall.", "I just measured him again, 121 cm."),
        ("Ma fille mesure 1m18.", "Je viens de la remesurer, 1m21."),
        ("Mein Sohn wiegt 18 Kilo.", "Ich habe ihn heute gewogen, 20 Kilo."),
        ("My husband hates camping.", "My husband enjoyed camping so much that he wants to go every month."),
        ("I'm allergic to peanuts.", "I'm allergic to walnuts."),
        ("I never write tests.", "Every ticket of mine begins with tests."),
    ],
)
def test_what_changed_for_the_same_one_is_earlier(older: str, newer: str):
    assert find_earlier(told(older, newer), cosines(2, NEAR)) == {0: 1}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("My daughter Ida is 6.", "Ida turned 7 on Saturday."),
        ("Mein Sohn Max ist 9 Jahre alt.", "Max ist gestern 10 geworden."),
        ("Mon fils Hugo a 5 ans.", "Hugo vient d'avoir 6 ans."),
        ("Mi hijo Bruno tiene 9 años.", "Bruno cumplió 10 ayer."),
        ("O meu filho Rui tem 8 anos.", "O Rui fez 9 no domingo."),
        ("Mia figlia Sara ha 5 anni.", "Sara ha compiuto 6 anni."),
    ],
)
def test_another_age_of_the_same_one_outdates_the_first(older: str, newer: str):
    assert find_earlier(told(older, "My favourite fruit is quince.", newer), cosines(3, 0.1)) == {0: 2}


@pytest.mark.parametrize(
    ("other", "named", "newer"),
    [
        ("I work at the library.", "I work at the bakery.", "I don't work at the bakery any more."),
        ("Trabajo en la biblioteca.", "Trabajo en el bar.", "Ya no trabajo en el bar."),
        ("Ich arbeite in der Bücherei.", "Ich arbeite in der Bäckerei.", "Ich arbeite nicht mehr in der Bäckerei."),
        ("Je travaille à la mairie.", "Je travaille au café.", "Je ne travaille plus au café."),
        ("Trabalho na biblioteca.", "Trabalho na padaria.", "Já não trabalho na padaria."),
        ("Lavoro in biblioteca.", "Lavoro in pizzeria.", "Non lavoro più in pizzeria."),
    ],
)
def test_an_end_outdates_only_what_it_names(other: str, named: str, newer: str):
    found = find_earlier(told(other, f"Besides: {named}", newer), cosines(3, 0.6))
    assert found.get(1) == 2
    assert 0 not in found


def test_ages_are_no_times_sizes_or_distances():
    assert ages_in("Ida is 118 cm tall. The shop is 4 km away. Max turned up at 9 am.") == ()
    assert ages_in("My daughter Ida is 6, the dog's 8.") == (Age("ida", "daughter", 6), Age("", "dog", 8))


def test_a_point_in_time_is_no_circumstance():
    assert frame_of("In March I moved to Leeds.") is None
    assert frame_of("At the moment I work from home.") is None


def test_what_is_no_more_is_named():
    assert ended_object("Ya no trabajo en el bar, era demasiado.") == {"bar"}
    assert ended_object("I work at the bar.") == frozenset()
