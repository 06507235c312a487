"""``threadkeep conversations``: learn from exports of earlier conversations."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from threadkeep.cli.output import DEFAULT_USER, CommandGroup, DataDir, Json, User, emit, plain, progress, run

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.transfer.conversation_exports import ConversationImport

app = typer.Typer(cls=CommandGroup, help="Learn from conversations with other programs.", no_args_is_help=True)


class Program(Enum):
    """The program of an export."""

    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    SLACK = "slack"
    WHATSAPP = "whatsapp"
    JSON = "json"


class Order(Enum):
    """What comes first in a date."""

    DMY = "dmy"
    MDY = "mdy"


@app.callback()
def _group() -> None:
    """Learn from conversations with other programs."""


@app.command("import")
def import_(
    path: Annotated[Path, typer.Argument(help="The export: a JSON or text file, a ZIP, or a folder.")],
    user: User = DEFAULT_USER,
    program: Annotated[
        Program | None,
        typer.Option("--format", help="The program. Unset: recognised by the content.", show_default=False),
    ] = None,
    me: Annotated[
        str | None, typer.Option(help="The user's name or id in a Slack or WhatsApp export.", show_default=False)
    ] = None,
    dates: Annotated[
        Order | None,
        typer.Option(help="Day or month first, in a WhatsApp chat that does not tell.", show_default=False),
    ] = None,
    data_dir: DataDir = None,
    *,
    accept: Annotated[
        bool, typer.Option("--accept", help="Keep what the policy keeps, instead of proposing every statement.")
    ] = False,
    json: Json = False,
) -> None:
    """Learn from the user's own messages; statements become proposals. Repeat it at any time."""
    with progress("Conversations") as bar:

        async def learn(tk: Threadkeep) -> ConversationImport:
            return await tk.import_conversations(
                path,
                owner=user,
                program=cast("Any", program.value if program else None),
                me=me,
                dates=cast("Any", dates.value if dates else None),
                accept=accept,
                progress=bar,
            )

        result = run(learn, data_dir, creates=True)
    lines = [
        f"{result.conversations:,} conversations ({result.program}), {result.messages:,} messages, {result.new:,} new.",
        f"{result.memories:,} memories; {result.proposals:,} proposals, which `threadkeep proposals list` shows.",
        *(f"{plain(one.conversation_id)}: left out, {plain(one.reason)}" for one in result.skipped),
    ]
    emit(asdict(result), lines, json=json)
    if result.skipped:
        raise typer.Exit(1)
