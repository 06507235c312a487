"""``threadkeep collections``: documents that a tenant shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threadkeep.cli.output import CommandGroup, DataDir, Json, Yes, confirm, emit, location_of, plain, read, run
from threadkeep.errors import InvalidInputError

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.collections.models import Ingested, Passage

app = typer.Typer(
    cls=CommandGroup, help="Documents that are shared: ingest, search, list and delete them.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(help="The collection's name.")]
Tenant = Annotated[str, typer.Option("--tenant", help="The tenant of the collection.")]


@app.command()
def ingest(
    name: Name,
    files: Annotated[list[Path], typer.Argument(help="Text or Markdown files; the path as given is a document's id.")],
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Add files to a collection; a file with a known id is replaced."""
    texts = [(file, _text(file)) for file in files]

    async def ingest_all(tk: Threadkeep) -> list[Ingested]:
        return [
            await tk.collections.ingest(name, text, document_id=str(file), title=file.name, tenant=tenant)
            for file, text in texts
        ]

    results = run(ingest_all, data_dir, creates=True)
    rows = [{"document_id": result.document_id, "parts": result.parts, "changed": result.changed} for result in results]
    lines = (
        f"{plain(result.document_id)}: {result.parts} parts, {'kept' if result.changed else 'unchanged'}"
        for result in results
    )
    emit(rows, lines, json=json)


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
    passages = run(lambda tk: tk.collections.search(name, query, limit=limit, tenant=tenant), data_dir).passages
    rows = [
        {"document_id": passage.document_id, "place": passage.place, "score": passage.score, "text": passage.text}
        for passage in passages
    ]
    emit(rows, _passage_lines(passages), json=json)


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
    """Show the documents that are most similar to one."""
    similar = run(lambda tk: tk.collections.similar(name, document, limit=limit, tenant=tenant), data_dir)
    rows = [{"document_id": other.document_id, "title": other.title, "score": other.score} for other in similar]
    emit(rows, (f"{other.score:.2f}  {plain(other.document_id)}" for other in similar), json=json)


@app.command()
def names(tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False) -> None:
    """List the names of a tenant's collections."""
    names = read(lambda tk: tk.collections.names(tenant=tenant), data_dir)
    lines = map(plain, names) if names else ["There is no collection yet; threadkeep collections ingest makes one."]
    emit(list(names), lines, json=json)


@app.command("list")
def list_(name: Name, tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False) -> None:
    """List the documents of a collection, the newest first."""
    documents = read(lambda tk: tk.collections.list(name, tenant=tenant), data_dir)
    rows = [
        {"document_id": document.document_id, "title": document.title, "parts": document.parts}
        for document in documents
    ]
    lines = (
        f"{plain(document.document_id)}: {document.parts} parts, {document.updated_at:%Y-%m-%d %H:%M}"
        for document in documents
    )
    emit(rows, lines if documents else ["The collection is empty."], json=json)


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
        msg = "The document is missing: name one, or give --all for the whole collection."
        raise typer.BadParameter(msg)

    async def delete_confirmed(tk: Threadkeep) -> int:
        if document is None:
            what = f"all {len(await tk.collections.list(name, tenant=tenant)):,} documents"
        else:
            what = f"the document {plain(document)}"
        confirm(f"Remove {what} of the collection {plain(name)}, in {location_of(tk)}?", yes=yes)
        if document is None:
            return await tk.collections.erase(name, tenant=tenant)
        await tk.collections.delete(name, document, tenant=tenant)
        return 1

    count = run(delete_confirmed, data_dir)
    emit({"removed": count}, [f"{count} document{'' if count == 1 else 's'} removed."], json=json)


def _passage_lines(passages: Sequence[Passage]) -> Iterator[str]:
    if not passages:
        yield "Nothing was found."
    for passage in passages:
        yield f"{passage.score:.2f}  {plain(passage.document_id)}, part {passage.place + 1}"
        yield f"      {plain(passage.text)}"


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{file} cannot be read as text in UTF-8 ({type(error).__name__}); convert it first."
        raise InvalidInputError(msg) from error
