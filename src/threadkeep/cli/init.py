"""``threadkeep init``: the two files that a LangGraph project needs."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Final

import typer

from threadkeep.cli.output import Json, out, print_json
from threadkeep.errors import InvalidInputError

_LANGGRAPH_JSON: Final = {
    "dependencies": ["."],
    "graphs": {"agent": "threadkeep.langgraph.graph:graph"},
    "store": {"path": "threadkeep.langgraph.graph.store"},
    "env": ".env",
}
_ENV: Final = """\
# Read by `langgraph dev` and by the `threadkeep` command in this folder.
# Every setting is explained in Threadkeep's docs/settings.md.

# The chat model as provider:name, e.g. openai:gpt-5-mini; empty: an offline stand-in that quotes memories.
THREADKEEP_MODEL=

# Where memories are kept: sqlite, memory, postgres, redis or mongodb; empty: SQLite in the user's data folder.
# The three servers need their address, too, and `pip install "threadkeep[postgres]"` (or redis, mongodb).
LANGGRAPH_STORE_TYPE=
LANGGRAPH_STORE_SQLITE_PATH=
LANGGRAPH_STORE_POSTGRES_DSN=
LANGGRAPH_STORE_REDIS_URL=
LANGGRAPH_STORE_MONGODB_URI=
"""


def init(
    folder: Annotated[Path, typer.Argument(help="Where to write them.")] = Path(),
    *,
    force: Annotated[bool, typer.Option(help="Replace files that are there.")] = False,
    json: Json = False,
) -> None:
    """Write langgraph.json and .env for `langgraph dev`."""
    files = {"langgraph.json": json_module.dumps(_LANGGRAPH_JSON, indent=2) + "\n", ".env": _ENV}
    present = [name for name in files if (folder / name).exists()]
    if present and not force:
        msg = f"{' and '.join(present)} exist already in {folder}; use --force to replace."
        raise InvalidInputError(msg)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
            (folder / name).chmod(0o600 if name == ".env" else 0o644)
    except OSError as error:
        msg = f"{folder} cannot be written to ({error.strerror}); choose another folder."
        raise InvalidInputError(msg) from error
    if json:
        print_json([str(folder / name) for name in files])
        return
    for name in files:
        out.print(f"Wrote {folder / name}", markup=False)
