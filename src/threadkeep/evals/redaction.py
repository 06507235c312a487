"""In how many turns of real conversations something is cut out, by kind: where nothing is secret, all are false."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from threadkeep.capture.personal import KINDS, redactor
from threadkeep.capture.redact import redact
from threadkeep.evals.locomo import load_locomo

if TYPE_CHECKING:
    from pathlib import Path


def run_redaction(path: Path, *, region: str | None = None) -> dict[str, Any]:
    """Redact every turn of a LoCoMo file, and return the figures as JSON; where they are, and not what they say.

    Raises:
        InvalidInputError: It is no such file.
        SettingsError: The region is none, or a package is missing.
    """
    data = load_locomo(path)
    turns = [(talk.conversation_id, turn) for talk in data.conversations for turn in talk.turns]
    results: list[dict[str, Any]] = []
    for kind in ("secrets", *KINDS):
        cut = redact if kind == "secrets" else redactor([kind], region=region)
        # A kind of personal data is measured beyond what is cut out in any case.
        places = [f"{talk} {turn.turn_id}" for talk, turn in turns if _beyond(turn.words, kind, cut)]
        share = len(places) / len(turns) if turns else 0.0
        results.append({"kind": kind, "turns": len(turns), "changed": len(places), "share": share, "places": places})
    return {"dataset": data.name, "results": results}


def _beyond(text: str, kind: str, cut: Any) -> bool:
    return cut(text) != (text if kind == "secrets" else redact(text))
