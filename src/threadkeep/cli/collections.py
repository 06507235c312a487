"""``threadkeep collections``: documents that a tenant shares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threadkeep.cli.output import DataDir, Json, Yes, confirm, out, place_of, plain, print_json, read, run
from threadkeep.errors import InvalidInputError

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.collections.models import Document, Ingested, Passages, Similar

app = typer.Typer(help="Documents that are shared: ingest, search, list and delete them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The collection's name.")]
Tenant = Annotated[str, typer.Option("--tenant", help="Whose collection it is.")]


@app.command()
def ingest(
    name: Name,
    files: Annotated[list[Path], typer.Argument(help="Text or Markdown files; the path as given is a document's id.")],
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Keep files in a collection; one that was ingested before is replaced."""
    texts = [(file, _text(file)) for file in files]

    async def kept(tk: Threadkeep) -> list[Ingested]:
        return [
            await tk.collections.ingest(name, text, document_id=str(file), title=file.name, tenant=tenant)
            for file, text in texts
        ]

    done = run(kept, data_dir, creates=True)
    if json:
        print_json([{"document_id": one.document_id, "parts": one.parts, "changed": one.changed} for one in done])
        return
    for one in done:
        said = "kept" if one.changed else "unchanged"
        out.print(f"{plain(one.document_id)}: {one.parts} parts, {said}", markup=False)


@app.command()
def search(
    name: Name,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many passages.")] = 5,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Show the passages that are closest to a question."""

    async def found(tk: Threadkeep) -> Passages:
        return await tk.collections.search(name, query, limit=limit, tenant=tenant)

    passages = run(found, data_dir).passages
    if json:
        print_json(
            [
                {"document_id": one.document_id, "place": one.place, "score": one.score, "text": one.text}
                for one in passages
            ]
        )
        return
    if not passages:
        out.print("Nothing was found.")
    for one in passages:
        out.print(f"{one.score:.2f}  {plain(one.document_id)}, part {one.place + 1}", markup=False)
        out.print(f"      {plain(one.text)}", markup=False)


@app.command()
def similar(
    name: Name,
    document: Annotated[str, typer.Argument(help="The document's id.")],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many documents.")] = 5,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Show the documents that are most like one."""

    async def found(tk: Threadkeep) -> list[Similar]:
        return await tk.collections.similar(name, document, limit=limit, tenant=tenant)

    documents = run(found, data_dir)
    if json:
        print_json([{"document_id": one.document_id, "title": one.title, "score": one.score} for one in documents])
        return
    for one in documents:
        out.print(f"{one.score:.2f}  {plain(one.document_id)}", markup=False)


@app.command()
def names(tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False) -> None:
    """List the names of a tenant's collections."""

    async def all_of(tk: Threadkeep) -> tuple[str, ...]:
        return await tk.collections.names(tenant=tenant)

    found = read(all_of, data_dir)
    if json:
        print_json(list(found))
        return
    if not found:
        out.print("There is no collection yet; threadkeep collections ingest makes one.")
    for name in found:
        out.print(plain(name), markup=False)


@app.command("list")
def list_(name: Name, tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False) -> None:
    """List the documents of a collection, the newest first."""

    async def all_of(tk: Threadkeep) -> list[Document]:
        return await tk.collections.list(name, tenant=tenant)

    documents = read(all_of, data_dir)
    if json:
        print_json([{"document_id": one.document_id, "title": one.title, "parts": one.parts} for one in documents])
        return
    if not documents:
        out.print("The collection is empty.")
    for one in documents:
        out.print(f"{plain(one.document_id)}: {one.parts} parts, {one.updated_at:%Y-%m-%d %H:%M}", markup=False)


@app.command()
def delete(
    name: Name,
    document: Annotated[str | None, typer.Argument(help="The document's id.")] = None,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="The whole collection.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove a document, or with --all the whole collection."""
    if (document is None) != everything:
        msg = "Name a document, or give --all for the whole collection."
        raise typer.BadParameter(msg)

    async def gone(tk: Threadkeep) -> int:
        what = (
            f"the document {plain(document)}"
            if document
            else f"all {len(await tk.collections.list(name, tenant=tenant)):,} documents"
        )
        confirm(f"Remove {what} of the collection {plain(name)}, in {place_of(tk)}?", yes=yes)
        if document is None:
            return await tk.collections.erase(name, tenant=tenant)
        await tk.collections.delete(name, document, tenant=tenant)
        return 1

    number = run(gone, data_dir)
    if json:
        print_json({"removed": number})
        return
    out.print(f"{number} document{'' if number == 1 else 's'} removed.")


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{file} cannot be read as text in UTF-8 ({type(error).__name__}); convert it first."
        raise InvalidInputError(msg) from error
