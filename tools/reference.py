"""Write what the code already says: settings, errors, commands, the public API, ``.env.example``, types of ``tk.sync``.

``python -m tools.reference`` writes them; with ``--check`` it only says which are out of date.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import typer
import typer.main
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings
from typer.core import TyperCommand, TyperGroup, TyperOption

import threadkeep.errors
from threadkeep.errors import SettingsError, StorageError, StorageFullError, StorageVersionError, ThreadkeepError
from threadkeep.gateway.settings import GatewaySettings
from threadkeep.settings import Settings, variables_of
from tools.finding import ROOT, Finding, report
from tools.public_api import parts, public_api, subcommands
from tools.sync_face import sync_face

WRITTEN_BY: Final = "<!-- Written by `make docs` from the code; change it there. -->"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as its readers need it.

    Attributes:
        field: The field of ``Settings``.
        names: The environment variables that set it, the strongest first.
        default: What holds where none is set; empty: nothing.
        description: What it means and what it takes.
        secret: Whether its value is masked wherever it is shown.
    """

    field: str
    names: tuple[str, ...]
    default: str
    description: str
    secret: bool


SETTING_GROUPS: Final[dict[str, re.Pattern[str]]] = {
    heading: re.compile(fields)
    for heading, fields in {
        "Storage": "store_(type|sqlite|redis|postgres|mongodb|key)|data_dir|migrat|sqlite_sync|postgres_|redis_",
        "Models": "model$|embeddings_|agents_file",
        "Recall and search": "recall_|profile|language|rerank|cohere|index_|store_max",
        "Learning": "capture|queue$|queue_p|enable_fact|fact_|kinds_|helper_|extract|memory_pol|proposal_|tombstone_",
        "Threads and runs": "checkpoint_|allowed_types|multitask|lease_|queue_seconds|langgraph_",
        "Window": "max_context|min_messages|auto_compression",
        "Lifetimes": "store_ttl|inactive|reflect|max_memories",
        "Privacy and encryption": "redact|master_|keys|plain_credentials|erasure_",
        "Vector stores": "vectors|pinecone",
        "Tracing, metrics and logs": "trace_|tracing|metrics_|log_",
    }.items()
}
"""The headings of the page of settings, each with the beginnings of the fields below it."""


def settings(source: type[BaseSettings] = Settings) -> Iterator[Setting]:
    """Yield every setting of a class of settings, in its order."""
    for name, field in source.model_fields.items():
        yield Setting(
            name,
            variables_of(source, name),
            _default_text(field.default),
            field.description or "",
            "SecretStr" in str(field.annotation),
        )


def _default_text(default: Any) -> str:
    if default in (None, PydanticUndefined):
        return ""
    if isinstance(default, tuple):
        return ",".join(map(str, cast("tuple[Any, ...]", default)))
    return json.dumps(default) if isinstance(default, dict) else str(default)


def errors() -> list[type[ThreadkeepError]]:
    """Return every error class of the package, in the order of ``errors.py``."""
    return [
        thing
        for thing in vars(threadkeep.errors).values()
        if inspect.isclass(thing) and issubclass(thing, ThreadkeepError)
    ]


Program: TypeAlias = TyperCommand | TyperGroup


def program() -> Program:
    """Return the command line as typer builds it."""
    from threadkeep.cli.main import app

    return cast("Program", typer.main.get_command(app))


def commands(program: Program, before: str = "") -> Iterator[tuple[str, TyperCommand]]:
    """Yield every command that is not a group or hidden, with its words, e.g. ``memories list``."""
    if isinstance(program, TyperCommand):
        yield before, program
        return
    for name, child in subcommands(program).items():
        if not child.hidden:
            yield from commands(cast("Program", child), f"{before} {name}".strip())


def settings_by_group() -> dict[str, list[Setting]]:
    """Return the settings below their headings.

    Raises:
        ValueError: A setting belongs to no group, or to several.
    """
    groups: dict[str, list[Setting]] = {heading: [] for heading in SETTING_GROUPS}
    for setting in settings():
        headings = [heading for heading, fields in SETTING_GROUPS.items() if fields.match(setting.field)]
        if len(headings) != 1:
            msg = f"The setting {setting.field} belongs to {headings}; correct SETTING_GROUPS in tools/reference.py."
            raise ValueError(msg)
        groups[headings[0]].append(setting)
    return groups


def settings_page() -> str:
    """Return ``docs/settings.md``."""
    head = "| Variable | Default | Meaning |\n|---|---|---|\n"
    groups = {**settings_by_group(), "Gateway": [*settings(GatewaySettings)]}
    tables = "\n\n".join(
        f"## {heading}\n\n{head}" + "\n".join(map(_setting_row, rows)) for heading, rows in groups.items()
    )
    return f"""{WRITTEN_BY}

# Settings

Set environment variables to change how Threadkeep works. All may be left unset.

    export LANGGRAPH_STORE_TYPE=postgres
    export LANGGRAPH_STORE_POSTGRES_DSN=postgresql://user:password@host:5432/database
    threadkeep doctor          # the values in force, and where each comes from

The command line also reads the file `.env` of the working directory; variables of the environment win.
`threadkeep.open()` reads the environment only. To use the file there, pass
`settings=threadkeep.Settings.load(env_file=Path(".env"))`.

Every setting of Threadkeep has a name that begins with `THREADKEEP_`. If a row names several variables, they mean the
same, and the first that is set wins. An invalid value stops the start with an error that names the variable.

A secret can be read from a file, such as one that Docker or Kubernetes mounts: add `_FILE` to its variable.

    export LANGGRAPH_STORE_POSTGRES_DSN_FILE=/run/secrets/memory-dsn

{tables}
"""


def errors_page() -> str:
    """Return ``docs/errors.md``."""
    rows = "\n".join(
        f"| `{error.__name__}` | `{error.code}` | {_bases(error)} | {_cell(_first_paragraph(error))} |"
        for error in errors()
    )
    refusals = "\n".join(
        f"| {what} | `{error.code}` | {number} | {advice} |" for what, error, number, advice in START_REFUSALS
    )
    return f"""{WRITTEN_BY}

# Errors

Catch `ThreadkeepError` to catch every error of Threadkeep, or one of its classes below.

    try:
        tk.sync.memories.require(memory_id, owner="ana")
    except threadkeep.ThreadkeepError as error:
        print(error.code, error, error.details)

| attribute | what it has |
|---|---|
| `str(error)` | what is wrong, the value or setting, and what to do |
| `error.code` | a name that is the same in Python, HTTP and the command line |
| `error.details` | the ids involved, never a secret or a memory's text |

| Class | Code | Also caught as | Meaning |
|---|---|---|---|
{rows}

## At the start of a server

`threadkeep serve` and `threadkeep worker` check what they need before they begin. What is wrong is one sentence on
standard error, and no port is open yet.

| What is wrong | Code | Exit code | What to do |
|---|---|---|---|
{refusals}
"""


START_REFUSALS: Final = (
    ("A setting is missing or invalid", SettingsError, 2, "correct the variable that the message names"),
    ("The file of a secret is missing or empty", SettingsError, 2, "name a file that this user can read"),
    ("The port is taken", SettingsError, 2, "choose another `--port`, or stop the process that has it"),
    ("The graph is unknown, or its module cannot be imported", SettingsError, 2, "write `module:function`"),
    ("The code of the graph raises an error", SettingsError, 2, "correct the line that the message names"),
    ("`module:function` returns no compiled graph", SettingsError, 2, "return what `compile()` returned"),
    ("The provider, the package or the key of a model is missing", SettingsError, 2, "do what the message says"),
    ("The port of metrics is taken", SettingsError, 2, "choose another `THREADKEEP_METRICS_PORT`"),
    ("The graph has its own checkpointer", SettingsError, 2, "compile it with `tk.per_run_owner().checkpointer`"),
    ("The folder of the SQLite file cannot be written to", StorageError, 1, "mount it writable for this user"),
    ("The disk is full", StorageFullError, 1, "free some space"),
    ("The tables are newer than the program", StorageVersionError, 1, "upgrade the program"),
    ("The tables are older, and `THREADKEEP_MIGRATE` is `check`", StorageVersionError, 1, "run `threadkeep migrate`"),
)
"""Why a server does not start."""


def commands_page() -> str:
    """Return ``docs/commands.md``."""
    purpose = "Show, change and check memories, threads and storages from a terminal."
    example = "    threadkeep --help\n    threadkeep memories list --user ana"
    parts = [f"{WRITTEN_BY}\n\n# Commands\n\n{purpose}\n\n{example}\n"]
    for words, command in commands(program()):
        usage = " ".join(command.collect_usage_pieces(typer.Context(command)))
        parts.append(f"## `threadkeep {words}`\n\n{inspect.cleandoc(command.help or '').strip()}\n")
        parts.append(f"    threadkeep {words} {usage}".rstrip() + "\n")
        rows = [
            _option_row(option)
            for option in command.params
            if isinstance(option, TyperOption) and not option.hidden and option.name != "help"
        ]
        if rows:
            parts.append("| Option | Meaning | Default |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def api_page() -> str:
    """Return ``docs/api.md``: what mkdocstrings writes from docstrings, each class once."""
    services = {cls: name for name, cls in parts()}
    classes = "\n".join(
        f"## `tk.{name}`\n\n{_directive(cls)}" for cls, name in sorted(services.items(), key=lambda item: item[1])
    )
    exported = (getattr(threadkeep, name) for name in threadkeep.__all__ if name not in {"Threadkeep", "Settings"})
    values = "\n".join(
        _directive(value) for value in exported if inspect.isclass(value) and not issubclass(value, ThreadkeepError)
    )
    return f"""{WRITTEN_BY}

# API reference

`import threadkeep` loads a name when the program first uses it. The methods are async; `tk.sync` has the same ones with
the same arguments, blocking: `await tk.memories.list(owner="ana")` and `tk.sync.memories.list(owner="ana")`.

[Errors](errors.md) lists the exceptions and [settings](settings.md) the fields of `Settings`.

## Open and use

{_directive(threadkeep.open)}
{_directive(threadkeep.Threadkeep)}    options:
      inherited_members: true

{classes}
## Values

{values}"""


def _directive(thing: Any) -> str:
    return f"::: {thing.__module__}.{thing.__qualname__}\n"


def env_example() -> str:
    """Return ``.env.example``: every setting, commented out, with what it means."""
    parts = [
        """\
# Every setting, all of them optional; written by `make docs` from the code. Those of the gateway are at the end.
# Copy this file to .env and take the # away from what you set."""
    ]
    for setting in (*settings(), *settings(GatewaySettings)):
        also = f" Also read from {', '.join(setting.names[1:])}." if setting.names[1:] else ""
        parts.append(f"# {setting.description}{also}\n#{setting.names[0]}={setting.default}")
    return "\n\n".join(parts) + "\n"


PAGES: Final[dict[str, Callable[[], str]]] = {
    ".env.example": env_example,
    "docs/api.md": api_page,
    "docs/commands.md": commands_page,
    "docs/errors.md": errors_page,
    "docs/settings.md": settings_page,
    "src/threadkeep/sync_bridge.pyi": sync_face,
    "tests/library/public_api.txt": public_api,
}


def check_tree(root: Path = ROOT) -> list[Finding]:
    """Return the pages that do not say what the code says."""
    return [
        Finding(name, 0, "out of date; run `make docs`.")
        for name, page in PAGES.items()
        if not (root / name).is_file() or (root / name).read_text(encoding="utf-8") != page()
    ]


def write(root: Path = ROOT) -> None:
    """Write the pages that are out of date, and say which."""
    for finding in check_tree(root):
        (root / finding.path).write_text(PAGES[finding.path](), encoding="utf-8")
        print(f"wrote {finding.path}")


def _setting_row(setting: Setting) -> str:
    names = "<br>".join(f"`{name}`" for name in setting.names)
    secret = " Secret: masked wherever it is shown." if setting.secret else ""
    return f"| {names} | {f'`{setting.default}`' if setting.default else ''} | {_cell(setting.description)}{secret} |"


def _option_row(option: TyperOption) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    said = isinstance(option.default, str | int | float) and not isinstance(option.default, bool)
    return f"| {names} | {_cell(option.help or '')} | {f'`{option.default}`' if said else ''} |"


def _bases(error: type[ThreadkeepError]) -> str:
    bases = [base.__name__ for base in error.__mro__[1:] if base not in (Exception, BaseException, object, OSError)]
    return ", ".join(f"`{base}`" for base in bases)


def _first_paragraph(thing: object) -> str:
    return (inspect.getdoc(thing) or "").partition("\n\n")[0]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(report(check_tree()))
    write()
