"""Processes of ``threadkeep`` that start in a tenth of a second: they fork from one that has imported everything."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from threadkeep_conformance.servers import _die_with_parent


def start_command(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], messages: Path
) -> ForkServerProcess:
    """Start ``threadkeep`` with *arguments* in *folder*; what it writes to stderr is added to the file *messages*."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.gateway.preload"])
    process = context.Process(target=_run, args=(arguments, folder, dict(environment), messages), daemon=False)
    process.start()
    return process


def _run(arguments: Sequence[str], folder: Path, environment: dict[str, str], messages: Path) -> None:
    _die_with_parent()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(os.open(messages, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    sys.argv = ["threadkeep", *arguments]
    sys.path.insert(0, "")
    from threadkeep.cli.main import main

    main()
