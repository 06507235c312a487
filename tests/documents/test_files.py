"""Files of eight kinds in collections: their headings, pages and refusals, and that no file hurts another."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import threadkeep
from tests.command_line import CliRunner
from tests.documents.samples import archive, encrypted_office, pdf
from tests.processes import PIPE, run_python, start_python
from threadkeep.cli.main import app
from threadkeep.collections.service import MAX_FILE_BYTES
from threadkeep.errors import FileTypeUnsupportedError, FileUnreadableError, TooLargeError
from threadkeep.testing.models import HashingEmbedder
from threadkeep_evals.document_files import read_bank, write_document


@cache
def bomb() -> bytes:
    """Return a small archive of more than a hundred megabytes."""
    return archive({"xl/workbook.xml": b"<a>" * 34_000_000})


@pytest.fixture
def tk() -> Any:
    with threadkeep.open("memory://", embedder=HashingEmbedder()) as opened:
        yield opened


class TestKinds:
    @pytest.mark.parametrize("kind", ["markdown", "html", "ipynb", "text", "pdf", "docx", "pptx", "xlsx"])
    def test_passages_have_title_headings_and_page(self, tk: threadkeep.Threadkeep, tmp_path: Path, kind: str):
        """Each section of the file is a passage under its own headings, on its own page."""
        document = next(one for one in read_bank()[0] if one.kind == kind)
        path = write_document(document, tmp_path)

        tk.sync.collections.ingest_file("files", path)

        found = tk.sync.collections.search("files", "the", limit=100, relevant_only=False).passages
        places = {(one.headings, one.page) for one in found}
        assert places >= {(one.headings, one.page) for one in document.sections}
        assert {one.title for one in found} == {path.name if kind == "text" else document.title}
        text = " ".join(one.text for one in found)
        assert "track(" not in text
        assert all(section.text.split()[0] in text for section in document.sections)

    def test_a_comment_in_code_is_no_heading(self, tk: threadkeep.Threadkeep):
        """Only the names of Markdown files say that # begins a heading."""
        tk.sync.collections.ingest_file("files", b"# set up\nx = 1\n", document_id="run.py")

        (found,) = tk.sync.collections.search("files", "set up x").passages

        assert (found.headings, found.text) == ((), "# set up\nx = 1")


class TestRefusals:
    @pytest.mark.parametrize(
        ("make", "error", "reason"),
        [
            (lambda: pdf(password="secret"), FileUnreadableError, "encrypted"),
            (encrypted_office, FileUnreadableError, "encrypted"),
            (lambda: b"%PDF-1.7 damaged", FileUnreadableError, "damaged"),
            (bomb, FileUnreadableError, "unpacks to more than 100 MB"),
            (lambda: b"\x89PNG\r\n\x1a\n\x00\x00", FileTypeUnsupportedError, "type"),
            (lambda: b"word " * 800_001, TooLargeError, "4,000,000 characters"),
        ],
        ids=["pdf", "office", "damaged", "bomb", "picture", "long"],
    )
    def test_the_reason_is_named(
        self, tk: threadkeep.Threadkeep, make: Callable[[], bytes], error: type[Exception], reason: str
    ):
        with pytest.raises(error, match=reason):
            tk.sync.collections.ingest_file("files", make(), document_id="a")

        assert tk.sync.collections.list("files") == []

    def test_a_text_of_ten_million_characters_is_too_long(self, tk: threadkeep.Threadkeep):
        with pytest.raises(TooLargeError, match=r"10,000,000 characters, and 4,000,000 are the most"):
            tk.sync.collections.ingest("files", "a" * 10_000_000, document_id="a")

    def test_of_a_file_of_a_gigabyte_little_is_read(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        path = sparse(tmp_path / "huge.pdf")

        with pytest.raises(TooLargeError, match=f"{MAX_FILE_BYTES:,} bytes"):
            tk.sync.collections.ingest_file("files", path)

    def test_a_new_version_that_is_refused_leaves_the_old_one(self, tk: threadkeep.Threadkeep):
        tk.sync.collections.ingest_file("files", pdf("Tram 28"), document_id="a.pdf")

        with pytest.raises(FileUnreadableError):
            tk.sync.collections.ingest_file("files", pdf("Tram 29", password="x"), document_id="a.pdf")

        assert [one.text for one in tk.sync.collections.search("files", "Tram").passages] == ["Tram 28"]


def sparse(path: Path) -> Path:
    with path.open("wb") as file:
        file.write(b"%PDF-1.7\n")
        os.truncate(file.fileno(), 1_000_000_000)
    return path


def test_a_folder_is_ingested_beside_what_is_refused(tmp_path: Path):
    """Each refused file is named with its reason, the exit code says so, and a second run writes nothing."""
    folder = tmp_path / "in"
    (folder / "deep" / ".git").mkdir(parents=True)
    (folder / "deep" / ".git" / "config").write_text("hidden")
    (folder / "bomb.xlsx").write_bytes(bomb())
    sparse(folder / "huge.pdf")
    (folder / "sealed.pdf").write_bytes(pdf(password="secret"))
    (folder / "torn.docx").write_bytes(b"PK\x03\x04 damaged")
    (folder / "trams.pdf").write_bytes(pdf("Tram 28 climbs to the castle"))
    (folder / "deep" / "boats.md").write_text("# Boats\n## Timetable\nThe boat leaves at nine.")
    where = ["--data-dir", str(tmp_path)]

    def run(*words: str) -> Any:
        return CliRunner().invoke(app, ["collections", *words, *where])

    first = run("ingest", "files", str(folder), "--metadata", "team=ops", "--json")
    rows = {Path(row["document_id"]).name: row for row in json.loads(first.stdout)}

    assert first.exit_code == 1
    assert {name: row["error"] for name, row in rows.items() if "error" in row} == {
        "bomb.xlsx": "file_unreadable",
        "huge.pdf": "too_large",
        "sealed.pdf": "file_unreadable",
        "torn.docx": "file_unreadable",
    }
    assert {name for name, row in rows.items() if row.get("changed")} == {"trams.pdf", "boats.md"}
    again = run("ingest", "files", str(folder), "--metadata", "team=ops").output.replace("\n", "")
    assert "sealed.pdf: refused (file_unreadable)" in again
    assert again.count("unchanged") == 2
    kept = json.loads(run("list", "files", "--json").stdout)
    assert {Path(row["document_id"]).name for row in kept} == {"trams.pdf", "boats.md"}
    (found,) = json.loads(
        run("search", "files", "Tram 28 to the castle", "--where", "team=ops", "-n", "1", "--json").stdout
    )
    assert (found["page"], found["text"]) == (1, "Tram 28 climbs to the castle")


@pytest.mark.slow
@pytest.mark.linux
def test_what_a_killed_ingestion_left_is_whole(tmp_path: Path):
    """Every document that is listed has all its parts, and a second run adds the others.

    Each document waits for a line of the test, so that the process is in the middle of one when it is killed: on its
    own it has ingested all of them within half a second.
    """
    folder, url = tmp_path / "in", f"sqlite:///{tmp_path}/memory.db"
    folder.mkdir()
    for number in range(30):
        sections = "\n".join(f"## Part {part}\nSentence {part} of {number}." for part in range(40))
        (folder / f"{number:02}.md").write_text(f"# Document {number}\n{sections}\n# End\nThe end of {number}.")
    program = (
        "import sys, pathlib, threadkeep\n"
        "with threadkeep.open(sys.argv[1], embedder='none') as tk:\n"
        "    for file in sorted(pathlib.Path(sys.argv[2]).iterdir()):\n"
        "        sys.stdin.readline()\n"
        "        tk.sync.collections.ingest('files', file.read_text(), document_id=file.name)\n"
        "        print(file.name, flush=True)\n"
    )
    for lines in (1, 7):
        with start_python("-c", program, url, folder, stdin=PIPE, stdout=PIPE) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write("\n" * (lines + 1))
            child.stdin.flush()
            names = [child.stdout.readline() for _ in range(lines)]
            os.kill(child.pid, signal.SIGKILL)
        assert all(names)

        with threadkeep.open(url, embedder="none") as tk:
            documents = tk.sync.collections.list("files")
            found = tk.sync.collections.search("files", "sentence", limit=5_000, relevant_only=False).passages
        assert lines <= len(documents) <= lines + 1
        assert {one.parts for one in documents} == {41}
        assert len(found) == 41 * len(documents)

    run_python("-c", program, url, folder).check_returncode()
    with threadkeep.open(url, embedder="none") as tk:
        assert len(tk.sync.collections.list("files")) == 30
