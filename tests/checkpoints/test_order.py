"""Ids that are ahead of the clock: what follows them stays in order, and nothing is lost without a word."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langgraph.checkpoint.base import id as ids

from tests.checkpoints.checkpoints import METADATA, checkpoint_of, config_of, echo_graph
from tests.checkpoints.test_fence import HERE, Make, said
from threadkeep.errors import ConflictError

BEGAN = datetime(1582, 10, 15, tzinfo=UTC)
YEAR = timedelta(days=365)
OTHER = config_of("2")


@pytest.fixture(autouse=True)
def own_time() -> Iterator[None]:
    """Leave no time behind in LangGraph's generator of ids."""
    before = ids._last_v6_timestamp
    yield
    ids._last_v6_timestamp = before


def id_at(moment: datetime) -> str:
    time = (moment - BEGAN) // timedelta(microseconds=1) * 10
    return str(ids.UUID(int=(time >> 12) << 80 | (time & 0xFFF) << 64, version=6))


def other_process() -> None:
    """Forget which ids were made and read here: only this machine's clock is known."""
    ids._last_v6_timestamp = None


async def turn(graph: Any, word: str, config: Any) -> None:
    await graph.ainvoke(said(word), config)


async def words(graph: Any, config: Any) -> list[str]:
    return (await graph.aget_state(config)).values["words"][::2]


async def ahead(saver: Any, config: Any, checkpoint_id: str) -> None:
    """Put the thread's state once more, as a program with another clock does."""
    found = await saver.aget_tuple(config)
    again = {**(found.checkpoint if found else checkpoint_of("x")), "id": checkpoint_id}
    await saver.aput(config_of(config["configurable"]["thread_id"], checkpoint_ns=""), again, METADATA, {})


class TestAnIdOfTheFuture:
    """It lifts all ids that the process makes from then on, whichever their thread."""

    async def test_turns_of_every_thread_stay_in_order(self, kind: str, make: Make):
        """Whoever reads what was lifted follows it, and whoever did not read it made nothing before it."""
        checkpointer = make(kind)
        graph = echo_graph(checkpointer)
        await turn(graph, "a", HERE)
        await turn(graph, "a", OTHER)
        await ahead(checkpointer, HERE, id_at(datetime.now(UTC) + YEAR))
        other_process()

        await turn(graph, "b", HERE)  # lifts
        await turn(graph, "b", OTHER)  # is lifted
        other_process()
        await turn(graph, "c", OTHER)
        other_process()
        await turn(graph, "c", HERE)

        assert await words(graph, HERE) == ["a", "b", "c"]
        assert await words(graph, OTHER) == ["a", "b", "c"]

    @pytest.mark.parametrize("strange", ["time", "name"])
    async def test_one_that_no_clock_makes_stays_alone(self, kind: str, make: Make, strange: str):
        """No turn can come after it: the thread says so before anything is written, and no other thread is touched."""
        checkpointer = make(kind)
        graph = echo_graph(checkpointer)
        await turn(graph, "a", HERE)
        last = (await graph.aget_state(HERE)).config["configurable"]["checkpoint_id"]
        far = id_at(datetime.now(UTC) + 900 * YEAR) if strange == "time" else "ffffffff-ffff-4fff-bfff-ffffffffffff"
        await ahead(checkpointer, HERE, far)
        other_process()

        with pytest.raises(ConflictError, match="fork the thread"):
            await turn(graph, "b", HERE)
        await turn(graph, "a", OTHER)

        made = (await graph.aget_state(OTHER)).config["configurable"]["checkpoint_id"]
        assert made < id_at(datetime.now(UTC) + YEAR)
        await checkpointer.run(checkpointer.maintenance.copy("1", "3", until=last))
        await turn(graph, "b", config_of("3"))
        assert await words(graph, config_of("3")) == ["a", "b"]
