"""``/threads``: the list of conversations, and what is in each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import override

from threadkeep.gateway.bodies import Kind, NewId, RequestBody, Shown, learnt_of, refuse_nul
from threadkeep.gateway.events import interrupts_body
from threadkeep.gateway.idempotency import IdempotentRoute
from threadkeep.gateway.inputs import Cursor, OwnerClient, Reader, ThreadPath, User
from threadkeep.gateway.routers.chat import CheckpointId
from threadkeep.gateway.run_models import new_run_id
from threadkeep.ids import new_id


class IdempotentThreadRoute(IdempotentRoute):
    """Keeps the id of the thread that a request created: a repeated request gets the thread as it is then."""

    @override
    async def kept_body(self, body: str) -> str:
        return json.loads(body)["thread_id"]

    @override
    async def restored_body(self, body: str, tk: OwnerClient) -> str:
        return _thread(await tk.threads.require(body), frozenset()).model_dump_json()


router = APIRouter(prefix="/threads", tags=["threads"], route_class=IdempotentThreadRoute)

TITLE_CHARACTERS = 200
_LIST = "threads"

Title = Annotated[str, Field(max_length=TITLE_CHARACTERS), AfterValidator(refuse_nul)]


class ThreadBody(BaseModel):
    """A thread.

    Attributes:
        thread_id: Its id.
        title: The first seven words of the user, or the title that was given.
        status: How the last turn ended; ``running``: a run of this process is at work on it.
        pinned: Whether it is pinned.
        created_at: When it began.
        last_turn_at: When its last turn ended.
    """

    thread_id: str
    title: str
    status: Literal["idle", "interrupted", "error", "running"]
    pinned: bool
    created_at: datetime | None
    last_turn_at: datetime | None


class ThreadsBody(BaseModel):
    """A page of threads, the last turn first.

    Attributes:
        threads: The threads.
        cursor: What to pass for the next page; ``None``: this is the last one.
    """

    threads: list[ThreadBody]
    cursor: str | None


class NewThreadBody(RequestBody):
    """A thread to create.

    Attributes:
        thread_id: Its id; without one, the server chooses it.
        title: Its title; empty: the first seven words of the user.
    """

    thread_id: NewId | None = None
    title: Title = ""


class ThreadChangeBody(RequestBody):
    """A change of a thread; what is left out stays.

    Attributes:
        title: The new title.
        pinned: Whether it is pinned.
    """

    title: Title | None = None
    pinned: bool | None = None


class MessageBody(BaseModel):
    """A message of a thread.

    Attributes:
        message_id: Its id, if it has one.
        role: Who wrote it.
        text: What it says.
    """

    message_id: str | None
    role: str
    text: str


class MessagesBody(BaseModel):
    """The messages of a thread, oldest first.

    Attributes:
        messages: The messages.
    """

    messages: list[MessageBody]


class GivenBody(BaseModel):
    """A memory that a question found.

    Attributes:
        memory_id: The memory.
        score: In [0, 1], higher is closer.
        earlier: Whether a newer memory said that it is no longer so.
        may_hold: Whether an earlier one might still be so.
    """

    memory_id: str
    score: float
    earlier: bool
    may_hold: bool


class LearntBody(BaseModel):
    """A memory that a turn taught.

    Attributes:
        memory_id: The memory.
        text: What it says now.
        kind: Which kind it is.
        change: ``new``, ``changed``, or ``known`` before.
        before: What it said before the turn changed it.
    """

    memory_id: str
    text: Shown
    kind: Kind
    change: Literal["new", "changed", "known"]
    before: Shown | None


class TurnBody(BaseModel):
    """What memory had to do with a turn; memories that are forgotten are named in what it was given by their ids only.

    Attributes:
        message_id: The message of the user.
        state: ``pending``: it is not learnt from yet; ``done``; or ``failed``.
        recalled: The memories that it was given, best first; ``None``: not known.
        left_out: Memories that did not fit, best first.
        degraded: What was missing when memories were looked up.
        learnt: What it taught, and is not forgotten.
        proposal_ids: What of it waited for a decision.
        memory: Whether the turn used memory.
    """

    message_id: Shown
    state: Literal["pending", "done", "failed"]
    recalled: list[GivenBody] | None
    left_out: list[GivenBody]
    degraded: list[str]
    learnt: list[LearntBody]
    proposal_ids: list[str]
    memory: bool


class TurnsBody(BaseModel):
    """The turns of a thread that are recorded, oldest first.

    Attributes:
        turns: The turns.
    """

    turns: list[TurnBody]


class StateBody(BaseModel):
    """The state of a thread at a checkpoint.

    Attributes:
        checkpoint_id: Its id; ``None``: the thread has no checkpoint.
        parent_checkpoint_id: The checkpoint that it extends; several extend the same one where the thread branches.
        created_at: When it was written.
        next: The nodes that would run next.
        interrupts: What the thread asks.
        messages: How many messages it has.
        run_id: The run to join, or with which to answer what the thread asks; in ``/state`` only.
    """

    run_id: str | None = None
    checkpoint_id: str | None
    parent_checkpoint_id: str | None
    created_at: str | None
    next: list[str]
    interrupts: list[dict[str, Any]]
    messages: int


class HistoryBody(BaseModel):
    """The checkpoints of a thread, newest first.

    Attributes:
        checkpoints: The states.
    """

    checkpoints: list[StateBody]


class ForkBody(RequestBody):
    """Where to begin a new thread.

    Attributes:
        checkpoint_id: The checkpoint to begin at; ``None``: the newest.
        thread_id: The id of the new thread; without one, the server chooses it.
    """

    checkpoint_id: CheckpointId | None = None
    thread_id: NewId | None = None


@router.get("")
async def list_threads(
    user: User,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Cursor = None,
    title: Annotated[str, Query(max_length=TITLE_CHARACTERS)] = "",
) -> ThreadsBody:
    """List the threads of the user, the last turn first; *title*: with all of these words in their title."""
    rows = partial(user.tk.threads.list, title=title)
    page, following = await user.page(rows, _LIST, cursor=cursor, limit=limit)
    running = user.running_threads()
    return ThreadsBody(threads=[_thread(one, running) for one in page], cursor=following)


@router.post("", status_code=201)
async def create_thread(body: NewThreadBody, user: User) -> ThreadBody:
    """Create a thread before its first turn."""
    return _thread(await user.tk.threads.create(body.thread_id or new_id(), title=body.title), frozenset())


@router.get("/{thread_id}")
async def show_thread(thread_id: ThreadPath, user: User) -> ThreadBody:
    """Return a thread."""
    return _thread(await user.tk.threads.require(thread_id), user.running_threads())


@router.patch("/{thread_id}")
async def change_thread(thread_id: ThreadPath, body: ThreadChangeBody, user: User) -> ThreadBody:
    """Change the title of a thread, or pin it."""
    thread = await user.tk.threads.update(thread_id, title=body.title, pinned=body.pinned)
    return _thread(thread, user.running_threads())


@router.delete("/{thread_id}", status_code=204)
async def delete_thread(thread_id: ThreadPath, user: User) -> None:
    """Delete a thread with its checkpoints; memories that were learnt in it stay."""
    await user.tk.threads.delete([thread_id])


@router.get("/{thread_id}/messages")
async def show_messages(
    thread_id: ThreadPath,
    user: User,
    checkpoint_id: Annotated[str | None, Query(min_length=1, max_length=100)] = None,
) -> MessagesBody:
    """Return the messages of a thread, oldest first; with *checkpoint_id*, those of the branch that ends there."""
    messages = await user.tk.threads.messages(thread_id, checkpoint_id=checkpoint_id)
    return MessagesBody(
        messages=[MessageBody(message_id=one.message_id, role=one.role, text=one.text) for one in messages]
    )


@router.get("/{thread_id}/turns")
async def show_turns(
    thread_id: ThreadPath,
    user: User,
    _: Reader,
    checkpoint_id: Annotated[str | None, Query(min_length=1, max_length=100)] = None,
) -> TurnsBody:
    """Return what was recalled for the turns of a thread, and what was learnt from them, oldest first."""
    turns = await user.tk.threads.turns(thread_id, checkpoint_id=checkpoint_id)
    memories = await user.tk.memories.get_many([one for turn in turns for one in turn.memory_ids])
    return TurnsBody(turns=[_turn(one, memories) for one in turns])


@router.get("/{thread_id}/state")
async def show_state(thread_id: ThreadPath, user: User) -> StateBody:
    """Return the newest state of a thread."""
    await user.find_checkpoint(thread_id)
    state = _state(await user.state(thread_id))
    kept = next((run.run_id for run in user.runs.of_thread(user.owner, thread_id)), None)
    run_id = kept or (new_run_id(thread_id) if state.interrupts else None)  # any run's id names its thread
    return state.model_copy(update={"run_id": run_id})


@router.get("/{thread_id}/history")
async def show_history(
    thread_id: ThreadPath,
    user: User,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    before: Annotated[str | None, Query(max_length=100)] = None,
) -> HistoryBody:
    """Return the checkpoints of a thread, newest first; *before*: only those older than this checkpoint."""
    states = user.history(thread_id, limit=limit, before={"checkpoint_id": before} if before else None)
    return HistoryBody(checkpoints=[_state(one) async for one in states])


@router.post("/{thread_id}/fork", status_code=201)
async def fork_thread(thread_id: ThreadPath, body: ForkBody, user: User) -> ThreadBody:
    """Begin a new thread at a checkpoint of another one."""
    threads = user.tk.threads
    return _thread(
        await threads.fork(thread_id, body.thread_id or new_id(), checkpoint_id=body.checkpoint_id), frozenset()
    )


def _thread(thread: Any, running: frozenset[str]) -> ThreadBody:
    return ThreadBody(
        thread_id=thread.thread_id,
        title=thread.title,
        status="running" if thread.thread_id in running else thread.status,
        pinned=thread.pinned,
        created_at=thread.created_at,
        last_turn_at=thread.last_turn_at,
    )


def _turn(turn: Any, memories: Mapping[str, Any]) -> TurnBody:
    taught = [memories[one] for one in turn.memory_ids if one in memories]
    recall = turn.recall
    return TurnBody(
        message_id=turn.message_id,
        state=turn.state,
        recalled=None if recall is None else [_given(one) for one in recall.memories],
        left_out=[] if recall is None else [_given(one) for one in recall.left_out],
        degraded=[] if recall is None else [*recall.degraded],
        learnt=[LearntBody.model_validate(learnt_of(one, [turn.turn_id])) for one in taught],
        proposal_ids=[*turn.proposal_ids],
        memory=turn.memory,
    )


def _given(given: Any) -> GivenBody:
    return GivenBody(memory_id=given.memory_id, score=given.score, earlier=given.earlier, may_hold=given.may_hold)


def _state(state: Any) -> StateBody:
    parent: Any = state.parent_config
    return StateBody(
        checkpoint_id=state.config["configurable"].get("checkpoint_id"),
        parent_checkpoint_id=None if parent is None else parent["configurable"].get("checkpoint_id"),
        created_at=state.created_at,
        next=[*state.next],
        interrupts=interrupts_body(state.interrupts),
        messages=len(state.values.get("messages") or ()),
    )
