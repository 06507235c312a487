"""What a foreign item becomes: whose it is is said or plain, never guessed."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from threadkeep.errors import InvalidInputError
from threadkeep.identity import Owner
from threadkeep.memories.codec import memory_of
from threadkeep.storage.interface import Item, Partition, Ref
from threadkeep.transfer.importer import (
    ForeignItem,
    Labels,
    LeftOutError,
    UnmappedLabelError,
    arrived,
    mapping_of,
    shape_of,
)

WHEN = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
NOBODY = Labels({})


def item(*namespace: str, key: str = "k", value: dict[str, Any] | None = None, **more: Any) -> ForeignItem:
    return ForeignItem(namespace, key, {"data": "likes tea"} if value is None else value, WHEN, WHEN, **more)


class TestOwners:
    @pytest.mark.parametrize("root", ["memories", "summaries", "users"])
    def test_a_label_without_an_underscore_is_the_id(self, root: str):
        """No period can have been in it."""
        entry = arrived(item(root, "ana", "memories", "user"), NOBODY)

        assert entry.partition == Owner("ana").partition
        assert entry.put.namespace == (root, "ana", "memories", "user")

    @pytest.mark.parametrize("label", ["a_b@x_org", "user_1", "_"])
    def test_a_label_with_an_underscore_is_not_guessed(self, label: str):
        with pytest.raises(UnmappedLabelError) as refused:
            arrived(item("memories", label), NOBODY)

        assert refused.value.label == label

    def test_mapping_names_the_owner(self):
        """An id with periods has a label of its own here; an id can be itself, and have a tenant."""
        labels = Labels(
            mapping_of('{"a_b@x_org": "a.b@x.org", "u_1": "u_1", "v_1": {"user_id": "v.1", "tenant": "t"}}')
        )

        found = [arrived(item("memories", label), labels) for label in ("a_b@x_org", "u_1", "v_1")]

        owners = [Owner("a.b@x.org"), Owner("u_1"), Owner("v.1", "t")]
        assert [entry.partition for entry in found] == [owner.partition for owner in owners]
        assert [entry.put.namespace for entry in found] == [("memories", owner.label) for owner in owners]

    def test_the_mapping_may_leave_out(self):
        with pytest.raises(LeftOutError, match="leaves out"):
            arrived(item("memories", "a_b"), Labels(mapping_of('{"a_b": null}')))

    def test_labels_may_be_ids(self):
        entry = arrived(item("memories", "user_1"), Labels({}, exact=True))

        assert entry.partition == Owner("user_1").partition

    def test_our_own_labels_are_read(self):
        """A stock store that was used with ``tk.label`` has them already."""
        owner = Owner("a.b@x.org", "tenant")

        assert arrived(item("memories", owner.label), NOBODY).partition == owner.partition
        with pytest.raises(LeftOutError, match="looks like"):
            arrived(item("memories", "~tk~+zz"), NOBODY)

    def test_items_without_owner_keep_their_namespace(self):
        """Other roots, and a layout's root without a label, underscores included."""
        for namespace in [("docs", "a_b"), ("memories",), ("filesystem",)]:
            entry = arrived(item(*namespace), NOBODY)
            assert (entry.put.namespace, entry.partition) == (namespace, Partition("root", namespace[:1]))

    def test_users_are_not_exchanged(self):
        """A mapping that goes in a circle is a mistake; two labels of one user are not."""
        with pytest.raises(InvalidInputError, match="circle"):
            Labels(mapping_of('{"a_b": "c_d", "c_d": "e_f", "e_f": "a_b"}'))
        assert Labels(mapping_of('{"a_b": "a_b", "a_c": "a_b", "a_d": "a_c"}')).owner("a_d").user_id == "a_c"

    @pytest.mark.parametrize(
        "text", ["[]", "no json", '{"a_b": "x", "a_b": "y"}', '{"a_b": 1}', '{"a_b": {"user": "x"}}', '{"a_b": ""}']
    )
    def test_a_mapping_that_is_none_is_refused(self, text: str):
        with pytest.raises(InvalidInputError):
            mapping_of(text)


class TestWhatItIs:
    @pytest.mark.parametrize(
        ("namespace", "value", "index", "shape", "text"),
        [
            (("memories", "ana"), {"data": "likes tea", "source_thread": "t"}, ("data",), "memory: data", "likes tea"),
            (
                ("users", "ana", "memories", "episodic"),
                {"text": "asked for tea", "type": "episodic"},
                ("text",),
                "memory: text and type",
                "asked for tea",
            ),
            (
                ("memories", "ana"),
                {"kind": "Memory", "content": {"content": "likes tea"}},
                ("content.content",),
                "memory: LangMem's manager",
                "likes tea",
            ),
            (("memories", "ana"), {"content": "likes tea"}, ("content",), "memory: LangMem's tool", "likes tea"),
            (("memories", "ana"), {"fact": "likes tea"}, ("$",), "memory: without a statement", None),
            (("summaries", "ana"), {"summary": "about tea", "thread_id": "t"}, ("$",), "summary", None),
            (("docs", "x"), {"title": "Tea"}, ("$",), "item", None),
        ],
    )
    def test_shapes_are_known_and_found_by_what_they_say(
        self, namespace: tuple[str, ...], value: dict[str, Any], index: tuple[str, ...], shape: str, text: str | None
    ):
        entry = arrived(item(*namespace, value=value), NOBODY)

        assert (entry.put.index, shape_of(namespace, value)) == (index, shape)
        assert entry.put.value == value
        if text:
            ref = Ref(entry.partition, namespace, "k")
            memory = memory_of(Item(ref, dict(entry.put.value), 1, WHEN, WHEN))
            assert memory is not None
            assert memory.text == text

    def test_times_and_lives_are_kept(self):
        entry = arrived(item("docs", ttl=timedelta(days=3), expires_at=WHEN + timedelta(days=1)), NOBODY)

        put = entry.put
        assert (put.created_at, put.updated_at) == (WHEN, WHEN)
        assert (put.ttl, put.expires_at) == (timedelta(days=3), WHEN + timedelta(days=1))

    def test_unrecallable_items_are_not_found(self):
        assert arrived(item("memories", "ana", value={"data": "x", "status": "rejected"}), NOBODY).put.index == ()

    def test_a_pinned_memory_does_not_expire(self):
        value = {"data": "x", "pinned": True}
        entry = arrived(item("memories", "ana", value=value, ttl=timedelta(days=3), expires_at=WHEN), NOBODY)

        assert (entry.put.ttl, entry.put.expires_at) == (None, None)

    @pytest.mark.parametrize(
        "bad",
        [
            item("docs", value={"n": math.nan}),
            item("docs", key="x" * 10_001),
            item(".turns", "x"),
            item("memories", ""),
            item("memories", "x" * 1001),
        ],
    )
    def test_what_cannot_be_kept_is_left_out_with_a_reason(self, bad: ForeignItem):
        with pytest.raises(LeftOutError, match=r"\w+ \w+"):
            arrived(bad, NOBODY)
