"""``threadkeep chat``: commands, changes of memory that are proposed, and what is said once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.command_line import CliRunner, Result
from threadkeep.cli import chat, output
from threadkeep.cli.main import app
from threadkeep.models.langchain import NO_MODEL
from threadkeep.testing import ScriptedModel
from threadkeep.text.requests import topic_to_forget

USER = "ana.maria@x.org"

pytestmark = pytest.mark.usefixtures("folder")


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [*words, "--user", USER], input=stdin, catch_exceptions=False)


def talk(*lines: str) -> str:
    result = run("chat", stdin="".join(f"{line}\n" for line in lines))
    assert result.exit_code == 0, result.output
    return result.output


def rows(*lines: str) -> list[dict[str, Any]]:
    """Return the JSON object that answers each line."""
    result = run("chat", "--json", stdin="".join(f"{line}\n" for line in lines))
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def memories(kind: str = "semantic") -> list[str]:
    return [row["text"] for row in json.loads(run("memories", "list", "--kind", kind, "--json").stdout)]


def everything() -> str:
    """Return all memories with every word of theirs."""
    return run("memories", "list", "--json").stdout


def proposals(state: str = "pending") -> list[dict[str, Any]]:
    return json.loads(run("proposals", "list", "--state", state, "--json").stdout)


class TestForget:
    def test_what_the_user_asks_to_forget_is_proposed_and_forgotten(self):
        """Also its episode; and the request itself is not remembered."""
        said = talk("I'm allergic to walnuts.", "Forget that I'm allergic to walnuts.", "y")

        assert "Forget “I'm allergic to walnuts.”? y or n" in said
        assert "Forgotten: I'm allergic to walnuts." in said
        assert said.count("y or n") == 1
        assert "walnuts" not in everything()
        assert proposals() == []

    def test_nothing_is_forgotten_without_an_answer(self):
        """The proposal waits, and the message says where."""
        said = talk("I'm allergic to walnuts.", "please forget that I'm allergic to walnuts", "I have two cats.")

        assert "Not decided; threadkeep proposals list" in said
        assert "I'm allergic to walnuts." in memories()
        assert "forget that" not in everything()
        assert {(row["action"], row["base_text"]) for row in proposals()} >= {("forget", "I'm allergic to walnuts.")}

    def test_no_leaves_the_memory(self):
        assert "Not changed." in talk("I'm allergic to walnuts.", "forget that I'm allergic to walnuts", "n", "n")
        assert memories() == ["I'm allergic to walnuts."]
        assert proposals() == []

    def test_unmatched_topic_is_reported(self):
        said = talk("I'm allergic to walnuts.", "Forget that I live in Rome.", "y")

        assert "Nothing that is remembered says “I live in Rome”" in said
        assert memories() == ["I'm allergic to walnuts."]

    def test_the_rest_of_the_message_is_a_turn(self):
        """It is answered and learnt from."""
        *_, turn = rows("I'm allergic to walnuts.", "Forget that I'm allergic to walnuts. I live in Lisbon now.")

        assert "I live in Lisbon now." in turn["learnt"]
        assert turn["proposed"][0]["text"] == "I'm allergic to walnuts."
        ids = [row["proposal_id"] for row in turn["proposed"]]
        assert len(set(ids)) == len(ids), "the turn proposes what the chat has asked already"
        assert "Forget that" not in everything()

    @pytest.mark.parametrize(
        ("said", "topic"),
        [
            ("forget that I'm allergic to walnuts", "I'm allergic to walnuts"),
            ("Please forget my phone number.", "my phone number"),
            ("Can you forget about my trip to Rome, please?", "my trip to Rome"),
            ("Forget everything you know about my job!", "my job"),
            ("Stop remembering that I like tea.", "I like tea"),
            ("Don't remember that I live in Rome any more.", "I live in Rome"),
            ("Vergiss bitte, dass ich Tee mag.", "ich Tee mag"),
            ("Oublie que j'habite à Rome.", "j'habite à Rome"),
            ("Olvida que vivo en Roma.", "vivo en Roma"),
            ("Esqueça que moro em Roma.", "moro em Roma"),
            ("Dimentica che vivo a Roma.", "vivo a Roma"),
            ("Don't forget that I live in Rome.", None),
            ("Vergiss nicht, dass ich in Rom wohne.", None),
            ("N'oublie pas que j'habite à Rome.", None),
            ("Oublie ça.", None),
            ("I forget things often.", None),
            ("I always forget that I have a dentist.", None),
            ("Forget it.", None),
            ("Oh, forget about that!", None),
            ("forget", None),
            ("Forget " + "x " * 100_000, None),
        ],
    )
    def test_requests_to_forget_are_recognized(self, said: str, topic: str | None):
        assert topic_to_forget(said) == topic


class TestHowToBehave:
    def test_a_rule_is_proposed_and_remembered_after_a_yes(self):
        said = talk("Always answer in French.", "yes")

        assert "Remember “Always answer in French.”? y or n" in said
        assert "Remembered: Always answer in French." in said
        assert "learnt:" not in said, "nothing of it is kept before the answer"
        assert memories("procedural") == ["Always answer in French."]
        assert memories("episodic") == []

    def test_a_rule_that_is_refused_is_not_asked_again(self):
        said = talk("Always answer in French.", "no", "Always answer in French.")

        assert said.count("y or n") == 1
        assert memories("procedural") == []


class TestCommands:
    def test_help_lists_every_command(self):
        said = talk("/help")

        assert all(name in said for name in ("/help", "/memories", "/forget", "/thread", "/new", "/quit"))
        assert "There is no command /helo." in talk("/helo")

    def test_memories_are_listed_and_searched(self):
        run("memories", "add", "I live in Lisbon.")
        run("memories", "add", "I have two cats.")

        every, some = rows("/memories", "/memories cats")

        assert {row["text"] for row in every["memories"]} == {"I live in Lisbon.", "I have two cats."}
        assert some["memories"][0]["text"] == "I have two cats."
        assert f"{some['memories'][0]['memory_id'][:8]}  I have two cats." in talk("/memories")

    def test_a_memory_is_forgotten_by_the_first_characters_of_its_id(self):
        run("memories", "add", "I live in Lisbon.")
        (listed,) = rows("/memories")

        asked, decided = rows(f"/forget {listed['memories'][0]['memory_id'][:8]}", "y")

        assert asked["proposed"][0]["text"] == "I live in Lisbon."
        assert decided["decided"]["state"] == "approved"
        assert memories() == []

    def test_a_memory_is_forgotten_by_its_words(self):
        run("memories", "add", "I live in Lisbon.")

        assert "Forgotten: I live in Lisbon." in talk("/forget Lisbon", "Y")

    def test_threads_are_shown_and_changed(self):
        shown, other, new, turn = rows("/thread", "/thread monday", "/new", "I live in Lisbon.")

        assert other["thread_id"] == "monday"
        assert len({shown["thread_id"], "monday", new["thread_id"]}) == 3
        assert turn["thread_id"] == new["thread_id"]

    def test_quit_ends_the_conversation(self):
        assert len(rows("/quit", "I live in Lisbon.")) == 1
        assert memories() == []


class TestOutput:
    def test_missing_model_is_reported_once(self):
        """Not at the end of each reply."""
        said = talk("I live in Lisbon.", "Do I live in Lisbon?", "What do I eat?")

        assert said.count("THREADKEEP_MODEL") == 1
        assert NO_MODEL not in said
        assert "- “I live in Lisbon.”" in said

    def test_configured_model_is_not_mentioned(self, monkeypatch: pytest.MonkeyPatch):
        model = ScriptedModel(replies=["Noted."])
        monkeypatch.setattr(chat, "open_memory", lambda data_dir: output.open_memory(data_dir, model=model))

        said = talk("I live in Lisbon.")

        assert "THREADKEEP_MODEL" not in said
        assert "Noted." in said

    def test_each_learnt_memory_is_one_line(self):
        """The episode, which repeats them, is not shown beside them."""
        said = talk("I live in Lisbon. My daughter is called Inês.")

        assert [line for line in said.splitlines() if line.startswith("  learnt: ")] == [
            "  learnt: I live in Lisbon.",
            "  learnt: My daughter is called Inês.",
        ]

    def test_a_reply_is_printed_as_it_comes(self, monkeypatch: pytest.MonkeyPatch):
        """Each piece by itself."""
        pieces: list[str] = []
        printed = output.out.console.print
        model = ScriptedModel(replies=[("One ", "two ", "three.")])
        monkeypatch.setattr(chat, "open_memory", lambda data_dir: output.open_memory(data_dir, model=model))
        monkeypatch.setattr(output.out.console, "print", lambda *a, **k: (pieces.append(str(a[:1])), printed(*a, **k)))

        talk("Count!")

        assert [piece for piece in pieces if any(word in piece for word in ("One", "two", "three"))] == [
            "('One ',)",
            "('two ',)",
            "('three.',)",
        ]
