"""In how many turns of real conversations something is cut out, by kind: where nothing is secret, all are false."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from threadkeep.text.redaction import KINDS, redact, redactor
from threadkeep_evals.locomo import load_locomo
from threadkeep_evals.metrics import share_interval, told_interval

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.table import Table

    from threadkeep_evals.conversation import DataSet


def run_redaction(
    path: Path, *, region: str | None = None, load: Callable[[Path], DataSet] = load_locomo
) -> dict[str, Any]:
    """Redact every turn of a file, and return the figures as JSON; where they are, and not what they say.

    Args:
        path: The file.
        region: Where telephone numbers without a ``+`` are from.
        load: Reads it.

    Raises:
        InvalidInputError: It is no such file.
        SettingsError: The region is none, or a package is missing.
    """
    data = load(path)
    turns = [(talk.conversation_id, turn) for talk in data.conversations for turn in talk.turns]
    results: list[dict[str, Any]] = []
    for kind in ("secrets", *KINDS):
        cut = redact if kind == "secrets" else redactor([kind], region=region)
        # A kind of personal data is measured beyond what is cut out in any case.
        places = [f"{talk} {turn.turn_id}" for talk, turn in turns if _beyond(turn.words, kind, cut)]
        share = len(places) / len(turns) if turns else 0.0
        row: dict[str, Any] = {"kind": kind, "turns": len(turns), "changed": len(places), "share": share}
        results.append({**row, "interval95": share_interval(len(places), len(turns)), "places": places})
    return {"dataset": data.name, "file_sha256": data.sha256, "results": results}


def render_table(report: dict[str, Any]) -> Table:
    """Return the figures of :func:`run_redaction` for people."""
    from rich.table import Table

    table = Table(title=f"Turns of {report['dataset']} that redaction changes", title_justify="left")
    table.add_column("kind")
    for name in ("turns", "changed", "share", "95 % interval"):
        table.add_column(name, justify="right")
    table.add_column("places")
    for row in report["results"]:
        figures = (f"{row['turns']:,}", f"{row['changed']:,}", f"{row['share']:.2%}", told_interval(row["interval95"]))
        table.add_row(row["kind"], *figures, ", ".join(row["places"]))
    return table


def _beyond(text: str, kind: str, cut: Any) -> bool:
    return cut(text) != (text if kind == "secrets" else redact(text))
