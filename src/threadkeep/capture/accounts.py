"""What extracting from an owner's turns took of models, added up: pure rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, cast

from threadkeep.capture.record import Usage
from threadkeep.owners.owner import Owner
from threadkeep.storage.port import Item, Put, Ref

ACCOUNTS: Final = ".usage"
ACCOUNT_KEY: Final = "extraction"
_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """What a million tokens cost, in US dollars.

    Attributes:
        read: Of what a model reads.
        written: Of what it writes.
    """

    read: float
    written: float


def account_ref(owner: Owner) -> Ref:
    """Return where *owner*'s account is."""
    return Ref(owner.partition, (ACCOUNTS, owner.label), ACCOUNT_KEY)


def priced(usage: Usage, prices: Prices | None) -> Usage:
    """Return *usage* with what it cost."""
    if prices is None:
        return usage
    cost = (usage.input_tokens * prices.read + usage.output_tokens * prices.written) / _MILLION
    return replace(usage, cost_usd=round(cost, 9))


def account_put(owner: Owner, before: Item | None, usage: Usage, *, failed: bool, at: datetime) -> Put:
    """Return the put that adds *usage* to what is on the account; it fails where somebody added meanwhile."""
    held: Mapping[str, Any] = before.value if before else {}
    value = {
        "since": held.get("since", at.isoformat()),
        "turns": _number(held, "turns") + (not failed),
        "failed": _number(held, "failed") + failed,
        "calls": _number(held, "calls") + usage.calls,
        "input_tokens": _number(held, "input_tokens") + usage.input_tokens,
        "output_tokens": _number(held, "output_tokens") + usage.output_tokens,
        "cost_usd": round(_number(held, "cost_usd") + (usage.cost_usd or 0), 9),
        "model": usage.model,
        "prompt": usage.prompt,
    }
    return Put((ACCOUNTS, owner.label), ACCOUNT_KEY, value, expect=before.revision if before else "absent")


def spell_usage(usage: Usage) -> dict[str, Any]:
    """Spell *usage* for a turn record."""
    row = {
        "model": usage.model,
        "prompt": usage.prompt,
        "calls": usage.calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd,
    }
    return {name: field for name, field in row.items() if field is not None}


def usage_of(row: object) -> Usage | None:
    """Read what :func:`spell_usage` spelled; ``None`` where it is something else."""
    if not isinstance(row, Mapping):
        return None
    fields = cast("Mapping[str, Any]", row)
    model, prompt, cost = fields.get("model"), fields.get("prompt"), fields.get("cost_usd")
    if not isinstance(model, str) or not isinstance(prompt, str):
        return None
    return Usage(
        model,
        prompt,
        int(_number(fields, "calls")),
        int(_number(fields, "input_tokens")),
        int(_number(fields, "output_tokens")),
        float(cost) if isinstance(cost, int | float) else None,
    )


def _number(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0
