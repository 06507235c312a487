"""Questions are answered by one model and judged by another: real clients, scripted replies on a loopback server."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from tests.command_line import CliRunner
from tests.evals.beam_file import write_beam
from tests.evals.embedding import WordsEmbedder
from tests.evals.locomo_file import write_locomo
from tests.evals.longmemeval_file import write_longmemeval
from tests.fakes.model_server import ModelServer, Raw, Reply
from threadkeep.cli.main import app
from threadkeep.errors import InvalidInputError
from threadkeep.models.helper_models import HelperModel
from threadkeep_evals.beam import load_beam
from threadkeep_evals.locomo import load_locomo
from threadkeep_evals.longmemeval import load_longmemeval
from threadkeep_evals.qa import Price, QaRun, parse_price, read_answers, run_qa


@dataclass(eq=False)
class AnsweringServer(ModelServer):
    """Answers with what it was given, and judges as correct what has a word of the reference that the question lacks.

    Attributes:
        failing: How many requests fail from now on.
    """

    failing: int = 0

    def next_reply(self, request: dict[str, Any]) -> Reply:
        if self.failing:
            self.failing -= 1
            return Raw(b"{}", status=500)
        system, human = (message["content"] for message in request["messages"])
        if "You judge" not in system:
            return str(human).rpartition("\n\nQuestion: ")[0]
        asked = json.loads(human)
        if "do not tell" in asked["reference"]:
            return "CORRECT" if "Nothing is remembered" in asked["answer"] else "WRONG"
        words = set(re.findall(r"\w{4,}", asked["reference"].lower())) - set(
            re.findall(r"\w+", asked["question"].lower())
        )
        return "The answer is CORRECT." if words & set(re.findall(r"\w+", asked["answer"].lower())) else "wrong"

    def model(self, name: str) -> HelperModel:
        """Return a helper model that asks this server."""
        made = ChatOpenAI(model=name, base_url=self.base_url, api_key="none", max_retries=0)  # pyright: ignore[reportArgumentType]
        return HelperModel(made)

    def asked_of(self, name: str) -> int:
        """Return how many requests the model called *name* had."""
        return sum(request["model"] == name for request in self.requests)


def measured(server: AnsweringServer, data: Any, answers: Path, **settings: Any) -> dict[str, Any]:
    models = {"model": server.model("answers"), "judge": server.model("judges")}
    return run_qa(data, **models, answers=answers, run=QaRun(**settings), embedder=WordsEmbedder())


class TestRun:
    def test_a_block_answers_more_than_nothing(self, tmp_path: Path) -> None:
        """With intervals by category, and the tokens of both models."""
        data = load_locomo(write_locomo(tmp_path))
        with AnsweringServer() as server:
            ours = measured(server, data, tmp_path / "ours.jsonl", model_price=Price(1, 2), judge_price=Price(3, 4))
            nothing = measured(server, data, tmp_path / "nothing.jsonl", method="no-memory")
            whole = measured(server, data, tmp_path / "whole.jsonl", method="everything")

        every, *kinds = ours["results"]
        assert [row["category"] for row in kinds] == ["1", "2", "3", "4", "5"]
        assert every["questions"] == sum(row["questions"] for row in kinds) == 10
        assert every["accuracy"] >= 0.5
        assert every["interval95"][0] < every["accuracy"] < every["interval95"][1]
        assert nothing["results"][0]["correct"] == 1  # of category 5: that it is not known
        assert whole["results"][0]["block_tokens_mean"] > every["block_tokens_mean"] > 0
        given, said = every["answer_tokens"]
        judged_given, judged_said = every["judge_tokens"]
        assert min(given, said, judged_given, judged_said) > 0
        cost = (given * 1 + said * 2 + judged_given * 3 + judged_said * 4) / 1_000_000
        assert every["cost"] == pytest.approx(cost, abs=0.0001)

    def test_a_second_run_asks_nothing_again(self, tmp_path: Path) -> None:
        """A line that was cut off, as by a kill, is asked once more, and so is another budget."""
        data = load_locomo(write_locomo(tmp_path))
        answers = tmp_path / "answers" / "a.jsonl"
        with AnsweringServer() as server:
            first = measured(server, data, answers, limit=4)
            assert server.asked_of("answers") == server.asked_of("judges") == 4
            more = measured(server, data, answers)
            assert server.asked_of("answers") == 10
            again = measured(server, data, answers)
            assert server.asked_of("answers") == 10
            text = answers.read_text(encoding="utf-8")
            answers.write_text(text[: len(text) - 30], encoding="utf-8")
            repaired = measured(server, data, answers)
            assert server.asked_of("answers") == 11
            measured(server, data, answers, budget_tokens=60, limit=1)
            assert server.asked_of("answers") == 12

        assert first["results"][0]["questions"] == 4
        assert more["results"] == again["results"]
        assert repaired["results"][0]["questions"] == 10

    def test_a_failed_question_is_counted_and_asked_again_later(self, tmp_path: Path) -> None:
        """It is neither right nor wrong."""
        data = load_locomo(write_locomo(tmp_path))
        answers = tmp_path / "a.jsonl"
        with AnsweringServer(failing=3) as server:
            broken = measured(server, data, answers, limit=2, parallel=1)["results"][0]
            whole = measured(server, data, answers, limit=2, parallel=1)["results"][0]

        assert (broken["questions"], broken["failed"]) == (2, 1)
        assert (whole["questions"], whole["failed"]) == (2, 0)
        assert any("the model failed (" in line for line in answers.read_text(encoding="utf-8").splitlines())
        assert all(not one.error for one in read_answers(answers))

    def test_questions_of_longmemeval_say_when_they_are_asked(self, tmp_path: Path) -> None:
        """What was never said is right if the model says so."""
        data = load_longmemeval(write_longmemeval(tmp_path))
        with AnsweringServer() as server:
            report = measured(server, data, tmp_path / "a.jsonl")
            prompts = [
                request["messages"][1]["content"] for request in server.requests if request["model"] == "answers"
            ]

        assert report["results"][0]["questions"] == 3
        assert all("asked on 2023/06/10 (Sat) 10:00" in prompt for prompt in prompts)
        by_id = {one.conversation_id: one for one in read_answers(tmp_path / "a.jsonl")}
        assert by_id["q1"].correct
        assert not by_id["q3_abs"].correct  # the server answers with the block

    def test_beam_is_judged_by_its_answers(self, tmp_path: Path) -> None:
        path = write_beam(tmp_path)
        chats = json.loads(path.read_text())
        for question, answer in zip(chats[0]["qs"], ("2 April", "in March", "thirty-one", ""), strict=True):
            question["ans"] = answer
        path.write_text(json.dumps(chats))
        with AnsweringServer() as server:
            report = measured(server, load_beam(path), tmp_path / "a.jsonl")

        counts = {row["category"]: row["questions"] for row in report["results"]}
        assert counts == {"all": 4, "abstention": 1, "information_extraction": 2, "knowledge_update": 1}

    def test_settings_that_cannot_be_are_refused(self, tmp_path: Path) -> None:
        data = load_locomo(write_locomo(tmp_path))
        with AnsweringServer() as server:
            with pytest.raises(InvalidInputError, match="--method is 'magic'"):
                measured(server, data, tmp_path / "a.jsonl", method="magic")
            with pytest.raises(InvalidInputError, match="cannot be read"):
                measured(server, data, tmp_path)
        with pytest.raises(InvalidInputError, match="two numbers"):
            parse_price("cheap", "--price")


def test_the_command_prints_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are named as everywhere else."""
    monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    told = ["eval", "qa", "--dataset", "locomo", "--data", str(write_locomo(tmp_path)), "--limit", "3", "--json"]
    told += ["--model", "openai:answers", "--judge", "openai:judges", "--answers", str(tmp_path / "a.jsonl")]
    with AnsweringServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        result = CliRunner().invoke(app, told)

    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["model"], report["judge"]) == ("answers", "judges")
    assert report["results"][0]["questions"] == 3
