"""``threadkeep``: the commands, and what happens when one fails."""

from __future__ import annotations

import os
import sys

import typer

from threadkeep import __version__
from threadkeep.cli import (
    agents,
    audit,
    chat,
    collections,
    demo,
    doctor,
    init,
    keys,
    memories,
    owners,
    proposals,
    queue,
    storage,
    threads,
)
from threadkeep.cli.extensions import ExtensibleGroup
from threadkeep.cli.output import err, out
from threadkeep.errors import ThreadkeepError

app = typer.Typer(
    name="threadkeep",
    cls=ExtensibleGroup,
    help="Memory for LangGraph agents: recalled before each turn, learnt after it, yours to see, correct and erase.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # Rich would take longer to import than the whole rest
    pretty_exceptions_enable=False,
)
app.command(rich_help_panel="Use")(chat.chat)
app.command(rich_help_panel="Use")(demo.demo)
app.command(rich_help_panel="Use")(init.init)
app.add_typer(memories.app, name="memories", rich_help_panel="Memory")
app.add_typer(proposals.app, name="proposals", rich_help_panel="Memory")
app.add_typer(threads.app, name="threads", rich_help_panel="Memory")
app.add_typer(collections.app, name="collections", rich_help_panel="Memory")
app.add_typer(owners.app, name="owners", rich_help_panel="Memory")
app.add_typer(audit.app, name="audit", rich_help_panel="Memory")
app.command(rich_help_panel="Operate")(agents.agents)
app.command(rich_help_panel="Operate")(doctor.doctor)
app.command(rich_help_panel="Operate")(queue.worker)
app.add_typer(queue.app, name="queue", rich_help_panel="Operate")
app.add_typer(keys.app, name="keys", rich_help_panel="Operate")
app.add_typer(storage.app, name="storage", rich_help_panel="Operate")


@app.callback(invoke_without_command=True)
def _options(*, version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        out.print(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; our errors are one sentence and exit code 1."""
    try:
        app()
    except ThreadkeepError as error:
        err.print(f"[red]Error[/red] ({error.code}): ", end="")
        err.print(str(error), markup=False)
        sys.exit(1)
    except BrokenPipeError:
        # The reader went away (`| head`): what was printed is all that was wanted.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
