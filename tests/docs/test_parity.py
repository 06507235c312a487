"""The documents name what exists, and leave out nothing that does."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
import typer
import typer.main
from typer.core import TyperGroup

from threadkeep.gateway.settings import GatewaySettings
from tools import docs_parity, reference
from tools.finding import ROOT


@pytest.fixture
def program() -> TyperGroup:
    """A command line of one group, which has one command, and of one command more."""
    inner, outer = typer.Typer(), typer.Typer()
    inner.callback()(lambda: None)
    inner.command("list")(lambda: None)
    outer.command("demo")(lambda: None)
    outer.add_typer(inner, name="memories")
    return cast("TyperGroup", typer.main.get_command(outer))


def messages(findings: list[docs_parity.Finding]) -> list[str]:
    return [finding.message for finding in findings]


class TestCheckSettings:
    def test_a_setting_that_nothing_reads_is_found(self):
        """With the line that names it."""
        found = docs_parity.check_settings({"README.md": "a\nset THREADKEEP_COLOUR=1"}, set())

        assert [(finding.path, finding.line) for finding in found] == [("README.md", 2)]

    def test_a_setting_that_docs_leave_out_is_found(self):
        """Naming it in the README alone does not document it."""
        found = docs_parity.check_settings(
            {"README.md": "REDIS_URL", "docs/settings.md": "OLD_REDIS_URL_2"}, {"REDIS_URL"}
        )

        assert messages(found) == ["the setting REDIS_URL is not documented."]

    def test_a_server_for_tests_is_no_setting(self):
        """Tests are told where a server is by such a variable."""
        assert docs_parity.check_settings({"README.md": "THREADKEEP_TEST_POSTGRES"}, set()) == []


class TestCheckErrors:
    def test_an_error_that_nothing_raises_is_found(self):
        """Python's own are known."""
        found = docs_parity.check_errors({"README.md": "`GoneError` or `ValueError`"}, {})

        assert messages(found) == ["no error is called GoneError."]

    def test_a_class_and_a_code_that_docs_leave_out_are_found(self):
        """Both are what somebody searches for."""
        found = docs_parity.check_errors({"docs/errors.md": "`ClosedError`"}, {"ClosedError": "closed_already"})

        assert messages(found) == ["the error closed_already is not documented."]


class TestCheckCommands:
    @pytest.mark.parametrize(
        "text", ["`threadkeep memory list`", "```sh\nthreadkeep memory list\n```", "    threadkeep memory list"]
    )
    def test_a_command_that_does_not_exist_is_found(self, text: str, program: TyperGroup):
        """In a line, in a fenced and in an indented block."""
        found = docs_parity.check_commands({"README.md": text}, program)

        assert "threadkeep has no command 'memory'." in messages(found)

    def test_a_command_that_docs_leave_out_is_found(self, program: TyperGroup):
        """Every command has its place in docs/."""
        found = docs_parity.check_commands({"docs/commands.md": "## `threadkeep demo`"}, program)

        assert messages(found) == ["the command threadkeep memories list is not documented."]

    def test_an_argument_is_no_command(self, program: TyperGroup):
        """What follows a command is its own affair."""
        found = docs_parity.check_commands(
            {"docs/a.md": "`threadkeep demo twice`, `threadkeep memories list`"}, program
        )

        assert found == []


class TestCheckTargets:
    def test_a_target_that_does_not_exist_is_found(self):
        """Only where it is set as code: people make other things, too."""
        text = "    make demo\n\nmake sure, then `make demos`"

        found = docs_parity.check_targets({"README.md": text}, "demo: setup\n")

        assert messages(found) == ["the Makefile has no target 'demos'."]


class TestCheckPaths:
    def test_a_path_that_does_not_exist_is_found(self, tmp_path: Path):
        """A module that was moved, a page that was renamed."""
        (tmp_path / "src").mkdir()
        texts = {"docs/a.md": "`src/gone.py`, `src/`, [page](gone.md), [site](https://example.org/src/x)"}

        found = docs_parity.check_paths(texts, tmp_path)

        assert sorted(messages(found)) == ["the link leads nowhere: gone.md", "there is no src/gone.py."]


class TestThisRepository:
    def test_generated_pages_say_what_the_code_says(self):
        """``make docs`` writes them anew."""
        assert [str(finding) for finding in reference.check_tree()] == []

    @pytest.mark.slow
    def test_documents_and_code_agree(self):
        """Settings, errors, commands, targets and paths, both ways round."""
        assert [str(finding) for finding in docs_parity.check_tree()] == []

    def test_every_setting_says_what_it_takes(self):
        """A description is what the error message and the pages are made from."""
        assert [setting.names[0] for setting in reference.settings() if not setting.description.endswith(".")] == []

    def test_the_env_example_holds_every_setting(self):
        """Commented out, so that a copy of it changes nothing."""
        lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()

        every = [*reference.settings(), *reference.settings(GatewaySettings)]
        assert all(f"#{setting.names[0]}={setting.default}" in lines for setting in every)
        assert all(not line or line.startswith("#") for line in lines)
