"""The rules on names."""

from __future__ import annotations

import pytest

from tools import naming


class TestCheckFileName:
    @pytest.mark.parametrize("path", ["src/threadkeep/utils.py", "tests/helpers.py", "src/threadkeep/common/rank.py"])
    def test_a_file_that_holds_anything_is_found(self, path: str):
        """A folder with such a name counts, too."""
        assert len(naming.check_file_name(path)) == 1

    def test_a_name_of_the_glossary_is_free(self):
        """A name that only contains such a word is another name."""
        assert naming.check_file_name("src/threadkeep/storage/database.py") == []


class TestCheckClassNames:
    @pytest.mark.parametrize(
        "name", ["MemoryManager", "RecallHelper", "TextUtils", "TurnHandler", "UserData", "RunInfo"]
    )
    def test_a_class_that_says_nothing_is_found(self, name: str):
        """Whatever its first word is."""
        found = naming.check_class_names(f"class {name}: ...", "a.py")

        assert [finding.line for finding in found] == [1]

    @pytest.mark.parametrize("name", ["Memories", "Recall", "Metadata", "Database"])
    def test_a_noun_is_free(self, name: str):
        """A word that ends alike is a word of its own."""
        assert naming.check_class_names(f"class {name}: ...", "a.py") == []


class TestCheckTree:
    @pytest.mark.slow
    def test_this_repository_keeps_the_rules(self):
        """Every file and class has a name that says what it is."""
        assert naming.check_tree() == []


class TestLength:
    @pytest.mark.parametrize(("lines", "found"), [(600, 0), (601, 1)])
    def test_modules_of_the_package(self, lines: int, found: int):
        assert len(naming.check_length("x = 1\n" * lines, "src/threadkeep/a.py")) == found

    def test_tests_may_be_longer(self):
        assert naming.check_length("x = 1\n" * 900, "tests/test_a.py") == []
