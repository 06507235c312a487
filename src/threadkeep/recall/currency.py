"""Which of the memories that a question finds are no longer so: a newer one of them says it.

Where capture is certain, it replaces a memory and keeps the old statement in its history. What it cannot tell is found
here, among the memories that are compared for a block: both are shown, the newer first and the older marked. Where the
newer one may say something else, the mark says that the older may still hold.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nlargest
from itertools import combinations, permutations
from operator import attrgetter, mul
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from threadkeep.memories.models import ASKED, SAID, Memory
from threadkeep.models.base import StatementPair
from threadkeep.recall.packing import passage_kind, statement_in
from threadkeep.search.query import asks_for_several
from threadkeep.text.ages import ages_in, is_older_now, leaves_ages
from threadkeep.text.claims import FEATURES, asks_about, both_hold, compare, elaborates, parse_claim, returns
from threadkeep.text.ended_facts import ended_object, ending_in, given_names, is_over, is_reunited
from threadkeep.text.frames import have_other_frames
from threadkeep.text.semantics import normalised

if TYPE_CHECKING:
    from datetime import datetime

    from numpy.typing import NDArray

    from threadkeep.ids import TurnId
    from threadkeep.memories.models import Source

Weigh: TypeAlias = Callable[[StatementPair], float | None]
"""Returns how much speaks for it that the newer statement makes the older one untrue; ``None``: not known yet."""

Margins: TypeAlias = dict[tuple[int, int], float]

LEAST_ALIKE: Final = 0.15
"""Statements with a smaller cosine are about different things.

Source:
    ``docs/evaluation.md``: half of the pairs that nothing outdates are less alike, and 1 to 8 % of the others.
"""


class Floors(NamedTuple):
    """From which probability on a statement is marked.

    Attributes:
        of_two: A statement of one of two turns.
        of_many: One among the statements of :data:`_MANY` turns and one, or more, of which the nearest is near by
            chance; between them by the logarithm.
    """

    of_two: float
    of_many: float


BY_WORDS: Final = Floors(0.34, 0.5)
"""Where words alone decide.

Source:
    ``docs/evaluation.md`` has the trade-off, on files that the weights have not seen.
"""

BY_MODEL: Final = Floors(0.32, 0.71)
"""Where a model reads what the words leave open. Source: ``docs/decisions/0095-a-model-reads-both-statements.md``."""

IN_DOUBT: Final = 1.4
"""A statement that lacks so much weight is marked as one that may still hold.

Source:
    ``docs/evaluation.md`` has the trade-off.
"""

WITH_ONE_MARK: Final = 0.5
"""So much less weight is enough where nothing says that a statement may still hold: a profile, and a question to the
owner.
"""

LESS_IN_A_CHAIN: Final = 2.0
"""So much less weight is enough for what the replaced statement had replaced, and for what had replaced that.

``I'm on the tram again.`` replaces ``I take the tram.``, and with it ``I've been cycling.``, which had replaced that.

Source:
    Of old values in memories of their own 4.3 % have no mark with it, 5.1 % without, unseen; no more marks elsewhere.
"""
LESS_FOR_A_RETURN: Final = 1.2
"""So much less weight is enough for what a statement says to be again so, if both are alike.

``Slack is back.`` returns to ``We are a Slack company.``, and outdates ``Everyone was moved to Teams.`` with it.

Source:
    Of 33 returns in the files of ``docs/evaluation.md`` 17 leave a value in between without a mark, 22 without the
    rule; of true statements it marks none of 9,659 in memories of one item, and 9 of 37,150 in those of four.
"""
LESS_IN_BETWEEN: Final = 2.0
"""So much less than in a chain is enough for what was said in between, once it is clear what the statement returns to.
"""
_RETURN_ALIKE: Final = 0.5
"""What a statement returns to has at least this cosine, or enough weight without less, and a greater cosine than what
was said in between.
"""
_MANY: Final = 3

FIRST: Final = 20
"""A statement is marked if it is among so many of the best hits: no block of usual size holds more of them."""

NUMBERS: Final = (
    "cosine",
    "less than nearest",
    "less than its nearest",
    "both before the rest",
)
"""What is known of a pair beside its words: the cosine; how far it stays behind the newer statement's nearest earlier
one, and behind the older one's nearest; and how many standard deviations both stand before the best of the others.
"""
_COSINE: Final = NUMBERS.index("cosine")
_FARTHEST: Final = -3.0
_NEAREST: Final = 2.0

_WEIGHTS: Final[Mapping[str, float]] = {
    "bias": -3.51,
    "several": -0.82,
    "cosine": 4.36,
    "less than nearest": -3.26,
    "less than its nearest": -3.46,
    "both before the rest": 0.28,
    "shared words": 1.38,
    "definite mention": 0.76,
    "name": 1.4,
    "other relatives": -1.3,
    "relatives of one": -0.62,
    "other names of a relative": -1.06,
    "adds": -2.0,
    "change": 1.25,
    "correction": 0.99,
    "other subjects": -1.21,
    "same subject": -2.09,
    "both of the speaker": -1.39,
    "elliptical": 0.88,
}
"""Of a logistic regression: of a constant, of a question for several things, of :data:`NUMBERS`, and of the features
of a pair. What adds to a statement leaves it true, so that weight is set: the sources have few of those.

Source:
    ``python -m threadkeep_evals.currency_fit`` on the eight files that ``docs/evaluation.md`` names, with the figures
    on pairs that the weights have not seen.
"""
_OF_NUMBERS: Final = [_WEIGHTS[name] for name in NUMBERS]
_OF_WORDS: Final = [_WEIGHTS[name] for name in FEATURES]
_MOST_OF_WORDS: Final = 4.0
"""Pairs that lack more are not compared by their words, which takes most of the time.

Source:
    Of the pairs that are marked, 99 % lack less; a fifth of all pairs do.
"""
LEFT_OPEN: Final = 3.0
"""A pair of statements that lacks no more is read by the model; one with a request only where words put it in doubt."""
MOST_READ: Final = 8
"""So many pairs of a block are read at most, the likeliest: a pair takes about three milliseconds, once."""
UNDECIDED: Final = -6.0
"""The model's weight that speaks neither for a change nor against it; most pairs have a smaller one."""
LEAST_BEYOND: Final = 4.0
MOST_BEYOND: Final = 8.0
"""So much less, or more, than that counts."""
OF_MODEL: Final = 0.3
"""What the model's weight counts beside that of the words.

Source:
    A fit to five files that it was not taught by has 0.3 to 0.4.
"""
LEAST_OF_ELABORATION: Final = -2.0
"""What elaborates on a statement replaces it from that weight on.

Source:
    ``docs/decisions/0081-currency-is-weighed.md``.
"""
_USUAL_COSINE: Final = 0.2
"""Stands for the cosine where there are no vectors."""
_turn_of: Final[Callable[[Source], TurnId | None]] = attrgetter("turn_id")
_text_of: Final[Callable[[DatedStatement], str]] = attrgetter("text")
_in_time: Final[Callable[[DatedStatement], tuple[datetime, int]]] = attrgetter("at", "place")


class Outdated(NamedTuple):
    """Which statements a newer one probably replaces: their places, each with that of the newest which does.

    Attributes:
        replaced: Those that are no longer so.
        doubtful: Those that may be no longer so.
    """

    replaced: Mapping[int, int]
    doubtful: Mapping[int, int]


def find_earlier(
    memories: Sequence[Memory | None],
    alike: NDArray[np.float32] | None,
    question: str = "",
    strength: NDArray[np.float64] | None = None,
    weigh: Weigh | None = None,
) -> Mapping[int, int]:
    """Return the places of memories that are probably no longer so, as :func:`find_outdated`, by one mark."""
    return find_outdated(memories, alike, question, strength, weigh, more=WITH_ONE_MARK).replaced


def find_outdated(
    memories: Sequence[Memory | None],
    alike: NDArray[np.float32] | None,
    question: str = "",
    strength: NDArray[np.float64] | None = None,
    weigh: Weigh | None = None,
    *,
    more: float = 0.0,
) -> Outdated:
    """Return which memories are no longer so, and which may be no longer so.

    A statement outdates the one that it most likely replaces, and those that this one had replaced.

    Args:
        memories: What was found, best first; ``None`` where it is not known.
        alike: Their cosines with each other, shape ``(n, n)``; ``None``: words alone decide.
        question: What was asked.
        strength: How well they answer it, in standard deviations, shape ``(n,)``; ``None``: all equally well.
        weigh: What a model makes of two statements; it is asked for those that may replace each other.
        more: So much more weight has each pair.
    """
    said = statements(memories)
    pairs = pairs_of(said, alike, strength)
    claims = _claims(said, pairs, _likely(said, pairs, weigh, several=asks_for_several(question), more=more))
    found = _by_older(claims.replaced)
    doubtful = _by_older(claims.unsure)
    if len(claims.unsure) > 1:
        doubtful.update(_rivals(said, claims))
    if any(map(ending_in, map(_text_of, said))):
        found |= {older: max(newer, found.get(older, 0)) for older, newer in _over(said, pairs).items()}
    if any(map(ages_in, map(_text_of, said))):
        found |= {older: max(newer, found.get(older, 0)) for older, newer in _grown(said, pairs)}
    sure = _places(said, found)
    return Outdated(sure, {place: by for place, by in _places(said, doubtful).items() if place not in sure})


class _Claims(NamedTuple):
    """What each newer statement makes untrue, by the numbers of the statements.

    Attributes:
        replaced: What it surely replaces, and what that had replaced.
        unsure: What it may replace.
    """

    replaced: dict[int, set[int]]
    unsure: dict[int, set[int]]


def _claims(said: Sequence[DatedStatement], pairs: Pairs, likely: Iterable[tuple[int, int, float]]) -> _Claims:
    """Return what the statements make untrue; *likely* has newer, older and the margin of pairs, newest last."""
    by_newer: dict[int, dict[int, float]] = defaultdict(dict)
    for newer, older, margin in likely:
        by_newer[newer][older] = margin
    found = _Claims({}, {})
    for newer, margins in by_newer.items():
        asked = {older: one for older, one in margins.items() if said[newer].asked or said[older].asked}
        certain = {older: one for older, one in margins.items() if older not in asked}
        if outdated := _outdated(said[newer], certain, found.replaced, pairs.numbers[_COSINE, newer]):
            found.replaced[newer] = outdated
        may_be = [_nearest(some) for some in (asked, {} if outdated else certain) if some]
        found.unsure[newer] = {older for older in may_be if margins[older] >= -IN_DOUBT}
    return found


def _by_older(claimed: Mapping[int, Iterable[int]]) -> dict[int, int]:
    """Return what is *claimed*, each with the newest statement that does."""
    return {older: newer for newer, several in claimed.items() for older in several}


def _places(said: Sequence[DatedStatement], found: Mapping[int, int]) -> dict[int, int]:
    """Return the places of the memories that hold what was *found*, each with the place of the newer one."""
    marked = {said[older].place: said[newer].place for older, newer in found.items()}
    return {place: marked[one.place] for one in said if one.place in marked for place in one.places}


def _nearest(margins: Mapping[int, float]) -> int:
    return max(margins, key=margins.__getitem__)


def _outdated(
    newer: DatedStatement,
    margins: Mapping[int, float],
    replaced: Mapping[int, set[int]],
    cosines: NDArray[np.float64],
) -> set[int]:
    """Return what a statement most likely replaces, what that had *replaced* before, and what it returns from."""
    chain = _chain(margins, replaced)
    return chain | _interrupted(margins, cosines) if returns(newer.text) else chain


def _chain(margins: Mapping[int, float], replaced: Mapping[int, set[int]]) -> set[int]:
    """Return what a statement most likely replaces, and what that had *replaced* before."""
    if not margins or margins[nearest := _nearest(margins)] < 0:
        return set()
    chain = {*replaced.get(nearest, ()), *(one for one, before in replaced.items() if nearest in before)}
    return {nearest, *(older for older in chain if margins.get(older, -math.inf) >= -LESS_IN_A_CHAIN)}


def _rivals(said: Sequence[DatedStatement], claims: _Claims) -> Iterator[tuple[int, int]]:
    """Yield the older and the newer of two statements that replace the same one, and at least one of both surely.

    ``We chose Malta instead.`` and ``The hotel in Madeira has confirmed.`` replace ``We're going to Crete.``, so the
    trip to Malta is in doubt, whatever it has in common with the other.
    """
    by_older: dict[int, dict[int, bool]] = defaultdict(dict)
    for is_sure, claimed in ((False, claims.unsure), (True, claims.replaced)):
        for newer, several in claimed.items():
            for older in several:
                by_older[older][newer] = is_sure
    for sure_of in by_older.values():
        for one, other in combinations(sorted(sure_of), 2):
            apart = said[one].turns.isdisjoint(said[other].turns) and not said[one].whole
            if (
                apart
                and (sure_of[one] or sure_of[other])
                and _weight_of_words(said[other].text, said[one].text) > -math.inf
            ):
                yield one, other


def _interrupted(margins: Mapping[int, float], cosines: NDArray[np.float64]) -> set[int]:
    """Return what a statement returns to, and what most likely was so in between; nothing where one of both lacks."""
    before = {
        older: margin
        for older, margin in margins.items()
        if margin >= (-LESS_FOR_A_RETURN if cosines[older] >= _RETURN_ALIKE else 0.0)
    }
    if not before:
        return set()
    returned_to = _nearest(before)
    between = [one for one in margins if one > returned_to and cosines[one] < cosines[returned_to]]
    return {returned_to, max(between, key=margins.__getitem__)} if between else set()


def _over(said: Sequence[DatedStatement], pairs: Pairs) -> Mapping[int, int]:
    """Return what a later statement says to be over in other words, such as a job or a pet, each with the last such.

    Where it does not say which one, and several are known by different names, it is none of them.
    """
    over: dict[int, int] = {}
    for newer, one in enumerate(said):
        ending = None if one.asked else ending_in(one.text)
        if ending is None:
            continue
        if ending.what == "partner" and any(is_reunited(later.text) for later in said[newer:] if not later.asked):
            continue
        older = [
            number
            for number, other in enumerate(said[:newer])
            if pairs.shown[number]
            and not (other.whole or other.asked)
            and one.turns.isdisjoint(other.turns)
            and is_over(other.text, ending)
        ]
        named = [names for number in older if (names := given_names(said[number].text))]
        if ending.what == "one" and not ending.names and named and not named[0].intersection(*named):
            continue
        over |= dict.fromkeys(older, newer)
    return over


def _grown(said: Sequence[DatedStatement], pairs: Pairs) -> Iterator[tuple[int, int]]:
    """Yield the older and the newer of the statements of which the newer tells another age of the same one."""
    tell_ages = [number for number, one in enumerate(said) if ages_in(one.text) and not (one.whole or one.asked)]
    for older, newer in combinations(tell_ages, 2):
        may_end = pairs.shown[older] and said[older].turns.isdisjoint(said[newer].turns)
        if may_end and is_older_now(said[newer].text, said[older].text):
            yield older, newer


def _likely(
    said: Sequence[DatedStatement], pairs: Pairs, weigh: Weigh | None, *, several: bool, more: float
) -> Iterator[tuple[int, int, float]]:
    """Yield newer, older and the margin of the pairs of which the newer probably replaces the older; newest last.

    A pair with a negative margin, down to minus :data:`LESS_IN_A_CHAIN`, needs another one to speak for it. For a
    statement that returns to an older one the margin goes down by :data:`LESS_IN_BETWEEN` more.
    """
    weighed = _WEIGHTS["bias"] + _WEIGHTS["several"] * several + np.tensordot(_OF_NUMBERS, pairs.numbers, 1)
    floors = BY_WORDS if weigh is None else BY_MODEL
    lacking = _needed(len({one.turns or one.place for one in said if not one.asked}), floors) - weighed
    less = np.where([*map(returns, map(_text_of, said))], LESS_IN_BETWEEN, 0.0)
    near = lacking <= _MOST_OF_WORDS + less[:, None]
    close: list[list[int]] = np.argwhere(pairs.compared & pairs.shown & near).tolist()
    margins = {
        (newer, older): _weight_of_words(said[newer].text, said[older].text) - lacking.item(newer, older)
        for newer, older in close
        if not (said[newer].only_asks or said[older].only_asks) or not _asks_about_it(said[newer], said[older])
    }
    margins = _of_named(said, margins) if any(map(ended_object, map(_text_of, said))) else margins
    if weigh is None:
        margins = {pair: margin for pair, margin in margins.items() if not elaborates(*_texts_of(said, pair))}
    else:
        margins |= _read_by_model(said, margins, weigh)
    for (newer, older), margin in margins.items():
        if margin + more >= -LESS_IN_A_CHAIN - less.item(newer):
            yield newer, older, margin + more


def _asks_about_it(newer: DatedStatement, older: DatedStatement) -> bool:
    """Return whether the question, which one of both is, asks about what the other tells, and so tells nothing else."""
    if newer.only_asks:
        return asks_about(newer.text, older.text)
    return asks_about(older.text, newer.text, before=True)


def _of_named(said: Sequence[DatedStatement], margins: Margins) -> Margins:
    """Return *margins* without the pairs of which the newer ends what another older statement names."""
    named = {(new, old) for new, old in margins if ended_object(said[new].text) & parse_claim(said[old].text).stems}
    ends_named = {newer for newer, _ in named}
    return {pair: margin for pair, margin in margins.items() if pair in named or pair[0] not in ends_named}


def _read_by_model(
    said: Sequence[DatedStatement], margins: Margins, weigh: Weigh
) -> Iterator[tuple[tuple[int, int], float]]:
    """Yield the pairs that the model reads, the likeliest, with their new margins; pairs of statements come first."""
    left_open = {
        (newer, older): (told, margin)
        for (newer, older), margin in margins.items()
        if margin >= -(LEFT_OPEN if (told := not (said[newer].asked or said[older].asked)) else IN_DOUBT)
    }
    for pair in nlargest(MOST_READ, left_open, key=left_open.__getitem__):
        texts = _texts_of(said, pair)
        weight = weigh(texts)
        if (weight is None or weight < LEAST_OF_ELABORATION) and elaborates(*texts):
            yield pair, -math.inf
        elif weight is not None:
            yield pair, margins[pair] + OF_MODEL * min(max(weight - UNDECIDED, -LEAST_BEYOND), MOST_BEYOND)


def _texts_of(said: Sequence[DatedStatement], pair: tuple[int, int]) -> StatementPair:
    newer, older = pair
    return StatementPair(said[newer].text, said[older].text)


@lru_cache(maxsize=32_768)
def _weight_of_words(newer: str, older: str) -> float:
    """Return what the words add to the weight of a pair; no weight is enough where both hold."""
    if both_hold(newer, older) or have_other_frames(newer, older) or leaves_ages(newer, older):
        return -math.inf
    return sum(map(mul, _OF_WORDS, compare(newer, older)))


def _needed(turns: int, floors: Floors) -> float:
    """Return the weight that a pair needs among the statements of so many *turns*."""
    share = min(math.log(max(turns - 1, 1), _MANY), 1.0)
    least = floors.of_two + share * (floors.of_many - floors.of_two)
    return math.log(least / (1 - least))


class Pairs(NamedTuple):
    """What is known of the pairs of some statements, by the newer's and the older's number.

    Attributes:
        compared: Whether the newer may replace the older, shape ``(n, n)``.
        shown: Whether the older is among the first hits, shape ``(n,)``.
        numbers: :data:`NUMBERS` of each pair, shape ``(4, n, n)``.
    """

    compared: NDArray[np.bool_]
    shown: NDArray[np.bool_]
    numbers: NDArray[np.float64]


def pairs_of(
    said: Sequence[DatedStatement], alike: NDArray[np.float32] | None, strength: NDArray[np.float64] | None
) -> Pairs:
    """Return the pairs of *said*, oldest first; *alike* and *strength* are by the places of the statements.

    Each pair is measured against statements; what was asked takes no other pair's place, and gains nothing where it is
    closer than all of them.
    """
    places = [one.place for one in said]
    cosine = np.full((len(said), len(said)), _USUAL_COSINE)
    if alike is not None:
        cosine = alike[np.ix_(places, places)].astype(np.float64)
    apart = _apart(said)
    before = np.tril(apart, -1)
    told = np.array([not one.asked for one in said], np.bool_)
    nearest = np.where(before & told, cosine, 0.0).max(axis=1, initial=0.0)[:, None]
    nearest_to_older = np.where(apart & told[:, None], cosine, 0.0).max(axis=0, initial=0.0)
    shown = np.array([min(one.places) < FIRST for one in said], np.bool_)
    before_rest = np.zeros_like(cosine) if strength is None else _before_rest(said, strength[places])
    return Pairs(
        before & (cosine >= LEAST_ALIKE),
        shown,
        np.stack([cosine, (nearest - cosine).clip(0.0), (nearest_to_older - cosine).clip(0.0), before_rest]),
    )


def _before_rest(said: Sequence[DatedStatement], strength: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far the turns of both of each pair stand before the best other turn that states, shape ``(n, n)``."""
    best: dict[frozenset[TurnId], float] = {}
    for one, answers in zip(said, strength.tolist(), strict=True):
        best[one.turns] = max(best.get(one.turns, -math.inf), answers)
    turns = sorted({one.turns for one in said if not one.asked}, key=best.__getitem__, reverse=True)
    ranks = dict(zip(turns, range(len(turns)), strict=True))
    rank = np.array([ranks.get(one.turns, len(said)) for one in said], np.intp)
    first, second = np.minimum(rank[:, None], rank), np.maximum(rank[:, None], rank)
    other = np.where(first > 0, 0, np.where(second > 1, 1, 2))  # the best turn that is neither's
    of_turn = np.array([*map(best.__getitem__, turns), *[strength.min(initial=0.0) - 1.0] * 3])
    own = np.array([best[one.turns] for one in said])
    return np.clip(np.minimum(own[:, None], own) - of_turn[other], _FARTHEST, _NEAREST)


def _apart(said: Sequence[DatedStatement]) -> NDArray[np.bool_]:
    """Return which statements are from other turns than which that can be replaced, shape ``(n, n)``."""
    apart = ~np.eye(len(said), dtype=np.bool_)
    apart[:, [one.whole for one in said]] = False
    questions = [one.only_asks for one in said]
    apart[np.ix_(questions, questions)] = False
    of_turn: dict[TurnId, list[int]] = defaultdict(list)
    for number, one in enumerate(said):
        for turn in one.turns:
            of_turn[turn].append(number)
    for numbers in of_turn.values():
        for pair in permutations(numbers, 2):
            apart[pair] = False
    return apart


@dataclass(slots=True)
class DatedStatement:
    """A statement, with the places of the memories that hold it: a fact, and the passage of the turn around it.

    Attributes:
        at: When it was made.
        text: What it says.
        turns: The turns that it is from.
        place: Of the memory that says just that.
        places: That one, and those of the memories that hold it.
        asked: Whether it is what a request or a question says of the user, which is not certain: it never replaces a
            statement, and only a fact that it holds takes the sure mark to it; else either may only be in doubt.
        only_asks: Whether it is a question. Two of them tell nothing of each other.
        whole: Whether it is a passage that holds another statement, which is replaced in its stead.
    """

    at: datetime
    text: str
    turns: frozenset[TurnId]
    place: int
    places: list[int]
    asked: bool
    only_asks: bool
    whole: bool = False


_compared: Final = lru_cache(maxsize=4096)(normalised)
"""The same memories are found again and again."""


def statements(memories: Sequence[Memory | None]) -> list[DatedStatement]:
    """Return what *memories* state, oldest first, and what two of one turn state once."""
    by_turn: dict[frozenset[TurnId | None], dict[str, DatedStatement]] = defaultdict(dict)
    for place, memory in enumerate(memories):
        if memory is None:
            continue
        kind = passage_kind(memory.text) if memory.kind == "episodic" else "statement"
        if kind is None:
            continue
        text = memory.text.removeprefix(SAID).removeprefix(ASKED)
        turns = frozenset(map(_turn_of, memory.sources)) - {None}
        at = (memory.sources[-1].at if memory.sources else None) or memory.created_at
        asked = kind != "statement"
        said = text if asked else statement_in(text)
        new = DatedStatement(at, said, turns, place, [], asked, only_asks=kind == "question")
        known = by_turn[turns].setdefault(_compared(text), new)
        known.places.append(place)
        known.asked, known.only_asks = known.asked and new.asked, known.only_asks and new.only_asks
    for turns, by_text in by_turn.items():
        if turns and len(by_text) > 1:
            _join(by_text)
    return sorted([said for by_text in by_turn.values() for said in by_text.values()], key=_in_time)


def _join(by_text: Mapping[str, DatedStatement]) -> None:
    """Let statements of one turn share the place of a passage that holds them."""
    for inner, one in by_text.items():
        for outer, whole in by_text.items():
            if inner != outer and inner in outer:
                one.places.append(whole.place)
                whole.whole = True
