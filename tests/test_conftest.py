"""The checks that guard every test do guard."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from tests import conftest

ROOT = Path(__file__).parents[1]


class TestWorldOfItsOwn:
    def test_the_users_data_folder_is_the_tests_own(self, tmp_path_factory: pytest.TempPathFactory):
        """No test touches what the developer's own agents remember."""
        folder = Path(platformdirs.user_data_dir("threadkeep"))

        assert folder.is_relative_to(tmp_path_factory.getbasetemp())
        assert not folder.exists()

    def test_no_setting_of_the_developer_is_seen(self):
        """A test sets what it needs."""
        assert not [name for name in os.environ if name.startswith(("THREADKEEP_CAPTURE", "LANGGRAPH_STORE_"))]


class TestNothingLeftBehind:
    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which files are open")
    def test_an_open_database_is_seen(self, tmp_path: Path):
        """An SQLite connection that nobody closed."""
        connection = sqlite3.connect(tmp_path / "a.sqlite3")

        seen = conftest.open_files_below(tmp_path)
        connection.close()

        assert seen == {"a.sqlite3"}
        assert conftest.open_files_below(tmp_path) == set()

    def test_a_running_thread_is_seen(self, monkeypatch: pytest.MonkeyPatch):
        """A thread that does not end by itself."""
        monkeypatch.setattr(conftest, "SECONDS_TO_END", 0.01)
        before = set(threading.enumerate())
        end = threading.Event()
        thread = threading.Thread(target=end.wait, name="left")
        thread.start()

        seen = conftest.threads_left(before)
        end.set()
        thread.join()

        assert seen == ["left"]


class TestWorkers:
    @pytest.mark.slow
    def test_a_worker_forks_from_a_process_that_has_imported_the_tests(self):
        """Five workers import everything once."""
        if "PYTEST_XDIST_WORKER" not in os.environ:
            pytest.skip("runs in a worker of `make test`")

        assert multiprocessing.parent_process() is not None

    @pytest.mark.slow
    def test_a_worker_counts_failures_by_itself(self, request: pytest.FixtureRequest):
        """No test waits for an answer of the process that the worker belongs to."""
        if "PYTEST_XDIST_WORKER" not in os.environ:
            pytest.skip("runs in a worker of `make test`")

        config: Any = request.config
        assert not hasattr(config.failures_db, "sock")


class TestTimeLimit:
    def test_a_second_run_that_hangs_ends(self, tmp_path: Path):
        """Its first run failed, which ends the limit of pytest-timeout."""
        (tmp_path / "conftest.py").write_text(
            "from tests.conftest import pytest_runtest_setup, pytest_runtest_teardown, pytest_timeout_set_timer\n"
        )
        (tmp_path / "test_hangs.py").write_text(
            "import time\n\nruns = []\n\n\ndef test():\n"
            "    runs.append(1)\n    assert len(runs) > 1\n    time.sleep(60)\n"
        )
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--reruns", "1", "--timeout", "1", str(tmp_path)]

        ended = subprocess.run(
            [sys.executable, *command],
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
            capture_output=True,
            text=True,
            timeout=50,
        )

        assert "Timeout (>1.0s)" in ended.stdout
        assert "1 failed, 1 rerun" in ended.stdout


class TestOrder:
    def test_each_part_begins_with_long_tests(self):
        """The first with those of a browser; all others stay in their order."""
        ordered = conftest.long_first(["b1", "b2"], ["l1", "l2", "l3"], [*range(7)], workers=3)

        assert ordered == ["b1", "b2", 0, 1, "l1", "l3", 2, 3, "l2", 4, 5, 6]

    def test_more_long_tests_than_a_part_holds_are_kept(self):
        """None is lost."""
        ordered = conftest.long_first([*"abcdef"], ["l"], [1], workers=4)

        assert ordered == [*"abcdef", "l", 1]


class TestMissing:
    def test_it_is_a_skip_on_a_laptop(self, monkeypatch: pytest.MonkeyPatch):
        """Visible in the summary."""
        monkeypatch.delenv("CI", raising=False)

        with pytest.raises(pytest.skip.Exception, match="missing here: a server"):
            conftest.missing("a server")

    def test_it_is_a_failure_in_continuous_integration(self, monkeypatch: pytest.MonkeyPatch):
        """A green run there has run everything."""
        monkeypatch.setenv("CI", "true")

        with pytest.raises(pytest.fail.Exception, match="missing here: a server"):
            conftest.missing("a server")
