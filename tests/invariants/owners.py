"""No two ids share a partition or a label, and every label leads back to its owner."""

from __future__ import annotations

import random
from typing import Any, Final

from threadkeep.errors import InvalidInputError
from threadkeep.identity import Owner, owner_of_label

ALPHABETS: Final = (
    "abcdefghijklmnopqrstuvwxyz0123456789",
    "ab._@-",
    "~tk%0123456789abcdef.",
    "aA\u00e4\u00c4\u212b\u00c5e\u0301\u00e9",
    "\x00.\ud800\udfff\U000103ff/\\*",
    "日本語한국어العربية😀",
)


def run(n: int, *, seed: int = 1) -> dict[str, Any]:
    """Make *n* different owners and count the collisions between them."""
    rng = random.Random(seed)
    made: set[Owner] = set()
    partitions: set[bytes] = set()
    labels: set[str] = set()
    wrong = 0
    while len(made) < n:
        owner = _owner(rng)
        if owner is None or owner in made:
            continue
        made.add(owner)
        partitions.add(owner.partition.digest)
        labels.add(owner.label)
        wrong += owner_of_label(owner.label) != owner
    return {"n": n, "collisions": (n - len(partitions)) + (n - len(labels)) + wrong}


def _owner(rng: random.Random) -> Owner | None:
    alphabet = rng.choice(ALPHABETS)
    text = "".join(rng.choices(alphabet, k=rng.choice((1, 2, 3, 5, 8, 40))))
    tenant = "".join(rng.choices(alphabet, k=rng.choice((0, 0, 0, 1, 2, 5))))
    if rng.random() < 0.1:  # what another owner's label looks like, as an id of its own
        text = Owner(text, tenant).label
        tenant = ""
    try:
        return Owner(text, tenant)
    except InvalidInputError:
        return None
