"""Each command through the real program, in this process, with the data of a folder of its own."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from typer.main import get_command

from tests.command_line import CliRunner, Result
from tests.fakes.pinecone_server import Fault, PineconeServer
from threadkeep.cli import chat, installation, output
from threadkeep.cli.main import app
from threadkeep.errors import InvalidInputError, SettingsError, ThreadkeepError
from threadkeep.settings import Settings
from threadkeep.testing import ScriptedModel

USER = "ana.maria@x.org"

pytestmark = pytest.mark.usefixtures("folder")


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=stdin, catch_exceptions=False)


def answer(*words: str, stdin: str | None = None) -> Any:
    result = run(*words, "--json", stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


class _Whole(BaseChatModel):
    """Cannot stream."""

    said: str

    @property
    def _llm_type(self) -> str:
        return "whole"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.said))])

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


class TestAgents:
    def test_what_is_missing_is_named(self, folder: Path) -> None:
        """The shipped agents, with no credential set: each says what it wants; no server is asked."""
        standing = {row["name"]: row for row in answer("agents")}

        assert list(standing) == ["github", "gitlab", "slack", "aws", "splunk"]
        assert not any(row["ready"] for row in standing.values())
        assert standing["github"]["reason"] == "GITHUB_PERSONAL_ACCESS_TOKEN is not set; set it to use the agent."
        assert "splunk: SPLUNK_MCP_URL and SPLUNK_MCP_TOKEN are not set;" in run("agents").output

    def test_a_wrong_file_is_one_sentence(self, folder: Path) -> None:
        """The file, the agent and the key are named."""
        (folder / "mine.toml").write_text("[it]\nmodel = 1\n")

        with pytest.raises(ThreadkeepError, match=r"mine\.toml: it: "):
            run("agents", "--file", "mine.toml")


class TestMemories:
    """Add, list, show, correct, search, forget, export."""

    def test_the_whole_round(self) -> None:
        """What is added is listed, found, corrected with its history, and gone when forgotten."""
        kept = answer("memories", "add", "I live in Lisbon.", "--user", USER)
        memory_id = kept["memory"]["memory_id"]

        assert answer("memories", "add", "i live in lisbon", "--user", USER)["status"] == "duplicate"
        assert [row["text"] for row in answer("memories", "list", "--user", USER)] == ["I live in Lisbon."]
        assert answer("memories", "list", "--user", "somebody else") == []
        found = answer("memories", "search", "Lisbon", "--user", USER)
        assert found[0]["memory"]["memory_id"] == memory_id
        answer("memories", "correct", memory_id, "I live in Berlin.", "--user", USER)
        shown = answer("memories", "show", memory_id, "--user", USER)
        assert (shown["text"], shown["history"][0]["text"]) == ("I live in Berlin.", "I live in Lisbon.")
        assert answer("memories", "forget", memory_id, "--user", USER, "--yes")["memory_ids"] == [memory_id]
        assert answer("memories", "list", "--user", USER) == []

    def test_nothing_is_no_question(self) -> None:
        """It is said how to see all instead."""
        with pytest.raises(InvalidInputError, match="memories list"):
            run("memories", "search", " ")

    def test_a_folder_without_a_name_is_refused(self, folder: Path) -> None:
        """It would be whichever folder the command is run in, where nobody looks for memories."""
        refused = run("memories", "list", "--data-dir", "")

        assert refused.exit_code == 2
        assert "name a folder" in refused.output
        assert list(folder.iterdir()) == []

    def test_every_script_is_shown_as_it_was_written(self) -> None:
        """Joiners belong to the words; what could steer the terminal is replaced."""
        run("memories", "add", "من چای می\u200cخواهم 👩\u200d👩\u200d👧 \x1b[31m")

        assert "من چای می\u200cخواهم 👩\u200d👩\u200d👧 \ufffd[31m" in run("memories", "list").stdout

    def test_people_read_lines(self) -> None:
        """Without --json a memory is one line, and nothing in it steers the terminal."""
        run("memories", "add", "I live in \x1b[31mLisbon\x07.\nSecond line.", "--user", USER)

        shown = run("memories", "list", "--user", USER).output

        assert "I live in" in shown
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert len(shown.splitlines()) == 1

    def test_export_is_json_lines_in_a_file_of_ones_own(self, folder: Path) -> None:
        """Any text survives; the file is for its owner only and is never overwritten."""
        run("memories", "add", "half \ud800 a pair, 日本語", "--user", USER)

        assert run("memories", "export", "--user", USER, "out.jsonl").exit_code == 0
        again = CliRunner().invoke(app, ["memories", "export", "--user", USER, "out.jsonl"])

        (line,) = (folder / "out.jsonl").read_text().splitlines()
        assert json.loads(line)["text"] == "half \ud800 a pair, 日本語"
        assert (folder / "out.jsonl").stat().st_mode & 0o777 == 0o600
        assert isinstance(again.exception, ThreadkeepError)

    def test_kinds_of_a_file_are_kept_listed_and_searched(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """THREADKEEP_KINDS declares them; a wrong kind or field is refused in a sentence that names it."""
        (folder / "kinds.toml").write_text(
            '[incident]\ndescription = "An outage."\n[incident.schema]\ntype = "object"\nrequired = ["severity"]\n'
            '[incident.schema.properties.severity]\nenum = ["low", "high"]\n'
        )
        monkeypatch.setenv("THREADKEEP_KINDS", str(folder / "kinds.toml"))
        outage = ["memories", "add", "The checkout was down.", "--kind", "incident"]
        run(*outage, "--metadata", "severity=high")
        run("memories", "add", "I live in Rome.")

        (listed,) = answer("memories", "list", "--kind", "incident")
        (found,) = answer("memories", "search", "checkout", "--kind", "incident")
        kinds = answer("memories", "kinds")
        policy = answer("proposals", "policy", "incident=ask")
        without = CliRunner().invoke(app, outage)
        unknown = CliRunner().invoke(app, ["memories", "list", "--kind", "outage"])

        assert (listed["metadata"], found["memory"]["text"]) == ({"severity": "high"}, "The checkout was down.")
        assert [one["name"] for one in kinds] == ["semantic", "episodic", "procedural", "incident"]
        assert policy["user"]["incident"] == "ask"
        assert "severity: Field required" in str(without.exception)
        assert "semantic, episodic, procedural, incident, not 'outage'" in str(unknown.exception)

    @pytest.mark.parametrize(
        ("words", "code"),
        [
            (["memories", "show", "nothing"], "memory_not_found"),
            (["memories", "add", "   "], "input_invalid"),
            (["memories", "add", "x", "--kind", "wish"], "input_invalid"),
            (["memories", "add", "x", "--user", ""], "input_invalid"),
            (["memories", "add", "x", "--user", "x" * 1001], "too_large"),
            (["memories", "add", "x" * 9000], "too_large"),
            (["eval", "facts", "--sizes", "ten"], "input_invalid"),
        ],
    )
    def test_bad_input_is_one_of_our_errors(self, words: list[str], code: str) -> None:
        """Each has a code, and the program turns it into one sentence."""
        result = CliRunner().invoke(app, words)

        assert isinstance(result.exception, ThreadkeepError)
        assert result.exception.code == code


class TestOwners:
    """Show, export, erase."""

    def test_erase_asks_and_leaves_nothing(self) -> None:
        """Without --yes and without a terminal to ask on nothing changes."""
        run("memories", "add", "I live in Lisbon.", "--user", USER)

        assert run("owners", "erase", "--user", USER, stdin="y\n").exit_code == 1
        assert answer("owners", "show", "--user", USER)["memories"] == {"semantic": 1}
        assert answer("owners", "erase", "--user", USER, "--yes")["items"] >= 1
        assert answer("owners", "show", "--user", USER)["memories"] == {}

    def test_export_names_the_owner(self) -> None:
        """The first line names the owner, then one line for each thing held."""
        run("memories", "add", "I live in Lisbon.", "--user", USER)

        lines = [json.loads(line) for line in run("owners", "export", "--user", USER).stdout.splitlines()]

        assert sorted(line["type"] for line in lines[1:]) == ["audit", "memory"]
        assert lines[0]["user_id"] == USER

    @pytest.mark.parametrize("name", ["all.zip", "all"])
    def test_a_zip_file_and_a_folder_hold_the_export_and_a_readme(self, folder: Path, name: str) -> None:
        run("memories", "add", "I live in Lisbon.", "--user", USER)
        written = run("owners", "export", "--user", USER, name)
        again = CliRunner().invoke(app, ["owners", "export", "--user", USER, name])
        path = folder / name
        if name.endswith(".zip"):
            with ZipFile(path) as archive:
                texts = {one: archive.read(one).decode() for one in archive.namelist()}
        else:
            texts = {one.name: one.read_text() for one in path.iterdir()}

        assert written.exit_code == 0
        assert again.exit_code != 0
        assert sorted(texts) == ["README.md", "export.jsonl"]
        assert "I live in Lisbon." in texts["export.jsonl"]
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


class TestChat:
    """A conversation on standard input."""

    def test_a_second_thread_knows(self) -> None:
        """Two conversations of one user; --json prints one object a turn."""
        first = answer("chat", "--user", USER, "--thread", "1", stdin="I live in Lisbon.\n")
        second = answer("chat", "--user", USER, "--thread", "2", stdin="Do I live in Lisbon?\n")

        assert "I live in Lisbon." in first["learnt"]
        assert "I live in Lisbon." in second["recalled"]
        assert "I live in Lisbon." in second["reply"]

    def test_a_thread_goes_on(self) -> None:
        """The thread given again has its history; empty lines are no turns."""
        run("chat", "--user", USER, "--thread", "1", stdin="I live in Lisbon.\n\n")
        run("chat", "--user", USER, "--thread", "1", stdin="I have two cats.\n")

        assert answer("owners", "show", "--user", USER)["turns_seen"] == 2

    @pytest.mark.parametrize(("said", "shown"), [("Whole reply.", "Whole reply."), ("", "The model said nothing.")])
    def test_a_model_that_cannot_stream_is_heard(self, said: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """What it says comes in one piece; nothing at all is said to be nothing."""
        monkeypatch.setattr(chat, "open_memory", lambda data_dir: output.open_memory(data_dir, model=_Whole(said=said)))

        assert shown in run("chat", "--user", USER, stdin="I live in Lisbon.\n").output
        assert answer("chat", "--user", USER, stdin="I live in Lisbon.\n")["reply"] == said

    def test_other_errors_are_shown_unchanged(self) -> None:
        """One sentence on the error stream, and exit 1; the next input may be well again."""
        answer("chat", "--user", USER, "--thread", "1", stdin="I live in Lisbon.\n")

        refused = run("chat", "--user", "bob", "--thread", "1", stdin="Where do I live?\n")

        assert refused.exit_code == 1
        assert "This thread belongs to another owner" in refused.stderr
        assert "kept" not in refused.stderr

    def test_model_that_streams_nothing_is_reported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The next one may say something; what was written to the first is kept and learnt from."""
        model = ScriptedModel(replies=[(), "Noted."])
        monkeypatch.setattr(chat, "open_memory", lambda data_dir: output.open_memory(data_dir, model=model))

        said = run("chat", "--user", USER, stdin="I live in Lisbon.\nI have two cats.\n")

        assert said.exit_code == 0
        assert "The model said nothing. What you wrote is kept; try again." in said.stderr
        texts = {row["text"] for row in answer("memories", "list", "--user", USER, "--kind", "semantic")}
        assert texts == {"I live in Lisbon.", "I have two cats."}

    def test_a_key_that_is_refused_is_not_tried_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The next input would be refused as well; any other failure may pass."""

        class _RefusedError(RuntimeError):
            status_code = 401

        model = ScriptedModel(replies=[_RefusedError("sk-secret"), RuntimeError("sk-secret")])
        monkeypatch.setattr(chat, "open_memory", lambda data_dir: output.open_memory(data_dir, model=model))

        refused, failed = run("chat", stdin="One.\nTwo.\n").stderr.split("kept; ")[1:]

        assert refused.startswith("check the model's key")
        assert failed.startswith("try again")

    def test_threads_that_cannot_be_kept_are_reported_at_once(self, folder: Path) -> None:
        """Not after the first input: nothing was asked for yet."""
        (folder / "data").mkdir()
        (folder / "data/memory-checkpoints.sqlite3").write_bytes(b"a holiday picture" * 300)

        with pytest.raises(ThreadkeepError, match=r"memory-checkpoints\.sqlite3"):
            run("chat", stdin="")

    @pytest.mark.linux
    @pytest.mark.slow
    def test_ctrl_c_in_the_middle_of_a_reply(self, folder: Path) -> None:
        """A silence is told of; the reply stops, the conversation goes on, and nothing that was written is lost."""
        terminal, side = pty.openpty()
        chat = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.slow_chat"],
            stdin=side,
            stdout=side,
            stderr=side,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "THREADKEEP_DATA_DIR": str(folder / "data"), "TERM": "dumb"},
            start_new_session=True,
            preexec_fn=lambda: _take_terminal(side),  # noqa: PLW1509 - one ioctl, and no other way to be given Ctrl-C
        )
        os.close(side)
        try:
            _expect(terminal, b"> ")
            os.write(terminal, b"I live in Lisbon.\n")
            _expect(terminal, b"thinking")
            _expect(terminal, b"The model has not answered for")
            os.write(terminal, b"\x03")
            _expect(terminal, b"Stopped.")
            os.write(terminal, b"I have two cats.\n")
            _expect(terminal, b"learnt")
            os.write(terminal, b"\x04")
            assert chat.wait(30) == 0
        finally:
            if chat.poll() is None:
                os.killpg(chat.pid, signal.SIGKILL)
                chat.wait()
            os.close(terminal)

        texts = {row["text"] for row in answer("memories", "list", "--user", "me", "--kind", "semantic")}
        assert texts == {"I live in Lisbon.", "I have two cats."}


class TestDemo:
    """The main job."""

    def test_the_second_thread_knows(self) -> None:
        """Without a model, without a key, by words alone."""
        told = answer("demo")

        assert told["known"] == told["of"] == 2
        assert {row["thread"] for row in told["learnt"]} == {"thread-1"}

    @pytest.mark.model
    def test_the_second_thread_knows_by_meaning(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As `make demo` runs it: sharing one word with its answer is enough for a question."""
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "local")

        told = answer("demo")

        assert told["known"] == told["of"] == 2

    def test_it_fails_where_nothing_is_learnt(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With capture off the second thread cannot know, and the exit code says so."""
        monkeypatch.setenv("THREADKEEP_CAPTURE", "off")

        assert run("demo").exit_code == 1

    def test_it_touches_nothing_of_the_user_s(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Neither the memories nor the threads that the settings name."""
        monkeypatch.setenv("LANGGRAPH_STORE_TYPE", "postgres")
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_SQLITE_PATH", str(folder / "mine.sqlite3"))

        assert answer("demo")["known"] == 2
        assert list(folder.iterdir()) == []

    def test_a_wrong_setting_is_one_sentence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As in every other command."""
        monkeypatch.setenv("LANGGRAPH_STORE_TTL_MINUTES", "abc")

        with pytest.raises(SettingsError, match=r"^LANGGRAPH_STORE_TTL_MINUTES cannot be 'abc'"):
            run("demo")


class TestInit:
    """The files of a LangGraph project."""

    def test_nothing_is_overwritten(self, folder: Path) -> None:
        """A second init is refused unless forced; .env is for its owner only."""
        assert run("init", "app").exit_code == 0
        again = CliRunner().invoke(app, ["init", "app"])

        graphs = json.loads((folder / "app/langgraph.json").read_text())["graphs"]
        assert graphs == {"agent": "threadkeep.langgraph.graph:graph"}
        assert (folder / "app/.env").stat().st_mode & 0o777 == 0o600
        assert (folder / "app/auth.py").read_text().startswith('"""DEVELOPMENT ONLY')
        assert isinstance(again.exception, ThreadkeepError)
        assert run("init", "app", "--force").exit_code == 0

    def test_each_storage_is_offered(self, folder: Path) -> None:
        """With the variable that says where it is; and what is left empty is not set."""
        run("init", "app")
        said = (folder / "app/.env").read_text()

        assert all(name in said for name in ("sqlite", "memory", "postgres", "redis", "mongodb"))
        assert {line.removesuffix("=") for line in said.splitlines() if line.startswith("LANGGRAPH_STORE_")} == {
            "LANGGRAPH_STORE_TYPE",
            *(f"LANGGRAPH_STORE_{rest}" for rest in ("SQLITE_PATH", "POSTGRES_DSN", "REDIS_URL", "MONGODB_URI")),
        }
        loaded = Settings.load(env_file=folder / "app/.env")
        assert (loaded.store_type, loaded.store_postgres_dsn, loaded.model) == (None, None, None)

    def test_the_command_reads_its_env_file(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What .env says holds here, and the environment wins over it."""
        monkeypatch.delenv("THREADKEEP_DATA_DIR")
        (folder / ".env").write_text(f"THREADKEEP_DATA_DIR={folder}/elsewhere\n")

        run("memories", "add", "I live in Lisbon.")

        assert (folder / "elsewhere/memory.sqlite3").exists()

    def test_an_env_file_that_is_none_is_named(self, folder: Path) -> None:
        """One sentence, whatever the file holds."""
        (folder / ".env").write_bytes("THREADKEEP_MODEL=x\n".encode("utf-16"))

        with pytest.raises(SettingsError, match=r"^\.env cannot be read .*UTF-8"):
            run("memories", "list")


class TestDoctor:
    """What is set, and whether it works."""

    def test_it_tells_what_is_missing_and_masks_secrets(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Search by words only is said, a password is not."""
        monkeypatch.setenv("LANGGRAPH_STORE_REDIS_URL", "redis://:hunter2@host")

        told = run("doctor")

        assert told.exit_code == 0
        assert "words only" in told.output
        assert "LANGGRAPH_STORE_REDIS_URL is set and LANGGRAPH_STORE_TYPE is not" in told.output
        assert "hunter2" not in told.output
        assert "********" in told.output

    def test_settings_of_the_gateway_are_listed(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        """With where they come from; a secret is masked."""
        monkeypatch.setenv("THREADKEEP_ISSUERS", "https://a.example,https://b.example")
        monkeypatch.setenv("THREADKEEP_CLIENT_SECRET", "hunter2")
        (folder / ".env").write_text("THREADKEEP_MAX_RUNS=7\n")

        settings = {row["variable"]: row for row in json.loads(run("doctor", "--json").stdout)["settings"]}

        assert settings["THREADKEEP_ISSUERS"]["value"] == "https://a.example,https://b.example"
        assert settings["THREADKEEP_CLIENT_SECRET"]["value"] == "********"
        assert (settings["THREADKEEP_MAX_RUNS"]["value"], settings["THREADKEEP_MAX_RUNS"]["origin"]) == (
            "7",
            "THREADKEEP_MAX_RUNS",
        )
        assert settings["THREADKEEP_DRAIN_SECONDS"]["origin"] == "default"

    def test_invalid_settings_of_the_gateway_are_broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("THREADKEEP_MAX_RUNS", "many")

        told = run("doctor")

        assert told.exit_code == 1
        assert "THREADKEEP_MAX_RUNS" in told.output

    def test_a_misspelled_setting_is_named(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        """In the environment and in `.env`, also one of the gateway; what resembles no setting is left alone."""
        monkeypatch.setenv("THREADKEEP_RECAL_TIMEOUT_MS", "9")
        monkeypatch.setenv("THREADKEEP_OF_MY_OWN", "9")
        (folder / ".env").write_text("THREADKEEP_ISSUER=https://issuer.example\n")

        lines = run("doctor").output.splitlines()

        meant = [line.rpartition(" ")[2] for line in lines if "is not a setting" in line]
        assert meant == [
            "THREADKEEP_ISSUERS?",
            "THREADKEEP_RECALL_TIMEOUT_MS?",
        ]

    def test_a_broken_storage_is_exit_1(self, folder: Path) -> None:
        """A file that is no database is named."""
        (folder / "data").mkdir()
        (folder / "data/memory.sqlite3").write_bytes(b"a holiday picture" * 300)

        told = run("doctor", "--json")

        assert told.exit_code == 1
        assert json.loads(told.stdout)["checks"][0]["state"] == "broken"

    @pytest.mark.slow
    def test_pgvectors_threshold_is_measured_on_its_server(self, monkeypatch: pytest.MonkeyPatch, postgres_url: str):
        """Only where it is asked for."""
        monkeypatch.setenv("THREADKEEP_VECTORS", "pgvector")
        monkeypatch.setenv("THREADKEEP_VECTORS_POSTGRES_DSN", postgres_url)

        (told,) = [
            row["detail"] for row in json.loads(run("doctor", "--json").stdout)["checks"] if row["what"] == "vectors"
        ]
        measured = json.loads(run("doctor", "--measure", "--json").stdout)["checks"]

        (said,) = [row["detail"] for row in measured if row["what"] == "vectors"]
        assert "up to about" not in told
        assert re.search(r"up to about [\d,]+ vectors of 384 numbers", said)

    def test_unavailable_vector_engine_is_reported(self, monkeypatch: pytest.MonkeyPatch):
        """As broken, with what becomes of search; one that answers is told with its place, and that it is elsewhere."""
        with PineconeServer(dimension=384) as server:
            for name, value in {
                "THREADKEEP_VECTORS": "pinecone",
                "PINECONE_API_KEY": server.api_key,
                "PINECONE_INDEX_HOST": server.host,
            }.items():
                monkeypatch.setenv(name, value)
            up = json.loads(run("doctor", "--json").stdout)
            server.faults = [Fault(403)]
            down = run("doctor")

        (vectors,) = [row for row in up["checks"] if row["what"] == "vectors"]
        assert (vectors["state"], server.host in vectors["detail"]) == ("ok", True)
        assert any(server.host in row["to"] and row["leaves_machine"] == "yes" for row in up["data_flows"])
        assert down.exit_code == 1
        assert "refuses the key (403)" in down.stdout
        assert "searched by words" in " ".join(down.stdout.split())
        assert server.api_key not in down.stdout

    def test_data_flows_name_who_gets_text(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Tracers that are on are told, the model that learns, and what reranks."""
        monkeypatch.setenv("LANGSMITH_TRACING", "true")
        monkeypatch.setenv("THREADKEEP_TRACE_CONTENT", "true")
        monkeypatch.setenv("ENABLE_FACT_EXTRACTION", "true")
        monkeypatch.setenv("FACT_EXTRACTION_MODEL", "openai:gpt-test")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("THREADKEEP_RERANKER", "cohere:rerank-test")
        monkeypatch.setenv("COHERE_API_KEY", "test")

        flows = {row["to"]: row["leaves_machine"] for row in json.loads(run("doctor", "--json").stdout)["data_flows"]}

        assert flows["LangSmith"] == flows["reranker cohere:rerank-test"] == "yes"
        assert flows["extraction model openai:gpt-test"] == "depends on the provider"
        assert any(to.startswith("OpenTelemetry") for to in flows)


class TestJson:
    """Programs are answered, too."""

    def test_every_command_takes_it(self) -> None:
        """Also those that come later, and those of installed packages."""

        def lacking(command: Any, *words: str) -> list[str]:
            if hasattr(command, "list_commands"):
                inner = {word: command.get_command(None, word) for word in command.list_commands(None)}
                return [name for word, one in inner.items() for name in lacking(one, *words, word)]
            return [] if any("--json" in option.opts for option in command.params) else [" ".join(words)]

        assert lacking(get_command(app)) == ["serve", "mcp"]  # they answer over HTTP and over MCP


class TestColours:
    """What a terminal, a file and a person who wants no colours get."""

    @pytest.mark.parametrize("set_", [{}, {"NO_COLOR": "1"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}])
    def test_none_are_printed_where_none_are_wanted(
        self, set_: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """NO_COLOR wins over FORCE_COLOR, and bold is a colour."""
        assert "\x1b" not in self._shown(set_, monkeypatch)

    def test_they_can_be_forced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """For a reader behind a pipe that understands them."""
        assert "\x1b[1m" in self._shown({"FORCE_COLOR": "1", "TERM": "xterm"}, monkeypatch)

    @staticmethod
    def _shown(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(installation, "out", output._LazyConsole(stderr=False))
        return run("doctor", "--data-flows").output


class TestProgram:
    """The program itself."""

    @pytest.mark.slow
    def test_an_error_is_one_sentence_and_exit_1(self) -> None:
        """No traceback for what a person can mend."""
        run("memories", "add", "I live in Lisbon.")

        done = subprocess.run(
            [sys.executable, "-m", "threadkeep", "memories", "show", "nothing"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

        assert done.returncode == 1
        assert done.stderr.startswith("Error (memory_not_found): ")
        assert "Traceback" not in done.stderr

    def test_the_process_ends_without_the_last_collections(self) -> None:
        """They look at every object, which kept a gateway on a busy machine for half a minute."""
        program = (
            "import gc; gc.disable()\n"
            "class Unreachable:\n"
            "    def __del__(self): print('collected', flush=True)\n"
            "one = Unreachable(); one.itself = one; del one\n"
            "from threadkeep.cli.main import main; main()"
        )

        done = subprocess.run(
            [sys.executable, "-c", program, "--version"], capture_output=True, text=True, check=False, timeout=120
        )

        assert done.returncode == 0
        assert done.stdout
        assert "collected" not in done.stdout

    @pytest.mark.slow
    @pytest.mark.skipif(sys.platform != "linux", reason="elsewhere root may write anywhere")
    def test_a_read_only_home_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Reading shows an empty memory; writing says which path must be writable."""
        for variable in ("THREADKEEP_DATA_DIR", "XDG_DATA_HOME", "LANGGRAPH_STORE_TYPE", "LANGGRAPH_STORE_SQLITE_PATH"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        tmp_path.chmod(0o500)

        def threadkeep_command(*words: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [sys.executable, "-m", "threadkeep", *words, "--user", "ana"],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
                preexec_fn=_respect_modes,
            )

        read, written = threadkeep_command("memories", "list"), threadkeep_command("memories", "add", "I like tea.")
        tmp_path.chmod(0o700)

        assert (read.returncode, read.stdout) == (0, "Nothing is remembered about ana.\n")
        assert written.returncode == 1
        assert written.stderr.startswith(f"Error (storage_read_only): {tmp_path}/")
        assert "choose another path" in written.stderr

    def test_help_imports_nothing_heavy(self) -> None:
        """Help answers before numpy, LangGraph, pydantic-settings, onnxruntime or Rich could be imported."""
        script = (
            "import sys, threadkeep.cli.main\n"
            "heavy = {'numpy', 'langgraph', 'langchain_core', 'pydantic_settings', 'onnxruntime', 'rich.console'}\n"
            "print(sorted(heavy & set(sys.modules)))\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)

        assert done.stdout.strip() == "[]"


def _respect_modes() -> None:
    """Take from root the capability of writing where the mode of a file or folder forbids it."""
    import ctypes

    drop_from_bounding_set, may_write_anywhere = 24, 1
    ctypes.CDLL(None).prctl(drop_from_bounding_set, may_write_anywhere, 0, 0, 0)


def _take_terminal(side: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(side, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background is started with Ctrl-C ignored


def _expect(terminal: int, wanted: bytes, *, seconds: float = 60.0) -> None:
    seen, until = b"", time.monotonic() + seconds
    while wanted not in seen:
        ready, _, _ = select.select([terminal], [], [], 0.2)
        if ready:
            seen += os.read(terminal, 4096)
        assert time.monotonic() < until, seen
