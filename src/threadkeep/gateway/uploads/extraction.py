"""The child process that reads one file: the bytes come by standard input, the text leaves as JSON."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable
from html.parser import HTMLParser
from importlib import import_module
from typing import Any, Final

from typing_extensions import override

MEMORY_BYTES: Final = 512 * 1024 * 1024
CPU_SECONDS: Final = 10
CHARACTERS: Final = 12_001
"""Further text is not needed: the file is refused."""

_OFFICE: Final = {"word/document.xml": "docx", "ppt/presentation.xml": "pptx", "xl/workbook.xml": "xlsx"}
_HIDDEN: Final = frozenset({"script", "style", "template", "noscript", "head"})
_BLOCKS: Final = frozenset({"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article"})


class UnsupportedTypeError(Exception):
    """No parser reads this type."""


class _VisibleText(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = 0

    @override
    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._hidden += tag in _HIDDEN
        if tag in _BLOCKS:
            self.parts.append("\n")

    @override
    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in _HIDDEN and self._hidden > 0

    @override
    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)


def extract(data: bytes) -> str:
    """Return the text of a file.

    Raises:
        UnsupportedTypeError: The type is unknown, or its parser is not installed.
    """
    if data.startswith(b"%PDF-"):
        return _parsed("pdf", data)
    if data.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = set(archive.namelist())
        kind = next((kind for name, kind in _OFFICE.items() if name in names), None)
        if kind is None:
            raise UnsupportedTypeError("zip")
        return _parsed(kind, data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnsupportedTypeError("binary") from None
    if "\x00" in text:
        raise UnsupportedTypeError("binary")
    start = text[:1_000].lstrip().lower()
    if start.startswith(("<!doctype html", "<html")):
        return _html(text)
    return _notebook(text) if start.startswith("{") else text


def _html(text: str) -> str:
    parser = _VisibleText()
    parser.feed(text)
    parser.close()
    lines = (" ".join(line.split()) for line in "".join(parser.parts).splitlines())
    return "\n".join(line for line in lines if line)


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
    parsers: dict[str, Callable[[Any], str]] = {"pdf": _pdf, "docx": _docx, "pptx": _pptx, "xlsx": _xlsx}
    try:
        return parsers[kind](io.BytesIO(data))
    except ImportError:
        raise UnsupportedTypeError(kind) from None


def _pdf(file: Any) -> str:
    pypdf: Any = import_module("pypdf")

    return _joined(page.extract_text() for page in pypdf.PdfReader(file).pages)


def _docx(file: Any) -> str:
    docx: Any = import_module("docx")

    return _joined(paragraph.text for paragraph in docx.Document(file).paragraphs)


def _pptx(file: Any) -> str:
    pptx: Any = import_module("pptx")

    slides = pptx.Presentation(file).slides
    return _joined(shape.text_frame.text for slide in slides for shape in slide.shapes if shape.has_text_frame)


def _xlsx(file: Any) -> str:
    openpyxl: Any = import_module("openpyxl")

    book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    rows = (row for sheet in book.worksheets for row in sheet.iter_rows(values_only=True))
    return _joined("\t".join("" if cell is None else str(cell) for cell in row) for row in rows)


def _joined(parts: Any) -> str:
    """Return the parts, line by line, as far as they are needed."""
    lines: list[str] = []
    size = 0
    for part in parts:
        lines.append(part)
        size += len(part) + 1
        if size >= CHARACTERS:
            break
    return "\n".join(lines)


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
        answer = {"text": extract(sys.stdin.buffer.read())[:CHARACTERS]}
    except UnsupportedTypeError as error:
        answer = {"error": "unsupported", "type": str(error)}
    except Exception:  # noqa: BLE001 - a damaged file fails in any way
        answer = {"error": "unreadable"}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
