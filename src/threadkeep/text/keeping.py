"""How likely it is that a sentence of the user says something that is worth keeping.

Words and the pattern of a sentence are weighed by a logistic regression, in six languages. Its weights were learnt from
sentences that people labelled; ``python -m threadkeep_evals.keeping_fit`` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Final
from zlib import crc32

from threadkeep.text.semantics import straight, words
from threadkeep.text.tokenizing import FUNCTION_WORDS, STOP_WORDS, tokenise

BUCKETS: Final = 1 << 16
"""Features share so many weights; a collision of two is rare and does little."""
SCALE: Final = 32.0
"""Weights are stored as whole numbers of 1/32, from -4 to 4."""
FILE: Final = "keeping.weights"
"""One byte for each bucket, beside this module."""
BIAS: Final = "bias"
"""The feature that every sentence has."""

_TOKEN: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+(?:[.,:/]\d+)*|[^\w\s]")
_LANGUAGES: Final = ("english", "french", "german", "italian", "portuguese", "spanish")
_OTHER_FUNCTION_WORDS: Final = words(
    """
    already always another around back even every first last later less many much near never next none now one onto
    quite really since soon still till two three unless via within without yet today tomorrow tonight yesterday day
    evening month morning time week year get gets getting goes going gonna got let need needs want wants hello hey hi
    ok okay thank thanks yeah aren't can't didn't doesn't don't hasn't haven't isn't wasn't weren't won't i'd i'll i'm
    i've it's let's that's there's we'll we're we've
    """
)
_FUNCTION: Final = STOP_WORDS.union(_OTHER_FUNCTION_WORDS, *(FUNCTION_WORDS[language] for language in _LANGUAGES))
_ENDINGS: Final = ("ing", "ed", "ly", "s")
_LEVELS: Final = (1.0, 2.0, 2.5)
_LONGEST: Final = 3
"""Patterns are of so many words at most."""
_BEGINNING: Final = 4
_WORDS_A_LENGTH: Final = 4
_LENGTHS: Final = 6


def log_odds(sentence: str, by_rules: float) -> float:
    """Return the logarithm of the odds that *sentence* is worth keeping; above 0: it rather is.

    Args:
        sentence: The sentence.
        by_rules: What :func:`threadkeep.text.facts.score_by_rules` says of it.
    """
    weights = _weights()
    return sum(weights[bucket] for bucket in buckets(sentence, by_rules)) / SCALE


def buckets(sentence: str, by_rules: float) -> set[int]:
    """Return the numbers of the weights that count for *sentence*."""
    return {crc32(feature.encode(errors="replace")) % BUCKETS for feature in features(sentence, by_rules)}


def features(sentence: str, by_rules: float) -> Iterator[str]:
    """Yield the words, pairs of words, stems, patterns and length of *sentence*, and what the rules say of it.

    A pattern has function words as they are, and for other words what they are: ``my w is N`` for "My boss is Ola".
    """
    said = straight(sentence).rstrip(" .…")  # many leave the full stop out
    found = _TOKEN.findall(said)
    small = ["#" if word[0].isdigit() else word.lower() for word in found]  # which number it is says nothing
    pattern = ["^", "^", *map(_class_of, found, small, range(len(found))), "$"]
    yield BIAS
    yield from (f"rules {level}" for level in _LEVELS if by_rules >= level)
    for length in range(1, _LONGEST + 1):
        yield from (f"{length} {part}" for part in _parts(pattern, length))
    yield f"begins {' '.join(pattern[2 : 2 + _BEGINNING])}"
    yield from (f"w {word}" for word in small)
    yield from (f"ww {pair}" for pair in _parts(["^", *small, "$"], 2))
    yield from (f"s {stem}" for stem in tokenise(said) if not stem[0].isdigit())
    yield f"length {min(len(small) // _WORDS_A_LENGTH, _LENGTHS)}"


def _parts(found: list[str], length: int) -> Iterable[str]:
    return (" ".join(found[place : place + length]) for place in range(len(found) - length + 1))


def _class_of(word: str, small: str, place: int) -> str:
    """Return *small* for function words, numbers, of which it is ``#``, and signs; else ``N`` for names, or ``w``."""
    if small in _FUNCTION or not word[0].isalpha():
        return small
    if place and word[0].isupper():
        return "N"
    return "w" + next((ending for ending in _ENDINGS if small.endswith(ending)), "")


@cache
def _weights() -> memoryview:
    """Return the weights, each from -128 to 127."""
    return memoryview(files("threadkeep.text").joinpath(FILE).read_bytes()).cast("b")
