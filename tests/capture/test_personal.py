"""Personal data that a deployment wants cut out, and what only looks like it."""

from __future__ import annotations

import random
import string
from typing import Any

import pytest

import threadkeep
from threadkeep.errors import SettingsError
from threadkeep.testing import HashingEmbedder
from threadkeep.text.redaction import KINDS, redact, redactor

ALL = redactor(KINDS, region="US")

PERSONAL = [
    ("write to ana.maria+news@mail.example.org, please", "ana.maria", "e-mail address"),
    ("mail: ANA@EXAMPLE.ORG.", "ANA@", "e-mail address"),
    ("jürgen@bücher.example", "jürgen", "e-mail address"),
    ("call me on +49 170 1234567 after five", "170", "telephone number"),
    ("Tel. +351 912 345 678", "912", "telephone number"),
    ("my number is (415) 555-2671", "555", "telephone number"),
    ("IBAN DE89 3704 0044 0532 0130 00, thanks", "3704", "IBAN"),
    ("GB29NWBK60161331926819", "NWBK", "IBAN"),
    ("pay PT50 0002 0123 1234 5678 9015 4 TODAY", "0002", "IBAN"),
    ("my router has 203.0.113.7", "203", "IP address"),
    ("link-local is fe80::1", "fe80", "IP address"),
    ("and 2001:db8::8a2e:370:7334 at home", "8a2e", "IP address"),
]

ORDINARY = [
    "I met 3 people @ the harbour",
    "the handle is @ana_maria",
    "It costs 1,200.50 or 1 200,50",
    "Order 1234567890123456789 has shipped",
    "It was 2024-05-01 12:30:45 and 1700000000000 milliseconds",
    "version 1.2.3 of 10.4.2.1000",
    "localhost is 127.0.0.1 or ::1",
    "the ratio is 3:2:1 and the time 12:30:45",
    "DE89 3704 0044 0532 0130 02 has a wrong sum",
    "Flight TP1234 leaves at 18:45 from gate B12",
    "room AB12 CD34 EF56",
    "std::vector::size and a::b",
]


class TestPersonal:
    @pytest.mark.parametrize(("text", "told", "what"), PERSONAL)
    def test_it_is_cut_out(self, text: str, told: str, what: str):
        """And named, and what stands around it stays; a second time changes nothing."""
        clean = ALL(text)

        assert told not in clean
        assert f"[redacted: {what}]" in clean
        assert ALL(clean) == clean
        assert clean.split(" ")[0] in text or clean.startswith("[redacted")

    @pytest.mark.parametrize("text", ORDINARY)
    def test_what_only_looks_like_it_stays(self, text: str):
        """Prices, times, versions, orders, names of code."""
        assert ALL(text) == text

    @pytest.mark.parametrize(("text", "told", "what"), PERSONAL)
    def test_nothing_of_it_goes_unasked(self, text: str, told: str, what: str):
        """By default only secrets are cut out."""
        assert redactor(()) is redact
        assert told in redact(text)

    def test_each_kind_is_for_itself(self):
        """Who asks for one is given that one."""
        text = "ana@x.org, +49 170 1234567, 203.0.113.7"

        assert redactor(["ip"])(text) == "ana@x.org, +49 170 1234567, [redacted: IP address]"
        assert redactor(["email"])(text) == "[redacted: e-mail address], +49 170 1234567, 203.0.113.7"

    def test_national_phone_numbers_need_a_region(self):
        """Without one only those with a + are told."""
        assert redactor(["phone"])("(415) 555-2671") == "(415) 555-2671"

    def test_secrets_go_in_any_case(self):
        """They come first."""
        assert ALL("my password is hunter2, mail a@b.org") == (
            "my password is [redacted: password], mail [redacted: e-mail address]"
        )

    def test_random_texts_are_left_alone(self):
        """Two thousand codes, amounts and dates of every shape: at most one in two hundred is taken for something."""
        dice = random.Random(7)

        def shape() -> str:
            pattern = dice.choice(
                ["AA-9999", "A9A 9A9", "99.99.9999", "99/99/99", "9,999.99", "AAA9999999", "#99999", "99:99"]
            )
            return "".join(
                dice.choice(string.ascii_uppercase) if c == "A" else dice.choice(string.digits) if c == "9" else c
                for c in pattern
            )

        texts = [f"I noted {shape()} and then {shape()} today" for _ in range(2000)]

        assert sum(ALL(text) != text for text in texts) <= 10

    @pytest.mark.parametrize("nasty", ["1 2 3 4 5 6 7 8 9 ", "a.b-c@", "AB12 ", "1.2.3.", ":a:b", "+1 "])
    def test_long_texts_are_bounded(self, nasty: str):
        """Whatever repeats: the time limit of a test is the measure."""
        ALL(nasty * 8_000)


class TestSetting:
    """``THREADKEEP_REDACT``."""

    @pytest.mark.parametrize(
        ("given", "sentence"),
        [
            ({"THREADKEEP_REDACT": "email,names"}, "THREADKEEP_REDACT names 'names'"),
            ({"THREADKEEP_REDACT": "phone", "THREADKEEP_REDACT_REGION": "Berlin"}, "THREADKEEP_REDACT_REGION"),
        ],
    )
    def test_what_is_wrong_stops_it(self, given: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch):
        """Rather than nothing being cut out in silence."""
        for variable, value in given.items():
            monkeypatch.setenv(variable, value)

        with pytest.raises(SettingsError, match=sentence):
            threadkeep.open("memory://", embedder="none")

    async def test_it_holds_for_all_that_is_kept(self, monkeypatch: pytest.MonkeyPatch):
        """Turns, memories that are added, and proposals."""
        monkeypatch.setenv("THREADKEEP_REDACT", "email, phone")
        async with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            said: Any = [
                {"role": "user", "content": "I live in Lisbon. Mail me at ana@canary.org or +351 912 345 678."}
            ]
            await tk.capture(said, owner="ana", thread_id="1", wait=True)
            await tk.memories.remember("My sister has ana.sister@canary.org.", owner="ana")

            held = [str(row) async for row in tk.owners.export("ana")]

        assert any("Lisbon" in row for row in held)
        assert any("[redacted: e-mail address]" in row for row in held)
        assert not any("canary.org" in row or "912 345" in row for row in held)

    async def test_a_waiting_turn_holds_none_of_it(self, monkeypatch: pytest.MonkeyPatch):
        """It is cut out before the turn record is written."""
        monkeypatch.setenv("THREADKEEP_REDACT", "email")
        async with threadkeep.open("memory://", embedder="none") as tk:
            said: Any = [{"role": "user", "content": "Mail me at ana@canary.org."}]
            await tk.capture(said, owner="ana", thread_id="1")
            (row,) = [row async for row in tk.owners.export("ana") if row["type"].startswith("turn")]

        assert "canary.org" not in str(row)
