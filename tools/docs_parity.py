"""What the documents name exists, and what exists is documented.

A rule is a function from texts to findings; ``python -m tools.docs_parity`` runs them over the Markdown files that git
tracks. Decision records and the changelog are history, so they may name what is gone.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path
from typing import Final

from typer.core import TyperGroup

from threadkeep.gateway.settings import GatewaySettings
from threadkeep.settings import Settings, secret_file_variables, variables_of
from tools.finding import ROOT, Finding, report, tracked_files
from tools.public_api import subcommands
from tools.reference import Program, commands, errors, program

HISTORY: Final = ("CHANGELOG.md", "docs/decisions/")
TOP_LEVEL: Final = ("src", "docs", "tests", "tools", "packages", "examples")
OURS: Final = re.compile(r"\b(?:THREADKEEP|LANGGRAPH_STORE|LANGGRAPH_CHECKPOINT|EMBEDDINGS)_[A-Z0-9_]*[A-Z0-9]\b")
FOR_TESTS: Final = "THREADKEEP_TEST_"
OF_OTHERS: Final = {"InvalidNamespaceError", "InvalidStateError", "UnsupportedError"}
"""Errors of LangGraph, of asyncio and of the shipped suites, which a document may name."""
ERROR: Final = re.compile(r"\b[A-Z][A-Za-z]+Error\b")
CODE: Final = re.compile(
    r"```.*?\n(?P<fenced>.*?)```|`(?P<inline>[^`\n]+)`|^(?: {4}|\t)(?P<indented>\S[^\n]*)$", re.DOTALL | re.MULTILINE
)
COMMAND: Final = re.compile(r"(?:^|[\s/$(])threadkeep((?: [a-z][a-z-]*)+)", re.MULTILINE)
TARGET: Final = re.compile(r"(?:^|[\s(])make ([a-z][a-z-]*)", re.MULTILINE)
LINK: Final = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
REPOSITORY: Final = "https://github.com/threadkeep/threadkeep"
"""Where the README's links lead to, because package indexes show it, too; as ``pyproject.toml`` says."""
ABSOLUTE: Final = re.compile(rf"\]\({re.escape(REPOSITORY)}/(?:blob|tree)/main/([^)#\s]+)")
ON_INDEXES: Final = frozenset(
    {"README.md", *(f"packages/{name}/README.md" for name in ("minilm", "threadkeep-conformance", "threadkeep-evals"))}
)
Texts = Mapping[str, str]
_subcommands: Final = cache(subcommands)
"""Building the commands reads the entry points of every installed package."""


def documents(root: Path = ROOT) -> dict[str, str]:
    """Return the texts of the Markdown files, by path."""
    return {
        name: path.read_text(encoding="utf-8")
        for path in tracked_files(root)
        if path.suffix == ".md" and not (name := path.relative_to(root).as_posix()).startswith(HISTORY)
    }


def setting_variables() -> set[str]:
    """Return the environment variables of the library and of the gateway."""
    return {
        name for one in (Settings, GatewaySettings) for field in one.model_fields for name in variables_of(one, field)
    }


def secret_files() -> set[str]:
    """Return the variables that name the file of a secret; no document must name them."""
    return {name for one in (Settings, GatewaySettings) for name in secret_file_variables(one)}


def check_settings(texts: Texts, variables: set[str], optional: AbstractSet[str] = frozenset()) -> list[Finding]:
    """Return the settings that a document names and nothing reads, and those that ``docs/`` leaves out.

    Args:
        texts: The documents.
        variables: The settings.
        optional: Settings that ``docs/`` may leave out.
    """
    unknown = [
        Finding(path, line, f"no setting is called {name}.")
        for path, line, name in _matches(texts, OURS)
        if name not in variables and name not in optional and not name.startswith(FOR_TESTS)
    ]
    return unknown + _left_out(texts, variables, "the setting")


def check_errors(texts: Texts, codes: Mapping[str, str]) -> list[Finding]:
    """Return the errors that a document names and nothing raises, and those whose class or code ``docs/`` lacks."""
    known = set(codes) | set(dir(builtins)) | OF_OTHERS
    unknown = [
        Finding(path, line, f"no error is called {name}.")
        for path, line, name in _matches(texts, ERROR)
        if name not in known
    ]
    return unknown + _left_out(texts, {*codes, *codes.values()}, "the error")


def check_commands(texts: Texts, program: Program) -> list[Finding]:
    """Return the commands that a document names and the program does not have, and those that ``docs/`` leaves out."""
    unknown: list[Finding] = []
    for path, line, code in _code(texts):
        for found in COMMAND.finditer(code):
            wrong = _unknown_word(program, found[1].split())
            if wrong:
                unknown.append(Finding(path, line, f"threadkeep has no command {wrong!r}."))
    return unknown + _left_out(texts, {f"threadkeep {words}" for words, _ in commands(program)}, "the command")


def check_targets(texts: Texts, makefile: str) -> list[Finding]:
    """Return the targets of ``make`` that a document names and the Makefile does not have."""
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    return [
        Finding(path, line, f"the Makefile has no target {found[1]!r}.")
        for path, line, code in _code(texts)
        for found in TARGET.finditer(code)
        if found[1] not in targets
    ]


def check_paths(texts: Texts, root: Path) -> list[Finding]:
    """Return the paths of this repository that a document names or links to and that do not exist."""
    found: list[Finding] = []
    for path, line, target in _matches(texts, LINK, group=1):
        if not (root / path).parent.joinpath(target).exists():
            found.append(Finding(path, line, f"the link leads nowhere: {target}"))
    for path, line, target in _matches(texts, ABSOLUTE, group=1):
        if not (root / target).exists():
            found.append(Finding(path, line, f"the link leads nowhere: {target}"))
    for path, line, target in _matches({name: texts[name] for name in ON_INDEXES & texts.keys()}, LINK, group=1):
        found.append(Finding(path, line, f"package indexes show this page, so the link must be absolute: {target}"))
    for path, line, code in _code(texts):
        for word in re.findall(r"[\w./-]+", code):
            head, slash, _ = word.partition("/")
            if slash and head in TOP_LEVEL and "..." not in word and not (root / word.rstrip(".")).exists():
                found.append(Finding(path, line, f"there is no {word}."))
    return found


def check_tree(root: Path = ROOT) -> list[Finding]:
    """Return what all rules find in this repository."""
    texts = documents(root)
    return [
        *check_settings(texts, setting_variables(), secret_files()),
        *check_errors(texts, {error.__name__: error.code for error in errors()}),
        *check_commands(texts, program()),
        *check_targets(texts, (root / "Makefile").read_text(encoding="utf-8")),
        *check_paths(texts, root),
    ]


def _matches(texts: Texts, pattern: re.Pattern[str], *, group: int = 0) -> Iterator[tuple[str, int, str]]:
    for path, text in texts.items():
        for found in pattern.finditer(text):
            yield path, _line(text, found.start()), found[group]


def _code(texts: Texts) -> Iterator[tuple[str, int, str]]:
    """Yield path, line and text of everything that is set as code: inline, fenced or indented."""
    for path, text in texts.items():
        for found in CODE.finditer(text):
            kind = found.lastgroup or "inline"
            for number, line in enumerate(found[kind].splitlines()):
                yield path, _line(text, found.start(kind)) + number, line


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _left_out(texts: Texts, names: set[str], what: str) -> list[Finding]:
    reference = "\n".join(text for path, text in texts.items() if path.startswith("docs/"))
    return [
        Finding("docs", 0, f"{what} {name} is not documented.")
        for name in sorted(names)
        if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", reference)
    ]


def _unknown_word(program: Program, words: list[str]) -> str | None:
    command: object = program
    for word in words:
        if not isinstance(command, TyperGroup):
            return None
        command = _subcommands(command).get(word)
        if command is None:
            return word
    return None


if __name__ == "__main__":
    sys.exit(report(check_tree()))
