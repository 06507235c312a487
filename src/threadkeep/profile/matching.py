"""Which slots of a profile a statement fills, and which a request needs. Pure rules over examples and words.

A text is compared with the examples of every slot and with texts that belong to none. What decides is how far the
nearest example of a slot is ahead of the nearest text of none, in standard deviations, so the same thresholds serve
every embedder. A word of the slot adds to that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from threadkeep.profile.defaults import OTHER_FACTS, OTHER_REQUESTS
from threadkeep.profile.requests import acts_for_user, speaks_of_user
from threadkeep.text.semantics import straight
from threadkeep.text.tokenizing import language_of, plain_words, tokenise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.profile.schema import ProfileSlot

OF_A_WORD: Final = 1.5
"""What a word of the slot adds, in standard deviations."""
_OF_A_WORD_ALONE: Final = 10.0
"""The same where vectors say nothing: without an embedder, and of a text that is not in the examples' language."""
_OF_SHARED: Final = 0.6
"""There, a text with so large a share of the words of an example is as near as one with a word of the slot."""

FILLS: Final = 1.5
"""From so far ahead on, a statement fills a slot.

Source:
    The development half of ``threadkeep eval profile``: of 30 facts the slot that is meant has 1.5 or more for 29, and
    of 16 statements of no slot none has 1.0, except one about a relative.
"""
FILLS_ONE: Final = 2.5
"""The same of a slot with a single value, where the newest statement hides the others."""
NEEDS: Final = 1.9
"""From so far ahead on, a request needs a slot. Source: as above; 27 of 30, and no request about the world."""
NEEDS_TOO: Final = 1.2
"""The same once it needs any."""
_BEHIND_REQUEST: Final = 3.0
_BEHIND_FACT: Final = 1.5
"""What is so much behind the best slot is not meant, in standard deviations."""


@dataclass(frozen=True, slots=True)
class ExampleVectors:
    """The vectors of the examples, unit length, shapes ``(facts, dims)`` and ``(requests, dims)``."""

    facts: NDArray[np.float32]
    requests: NDArray[np.float32]


class SlotExamples:
    """The examples of one kind, statements or requests, and the slot of each.

    Args:
        slots: For each slot its name, its examples and its words.
        other: Texts of no slot.
    """

    def __init__(self, slots: Sequence[tuple[str, Sequence[str], Sequence[str]]], other: Sequence[str]) -> None:
        self.texts = tuple(text for _, texts, _ in slots for text in texts) + tuple(other)
        self._names = [name for name, texts, _ in slots for _ in texts] + [None] * len(other)
        self._words = [(name, _pattern(words)) for name, _, words in slots]

    @cached_property
    def _terms(self) -> list[frozenset[str]]:
        return [frozenset(tokenise(text)) for text in self.texts]

    def fits(self, text: str, cosines: NDArray[np.float32] | None) -> Mapping[str, float]:
        """Return how well *text* fits each slot, in standard deviations ahead of the nearest text of no slot.

        Args:
            text: What is compared.
            cosines: Its cosines with :attr:`texts`, shape ``(n,)``; ``None``: words alone are compared.
        """
        said = straight(text).casefold()
        if cosines is None or language_of(plain_words(said)) != "english":
            return self._fits_by_words(text, said)
        spread = float(cosines.std()) or 1.0
        best: dict[str | None, float] = {}
        for name, one in zip(self._names, cosines.tolist(), strict=True):
            best[name] = max(best.get(name, -1.0), one)
        other = best.pop(None, 0.0)
        fits = {name: (one - other) / spread for name, one in best.items() if name is not None}
        for name in self._with_word(said):
            fits[name] = fits.get(name, 0.0) + OF_A_WORD
        return fits

    def _fits_by_words(self, text: str, said: str) -> dict[str, float]:
        fits: dict[str, float] = dict.fromkeys(self._with_word(said), _OF_A_WORD_ALONE)
        terms = frozenset(tokenise(text))
        near = [(_share(terms, one), name) for one, name in zip(self._terms, self._names, strict=True)]
        share, nearest = max(near, key=lambda one: one[0])
        if nearest is not None and share >= _OF_SHARED:
            fits[nearest] = _OF_A_WORD_ALONE
        return fits

    def _with_word(self, said: str) -> list[str]:
        """Return the slots of which the folded text *said* has a word."""
        return [name for name, words in self._words if words is not None and words.search(said)]


def _share(terms: frozenset[str], others: frozenset[str]) -> float:
    """Return the share of terms that two texts have in common, in [0, 1]."""
    return len(terms & others) / (len(terms) * len(others)) ** 0.5 if terms and others else 0.0


def _pattern(words: Sequence[str]) -> re.Pattern[str] | None:
    if not words:
        return None
    alternatives = "|".join(
        re.escape(word.rstrip("*").casefold()) + (r"\w*" if word.endswith("*") else "") for word in words
    )
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)")


class ProfileMatcher:
    """Compares statements and requests with the slots of a schema.

    Attributes:
        slots: The slots by their names, in the order of the schema.
        facts: The examples of statements.
        requests: The examples of requests.
        vectors: Of both; ``None``: words alone are compared.
    """

    def __init__(self, slots: Sequence[ProfileSlot]) -> None:
        self.slots = {slot.name: slot for slot in slots}
        self.facts = SlotExamples([(slot.name, slot.facts, slot.words) for slot in slots], OTHER_FACTS)
        self.requests = SlotExamples([(slot.name, slot.requests, slot.asked) for slot in slots], OTHER_REQUESTS)
        self.vectors: ExampleVectors | None = None

    def needed(self, request: str, vector: NDArray[np.float32] | None) -> dict[str, float]:
        """Return the slots that *request* needs, the most needed first, with how well each fits."""
        if not acts_for_user(request):
            return {}
        fits = self.requests.fits(request, self._cosines("requests", vector))
        best = max(fits.values(), default=0.0)
        if best < NEEDS:
            return {}
        least = max(NEEDS_TOO, best - _BEHIND_REQUEST)
        return {name: fit for name, fit in sorted(fits.items(), key=_by_fit) if fit >= least}

    def filled(self, statement: str, vector: NDArray[np.float32] | None) -> dict[str, float]:
        """Return the slots that *statement* fills, best first, with how well it fits each; at most two."""
        named = _NAMED.match(statement)
        if named is not None and named["slot"].casefold() in self.slots:
            return {named["slot"].casefold(): _EXPLICIT}
        fits = self.facts.fits(statement, self._cosines("facts", vector))
        best = sorted(fits.items(), key=_by_fit)[:_MOST_FILLED]
        least = best[0][1] - _BEHIND_FACT if best else 0.0
        return {
            name: fit
            for name, fit in best
            if fit >= least
            and fit >= (FILLS_ONE if self.slots[name].single else FILLS)
            and speaks_of_user(statement, relatives=self.slots[name].relatives)
        }

    def value(self, statement: str, slot: str) -> str:
        """Return *statement* without the name of *slot* in front, where it was set by that."""
        named = _NAMED.match(statement)
        return named["text"] if named is not None and named["slot"].casefold() == slot else statement

    def _cosines(
        self, kind: Literal["facts", "requests"], vector: NDArray[np.float32] | None
    ) -> NDArray[np.float32] | None:
        if self.vectors is None or vector is None:
            return None
        examples: NDArray[np.float32] = getattr(self.vectors, kind)
        return examples @ vector if examples.shape[1] == len(vector) and vector.any() else None


_NAMED: Final = re.compile(r"(?i)^(?P<slot>[a-z][a-z0-9_]{0,31}): +(?P<text>\S.*)$", re.DOTALL)
"""``diet: no nuts`` fills a slot by its name, whatever it says."""
_EXPLICIT: Final = 100.0
_MOST_FILLED: Final = 2


def _by_fit(item: tuple[str, float]) -> float:
    return -item[1]
