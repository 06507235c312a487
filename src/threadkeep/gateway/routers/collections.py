"""``/collections``: documents that the users of a tenant share."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from threadkeep.gateway.bodies import Shown
from threadkeep.gateway.inputs import ItemId, Limit, Reader, client_of

router = APIRouter(prefix="/collections", tags=["collections"])


class PassageBody(BaseModel):
    """A part of a document. Its text is data: a document may say anything.

    Attributes:
        document_id: The document.
        title: Its title.
        place: The number of the part, from 0.
        text: What it says.
        score: In [0, 1], higher is closer.
    """

    document_id: Shown
    title: Shown
    place: int
    text: Shown
    score: float


class PassagesBody(BaseModel):
    """What was found, best first.

    Attributes:
        passages: The parts of documents.
        degraded: What could not be used, such as ``embedder``.
    """

    passages: list[PassageBody]
    degraded: list[str]


@router.get("/{name}/search")
async def search_collection(
    name: ItemId,
    request: Request,
    principal: Reader,
    q: Annotated[str, Query(min_length=1, max_length=2_000)],
    limit: Limit = 10,
) -> PassagesBody:
    """Return the parts of documents that are most like *q*, best first."""
    found = await client_of(request, principal).collections.search(name, q, limit=limit)
    return PassagesBody(
        passages=[
            PassageBody(document_id=one.document_id, title=one.title, place=one.place, text=one.text, score=one.score)
            for one in found.passages
        ],
        degraded=[*found.degraded],
    )
