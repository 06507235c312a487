"""Where a sentence stops telling and begins to ask, and that only the part that tells is kept and compared."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from threadkeep.capture.extractors.local import extract_candidates
from threadkeep.capture.models import Turn
from threadkeep.ids import MessageId, ThreadId, TurnId
from threadkeep.models.base import Message
from threadkeep.recall.packing import passage_kind, statement_in
from threadkeep.text.facts import only_asks, statements
from threadkeep.text.requests import is_question, is_request, told_in

TOLD_AND_ASKED = [
    ("lactose makes me bloat", ", is feta ok?"),
    ("I live in Ghent", ", so what would be a good bike"),
    ("I'm on call every third week", " - how do I plan a holiday"),
    ("my rent is 1150 all in", ", so what would be a sensible emergency fund"),
    ("we keep four hens", " can I give them rice"),
    ("I work nights in Leeds", ", any tips for sleeping by day"),
    ("I take warfarin", ", so give me a list of foods"),
    ("uso un Xiaomi viejo, me va lento", ", qué borro?"),
    ("me regalaron un Pixel 8 por el cumple", ", cómo paso los contactos sin google"),
    ("soy celíaca", " y quería saber si la avena vale"),
    ("agora que tô em Petrópolis acordo às 5", ", tem algum podcast bom pra serra?"),
    ("moro no Recife", ", quais padarias eu posso visitar"),
    ("não bebo nada de álcool", ", então nem sugere vinho pra festa"),
    ("Ich bin Diabetiker", ", kann ich Datteln essen?"),
    ("ich arbeite in der Nachtschicht", ", was hilft gegen Müdigkeit"),
    ("wir wohnen jetzt in Ehrenfeld", " und wie melde ich den Strom um"),
    ("je suis enceinte de 4 mois", ", je peux manger du brie ?"),
    ("j'habite à Lyon", ", tu connais un bon dentiste"),
    ("on chauffe au bois", ", combien coûte un stère de hêtre"),
    ("sono celiaca e lavoro di notte", ", cosa mangio alle 3?"),
    ("mio figlio è allergico alle noci", ", scrivimi un menu per la festa"),
]
ONLY_TOLD = [
    "I know how to swim.",
    "I use Go, which is fast to build.",
    "My sister, who is a nurse, lives in Leeds.",
    "Short paragraphs help me a lot.",
    "Yusuf does it by hand on the first of each quarter.",
    "I cook, write a blog and keep bees.",
    "Ich weiß nicht, wie lange das noch dauert.",
    "Seit ich umgezogen bin, kann ich nicht mehr schlafen.",
    "Wie gesagt, ich bin Veganer.",
    "Am liebsten fahre ich mit dem Zug in den Urlaub.",
    "No sé qué hacer con el balcón.",
    "Non so cosa mangiare la sera.",
    "Je ne sais pas comment dormir sans bruit.",
    "Such lovely weather.",
    "Was Kaffee angeht, bin ich raus.",
    "Per quanto mi riguarda, niente latte.",
    "En cuanto salgo del turno como fruta.",
    "Manga não, me dá coceira na boca.",
]
ONLY_ASKED = [
    "wie viel sind 3 Zoll in cm",
    "cuántos megas tiene un giga",
    "traduz pra inglês: pão quente",
    "comment on plastifie un livre",
    "quanto costa un biglietto per Roma",
    "traduis cette phrase en anglais",
    "If I am vegan, can I have honey",
    "is it true that I can't have honey",
    "Wenn ich vegan bin, darf ich dann Honig essen?",
    "si soy vegano, puedo comer miel?",
    "se eu for vegano, posso comer mel?",
]
WHETHER = [
    "I live in Rome, don't I?",
    "I live in Rome, don't I",
    "I work at Siemens, correct?",
    "I told you that I'm vegan, right?",
    "I don't work at Siemens, do I?",
    "My mum lives in Leeds, doesn't she?",
    "My birthday is on 4 May, isn't it?",
    "Ich wohne in Graz, oder?",
    "Ich wohne in Graz, nicht wahr?",
    "J'habite à Lyon, n'est-ce pas ?",
    "Je travaille chez Airbus, c'est ça ?",
    "Vivo en Madrid, ¿verdad?",
    "Trabajo en Iberia, ¿no es así?",
    "Moro em Lisboa, não é?",
    "Eu sou vegano, certo?",
    "Vivo a Roma, vero?",
    "Sono vegano, giusto?",
]
NOT_WHETHER = [
    ("I'm vegan, ok?", "I'm vegan"),
    ("I used to work at Bosch, remember?", "I used to work at Bosch"),
    ("I live in Rome, do you?", "I live in Rome"),
    ("I always do it right.", None),
    ("Ich trinke Kaffee oder Tee.", "Ich trinke Kaffee oder Tee."),
    ("Vivo en Madrid, ¿recuerdas?", "Vivo en Madrid"),
]


@pytest.mark.parametrize(("told", "asked"), TOLD_AND_ASKED)
def test_the_part_before_the_request_tells(told: str, asked: str):
    assert told_in(told + asked) == told
    assert is_request(told + asked)
    assert all(one.text in told for one in statements(told + asked))


@pytest.mark.parametrize("sentence", ONLY_TOLD)
def test_a_sentence_that_only_tells_is_left_whole(sentence: str):
    assert told_in(sentence) == sentence
    assert not is_request(sentence)


@pytest.mark.parametrize("sentence", ONLY_ASKED)
def test_a_question_without_a_mark_and_its_condition_are_no_fact(sentence: str):
    assert told_in(sentence) == ""
    assert statements(sentence) == ()


@pytest.mark.parametrize(
    "sentence", ["wie viel sind 3 Zoll in cm", "how long is a mile", "cuántos megas tiene un giga"]
)
def test_a_question_needs_no_mark(sentence: str):
    assert is_question(sentence)
    assert passage_kind(f"Asked: {sentence}") == "question"


@pytest.mark.parametrize("sentence", WHETHER)
def test_a_sentence_that_asks_whether_it_is_so_tells_nothing(sentence: str):
    """The user of "I live in Rome, don't I?" may live elsewhere: it is kept as what was asked."""
    assert statements(sentence) == statements(sentence, beside_text=True) == ()
    assert only_asks(sentence)
    assert learnt(sentence) == [("episodic", f"Asked: {sentence}")]


@pytest.mark.parametrize(("sentence", "kept"), NOT_WHETHER)
def test_a_word_at_the_end_that_asks_nothing_leaves_the_statement(sentence: str, kept: str | None):
    assert [one.text for one in statements(sentence)] == ([kept] if kept else [])


def test_an_order_changes_what_was_so_and_is_no_question():
    assert not is_question("Answer me in English please.")
    assert passage_kind("Asked: Answer me in English please.") == "statement"


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ("me regalaron un Pixel 8 por el cumple", ", cómo paso los contactos sin google?"),
        ("Ma fille fait du judo le samedi", ", comment laver un kimono ?"),
        ("La gata pesa seis kilos", ", ¿cuánto antiparasitario le doy?"),
        ("Je déteste courir", ", quel autre sport me conseillerais-tu ?"),
        ("Ich heize mit dem Kachelofen", ", wieviel Raummeter brauch ich im Winter?"),
        ("The wee one's allergic to penicillin", ", what goes on a nursery form?"),
    ],
)
def test_a_passage_states_what_stands_before_its_request(told: str, asked: str):
    """Also where it is short, without a name, a number or a word of the speaker's."""
    assert passage_kind(f"Asked: {told}{asked}") == "statement"
    assert statement_in(f"{told}{asked}") == told


def test_a_few_words_before_a_request_state_nothing():
    assert passage_kind("Asked: Quick question, what goes on a nursery form?") == "question"
    assert passage_kind("Asked: So tired today, what helps?") == "question"


def test_a_line_that_may_be_of_another_author_states_nothing():
    """It outdates no statement of the user's; a note of a label and a value does."""
    assert passage_kind("Asked: Tom: I quit my job and joined Bosch!") is None
    assert passage_kind("Said: Insulin: 14 units of Lantus at bedtime.") == "statement"


def test_whole_sentences_beside_a_question_are_no_statements_of_the_user():
    """They may be another author's."""
    assert passage_kind("Asked: I moved to Leeds. What does she mean?") == "request"


@pytest.mark.parametrize(
    "topic", ["mixed model with lme4, singular fit, what now?", "Hallo, wie melde ich den Strom um?"]
)
def test_a_topic_or_a_greeting_before_a_request_is_no_fact(topic: str):
    assert statements(topic) == ()


def learnt(text: str) -> list[tuple[str, str]]:
    turn = Turn(
        TurnId("t"), ThreadId("th"), (Message("user", text, MessageId("m")),), datetime(2026, 5, 4, tzinfo=UTC), ()
    )
    return [(found.kind, found.text) for found in extract_candidates(turn)]


def test_capture_keeps_the_statement_without_its_request():
    assert learnt("j'habite à Lyon, tu connais un bon dentiste") == [
        ("semantic", "j'habite à Lyon"),
        ("episodic", "Asked: j'habite à Lyon, tu connais un bon dentiste"),
    ]


def test_sentences_of_a_passage_do_not_run_into_each_other():
    """Their order stays where one is a name, and a line without an end gets one."""
    assert learnt("It autocorrected. Niamh. and she wants the list without the toaster") == [
        ("episodic", "Said: It autocorrected. Niamh. and she wants the list without the toaster")
    ]
    assert learnt("Our hives smell of beer a little bit\nThey have done so since last summer") == [
        ("episodic", "Said: Our hives smell of beer a little bit. They have done so since last summer")
    ]


def test_a_greeting_alone_is_not_remembered():
    assert learnt("Hallo, ich noch mal.") == []
