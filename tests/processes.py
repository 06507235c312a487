"""Python programs that start in a tenth of a second: they fork from a process that has imported everything.

:func:`start_python` takes the place of ``subprocess.Popen([sys.executable, …])``, :func:`run_python` that of
``subprocess.run``. They do not fit a test about the start or the end of an interpreter: what a program imports, or what
it does when it exits without closing its memory, as functions registered with ``atexit`` are not called.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import runpy
import shlex
import signal
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from multiprocessing import forkserver, reduction
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any, Final, Self

THREADKEEP = ("-c", "from threadkeep.cli.main import main; main()")
"""What runs ``threadkeep``; its words come after it."""


PRELOADED: Final = ["tests.preload"]

_PR_SET_PDEATHSIG: Final = 1
_prctl: Final = getattr(ctypes.CDLL(None), "prctl", None)  # on Linux


def start_forkserver(preloaded: list[str] = PRELOADED) -> str:
    """Start a process that has imported *preloaded*, so that other processes fork from it; return its address."""
    server: Any = forkserver.ForkServer()
    server.set_forkserver_preload(preloaded)
    server.ensure_running()
    return server._forkserver_address


def use_forkserver(address: str) -> None:
    """Fork programs from the process at *address*, which another process has started and ends."""
    shared = _forkserver()
    shared._forkserver_address = address
    shared._forkserver_alive_fd = os.open(os.devnull, os.O_RDONLY)
    shared.ensure_running = lambda: None


def forking_command(address: str) -> list[str]:
    """Return a command that takes arguments as ``python`` does, and forks from the process at *address*."""
    return [sys.executable, "-c", "from tests.processes import _fork; _fork()", address]


def forked_python(folder: Path) -> Path:
    """Write such a command into *folder*, for a program that starts processes by itself; return its file.

    It forks from where :func:`start_python` does. What it forked outlives it if it is killed.
    """
    _await_forkserver()
    command = folder / "forked-python"
    command.write_text(f'#!/bin/sh\nexec {shlex.join(forking_command(_forkserver()._forkserver_address))} "$@"\n')
    command.chmod(0o700)
    return command


@cache
def _await_forkserver() -> None:
    """Wait until the process that programs fork from has imported everything: a program may be given less time."""
    start_python("-c", "").wait()


def _fork() -> None:
    """Be ``python`` with the arguments after the address of a process, forked from that."""
    _, address, *arguments = sys.argv
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program gets it, too, and ends this process by its end
    use_forkserver(address)
    sys.exit(start_python(*(word for word in arguments if word != "-u"), stdin=0, stdout=1, stderr=2).wait())


def _forkserver() -> Any:
    return forkserver._forkserver  # type: ignore[attr-defined]  # the standard library shares it within a process only


class PythonProcess:
    """A running program, used as ``subprocess.Popen`` is with ``text=True``.

    Attributes:
        stdin: Writes to the program, if it was started with ``PIPE``.
        stdout: Reads what the program writes, if it was started with ``PIPE``.
        stderr: The same of its error stream.
    """

    def __init__(self, process: ForkServerProcess, pipes: Sequence[IO[str] | None]) -> None:
        self._process = process
        self.stdin, self.stdout, self.stderr = pipes

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended; *timeout* is in seconds."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("python", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Close its input; return what it wrote to its output and its error stream once it has ended.

        One of them at most may be a pipe.
        """
        assert self.stdout is None or self.stderr is None
        if self.stdin is not None:
            self.stdin.close()
        texts = [_read(pipe) for pipe in (self.stdout, self.stderr)]
        self.wait(timeout)
        return texts[0], texts[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        self.wait()


def _read(pipe: IO[str] | None) -> str:
    if pipe is None:
        return ""
    with pipe:
        return pipe.read()


class _Descriptor:
    """A file descriptor that can be an argument of another process."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _received, (reduction.DupFd(self._number),)


def _received(duplicate: Any) -> int:
    return duplicate.detach()


def start_python(
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> PythonProcess:
    """Start what ``python *arguments`` would.

    Args:
        arguments: ``-c`` and a program, ``-m`` and a module, or a file; then the program's arguments.
        cwd: Its folder; by default this process's.
        env: All its variables; by default this process's.
        stdin: A file descriptor, or ``PIPE``; by default there is nothing to read.
        stdout: A file descriptor, or ``PIPE``; by default this process's.
        stderr: A file descriptor, or ``PIPE``; by default this process's.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    pipes: list[IO[str] | None] = []
    with ExitStack() as stack:
        ends: list[_Descriptor] = []
        for number, wanted in enumerate((stdin, stdout, stderr)):
            end, pipe = _end_of(number, wanted, stack)
            ends.append(_Descriptor(end))
            pipes.append(pipe)
        words, variables = [str(one) for one in arguments], dict(os.environ if env is None else env)
        process = context.Process(target=_run, args=(words, str(cwd or Path.cwd()), variables, ends), daemon=False)
        process.start()
    return PythonProcess(process, pipes)


def _end_of(number: int, wanted: int | None, stack: ExitStack) -> tuple[int, IO[str] | None]:
    """Return the file descriptor that the program gets as *number*, and this process's end of the pipe."""
    if wanted == PIPE:
        reads, writes = os.pipe()
        theirs, ours = (reads, writes) if number == 0 else (writes, reads)
        stack.callback(os.close, theirs)
        return theirs, os.fdopen(ours, "r" if number else "w", encoding="utf-8")
    if wanted is None:
        wanted = os.dup(number) if number else os.open(os.devnull, os.O_RDONLY)
        stack.callback(os.close, wanted)
    return wanted, None


def run_python(
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | None = None,
    timeout: float = 100,
) -> subprocess.CompletedProcess[str]:
    """Run what ``python *arguments`` would; return its exit code and what it wrote. *timeout* is in seconds."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = start_python(*arguments, cwd=cwd, env=env, stdin=stdin, stdout=out.fileno(), stderr=err.fileno())
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read(), err.read())


def _run(arguments: list[str], folder: str, environment: dict[str, str], ends: list[int]) -> None:
    """Be the program, in the new process."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, end in enumerate(ends):
        os.dup2(end, number)
        os.close(end)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    sys.argv = arguments
    kind, *rest = arguments
    if kind == "-c":
        _run_text(rest)
    elif kind == "-m":
        sys.argv = rest
        sys.path.insert(0, folder)
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(kind).parent))
        runpy.run_path(kind, run_name="__main__")


def _run_text(arguments: list[str]) -> None:
    text, *rest = arguments
    sys.argv = ["-c", *rest]
    sys.path.insert(0, "")
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(text, "<string>", "exec"), module.__dict__)
