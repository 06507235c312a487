"""The extractor that needs no model and no key: the user's own words, chosen by rules on sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain, groupby, islice
from typing import Final

from threadkeep.capture.extractors import Extraction
from threadkeep.capture.models import Candidate, Turn
from threadkeep.capture.provenance import backing, kept_sentences, own_sentences, unattributed_line
from threadkeep.capture.turn_history import off_loop_if
from threadkeep.capture.turns import is_long
from threadkeep.memories.kinds import Kind
from threadkeep.memories.models import ASKED, SAID, Memory, Source
from threadkeep.models.base import INPUT_ROLES, Message
from threadkeep.text.claims import change_in
from threadkeep.text.facts import (
    Statement,
    asks_to_remember,
    begins_irony,
    is_filler,
    is_small_talk,
    is_standing,
    is_taken_back,
    meant,
    statements,
)
from threadkeep.text.quoted import holds_text, is_pasted, pasted_paragraphs
from threadkeep.text.requests import is_request, topic_to_forget, unwanted
from threadkeep.text.semantics import gist_of, normalised
from threadkeep.text.slots import slot_of
from threadkeep.text.tokenizing import unspaced

MAX_FACTS: Final = 3
MAX_PASSAGE_CHARACTERS: Final = 240
MAX_PASSAGES: Final = 48
"""A turn has so many passages at most, about 10,000 characters."""
_FULL_PASSAGE: Final = 100
"""From so many characters on, the next sentence begins a passage of its own."""
LEAST_WORDS: Final = 2
"""A request with fewer words that carry it is about nothing by itself: ``What now?``"""
_REFERS_BACK: Final = re.compile(
    r"(?i)(?:and|but|so|or|also|then|because|which|who|he|she|it|they|them|his|her|hers|its|their|theirs|this|that|these"
    r"|those|there|both|neither|one|er|sie|es|und|aber|il|elle|ils|elles|et|mais|él|ella|y|pero|ele|ela|e|mas)\b"
)


_OWN_THING: Final = re.compile(r"(?i)(?:my|our)(?: [\w'-]+){1,4}$")
"""``my phone number``, as it is asked to forget: with a verb it answers the question that every value of it answers."""


class LocalExtractor:
    """At most three lasting facts a message, and the user's words as episodes, verbatim."""

    name: str = "local"
    uses_known: bool = False

    async def extract(self, turn: Turn, known: Sequence[Memory]) -> Extraction:  # noqa: ARG002 - words alone decide
        """Return the facts and the episodes of *turn*; *known* is not looked at."""
        return Extraction(await off_loop_if(is_long(turn), extract_candidates, turn))


def extract_candidates(turn: Turn) -> tuple[Candidate, ...]:
    """Return the lasting facts of *turn*, in the order said, and then the user's words.

    Nothing is taken from a turn, or from a sentence, of which the user says that it shall not be remembered.
    """
    said = [message for message in turn.messages if message.role in INPUT_ROLES]
    if any(unwanted(message.text) for message in said):
        return ()
    recalled = tuple(normalised(text) for text in turn.recalled)
    own = [
        (message, sentence)
        for message in said
        for sentence in kept_sentences(message.text)
        if not _is_recalled(sentence, recalled)
    ]
    in_earnest = {
        id(message) for message in said if not turn.played and meant(message.text) and not begins_irony(message.text)
    }
    found = [
        (message, sentence, one)
        for place, (message, sentence) in enumerate(own)
        if id(message) in in_earnest and not any(is_taken_back(after) for _, after in own[place + 1 : place + 2])
        for one in statements(sentence, beside_text=holds_text(message.text))
    ]
    wanted = {one.text for message, sentence, one in found if message.role == "user" and asks_to_remember(sentence)}
    facts = _best([(message, one) for message, _, one in found], recalled)
    kept = [
        replace(
            _candidate(turn, message, fact.text, "procedural" if is_standing(fact.text) else "semantic", place),
            asked=fact.text in wanted,
        )
        for place, (message, fact) in enumerate(facts)
    ]
    rules = {fact.text for (_, fact), one in zip(facts, kept, strict=True) if one.kind == "procedural"}
    users = [
        (message, sentence)
        for message, sentence in own
        if message.role == "user" and not (rules and _is_rule(sentence, rules))
    ]
    labelled = (  # as what was asked about: no statement of the user's
        (message, f"{ASKED}{line}")
        for message in said
        if message.role == "user" and (line := unattributed_line(message.text)) and not _is_recalled(line, recalled)
    )
    for message, text in islice(chain(_passages(users, played=turn.played), labelled), MAX_PASSAGES):
        kept.append(_candidate(turn, message, text, "episodic", len(kept)))
    return tuple(kept)


def topics_to_forget(turn: Turn) -> tuple[str, ...]:
    """Return what the user asks to forget, as statements: ``I like jazz`` of ``Forget that I like jazz``."""
    said = [message.text for message in turn.messages if message.role == "user"]
    topics = [topic for text in said for one in own_sentences(text) if (topic := topic_to_forget(one)) is not None]
    return tuple(f"{topic[0].upper()}{topic[1:]}{' is this' if _OWN_THING.match(topic) else ''}" for topic in topics)


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


def _is_rule(sentence: str, rules: set[str]) -> bool:
    """Return whether *sentence* says nothing but *rules*, which are not recalled before approval."""
    said = {one.text for one in statements(sentence)}
    return bool(said) and said <= rules


def _passages(own: Sequence[tuple[Message, str]], *, played: bool) -> Iterator[tuple[Message, str]]:
    """Yield the user's words of each message as passages of a few sentences: what was told, then what was asked.

    Together they hold every sentence but greetings, rules of behaviour and the like, so that facts are a view of the
    turn and never replace it. What was told and what was asked stand apart, because a question is near to what it asks
    about.
    """
    for message, group in groupby(own, key=lambda one: one[0]):
        said = [sentence for _, sentence in group if not is_small_talk(sentence)]
        asked = [sentence for sentence in said if is_request(sentence) and not asks_to_remember(sentence)]
        told = [sentence for sentence in said if sentence not in asked]
        if played or (asked and not meant(message.text)):  # a part that is played is no statement without what says so
            told, asked = [], said
        elif pasted_paragraphs(message.text):  # nor is what may be another author's
            told = [sentence for sentence in told if not is_pasted(sentence, message.text)]
            asked = [sentence for sentence in said if sentence not in told]
        told.sort(key=_names_nothing)  # last, so that a passage is near to what it is about
        for lead, sentences, least in ((SAID, told, 1), (ASKED, asked, LEAST_WORDS)):
            if sum(map(_length, sentences)) >= least:
                yield from ((message, lead + passage) for passage in _joined(sentences))


def _names_nothing(sentence: str) -> bool:
    """Return whether a passage means the same with *sentence* at its end: it names nothing and tells of no change."""
    return is_filler(sentence) and not (_REFERS_BACK.match(sentence) or change_in(sentence))


def _joined(said: Sequence[str]) -> Iterator[str]:
    """Join neighbours to passages; a sentence that refers to the one before it stays with it where both fit."""
    passage = ""
    for sentence in said:
        room = MAX_PASSAGE_CHARACTERS - len(passage) - 1
        if passage and (len(sentence) > room or (len(passage) >= _FULL_PASSAGE and not _REFERS_BACK.match(sentence))):
            yield passage
            passage = ""
        *cut, last = _cut(sentence)
        yield from cut
        passage = f"{_ended(passage)} {last}".lstrip()
    if passage:
        yield passage


def _ended(passage: str) -> str:
    """Return *passage* with a full stop where its last sentence has no end, so that it does not run into the next."""
    return f"{passage}." if passage[-1:].isalnum() and not unspaced(passage[-1]) else passage


def _length(text: str) -> int:
    return max(len(gist_of(text).words), unspaced(text))


def _cut(sentence: str) -> list[str]:
    """Cut a sentence that is too long for a passage at words."""
    pieces: list[str] = []
    while len(sentence) > MAX_PASSAGE_CHARACTERS:
        end = sentence.rfind(" ", 1, MAX_PASSAGE_CHARACTERS) + 1 or MAX_PASSAGE_CHARACTERS
        pieces.append(f"{sentence[:end].rstrip()}…")
        sentence = sentence[end:]
    return [*pieces, sentence]


def _candidate(turn: Turn, message: Message, text: str, kind: Kind, place: int) -> Candidate:
    # A microsecond apart, so that "it is red … no, it is blue" ends with blue.
    at = turn.at + timedelta(microseconds=place)
    speaker = "agent" if message.role == "agent" else "user"
    source = Source(speaker, turn.thread_id, message.message_id, turn.turn_id, at)
    return Candidate(text, kind, source, slot_of(text) if kind == "semantic" else None)


MAX_CHARACTERS: Final = 1_000


def with_episodes(candidates: Sequence[Candidate], turn: Turn) -> tuple[Candidate, ...]:
    """Return the facts of *candidates*, their first episode that the user's words bear out, and the user's words.

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
    passages = (candidate for candidate in extract_candidates(turn) if candidate.kind == "episodic")
    return (*facts, *islice(borne_out, 1), *passages)
