"""``make load`` at its smallest: users of a profile are answered, learnt from, and find what they said everywhere."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.gateway.load.__main__ import main
from tests.gateway.load.profile import PROFILES, load_profile

ROOT = Path(__file__).parents[2]
PROFILE = """
users = [2, 4]
seconds = 1
warm_seconds = 0
arrival_seconds = 0.1
words = 3
words_per_second = 50
disconnects = 0
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_turns_of_owners_that_move_are_kept(capsys: pytest.CaptureFixture[str]):
    """Two gateways and a worker lose, double and mix up nothing; the bare application is measured beside one."""
    assert main(["throughput", "moving", "--quick"]) == 0
    printed = capsys.readouterr().out

    assert [line for line in printed.splitlines() if "at most 0," in line] == []
    assert "| bare |" in printed
    assert "turns of owners that move                                60.000" in printed
    assert [line.split(" in ")[0] for line in printed.splitlines()[-2:]] == [
        "load: throughput passed",
        "load: moving     passed",
    ]


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("part", "child"), [("steady", "serve"), ("scaling", "serve"), ("warm", "--multiprocessing-fork")]
)
def test_a_part_that_is_interrupted_leaves_no_process(part: str, child: str, number: signal.Signals):
    """It stops what it has started and what is at work, be it servers or processes that recall."""
    command = [sys.executable, "-m", "tests.gateway.load", part, *(["--quick"] if part == "warm" else [])]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as load:
        started: dict[int, psutil.Process] = {}
        while not any(_is_at_work(process, child) for process in [*started.values()]):
            assert load.poll() is None
            started |= {one.pid: one for one in psutil.Process(load.pid).children(recursive=True)}
        load.send_signal(number)
        code = load.wait(120)
    _, alive = psutil.wait_procs(started.values(), timeout=30)

    assert code != 0
    assert alive == []


def _is_at_work(process: psutil.Process, child: str) -> bool:
    """Return whether *process* has the word *child* in its command, and listens if it is a server."""
    wanted = psutil.CONN_LISTEN if child == "serve" else psutil.CONN_ESTABLISHED
    try:
        states = {one.status for one in process.net_connections("tcp")} if child in process.cmdline() else set[str]()
    except psutil.NoSuchProcess:
        return False
    return wanted in states


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
