"""A view of one owner's threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.checkpoints.checkpoints import METADATA, checkpoint_of, config_of, echo_graph, put, value_of
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.identity import Owner

ANA, BOB = Owner("ana@x.org"), Owner("bob")
Make = Callable[..., ThreadkeepCheckpointer]


class TestScoping:
    @pytest.mark.parametrize("other", [BOB, Owner("ana_x_org"), Owner("ana@x.org", "elsewhere"), Owner("ana@x.or")])
    def test_the_same_id_is_another_thread_for_another_owner(self, checkpointer: ThreadkeepCheckpointer, other: Owner):
        """Neither sees, lists nor deletes what the other has."""
        put(checkpointer.scoped(ANA), config_of("1"), "ana's")
        theirs = checkpointer.scoped(other)

        before = (value_of(theirs, config_of("1")), list(theirs.list(None)), list(theirs.list(config_of("1"))))
        put(theirs, config_of("1"), "theirs")
        theirs.delete_thread("1")

        assert before == (None, [], [])
        assert value_of(checkpointer.scoped(ANA), config_of("1")) == "ana's"

    def test_unscoped_and_scoped_views_do_not_meet(self, checkpointer: ThreadkeepCheckpointer):
        """Not by an id, not in a list."""
        put(checkpointer.scoped(ANA), config_of("1"), "scoped")
        put(checkpointer, config_of("1"), "unscoped")

        assert value_of(checkpointer, config_of("1")) == "unscoped"
        assert [one.config["configurable"]["thread_id"] for one in checkpointer.list(None, limit=5)] == ["1"]
        assert [one.checkpoint["channel_values"]["x"] for one in checkpointer.scoped(ANA).list(None)] == ["scoped"]

    @pytest.mark.parametrize("thread_id", ["1", "nul\x00", "half\ud800", "~tk~~1", "ü" * 1000])
    def test_ids_come_back_as_given_from_every_method(self, checkpointer: ThreadkeepCheckpointer, thread_id: str):
        """What a view returns can be given to it again, and metadata is what was put."""
        view = checkpointer.scoped(ANA)
        first = put(view, config_of(thread_id), 1)
        second = view.put(first, checkpoint_of(2), {**METADATA, "step": 9}, {})

        found = view.get_tuple(config_of(thread_id))
        everything = list(view.list(None))
        by_metadata = list(view.list(None, filter={"step": 9}))

        assert found is not None
        assert found.config["configurable"] == second["configurable"]
        assert found.parent_config is not None
        assert found.parent_config["configurable"] == first["configurable"]
        assert found.metadata == {**METADATA, "step": 9}
        assert [one.config["configurable"]["thread_id"] for one in everything] == [thread_id] * 2
        assert [one.config["configurable"] for one in by_metadata] == [second["configurable"]]

    async def test_a_graph_runs_on_it(self, kind: Any, make: Make):
        """State, history and updates of two owners under one id stay apart."""
        checkpointer = make(kind)
        ana, bob = (echo_graph(checkpointer.scoped(owner)) for owner in (ANA, BOB))

        ana.invoke({"words": ["one"]}, config_of("1"))
        await bob.ainvoke({"words": ["two"]}, config_of("1"))
        ana.update_state(config_of("1"), {"words": ["edited"]})

        assert ana.get_state(config_of("1")).values == {"words": ["one", "ONE", "edited"]}
        assert (await bob.aget_state(config_of("1"))).values == {"words": ["two", "TWO"]}
        assert len(list(ana.get_state_history(config_of("1")))) == 4

    def test_a_name_in_the_configuration_does_not_widen_it(self, checkpointer: ThreadkeepCheckpointer):
        """The view's owner is fixed; who is named beside it does not count."""
        put(checkpointer.scoped(ANA), config_of("1"), "ana's")

        assert value_of(checkpointer.scoped(BOB), config_of("1", user_id="ana@x.org")) is None
