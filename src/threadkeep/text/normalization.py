"""When two statements say the same: by their words, in order, with nothing that changes the meaning left out."""

from __future__ import annotations

import re
import unicodedata
from typing import Final


def words(text: str) -> frozenset[str]:
    """Return the words of *text*, for flat lists in source code."""
    return frozenset(text.split())


_TOKEN: Final = re.compile(r"\w+(?:[.,:]\d+)*|[^\w\s.,;:!?…'\"()\-–—]")
_QUOTES: Final = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "´": "'", "`": "'"})
_CONTRACTIONS: Final = (
    (re.compile(r"\bcan't\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\bcannot\b"), "can not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"\bi'm\b"), "i am"),
    (re.compile(r"'re\b"), " are"),
    (re.compile(r"'ve\b"), " have"),
    (re.compile(r"'ll\b"), " will"),
    (re.compile(r"\b(i|you|he|she|it|we|they)'d\b"), r"\1 would"),
    (re.compile(r"\b(it|that|there|what|he|she|who)'s\b"), r"\1 is"),
)
# Without these a statement still says the same; pronouns, negations and prepositions are not among them.
_FILLERS: Final = words(
    """
    a an the really very just actually so please now currently btw well oh quite simply basically honestly also
    """
)


def same_words(text: str) -> str:
    """Return *text* as it is compared: case, width, white space and a final stop do not matter."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(".!")


def plain(text: str) -> str:
    """Return *text* with white space runs as single spaces, and without them at the ends."""
    return " ".join(text.split())


def straight(text: str) -> str:
    """Return *text* in normal form, with typographic quotes as plain ones."""
    return unicodedata.normalize("NFKC", text).translate(_QUOTES)


def normalised(text: str) -> str:
    """Return *text* as it is compared for being the very same statement."""
    return same_words(straight(text))


def content_words(text: str) -> tuple[str, ...]:
    """Return the words of *text* that carry its meaning, in order: what is left without fillers.

    Names, numbers, negations and pronouns stay, so ``moved to Berlin`` and ``moved to Bern``, or
    ``likes`` and ``doesn't like``, never have the same content words. Nor have ``Ana manages Bob``
    and ``Bob manages Ana``.
    """
    said = straight(text).casefold()
    if "'" in said or "cannot" in said:
        for pattern, replacement in _CONTRACTIONS:
            said = pattern.sub(replacement, said)
    tokens: list[str] = _TOKEN.findall(said)
    words = tuple(token for token in tokens if token not in _FILLERS)
    return words or tuple(tokens)
