"""Peers in environments of their own: made once, kept, and talked to by lines of JSON (``peer_worker.py``)."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from threadkeep.errors import SettingsError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vectors: TypeAlias = "Callable[[Sequence[str]], Awaitable[NDArray[np.float32]]]"
"""Returns the vectors of texts, shape ``(texts, dims)``."""

_WORKER: Final = Path(__file__).with_name("peer_worker.py")
_LONGEST_LINE: Final = 64 * 1024 * 1024
_PATIENCE_SECONDS: Final = 600.0
_ENDING_SECONDS: Final = 10.0
_TOLD: Final = 600
_LOADS_EXTENSIONS: Final = "import sqlite3, sys; sys.exit(not hasattr(sqlite3.Connection, 'enable_load_extension'))"


@dataclass(frozen=True, slots=True)
class Environment:
    """What a peer is installed into.

    Attributes:
        peer: As ``peer_worker.py`` calls it.
        requirements: What is installed, exactly.
        loads_extensions: Whether its Python's sqlite3 has to load extensions, which many builds cannot.
    """

    peer: str
    requirements: tuple[str, ...]
    loads_extensions: bool = False


ENVIRONMENTS: Final[Mapping[str, Environment]] = {
    one.peer: one
    for one in (
        Environment("mem0", ("mem0ai==2.2.1",)),
        Environment("langgraph-sqlite", ("langgraph-checkpoint-sqlite==3.1.2",), loads_extensions=True),
    )
}


def interpreter(environment: Environment, folder: Path) -> Path:
    """Return the Python of *environment*, which is made below *folder* where it is not there yet.

    It is installed from the registry that this machine is set up for, without this environment's packages, so that
    its pins affect no other environment. A changed requirement makes another environment.

    Raises:
        SettingsError: It could not be made; the message says what the installer said last.
    """
    target = folder / "-".join((environment.peer, *(one.replace("==", "-") for one in environment.requirements)))
    python = target / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    ready = target / "ready"
    if ready.exists():
        return python
    base = _base(environment)
    shutil.rmtree(target, ignore_errors=True)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"The environment of {environment.peer} could not be made ({error}); its folder has to be writable."
        raise SettingsError(msg) from error
    if importlib.util.find_spec("uv"):  # quicker, and needs no pip inside
        uv = (sys.executable, "-m", "uv")
        _run(environment, *uv, "venv", "--quiet", "--python", base, str(target))
        _run(environment, *uv, "pip", "install", "--quiet", "--python", str(python), *environment.requirements)
    else:
        _run(environment, base, "-m", "venv", str(target))
        _run(environment, str(python), "-m", "pip", "install", "--quiet", *environment.requirements)
    ready.touch()
    return python


def _base(environment: Environment) -> str:
    """Return the Python that the environment is made from."""
    if not environment.loads_extensions or hasattr(sqlite3.Connection, "enable_load_extension"):
        return sys.executable
    for name in ("/usr/bin/python3", "python3"):
        found = shutil.which(name)
        if found and subprocess.run([found, "-c", _LOADS_EXTENSIONS], check=False, capture_output=True).returncode == 0:  # noqa: S603
            return found
    msg = (
        f"{environment.peer} searches by an extension of SQLite, which neither this Python's sqlite3 nor the system's "
        "can load; run the measurement with a Python that can."
    )
    raise SettingsError(msg)


def _run(environment: Environment, *command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own words
    if done.returncode != 0:
        reason = " ".join((done.stderr or done.stdout).split())[-_TOLD:]
        msg = f"The environment of {environment.peer} could not be made ({reason}); it needs a package registry once."
        raise SettingsError(msg)


class Worker:
    """A peer that runs in a process of its own.

    Args:
        requests: Read by ``peer_worker.py``.
        replies: Written by it.
        vectors: Returns the vectors of texts, shape ``(texts, dims)``.
        said: The file of what it printed.
    """

    def __init__(
        self, requests: asyncio.StreamWriter, replies: asyncio.StreamReader, vectors: Vectors, said: Path
    ) -> None:
        self._requests = requests
        self._replies = replies
        self._vectors = vectors
        self._said = said

    async def call(self, verb: str, **given: Any) -> tuple[Any, float]:
        """Return what the peer answers, and its milliseconds without those of the vectors.

        Raises:
            SettingsError: It ended, or took more than ten minutes; the message says what it printed last.
        """
        await self._tell({verb: given})
        return await self.answer()

    async def answer(self) -> tuple[Any, float]:
        """Give the peer the vectors that it asks for until it answers; see :meth:`call`."""
        while True:
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    row = await self._replies.readline()
            except TimeoutError:
                row = b""
            if not row:
                reason = " ".join(self._said.read_text(errors="replace").split())[-_TOLD:]
                msg = f"The peer ended or did not answer ({reason or 'without a message'})."
                raise SettingsError(msg)
            reply = json.loads(row)
            if "done" in reply:
                return reply["done"], float(reply.get("ms", 0.0))
            rows = await self._vectors(reply["embed"])
            await self._tell({"vectors": [base64.b64encode(one.astype("<f4").tobytes()).decode() for one in rows]})

    async def _tell(self, value: dict[str, Any]) -> None:
        self._requests.write(json.dumps(value).encode("ascii") + b"\n")
        await self._requests.drain()


@asynccontextmanager
async def worker(environment: Environment, folder: Path, *, dims: int, vectors: Vectors) -> AsyncGenerator[Worker]:
    """Start a peer, made where it is missing, and end it.

    Its own environment variables are not ours: no key, no address, nothing that it could call.

    Raises:
        SettingsError: It could not be made or started.
    """
    python = await asyncio.to_thread(interpreter, environment, folder)
    with tempfile.TemporaryDirectory(prefix="threadkeep-peer-") as place:
        said = Path(place) / "said"
        with said.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                python,
                "-I",
                _WORKER,
                environment.peer,
                place,
                str(dims),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                limit=_LONGEST_LINE,
                env={"PATH": os.defpath, "HOME": place, "MEM0_DIR": place, "MEM0_TELEMETRY": "False"},
            )
        if process.stdin is None or process.stdout is None:  # both were asked for
            msg = "The peer has no pipes."
            raise SettingsError(msg)
        try:
            started = Worker(process.stdin, process.stdout, vectors, said)
            await started.answer()
            yield started
        finally:
            process.stdin.close()
            try:
                async with asyncio.timeout(_ENDING_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
