"""``/collections``: documents that the users of a tenant share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel

from threadkeep.gateway.bodies import ID_CHARACTERS, Shown
from threadkeep.gateway.inputs import ItemId, Limit, Reader, parse_where

if TYPE_CHECKING:
    from threadkeep.collections.models import Passage

MAX_FURTHER: Final = 19
_Name = Annotated[str, Query(min_length=1, max_length=ID_CHARACTERS)]

router = APIRouter(prefix="/collections", tags=["collections"])


class PassageBody(BaseModel):
    """A part of a document. Its text is data: a document may say anything.

    Attributes:
        collection: The collection of the document.
        document_id: The document.
        title: Its title.
        headings: The headings above it, the outermost first.
        page: Its page or slide, from 1; null: the document has none.
        citation: Document, headings and page in one line.
        place: The number of the part, from 0.
        text: What it says.
        score: In [0, 1], higher is closer.
    """

    collection: Shown
    document_id: Shown
    title: Shown
    headings: list[Shown]
    page: int | None
    citation: Shown
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


def passage_body(passage: Passage) -> PassageBody:
    """Return *passage* as clients see it."""
    return PassageBody(
        collection=passage.collection,
        document_id=passage.document_id,
        title=passage.title,
        headings=[*passage.headings],
        page=passage.page,
        citation=passage.citation,
        place=passage.place,
        text=passage.text,
        score=passage.score,
    )


@router.get("/{name}/search")
async def search_collection(
    name: ItemId,
    user: Reader,
    q: Annotated[str, Query(min_length=1, max_length=2_000)],
    also: Annotated[list[_Name] | None, Query(max_length=MAX_FURTHER)] = None,
    where: Annotated[str | None, Query(max_length=2_000)] = None,
    limit: Limit = 10,
) -> PassagesBody:
    """Return the parts of documents that have to do with *q*, best first.

    *also* names further collections, and *where* is a JSON object of conditions on the documents' metadata.
    """
    collections = user.tk.collections
    found = await collections.search([name, *(also or ())], q, limit=limit, where=parse_where(where))
    return PassagesBody(passages=[*map(passage_body, found.passages)], degraded=[*found.degraded])
