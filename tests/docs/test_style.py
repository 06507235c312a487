"""Pages are written for readers: what they can do comes first, an example follows, and sentences are short."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
GENERATED: Final = {"api.md", "commands.md", "errors.md", "settings.md"}
WITHOUT_EXAMPLE: Final = {"glossary.md", "support.md"}
LONGEST: Final = 25
CODE: Final = re.compile(r"^```.*?^```|^(?: {4}|\t).*?$", re.DOTALL | re.MULTILINE)
PAGES: Final = sorted(path for path in (ROOT / "docs").glob("*.md") if path.name not in GENERATED)


def sentences(text: str) -> list[str]:
    """Return the sentences of *text*; code, tables and headings are left out, and a list's items are apart."""
    prose = "\n".join(
        line
        for line in CODE.sub("", text.partition("<!-- The report")[0]).split("\n")
        if not line.startswith(("|", "#"))
    )
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*[-*] |\s*\d+\. )", prose)
    plain = (re.sub(r"`[^`]*`", "code", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", part)) for part in paragraphs)
    return [sentence for part in plain for sentence in re.split(r"(?<=[.!?:;])\s+", " ".join(part.split()))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
class TestPage:
    def test_sentences_are_short(self, path: Path):
        words = {sentence: len(re.findall(r"\S*\w\S*", sentence)) for sentence in sentences(path.read_text("utf-8"))}

        assert not [sentence for sentence, count in words.items() if count > LONGEST]

    def test_it_begins_with_what_the_reader_can_do_and_shows_it(self, path: Path):
        title, purpose, *rest = path.read_text("utf-8").split("\n\n")

        assert title.startswith("# ")
        assert purpose[0].isalpha()
        assert path.name in WITHOUT_EXAMPLE or any(part.startswith(("```", "    ")) for part in rest[:4])


def test_long_sentences_are_found():
    text = "One. " + "word " * 26 + "end.\n\n    code " + "word " * 30

    assert [len(sentence.split()) for sentence in sentences(text) if sentence] == [1, 27]
