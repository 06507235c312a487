"""The program of the child process that reads one file: the bytes come by standard input, the text leaves as JSON.

It imports nothing of the package, so that the child starts at once.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Final

MEMORY_BYTES: Final = 512 * 1024 * 1024
CPU_SECONDS: Final = 10
CHARACTERS: Final = 12_001
"""Further text is not needed: the file is refused."""

UNPACKED_BYTES: Final = 100_000_000
"""How much a document of 10 MB may unpack to."""

_OFFICE: Final = {"word/document.xml": "docx", "ppt/presentation.xml": "pptx", "xl/workbook.xml": "xlsx"}
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_HIDDEN: Final = ("script", "style", "template", "noscript", "head")
_BLOCKS: Final = ("p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article")


class UnsupportedTypeError(Exception):
    """No parser reads this type."""


class UnreadableError(Exception):
    """The file is encrypted, or unpacks to too much."""


def extract(data: bytes) -> str:
    """Return the text of a file.

    Raises:
        UnsupportedTypeError: The type is unknown, or its parser is not installed.
        UnreadableError: The file is encrypted, or unpacks to too much.
    """
    if data.startswith(b"%PDF-"):
        return _parsed("pdf", data)
    if data.startswith(b"PK\x03\x04"):
        return _parsed(_office_kind(data), data)
    if data.startswith(_OLE):
        if _ENCRYPTED in data:
            raise UnreadableError
        raise UnsupportedTypeError("ole")
    if data[:1_000].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith((b"<!doctype html", b"<html")):
        return _parsed("html", data)
    try:
        text = data.decode("utf-16" if data.startswith(_UTF_16) else "utf-8-sig")
    except UnicodeDecodeError:
        raise UnsupportedTypeError("binary") from None
    if "\x00" in text:
        raise UnsupportedTypeError("binary")
    return _notebook(text) if text.lstrip().startswith("{") else text


def _office_kind(data: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
    names = {member.filename for member in members}
    kind = next((kind for name, kind in _OFFICE.items() if name in names), None)
    if kind is None:
        raise UnsupportedTypeError("zip")
    if sum(member.file_size for member in members) > UNPACKED_BYTES:
        raise UnreadableError
    return kind


def _notebook(text: str) -> str:
    """Return the sources of a notebook's cells; other JSON as it is."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        return text
    cells: Any = value.get("cells")
    if not isinstance(cells, list) or "nbformat" not in value:
        return text
    sources: list[Any] = [cell.get("source", "") for cell in cells]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return "\n\n".join(one if isinstance(one, str) else "".join(one) for one in sources)


def _parsed(kind: str, data: bytes) -> str:
    parsers: dict[str, Callable[[bytes], str]] = {
        "docx": _docx,
        "html": _html,
        "pdf": _pdf,
        "pptx": _pptx,
        "xlsx": _xlsx,
    }
    try:
        return parsers[kind](data)
    except ImportError:
        raise UnsupportedTypeError(kind) from None


def _html(data: bytes) -> str:
    bs4: Any = import_module("bs4")

    page = bs4.BeautifulSoup(data, "html.parser")
    for hidden in page(_HIDDEN):
        hidden.decompose()
    for block in page(_BLOCKS):
        block.insert_before("\n")
    lines = (" ".join(line.split()) for line in page.get_text().splitlines())
    return "\n".join(line for line in lines if line)


def _pdf(data: bytes) -> str:
    pypdf: Any = import_module("pypdf")

    return _joined(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(data)).pages)


def _docx(data: bytes) -> str:
    docx: Any = import_module("docx")

    return _joined(_docx_parts(docx.Document(io.BytesIO(data))))


def _docx_parts(container: Any) -> Iterator[str]:
    """Yield the paragraphs and the rows of tables in their order; a cell may hold tables."""
    for block in container.iter_inner_content():
        if hasattr(block, "rows"):
            for row in block.rows:
                yield "\t".join(" ".join(_docx_parts(cell)) for cell in row.cells)
        else:
            yield block.text


def _pptx(data: bytes) -> str:
    pptx: Any = import_module("pptx")

    slides = pptx.Presentation(io.BytesIO(data)).slides
    return _joined(text for slide in slides for text in _slide_parts(slide))


def _slide_parts(slide: Any) -> Iterator[str]:
    yield from _shape_parts(slide.shapes)
    if slide.has_notes_slide:
        yield slide.notes_slide.notes_text_frame.text


def _shape_parts(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            yield from _shape_parts(shape.shapes)
        elif shape.has_text_frame:
            yield shape.text_frame.text
        elif getattr(shape, "has_table", False):
            for row in shape.table.rows:
                yield "\t".join(cell.text for cell in row.cells)


def _xlsx(data: bytes) -> str:
    openpyxl: Any = import_module("openpyxl")

    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    rows = (row for sheet in book.worksheets for row in sheet.iter_rows(values_only=True))
    return _joined("\t".join("" if cell is None else str(cell) for cell in row).rstrip("\t") for row in rows)


def _joined(parts: Iterable[str]) -> str:
    """Return the parts, line by line, as far as they are needed."""
    lines: list[str] = []
    size = 0
    for part in parts:
        lines.append(part)
        size += len(part) + 1
        if size >= CHARACTERS:
            break
    return "\n".join(lines)


def _storable(text: str) -> str:
    """Return *text* with U+FFFD for NUL and for halves of a character, which not every storage keeps."""
    paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return paired.replace("\x00", "\N{REPLACEMENT CHARACTER}")


def _limit() -> None:
    try:
        import resource
    except ImportError:  # Windows: the parent ends it after its time
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def main() -> None:
    """Read a file from standard input and write its text to standard output."""
    _limit()
    try:
        answer = {"text": _storable(extract(sys.stdin.buffer.read())[:CHARACTERS])}
    except UnsupportedTypeError as error:
        answer = {"error": "unsupported", "type": str(error)}
    except Exception:  # noqa: BLE001 - a damaged file fails in any way
        answer = {"error": "unreadable"}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
