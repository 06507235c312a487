"""Tests of one partition's index: exact, however it came to be what it is."""

from __future__ import annotations

import math
from collections import Counter
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recall.world import MEMORIES, NOW, changes, embedding, item
from threadkeep.search.index import PartitionIndex
from threadkeep.search.lexical import K1, B, Postings
from threadkeep.search.query import Query, parse_query
from threadkeep.search.ranking import Method
from threadkeep.search.scoring import WEIGHTS, Hit
from threadkeep.search.vectors import Precision
from threadkeep.storage.interface import Item, Namespace
from threadkeep.text.tokenizing import tokenise

WORDS = [
    "Ana: well",
    "Leo: what?",
    "yesterday",
    "tea",
    "coffee",
    "Lisbon",
    "running",
    "Biscuit",
    "violin",
    "the",
    "allergic",
    "学校",
]
NAMESPACES: list[Namespace] = [MEMORIES, ("users", "ana", "memories", "user"), ("summaries", "ana"), ()]

sources = st.fixed_dictionaries(
    {
        "speaker": st.sampled_from(["user", "user", "assistant", "tool"]),
        "thread_id": st.sampled_from(["one", "two"]),
        "at": st.sampled_from([(NOW + timedelta(hours=hours)).isoformat() for hours in (0, 1, 2, 3, 4, 30, 31)]),
    }
)
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
vectors = st.lists(st.integers(-3, 3), min_size=3, max_size=3).filter(any)


@st.composite
def items(draw: st.DrawFn) -> Item:
    """An item with 0–3 texts, some without vectors, of another model, of another length, or expiring."""
    said = draw(st.lists(texts, max_size=3))
    kind = draw(st.sampled_from(["own", "own", "own", "none", "other model", "other length"]))
    rows = [draw(vectors) for _ in said]
    made = None
    if said and kind != "none":
        cut = [row[:2] for row in rows] if kind == "other length" else rows
        made = embedding(*cut, model="other" if kind == "other model" else "tests")
    return item(
        draw(st.sampled_from("abcdefgh")),
        *said,
        vectors=made,
        namespace=draw(st.sampled_from(NAMESPACES)),
        revision=draw(st.integers(1, 50)),
        expires_at=draw(st.sampled_from([None, None, NOW - timedelta(1), NOW + timedelta(1)])),
        source=draw(st.none() | sources),
    )


def rebuilt(
    known: dict[tuple[Namespace, str], Item], *, dims: int | None = 3, precision: Precision = "float32"
) -> PartitionIndex:
    """Build an index from nothing but what is there."""
    index = PartitionIndex(model="tests", dims=dims, precision=precision)
    index.apply(changes(*known.values(), reset=True))
    return index


def search(index: PartitionIndex, question: str = "tea", *, method: Method = "hybrid", **kwargs: Any) -> list[Hit]:
    """Ask with a fixed vector."""
    given: dict[str, Any] = {"vector": np.array([1, 2, 3], np.float32), "limit": None, **kwargs}
    now = given.pop("now", NOW)
    index.expire(now)
    return list(index.snapshot.search(parse_query(question, now=now), method=method, **given).hits)


def rounded(hits: list[Hit]) -> list[tuple[object, ...]]:
    """Spell hits so that the last bits of a float do not count."""
    return [(h.namespace, h.key, round(h.score, 5), h.cosine and round(h.cosine, 5), round(h.lexical, 9)) for h in hits]


class TestApply:
    @given(
        st.lists(
            st.tuples(st.lists(items(), max_size=5), st.lists(st.sampled_from("abcdefgh"), max_size=3), st.booleans()),
            max_size=8,
        ),
        st.sampled_from(["hybrid", "dense", "lexical"]),
        st.sampled_from(["float32", "int8"]),
    )
    @settings(max_examples=min(60, settings().max_examples))
    @pytest.mark.slow
    def test_a_kept_index_equals_a_rebuilt_one(
        self,
        steps: list[tuple[list[Item], list[str], bool]],
        method: Method,
        precision: Precision,
    ):
        """However an index came to its items, it gives the scores and the order of one built from them."""
        kept = PartitionIndex(model="tests", dims=3, precision=precision)
        known: dict[tuple[Namespace, str], Item] = {}
        for puts, keys, reset in steps:
            removed = [(MEMORIES, key) for key in keys]
            kept.apply(changes(*puts, removed=removed, reset=reset))
            if reset:
                known.clear()
            for name in removed:
                known.pop(name, None)
            for one in puts:
                known.pop((one.ref.namespace, one.ref.key), None)
                known[one.ref.namespace, one.ref.key] = one
            search(kept)

        alive = {name: one for name, one in known.items() if one.expires_at is None or one.expires_at > NOW}
        assert len(kept) == len(alive)
        for question in ("tea Biscuit 学校", "When did Ana run in November?", "What did I do?"):
            assert rounded(search(kept, question, method=method)) == rounded(
                search(rebuilt(alive, precision=precision), question, method=method)
            )

    def test_many_changes_leave_no_waste(self):
        """An item that is rewritten for ever takes the room of one."""
        index = PartitionIndex(model="tests", dims=3)
        for revision in range(1000):
            index.apply(changes(item("a", f"tea number {revision}", vectors=embedding([1, 0, 0]), revision=revision)))

        assert index.rows < 400
        assert index.nbytes < 300_000
        assert [hit.key for hit in search(index, "number 999")] == ["a"]
        assert search(index, "number 999")[0].lexical > search(index, "number 998")[0].lexical

    def test_a_partition_of_many_words_is_sorted_in_as_it_grows(self):
        """Rows in the tail and rows in the sorted part are scored alike."""
        known = {(MEMORIES, f"{n}"): item(f"{n}", f"word{n % 7} word{n} tea shared{n % 3}") for n in range(5000)}
        kept = PartitionIndex(model="tests", dims=3)
        every = list(known.values())
        for start in range(0, len(every), 500):
            kept.apply(changes(*every[start : start + 500]))

        question = "word3 shared1 tea word4999 word12"
        assert search(kept, question, method="lexical") == search(rebuilt(known), question, method="lexical")

    @pytest.mark.slow
    def test_ten_thousand_memories_fit_into_forty_megabytes(self):
        """The limit that is promised, with the reserve of arrays that grew one commit at a time."""
        index = PartitionIndex(model="tests", dims=384)
        row = embedding([1.0] * 384)
        for start in range(0, 10_000, 100):
            batch = [
                item(f"{n:032x}", " ".join(f"w{n * 31 % 9973 + k}" for k in range(17)), vectors=row)
                for n in range(start, start + 100)
            ]
            index.apply(changes(*batch))

        assert 10_000 * 384 * 4 < index.nbytes < 40_000_000

    def test_int8_takes_a_quarter_of_the_memory_and_finds_the_same(self):
        """Cosines of vectors held as int8 are off by less than a hundredth, and a vector is most like itself."""
        rows = np.random.default_rng(5).standard_normal((2_000, 384)).astype(np.float32)
        rows[1] *= 30  # of another length than 1
        known = {(MEMORIES, str(n)): item(str(n), "tea", vectors=embedding(row.tolist())) for n, row in enumerate(rows)}
        whole, small = (rebuilt(known, dims=384, precision=precision) for precision in ("float32", "int8"))

        cosines = [
            {hit.key: hit.cosine for hit in search(one, vector=rows[1], method="dense")} for one in (whole, small)
        ]
        assert whole.nbytes - small.nbytes > 0.74 * 2_000 * 384 * 4
        assert max(abs((cosines[0][key] or 0) - (cosines[1][key] or 0)) for key in cosines[0]) < 0.01
        assert [next(iter(one)) for one in cosines] == ["1", "1"]
        assert all(-1.0 <= (cosine or 0) <= 1.0 for cosine in cosines[1].values())


class TestSearch:
    @given(st.lists(items().filter(lambda one: one.expires_at is None), max_size=12), texts)
    @settings(max_examples=min(40, settings().max_examples))
    def test_a_dense_score_is_the_cosine(self, puts: list[Item], question: str):
        """Scores are those of a brute-force cosine over the item's rows; the best row counts."""
        known = {(one.ref.namespace, one.ref.key): one for one in puts}
        asked = np.array([1, 2, 3]) / np.sqrt(14)
        expected: dict[tuple[Namespace, str], float] = {}
        for name, one in known.items():
            made = one.embedding
            if made is not None and made.model == "tests" and made.dims == 3:
                expected[name] = float((np.frombuffer(made.data, "<f4").reshape(-1, 3) @ asked).max())

        found = search(rebuilt(known), question, method="dense")

        compared = [hit for hit in found if hit.cosine is not None]
        assert {(hit.namespace, hit.key): hit.score for hit in compared} == pytest.approx(expected, abs=2e-6)
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
        assert len(found) == len(known)
        assert all(hit.score == -1.0 for hit in found[len(compared) :])

    @given(st.lists(items().filter(lambda one: one.expires_at is None), min_size=1, max_size=12), texts)
    @settings(max_examples=min(40, settings().max_examples))
    def test_a_lexical_score_is_bm25(self, puts: list[Item], question: str):
        """Scores are those of a naive BM25 over the texts, as a share of its upper bound."""
        known = {(one.ref.namespace, one.ref.key): one for one in puts}
        rows = [(name, tokenise(text)) for name, one in known.items() for text in one.value["texts"] or [""]]
        mean = sum(len(terms) for _, terms in rows) / len(rows)
        asked = set(tokenise(question))
        weights = {
            term: math.log(1 + (len(rows) - n + 0.5) / (n + 0.5))
            for term in asked
            for n in [sum(term in terms for _, terms in rows)]
        }
        bound = sum(weights.values()) * (K1 + 1)
        expected = dict.fromkeys(known, 0.0)
        for name, terms in rows:
            counts = Counter(terms)
            score = sum(
                weights[term] * counts[term] * (K1 + 1) / (counts[term] + K1 * (1 - B + B * len(terms) / (mean or 1)))
                for term in asked
            )
            expected[name] = max(expected[name], score / bound if bound else 0.0)

        found = search(rebuilt(known), question, method="lexical", vector=None)

        assert {(hit.namespace, hit.key): hit.score for hit in found} == pytest.approx(expected)
        assert all(0 <= hit.score == hit.lexical <= 1 for hit in found)

    @given(st.lists(items(), max_size=12), texts, st.sampled_from(["hybrid", "dense", "lexical"]), st.integers(0, 5))
    @settings(max_examples=min(40, settings().max_examples))
    def test_the_filter_applies_before_the_limit(self, puts: list[Item], question: str, method: Method, limit: int):
        """As many hits as asked for come whenever there are as many below the prefixes, and the best ones."""
        known = {(one.ref.namespace, one.ref.key): one for one in puts}
        index = rebuilt(known)
        there = {
            name
            for name, one in known.items()
            if name[0][:1] in (("memories",), ("users",)) and (one.expires_at is None or one.expires_at > NOW)
        }

        prefixes = [("memories",), ("users", "ana"), ("memories", "an"), ("users", "bob")]
        every = search(index, question, method=method, prefixes=prefixes)
        best = search(index, question, method=method, prefixes=prefixes, limit=limit)

        assert {(hit.namespace, hit.key) for hit in every} == there
        assert best == every[:limit]

    @pytest.mark.parametrize("method", ["hybrid", "dense", "lexical"])
    def test_few_of_many_are_found_as_exactly_as_all(self, method: Method):
        """A namespace that is a small part of the partition gives the cosines that it gives alone."""
        rng = np.random.default_rng(0)
        rare = {
            (("rare",), f"{n}"): item(
                f"{n}", f"tea {n}", vectors=embedding(rng.normal(size=3).tolist()), namespace=("rare",)
            )
            for n in range(20)
        }
        many = {
            (MEMORIES, f"{n}"): item(f"{n}", f"coffee {n}", vectors=embedding(rng.normal(size=3).tolist()))
            for n in range(500)
        }

        found = search(rebuilt(rare | many), "tea 3", method=method, prefixes=[("rare",)], limit=5)

        cosines = {hit.key: hit.cosine for hit in search(rebuilt(rare), "tea 3", method=method)}
        assert len(found) == 5
        assert {hit.namespace for hit in found} == {("rare",)}
        assert all(hit.cosine == cosines[hit.key] for hit in found)

    @pytest.mark.parametrize("method", ["hybrid", "dense", "lexical"])
    def test_equals_come_newest_first_then_by_name(self, method: Method):
        """Ties are broken by revision, namespace and key, whatever the limit cuts."""
        same = embedding([1, 1, 0])
        index = PartitionIndex(model="tests", dims=3)
        keys = [(f"{n % 10}", n // 10) for n in range(40)]
        for key, place in keys:
            one = item(key, "tea", vectors=same, namespace=("n", str(place)), revision=7 if place else 8)
            index.apply(changes(one))

        expected = sorted((("n", str(place)), key) for key, place in keys)
        for limit in (1, 5, 15, 39, None):
            found = search(index, "tea", method=method, limit=limit)
            assert [(hit.namespace, hit.key) for hit in found] == expected[:limit]

    @given(st.lists(items(), max_size=12), texts)
    @settings(max_examples=min(40, settings().max_examples))
    def test_public_scores_fall_with_the_order(self, puts: list[Item], question: str):
        """A hybrid score lies in [0, 1], and none is higher than one before it."""
        index = PartitionIndex(model="tests", dims=3)
        index.apply(changes(*puts))

        scores = [hit.score for hit in search(index, question)]

        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)

    def test_an_expired_item_is_not_found(self):
        """Expiry is tested at every search, not when the item arrives."""
        index = PartitionIndex(model="tests", dims=3)
        index.apply(changes(item("a", "tea", expires_at=NOW + timedelta(hours=1)), item("b", "tea")))

        assert {hit.key for hit in search(index)} == {"a", "b"}
        assert {hit.key for hit in search(index, now=NOW + timedelta(hours=1))} == {"b"}

    def test_a_touched_item_comes_back(self):
        """An item that expired here and was touched elsewhere is found again."""
        index = PartitionIndex(model="tests", dims=3)
        index.apply(changes(item("a", "tea", expires_at=NOW)))
        search(index)
        index.apply(changes(item("a", "tea", expires_at=NOW + timedelta(days=1), revision=2)))

        assert [hit.key for hit in search(index)] == ["a"]

    @pytest.mark.parametrize("bad", [float("nan"), float("inf")])
    def test_a_vector_that_is_no_number_is_passed_over(self, bad: float):
        """One broken row must not hide or reorder the others."""
        broken = embedding([1, 0, 0])
        broken = type(broken)(broken.model, 3, np.array([bad, 0, 0], "<f4").tobytes())
        index = PartitionIndex(model="tests", dims=3)
        index.apply(changes(item("a", "tea", vectors=broken), item("b", "tea", vectors=embedding([1, 2, 3]))))

        found = {hit.key: hit.cosine for hit in search(index)}

        assert found == {"a": None, "b": pytest.approx(1.0)}

    def test_vectors_of_any_length_count_as_directions(self):
        """Rows that a foreign writer did not make unit length still give cosines."""
        long = embedding([1, 2, 3])
        long = type(long)(long.model, 3, (np.frombuffer(long.data, "<f4") * 7).astype("<f4").tobytes())
        index = PartitionIndex(model="tests", dims=3)
        index.apply(changes(item("a", "tea", vectors=long)))

        assert search(index, method="dense")[0].score == pytest.approx(1.0, abs=1e-6)

    def test_a_snapshot_is_of_its_moment(self):
        """What is applied after a snapshot was taken does not show in it."""
        index = rebuilt({(MEMORIES, key): item(key, "tea", vectors=embedding([1, 0, 0])) for key in "ab"})
        before = index.snapshot

        index.apply(changes(*(item(f"c{n}", "tea coffee") for n in range(700)), removed=[(MEMORIES, "a")]))
        index.apply(changes(*(item(f"c{n}", "coffee", revision=2) for n in range(700))))

        hits = before.search(Query("tea", (("tea",),)), np.array([1, 0, 0], np.float32), limit=None).hits

        assert {hit.key for hit in hits} == {"a", "b"}


class TestGoingOn:
    @pytest.mark.parametrize("threads", [("two",), ("two", "two"), ("new", "two")])
    def test_what_is_of_the_thread_decides_between_equals(self, threads: tuple[str, ...]):
        """It counts once, however often the thread is named; a thread that nothing is of says nothing."""
        sources = [{"speaker": "user", "thread_id": thread, "at": NOW.isoformat()} for thread in ("one", "two")]
        index = PartitionIndex(model=None)
        index.apply(changes(*(item(source["thread_id"], "tea", source=source) for source in sources), reset=True))

        found = index.snapshot.search(parse_query("tea", now=NOW), threads=threads, limit=None).hits

        assert [hit.key for hit in found] == ["two", "one"]
        assert found[0].strength - found[1].strength == pytest.approx(WEIGHTS.branch)


class TestFindNames:
    @settings(max_examples=60)
    @given(
        st.lists(st.lists(st.sampled_from(["Ana Silva", "Ana", "Silva", "tea"]), min_size=1, max_size=3), max_size=12),
        st.integers(0, 12),
        st.sets(st.integers(0, 11)),
        st.sampled_from([((),), (("memories",),)]),
    )
    def test_exactly_what_holds_every_word_in_one_text_counts(
        self, said: list[list[str]], sorted_in: int, removed: set[int], prefixes: tuple[Namespace, ...]
    ):
        """Whatever was appended since, removed, or is elsewhere: what holds a name is lifted by its weight alone."""
        index = PartitionIndex(model=None)
        put = [
            item(f"{place:02}", *texts, revision=place + 1, namespace=MEMORIES if place % 2 else ("users", "ana"))
            for place, texts in enumerate(said)
        ]
        index.apply(changes(*put[:sorted_in], reset=True))
        gone = [(one.ref.namespace, one.ref.key) for one in put if int(one.ref.key) in removed]
        index.apply(changes(*put[sorted_in:]))
        index.apply(changes(removed=gone))
        terms = parse_query("Is it Ana Silva?", now=NOW).terms

        def strengths(names: tuple[tuple[str, ...], ...]) -> dict[str, float]:
            found = index.snapshot.search(Query("", terms, names=names), prefixes=prefixes, limit=None)
            holds = any(
                _holds(texts) for place, texts in enumerate(said) if f"{place:02}" in {h.key for h in found.hits}
            )
            assert found.subject == (None if not names else "known" if holds else "unknown")
            return {hit.key: hit.strength for hit in found.hits}

        plain, lifted = strengths(()), strengths((("Ana", "Silva"),))

        assert plain.keys() == lifted.keys()
        for key, strength in plain.items():
            assert lifted[key] - strength == pytest.approx(WEIGHTS.name * _holds(said[int(key)]))

    @given(st.lists(st.lists(st.sampled_from("abcd"), max_size=4), max_size=8), st.integers(0, 8))
    def test_rows_are_found_whether_they_are_sorted_in_or_not(self, rows: list[list[str]], sorted_in: int):
        """What was appended since the last question is looked through, too."""
        postings = Postings()
        postings.extend([term for row in rows[:sorted_in] for term in row], list(map(len, rows[:sorted_in])))
        postings.snapshot()  # sorts in what there is
        postings.extend([term for row in rows[sorted_in:] for term in row], list(map(len, rows[sorted_in:])))

        for terms in ("a", "ab", "dca", "xa", ""):
            holding = [place for place, row in enumerate(rows) if terms and set(terms) <= set(row)]
            assert postings.snapshot().holding(terms).tolist() == holding


def _holds(texts: list[str]) -> bool:
    return any({"ana", "silva"} <= set(text.lower().split()) for text in texts)
