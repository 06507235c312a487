"""Select the memories for a block: relevance, validity, diversity, budget. Pure rules over one ranking."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from itertools import chain, filterfalse, islice, zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from threadkeep.memories.codec import SUMMARIES
from threadkeep.memories.models import ASKED, SAID, Memory, sentences_in
from threadkeep.recall.currency import Outdated, find_outdated
from threadkeep.recall.models import Recalled, line
from threadkeep.recall.packing import ContextPacker, excerpt, normalised, shown_whole, turns_of
from threadkeep.recall.profile.matching import acts_for_user
from threadkeep.recall.relevance import concerns, matters
from threadkeep.search.query import is_problem
from threadkeep.search.scoring import standardised
from threadkeep.text.facts import is_filler, only_asks
from threadkeep.text.quoted import END, HEADING
from threadkeep.text.semantics import gist_of
from threadkeep.text.tokenizing import EVERY_FUNCTION_WORD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.ids import MemoryId, ThreadId, TurnId
    from threadkeep.models.pairs import PairModel
    from threadkeep.search.query import Query, QuestionKind
    from threadkeep.search.ranking import Ranking

_AT_ONCE: Final = 20
"""So many candidates of each side are offered together: what repeats one of them is recognized in any order."""


def merged(own: Iterator[list[Recalled]], shared: Iterator[Recalled]) -> Iterator[list[Recalled]]:
    """Yield the owner's candidates and those of all shared scopes by turns, beginning with the owner's.

    Ranks are compared and not scores: the best of a large partition score higher by chance. However many scopes there
    are and however much they hold, each second candidate is the owner's.
    """
    lanes = (chain.from_iterable(own), shared)
    while any(chunks := [list(islice(lane, _AT_ONCE)) for lane in lanes]):
        yield [one for turn in zip_longest(*chunks) for one in turn if one is not None]


def by_closeness(shared: Sequence[Iterator[list[Recalled]]]) -> Iterator[Recalled]:
    """Yield the candidates of several shared scopes, each time the closest of those that are next in their scopes."""
    lanes = [chain.from_iterable(one) for one in shared]
    heads = [next(lane, None) for lane in lanes]
    while any(head is not None for head in heads):
        best = max(range(len(heads)), key=lambda place: -1.0 if (head := heads[place]) is None else head.score)
        if (candidate := heads[best]) is not None:
            yield candidate
        heads[best] = next(lanes[best], None)


ALIKE: Final = 1.5
"""What a memory loses, in standard deviations, for each part of a cosine that it shares with one that was chosen.

Source:
    Maximal marginal relevance: Carbonell & Goldstein 1998. From 1 to 2, blocks hold .1 points more of the evidence.
"""


ALIKE_OWN: Final = 0.5
"""The same for what is about the user: two statements about one thing may both be needed."""

CLOSENESS_OWN: Final = 2.0
"""For what is about the user, a standard deviation of closeness counts so much beside the strength.

A request shares few words with the fact that it needs, and the words and dates that it does share are of what is to be
done: ``Can I sign up for the class on Thursday?``

Source:
    Two development files of facts, asked for by requests and by questions: with it blocks hold the fact in 80 and 87 %,
    without it in 72 and 85 %; from 1 to 4 both move by a point.
"""


def in_order(ranking: Ranking, *, own: bool = False) -> Iterator[int]:
    """Return the places of the hits in the order in which they are offered: the best by what they add to each other.

    Args:
        ranking: The hits.
        own: Whether the question is about the user, so that closeness counts more.
    """
    hits, alike = ranking.hits, ranking.alike
    if alike is None:
        return iter(range(len(hits)))
    first = len(alike)
    strengths = hits.strength[:first]
    if own:
        strengths = strengths + standardised(hits.closeness_of(first), CLOSENESS_OWN)
    return chain(spread(strengths, alike, weight=ALIKE_OWN if own else ALIKE), range(first, len(hits)))


def spread(strengths: NDArray[np.float64], alike: NDArray[np.float32], *, weight: float = ALIKE) -> Iterator[int]:
    """Yield the places of *strengths* so that each next one is strong and unlike those before it.

    Args:
        strengths: Of the candidates, in standard deviations.
        alike: Their cosines with each other, shape ``(n, n)``.
        weight: How much being alike costs.
    """
    left = strengths.astype(np.float64)
    beside = left - weight * alike.astype(np.float64)  # of each, what is left of the others once it is chosen
    for _ in range(len(left)):
        place = int(left.argmax())
        yield place
        left[place] = -np.inf
        np.minimum(left, beside[place], out=left)


CONSIDERED: Final = 256
"""So many hits of a search are candidates for a block."""

COMPARED: Final = 64
"""So many of the best hits are compared with each other, to choose those that add something."""

QUESTIONS_AT_FIRST: Final = 2
"""So many of the user's earlier questions may enter a block before all other candidates were offered.

Source:
    What was asked in the same words is nearest to a question, and answers nothing: with 1,000 facts that were asked for
    once each before, 79 % of the blocks of 300 tokens held the fact; with this all do. Of the evidence of the replays
    of LoCoMo's development half blocks hold 62.1 %, with four at first 62.0, with none 59.9: some tell something.
"""

_CHUNK: Final = 20
_SUMMARIES: Final = (SUMMARIES,)
_FRAME: Final = f"{HEADING}\n{END}"


@dataclass(frozen=True, slots=True)
class BlockRequest:
    """What a block is for, and its bounds.

    Attributes:
        query: The question.
        thread_id: The thread in progress.
        shown: The messages of the thread that the model is given with the question.
        budget_tokens: Upper bound for the text, by :func:`estimate_tokens`.
        max_facts: At most so many memories that are no episodes.
        max_episodes: At most so many episodes.
    """

    query: Query
    thread_id: ThreadId | None
    shown: Collection[str] = ()
    budget_tokens: int | None = None
    max_facts: int | None = None
    max_episodes: int | None = None


@dataclass(slots=True)
class StoredFacts:
    """What selection knows from the storage and from models, and what it still needs.

    Selection skips what it needs and does not know; the caller finds that out, and selects again.

    Attributes:
        memories: The memories at the places of the ranking that are known; ``None`` for what is none, or is gone.
        other_branch: Of memories learnt in the thread in progress: whether on another branch of it.
        is_doubtful: Whether the storage must tell the branch of a memory; ``None``: of none.
        changes: Reads whether a statement makes an earlier one untrue; ``None``: words and cosines decide alone.
        needs: Reads whether a request needs a statement; ``None``: closeness decides alone.
        missing: The places of the memories that are needed.
        undecided: The memories that need their branch.
        unread: The pairs of texts that a model must read.
    """

    memories: dict[int, Memory | None] = field(default_factory=dict[int, "Memory | None"])
    other_branch: dict[MemoryId, bool] = field(default_factory=dict["MemoryId", bool])
    is_doubtful: Callable[[Memory], bool] | None = None
    changes: PairModel | None = None
    needs: PairModel | None = None
    missing: list[int] = field(default_factory=list[int])
    undecided: list[Memory] = field(default_factory=list["Memory"])
    unread: list[tuple[PairModel, tuple[str, str]]] = field(default_factory=list["tuple[PairModel, tuple[str, str]]"])

    @property
    def complete(self) -> bool:
        """Whether nothing more is needed."""
        return not (self.missing or self.undecided or self.unread)

    def learn(self, ranking: Ranking, places: Iterable[int]) -> None:
        """Make the memories at *places* known, each once; those that only the storage has are :attr:`missing`."""
        unknown = list(filterfalse(self.memories.__contains__, places))
        if not unknown:
            return
        known = ranking.memories(unknown)
        self.memories |= known
        if len(known) < len(unknown):
            self.missing += [place for place in unknown if place not in known]

    def memory(self, ranking: Ranking, place: int) -> Memory | None:
        """Return the memory at *place*; ``None`` if it is none, is gone, or has to be read first."""
        if place not in self.memories:
            self.learn(ranking, [place])
        return self.memories.get(place)

    def is_elsewhere(self, memory: Memory) -> bool:
        """Return whether *memory* was learnt on another branch of the thread, or may have been."""
        if self.is_doubtful is None or not self.is_doubtful(memory):
            return False
        known = self.other_branch.get(memory.memory_id)
        if known is None:
            self.undecided.append(memory)
        return known is not False

    def weight(self, model: PairModel, pair: tuple[str, str]) -> float | None:
        """Return the weight of *pair* by *model*; ``None`` if it has to read the texts first."""
        if (known := model.known(pair)) is None:
            self.unread.append((model, pair))
        return known


@dataclass(frozen=True, slots=True)
class CandidatePlaces:
    """The hits to offer to a block.

    Attributes:
        places: Their places in the ranking, best first; an iterator, because a block needs a few of them.
        answers: Those that fill a slot the question asks for.
    """

    places: Iterator[int]
    answers: Collection[int] = ()


def find_candidates(query: Query, ranking: Ranking, stored: StoredFacts) -> CandidatePlaces:
    """Return the hits to offer to a block: first the answers to the question, then what is relevant to it."""
    stored.learn(ranking, range(min(COMPARED, len(ranking.hits))))
    answers = _answers(query, ranking, stored)
    kind = "open" if answers else _kind(query)  # beside an answer, less that is hardly near is of use
    first = frozenset(answers)
    if query.about_everything:
        relevant = frozenset(range(len(ranking.hits)))
    elif concerns(
        ranking,
        partial(stored.memory, ranking),
        kind=kind,
        question=query.text,
        needs=stored.needs and partial(stored.weight, stored.needs),
        about_questions=query.about_questions,
        foreign=query.foreign,
    ):
        relevant = frozenset(matters(ranking, kind=kind))
    else:
        return CandidatePlaces(iter(answers), first)
    places = filter((relevant - first).__contains__, in_order(ranking, own=kind in _OF_THE_USER))
    return CandidatePlaces(chain(answers, places), first)


_OF_THE_USER: Final[frozenset[QuestionKind]] = frozenset(("own", "near", "errand", "open"))
"""The kinds of questions and requests that are, or may well be, about the user."""

_ON_BEHALF: Final[Mapping[str, QuestionKind]] = {"task": "errand", "order": "errand", "near": "own", "open": "near"}
"""The kinds of requests on the user's behalf: what they need is the user's, though they seldom name it."""


def _kind(query: Query) -> QuestionKind:
    """Return the kind of *query*, with requests on the user's behalf judged as what they need."""
    if query.kind not in _ON_BEHALF or not acts_for_user(query.text) or is_problem(query.text):
        return query.kind
    return _ON_BEHALF[query.kind]


@dataclass(slots=True)
class Found:
    """What was found in one partition.

    Attributes:
        ranking: The hits.
        candidates: Those to offer to a block.
        stored: What is known of them from the storage.
        profile: What is offered before them.
    """

    ranking: Ranking
    candidates: CandidatePlaces
    stored: StoredFacts
    profile: Sequence[Recalled] = ()
    _compared: Compared | None = None

    def compared(self, question: str, *, now: datetime) -> Compared:
        """Return the best hits, and which of them are no longer so; they are compared once."""
        if self._compared is None:
            ranking, stored = self.ranking, self.stored
            places = range(min(COMPARED, len(ranking.hits)))
            stored.learn(ranking, places)
            best = valid_ones(map(stored.memories.get, places), at=now)
            strength, changes = ranking.hits.strength[: len(best)], stored.changes
            weigh = changes and partial(stored.weight, changes)
            self._compared = Compared(best, find_outdated(best, ranking.alike, question, strength, weigh))
        return self._compared


class Compared(NamedTuple):
    """The best hits, compared with each other.

    Attributes:
        best: The memories; ``None`` for one that is not known or not valid.
        outdated: The places of those that are, or may be, no longer so.
    """

    best: Sequence[Memory | None]
    outdated: Outdated

    def replaced(self) -> dict[str, Memory]:
        """Return the statements that are no longer so, each with the memory that says so."""
        return {_said(older): newer for older, newer in self._known(self.outdated.replaced)}

    def doubtful(self) -> Iterator[tuple[Memory, Memory]]:
        """Yield the memories that may be no longer so, each with the one that may say so."""
        return self._known(self.outdated.doubtful)

    def _known(self, places: Mapping[int, int]) -> Iterator[tuple[Memory, Memory]]:
        for older, newer in places.items():
            if (before := self.best[older]) is not None and (after := self.best[newer]) is not None:
                yield before, after


def pack(request: BlockRequest, found: Sequence[Found], *, now: datetime) -> ContextPacker:
    """Fill a block with profiles, then with the valid memories among what was *found*, as :func:`merged`.

    Args:
        request: What the block is for.
        found: Of the owner's memory, then of each shared scope.
        now: The time.
    """
    packer = packer_for(request)
    offer = _Offer(packer, request)
    for one in found:
        if one.profile:
            profile = _with_changes(one.profile, one.compared(request.query.text, now=now).replaced())
            offer.take([each for each in profile if not one.stored.is_elsewhere(each.memory)])
    offer.brief_from += len(packer.chosen)
    alone = len(found) == 1
    for chunk in _chunks(found[0], request, now=now) if alone else _merged(found, request, now=now):
        offer.take(chunk)
        if packer.full:
            break
    offer.offer_deferred()
    for one in found if packer.chosen else ():
        for older, newer in one.compared(request.query.text, now=now).doubtful():
            packer.put_before(newer, older)
    return packer


def _with_changes(profile: Iterable[Recalled], replaced: Mapping[str, Memory]) -> Iterator[Recalled]:
    """Yield *profile* with the values marked that are *replaced*, each before what replaces it."""
    newer: dict[MemoryId, Recalled] = {}
    for value in profile:
        if (memory := replaced.get(_said(value.memory))) is None:
            yield value
        else:
            newer[memory.memory_id] = Recalled(memory, value.score)
            yield replace(value, earlier=True)
    yield from newer.values()


def _said(memory: Memory) -> str:
    return memory.text.removeprefix(SAID).removeprefix(ASKED)


def _merged(found: Sequence[Found], request: BlockRequest, *, now: datetime) -> Iterator[list[Recalled]]:
    if not found:
        return iter(())
    own, *shared = [_chunks(one, request, now=now) for one in found]
    return merged(own, by_closeness(shared))


def _chunks(found: Found, request: BlockRequest, *, now: datetime) -> Iterator[list[Recalled]]:
    """Yield the valid memories among the candidates of one partition, in their order."""
    ranking, candidates, stored = found.ranking, found.candidates, found.stored
    if (first := next(candidates.places, None)) is None:
        return
    answers, candidate_places = candidates.answers, chain((first,), candidates.places)
    best, (replaced, doubtful) = found.compared(request.query.text, now=now)
    offered: set[int] = set()
    while chunk := list(islice(candidate_places, _CHUNK)):
        places = [one for place in chunk for one in _newest_first(place, replaced, best)] if replaced else chunk
        places = [place for place in dict.fromkeys(places) if place not in offered]
        offered.update(places)
        stored.learn(ranking, places)
        memories = valid_ones(map(stored.memories.get, places), at=now)
        scores = ranking.hits.scores([0 if place in answers else place for place in places])
        recalled: list[Recalled] = []
        for place, memory, score in zip(places, memories, scores, strict=True):
            if memory is None or (stored.is_doubtful is not None and stored.is_elsewhere(memory)):
                continue
            recalled.append(Recalled(memory, score, place in replaced or place in doubtful, may_hold=place in doubtful))
        yield recalled


def _newest_first(place: int, replaced: Mapping[int, int], best: Sequence[Memory | None]) -> list[int]:
    """Return *place* behind that of the memory which replaces the one there, if there is any.

    With a passage comes the closest fact of its turn: a passage that says no more than its facts is not shown.
    """
    newer = replaced.get(place)
    if newer is None:
        return [place]
    passage = best[newer]
    if passage is None or passage.kind != "episodic":
        return [newer, place]
    turns = turns_of(passage)
    facts = (
        other
        for other, fact in enumerate(best)
        if fact is not None and fact.kind != "episodic" and not turns.isdisjoint(turns_of(fact))
    )
    return [newer, *islice(facts, 1), place]


def pack_newest(request: BlockRequest, memories: Iterable[Memory], stored: StoredFacts) -> ContextPacker:
    """Fill a block with *memories*, newest first, for a request without a question."""
    packer = packer_for(request)
    offer = _Offer(packer, request)
    here = (Recalled(memory, 0.0) for memory in memories if not stored.is_elsewhere(memory))
    while not packer.full and (chunk := list(islice(here, _CHUNK))):
        offer.take(chunk)
    offer.offer_deferred()
    return packer


def packer_for(request: BlockRequest) -> ContextPacker:
    """Return the empty block of *request*.

    Raises:
        InvalidInputError: A bound is negative.
    """
    return ContextPacker(
        partial(line, thread_id=request.thread_id),
        frame=_FRAME,
        budget_tokens=request.budget_tokens,
        max_facts=request.max_facts,
        max_episodes=request.max_episodes,
    )


class _Offer:
    """Offers memories to a block, best first, and keeps back what can wait until the rest was offered.

    Attributes:
        brief_from: How many lines the block has before episodes are cut to what answers.
    """

    def __init__(self, packer: ContextPacker, request: BlockRequest) -> None:
        self._packer = packer
        self._request = request
        self._taught: dict[TurnId, set[str]] = {}
        self._told: dict[TurnId, str] = {}
        self._questions_left = math.inf if request.query.about_questions else QUESTIONS_AT_FIRST
        self._waiting: list[Recalled] = []
        self.brief_from = shown_whole(request.budget_tokens)

    @cached_property
    def _question(self) -> str:
        """The question, as a memory of it reads."""
        return normalised(f"{ASKED}{self._request.query.text}")

    @cached_property
    def _asked(self) -> frozenset[str]:
        """The words of the question that carry its meaning."""
        return frozenset(gist_of(self._request.query.text).words) - EVERY_FUNCTION_WORD

    def take(self, recalled: Sequence[Recalled]) -> None:
        """Offer *recalled*, except what repeats other candidates or the messages that the model is shown."""
        for candidate in recalled:
            if candidate.memory.kind not in ("episodic", "procedural"):  # no passage holds the words of a procedure
                add_words_of_fact(candidate.memory, self._taught)
        for candidate in recalled:
            text = candidate.memory.text
            is_question = text.startswith(ASKED) and only_asks(text.removeprefix(ASKED))
            if is_question and normalised(text) == self._question:
                continue  # the same question tells nothing
            if is_question and self._questions_left <= 0:
                self._waiting.append(candidate)
            else:
                self._questions_left -= self._offer(candidate) and is_question

    def offer_deferred(self) -> None:
        """Offer what was kept back."""
        for candidate in self._waiting:
            self._offer(candidate)

    def _offer(self, candidate: Recalled) -> bool:
        """Offer *candidate* as the block shows it, unless it repeats others; return whether it was taken."""
        memory = candidate.memory
        if candidate.slot is None:
            memory = excerpt(memory, self._request.query, brief=len(self._packer.chosen) >= self.brief_from)
            candidate = candidate if memory is candidate.memory else replace(candidate, memory=memory)
        text = normalised(memory.text)
        if memory.kind == "episodic":
            if (
                repeats(memory, self._taught, self._asked)
                or is_shown(memory, self._request)
                or not self._packer.offer(candidate, text)
            ):
                return False
            for source in memory.sources:
                if (turn := source.turn_id) is not None:
                    self._told[turn] = f"{self._told.get(turn, '')} {text}"
            return True
        for source in memory.sources:
            if source.turn_id is not None and text in self._told.get(source.turn_id, ""):
                return False
        return self._packer.offer(candidate, text)


def _answers(query: Query, ranking: Ranking, stored: StoredFacts) -> list[int]:
    """Return the places of the facts that fill a slot the question asks for, in whatever words.

    ``I joined Acme.`` says nothing of a company or of work, and is where the user works all the same.
    """
    if not query.slots or ranking.index is None:
        return []
    statements = ranking.index.statements
    slots: list[int] = ranking.hits.slots(len(ranking.hits)).tolist()
    unfilled = {place: slot for place, slot in enumerate(slots) if slot not in statements.filled}
    stored.learn(ranking, unfilled)
    for place, slot in unfilled.items():
        if (memory := stored.memories.get(place)) is not None:
            statements.fill(slot, memory)
    return [place for place, slot in enumerate(slots) if statements.filled.get(slot) in query.slots]


_ADDED: Final = 3
"""So many words of a sentence that no fact of its turn holds make its passage worth a line beside the facts."""


def add_words_of_fact(memory: Memory, taught: dict[TurnId, set[str]]) -> None:
    """Add the words of a fact and of its earlier versions to those that their turns have *taught*."""
    for version in (memory, *memory.history):
        for source in version.sources:
            if source.turn_id is not None:
                taught.setdefault(source.turn_id, set()).update(gist_of(version.text).words)


def repeats(memory: Memory, taught: Mapping[TurnId, Collection[str]], asked: frozenset[str]) -> bool:
    """Return whether *memory*, a passage of a turn, says hardly more than recalled facts of the turn.

    A sentence with a word of *asked*, the stems of the question, that none of the facts holds is no repetition.
    """
    turns = [turn for source in memory.sources if (turn := source.turn_id) is not None and turn in taught]
    if not turns:
        return False
    known = frozenset[str]().union(*map(taught.__getitem__, turns))
    for sentence in sentences_in(memory.text):
        added = list(filterfalse(known.__contains__, gist_of(sentence).words))
        if not asked.isdisjoint(added) or (len(added) >= _ADDED and not is_filler(sentence)):
            return False
    return True


def is_shown(memory: Memory, request: BlockRequest) -> bool:
    """Return whether the model is given *memory* anyway: the episode of a shown message, or its thread's summary."""
    if memory.namespace[:1] == _SUMMARIES:
        return request.thread_id is not None and any(one.thread_id == request.thread_id for one in memory.sources)
    if memory.kind != "episodic" or not request.shown:
        return False
    return any(one.message_id in request.shown and one.thread_id == request.thread_id for one in memory.sources)


def valid_ones(memories: Iterable[Memory | None], *, at: datetime) -> list[Memory | None]:
    """Return *memories* with ``None`` for those that may not be recalled: not active, or known to be true no more."""
    return [
        memory
        if memory is not None and memory.status == "active" and (memory.valid_to is None or memory.valid_to > at)
        else None
        for memory in memories
    ]


_OF_NEIGHBOUR: Final = 300
"""A reranker in the process reads so many characters of what was said before and after an episode."""


def between_neighbours(ranking: Ranking, place: int, memory: Memory | None) -> str:
    """Return what *memory* says, an episode between what was said before and after it in its session."""
    if memory is None:
        return ""
    if memory.kind != "episodic":
        return memory.text
    before, after = (one.text[:_OF_NEIGHBOUR] if one is not None else "" for one in ranking.beside(place))
    return "\n".join(part for part in (before, memory.text, after) if part)
