"""The one command of everything at full size."""

from __future__ import annotations

import sys

import pytest

from tools import soak


class TestRun:
    def test_it_goes_on_after_what_fails_and_says_so(self, capfd: pytest.CaptureFixture[str]):
        """A line for each part, in their order, and exit 1."""
        code = soak.run(
            {
                "first": (sys.executable, "-c", "raise SystemExit(3)"),
                "second": (sys.executable, "-c", "print('it ran')"),
            }
        )

        said = capfd.readouterr().out
        assert code == 1
        assert "\nit ran\n" in said
        lines = [line.split(" in ")[0].split(maxsplit=2) for line in said.splitlines() if line.startswith("soak: ")]
        assert lines == [["soak:", "first", "FAILED (exit 3)"], ["soak:", "second", "passed"]]

    def test_nothing_failed_is_exit_0(self):
        """So a machine can tell."""
        assert soak.run({"only": (sys.executable, "-c", "")}) == 0

    def test_both_sizes_have_the_same_parts(self):
        """The quick one shows the wiring of the full one."""
        assert list(soak.QUICK) == list(soak.FULL)
