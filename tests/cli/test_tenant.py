"""``--tenant``: commands reach the users of a tenant, such as those of the gateway: their tenant is their issuer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
import pytest
from typer.main import get_command

from tests.command_line import CliRunner, Result
from threadkeep.cli.main import app
from threadkeep.errors import InvalidInputError

OF_ISSUER = ("--user", "ana", "--tenant", "https://issuer.example")
WITHOUT = ("--user", "ana")

pytestmark = pytest.mark.usefixtures("folder")


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=stdin, catch_exceptions=False)


def answer(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def texts(*owner: str) -> list[str]:
    return [row["text"] for row in answer("memories", "list", "--kind", "semantic", *owner)]


def commands(group: Any, path: str = "threadkeep") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def test_every_command_that_names_a_user_takes_a_tenant() -> None:
    options = {path: {one.name for one in command.params} for path, command in commands(get_command(app))}

    assert [path for path, names in options.items() if "user" in names and "tenant" not in names] == []


class TestOwner:
    def test_memories_are_those_of_the_tenant(self) -> None:
        answer("memories", "add", "I live in Lisbon.", *OF_ISSUER)
        answer("memories", "add", "I live in Rome.", *WITHOUT)

        assert texts(*OF_ISSUER) == ["I live in Lisbon."]
        assert texts(*WITHOUT) == ["I live in Rome."]

    def test_erasing_leaves_the_user_of_the_same_name(self) -> None:
        """The question names the tenant, too."""
        answer("memories", "add", "I live in Lisbon.", *OF_ISSUER)
        answer("memories", "add", "I live in Rome.", *WITHOUT)

        refused = run("owners", "erase", *OF_ISSUER)
        answer("owners", "erase", *OF_ISSUER, "--yes")

        assert "about ana of https://issuer.example (1 memory and 0 threads)" in refused.stderr
        assert (texts(*OF_ISSUER), texts(*WITHOUT)) == ([], ["I live in Rome."])

    def test_a_chat_learns_for_the_user_of_the_tenant(self) -> None:
        run("chat", *OF_ISSUER, stdin="I live in Lisbon.\n")

        assert texts(*OF_ISSUER) == ["I live in Lisbon."]
        assert texts(*WITHOUT) == []
        assert len(answer("threads", "list", *OF_ISSUER)) == 1

    def test_scopes_are_of_the_tenant(self) -> None:
        tenant = OF_ISSUER[2:]
        answer("scopes", "create", "team:ops", *tenant)
        answer("scopes", "grant", "team:ops", "ana", "--role", "review", *tenant)

        proposed = answer("scopes", "propose", "team:ops", "Deploys happen on Mondays.", *OF_ISSUER)

        assert proposed["status"] == "proposed"
        assert [one["scope"]["user_id"] for one in answer("scopes", "list", *tenant)] == ["ops"]
        assert answer("scopes", "list") == []

    def test_a_tenant_without_a_user_is_refused(self) -> None:
        """Where no user means all of them."""
        with pytest.raises(InvalidInputError, match="--tenant names no user: pass --user, too"):
            run("queue", "list", *OF_ISSUER[2:])
