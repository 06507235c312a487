"""``/me``: the profile of the user, and everything that is held about them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from threadkeep.gateway.bodies import ID_CHARACTERS, Comment, RequestBody, Shown
from threadkeep.gateway.idempotency import IdempotentRoute
from threadkeep.gateway.inputs import Limit, OwnerClient, Reader, Writer
from threadkeep.process_state import list_data_flows

if TYPE_CHECKING:
    from threadkeep.capture.models import QueuedTurn
    from threadkeep.memories.audited_writer import AuditEntry

router = APIRouter(tags=["me"])
changes = APIRouter(tags=["me"], route_class=IdempotentRoute)
"""The routes that keep their answers; exporting changes nothing, and an erasure keeps nothing."""

_MINUTES_OF_A_DAY: Final = 1_440
_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}


class MeBody(BaseModel):
    """The user.

    Attributes:
        user_id: The user id.
        tenant: The tenant: the issuer of the token.
        scopes: What the request may do.
        opted_out: Whether the user wants no memory.
        opted_out_threads: The threads in which the user wants none.
        policy: The user's own rules about which statements are kept.
        memories: How many memories there are of each kind.
        threads: How many threads there are.
        proposals: How many proposals wait for a decision.
        tombstones: How many statements are not learnt again.
        turns_waiting: How many turns wait to be learnt from.
    """

    user_id: Shown
    tenant: Shown
    scopes: list[str]
    opted_out: bool
    opted_out_threads: list[Shown]
    policy: Shown
    memories: dict[str, int]
    threads: int
    proposals: int
    tombstones: int
    turns_waiting: int


class ChangeBody(RequestBody):
    """A change of the profile.

    Attributes:
        policy: Rules such as ``assistant=never``; an empty text removes them.
    """

    policy: Comment


class OptOutBody(RequestBody):
    """Whether the user wants memory.

    Attributes:
        out: Whether recalling and learning stop.
        thread_id: In this thread only.
    """

    out: bool = True
    thread_id: str | None = Field(default=None, min_length=1, max_length=ID_CHARACTERS)


class OptedOutBody(BaseModel):
    """Whether the user wants no memory.

    Attributes:
        opted_out: Whether recalling and learning have stopped.
    """

    opted_out: bool


class ErasedBody(BaseModel):
    """The receipt of an erasure. It does not name the user.

    Attributes:
        receipt_id: Its id.
        items: How many items are gone.
        threads: How many threads are gone.
        counts: How many items of each type are gone.
        kept_in: Where the receipt is: ``storage``, and ``file`` if one could be written.
    """

    receipt_id: str
    items: int
    threads: int
    counts: dict[str, int]
    kept_in: list[str]


class DataFlowBody(BaseModel):
    """A model, a storage or a service that receives text of users.

    Attributes:
        to: Its name.
        gets: What it receives.
        leaves_machine: Whether that leaves the machine of the server.
    """

    to: Shown
    gets: str
    leaves_machine: str


class PrivacyBody(BaseModel):
    """What is kept where, how long, and who receives text of users.

    Attributes:
        data_flows: Who receives text.
        storage: The storage of everything but threads, without its address.
        thread_storage: The storage of threads.
        encrypted: Whether the rows of the storage are encrypted.
        memory_days: After how many days memories expire; 0: never.
        thread_days: After how many days without a turn threads expire; 0: never.
        inactive_days: After how many days without use memories are archived; 0: never.
        proposal_days: After how many days a proposal expires.
        tombstone_days: How many days a statement is not learnt again; 0: for ever.
    """

    data_flows: list[DataFlowBody]
    storage: str
    thread_storage: str
    encrypted: bool
    memory_days: float
    thread_days: float
    inactive_days: float
    proposal_days: float
    tombstone_days: float


class QueuedBody(BaseModel):
    """A turn that is not learnt from yet.

    Attributes:
        turn_id: Its id.
        thread_id: Its thread.
        state: ``waiting``, ``running``, or ``dead``: it failed too often.
        tries: How often it was tried.
        reason: The last error.
        recorded_at: When it was recorded.
        due_at: When it is tried.
    """

    turn_id: str
    thread_id: Shown | None
    state: str
    tries: int
    reason: Shown | None
    recorded_at: datetime
    due_at: datetime | None


class QueueBody(BaseModel):
    """The turns that are not learnt from yet, oldest first.

    Attributes:
        turns: The turns.
    """

    turns: list[QueuedBody]


class RetryBody(RequestBody):
    """Which turns to try again.

    Attributes:
        turn_ids: The turns; ``None``: all that have failed.
    """

    turn_ids: list[Annotated[str, Field(min_length=1, max_length=ID_CHARACTERS)]] | None = Field(
        default=None, max_length=1_000
    )


class AuditedBody(BaseModel):
    """What a commit did.

    Attributes:
        number: From 1 on, without gaps.
        at: When.
        by: Who.
        why: Where it comes from.
        changes: What was changed, by id; no text.
    """

    number: int
    at: datetime
    by: Shown
    why: Shown
    changes: list[dict[str, Any]]


class AuditBody(BaseModel):
    """The audit, newest first.

    Attributes:
        entries: The entries.
    """

    entries: list[AuditedBody]


@router.get("/me")
async def show_me(user: Reader) -> MeBody:
    """Return who the user is, and count what is held about them."""
    tk = user.tk
    holdings = await tk.owners.show()
    return MeBody(
        user_id=user.owner.user_id,
        tenant=user.owner.tenant,
        scopes=sorted(user.principal.scopes),
        opted_out=await tk.owners.opted_out(),
        opted_out_threads=list(await tk.owners.opted_out_threads()),
        policy=_rules((await tk.proposals.policy()).owner_rules),
        memories=dict(holdings.memories),
        threads=len(holdings.threads),
        proposals=holdings.proposals,
        tombstones=holdings.tombstones,
        turns_waiting=holdings.turns_waiting,
    )


@router.patch("/me")
async def change_me(body: ChangeBody, user: Writer) -> MeBody:
    """Set the user's own rules about which statements are kept, proposed, or never kept."""
    await user.tk.proposals.set_policy(body.policy)
    return await show_me(user)


@router.get("/me/privacy")
async def show_privacy(request: Request, user: Reader) -> PrivacyBody:
    """Return what is kept where, how long, and who receives text of users."""
    del user
    app = request.app.state.gateway.tk.app
    return PrivacyBody(
        data_flows=[DataFlowBody.model_validate(row) for row in list_data_flows(app, addresses=False)],
        storage=app.storage.name,
        thread_storage=app.threads.storage.name,
        encrypted=app.sealed is not None,
        memory_days=app.settings.store_ttl_minutes / _MINUTES_OF_A_DAY,
        thread_days=app.settings.checkpoint_ttl_minutes / _MINUTES_OF_A_DAY,
        inactive_days=app.settings.inactive_days,
        proposal_days=app.settings.proposal_days,
        tombstone_days=app.settings.tombstone_days,
    )


@changes.post("/me/opt_out")
async def opt_out(body: OptOutBody, user: Writer) -> OptedOutBody:
    """Stop recalling and learning, or start again."""
    owners = user.tk.owners
    await owners.opt_out(thread_id=body.thread_id, out=body.out)
    return OptedOutBody(opted_out=await owners.opted_out(thread_id=body.thread_id))


@router.post(
    "/me/export",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {}, "application/zip": _BINARY}}},
)
async def export_me(user: Reader, file: Annotated[Literal["jsonl", "zip"], Query()] = "jsonl") -> StreamingResponse:
    """Return everything that is held about the user: as JSON Lines, or as a ZIP file of them and a README."""
    tk = user.tk
    if file == "jsonl":
        return StreamingResponse(_lines(tk), media_type="application/x-ndjson")
    headers = {"Content-Disposition": 'attachment; filename="threadkeep.zip"'}
    return StreamingResponse(tk.owners.export_zip(), media_type="application/zip", headers=headers)


@router.post("/me/erase")
async def erase_me(request: Request, user: Writer) -> ErasedBody:
    """Cancel the user's runs of this process, and remove everything that is held about the user, threads included."""
    request.app.state.gateway.runs.cancel_all(user.owner)
    erased = await user.tk.owners.erase()
    return erased_body(erased)


@router.get("/queue")
async def list_queue(user: Reader) -> QueueBody:
    """List the user's turns that are not learnt from yet, oldest first."""
    return _queue(await user.tk.queue.list())


@changes.post("/queue/retry")
async def retry_queue(body: RetryBody, user: Writer) -> QueueBody:
    """Try turns again at once; return those that are tried, as they were."""
    return _queue(await user.tk.queue.retry(body.turn_ids))


@router.get("/audit")
async def show_audit(user: Reader, limit: Annotated[Limit, Query()] = 100) -> AuditBody:
    """Return who changed what of the user's memory, newest first."""
    return audit_body(await user.tk.owners.audit(limit=limit))


def audit_body(entries: Iterable[AuditEntry]) -> AuditBody:
    """Return an audit as it is sent."""
    return AuditBody(
        entries=[
            AuditedBody(
                number=one.number,
                at=one.at,
                by=one.by,
                why=one.why,
                changes=[{"what": change.what, "thing": change.thing, "id": change.id} for change in one.changes],
            )
            for one in entries
        ]
    )


def _rules(rules: Mapping[Any, str]) -> str:
    return ", ".join(sorted(f"{'.'.join(filter(None, rule))}={verdict}" for rule, verdict in rules.items()))


def erased_body(erased: Any) -> ErasedBody:
    """Return the receipt as it is sent."""
    return ErasedBody(
        receipt_id=erased.receipt_id,
        items=erased.items,
        threads=len(erased.threads),
        counts=dict(erased.counts),
        kept_in=[*erased.kept_in],
    )


def _queue(turns: list[QueuedTurn]) -> QueueBody:
    return QueueBody(turns=[queued_body(turn) for turn in turns])


def queued_body(turn: QueuedTurn) -> QueuedBody:
    """Return a turn as it is sent."""
    return QueuedBody(
        turn_id=turn.turn_id,
        thread_id=turn.thread_id,
        state=turn.state,
        tries=turn.tries,
        reason=turn.reason,
        recorded_at=turn.recorded_at,
        due_at=turn.due_at,
    )


async def _lines(tk: OwnerClient) -> AsyncIterator[bytes]:
    async for row in tk.owners.export():
        yield json.dumps(row, default=str).encode() + b"\n"


router.include_router(changes)
