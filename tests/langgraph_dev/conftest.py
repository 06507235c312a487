"""One real LangGraph server for all tests of this folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import missing
from threadkeep_conformance.servers import free_port

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final = Path(__file__).parent / "project"
UV: Final = ROOT / ".venv/bin/uv"
START_SECONDS: Final = 90.0


@pytest.fixture(scope="package")
def environment() -> Path:
    """Make the server's own environment once; later runs find it again, and of several processes one makes it."""
    wanted = hashlib.sha256((PROJECT / "requirements.lock").read_bytes() + (ROOT / "requirements.lock").read_bytes())
    folder = ROOT / ".build/langgraph-dev" / wanted.hexdigest()[:16]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            _install(folder)
    return folder


def _install(folder: Path) -> None:
    python = folder / "bin/python"
    install: list[str | Path] = [UV, "pip", "install", "--quiet", "--python", python, "--no-deps"]
    steps: list[list[str | Path]] = [
        [UV, "venv", "--quiet", "--clear", "--python", sys.executable, folder],
        [*install, "-r", PROJECT / "requirements.lock"],
        [*install, "-e", ROOT / "packages/minilm", "-e", ROOT],
    ]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            missing(f"the environment of langgraph dev ({done.stderr.strip()[-300:]})")
    (folder / "ready").touch()


@pytest.fixture(scope="package")
def server(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run ``langgraph dev`` on the project of this folder."""
    folder = tmp_path_factory.mktemp("langgraph-dev")
    for file in PROJECT.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "pyproject.toml").write_text('[project]\nname = "served"\nversion = "0"\n')
    with serving(environment, folder) as url:
        yield url


@contextmanager
def serving(environment: Path, folder: Path) -> Generator[str]:
    """Run ``langgraph dev`` in *folder*, on a free port of the loopback."""
    port = free_port()
    log = folder / "log"
    command = [environment / "bin/langgraph", "dev", "--no-browser", "--no-reload", "--port", str(port)]
    settings = {
        "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
        "HOME": str(folder),
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "THREADKEEP_DATA_DIR": str(folder / "data"),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=settings, stdout=output, stderr=output, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, process, log)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/ok", timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"langgraph dev did not start:\n{log.read_text()[-3000:]}")
