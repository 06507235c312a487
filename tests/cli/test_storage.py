"""``threadkeep storage`` through the real program: count, check, sweep, migrate, copy, move in, embed anew."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import MessagesState, StateGraph

import threadkeep
from tests.command_line import CliRunner, Result
from threadkeep.cli.main import app
from threadkeep.errors import (
    InvalidInputError,
    RevisionConflictError,
    SettingsError,
    StorageError,
    StorageVersionError,
)
from threadkeep.storage.encryption.cipher import new_master_key
from threadkeep.testing import HashingEmbedder

USER = "a.b@x.org"

pytestmark = pytest.mark.usefixtures("folder")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def answer(*words: str, code: int = 0) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


@pytest.fixture
def kept(folder: Path) -> Path:
    """A storage with three memories of one user: with the row by which writers meet and the audit, seven items."""
    with threadkeep.open(f"sqlite:///{folder}/one.db", embedder="none") as tk:
        for text in ("Likes green tea.", "Rides a red bike.", "Has a cat called Momo."):
            tk.sync.memories.remember(text, owner=USER)
    return folder / "one.db"


class TestOneStorage:
    def test_it_is_counted(self, kept: Path):
        """By its URL, or as the settings say."""
        found = answer("storage", "stats", "--url", f"sqlite:///{kept}")

        assert (found["partitions"], found["items"]) == (1, 7)
        assert found["size_bytes"] > 0
        assert answer("storage", "stats")["items"] == 0
        assert "7 items in 1 partition" in run("storage", "stats", "--url", f"sqlite:///{kept}").output

    @pytest.mark.parametrize(
        "words",
        [
            ("check", "--url", "sqlite:///typo.db"),
            ("stats", "--url", "sqlite:///typo.db"),
            ("sweep", "--url", "sqlite:///typo.db"),
            ("copy", "--from", "sqlite:///typo.db", "--to", "sqlite:///target.db"),
        ],
    )
    def test_one_that_is_not_there_is_named_and_not_created(self, folder: Path, words: tuple[str, ...]):
        with pytest.raises(InvalidInputError, match=r"typo\.db does not exist"):
            run("storage", *words)

        assert list(folder.glob("*.db")) == []

    def test_it_is_migrated_and_swept(self, kept: Path):
        assert answer("migrate", "--url", f"sqlite:///{kept}")["migrated"]
        assert "up to date" in run("migrate", "--url", f"sqlite:///{kept}").output
        assert answer("storage", "sweep", "--url", f"sqlite:///{kept}") == {"swept": 0, "threads": 0}
        assert "0 expired" in run("storage", "sweep", "--url", f"sqlite:///{kept}").output

    @pytest.mark.slow
    def test_tables_are_made_where_that_is_left_to_the_command(
        self, postgres_url: str, monkeypatch: pytest.MonkeyPatch
    ):
        """With THREADKEEP_MIGRATE=check a database without tables is refused, until this was run; threads, too."""
        monkeypatch.setenv("THREADKEEP_MIGRATE", "check")
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_TYPE", "postgres")
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_POSTGRES_DSN", postgres_url)
        with pytest.raises(StorageError, match="MIGRATE"):
            run("storage", "stats", "--url", postgres_url)

        assert answer("migrate", "--url", postgres_url)["checkpointer"] == "postgres"

        assert answer("storage", "stats", "--url", postgres_url)["items"] == 0
        with threadkeep.open(postgres_url, embedder="none") as tk:
            tk.sync.ready()

    def test_a_check_for_migrations_changes_nothing(self, kept: Path):
        """The exit code is 1 where tables are older or missing, and 0 where they are current."""
        url = f"sqlite:///{kept}"
        assert answer("migrate", "--check", "--url", url)["migrated"] is False
        with closing(sqlite3.connect(kept)) as older:
            older.execute("PRAGMA user_version = 1")

        with pytest.raises(StorageVersionError, match=r"older than this Threadkeep needs.*run threadkeep migrate"):
            run("migrate", "--check", "--url", url)

        with closing(sqlite3.connect(kept)) as older:
            assert older.execute("PRAGMA user_version").fetchone() == (1,)
        with pytest.raises(InvalidInputError, match="does not exist"):
            run("migrate", "--check", "--url", f"sqlite:///{kept.with_name('none.db')}")
        assert not kept.with_name("none.db").exists()

    def test_it_is_checked(self, kept: Path):
        """Sound: exit code 0; a row that is not as it must be: 1, and where it is."""
        found = answer("storage", "check", "--url", f"sqlite:///{kept}")
        assert (found["sound"], found["items"], found["searchable"]) == (True, 7, 3)
        assert "Everything is as it must be" in run("storage", "check", "--url", f"sqlite:///{kept}").output

        with threadkeep.open(f"sqlite:///{kept}", embedder="none") as tk:
            tk.store.put(("memories", tk.label(USER)), "odd", {"fact": "x"})

        found = answer("storage", "check", "--url", f"sqlite:///{kept}", code=1)
        assert (found["counts"], found["wrong"][0]["key"]) == ({"memory": 1}, "odd")
        shown = run("storage", "check", "--url", f"sqlite:///{kept}")
        assert shown.exit_code == 1
        assert "memory at memories / " in shown.output

    def test_it_is_compared_with_another_and_with_how_it_was(self, kept: Path, folder: Path):
        """A copy holds the same; what was written or lost since, or changed behind its back, shows."""
        url, copied = f"sqlite:///{kept}", f"sqlite:///{folder}/two.db"
        run("storage", "copy", "--from", url, "--to", copied)
        (folder / "before.json").write_text(run("storage", "check", "--url", url, "--json").stdout)

        assert answer("storage", "check", "--url", url, "--against", copied)["same"] is True
        assert "Both hold the same" in run("storage", "check", "--url", copied, "--against", "before.json").output

        with sqlite3.connect(kept) as raw:  # one letter of one memory, as by a restore of another day
            raw.execute("UPDATE items SET value = replace(value, 'green', 'greed')")
        raw.close()
        found = answer("storage", "check", "--url", url, "--against", "before.json", code=1)
        assert (found["sound"], found["same"]) == (True, False)
        shown = run("storage", "check", "--url", url, "--against", copied)
        assert shown.exit_code == 1
        assert "something else: as many items" in " ".join(shown.output.split())

        with threadkeep.open(copied, embedder="none") as tk:
            tk.sync.memories.remember("Plays the harp.", owner=USER)
        shown = run("storage", "check", "--url", url, "--against", copied)
        assert "something else: 9 items in 1 partition" in " ".join(shown.output.split())

    def test_what_was_never_printed_is_refused(self, kept: Path, folder: Path):
        (folder / "other.json").write_text("[1]")

        for name in ("other.json", "none.json"):
            with pytest.raises(InvalidInputError, match=name.replace(".", "[.]")):
                run("storage", "check", "--url", f"sqlite:///{kept}", "--against", name)

    @pytest.mark.model
    @pytest.mark.slow
    def test_another_model_is_advised_about_and_embedded(self, kept: Path, monkeypatch: pytest.MonkeyPatch):
        """Before: words only; after: vectors of the model in use, and nothing left to do."""
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "local")
        url = f"sqlite:///{kept}"

        (advice,) = answer("storage", "check", "--url", url)["advice"]
        assert advice.startswith("3 searchable items have no vectors")
        assert advice.endswith("run threadkeep storage re-embed.")
        done = answer("storage", "re-embed", "--url", url)
        assert (done["embedded"], done["current"]) == (3, 0)
        assert answer("storage", "check", "--url", url)["advice"] == []
        assert "0 of 3" in run("storage", "re-embed", "--url", url).output

    def test_doctor_tells_an_embedder_that_does_not_answer_from_none(
        self, kept: Path, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
    ):
        """It is configured, so there is nothing to install."""
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "openai")
        monkeypatch.setenv("EMBEDDINGS_MODEL", "text-embedding-3-small")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{unused_tcp_port}/v1")
        monkeypatch.setenv("LANGGRAPH_STORE_TYPE", "sqlite")
        monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", str(kept))

        (told,) = [row for row in answer("doctor")["checks"] if row["what"] == "embedder"]

        assert told["state"] == "warning"
        assert "does not answer" in told["detail"]

    @pytest.mark.model
    @pytest.mark.slow
    def test_doctor_says_so_too(self, kept: Path, monkeypatch: pytest.MonkeyPatch):
        """It looks at some items: those of another model are a warning, not a fault."""
        url = f"sqlite:///{kept}"
        with threadkeep.open(url, embedder=HashingEmbedder()) as tk:
            tk.sync.memories.remember("Plays the harp.", owner="bob")
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "local")
        monkeypatch.setenv("LANGGRAPH_STORE_TYPE", "sqlite")
        monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", str(kept))

        def warnings() -> list[str]:
            return [row["detail"] for row in answer("doctor")["checks"] if row["state"] == "warning"]

        assert [said for said in warnings() if "Run threadkeep storage re-embed" in said]
        answer("storage", "re-embed")
        assert warnings() == []

    def test_doctor_counts_threads_that_are_not_read_any_more(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        """They were written before threads got a key, and are where the memories are."""
        path = folder / "threads.db"
        monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", str(path))
        with threadkeep.open() as tk:
            for thread_id in ("1", "2"):
                tk.sync.threads.create(thread_id, owner="ana")
            graph = StateGraph(MessagesState).add_node("node", lambda _: {"messages": [("ai", "fine")]})
            compiled = graph.set_entry_point("node").compile(checkpointer=tk.checkpointer)
            compiled.invoke({"messages": [("user", "hello")]}, tk.config(user_id="ana", thread_id="1"))

        def warnings() -> list[str]:
            return [row["detail"] for row in answer("doctor")["checks"] if row["state"] == "warning"]

        assert warnings() == []
        monkeypatch.setenv("THREADKEEP_CHECKPOINT_KEY", "k" * 40)
        (said,) = warnings()
        assert said.startswith(f"2 threads from before are in {path}, and not read")

    def test_threads_are_listed_where_there_are_no_memories(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        """A graph without memory has a file of threads, by a key of their own, and none of memories."""
        monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", str(folder / "m.db"))
        monkeypatch.setenv("THREADKEEP_CHECKPOINT_KEY", "k" * 40)
        with threadkeep.open() as tk:
            graph = StateGraph(MessagesState).add_node("node", lambda _: {"messages": [("ai", "fine")]})
            compiled = graph.set_entry_point("node").compile(checkpointer=tk.checkpointer)
            compiled.invoke({"messages": [("user", "hello")]}, tk.config(user_id="ana", thread_id="1"))
        assert not (folder / "m.db").exists()

        assert [row["thread_id"] for row in answer("threads", "list", "--user", "ana")] == ["1"]
        assert not (folder / "m.db").exists()

    def test_no_model_is_one_sentence(self, kept: Path):
        from threadkeep.errors import EmbedderUnavailableError

        with pytest.raises(EmbedderUnavailableError, match="pip install"):
            run("storage", "re-embed", "--url", f"sqlite:///{kept}")


class TestCopy:
    def test_a_storage_is_copied_and_read_back(self, kept: Path, folder: Path):
        """The memories are there, the checksums the same."""
        done = answer("storage", "copy", "--from", f"sqlite:///{kept}", "--to", f"sqlite:///{folder}/two.db")

        assert (done["read"], done["written"], done["verified"], done["complete"]) == (7, 7, 7, True)
        assert answer("storage", "check", "--url", f"sqlite:///{folder}/two.db")["checksum"] == done["checksum"]
        with threadkeep.open(f"sqlite:///{folder}/two.db", embedder="none") as tk:
            assert {memory.text for memory in tk.sync.memories.list(owner=USER)} == {
                "Likes green tea.",
                "Rides a red bike.",
                "Has a cat called Momo.",
            }

    def test_a_new_file_is_made_also_where_processes_make_no_tables(
        self, kept: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """As a backup is made with the environment of the processes."""
        monkeypatch.setenv("THREADKEEP_MIGRATE", "check")

        done = answer("storage", "copy", "--from", f"sqlite:///{kept}", "--to", f"sqlite:///{folder}/two.db")

        assert (done["written"], done["complete"]) == (7, True)

    def test_what_waits_for_a_decision_can_be_approved_there(self, kept: Path, folder: Path):
        """Revisions are counted anew; what counts is whether the memory still says what it said."""
        with threadkeep.open(f"sqlite:///{kept}", embedder="none") as tk:
            door = tk.for_owner(USER).sync
            bike, tea, _ = sorted(door.memories.list(), key=lambda memory: memory.text, reverse=True)
            waiting = [
                door.proposals.propose(f"{memory.text} Sometimes.", action="correct", memory_id=memory.memory_id)
                for memory in (tea, bike)
            ]
            door.memories.correct(bike.memory_id, "Rides a blue bike.")

        run("storage", "copy", "--from", f"sqlite:///{kept}", "--to", f"sqlite:///{folder}/two.db")

        ids = [found.proposal.proposal_id for found in waiting if found.proposal]
        with threadkeep.open(f"sqlite:///{folder}/two.db", embedder="none") as tk:
            door = tk.for_owner(USER).sync
            door.proposals.approve(ids[0])
            with pytest.raises(RevisionConflictError):
                door.proposals.approve(ids[1])
            texts = {memory.text for memory in door.memories.list()}
        assert f"{tea.text} Sometimes." in texts
        assert "Rides a blue bike." in texts

    def test_the_settings_say_where_to(self, kept: Path):
        run("storage", "copy", "--from", f"sqlite:///{kept}")

        assert answer("storage", "stats")["items"] == 7

    def test_key_prefixes_keep_deployments_apart(self, kept: Path):
        """A storage can be copied to another prefix in the same place, and from there alone."""
        url = f"sqlite:///{kept}"

        shown = run("storage", "copy", "--from", url, "--to", url, "--to-prefix", "staging")

        assert shown.exit_code == 0, shown.output
        assert "7 copied" in shown.output
        assert answer("storage", "copy", "--from", url, "--from-prefix", "staging", "--dry-run")["read"] == 7
        with pytest.raises(InvalidInputError, match="source is the target"):
            run("storage", "copy", "--from", url, "--to", url)

    def test_it_may_be_sealed_on_the_way_and_opened_again(
        self, kept: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """Into a sealed storage, where nothing can be read in the file, and out of it; all with one checksum."""
        monkeypatch.setenv("THREADKEEP_MASTER_KEY", new_master_key())
        sealed, again = f"sqlite:///{folder}/sealed.db", f"sqlite:///{folder}/again.db"

        there = answer("storage", "copy", "--from", f"sqlite:///{kept}", "--from-unsealed", "--to", sealed)
        back = answer("storage", "copy", "--from", sealed, "--to", again, "--to-unsealed")

        assert (there["complete"], back["complete"]) == (True, True)
        assert there["checksum"] == back["checksum"] == answer("storage", "check", "--url", sealed)["checksum"]
        assert b"green tea" not in (folder / "sealed.db").read_bytes()
        assert b"green tea" in (folder / "again.db").read_bytes()

    def test_a_full_target_is_refused_and_added_to_on_demand(self, kept: Path, folder: Path):
        target = f"sqlite:///{folder}/two.db"
        run("storage", "copy", "--from", f"sqlite:///{kept}", "--to", target)

        with pytest.raises(InvalidInputError, match="--into-existing"):
            run("storage", "copy", "--from", f"sqlite:///{kept}", "--to", target)
        done = answer("storage", "copy", "--from", f"sqlite:///{kept}", "--to", target, "--into-existing")
        assert (done["written"], done["present"]) == (0, 7)

    def test_a_dry_run_writes_nothing(self, kept: Path, folder: Path):
        shown = run("storage", "copy", "--from", f"sqlite:///{kept}", "--to", f"sqlite:///{folder}/two.db", "--dry-run")

        assert "Nothing was written; 7 items would be copied" in shown.output
        assert not (folder / "two.db").exists()

    def test_what_names_no_storage_is_refused(self):
        with pytest.raises(SettingsError, match="is not a known storage"):
            run("storage", "copy", "--from", "oracle://x")

    def test_a_mapping_is_for_foreign_stores(self, kept: Path):
        with pytest.raises(InvalidInputError, match="foreign"):
            run("storage", "copy", "--from", f"sqlite:///{kept}", "--labels-are-ids")


class TestMovingIn:
    """From LangGraph's store and mem0's export, with a mapping for what lost its periods."""

    @pytest.fixture
    def stock(self, folder: Path) -> str:
        from langgraph.store.sqlite import SqliteStore

        with SqliteStore.from_conn_string(str(folder / "stock.db")) as store:
            store.setup()
            store.put(("memories", "a_b@x_org"), "1", {"data": "likes green tea", "source_thread": "t"})
            store.put(("memories", "bob"), "1", {"kind": "Memory", "content": {"content": "rides a bike"}})
        return f"langgraph+sqlite:///{folder}/stock.db"

    def test_labels_that_may_have_lost_a_period_are_asked_for(self, stock: str):
        with pytest.raises(InvalidInputError, match="--mapping"):
            run("storage", "copy", "--from", stock)
        assert answer("storage", "stats")["items"] == 0

    def test_a_dry_run_says_what_would_come(self, stock: str, folder: Path):
        """The shapes, and what nobody has said the owner of; exit code 1, because something would be left out."""
        dry = answer("storage", "copy", "--from", stock, "--dry-run", code=1)

        assert dry["shapes"] == {"memory: LangMem's manager": 1}
        assert [left["namespace"] for left in dry["left_out"]] == [["memories", "a_b@x_org"]]
        shown = run("storage", "copy", "--from", stock, "--dry-run")
        assert "left out memories / a_b@x_org 1" in shown.output
        assert f"would be copied to sqlite {folder}/data/memory.sqlite3" in shown.output
        assert not (folder / "data").exists()

    def test_mapping_names_the_owner(self, stock: str, folder: Path):
        """And what comes is recalled as that user's memory."""
        (folder / "users.json").write_text(json.dumps({"a_b@x_org": USER}))

        shown = run("storage", "copy", "--from", stock, "--mapping", "users.json")

        assert shown.exit_code == 0, shown.output
        assert "memory: data: 1" in shown.output
        assert "2 copied" in shown.output
        assert [memory["text"] for memory in answer("memories", "list", "--user", USER)] == ["likes green tea"]
        assert [memory["text"] for memory in answer("memories", "list", "--user", "bob")] == ["rides a bike"]
        assert answer("memories", "search", "tea", "--user", USER)

    def test_labels_may_be_the_ids(self, stock: str):
        done = answer("storage", "copy", "--from", stock, "--labels-are-ids")

        assert done["complete"]
        assert len(answer("memories", "list", "--user", "a_b@x_org")) == 1

    def test_a_mapping_that_is_not_there_is_named(self, stock: str):
        with pytest.raises(InvalidInputError, match=r"none\.json cannot be read"):
            run("storage", "copy", "--from", stock, "--mapping", "none.json")

    def test_an_export_of_mem0(self, folder: Path):
        """What belongs to nobody is left out, said, and makes exit code 1."""
        row = {"id": "1", "memory": "Likes tea", "user_id": "a_b@x.org", "created_at": "2024-01-02T03:04:05Z"}
        rows = [row, {**row, "id": "2", "user_id": None}]
        (folder / "export.json").write_text(json.dumps({"results": rows}))

        shown = run("storage", "copy", "--from", "mem0:export.json")

        assert shown.exit_code == 1
        assert "it belongs to no user" in shown.output
        assert [memory["text"] for memory in answer("memories", "list", "--user", "a_b@x.org")] == ["Likes tea"]

    def test_how_to_behave_asks_or_names_who_approved_it(self, folder: Path):
        """The dry run counts what would wait; what waits is approved as any proposal is."""
        row = {"user_id": "ana", "created_at": "2024-01-02T03:04:05Z", "metadata": {"memory_type": "procedural_memory"}}
        asked = {**row, "id": "1", "memory": "Always answers in French"}
        (folder / "export.json").write_text(json.dumps([asked]))
        (folder / "more.json").write_text(json.dumps([{**asked, "id": "2", "memory": "Never uses emojis"}]))

        dry = answer("storage", "copy", "--from", "mem0:export.json", "--dry-run")
        answer("storage", "copy", "--from", "mem0:export.json")
        (waiting,) = answer("proposals", "list", "--user", "ana")
        before = answer("memories", "list", "--user", "ana")
        answer("proposals", "approve", waiting["proposal_id"], "--user", "ana", "--by", "carla")
        answer("storage", "copy", "--from", "mem0:more.json", "--into-existing", "--approved-by", "dora")

        kept = {memory["text"]: memory["approval"]["by"] for memory in answer("memories", "list", "--user", "ana")}
        assert dry["shapes"] == {"proposal: it waits for approval": 1}
        assert before == []
        assert kept == {"Always answers in French": "carla", "Never uses emojis": "dora"}

    def test_approver_is_recorded_for_foreign_memories_only(self, folder: Path):
        with pytest.raises(InvalidInputError, match="foreign"):
            run("storage", "copy", "--from", f"sqlite:///{folder}/other.db", "--approved-by", "carla")
