"""Excerpts of long memories: the sentences around the one that fits the question best. Pure rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from threadkeep.memories.codec import SUMMARIES
from threadkeep.memories.models import Memory, sentences_in
from threadkeep.text.tokenizing import tokenise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from threadkeep.search.query import Query

_OF_SUMMARY: Final = 240
"""A block has so many characters of a summary."""

WHOLE: Final = 400
"""An episode of no more characters is shown whole.

Source:
    LoCoMo's development half: cutting turns of 160 characters shows more turns, and 8 points less of the answers.
"""
_OF_EPISODE: Final = 300
"""A block has so many characters of a longer one.

Source:
    BEAM's development half, of which half of the messages do not fit into a block: 53 % of the evidence instead of 30,
    and 60 % of the answers' words instead of 51, on three of the chats.
"""


def excerpt(memory: Memory, query: Query) -> Memory:
    """Return *memory*, or of a long summary or episode the sentences around the one with most words of *query*."""
    if memory.namespace[:1] == (SUMMARIES,):
        whole = most = _OF_SUMMARY
    elif memory.kind == "episodic":
        whole, most = WHOLE, _OF_EPISODE
    else:
        return memory
    if len(memory.text) <= whole:
        return memory
    wanted = {term for terms in query.terms for term in terms}
    sentences = sentences_in(memory.text)
    return replace(memory, text=_around(sentences, [_fit(sentence, wanted) for sentence in sentences], most))


def is_unchanged(recalled: Memory, memory: Memory) -> bool:
    """Return whether *memory* still says what was recalled of it, maybe as an excerpt."""
    if recalled.text == memory.text:
        return True
    is_cut = memory.namespace[:1] == (SUMMARIES,) or (memory.kind == "episodic" and len(memory.text) > WHOLE)
    return is_cut and " ".join(recalled.text.split()) in " ".join(memory.text.split())


def _fit(sentence: str, wanted: set[str]) -> int:
    return len(wanted.intersection(tokenise(sentence)))


def _around(sentences: Sequence[str], fits: Sequence[int], most: int) -> str:
    """Return the sentence that fits best with its neighbours, of which the one that fits better is added first."""
    first = last = max(range(len(sentences)), key=fits.__getitem__)
    length = len(sentences[first])
    while True:
        beside = [
            (fits[place], place)
            for place in (first - 1, last + 1)
            if 0 <= place < len(sentences) and length + 1 + len(sentences[place]) <= most
        ]
        if not beside:
            return _cut(" ".join(sentences[first : last + 1]), most)
        _, place = max(beside)
        length += 1 + len(sentences[place])
        first, last = min(first, place), max(last, place)


def _cut(text: str, most: int) -> str:
    """Return the words of *text* that fit, of a single sentence that is too long."""
    return text if len(text) <= most else text[: text.rfind(" ", 1, most) + 1 or most].rstrip()
