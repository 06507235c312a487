"""How many wordings of a rejected or forgotten statement are missed, and how many others are blocked by mistake."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from threadkeep.memories.codec import row_of
from threadkeep.proposals.models import Tombstone
from threadkeep.proposals.policies import Unwanted, digests_of
from threadkeep_evals.data_banks import KNOWN, UNSEEN, Case
from threadkeep_evals.metrics import share_interval, told_interval

if TYPE_CHECKING:
    from rich.table import Table

    from threadkeep.client import Threadkeep
    from threadkeep.models.base import Embedder

_SECRET: Final = b"measured, not kept"


def run_tombstones(*, embedder: Embedder | str | None = None) -> dict[str, Any]:
    """Measure tombstones of both causes on the statements of ``data_banks``, and return the figures as JSON.

    Args:
        embedder: Instead of the one that the settings say; ``"none"``: by words only.
    """
    return asyncio.run(_measured(embedder))


async def _measured(embedder: Embedder | str | None) -> dict[str, Any]:
    from threadkeep.client import open as open_threadkeep

    async with open_threadkeep("memory://", embedder=embedder) as tk:
        await tk.ready()
        results = [
            {"cases": name, "cause": cause, **await _of(tk, cases, rejected=cause == "rejected")}
            for name, cases in (("known", KNOWN), ("unseen", UNSEEN))
            for cause in ("rejected", "erased")
        ]
    return {"dataset": "paraphrases", "results": results}


async def _of(tk: Threadkeep, cases: Sequence[Case], *, rejected: bool) -> dict[str, Any]:
    missed: list[str] = []
    blocked: list[str] = []
    for case in cases:
        texts = (case.statement, *case.again, *case.other)

        async def embedded(services: Any, texts: Sequence[str] = texts) -> Any:
            return await services.search.embed_put(texts)

        vectors = await tk.app.call(embedded)
        rows = [row_of(vectors, place) if vectors else None for place in range(len(texts))]
        at = tk.app.clock.now()
        tombstone = Tombstone(
            "measured",
            "rejected" if rejected else "erased",
            case.statement if rejected else None,
            at,
            "nobody",
            None,
            frozenset() if rejected else digests_of(case.statement, _SECRET),
            rows[0],
        )
        unwanted = Unwanted((tombstone,), _SECRET)
        for place, text in enumerate(texts[1:], start=1):
            stopped = unwanted.blocks(text, rows[place]) is not None
            if text in case.again and not stopped:
                missed.append(text)
            if text in case.other and stopped:
                blocked.append(text)
    again, other = sum(len(case.again) for case in cases), sum(len(case.other) for case in cases)
    return {
        "again": again,
        "missed": len(missed),
        "miss_rate": round(len(missed) / again, 4),
        "other": other,
        "false_blocks": len(blocked),
        "false_block_rate": round(len(blocked) / other, 4),
        "interval95": {
            "miss_rate": share_interval(len(missed), again),
            "false_block_rate": share_interval(len(blocked), other),
        },
        "missed_texts": missed,
        "blocked_texts": blocked,
    }


def render_table(report: dict[str, Any]) -> Table:
    """Return the figures of :func:`run_tombstones` as a table for people."""
    from rich.table import Table

    interval = "95 % interval"
    table = Table("statements", "cause", "missed", interval, "blocked by mistake", interval, title="Tombstones")
    for row in report["results"]:
        table.add_row(
            row["cases"],
            row["cause"],
            f"{row['missed']} of {row['again']} ({row['miss_rate']:.1%})",
            told_interval(row["interval95"]["miss_rate"]),
            f"{row['false_blocks']} of {row['other']} ({row['false_block_rate']:.1%})",
            told_interval(row["interval95"]["false_block_rate"]),
        )
    return table
