"""What a row of an owner's is, told by where it is kept: pure rules."""

from __future__ import annotations

from typing import Final

from threadkeep.capture.accounts import ACCOUNTS
from threadkeep.memories.audit import AUDIT
from threadkeep.memories.shapes import HEAD, SUMMARIES, is_memory_namespace
from threadkeep.proposals.shapes import DIGEST_KEY, PROPOSALS, TOMBSTONES
from threadkeep.storage.port import Item

_PLACES: Final = {
    SUMMARIES: "summary",
    ".threads": "thread",
    PROPOSALS: "proposal",
    TOMBSTONES: "tombstone",
    ACCOUNTS: "account",
    AUDIT: "audit",
}


def place_of(item: Item) -> str:
    """Return what *item* is: ``memory``, ``summary``, ``turn``, ``proposal`` and so on; ``item``: a program's own."""
    namespace = item.ref.namespace
    if is_memory_namespace(namespace):
        return "memory"
    root = namespace[0] if namespace else ""
    if root == ".turns":
        return "turn" if item.value.get("state") != "done" else "turn_seen"
    return _PLACES.get(root, "internal" if root.startswith(".") else "item")


def says_nothing(item: Item) -> bool:
    """Whether a row says nothing of anybody: where writers meet, and the key that digests are made with."""
    root = item.ref.namespace[:1]
    return root == (HEAD,) or (root == (TOMBSTONES,) and item.ref.key == DIGEST_KEY)
