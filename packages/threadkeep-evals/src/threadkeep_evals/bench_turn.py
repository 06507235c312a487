"""What memory costs a turn: the same compiled graph and scripted model with and without it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from threadkeep_evals.metrics import percentile
from threadkeep_evals.rig import Line, Lookup, Side, Sizes, alternate, learn, opened, timed

if TYPE_CHECKING:
    from pathlib import Path

    from threadkeep_evals.facts import Fact

_OWNER: Final = "ana@example.org"
_NOBODY: Final = "nobody@example.org"
_THREAD_TURNS: Final = 10
_PEER: Final = "the same graph on LangGraph's AsyncSqliteSaver, FULL"
_BARE: Final = "the same graph, keeping nothing"

_FACTS_A_TURN: Final = 3
_AT_ONCE: Final = 100
_ALONE: Final = 10
_ROUNDS: Final = 5

_TYPING_SECONDS: Final = 0.05
"""Between two turns a person reads and types; learning from the last one comes to its end meanwhile."""


async def turn_lines(folder: Path, facts: Sequence[Fact], lookup: Lookup, sizes: Sizes) -> tuple[list[Line], str]:
    """Measure turns of an owner with *sizes.small* memories.

    No two turns say the same, so that each embeds its question; only where it says that the embedding is apart,
    the question was embedded before.

    Returns:
        The lines, and the name of the embedder: that of the settings, or the table of vectors. The whole
        turn stands beside one on LangGraph's own saver with the same durability and beside one without a checkpointer.
        Further lines say what an empty step and memory add to the turn on LangGraph's saver, with an embedder and with
        words alone, and what leases add, alone and with recall and window.
    """
    import langchain.agents
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    from threadkeep.registry import create_embedder
    from threadkeep.settings import Settings

    embedder = create_embedder(Settings.load()) or lookup
    model = FakeListChatModel(responses=["I see.", "Thank you, noted.", "Let me think about that."])
    # Each has a name of its own: a question is embedded ahead for every graph that is called as one that recalls is.
    create_agent = partial(cast("Any", langchain.agents).create_agent, model, tools=[])  # its state types are not known
    async with (
        opened(folder / "turns.db", embedder) as tk,
        opened(folder / "turns-words.db", "none") as words,
        AsyncSqliteSaver.from_conn_string(str(folder / "turns-peer.db")) as saver,
    ):
        await saver.conn.execute("PRAGMA synchronous=FULL")
        recalling = [tk.middleware(capture=False), tk.window()]
        whole = create_agent(middleware=recalling, checkpointer=tk.checkpointer, name="whole")
        graphs = {
            "nothing": create_agent(name="nothing"),
            "thread": create_agent(checkpointer=saver, name="thread"),
            "step": create_agent(middleware=[_step()], checkpointer=saver, name="step"),
            "memory": create_agent(middleware=[tk.middleware()], checkpointer=tk.checkpointer, name="memory"),
            "words": create_agent(middleware=[words.middleware()], checkpointer=words.checkpointer, name="words"),
            "lease": create_agent(checkpointer=tk.checkpointer, name="lease"),
            "whole": whole,
            "apart": whole,
        }
        said, known = facts[: len(graphs) * (sizes.turns + 1)], facts[len(graphs) * (sizes.turns + 1) :]
        for each in (tk, words):
            await learn(each, _OWNER, known[: sizes.small])

        async def turn(name: str, number: int) -> float:
            fact = said[len(graphs) * number + list(graphs).index(name)]
            text = fact.text if number % 2 else fact.question
            if name == "apart":
                await tk.memories.search(text, owner=_NOBODY)
            config = tk.config(user_id=_OWNER, thread_id=f"thread-{name}-{number // _THREAD_TURNS}")
            milliseconds = await timed(graphs[name].ainvoke({"messages": [{"role": "user", "content": text}]}, config))
            await asyncio.sleep(_TYPING_SECONDS)
            await tk.drain()
            await words.drain()
            return milliseconds

        sides = [Side(partial(turn, name), sizes.turns) for name in graphs]
        times = dict(zip(graphs, await alternate(*sides, in_a_row=1), strict=True))
    usual = percentile(times["thread"], 0.5)

    def beside(name: str, of: str, peer: str = "thread") -> Line:
        return Line(name, sizes.small, times[of], _PEER if peer == "thread" else _BARE, times[peer])

    def added(name: str, of: str) -> Line:
        return Line(name, sizes.small, [one - usual for one in times[of]])

    lines = [
        beside("turn with memory, embedding included", "memory"),
        beside("turn with memory, embedding included", "memory", "nothing"),
        added("what an empty step adds to a turn with a checkpointer", "step"),
        added("what memory adds to a turn with a checkpointer", "memory"),
        added("what memory of words alone adds to it", "words"),
        beside("turn with lease and fence", "lease"),
        beside("turn with lease, fence, recall and window", "whole"),
        added("what lease, fence, recall and window add to a turn", "whole"),
        added("what they add, embedding apart", "apart"),
    ]
    return lines, embedder.name


def _step() -> Any:
    """Return a middleware with one hook that does nothing after the agent: the cost of a step of LangGraph."""
    from langchain.agents.middleware import AgentMiddleware

    class Step(AgentMiddleware[Any, Any, Any]):
        async def aafter_agent(self, state: Any, runtime: Any) -> None:
            """Do nothing."""

    return Step()


async def embedding_lines(facts: Sequence[Fact], *, name: str) -> list[Line]:
    """Measure the local model on one core: a turn of a hundred that are embedded at once, beside one after the other.

    Returns:
        One line, in milliseconds for each turn; none where another embedder than the local one, *name*, is used.
    """
    from threadkeep.models import local
    from threadkeep.models.base import LOCAL_NAME

    if name != LOCAL_NAME:
        return []
    embedder = local.LocalEmbedder(threads=1)
    await embedder.ready()
    said = iter(facts)

    def turn() -> str:
        return " ".join(next(said).text for _ in range(_FACTS_A_TURN))

    together: list[float] = []
    alone: list[float] = []
    for _ in range(_ROUNDS):
        texts = [turn() for _ in range(_AT_ONCE)]
        together.append(await timed(asyncio.gather(*(embedder.embed([text]) for text in texts))) / _AT_ONCE)
        alone += [await timed(embedder.embed([turn()])) for _ in range(_ALONE)]
    return [Line("embedding a turn of 100 at once, one core", _AT_ONCE, together, "one after the other", alone)]
