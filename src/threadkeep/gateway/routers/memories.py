"""``/memories``: what is remembered about the user."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import (
    AwareDatetime,
    BaseModel,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StringConstraints,
)
from pydantic_core import to_json

from threadkeep.errors import RevisionConflictError, TooLargeError
from threadkeep.gateway.bodies import (
    ID_CHARACTERS,
    ForgottenBody,
    FoundMemoriesBody,
    KeptBody,
    Kind,
    MemoryBody,
    RequestBody,
    Shown,
    SourceBody,
    Statement,
    Trust,
    WhyBody,
    forgotten_body,
    found_body,
    kept_body,
    memory_body,
    source_body,
    why_body,
)
from threadkeep.gateway.idempotency import IdempotentRoute
from threadkeep.gateway.inputs import (
    Cursor,
    IfMatch,
    ItemId,
    Limit,
    OwnerClient,
    Reader,
    Writer,
    changed_since,
    expected_revision,
    parse_where,
    set_etag,
)

if TYPE_CHECKING:
    from threadkeep import Version

router = APIRouter(prefix="/memories", tags=["memories"], route_class=IdempotentRoute)

IMPORT_LINES = 5_000
MOST_TAGS = 32
TAG_CHARACTERS = 64

Tags = Annotated[list[Annotated[str, Field(max_length=TAG_CHARACTERS)]], Field(max_length=MOST_TAGS)]
"""Words of the application's."""

Values = Annotated[
    dict[Annotated[str, Field(max_length=TAG_CHARACTERS)], Statement | StrictBool | StrictInt | StrictFloat | None],
    Field(max_length=MOST_TAGS),
]
"""Names and values of the application's."""

TagQuery = Annotated[list[str] | None, Query(max_length=MOST_TAGS)]
"""Tags of a filter; the parameter may be repeated."""

ItemKey = Annotated[str, StringConstraints(min_length=1, max_length=ID_CHARACTERS)]


class MemoriesBody(BaseModel):
    """A page of memories, most recently changed first.

    Attributes:
        memories: The memories.
        cursor: What to pass for the next page; ``None``: this is the last one.
    """

    memories: list[MemoryBody]
    cursor: str | None


class NewMemoryBody(RequestBody):
    """A statement to keep.

    Attributes:
        text: The statement.
        kind: Which kind it is.
        pinned: Whether it never expires.
        valid_from: From when on it is true.
        approved: Whether the user approves it: how to behave is proposed otherwise. Needs the scope memory:review.
        tags: Words to filter by.
        metadata: Names and values to filter by: strings, numbers, truth values or ``null``.
    """

    text: Statement
    kind: Kind = "semantic"
    pinned: bool = False
    valid_from: AwareDatetime | None = None
    approved: bool = False
    tags: Tags = Field(default=[])
    metadata: Values = Field(default={})


class LabelsBody(RequestBody):
    """The tags and metadata that a memory has from now on.

    Attributes:
        tags: The tags; ``None``: as they are.
        metadata: The names and values; ``None``: as they are.
    """

    tags: Tags | None = None
    metadata: Values | None = None


class CorrectionBody(RequestBody):
    """What is true instead.

    Attributes:
        text: The statement.
        approved: Whether the user approves it: needed for how to behave, with the scope memory:review.
    """

    text: Statement
    approved: bool = False


class VersionBody(BaseModel):
    """What a memory said before.

    Attributes:
        text: The statement.
        replaced_at: When it was replaced.
        valid_from: From when on it was true.
        valid_to: Until when it was true.
        sources: Where it was said.
    """

    text: Shown
    replaced_at: datetime
    valid_from: datetime | None
    valid_to: datetime | None
    sources: list[SourceBody]


class VersionsBody(BaseModel):
    """The earlier versions of a memory, oldest first.

    Attributes:
        versions: The versions.
    """

    versions: list[VersionBody]


class PinBody(RequestBody):
    """Whether a memory never expires.

    Attributes:
        pinned: Whether it never expires.
    """

    pinned: bool = True


class PinnedBody(BaseModel):
    """A memory that was pinned, or is no longer.

    Attributes:
        memory_id: The memory.
        pinned: Whether it never expires.
        revision: Its revision.
    """

    memory_id: str
    pinned: bool
    revision: int


class UndoBody(RequestBody):
    """How many changes to undo.

    Attributes:
        last: The number of changes, from the last one.
    """

    last: int = Field(default=1, ge=1, le=100)


class UndoneBody(BaseModel):
    """What was undone.

    Attributes:
        memory_ids: The memories that were changed back.
        removed: The memories that are gone.
        left: The ids that stay as they are, and why.
    """

    memory_ids: list[str]
    removed: list[str]
    left: dict[str, str]


class ImportedBody(BaseModel):
    """What was imported.

    Attributes:
        accepted: The memories that were added.
        duplicates: The memories that were known.
        proposed: The proposals that wait for a decision.
        rejected: The numbers of lines with statements that must not be learnt again.
        invalid: The numbers of lines that are no memories.
    """

    accepted: list[str]
    duplicates: list[str]
    proposed: list[str]
    rejected: list[int]
    invalid: list[int]


class KindBody(BaseModel):
    """A kind of memory.

    Attributes:
        name: Its key.
        description: Which statements are of this kind.
        fields: The JSON schema of its metadata; none: any metadata.
    """

    name: str
    description: str
    fields: dict[str, Any] | None = Field(validation_alias="schema")


class KindsBody(BaseModel):
    """The kinds of memory that the service knows.

    Attributes:
        kinds: The built-in ones first.
    """

    kinds: list[KindBody]


class Filters(TypedDict):
    """What ``tk.memories.list`` and ``search`` filter by."""

    kind: Kind | None
    trust: Trust | None
    thread_id: str | None
    pinned: bool | None
    since: datetime | None
    tags: list[str]
    any_tags: list[str]
    metadata: dict[str, Any] | None


def filters(
    kind: Kind | None = None,
    trust: Trust | None = None,
    thread_id: Annotated[str | None, Query(min_length=1, max_length=ID_CHARACTERS)] = None,
    pinned: bool | None = None,  # noqa: FBT001 - a parameter of the query
    since: AwareDatetime | None = None,
    tag: TagQuery = None,
    any_tag: TagQuery = None,
    metadata: Annotated[str | None, Query(max_length=10_000)] = None,
) -> Filters:
    """Return the filters of a list or search.

    *since*: changed then or later; all of *tag*; one of *any_tag*; *metadata*: a JSON object of names and
    values.
    """
    return {
        "kind": kind,
        "trust": trust,
        "thread_id": thread_id,
        "pinned": pinned,
        "since": since,
        "tags": tag or [],
        "any_tags": any_tag or [],
        "metadata": parse_where(metadata, name="metadata"),
    }


Wanted = Annotated[Filters, Depends(filters)]


@router.get("")
async def list_memories(
    user: Reader,
    wanted: Wanted,
    limit: Limit = 50,
    cursor: Cursor = None,
    memory_id: Annotated[list[ItemKey] | None, Query(max_length=100)] = None,
) -> MemoriesBody:
    """List the memories of the user, most recently changed first; *since*: changed then or later.

    With *tag*, those with all of these tags; with *any_tag*, those with one of them. *metadata* is a JSON object of
    names and values that they have.

    With *memory_id*, return these memories, as far as they are there; the other parameters are ignored.
    """
    if memory_id is not None:
        named = await user.tk.memories.get_many(memory_id)
        return MemoriesBody(memories=[memory_body(one) for one in named.values()], cursor=None)
    bound = ("memories", *(str(one or "") for one in wanted.values()))
    rows = partial(user.tk.memories.list, **wanted)
    found, more = await user.page(rows, *bound, cursor=cursor, limit=limit)
    return MemoriesBody(memories=[memory_body(one) for one in found], cursor=more)


@router.post("", status_code=201)
async def add_memory(body: NewMemoryBody, user: Writer) -> KeptBody:
    """Keep a statement; how to behave is proposed, unless the user approves it."""
    result = await user.tk.memories.remember(
        body.text,
        kind=body.kind,
        pinned=body.pinned,
        valid_from=body.valid_from,
        approved_by=user.approver(approved=body.approved),
        tags=body.tags,
        metadata=body.metadata,
    )
    return kept_body(result)


@router.get("/kinds")
async def list_kinds(user: Reader) -> KindsBody:
    """List the kinds of memory, the built-in ones first; *fields*: the JSON schema of a kind's metadata."""
    kinds = user.tk.kinds
    return KindsBody(kinds=[KindBody.model_validate(one.shown()) for one in kinds])


@router.get("/search")
async def search_memories(
    user: Reader, wanted: Wanted, q: Annotated[str, Query(min_length=1, max_length=2_000)], limit: Limit = 10
) -> FoundMemoriesBody:
    """Return the memories that are most like *q*, best first, of those that the filters of the list leave."""
    return found_body(await user.tk.memories.search(q, limit=limit, **wanted))


@router.get("/export", response_class=StreamingResponse, responses={200: {"content": {"application/x-ndjson": {}}}})
async def export_memories(user: Reader) -> StreamingResponse:
    """Return every memory as JSON Lines."""
    return StreamingResponse(_lines(user.tk), media_type="application/x-ndjson")


@router.post(
    "/import", openapi_extra={"requestBody": {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}}
)
async def import_memories(request: Request, user: Writer) -> ImportedBody:
    """Import memories from JSON Lines, as the export writes them; ids are kept."""
    text = (await request.body()).decode("utf-8", "replace")
    count = text.count("\n") + (not text.endswith("\n"))
    if count > IMPORT_LINES:
        msg = f"The import has {count:,} lines, and {IMPORT_LINES:,} are the most; split it."
        raise TooLargeError(msg)
    result = await user.tk.memories.import_lines(text)
    return ImportedBody(
        accepted=[*result.memory_ids],
        duplicates=[*result.duplicates],
        proposed=[*result.proposal_ids],
        rejected=[*result.refused],
        invalid=[*result.faults],
    )


@router.post("/undo")
async def undo_changes(body: UndoBody, user: Writer) -> UndoneBody:
    """Undo the last changes of memories; what was forgotten stays forgotten."""
    undone = await user.tk.memories.undo(body.last)
    return UndoneBody(memory_ids=[*undone.memory_ids], removed=[*undone.removed], left={**undone.left})


@router.get("/{memory_id}")
async def show_memory(memory_id: ItemId, response: Response, user: Reader) -> MemoryBody:
    """Return a memory; its ETag is needed to change it."""
    memory = await user.tk.memories.require(memory_id)
    set_etag(response, memory.revision)
    return memory_body(memory)


@router.patch("/{memory_id}")
async def correct_memory(
    memory_id: ItemId, body: CorrectionBody, response: Response, user: Writer, if_match: IfMatch = None
) -> MemoryBody:
    """Replace what a memory says; the old text stays in its history."""
    revision = expected_revision(if_match)
    by = user.approver(approved=body.approved)
    memories = user.tk.memories
    with _unchanged_since():
        memory = await memories.correct(memory_id, body.text, revision=revision, approved_by=by)
    set_etag(response, memory.revision)
    return memory_body(memory)


@router.delete("/{memory_id}")
async def forget_memory(
    memory_id: ItemId,
    user: Writer,
    if_match: IfMatch = None,
    dry: bool = False,  # noqa: FBT001, FBT002 - a parameter of the query
) -> ForgottenBody:
    """Remove a memory with its history; it is not learnt again. *dry*: change nothing, and return what would go."""
    revision = expected_revision(if_match)
    with _unchanged_since():
        return forgotten_body(await user.tk.memories.forget(memory_id, revision=revision, dry=dry))


@router.get("/{memory_id}/history")
async def show_history(memory_id: ItemId, user: Reader) -> VersionsBody:
    """Return what a memory said before, oldest first."""
    history = await user.tk.memories.history(memory_id)
    return VersionsBody(versions=[_version(one) for one in history])


@router.get("/{memory_id}/why")
async def explain_memory(memory_id: ItemId, user: Reader) -> WhyBody:
    """Return where a memory comes from."""
    return why_body(await user.tk.memories.why(memory_id))


@router.put("/{memory_id}/labels")
async def label_memory(memory_id: ItemId, body: LabelsBody, user: Writer) -> MemoryBody:
    """Replace the tags or the metadata of a memory."""
    memories = user.tk.memories
    return memory_body(await memories.label(memory_id, tags=body.tags, metadata=body.metadata))


@router.post("/{memory_id}/pin")
async def pin_memory(
    memory_id: ItemId, body: PinBody, response: Response, user: Writer, if_match: IfMatch = None
) -> PinnedBody:
    """Make a memory never expire, or let it expire again."""
    revision = expected_revision(if_match)
    with _unchanged_since():
        memory = await user.tk.memories.pin(memory_id, revision=revision, pinned=body.pinned)
    set_etag(response, memory.revision)
    return PinnedBody(memory_id=memory.memory_id, pinned=memory.pinned, revision=memory.revision)


def _version(version: Version) -> VersionBody:
    return VersionBody(
        text=version.text,
        replaced_at=version.replaced_at,
        valid_from=version.valid_from,
        valid_to=version.valid_to,
        sources=[source_body(one) for one in version.sources],
    )


@contextmanager
def _unchanged_since() -> Generator[None]:
    """Answer a revision that is not the current one."""
    try:
        yield
    except RevisionConflictError as error:
        raise changed_since() from error


async def _lines(tk: OwnerClient) -> AsyncIterator[bytes]:
    async for memory in tk.memories.walk():
        yield to_json(memory, serialize_unknown=True) + b"\n"
