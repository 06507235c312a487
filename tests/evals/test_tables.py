from __future__ import annotations

import json
from xml.etree import ElementTree as ET

from rich.table import Table

from tests.command_line import CliRunner
from tests.evals.beam_file import write_beam
from tests.evals.locomo_file import write_locomo
from threadkeep.cli.main import app
from threadkeep_evals.tables import markdown


def run(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words], env={"EMBEDDINGS_PROVIDER": "none"})


class TestMarkdown:
    def test_is_a_pipe_table(self):
        """Numbers are to the right, and a bar in a cell does not end it."""
        table = Table(title="What", caption="one\ntwo")
        table.add_column("name")
        table.add_column("n", justify="right")
        table.add_row("a|b", "1")

        assert markdown(table).splitlines() == [
            "**What**",
            "",
            "| name | n |",
            "| --- | ---: |",
            "| a\\|b | 1 |",
            "",
            "one  ",
            "two",
        ]


class TestShow:
    def test_one_run_in_three_forms(self, tmp_path):
        """A table for people, one in Markdown, and the same JSON by either option."""
        data = write_locomo(tmp_path, conversations=2)

        shown = run("eval", "locomo", "--data", data, "--by-conversation", "--format", "markdown")
        by_format = run("eval", "locomo", "--data", data, "--format", "json")
        by_option = run("eval", "locomo", "--data", data, "--json")

        assert "| bm25 | turn | 1-4 |" in shown.stdout
        assert "| conv-2 |" in shown.stdout
        first, second = json.loads(by_format.stdout), json.loads(by_option.stdout)
        assert list(first) == list(second)
        assert first["block"] == second["block"]

    def test_a_plot_has_the_budgets_of_the_curve(self, tmp_path):
        """The file is replaced, and the table is of the product's own budget as without it."""
        plot = tmp_path / "curve.svg"
        plot.write_text("old")

        result = run("eval", "beam", "--data", write_beam(tmp_path), "--plot", plot, "--json")

        report = json.loads(result.stdout)
        assert [row["budget_tokens"] for row in report["curve"] if row["method"] == "bm25"] == [
            100,
            200,
            300,
            600,
            1200,
        ]
        assert ET.parse(plot).getroot().tag.endswith("svg")

    def test_a_place_that_cannot_be_written_is_said(self, tmp_path):
        """One sentence, and no traceback."""
        result = run("eval", "beam", "--data", write_beam(tmp_path), "--plot", tmp_path / "no" / "curve.svg")

        assert result.exit_code != 0
        assert "cannot be written" in str(result.exception or result.output)

    def test_rows_of_a_curve_have_a_place_before_anything_is_measured(self, tmp_path):
        """Not one that turns out to be none after hours; and they are the curve's."""
        nowhere = run("bench", "--curve", "--rows", tmp_path / "no" / "rows.jsonl")
        other = run("bench", "--rows", tmp_path / "rows.jsonl")

        assert "cannot be written" in str(nowhere.exception or nowhere.output)
        assert "give --curve" in str(other.exception or other.output)

    def test_an_unknown_peer_is_refused(self, tmp_path):
        """Before anything is stored."""
        result = run("eval", "beam", "--data", write_beam(tmp_path), "--peers", "zep")

        assert result.exit_code != 0
        assert "--peers is 'zep'" in str(result.exception or result.output)
