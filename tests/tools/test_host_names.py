"""The rule on addresses; they are put together here, so that this file holds none."""

from __future__ import annotations

import pytest

from tools import host_names

REGISTRIES = [
    ".".join(parts)
    for parts in [
        ("pypi", "org"),
        ("test", "pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("registry", "npmjs", "org"),
    ]
]
PLACES = [
    "/".join(parts)
    for parts in [("", "root", "x"), ("", "home", "kim", "x"), ("", "Users", "kim", "x"), ("", "work", "main", "x")]
]


class TestCheck:
    @pytest.mark.parametrize("host", REGISTRIES)
    def test_a_registry_is_found(self, host: str):
        """In a lock file's link as in prose."""
        found = host_names.check(f"first line\nwheel = https://{host}/packages/a.whl", "some.lock")

        assert [finding.line for finding in found] == [2]

    @pytest.mark.parametrize("place", PLACES)
    def test_a_path_of_one_machine_is_found(self, place: str):
        """It is true nowhere else."""
        assert len(host_names.check(f"see {place}", "README.md")) == 1

    @pytest.mark.parametrize(
        "text", ["~/.local/share/threadkeep", "https://github.com/a/b", "a user called root/x", "/home/ana/memory.db"]
    )
    def test_what_is_true_everywhere_is_free(self, text: str):
        """Also the example user's home."""
        assert host_names.check(text, "README.md") == []


class TestCheckTree:
    @pytest.mark.slow
    def test_this_repository_holds_none(self):
        """Every file that git tracks or would add."""
        assert host_names.check_tree() == []
