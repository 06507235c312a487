"""What ranking knows of an item beside its text: where it stands in which conversation, and who said it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

if TYPE_CHECKING:
    from threadkeep.storage.port import Item

OTHER: Final = 0
USER: Final = 1
ASSISTANT: Final = 2
TOOL: Final = 3
DOCUMENT: Final = 4
ROLES: Final = 5

_ROLES: Final = {"user": USER, "assistant": ASSISTANT, "tool": TOOL, "document": DOCUMENT}
_TRUST: Final = {"user": 1.0, "import": 0.75, "document": 0.5, "tool": 0.25, "assistant": 0.0}
_LABEL: Final = re.compile(r"\s{0,3}([^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,2}):\s")
_LONGEST_LABEL: Final = 64
_END_CHARACTERS: Final = 80


class Traits(NamedTuple):
    """What is known of one item.

    Attributes:
        thread: The conversation that it is from; ``None``: none.
        said_at: When it was said, seconds since 1970.
        role: Who said it: one of this module's numbers.
        trust: How far whoever is behind it is trusted, in [0, 1].
        pinned: Whether it is pinned.
        label: The name of who said it, where the text begins with ``Name: ``; empty otherwise.
        asks: Whether it ends in a question.
    """

    thread: str | None
    said_at: float
    role: int
    trust: float
    pinned: bool
    label: str
    asks: bool


def traits_of(item: Item, texts: Sequence[str]) -> Traits:
    """Read the traits of *item*, whatever others may have put into its value.

    Args:
        item: A memory or something else.
        texts: Its searchable texts.
    """
    value = item.value
    sources = value.get("sources")
    source: Mapping[str, Any] = {}
    if isinstance(sources, list) and sources and isinstance(sources[0], dict):
        source = cast("dict[str, Any]", sources[0])
    thread = source.get("thread_id") or value.get("source_thread")
    said_at = _seconds(source.get("at"))
    if said_at is None and (said_at := _seconds(value.get("timestamp"))) is None:
        said_at = item.created_at.timestamp()
    text = texts[0] if texts else ""
    label = _LABEL.match(text) if ": " in text[:_LONGEST_LABEL] else None
    end = text[-_END_CHARACTERS:]
    speaker = source.get("speaker")
    trust = value.get("trust")
    return Traits(
        thread if isinstance(thread, str) else None,
        said_at,
        _ROLES.get(speaker, OTHER) if isinstance(speaker, str) else OTHER,
        _TRUST.get(trust, 0.0) if isinstance(trust, str) else 0.0,
        value.get("pinned") is True,
        label[1] if label else "",
        "?" in end or "？" in end or "؟" in end,
    )


def _seconds(moment: object) -> float | None:
    """Read ISO text as seconds since 1970; ``None`` where it is none."""
    if not isinstance(moment, str):
        return None
    try:
        read = datetime.fromisoformat(moment)
        return read.timestamp() if read.tzinfo is not None else read.replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None
