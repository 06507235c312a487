"""Plain words: one meaning per class name, standard module names, and sentences that name their subject."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.finding import ROOT, Finding, python_files, report

OLD_MODULES: Final = frozenset(
    """
    doors chosen recalling at_hand patience home crowd shelf held traits on_record happenings endings whole finding
    sweeping values admission binding envelope order shapes record port arriving upkeep tidying ageing uses ledger
    wording meaning known reviews accounts personal support timeline waiting engines moving foreign sealed seal in_use
    link opening following stale blocking library chosen budget chooser
    """.split()  # noqa: SIM905 - a list of so many words is unreadable
)
"""Module and package names that earlier versions used for what has a standard name."""

OLD_IDENTIFIERS: Final = frozenset(
    """
    whose told crowd chosen_model said_in has_room require_room home_loop at_hand to_bind let_go let_go_after none_free
    somebody_else_summarises what_is_missing what_next how_many_hang in_a_loop_of_its_own on_the_scale_of_cosines
    among_the_best before_a_talk least_without_a_word goes_on from_everywhere into_another is_back is_to_look_at
    not_asked_for as_it_is as_variable at_work begun_with first_to_go some_unnamed until_introduced without_s
    read_by_now refused_or_known patiently must_stay quiet_at tell_silence led_here stands_in counts_itself still_holds
    asks_what_was_asked bears_out follow_elsewhere hurrying is_kept_by_us keep_onnxruntime_silent says_nothing
    let_graphs_list_their_types not_the_users says_no_more says_one_of take_the_rest wish_cancelled could_have_roles
    passed_on on_home standing_of spoken
    """.split()  # noqa: SIM905 - a list of so many words is unreadable
)
"""Names of classes and functions that earlier versions had, in lower case and without an underscore before them."""

_NO_SUBJECT: Final = re.compile(r"\b(nobody|somebody|whoever|whose)\b", re.IGNORECASE)
_HIDES_SUBJECT: Final = re.compile(
    r"(_|\b)(nobody|nobodys|somebody|whoever|whose|is_told|are_told|door|home_loop)(_|\b)|Whose|Nobody"
)
_RULES_ABOUT_WORDS: Final = ("src/threadkeep/text/", "src/threadkeep/search/query.py")
"""Files whose string constants are the words of users: only their docstrings and comments are checked."""

_TO_BE_REPLACED: Final[tuple[str, ...]] = ()
"""Its sentences are not rewritten, because checkpoints as items replace it."""

_PAGES: Final = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md")
_QUOTED: Final = re.compile(r"```.*?```|`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”", re.DOTALL)


def check_module_name(path: str) -> list[Finding]:
    """Return a finding where a module of the package has a name from the old list."""
    old = OLD_MODULES & {Path(part).stem for part in Path(path).parts[2:]}
    return [Finding(path, 0, f"'{name}' is an old name; see the renames in CHANGELOG.md.") for name in sorted(old)]


def check_class_names(sources: dict[str, str]) -> list[Finding]:
    """Return every class whose name occurs twice among *sources*, a mapping from path to text."""
    places: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source, path)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append((path, node.lineno))
    return [
        Finding(path, line, f"class {name} exists {len(found)} times; one name has one meaning.")
        for name, found in sorted(places.items())
        if len(found) > 1
        for path, line in found
    ]


def check_identifiers(source: str, path: str) -> list[Finding]:
    """Return the classes and functions of a file whose name is on the old list, or speaks of rooms, doors or homes."""
    return [
        Finding(path, node.lineno, f"'{node.name}' is a private word; say what it is or does in a standard term.")
        for node in ast.walk(ast.parse(source, path))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and _is_private_word(node.name)
    ]


def check_test_names(source: str, path: str) -> list[Finding]:
    """Return the test functions and classes of a file whose name hides its subject or is a private word."""
    return [
        Finding(path, node.lineno, f"'{node.name}' hides its subject; say in standard terms what is true.")
        for node in ast.walk(ast.parse(source, path))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name.lower().startswith("test")
        and _HIDES_SUBJECT.search(node.name)
    ]


def check_sentences(source: str, path: str) -> list[Finding]:
    """Return the docstrings, comments and messages of a Python file that hide their subject."""
    if not _NO_SUBJECT.search(source):
        return []
    texts = [*_comments(source), *_strings(source, docstrings_only=path.startswith(_RULES_ABOUT_WORDS))]
    return [_finding(path, line, found) for line, text in texts for found in _found(text)]


def check_page(text: str, path: str) -> list[Finding]:
    """Return the sentences of a Markdown page that hide their subject; quotes and code are left out."""
    plain = _QUOTED.sub(lambda match: "\n" * match.group().count("\n"), text)
    return [_finding(path, number, found) for number, line in enumerate(plain.split("\n"), 1) for found in _found(line)]


def check_tree(root: Path = ROOT) -> list[Finding]:
    """Return the findings of the package and of the documents."""
    paths = {path.relative_to(root).as_posix(): path for path in python_files("src", root=root)}
    sources = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
    findings = check_class_names(sources)
    for name, source in sources.items():
        findings += [*check_module_name(name), *check_identifiers(source, name)]
        findings += () if name.startswith(_TO_BE_REPLACED) else check_sentences(source, name)
    for path in python_files("tests", root=root):
        findings += check_test_names(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix())
    for pattern in _PAGES:
        for page in sorted(root.glob(pattern)):
            findings += check_page(page.read_text(encoding="utf-8"), page.relative_to(root).as_posix())
    return findings


def _is_private_word(name: str) -> bool:
    plain = name.strip("_").lower()
    return plain in OLD_IDENTIFIERS or not {"room", "rooms", "door", "doors", "shelf"}.isdisjoint(plain.split("_"))


def _found(text: str) -> Iterator[str]:
    yield from (match.group() for match in _NO_SUBJECT.finditer(text))


def _finding(path: str, line: int, word: str) -> Finding:
    return Finding(path, line, f"'{word}' hides the subject; name the owner, the caller, the worker or the process.")


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _strings(source: str, *, docstrings_only: bool) -> Iterator[tuple[int, str]]:
    """Yield docstrings, strings that stand alone after an assignment, and other strings of several words."""
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) in alone or (not docstrings_only and " " in node.value):
            yield node.lineno, node.value


if __name__ == "__main__":
    sys.exit(report(check_tree()))
