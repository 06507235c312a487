"""Which sentences of labelled messages capture keeps as facts, or proposes as rules, and which of those should be."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from threadkeep_evals.data_banks import read_bank
from threadkeep_evals.keeping_fit import HELD_OUT, KEEP
from threadkeep_evals.personal import Outcome, figures_of, open_told, table_of_figures
from threadkeep_evals.progress import Progress, Steps, silent

if TYPE_CHECKING:
    from rich.table import Table

    from threadkeep_evals.personal import ToldMemory


def run_sentences(bank: str = HELD_OUT, *, show: bool = False, progress: Progress = silent) -> dict[str, Any]:
    """Tell every message of *bank* to an owner of its own, and return the figures as JSON.

    Args:
        bank: The name of a bank of labelled messages.
        show: Whether the sentences that were judged wrongly are in the report.
        progress: Called after each message.
    """
    messages: Sequence[Mapping[str, Any]] = read_bank(bank)["messages"]
    outcomes = asyncio.run(_measured(messages, Steps(len(messages), progress)))
    report: dict[str, Any] = {"dataset": bank, "messages": len(messages), "results": figures_of(outcomes)}
    if show:
        report["wrong"] = [{"figure": one.groups[0], "sentence": one.item} for one in outcomes if not one.passed]
    return report


def render_table(report: dict[str, Any]) -> Table:
    """Return the figures of :func:`run_sentences` for people."""
    return table_of_figures(f"Sentences that capture keeps, {report['messages']} messages", report["results"])


async def _measured(messages: Sequence[Mapping[str, Any]], steps: Steps) -> list[Outcome]:
    outcomes: list[Outcome] = []
    async with open_told(None) as told:
        for number, message in enumerate(messages):
            outcomes += await _judged(told, message, f"user-{number}")
            steps.advance()
    return outcomes


async def _judged(told: ToldMemory, message: Mapping[str, Any], owner: str) -> list[Outcome]:
    """Return of each sentence worth keeping whether it was kept, and of each kept one whether it is worth it."""
    await told.tell(" ".join(text for text, _ in message["sentences"]), owner)
    rules = [proposal.text for proposal in await told.tk.proposals.list(owner=owner)]
    kept = [*map(_letters, await told.facts(owner)), *map(_letters, rules)]
    outcomes: list[Outcome] = []
    for text, label in message["sentences"]:
        is_kept = any(one in _letters(text) or _letters(text) in one for one in kept)
        if label == KEEP:
            outcomes.append(Outcome(("recall", f"recall:{message['lang']}"), is_kept, text))
        if is_kept:
            outcomes.append(Outcome(("precision", f"precision:{message['lang']}"), label == KEEP, text))
    return outcomes


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
