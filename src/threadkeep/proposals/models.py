"""Proposals, decisions, tombstones and policies: values, and how they are spelled as rows. Pure rules.

A policy says which statements are kept by themselves, which need an approval, and which are never kept. It is a list of
rules, ``what=verdict``, separated by commas. *What* is who stands behind a statement (``user``, ``import``,
``assistant``, ``agent``, ``document``, ``tool``), a kind (``semantic``, ``episodic``, ``procedural``), or both
(``tool.semantic``). The rule that names both is stronger than one that names one; of two that name one each, the
stricter counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from threadkeep.errors import InvalidInputError, ThreadkeepError
from threadkeep.identity import Owner
from threadkeep.ids import MemoryId, ProposalId
from threadkeep.memories.codec import moment_of, sources_of, spell_sources
from threadkeep.memories.kinds import BUILT_IN_NAMES, Kind, is_kind
from threadkeep.memories.labels import Metadata, Scalar, check_metadata, check_tags, check_text, metadata_of, tags_of
from threadkeep.memories.models import (
    TRUSTED,
    Memory,
    Source,
    Speaker,
    checked_name,
    html_table,
    shortened,
)
from threadkeep.storage.interface import Due, Embedding, Expectation, Item, Namespace, Put

Action: TypeAlias = Literal["add", "correct", "forget", "supersede"]
State: TypeAlias = Literal["pending", "approved", "rejected", "expired"]
Verdict: TypeAlias = Literal["auto", "ask", "never"]
Cause: TypeAlias = Literal["rejected", "erased"]

"""Of who decided, and of a client's key."""
MAX_COMMENT_CHARACTERS: Final = 2_000


@dataclass(frozen=True, slots=True)
class NewProposal:
    """A change of memory that is proposed.

    Attributes:
        text: What shall be remembered; 1–8,000 characters; empty to forget.
        action: ``add`` a memory, ``correct`` or ``forget`` one, or let a newer memory ``supersede`` one.
        kind: Of the memory.
        sources: Where it comes from; empty: from an assistant, outside any thread.
        memory_id: What to correct or to forget.
        base_revision: The memory's revision that the change was thought out for; ``None``: what it is now.
        reason: Why it is proposed, for the person who decides.
        key: The client's; the same key is the same proposal, however often it is made.
        tags: Of a memory that is added.
        metadata: Of a memory that is added.
        by_memory_id: The newer memory that supersedes one.
    """

    text: str
    action: Action = "add"
    kind: Kind = "semantic"
    sources: tuple[Source, ...] = ()
    memory_id: MemoryId | None = None
    base_revision: int | None = None
    reason: str = ""
    key: str | None = None
    tags: Sequence[str] = ()
    metadata: Metadata = field(default_factory=dict[str, Scalar], hash=False)
    by_memory_id: MemoryId | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a proposal.

    Attributes:
        state: What it is now.
        by: Who decided: a person as the application names them, ``user`` (they said it themselves
            afterwards), ``policy`` or ``time``.
        at: When.
        text: What was approved, where that was edited.
        comment: What they said to it.
        memory_id: The memory that came of it.
        key: The client's; the same decision with the same key is told again, not refused.
    """

    state: Literal["approved", "rejected", "expired"]
    by: str
    at: datetime
    text: str | None = None
    comment: str | None = None
    memory_id: MemoryId | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change to memory that waits for a decision, or waited.

    Attributes:
        proposal_id: Its key.
        action: What would be done.
        text: What would be remembered; empty to forget.
        kind: Of the memory.
        sources: Where it comes from.
        trust: The least trusted speaker of *sources*.
        reason: Why it waits.
        memory_id: What would be corrected, forgotten or superseded; of an ``add``, the memory that it becomes.
        base_revision: The memory's revision that it was thought out for; ``None`` for an ``add``.
        base_text: What that memory said then.
        created_at: When it was made.
        expires_at: When it expires without a decision.
        state: ``pending`` until it is decided, once.
        decision: How it was decided.
        revision: Of its row.
        key: The client's.
        tags: Of a memory that is added.
        metadata: Of a memory that is added.
        by_memory_id: The newer memory that supersedes one; *text* is what it says.
    """

    proposal_id: ProposalId
    action: Action
    text: str
    kind: Kind
    sources: tuple[Source, ...]
    trust: Speaker
    reason: str
    memory_id: MemoryId
    base_revision: int | None
    base_text: str | None
    created_at: datetime
    expires_at: datetime
    state: State = "pending"
    decision: Decision | None = None
    revision: int = 0
    key: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict[str, Scalar], hash=False)
    by_memory_id: MemoryId | None = None

    def __repr__(self) -> str:
        """Return what is proposed on one line."""
        text = shortened(self.text or self.base_text or "")
        return f"<Proposal {self.proposal_id[:8]} {self.state}: {self.action} {text!r}>"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        row = (self.action, self.text or self.base_text or "", self.state, self.trust, self.proposal_id[:8])
        return html_table(("proposed", "memory", "state", "said by", "id"), [row])


class ProposalPage(list[Proposal]):
    """A part of an owner's proposals, newest first.

    Attributes:
        cursor: What to pass to ``list`` for the next page; ``None``: this is the last one.
    """

    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Proposed:
    """What became of a change that was proposed.

    Attributes:
        status: ``proposed``: it waits; ``approved``: a policy let it pass at once; ``duplicate``: a memory
            says it, or it was proposed before; ``rejected``: it must not be kept.
        proposal: The proposal, new or known; ``None`` where there is none.
        memory_id: The memory that holds the statement, or would.
        reason: Why it was rejected or waits.
    """

    status: Literal["proposed", "approved", "duplicate", "rejected"]
    proposal: Proposal | None
    memory_id: MemoryId | None
    reason: str | None = None

    @property
    def proposal_id(self) -> ProposalId | None:
        """The id of the proposal; ``None`` where there is none."""
        return None if self.proposal is None else self.proposal.proposal_id


@dataclass(frozen=True, slots=True)
class Choice:
    """One decision of several.

    Attributes:
        proposal_id: Which proposal.
        approve: Whether it is approved; else it is rejected.
        text: What is approved instead of what was proposed.
        comment: What there is to say to it.
    """

    proposal_id: str
    approve: bool
    text: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """What became of one decision of several.

    Attributes:
        proposal_id: Which proposal.
        proposal: As it is now; ``None`` where it was not decided by this.
        error: Why not.
    """

    proposal_id: str
    proposal: Proposal | None
    error: ThreadkeepError | None = None


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is kept of a statement that must not be learnt again.

    Attributes:
        tombstone_id: Its key.
        cause: ``rejected``, or ``erased``: forgotten.
        text: What was rejected; ``None`` for an erased one, of which there are only keyed digests.
        at: Since when.
        by: Who rejected it.
        expires_at: Until when; ``None``: for ever.
        digests: Of an erased one: keyed digests of its terms.
        embedding: Of a rejected one: its vector.
        authors: Of a rejected one in a shared scope: the labels of the users who said it.
    """

    tombstone_id: str
    cause: Cause
    text: str | None
    at: datetime
    by: str
    expires_at: datetime | None
    digests: frozenset[str] = field(default=frozenset(), repr=False)
    embedding: Embedding | None = field(default=None, repr=False)
    authors: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MemoryState:
    """What is known about an owner, and what waits to be.

    Attributes:
        memories: What is remembered and may be recalled, most recently changed first.
        pending: Proposals that wait for a decision, newest first.
    """

    memories: tuple[Memory, ...]
    pending: tuple[Proposal, ...]


def checked(new: NewProposal, redact: Callable[[str], str]) -> NewProposal:
    """Return *new* with its texts redacted and bounded.

    Raises:
        InvalidInputError, TooLargeError: It cannot be kept.
    """
    if new.action not in get_args(Action) or not is_kind(new.kind):
        actions, kinds = ", ".join(get_args(Action)), ", ".join(BUILT_IN_NAMES)
        msg = f"The action of a proposal must be one of {actions}, and its kind one of {kinds} or of the application's."
        raise InvalidInputError(msg)
    text = "" if new.action == "forget" else statement(new.text, redact)
    key = None if new.key is None else checked_name(new.key, "key")
    return replace(
        new,
        text=text,
        reason=redact(new.reason)[:MAX_COMMENT_CHARACTERS],
        key=key,
        tags=check_tags(new.tags, redact=redact),
        metadata=check_metadata(new.metadata, redact=redact),
    )


def statement(text: Any, redact: Callable[[str], str]) -> str:
    """Return *text* as a memory may say it.

    Raises:
        InvalidInputError, TooLargeError: It says nothing, or too much.
    """
    return redact(check_text(text))


Rule: TypeAlias = tuple[Speaker | None, Kind | None]

STRICTNESS: Final[tuple[Verdict, ...]] = ("auto", "ask", "never")


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules for statements; what none of them names is decided by :func:`by_default`.

    Attributes:
        rules: The verdict for a speaker, a kind, or both.
        owner_rules: An owner's own, which count first; only what *rules* never keep stays so.
        shared: Whether the owner is a scope that users share: then only its own rules let anything pass unasked.
    """

    rules: Mapping[Rule, Verdict] = field(default_factory=dict[Rule, Verdict])
    owner_rules: Mapping[Rule, Verdict] = field(default_factory=dict[Rule, Verdict])
    shared: bool = False

    def verdict(self, kind: Kind, speaker: Speaker) -> Verdict:
        """Return the verdict on a statement of *kind* with *speaker* as its least trusted source."""
        general = _ruled(self.rules, kind, speaker) or by_default(kind, speaker)
        if self.shared and general == "auto":
            general = "ask"
        return general if general == "never" else _ruled(self.owner_rules, kind, speaker) or general


def by_default(kind: Kind, speaker: Speaker) -> Verdict:
    """Return the verdict where no rule says: the user is believed, how to behave is always asked.

    What others say of a turn is no history, so an episode that the user's words do not bear out is not kept.
    """
    if speaker not in TRUSTED and kind == "episodic":
        return "never"
    return "ask" if kind == "procedural" or speaker not in TRUSTED else "auto"


def rules_of(text: str, kinds: Sequence[Kind] | None = BUILT_IN_NAMES) -> dict[Rule, Verdict]:
    """Read the rules of a policy; *kinds*: those that are known, ``None``: any.

    Raises:
        InvalidInputError: One sentence that names the rule to correct.
    """
    rules: dict[Rule, Verdict] = {}
    for rule_text in filter(None, (part.strip() for part in text.split(","))):
        what, equals, verdict = (part.strip() for part in rule_text.partition("="))
        if not equals or verdict not in get_args(Verdict):
            msg = f"A rule must be what=verdict with auto, ask or never, such as tool=never, got {rule_text[:80]!r}."
            raise InvalidInputError(msg)
        rule = _rule(what, kinds)
        if rule[1] == "procedural" and verdict == "auto":
            msg = f"How to behave is always asked; {rule_text[:80]!r} can only be ask or never."
            raise InvalidInputError(msg)
        rules[rule] = cast("Verdict", verdict)
    return rules


def _rule(what: str, kinds: Sequence[Kind] | None) -> Rule:
    speakers = get_args(Speaker)
    first, dot, second = what.partition(".")
    if not dot and first in speakers:
        return cast("Speaker", first), None
    if not dot and _is_known(first, kinds):
        return None, first
    if first in speakers and _is_known(second, kinds):
        return cast("Speaker", first), second
    msg = (
        f"{what[:80]!r} is not a kind of statement; give {', '.join(speakers)}, {', '.join(kinds or BUILT_IN_NAMES)}, "
        "or both as in tool.semantic."
    )
    raise InvalidInputError(msg)


def _is_known(kind: str, kinds: Sequence[Kind] | None) -> bool:
    return is_kind(kind) if kinds is None else kind in kinds


def spelled(rules: Mapping[Rule, Verdict]) -> str:
    """Return *rules* as :func:`rules_of` reads them."""
    return ", ".join(sorted(f"{'.'.join(part for part in rule if part)}={verdict}" for rule, verdict in rules.items()))


def _ruled(rules: Mapping[Rule, Verdict], kind: Kind, speaker: Speaker) -> Verdict | None:
    """Return what *rules* say; a rule for a speaker alone never lets pass how to behave."""
    exact = rules.get((speaker, kind))
    if exact is not None:
        return exact
    found = rules.get((speaker, None)), rules.get((None, kind))
    strictest: Verdict | None = None
    for verdict in STRICTNESS:
        strictest = verdict if verdict in found else strictest
    return "ask" if strictest == "auto" and kind == "procedural" else strictest


PROPOSALS: Final = ".proposals"
TOMBSTONES: Final = ".tombstones"
POLICY: Final = ".policy"
POLICY_KEY: Final = "memory"
DIGEST_KEY: Final = "digest-key"
"""Among the tombstones: the owner's key of the digests; it goes with the owner."""

DUE: Final = "proposal"
DECIDED_KEPT: Final = timedelta(days=90)
"""How long a decided proposal can still be looked up."""


def proposals_namespace(owner: Owner) -> Namespace:
    """Return where the proposals about *owner* are."""
    return (PROPOSALS, owner.label)


def tombstones_namespace(owner: Owner) -> Namespace:
    """Return where the tombstones of *owner* are."""
    return (TOMBSTONES, owner.label)


def policy_namespace(owner: Owner) -> Namespace:
    """Return where *owner*'s own policy is."""
    return (POLICY, owner.label)


def waiting_reason(kind: Kind, speaker: Speaker) -> str:
    """Return why a statement of *kind* that *speaker* made waits, for the person who decides."""
    if kind == "procedural":
        return "how to behave is always asked"
    return "the policy asks" if speaker == "user" else f"said by the {speaker}, not by the user"


def proposal_put(proposal: Proposal, owner: Owner, *, expect: Expectation) -> Put:
    """Return the put that writes *proposal*; one that waits is due when it lapses, a decided one goes in time."""
    decision = proposal.decision
    value = {
        "action": proposal.action,
        "text": proposal.text,
        "kind": proposal.kind,
        "sources": spell_sources(proposal.sources),
        "trust": proposal.trust,
        "reason": proposal.reason,
        "memory_id": proposal.memory_id,
        "base_revision": proposal.base_revision,
        "base_text": proposal.base_text,
        "created_at": proposal.created_at.isoformat(),
        "expires_at": proposal.expires_at.isoformat(),
        "state": proposal.state,
        "key": proposal.key,
        "tags": list(proposal.tags) or None,
        "metadata": dict(proposal.metadata) or None,
        "by_memory_id": proposal.by_memory_id,
        "decision": _spell_decision(decision) if decision else None,
    }
    return Put(
        proposals_namespace(owner),
        proposal.proposal_id,
        {name: field for name, field in value.items() if field is not None},
        due=Due(DUE, proposal.expires_at) if proposal.state == "pending" else None,
        ttl=None if proposal.state == "pending" or _stays(proposal) else DECIDED_KEPT,
        expect=expect,
    )


def _stays(proposal: Proposal) -> bool:
    """Return whether a decided proposal is kept, so that the same is not asked again: two memories that both stay."""
    return proposal.action == "supersede" and proposal.state != "approved"


def proposal_of(item: Item) -> Proposal | None:
    """Read a proposal; ``None`` where the row cannot be understood."""
    value = item.value
    created_at, expires_at = moment_of(value.get("created_at")), moment_of(value.get("expires_at"))
    action, kind, trust, state = (value.get(name) for name in ("action", "kind", "trust", "state"))
    text, memory_id = value.get("text"), value.get("memory_id")
    known = action in get_args(Action) and trust in get_args(Speaker) and state in get_args(State)
    if created_at is None or expires_at is None or not known or not is_kind(kind):
        return None
    if not isinstance(text, str) or not isinstance(memory_id, str):
        return None
    base_revision, base_text, key = (value.get(name) for name in ("base_revision", "base_text", "key"))
    return Proposal(
        proposal_id=ProposalId(item.ref.key),
        action=cast("Action", action),
        text=text,
        kind=kind,
        sources=sources_of(value.get("sources")),
        trust=cast("Speaker", trust),
        reason=str(value.get("reason", "")),
        memory_id=MemoryId(memory_id),
        base_revision=base_revision if isinstance(base_revision, int) else None,
        base_text=base_text if isinstance(base_text, str) else None,
        created_at=created_at,
        expires_at=expires_at,
        state=cast("State", state),
        decision=_decision_of(value.get("decision")),
        revision=item.revision,
        key=key if isinstance(key, str) else None,
        tags=tags_of(value.get("tags")),
        metadata=metadata_of(value.get("metadata")),
        by_memory_id=MemoryId(by) if isinstance(by := value.get("by_memory_id"), str) else None,
    )


def tombstone_put(tombstone: Tombstone, owner: Owner, *, now: datetime) -> Put:
    """Return the put that writes *tombstone*; it goes when it expires."""
    value = {
        "cause": tombstone.cause,
        "text": tombstone.text,
        "by": tombstone.by,
        "at": tombstone.at.isoformat(),
        "digests": sorted(tombstone.digests),
        "authors": sorted(tombstone.authors),
    }
    return Put(
        tombstones_namespace(owner),
        tombstone.tombstone_id,
        {name: field for name, field in value.items() if field not in (None, [])},
        embedding=tombstone.embedding,
        ttl=None if tombstone.expires_at is None else tombstone.expires_at - now,
    )


def tombstone_of(item: Item) -> Tombstone | None:
    """Read a tombstone; ``None`` where the row is none."""
    value = item.value
    cause, at, text, digests = (value.get(name) for name in ("cause", "at", "text", "digests"))
    moment = moment_of(at)
    if cause not in get_args(Cause) or moment is None:
        return None
    return Tombstone(
        tombstone_id=item.ref.key,
        cause=cast("Cause", cause),
        text=text if isinstance(text, str) else None,
        at=moment,
        by=str(value.get("by", "")),
        expires_at=item.expires_at,
        digests=_texts(digests),
        embedding=item.embedding,
        authors=_texts(value.get("authors")),
    )


def _texts(rows: object) -> frozenset[str]:
    return (
        frozenset(row for row in cast("list[object]", rows) if isinstance(row, str))
        if isinstance(rows, list)
        else frozenset()
    )


def _spell_decision(decision: Decision) -> dict[str, Any]:
    row = {
        "state": decision.state,
        "by": decision.by,
        "at": decision.at.isoformat(),
        "text": decision.text,
        "comment": decision.comment,
        "memory_id": decision.memory_id,
        "key": decision.key,
    }
    return {name: field for name, field in row.items() if field is not None}


def _decision_of(row: object) -> Decision | None:
    if not isinstance(row, Mapping):
        return None
    fields = cast("Mapping[str, Any]", row)
    state, by, at = fields.get("state"), fields.get("by"), moment_of(fields.get("at"))
    if state not in ("approved", "rejected", "expired") or not isinstance(by, str) or at is None:
        return None
    text, comment, memory_id, key = (fields.get(name) for name in ("text", "comment", "memory_id", "key"))
    return Decision(
        state=state,
        by=by,
        at=at,
        text=text if isinstance(text, str) else None,
        comment=comment if isinstance(comment, str) else None,
        memory_id=MemoryId(memory_id) if isinstance(memory_id, str) else None,
        key=key if isinstance(key, str) else None,
    )
