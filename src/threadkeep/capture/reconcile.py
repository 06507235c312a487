"""What becomes of candidates: new, an update with history, a duplicate, refused, or proposed. Pure rules.

The outcome depends on what was said and when, not on when or how often it is told: candidates may
come in any order and as often as they like, in one call or in many.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, TypeAlias

from threadkeep.capture.models import Candidate
from threadkeep.ids import MemoryId, TurnId, short_digest
from threadkeep.memories.kinds import Kind, family, ruled_kind
from threadkeep.memories.models import TRUSTED, Approval, Memory, Source, Speaker, Version
from threadkeep.proposals.models import Action, Proposal, Verdict, by_default
from threadkeep.storage.interface import Expectation, Namespace
from threadkeep.text.redaction import has_secret
from threadkeep.text.semantics import content_words, denies, ended_by, gist_of, normalised, same_meaning
from threadkeep.text.slots import slot_of

MAX_SOURCES: Final = 64
_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Saying:
    """One statement, said once.

    Attributes:
        text: The statement.
        source: Where it was said.
        at: When.
        valid_from: From when it is true, where the words say so.
        approval: Its approval, if it needed one.
    """

    text: str
    source: Source
    at: datetime
    valid_from: datetime | None = None
    approval: Approval | None = None


@dataclass(frozen=True, slots=True)
class AnswerPeriod:
    """A stretch of time in which the same answer was given.

    Attributes:
        text: The answer.
        sources: Everywhere it was given, oldest first.
        start: When it was given first.
        valid_from: As the words or an edit say; ``None``: from *start* on, as far as known.
        valid_to: As it was kept; ``None``: until the next run.
        replaced_at: When the next run was learnt; ``None`` for the last.
        approval: Its approval, if it had one.
    """

    text: str
    sources: tuple[Source, ...]
    start: datetime
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    replaced_at: datetime | None = None
    approval: Approval | None = None


def same_saying(one: Source, other: Source) -> bool:
    """Return whether both are one saying, though a turn may have been recorded twice."""
    if one == other:
        return True
    if one.message_id is not None and one.message_id == other.message_id:
        return True
    return one.turn_id is not None and one.turn_id == other.turn_id


def runs_of(memory: Memory) -> tuple[AnswerPeriod, ...]:
    """Return the runs of *memory* by time, idle ones among them; the starts of the others never go back."""
    told = [old for old in memory.history if not _is_idle(old)]
    idle = [
        AnswerPeriod(old.text, old.sources, _first_said(old, memory), None, None, old.replaced_at, old.approval)
        for old in memory.history
        if _is_idle(old)
    ]
    rows: list[AnswerPeriod] = []
    earliest = _LONG_AGO
    for row in (*told, memory):
        start = max(_first_said(row, memory), earliest)
        valid_from = None if row.valid_from == start else row.valid_from
        replaced_at = row.replaced_at if isinstance(row, Version) else None
        rows.append(AnswerPeriod(row.text, row.sources, start, valid_from, row.valid_to, replaced_at, row.approval))
        earliest = start
    effective = [
        # What only follows from the order is left open, so that it is worked out anew when the order changes.
        replace(row, valid_to=None) if place + 1 < len(rows) and row.valid_to == _valid_from(rows, place + 1) else row
        for place, row in enumerate(rows)
    ]
    return tuple(sorted((*effective, *idle), key=lambda run: run.start)) if idle else tuple(effective)


def _first_said(row: Version | Memory, memory: Memory) -> datetime:
    said = [source.at for source in row.sources if source.at is not None]
    return min(said, default=row.valid_from or memory.created_at)


def _is_idle(old: Version) -> bool:
    return old.valid_from is not None and old.valid_from == old.valid_to and ended_by(old.text) is not None


def bounded(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Return the first and the last of *sources*: a thing said every day must not grow without end."""
    return tuple(sources) if len(sources) <= MAX_SOURCES else (sources[0], *sources[1 - MAX_SOURCES :])


def with_saying(
    runs: Sequence[AnswerPeriod], saying: Saying, *, same: Callable[[str, str], bool]
) -> tuple[AnswerPeriod, ...]:
    """Return *runs* with *saying* where it belongs; the very same where it is there already.

    Between two different answers it makes a run of its own; beside the same answer it joins it; in
    the middle of a longer run of another answer it parts that run in two.
    """
    if any(same(run.text, saying.text) and _has(run, saying.source) for run in runs):
        return tuple(runs)
    place = sum((run.start, normalised(run.text)) <= (saying.at, normalised(saying.text)) for run in runs)
    before, after = list(runs[:place]), list(runs[place:])
    if before and same(before[-1].text, saying.text):
        return (*before[:-1], _joined(before[-1], saying), *after)
    later = _said_after(before[-1], saying) if before else ()
    if later:
        run = before.pop()
        first = replace(run, sources=tuple(s for s in run.sources if s not in later), replaced_at=None, valid_to=None)
        again = replace(run, sources=later, start=later[0].at or run.start, valid_from=None)
        before, after = [*before, first], [again, *after]
    elif after and same(after[0].text, saying.text):
        return (*before, _joined(after[0], saying), *after[1:])
    new = AnswerPeriod(saying.text, (saying.source,), saying.at, saying.valid_from, approval=saying.approval)
    return (*before, new, *after)


def in_force(runs: Sequence[AnswerPeriod]) -> tuple[AnswerPeriod, ...]:
    """Return the runs that count, the present one last: an ending counts where it denies what was in force."""
    found: list[AnswerPeriod] = []
    for run in runs:
        if ended_by(run.text) is None or not found or denies(run.text, found[-1].text):
            found.append(run)
    return tuple(found)


def to_memory(memory: Memory, runs: Sequence[AnswerPeriod], *, trust: Speaker, now: datetime) -> Memory:
    """Return *memory* with *runs* as its history and its present statement."""
    effective = in_force(runs)
    last = effective[-1]
    history: list[Version] = []
    for run in runs:
        if run is last:
            continue
        place = next((place for place, one in enumerate(effective) if one is run), None)
        begin = run.start if place is None else _valid_from(effective, place)
        end = run.start if place is None else run.valid_to or _valid_from(effective, place + 1)
        history.append(Version(run.text, begin, end, run.replaced_at or now, run.sources, run.approval))
    return replace(
        memory,
        text=last.text,
        sources=last.sources,
        trust=trust if normalised(last.text) != normalised(memory.text) else memory.trust,
        valid_from=_valid_from(effective, len(effective) - 1),
        valid_to=None,
        history=tuple(history),
        approval=last.approval,
        updated_at=now,
    )


def _valid_from(runs: Sequence[AnswerPeriod], place: int) -> datetime | None:
    """An answer that followed another is true from when it was given; of the first one that is not known."""
    run = runs[place]
    return run.valid_from or (run.start if place else None)


def _has(run: AnswerPeriod, source: Source) -> bool:
    return any(same_saying(source, known) for known in run.sources)


def _said_after(run: AnswerPeriod, saying: Saying) -> tuple[Source, ...]:
    return tuple(source for source in run.sources if source.at is not None and source.at > saying.at)


def _joined(run: AnswerPeriod, saying: Saying) -> AnswerPeriod:
    sources = sorted((*run.sources, saying.source), key=lambda one: (one.at or run.start, one.turn_id or ""))
    start = min(run.start, saying.at)
    text = saying.text if sources[0] == saying.source else run.text  # of two wordings, the one that was said first
    return replace(
        run, text=text, sources=bounded(sources), start=start, valid_from=run.valid_from or saying.valid_from
    )


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
        speaker: Who would have a memory removed.
    """

    candidate: Candidate | None
    action: Action
    base: Memory | None = None
    known: Proposal | None = None
    speaker: Speaker = "assistant"


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
    return tuple([_decide(candidate, state, put_in, rules) for candidate in sorted(candidates, key=_said)])


def removals(
    memory_ids: Sequence[MemoryId], known: Sequence[Memory], rules: Rules, *, speaker: Speaker = "assistant"
) -> tuple[Propose, ...]:
    """Return what becomes of memories that an extractor, or the user, would have removed: it is proposed."""
    if not memory_ids:
        return ()
    by_id = {memory.memory_id: memory for memory in known if memory.status == "active"}
    waiting = {proposal.memory_id: proposal for proposal in rules.pending if proposal.action == "forget"}
    return tuple(
        Propose(None, "forget", by_id[key], waiting.get(key), speaker)
        for key in dict.fromkeys(memory_ids)
        if key in by_id and (speaker == "user" or rules.verdict(by_id[key].kind, speaker) != "never")
    )


def saying(topics: Sequence[str], known: Sequence[Memory]) -> tuple[MemoryId, ...]:
    """Return the memories of *known* that say, or answer, what one of *topics* does."""
    said = [(gist_of(topic), slot_of(topic)) for topic in topics]
    return tuple(
        memory.memory_id
        for memory in known
        if memory.kind != "episodic"
        and any(
            same_meaning(gist, gist_of(memory.text)) or (slot and slot == slot_of(memory.text)) for gist, slot in said
        )
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
    changed: list[tuple[Memory, Expectation]] = [
        (memory, before[key].revision if key in before else "absent")
        for key, memory in ends.items()
        if before.get(key) != memory
    ]
    return tuple(changed)


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
    alike = [memory for memory in state.values() if family(memory.kind) == family(candidate.kind)]
    if any(m.status == "rejected" and _says(m.text, candidate.text, rules.similarity) for m in alike):
        return Reject("rejected before", candidate)
    if not asks_again(candidate) and (reason := rules.unwanted(candidate.text)):
        return Reject(reason, candidate)
    verdict = rules.verdict(ruled_kind(candidate.kind, candidate.text), candidate.source.speaker)
    if verdict == "never":
        return Reject("policy", candidate)
    active = [memory for memory in alike if memory.status == "active" and memory.valid_to is None]
    in_slot = [memory for memory in active if _one_subject(candidate, memory)]
    target = next((memory for memory in active if memory.memory_id == candidate.target), None)
    place = target or max(in_slot, key=_recency, default=None)
    twin = _find_duplicate(candidate, active, rules.similarity)
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
    return candidate.asked and family(candidate.kind) == "semantic" and candidate.source.speaker == "user"


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
            if family(one.kind) == family(candidate.kind)
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


def _find_duplicate(candidate: Candidate, active: Sequence[Memory], similarity: Similarity) -> Memory | None:
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
        kind = memory.kind if candidate.kind == "semantic" else candidate.kind
        changed = replace(changed, kind=kind, metadata={**memory.metadata, **candidate.metadata})
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
