"""Which texts of an item are searchable, and which terms a text is found by."""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, cast

import Stemmer

MAX_TERMED_CHARACTERS: Final = 200_000
"""What comes after so many characters of a text is not found by its words; keeps 1 MB of text to some 50 ms."""

_WORD_CHARACTERS: Final = 64
"""Of a longer run of letters (base64, a digest) only the beginning counts, so that no term grows without bound."""

_REMEMBERED_WORDS: Final = 65_536
_FOLDED_AT_ONCE: Final = 16_384  # one character can become eighteen

STOP_WORDS: Final = frozenset(
    """
    a an the this that these those
    i me my mine myself we us our ours ourselves you your yours yourself yourselves
    he him his himself she her hers herself it its itself they them their theirs themselves
    who whom whose which what when where why how
    am is are was were be been being do does did doing done have has had having
    can could will would shall should may might must
    and or but nor if then else than so because while until although though
    of at by for with about against between into through during before after above below
    to from up down in out on off over under again further once
    here there all any both each few more most other some such no not only own same too very just also
    as ever yes please
    s t d m ll re ve don doesn didn isn aren wasn weren hasn haven hadn won wouldn couldn shouldn
    """.split()  # noqa: SIM905 - a table of words reads better than a list of quoted ones
)
"""Words that say nothing about what a text is about; a question's own words among them."""

# Scripts that are written without spaces between words: they are found by single characters and pairs.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Marks that stand inside words but are no letters to ``\w``: accents, Hebrew and Arabic points, Indic vowels.
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963\u0966-\u0dff"
)
_ASCII_FOLD: Final = bytes(code if chr(code).isalnum() and code < 0x80 else 0x20 for code in bytes(range(256)).lower())  # noqa: PLR2004
_WORDS: Final = re.compile(rf"[{_UNSPACED}]+|(?:[^\W_{_UNSPACED}]|[{_MARKS}])+")
_IS_UNSPACED: Final = re.compile(rf"[{_UNSPACED}]")

_stem = cast("Callable[[str], str]", Stemmer.Stemmer("english", 0).stemWord)  # pyright: ignore[reportUnknownMemberType]
_stemming: Final = threading.Lock()


def tokenise(text: str) -> list[str]:
    """Return the terms of *text* in order: folded, without stop words, English stems; for documents and queries alike.

    Scripts without spaces between words give single characters and pairs of neighbours. Any text is
    taken; what is no letter or digit (NUL and lone surrogates included) only separates. At most
    200,000 characters are looked at.

    Source:
        On LoCoMo, stemming and stop words are worth 12 points of recall@10 to BM25.
    """
    text = text[:MAX_TERMED_CHARACTERS]
    if text.isascii():
        words = text.encode("ascii").translate(_ASCII_FOLD).decode("ascii").split()  # twice as fast as a pattern
        return list(filter(None, map(_term_of, words)))
    terms: list[str] = []
    for word in cast("list[str]", _WORDS.findall(_folded(text))):
        if not _IS_UNSPACED.match(word):
            if term := _term_of(word):
                terms.append(term)
            continue
        terms.extend(word)
        terms.extend(map("".join, pairwise(word)))
    return terms


def _folded(text: str) -> str:
    """Return *text* without differences of case and of compatible spelling, cut where it has grown too long."""
    parts: list[str] = []
    room = MAX_TERMED_CHARACTERS
    for start in range(0, len(text), _FOLDED_AT_ONCE):
        part = unicodedata.normalize("NFKC", text[start : start + _FOLDED_AT_ONCE])
        parts.append(unicodedata.normalize("NFKC", part.casefold())[:room])
        room -= len(parts[-1])
        if not room:
            break
    return "".join(parts)


class _Terms(dict[str, str]):
    """The term of each word that was met lately; nothing for a stop word."""

    def __missing__(self, word: str) -> str:
        if len(word) > _WORD_CHARACTERS:
            return self[word[:_WORD_CHARACTERS]]
        with _stemming:  # a stemmer is one C object with one buffer
            term = "" if word in STOP_WORDS else _stem(word)
            if len(self) >= _REMEMBERED_WORDS:
                self.clear()
            self[word] = term
        return term


_term_of: Final = _Terms().__getitem__

TIME_TERMS: Final = frozenset(
    [
        *tokenise(
            """
            yesterday today tonight tomorrow last next ago week weekend month year day date
            morning evening night recently since soon anniversary birthday
            summer winter spring autumn fall decade century
            monday tuesday wednesday thursday friday saturday sunday
            january february march april may june july august september october november december
            jan feb mar apr jun jul aug sep sept oct nov dec
            1st 2nd 3rd 21st 22nd 23rd 31st
            """
        ),
        *(f"{day}th" for day in range(4, 31)),
        *map(str, range(1900, 2100)),
    ]
)
"""Terms of texts that say when. Source: questions that ask when on LoCoMo gain 3 points of recall@10 by them."""


def texts_of(value: Mapping[str, Any], index: Sequence[str]) -> list[str]:
    """Return the searchable texts of an item's *value*, in the order of its *index* paths.

    The rules are those of LangGraph's ``index`` fields: ``"a.b"`` a nested field, ``"a[0]"`` and
    ``"a[-1]"`` an element, ``"a[*]"`` and ``"*"`` each element or field, ``"{a,b.c}"`` several
    fields, ``"$"`` the whole value as JSON. A number or truth value is its text, a list or object
    its JSON; what is not there, or is null, gives nothing. The same value and paths always give the
    same list: text *i* is what row *i* of the item's embedding stands for.
    """
    texts: list[str] = []
    for path in index:
        found = value.get(path) if path != "$" else None
        if isinstance(found, str) and not _SPECIAL.search(path):
            texts.append(found)  # the common case, a plain field
        elif path in ("$", ""):
            texts.append(_json(dict(value)))
        else:
            _collect(dict(value), _steps(path), texts)
    return texts


_SPECIAL: Final = re.compile(r"[.\[\]{}*]")
_ELEMENT: Final = re.compile(r"\[\s*([+-]?[0-9]{1,9})\s*\]")


def _collect(value: object, steps: tuple[str, ...], texts: list[str]) -> None:
    """Append the texts that *steps* lead to from *value*."""
    if not steps:
        if value is not None:
            texts.append(_json(cast("object", value)) if isinstance(value, list | dict) else str(value))
        return
    step, rest = steps[0], steps[1:]
    if step.startswith("{") and step.endswith("}"):
        if isinstance(value, dict):
            for field in step[1:-1].split(","):
                if inner := _steps(field.strip()):
                    # Between braces LangGraph takes field names only.
                    _collect(_field(cast("dict[str, object]", value), inner), (), texts)
        return
    for child in _children(value, step):
        _collect(child, rest, texts)


def _children(value: object, step: str) -> Sequence[object]:
    """Return what one step leads to: nothing, one child, or all of them."""
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        if step == "*":
            return list(fields.values())
        return (fields[step],) if step in fields and not step.startswith("[") else ()
    if isinstance(value, list):
        elements = cast("list[object]", value)
        if step in ("*", "[*]"):
            return elements
        if place := _ELEMENT.fullmatch(step):
            return elements[int(place[1]) :][:1] if -len(elements) <= int(place[1]) < len(elements) else ()
    return ()


def _field(value: object, names: tuple[str, ...]) -> object:
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return None
        value = cast("dict[str, object]", value)[name]
    return value


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[str, ...]:
    """Split a path into names, ``[…]`` and ``{…}``; a bracket that is never closed runs to the end."""
    steps: list[str] = []
    name = ""
    place = 0
    while place < len(path):
        character = path[place]
        if character in "[{":
            end = _closing(path, place)
            steps += [name] if name else []
            steps.append(path[place:end])
            name, place = "", end
            continue
        if character == ".":
            steps += [name] if name else []
            name = ""
        else:
            name += character
        place += 1
    return tuple([*steps, name] if name else steps)


def _closing(path: str, start: int) -> int:
    """Return the place after the bracket that closes the one at *start*."""
    opening = path[start]
    closing = "]" if opening == "[" else "}"
    depth = 0
    for place in range(start, len(path)):
        depth += (path[place] == opening) - (path[place] == closing)
        if not depth:
            return place + 1
    return len(path)
