"""What is cut out of conversations is counted, and not shown."""

from __future__ import annotations

import json
from pathlib import Path

from tests.command_line import CliRunner
from tests.evals.beam_file import SAID, write_beam
from tests.evals.locomo_file import sample
from threadkeep.cli.main import app
from threadkeep_evals.redaction import run_redaction


class TestRedaction:
    """By kind, with where it was."""

    def test_turns_are_counted_by_kind(self, tmp_path: Path):
        """Each kind for itself, and no text in the report."""
        talk = sample()
        talk["conversation"]["session_1"][0]["text"] = "My mail is ana@canary.org."
        talk["conversation"]["session_1"][1]["text"] = "My password is hunter2."
        path = tmp_path / "talk.json"
        path.write_text(json.dumps([talk]))

        report = run_redaction(path)

        found = {row["kind"]: row["places"] for row in report["results"]}
        assert found == {"secrets": ["conv-1 D1:2"], "email": ["conv-1 D1:1"], "phone": [], "iban": [], "ip": []}
        assert {row["turns"] for row in report["results"]} == {8}
        assert "canary" not in str(report)
        assert "hunter2" not in str(report)

    def test_another_data_set_is_read_by_its_reader(self, tmp_path: Path):
        path = write_beam(tmp_path)

        result = CliRunner().invoke(app, ["eval", "redaction", "--data", str(path), "--dataset", "beam", "--json"])

        assert {row["turns"] for row in json.loads(result.output)["results"]} == {len(SAID)}
