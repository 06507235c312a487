"""The text parts of one message, joined: clients split sentences into parts, and send files as parts, too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from threadkeep.text.requests import is_question, is_request
from threadkeep.text.semantics import words
from threadkeep.text.sentences import LEADS_ON

_LONGEST_START: Final = 400
"""A longer part, or one of several lines, may be a file: no sentence continues behind it."""

_LEADS_ON: Final = LEADS_ON | words(
    """
    is are was am i'm in at to from for with by near called ist sind bin in im am bei mit von zu aus für heiße est suis
    à au en chez avec de du es soy en con por para de é sou em com no na do da è sono a di con per
    """
)
"""A part that ends with one of them is no whole sentence."""


def join_parts(parts: Iterable[str | None], *, between: str) -> str:
    """Join the text parts of a message: those of one sentence as a sentence, others with *between* them.

    A sentence continues in the next part if a comma, the last word or a blank before a small letter tell so. Another
    blank or a small letter tells so, too, unless one of the parts asks for something: then the other may be the text
    that it is about.

    Args:
        parts: In order; ``None`` stands for a part that is no text, such as an image; no sentence continues behind it.
        between: A line break, or a blank line.
    """
    joined: list[str] = []
    before: str | None = None
    for part in parts:
        if part is not None:
            if joined:
                joined.append(between if before is None else _between(before, part, between))
            joined.append(part)
        before = part
    return "".join(joined)


def _between(before: str, after: str, between: str) -> str:
    end, begin = before.rstrip(" \t"), after.lstrip(" \t")
    if not end or not begin or "\n" in end or len(end) > _LONGEST_START or begin[0] == "\n":
        return between
    if begin[0] in ",;.!?)…":
        return ""
    space = "" if end != before or begin != after else " "
    if end[-1] in ".!?…:。！？" or end.rstrip("\"'”’»)")[-1:] in ".!?…。！？":
        return between
    last = end.rpartition(" ")[2].lower().replace("’", "'")
    if end[-1] == "," or last in _LEADS_ON or (begin != after and begin[0].islower()):
        return space
    if space and not begin[0].islower():
        return between
    line = begin[:_LONGEST_START].partition("\n")[0]
    return between if any(is_request(one) or is_question(one) for one in (end, line)) else space
