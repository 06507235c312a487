from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.text.redaction import MARK, has_secret, redact

# Put together here, so that scanners of this repository do not take the samples for real ones.
SECRETS = [
    ("my key is " + "sk-" + "proj-9aXb2Kc7Lm4Qr8Tz1Vw5", "9aXb2Kc7"),
    ("use " + "sk-ant-" + "api03-Zx81Kq0pLm22vB", "Zx81Kq0p"),
    ("stripe " + "sk_live_" + "4eC39HqLyjWDarjtT1", "4eC39HqL"),
    ("token ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "a1B2c3D4"),
    ("github_pat_" + "11ABCDEFG0aBcDeFgHiJkLm_nOpQ", "11ABCDEFG"),
    ("glpat-" + "xYz12AbC34dEf56GhI78", "xYz12AbC"),
    ("slack says xoxb-" + "123456789012-abcdefGHIJ", "123456789012"),
    ("maps key AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q", "SyA1b2C3"),
    ("hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz012345", "AbCdEfGh"),
    ("aws AKIA" + "Z7QXW3RT5YUP9LKM", "Z7QXW3RT"),
    ("aws_secret_access_key = " + "kJ8s/Wq2nF4vB7xZ0cM5lT9yR3hG6dP1aQwE", "kJ8s/Wq2"),
    ("eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w", "hbGciOiJ"),
    ("Authorization: Bearer " + "0f8a7c6b5d4e3f2a1b0c", "0f8a7c6b"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----", "MIIEow"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE", "b3BlbnNz"),
    ("postgresql://ana:s3cr3t@db.internal:5432/prod", "s3cr3t"),
    ("mongodb+srv://root:p%40ss@cluster0.example.net/app", "p%40ss"),
    ("my password is hunter2", "hunter2"),
    ("My password is swordfish.", "swordfish"),
    ("the password for the guest wifi is blue-harbor-42", "blue-harbor"),
    ("my laptop's password's Tr0ub4dor", "Tr0ub4dor"),
    ("password: correcthorse", "correcthorse"),
    ("Passwort: Sommer2024", "Sommer2024"),
    ("pwd=abc123", "abc123"),
    ('the passphrase is "open sesame"', "open"),
    ("I changed my password to hunter22", "hunter22"),
    ("API_KEY=ab12cd34ef56", "ab12cd34"),
    ("client secret: 8f3k2l9d0s7a", "8f3k2l9d"),
    ("my PIN is 4821", "4821"),
    ("the door code is 7712", "7712"),
    ("your verification code is 993021", "993021"),
    ("card 4111 1111 1111 1111, thanks", "4111 1111"),
    ("pay with 5555555555554444", "5555555555554444"),
    ("amex 3782 822463 10005", "822463"),
    ("here it is: Zk3Vq9Lx2Tn7Rb5Wm1Yp8Hc4Jd6", "Zk3Vq9Lx"),
    ("x7f9a2k3m8q1z5v0b4n6t2y8", "x7f9a2k3"),
    ("https://hooks.slack.com/services/" + "T00000000/B11111111/abcdefghij0123456789", "B11111111"),
    ("npm_" + "1234567890abcdefghijABCDEFGHIJ123456", "1234567890abcdef"),
    ("SG." + "abcdefghij0123456789.klmnopqrst0123456789", "klmnopqrst"),
]

ORDINARY = [
    "I forgot my password again",
    "The password is wrong",
    "Password: required",
    "My password was stolen last year",
    "I use a password manager",
    "We reset the password in Keycloak",
    "The password to my old laptop is lost",
    "Set passwords to expire after 90 days",
    "The token expired yesterday",
    "Our token budget is 300",
    "The secret is patience",
    "The secret to a good sourdough is time",
    "Please call 415-555-0134 after five",
    "My number is +49 170 1234567",
    "Order 1234567890123456789 has shipped",
    "It happened at 1700000000000 milliseconds",
    "Commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b broke the build",
    "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "The request id was 123e4567-e89b-12d3-a456-426614174000",
    "See https://github.com/example/repo/blob/main/src/threadkeep/text/redaction.py#L10",
    "Look at AwsEcsClusterStackProdWest2024Deployment01",
    "The host is my-long-service-name-2024-prod-west-01.internal",
    "user:name is how the field is called",
    "password = os.environ['DB_PASSWORD']",
    "password = request.form['password']",
    "if (password === confirmPassword) { return }",
    "The key to success is sleep",
    "I lost the key to my flat",
    "My basic plan costs 12 euros",
    "He is a bearer of good news",
    "Ask sk-learn users about it",
    "I pin my tabs",
    "The postcode is 10115",
    "We had 2024-05-03 10:30:00 as the date",
    "integrity sha384-" + "oqVuAfXRKap7fdgcCY5uykM6R9GqQ8K2uxy9rx7HNQlGYl1kPzQho1wx4JwY8wC",
    "I live at 12 Long Street, and my dog is 4",
    "Die Passwörter sind sicher",
    "The credentials are wrong",
    "Our access code policy changed",
    "ISBN 978-3-16-148410-0",
]


class TestRedact:
    @pytest.mark.parametrize(("text", "secret"), SECRETS)
    def test_secret_is_replaced(self, text: str, secret: str):
        """A secret goes, what it was stays, and the text says that it held one."""
        clean = redact(text)

        assert secret not in clean
        assert MARK in clean
        assert has_secret(text)
        assert has_secret(clean)

    @pytest.mark.parametrize("text", ORDINARY)
    def test_ordinary_talk_is_left_alone(self, text: str):
        """What only speaks of secrets, or only looks long, is not touched."""
        assert redact(text) == text
        assert not has_secret(text)

    @given(st.lists(st.sampled_from([text for text, _ in SECRETS] + ORDINARY), max_size=6), st.text(max_size=40))
    def test_twice_is_once(self, texts: list[str], noise: str):
        """Redacting what was redacted changes nothing more."""
        once = redact(f" {noise} \n".join(texts))

        assert redact(once) == once

    def test_words_around_a_secret_stay(self):
        """Only the secret is taken out of a sentence."""
        assert redact("so my password is hunter2, ok?") == "so my password is [redacted: password], ok?"

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "unit",
        [
            "a",
            " ",
            "1",
            "4111 ",
            "aB3",
            "a+",
            "eyJ",
            "sk-",
            "a://",
            "a://b:",
            "password ",
            "password for ",
            "secret to a b c ",
            "bearer ",
            "-----BEGIN PRIVATE KEY-----",
            "I live in Lisbon and my password is hunter2. ",
        ],
    )
    @pytest.mark.parametrize("characters", [250_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
    def test_long_text_of_anything_is_read_in_one_pass(self, unit: str, characters: int):
        """No text makes a pattern start over and over: a quadratic one would run for minutes, or hours."""
        text = (unit * (characters // len(unit) + 1))[:characters]

        assert len(redact(text)) > 0
