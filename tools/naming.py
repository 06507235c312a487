"""Names that say nothing (files that hold anything, classes that do something to something), and long modules."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Final

from tools.finding import ROOT, Finding, python_files, report

VAGUE_FILES: Final = frozenset({"utils", "util", "helpers", "helper", "common", "misc"})
VAGUE_CLASS: Final = re.compile(r"\w(Manager|Helpers?|Utils?|Handler|Processor|Data|Info)$")
LONGEST_MODULE: Final = 600
"""Lines of a module of the package; a longer one holds more than one thing."""
VAGUE_CLASS_IN_TEXT: Final = re.compile(rf"\bclass\s+\w*{VAGUE_CLASS.pattern.removesuffix('$')}\b")


def check_file_name(path: str) -> list[Finding]:
    """Return a finding where a file or folder is called after nothing in particular."""
    vague = VAGUE_FILES & {Path(part).stem for part in Path(path).parts}
    return [Finding(path, 0, f"'{name}' holds anything; name it after what is in it.") for name in sorted(vague)]


def check_class_names(source: str, path: str) -> list[Finding]:
    """Return the classes of a file whose last word says nothing."""
    if not VAGUE_CLASS_IN_TEXT.search(source):  # nearly every file, and parsing is a hundred times slower
        return []
    return [
        Finding(path, node.lineno, f"class {node.name}: '{found[1]}' says nothing; take a noun of the glossary.")
        for node in ast.walk(ast.parse(source, path))
        if isinstance(node, ast.ClassDef) and (found := VAGUE_CLASS.search(node.name))
    ]


def check_length(source: str, path: str) -> list[Finding]:
    """Return a finding where a module of the package is too long."""
    lines = source.count("\n")
    if not path.startswith("src/") or lines <= LONGEST_MODULE:
        return []
    return [Finding(path, 0, f"{lines} lines; part it: a module has at most {LONGEST_MODULE}.")]


def check_tree(root: Path = ROOT) -> list[Finding]:
    """Return the vague names and the long modules of the whole repository."""
    found: list[Finding] = []
    for path in python_files("src", "tests", "tools", "packages", root=root):
        name = path.relative_to(root).as_posix()
        found += check_file_name(name)
        source = path.read_text(encoding="utf-8")
        found += check_class_names(source, name)
        found += check_length(source, name)
    return found


if __name__ == "__main__":
    sys.exit(report(check_tree()))
