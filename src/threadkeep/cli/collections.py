"""``threadkeep collections``: documents that a tenant shares."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from json import loads as parse_json
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
    plain,
    progress,
    read,
    run,
)
from threadkeep.errors import InvalidInputError, RevisionConflictError, ThreadkeepError

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.collections.models import Ingested, Passage


def find_files(paths: Iterable[Path]) -> list[Path]:
    """Return *paths* with every folder replaced by the files below it, in order of their names.

    Hidden files and folders are left out, and links to folders are not followed.
    """
    return list(dict.fromkeys(file for path in paths for file in (_files_below(path) if path.is_dir() else [path])))


def _files_below(folder: Path) -> list[Path]:
    found: list[Path] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(parent, name) for name in sorted(names) if not name.startswith(".")]
    return found


app = typer.Typer(
    cls=CommandGroup, help="Documents that are shared: ingest, search, list and delete them.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(help="The collection's name.")]
Tenant = Annotated[str, typer.Option("--tenant", help="The tenant of the collection.")]

Metadata = Annotated[
    list[str] | None,
    typer.Option("--metadata", help="KEY=VALUE, by which searches can filter; may be repeated.", show_default=False),
]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", help="KEY=VALUE of the documents' metadata; may be repeated.", show_default=False),
]


@app.command()
def ingest(
    name: Name,
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Files and folders: PDF, DOCX, PPTX, XLSX, HTML, Markdown, notebooks and text. "
            "The path of a file is its document's id."
        ),
    ],
    metadata: Metadata = None,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Add files to a collection; of a file with a known id, what changed is replaced."""
    given = _pairs(metadata, "--metadata")
    files = find_files(paths)
    if not files:
        msg = "The folders hold no files; name files, or folders with files."
        raise InvalidInputError(msg)

    async def ingest_all(tk: Threadkeep) -> list[tuple[Path, Ingested | ThreadkeepError]]:
        results: list[tuple[Path, Ingested | ThreadkeepError]] = []
        with progress("Documents") as bar:
            for number, file in enumerate(files):
                bar(number, len(files))
                results.append((file, await _ingest_one(tk, name, file, metadata=given, tenant=tenant)))
        return results

    results = run(ingest_all, data_dir, creates=True)
    emit([_row(*result) for result in results], (_line(*result) for result in results), json=json)
    if any(isinstance(result, ThreadkeepError) for _, result in results):
        raise typer.Exit(1)


async def _ingest_one(
    tk: Threadkeep, name: str, file: Path, *, metadata: dict[str, Any], tenant: str
) -> Ingested | ThreadkeepError:
    """Ingest *file*; return why it was refused, so that the other files are ingested all the same."""
    try:
        return await tk.collections.ingest_file(name, file, metadata=metadata, tenant=tenant)
    except (InvalidInputError, RevisionConflictError) as error:
        return error


def _row(file: Path, result: Ingested | ThreadkeepError) -> dict[str, Any]:
    if isinstance(result, ThreadkeepError):
        return {"document_id": str(file), "error": result.code, "message": str(result)}
    return {
        "document_id": result.document_id,
        "parts": result.parts,
        "changed": result.changed,
        "written": result.written,
    }


def _line(file: Path, result: Ingested | ThreadkeepError) -> str:
    if isinstance(result, ThreadkeepError):
        return f"{plain(str(file))}: refused ({result.code}). {plain(str(result))}"
    what = f"{result.written} written" if result.changed else "unchanged"
    return f"{plain(result.document_id)}: {result.parts} part{'' if result.parts == 1 else 's'}, {what}"


@app.command()
def search(
    name: Name,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    also: Annotated[
        list[str] | None, typer.Option("--also", help="A further collection; may be repeated.", show_default=False)
    ] = None,
    where: Where = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many passages.")] = 5,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Show the passages that are closest to a question, and where they stand."""
    names, conditions = [name, *(also or ())], _pairs(where, "--where")
    passages = run(
        lambda tk: tk.collections.search(names, query, limit=limit, where=conditions, tenant=tenant), data_dir
    ).passages
    rows = [
        {
            "collection": passage.collection,
            "document_id": passage.document_id,
            "title": passage.title,
            "headings": [*passage.headings],
            "page": passage.page,
            "place": passage.place,
            "score": passage.score,
            "text": passage.text,
        }
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
        yield "Nothing in the collection has to do with it."
    for passage in passages:
        yield f"{passage.score:.2f}  {plain(passage.citation)}"
        yield f"      {plain(passage.text)}"


def _pairs(given: Sequence[str] | None, option: str) -> dict[str, Any]:
    """Parse ``KEY=VALUE``, where a value that is JSON is a number or the like, and a string otherwise.

    Raises:
        InvalidInputError: A pair has no ``=``.
    """
    pairs: dict[str, Any] = {}
    for pair in given or ():
        key, separator, value = pair.partition("=")
        if not key or not separator:
            msg = f"{option} is {pair[:40]!r}; give KEY=VALUE, such as team=ops."
            raise InvalidInputError(msg)
        try:
            pairs[key] = parse_json(value)
        except ValueError:
            pairs[key] = value
    return pairs
