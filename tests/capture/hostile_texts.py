"""The compiled patterns of the package, and texts that make a backtracking engine work hard on one of them.

A text is a part of what a pattern repeats, over and over, with an end that does not match.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from re import _constants as op  # type: ignore[attr-defined]  # the only parser of such patterns
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import threadkeep

COMMON = [
    *" \n\t.a1_-,:;!?\"'“„«「(<[{@#|\\/é我，。\x00\u200b",
    *(
        "a ",
        "A ",
        "I ",
        "my ",
        "a1",
        "aB1",
        ". ",
        "! ",
        ": ",
        "a:",
        "\n\n",
        " \n",
        "\n ",
        "---\n",
        "```",
        "\n```\n",
        "<a ",
        "</a>",
    ),
    *(
        "a'",
        "a-",
        "a.",
        "1.",
        "1 ",
        "a@b.",
        "a://b:",
        "A, ",
        "the ",
        "I am ",
        "read ",
        "this is ",
        "> ",
        '"a" ',
        "…",
        "ﬃ",
    ),
]
"""Parts of texts that are hard for many patterns."""

_OPTIONAL = {"adapters", "faiss", "pinecone", "procrastinate", "langmem"}


def modules(*, every: bool = False) -> Iterator[Any]:
    """Yield the modules of the package that compile patterns and can be imported here, without the helpers for tests.

    *every*: also those that do not name ``re.compile``; together they import the packages of every provider.
    """
    packages: list[tuple[str, Iterable[str]]] = [("threadkeep.", threadkeep.__path__)]
    for prefix, path in packages:
        for found in pkgutil.iter_modules(path, prefix):
            if found.name == "threadkeep.testing":  # pytest rewrites its suites, so they must not be imported here
                continue
            spec = found.module_finder.find_spec(found.name, None)
            assert spec is not None
            assert spec.origin is not None
            if found.ispkg:
                packages.append((f"{found.name}.", spec.submodule_search_locations or ()))
            if not every and b"re.compile" not in Path(spec.origin).read_bytes():
                continue
            try:
                module = importlib.import_module(found.name)
            except ImportError:
                assert set(found.name.split(".")) & _OPTIONAL, found.name
                continue
            yield module


def compiled_patterns(*, every: bool = False) -> dict[str, re.Pattern[str]]:
    """Return the compiled patterns in the modules of the package, by the name of the variable that holds them.

    *every*: import every module to find them.
    """
    found: dict[str, re.Pattern[str]] = {}
    seen: set[re.Pattern[str]] = set()

    def visit(name: str, value: object) -> None:
        if isinstance(value, re.Pattern) and isinstance(value.pattern, str) and value not in seen:
            seen.add(value)
            found[name] = value
        elif isinstance(value, dict):
            visit(name, tuple(value.values()))
        elif isinstance(value, tuple | list):
            for place, each in enumerate(value):
                visit(f"{name}[{place}]", each)

    for module in modules(every=every):
        for name, value in vars(module).items():
            visit(f"{module.__name__}.{name}", value)
    return found


def hostile_parts(pattern: re.Pattern[str], *, most: int) -> list[tuple[str, str]]:
    """Return pairs of a beginning and a part to repeat after it, made of what *pattern* repeats."""
    maker = _Maker(random.Random(pattern.pattern.encode("utf-8", "surrogatepass")))
    found: dict[tuple[str, str], None] = {}
    maker.collect(list(_parser.parse(pattern.pattern, pattern.flags)), "", found)
    pairs = list(found)
    maker.random.shuffle(pairs)
    return pairs[:most]


def repeated(beginning: str, part: str, length: int) -> str:
    """Return *beginning* and *part* over and over, *length* characters, with an end that nothing matches."""
    return (beginning + part * (length // len(part) + 1))[:length] + "\x01"


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.random = rng

    def collect(self, items: Sequence[Any], before: str, found: dict[tuple[str, str], None]) -> None:
        for place, (code, value) in enumerate(items):
            lead = before + self.text(items[:place])
            if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
                repeat = value[2]
                for part in (self.text(repeat), self.text(repeat) + self.text(items[place + 1 : place + 3])):
                    if part:
                        found |= {(lead, part): None, ("", part): None, ("", lead + part): None}
                self.collect(repeat, lead, found)
            elif code is op.SUBPATTERN:
                self.collect(value[-1], lead, found)
            elif code is op.ATOMIC_GROUP:
                self.collect(value, lead, found)
            elif code in (op.ASSERT, op.ASSERT_NOT):
                self.collect(value[1], lead, found)
            elif code is op.BRANCH:
                for branch in value[1]:
                    self.collect(branch, lead, found)

    def text(self, items: Sequence[Any]) -> str:
        return "".join(self._one(code, value) for code, value in items)

    def _one(self, code: Any, value: Any) -> str:  # noqa: PLR0911 - one for each kind of node
        if code is op.LITERAL:
            return chr(value)
        if code is op.IN:
            return self._member(value)
        if code in (op.ANY, op.NOT_LITERAL):
            return "a" if value != ord("a") else "b"
        if code is op.BRANCH:
            return self.text(self.random.choice(value[1]))
        if code is op.SUBPATTERN:
            return self.text(value[-1])
        if code is op.ATOMIC_GROUP:
            return self.text(value)
        if code is op.GROUPREF_EXISTS:
            return self.text(value[1])
        if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            least, most, repeat = value
            times = max(least, min(most, self.random.choice((least, 1, 3))))
            return "".join(self.text(repeat) for _ in range(min(times, 8)))
        return ""

    def _member(self, members: Sequence[Any]) -> str:
        if members[0][0] is op.NEGATE:
            return next((c for c in 'a 0A"-.xé' if not any(_is_in(c, code, value) for code, value in members[1:])), "q")
        code, value = self.random.choice(list(members))
        if code is op.RANGE:
            return chr(self.random.randint(*value))
        return chr(value) if code is op.LITERAL else _OF_CATEGORY.get(value, "a")


_OF_CATEGORY = {op.CATEGORY_SPACE: " ", op.CATEGORY_DIGIT: "1", op.CATEGORY_WORD: "a", op.CATEGORY_NOT_WORD: "-"}
_IS_IN_CATEGORY = {
    op.CATEGORY_SPACE: str.isspace,
    op.CATEGORY_DIGIT: str.isdigit,
    op.CATEGORY_WORD: lambda c: c.isalnum() or c == "_",
    op.CATEGORY_NOT_WORD: lambda c: not (c.isalnum() or c == "_"),
}


def _is_in(character: str, code: Any, value: Any) -> bool:
    if code is op.LITERAL:
        return ord(character) == value
    if code is op.RANGE:
        return value[0] <= ord(character) <= value[1]
    return value in _IS_IN_CATEGORY and _IS_IN_CATEGORY[value](character)
