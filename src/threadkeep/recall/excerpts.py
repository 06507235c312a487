"""Excerpts of memories: without the sentences that name nothing, and of long ones those around the best. Pure rules."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from threadkeep.memories.codec import SUMMARIES
from threadkeep.memories.models import ASKED, SAID, Memory, sentences_in
from threadkeep.text.claims import change_in
from threadkeep.text.facts import is_filler, is_request
from threadkeep.text.tokenizing import tokenise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from threadkeep.search.query import Query

_OF_SUMMARY: Final = 240
"""A block has so many characters of a summary."""

WHOLE: Final = 400
"""An episode of no more characters is not cut.

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
    """Return *memory* as a block shows it for *query*.

    An episode is shown without what names nothing; a long one, and a summary, as the sentences around the one with most
    words of *query*.
    """
    if memory.namespace[:1] == (SUMMARIES,):
        text, whole, most = memory.text, _OF_SUMMARY, _OF_SUMMARY
    elif memory.kind == "episodic":
        text, whole, most = _without_filler(memory.text, query), WHOLE, _OF_EPISODE
    else:
        return memory
    if len(text) > whole:
        wanted = _wanted(query)
        sentences = sentences_in(text)
        text = _around(sentences, [_fit(sentence, wanted) for sentence in sentences], most)
    return memory if text == memory.text else replace(memory, text=text)


def is_unchanged(recalled: Memory, memory: Memory, *, value: str | None = None) -> bool:
    """Return whether *memory* still says what was recalled of it, maybe as an excerpt, or *value*, a part of it."""
    if value is not None:
        return " ".join(value.split()) in " ".join(memory.text.split())
    if recalled.text == memory.text:
        return True
    is_summary = memory.namespace[:1] == (SUMMARIES,)
    if not is_summary and memory.kind != "episodic":
        return False
    shown, said = sentences_in(recalled.text), " ".join(memory.text.split())
    is_cut = is_summary or len(memory.text) > WHOLE
    is_whole = is_cut or {one for one, tells in _sentences(memory.text) if tells}.issubset(shown)
    return is_whole and all(" ".join(sentence.split()) in said for sentence in shown)


@lru_cache(maxsize=4096)
def _sentences(passage: str) -> tuple[tuple[str, bool], ...]:
    """Return each sentence of *passage*, with whether it tells something."""
    sentences = sentences_in(passage)
    telling = {one for one in sentences if len(sentences) == 1 or not is_filler(one) or change_in(one)}
    return tuple((one, not telling or one in telling) for one in sentences)


@lru_cache(maxsize=4096)
def statement_in(passage: str) -> str:
    """Return what *passage* states: without requests, and what names nothing; all of it if there is nothing else."""
    return " ".join(one for one, tells in _sentences(passage) if tells and not is_request(one)) or passage


def _without_filler(passage: str, query: Query) -> str:
    """Return *passage* without the sentences that tell nothing, unless they have a word of *query*."""
    sentences = _sentences(passage)
    if all(tells for _, tells in sentences):
        return passage
    wanted = _wanted(query)
    shown = [sentence for sentence, tells in sentences if tells or _fit(sentence, wanted)]
    lead = next((lead for lead in (ASKED, SAID) if passage.startswith(lead)), "")
    return f"{lead}{' '.join(shown)}"


def _wanted(query: Query) -> set[str]:
    return {term for terms in query.terms for term in terms}


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
