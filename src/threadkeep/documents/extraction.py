"""The program of the child process that reads one file: the bytes come by standard input, the text leaves as JSON.

It imports nothing of the package, so that the child starts at once. A file becomes sections: each has the headings
above it, its page, and its text with its own heading in front, so that all texts together are the whole document.
"""

from __future__ import annotations

import io
import json
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from itertools import chain
from typing import Any, Final, TypeAlias

MEMORY_BYTES: Final = 512 * 1024 * 1024
CPU_SECONDS: Final = 10

UNPACKED_BYTES: Final = 100_000_000
"""How much a document may unpack to."""

HEADING_CHARACTERS: Final = 200
"""A longer heading is cut in a citation; the text keeps it."""

Line: TypeAlias = tuple[tuple[str, ...], "int | None", str]
"""The headings above a line, the outermost first; its page, from 1; and what it says."""

Section: TypeAlias = tuple[tuple[str, ...], "int | None", str]
"""The same of consecutive lines."""

_OFFICE: Final = {"word/document.xml": "docx", "ppt/presentation.xml": "pptx", "xl/workbook.xml": "xlsx"}
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_HIDDEN: Final = ("script", "style", "template", "noscript", "head")
_HEADINGS: Final = ("h1", "h2", "h3", "h4", "h5", "h6")
_BLOCKS: Final = ("p", "div", "br", "li", "tr", "section", "article", *_HEADINGS)
_LEVEL: Final = "\x1e"
"""Stands in front of a heading's level in the lines of a page."""

_MARKDOWN_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t](.*)")
_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)")
_WORD_HEADING: Final = re.compile(r"heading ([1-9])", re.IGNORECASE)


class UnsupportedTypeError(Exception):
    """No parser reads this type."""


class EncryptedError(Exception):
    """The file needs a password."""


class UnpacksTooLargeError(Exception):
    """The file unpacks to too much."""


class _Headings:
    """The headings above a place of a document."""

    def __init__(self) -> None:
        self._levels: list[tuple[int, str]] = []

    def add(self, level: int, text: str) -> None:
        """Replace the headings of this level and below by *text*."""
        shown = " ".join(text.split())[:HEADING_CHARACTERS]
        if shown:
            self._levels = [one for one in self._levels if one[0] < level] + [(level, shown)]

    @property
    def path(self) -> tuple[str, ...]:
        """The outermost first."""
        return tuple(text for _, text in self._levels)


def extract(data: bytes, *, markdown: bool = True) -> tuple[str | None, Iterator[Line]]:
    """Return the title of a file, ``None`` where its kind has none beside its headings, and its lines.

    Args:
        data: The file.
        markdown: Whether ``#`` begins a heading in a file of plain text.

    Raises:
        UnsupportedTypeError: The type is unknown, or its parser is not installed.
        EncryptedError: The file needs a password.
        UnpacksTooLargeError: The file unpacks to too much.
    """
    if data.startswith(b"%PDF-"):
        return _parsed("pdf", data)
    if data.startswith(b"PK\x03\x04"):
        return _parsed(_office_kind(data), data)
    if data.startswith(_OLE):
        if _ENCRYPTED in data:
            raise EncryptedError
        raise UnsupportedTypeError("ole")
    if data[:1_000].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith((b"<!doctype html", b"<html")):
        return _parsed("html", data)
    try:
        text = data.decode("utf-16" if data.startswith(_UTF_16) else "utf-8-sig")
    except UnicodeDecodeError:
        raise UnsupportedTypeError("binary") from None
    if "\x00" in text:
        raise UnsupportedTypeError("binary")
    if text.lstrip().startswith("{") and (cells := _cells(text)) is not None:
        return None, _notebook(cells)
    return None, markdown_lines(text) if markdown else (((), None, line) for line in text.splitlines())


def _heading_text(text: str) -> str:
    """Return the text of a Markdown heading without the marks that may close it."""
    text = text.strip(" \t")
    return text.rstrip("#").rstrip(" \t") or text


def markdown_lines(text: str, headings: _Headings | None = None) -> Iterator[Line]:
    """Yield the lines of Markdown; ``#`` in a fenced block is no heading."""
    headings = headings or _Headings()
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1][:3]
        elif mark and mark[1].startswith(fence):
            fence = ""
        elif not fence and (heading := _MARKDOWN_HEADING.match(line)) and (name := _heading_text(heading[2])):
            headings.add(len(heading[1]), name)
        yield headings.path, None, line


def sections_of(title: str | None, lines: Iterable[Line], characters: int) -> tuple[str, list[Section]]:
    """Group the first so many *characters* of *lines* by heading and page; return the title, and the sections.

    A heading above all others is the title where the file names no other, and stands in no section's headings then.
    """
    sections: list[tuple[tuple[str, ...], int | None, list[str]]] = []
    left = characters
    for headings, page, text in lines:
        if not sections or sections[-1][:2] != (headings, page):
            sections.append((headings, page, []))
        sections[-1][2].append(text[:left])
        left -= len(text) + 1
        if left <= 0:
            break
    outermost = {headings[0] for headings, _, _ in sections if headings}
    first = outermost.pop() if len(outermost) == 1 else ""
    cut = 1 if first and (title is None or first in title) else 0
    return (first if cut else "") if title is None else title, [
        (headings[cut:], page, "\n".join(texts)) for headings, page, texts in sections
    ]


def _office_kind(data: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
    names = {member.filename for member in members}
    kind = next((kind for name, kind in _OFFICE.items() if name in names), None)
    if kind is None:
        raise UnsupportedTypeError("zip")
    if sum(member.file_size for member in members) > UNPACKED_BYTES:
        raise UnpacksTooLargeError
    return kind


def _cells(text: str) -> list[Mapping[str, Any]] | None:
    """Return the cells of a notebook; ``None`` of other JSON."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        return None
    cells: Any = value.get("cells")
    return cells if isinstance(cells, list) and "nbformat" in value else None  # pyright: ignore[reportUnknownVariableType]


def _notebook(cells: Iterable[Mapping[str, Any]]) -> Iterator[Line]:
    headings = _Headings()
    for cell in cells:
        source = cell.get("source", "")
        text = source if isinstance(source, str) else "".join(source)
        if cell.get("cell_type") == "markdown":
            yield from markdown_lines(text, headings)
        else:
            yield from ((headings.path, None, line) for line in text.splitlines())
        yield headings.path, None, ""


def _parsed(kind: str, data: bytes) -> tuple[str | None, Iterator[Line]]:
    parsers: dict[str, Callable[[bytes], tuple[str | None, Iterator[Line]]]] = {
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


def _html(data: bytes) -> tuple[str | None, Iterator[Line]]:
    bs4: Any = import_module("bs4")

    page = bs4.BeautifulSoup(data, "html.parser")
    title = " ".join(page.title.get_text().split()) if page.title is not None else None
    for hidden in page(_HIDDEN):
        hidden.decompose()
    for heading in page(_HEADINGS):
        level, text = heading.name[1], " ".join(heading.get_text().split())
        heading.string = f"{_LEVEL}{level}{text}" if text else ""
        heading.insert_after("\n")
    for block in page(_BLOCKS):
        block.insert_before("\n")
    return title or None, _html_lines(page.get_text().split("\n"))


def _html_lines(lines: Iterable[str]) -> Iterator[Line]:
    headings = _Headings()
    for raw in lines:
        line = " ".join(raw.replace(_LEVEL, f" {_LEVEL}").split(" ")).strip(" \t\r")
        if line.startswith(_LEVEL) and line[1:2].isdecimal():
            headings.add(int(line[1]), line[2:])
            line = line[2:]
        if line := " ".join(line.split()):
            yield headings.path, None, line


def _pdf(data: bytes) -> tuple[str, Iterator[Line]]:
    pypdf: Any = import_module("pypdf")

    file = pypdf.PdfReader(io.BytesIO(data))
    if file.is_encrypted and not file.decrypt(""):
        raise EncryptedError
    title = file.metadata.title if file.metadata is not None else None
    return str(title or ""), _pdf_lines(file, _bookmarks(file))


def _pdf_lines(file: Any, bookmarks: Mapping[int, list[tuple[int, str]]]) -> Iterator[Line]:
    """Yield the lines of each page. A bookmark begins at the line that equals it, or else with its page."""
    headings = _Headings()
    for number, page in enumerate(file.pages, 1):
        lines: list[str] = page.extract_text().splitlines()
        waiting = bookmarks.get(number, [])
        there = {" ".join(line.split()) for line in lines}
        for level, title in [one for one in waiting if one[1] not in there]:
            headings.add(level, title)
        waiting = [one for one in waiting if one[1] in there]
        for line in lines:
            while waiting and waiting[0][1] == " ".join(line.split()):
                headings.add(*waiting.pop(0))
            yield headings.path, number, line


def _bookmarks(file: Any) -> dict[int, list[tuple[int, str]]]:
    """Return the level and the title of the bookmarks of each page, from 1."""
    found: dict[int, list[tuple[int, str]]] = {}

    def walk(entries: Iterable[Any], level: int) -> None:
        for entry in entries:
            if isinstance(entry, list):
                walk(entry, level + 1)  # pyright: ignore[reportUnknownArgumentType]
            elif (page := file.get_destination_page_number(entry)) is not None:
                found.setdefault(int(page) + 1, []).append((level, " ".join(str(entry.title).split())))

    try:
        walk(file.outline, 1)
    except Exception:  # noqa: BLE001 - a damaged table of contents: the pages can be read without one
        return {}
    return found


def _docx(data: bytes) -> tuple[str, Iterator[Line]]:
    docx: Any = import_module("docx")

    file = docx.Document(io.BytesIO(data))
    named = (block.text for block in file.paragraphs if _style(block) == "title" and block.text.strip())
    return str(next(named, "") or file.core_properties.title or ""), _docx_lines(file)


def _docx_lines(file: Any) -> Iterator[Line]:
    headings = _Headings()
    for block in file.iter_inner_content():
        level = None if hasattr(block, "rows") else _WORD_HEADING.fullmatch(_style(block))
        if level:
            headings.add(int(level[1]), block.text)
        yield from ((headings.path, None, line) for line in _docx_parts((block,)))


def _style(paragraph: Any) -> str:
    return str(paragraph.style.name or "").lower() if paragraph.style is not None else ""


def _docx_parts(blocks: Iterable[Any]) -> Iterator[str]:
    """Yield the paragraphs and the rows of tables in their order; a cell may hold tables."""
    for block in blocks:
        if hasattr(block, "rows"):
            for row in block.rows:
                yield "\t".join(" ".join(_docx_parts(cell.iter_inner_content())) for cell in row.cells)
        else:
            yield block.text


def _pptx(data: bytes) -> tuple[str, Iterator[Line]]:
    pptx: Any = import_module("pptx")

    file = pptx.Presentation(io.BytesIO(data))
    return str(file.core_properties.title or ""), chain.from_iterable(
        _slide_lines(number, slide) for number, slide in enumerate(file.slides, 1)
    )


def _slide_lines(number: int, slide: Any) -> Iterator[Line]:
    headings = _Headings()
    if slide.shapes.title is not None:
        headings.add(1, slide.shapes.title.text_frame.text)
    yield from ((headings.path, number, text) for text in _shape_parts(slide.shapes))
    if slide.has_notes_slide:
        yield headings.path, number, slide.notes_slide.notes_text_frame.text


def _shape_parts(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            yield from _shape_parts(shape.shapes)
        elif shape.has_text_frame:
            yield shape.text_frame.text
        elif getattr(shape, "has_table", False):
            for row in shape.table.rows:
                yield "\t".join(cell.text for cell in row.cells)


def _xlsx(data: bytes) -> tuple[str, Iterator[Line]]:
    openpyxl: Any = import_module("openpyxl")

    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    return str(book.properties.title or ""), (
        ((str(sheet.title),), None, "\t".join("" if cell is None else str(cell) for cell in row).rstrip("\t"))
        for sheet in book.worksheets
        for row in sheet.iter_rows(values_only=True)
    )


def storable(text: str) -> str:
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


def _answer(data: bytes, characters: int, *, markdown: bool) -> dict[str, Any]:
    try:
        title, sections = sections_of(*extract(data, markdown=markdown), characters)
    except UnsupportedTypeError as error:
        return {"error": "unsupported", "type": str(error)}
    except EncryptedError:
        return {"error": "encrypted"}
    except UnpacksTooLargeError:
        return {"error": "unpacks"}
    except Exception:  # noqa: BLE001 - a damaged file fails in any way
        return {"error": "damaged"}
    return {
        "title": storable(title),
        "sections": [([*map(storable, headings)], page, storable(text)) for headings, page, text in sections],
    }


def main() -> None:
    """Read a file from standard input and write its text to standard output.

    The arguments are how many characters are needed, and ``markdown`` or ``text`` for what a text is.
    """
    _limit()
    answer = _answer(sys.stdin.buffer.read(), int(sys.argv[1]), markdown=sys.argv[2] == "markdown")
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
