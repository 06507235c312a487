"""What is heard in other languages than English."""

from __future__ import annotations

import pytest

from threadkeep.text.facts import is_standing, statements

STANDING_ELSEWHERE = """
Antworte mir immer auf Deutsch.
Bitte antworte auf Deutsch.
Ab jetzt bitte immer auf Deutsch antworten.
Bitte duze mich immer.
Schreib mir nie mehr als drei Sätze.
Verwende für Code immer TypeScript.
Antworten Sie bitte auf Englisch.
Réponds toujours en français.
Réponds-moi en français, s'il te plaît.
Ne réponds jamais en anglais.
N'utilise jamais d'emojis.
À partir de maintenant, réponds en français.
Responde siempre en español.
Por favor, contéstame en español.
Nunca uses emojis.
No uses nunca emojis.
A partir de ahora, trátame de usted.
Responda sempre em português.
Por favor, responda em português.
Nunca use emojis.
De agora em diante, fale comigo em inglês.
Rispondimi sempre in italiano.
Non usare mai emoji.
D'ora in poi rispondi in italiano.
Rispondi in italiano, per favore.
いつも日本語で答えてください。
日本語で回答してください。
今後は絵文字を使わないでください。
常に敬語で話してください。
以后请用中文回答。
请用中文回答。
从现在起不要使用表情符号。
Gib mir Beispiele ab jetzt immer in Python.
"""
OF_THE_MOMENT_ELSEWHERE = """
Erkläre mir, warum der Build nie funktioniert.
Erkläre mir warum der Build nie funktioniert.
Ich antworte immer auf Deutsch.
Mein Chef antwortet immer auf Deutsch.
Schreib eine Mail auf Deutsch an Anna.
Schreib Anna dass sie immer willkommen ist.
Antworte bitte schnell.
Übersetze das auf Englisch.
Explique-moi pourquoi ça ne marche jamais.
Je réponds toujours en français.
Réponds à cette question.
Explica por qué nunca funciona el test.
Mi jefe responde siempre en español.
Traduce esto al inglés.
Explique por que nunca funciona.
Meu chefe sempre responde em português.
Spiegami perché non funziona mai.
Il mio capo risponde sempre in italiano.
Scrivi una mail in italiano a Marco.
この文を日本語に翻訳してください。
私はいつも日本語で答えています。
日本語で答えてくれますか？
如何用中文回答这个问题？
请用中文写一封信。
我总是用中文回答。
"""


class TestIsStanding:
    """How to answer from now on, in seven languages beside English."""

    @pytest.mark.parametrize("text", STANDING_ELSEWHERE.split("\n")[1:-1])
    def test_it_is_kept_as_how_to_behave(self, text: str):
        (found,) = statements(text)

        assert found.text == text
        assert is_standing(text)

    @pytest.mark.parametrize("text", OF_THE_MOMENT_ELSEWHERE.split("\n")[1:-1])
    def test_a_task_or_a_story_is_not(self, text: str):
        """Asked once, asked about, or told of somebody: the words for always may stand in it."""
        assert not any(is_standing(found.text) for found in statements(text))
