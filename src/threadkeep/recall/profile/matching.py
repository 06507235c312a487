"""Which slots of a profile a statement fills, which a request needs, and what fills them. Pure rules.

A text is compared with the examples of every slot and with texts that belong to none. What decides is how far the
nearest example of a slot is ahead of the nearest text of none, in standard deviations, so the same thresholds serve
every embedder. A word of the slot adds to that. To fill the slots, each is a search of its own in the index of an owner:
it has the closest memories that fill it, are the user's own, and are not replaced by a newer one.
"""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from threadkeep.memories.codec import is_summary, recalled_namespaces
from threadkeep.memories.models import SAID, TRUSTED, Memory, sentences_in
from threadkeep.recall.profile.schema import OTHER_FACTS, OTHER_REQUESTS, ProfileSlot
from threadkeep.search.query import Query, is_declarative, is_interrogative
from threadkeep.search.vectors import unit
from threadkeep.text.facts import asserts, clauses, statements
from threadkeep.text.semantics import denies, straight
from threadkeep.text.tokenizing import alternatives, language_of, plain_words, tokenise

if TYPE_CHECKING:
    from datetime import datetime

    from numpy.typing import NDArray

    from threadkeep.ids import TurnId
    from threadkeep.recall.profile.schema import ProfileSlot
    from threadkeep.search.ranking import IndexSnapshot, Ranking


_LONGEST: Final = 400
"""A longer text is a story, or brings what it needs."""

_ASKED_FOR: Final = re.compile(
    r"(?ix)^(?:(?:please|pls|now|ok|okay|hey|hi|hello|so|and|then|also|just|bitte|por\ favor|s'il\ (?:te|vous)\ pla[iî]t)[,\s]+)*"
    r"(?:(?:can|could|would|will)\ you\ (?:please\ |kindly\ )?|i(?:'d|\ would)\ like\ (?:you\ to\ )?|i\ (?:need|want)\ (?:you\ to\ )?|we\ need\ (?:you\ to\ )?|help\ (?:me|us)\ (?:to\ )?"
    r"|kannst\ du\ (?:mir\ )?|können\ sie\ (?:mir\ )?|ich\ (?:brauche|möchte)\ |(?:peux|pourrais)-tu\ |(?:pouvez|pourriez)-vous\ |j'ai\ besoin\ d[e']\ ?|(?:puedes|podrías)\ |necesito\ |(?:podes|pode|poderia)\ |preciso\ de\ )?"
)
_ADVICE: Final = re.compile(
    r"(?i)^(?:what|where|which|when|how|was|wo|welche\w*|que|qué|où|dónde|o que|onde)\b[^.!?]{0,60}\b(?:should|could|can|soll|sollte|devrais|devrions|debería|podría|devo|devia) (?:i|we|ich|wir|je|nous|eu)\b"
)
"""Asks for advice on what the user is about to do."""

_GENERAL: Final = re.compile(
    r"""(?ix)^(?:explain|define|translate|convert|calculate|compute|solve|prove|derive|list|name|count|spell|sort|multiply|divide|add\ up|compare|contrast|describe|rewrite|reword|rephrase|paraphrase|correct|proof-?read|shorten|simplify|integrate|differentiate|imagine|pretend|guess|recite|rhyme|teach\ me|tell\ (?:me|us)|show\ (?:me|us)|give\ (?:me|us)|summari[sz]e\ (?:the\ (?:plot|story|book|film|movie|novel|history)|\w+\ in)
        |check\ (?:whether|if)|turn\ (?:this|that|it)\ into|whats\ the|thank|thanks
        |conjug\w+|konjugier\w*|erklär\w*|übersetz\w*|berechne|nenne?|löse|beschreib\w*|vergleich\w*|erzähl\w*
        |(?:me\ )?expl[ií]\w+|spieg\w+|r[ée]sum\w+|riassum\w+|tradui\w*|calcule\w*|décri\w*|compare\w*|raconte\w*|défini\w*|traduc\w*|calcula\w*|describe\w*|descrev\w*|traduz\w*|define\w*|cuenta\w*|conta\w*|resolv\w*|resuelv\w*)\b(?!.{0,80}\b(?:before|to|for)\ (?:i|me|my|us|our)\b)
    | \b(?:poems?|haikus?|limericks?|sonnets?|lyrics|songs?|jokes?|riddles?|stor(?:y|ies)|novel|slogan|mnemonic|synonyms?|rhymes?|fictional|fictitious|imaginary|made-up|generic|placeholder|dummy|regex|regular\ expression|haiku|gedichte?|witze?|poèmes?|synonym\w*|sin[óôo]nimos?|blagues?|poemas?|chistes?|piadas?)\b
    | \b(?:eine\ funktion|une\ fonction|una\ función|uma\ função|una\ funzione)\b | \ba\ (?:function|for\ loop|one-liner|word|commit\ message|random\ \w+)\b"""
)
"""A task that is the same for anyone: about the world, about the text it brings, or invented."""

_RELATIVES: Final = (
    r"(?:(?:grand|step|god)?(?:mother|father|son|daughter|child|children|kids?)|mum|mom|dad|parents|sisters?|brothers?|siblings?|aunt|uncle|cousins?|nephews?|nieces?|in-laws|granny|grandma|grandpa|wife|husband|partner|girlfriend|boyfriend|fiancée?|baby|twins|toddler|dogs?|cats?|pets?"
    r"|schwester|bruder|mutter|vater|oma|opa|tante|onkel|cousine?|sohn|tochter|kind|kinder|frau|mann|hund|katze|kater"
    r"|sœur|soeur|frère|mère|père|fils|fille|femme|mari|enfants?|chien|chat|chatte"
    r"|hermana|hermano|madre|padre|hija|hijo|hijos|abuel[oa]|esposa|marido|perro|gat[oa]|irmã|irmão|mãe|pai|filh[oa]s?|avó|avô|mulher|cachorro)"
)
_OTHERS: Final = r"(?:friends?|colleagues?|neighbou?rs?|landlord|landlady|boss|manager|teacher|doctor|accountant|client|customer|flatmate|roommate|freund(?:in)?|kolleg(?:e|in|en)|nachbar(?:in)?|chef(?:in)?|vermieter|ami[es]?|collègues?|voisine?|propriétaire|amig[oa]s?|compañer[oa]s?|vecin[oa]|jef[ea]|colegas?|vizinh[oa])"
_OWNED: Final = r"(?:my|our|the|meine?|unsere?|mon|ma|mes|notre|nos|mi|mis|nuestr[oa]s?|(?:o |a |os |as )?(?:meus?|minhas?|noss[oa]s?))"
_ABOUT_RELATIVE: Final = re.compile(rf"(?i)^(?:[\w' ]{{0,30}}, )?{_OWNED} (?:[\w'-]+ ){{0,2}}?{_RELATIVES}\b")
_ABOUT_OTHER: Final = re.compile(
    rf"(?i)^(?:[\w' ]{{0,30}}, )?{_OWNED} (?:[\w'-]+ ){{0,2}}?{_OTHERS}\b|^(?:he|she|they|er|sie|il|elle|ils|elles|él|ella|ellos|ele|ela|eles)\b"
)


_NAMED_OTHER: Final = re.compile(
    r"""(?x)^(?!(?:I|My|We|Our|The|It|This|That|Ich|Wir|Mein\w*|Unser\w*|Je|J|Nous|On|Mon|Ma|Mes|Yo|Mi|Mis|Eu|Meu|Minha|Here|There|People|Everyone)\b)
      [A-ZÀ-Þ][\w'-]+(?:\ [A-ZÀ-Þ][\w'-]+)?\ (?:is|has|was|lives|works|likes|loves|hates|prefers|eats|drinks|speaks|uses|moved|goes|can't|cannot|doesn't
      |ist|hat|wohnt|lebt|arbeitet|mag|isst|spricht|est|a|habite|vit|travaille|parle|mange|aime|es|tiene|vive|trabaja|habla|come|é|tem|mora|trabalha|fala|gosta)\b"""
)
"""A name and a verb in the third person."""


@lru_cache(maxsize=1024)
def acts_for_user(text: str) -> bool:
    """Return whether *text* asks to do something for the user, or for advice on what they are about to do.

    ``Book me a table.`` does; a question, a statement, and a task that is the same for anyone do not.
    """
    said = " ".join(straight(text).split())
    if not said or len(said) > _LONGEST:
        return False
    asked = _ASKED_FOR.match(said)
    rest = said[asked.end() :] if asked is not None else said
    if _GENERAL.search(rest):
        return False
    if _ADVICE.search(rest):
        return True
    if rest != said:
        return not is_interrogative(rest.rstrip("?"))
    return not (is_interrogative(said) or is_declarative(said) or statements(said))


def speaks_of_user(statement: str, *, relatives: bool) -> bool:
    """Return whether *statement* is not about another person; *relatives*: a relative or a pet may be its subject."""
    said = straight(statement).strip()
    if _ABOUT_OTHER.match(said):
        return False
    return relatives or not (_ABOUT_RELATIVE.match(said) or _NAMED_OTHER.match(said))


OF_A_WORD: Final = 1.5
"""What a word of the slot adds, in standard deviations."""
_OF_A_WORD_ALONE: Final = 10.0
"""The same where vectors say nothing: without an embedder, and of a text that is not in the examples' language."""
_OF_SHARED: Final = 0.6
"""There, a text with so large a share of the words of an example is as near as one with a word of the slot."""

FILLS: Final = 0.8
"""From so far ahead on, a statement fills a slot.

Source:
    Of 120 statements that another author wrote for ``eval personal``, 14 fill a slot that is not meant. With 1.5, and
    a third of the texts of no slot, 19 did; ``eval profile`` has 90 % in the block, as before.
"""
FILLS_ONE: Final = 1.6
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
        self._words = [(name, _pattern(tuple(words))) for name, _, words in slots]

    @cached_property
    def _terms(self) -> list[frozenset[str]]:
        return [_terms(text) for text in self.texts]

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


@lru_cache(maxsize=4_096)
def _terms(example: str) -> frozenset[str]:
    return frozenset(tokenise(example))


@lru_cache(maxsize=256)
def _pattern(words: tuple[str, ...]) -> re.Pattern[str] | None:
    """Return what finds one of *words*; each memory that is opened asks for those of the same slots."""
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
        # Each request compares the same memories again, at a third of a millisecond each.
        self._remembered = lru_cache(maxsize=_STATEMENTS)(self._compared)

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

    def filled(self, statement: str, vector: NDArray[np.float32] | None) -> Mapping[str, float]:
        """Return the slots that *statement* fills, best first, with how well it fits each; at most two."""
        known = None if vector is None or self.vectors is None else vector.astype(np.float32, copy=False).tobytes()
        return self._remembered(statement, known)

    def _compared(self, statement: str, numbers: bytes | None) -> Mapping[str, float]:
        """Return what :meth:`filled` does; *numbers* are those of the vector."""
        vector = None if numbers is None else np.frombuffer(numbers, np.float32)
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
_STATEMENTS: Final = 2_048
"""So many statements are remembered with what they fill, each with its vector: 4 MB at most."""


def _by_fit(item: tuple[str, float]) -> float:
    return -item[1]


CONSIDERED: Final = 32
"""So many of the memories closest to a slot may fill it."""
_MOST_VALUES: Final = 5
"""So many values of a slot count."""
_SURE_OF_ONE: Final = 2.0
"""Of a slot with a single value, what fits so much less than the best is not its value, in standard deviations."""
_LONGEST_VALUE: Final = 160
"""A longer sentence fills no slot, in characters."""
_WISHED: Final = re.compile(r"(?i)^I(?:'d| would) (?:like|love) to\b|^I (?:want|hope|wish|plan) to\b")
"""A wish is not the value of a slot with a single one: ``I would like to live in Madrid``."""


@dataclass(frozen=True, slots=True)
class SlotMemory:
    """A memory that fills a slot.

    Attributes:
        slot: The slot's name.
        memory: The memory; of an episode, only the sentence that fills the slot.
        value: What it says of the slot.
        fit: How well it fits.
        vector: Of the memory; ``None``: not known.
        earlier: Whether a newer value probably replaces it.
    """

    slot: str
    memory: Memory
    value: str
    fit: float
    vector: NDArray[np.float32] | None = None
    earlier: bool = False

    @property
    def at(self) -> datetime:
        """When it was said."""
        sources = self.memory.sources
        return (sources[-1].at if sources else None) or self.memory.updated_at

    @property
    def turn_id(self) -> TurnId | None:
        """The turn that said it last."""
        sources = self.memory.sources
        return sources[-1].turn_id if sources else None


@dataclass(frozen=True, slots=True)
class SlotProbe:
    """The search for what fills a slot: its words, and the mean of its examples' vectors."""

    query: Query
    vector: NDArray[np.float32] | None


def to_probe(slot: ProfileSlot, examples: Sequence[str], vectors: ExampleVectors | None) -> SlotProbe:
    """Return the probe of *slot*; *examples* are the texts of *vectors*."""
    words = " ".join((slot.name, *(word.rstrip("*") for word in slot.words)))
    text = f"{slot.description} {words}" if not slot.words else words
    vector = None
    if vectors is not None and slot.facts:
        places = [examples.index(fact) for fact in slot.facts]
        vector = unit(vectors.facts[places].mean(axis=0))
    return SlotProbe(Query(text, alternatives(text)), vector)


def closest(probe: SlotProbe, index: IndexSnapshot, label: str) -> Ranking:
    """Return the memories of the owner with *label* that are closest to *probe*."""
    return index.search(probe.query, probe.vector, prefixes=recalled_namespaces(label), limit=CONSIDERED)


def vectors_of(ranking: Ranking, index: IndexSnapshot) -> NDArray[np.float32] | None:
    """Return the vectors of the hits of *ranking*, shape ``(n, dims)``, zeros for one without; ``None``: not in RAM."""
    if index.vectors is None:
        return None
    return index.vectors.at(index.starts[ranking.hits.slots(len(ranking.hits))]).floats()


FindEarlier: TypeAlias = "Callable[[Sequence[Memory | None], NDArray[np.float32] | None], Mapping[int, int]]"
"""Returns the places of memories that are no longer so, each with that of the newer one which says so."""


def fill(
    slot: ProfileSlot,
    matcher: ProfileMatcher,
    memories: Iterable[Memory | None],
    vectors: NDArray[np.float32] | None,
    *,
    now: datetime,
    find_earlier: FindEarlier,
) -> list[SlotMemory]:
    """Return what fills *slot*, newest first: the newest alone of a slot with a single value.

    Args:
        slot: The slot.
        matcher: Compares statements with the slots.
        memories: The memories closest to the slot; ``None`` for one that is gone.
        vectors: Their vectors, shape ``(n, dims)``.
        now: The time that memories must be valid at.
        find_earlier: Tells which of them a newer one replaces.
    """
    values: list[SlotMemory] = []
    for place, memory in enumerate(memories):
        if memory is not None and _may_fill(memory, now):
            values += _values(slot, matcher, memory, None if vectors is None else vectors[place])
    if slot.single:
        least = max((value.fit for value in values), default=0.0) - _SURE_OF_ONE
        values = [value for value in values if value.fit >= least]
    newest = _distinct(_newest_first(values))
    return newest[:1] if slot.single else _marked(newest[:_MOST_VALUES], find_earlier)


def _may_fill(memory: Memory, now: datetime) -> bool:
    """Return whether *memory* is the user's own statement and is valid."""
    if memory.status != "active" or memory.trust not in TRUSTED or is_summary(memory):
        return False
    if memory.kind == "episodic" and not memory.text.startswith(SAID):
        return False
    return memory.valid_to is None or memory.valid_to > now


def _values(
    slot: ProfileSlot, matcher: ProfileMatcher, memory: Memory, vector: NDArray[np.float32] | None
) -> list[SlotMemory]:
    """Return what *memory* says of *slot*: a fact itself, of an episode each sentence."""
    episode = memory.kind == "episodic"
    parts = _asserted(memory.text) if episode else _fact(memory.text, slot)
    alone = vector if len(parts) == 1 else None
    values: list[SlotMemory] = []
    for part in parts:
        fit = matcher.filled(part, alone).get(slot.name)
        text = matcher.value(part, slot.name)
        if fit is not None and len(text) <= _LONGEST_VALUE:
            said = replace(memory, text=f"{SAID}{part}") if episode else memory
            values.append(SlotMemory(slot.name, said, text, fit, vector))
    return values


def _fact(text: str, slot: ProfileSlot) -> list[str]:
    """Return a fact if it says that something is so; a value that was set for the slot always does."""
    wished = slot.single and _WISHED.search(text) is not None
    return [text] if text.startswith(f"{slot.name}: ") or (asserts(text) and not wished) else []


def _asserted(episode: str) -> list[str]:
    """Return the sentences of *episode* that assert something; of others, the clauses that do."""
    parts = ([one] if asserts(one) else filter(asserts, clauses(one)) for one in sentences_in(episode))
    return list(chain.from_iterable(parts))


def _newest_first(values: Sequence[SlotMemory]) -> list[SlotMemory]:
    """Return *values* by their turns, the newest first; the facts of a turn before its passages."""
    said: dict[TurnId, datetime] = {}
    for value in values:
        if (turn := value.turn_id) is not None:
            said[turn] = max(value.at, said.get(turn, value.at))

    def age(value: SlotMemory) -> tuple[float, bool, float]:
        at = value.at if value.turn_id is None else said[value.turn_id]
        return -at.timestamp(), value.memory.kind == "episodic", -value.at.timestamp()

    return sorted(values, key=age)


def _distinct(values: Sequence[SlotMemory]) -> list[SlotMemory]:
    """Return the values, newest first, that no newer one repeats or ends."""
    distinct: list[SlotMemory] = []
    for value in values:
        if not any(_repeats(newer, value) or denies(newer.value, value.value) for newer in distinct):
            distinct.append(value)
    return distinct


def _marked(values: Sequence[SlotMemory], find_earlier: FindEarlier) -> list[SlotMemory]:
    """Return *values*, those last that a newer one probably replaces, and marked.

    What is so of a relative replaces nothing that is so of the user, nor the other way round.
    """
    by_subject: dict[bool, list[SlotMemory]] = {True: [], False: []}
    for value in values:
        by_subject[speaks_of_user(value.value, relatives=False)].append(value)
    earlier: set[int] = set()
    for several in by_subject.values():
        rows = [value.vector for value in several if value.vector is not None]
        vectors = np.array(rows) if rows and len(rows) == len(several) else None
        found = find_earlier([value.memory for value in several], None if vectors is None else vectors @ vectors.T)
        earlier.update(id(several[place]) for place in found)
    return sorted((replace(value, earlier=id(value) in earlier) for value in values), key=_is_earlier)


def _is_earlier(value: SlotMemory) -> bool:
    return value.earlier


def _repeats(newer: SlotMemory, value: SlotMemory) -> bool:
    """Return whether two values say the same: one holds the other, as a fact and its passage do."""
    one, other = newer.value.casefold().rstrip(".!"), value.value.casefold().rstrip(".!")
    return one in other or other in one
