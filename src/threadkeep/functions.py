"""The documents' names: thin functions for those who know LangGraph memory from there.

They take any LangGraph ``BaseStore``; with ours (:func:`create_store`) an item in
``("memories", user)``, ``("summaries", user)`` or ``("users", user, "memories", …)`` *is* a memory
or summary of that user, whoever wrote it. User ids may be any text: the label is made here.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from threadkeep.app import settings_of
from threadkeep.errors import InvalidInputError
from threadkeep.ids import new_id
from threadkeep.library import Threadkeep
from threadkeep.library import open as open_memory
from threadkeep.memories.record import Memory
from threadkeep.memories.shapes import MEMORIES, SUMMARIES, memory_of
from threadkeep.owners.owner import Owner
from threadkeep.recall.record import Recalled
from threadkeep.recall.render import cross_thread_context, memory_context_text
from threadkeep.settings import Settings
from threadkeep.storage.port import Item, Partition, Ref

if TYPE_CHECKING:
    from langchain_core.messages import SystemMessage
    from langgraph.store.base import BaseStore
    from langgraph.store.base import Item as StoreItem

__all__ = [
    "create_store",
    "get_store",
    "memory_context_system_message",
    "reset_store",
    "sanitize_namespace_label",
    "search_relevant_memories",
    "store_get_cross_thread_context",
    "store_put_memory",
    "store_put_summary",
]

_PAGE: Final = 500
_LOOK_AT: Final = 200
_guard: Final = threading.Lock()
_shared: list[Threadkeep] = []


def create_store(settings: Settings | None = None) -> BaseStore:
    """Make the store that LANGGRAPH_STORE_TYPE names; ``memory`` where it is unset.

    Synchronous, without I/O: the first operation connects, once, however many arrive together.

    Raises:
        SettingsError: One sentence that names the variable to correct.
    """
    return _create(settings).store


def get_store() -> BaseStore:
    """Return the store of this process, made by the first call."""
    with _guard:
        if not _shared:
            _shared.append(_create(None))
        return _shared[0].store


def reset_store() -> None:
    """Close the store of this process; the next :func:`get_store` makes another."""
    with _guard:
        while _shared:
            _shared.pop().close()


def sanitize_namespace_label(user_id: str) -> str:
    """Return *user_id* as a legal LangGraph namespace label; two ids never have the same."""
    return Owner(user_id).label


async def store_put_memory(
    store: BaseStore, user_id: str, data: str, *, source_thread: str | None = None, key: str | None = None
) -> str:
    """Keep a fact about a user; return its key."""
    key = key or new_id()
    value = _value("data", data, "source_thread", source_thread)
    await store.aput((MEMORIES, sanitize_namespace_label(user_id)), key, value)
    return key


async def store_put_summary(
    store: BaseStore, user_id: str, summary: str, *, thread_id: str | None = None, key: str | None = None
) -> str:
    """Keep what a thread was about; return its key."""
    key = key or new_id()
    value = _value("summary", summary, "thread_id", thread_id)
    await store.aput((SUMMARIES, sanitize_namespace_label(user_id)), key, value)
    return key


async def store_get_cross_thread_context(
    store: BaseStore, user_id: str, *, max_summaries: int | None = None, max_memories: int | None = None
) -> str:
    """Return what other threads left behind: the newest summaries and memories, under the documents' headings.

    Everything is sorted by its time first and limited afterwards, so that the newest are kept.

    Args:
        store: Any LangGraph store.
        user_id: About whom.
        max_summaries: ``None``: LANGGRAPH_STORE_MAX_SUMMARIES.
        max_memories: ``None``: LANGGRAPH_STORE_MAX_MEMORIES.
    """
    settings = Settings.load()
    label = sanitize_namespace_label(user_id)
    summaries = await _all(store, (SUMMARIES, label), user_id)
    memories = [
        *await _all(store, (MEMORIES, label), user_id),
        *await _all(store, ("users", label, MEMORIES), user_id),
    ]
    return cross_thread_context(
        _newest(summaries, settings.store_max_summaries if max_summaries is None else max_summaries),
        _newest(memories, settings.store_max_memories if max_memories is None else max_memories),
    )


def search_relevant_memories(
    store: BaseStore, user_id: str, query: str, *, k_user: int = 4, k_episodic: int = 4
) -> list[Recalled]:
    """Return up to *k_user* facts and *k_episodic* episodes that matter for *query*, best first."""
    label = sanitize_namespace_label(user_id)
    wanted = {True: k_episodic, False: k_user}
    found: list[Recalled] = []
    for namespace in ((MEMORIES, label), ("users", label, MEMORIES)):
        taken: Counter[bool] = Counter()
        for recalled in islice(_ranked(store, namespace, query, user_id), _LOOK_AT):
            episodic = recalled.memory.kind == "episodic"
            if taken[episodic] < wanted[episodic]:
                taken[episodic] += 1
                found.append(recalled)
            if all(taken[kind] >= wanted[kind] for kind in wanted):
                break
    found.sort(key=lambda recalled: -recalled.score)
    facts = [f for f in found if f.memory.kind != "episodic"][:k_user]
    episodes = [f for f in found if f.memory.kind == "episodic"][:k_episodic]
    return sorted([*facts, *episodes], key=lambda recalled: -recalled.score)


def memory_context_system_message(hits: Sequence[Recalled], *, max_chars: int = 900) -> SystemMessage | None:
    """Return one compact system message of at most *max_chars*, cut at a statement; ``None`` without hits."""
    from langchain_core.messages import SystemMessage

    text = memory_context_text([hit.memory for hit in hits], max_chars=max_chars)
    return SystemMessage(text) if text else None


def _create(settings: Settings | None) -> Threadkeep:
    settings = settings_of(None, settings)
    if settings.store_type is None:
        settings = settings.model_copy(update={"store_type": "memory"})
    return open_memory(settings=settings)


def _value(field: str, text: str, thread_field: str, thread_id: str | None) -> dict[str, Any]:
    from threadkeep.clock import SystemClock

    if not isinstance(text, str) or not text.strip():
        msg = f"The {field} is empty; give a text."
        raise InvalidInputError(msg)
    return {field: text, thread_field: thread_id, "timestamp": SystemClock().now().isoformat()}


async def _all(store: BaseStore, namespace: tuple[str, ...], user_id: str) -> list[Memory]:
    found: list[Memory] = []
    offset = 0
    while page := await store.asearch(namespace, limit=_PAGE, offset=offset):
        found += [memory for item in page if (memory := _memory(item, user_id))]
        offset += len(page)
    return found


def _ranked(store: BaseStore, namespace: tuple[str, ...], query: str, user_id: str) -> Iterator[Recalled]:
    """Yield what is most like *query*, page by page, for as long as the caller wants more."""
    offset, size = 0, 20
    while page := store.search(namespace, query=query, limit=size, offset=offset):
        for item in page:
            if memory := _memory(item, user_id):
                yield Recalled(memory, item.score or 0.0)
        if len(page) < size:
            return
        offset += len(page)


def _memory(item: StoreItem, user_id: str) -> Memory | None:
    """Read *item*; ``None`` where it says nothing, or what may not be recalled."""
    owner = Owner(user_id)
    value = dict(item.value)
    if isinstance(value.get("summary"), str):
        value.setdefault("data", value["summary"])
    ref = Ref(Partition("owner", (owner.tenant, owner.user_id)), tuple(item.namespace), item.key)
    memory = memory_of(Item(ref, value, 0, item.created_at, item.updated_at))
    return memory if memory is not None and memory.status == "active" and memory.valid_to is None else None


def _newest(memories: list[Memory], limit: int) -> list[str]:
    return [m.text for m in sorted(memories, key=lambda m: m.created_at, reverse=True)[:limit]]
