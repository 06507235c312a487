"""``make load`` at its smallest: users of a profile are answered, learnt from, and find what they said everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.load.__main__ import main
from tests.gateway.load.profile import PROFILES, load_profile

PROFILE = """
users = [2, 4]
seconds = 1
warm_seconds = 0
arrival_seconds = 0.1
words = 3
words_per_second = 50
disconnects = 0
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_turns_of_owners_that_move_are_kept(capsys: pytest.CaptureFixture[str]):
    """Two gateways and a worker lose, double and mix up nothing; the bare application is measured beside one."""
    assert main(["throughput", "scaling", "--quick"]) == 0
    printed = capsys.readouterr().out

    assert [line for line in printed.splitlines() if "at most 0," in line] == []
    assert "| bare |" in printed
    assert "turns of owners that move                                80.000" in printed


class TestProfiles:
    def test_a_file_describes_users(self, tmp_path: Path):
        path = tmp_path / "mine.toml"
        path.write_text(PROFILE + "uploads = 0.5\n")

        profile = load_profile(str(path))

        assert profile.users == (2, 4)
        assert profile.uploads == 0.5

    def test_a_file_that_lacks_something_is_refused(self, tmp_path: Path):
        path = tmp_path / "mine.toml"
        path.write_text(PROFILE)

        with pytest.raises(ValueError, match="uploads"):
            load_profile(str(path))

    @pytest.mark.parametrize("path", sorted(PROFILES.glob("*.toml")), ids=lambda path: path.stem)
    def test_every_profile_is_complete(self, path: Path):
        assert load_profile(path.stem).users
