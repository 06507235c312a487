"""How proposals, tombstones and an owner's policy are spelled as rows: pure rules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, cast, get_args

from threadkeep.identity import Owner
from threadkeep.ids import MemoryId, ProposalId
from threadkeep.memories.codec import moment_of, sources_of, spell_sources
from threadkeep.memories.labels import metadata_of, tags_of
from threadkeep.memories.models import Kind, Speaker
from threadkeep.proposals.models import Action, Cause, Decision, Proposal, State, Tombstone
from threadkeep.storage.interface import Due, Expectation, Item, Namespace, Put

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
        "decision": _spell_decision(decision) if decision else None,
    }
    return Put(
        proposals_namespace(owner),
        proposal.proposal_id,
        {name: field for name, field in value.items() if field is not None},
        due=Due(DUE, proposal.expires_at) if proposal.state == "pending" else None,
        ttl=None if proposal.state == "pending" else DECIDED_KEPT,
        expect=expect,
    )


def proposal_of(item: Item) -> Proposal | None:
    """Read a proposal; ``None`` where the row cannot be understood."""
    value = item.value
    created_at, expires_at = moment_of(value.get("created_at")), moment_of(value.get("expires_at"))
    action, kind, trust, state = (value.get(name) for name in ("action", "kind", "trust", "state"))
    text, memory_id = value.get("text"), value.get("memory_id")
    known = action in get_args(Action) and kind in get_args(Kind) and trust in get_args(Speaker)
    if created_at is None or expires_at is None or not known or state not in get_args(State):
        return None
    if not isinstance(text, str) or not isinstance(memory_id, str):
        return None
    base_revision, base_text, key = (value.get(name) for name in ("base_revision", "base_text", "key"))
    return Proposal(
        proposal_id=ProposalId(item.ref.key),
        action=cast("Action", action),
        text=text,
        kind=cast("Kind", kind),
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
