"""Speed beside peers: the same data and the same vectors, in one process, measured in turns.

Our figures use the public API, the switch to the event loop thread included. Lines with *on the event loop thread* are
timed there, beside the same call through the API. Vectors are looked up: no line contains embedding unless it says so.
Ours and the peer's measurements take turns, so other work of the machine affects both. The garbage collector runs as in
any application.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from threadkeep.identity import Owner
from threadkeep_evals.bench_peer_search import peer_search_lines
from threadkeep_evals.bench_turn import embedding_lines, turn_lines
from threadkeep_evals.facts import make_facts, more_facts
from threadkeep_evals.peers import SEARCHING, environments_folder
from threadkeep_evals.progress import Progress, Steps, silent
from threadkeep_evals.rig import ONE_OWNER, TOP, Line, Lookup, Sizes, alternated, learn, machine, opened, timed

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.container import Services
    from threadkeep_evals.facts import Fact

_SEED: Final = 7
_IN_A_ROW: Final = 10
_BATCH: Final = 500
_EMBEDDED: Final = 1_650
_MEMORY_PEER: Final = "LangGraph InMemoryStore"
_SQLITE_PEER: Final = "LangGraph AsyncSqliteStore"


def run_bench(*, quick: bool = False, full: bool = False, progress: Progress = silent) -> dict[str, Any]:
    """Measure every line, and return the figures as the command line prints them.

    Args:
        quick: A twentieth of the data: shows that it runs, not how fast it is.
        full: An owner with 100,000 memories, too, which takes some minutes.
        progress: Called after each step.
    """
    lines, embedder = asyncio.run(_measure(_sizes(quick=quick, full=full), progress))
    return {"machine": machine(embedder), "lines": [line.as_json() for line in lines]}


def run_peers_bench(
    peers: Sequence[str],
    *,
    quick: bool = False,
    full: bool = False,
    memories: Sequence[int] = (),
    environments: Path | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Measure one owner's search beside every one of *peers*; see :func:`run_bench`.

    Args:
        peers: Of ``PEERS``; those that do not search are left out.
        quick: As there.
        full: As there.
        memories: How many the owner has, each in turn, instead.
        environments: Where environments of peers are kept; unset: the user's cache.
        progress: As there.
    """
    sizes = _sizes(quick=quick, full=full)
    totals = sorted(memories or filter(None, (sizes.few, sizes.small, sizes.large, sizes.largest)))
    facts = more_facts(totals[-1], seed=_SEED)
    lookup = Lookup.of(facts, seed=_SEED)
    with tempfile.TemporaryDirectory(prefix="threadkeep-bench-") as name:
        lines, not_run = asyncio.run(
            peer_search_lines(
                [one for one in peers if one in SEARCHING],
                facts,
                lookup,
                Path(name),
                sizes=totals,
                searches=sizes.beside_peers,
                environments=environments or environments_folder(),
                progress=progress,
            )
        )
    return {
        "machine": machine(lookup.name),
        "lines": [line.as_json() for line in lines],
        "not_run": [one.as_json() for one in not_run],
    }


def _sizes(*, quick: bool, full: bool) -> Sizes:
    return Sizes.quick() if quick else Sizes.full() if full else Sizes()


async def _measure(sizes: Sizes, progress: Progress) -> tuple[list[Line], str]:
    facts = make_facts(sizes.large, seed=_SEED)
    lookup = Lookup.of(facts, seed=_SEED)
    steps = Steps(7, progress)
    with tempfile.TemporaryDirectory(prefix="threadkeep-bench-") as name:
        folder = Path(name)
        async with opened(folder / "one.db", lookup) as tk:
            lines = [
                line
                for size in (sizes.few, sizes.small, sizes.large)
                for line in await _one_owner(tk, lookup, facts[:size], sizes)
            ]
        if sizes.largest:
            async with opened(folder / "largest.db", lookup) as tk:
                lines += await _one_owner(tk, lookup, more_facts(sizes.largest, seed=_SEED), sizes)
        steps.advance()
        async with opened(folder / "many.db", lookup) as tk:
            lines += await _many_owners(tk, facts, sizes)
        steps.advance()
        lines += await _cold_load(folder / "one.db", lookup, facts, sizes)
        steps.advance()
        lines += await _memory(folder / "one.db", facts)
        steps.advance()
        lines.append(await _single_commits(folder, lookup, sizes))
        lines.append(await _batched_commits(folder, lookup, sizes))
        steps.advance()
        added, embedder = await turn_lines(folder, facts, lookup, sizes)
        steps.advance()
        lines += await embedding_lines(make_facts(_EMBEDDED, seed=_SEED + 1), name=embedder)
        steps.advance()
    return lines + added, embedder


async def _one_owner(tk: Threadkeep, lookup: Lookup, facts: Sequence[Fact], sizes: Sizes) -> list[Line]:
    """Search one owner beside LangGraph's in-memory store with the same vectors, and on the event loop thread."""
    from langgraph.store.base import PutOp
    from langgraph.store.memory import InMemoryStore

    owner = f"owner-{len(facts)}"
    await learn(tk, owner, facts)
    for fact in facts:
        lookup.know(fact.text)
    namespace = ("memories", owner)
    peer = InMemoryStore(index={"dims": lookup.dims, "embed": lookup.as_langgraph, "fields": ["data"]})
    await peer.abatch([PutOp(namespace, str(place), {"data": fact.text}) for place, fact in enumerate(facts)])
    questions = [fact.question for fact in facts[: sizes.searches]]
    ours, theirs = await alternated(
        lambda turn: tk.memories.search(questions[turn % len(questions)], owner=owner, limit=TOP),
        lambda turn: peer.asearch(namespace, query=questions[turn % len(questions)], limit=TOP),
        ours_times=sizes.searches,
        peer_times=sizes.peer_searches,
        peer_seconds=sizes.peer_seconds,
    )
    return [
        Line(ONE_OWNER, len(facts), ours, f"{_MEMORY_PEER}.asearch", theirs),
        await _on_loop_thread(tk, ONE_OWNER, [(owner, one) for one in questions], len(facts)),
    ]


async def _on_loop_thread(tk: Threadkeep, name: str, asked: Sequence[tuple[str, str]], n: int) -> Line:
    """Search on the event loop thread, beside the same questions through the API.

    Args:
        tk: The memory, warm.
        name: Of what is measured.
        asked: Owners and questions.
        n: How many items it is measured on.
    """
    inside: list[float] = []
    through: list[float] = []
    for start in range(0, len(asked), _IN_A_ROW):
        part = asked[start : start + _IN_A_ROW]

        async def on_loop(services: Services, part: Sequence[tuple[str, str]] = part) -> list[float]:
            whose = [Owner(user_id) for user_id, _ in part]
            return [
                await timed(services.recalls.search(question, owner=owner, limit=TOP))
                for owner, (_, question) in zip(whose, part, strict=True)
            ]

        inside += await tk.app.call(on_loop)
        through += [await timed(tk.memories.search(question, owner=owner, limit=TOP)) for owner, question in part]
    return Line(f"{name}, on the event loop thread", n, inside, "the same through the API", through)


async def _many_owners(tk: Threadkeep, facts: Sequence[Fact], sizes: Sizes) -> list[Line]:
    """Search many owners in turn, all warm, beside one owner of the same size.

    Warm: what is asked of an owner was asked of that owner before, as it was of the one that is asked all the time.
    """
    each = facts[: sizes.each]
    owners = [f"owner-{number}" for number in range(sizes.owners)]
    for number, owner in enumerate(owners):
        await learn(tk, owner, each)
        await tk.memories.search(each[number % len(each)].question, owner=owner, limit=TOP)
    many, one = await alternated(
        lambda turn: tk.memories.search(each[turn % len(each)].question, owner=owners[turn % len(owners)], limit=TOP),
        lambda turn: tk.memories.search(each[turn % len(each)].question, owner=owners[0], limit=TOP),
        ours_times=sizes.searches,
        peer_times=sizes.searches,
    )
    name = f"search, {sizes.owners:,} owners × {len(each)}, warm"
    last = range(len(owners) - 1, -1, -1)
    asked = [(owners[number], each[number % len(each)].question) for number in last[: sizes.searches]]
    return [
        Line(name, sizes.owners, many, "one owner", one),
        await _on_loop_thread(tk, name, asked, sizes.owners),
    ]


async def _cold_load(path: Path, lookup: Lookup, facts: Sequence[Fact], sizes: Sizes) -> list[Line]:
    """Search an owner for the first time since opening, by itself, and while another owner reads without a pause."""
    loads: list[float] = []
    disturbed: list[float] = []
    meanwhile: list[float] = []
    idle: list[float] = []
    for turn in range(2 * sizes.cold_loads):
        async with opened(path, lookup) as tk:
            search = tk.memories.search(facts[turn // 2].question, owner=f"owner-{len(facts)}", limit=TOP)
            if turn % 2:
                loads.append(await timed(search))
                continue
            loading = asyncio.ensure_future(timed(search))
            while not loading.done():
                meanwhile.append(await timed(tk.memories.get("none", owner="bystander")))
            disturbed.append(await loading)
            idle += [await timed(tk.memories.get("none", owner="bystander")) for _ in range(20)]
    name = "first search of an owner, loaded from SQLite"
    return [
        Line(name, len(facts), loads),
        Line(f"{name} while another reads on and on", len(facts), disturbed),
        Line("another owner's read during that load", len(facts), meanwhile, "the same read, nothing loading", idle),
    ]


async def _memory(path: Path, facts: Sequence[Fact]) -> list[Line]:
    """Load an owner's index in a process of its own and see how much bigger that gets."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "threadkeep_evals.resident",
        str(path),
        f"owner-{len(facts)}",
        facts[0].question,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    index_mb, grown_mb, kept_mb = (float(word) for word in output.split())
    return [
        Line("memory of one owner's index, its arrays and terms", len(facts), megabytes=index_mb),
        Line("memory of one owner's index, growth of the process while loading", len(facts), megabytes=grown_mb),
        Line("memory of one owner's index, what the process keeps of it", len(facts), megabytes=kept_mb),
    ]


async def _single_commits(folder: Path, lookup: Lookup, sizes: Sizes) -> Line:
    """Put one item at a time, each durable before the next."""
    namespace = ("bench", "single")
    async with opened(folder / "single.db", lookup) as tk, _sqlite_peer(folder / "single-peer.db") as peer:
        ours, theirs = await alternated(
            lambda turn: tk.store.aput(namespace, str(turn), _value(turn), index=False),
            lambda turn: peer.aput(namespace, str(turn), _value(turn), index=False),
            ours_times=sizes.commits,
            peer_times=sizes.commits,
        )
    return Line("SQLite commit of one item, FULL", sizes.commits, ours, f"{_SQLITE_PEER}.aput, FULL", theirs)


async def _batched_commits(folder: Path, lookup: Lookup, sizes: Sizes) -> Line:
    """Put many items in one commit; the figures are for each item."""
    from langgraph.store.base import PutOp

    def batch(turn: int) -> list[PutOp]:
        places = range(turn * _BATCH, (turn + 1) * _BATCH)
        return [PutOp(("bench", "batched"), str(place), _value(place), index=False) for place in places]

    async with opened(folder / "batched.db", lookup) as tk, _sqlite_peer(folder / "batched-peer.db") as peer:
        ours, theirs = await alternated(
            lambda turn: tk.store.abatch(batch(turn)),
            lambda turn: peer.abatch(batch(turn)),
            ours_times=sizes.batches,
            peer_times=sizes.batches,
        )
    return Line(
        f"SQLite item in a commit of {_BATCH}, FULL",
        sizes.batches * _BATCH,
        [one / _BATCH for one in ours],
        f"{_SQLITE_PEER}.abatch, FULL",
        [one / _BATCH for one in theirs],
    )


@asynccontextmanager
async def _sqlite_peer(path: Path) -> AsyncGenerator[Any]:
    """Open the stock SQLite store, syncing every commit as ours does."""
    from langgraph.store.sqlite.aio import AsyncSqliteStore

    async with AsyncSqliteStore.from_conn_string(str(path)) as store:
        await store.conn.execute("PRAGMA synchronous=FULL")
        await store.setup()
        yield store


def _value(place: int) -> dict[str, Any]:
    return {"data": f"Statement number {place} of a benchmark, about as long as a statement is.", "place": place}
