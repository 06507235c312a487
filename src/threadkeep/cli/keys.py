"""``threadkeep keys``: the keys that encrypt a storage."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threadkeep.cli.output import (
    CommandGroup,
    DataDir,
    Json,
    Yes,
    confirm,
    emit,
    location_of,
    new_file,
    read,
    run,
)
from threadkeep.errors import SettingsError

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.storage.encryption.key_store import VerificationReport
    from threadkeep.storage.encryption.storage import EncryptedStorage

app = typer.Typer(cls=CommandGroup, help="Create, rotate and check the keys that encrypt items.", no_args_is_help=True)


@app.command()
def new(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write, for you only; unset: standard output.")
    ] = None,
    *,
    json: Json = False,
) -> None:
    """Create a master key. Keep a copy apart from the storage: without it, no encrypted item can be read."""
    from threadkeep.errors import optional_import

    with optional_import("A master key", extra="encryption"):
        from threadkeep.storage.encryption.cipher import new_master_key
    key = new_master_key()
    if output is None:
        emit({"key": key}, [key], json=json)
        return
    with new_file(output) as file:
        file.write(f"{key}\n".encode())
    emit({"path": str(output)}, [f"Wrote {output}; set THREADKEEP_MASTER_KEY_FILE to it."], json=json)


@app.command()
def status(data_dir: DataDir = None, *, json: Json = False) -> None:
    """Show whether items are encrypted, where the owners' keys are, and which master key wraps them."""

    async def count(tk: Threadkeep) -> dict[str, Any]:
        encrypted, threads = tk.app.sealed, await tk.app.event_loop.run(tk.app.threads.encrypted())
        report: dict[str, Any] = {"sealed": encrypted is not None}
        if encrypted is not None:
            report |= await tk.app.call(lambda _: _wrapped_keys(encrypted))
        if threads is not None:
            report["threads"] = await tk.app.event_loop.run(_wrapped_keys(threads))
        return report

    report = read(count, data_dir)
    emit(report, _status_lines(report), json=json)


@app.command()
def rotate(data_dir: DataDir = None, *, json: Json = False) -> None:
    """Wrap the owners' keys, and those of threads, with the first configured master key, while processes run."""

    async def rewrap(tk: Threadkeep) -> int:
        threads = await tk.app.event_loop.run(tk.app.threads.encrypted())
        of_threads = 0 if threads is None else await tk.app.event_loop.run(threads.rewrap())
        if threads is not None and tk.app.sealed is None:
            return of_threads
        encrypted = _require_encrypted(tk)
        return of_threads + await tk.app.call(lambda _: encrypted.rewrap())

    count = run(rewrap, data_dir)
    emit({"rewrapped": count}, [f"Wrapped {count:,} keys anew; the older master keys are needed no more."], json=json)


@app.command("rotate-cursors")
def rotate_cursors(data_dir: DataDir = None, *, json: Json = False) -> None:
    """Sign the gateway's cursors with a new key, while processes run; those of the key before stay valid."""
    from threadkeep.errors import optional_import

    with optional_import("The gateway's cursors", extra="serve"):
        from threadkeep.gateway.shared_secret import SharedSecret
    run(lambda tk: SharedSecret(tk.store).rotate(), data_dir)
    emit(
        {"rotated": True},
        ["Cursors have a new key; cursors of the key before are valid until the next time."],
        json=json,
    )


@app.command("check")
def check_keys(
    data_dir: DataDir = None,
    *,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove damaged items, and remains of erased owners.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Decrypt every item, and list those that cannot be decrypted."""

    async def verify(tk: Threadkeep) -> VerificationReport:
        threads = await tk.app.event_loop.run(tk.app.threads.encrypted())
        items = _require_encrypted(tk) if threads is None else tk.app.sealed
        if remove:
            confirm(f"Remove every item that does not open, in {location_of(tk)}?", yes=yes)
        reports = [] if items is None else [await tk.app.call(lambda _: items.verify(remove=remove))]
        if threads is not None:
            reports.append(await tk.app.event_loop.run(threads.verify(remove=remove)))
        first, *others = reports
        return sum(others, start=first)

    report = run(verify, data_dir)
    damaged = {"/".join((each.kind, *each.parts)): count for each, count in report.damaged.items()}
    lines = [
        f"{report.items:,} items open.",
        *(f"  damaged: {count:,} of {partition!r}" for partition, count in damaged.items()),
        *(f"  no key: partition {partition}" for partition in report.no_key),
    ]
    if report.erased:
        lines.append(f"  left of erased owners, unreadable: {report.erased:,}")
    if remove:
        lines.append(f"Removed {report.removed:,}.")
    value = {
        "sound": report.sound,
        "items": report.items,
        "damaged": damaged,
        "erased": report.erased,
        "no_key": report.no_key,
        "removed": report.removed,
    }
    emit(value, lines, json=json)
    sys.exit(0 if report.sound else 1)


async def _wrapped_keys(encrypted: EncryptedStorage) -> dict[str, Any]:
    """Return where the keys of a storage are, and how many each master key wraps."""
    counts = await encrypted.keys.counts()
    return {
        "keys": encrypted.keys.location,
        "master_key": encrypted.keys.masters.current,
        "wrapped": counts.wrapped,
        "erased": counts.destroyed,
    }


def _status_lines(report: dict[str, Any]) -> Iterator[str]:
    if not report["sealed"]:
        yield "Items are not encrypted."
    else:
        yield f"Items are encrypted; the owners' keys are in {report['keys']}."
        yield from _wrapped_lines(report)
    if "threads" in report:
        yield f"Threads are encrypted; their keys are in {report['threads']['keys']}."
        yield from _wrapped_lines(report["threads"])


def _wrapped_lines(report: dict[str, Any]) -> Iterator[str]:
    for master_id, count in report["wrapped"].items():
        current = master_id == report["master_key"]
        what = "current" if current else "not current: run threadkeep keys rotate" if count else "not current"
        yield f"  master key {master_id} ({what}): wraps {count:,} keys"
    yield f"  erased: {report['erased']:,}"


def _require_encrypted(tk: Threadkeep) -> EncryptedStorage:
    if tk.app.sealed is None:
        msg = "Items are not encrypted: set THREADKEEP_MASTER_KEY."
        raise SettingsError(msg, variable="THREADKEEP_MASTER_KEY")
    return tk.app.sealed
