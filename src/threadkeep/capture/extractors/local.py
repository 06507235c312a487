"""The extractor that needs no model and no key: the user's own words, chosen by rules on sentences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from threadkeep.capture.extractors.base import Extraction
from threadkeep.capture.models import Candidate, Turn
from threadkeep.capture.provenance import backing
from threadkeep.memories.models import ASKED, SAID, Kind, Memory, Source
from threadkeep.models.base import Message
from threadkeep.text.events import tells_when
from threadkeep.text.facts import (
    Statement,
    addresses,
    is_request,
    is_small_talk,
    is_standing,
    meant,
    statements,
    topic_to_forget,
    unwanted,
)
from threadkeep.text.personal_languages import unspaced
from threadkeep.text.redaction import MARK, redact
from threadkeep.text.semantics import gist_of, normalised, speaks_of_self
from threadkeep.text.sentences import sentences
from threadkeep.text.slots import slot_of

MAX_FACTS: Final = 3
MAX_EPISODE_CHARACTERS: Final = 240
MOST_WORDS: Final = 12
"""Of two sentences with so many words that carry them, the longer one says no more."""
LEAST_WORDS: Final = 2
"""A sentence with fewer is about nothing by itself: ``What now?``"""
_OWN_MATTER: Final = 2
"""So many words are worth what is asked, told of oneself, or told with its time."""


class LocalExtractor:
    """At most three lasting facts and one episode a turn, verbatim."""

    name: str = "local"
    uses_known: bool = False

    async def extract(self, turn: Turn, known: Sequence[Memory]) -> Extraction:  # noqa: ARG002 - words alone decide
        """Return the facts and the episode of *turn*; *known* is not looked at."""
        return Extraction(extract_candidates(turn))


def extract_candidates(turn: Turn) -> tuple[Candidate, ...]:
    """Return the lasting facts of *turn*, in the order said, and then what the turn was about.

    Nothing is taken from a turn of which the user says that it shall not be remembered.
    """
    said = [message for message in turn.messages if message.role == "user"]
    if any(unwanted(message.text) for message in said):
        return ()
    recalled = tuple(normalised(text) for text in turn.recalled)
    own = [
        (message, sentence)
        for message in said
        for sentence in sentences(redact(message.text))
        if MARK not in sentence and not _is_recalled(sentence, recalled) and topic_to_forget(sentence) is None
    ]
    earnest = [(message, sentence) for message, sentence in own if meant(message.text)]
    facts = _best([(message, found) for message, sentence in earnest for found in statements(sentence)], recalled)
    kept = [
        _candidate(turn, message, fact.text, "procedural" if is_standing(fact.text) else "semantic", place)
        for place, (message, fact) in enumerate(facts)
    ]
    if episode := _episode(own, [fact.text for _, fact in facts]):
        message, text = episode
        kept.append(_candidate(turn, message, text, "episodic", len(kept)))
    return tuple(kept)


def _best(found: list[tuple[Message, Statement]], recalled: tuple[str, ...]) -> list[tuple[Message, Statement]]:
    """Return the best three of each message in the order said; of two that score the same, the earlier one.

    A turn has several messages of the user where earlier inputs were never answered, because the
    model failed or the process was killed: each input teaches what it would have taught alone.
    """
    distinct: dict[str, tuple[int, Message, Statement]] = {}
    for place, (message, fact) in enumerate(found):
        if not _is_recalled(fact.text, recalled):
            distinct.setdefault(normalised(fact.text), (place, message, fact))
    of_message: dict[int, list[tuple[int, Message, Statement]]] = {}
    for one in distinct.values():
        of_message.setdefault(id(one[1]), []).append(one)
    best = [
        one for said in of_message.values() for one in sorted(said, key=lambda one: (-one[2].score, one[0]))[:MAX_FACTS]
    ]
    return [(message, fact) for _, message, fact in sorted(best, key=lambda one: one[0])]


def _is_recalled(sentence: str, recalled: tuple[str, ...]) -> bool:
    said = normalised(sentence)
    return any(said == text or f" {said}. " in f" {text}. " for text in recalled)


def _episode(own: list[tuple[Message, str]], facts: Sequence[str]) -> tuple[Message, str] | None:
    """Say in one sentence what the turn was about: the one that says most of those that no fact holds.

    What was asked is what a turn with an assistant is about, so of two that say as much it is preferred. Where facts
    hold everything, it says them again; recall leaves it out beside them and beside what took their place.
    """
    meant = [(message, sentence) for message, sentence in own if not is_small_talk(sentence)]
    rest = [(m, s) for m, s in meant if is_request(s) or not any(fact in s for fact in facts)] or meant
    if not rest:
        return None
    message, sentence = max(rest, key=lambda one: _weight(one[1]))
    if _length(sentence) < LEAST_WORDS:
        return None
    return message, f"{ASKED if is_request(sentence) else SAID}{_cut(sentence)}"


def _length(sentence: str) -> int:
    return max(len(gist_of(sentence).words), unspaced(sentence))


def _weight(sentence: str) -> int:
    """Return how much *sentence* says about its turn: by its content words and its subject."""
    said = min(_length(sentence), MOST_WORDS)
    if is_request(sentence):
        return said + _OWN_MATTER
    own = _OWN_MATTER * speaks_of_self(sentence) + _OWN_MATTER * tells_when(sentence)
    return said + own - _OWN_MATTER * addresses(sentence)


def _cut(sentence: str) -> str:
    if len(sentence) <= MAX_EPISODE_CHARACTERS:
        return sentence
    head = sentence[:MAX_EPISODE_CHARACTERS]
    return f"{head.rsplit(' ', 1)[0] if ' ' in head else head}…"


def _candidate(turn: Turn, message: Message, text: str, kind: Kind, place: int) -> Candidate:
    # A microsecond apart, so that "it is red … no, it is blue" ends with blue.
    at = turn.at + timedelta(microseconds=place)
    source = Source("user", turn.thread_id, message.message_id, turn.turn_id, at)
    return Candidate(text, kind, source, slot_of(text) if kind == "semantic" else None)


MAX_CHARACTERS: Final = 1_000


def with_episode(candidates: Sequence[Candidate], turn: Turn) -> tuple[Candidate, ...]:
    """Return *candidates* with one episode: the first that the user's words bear out, else one made of those words.

    What a reply, a tool or a document says does not become history by way of a summary.
    """
    facts = [candidate for candidate in candidates if candidate.kind != "episodic"]
    borne_out = (
        candidate
        for candidate in candidates
        if candidate.kind == "episodic"
        and len(candidate.text) <= MAX_CHARACTERS
        and backing(candidate.text, "episodic", turn.messages).speaker == "user"
    )
    made = (candidate for candidate in extract_candidates(turn) if candidate.kind == "episodic")
    episode = next(borne_out, None) or next(made, None)
    return (*facts, episode) if episode else tuple(facts)
