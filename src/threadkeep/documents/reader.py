"""Read a file in a child process with bounded memory and time, and split what it holds into parts.

No file can harm the process that asks. Each part is searched and cited: it lies under one heading, on one page.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from threadkeep.errors import FileTypeUnsupportedError, FileUnreadableError, TooLargeError, optional_import

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS: Final = 10.0
"""How long a child may take; its memory is limited to 512 MB."""

CHILDREN: Final = 2
"""So many child processes run at a time, for each owner of a semaphore."""

MARKDOWN: Final = ("", ".md", ".markdown", ".mdx")
"""A text has headings if its name ends so; in other texts ``#`` may begin a comment."""

PARSED: Final = ("docx", "html", "pdf", "pptx", "xlsx")
"""The types that need a parser of the extra ``documents``."""

_PROGRAM: Final = str(Path(__file__).with_name("extraction.py"))
_BYTES_A_CHARACTER: Final = 16
_REASONS: Final = {
    "encrypted": "it is encrypted; save it without a password",
    "unpacks": "it unpacks to more than 100 MB",
    "damaged": "it is damaged or too complex",
}


@dataclass(frozen=True, slots=True)
class Section:
    """Consecutive lines of a document under one heading, on one page.

    Attributes:
        headings: The headings above them, the outermost first, and their own.
        page: The page or slide, from 1; ``None``: the kind of file has none.
        text: What they say, with their own heading.
    """

    headings: tuple[str, ...]
    page: int | None
    text: str


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """What a file says.

    Attributes:
        title: As the file names itself; empty: it does not.
        sections: Its parts, in order.
    """

    title: str
    sections: tuple[Section, ...]

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(section.text for section in self.sections)


async def read_document(
    data: bytes, children: asyncio.Semaphore, *, name: str = "", max_bytes: int, max_characters: int
) -> ParsedDocument:
    """Return what a file says; its kind is recognised by its content.

    PDF, DOCX, PPTX, XLSX, HTML, notebooks and text in UTF-8 or UTF-16 are read.

    Args:
        data: The file.
        children: Limits the child processes that run at a time.
        name: Its name, which tells Markdown from other text.
        max_bytes: The largest file.
        max_characters: The longest text.

    Raises:
        TooLargeError: The file is larger, or its text longer.
        FileTypeUnsupportedError: No parser reads this type.
        FileUnreadableError: The file is damaged, encrypted, unpacks to too much or takes too long.
    """
    if len(data) > max_bytes:
        msg = f"A file has more than {max_bytes:,} bytes."
        raise TooLargeError(msg)
    kind = "markdown" if Path(name).suffix.lower() in MARKDOWN else "text"
    async with children:
        answer = await _ask_child(data, max_characters, kind)
    if answer.get("error") == "unsupported":
        kind = str(answer.get("type", "unknown"))
        how = "install threadkeep[documents]" if kind in PARSED else "convert it to PDF, HTML or text"
        msg = f"A file is of a type that is not read here ({kind}); {how}."
        raise FileTypeUnsupportedError(msg)
    if "error" in answer:
        raise _unreadable(str(answer["error"]))
    rows: Sequence[tuple[list[str], int | None, str]] = answer["sections"]
    sections = tuple(Section(tuple(headings), page, text) for headings, page, text in rows)
    document = ParsedDocument(answer["title"], sections)
    if len(document.text) > max_characters:
        msg = f"A file has more than {max_characters:,} characters of text."
        raise TooLargeError(msg)
    return document


async def _ask_child(data: bytes, max_characters: int, kind: str) -> dict[str, Any]:
    """Start the child; it gives up where the text is one character longer than the longest."""
    pipe = asyncio.subprocess.PIPE
    arguments = ("-I", _PROGRAM, str(max_characters + 1), kind)
    child = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, env={}
    )  # a parser that a file has taken over finds no secret in its environment
    try:
        async with asyncio.timeout(SECONDS):
            output = await _exchange(child, data, _BYTES_A_CHARACTER * max_characters)
            await child.wait()
    except TimeoutError:
        raise _unreadable("damaged") from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.communicate()  # what is left in the pipe, which is closed then
    if child.returncode:
        raise _unreadable("damaged")
    return json.loads(output)


async def _exchange(child: asyncio.subprocess.Process, data: bytes, max_bytes: int) -> bytes:
    """Send *data* to *child*, and return its answer, of which no more is read than an honest one has.

    Raises:
        FileUnreadableError: The answer is longer.
    """
    assert child.stdin is not None  # noqa: S101 - both are pipes
    assert child.stdout is not None  # noqa: S101
    child.stdin.write(data)
    with suppress(BrokenPipeError, ConnectionResetError):  # it ended without reading all: its exit code says so
        await child.stdin.drain()
    child.stdin.close()
    try:
        await child.stdout.readexactly(max_bytes + 1)
    except asyncio.IncompleteReadError as end:
        return end.partial
    raise _unreadable("damaged")


def _unreadable(reason: str) -> FileUnreadableError:
    return FileUnreadableError(f"A file cannot be read: {_REASONS.get(reason, _REASONS['damaged'])}.")


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
