"""The LangGraph store: search, filters, pages, namespaces."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.base import PutOp

from tests.langgraph.store_world import StoreWorld, on_memory
from threadkeep.errors import EmbedderUnavailableError, InvalidInputError
from threadkeep.identity import Owner
from threadkeep.langgraph.store import ThreadkeepStore
from threadkeep.storage.interface import Batch, Put

Filter = dict[str, Any]


def keys(items: list[Any]) -> list[str]:
    return [item.key for item in items]


class TestSearchWithoutAQuery:
    async def test_newest_first_without_scores(self, store: ThreadkeepStore, world: StoreWorld):
        """The order is by the last update; nothing is compared, so nothing has a score."""
        for key in "abc":
            await store.aput(("docs",), key, {})
            world.pass_by(seconds=1)
        await store.aput(("docs",), "a", {"v": 2})

        found = await store.asearch(("docs",))

        assert keys(found) == ["a", "c", "b"]
        assert {item.score for item in found} == {None}

    @pytest.mark.parametrize("prefix", [("docs",), ()])
    @pytest.mark.parametrize("size", [1, 3, 7, 100])
    async def test_pages_fit_together(self, store: ThreadkeepStore, prefix: tuple[str, ...], size: int):
        """Pages of any size repeat nothing and leave out nothing, though all times are equal."""
        await store.abatch([PutOp(("docs", f"n{number % 3}"), f"k{number}", {"n": number}) for number in range(20)])
        for number in range(20, 25):
            await store.aput(("docs", f"n{number % 3}"), f"k{number}", {"n": number})
        whole = keys(await store.asearch(prefix, limit=100))

        pages = [keys(await store.asearch(prefix, limit=size, offset=at)) for at in range(0, 31, size)]

        assert [key for page in pages for key in page] == whole
        assert sorted(whole) == sorted(f"k{number}" for number in range(25))

    async def test_labels_match_whole(self, store: ThreadkeepStore):
        """A prefix never finds a longer label, nor one that differs in a wildcard or in case."""
        for label in ("user1", "user10", "user_1", "User1", "user1\n", "%", "*"):
            await store.aput(("x", label), "k", {})

        for label in ("user1", "user_1", "%", "*", "user"):
            found = await store.asearch(("x", label))
            assert [item.namespace[1] for item in found] == ([label] if label != "user" else [])

    async def test_a_list_prefix_is_a_tuple(self, store: ThreadkeepStore):
        """It finds what the tuple finds."""
        await store.aput(("x", "y"), "k", {})

        assert keys(await store.asearch(["x"])) == ["k"]  # pyright: ignore[reportArgumentType]

    async def test_an_empty_page(self, store: ThreadkeepStore):
        """A limit of 0 and an offset beyond the end give nothing."""
        await store.aput(("docs",), "k", {})

        assert await store.asearch(("docs",), limit=0) == []
        assert await store.asearch(("docs",), offset=5) == []
        assert await store.asearch(("nothing",)) == []


class TestSearchAcrossPartitions:
    @pytest.fixture
    async def three_owners(self, store: ThreadkeepStore, world: StoreWorld) -> None:
        for number, (root, label) in enumerate(
            [("memories", "ana"), ("users", "ana"), ("docs", "ana"), ("memories", "bob"), ("summaries", "~tk~bad+zz")]
        ):
            await store.aput((root, label), str(number), {"data": f"word{number} shared"})
            world.pass_by(seconds=1)

    @pytest.mark.usefixtures("three_owners")
    async def test_the_empty_prefix_sees_everything(self, store: ThreadkeepStore):
        """Every owner and every root, newest first."""
        assert keys(await store.asearch(())) == ["4", "3", "2", "1", "0"]

    @pytest.mark.usefixtures("three_owners")
    async def test_a_layouts_root_sees_all_owners(self, store: ThreadkeepStore):
        """Prefixes that span owners are answered across their partitions."""
        assert keys(await store.asearch(("memories",))) == ["3", "0"]
        assert keys(await store.asearch(("summaries",))) == ["4"]

    @pytest.mark.usefixtures("three_owners")
    @pytest.mark.parametrize("ranking", ["hybrid", "dense"])
    async def test_a_query_merges_by_score(self, world: StoreWorld, ranking: str):
        """The best answer of all partitions comes first, and pages fit together."""
        store = world.store(ranking=ranking)

        found = await store.asearch((), query="word3 shared")

        assert found[0].key == "3"
        scores = [item.score for item in found]
        assert scores == sorted(scores, reverse=True)  # pyright: ignore[reportArgumentType, reportCallIssue]
        assert len(found) == 5
        pages = [await store.asearch((), query="word3 shared", limit=2, offset=at) for at in (0, 2, 4)]
        assert [key for page in pages for key in keys(page)] == keys(found)

    @pytest.mark.usefixtures("three_owners")
    async def test_internal_rows_are_never_seen(self, store: ThreadkeepStore, world: StoreWorld):
        """What Threadkeep keeps for itself in an owner's partition is found by no search and in no list."""
        owner = Owner("ana")
        put = Put((".turns", owner.label), "secret", {"data": "word0 shared"}, index=("data",))
        await world.home.run(world.storage.commit(Batch(owner.partition, [put])))

        everything = [
            *await store.asearch((), limit=100),
            *await store.asearch((), query="word0 shared", limit=100),
            *await world.store(ranking="dense").asearch((), query="word0", limit=100),
        ]

        assert "secret" not in keys(everything)
        assert not any(label.startswith(".") for namespace in await store.alist_namespaces() for label in namespace)


class TestSearchWithAQuery:
    async def test_dense_scores_are_cosines(self, world: StoreWorld):
        """As a stock store with an index gives them."""
        store = world.store(ranking="dense")
        await store.aput(("docs",), "same", {"text": "red apple"}, index=["text"])
        await store.aput(("docs",), "half", {"text": "red car"}, index=["text"])

        same, half = await store.asearch(("docs",), query="red apple")

        assert (same.key, half.key) == ("same", "half")
        assert same.score == pytest.approx(1, abs=1e-3)
        assert half.score == pytest.approx(0.5, abs=1e-2)

    async def test_fields_may_be_told_in_the_words_of_sqlite_store(self, world: StoreWorld):
        """``text_fields`` is what its configuration calls them: an index that is taken over is no other index."""
        index: Any = {"dims": 256, "text_fields": ["title"]}
        store = world.store(index=index, ranking="dense")
        await store.aput(("docs",), "k", {"title": "red apple", "note": "long and winding words of no matter"})

        (found,) = await store.asearch(("docs",), query="red apple")

        assert found.score == pytest.approx(1, abs=1e-3)

    async def test_hybrid_scores_are_on_the_scale_of_cosines(self, store: ThreadkeepStore):
        """The very text has 1, as with a stock store, and a text that shares half of its words 0.5."""
        await store.aput(("docs",), "same", {"text": "red apple"}, index=["text"])
        await store.aput(("docs",), "again", {"text": "red apple"}, index=["text"])
        await store.aput(("docs",), "half", {"text": "red car"}, index=["text"])

        found = await store.asearch(("docs",), query="red apple")

        assert [item.score for item in found] == pytest.approx([1, 1, 0.5], abs=1e-2)

    async def test_hybrid_scores_fall_in_the_order_of_the_answers(self, store: ThreadkeepStore, world: StoreWorld):
        """A cosine that is higher than one before it is told as that, on whichever page, with whichever filter."""
        texts = ["apple apple apple apple pie", "apple", "green apple tart", "blue sky", "apple sauce and pie"]
        for number, text in enumerate(texts):
            await store.aput(("docs",), str(number), {"text": text, "even": number % 2 == 0}, index=["text"])

        found = await store.asearch(("docs",), query="apple pie")
        cosines = {
            item.key: item.score for item in await world.store(ranking="dense").asearch(("docs",), query="apple pie")
        }
        pages = [await store.asearch(("docs",), query="apple pie", limit=1, offset=at) for at in range(len(texts))]
        even = await store.asearch(("docs",), query="apple pie", filter={"even": True})

        scores = [item.score for item in found]
        assert scores == [min(cosines[other.key] or 0 for other in found[: at + 1]) for at in range(len(found))]
        assert [item.score for page in pages for item in page] == scores
        assert [item.score for item in even] == [item.score for item in found if item.value["even"]]

    @on_memory
    @pytest.mark.parametrize("ranking", ["hybrid", "dense"])
    @pytest.mark.parametrize("filtered", [None, {"odd": True}, {"n": {"$gte": 3}}])
    @pytest.mark.parametrize("prefix", [("docs",), ()])
    async def test_pages_reach_any_offset(
        self, world: StoreWorld, ranking: str, filtered: Filter | None, prefix: tuple[str, ...]
    ):
        """Pages repeat nothing, leave out nothing, and are exact far beyond twice the limit."""
        store = world.store(ranking=ranking)
        values = {f"k{n}": {"text": f"test number {n}", "n": n, "odd": n % 2 == 1} for n in range(23)}
        await store.abatch([PutOp(("docs",), key, value, index=["text"]) for key, value in values.items()])
        whole = keys(await store.asearch(prefix, query="test number 7", filter=filtered, limit=100))

        pages = [
            keys(await store.asearch(prefix, query="test number 7", filter=filtered, limit=2, offset=at))
            for at in range(0, 26, 2)
        ]

        assert [key for page in pages for key in page] == whole
        assert whole[0] == "k7"
        assert len(whole) == {None: 23, "odd": 11, "n": 20}[next(iter(filtered)) if filtered else None]

    @pytest.mark.parametrize("ranking", ["hybrid", "dense"])
    async def test_the_filter_applies_before_the_limit(self, world: StoreWorld, ranking: str):
        """However many better ones do not meet it, those that do are found."""
        store = world.store(ranking=ranking)
        near = [PutOp(("docs",), f"near{n}", {"text": "red apple", "shop": 1}, index=["text"]) for n in range(120)]
        await store.abatch(near)
        await store.aput(("docs",), "far", {"text": "grey car", "shop": 2}, index=["text"])

        found = await store.asearch(("docs",), query="red apple", filter={"shop": 2}, limit=1)

        assert keys(found) == ["far"]

    async def test_the_whole_value_is_searched_by_default(self, store: ThreadkeepStore):
        """Any field finds an item whose put does not say otherwise."""
        await store.aput(("docs",), "a", {"title": "zebra", "n": {"deep": "xerxes"}})
        await store.aput(("docs",), "b", {"title": "dog"})

        assert keys(await store.asearch(("docs",), query="xerxes"))[0] == "a"

    async def test_fields_of_the_store_and_of_the_put(self, world: StoreWorld):
        """A put's own paths win over the store's, element by element where they say so."""
        store = world.store(index={"fields": ["title"]}, ranking="dense")
        await store.aput(("docs",), "a", {"title": "apple", "body": "banana"})
        await store.aput(("docs",), "b", {"title": "cherry", "tags": ["banana", "grape"]}, index=["tags[*]"])

        banana = await store.asearch(("docs",), query="banana")
        cherry = await store.asearch(("docs",), query="cherry")

        assert [(item.key, round(item.score or 0)) for item in banana] == [("b", 1), ("a", 0)]
        assert {round(item.score or 0) for item in cherry} == {0}

    @on_memory
    @pytest.mark.parametrize("ranking", ["hybrid", "dense"])
    @pytest.mark.parametrize("again", ["without the field", "without an index", "other words"])
    async def test_no_stale_vector_is_left(self, world: StoreWorld, ranking: str, again: str):
        """What an item said before its last put finds it no longer."""
        store = world.store(index={"fields": ["text"]}, ranking=ranking)
        await store.aput(("docs",), "k", {"text": "zany zebra"})
        await store.aput(("docs",), "other", {"text": "plain horse"})
        if again == "without the field":
            await store.aput(("docs",), "k", {"title": "x"})
        elif again == "without an index":
            await store.aput(("docs",), "k", {"text": "zany zebra"}, index=False)
        else:
            await store.aput(("docs",), "k", {"text": "quiet"})

        found = await store.asearch(("docs",), query="zany zebra")

        scores = {item.key: item.score for item in found}
        assert (scores.get("k") or 0) < 0.2

    @pytest.mark.parametrize("ranking", ["hybrid", "dense"])
    async def test_what_is_not_indexed_comes_last_without_a_score(self, world: StoreWorld, ranking: str):
        """As in LangGraph's own store in memory, paging reaches what cannot be compared."""
        store = world.store(ranking=ranking)
        await store.aput(("docs",), "hidden", {"text": "red apple"}, index=False)
        await store.aput(("docs",), "shown", {"text": "grey car"})

        found = await store.asearch(("docs",), query="red apple")

        assert [(item.key, item.score is None) for item in found] == [("shown", False), ("hidden", True)]
        assert keys(await store.asearch(("docs",), query="red apple", offset=1)) == ["hidden"]
        assert keys(await store.asearch(("docs",), query="red apple", limit=1)) == ["shown"]
        assert await store.asearch(("docs",), query="red apple", offset=2) == []

    @pytest.mark.parametrize("ranking", ["hybrid", "dense"])
    async def test_words_decide_while_the_embedder_is_down(self, world: StoreWorld, ranking: str):
        """Items are written all the same and found by their words, in [0, 1]."""
        world.embedder.error = EmbedderUnavailableError("switched off")
        store = world.store(ranking=ranking)
        await store.aput(("docs",), "a", {"text": "zany zebra"})
        await store.aput(("docs",), "b", {"text": "plain horse"})

        found = await store.asearch(("docs",), query="zebra")

        assert found[0].key == "a"
        assert found[0].score is not None
        assert 0 < found[0].score <= 1

    @on_memory
    @pytest.mark.parametrize("query", ["", "  \n", None])
    async def test_an_empty_query_is_none(self, store: ThreadkeepStore, query: str | None):
        """Nothing is compared, nothing is embedded."""
        await store.aput(("docs",), "k", {"text": "x"}, index=False)

        assert [item.score for item in await store.asearch(("docs",), query=query)] == [None]

    @on_memory
    @pytest.mark.parametrize("query", ["x" * 100_000, "\x00", "\ud800", "(OR", "这是中文"])
    async def test_any_query_is_taken(self, store: ThreadkeepStore, query: str):
        """No text is too long or too strange to be asked."""
        await store.aput(("docs",), "k", {"text": "x"})

        assert len(await store.asearch(("docs",), query=query)) == 1


class TestFilter:
    @pytest.fixture
    async def items(self, store: ThreadkeepStore) -> None:
        values: dict[str, Filter] = {
            "nine": {"n": 9, "s": "2024-12-31", "m": {"x": 1, "y": 2}, "a.b": 1, "t": ["a"]},
            "ten": {"n": 10, "s": "2025-06-01", "m": {"x": 2}, "flag": True},
            "half": {"n": 9.5, "s": "2025-01-01", "flag": False, "none": None},
        }
        await store.abatch([PutOp(("docs",), key, value) for key, value in values.items()])

    @on_memory
    @pytest.mark.usefixtures("items")
    @pytest.mark.parametrize(
        ("filtered", "expected"),
        [
            ({"n": {"$gt": 9}}, {"ten", "half"}),
            ({"n": {"$gte": 9.5}}, {"ten", "half"}),
            ({"n": {"$lt": 10}}, {"nine", "half"}),
            ({"n": {"$lte": 9}}, {"nine"}),
            ({"n": {"$gt": 9, "$lt": 10}}, {"half"}),
            ({"n": 10}, {"ten"}),
            ({"n": {"$eq": 10}}, {"ten"}),
            ({"n": {"$ne": 10}}, {"nine", "half"}),
            ({"s": {"$gt": "2025"}}, {"ten", "half"}),
            ({"s": {"$lt": "2025-01-01"}}, {"nine"}),
            ({"m": {"x": 1}}, {"nine"}),
            ({"m": {"x": {"$gt": 1}}}, {"ten"}),
            ({"a.b": 1}, {"nine"}),
            ({"m.y": 2}, {"nine"}),
            ({"m.x": {"$gte": 1}}, {"nine", "ten"}),
            ({"n.x": 1}, set()),
            ({"missing": None}, {"nine", "ten", "half"}),
            ({"t": ["a"]}, {"nine"}),
            ({"t": "a"}, set()),
            ({"flag": True}, {"ten"}),
            ({"flag": False}, {"half"}),
            ({"missing": {"$gt": 1}}, set()),
            ({"n": 9, "s": {"$gt": "2020"}}, {"nine"}),
            ({"n": {"$gt": "1"}}, set()),
        ],
    )
    async def test_values_are_compared_as_what_they_are(
        self, store: ThreadkeepStore, filtered: Filter, expected: set[str]
    ):
        """Numbers as numbers, texts as texts; a field that is not there meets no comparison."""
        assert set(keys(await store.asearch(("docs",), filter=filtered))) == expected
        by_query = await store.asearch(("docs",), filter=filtered, query="2025")
        assert set(keys(by_query)) == expected

    @pytest.mark.usefixtures("items")
    async def test_a_backend_compares_as_the_rules_say(self, store: ThreadkeepStore):
        """Numbers are no texts in a database either, with a query and without."""
        for query in (None, "2025"):
            found = await store.asearch(("docs",), filter={"n": {"$gt": 9}, "s": {"$gt": "2025"}}, query=query)
            assert set(keys(found)) == {"ten", "half"}

    @on_memory
    @pytest.mark.parametrize("filtered", [{"$or": [{"a": 1}]}, {"a": {"$in": [1]}}, {"a": {"$gt": 1, "b": 2}}, ["a"]])
    async def test_unknown_operators_are_refused(self, store: ThreadkeepStore, filtered: Any):
        """They are refused before anything is read, rather than matching nothing in silence."""
        with pytest.raises(InvalidInputError):
            await store.asearch(("docs",), filter=filtered)


class TestListNamespaces:
    @pytest.fixture
    async def namespaces(self, store: ThreadkeepStore) -> None:
        for namespace in [
            ("a", "b", "c"),
            ("a", "b", "d", "e"),
            ("a", "c", "f"),
            ("ab", "b"),
            ("memories", "ana"),
            ("users", "bob", "memories", "user"),
        ]:
            await store.aput(namespace, "k", {})

    @pytest.mark.usefixtures("namespaces")
    @pytest.mark.parametrize(
        ("conditions", "expected"),
        [
            ({"prefix": ("a",)}, [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "c", "f")]),
            ({"prefix": ["a", "*", "f"]}, [("a", "c", "f")]),
            ({"prefix": "ab"}, [("ab", "b")]),
            ({"suffix": ("f",)}, [("a", "c", "f")]),
            ({"suffix": ("*", "e")}, [("a", "b", "d", "e")]),
            ({"prefix": ("a",), "suffix": ("c",)}, [("a", "b", "c")]),
            ({"prefix": ("a", "b"), "max_depth": 2}, [("a", "b")]),
            ({"prefix": ("a",), "max_depth": 2, "limit": 1, "offset": 1}, [("a", "c")]),
            ({"prefix": ("users", "bob")}, [("users", "bob", "memories", "user")]),
            ({"prefix": ("nothing",)}, []),
            ({"limit": 0}, []),
        ],
    )
    async def test_conditions(
        self, store: ThreadkeepStore, conditions: dict[str, Any], expected: list[tuple[str, ...]]
    ):
        """Whole labels, wildcards, cut to a depth and then paged; the same on both faces."""
        assert await store.alist_namespaces(**conditions) == expected
        assert store.list_namespaces(**conditions) == expected

    @pytest.mark.usefixtures("namespaces")
    async def test_all_of_them_sorted(self, store: ThreadkeepStore):
        """Every namespace that holds something is there once."""
        await store.aput(("a", "b", "c"), "second", {})
        await store.adelete(("ab", "b"), "k")

        assert await store.alist_namespaces() == [
            ("a", "b", "c"),
            ("a", "b", "d", "e"),
            ("a", "c", "f"),
            ("memories", "ana"),
            ("users", "bob", "memories", "user"),
        ]

    @on_memory
    @pytest.mark.parametrize("page", [{"limit": -1}, {"offset": -1}, {"max_depth": -1}, {"limit": 1.5}])
    async def test_pages_that_make_no_sense_are_refused(self, store: ThreadkeepStore, page: dict[str, Any]):
        """One sentence instead of a strange slice."""
        with pytest.raises(InvalidInputError):
            await store.alist_namespaces(**page)
