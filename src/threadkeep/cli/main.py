"""``threadkeep``: the commands, those that other installed packages add, and the exit code of one that fails."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import Any, Final

import typer

from threadkeep import __version__
from threadkeep.cli import (
    chat,
    collections,
    installation,
    keys,
    memories,
    owners,
    profile,
    proposals,
    scopes,
    service,
    storage,
    threads,
)
from threadkeep.cli.output import CommandGroup, err, out
from threadkeep.errors import InvalidInputError, SettingsError, ThreadkeepError

ENTRY_POINTS: Final = "threadkeep.commands"
"""Each entry point of the group names a command and refers to a ``typer.Typer``."""

_PACKAGES: Final = {"bench": "threadkeep-evals", "eval": "threadkeep-evals", "replay": "threadkeep-evals"}


class ExtensibleGroup(CommandGroup):
    """The commands of Threadkeep, then those of installed packages.

    Entry points are read for the list of commands and for a name that Threadkeep does not have: no other command
    pays for reading them.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        own = super().list_commands(ctx)
        return [*own, *(name for name in _entry_points() if name not in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, or None if no package has it.

        Raises:
            InvalidInputError: The package of the command is not installed.
        """
        if own := super().get_command(ctx, cmd_name):
            return own
        if entry_point := _entry_points().get(cmd_name):
            from typer.main import get_command

            command = get_command(entry_point.load())
            command.name = cmd_name
            return command
        if package := _PACKAGES.get(cmd_name):
            msg = f"threadkeep {cmd_name} needs the package {package}. Install it: pip install {package}"
            raise InvalidInputError(msg)
        return None


def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {entry_point.name: entry_point for entry_point in sorted(entry_points(group=ENTRY_POINTS))}


app = typer.Typer(
    name="threadkeep",
    cls=ExtensibleGroup,
    help="Memory for LangGraph agents: recalled before each turn, learnt after it, yours to see, correct and erase.",
    no_args_is_help=True,
    context_settings={"max_content_width": 1_000},  # as wide as the terminal: click stops at 80 columns otherwise
    add_completion=False,
    rich_markup_mode=None,  # Rich would take longer to import than the whole rest
    pretty_exceptions_enable=False,
)
app.command(rich_help_panel="Use")(chat.chat)
app.command(rich_help_panel="Use")(chat.demo)
app.command(rich_help_panel="Use")(installation.init)
app.add_typer(memories.app, name="memories", rich_help_panel="Memory")
app.add_typer(profile.app, name="profile", rich_help_panel="Memory")
app.add_typer(owners.credentials_app, name="credentials", rich_help_panel="Memory")
app.add_typer(proposals.app, name="proposals", rich_help_panel="Memory")
app.add_typer(scopes.app, name="scopes", rich_help_panel="Memory")
app.add_typer(threads.app, name="threads", rich_help_panel="Memory")
app.add_typer(collections.app, name="collections", rich_help_panel="Memory")
app.add_typer(threads.conversations_app, name="conversations", rich_help_panel="Memory")
app.add_typer(owners.app, name="owners", rich_help_panel="Memory")
app.add_typer(owners.audit_app, name="audit", rich_help_panel="Memory")
app.command(rich_help_panel="Operate")(installation.agents)
app.command(rich_help_panel="Operate")(installation.doctor)
app.command(rich_help_panel="Operate")(service.serve)
app.command(rich_help_panel="Operate")(service.mcp)
app.add_typer(service.api_keys_app, name="api-keys", rich_help_panel="Operate")
app.command(rich_help_panel="Operate")(service.worker)
app.command(rich_help_panel="Operate")(service.migrate)
app.add_typer(service.queue_app, name="queue", rich_help_panel="Operate")
app.add_typer(keys.app, name="keys", rich_help_panel="Operate")
app.add_typer(storage.app, name="storage", rich_help_panel="Operate")


@app.callback(invoke_without_command=True)
def _options(*, version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        out.print(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; our errors are one sentence and exit code 1, or 2 where a setting is wrong."""
    # Otherwise the interpreter's last collections look at every object of every module that was imported: a second of
    # a processor for a gateway, and half a minute on a machine that is busy.
    atexit.register(gc.freeze)
    try:
        app()
    except ThreadkeepError as error:
        err.print(f"[red]Error[/red] ({error.code}): ", end="")
        err.print(str(error), markup=False)
        sys.exit(2 if isinstance(error, SettingsError) else 1)
    except BrokenPipeError:
        # The reader went away (`| head`): what was printed is all that was wanted.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
