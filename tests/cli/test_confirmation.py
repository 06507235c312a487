"""Commands that destroy ask first, and commands that read never create a database."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import threadkeep
from tests.command_line import CliRunner, Result
from tests.processes import THREADKEEP, run_python
from threadkeep.cli.main import app
from threadkeep.errors import ThreadkeepError

USER = "ana.maria@x.org"

DESTRUCTIVE = [
    ["memories", "forget", "{memory}", "--user", USER],
    ["memories", "undo", "--user", USER],
    ["profile", "clear", "diet", "--user", USER],
    ["credentials", "revoke", "https://mcp.example.org/mcp", "--user", USER],
    ["threads", "delete", "t1", "--user", USER],
    ["threads", "prune", "--user", USER],
    ["threads", "prune", "t1", "--user", USER],
    ["threads", "adopt", "--owner-key", "user_id"],
    ["proposals", "approve", "--all", "--user", USER],
    ["proposals", "reject", "--all", "--user", USER],
    ["scopes", "erase", "team:ops"],
    ["api-keys", "revoke", "{key}"],
    ["collections", "delete", "handbook", "--all"],
    ["owners", "erase", "--user", USER],
    ["owners", "replay-erasures"],
    ["storage", "copy", "--from", "{source}", "--into-existing", "--overwrite"],
]
"""What cannot be taken back. `keys check --remove` and `threads move` need more than a storage of memories; each has a
test of its own."""

READING = [
    ["memories", "list"],
    ["memories", "kinds"],
    ["memories", "search", "coffee"],
    ["memories", "export"],
    ["profile", "show"],
    ["credentials", "list"],
    ["proposals", "list"],
    ["proposals", "tombstones"],
    ["proposals", "policy"],
    ["scopes", "list"],
    ["threads", "list"],
    ["threads", "stats"],
    ["collections", "names"],
    ["collections", "list", "handbook"],
    ["owners", "show"],
    ["owners", "export"],
    ["owners", "erasure-receipts"],
    ["audit", "list"],
    ["audit", "verify"],
    ["agents"],
    ["api-keys", "list"],
    ["queue", "list"],
    ["storage", "stats"],
    ["storage", "check"],
    ["keys", "status"],
    ["doctor"],
]

NAMED = [
    ["memories", "show", "nothing"],
    ["memories", "history", "nothing"],
    ["memories", "why", "nothing"],
    ["proposals", "show", "nothing"],
    ["scopes", "members", "team:ops"],
    ["scopes", "memories", "team:ops"],
    ["scopes", "proposals", "team:ops"],
    ["threads", "show", "nothing"],
    ["collections", "search", "handbook", "coffee"],
    ["collections", "similar", "handbook", "brew"],
]
"""Those that read something by its name, and say so if it is not there."""

CHANGING = """
    chat, demo, init, serve, mcp, worker, migrate
    memories add, memories correct, memories pin, memories label, memories consolidate, memories reflect
    memories tidy, memories restore, memories import, profile set
    proposals edit, proposals lift, proposals contradictions
    scopes create, scopes grant, scopes revoke, scopes propose, scopes promote, scopes approve, scopes reject
    threads fork, threads import, threads export, threads move, collections ingest, conversations import, owners opt-out
    api-keys create, queue retry, keys new, keys rotate, keys rotate-cursors, keys check
    storage sweep, storage re-embed
"""
"""What writes, and what it changes can be changed back or was asked for by its id."""

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def filled(folder: Path, filled_once: tuple[Path, dict[str, str]]) -> dict[str, str]:
    """A memory and a document, and another database to copy from."""
    made, names = filled_once
    shutil.copytree(made, folder, dirs_exist_ok=True)
    return {**names, "source": f"sqlite:///{folder / 'other.db'}"}


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The folder that :func:`filled` copies, and the ids of what is in it."""
    folder = tmp_path_factory.mktemp("filled")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("THREADKEEP_DATA_DIR", str(folder / "data"))
        patch.setenv("EMBEDDINGS_PROVIDER", "none")
        return folder, fill(folder / "other.db")


def fill(other: Path) -> dict[str, str]:
    """Keep a memory and a document in the chosen storage, and a memory in *other*; return the ids."""
    with threadkeep.open(owner=USER) as tk:
        kept = tk.sync.memories.remember("I like coffee")
        tk.sync.profile.set("diet", "no nuts")
        tk.sync.collections.ingest("handbook", "How to brew.", document_id="brew")
        tk.sync.scopes.create(threadkeep.Owner("ops", kind="team"))
        tk.sync.proposals.propose("The user's lucky number is 7.")
    key = json.loads(run(["api-keys", "create", "--user", USER, "--scope", "chat", "--json"]).stdout)["key_id"]
    with threadkeep.open(f"sqlite:///{other}", owner=USER) as tk:
        tk.sync.memories.remember("I like tea")
    return {"memory": str(kept.memory_id), "key": key}


def run(words: Sequence[str], *, stdin: str = "") -> Result:
    return CliRunner().invoke(app, list(words), input=stdin, catch_exceptions=False)


def named(words: Sequence[str], names: dict[str, str]) -> list[str]:
    return [word.format(**names) for word in words]


def contents() -> tuple[int, ...]:
    """Return how many memories, documents, proposals, scopes and API keys there are."""
    listings = (
        ["memories", "list", "--user", USER],
        ["collections", "list", "handbook"],
        ["proposals", "list", "--user", USER],
        ["scopes", "list"],
        ["api-keys", "list"],
    )
    return tuple(len(json.loads(run([*words, "--json"]).stdout)) for words in listings)


def commands(command: Any, *words: str) -> dict[str, Any]:
    """Return every command below *command*, by its name."""
    inner = getattr(command, "commands", {})
    found = [commands(one, *words, word) for word, one in inner.items()]
    return {" ".join(words): command} if not inner else {name: one for each in found for name, one in each.items()}


@cache
def all_commands() -> dict[str, Any]:
    """Return every command of the program by its name."""
    return commands(get_command(app))


def names(rows: Sequence[Sequence[str]]) -> set[str]:
    """Return which commands *rows* call."""
    return {name for row in rows for name in (" ".join(row[:2]), row[0]) if name in all_commands()}


def on_a_terminal(words: Sequence[str], reply: bytes) -> tuple[int, str]:
    """Run the program with a terminal as its standard input; return its exit code and its error stream."""
    terminal, stdin = os.openpty()
    try:
        os.write(terminal, reply)
        done = run_python(*THREADKEEP, *words, stdin=stdin)
    finally:
        os.close(terminal)
        os.close(stdin)
    return done.returncode, done.stderr


class TestKinds:
    """A command that is added later is one of these, too."""

    def test_every_command_is_destructive_reading_or_changing(self):
        changing = {name.strip() for name in CHANGING.replace("\n", ",").split(",")} - {""}
        kinds = [names(DESTRUCTIVE), names(READING), names(NAMED), changing]

        assert set.union(*kinds) == all_commands().keys()
        assert sum(map(len, kinds)) == len(set.union(*kinds))

    def test_every_destructive_command_has_the_option(self):
        having = {
            name for name, command in all_commands().items() if any("--yes" in option.opts for option in command.params)
        }

        assert having == names(DESTRUCTIVE) | {"keys check", "threads move"}


class TestDestructive:
    @pytest.mark.parametrize("words", DESTRUCTIVE, ids=lambda words: " ".join(words[:2]))
    @pytest.mark.parametrize("stdin", ["y\n", ""], ids=["piped", "empty"])
    def test_without_a_terminal_it_refuses(self, words: list[str], stdin: str, filled: dict[str, str]):
        """The message names what would be destroyed and the storage's path, and says how to go on."""
        result = run(named(words, filled), stdin=stdin)

        assert result.exit_code == 1
        assert "Nothing was done" in result.stderr
        assert "--yes" in result.stderr
        assert "sqlite " in result.stderr
        assert "memory.sqlite3" in result.stderr
        assert USER in result.stderr or "--user" not in words
        assert contents() == (2, 1, 1, 1, 1)

    @pytest.mark.parametrize("words", DESTRUCTIVE, ids=lambda words: " ".join(words[:2]))
    def test_a_yes_goes_on(self, words: list[str], filled: dict[str, str]):
        """By the option, for scripts; a missing thread is then reported by the command itself."""
        result = CliRunner().invoke(app, [*named(words, filled), "--yes"])

        assert "Nothing was done" not in result.stderr

    @pytest.mark.parametrize(("reply", "code", "memories"), [(b"y\n", 0, 1), (b"n\n", 1, 2), (b"\x04", 1, 2)])
    def test_a_terminal_is_asked(self, reply: bytes, code: int, memories: int, filled: dict[str, str]):
        """The question shows the memory; only a yes goes on."""
        words = ["memories", "forget", filled["memory"], "--user", USER]
        status, stderr = on_a_terminal(words, reply)

        assert status == code
        assert f"Forget “I like coffee” of {USER}" in stderr
        assert contents() == (memories, 1, 1, 1, 1)

    def test_question_hides_the_password(self, folder: Path):
        """The place of the storage is shown without it."""
        target = "postgresql://ana:s3cret@127.0.0.1:1/m"
        words = ["storage", "copy", "--from", "memory://", "--to", target, "--into-existing", "--overwrite"]
        result = run(words, stdin="n\n")

        assert "127.0.0.1" in result.stderr
        assert "s3cret" not in result.output + result.stderr


class TestReading:
    @pytest.mark.parametrize("words", READING, ids=lambda words: " ".join(words[:2]))
    def test_reading_creates_nothing(self, words: list[str], folder: Path):
        """An empty result and a note on the error stream instead."""
        result = run(words)

        assert result.exit_code == 0, result.output
        assert not (folder / "data").exists()

    @pytest.mark.parametrize("words", NAMED, ids=lambda words: " ".join(words[:2]))
    def test_what_is_not_there_is_not_created(self, words: list[str], folder: Path):
        """It is not found, and nothing is created."""
        result = CliRunner().invoke(app, words)

        assert isinstance(result.exception, ThreadkeepError)
        assert not (folder / "data").exists()

    def test_reading_creates_no_file_of_threads(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        """A checkpointer chosen by name creates its file at the first checkpoint."""
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_TYPE", "sqlite")
        for words in (
            ["memories", "list"],
            ["threads", "list"],
            ["threads", "stats"],
            ["owners", "export"],
            ["doctor"],
        ):
            assert run(words).exit_code == 0
        assert not (folder / "data").exists()

    def test_listing_starts_neither_the_embedder_nor_the_workers(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        """A command that only reads pays for reading alone, and writes nothing."""
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "local")
        monkeypatch.setenv("THREADKEEP_INACTIVE_DAYS", "30")
        run(["memories", "add", "I like coffee"])
        program = (
            "import sys, typer.testing, threadkeep.cli.main as cli\n"
            "done = typer.testing.CliRunner().invoke(cli.app, ['memories', 'list'])\n"
            "print(done.stdout, *sys.modules)"
        )
        before = json.loads(run(["storage", "check", "--json"]).stdout)["checksum"]
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

        assert "I like coffee" in done.stdout
        assert not {"langchain_core", "numpy", "onnxruntime", "threadkeep.capture.worker"} & set(done.stdout.split())
        assert json.loads(run(["storage", "check", "--json"]).stdout)["checksum"] == before

    def test_doctor_shows_the_settings_of_the_missing_database(self, folder: Path):
        """The memory that stands in for it is not among them."""
        report = json.loads(run(["doctor", "--json"]).stdout)

        values = {row["variable"]: row["value"] for row in report["settings"]}
        details = {row["what"]: row["detail"] for row in report["checks"]}
        assert (values["LANGGRAPH_STORE_TYPE"], values["LANGGRAPH_CHECKPOINT_TYPE"]) == ("", "")
        assert str(folder / "data" / "memory.sqlite3") in details["storage"]
        assert str(folder / "data" / "memory.sqlite3") in details["threads"]

    def test_the_missing_database_is_named(self, folder: Path):
        """A wrong folder is seen at once."""
        result = run(["memories", "list", "--data-dir", str(folder / "typo"), "--json"])

        assert json.loads(result.stdout) == []
        assert str(folder / "typo") in result.stderr

    def test_copying_from_a_missing_database_is_refused(self, folder: Path):
        """It would copy nothing and call that complete."""
        with pytest.raises(threadkeep.ThreadkeepError, match=r"nothing\.db does not exist"):
            run(["storage", "copy", "--from", f"sqlite:///{folder / 'nothing.db'}"])

    def test_writing_creates(self, folder: Path):
        """The first memory makes the database."""
        assert run(["memories", "add", "I like coffee"]).exit_code == 0
        assert (folder / "data").exists()
