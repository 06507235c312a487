"""Pausing a run until somebody has decided on a proposal, by LangGraph's ``interrupt``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from langgraph.types import interrupt

from threadkeep.errors import InvalidInputError

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.identity import Owner
    from threadkeep.proposals.models import Proposal

INTERRUPT: Final = "memory_proposal"
"""The interrupt's ``type``, by which an application knows it."""

_YES: Final = frozenset({"approve", "approved", "accept", "yes"})
_NO: Final = frozenset({"reject", "rejected", "ignore", "no"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody decided.

    Attributes:
        approve: Whether it is done.
        text: What is remembered instead of what was proposed.
        comment: What they said to it.
        by: Who decided; ``None``: they did not say.
    """

    approve: bool
    text: str | None = None
    comment: str | None = None
    by: str | None = None


async def review(tk: Threadkeep, proposal: Proposal, *, owner: Owner) -> Proposal:
    """Pause the run until somebody has decided on *proposal*, then decide so; call it in a node or a tool.

    The interrupt's value is ``{"type": "memory_proposal", "proposal_id", "action", "text", "kind",
    "memory_id", "base_text", "reason"}``. The run is resumed with ``"approve"``, ``"reject"``,
    ``True``, ``False``, ``{"type": "approve" | "reject" | "edit", "text", "comment", "by"}``, or
    LangChain's ``{"decisions": [...]}`` around such a one. What was decided elsewhere meanwhile stands.

    Raises:
        InvalidInputError: The run was resumed with none of these.
        RevisionConflictError: The memory was changed since; the proposal still waits.
    """
    answer = answer_of(
        interrupt(
            {
                "type": INTERRUPT,
                "proposal_id": proposal.proposal_id,
                "action": proposal.action,
                "text": proposal.text,
                "kind": proposal.kind,
                "memory_id": proposal.memory_id,
                "base_text": proposal.base_text,
                "reason": proposal.reason,
            }
        )
    )
    now = await tk.proposals.require(proposal.proposal_id, owner=owner)
    if now.state != "pending":
        return now
    if not answer.approve:
        return await tk.proposals.reject(proposal.proposal_id, owner=owner, by=answer.by, comment=answer.comment)
    if answer.text is not None:
        return await tk.proposals.edit(
            proposal.proposal_id, answer.text, owner=owner, by=answer.by, comment=answer.comment
        )
    return await tk.proposals.approve(proposal.proposal_id, owner=owner, by=answer.by, comment=answer.comment)


def answer_of(given: Any) -> Answer:
    """Read what a run was resumed with.

    Raises:
        InvalidInputError: It is no decision.
    """
    if isinstance(given, Mapping):
        several = cast("Mapping[str, Any]", given).get("decisions")
        given = cast("Sequence[Any]", several)[0] if isinstance(several, Sequence) and several else cast("Any", given)
    if isinstance(given, bool):
        return Answer(given)
    if isinstance(given, str):
        given = {"type": given}
    if isinstance(given, Mapping):
        fields = cast("Mapping[str, Any]", given)
        said, text = str(fields.get("type", "")).casefold(), fields.get("text")
        comment, by = fields.get("comment", fields.get("message")), fields.get("by")
        comment, by = (one if isinstance(one, str) and one.strip() else None for one in (comment, by))
        if said in _YES or (said == "edit" and isinstance(text, str)):
            return Answer(approve=True, text=text if isinstance(text, str) else None, comment=comment, by=by)
        if said in _NO:
            return Answer(approve=False, comment=comment, by=by)
    msg = 'Resume with "approve", "reject", or {"type": "edit", "text": ...}.'
    raise InvalidInputError(msg)
