"""Where an item is kept: namespaces and partitions."""

from __future__ import annotations

import re

import hypothesis.strategies as st
import pytest
from hypothesis import given

from threadkeep.identity import OWNED_ROOTS, Owner, owner_of_label, partition_of
from threadkeep.storage.interface import Partition

user_ids = st.text(min_size=1, max_size=60).filter(str.strip)


class TestPartitionOf:
    @given(user_ids, st.sampled_from(OWNED_ROOTS), st.lists(st.text(), max_size=3))
    def test_an_owners_namespaces_are_in_its_partition(self, user_id: str, root: str, below: list[str]):
        """Whatever the id, items below its label are the owner's."""
        owner = Owner(user_id)

        assert partition_of((root, owner.label, *below)) == owner.partition

    @given(user_ids, user_ids)
    def test_two_owners_never_share_one(self, one: str, other: str):
        """Different ids give different partitions of the same layout."""
        labels = Owner(one).label, Owner(other).label

        partitions = {partition_of(("memories", label)).digest for label in labels}

        assert len(partitions) == len({one, other})

    @pytest.mark.parametrize(
        "namespace",
        [
            ("memories",),
            ("memories", "~tk~forged+zz"),
            ("users", "~tk~a~b~c"),
            ("users", "~tk~ana@x+00002Eorg"),
            ("summaries", "x" * 1001),
        ],
    )
    def test_unowned_label_belongs_to_the_root(self, namespace: tuple[str, ...]):
        """What no owner's label can be is kept apart from every owner."""
        assert partition_of(namespace) == Partition("root", namespace[:1])

    def test_other_namespaces_belong_to_their_root_label(self):
        """Everything else is one partition for each root label."""
        assert partition_of(("docs", "ana", "x")) == partition_of(("docs",)) == Partition("root", ("docs",))
        assert partition_of(()) == Partition("root", ())


class TestLabel:
    @given(user_ids, st.text(max_size=60))
    def test_a_label_gives_its_owner_back(self, user_id: str, tenant: str):
        """No two owners share a label, and what makes one is legal for LangGraph."""
        owner = Owner(user_id, tenant)

        assert owner_of_label(owner.label) == owner
        assert not set(".\x00") & set(owner.label)

    @pytest.mark.parametrize(
        "user_id", ["ana@x.org", "a.b+c@x.org", "é ü@x.org", "日本.jp", "a%b.c", "~tk~", "a/b\x00"]
    )
    @pytest.mark.parametrize("tenant", ["", "https://login.x.org/é"])
    def test_a_made_label_passes_deep_agents(self, user_id: str, tenant: str):
        """Its files are kept below a label of ASCII letters, digits and ``-_.@+:~`` only."""
        assert re.fullmatch(r"[A-Za-z0-9\-_.@+:~]+", Owner(user_id, tenant).label)
