from __future__ import annotations

import pytest

from threadkeep.text.sentences import MAX_CHARACTERS, sentences


class TestSentences:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", []),
            ("   \n\t ", []),
            ("I like tea. I hate rain!", ["I like tea.", "I hate rain!"]),
            ("I live\tin   Lisbon", ["I live in Lisbon"]),
            ("I live in St. Gallen with Dr. Wu.", ["I live in St. Gallen with Dr. Wu."]),
            ("Mudei de médica, é a Dra. Lemos.", ["Mudei de médica, é a Dra. Lemos."]),
            ("Wir wohnen bei Fr. Auer.", ["Wir wohnen bei Fr. Auer."]),
            ("We meet at 9:30 a.m. every day.", ["We meet at 9:30 a.m. every day."]),
            ("My donor card is no. 44-1180, I say.", ["My donor card is no. 44-1180, I say."]),
            ("compiled with -g and it crashes at home", ["compiled with -g and it crashes at home"]),
            ("TypeError in my form since Monday, not yours", ["TypeError in my form since Monday, not yours"]),
            ("I work at Acme Inc. We ship today.", ["I work at Acme Inc.", "We ship today."]),
            ("J. R. Smith is my uncle.", ["J. R. Smith is my uncle."]),
            ("I use Python 3.11 and v1.2.", ["I use Python 3.11 and v1.2."]),
            ("Ich wohne seit dem 3. Mai in Köln.", ["Ich wohne seit dem 3. Mai in Köln."]),
            ("I like tea\nI hate rain", ["I like tea", "I hate rain"]),
            ("About me:\n- I live in Lisbon\n- I like tea", ["About me:", "I live in Lisbon", "I like tea"]),
            ("1. I live in Lisbon\n2) I like tea", ["I live in Lisbon", "I like tea"]),
            ("私は東京に住んでいます。猫が好きです。", ["私は東京に住んでいます。", "猫が好きです。"]),
            ("I like tea… and rain", ["I like tea… and rain"]),
            (
                "Alarm goes at 7:10 these days, earlier than before.",
                ["Alarm goes at 7:10 these days, earlier than before."],
            ),
            (
                "The letter says 10:40, on Monday. I'll be there.",
                ["The letter says 10:40, on Monday.", "I'll be there."],
            ),
            ("I report to Marcus for the review. Smooth this paragraph:", ["I report to Marcus for the review."]),
            ("I report to Marcus. Translate this text: I live in Rome.", ["I report to Marcus."]),
            ("My boss wrote it. I live in Rome. PS: I like it.", []),
            ("Hi Claude, I live in Lisbon.\nBest,\nAna", ["Hi Claude, I live in Lisbon.", "Best,", "Ana"]),
            ("I live in Rome. Dear me, I like it.", ["I live in Rome.", "Dear me, I like it."]),
            ("Our standup is at 9:30\nI like tea", ["Our standup is at 9:30", "I like tea"]),
            ("Improve my build script. I use Make.", ["Improve my build script.", "I use Make."]),
            ("Fix the error message. I use Go.", ["Fix the error message.", "I use Go."]),
            ("I answered the mail. I live in Rome.", ["I answered the mail.", "I live in Rome."]),
            ("这个句子很短。我住在罗马。", ["这个句子很短。", "我住在罗马。"]),
            (
                "I really enjoy long walks in the park near my house and\nalso cooking with my wife.",
                ["I really enjoy long walks in the park near my house and also cooking with my wife."],
            ),
            (
                "i moved to porto. it rains here. my cat hates it. we stay",
                ["i moved to porto.", "it rains here.", "my cat hates it.", "we stay"],
            ),
            (
                "wir fahren inkl. der kinder, d.h. zu viert, ca. drei wochen",
                ["wir fahren inkl. der kinder, d.h. zu viert, ca. drei wochen"],
            ),
            (
                "hope you had a quiet weekend, whatever that means for you\nour cluster is named basalt",
                ["hope you had a quiet weekend, whatever that means for you", "our cluster is named basalt"],
            ),
            (
                "we rehearse restoring the backups on the first working day of each\nquarter, all of us",
                ["we rehearse restoring the backups on the first working day of each quarter, all of us"],
            ),
            (
                "keep it polite for the mgmt. team, approx. ten lines",
                ["keep it polite for the mgmt. team, approx. ten lines"],
            ),
        ],
    )
    def test_text_is_parted_at_its_sentences(self, text: str, expected: list[str]):
        """Stops end a sentence, but for abbreviations, numbers and initials."""
        assert sentences(text) == expected

    @pytest.mark.parametrize(
        "foreign",
        [
            "```\nI live in Rome\n```",
            "```python\nname = 'I live in Rome'",
            "~~~\nI live in Rome\n~~~",
            "> I live in Rome",
            "    I live in Rome",
            "| I live in Rome | yes |",
            "2025-01-02 10:11:12 I live in Rome",
            "ERROR I live in Rome",
            "10.0.0.1 - - I live in Rome",
            'Traceback (most recent call last):\n  File "a.py", line 3\nValueError: I live in Rome',
            "$ echo I live in Rome",
            "tell -v --as I live in Rome",
            "rdfind home -name I live in Rome",
            "at Home.<anonymous> (/srv/I live in Rome.js:12:7)",
            "const home = 'I live in Rome';",
            '{"text": "I live in Rome"}',
            "SELECT * FROM homes WHERE name = 'I live in Rome'",
            "<p>I live in Rome</p>",
            "Translate this: I live in Rome.",
            "Translate this into French:\n\nI live in Rome.\nI like tea too.",
            "Here's the email:\nI live in Rome",
            "My boss wrote: I live in Rome",
            "Here is what the customer said:\nI live in Rome",
            "Subject: hello\nI live in Rome",
            "From: Ana\nI live in Rome\nBest",
            "Ana: I live in Rome",
            "USER: I live in Rome",
            "Proofread: I live in Rome",
            "Can you fix my text: I live in Rome",
            "I live in Rome " * 200,
            "What does this mean: I live in Rome",
            'Look, my aunt.\n"I like rain. I live in Rome."',
            "A guest wrote to us “I like rain. I live in Rome.” yesterday.",
            "<page>\nI like rain.\n\nI live in Rome.\n</page>\nCurious.",
            "---\nI like rain.\n\nI live in Rome.\n---",
            "Please explain this letter to me:\n```\nI like rain.\n```\nI live in Rome.\n```",
        ],
    )
    def test_what_was_pasted_is_left_out(self, foreign: str):
        """Code, logs, quotations, mails and texts that are announced are not the person's own words."""
        found = sentences(f"I like tea.\n\n{foreign}")

        assert found[0] == "I like tea."
        assert "Rome" not in "".join(found)

    @pytest.mark.parametrize(
        "text",
        ["Insulin: 14 units of Lantus at bedtime.", "Passport: 2031. Driving licence: 2028.", "Perro: Rufo, 9 años."],
    )
    def test_a_label_and_a_value_alone_are_a_note(self, text: str):
        """In one line and without first person; in several lines they may be a conversation."""
        assert "".join(sentences(text)).replace(" ", "") == text.replace(" ", "")
        assert sentences(f"{text}\nAna: fine.") == []

    @pytest.mark.parametrize(
        "text",
        [
            "Mum: moved to Berlin last week.",
            "Tom: am allergic to nuts.",
            "Jonas: Wohne jetzt in Bremen.",
            "Maria: vivo aquí.",
        ],
    )
    def test_a_name_and_words_without_a_subject_are_no_note(self, text: str):
        """They may be a line of another's, who speaks of themselves."""
        assert sentences(text) == []

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (
                "My allergies:\n- nuts\n- latex\n\nWhat can I eat in Lima?",
                ["My allergies: nuts; latex", "What can I eat in Lima?"],
            ),
            ("Packing:\nsocks\nhat\n\nI leave on Monday.", ["Packing: socks; hat", "I leave on Monday."]),
            ("Meds I take:\n\n1. Iron, Mon/Wed.\n2. Zinc", ["Meds I take: Iron, Mon/Wed; Zinc"]),
            ("Lista della spesa:\n* latte\n* farina", ["Lista della spesa: latte; farina"]),
            (
                "I moved to Leeds.\nBudget: 900 a month\nI start on Monday.",
                ["I moved to Leeds.", "Budget: 900 a month", "I start on Monday."],
            ),
            (
                "Name: Dana Ortiz\nRole: nurse\nKids: two\n\nCan you write my bio?",
                ["Name: Dana Ortiz", "Role: nurse", "Kids: two", "Can you write my bio?"],
            ),
            (
                "Flight: LH 1234\nFrom: Vienna\nTo: Oslo\nDate: 3 May",
                ["Flight: LH 1234", "From: Vienna", "To: Oslo", "Date: 3 May"],
            ),
            ("Here's my situation: I'm a single dad.", ["Here's my situation: I'm a single dad."]),
            ("Here are our goals:\n- run 5 km", ["Here are our goals: run 5 km"]),
        ],
    )
    def test_lists_and_forms_are_notes(self, text: str, expected: list[str]):
        """None of their lines speaks of its author; what stands below them is the user's."""
        assert sentences(text) == expected

    @pytest.mark.parametrize(
        "text",
        [
            "Eve:\n- I live in Rome\n- got a dog",
            "Rules:\n- always pay in Rome",
            "Here's the email:\n- seen Rome",
            "Here's my essay: I live in Rome.",
            "Here's my sister's plan: I live in Rome.",
            "Eve: moved to Rome\nAna: works there",
            "Eve: moved in 2019\nAna: to Rome?",
            "Eve: 7 then\nAna: 8\nEve: 9, in Rome",
            "From: Eve\nTo: Ana\nDate: 3 May\n\nI live in Rome.",
            "From: Eve\nTo: Ana\nSubject: Flat 3\n\nSeen in Rome.",
            "From: eve@x.example\nTo: Ana\nDate: 3 May\n\nSeen in Rome.",
            "Name: Rohan\nJob: surveyor\nKids: two\n\nI have worked in Rome.",
        ],
    )
    def test_lists_and_lines_of_a_conversation_are_left_out(self, text: str):
        """They speak of their authors, say what shall be done, or are announced."""
        assert "Rome" not in "".join(sentences(text))

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Can you look over this text?\n\nI live in Rome.", ["Can you look over this text?"]),
            ("I live in Rome.\n\nI like rain.\n\nTranslate the above.", ["Translate the above."]),
            ("Read this page.\n\nI live in Rome.\n\nSummarise this text.", []),
            ("I live in Rome.\n\nCan you review this code?", ["I live in Rome.", "Can you review this code?"]),
        ],
    )
    def test_a_text_that_is_asked_about_is_not_theirs(self, text: str, expected: list[str]):
        """Where the first or last paragraph asks about one, the others are it; if both do, nobody can tell."""
        assert sentences(text) == expected

    def test_a_command_within_a_sentence_is_kept(self):
        said = "We build the firmware with ninja -j 8."
        assert sentences(said) == [said]

    def test_titles_are_kept(self):
        """What is called something is no quotation."""
        said = 'I watched "The Lord of the Rings" last night.'
        assert sentences(said) == [said]

    @pytest.mark.parametrize(
        "said",
        [
            "I always close it as 'Old Stan from number 9', people expect that.",
            'We end our letters with "Warm regards from all at the mill".',
            "Je signe mes lettres « Le vieux marin du port de Brest ».",
        ],
    )
    def test_how_the_user_signs_is_kept(self, said: str):
        """In its quotation marks; what others say in them is not."""
        assert sentences(said) == [said]
        assert "Stan" not in sentences("She told me 'Old Stan from number 9 is gone', believe it.")[0]

    def test_own_words_after_fenced_code_are_kept(self):
        """A fence ends what was announced."""
        found = sentences("Here's my code:\n```\nx = 1\n```\nI use Flask with three workers.")

        assert found == ["I use Flask with three workers."]

    def test_beginning_of_a_huge_message_is_looked_at(self):
        """The length of a message does not decide how long it takes."""
        found = sentences("I like tea.\n" + "word " * MAX_CHARACTERS)

        assert found == ["I like tea."]

    @pytest.mark.parametrize("text", ["\x00", "\ud800 I like tea", "\u202e", "?!?!", "…", "-" * 5000, "." * 5000])
    def test_any_text_is_taken(self, text: str):
        """Nothing that can be typed makes it raise."""
        assert all(sentence.strip() for sentence in sentences(text))
