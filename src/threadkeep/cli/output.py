"""How the command line speaks: tables for people, one JSON value for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, TypeVar
from unicodedata import category

import typer

from threadkeep.errors import InvalidInputError

if TYPE_CHECKING:
    from rich.console import Console

    from threadkeep.client import Threadkeep
    from threadkeep.settings import Settings

T = TypeVar("T")


class _Late:
    """A console that is made when something is first said, because Rich takes longer to import than help to answer."""

    def __init__(self, *, stderr: bool) -> None:
        self._stderr = stderr

    def __getattr__(self, name: str) -> Any:
        return getattr(self.console, name)

    @cached_property
    def console(self) -> Console:
        from rich.console import Console

        asked = Console(stderr=self._stderr, highlight=False, soft_wrap=True)
        if not asked.no_color:
            return asked
        # Rich would still print bold, and FORCE_COLOR would let it do so into a file: NO_COLOR wins.
        terminal = (sys.stderr if self._stderr else sys.stdout).isatty()
        return Console(stderr=self._stderr, highlight=False, soft_wrap=True, color_system=None, force_terminal=terminal)


out: Final = _Late(stderr=False)
err: Final = _Late(stderr=True)


def _folder(given: str) -> Path:
    """Refuse an empty name, which would be the folder that somebody happens to be in."""
    if not given:
        msg = "it is empty; name a folder, or leave the option out."
        raise typer.BadParameter(msg)
    return Path(given)


User = Annotated[str, typer.Option("--user", "-u", help="Whose memory; any id.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="Folder of the SQLite files.", show_default=False, parser=_folder, metavar="<path>"
    ),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="File to write; unset: standard output.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")]

DEFAULT_USER: Final = "me"


def print_json(value: object) -> None:
    """Print *value* as one line of JSON; any text survives, lone surrogates included."""
    sys.stdout.write(dumped(value) + "\n")
    sys.stdout.flush()


def give_lines(output: Path | None, rows: Sequence[object], *, noun: str) -> None:
    """Print *rows* as JSON Lines, or write them to *output* and say how many of what they are."""
    if output is None:
        for row in rows:
            print_json(row)
        return
    with new_file(output) as file:
        file.write(as_lines(rows).encode("ascii"))
    out.print(f"{len(rows)} {noun} written to {output}", markup=False)


def as_lines(rows: Iterable[object]) -> str:
    """Return *rows* as JSON Lines."""
    return "".join(dumped(row) + "\n" for row in rows)


@contextmanager
def new_file(path: Path) -> Generator[BinaryIO]:
    """Open a file that is made for this, readable by its owner only.

    Raises:
        InvalidInputError: It is there already, or cannot be written.
    """
    import os

    with may_be_written(path), os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        yield file


@contextmanager
def may_be_written(path: Path) -> Generator[None]:
    """Say what to do where *path* cannot be written."""
    try:
        yield
    except OSError as error:
        msg = f"{path} cannot be written ({error.strerror}); give another place."
        raise InvalidInputError(msg) from error


def env_settings(data_dir: Path | None) -> Settings:
    """Return what is set: in the environment, and in ``.env`` where the command is run."""
    from threadkeep.settings import Settings

    env_file = Path(".env")
    return Settings.load(env_file=env_file if env_file.is_file() else None, data_dir=data_dir)


def opened(data_dir: Path | None, *, settings: Settings | None = None, **options: Any) -> Threadkeep:
    """Open the memory that the command line works on: SQLite unless the settings say otherwise."""
    import threadkeep

    return threadkeep.open(settings=settings or env_settings(data_dir), **options)


def run(
    work: Callable[[Threadkeep], Coroutine[Any, Any, T]],
    data_dir: Path | None = None,
    *,
    creates: bool = False,
    settings: Settings | None = None,
) -> T:
    """Open the memory, check that it can be used, do *work*, and close it in order.

    Args:
        work: What to do.
        data_dir: Folder of the SQLite files.
        creates: Whether a missing database is created. Without it, *work* sees an empty memory instead.
        settings: Instead of the environment's.
    """
    import asyncio

    wanted = settings or env_settings(data_dir)
    used = wanted if creates else existing(wanted)

    async def checked() -> T:
        async with opened(data_dir, settings=used) as tk:
            await tk.ready()
            return await work(tk)

    return asyncio.run(checked())


def read(work: Callable[[Threadkeep], Coroutine[Any, Any, T]], data_dir: Path | None = None) -> T:
    """Do *work* that only reads and embeds nothing: without the embedding model, the workers and the upkeep.

    Args:
        work: What to read.
        data_dir: Folder of the SQLite files.
    """
    import asyncio

    settings = existing(env_settings(data_dir)).model_copy(update={"capture": "off"})

    async def unchecked() -> T:
        async with opened(data_dir, settings=settings, embedder="none") as tk:
            tk.app.background = False
            return await work(tk)

    return asyncio.run(unchecked())


def missing_database(settings: Settings) -> Path | None:
    """Return the path of the memories' SQLite file if it does not exist; None: it exists, or a server keeps them."""
    if settings.store_type in (None, "sqlite") and not settings.sqlite_path.exists():
        return settings.sqlite_path
    return None


def existing(settings: Settings) -> Settings:
    """Return *settings* with a storage in RAM in place of each SQLite file that is missing; no file is created."""
    changes: dict[str, Any] = {}
    if (missing := missing_database(settings)) is not None:
        err.print(f"There is no memory at {missing} yet.", markup=False)
        changes.update(store_type="memory", keys=None)
    threads = settings.checkpoint_type or settings.store_type or "sqlite"
    if threads == "sqlite" and not settings.checkpoint_path.exists():
        changes["checkpoint_type"] = "memory"
    return settings.model_copy(update=changes) if changes else settings


Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation; required where there is no terminal.")
]


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


def place_of(tk: Threadkeep) -> str:
    """Return kind and place of the storage, as it may be shown; never a password."""
    return f"{tk.app.storage.name} {tk.app.storage.location}"


@contextmanager
def progress(title: str, *, quiet: bool = False) -> Generator[Callable[[int, int], None]]:
    """Show a bar on the error stream while something takes its time; call it with done and total."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err.console, transient=True, disable=quiet or not err.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def plain(text: str) -> str:
    """Return *text* as it may be shown on a terminal: control characters cannot steer it."""
    return visible(" ".join(text.split()))


def visible(text: str, *, besides: str = "") -> str:
    """Return *text* without what could steer a terminal; spaces, joiners inside words and what is *besides* stay."""
    allowed = "\u200c\u200d" + besides  # Persian words and emoji are spelled with joiners
    return "".join(c if c.isprintable() or c in allowed or category(c) == "Zs" else "\ufffd" for c in text)


def dumped(value: object) -> str:
    """Return *value* as one line of ASCII JSON: dataclasses as objects, times as ISO texts, durations in seconds."""
    from pydantic_core import to_jsonable_python

    return json.dumps(to_jsonable_python(value, timedelta_mode="float", serialize_unknown=True), ensure_ascii=True)
