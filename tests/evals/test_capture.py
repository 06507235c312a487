"""Conversations are said again to a real graph, and what capture kept of them is measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import threadkeep
from tests.command_line import CliRunner
from tests.evals.embedding import WordsEmbedder
from tests.evals.locomo_file import sample, write_locomo
from threadkeep.cli.main import app
from threadkeep.errors import InvalidInputError
from threadkeep.memories.models import NewMemory
from threadkeep_evals.capture import chart, duplicates, in_own_voice, is_supported, run_capture
from threadkeep_evals.conversation import Observation
from threadkeep_evals.locomo import load_locomo
from threadkeep_evals.replay import ReplayClock, every_memory, exchanges, replay


def noted(folder: Path) -> Path:
    """Write a conversation with notes on its speakers."""
    talk = sample()
    talk["observation"] = {
        "session_1_observation": {"Ana": [["Ana adopted a puppy.", "D1:1"]], "Ben": [["Ben paints.", "D1:2"]]},
        "session_2_observation": {"Ana": [["Ana got a promotion to head gardener.", ["D2:2"]]]},
    }
    path = folder / "noted.json"
    path.write_text(json.dumps([talk]))
    return path


class TestExchanges:
    def test_each_speaker_is_the_user_in_turn(self, tmp_path: Path):
        """The other one's words are the replies; who speaks first in a session opens it."""
        (talk,) = load_locomo(write_locomo(tmp_path)).conversations

        ana, ben = exchanges(talk, "Ana"), exchanges(talk, "Ben")

        assert [[turn.turn_id for turn in one.said] for one in ana] == [["D1:1"], ["D1:3"], ["D2:2"], ["D11:1"]]
        assert [one.opening for one in ana] == ["", "", "I started a pottery class with Marta on Thursdays.", ""]
        assert ana[1].reply == "(no reply)"
        assert [one.reply for one in ben][:2] == ["We hike every Sunday in the cork forest.", ana[2].said[0].words]

    def test_stranger_does_not_speak(self, tmp_path: Path):
        """The error names who does."""
        (talk,) = load_locomo(write_locomo(tmp_path)).conversations

        with pytest.raises(InvalidInputError, match="Ana and Ben"):
            exchanges(talk, "Eve")


class TestEveryMemory:
    @pytest.mark.slow
    async def test_all_are_walked_once(self):
        """More than a page of the storage, and what is forgotten is left out."""
        async with threadkeep.open("memory://", embedder="none", owner="ana") as tk:
            news = [NewMemory(f"I have {n} stamps.") for n in range(1_203)]
            kept = [one.memory_id for one in await tk.memories.remember_many(news)]
            await tk.memories.forget(kept[0])

            found = await every_memory(tk, "ana")
            walked = [memory.memory_id async for memory in tk.memories.walk()]

        assert sorted(memory.memory_id for memory in found) == sorted(kept[1:])
        assert [memory.memory_id for memory in found] == walked


class TestReplay:
    async def test_memories_have_the_data_sets_times_and_threads(self, tmp_path: Path):
        """As if the turns had been taken then; the other's words teach nothing."""
        (talk,) = load_locomo(write_locomo(tmp_path)).conversations
        clock = ReplayClock(talk.turns[0].at)

        async with threadkeep.open("memory://", embedder=WordsEmbedder(), clock=clock) as tk:
            await replay(tk, talk, "Ana", user_id="ana", clock=clock)
            facts = {m.text: m for m in await every_memory(tk, "ana") if m.kind == "semantic"}

        promoted = facts["I was promoted to head gardener at the museum."]
        assert promoted.sources[0].message_id == "D2:2"
        assert promoted.sources[0].thread_id == "conv-1/Ana/session-2"
        assert promoted.created_at.date().isoformat() == "2023-05-02"
        assert not any("pottery" in text for text in facts)


class TestMeasure:
    def test_evidence_is_found_by_its_provenance(self, tmp_path: Path):
        """By side and for all; what is not learnt is not found, and every turn verbatim stands beside it."""
        report = run_capture(noted(tmp_path), embedder=WordsEmbedder())

        ana, ben, both = report["results"]
        assert [row["conversation"] for row in report["results"]] == ["conv-1 Ana", "conv-1 Ben", "all"]
        assert (ana["turns"], ben["turns"], both["turns"]) == (4, 4, 8)
        assert both["evidence_turns"] == ana["evidence_turns"] + ben["evidence_turns"] == 8
        assert ana["evidence_kept"] == 1.0
        assert 0 < ana["facts_supported"] < 1
        assert both["duplicates_per_100_memories"] == 0
        recall = {(row["kept"], row["categories"]): row for row in ana["recall"]}
        assert recall["capture", "1-4"]["questions"] == 4
        assert recall["capture", "1-4"]["recall"] >= 0.5
        assert recall["verbatim", "1-4"]["recall"] >= 0.5
        assert 0 < recall["capture", "1-4"]["tokens_mean"] <= 300

    def test_without_capture_nothing_is_found(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """The figures are of what was learnt, and of nothing else."""

        async def nothing(*_: object) -> tuple[()]:
            return ()

        monkeypatch.setattr("threadkeep_evals.capture.replay", lambda *_a, **_k: nothing())

        row = run_capture(noted(tmp_path), embedder=WordsEmbedder())["results"][-1]

        assert row["evidence_kept"] == 0
        assert {(one["kept"], one["recall"] > 0) for one in row["recall"]} == {("capture", False), ("verbatim", True)}

    def test_a_line_goes_from_small_budgets_to_large_ones(self, tmp_path: Path):
        """In whichever order they were asked for."""
        report = run_capture(noted(tmp_path), budgets=(300, 60), embedder=WordsEmbedder())

        for line in chart(report).series:
            assert line.notes == ["60", "300"]
            assert [tokens for tokens, _ in line.points] == sorted(tokens for tokens, _ in line.points)

    def test_note_supports_what_it_says_something_of(self):
        """The turn alone is not enough: another sentence of it may be what was kept."""
        memory = replace(_memory("I adopted a puppy."))
        notes = [Observation("Ana", "Ana adopted a dog.", frozenset({"D1:1"}))]

        assert is_supported(memory, notes)
        assert not is_supported(memory, [replace(notes[0], text="Ana paints.")])
        assert not is_supported(memory, [replace(notes[0], turn_ids=frozenset({"D9:9"}))])

    async def test_duplicates_are_counted_by_rules_of_their_own(self):
        """What is kept twice is seen, whoever let it pass."""
        async with threadkeep.open("memory://", embedder=WordsEmbedder(), owner="ana") as tk:
            await tk.memories.remember_many(
                [
                    NewMemory("I have a dog called Biscuit."),
                    NewMemory("I have a dog called Biscuit!"),
                    NewMemory("I row."),
                ]
            )
            found = await duplicates(await every_memory(tk, "ana"), tk)

        assert len(found) == 1

    @pytest.mark.parametrize(
        ("question", "asked"),
        [
            ("When did Ana move?", "When did I move?"),
            ("What is Ana's dog called?", "What is my dog called?"),
            ("Who is Anabel to Ana?", "Who is Anabel to I?"),
        ],
    )
    def test_user_asks_in_their_own_voice(self, question: str, asked: str):
        """Nobody calls themselves by their name."""
        assert in_own_voice(question, "Ana") == asked


def _memory(text: str):
    from threadkeep.memories.models import Memory, Source

    at = ReplayClock(load_at()).now()
    source = Source("user", None, "D1:1")  # pyright: ignore[reportArgumentType]
    return Memory("m", ("memories", "a"), text, "semantic", "active", "user", (source,), 1, at, at)  # pyright: ignore[reportArgumentType]


def load_at():
    from threadkeep.testing.clock import START

    return START


class TestCommand:
    @pytest.mark.slow
    def test_replay_fills_a_memory_and_does_not_do_it_twice(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """Each speaker under an id of their own."""
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")
        monkeypatch.chdir(tmp_path)
        folder = ["--data-dir", str(tmp_path)]
        told = ["replay", "--data", str(write_locomo(tmp_path)), "--conversation", "conv-1", *folder]

        first = CliRunner().invoke(app, [*told, "--json"])
        again = CliRunner().invoke(app, told)
        listed = CliRunner().invoke(app, ["memories", "list", "--user", "conv-1/Ana", *folder])

        assert first.exit_code == 0, first.output
        rows = json.loads(first.stdout)["results"]
        assert [(row["user"], row["turns"], row["threads"]) for row in rows] == [
            ("conv-1/Ana", 4, 3),
            ("conv-1/Ben", 4, 3),
        ]
        assert "promoted to head gardener" in listed.output
        assert isinstance(again.exception, InvalidInputError)

    def test_unknown_conversation_names_those_there_are(self, tmp_path: Path):
        """So that the next try is right."""
        result = CliRunner().invoke(app, ["replay", "--data", str(write_locomo(tmp_path)), "--conversation", "x"])

        assert "conv-1" in str(result.exception)

    def test_capture_of_an_unknown_conversation_names_those_there_are(self, tmp_path: Path):
        """The same way: nothing is measured of a typing error."""
        told = ["eval", "capture", "--data", str(write_locomo(tmp_path)), "--conversation", "conv-1"]

        result = CliRunner().invoke(app, [*told, "--conversation", "typo"])

        assert isinstance(result.exception, InvalidInputError)
        assert "'typo'" in str(result.exception)
        assert "conv-1" in str(result.exception)
