"""Tests of what is searchable, and of the terms that it is found by."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import get_text_at_path

from threadkeep.text.tokenizing import (
    MAX_TERMED_CHARACTERS,
    Language,
    plain_words,
    texts_of,
    texts_of_each,
    tokenise,
    tokenise_each,
)

VALUE = {
    "a": {"b": "deep", "n": 3, "no": None, "yes": True},
    "list": [{"t": "one"}, {"t": "two"}, "plain", ["inner"]],
    "text": "Größe",
    "a.b": "a name with a period",
    "[0]": "a name with brackets",
    "empty": "",
}
PATHS = [
    "$",
    "",
    "text",
    "empty",
    "a",
    "a.b",
    "a.n",
    "a.no",
    "a.yes",
    "missing",
    "a.missing",
    "list",
    "list[0]",
    "list[0].t",
    "list[-1]",
    "list[-1][0]",
    "list[9]",
    "list[-9]",
    "list[*]",
    "list[*].t",
    "list.*",
    "list.*.t",
    "a.*",
    "*",
    "{text,a}",
    "{text, a.b ,missing}",
    "a.{b,n}",
    "text.{b}",
    "list[x]",
    "list[",
    "[0]",
    "a..b",
    ".",
]


class TestTextsOf:
    @pytest.mark.parametrize("path", PATHS)
    def test_a_path_means_what_it_means_to_langgraph(self, path: str):
        """Field paths follow LangGraph's rules, so one index declaration serves both."""
        assert texts_of(VALUE, [path]) == get_text_at_path(VALUE, path)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=3),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            max_leaves=8,
        ).map(lambda value: {"a": value}),
        st.lists(st.sampled_from([".a", ".b", "[0]", "[*]", "[-1]", ".*", ".{a,b.c}"]), max_size=4).map("".join),
    )
    def test_any_value_and_path_means_what_it_means_to_langgraph(self, value: dict[str, object], steps: str):
        """Generated values and paths give LangGraph's texts, in its order."""
        assert texts_of(value, ["a" + steps]) == get_text_at_path(value, "a" + steps)

    def test_texts_stand_in_the_order_of_the_paths(self):
        """Text i is what row i of the embedding stands for."""
        assert texts_of(VALUE, ["text", "list[*].t", "a.b"]) == ["Größe", "one", "two", "deep"]

    def test_a_whole_value_is_its_json(self):
        """``$`` is the value with sorted keys."""
        assert json.loads(texts_of(VALUE, ["$"])[0]) == VALUE


class TestTokenise:
    @pytest.mark.parametrize(
        ("text", "terms"),
        [
            ("", []),
            ("The of and", []),
            ("Running runs", ["run", "run"]),
            ("don't", []),
            ("Ana's café", ["ana", "cafe"]),
            ("Ana’s CAFÉ", ["ana", "cafe"]),
            ("ＦＵＬＬ ﬁne", ["full", "fine"]),
            ("straße STRASSE", ["strass", "strass"]),
            ("snake_case a.b@x.org", ["snake", "case", "b", "x", "org"]),
            ("3.14", ["3", "14"]),
            ("日本", ["日", "本", "日本"]),
            ("हिन्दी", ["हिन्दी"]),
            ("a\x00b \ud800c", ["b", "c"]),
        ],
    )
    def test_terms_are_folded_stemmed_and_without_stop_words(self, text: str, terms: list[str]):
        """The table says what a text is found by."""
        assert tokenise(text) == terms

    @given(st.text(st.characters(codec=None)))
    def test_any_text_is_taken(self, text: str):
        """No text raises, and every term says something."""
        assert all(tokenise(text))

    @given(st.text(st.characters(codec="ascii")))
    def test_plain_text_is_found_in_a_text_with_accents(self, text: str):
        """The quick way for ASCII gives the same terms as the general one."""
        assert tokenise(text) == tokenise(f"{text} ÿ")[:-1]

    @pytest.mark.parametrize("text", ["word " * 300_000, "x" * 10**6, "ÿ " * 500_000, "語" * 10**6, "\ufdfa" * 10**6])
    def test_a_long_text_is_bounded(self, text: str):
        """A megabyte gives a bounded number of bounded terms."""
        terms = tokenise(text)

        assert 0 < len(terms) <= 2 * MAX_TERMED_CHARACTERS
        assert max(map(len, terms)) <= 64

    @pytest.mark.parametrize("question", ["京都", "猫", "京都の猫"])
    def test_text_without_spaces_is_found(self, question: str):
        """A part of a Japanese sentence shares terms with it."""
        assert set(tokenise(question)) & set(tokenise("私は京都で猫を飼っています"))


class TestPlainWords:
    @given(st.text(st.sampled_from("aZ_09'.? \t\x00\x1f\x7f\u00e9\u0130\u00b2") | st.characters(codec="ascii")))
    def test_are_what_the_pattern_finds(self, text: str):
        """Whether a text is ASCII makes no difference but of speed."""
        assert plain_words(text) == set(re.findall(r"\w+", text.lower()))


class TestOfEach:
    """Many at once give what each alone gives."""

    @given(
        st.lists(
            st.text(max_size=20)
            | st.sampled_from(
                ["", "two\nlines\r\nof tea", "Ich habe einen Hund", "学校 school", "a\x00b\x1cc", "Zoë's", "\ud83e"]
            ),
            max_size=8,
        ),
        st.sampled_from([None, "german"]),
    )
    def test_terms(self, texts: list[str], language: Language | None):
        """One after the other, and how many each text has."""
        each = [tokenise(text, language) for text in texts]

        assert tokenise_each(texts, language) == ([term for own in each for term in own], [len(own) for own in each])

    def test_a_long_text(self):
        """What comes after 200,000 characters counts for neither."""
        long = "tea " * (MAX_TERMED_CHARACTERS // 4) + "coffee"

        assert tokenise_each([long, "coffee"]) == (
            ["tea"] * (MAX_TERMED_CHARACTERS // 4) + ["coffe"],
            [MAX_TERMED_CHARACTERS // 4, 1],
        )

    @given(
        st.lists(
            st.tuples(st.sampled_from([VALUE, {"text": "tea"}, {"text": 3}, {}]), st.sampled_from(PATHS)), max_size=5
        )
    )
    def test_texts(self, asked: list[tuple[dict[str, object], str]]):
        """Whether all have the same path or not, and whatever stands there."""
        values = [value for value, _ in asked]
        for paths in ([(path,) for _, path in asked], [("text",)] * len(asked), [("$",)] * len(asked)):
            assert texts_of_each(values, paths) == list(map(texts_of, values, paths))
