"""Ids by their first characters, files that are standard streams, conversations, and descriptions in full."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from rich.table import Table
from typer.main import get_command

import threadkeep
from tests.command_line import CliRunner, Result
from threadkeep.cli import output
from threadkeep.cli.main import app
from threadkeep.errors import InvalidInputError, MemoryNotFoundError
from threadkeep.settings import Settings

USER = "ana.maria@x.org"

pytestmark = pytest.mark.usefixtures("folder")


def run(*words: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, [*words, "--user", USER], input=stdin, catch_exceptions=False)


def answer(*words: str, stdin: str | bytes | None = None) -> Any:
    result = run(*words, "--json", stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


class TestPrefixes:
    """The first characters of an id stand for it, as in git."""

    def test_a_memory_is_named_by_the_first_characters_of_its_id(self):
        memory_id = answer("memories", "add", "I live in Lisbon.")["memory"]["memory_id"]
        short = memory_id[:6]

        assert answer("memories", "show", short)["memory_id"] == memory_id
        assert answer("memories", "correct", short, "I live in Berlin.")["memory_id"] == memory_id
        assert answer("memories", "pin", short)["pinned"]
        assert answer("memories", "why", short)["memory"]["memory_id"] == memory_id
        assert [row["text"] for row in answer("memories", "history", short)] == ["I live in Lisbon."]
        assert answer("memories", "forget", short, "--yes")["memory_ids"] == [memory_id]

    def test_several_matches_are_refused(self):
        """Nothing is changed, and the message names them."""
        lines = "".join(json.dumps({"text": f"I have {n} cats.", "id": f"cats-{n}"}) + "\n" for n in (2, 3))
        run("memories", "import", "-", stdin=lines)

        with pytest.raises(InvalidInputError, match=r"2 memories begin with 'cats' \(cats-2, cats-3\)"):
            run("memories", "forget", "cats", "--yes")
        assert answer("memories", "show", "cats-2")["text"] == "I have 2 cats."

    def test_too_few_characters_match_nothing(self):
        memory_id = answer("memories", "add", "I live in Lisbon.")["memory"]["memory_id"]

        with pytest.raises(MemoryNotFoundError):
            run("memories", "show", memory_id[:3])

    def test_a_whole_id_wins_over_longer_ones(self):
        run("memories", "import", "-", stdin='{"text": "I have a cat.", "id": "cats"}\n{"text": "No.", "id": "cats-2"}')

        assert answer("memories", "show", "cats")["text"] == "I have a cat."

    def test_proposals_and_tombstones_are_named_so_too(self):
        with threadkeep.open(settings=Settings.load(), owner=USER) as tk:
            made = [tk.sync.proposals.propose(f"The user's lucky number is {n}.").proposal for n in range(3)]
        ids = [proposal.proposal_id for proposal in made if proposal]

        assert answer("proposals", "show", ids[0][:8])["proposal_id"] == ids[0]
        assert answer("proposals", "approve", ids[0][:8], ids[1][:8])[1]["proposal_id"] == ids[1]
        assert answer("proposals", "reject", ids[2][:8])[0]["state"] == "rejected"
        (tombstone,) = answer("proposals", "tombstones")
        answer("proposals", "lift", tombstone["tombstone_id"][:8])
        assert answer("proposals", "tombstones") == []


class TestStreams:
    """A minus sign stands for standard input and standard output."""

    def test_an_export_is_imported_through_a_pipe(self, folder: Path):
        run("memories", "add", "Half \ud800 a pair, 日本語")
        exported = run("memories", "export", "-").stdout

        result = answer("memories", "import", "-", "--data-dir", str(folder / "other"), stdin=exported)

        assert len(result["memory_ids"]) == 1
        assert [row["text"] for row in answer("memories", "list", "--data-dir", str(folder / "other"))] == [
            "Half \ud800 a pair, 日本語"
        ]
        assert not (folder / "-").exists()

    def test_a_line_of_an_import_ends_with_a_line_feed_only(self, folder: Path):
        lines = '{"text": "I live\u2028in Rome."}\r\n\r\n{"text": "I have\x85a cat."}'

        result = answer("memories", "import", "-", "--data-dir", str(folder / "other"), stdin=lines)

        assert (len(result["memory_ids"]), result["faults"]) == (2, {})

    @pytest.mark.parametrize("name", ["all.zip", "all", "all/export.jsonl"])
    def test_what_owners_export_writes_is_imported(self, folder: Path, name: str):
        """As it was written: the ZIP file, the folder, or the file in it; a file that has no export is refused."""
        run("memories", "add", "I live in Lisbon.")
        run("owners", "export", str(folder / Path(name).parts[0]))

        result = answer("memories", "import", str(folder / name), "--data-dir", str(folder / "other"))

        assert len(result["memory_ids"]) == 1
        with ZipFile(folder / "strange.zip", "w") as archive:
            archive.writestr("notes.txt", "nothing")
        for strange in ("strange.zip", "nowhere"):
            with pytest.raises(InvalidInputError, match=f"{strange} cannot be read"):
                run("memories", "import", str(folder / strange))

    def test_everything_of_an_owner_is_written_to_standard_output(self, folder: Path):
        run("memories", "add", "I live in Lisbon.")

        lines = run("owners", "export", "-").stdout.splitlines()

        assert json.loads(lines[0])["user_id"] == USER
        assert not (folder / "-").exists()

    def test_input_that_is_no_text_is_refused(self):
        with pytest.raises(InvalidInputError, match="standard input cannot be read"):
            run("memories", "import", "-", stdin=b"\xff\xfe")


class TestThreads:
    def test_show_prints_the_conversation(self):
        """By the first characters of the thread's id; control characters of a message reach no terminal."""
        run("chat", "--thread", "monday-1", stdin="I live in \x1b[31mLisbon.\n")
        run("chat", "--thread", "monday-1", stdin="I have two cats.\n")

        shown = run("threads", "show", "mond").stdout
        row = answer("threads", "show", "monday-1")

        assert "I live in \ufffd[31mLisbon." in shown
        assert "\x1b" not in shown
        assert shown.index("Lisbon") < shown.index("two cats")
        assert [message["role"] for message in row["messages"]] == ["user", "assistant", "user", "assistant"]
        assert row["stats"]["checkpoints"] > 1
        assert answer("threads", "list")[0]["metadata"] == {}, "an object, not its text"

    def test_threads_are_deleted_by_whole_ids_only(self):
        """They are chosen by applications: team is not team-2."""
        run("chat", "--thread", "team-2", stdin="I live in Lisbon.\n")

        with pytest.raises(InvalidInputError, match="was not found"):
            run("threads", "delete", "team", "--yes")


class TestHowToBehave:
    @pytest.mark.parametrize("text", ["Always answer in French.", "From now on, use metric units."])
    @pytest.mark.parametrize("kind", [[], ["--kind", "semantic"]])
    def test_it_is_proposed_whatever_the_kind(self, text: str, kind: list[str]):
        """Nothing recalls it before it is approved."""
        added = answer("memories", "add", text, *kind)

        assert added["status"] == "proposed"
        assert answer("memories", "list") == []
        answer("proposals", "approve", added["proposal_id"])
        assert [(row["text"], row["kind"]) for row in answer("memories", "list")] == [(text, "procedural")]

    def test_it_is_kept_if_a_person_approved_it(self):
        assert answer("memories", "add", "Always answer in French.", "--approved-by", "carla")["status"] == "accepted"

    @pytest.mark.parametrize("text", ["I always answer in French.", "Call me Ana."])
    def test_statements_about_the_user_are_kept(self, text: str):
        assert answer("memories", "add", text)["status"] == "accepted"


class TestHelp:
    @pytest.mark.parametrize("columns", [120, 240])
    def test_descriptions_are_never_cut_at_wide_terminals(self, columns: int, monkeypatch: pytest.MonkeyPatch):
        """Each line is as wide as the terminal allows, and no description ends in dots."""
        monkeypatch.setenv("COLUMNS", str(columns))
        texts = dict(helps(get_command(app)))
        lines = [line.rstrip() for text in texts.values() for line in text.splitlines() if "Usage:" not in line]

        assert [line for line in lines if line.endswith("...")] == []
        assert 100 < max(map(len, lines)) <= columns
        assert len(texts) > 50


class TestWidth:
    def test_tables_in_a_file_or_a_pipe_are_not_cut(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ):
        """Three columns of fifty characters do not fit into Rich's usual eighty."""
        monkeypatch.delenv("COLUMNS", raising=False)
        cells = ["a" * 50, "b" * 50, "c" * 50]
        table = Table()
        table.add_row(*cells)

        output._LazyConsole(stderr=False).print(table)

        printed = capsys.readouterr().out
        assert [cell for cell in cells if cell not in printed] == []


def helps(command: Any, parent: Any = None) -> Iterator[tuple[str, str]]:
    """Yield the path and the help of every command and group."""
    context = command.context_class(command, info_name=command.name, parent=parent, **command.context_settings)
    yield context.command_path, command.get_help(context)
    for inner in getattr(command, "commands", {}).values():
        yield from helps(inner, context)
