"""Opens the memory for the commands, asks for confirmation, and prints: lines for people, JSON for programs."""

from __future__ import annotations

import json as json_module
import os
import shutil
import sys
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, TypeVar, cast
from unicodedata import category

import typer
from typer.core import TyperGroup
from typing_extensions import override

from threadkeep.errors import InvalidInputError
from threadkeep.identity import Owner, owner_of_user

if TYPE_CHECKING:
    from rich.console import Console

    from threadkeep.client import Threadkeep
    from threadkeep.settings import Settings

T = TypeVar("T")


def _folder(path: str) -> Path:
    """Refuse an empty path, which would be the current directory."""
    if not path:
        msg = "it is empty: name a folder, or omit the option."
        raise typer.BadParameter(msg)
    return Path(path)


DEFAULT_USER: Final = "me"
_UNLIMITED: Final = 10_000

User = Annotated[str, typer.Option("--user", "-u", help="The user; any id.")]
Tenant = Annotated[
    str, typer.Option("--tenant", help="The tenant: of the gateway's users their issuer.", show_default=False)
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="Folder of the SQLite files.", show_default=False, parser=_folder, metavar="<path>"
    ),
]
Output = Annotated[Path | None, typer.Argument(help="The new file; - or unset: standard output.", metavar="[FILE]")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation; required where there is no terminal.")
]


class CommandGroup(TyperGroup):
    """A group of commands that lists their descriptions in full; click cuts them at the width of the terminal."""

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(limit=_UNLIMITED)) for name, command in commands if command is not None
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


# Opening


def load_settings(data_dir: Path | None) -> Settings:
    """Return the settings of the environment and of ``.env`` in the current directory."""
    from threadkeep.settings import ENV_FILE, Settings

    return Settings.load(env_file=ENV_FILE if ENV_FILE.is_file() else None, data_dir=data_dir)


def open_memory(data_dir: Path | None, *, settings: Settings | None = None, **options: Any) -> Threadkeep:
    """Open the memory of *settings*, or else of the environment: SQLite unless they say otherwise."""
    import threadkeep

    return threadkeep.open(settings=settings or load_settings(data_dir), **options)


def run(
    work: Callable[[Threadkeep], Coroutine[Any, Any, T]],
    data_dir: Path | None = None,
    *,
    creates: bool = False,
    settings: Settings | None = None,
) -> T:
    """Open the memory, check that it can be used, do *work*, and close it.

    Args:
        work: The work.
        data_dir: Folder of the SQLite files.
        creates: Whether a missing database is created. Without it, *work* gets an empty memory instead.
        settings: Instead of the environment's.
    """
    settings = settings or load_settings(data_dir)
    settings = settings if creates else settings_of_existing(settings)

    async def run_checked() -> T:
        async with open_memory(data_dir, settings=settings) as tk:
            await tk.ready()
            return await work(tk)

    return wait(run_checked())


def read(work: Callable[[Threadkeep], Coroutine[Any, Any, T]], data_dir: Path | None = None) -> T:
    """Do *work* that only reads and embeds nothing: without the embedding model, the workers and the upkeep.

    Args:
        work: The work.
        data_dir: Folder of the SQLite files.
    """
    from threadkeep.client import Threadkeep
    from threadkeep.clock import SystemClock
    from threadkeep.container import Container
    from threadkeep.registry import create_storage

    settings, clock = settings_of_existing(load_settings(data_dir)), SystemClock()

    async def run_unchecked() -> T:
        async with Threadkeep(
            Container(settings, create_storage(settings, clock), None, clock, background=False)
        ) as tk:
            return await work(tk)

    return wait(run_unchecked())


def wait(work: Coroutine[Any, Any, T]) -> T:
    """Run *work* in an event loop of its own. asyncio is imported here because showing help does not need it."""
    import asyncio

    return asyncio.run(work)


def missing_database(settings: Settings) -> Path | None:
    """Return the path of the memories' SQLite file if it does not exist; None: it exists, or a server keeps them."""
    if settings.store_type in (None, "sqlite") and not settings.sqlite_path.exists():
        return settings.sqlite_path
    return None


def settings_of_existing(settings: Settings, *, instead: str = "showing an empty memory") -> Settings:
    """Return *settings* with a storage in RAM in place of each SQLite file that is missing; no file is created.

    Args:
        settings: The settings.
        instead: What happens as the database is missing; it is printed.
    """
    changes: dict[str, Any] = {}
    threads = settings.thread_path
    if (missing := missing_database(settings)) is not None:
        err.print(f"The database {missing} does not exist yet; {instead}.", markup=False)
        if settings.unused_server is not None:
            err.print(settings.unused_server, markup=False)
        elif settings.store_sqlite_path is None:
            err.print("If your application uses another file, set LANGGRAPH_STORE_SQLITE_PATH to it.", markup=False)
        changes.update(store_type="memory", keys=None)
        if threads is not None and threads.exists():  # a graph without memory has threads only
            changes.update(checkpoint_type="sqlite", checkpoint_sqlite_path=threads)
    if settings.checkpoint_type is not None and threads is not None and not threads.exists():
        changes["checkpoint_type"] = "memory"
    return settings.model_copy(update=changes) if changes else settings


def location_of(tk: Threadkeep) -> str:
    """Return kind and place of the storage, without a password."""
    return f"{tk.app.storage.name} {tk.app.storage.location}"


MIN_PREFIX: Final = 4
"""How many characters of an id are enough if no other id begins with them."""


def optional_owner(user: str | None, tenant: str) -> Owner | None:
    """Return the owner that the options name; None: no user is given.

    Raises:
        InvalidInputError: A tenant is given without a user.
    """
    if user is not None:
        return owner_of_user(user, tenant)
    if tenant:
        msg = "--tenant names no user: pass --user, too."
        raise InvalidInputError(msg)
    return None


def named(owner: Owner) -> str:
    """Return the id of *owner*, and the tenant if it has one, on one line."""
    return plain(f"{owner.user_id} of {owner.tenant}" if owner.tenant else owner.user_id)


def options_of(owner: Owner) -> str:
    """Return the options that name *owner* to a command."""
    tenant = f" --tenant {plain(owner.tenant)}" if owner.tenant else ""
    return f"--user {plain(owner.user_id)}{tenant}"


def counted(number: int, plural: str) -> str:
    """Return *number* with its noun: ``1 memory``, ``2,000 memories``."""
    singular = plural.removesuffix("ies") + "y" if plural.endswith("ies") else plural.removesuffix("s")
    return f"{number:,} {singular if number == 1 else plural}"


def full_id(prefix: str, ids: Iterable[str], *, noun: str) -> str:
    """Return the one of *ids* that is *prefix* or begins with it; *prefix* itself if there is none.

    Raises:
        InvalidInputError: Several begin with it.
    """
    matches = sorted({one for one in ids if one.startswith(prefix)}) if len(prefix) >= MIN_PREFIX else []
    if prefix in matches or not matches:
        return prefix
    if len(matches) > 1:
        several = ", ".join(matches[:3])
        msg = f"{len(matches)} {noun} begin with {prefix!r} ({several}); give more characters."
        raise InvalidInputError(msg)
    return matches[0]


# Printing

WIDTH_OF_FILES: Final = 200
"""How many characters a line of a table may have in a file or a pipe; Rich would cut the columns to fit 80."""


class _LazyConsole:
    """A console that is created when something is first printed, as importing Rich takes longer than showing help."""

    def __init__(self, *, stderr: bool) -> None:
        self._stderr = stderr

    def __getattr__(self, name: str) -> Any:
        return getattr(self.console, name)

    @cached_property
    def console(self) -> Console:
        from rich.console import Console

        terminal = (sys.stderr if self._stderr else sys.stdout).isatty()
        width = None if terminal else shutil.get_terminal_size((WIDTH_OF_FILES, 1)).columns  # COLUMNS, if it is set
        create = partial(Console, stderr=self._stderr, highlight=False, soft_wrap=True, width=width)
        console = create()
        if not console.no_color:
            return console
        # Rich would still print bold, and FORCE_COLOR would let it do so into a file: NO_COLOR wins.
        return create(color_system=None, force_terminal=terminal)


out: Final = _LazyConsole(stderr=False)
err: Final = _LazyConsole(stderr=True)


def emit(value: object, lines: Iterable[str], *, json: bool) -> None:
    """Print the result of a command: *value* as JSON, or *lines* for people."""
    if json:
        print_json(value)
        return
    for line in lines:
        out.print(line, markup=False)


def print_json(value: object) -> None:
    """Print *value* as one line of JSON; any text survives, lone surrogates included."""
    sys.stdout.write(to_json(value) + "\n")
    sys.stdout.flush()


def to_json(value: object) -> str:
    """Return *value* as one line of ASCII JSON: dataclasses as objects, times as ISO texts, durations in seconds."""
    from pydantic_core import to_jsonable_python

    plain_value = to_jsonable_python(value, timedelta_mode="float", fallback=_fallback)
    return json_module.dumps(plain_value, ensure_ascii=True)


def _fallback(value: object) -> object:
    return dict(cast("Mapping[object, object]", value)) if isinstance(value, Mapping) else str(value)


def to_json_lines(rows: Iterable[object]) -> str:
    """Return *rows* as JSON Lines."""
    return "".join(to_json(row) + "\n" for row in rows)


def write_rows(output: Path | None, rows: Sequence[object], *, noun: str) -> None:
    """Print *rows* as JSON Lines, or write them to the new file *output* and print their number and *noun*."""
    if output is None or is_stream(output):
        for row in rows:
            print_json(row)
        return
    with new_file(output) as file:
        file.write(to_json_lines(rows).encode("ascii"))
    out.print(f"{counted(len(rows), noun)} written to {output}", markup=False)


def is_stream(path: Path) -> bool:
    """Return whether *path* is ``-``: standard input or standard output."""
    return str(path) == "-"


@contextmanager
def new_file(path: Path) -> Generator[BinaryIO]:
    """Create a file that only its owner can read.

    Raises:
        InvalidInputError: It already exists, or cannot be written.
    """
    with writing(path), os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        yield file


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Turn an error of the file system into one that says what to do."""
    try:
        yield
    except OSError as error:
        msg = f"{path} cannot be written ({error.strerror}); choose another path."
        raise InvalidInputError(msg) from error


def confirm(question: str, *, yes: bool) -> None:
    """Ask *question* on the error stream unless *yes*; return only if the answer is yes.

    Raises:
        Exit: The answer was no, or there is no terminal to ask on. Nothing has been done.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        err.print(f"{question} There is no terminal to ask on. Nothing was done. Pass --yes to go on.", markup=False)
        raise typer.Exit(1)
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        agreed = False
        err.print()
    if not agreed:
        err.print("Nothing was done. Answer y, or pass --yes.")
        raise typer.Exit(1)


@contextmanager
def progress(title: str, *, quiet: bool = False) -> Generator[Callable[[int, int], None]]:
    """Show a progress bar on the error stream; yield a function of the done and the total."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err.console, transient=True, disable=quiet or not err.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def plain(text: str) -> str:
    """Return *text* on one line, without control characters that would steer the terminal."""
    return visible(" ".join(text.split()))


def visible(text: str, *, besides: str = "") -> str:
    """Return *text* with control characters replaced; spaces, joiners inside words and those of *besides* stay."""
    allowed = "\u200c\u200d" + besides  # Persian words and emoji are spelled with joiners
    return "".join(c if c.isprintable() or c in allowed or category(c) == "Zs" else "\ufffd" for c in text)
