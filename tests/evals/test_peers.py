"""What ours is compared with: real stores, and a peer in a process and an environment of its own."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.evals.embedding import WordsEmbedder
from tests.evals.locomo_file import sample, write_locomo
from threadkeep.errors import InvalidInputError, SettingsError
from threadkeep_evals.bench import run_peers_bench
from threadkeep_evals.comparison import compare
from threadkeep_evals.locomo import load_locomo
from threadkeep_evals.peer_process import ENVIRONMENTS, Environment, interpreter, worker
from threadkeep_evals.peers import PEERS, StoreMethod, chosen_peers
from threadkeep_evals.report import Report

STAND_IN = """
import math
import os
import sys

print("noise on standard output")


class Memory:
    @classmethod
    def from_config(cls, config):
        return cls(config["vector_store"]["config"]["embedding_model_dims"])

    def __init__(self, dims):
        self.dims = dims
        self.rows = []

    def add(self, text, *, user_id, metadata, infer):
        assert infer is False
        vector = self.embedding_model.embed(text, "add")
        assert len(vector) == self.dims
        self.rows.append((user_id, metadata, vector))

    def search(self, question, *, filters, top_k):
        if question == "die":
            sys.exit("the peer gave up, as it was told to")
        if question == "environment":
            return {"results": [{"metadata": {"key": name}} for name in sorted(os.environ)]}
        near = self.embedding_model.embed(question, "search")
        own = [(math.sumprod(near, row) if hasattr(math, "sumprod") else sum(map(float.__mul__, near, row)), meta)
               for user, meta, row in self.rows if user == filters["user_id"]]
        own.sort(key=lambda one: -one[0])
        return {"results": [{"metadata": meta} for _, meta in own[:top_k]]}
"""


@pytest.fixture
def peers_folder(tmp_path: Path) -> Path:
    """Return a folder of environments where mem0's is made already, and holds a stand-in of thirty lines."""
    mem0 = ENVIRONMENTS["mem0"]
    target = tmp_path / "peers" / f"mem0-{mem0.requirements[0].replace('==', '-')}"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(target)], check=True)
    (packages,) = target.glob("lib/python*/site-packages")
    (packages / "mem0" / "embeddings").mkdir(parents=True)
    (packages / "mem0" / "__init__.py").write_text(STAND_IN)
    (packages / "mem0" / "embeddings" / "base.py").write_text("class EmbeddingBase:\n    pass\n")
    (target / "ready").touch()
    return tmp_path / "peers"


def rows_of(report, method, level="turn"):
    return [row for row in report["results"] if row["method"] == method and row["level"] == level]


class TestChoose:
    def test_all_is_every_one_in_order(self):
        """Each once, in the order of the tables."""
        assert chosen_peers(["mem0", "all"]) == PEERS
        assert chosen_peers(["mem0", "langgraph-memory", "mem0"]) == ("langgraph-memory", "mem0")

    def test_a_stranger_is_refused(self):
        """The error names those that there are."""
        with pytest.raises(InvalidInputError, match=r"--peers is 'zep'; give langgraph-memory.*or all"):
            chosen_peers(["zep"])


class TestCompare:
    def test_a_store_in_this_process_finds_what_dense_finds(self, tmp_path):
        """LangGraph's store in memory compares the very same vectors of the very same texts."""
        data = load_locomo(write_locomo(tmp_path))

        report = Report(compare(data, embedder=WordsEmbedder(), peers=["langgraph-memory"])).as_json()

        figures = [
            [{**row, "method": "", "ms_p50": 0, "ms_p95": 0} for row in rows_of(report, method, level)]
            for level in ("turn", "session")
            for method in ("dense", "langgraph-memory")
        ]
        assert figures[0] == figures[1]
        assert figures[2] == figures[3]
        assert report["not_run"] == []

    def test_two_identical_turns_are_stored(self, tmp_path):
        """``InMemoryStore`` fails where a batch has a text twice."""
        talk = sample()
        said = talk["conversation"]["session_1"]
        said.append({**said[0], "dia_id": "D1:9"})
        path = tmp_path / "twice.json"
        path.write_text(json.dumps([talk]))

        comparison = compare(load_locomo(path), embedder=WordsEmbedder(), peers=["langgraph-memory"])

        assert comparison.not_run == ()
        assert "langgraph-memory" in comparison.methods

    @pytest.mark.parametrize("where", ["store", "search"])
    def test_a_peer_that_fails_is_named_and_the_others_are_measured(self, tmp_path, monkeypatch, where):
        """None of its answers count, not even those before its failure."""

        async def failing(*_args: object, **_kwargs: object) -> None:
            msg = "the peer broke"
            raise RuntimeError(msg)

        monkeypatch.setattr(StoreMethod, where, failing)
        data = load_locomo(write_locomo(tmp_path, conversations=2))

        comparison = compare(data, embedder=WordsEmbedder(), peers=["langgraph-memory", "no-memory"])

        assert comparison.methods == ("threadkeep", "bm25", "dense", "no-memory")
        assert [(one.peer, one.why) for one in comparison.not_run] == [
            ("langgraph-memory", "it failed (RuntimeError: the peer broke)")
        ]

    def test_dense_and_peers_are_given_what_ours_is_given(self, tmp_path):
        """Date, speaker and caption of a turn, and the question without the speakers' names."""
        (talk,) = load_locomo(write_locomo(tmp_path)).conversations

        assert talk.turns[5].dated == (
            "(2 May 2023) Ben: Congratulations! Here is my first vase. [a photo of a blue vase on a shelf]"
        )
        assert talk.without_names("What is the name of Ana's puppy?") == "What is the name of puppy?"
        assert talk.without_names("Ana") == "Ana"

    def test_no_memory_finds_nothing_and_everything_has_no_order(self, tmp_path):
        """The one costs no token; the other holds all evidence, and ranks nothing."""
        data = load_locomo(write_locomo(tmp_path))

        report = Report(compare(data, embedder="none", peers=["no-memory", "everything"])).as_json()

        nothing, whole = rows_of(report, "no-memory")[0], rows_of(report, "everything")[0]
        assert (nothing["recall@20"], nothing["evidence_in_block"], nothing["tokens_mean"]) == (0.0, 0.0, 0.0)
        assert (whole["recall@20"], whole["interval95"], whole["evidence_in_block"]) == (None, None, 1.0)
        assert whole["tokens_mean"] > rows_of(report, "threadkeep")[0]["tokens_mean"]
        assert {one["over"] for one in report["gains"]} == {"bm25"}

    def test_without_an_embedder_a_peer_of_vectors_does_not_run(self, tmp_path):
        """It is named, with the reason, and everything else is measured."""
        comparison = compare(load_locomo(write_locomo(tmp_path)), embedder="none", peers=["langgraph-memory", "mem0"])

        assert [(one.peer, one.why) for one in comparison.not_run] == [
            ("langgraph-memory", "it compares vectors, and nothing embeds here"),
            ("mem0", "it compares vectors, and nothing embeds here"),
        ]
        assert comparison.methods == ("threadkeep", "bm25")

    def test_an_environment_that_cannot_be_made_is_said(self, tmp_path):
        """Where the folder of environments is a file, that peer is left out."""
        folder = tmp_path / "file"
        folder.write_text("")

        comparison = compare(
            load_locomo(write_locomo(tmp_path)), embedder=WordsEmbedder(), peers=["mem0"], peers_folder=folder
        )

        (missing,) = comparison.not_run
        assert missing.peer == "mem0"
        assert "could not be made" in missing.why

    @pytest.mark.slow
    def test_a_peer_in_its_own_process_finds_what_dense_finds(self, tmp_path, peers_folder):
        """The vectors go over the pipe as they are, whatever the peer prints."""
        data = load_locomo(write_locomo(tmp_path, conversations=2))

        comparison = compare(data, embedder=WordsEmbedder(), peers=["mem0"], peers_folder=peers_folder)

        report = Report(comparison).as_json()
        dense, peer = rows_of(report, "dense"), rows_of(report, "mem0")
        assert [row["recall@5"] for row in peer] == [row["recall@5"] for row in dense]
        assert [row["ndcg@10"] for row in peer] == [row["ndcg@10"] for row in dense]
        assert all(row["ms_p50"] > 0 for row in peer)

    @pytest.mark.slow
    def test_postgres_is_searched_on_a_server_of_its_own(self, tmp_path):
        """LangGraph's store on PostgreSQL, with pgvector."""
        data = load_locomo(write_locomo(tmp_path))

        report = Report(compare(data, embedder=WordsEmbedder(), peers=["langgraph-postgres"])).as_json()

        assert report["not_run"] == []
        assert rows_of(report, "langgraph-postgres")[0]["recall@20"] == rows_of(report, "dense")[0]["recall@20"]


async def _vectors(texts):
    return await WordsEmbedder().embed(texts)


@pytest.mark.slow
@pytest.mark.slow
class TestBench:
    def test_a_line_for_each_size_and_peer_that_searches(self, peers_folder):
        """The same owner grows; what has no search is left out, and what cannot be had is named."""
        report = run_peers_bench(
            ["langgraph-memory", "mem0", "everything"], memories=[16, 8], environments=peers_folder
        )

        assert [(line["n"], line["peer"]) for line in report["lines"]] == [
            (8, "langgraph-memory"),
            (8, "mem0"),
            (16, "langgraph-memory"),
            (16, "mem0"),
        ]
        assert all(line["ours_p50_ms"] > 0 and line["peer_p50_ms"] > 0 for line in report["lines"])
        assert report["not_run"] == []

    def test_what_cannot_be_had_is_named(self, tmp_path):
        """Everything else is measured."""
        folder = tmp_path / "file"
        folder.write_text("in the way")

        report = run_peers_bench(["langgraph-memory", "mem0"], memories=[8], environments=folder)

        assert [line["peer"] for line in report["lines"]] == ["langgraph-memory"]
        assert [one["peer"] for one in report["not_run"]] == ["mem0"]


class TestWorker:
    async def test_its_end_is_reported_with_its_output(self, peers_folder):
        """Whoever waits is not left waiting."""
        async with worker(ENVIRONMENTS["mem0"], peers_folder, dims=64, vectors=_vectors) as peer:
            with pytest.raises(SettingsError, match="gave up, as it was told to"):
                await peer.call("search", owner="ana", question="die", limit=1)

    async def test_it_has_none_of_our_environment(self, peers_folder, monkeypatch):
        """No key of ours is there for a peer to use."""
        monkeypatch.setenv("OPENAI_API_KEY", "secret")

        async with worker(ENVIRONMENTS["mem0"], peers_folder, dims=64, vectors=_vectors) as peer:
            names, _ = await peer.call("search", owner="ana", question="environment", limit=1)

        assert {"HOME", "MEM0_DIR", "MEM0_TELEMETRY", "PATH"} <= set(names)
        assert not [name for name in names if "KEY" in name]


class TestInterpreter:
    def test_what_is_made_is_used_again(self, peers_folder, monkeypatch):
        """Nothing is installed a second time."""
        monkeypatch.setattr(subprocess, "run", None)

        assert interpreter(ENVIRONMENTS["mem0"], peers_folder).exists()

    def test_another_requirement_is_another_environment(self, peers_folder, monkeypatch):
        """A changed pin is never served by what was installed before."""

        def refuse(command, **options):
            return subprocess.CompletedProcess(command, 1, "", "no registry here")

        monkeypatch.setattr(subprocess, "run", refuse)

        with pytest.raises(SettingsError, match="no registry here"):
            interpreter(Environment("mem0", ("mem0ai==0.0.1",)), peers_folder)

    @pytest.mark.skipif(hasattr(sqlite3.Connection, "enable_load_extension"), reason="this Python can load extensions")
    def test_a_python_that_loads_no_extension_is_not_taken(self, tmp_path, monkeypatch):
        """Where no other Python can, either, that is said before anything is installed."""
        monkeypatch.setattr("shutil.which", lambda name: None)

        with pytest.raises(SettingsError, match="extension of SQLite"):
            interpreter(ENVIRONMENTS["langgraph-sqlite"], tmp_path)
