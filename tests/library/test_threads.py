"""``tk.threads`` and ``threadkeep threads``: an owner's threads, listed, pruned, copied and deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

import threadkeep
from tests.checkpoints.checkpoints import Words, echo_graph
from tests.command_line import CliRunner
from threadkeep.cli.main import app
from threadkeep.errors import InvalidInputError, OwnerMismatchError


@pytest.fixture
def tk(tmp_path: Path) -> Iterator[threadkeep.Threadkeep]:
    with threadkeep.open(f"sqlite:///{tmp_path / 'memory.sqlite3'}", embedder="none") as opened:
        yield opened


async def talk(tk: threadkeep.Threadkeep, owner: str, *threads: str, turns: int = 3) -> Any:
    graph = echo_graph(tk.checkpointer)
    for thread_id in threads:
        for n in range(turns):
            await graph.ainvoke({"words": [f"word {n}"]}, tk.config(user_id=owner, thread_id=thread_id))
    return graph


def ask(state: Words) -> dict[str, list[str]]:
    return {"words": [interrupt(state["words"][-1])]}


def asking(tk: threadkeep.Threadkeep) -> Any:
    builder = StateGraph(Words)
    builder.add_node(ask)
    builder.add_edge(START, "ask")
    return builder.compile(checkpointer=tk.checkpointer)


def left_waiting(tk: threadkeep.Threadkeep, thread_id: str) -> None:
    """Begin a thread that waits for an answer, and leave that branch for another that waits."""
    graph, config = asking(tk), tk.config(user_id="ana", thread_id=thread_id)
    graph.invoke({"words": ["a"]}, config)
    start = [*graph.get_state_history(config)][-1]
    graph.invoke({"words": ["b"]}, start.config)


class TestThreads:
    async def test_an_owner_sees_their_own(self, tk: threadkeep.Threadkeep):
        await talk(tk, "ana", "t1", "t2")
        await talk(tk, "bob", "t3")
        await talk(tk.for_owner("ana"), "ana", "scoped")

        assert {one.thread_id for one in await tk.threads.list("ana")} == {"t1", "t2", "scoped"}
        assert await tk.threads.get("t3", owner="ana") is None
        assert (await tk.threads.stats("ana")).checkpoints == 27
        assert await tk.threads.list("ana", older_than=timedelta(days=1)) == []
        with pytest.raises(OwnerMismatchError):
            await tk.for_owner("ana").threads.list("bob")

    async def test_pruned_they_go_on(self, tk: threadkeep.Threadkeep):
        graph = await talk(tk, "ana", "t1", "t2")
        await talk(tk, "bob", "t3")

        done = await tk.threads.prune(owner="ana", latest=2)

        assert {one.thread_id: one.removed for one in done} == {"t1": 7, "t2": 7}
        assert (await tk.threads.require("t3", owner="bob")).stats.checkpoints == 9
        ended = await graph.ainvoke({"words": ["more"]}, tk.config(user_id="ana", thread_id="t1"))
        assert ended["words"][-3:] == ["WORD 2", "more", "MORE"]

    async def test_anothers_is_not_to_be_had(self, tk: threadkeep.Threadkeep):
        await talk(tk, "bob", "t3")

        for call in (
            tk.threads.prune(["t3"], owner="ana"),
            tk.threads.delete(["t3"], owner="ana"),
            tk.threads.copy("t3", "mine", owner="ana"),
            tk.threads.delete(owner="ana"),
            tk.threads.prune("t3", owner="ana"),
        ):
            with pytest.raises(InvalidInputError):
                await call
        assert (await tk.threads.require("t3", owner="bob")).stats.checkpoints == 9

    async def test_copied_forked_and_deleted(self, tk: threadkeep.Threadkeep):
        graph = await talk(tk, "ana", "t1")
        await talk(tk, "bob", "t3")

        copied = await tk.threads.copy("t1", "t1-copy", owner="ana")
        with pytest.raises(OwnerMismatchError):
            await tk.threads.fork("t1", "t3", owner="ana")
        deleted = await tk.threads.delete(["t1"], owner="ana")

        assert copied.stats.checkpoints == 9
        assert deleted == ["t1"]
        assert {one.thread_id for one in await tk.threads.list("ana")} == {"t1-copy"}
        state = await graph.aget_state(tk.config(user_id="ana", thread_id="t1-copy"))
        assert len(state.values["words"]) == 6
        with pytest.raises(OwnerMismatchError):
            await graph.ainvoke({"words": ["a"]}, tk.config(user_id="bob", thread_id="t1-copy"))

    @pytest.mark.slow
    def test_on_the_command_line(self, tmp_path: Path, tk: threadkeep.Threadkeep):
        tk.sync.threads.list("ana")
        graph = echo_graph(tk.checkpointer)
        for n in range(3):
            graph.invoke({"words": [f"word {n}"]}, tk.config(user_id="ana", thread_id="t1"))
        tk.close()

        def said(*arguments: str) -> Any:
            result = CliRunner().invoke(
                app, ["threads", *arguments, "--user", "ana", "--data-dir", str(tmp_path), "--json"]
            )
            assert result.exit_code == 0, result.output
            return json.loads(result.stdout)

        assert [one["thread_id"] for one in said("list")] == ["t1"]
        assert said("fork", "t1", "t2")["stats"]["checkpoints"] == 9
        assert said("prune", "t1", "--yes") == [{"thread_id": "t1", "removed": 8, "busy": False}]
        assert said("show", "t1")["stats"]["checkpoints"] == 1
        assert said("stats")["checkpoints"] == 10
        assert said("delete", "t2", "--yes") == ["t2"]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("asked", "told"),
        [([], "ana has no threads."), (["--older-than-days", "7"], "ana has no threads that rested so")],
    )
    def test_empty_list_is_printed_as_such(self, tmp_path: Path, asked: list[str], told: str):
        listed = CliRunner().invoke(app, ["threads", "list", *asked, "--user", "ana", "--data-dir", str(tmp_path)])

        assert listed.exit_code == 0
        assert listed.stdout.startswith(told)

    @pytest.mark.slow
    def test_what_is_kept_is_chosen_on_the_command_line(self, tmp_path: Path, tk: threadkeep.Threadkeep):
        """A branch that was left while it waits stays unless it is told to go, and so does what is young enough."""
        for thread_id in ("t1", "t2", "t3"):
            left_waiting(tk, thread_id)
        young = tk.sync.runs.history(asking(tk), thread_id="t1", owner="ana")[1].at
        tk.close()

        def run(*arguments: str) -> Any:
            words = ["threads", *arguments, "--user", "ana", "--data-dir", str(tmp_path), "--json"]
            return CliRunner().invoke(app, words)

        def left(thread_id: str, *arguments: str) -> int:
            assert json.loads(run("prune", thread_id, "--yes", *arguments).stdout)[0]["thread_id"] == thread_id
            return json.loads(run("show", thread_id).stdout)["stats"]["checkpoints"]

        assert young is not None
        assert left("t1", "--keep-since", "2001-01-01", "--no-keep-interrupted") == 4
        assert left("t1", "--keep-since", young.isoformat()) == 3
        assert left("t2") == 2
        assert left("t3", "--no-keep-interrupted") == 1
        refused = run("prune", "t1", "--keep-since", "yesterday")
        assert refused.exit_code == 2
        assert "yesterday" in refused.stderr
