"""``threadkeep agents``: which sub-agents can be used, and why others cannot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threadkeep.cli.output import DataDir, Json, opened, out, print_json

if TYPE_CHECKING:
    from threadkeep.langgraph.agents.servers import Standing


def agents(
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="TOML file of declarations; unset: THREADKEEP_AGENTS.")
    ] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Ask the server of each declared sub-agent; tell which can be used, and why others cannot."""
    with opened(data_dir) as tk:
        standing: list[Standing] = tk.sync.agents.standing(file)
    if json:
        print_json([{"name": one.name, "ready": one.ready, "reason": one.reason} for one in standing])
        return
    for one in standing:
        out.print("[green]ready[/green]    " if one.ready else "[yellow]disabled[/yellow] ", end="")
        said = f"{len(one.tools)} tools" if one.ready else one.reason
        out.print(f"{one.name}: {said}", markup=False)
