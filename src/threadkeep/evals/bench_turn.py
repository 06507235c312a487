"""What memory costs a turn: the same compiled graph and scripted model with and without it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from threadkeep.evals.bench_rig import Line, Lookup, Sizes, learn, opened, timed
from threadkeep.evals.metrics import percentile

if TYPE_CHECKING:
    from pathlib import Path

    from threadkeep.evals.facts import Fact

_OWNER: Final = "ana@example.org"
_THREAD_TURNS: Final = 10
_PEER: Final = "the same graph on LangGraph's AsyncSqliteSaver, FULL"
_BARE: Final = "the same graph, keeping nothing"

_TYPING_SECONDS: Final = 0.05
"""Between two turns a person reads and types; learning from the last one comes to its end meanwhile."""


async def turn_lines(folder: Path, facts: Sequence[Fact], lookup: Lookup, sizes: Sizes) -> tuple[list[Line], str]:
    """Measure turns of an owner with *sizes.small* memories, embedding included.

    Returns:
        The whole turn beside one whose thread LangGraph's own saver keeps as durably and beside one
        that keeps nothing, what memory adds to the first, the same for threads with leases alone and with
        everything, and the name of the embedder: the one that the settings say, or the table of vectors where
        there is none.
    """
    import langchain.agents
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    from threadkeep.chosen import embedder_of
    from threadkeep.settings import Settings

    create_agent = cast("Any", langchain.agents).create_agent  # its state types are not all known
    embedder = embedder_of(Settings.load()) or lookup
    model = FakeListChatModel(responses=["I see.", "Thank you, noted.", "Let me think about that."])
    bare = create_agent(model, tools=[])
    texts = [text for fact in facts[: sizes.turns] for text in (fact.question, fact.text)]
    async with (
        opened(folder / "turns.db", embedder) as tk,
        AsyncSqliteSaver.from_conn_string(str(folder / "turns-peer.db")) as saver,
    ):
        await saver.conn.execute("PRAGMA synchronous=FULL")
        keeping = create_agent(model, tools=[], checkpointer=saver)
        await learn(tk, _OWNER, facts[sizes.turns :][: sizes.small])
        remembering = create_agent(model, tools=[], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        leased = create_agent(model, tools=[], checkpointer=tk.checkpointer)
        both = [tk.middleware(), tk.window()]
        whole = create_agent(model, tools=[], middleware=both, checkpointer=tk.checkpointer)
        graphs = (bare, keeping, remembering, leased, whole)

        async def turn(graph: Any, number: int) -> float:
            thread_id = f"thread-{graphs.index(graph)}-{number // _THREAD_TURNS}"
            config = tk.config(user_id=_OWNER, thread_id=thread_id)
            message = {"role": "user", "content": texts[number]}
            milliseconds = await timed(graph.ainvoke({"messages": [message]}, config))
            await asyncio.sleep(_TYPING_SECONDS)
            await tk.drain()
            return milliseconds

        for graph in graphs:
            await turn(graph, 0)
        times: tuple[list[float], ...] = tuple([] for _ in graphs)
        for number in range(1, sizes.turns + 1):
            for graph, each in zip(graphs, times, strict=True):
                each.append(await turn(graph, number))
    nothing, thread, with_memory, with_lease, with_all = times
    usual = percentile(thread, 0.5)
    name = "turn with memory, embedding included"
    lines = [
        Line(name, sizes.small, with_memory, _PEER, thread),
        Line(name, sizes.small, with_memory, _BARE, nothing),
        Line("what memory adds to a turn whose thread is kept", sizes.small, [one - usual for one in with_memory]),
        Line("turn with lease and fence", sizes.small, with_lease, _PEER, thread),
        Line("turn with lease, fence, recall and window", sizes.small, with_all, _PEER, thread),
        Line("what lease, fence, recall and window add to a turn", sizes.small, [one - usual for one in with_all]),
    ]
    return lines, embedder.name
