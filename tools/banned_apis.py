"""Calls that only one module may make, and excepts that swallow everything.

The environment is read in ``settings.py``, the wall clock in ``clock.py``; output belongs to the command line; and
``except BaseException`` has to raise again, because it catches Ctrl-C and cancellation, too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from tools.finding import ROOT, Finding, python_files, report

ENVIRONMENT: Final = frozenset({"os.environ", "os.environb", "os.getenv", "os.putenv", "os.unsetenv"})
CLOCK: Final = frozenset(
    {
        "time.time",
        "time.time_ns",
        "time.localtime",
        "time.gmtime",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "datetime.datetime.today",
        "datetime.date.today",
    }
)
PURE_MODULES: Final = (
    "capture/reconcile.py",
    "memories/codec.py",
    "memories/models.py",
    "recall/selection.py",
    "recall/models.py",
    "search/scoring.py",
    "storage/encoding.py",
    "storage/rows.py",
    "text/quoted.py",
    "text/redaction.py",
    "text/sentences.py",
    "text/tokenizing.py",
    "langgraph/window_rules.py",
)

Nodes: TypeAlias = Sequence[ast.AST]
"""Every node of a file, as ``ast.walk`` gives them."""


def check_environment(nodes: Nodes, path: str) -> Iterator[Finding]:
    """Find reads of the environment outside ``settings.py``."""
    if not path.endswith("threadkeep/settings.py"):
        for line, name in _used(nodes, ENVIRONMENT):
            yield Finding(path, line, f"{name} is for settings.py only; take a field of Settings.")


def check_clock(nodes: Nodes, path: str) -> Iterator[Finding]:
    """Find reads of the wall clock outside ``clock.py``; ``time.monotonic`` and ``perf_counter`` are free."""
    if not path.endswith("threadkeep/clock.py"):
        for line, name in _used(nodes, CLOCK):
            yield Finding(path, line, f"{name} is for clock.py only; take a Clock.")


def check_print(nodes: Nodes, path: str) -> Iterator[Finding]:
    """Find ``print`` outside the command line."""
    if "threadkeep/cli/" in path:
        return
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield Finding(path, node.lineno, "print is for cli/ only; log, or return what is to be shown.")


def check_excepts(nodes: Nodes, path: str) -> Iterator[Finding]:
    """Find handlers of everything, Ctrl-C included, that do not raise again as their last step."""
    for node in nodes:
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        everything = any(kind is None or (isinstance(kind, ast.Name) and kind.id == "BaseException") for kind in caught)
        last = node.body[-1]
        if everything and not (isinstance(last, ast.Raise) and last.exc is None):
            yield Finding(
                path, node.lineno, "this catches Ctrl-C and cancellation; name the errors, or end with raise."
            )


def check_pure(nodes: Nodes, path: str) -> Iterator[Finding]:
    """Find anything that awaits in a module of pure rules."""
    if not path.endswith(tuple(f"threadkeep/{name}" for name in PURE_MODULES)):
        return
    for node in nodes:
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield Finding(path, node.lineno, "a pure rule awaits nothing; let the service await and pass the value in.")


RULES: Final = (check_environment, check_clock, check_print, check_excepts, check_pure)


def check(source: str, path: str) -> list[Finding]:
    """Return what all rules find in a file of the package with this text."""
    nodes = list(ast.walk(ast.parse(source, path)))
    return [finding for rule in RULES for finding in rule(nodes, path)]


def check_tree(root: Path = ROOT) -> list[Finding]:
    """Return what all rules find in ``src/`` and the packages' sources below *root*."""
    found: list[Finding] = []
    for path in python_files("src", root=root):
        found += check(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix())
    return found


def _used(nodes: Nodes, banned: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield line and full name of each use of a *banned* name, under whatever name it was imported."""
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in nodes:
        if isinstance(node, ast.Attribute | ast.Name):
            full = _full_name(node, names)
            if full in banned:
                yield node.lineno, full


def _full_name(node: ast.expr, names: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        before = _full_name(node.value, names)
        return f"{before}.{node.attr}" if before else ""
    return names.get(node.id, "") if isinstance(node, ast.Name) else ""


if __name__ == "__main__":
    sys.exit(report(check_tree()))
