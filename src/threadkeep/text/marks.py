"""Texts in marks: between fences, tags, in quotation marks or in quoted lines, and the user's words around one.

Another author may write marks, too. So those around one text count only where nothing else stands between at most one
paragraph before and one after. In any other message, what stands between the first and the last mark is left out.
"""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

BLANK_LINE: Final = re.compile(r"\n[ \t]*\n")
_FENCE: Final = "```"
_FENCE_LINE: Final = re.compile(r"[ \t]{0,8}(?:```|~~~)")
_FENCE_LINES: Final = re.compile(r"(?m)^[ \t]{0,8}(?:```|~~~).*$")
_PAIR: Final = 2
_LANGUAGE: Final = re.compile(r"`*[ \t]*[\w+#.-]{0,20}[ \t]*")
"""What may stand behind the fence that opens."""
_QUOTED_LINE: Final = re.compile(r"[ \t]{0,8}>(?!>>)")
_BEGUN: Final = re.compile(r":\s*[^\s\d/]|[\"“”„«»「」『』]")
"""A text begins before its mark: behind a colon, or in a quotation."""
_PAIRS: Final = {'"': '"', "“": "”", "„": "“”", "«": "»", "「": "」", "『": "』"}
_LETTER: Final = re.compile(
    r"""(?imx)^[ \t]{0,8}(?:(?:dear|hi|hello|hallo|liebe[rs]?|sehr\ geehrte[rs]?|guten\ tag|bonjour|chère?|cher|salut|hola|querid[oa]s?|estimad[oa]s?|olá|prezad[oa]s?|car[oaie]|ciao|gentile|buongiorno)\b[^.!?\n]{0,40}[,!:][ \t]{0,8}$
    |(?:(?:kind\ |best\ |warm\ )?regards|best(?:\ wishes)?|cheers|sincerely|yours|(?:viele|liebe|beste|schöne)\ grüße|mit\ freundlichen\ grüßen|gruß|cordialement|amicalement|(?:un\ )?saludos?|un\ abrazo|atentamente|abraços?|atenciosamente|cumprimentos|cordiali\ saluti|saluti)\b[^.!?\n]{0,40}$
    |(?:from|to|cc|subject|sent|date|fwd?|re|von|an|betreff|de|objet|asunto|assunto|oggetto):\s)"""
)
"""A line that a letter begins or ends with: then its paragraphs are the letter's."""


class Around(NamedTuple):
    """The user's words around a text in marks.

    Attributes:
        before: The paragraph before it; may be empty.
        after: The paragraph after it; may be empty.
    """

    before: str
    after: str


@lru_cache(maxsize=4)
def around_marks(text: str) -> Around | None:
    """Return the paragraphs around the one text in marks that *text* has; ``None``: it is no such message."""
    spans = [*_fences(text), *_quoted_lines(text), *_quotations(text)]
    if len(spans) != 1:
        return None
    start, end = spans[0]
    before, after = text[:start].strip(), text[end:].strip()
    parts = (before, after)
    if not any(parts) or any(rule.search(part) for rule in (BLANK_LINE, _LETTER, _BEGUN) for part in parts):
        return None
    return Around(before, after)


def with_fences_apart(text: str) -> str:
    """Return *text* with each fence in a line of its own, also where words stand before it or behind its end."""
    if _FENCE not in text:
        return text
    lines: list[str] = []
    opened: Literal["", "line", "words"] = ""
    for line in text.split("\n"):
        if opened == "line" or _FENCE not in line:  # what a line of its own opens, such a line closes
            lines.append(line)
            if _FENCE_LINE.match(line):
                opened = "" if opened else "line"
            continue
        head, _, code = ("", "", line) if opened else line.partition(_FENCE)
        code, closes, rest = code.rpartition(_FENCE)
        if closes:
            lines += [*([] if opened else [head, _FENCE]), code.replace(_FENCE, ""), _FENCE, rest]
            opened = ""
        elif head.strip() or not _LANGUAGE.fullmatch(rest):
            lines += [head, _FENCE, rest]
            opened = "words"
        else:
            lines.append(line)
            opened = "line"
    return "\n".join(lines)


def _fences(text: str) -> Iterator[tuple[int, int]]:
    """Yield where fenced text begins and ends; a second place where there are not two fences."""
    fences = list(_FENCE_LINES.finditer(text))
    if fences:
        yield fences[0].start(), fences[-1].end()
    if len(fences) not in (0, _PAIR):
        yield 0, 0


def _quoted_lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield the runs of lines that begin with ``>`` and have a blank line in front."""
    if ">" not in text:
        return
    start: int | None = None
    place, end, before = 0, 0, ""
    for line in text.split("\n"):
        if _QUOTED_LINE.match(line):
            if start is None:
                start = place
                if before.strip():  # a mail program names the author there, and the mail continues below
                    yield 0, 0
            end = place + len(line)
        elif line.strip() and start is not None:
            yield start, end
            if before.strip():  # the text continues without the mark
                yield 0, 0
            start = None
        before = line
        place += len(line) + 1
    if start is not None:
        yield start, end


def _quotations(text: str) -> Iterator[tuple[int, int]]:
    """Yield the one quotation that begins and ends a paragraph, if the message has no other mark of its kind."""
    for opening, closings in _PAIRS.items():
        if opening not in text:
            continue
        begins = [at for at, character in enumerate(text) if character == opening]
        ends = [at for at, character in enumerate(text) if character in closings and at > begins[0]]
        alone = begins[0] == 0 or text[: begins[0]].rstrip(" \t").endswith("\n")
        last = alone and bool(ends) and not text[ends[-1] + 1 :].split("\n", 1)[0].strip(" \t.!")
        pairs = (2, 1) if opening in closings else (1, 1)
        if last and (len(begins), len(ends)) == pairs:
            yield begins[0], ends[0] + 1
        elif alone:
            yield 0, 0


_OPENING_TAG: Final = re.compile(r"(?m)^[ \t]*<([A-Za-z][\w-]{0,40})(?:\s[^>\n]{0,200})?>")
_CLOSING_TAG: Final = re.compile(r"(?m)</([A-Za-z][\w-]{0,40})>[ \t]*$")


def untagged(text: str) -> str:
    """Return *text* without what stands between a tag that begins a line and one of its name that ends a line."""
    kept: list[str] = []
    start = 0
    closing = {found[1]: found.end() for found in _CLOSING_TAG.finditer(text)}
    for opening in _OPENING_TAG.finditer(text):
        end = closing.get(opening[1], 0)
        if opening.start() >= start and end > opening.end():
            kept += [text[start : opening.start()], "\n\n"]
            start = end
    return "".join([*kept, text[start:]])


QUOTATION: Final = '"…"'
"""What stands for a quotation that was left out."""

_CLOSING_QUOTES: Final = {'"': '"', "“": "”", "„": "“”", "«": "»", "‹": "›", "「": "」", "『": "』", "'": "’"}
_LONGEST_QUOTATION: Final = 4_000
"""In characters; of a quotation inside a text. What is longer is left to the rules on paragraphs."""
QUOTES: Final = re.compile(r"[\"“”„«»「」『』]")
_BEGINS_ALONE: Final = re.compile(r"(?m)(?:^|(?<=[?:.!]))[ \t]*+(?P<quote>[\"“„«‹「『])")
_ENDS_ALONE: Final = re.compile(r"(?m)(?P<quote>[\"“”»›」』])[ \t]*+(?:[.!?][ \t]*+)?$")
"""Where a quotation that stands alone begins and ends. The two are paired in one pass: a pattern for the whole reads to
the end of the text at every beginning."""
_SINGLE_OPENS: Final = re.compile(r"(?<![\w'’])['‘](?=[^\W\d_])(?!(?i:em|til|cause|tis|twas|n)\b)")
_SINGLE_CLOSES: Final = re.compile(r"(?<=[\w.!?,…])['’](?!\w)")
"""Single quotation marks: an apostrophe stands inside a word, or behind one that nothing opened."""
_WORD: Final = re.compile(r"\w[\w'’-]*")
_CAPITALISED: Final = re.compile(r"[A-Z][a-z'’-]*|[A-Z]+|\d{1,4}")
_SHORT_WORDS: Final = 4
"""At most so many words in quotation marks inside a sentence are a title, not a quotation."""
_TITLE_WORDS: Final = 10


def without_lone_quotations(text: str) -> str:
    """Return *text* without what stands from a quotation mark at a beginning to the last one at the end of a line."""
    last: dict[str, re.Match[str]] = {found["quote"]: found for found in _ENDS_ALONE.finditer(text)}
    kept: list[str] = []
    start = 0
    for begin in _BEGINS_ALONE.finditer(text):
        ends = [last[closing] for closing in _CLOSING_QUOTES[begin["quote"]] if closing in last]
        end = max(ends, key=re.Match[str].start, default=None)
        if begin.start() >= start and end is not None and end.start() >= begin.end():
            kept.append(text[start : begin.start()])
            start = end.end()
    return "".join([*kept, text[start:]])


def without_quotations(text: str) -> str:
    """Return *text* with :data:`QUOTATION` for each quotation that is neither short nor a title."""
    places: dict[str, list[int]] = {}
    for found in QUOTES.finditer(text):
        places.setdefault(found[0], []).append(found.start())
    for mark, pattern in (("'", _SINGLE_OPENS), ("’", _SINGLE_CLOSES)):
        places[mark] = [found.start() for found in pattern.finditer(text)]
    kept: list[str] = []
    start = 0
    for begin, opening in sorted(
        (place, quote) for quote in places if quote in _CLOSING_QUOTES for place in places[quote]
    ):
        if begin < start or (opening == '"' and _is_in_word(text, begin - 1)):
            continue
        end = _closing_place(places, opening, begin)
        if end is None or (opening == '"' and _is_in_word(text, end + 1)):
            continue
        quoted = text[begin : end + 1]
        mentioned = _is_short(quoted) or _is_title(quoted) or _is_signature(quoted, text[max(0, begin - _NEAR) : begin])
        kept += [text[start:begin], quoted if mentioned else QUOTATION]
        start = end + 1
    return "".join([*kept, text[start:]])


def _closing_place(places: Mapping[str, Sequence[int]], opening: str, begin: int) -> int | None:
    """Return the place of the first mark after *begin* that closes *opening*, if the quotation is not too long."""
    nearest: int | None = None
    for closing in _CLOSING_QUOTES[opening]:
        marks = places.get(closing, ())
        at = bisect_right(marks, begin)
        if at < len(marks) and (nearest is None or marks[at] < nearest):
            nearest = marks[at]
    if nearest is None or not 1 <= nearest - begin - 1 <= _LONGEST_QUOTATION:
        return None
    return nearest


def _is_in_word(text: str, place: int) -> bool:
    return 0 <= place < len(text) and (text[place].isalnum() or text[place] == "_")


def _is_short(quoted: str) -> bool:
    return len(quoted.split()) <= _SHORT_WORDS


_NEAR: Final = 80
_SIGNATURE_WORDS: Final = 8
_SIGNS: Final = re.compile(
    r"(?i)\b(?:(?:I|we)\b[^.!?\n]{0,20}\b(?:sign|close|end|finish|begin|start|open|greet)|unterschreibe|unterzeichne|signe|firmo|assino)\b[^.!?\n]{0,40}$"
)


def _is_signature(quoted: str, before: str) -> bool:
    """Whether the user tells how they sign, begin or end what they write: I close it as "Old Stan from number 9"."""
    return len(_WORD.findall(quoted)) <= _SIGNATURE_WORDS and _SIGNS.search(before) is not None


def _is_title(quoted: str) -> bool:
    """Whether it is a work's title in quotation marks, by its capitals: "The Lord of the Rings"."""
    said = _WORD.findall(quoted)
    weighty = [word for word in said if len(word) >= _SHORT_WORDS]
    return len(said) <= _TITLE_WORDS and all(_CAPITALISED.fullmatch(word) for word in weighty or said)
