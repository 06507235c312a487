"""Every check, topic by topic."""

from __future__ import annotations

from typing import Final

from threadkeep_conformance import (
    batches,
    expiring,
    filtering,
    items,
    listing,
    meaning,
    namespaces,
    opening,
    searching,
)
from threadkeep_conformance.check import ENTERED, Check

TOPICS: Final = tuple(
    topic.__name__ for topic in (items, batches, namespaces, listing, filtering, searching, meaning, expiring, opening)
)

CHECKS: Final[tuple[Check, ...]] = tuple(sorted(ENTERED, key=lambda check: TOPICS.index(check.body.__module__)))
"""In the order of the topics, and within one in the order that they are written in."""
