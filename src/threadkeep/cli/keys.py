"""``threadkeep keys``: the keys that items are sealed with."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threadkeep.cli.output import DataDir, Json, Yes, confirm, out, place_of, print_json, read, run

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.storage.encryption.storage import EncryptedStorage, VerificationReport

app = typer.Typer(help="Make, rotate and check the keys that items are sealed with.", no_args_is_help=True)


@app.command()
def new(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write, for you only; unset: standard output.")
    ] = None,
    *,
    json: Json = False,
) -> None:
    """Make a master key. Keep a copy of it apart from the storage: without it, nothing sealed can be read."""
    from threadkeep.errors import optional_import

    with optional_import("A master key", extra="encryption"):
        from threadkeep.storage.encryption.cipher import new_master_key
    key = new_master_key()
    if output is not None:
        _write(output, key)
    if json:
        print_json({"path": str(output)} if output else {"key": key})
    elif output is None:
        out.print(key, markup=False)
    else:
        out.print(f"Wrote {output}; set THREADKEEP_MASTER_KEY_FILE to it.", markup=False)


@app.command()
def status(data_dir: DataDir = None, *, json: Json = False) -> None:
    """Say whether items are sealed, where the owners' keys are, and which master key wraps them."""

    async def told(tk: Threadkeep) -> dict[str, Any]:
        sealed = tk.app.sealed
        if sealed is None:
            return {"sealed": False}
        counts = await tk.app.call(lambda _: sealed.keys.counts())
        return {
            "sealed": True,
            "keys": sealed.keys.location,
            "master_key": sealed.keys.masters.current,
            "wrapped": counts.wrapped,
            "erased": counts.destroyed,
        }

    report = read(told, data_dir)
    if json:
        print_json(report)
        return
    if not report["sealed"]:
        out.print("Items are kept in the clear.")
        return
    out.print(f"Items are sealed; the owners' keys are in {report['keys']}.", markup=False)
    for master_id, count in report["wrapped"].items():
        present = master_id == report["master_key"]
        what = "present" if present else "older: run threadkeep keys rotate" if count else "older, needed no more"
        out.print(f"  master key {master_id} ({what}): wraps {count:,} keys", markup=False)
    out.print(f"  erased: {report['erased']:,}")


@app.command()
def rotate(data_dir: DataDir = None, *, json: Json = False) -> None:
    """Wrap the owners' keys with the first master key that is set. Everything may go on meanwhile."""

    async def rewrapped(tk: Threadkeep) -> int:
        sealed = _require_sealed(tk)
        return await tk.app.call(lambda _: sealed.rewrap())

    count = run(rewrapped, data_dir)
    if json:
        print_json({"rewrapped": count})
    else:
        out.print(f"Wrapped {count:,} keys anew; the older master keys are needed no more.")


@app.command()
def check(
    data_dir: DataDir = None,
    *,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove what is damaged, and what is left of erased owners.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Open every item, and say what does not open."""

    async def work(tk: Threadkeep) -> VerificationReport:
        sealed = _require_sealed(tk)
        if remove:
            confirm(f"Remove every item that does not open, in {place_of(tk)}?", yes=yes)
        return await tk.app.call(lambda _: sealed.verify(remove=remove))

    found = run(work, data_dir)
    damaged = {"/".join((each.kind, *each.parts)): count for each, count in found.damaged.items()}
    if json:
        print_json(
            {
                "sound": found.sound,
                "items": found.items,
                "damaged": damaged,
                "erased": found.erased,
                "no_key": found.no_key,
                "removed": found.removed,
            }
        )
    else:
        out.print(f"{found.items:,} items open.")
        for whose, count in damaged.items():
            out.print(f"  damaged: {count:,} of {whose!r}", markup=False)
        for partition in found.no_key:
            out.print(f"  no key: partition {partition}", markup=False)
        if found.erased:
            out.print(f"  left of erased owners, unreadable: {found.erased:,}")
        if remove:
            out.print(f"Removed {found.removed:,}.")
    sys.exit(0 if found.sound else 1)


def _require_sealed(tk: Threadkeep) -> EncryptedStorage:
    from threadkeep.errors import SettingsError

    if tk.app.sealed is None:
        msg = "Items are not sealed: THREADKEEP_MASTER_KEY is not set."
        raise SettingsError(msg, variable="THREADKEEP_MASTER_KEY")
    return tk.app.sealed


def _write(path: Path, key: str) -> None:
    from threadkeep.errors import InvalidInputError

    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        msg = f"{path} is there already; a key is never overwritten. Name another file."
        raise InvalidInputError(msg) from error
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{key}\n")
