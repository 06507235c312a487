"""Make the vectors of a storage anew, after another embedding model was chosen; resumable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import RevisionConflictError
from threadkeep.storage.interface import Batch, Embedding, Item, Put
from threadkeep.text.tokenizing import texts_of
from threadkeep.transfer.models import Embedded, entry_of
from threadkeep.transfer.sources import item_pages

if TYPE_CHECKING:
    from threadkeep.models.base import Embedder
    from threadkeep.storage.interface import Storage


_ATTEMPTS: Final = 3


async def embed_anew(
    storage: Storage, embedder: Embedder, *, progress: Callable[[int, int], object] = lambda _done, _all: None
) -> Embedded:
    """Give every searchable item of *storage* the vectors of *embedder*, and change nothing else about it.

    Items that have them are left alone, so an interrupted run goes on where it was. Somebody may write
    meanwhile: an item that they change is looked at again.

    Args:
        storage: Connected.
        embedder: Its vectors replace those of any other.
        progress: Told how many items were looked at, and of how many.

    Raises:
        EmbedderUnavailableError: It does not answer; what was embedded so far is kept.
    """
    await embedder.ready()
    dims = embedder.dims or int((await embedder.embed(["How long is a vector?"])).shape[1])
    total, done = (await storage.stats()).items, 0
    result = Embedded(embedder.name)
    async for page in item_pages(storage):
        searchable = [item for item in page if texts_of(item.value, item.index)]
        stale = [item for item in searchable if not is_current(item, embedder.name, dims)]
        result.searchable += len(searchable)
        result.current += len(searchable) - len(stale)
        if stale:
            await _embed(storage, embedder, stale, result, dims=dims)
        done += len(page)
        progress(done, max(done, total))
    return result


def is_current(item: Item, model: str, dims: int) -> bool:
    """Whether *item* has a vector of *model*, of *dims* numbers, for each of its searchable texts."""
    found, texts = item.embedding, len(texts_of(item.value, item.index))
    return found is not None and (found.model, found.dims) == (model, dims) and rows_of(found) == texts


async def _embed(storage: Storage, embedder: Embedder, stale: Sequence[Item], result: Embedded, *, dims: int) -> None:
    """Write the vectors of *stale*, items of one partition; read again what another writer changed meanwhile."""

    async def write() -> int:
        nonlocal stale
        puts = await embedded(embedder, [_same_put(item) for item in stale]) if stale else []
        try:
            if puts:
                await storage.commit(Batch(stale[0].ref.partition, puts))
        except RevisionConflictError:
            stale = [
                item
                for item in await storage.get([item.ref for item in stale])
                if item and texts_of(item.value, item.index) and not is_current(item, embedder.name, dims)
            ]
            raise
        return len(puts)

    try:
        result.embedded += await retry_conflicts(write, attempts=_ATTEMPTS)
    except RevisionConflictError:
        result.changed += len(stale)


def _same_put(item: Item) -> Put:
    """Return the put that writes *item* as it is, if it is still so."""
    return replace(entry_of(item).put, expect=item.revision)


_FLOAT_BYTES: Final = 4


async def embedded(embedder: Embedder, puts: Sequence[Put]) -> list[Put]:
    """Return *puts* with the vectors of their searchable texts; those without such texts as they are.

    Raises:
        EmbedderUnavailableError: The embedder could not be loaded or did not answer.
    """
    texts = [texts_of(put.value, put.index) for put in puts]
    row_of = {text: row for row, text in enumerate(dict.fromkeys(text for found in texts for text in found))}
    if not row_of:
        return list(puts)
    vectors = (await embedder.embed(list(row_of))).astype("<f4", copy=False)
    dims = int(vectors.shape[1])
    return [
        replace(put, embedding=Embedding(embedder.name, dims, vectors[[row_of[text] for text in found]].tobytes()))
        if found
        else put
        for put, found in zip(puts, texts, strict=True)
    ]


def rows_of(embedding: Embedding) -> int:
    """Return how many vectors *embedding* holds."""
    return len(embedding.data) // (embedding.dims * _FLOAT_BYTES)
