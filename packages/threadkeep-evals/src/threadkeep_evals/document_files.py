"""Write the invented documents of the bank ``data/documents.json`` as files of eight kinds.

The questions ask in other words than the documents, and were written before the first measurement.
"""

from __future__ import annotations

import html
import io
import json
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any, Final

_SUFFIXES: Final = {"markdown": "md", "text": "txt"}
CODE: Final = "# draw it\nplot(data)"
"""What the cells of code of a notebook say."""

_LINE_CHARACTERS: Final = 85
_PDF_LINES_TOP: Final = 740


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document.

    Attributes:
        headings: From the outermost to its own.
        page: Its page or slide, from 1; ``None``: the kind has none.
        text: What it says; cells of a table are separated by `` | ``.
    """

    headings: tuple[str, ...]
    page: int | None
    text: str


@dataclass(frozen=True, slots=True)
class SampleQuestion:
    """A question, and which section answers it.

    Attributes:
        text: The question, which names what it is about in words of its own.
        bare: The same without that: several documents could be meant.
        section: The place of the section in its document.
    """

    text: str
    bare: str
    section: int


@dataclass(frozen=True, slots=True)
class SampleDocument:
    """A document of the bank.

    Attributes:
        number: Its place in the bank. Even ones are for development, odd ones are held out.
        kind: ``markdown``, ``html``, ``ipynb``, ``text``, ``pdf``, ``docx``, ``pptx`` or ``xlsx``.
        title: What it is called.
        sections: Its parts, in order.
        questions: What is asked about it.
    """

    number: int
    kind: str
    title: str
    sections: tuple[Section, ...]
    questions: tuple[SampleQuestion, ...]

    @property
    def file_name(self) -> str:
        """The name of its file, which tells nothing of its subject."""
        return f"{self.number:02}.{_SUFFIXES.get(self.kind, self.kind)}"

    @property
    def held_out(self) -> bool:
        """Whether no constant was chosen by its questions."""
        return self.number % 2 == 1


def read_bank() -> tuple[tuple[SampleDocument, ...], tuple[str, ...]]:
    """Return the documents, and questions that none of them has to do with."""
    bank = json.loads((files("threadkeep_evals") / "data" / "documents.json").read_text(encoding="utf-8"))
    documents = tuple(
        SampleDocument(
            number,
            document["kind"],
            document["title"],
            tuple(Section(tuple(one["headings"]), one["page"], one["text"]) for one in document["sections"]),
            tuple(SampleQuestion(**one) for one in document["questions"]),
        )
        for number, document in enumerate(bank["documents"])
    )
    return documents, tuple(bank["unrelated"])


def write_document(document: SampleDocument, folder: Path) -> Path:
    """Write *document* as a file of its kind into *folder*, and return where."""
    writers: dict[str, Callable[[SampleDocument], bytes]] = {
        "docx": _docx,
        "html": lambda one: _html(one).encode(),
        "ipynb": lambda one: _ipynb(one).encode(),
        "markdown": lambda one: _markdown(one).encode(),
        "pdf": _pdf,
        "pptx": _pptx,
        "text": lambda one: (one.title + "\n\n" + "\n\n".join(section.text for section in one.sections)).encode(),
        "xlsx": _xlsx,
    }
    path = folder / document.file_name
    path.write_bytes(writers[document.kind](document))
    return path


def _outline(sections: Sequence[Section]) -> list[tuple[int, str, Section | None]]:
    """Return every heading in order with its level from 0, and with the section that it heads, if any."""
    found: list[tuple[int, str, Section | None]] = []
    before: tuple[str, ...] = ()
    for section in sections:
        shared = sum(1 for one, other in zip(section.headings, before, strict=False) if one == other)
        shared = min(shared, len(section.headings) - 1)
        for level in range(shared, len(section.headings)):
            last = level == len(section.headings) - 1
            found.append((level, section.headings[level], section if last else None))
        before = section.headings
    return found


def _markdown(document: SampleDocument) -> str:
    parts = [f"# {document.title}"]
    for level, heading, section in _outline(document.sections):
        parts += [f"{'#' * (level + 2)} {heading}", *([section.text] if section else [])]
    return "\n\n".join(parts) + "\n"


def _html(document: SampleDocument) -> str:
    parts = [f"<h1>{html.escape(document.title)}</h1>"]
    for level, heading, section in _outline(document.sections):
        parts.append(f"<h{level + 2}>{html.escape(heading)}</h{level + 2}>")
        if section:
            parts.append(f"<p>{html.escape(section.text)}</p>")
    head = f"<head><title>{html.escape(document.title)}</title><script>track('visit')</script></head>"
    return f"<!DOCTYPE html><html>{head}<body>{''.join(parts)}<script>track('end')</script></body></html>"


def _ipynb(document: SampleDocument) -> str:
    cells: list[dict[str, Any]] = [{"cell_type": "markdown", "source": [f"# {document.title}"]}]
    for level, heading, section in _outline(document.sections):
        own = f"{'#' * (level + 2)} {heading}\n"
        cells.append({"cell_type": "markdown", "source": [own, *([section.text] if section else [])]})
        cells.append({"cell_type": "code", "source": CODE, "outputs": []})
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})


def _docx(document: SampleDocument) -> bytes:
    import docx

    file: Any = docx.Document()
    file.add_heading(document.title, 0)
    for level, heading, section in _outline(document.sections):
        file.add_heading(heading, level + 1)
        if section:
            file.add_paragraph(section.text)
    return _saved(file)


def _pptx(document: SampleDocument) -> bytes:
    import pptx

    file: Any = pptx.Presentation()
    file.core_properties.title = document.title
    for section in document.sections:
        slide = file.slides.add_slide(file.slide_layouts[1])
        slide.shapes.title.text = section.headings[-1]
        slide.placeholders[1].text = section.text
    return _saved(file)


def _xlsx(document: SampleDocument) -> bytes:
    import openpyxl

    file: Any = openpyxl.Workbook()
    file.properties.title = document.title
    file.remove(file.active)
    for section in document.sections:
        sheet = file.create_sheet(section.headings[-1])
        for line in section.text.splitlines():
            sheet.append([int(cell) if cell.isdecimal() else cell for cell in line.split(" | ")])
    return _saved(file)


def _pdf(document: SampleDocument) -> bytes:
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    file: Any = PdfWriter()
    file.add_metadata({"/Title": document.title})
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    fonts: Any = DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
    outline = _outline(document.sections)
    parents: dict[int, Any] = {}
    for number, sections in groupby(document.sections, key=lambda section: section.page):
        page = file.add_blank_page(612, 792)
        resources = DictionaryObject({NameObject("/Font"): DictionaryObject({NameObject("/F1"): fonts})})
        page[NameObject("/Resources")] = resources
        lines: list[str] = []
        for section in sections:
            place = next(place for place, (_, _, own) in enumerate(outline) if own is section)
            while place and outline[place - 1][2] is None:
                place -= 1
            for level, heading, own in outline[place:]:
                lines += ["", heading]
                parents[level] = file.add_outline_item(
                    title=heading, page_number=(number or 1) - 1, parent=parents.get(level - 1)
                )
                if own is section:
                    break
            lines += textwrap.wrap(section.text, _LINE_CHARACTERS)
        shown = " T* ".join(f"({line.replace('(', '').replace(')', '')}) Tj" for line in lines)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 11 Tf 14 TL 60 {_PDF_LINES_TOP} Td {shown} ET".encode("latin-1"))
        page[NameObject("/Contents")] = stream
    return _saved(file, "write")


def _saved(file: Any, method: str = "save") -> bytes:
    data = io.BytesIO()
    getattr(file, method)(data)
    return data.getvalue()
