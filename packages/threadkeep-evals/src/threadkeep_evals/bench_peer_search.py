"""One owner's search beside every peer that searches: the same texts, vectors and questions, asked in turn."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from threadkeep_evals.methods import RecordingEmbedder
from threadkeep_evals.peers import NotRun, SearchingMethod, open_peers
from threadkeep_evals.progress import Progress, Steps, silent
from threadkeep_evals.rig import ONE_OWNER, TOP, Line, Side, alternate, learn, opened, timed

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep_evals.facts import Fact

_OWNER: Final = "owner"


async def peer_search_lines(
    names: Sequence[str],
    facts: Sequence[Fact],
    embedder: Any,
    folder: Path,
    *,
    sizes: Sequence[int],
    searches: int,
    environments: Path,
    progress: Progress = silent,
) -> tuple[list[Line], list[NotRun]]:
    """Search ours and each of the peers *names*, query by query in turn, at each of *sizes*.

    Args:
        names: Of ``SEARCHING``.
        facts: As many as the largest size, at least.
        embedder: Its vectors are compared by all; no side's milliseconds contain embedding.
        folder: Where ours is kept.
        sizes: How many memories the owner has, ascending.
        searches: How often each is measured at each size.
        environments: Where environments of peers are kept.
        progress: Called after each step.

    Returns:
        A line for each size and peer, and the peers that could not be had.
    """
    steps = Steps(len(sizes) * len(names), progress)
    lines: list[Line] = []
    recording = RecordingEmbedder(embedder)
    async with AsyncExitStack() as running:
        tk = await running.enter_async_context(opened(folder / "beside-peers.db", recording))
        methods, not_run = await open_peers(names, recording, tk.app.event_loop, environments, running)
        peers = [one for one in methods if isinstance(one, SearchingMethod)]
        stored = 0
        for size in sizes:
            added = facts[stored:size]
            await learn(tk, _OWNER, added)
            for peer in peers:
                await peer.store(_OWNER, {str(stored + place): fact.text for place, fact in enumerate(added)})
            stored = size
            for peer in peers:
                questions = [facts[number % size].question for number in range(searches + 1)]
                lines.append(await _beside(tk, peer, recording, questions, size))
                steps.advance()
    return lines, not_run


async def _beside(
    tk: Threadkeep, peer: SearchingMethod, recording: RecordingEmbedder, questions: Sequence[str], size: int
) -> Line:
    """Ask ours and *peer* each of *questions*; the first is not counted."""

    async def search_ours(number: int) -> float:
        await tk.app.event_loop.run(recording.question(questions[number]))
        return await timed(tk.memories.search(questions[number], owner=_OWNER, limit=TOP))

    async def search_peer(number: int) -> float:
        return (await peer.search(questions[number], TOP))[1]

    times = len(questions) - 1
    ours, theirs = await alternate(Side(search_ours, times), Side(search_peer, times), in_a_row=1)
    return Line(ONE_OWNER, size, ours, peer.name, theirs)
