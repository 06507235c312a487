"""What becomes of candidates: new, an update with history, a duplicate, refused, or proposed. Pure rules.

The outcome depends on what was said and when, not on when or how often it is told: candidates may
come in any order and as often as they like, in one call or in many.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypeAlias

from threadkeep.capture.models import Candidate
from threadkeep.capture.slot_history import Saying, bounded, in_force, runs_of, same_saying, to_memory, with_saying
from threadkeep.ids import MemoryId, TurnId, short_digest
from threadkeep.memories.models import TRUSTED, Approval, Kind, Memory, Speaker
from threadkeep.proposals.models import Action, Proposal, Verdict, by_default
from threadkeep.storage.interface import Expectation, Namespace
from threadkeep.text.facts import ended_by
from threadkeep.text.redaction import has_secret
from threadkeep.text.semantics import content_words, gist_of, normalised, same_meaning
from threadkeep.text.slots import slot_of

MAX_CHARACTERS: Final = 1_000
_OF_ANOTHER: Final = re.compile(
    r"(?i)^\W*(?:(?:the |this )?(?:ai )?(?:assistant|chat ?bot|language model|llm)\b|as an ai\b|you(?:'re| are)\b)"
)
_UNCHANGING: Final = frozenset({"birthday", "my blood type", "my native language", "my mother tongue"})
_OF_USER: Final = re.compile(r"(?i)^\W*(?:the\s+)?users?\b")
NEAR: Final = 0.95
"""Cosine from which two statements with the same content words are one."""
Similarity: TypeAlias = Callable[[str, str], float]
"""The cosine of two texts; 0 where it is not known."""


@dataclass(frozen=True, slots=True)
class Add:
    """A statement that is new."""

    memory: Memory


@dataclass(frozen=True, slots=True)
class Update:
    """A memory about a subject that has another answer now, or had another one before.

    Attributes:
        memory: With the old statement in its history.
        revision: The one that was read; 0 for a memory that is new in the same batch.
    """

    memory: Memory
    revision: int


@dataclass(frozen=True, slots=True)
class Contradiction(Update):
    """An update where both cannot have been true: the newer counts, and both stay visible in the history."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A statement that is known.

    Attributes:
        of: The memory that says it.
        memory: With the new source among its own; the very same as before where it came from there.
    """

    of: MemoryId
    memory: Memory


@dataclass(frozen=True, slots=True)
class Reject:
    """A statement that must not be kept.

    Attributes:
        reason: ``empty``, ``too long``, ``secret``, ``recalled``, ``not about the owner``, ``rejected before``,
            ``erased before`` or ``policy``.
        candidate: The statement.
    """

    reason: str
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class Propose:
    """A statement that waits for an approval.

    Attributes:
        candidate: The statement; of a removal, none.
        action: What would be done.
        base: The memory that would be corrected or forgotten.
        known: The proposal that waits for the same already.
    """

    candidate: Candidate | None
    action: Action
    base: Memory | None = None
    known: Proposal | None = None


RememberResult: TypeAlias = Add | Update | Duplicate
Decision: TypeAlias = RememberResult | Reject | Propose


@dataclass(frozen=True, slots=True)
class Rules:
    """What decisions rest on, beside what is known.

    Attributes:
        namespace: Where new memories are kept.
        now: The time of learning.
        similarity: Cosine of two texts.
        recalled: Texts that recall had put in before the turn; such a candidate is refused.
        verdict: What is kept by itself, what is proposed and what is never kept.
        unwanted: Why a text must not be learnt again, if so.
        pending: Proposals that wait.
    """

    namespace: Namespace
    now: datetime
    similarity: Similarity = lambda _a, _b: 0.0
    recalled: Sequence[str] = ()
    verdict: Callable[[Kind, Speaker], Verdict] = by_default
    unwanted: Callable[[str], str | None] = lambda _: None
    pending: Sequence[Proposal] = ()


def reconcile(candidates: Sequence[Candidate], known: Sequence[Memory], rules: Rules) -> tuple[Decision, ...]:
    """Decide on each candidate, in the order in which they were said.

    Args:
        candidates: What extractors found; in any order, and repeated as it may be.
        known: The owner's memories that may say the same or stand in the same slot.
        rules: What else the decision rests on.

    Returns:
        One decision a candidate. Each builds on those before it, so the last one about a memory
        holds the whole; :func:`writes` gives what has to be written.
    """
    state = {memory.memory_id: memory for memory in known}
    put_in = {normalised(text) for text in rules.recalled}
    return tuple(_decide(candidate, state, put_in, rules) for candidate in sorted(candidates, key=_said))


def removals(memory_ids: Sequence[MemoryId], known: Sequence[Memory], rules: Rules) -> tuple[Propose, ...]:
    """Return what becomes of memories that an extractor would have removed: it may propose it."""
    by_id = {memory.memory_id: memory for memory in known if memory.status == "active"}
    waiting = {proposal.memory_id: proposal for proposal in rules.pending if proposal.action == "forget"}
    return tuple(
        Propose(None, "forget", by_id[key], waiting.get(key))
        for key in dict.fromkeys(memory_ids)
        if key in by_id and rules.verdict(by_id[key].kind, "assistant") != "never"
    )


def confirmed(decisions: Sequence[Decision], pending: Sequence[Proposal]) -> tuple[tuple[Proposal, MemoryId], ...]:
    """Return the proposals with statements that the user has made too, each with the memory that holds it."""
    kept = [decision.memory for decision in decisions if isinstance(decision, Add | Update | Duplicate)]
    found: dict[str, tuple[Proposal, MemoryId]] = {}
    for memory in kept:
        if memory.trust != "user":
            continue
        said = gist_of(memory.text)
        for proposal in pending:
            if (proposal.action, proposal.kind) == ("add", memory.kind) and same_meaning(gist_of(proposal.text), said):
                found[proposal.proposal_id] = (proposal, memory.memory_id)
    return tuple(found.values())


def writes(decisions: Sequence[Decision], known: Sequence[Memory]) -> tuple[tuple[Memory, Expectation], ...]:
    """Return the memories that *decisions* change, as they end, each with what must be in its place."""
    before = {memory.memory_id: memory for memory in known}
    ends: dict[MemoryId, Memory] = {
        decision.memory.memory_id: decision.memory
        for decision in decisions
        if isinstance(decision, Add | Update | Duplicate)
    }
    return tuple(
        (memory, before[key].revision if key in before else "absent")
        for key, memory in ends.items()
        if before.get(key) != memory
    )


def memory_id_of(turn_id: TurnId | None, kind: Kind, text: str) -> MemoryId:
    """Return the key of what *text* of a turn becomes: the same whenever and wherever it is worked out."""
    return MemoryId(short_digest("captured", turn_id or "", kind, normalised(text)))


def _said(candidate: Candidate) -> tuple[str, str, str, str, str]:
    source = candidate.source
    at = source.at.isoformat() if source.at else ""
    return at, source.turn_id or "", candidate.kind, normalised(candidate.text), source.message_id or ""


def _decide(candidate: Candidate, state: dict[MemoryId, Memory], put_in: set[str], rules: Rules) -> Decision:
    if reason := _refusal(candidate, put_in):
        return Reject(reason, candidate)
    alike = [memory for memory in state.values() if memory.kind == candidate.kind]
    if any(m.status == "rejected" and _says(m.text, candidate.text, rules.similarity) for m in alike):
        return Reject("rejected before", candidate)
    if not asks_again(candidate) and (reason := rules.unwanted(candidate.text)):
        return Reject(reason, candidate)
    verdict = rules.verdict(candidate.kind, candidate.source.speaker)
    if verdict == "never":
        return Reject("policy", candidate)
    active = [memory for memory in alike if memory.status == "active" and memory.valid_to is None]
    in_slot = [memory for memory in active if _one_subject(candidate, memory)]
    target = next((memory for memory in active if memory.memory_id == candidate.target), None)
    place = target or max(in_slot, key=_recency, default=None)
    twin = _find_same(candidate, active, rules.similarity)
    if verdict == "ask":
        return _proposed(candidate, place, twin, rules)
    if place is not None:
        decision: RememberResult = _placed(candidate, place, rules.now, rules.similarity)
    elif twin is not None:
        decision = _again(candidate, twin, rules.now)
    else:
        decision = _added(candidate, state, rules)
    state[decision.memory.memory_id] = decision.memory
    return decision


def asks_again(candidate: Candidate) -> bool:
    """Return whether the user asks that *candidate* is remembered, which lifts tombstones; not how to behave."""
    return candidate.asked and candidate.kind == "semantic" and candidate.source.speaker == "user"


def _proposed(candidate: Candidate, place: Memory | None, twin: Memory | None, rules: Rules) -> Decision:
    """Let a statement wait, unless a memory says it, which then is nothing new."""
    if twin is not None:
        return Duplicate(twin.memory_id, twin)
    if place is not None and _says(place.text, candidate.text, rules.similarity):
        return Duplicate(place.memory_id, place)
    said = gist_of(candidate.text)
    known = next(
        (
            one
            for one in rules.pending
            if one.kind == candidate.kind
            and (normalised(one.text) == normalised(candidate.text) or same_meaning(gist_of(one.text), said))
        ),
        None,
    )
    return Propose(candidate, "correct" if place else "add", place, known)


def _refusal(candidate: Candidate, put_in: set[str]) -> str | None:
    text = candidate.text.strip()
    if not text:
        return "empty"
    if len(text) > MAX_CHARACTERS:
        return "too long"
    if has_secret(text):
        return "secret"
    if _OF_ANOTHER.match(text):
        return "not about the owner"
    return "recalled" if normalised(text) in put_in else None


def _of_user(text: str) -> bool:
    return _OF_USER.match(text) is not None


def _one_subject(candidate: Candidate, memory: Memory) -> bool:
    """Whether both answer the same question, or one says, or said, that the other is no longer so."""
    if candidate.kind == "episodic":
        return False
    said, known = ended_by(candidate.text), ended_by(memory.text)
    slot = candidate.slot or slot_of(said or candidate.text)
    if slot is not None and slot_of(known or memory.text) == slot:
        return True
    ends = said is not None or known is not None or any(ended_by(old.text) for old in memory.history)
    return ends and same_meaning(gist_of(said or candidate.text), gist_of(known or memory.text))


def _recency(memory: Memory) -> tuple[datetime, str]:
    return in_force(runs_of(memory))[-1].start, memory.memory_id


def _find_same(candidate: Candidate, active: Sequence[Memory], similarity: Similarity) -> Memory | None:
    """Return the oldest memory that says the same; the very same words before nearly the same."""
    same = [memory for memory in active if _says(memory.text, candidate.text, similarity)]
    exact = [memory for memory in same if normalised(memory.text) == normalised(candidate.text)]
    return min(exact or same, key=lambda memory: (memory.created_at, memory.memory_id), default=None)


def _says(known: str, text: str, similarity: Similarity) -> bool:
    if normalised(known) == normalised(text):
        return True
    if _of_user(known) != _of_user(text):  # one was worded by a model: "The user lives …" beside "I live …"
        return same_meaning(gist_of(known), gist_of(text))
    return content_words(known) == content_words(text) and similarity(text, known) >= NEAR


def _placed(candidate: Candidate, memory: Memory, now: datetime, similarity: Similarity) -> RememberResult:
    """Put the statement where it belongs among what was said on the same subject."""
    saying = _saying(candidate, now)
    before = runs_of(memory)
    after = with_saying(before, saying, same=lambda a, b: _says(a, b, similarity))
    if after == before:
        return Duplicate(memory.memory_id, memory)
    changed = to_memory(memory, after, trust=candidate.source.speaker, now=now)
    if len(after) == len(before) and changed.text == memory.text:
        return Duplicate(memory.memory_id, changed)
    if changed.text == candidate.text.strip():
        changed = replace(changed, metadata={**memory.metadata, **candidate.metadata})
    decision = Contradiction if _contradicts(changed.text, memory.text) else Update
    return decision(changed, memory.revision)


def _contradicts(text: str, known: str) -> bool:
    """Return whether one denies the other, or both cannot be true: a person has one birthday."""
    said, before = gist_of(text), gist_of(known)
    if set(said.words) == set(before.words) and said.denied != before.denied and ended_by(text) is None:
        return True
    return slot_of(text) in _UNCHANGING and slot_of(text) == slot_of(known) and said.words != before.words


def _again(candidate: Candidate, memory: Memory, now: datetime) -> Duplicate:
    source = candidate.source
    if any(same_saying(source, known) for known in memory.sources):
        return Duplicate(memory.memory_id, memory)
    sources = bounded(
        sorted((*memory.sources, source), key=lambda one: (one.at or memory.created_at, one.turn_id or ""))
    )
    if sources == memory.sources:
        return Duplicate(memory.memory_id, memory)
    # Of two wordings the one that was said first counts, whichever is told first.
    text = candidate.text.strip() if sources[0] == source else memory.text
    return Duplicate(memory.memory_id, replace(memory, text=text, sources=sources, updated_at=now))


def _added(candidate: Candidate, state: Mapping[MemoryId, Memory], rules: Rules) -> RememberResult:
    source = candidate.source
    key = memory_id_of(source.turn_id, candidate.kind, candidate.text)
    if key in state:  # it says something else by now, or is no longer true: what was decided stays
        return Duplicate(key, state[key])
    memory = Memory(
        memory_id=key,
        namespace=rules.namespace,
        text=candidate.text.strip(),
        kind=candidate.kind,
        status="active",
        trust=source.speaker,
        sources=(source,),
        revision=0,
        created_at=source.at or rules.now,
        updated_at=rules.now,
        valid_from=candidate.valid_from,
        approval=_approval(source.speaker, rules.now),
        metadata=candidate.metadata,
    )
    return Add(memory)


def _saying(candidate: Candidate, now: datetime) -> Saying:
    source = candidate.source
    approval = _approval(source.speaker, now)
    return Saying(candidate.text.strip(), source, source.at or now, candidate.valid_from, approval)


def _approval(speaker: Speaker, now: datetime) -> Approval | None:
    """Return the policy's approval, which statements of other speakers than the user need to be kept."""
    return None if speaker in TRUSTED else Approval("policy", now)
