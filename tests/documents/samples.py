"""Small files of every kind, and files that harm a parser."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

NOTEBOOK = {"nbformat": 4, "cells": [{"cell_type": "markdown", "source": ["# Plan\n", "Tram 28"]}]}
PAGE = "<!DOCTYPE html><html><head><title>x</title></head><body><p>Tram 28</p><script>evil()</script></body></html>"


def archive(files: Mapping[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return data.getvalue()


def changed(document: bytes, name: str, old: bytes, new: bytes) -> bytes:
    """Return an archive with *old* replaced by *new* in one of its files."""
    with zipfile.ZipFile(io.BytesIO(document)) as packed:
        files = {member: packed.read(member) for member in packed.namelist()}
    assert old in files[name]
    return archive({**files, name: files[name].replace(old, new, 1)})


def saved(document: Any) -> bytes:
    data = io.BytesIO()
    document.save(data)
    return data.getvalue()


def word_document() -> bytes:
    import docx

    document = docx.Document()
    document.add_paragraph("To the castle:")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Tram", "28"
    return saved(document)


def presentation() -> bytes:
    import pptx

    slides = pptx.Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[5])
    assert slide.shapes.title is not None
    slide.shapes.title.text = "To the castle"
    table = slide.shapes.add_table(1, 2, 0, 0, 100, 100).table
    table.cell(0, 0).text, table.cell(0, 1).text = "Tram", "28"
    notes = slide.notes_slide.notes_text_frame
    assert notes is not None
    notes.text = "Mind the gap."
    return saved(slides)


def workbook() -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["Tram", 28])
    return saved(book)


def pdf(text: str = "Tram 28", password: str | None = None) -> bytes:
    """Return a page with a text, in a font that every reader has."""
    stream = f"BT /F1 24 Tf 72 720 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /MediaBox [0 0 612 792] /Resources 5 0 R >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>",
    ]
    data = bytearray(b"%PDF-1.4\n")
    places: list[int] = []
    for number, content in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(data)
    data += b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    data += b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start
    if password is None:
        return bytes(data)
    import pypdf

    writer = pypdf.PdfWriter(clone_from=io.BytesIO(bytes(data)))
    writer.encrypt(password, algorithm="RC4-128")
    sealed = io.BytesIO()
    writer.write(sealed)
    return sealed.getvalue()


def encrypted_office() -> bytes:
    """Return the head of an encrypted Office document: a compound file with the stream of that name."""
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + "EncryptedPackage".encode("utf-16-le") + bytes(512)


def with_entities(entity: bytes) -> bytes:
    """Return a document whose text is the entity ``x``."""
    prolog = b'<?xml version="1.0"?>\n<!DOCTYPE d [' + entity + b"]>"
    document = changed(word_document(), "word/document.xml", b"To the castle:", b"&x;")
    return changed(document, "word/document.xml", b"<?xml version='1.0' encoding='UTF-8' standalone='yes'?>", prolog)


LAUGHS = b'<!ENTITY a "ha">' + b"".join(
    b'<!ENTITY %c "%s">' % (ord("a") + n, b"&%c;" % (ord("a") + n - 1) * 10) for n in range(1, 12)
)
