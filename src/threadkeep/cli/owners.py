"""``threadkeep owners``, ``audit`` and ``credentials``: what is held about a user, its changes, access to servers."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO
from zipfile import ZipFile

import typer

from threadkeep.cli.output import (
    DEFAULT_USER,
    CommandGroup,
    DataDir,
    Json,
    Output,
    Tenant,
    User,
    Yes,
    confirm,
    counted,
    emit,
    is_stream,
    location_of,
    named,
    new_file,
    out,
    plain,
    read,
    run,
    write_rows,
    writing,
)
from threadkeep.identity import Owner, owner_of_user

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.credentials.models import Credential
    from threadkeep.memories.audited_writer import AuditEntry
    from threadkeep.owners.models import Erased, Holdings, Replayed

app = typer.Typer(
    cls=CommandGroup, help="Show, export or erase everything that is held about a user.", no_args_is_help=True
)
credentials_app = typer.Typer(
    cls=CommandGroup,
    help="List and revoke_credential the access of users to MCP servers. Users connect servers in your application.",
    no_args_is_help=True,
)
audit_app = typer.Typer(
    cls=CommandGroup,
    help="See what was changed about a user, and check that nothing of it is missing.",
    no_args_is_help=True,
)


@app.command()
def show(user: User = DEFAULT_USER, tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False) -> None:
    """Count the data of a user."""
    owner = owner_of_user(user, tenant)
    report = read(lambda tk: tk.owners.show(owner), data_dir)
    emit(report, _report_lines(owner, report), json=json)


@app.command()
def export(
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    output: Annotated[
        Path | None,
        typer.Argument(
            help="The new file; a .zip or a folder gets a README, too; - or unset: standard output.", metavar="[FILE]"
        ),
    ] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Write all data of a user, messages of threads included, as JSON Lines (with or without --json)."""
    owner = owner_of_user(user, tenant)
    del json

    async def walk(tk: Threadkeep) -> list[dict[str, Any]]:
        return [row async for row in tk.owners.export(owner)]

    if output is not None and not is_stream(output) and output.suffix in ("", ".zip"):
        _pack(owner, output, data_dir)
        out.print(f"Everything and a README written to {output}", markup=False)
    else:
        write_rows(output, read(walk, data_dir), noun="lines")


@app.command("opt-out")
def opt_out(
    user: Annotated[str, typer.Option("--user", "-u", help="Who wants no memory; must be given.")],
    tenant: Tenant = "",
    thread: Annotated[str | None, typer.Option(help="In this thread only.", show_default=False)] = None,
    data_dir: DataDir = None,
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Recall and learn again.")] = False,
    json: Json = False,
) -> None:
    """Stop recalling and learning for a user, or in one thread. Existing memories stay."""
    owner = owner_of_user(user, tenant)
    run(lambda tk: tk.owners.opt_out(owner, thread_id=thread, out=not undo), data_dir, creates=True)
    where = f" in thread {plain(thread)}" if thread is not None else ""
    emit(
        {"user_id": user, "tenant": tenant, "thread_id": thread, "opted_out": not undo},
        [f"Memory of {named(owner)} is {'on' if undo else 'off'}{where}."],
        json=json,
    )


@app.command()
def erase(
    user: Annotated[str, typer.Option("--user", "-u", help="Whom to erase; must be given.")],
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove all data of a user, threads included. It cannot be undone."""
    owner = owner_of_user(user, tenant)

    async def erase_confirmed(tk: Threadkeep) -> Erased:
        report = await tk.owners.show(owner)
        memories = counted(sum(report.memories.values()), "memories")
        what = f"{memories} and {counted(len(report.threads), 'threads')}"
        confirm(f"Erase everything about {named(owner)} ({what}) in {location_of(tk)}?", yes=yes)
        return await tk.owners.erase(owner)

    erased = run(erase_confirmed, data_dir)
    counts = ", ".join(f"{what}: {count}" for what, count in sorted(erased.counts.items()) if count)
    lines = [
        f"Erased {counted(erased.items, 'rows')} and {counted(len(erased.threads), 'threads')} of {named(owner)}.",
        f"  {counts or 'nothing was held'}; receipt {erased.receipt_id} in {' and '.join(erased.kept_in)}",
    ]
    emit(erased, lines, json=json)


@app.command("replay-erasures")
def replay_erasures(
    receipts: Annotated[
        list[Path] | None, typer.Option("--receipts", help="Further receipts, from other machines; repeatable.")
    ] = None,
    data_dir: DataDir = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Erase again every owner that a restored backup brought back. Run it after each restore, before anything else."""

    async def replay_confirmed(tk: Threadkeep) -> Replayed:
        known = len(await tk.owners.erasure_receipts())
        confirm(f"Erase the owners of {counted(known, 'receipts')} again in {location_of(tk)}?", yes=yes)
        return await tk.owners.replay_erasures(*(receipts or ()))

    result = run(replay_confirmed, data_dir)
    examined = f"{counted(result.receipts, 'receipts')}, {counted(result.looked_at, 'owners')}"
    lines = [f"{examined}: erased {len(result.erased)} again."]
    if result.strange:
        other_key = "receipts were made with another key; set THREADKEEP_ERASURE_KEY to it and repeat."
        lines.append(f"  {result.strange} {other_key}")
    emit(result, lines, json=json)


@app.command("erasure-receipts")
def erasure_receipts(
    output: Output = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Write the receipts of all erasures as JSON Lines (with or without --json). Keep them apart from backups."""
    del json
    write_rows(output, read(lambda tk: tk.owners.erasure_receipts(), data_dir), noun="receipts")


@audit_app.command("list")
def list_(
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    limit: Annotated[int, typer.Option(min=1)] = 50,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """List changes, newest first: time, actor, change and reason."""
    owner = owner_of_user(user, tenant)
    entries = read(lambda tk: tk.owners.audit(owner, limit=limit), data_dir)
    lines = (line for entry in entries for line in _entry_lines(entry))
    emit(entries, lines if entries else [f"Nothing was changed about {named(owner)}."], json=json)


@audit_app.command()
def verify(
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    anchor: Annotated[
        str | None, typer.Option(help="The anchor that an earlier check printed; older entries must be unchanged.")
    ] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Check that no entry was changed, removed or inserted; the exit code is 1 if one was."""
    owner = owner_of_user(user, tenant)
    report = read(lambda tk: tk.owners.verify_audit(owner, anchor=anchor), data_dir)
    if report.fault is not None:
        lines = [f"The audit of {named(owner)} does not hold: {report.fault}."]
    else:
        lines = [f"{report.entries} entries of {named(owner)} hold. Note this: {report.anchor}"]
    if report.untold:
        lines.append(f"  {len(report.untold)} memories are told of by no entry: {', '.join(report.untold[:5])}")
    emit(report, lines, json=json)
    if report.fault is not None:
        raise typer.Exit(1)


def _report_lines(owner: Owner, report: Holdings) -> Iterator[str]:
    memories = sum(report.memories.values())
    yield f"{named(owner)}: {memories} memories"
    for kind, count in sorted(report.memories.items()):
        yield f"  {kind}: {count}"
    for status, count in sorted(report.aside.items()):
        yield f"  of these {status}, not recalled, gone in time: {count}"
    if report.most is not None:
        yield f"  active: {memories - sum(report.aside.values())} of at most {report.most}"
    if report.inactive_days is not None:
        yield f"  archived after {report.inactive_days:g} days without use"
    yield f"  summaries: {report.summaries}"
    yield f"  turns waiting to be learnt from: {report.turns_waiting} (learnt from: {report.turns_seen})"
    yield f"  proposals that wait for a decision: {report.proposals} (decided: {report.proposals_decided})"
    yield f"  threads: {', '.join(map(plain, report.threads)) or 'none'}"


def _entry_lines(entry: AuditEntry) -> Iterator[str]:
    why = f"  ({plain(entry.why)})" if entry.why else ""
    yield f"{entry.number:>6}  {entry.at:%Y-%m-%d %H:%M}  {plain(entry.by)}{why}"
    for change in entry.changes:
        before = f"{change.before} to " if change.before is not None else ""
        yield f"        {change.thing} {change.what}: {plain(change.id)}, revision {before}{entry.revision}"


async def _write_zip(tk: Threadkeep, owner: Owner, file: BinaryIO) -> None:
    async for part in tk.owners.export_zip(owner):
        file.write(part)


def _pack(owner: Owner, output: Path, data_dir: Path | None) -> None:
    """Write the ZIP file of an export, or its files into a new folder; for their owner alone."""
    if output.suffix == ".zip":
        with new_file(output) as file:
            read(lambda tk: _write_zip(tk, owner, file), data_dir)
        return
    packed = io.BytesIO()
    read(lambda tk: _write_zip(tk, owner, packed), data_dir)
    with writing(output):
        output.mkdir(mode=0o700)
        ZipFile(packed).extractall(output)


@credentials_app.command("list")
def list_credentials(
    user: User = DEFAULT_USER, tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False
) -> None:
    """List the servers that a user connected; no token is shown."""
    owner = owner_of_user(user, tenant)
    credentials = read(lambda tk: tk.credentials.list(owner=owner), data_dir)
    lines = map(_credential_line, credentials)
    emit(credentials, lines if credentials else [f"{named(owner)} has connected no server."], json=json)


@credentials_app.command("revoke")
def revoke_credential(
    server: Annotated[str, typer.Argument(help="The URL of the server, as `credentials list` prints it.")],
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Revoke the tokens of a user at the authorization server, and delete them. The user can connect again."""
    owner = owner_of_user(user, tenant)

    async def revoke_confirmed(tk: Threadkeep) -> bool:
        confirm(f"Revoke the access of {named(owner)} to {plain(server)}, in {location_of(tk)}?", yes=yes)
        return await tk.credentials.revoke(server, owner=owner)

    revoked = run(revoke_confirmed, data_dir)
    line = "Revoked and deleted." if revoked else f"{named(owner)} has not connected {plain(server)}."
    emit({"revoked": revoked}, [line], json=json)


def _credential_line(credential: Credential) -> str:
    expires = f", expires {credential.expires_at:%Y-%m-%d %H:%M}" if credential.expires_at else ""
    state = f"{credential.state} since {credential.connected_at:%Y-%m-%d}{expires}"
    return f"{plain(credential.server)}  {state}  {plain(' '.join(credential.scopes))}".rstrip()
