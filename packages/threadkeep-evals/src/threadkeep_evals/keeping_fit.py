"""Fit the weights by which capture tells what is worth keeping: ``python -m threadkeep_evals.keeping_fit [FILE]``.

Learns from the messages of ``data/sentences_*.json``, in which each sentence has a label, and from the statements of
other banks; not from the held-out messages. Each sentence counts a second time as it is typed in haste: in lower case,
without apostrophes. Writes the weights to *FILE*, or beside the module that reads them. Prints
for each bank what a fit to the others finds in it: precision and recall at several thresholds, in percent.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from threadkeep.text import keeping
from threadkeep.text.facts import score_by_rules
from threadkeep_evals.data_banks import read_bank
from threadkeep_evals.regression import Features, Regression, encoded

if TYPE_CHECKING:
    from numpy.typing import NDArray

SENTENCES: Final = (
    "sentences_personal",
    "sentences_work",
    "sentences_second_english",
    "sentences_chatty",
    "sentences_many_users",
    "sentences_plain",
    "sentences_usual",
    "sentences_other_languages",
    "sentences_four_languages",
    "sentences_german_french",
    "sentences_spanish_portuguese",
)
HELD_OUT: Final = "sentences_held_out"
HELD_OUT_LATER: Final = "sentences_held_out_second"
STATEMENTS: Final = (
    "statements_dev",
    "statements_held_out",
    "statements_second",
    "statements_second_held_out",
    "statements_third",
    "updates_first",
    "updates_second",
    "updates_third",
)
"""Banks of statements, all worth keeping, and of unrelated requests, none of which is."""
KEEP: Final = "keep"
_PENALTY: Final = 2.0
_LEAST_SENTENCES: Final = 2
"""Features of fewer sentences have no weight."""
_APOSTROPHE: Final = re.compile(r"(?<=\w)['’](?=\w)")
_THRESHOLDS: Final = (0.0, 1.0, 1.5, 2.0, 2.5)


class Sentence(NamedTuple):
    """A sentence of a bank, and whether it is worth keeping."""

    text: str
    keep: bool
    bank: str


def read_sentences() -> list[Sentence]:
    """Read everything that is learnt from."""
    return [one for bank in SENTENCES for one in labelled(bank)] + [one for bank in STATEMENTS for one in stated(bank)]


def labelled(bank: str) -> Iterator[Sentence]:
    """Yield the sentences of the messages of *bank*."""
    for message in read_bank(bank)["messages"]:
        for text, label in message["sentences"]:
            yield Sentence(text, label == KEEP, bank)


def stated(bank: str) -> Iterator[Sentence]:
    """Yield the statements of *bank*, what stands around them, and requests."""
    data: dict[str, list[Any]] = read_bank(bank)
    for part in ("facts", "updates", "several"):
        for one in data.get(part, ()):
            told: list[str] = [one["told"]] if isinstance(one["told"], str) else one["told"]
            yield from (Sentence(text, keep=True, bank=bank) for text in told)
            yield from (Sentence(one[place], keep=False, bank=bank) for place in ("before", "after") if one.get(place))
    for one in data.get("unrelated", ()):
        yield Sentence(one if isinstance(one, str) else one["text"], keep=False, bank=bank)


def typed_in_haste(sentence: Sentence) -> Sentence:
    """Return *sentence* in lower case and without apostrophes."""
    return sentence._replace(text=_APOSTROPHE.sub("", sentence.text.lower()))


def features_of(sentences: Sequence[Sentence], *, least: int = 1) -> Features:
    """Return the features of *sentences* that at least so many of them have."""
    found = [keeping.buckets(one.text, score_by_rules(one.text)) for one in sentences]
    return Features.of(found, keeping.BUCKETS, least=least)


def fit(sentences: Sequence[Sentence]) -> NDArray[np.float64]:
    """Return the weights of a logistic regression over *sentences* and the same typed in haste."""
    hasty = [other for one in sentences if (other := typed_in_haste(one)).text != one.text]
    features = features_of([*sentences, *hasty], least=_LEAST_SENTENCES)
    labels = np.array([one.keep for one in (*sentences, *hasty)], float)
    penalty = np.full(keeping.BUCKETS, _PENALTY)
    return Regression(features.times, features.back, labels, np.ones_like(labels), penalty).fit()


def report(bank: str, odds: NDArray[np.float64], labels: NDArray[np.bool_]) -> str:
    """Return the precision and recall at each threshold, in percent."""
    shares = [
        f"{threshold:g}: {100 * labels[odds >= threshold].mean():.1f}/{100 * (odds[labels] >= threshold).mean():.1f}"
        for threshold in _THRESHOLDS
    ]
    return f"{bank:32} {'  '.join(shares)}"


def main(arguments: Sequence[str]) -> None:
    """Fit, write and print."""
    sentences = read_sentences()
    for bank in SENTENCES:
        others = fit([one for one in sentences if one.bank != bank])
        asked = [one for one in sentences if one.bank == bank]
        odds = features_of(asked).times(others)
        print(report(bank, odds, np.array([one.keep for one in asked])))  # noqa: T201 - a command
    path = Path(arguments[0]) if arguments else Path(keeping.__file__).with_name(keeping.FILE)
    path.write_bytes(encoded(fit(sentences), keeping.SCALE))


if __name__ == "__main__":
    main(sys.argv[1:])
