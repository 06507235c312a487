"""Search by meaning, with an embedder of arithmetic: texts that share words are near to each other."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from langchain_core.embeddings import Embeddings
from langgraph.store.base import Op, PutOp

from threadkeep.testing.models import HashingEmbeddings, hashed
from threadkeep_conformance.check import CALL_SECONDS, CheckFailedError, check, keys, same, true
from threadkeep_conformance.world import DIMS, TEXT, WHOLE, OpenStore, World, index_of

NEAR = 0.98
"""A cosine from which two texts are the same one, for stores that keep halves or bytes of numbers."""


@check("meaning.best-first", source="BaseStore.search: query", options=TEXT)
async def the_best_comes_first(world: World) -> None:
    """The items are sorted by score, the most similar first."""
    await world.put("tea", {"text": "likes green tea in the morning"})
    await world.put("bike", {"text": "rides a red bike to work"})
    await world.put("cat", {"text": "has a cat called Momo"})
    found = await world.search(query="what green tea in the morning?")
    same(keys(found)[:1], ["tea"], "the best")
    scores: list[Any] = [item.score for item in found if item.score is not None]
    true(scores and scores == sorted(scores, reverse=True), f"the scores do not fall: {scores}")


@check("meaning.cosine", source="SearchItem.score: cosine similarity by default", options=TEXT)
async def the_score_is_the_cosine(world: World) -> None:
    """The score of an equal text is 1, and of an unrelated text near 0."""
    await world.put("same", {"text": "likes green tea"})
    await world.put("other", {"text": "rides red bicycles"})
    found = {item.key: item.score for item in await world.search(query="likes green tea")}
    same(set(found), {"same", "other"}, "what is found")
    true(abs(found["same"] - 1) < 1 - NEAR, f"the score of the very text is {found['same']}")
    true(abs(found["other"]) < 0.5, f"the score of another text is {found['other']}")  # noqa: PLR2004 - far from 1


@check("meaning.fields", source="IndexConfig.fields; langgraph#8808: SqliteStore embeds everything", options=TEXT)
async def only_the_fields_are_searched(world: World) -> None:
    """Only the configured fields affect the score."""
    await world.put("tea", {"text": "likes green tea", "noise": "rides a red bike to work every day of the year"})
    await world.put("bike", {"text": "rides a red bike", "noise": "likes green tea and nothing else but green tea"})
    found = await world.search(query="likes green tea")
    same(keys(found)[:1], ["tea"], "the best")
    true(found[0].score > NEAR, f"the score of the very text is {found[0].score}")


@check("meaning.whole", source="IndexConfig.fields: “$” by default", options=WHOLE)
async def the_whole_value_by_default(world: World) -> None:
    """Without configured fields, the whole value is searched."""
    await world.put("tea", {"a": "likes green tea", "b": {"c": "in the morning"}})
    await world.put("bike", {"a": "rides a red bike", "b": {"c": "to work"}})
    same(keys(await world.search(query="green tea"))[:1], ["tea"], "the best for a first field")
    same(keys(await world.search(query="to work"))[:1], ["bike"], "the best for a deeper field")


@check("meaning.own-fields", source="BaseStore.put: index=[…]", options=TEXT)
async def a_put_says_what_is_searched(world: World) -> None:
    """The ``index`` of a put names the searched fields: by name, by path, of all elements."""
    await world.put("name", {"text": "x", "title": "green tea"}, index=["title"])
    await world.put("path", {"text": "x", "meta": {"title": "red bike"}}, index=["meta.title"])
    await world.put("each", {"text": "x", "tags": [{"t": "blue"}, {"t": "black cat"}]}, index=["tags[*].t"])
    for query, key in (("green tea", "name"), ("red bike", "path"), ("black cat", "each")):
        (best, *_) = await world.search(query=query)
        same(best.key, key, f"the best for {query}")
        true(best.score > NEAR, f"the score of the very text of {key} is {best.score}")


@check("meaning.several-texts", source="measured: AsyncRedisStore keeps the last field's vector only", options=TEXT)
async def the_best_of_its_texts_counts(world: World) -> None:
    """An item with several texts is found once, with its best score."""
    await world.put("k", {"a": "green tea", "b": "red bike"}, index=["a", "b"])
    await world.put("other", {"a": "green bike"}, index=["a"])
    for query in ("green tea", "red bike"):
        found = await world.search(query=query)
        same(keys(found), ["k", "other"], f"what is found for {query}")
        true(found[0].score > NEAR, f"the score of the very text is {found[0].score}")


@check("meaning.not-indexed", source="BaseStore.put: index=False", options=TEXT)
async def what_is_not_indexed_has_no_score(world: World) -> None:
    """An item put with ``index=False`` is stored, and no query ranks it first."""
    await world.put("hidden", {"text": "likes green tea"}, index=False)
    await world.put("seen", {"text": "rides a red bike"})
    found = await world.search(query="likes green tea")
    same(keys(found)[:1], ["seen"], "the best")
    same([item.score for item in found if item.key == "hidden"] or [None], [None], "the score of what is not indexed")
    same((await world.require("hidden")).value, {"text": "likes green tea"}, "the value")


@check("meaning.updated", source="langgraph#8214: InMemoryStore and PostgresStore keep the old vector", options=TEXT)
async def an_update_takes_the_old_meaning_away(world: World) -> None:
    """After an update the old text is not found: with another text, without text, with ``index=False``."""
    again: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("text", {"text": "rides a red bike"}, {}),
        ("none", {"other": "x"}, {}),
        ("off", {"text": "likes green tea"}, {"index": False}),
    ]
    for key, value, options in again:
        await world.put(key, {"text": "likes green tea"}, key)
        await world.put(key, value, key, **options)
        scores = [item.score for item in await world.search(key, query="likes green tea")]
        true(all(score is None or score < NEAR for score in scores), f"the old text ({key}) is found: {scores}")


@check("meaning.deleted", source="langgraph#8757: SqliteStore leaves the vector behind", options=TEXT)
async def a_deleted_meaning_is_gone(world: World) -> None:
    """A deleted text is not found, also if the key is put again without text."""
    await world.put("k", {"text": "likes green tea"})
    await world.store.adelete(world.at(), "k")
    same(keys(await world.search(query="likes green tea")), [], "what is found after the delete")
    await world.put("k", {"text": "likes green tea"}, index=False)
    scores = [item.score for item in await world.search(query="likes green tea")]
    true(all(score is None for score in scores), f"the deleted text is found again: {scores}")


@check("meaning.equal-texts", source="langgraph#8822: InMemoryStore.batch raises ValueError", options=TEXT)
async def equal_texts_in_one_batch(world: World) -> None:
    """Two items with the same text in one batch are both found."""
    ops: list[Op] = [PutOp(world.at(), key, {"text": "likes green tea"}) for key in ("a", "b")]
    await world.store.abatch(ops)
    same(await world.found(query="green tea"), {"a", "b"}, "what is found")


@check("meaning.pages", source="measured: PostgresStore and SqliteStore end after 2·limit", options=TEXT)
async def pages_go_all_the_way(world: World) -> None:
    """With a query, each item is on exactly one page."""
    await world.fill({f"k{number}": {"text": f"likes tea number {number}"} for number in range(33)})
    pages = [keys(await world.search(query="likes tea", limit=5, offset=offset)) for offset in range(0, 40, 5)]
    same([len(page) for page in pages], [5, 5, 5, 5, 5, 5, 3, 0], "the sizes of the pages")
    same(len({key for page in pages for key in page}), 33, "the items of all pages")


@check("meaning.large-page", source="measured: PostgresStore's index gives 40 candidates", options=TEXT)
async def a_large_page_is_whole(world: World) -> None:
    """With a query, a limit of 100 returns all of 70 items."""
    await world.fill({f"k{number}": {"text": f"likes tea number {number}"} for number in range(70)})
    same(len(await world.search(query="likes tea", limit=100)), 70, "how many")


@check("meaning.slow-embedder", source="measured: AsyncBatchedBaseStore has one worker for all calls")
async def a_slow_embedder_holds_up_nobody_else(world: World) -> None:
    """While the texts of one call are embedded, other calls are answered."""
    embed = _Held()
    async with world.place() as open_store, open_store(index=index_of(embed=embed)) as store:
        await store.aput(world.at(), "k", {"n": 1}, index=False)
        slow = asyncio.create_task(store.aput(world.at(), "slow", {"text": "likes green tea"}))
        await embed.asked()
        try:
            item = await asyncio.wait_for(store.aget(world.at(), "k"), CALL_SECONDS / 2)
        except TimeoutError:
            msg = "a Get waits for the texts of another call to be embedded"
            raise CheckFailedError(msg) from None
        finally:
            embed.release()
            await slow
        same(item and item.value, {"n": 1}, "the value")


class _Held(Embeddings):
    """An embedder that answers when it is released, where it is asked for tea."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._released = threading.Event()
        self._inner = HashingEmbeddings(dims=DIMS)

    async def asked(self) -> None:
        await asyncio.to_thread(self._asked.wait, CALL_SECONDS)

    def release(self) -> None:
        self._released.set()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if any("green tea" in text for text in texts):
            self._asked.set()
            self._released.wait(CALL_SECONDS * 2)
        return self._inner.embed_documents(texts)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self.embed_documents, texts)

    def embed_query(self, text: str) -> list[float]:
        return self._inner.embed_query(text)


@check("meaning.another-model", source="measured: PostgresStore raises DataException")
async def another_model_may_come(world: World) -> None:
    """After a change to a model with other dimensions, new items are found by meaning."""
    async with world.place() as open_store:
        await _one_put(open_store, world, dims=DIMS, key="old")
        async with open_store(index=index_of(dims=2 * DIMS)) as store:
            await store.aput(world.at(), "new", {"text": "rides a red bike"})
            found = await store.asearch(world.at(), query="rides a red bike")
            same([item.key for item in found][:1], ["new"], "the best")


@check("meaning.wide", source="text-embedding-3-large has 3,072; pgvector's HNSW index takes 2,000")
async def wide_vectors_are_kept(world: World) -> None:
    """Embeddings may have 3,072 dimensions."""
    async with world.place() as open_store:
        await _one_put(open_store, world, dims=3072, key="k")


async def _one_put(open_store: OpenStore, world: World, *, dims: int, key: str) -> None:
    async with open_store(index=index_of(dims=dims)) as store:
        await store.aput(world.at(), key, {"text": "likes green tea"})
        found = await store.asearch(world.at(), query="green tea")
        same([item.key for item in found], [key], f"what is found with {dims} dimensions")


@check(
    "meaning.many-users",
    source="measured: PostgresStore's vector index is filtered after the search",
    options=TEXT,
    large=True,
)
async def a_user_among_many_finds_all(world: World) -> None:
    """With 50 users of 1,000 items each, each search returns the user's ten nearest items."""
    texts = [f"likes {_TOPICS[n % 10]} number{n} and number{n * 7}" for n in range(1000)]
    for user in range(50):
        for start in (0, 500):
            ops: list[Op] = [
                PutOp(world.at(f"user{user}"), f"k{n}", {"text": texts[n]}) for n in range(start, start + 500)
            ]
            await world.store.abatch(ops)
    vectors = hashed(texts, dims=DIMS)
    for user in (0, 25, 49):
        for topic in _TOPICS:
            cosines = vectors @ hashed([f"likes {topic}"], dims=DIMS)[0]
            found = await world.search(f"user{user}", query=f"likes {topic}", limit=10)
            same(len(found), 10, f"how many of user{user} about {topic}")
            worst = min(cosines[int(item.key[1:])] for item in found)
            best = sorted(cosines)[-10]
            true(worst > best - (1 - NEAR), f"{topic} of user{user}: the tenth has a cosine of {worst}, not {best}")


_TOPICS = ("tea", "bike", "cat", "piano", "garden", "train", "chess", "bread", "river", "star")
