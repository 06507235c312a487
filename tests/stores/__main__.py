"""Run LangGraph's own tests of its stores with ours in their place: ``python -m tests.stores [KIND …]``.

The tests come from the source distributions of the installed versions of langgraph-checkpoint,
langgraph-checkpoint-sqlite and langgraph-checkpoint-postgres, which are downloaded into ``.build/stores`` at the first
run. No test may fail with ours, unless :data:`KNOWN` says why; those of LangGraph's own store are counted beside it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.pregel.__main__ import NEEDED, Outcome
from threadkeep_conformance.servers import PostgresServer

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".build" / "stores"
KINDS: Final = ("memory", "sqlite", "postgres")

PACKAGES: Final[Mapping[str, Mapping[str, str]]] = {
    "langgraph-checkpoint": {"tests/test_store.py": "Store as InMemoryStore"},
    "langgraph-checkpoint-sqlite": {
        "tests/test_store.py": "Store as SqliteStore",
        "tests/test_async_store.py": "AsyncStore as AsyncSqliteStore",
        "tests/test_ttl.py": "AsyncStore as AsyncSqliteStore, Store as SqliteStore",
    },
    "langgraph-checkpoint-postgres": {
        "tests/test_store.py": "PostgresStore",
        "tests/test_async_store.py": "AsyncPostgresStore",
    },
}
"""The files with tests of stores, and what each imports in place of LangGraph's store."""

_CHANGING_ROWS: Final = (
    "test_omit_expired_filters_read_paths",
    "test_omit_expired_disabled_preserves_expired_rows",
    "test_omit_expired_refresh_ttl_only_refreshes_live_rows",
    "test_omit_expired_search_pagination",
)
_ROWS: Final = "changes and reads the rows of LangGraph's own tables"
_REASONS: Final[Mapping[str, Mapping[str, str]]] = {
    "langgraph-checkpoint-sqlite tests/test_async_store.py": {
        "test_no_running_loop": "ours works on a running loop, too",
    },
    "langgraph-checkpoint-sqlite tests/test_ttl.py": {
        "test_ttl_override_default": "ours renews by reading unless refresh_on_read says otherwise, as TTLConfig does",
    },
    "langgraph-checkpoint-sqlite tests/test_store.py": {
        "test_nonnull_migrations": "looks at SqliteStore's own migrations",
        "test_vector_store_initialization": "looks at SqliteStore's own connection",
        "test_sql_injection_vulnerability": "ours makes no SQL of a filter's key: it finds nothing",
    },
    "langgraph-checkpoint-postgres tests/test_async_store.py": {
        "test_no_running_loop": "ours works on a running loop, too",
        "test_abatch_uses_single_pool_checkout": "counts the connections of AsyncPostgresStore's own pool",
        **dict.fromkeys(_CHANGING_ROWS, _ROWS),
    },
    "langgraph-checkpoint-postgres tests/test_store.py": dict.fromkeys(_CHANGING_ROWS, _ROWS),
}
KNOWN: Final = {f"{file}::{test}": reason for file, tests in _REASONS.items() for test, reason in tests.items()}
"""Tests that fail with ours for a reason, by package and name."""

_ANOTHER_DISTANCE: Final = re.compile(r"\[.*(?:l2|inner_product)")
"""Parameters for distances that ours refuses: its scores are cosines."""


def main() -> int:
    """Run them on each storage; return 1 if a test fails without a listed reason."""
    parser = argparse.ArgumentParser(prog="python -m tests.stores", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"storages, of {', '.join(KINDS)}; by default all")
    kinds = parser.parse_args().kinds or KINDS
    with PostgresServer() as server:
        failed = [compare(package, kinds, server.url) for package in PACKAGES]
    return int(any(failed))


def compare(package: str, kinds: Sequence[str], postgres: str) -> bool:
    """Run the tests of a package with its own store and with ours; return whether a test fails without a reason."""
    stock = run(package, "", postgres)
    failed = False
    for kind in kinds:
        ours = run(package, kind, postgres)
        wrong = [
            one
            for one in ours.failed
            if f"{package} {_name_of(one)}" not in KNOWN and not _ANOTHER_DISTANCE.search(one)
        ]
        failed |= bool(wrong) or not ours.passed
        known = f", {len(ours.failed) - len(wrong)} of them for a reason that is listed" if ours.failed else ""
        summary = f"{ours.summary} with ours on {kind}{known}; {stock.summary} with its own"
        lines = [f"{package} {version(package)}: {summary}", *(f"  fails without a reason: {one}" for one in wrong)]
        sys.stdout.write("\n".join([*lines, ""]))
        sys.stdout.flush()
    return failed


def run(package: str, kind: str, postgres: str) -> Outcome:
    """Run the tests of a package.

    Args:
        package: Its name.
        kind: The storage of our store; ``""``: LangGraph's own store.
        postgres: The URL of a server.
    """
    folder = prepare(package, ours=bool(kind))
    paths = [folder, ROOT / "src", ROOT / "packages/threadkeep-conformance/src", FOLDER / "needed"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "THREADKEEP_STORE_KIND": kind,
        "THREADKEEP_STORE_POSTGRES": postgres,
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--tb=short"]
    command += ["-p", "tests.shim"] if kind else []
    done = subprocess.run(
        [*command, *PACKAGES[package]], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    (folder / f"report-{kind or 'stock'}.txt").write_text(done.stdout + done.stderr)
    return Outcome(done.stdout)


def prepare(package: str, *, ours: bool) -> Path:
    """Download and unpack the tests of a package, and let a copy of them use our store; return their folder."""
    name = f"{package.replace('-', '_')}-{version(package)}"
    folder = FOLDER / ("ours" if ours else "stock") / name
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    if not (FOLDER / "needed").is_dir():
        subprocess.run([*pip, "install", "--no-deps", "--target", FOLDER / "needed", *NEEDED], check=True)
    if not (FOLDER / f"{name}.tar.gz").is_file():
        download = [*pip, "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
        subprocess.run([*download, "--dest", FOLDER, f"{package}=={version(package)}"], check=True)
    if not folder.is_dir():
        with tarfile.open(FOLDER / f"{name}.tar.gz") as archive:
            archive.extractall(folder.parent, filter="data")
        for file, names in PACKAGES[package].items() if ours else ():
            path = folder / file
            path.write_text(f"{path.read_text()}\n\nfrom tests.shim import {names}  # noqa: E402\n")
        if package == "langgraph-checkpoint-postgres":
            path = folder / "tests" / "conftest.py"
            path.write_text(f"{path.read_text()}\n\nimport os\nDEFAULT_URI = os.environ['THREADKEEP_STORE_POSTGRES']\n")
    if ours:
        shutil.copy(Path(__file__).with_name("shim.py"), folder / "tests" / "shim.py")
    (folder / "tests" / "__init__.py").touch()
    return folder


def _name_of(test: str) -> str:
    return re.sub(r"\[.*", "", test)


if __name__ == "__main__":
    sys.exit(main())
