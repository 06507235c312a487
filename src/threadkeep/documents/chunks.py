"""Split a document into parts that are searched and cited: each lies under one heading, on one page. Pure rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from threadkeep.documents.reader import ParsedDocument, Section
from threadkeep.errors import optional_import

PART_CHARACTERS: Final = 1_000
OVERLAP_CHARACTERS: Final = 100
"""A part is a paragraph or two; the model of the local embedder reads 256 tokens, about as much."""

CONTEXT_CHARACTERS: Final = 300
"""More of the title and the headings is not searched with a part."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a document.

    Attributes:
        headings: The headings above it, the outermost first.
        page: Its page or slide, from 1; ``None``: the kind of file has none.
        text: What it says.
    """

    headings: tuple[str, ...]
    page: int | None
    text: str

    def context(self, title: str) -> str:
        """Return the title and the headings in one line, which are searched with the text."""
        return " › ".join(part for part in (title, *self.headings) if part)[:CONTEXT_CHARACTERS]


def split_document(document: ParsedDocument) -> list[Chunk]:
    """Split *document* at headings, pages, paragraphs, lines or words, into parts of at most 1,000 characters.

    Raises:
        SettingsError: The splitter is not installed.
    """
    with optional_import("The splitter of documents", extra="documents"):
        from langchain_text_splitters import RecursiveCharacterTextSplitter
    splitter = RecursiveCharacterTextSplitter(chunk_size=PART_CHARACTERS, chunk_overlap=OVERLAP_CHARACTERS)
    return [
        Chunk(section.headings, section.page, part)
        for section in document.sections
        if _has_content(section, document.title)
        for part in splitter.split_text(section.text)
    ]


def _has_content(section: Section, title: str) -> bool:
    """Return whether *section* says more than its heading, or than the title where no heading stands above it."""
    text = " ".join(section.text.split()).strip("# ")
    return text not in ("", section.headings[-1] if section.headings else title)
