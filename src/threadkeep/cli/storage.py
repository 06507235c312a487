"""``threadkeep storage``: work on a storage as a whole."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from threadkeep.cli.output import (
    CommandGroup,
    DataDir,
    Json,
    Yes,
    confirm,
    counted,
    emit,
    err,
    load_settings,
    missing_database,
    out,
    plain,
    print_json,
    progress,
    settings_of_existing,
    wait,
)
from threadkeep.errors import InvalidInputError

if TYPE_CHECKING:
    from threadkeep.models.base import Embedder
    from threadkeep.settings import Settings
    from threadkeep.storage.interface import Storage
    from threadkeep.transfer.copying import Moving
    from threadkeep.transfer.importer import Checked, Copied
    from threadkeep.transfer.sources import TransferSource

T = TypeVar("T")

_SHOWN: Final = 20
_TIMEOUT_MS: Final = 600_000
"""No turn waits for these commands: a server may take longer than it may in a turn."""

app = typer.Typer(
    cls=CommandGroup,
    help="Work on a storage as a whole: check, copy, re-embed, sweep and count it.",
    no_args_is_help=True,
)

Url = Annotated[
    str | None,
    typer.Option("--url", help="The storage, e.g. sqlite:///m.db; unset: that of the settings.", show_default=False),
]


@app.command()
def stats(url: Url = None, data_dir: DataDir = None, *, json: Json = False) -> None:
    """Count the contents of the storage."""

    async def work(storage: Storage, moving: Moving) -> dict[str, Any]:
        found = await moving.stats()
        return {
            "storage": f"{storage.name} {storage.location}",
            "partitions": found.partitions,
            "items": found.items,
            "size_bytes": found.size_bytes,
        }

    total = _run(url, load_settings(data_dir), work)
    size = "" if total["size_bytes"] is None else f", {total['size_bytes'] / 1_000_000:,.1f} MB"
    lines = [
        total["storage"],
        f"  {_contents(total['items'], total['partitions'])}{size}",
    ]
    emit(total, lines, json=json)


@app.command()
def sweep(url: Url = None, data_dir: DataDir = None, *, json: Json = False) -> None:
    """Remove expired rows, as a running application does every ten minutes, and threads of erased owners.

    Threads that are missing from their owner's list are listed again.
    """

    async def work(_storage: Storage, moving: Moving) -> tuple[int, int]:
        return await moving.sweep(), await moving.mend_threads()

    swept, threads = _run(url, load_settings(data_dir), work)
    lines = [f"{swept:,} expired items removed.", f"{threads:,} threads listed again, or removed with their owners."]
    emit({"swept": swept, "threads": threads}, lines if threads else lines[:1], json=json)


@app.command()
def check(
    url: Url = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="Another storage's URL, or a file with its output of --json: both must have the same contents.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Read the whole storage and report faults; the exit code is 1 if there are any.

    With --against it is also compared with another storage, or with an earlier report, as after a copy or a restore.
    """
    settings = load_settings(data_dir)
    with progress("Checking", quiet=json) as bar:

        async def work(_storage: Storage, moving: Moving) -> Checked:
            return await moving.check(progress=bar)

        found = _run(url, settings, work, embeds=True)
        other = None if against is None else _sums_of(against) or _sums(_run(against, settings, work))
    same = other is None or other == _sums(found)
    if json:
        compared = {} if other is None else {"against": other, "same": same}
        print_json({**_fields(found), "sound": found.sound, **compared})
    else:
        _show_checked(found)
        if other is not None:
            out.print("Both hold the same." if same else _difference(_sums(found), other), markup=False)
    sys.exit(0 if found.sound and same else 1)


_SUMS: Final = ("items", "partitions", "checksum")


def _sums(found: Checked) -> dict[str, Any]:
    return {name: getattr(found, name) for name in _SUMS}


def _sums_of(against: str) -> dict[str, Any] | None:
    """Return what was printed of a storage into the file *against*; ``None``: that is a URL."""
    from json import loads

    if "://" in against:
        return None
    try:
        told: Any = loads(Path(against).read_text(encoding="utf-8"))
        return {name: told[name] for name in _SUMS}
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = f"{against} cannot be read as what threadkeep storage check --json prints ({type(error).__name__})."
        raise InvalidInputError(msg) from error


def _contents(items: int, partitions: int) -> str:
    return f"{counted(items, 'items')} in {counted(partitions, 'partitions')}"


def _difference(here: dict[str, Any], there: dict[str, Any]) -> str:
    if here["items"] != there["items"] or here["partitions"] != there["partitions"]:
        counts = f"{_contents(there['items'], there['partitions'])}"
    else:
        counts = "as many items"
    return f"The other holds something else: {counts}, checksum {there['checksum']}."


@app.command("re-embed")
def re_embed(url: Url = None, data_dir: DataDir = None, *, json: Json = False) -> None:
    """Compute all vectors with the current embedding model. Repeat the command to continue after an interruption."""
    from threadkeep.transfer.importer import Embedded

    with progress("Embedding", quiet=json) as bar:

        async def work(_storage: Storage, moving: Moving) -> Embedded:
            return await moving.embed_anew(progress=bar)

        done = _run(url, load_settings(data_dir), work, embeds=True)
    embedded = f"{done.embedded:,} of {done.searchable:,} searchable items have new vectors of {done.model}"
    lines = [f"{embedded}; {done.current:,} had them already."]
    if done.changed:
        lines.append(f"{done.changed:,} were changed by another writer meanwhile; run it again.")
    emit(done, lines, json=json)
    sys.exit(1 if done.changed else 0)


@app.command()
def copy(
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="A storage's URL; langgraph+sqlite:///…, langgraph+postgresql://…, langgraph+redis://… or "
            "langgraph+mongodb://… for LangGraph's own stores; mem0:export.json.",
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option("--to", help="The storage to copy into; unset: that of the settings.", show_default=False),
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option(
            help="JSON object of labels and user ids, for labels that lost their periods.", show_default=False
        ),
    ] = None,
    from_prefix: Annotated[
        str | None, typer.Option(help="Key prefix of the source; unset: as set.", show_default=False)
    ] = None,
    to_prefix: Annotated[
        str | None, typer.Option(help="Key prefix of the target; unset: as set.", show_default=False)
    ] = None,
    approved_by: Annotated[
        str | None,
        typer.Option(
            help="The person who approved foreign statements about how to behave; unset: they become proposals.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDir = None,
    *,
    from_unsealed: Annotated[
        bool, typer.Option("--from-unsealed", help="The source is not encrypted, although a master key is set.")
    ] = False,
    to_unsealed: Annotated[
        bool, typer.Option("--to-unsealed", help="Do not encrypt the target, although a master key is set.")
    ] = False,
    labels_are_ids: Annotated[
        bool, typer.Option("--labels-are-ids", help="No period was ever replaced in a label: each is a user id.")
    ] = False,
    into_existing: Annotated[
        bool, typer.Option("--into-existing", help="Allow a target that is not empty; its items stay.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="With --into-existing: replace items that differ.")
    ] = False,
    without_vectors: Annotated[
        bool,
        typer.Option(
            "--without-vectors", help="Do not embed foreign items now; `threadkeep storage re-embed` does it later."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read the source, write nothing, and report what would be copied.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Copy a storage, or another system's memories, and verify the copy. Repeat the command to continue.

    Threads are copied, too, also those with a key of their own. A storage that `LANGGRAPH_CHECKPOINT_TYPE` names stays.
    """
    from threadkeep.registry import resolve_settings
    from threadkeep.transfer.sources import reading_from

    settings = load_settings(data_dir)
    if overwrite and not dry_run:
        confirm(f"Replace what differs in {_location(target, settings)}?", yes=yes)
    _require_another(source, target, settings, from_prefix, to_prefix)
    into = _with_prefix(settings, to_prefix)
    resolved = resolve_settings(target, _unsealed(into) if to_unsealed else into)
    if missing_database(resolved) is not None:  # a new file has no tables that another process uses
        resolved = resolved.model_copy(update={"migrate": "auto"})
    title = "Reading" if dry_run else "Copying"
    base = _unsealed(settings) if from_unsealed else settings
    with progress(title, quiet=json) as bar:

        async def copied() -> tuple[Copied, Copied | None]:
            """Open the source first: if it is not there, no target is created."""
            opened = await _source(source, base, from_prefix, mapping, approved_by, exact=labels_are_ids)
            async with reading_from(opened):
                await _require_labels(opened, dry_run=dry_run)

                threads: Copied | None = None

                async def copy_threads(resumed: bool) -> bool:
                    nonlocal threads
                    if not opened.foreign:
                        of_source = resolve_settings(source, _with_prefix(base, from_prefix))
                        merge = into_existing or resumed
                        threads = await _copy_threads(
                            of_source, resolved, dry=dry_run, merge=merge, overwrite=overwrite
                        )
                    return threads is None or not threads.unequal

                async def copy_into(_storage: Storage, moving: Moving) -> Copied:
                    return await moving.copy(
                        opened,
                        dry=dry_run,
                        merge=into_existing,
                        overwrite=overwrite,
                        credentials=resolved.sealed or resolved.plain_credentials,
                        vectors=not without_vectors,
                        progress=bar,
                        then=copy_threads,
                    )

                if not dry_run:
                    return await _work_on(resolved, copy_into, embeds=not without_vectors), threads
                there = settings_of_existing(resolved, instead="the copy would create it")
                done = replace(await _work_on(there, copy_into), target=_location(target, into))
                await copy_threads(resumed=False)
                return done, threads

        done, threads = wait(copied())
    complete = done.complete and (threads is None or threads.complete)
    if json:
        print_json({**_fields(done), "threads": None if threads is None else _fields(threads), "complete": complete})
    else:
        for each in filter(None, (done, threads)):
            _show_copied(each)
    sys.exit(0 if complete else 1)


async def _copy_threads(
    source: Settings, target: Settings, *, dry: bool, merge: bool, overwrite: bool
) -> Copied | None:
    """Copy the threads that are kept beside the memories of *source* to their place beside those of *target*.

    Returns:
        What was copied; ``None``: they are in the storage of the memories, or in one that both have in common.
    """
    from threadkeep.clock import SystemClock
    from threadkeep.registry import create_storage
    from threadkeep.thread_access import create_thread_storage, storage_place, thread_storage_settings
    from threadkeep.transfer.copying import Copying, connected
    from threadkeep.transfer.sources import StorageSource, reading_from

    here, there = thread_storage_settings(source), thread_storage_settings(target)
    if here is None or there is None or storage_place(here) == storage_place(there):
        return None
    if missing_database(here) is not None:
        return None
    clock = SystemClock()
    old, new = (
        create_thread_storage(_with_long_timeouts(one), create_storage(one, clock), clock) for one in (source, target)
    )
    async with reading_from(StorageSource(old, key_prefix=here.store_key_prefix)) as opened:
        copying = Copying(opened, new, clock, merge=merge, overwrite=overwrite)
        if dry:
            return await copying.run(dry=True)
        async with connected(new):
            return await copying.run()


def _run(
    url: str | None,
    settings: Settings,
    work: Callable[[Storage, Moving], Awaitable[T]],
    *,
    embeds: bool = False,
) -> T:
    """Open the storage at *url*, do *work* with it, and close it; without a URL a missing one is empty.

    Raises:
        InvalidInputError: *url* names a file that is not there.
    """
    from threadkeep.registry import resolve_settings

    resolved = resolve_settings(url, settings)
    if url is not None:
        _require_database(resolved, "the URL")
    return wait(_work_on(settings_of_existing(resolved), work, embeds=embeds))


async def _work_on(resolved: Settings, work: Callable[[Storage, Moving], Awaitable[T]], *, embeds: bool = False) -> T:
    """Open the storage of *resolved*, do *work* with it, and close it."""
    from threadkeep.clock import SystemClock
    from threadkeep.registry import create_embedder, create_storage
    from threadkeep.transfer.copying import Moving, connected

    clock = SystemClock()
    resolved = _with_long_timeouts(resolved)
    embedder: Embedder | None = create_embedder(resolved) if embeds else None
    async with connected(create_storage(resolved, clock)) as storage:
        return await work(storage, Moving(storage, embedder, clock))


def _require_database(resolved: Settings, what: str) -> None:
    if (missing := missing_database(resolved)) is not None:
        msg = f"The database {missing} does not exist; correct {what}."
        raise InvalidInputError(msg)


async def _source(
    url: str, settings: Settings, prefix: str | None, mapping: Path | None, approved_by: str | None, *, exact: bool
) -> TransferSource:
    """Return the foreign store, export or Threadkeep storage at *url*."""
    import asyncio

    from threadkeep.clock import SystemClock
    from threadkeep.memories.models import Approval, checked_name
    from threadkeep.registry import create_storage, resolve_settings
    from threadkeep.transfer.importer import Labels, mapping_of
    from threadkeep.transfer.sources import ForeignSource, StorageSource, foreign_reader

    clock = SystemClock()
    reader = foreign_reader(url)
    if reader is not None:
        try:
            text = "{}" if mapping is None else await asyncio.to_thread(mapping.read_text, encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"{mapping} cannot be read ({type(error).__name__}); give a JSON object of labels and user ids."
            raise InvalidInputError(msg) from error
        approval = None if approved_by is None else Approval(checked_name(approved_by, "--approved-by"), clock.now())
        return ForeignSource(reader, Labels(mapping_of(text), exact=exact), approval)
    if mapping is not None or exact or approved_by is not None:
        msg = (
            "--mapping, --labels-are-ids and --approved-by are for foreign stores; leave them out: in a Threadkeep "
            "storage every item has its owner and approval."
        )
        raise InvalidInputError(msg)
    base = _with_prefix(settings, prefix)
    resolved = resolve_settings(url, base)
    _require_database(resolved, "--from")
    storage = create_storage(_with_long_timeouts(resolved), clock)
    return StorageSource(storage, key_prefix=base.store_key_prefix)


def _location(url: str | None, settings: Settings) -> str:
    """Return kind and place of a storage, without a password."""
    from threadkeep.clock import SystemClock
    from threadkeep.registry import create_storage, resolve_settings

    storage = create_storage(resolve_settings(url, settings), SystemClock())
    return f"{storage.name} {storage.location}"


def _unsealed(settings: Settings) -> Settings:
    return settings.model_copy(update={"master_key": None, "master_key_file": None, "keys": None})


def _with_prefix(settings: Settings, prefix: str | None) -> Settings:
    return settings if prefix is None else settings.model_copy(update={"store_key_prefix": prefix})


def _with_long_timeouts(settings: Settings) -> Settings:
    timeouts = {"postgres_statement_timeout_ms": _TIMEOUT_MS, "redis_timeout_ms": _TIMEOUT_MS}
    return settings.model_copy(update=timeouts)


async def _require_labels(source: TransferSource, *, dry_run: bool) -> None:
    """Refuse to begin while labels without an owner are left; a dry run lists them among what is left out."""
    from threadkeep.transfer.sources import ForeignSource

    if isinstance(source, ForeignSource) and not dry_run:
        await source.require_labels()


def _require_another(
    source: str, target: str | None, settings: Settings, from_prefix: str | None, to_prefix: str | None
) -> None:
    here, there = (settings.store_key_prefix if given is None else given for given in (from_prefix, to_prefix))
    if source == target and here == there:
        msg = "The source is the target: pass another URL as --to."
        raise InvalidInputError(msg)


def _fields(record: Any) -> dict[str, Any]:
    import dataclasses

    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def _show_checked(found: Checked) -> None:
    out.print(f"{_contents(found.items, found.partitions)}, {found.searchable:,} of them searchable")
    out.print(f"checksum {found.checksum}")
    for name, count in found.vectors.items():
        out.print(f"  vectors of {name}: {count:,}", markup=False)
    for sentence in found.advice:
        out.print("[yellow]advice[/yellow] ", end="")
        out.print(sentence, markup=False)
    for wrong in found.wrong:
        place = f"{' / '.join(map(plain, wrong.namespace))}{f' {plain(wrong.key)}' if wrong.key else ''}"
        out.print("[red]wrong[/red]  ", end="")
        out.print(f"{wrong.what} at {place}: {wrong.detail}", markup=False)
    for what, count in found.counts.items():
        out.print(f"{what}: {count:,}", markup=False)
    if found.sound:
        out.print("Everything is as it must be.")


def _show_copied(done: Copied) -> None:
    verb = "would be copied" if done.dry_run else "copied"
    out.print(
        f"{_contents(done.read, done.partitions)} read from {plain(done.source)}",
        markup=False,
    )
    for shape, count in sorted(done.shapes.items()):
        out.print(f"  {shape}: {count:,}", markup=False)
    if done.dry_run:
        out.print(f"Nothing was written; {counted(done.read, 'items')} {verb} to {plain(done.target)}.", markup=False)
    else:
        out.print(
            f"{done.written:,} {verb} to {plain(done.target)}{', going on where it was' if done.resumed else ''}; "
            f"{done.present:,} were there already.",
            markup=False,
        )
        out.print(f"{done.verified:,} read back and found to be the same.")
    out.print(f"checksum {done.checksum}")
    if done.without_vectors:
        out.print(f"{done.without_vectors:,} are found by words only; threadkeep storage re-embed makes their vectors.")
    if done.differing:
        err.print(
            f"{done.differing:,} differ in the target and were left as they are there; --overwrite replaces them."
        )
    if done.unequal:
        err.print(f"{done.unequal:,} do not match: another process writes meanwhile; run it again.")
    for left in done.left_out[:_SHOWN]:
        place = " / ".join(map(plain, left.namespace))
        err.print(f"left out {place} {plain(left.key)}: {left.reason}", markup=False)
    if len(done.left_out) > _SHOWN:
        err.print(f"… and {len(done.left_out) - _SHOWN:,} more; --json lists all of them.")
