"""A summary made of the sentences that say most."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_WORDS: Final = re.compile(r"\w+")
_SHORTEST_WORD: Final = 4
"""Shorter words are mostly grammar; with them the most common sentences would win, not the most telling."""
_MOST_SENTENCES: Final = 4_000
"""Older sentences than so many are not weighed."""

_LONGEST_SENTENCE: Final = 400
"""In characters; what is longer is a paste, and is cut."""


@dataclass(frozen=True, slots=True)
class SpokenMessage:
    """A message as a summary sees it: who speaks, as the summary shall call them, and the text."""

    who: str
    text: str


def extractive_summary(
    said: Sequence[SpokenMessage], *, budget_tokens: int, count: Callable[[str], int], before: str = ""
) -> str:
    """Choose the sentences that together say most, in the order they were said, one a line.

    Sentences are taken one after another: each time the one with the most frequent words in the
    text, after which its words count less, so that what was said already does not win again.

    Args:
        said: The messages, oldest first.
        budget_tokens: Upper bound of the summary.
        count: Tells the tokens of a text.
        before: The summary that this one replaces; its lines are weighed like the rest.

    Returns:
        The summary; empty where nothing was said.

    Source:
        SumBasic: Nenkova & Vanderwende, The Impact of Frequency on Summarization, 2005.
    """
    lines = list(dict.fromkeys([*_lines(before), *_sentences(said)]))[-_MOST_SENTENCES:]
    words = [_content_words(line) for line in lines]
    counted = Counter(word for sentence in words for word in sentence)
    total = counted.total() or 1
    weight = {word: times / total for word, times in counted.items()}

    def telling(i: int) -> float:
        return sum(weight[word] for word in words[i]) / len(words[i])

    # Weights only fall, so a sentence that is still the best when weighed anew is the best of all.
    waiting = [(-telling(i), -i) for i in range(len(lines)) if words[i]]
    heapq.heapify(waiting)
    chosen: list[int] = []
    room = budget_tokens
    while waiting and room > 0:
        _, place = heapq.heappop(waiting)
        now = (-telling(-place), place)
        if waiting and now > waiting[0]:
            heapq.heappush(waiting, now)
            continue
        tokens = count(lines[-place]) + 1  # its line break
        if tokens <= room:
            room -= tokens
            chosen.append(-place)
            weight.update({word: weight[word] ** 2 for word in words[-place]})
    return "\n".join(lines[i] for i in sorted(chosen))


def cut_to(text: str, *, budget_tokens: int, count: Callable[[str], int]) -> str:
    """Return the first lines and sentences of *text* that fit, whole."""
    kept: list[str] = []
    room = budget_tokens
    for line in _lines(text):
        room -= count(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join(kept)


def _sentences(said: Iterable[SpokenMessage]) -> list[str]:
    return [
        f"{message.who}: {sentence[:_LONGEST_SENTENCE]}"
        for message in said
        for part in _SENTENCE_ENDS.split(message.text)
        if (sentence := " ".join(part.split()))
    ]


def _lines(text: str) -> list[str]:
    return [line for part in text.splitlines() if (line := part.strip())]


def _content_words(line: str) -> list[str]:
    return [word for word in _WORDS.findall(line.partition(": ")[2].casefold()) if len(word) >= _SHORTEST_WORD]
