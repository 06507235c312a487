"""Speed of each storage beside LangGraph's own store on the same server: writes and searches, warm and cold."""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from threadkeep.errors import InvalidInputError
from threadkeep_evals.bench_peers import KINDS, Beside, beside
from threadkeep_evals.facts import more_facts
from threadkeep_evals.progress import Progress, Steps, silent
from threadkeep_evals.rig import Line, Lookup, alternated, machine, timed

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

    from threadkeep_evals.facts import Fact

CLIENTS: Final = 8

_SEED: Final = 11
_TOP: Final = 10
_BATCH: Final = 250


@dataclass(frozen=True, slots=True)
class StorageSizes:
    """How much is stored, and how often each thing is measured.

    Attributes:
        totals: Memories that a search looks through: one owner's, and as many of eight owners together.
        writes: Items put, one after the other.
        searches: Of ours.
        peer_searches: Of the peer, which may take much longer.
        cold: First searches after opening.
        search_seconds: How long ours is searched, and the peer, for each line, once it was three times.
        ours_seconds: How long ours is stored into for each of *totals*; a line says where that was not enough.
        peer_seconds: The same for the peer.
    """

    totals: tuple[int, ...] = (1_000, 10_000)
    writes: int = 200
    searches: int = 100
    peer_searches: int = 25
    cold: int = 3
    search_seconds: float = 15.0
    ours_seconds: float = 240.0
    peer_seconds: float = 60.0

    @classmethod
    def quick(cls) -> StorageSizes:
        """Return sizes that take seconds."""
        return cls(totals=(80,), writes=10, searches=10, peer_searches=5, cold=2)

    @classmethod
    def full(cls) -> StorageSizes:
        """Return sizes that take an hour."""
        return cls(
            totals=(1_000, 10_000, 100_000),
            writes=500,
            searches=200,
            peer_searches=50,
            cold=5,
            search_seconds=30.0,
            ours_seconds=900.0,
            peer_seconds=90.0,
        )


def run_storage_bench(kinds: Sequence[str], sizes: StorageSizes, *, progress: Progress = silent) -> dict[str, Any]:
    """Measure the storages *kinds*, and return the figures as the command line prints them.

    Args:
        kinds: Of ``memory``, ``sqlite``, ``postgres``, ``redis`` and ``mongodb``; ``all`` is every one.
        sizes: How much.
        progress: Called after each step.

    Raises:
        InvalidInputError: There is no such storage.
        SettingsError: A server cannot be started for want of its package.
    """
    chosen = KINDS if "all" in kinds else tuple(kinds)
    if unknown := [kind for kind in chosen if kind not in KINDS]:
        msg = f"--storage is {unknown[0][:40]!r}; give {', '.join(KINDS)} or all."
        raise InvalidInputError(msg)
    facts = more_facts(max(sizes.totals), seed=_SEED)
    lookup = Lookup.of(facts, seed=_SEED)
    steps = Steps(len(chosen) * (1 + len(sizes.totals)), progress)
    lines: list[Line] = []
    on: dict[str, str] = {}
    for kind in chosen:
        with tempfile.TemporaryDirectory(prefix="threadkeep-bench-") as folder, ExitStack() as running:
            pair = beside(kind, Path(folder), lookup, running)
            on[kind] = pair.server
            lines += asyncio.run(_measure(pair, facts, sizes, steps))
    return {"machine": {**machine("lookup"), "servers": on}, "lines": [line.as_json() for line in lines]}


async def _measure(pair: Beside, facts: Sequence[Fact], sizes: StorageSizes, steps: Steps) -> list[Line]:
    lines: list[Line] = []
    async with pair.ours() as tk, pair.peer() as peer:
        ours = tk.store_with(ranking="dense")
        lines += await _writes(pair, ours, peer, facts, sizes)
        steps.advance()
        rivals: dict[int, Beside] = {}
        for total in sizes.totals:
            stored = await _fill(ours, facts[:total], total, seconds=sizes.ours_seconds)
            if stored < 2 * total:
                lines += _unmeasured(pair, total, f"ours {_took(sizes.ours_seconds, stored, total)}")
                steps.advance()
                continue
            rivals[total] = await _against(pair, peer, facts[:total], sizes)
            lines += await _searches(rivals[total], ours, peer, facts[:total], sizes)
            steps.advance()
    if pair.kind != "memory":  # what is in memory is never cold
        for total, rival in rivals.items():
            lines.append(await _cold(rival, facts[:total], sizes))
    return lines


async def _against(pair: Beside, peer: BaseStore, facts: Sequence[Fact], sizes: StorageSizes) -> Beside:
    """Store *facts* in the peer, too; return *pair* as it can be measured then."""
    if not pair.peer_searches:
        return pair
    stored = await _fill(peer, facts, len(facts), seconds=sizes.peer_seconds)
    if stored == 2 * len(facts):
        return pair
    return replace(pair, peer_searches=False, why_not=_took(sizes.peer_seconds, stored, len(facts)))


def _unmeasured(pair: Beside, total: int, why: str) -> list[Line]:
    """Return the lines of searches that there was nothing for, in time."""
    searches = ("warm, 1 client", f"warm, {CLIENTS} clients", "cold")
    return [Line(f"{pair.kind}: search, {which}", total, peer=f"{pair.peer_name}: {why}") for which in searches]


def _took(seconds: float, stored: int, total: int) -> str:
    return f"took {seconds:g} s to store {stored:,} of {2 * total:,}"


async def _writes(
    pair: Beside, ours: BaseStore, peer: BaseStore, facts: Sequence[Fact], sizes: StorageSizes
) -> list[Line]:
    """Put one item at a time, and eight at a time by eight clients; each is durable when its put returns."""

    def put(store: BaseStore, client: int, turn: int) -> Awaitable[None]:
        return store.aput(("memories", f"writer{client}"), f"{turn}", {"data": facts[turn % len(facts)].text})

    one = await alternated(
        lambda turn: put(ours, 0, turn),
        lambda turn: put(peer, 0, turn),
        ours_times=sizes.writes,
        peer_times=sizes.writes,
    )
    many = await alternated(
        _by_clients(lambda client, turn: put(ours, client, turn)),
        _by_clients(lambda client, turn: put(peer, client, turn)),
        ours_times=sizes.writes // CLIENTS + 1,
        peer_times=sizes.writes // CLIENTS + 1,
    )
    return [
        Line(f"{pair.kind}: write, 1 client", sizes.writes, one[0], f"{pair.peer_name}.aput", one[1]),
        _each(f"{pair.kind}: write, {CLIENTS} clients", sizes.writes, many, f"{pair.peer_name}.aput"),
    ]


async def _searches(
    pair: Beside, ours: BaseStore, peer: BaseStore, facts: Sequence[Fact], sizes: StorageSizes
) -> list[Line]:
    """Search one owner's items, and eight owners' by eight clients, all warm."""
    total = len(facts)

    def search(store: BaseStore, owner: str, turn: int) -> Awaitable[list[Any]]:
        return store.asearch(("memories", owner), query=facts[turn % total].question, limit=_TOP)

    peer_times = sizes.peer_searches if pair.peer_searches else 0
    for client in range(CLIENTS):
        await search(ours, _owner(total, client), 0)
    one = await alternated(
        lambda turn: search(ours, _owner(total), turn),
        (lambda turn: search(peer, _owner(total), turn)) if peer_times else _nothing,
        ours_times=sizes.searches,
        peer_times=peer_times,
        ours_seconds=sizes.search_seconds,
        peer_seconds=sizes.search_seconds,
    )
    many = await alternated(
        _by_clients(lambda client, turn: search(ours, _owner(total, client), turn)),
        _by_clients(lambda client, turn: search(peer, _owner(total, client), turn)) if peer_times else _nothing,
        ours_times=sizes.searches // CLIENTS + 1,
        peer_times=peer_times and peer_times // CLIENTS + 1,
        ours_seconds=sizes.search_seconds,
        peer_seconds=sizes.search_seconds,
    )
    found = [len(await search(peer, _owner(total, client), client)) for client in range(CLIENTS)] if peer_times else []
    short = sum(found) / len(found) if found else _TOP
    name = pair.peer_name if peer_times else f"{pair.peer_name}: {pair.why_not}"
    of_many = f"{name}, which finds {short:.1f} of {_TOP}" if short < _TOP else name
    return [
        Line(f"{pair.kind}: search, warm, 1 client", total, one[0], name, one[1]),
        _each(f"{pair.kind}: search, warm, {CLIENTS} clients", total, many, of_many),
    ]


async def _cold(pair: Beside, facts: Sequence[Fact], sizes: StorageSizes) -> Line:
    """Search for the first time since opening."""
    times: tuple[list[float], list[float]] = ([], [])
    owner = _owner(len(facts))
    for turn in range(sizes.cold):
        question = facts[turn].question
        async with pair.ours() as tk:
            store = tk.store_with(ranking="dense")
            times[0].append(await timed(store.asearch(("memories", owner), query=question, limit=_TOP)))
        if pair.peer_searches:
            async with pair.peer() as peer:
                times[1].append(await timed(peer.asearch(("memories", owner), query=question, limit=_TOP)))
    name = pair.peer_name if pair.peer_searches else f"{pair.peer_name}: {pair.why_not}"
    return Line(f"{pair.kind}: search, cold", len(facts), times[0], name, times[1])


async def _fill(store: BaseStore, facts: Sequence[Fact], total: int, *, seconds: float = math.inf) -> int:
    """Store *facts* as one owner's, and as many of eight owners together; return how many were, after *seconds*."""
    from langgraph.store.base import PutOp

    stored, started = 0, perf_counter()
    owners = [_owner(total), *(_owner(total, client) for client in range(CLIENTS))]
    for owner, some in zip(owners, [facts, *(facts[client::CLIENTS] for client in range(CLIENTS))], strict=True):
        puts = [PutOp(("memories", owner), f"{place}", {"data": fact.text}) for place, fact in enumerate(some)]
        for start in range(0, len(puts), _BATCH):
            if perf_counter() - started > seconds:
                return stored
            batch = puts[start : start + _BATCH]
            await store.abatch(batch)
            stored += len(batch)
    return stored


def _by_clients(one: Callable[[int, int], Awaitable[object]]) -> Callable[[int], Awaitable[object]]:
    """Return what begins one for each of the clients at the same moment, given how many came before."""

    async def together(turn: int) -> None:
        await asyncio.gather(*(one(client, turn * CLIENTS + client) for client in range(CLIENTS)))

    return together


def _each(name: str, n: int, times: tuple[list[float], list[float]], peer: str) -> Line:
    """Return the line of what eight clients did together: the time for each."""
    ours, theirs = ([one / CLIENTS for one in taken] for taken in times)
    return Line(name, n, ours, peer, theirs)


async def _nothing(_turn: int) -> None:
    """Stand in for a peer that cannot."""


def _owner(total: int, client: int | None = None) -> str:
    return f"owner{total}" if client is None else f"owner{total}-{client}"
