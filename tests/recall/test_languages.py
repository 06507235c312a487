"""Words of fifteen languages are found in other forms, each text in its own language, with no model at all."""

from __future__ import annotations

from typing import get_args

import pytest

import threadkeep
from threadkeep.settings import Settings
from threadkeep.text.tokenizing import FUNCTION_WORDS, LANGUAGES, alternatives, language_of, languages_of, tokenise

KNOWN = {
    "english": ["My brother studies medicine in Porto.", "I was allergic to walnuts.", "We painted the kitchen blue."],
    "german": [
        "Mein Bruder studiert Medizin in Porto.",
        "Ich bin gegen Nüsse allergisch.",
        "Wir haben die Küche gestrichen.",
    ],
    "spanish": [
        "Mi hermano estudia medicina en Oporto.",
        "Soy alérgico a las nueces.",
        "Hemos pintado la cocina de azul.",
    ],
    "french": [
        "Mon frère étudie la médecine à Porto.",
        "Je suis allergique aux noix.",
        "Nous avons repeint les cuisines.",
    ],
    "russian": ["Мой брат изучает медицину в Порту.", "У меня аллергия на орехи.", "Мы покрасили кухню."],
    "japanese": ["兄はポルトで医学を勉強しています。", "私はクルミのアレルギーがあります。", "台所を青く塗りました。"],
    "chinese": ["我的哥哥在波尔图学医。", "我对核桃过敏。", "我们把厨房刷成了蓝色。"],
    "italian": [
        "Mio fratello studia medicina a Porto.",
        "Sono allergico alle noci.",
        "Abbiamo dipinto la cucina di blu.",
    ],
    "portuguese": ["O meu irmão estuda medicina no Porto.", "Sou alérgico a nozes.", "Pintámos a cozinha de azul."],
    "dutch": [
        "Mijn broer studeert medicijnen in Porto.",
        "Ik ben allergisch voor noten.",
        "We hebben de keukens geverfd.",
    ],
    "swedish": ["Min bror studerar medicin i Porto.", "Jag är allergisk mot nötter.", "Vi har målat köket blått."],
    "arabic": ["أخي يدرس الطب في بورتو", "عندي حساسية من المكسرات", "دهنا المطبخ باللون الأزرق"],
}
ASKED = [
    ("english", "What are my brothers studying?", 0),
    ("english", "Which walnut allergies do I have?", 1),
    ("german", "Welcher meiner Brüder studiert?", 0),
    ("german", "Welche Nuss vertrage ich nicht?", 1),
    ("german", "Wer hat die Küchen gestrichen?", 2),
    ("spanish", "¿Qué estudian mis hermanos?", 0),
    ("spanish", "¿A qué soy alérgica?", 1),
    ("spanish", "quien ha pintado las cocinas", 2),
    ("french", "Qu'est-ce que mes frères étudient ?", 0),
    ("french", "De quelle couleur est la cuisine ?", 2),
    ("french", "Quelles allergies ai-je ?", 1),
    ("russian", "Что изучают мои братья?", 0),
    ("russian", "На какой орех у меня аллергии?", 1),
    ("russian", "Кто покрасил кухни?", 2),
    ("japanese", "医学を勉強しているのは誰ですか", 0),
    ("japanese", "アレルギーは何ですか", 1),
    ("chinese", "我对什么过敏？", 1),
    ("chinese", "厨房刷成了什么颜色？", 2),
    ("italian", "Che cosa studiano i miei fratelli?", 0),
    ("portuguese", "O que estudam os meus irmãos?", 0),
    ("dutch", "Welke noot verdraag ik niet?", 1),
    ("swedish", "Vad studerar mina bröder för medicin?", 0),
    ("arabic", "ماذا يدرس أخي؟", 0),
]


class TestRecall:
    @pytest.mark.parametrize(("language", "question", "answer"), ASKED)
    async def test_what_is_asked_in_other_forms_is_recalled(self, language: str, question: str, answer: int):
        """The block begins with the statement that answers, and search gives it first."""
        async with threadkeep.open("memory://", embedder="none", owner="ana") as tk:
            for text in KNOWN[language]:
                await tk.memories.remember(text)

            recalled = await tk.recall(question)
            found = await tk.memories.search(question, limit=1)

        assert recalled.memories[0].memory.text == KNOWN[language][answer]
        assert found[0].memory.text == KNOWN[language][answer]

    async def test_languages_live_side_by_side(self):
        """One person's memories in all of them, and each question finds its own."""
        async with threadkeep.open("memory://", embedder="none", owner="ana") as tk:
            for text in (text for texts in KNOWN.values() for text in texts):
                await tk.memories.remember(text)

            found = [(await tk.memories.search(question, limit=1))[0].memory.text for _, question, _ in ASKED]

        right = [text == KNOWN[language][answer] for text, (language, _, answer) in zip(found, ASKED, strict=True)]
        assert sum(right) >= len(right) - 2, [asked for asked, ok in zip(ASKED, right, strict=True) if not ok]

    async def test_unrelated_question_in_another_language_brings_nothing(self):
        """Function words that two languages share say nothing."""
        async with threadkeep.open("memory://", embedder="none", owner="ana") as tk:
            await tk.memories.remember(KNOWN["german"][0])

            recalled = await tk.recall("¿Qué tiempo hace mañana en la montaña?")

        assert recalled.text == ""


class TestSetting:
    async def test_a_language_that_is_set_is_every_texts(self, monkeypatch: pytest.MonkeyPatch):
        """A text of one word tells no language; what is set is used for it."""
        monkeypatch.setenv("THREADKEEP_LANGUAGE", "finnish")
        async with threadkeep.open("memory://", embedder="none", owner="ana") as tk:
            await tk.memories.remember("Koirani")
            await tk.memories.remember("Kissani")

            found = await tk.memories.search("koira", limit=2)

        assert [one.memory.text for one in found if one.score > 0] == ["Koirani"]
        assert tokenise("Koirani", "finnish") != tokenise("Koirani")

    def test_every_language_can_be_set(self):
        """The setting names what the stemmer knows, and nothing else."""
        assert set(get_args(Settings.model_fields["language"].annotation)) == {"auto", *LANGUAGES}


FORMS = {
    "arabic": ("المدرسة", "مدرسة"),
    "danish": ("hundene", "hunden"),
    "dutch": ("lampen", "lamp"),
    "english": ("connections", "connected"),
    "finnish": ("taloissa", "talossa"),
    "french": ("chanteuse", "chanteuses"),
    "german": ("Häuser", "Hauses"),
    "hungarian": ("házakban", "házak"),
    "italian": ("abbandonata", "abbandonati"),
    "norwegian": ("hestene", "hesten"),
    "portuguese": ("meninos", "menino"),
    "romanian": ("prietenilor", "prietenii"),
    "russian": ("книгами", "книга"),
    "spanish": ("cantando", "cantar"),
    "swedish": ("flickorna", "flickor"),
}
"""Two forms of one word; no other language's stemmer is asked."""


class TestStemming:
    def test_there_are_fifteen(self):
        """And each has a pair of forms here."""
        assert FORMS.keys() == set(LANGUAGES)
        assert len(LANGUAGES) == 15

    @pytest.mark.parametrize("language", sorted(FORMS))
    def test_forms_of_a_word_are_one_term(self, language: str):
        """However each is written."""
        first, second = FORMS[language]

        (term,) = tokenise(first, language)

        assert [term] == tokenise(second, language)
        assert first.casefold() != second.casefold()

    @pytest.mark.parametrize("language", sorted(FORMS))
    async def test_another_form_is_found(self, language: str, monkeypatch: pytest.MonkeyPatch):
        """Among others, where the language is set."""
        monkeypatch.setenv("THREADKEEP_LANGUAGE", language)
        first, second = FORMS[language]
        async with threadkeep.open("memory://", embedder="none", owner="ana") as tk:
            for text in (f"{first} 7", "Xylophon 8", "Quark 9"):
                await tk.memories.remember(text)

            found = await tk.memories.search(second, limit=3)

        assert [one.memory.text for one in found if one.score > 0] == [f"{first} 7"]

    @pytest.mark.parametrize(
        ("text", "asked"),
        [
            ("東京で寿司を食べました", "寿司"),
            ("我们在北京吃了烤鸭", "烤鸭"),
            ("서울에서 김치를 먹었습니다", "김치"),
            ("ฉันชอบกินข้าวผัด", "ข้าวผัด"),
            ("ＴＯＫＹＯ ﬁne dining", "tokyo fine"),
            ("Café Zoë in Straße 5", "cafe zoe strasse"),
        ],
    )
    async def test_scripts_without_spaces_and_other_spellings_are_found(self, text: str, asked: str):
        """By pairs of characters; and by what compatible and accented letters stand for."""
        async with threadkeep.open("memory://", embedder="none", owner="ana") as tk:
            for each in (text, "無関係な文", "something unrelated", "전혀 다른 문장"):
                await tk.memories.remember(each)

            found = await tk.memories.search(asked, limit=4)

        assert found[0].memory.text == text
        assert found[0].score > (found[1].score if len(found) > 1 else 0)


class TestLanguageOf:
    @pytest.mark.parametrize(
        ("text", "language"),
        [
            ("I live in Los Angeles with my dog", "english"),
            ("My friend says 'ich liebe dich' when she goes to bed", "english"),
            ("Take care!", "english"),
            ("", "english"),
            ("Hund", "english"),
            ("Ich wohne in Rom", "german"),
            ("Jag bor i Malmö", "swedish"),
            ("Waar woon ik?", "dutch"),
            ("Je vis à Lyon depuis trois ans", "french"),
            ("Où est-ce que j'habite ?", "french"),
            ("¿Cómo se llama mi perro?", "spanish"),
            ("Quale musica ascolto?", "italian"),
            ("Onde é que eu moro?", "portuguese"),
            ("Unde lucrez și ce fac eu acum?", "romanian"),
            ("Missä minä asun?", "finnish"),
            ("Hol és mikor születtem?", "hungarian"),
        ],
    )
    def test_function_words_tell_it(self, text: str, language: str):
        """An English text with foreign words stays English, and so does what says nothing."""
        assert language_of(text.casefold().replace("?", "").replace("'", " ").replace("¿", "").split()) == language

    def test_neighbours_are_both_named(self):
        """A question that may be Danish or Norwegian asks for the stems of both."""
        assert languages_of(["hvor", "bor", "jeg"]) == ("danish", "norwegian")
        assert alternatives("Hvor bor jeg?") == (("bor",),)

    def test_no_function_word_is_a_term(self):
        """Those of the language that a text is in are cut."""
        for language, words in FUNCTION_WORDS.items():
            assert tokenise(" ".join(words), language) == []
