"""The check on language finds what it is for, and nothing else."""

from __future__ import annotations

import pytest

from tools.language import (
    check_class_names,
    check_identifiers,
    check_module_name,
    check_page,
    check_sentences,
    check_test_names,
)


class TestModuleNames:
    def test_an_old_name_is_found(self):
        """As a module and as a package."""
        assert check_module_name("src/threadkeep/doors.py")
        assert check_module_name("src/threadkeep/moving/models.py")

    def test_a_standard_name_passes(self):
        """The repository's own modules do."""
        assert not check_module_name("src/threadkeep/memories/retention.py")


class TestClassNames:
    def test_a_class_name_used_twice_is_found_in_both_places(self):
        """One name has one meaning."""
        findings = check_class_names({"a.py": "class Entry: ...", "b.py": "class Entry: ...\nclass Other: ..."})

        assert [(finding.path, finding.line) for finding in findings] == [("a.py", 1), ("b.py", 1)]


class TestIdentifiers:
    @pytest.mark.parametrize("source", ["class Told(int): ...", "def _whose(): ...", "async def has_room(): ..."])
    def test_a_private_word_is_found(self, source: str):
        """In classes and functions, private ones, too."""
        assert [finding.line for finding in check_identifiers(source, "a.py")] == [1]

    def test_a_standard_term_passes(self):
        """A word of the list inside another one is none."""
        assert not check_identifiers("class ServerRoomba: ...\ndef resolve_owner(): ...", "a.py")


class TestTestNames:
    @pytest.mark.parametrize("name", ["test_nobody_reads_it", "test_each_door_is_locked", "test_the_loser_is_told"])
    def test_a_hidden_subject_is_found(self, name: str):
        """In the names of tests alone."""
        assert check_test_names(f"def {name}(): ...", "tests/test_a.py")
        assert not check_test_names(f"def {name.removeprefix('test_')}(): ...", "tests/test_a.py")

    def test_a_standard_name_passes(self):
        """A word of the list inside another one is none."""
        assert not check_test_names("def test_a_read_only_home_is_named(): ...", "tests/test_a.py")


class TestSentences:
    @pytest.mark.parametrize(
        "source",
        [
            '"""Return whose thread it is."""',
            "# nobody waits for it",
            'msg = "Somebody else wrote it."',
            'help = "Whoever may read it."',
        ],
    )
    def test_a_hidden_subject_is_found(self, source: str):
        """In docstrings, comments and messages."""
        assert check_sentences(source, "src/threadkeep/memories/models.py")

    def test_words_of_users_are_no_sentences_of_ours(self):
        """Patterns about what users say hold any word."""
        assert not check_sentences(r'PATTERN = "whose turn is it"', "src/threadkeep/text/facts.py")
        assert check_sentences('"""Whose turn it is."""', "src/threadkeep/text/facts.py")

    def test_a_page_is_checked_outside_quotes_and_code(self):
        """A quoted question keeps its words, and the line number is that of the sentence."""
        assert not check_page('The user asks "Whose turn is it?".\n\n```\nwhose = 1\n```\n', "docs/a.md")
        assert [finding.line for finding in check_page("```\nx\n```\nNobody knows.\n", "docs/a.md")] == [4]
