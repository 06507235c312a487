"""Processes that are killed, and processes that fork."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.threads.checkpoints import config_of, put, value_of
from threadkeep.threads.checkpointers import ThreadkeepCheckpointer

OPENED = """
import os, sys
from pathlib import Path
from tests.threads.checkpoints import config_of, put, value_of
from threadkeep.errors import ClosedError
from threadkeep.home import Home
from threadkeep.threads.factory import checkpointer_over
from threadkeep.threads.sqlite import SqliteCheckpoints
path = Path(sys.argv[1])
checkpointer = checkpointer_over(SqliteCheckpoints(path), home=Home())
"""

WRITING = f"""{OPENED}
for n in range(1_000_000):
    put(checkpointer, config_of("1"), n)
    print(n, flush=True)
"""

FORKING = f"""{OPENED}
put(checkpointer, config_of("1"), "parent's")
child = os.fork()
if child == 0:
    try:
        value_of(checkpointer, config_of("1"))
    except ClosedError:
        own = checkpointer_over(SqliteCheckpoints(path), home=Home())
        put(own, config_of("2"), "child's")
        own.close()
        os._exit(7)
    os._exit(1)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 7, status
assert value_of(checkpointer, config_of("1")) == "parent's"
assert value_of(checkpointer, config_of("2")) == "child's"
checkpointer.close()
"""


@pytest.mark.slow
@pytest.mark.linux
class TestKilling:
    def test_nothing_acknowledged_is_lost(self, make: Callable[..., ThreadkeepCheckpointer], path: Path):
        """Killed between two of its writes, or inside one, a process leaves a file that reads and goes on."""
        process = subprocess.Popen([sys.executable, "-c", WRITING, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for acknowledged in process.stdout:
            if int(acknowledged) >= 50:
                break
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
        process.wait()
        process.stdout.close()
        last = int(rest[-1]) if rest else 50

        checkpointer = make("sqlite")
        kept = [one.checkpoint["channel_values"]["x"] for one in checkpointer.list(config_of("1"))]

        assert kept in (list(range(last, -1, -1)), list(range(last + 1, -1, -1)))
        put(checkpointer, config_of("1"), "goes on")
        assert value_of(checkpointer, config_of("1")) == "goes on"
        other = sqlite3.connect(path)
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        other.close()


@pytest.mark.slow
@pytest.mark.linux
class TestForking:
    def test_a_child_is_told_to_open_its_own(self, path: Path):
        """The parent's loop does not run in it; with one of its own it works, and the parent's goes on."""
        program = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, str(path)]

        ended = subprocess.run(program, timeout=60, check=False, capture_output=True)

        assert ended.returncode == 0, ended.stderr.decode()
