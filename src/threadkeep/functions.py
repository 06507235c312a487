"""The documents' names: thin functions for those who know LangGraph memory from there.

They take any LangGraph ``BaseStore``; with ours (:func:`create_store`) an item in
``("memories", user)``, ``("summaries", user)`` or ``("users", user, "memories", …)`` *is* a memory
or summary of that user, whichever program wrote it. User ids may be any text: the label is made here.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

from threadkeep.client import Threadkeep
from threadkeep.client import open as open_memory
from threadkeep.container import Services
from threadkeep.errors import (
    InvalidInputError,
    OwnerMismatchError,
    StorageError,
    StorageUnavailableError,
    ThreadkeepError,
)
from threadkeep.fact_extraction import (
    create_fact_extractor,
    extract_and_store_facts,
    is_fact_extraction_enabled,
    telemetry,
)
from threadkeep.identity import Owner
from threadkeep.ids import MemoryId, ThreadId, new_id
from threadkeep.langgraph.window_rules import compacted, is_whole, over, repaired, safe_split
from threadkeep.memories.codec import MEMORIES, SUMMARIES, is_summary, memory_of
from threadkeep.memories.kinds import Kind
from threadkeep.memories.models import Memory, Source, distinct, recallable
from threadkeep.observability import log, trace_agent
from threadkeep.proposals.models import MemoryState, NewProposal, Proposal, Proposed
from threadkeep.recall.models import Recalled, cross_thread_context, memory_context_text
from threadkeep.recall.packing import estimate_tokens
from threadkeep.registry import resolve_settings
from threadkeep.runs import Run
from threadkeep.settings import Settings
from threadkeep.storage.interface import Item, Ref
from threadkeep.text.extractive import extractive_summary

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage, SystemMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.store.base import BaseStore
    from langgraph.store.base import Item as StoreItem

    from threadkeep.langgraph.store import ThreadkeepStore

__all__ = [
    "approve_memory_update",
    "create_fact_extractor",
    "create_store",
    "extract_and_store_facts",
    "extract_tool_call_ids",
    "find_safe_split_index",
    "find_safe_summarization_boundary",
    "get_memory_state",
    "get_store",
    "is_fact_extraction_enabled",
    "memory_context_system_message",
    "preflight_context_check",
    "propose_memory_update",
    "reject_memory_update",
    "repair_orphaned_tool_calls",
    "repair_thread",
    "reset_store",
    "resume_job",
    "resume_with_context",
    "retry_job",
    "sanitize_namespace_label",
    "search_relevant_memories",
    "store_get_cross_thread_context",
    "store_put_memory",
    "store_put_summary",
    "summarize_messages",
    "trace_agent_stream",
    "trim_messages_if_needed",
]

P = ParamSpec("P")
R = TypeVar("R")

RESET_MESSAGE: Final = (
    "This conversation could not be continued from where it was, so it begins anew. What you told me before is "
    "remembered; please repeat what you need now."
)
"""The reply for a thread with messages that could not be repaired."""

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
    store: BaseStore | None, user_id: str, data: str, source_thread: str | None = None, key: str | None = None
) -> str:
    """Keep a fact about a user.

    Returns:
        The key; empty if the store is missing or failed, which is logged and counted.
    """
    return await _put(store, MEMORIES, user_id, key, _value("data", data, "source_thread", source_thread))


async def store_put_summary(
    store: BaseStore | None, user_id: str, summary: str, thread_id: str | None = None, key: str | None = None
) -> str:
    """Keep what a thread was about.

    Returns:
        The key; empty if the store is missing or failed, which is logged and counted.
    """
    return await _put(store, SUMMARIES, user_id, key, _value("summary", summary, "thread_id", thread_id))


async def store_get_cross_thread_context(
    store: BaseStore | None, user_id: str, max_summaries: int | None = None, max_memories: int | None = None
) -> str:
    """Return what other threads left behind: the newest summaries and memories, under the documents' headings.

    Everything is sorted by its time first and limited afterwards, so that the newest are kept. What is said twice is
    shown once, and what was corrected is not shown.

    Args:
        store: Any LangGraph store.
        user_id: About whom.
        max_summaries: ``None``: LANGGRAPH_STORE_MAX_SUMMARIES.
        max_memories: ``None``: LANGGRAPH_STORE_MAX_MEMORIES.

    Returns:
        The text; empty if nothing is kept, or the store is missing or failed, which is logged and counted.
    """
    settings = Settings.load()
    label = sanitize_namespace_label(user_id)
    summaries: list[Memory] = []
    memories: list[Memory] = []
    with _survived("store_get_cross_thread_context"):
        store = _present(store)
        summaries = await _all(store, (SUMMARIES, label), user_id)
        for namespace in ((MEMORIES, label), ("users", label, MEMORIES)):
            memories += await _all(store, namespace, user_id)
    found = distinct([*memories, *summaries])
    return cross_thread_context(
        _newest(
            [memory for memory in found if is_summary(memory)],
            settings.store_max_summaries if max_summaries is None else max_summaries,
        ),
        _newest(
            [memory for memory in found if not is_summary(memory)],
            settings.store_max_memories if max_memories is None else max_memories,
        ),
    )


def search_relevant_memories(
    store: BaseStore | None, user_id: str, query: str, k_user: int = 4, k_episodic: int = 4
) -> list[Recalled]:
    """Return up to *k_user* facts and *k_episodic* episodes that matter for *query*, best first.

    The list is empty if the store is missing or failed, which is logged and counted.
    """
    label = sanitize_namespace_label(user_id)
    wanted = {True: k_episodic, False: k_user}
    found: list[Recalled] = []
    with _survived("search_relevant_memories"):
        store = _present(store)
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


def memory_context_system_message(hits: Sequence[Recalled], max_chars: int = 900) -> SystemMessage | None:
    """Return one compact system message of at most *max_chars*, cut at a statement; ``None`` without hits."""
    from langchain_core.messages import SystemMessage

    text = memory_context_text([hit.memory for hit in hits], max_chars=max_chars)
    return SystemMessage(text) if text else None


async def propose_memory_update(
    store: BaseStore,
    user_id: str,
    text: str,
    *,
    kind: Kind = "semantic",
    memory_id: str | None = None,
    base_revision: int | None = None,
    source_thread: str | None = None,
    key: str | None = None,
) -> Proposed:
    """Propose to remember *text*, or to have it replace what a memory says; it is not recalled before it is approved.

    Args:
        store: Ours.
        user_id: About whom.
        text: The statement.
        kind: Of the memory.
        memory_id: The memory to change; ``None``: a new one.
        base_revision: Its revision that was looked at; ``None``: what it is now.
        source_thread: Where it comes from.
        key: The client's; the same key is the same proposal, however often it is made.
    """
    new = NewProposal(
        text,
        "correct" if memory_id else "add",
        kind,
        (Source("assistant", ThreadId(source_thread) if source_thread else None),),
        MemoryId(memory_id) if memory_id else None,
        base_revision,
        key=key,
    )
    ours, owner = _ours(store, user_id)
    return await ours.call(lambda services: services.proposal_repository.propose(new, owner=owner))


async def approve_memory_update(
    store: BaseStore,
    user_id: str,
    proposal_id: str,
    *,
    by: str | None = None,
    text: str | None = None,
    comment: str | None = None,
    key: str | None = None,
) -> Proposal:
    """Do what was proposed, or *text* instead; a proposal is decided once.

    Raises:
        ProposalNotFoundError, ProposalDecidedError, RevisionConflictError: As they say.
    """
    ours, owner = _ours(store, user_id)
    return await ours.call(
        lambda services: services.proposal_repository.approve(
            proposal_id, owner=owner, by=by or user_id, text=text, comment=comment, key=key
        )
    )


async def reject_memory_update(
    store: BaseStore,
    user_id: str,
    proposal_id: str,
    *,
    by: str | None = None,
    comment: str | None = None,
    key: str | None = None,
) -> Proposal:
    """Refuse what was proposed; what it says is not learnt again.

    Raises:
        ProposalNotFoundError, ProposalDecidedError: As they say.
    """
    ours, owner = _ours(store, user_id)
    return await ours.call(
        lambda services: services.proposal_repository.reject(
            proposal_id, owner=owner, by=by or user_id, comment=comment, key=key
        )
    )


async def get_memory_state(store: BaseStore, user_id: str, *, limit: int = 100) -> MemoryState:
    """Return what is remembered about a user and may be recalled, and what waits for a decision."""
    ours, owner = _ours(store, user_id)

    async def state(services: Services) -> MemoryState:
        memories = [one async for one in services.memory_repository.walk(owner=owner) if recallable(one)]
        return MemoryState(
            tuple(memories[:limit]), tuple(await services.proposal_repository.list(owner=owner, limit=limit))
        )

    return await ours.call(state)


def _ours(store: BaseStore, user_id: str) -> tuple[ThreadkeepStore, Owner]:
    """Return *store*, which has to be ours, and the owner; another's is refused by a store that is locked."""
    from threadkeep.langgraph.store import ThreadkeepStore

    if not isinstance(store, ThreadkeepStore):
        msg = f"Proposals need a Threadkeep store, not {type(store).__name__}; make one by create_store()."
        raise InvalidInputError(msg)
    owner = Owner(user_id)
    if store.locked_to not in (None, owner):
        msg = "This memory is locked to another owner."
        raise OwnerMismatchError(msg)
    return store, owner


def _create(settings: Settings | None) -> Threadkeep:
    settings = resolve_settings(None, settings)
    if settings.unused_server is not None:
        log.warning("Memories are kept in RAM. %s", settings.unused_server)
    if settings.store_type is None:
        settings = settings.model_copy(update={"store_type": "memory"})
    return open_memory(settings=settings)


def _value(field: str, text: str, thread_field: str, thread_id: str | None) -> dict[str, Any]:
    from threadkeep.clock import SystemClock

    if not isinstance(text, str) or not text.strip():
        msg = f"The {field} is empty; give a text."
        raise InvalidInputError(msg)
    return {field: text, thread_field: thread_id, "timestamp": SystemClock().now().isoformat()}


async def _put(store: BaseStore | None, root: str, user_id: str, key: str | None, value: dict[str, Any]) -> str:
    namespace, key = (root, sanitize_namespace_label(user_id)), key or new_id()
    with _survived("store_put_summary" if root == SUMMARIES else "store_put_memory"):
        await _present(store).aput(namespace, key, value)
        return key
    return ""


def _present(store: BaseStore | None) -> BaseStore:
    if store is None:
        msg = "The store is missing: pass the store of create_store()."
        raise StorageUnavailableError(msg)
    return store


@contextmanager
def _survived(function: str) -> Generator[None]:
    """Log and count a failure of the store, and go on without what it took away; a wrong argument is an error."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ThreadkeepError) and not isinstance(error, StorageError):
            raise
        telemetry.degraded(function, error)


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
    ref = Ref(owner.partition, tuple(item.namespace), item.key)
    memory = memory_of(Item(ref, value, 0, item.created_at, item.updated_at))
    return memory if memory is not None and recallable(memory) else None


def _newest(memories: list[Memory], limit: int) -> list[str]:
    return [m.text for m in sorted(memories, key=lambda m: m.created_at, reverse=True)[:limit]]


def trace_agent_stream(
    agent_name: str | None = None,
    trace_name: str | None = None,
    update_input: bool = False,  # noqa: FBT001, FBT002 - the documents' signature
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Do what :func:`threadkeep.observability.trace_agent` does, under the documents' name.

    Args:
        agent_name: The agent's name; ``None``: the function's.
        trace_name: The name of the application's trace, noted as ``threadkeep.trace_name``.
        update_input: Whether the span carries the input, the first text among the arguments; also needs
            THREADKEEP_TRACE_CONTENT.
    """
    with_input = (lambda: Settings.load().trace_content) if update_input else None
    return trace_agent(agent_name, trace_name=trace_name, with_input=with_input)


def extract_tool_call_ids(messages: Sequence[Any]) -> set[str]:
    """Return the ids of all tool calls that *messages* make, however the provider spells them."""
    from threadkeep.langgraph.history import call_ids

    return {call for message in _messages(messages) for call in call_ids(message) if call}


def find_safe_split_index(messages: Sequence[Any], target_index: int) -> int:
    """Return the last position, *target_index* or before it, where no call is parted from its result."""
    from threadkeep.langgraph.history import entries_of

    return safe_split(entries_of(_messages(messages)), target_index)


def find_safe_summarization_boundary(messages: Sequence[Any], keep_messages: int | None = None) -> int:
    """Return the position before which everything may be summarised, so that *keep_messages* and more stay whole.

    Args:
        messages: The thread's, oldest first.
        keep_messages: ``None``: MIN_MESSAGES_TO_KEEP.
    """
    keep = Settings.load().min_messages_to_keep if keep_messages is None else keep_messages
    return find_safe_split_index(messages, max(0, len(messages) - max(0, keep)))


def preflight_context_check(
    messages: Sequence[Any], *, model: Any = None, max_tokens: int | None = None, tools: Sequence[Any] = ()
) -> bool:
    """Return whether *messages* leave a fifth of what the model reads; else they are to be compacted first."""
    from threadkeep.langgraph.history import described, estimated, limit_of

    limit = limit_of(model, given=max_tokens, setting=Settings.load().max_context_tokens)
    return not over(estimated(_messages(messages), tools=described(tools)).total, limit=limit)


def trim_messages_if_needed(
    messages: Sequence[Any],
    *,
    max_tokens: int | None = None,
    keep_messages: int | None = None,
    model: Any = None,
    tools: Sequence[Any] = (),
) -> list[BaseMessage]:
    """Return *messages*, without older ones where they fill more than four fifths of what the model reads.

    System messages and the newest stay, a call stays with its result, and what stays begins with a user.
    With ENABLE_AUTO_COMPRESSION off nothing goes.

    Args:
        messages: The thread's, oldest first.
        max_tokens: ``None``: MAX_CONTEXT_TOKENS, or less where the model's profile says so.
        keep_messages: How many of the newest stay as far as they fit; ``None``: MIN_MESSAGES_TO_KEEP.
        model: Who is to read them.
        tools: What the model is given besides.

    Raises:
        ContextTooLargeError: What must stay is over the limit by itself.
    """
    from threadkeep.langgraph.history import described, entries_of, estimated, limit_of, shortened

    settings = Settings.load()
    whole = repair_orphaned_tool_calls(messages)
    limit = limit_of(model, given=max_tokens, setting=settings.max_context_tokens)
    counted = estimated(whole, tools=described(tools))
    if not settings.auto_compression or not over(counted.total, limit=limit):
        return whole
    keep = settings.min_messages_to_keep if keep_messages is None else keep_messages
    entries = entries_of(whole, counted.messages)
    plan = compacted(entries, limit=limit, keep=keep, overhead=counted.overhead, summary=False)
    return whole if plan is None else shortened(whole, plan, None)


def summarize_messages(messages: Sequence[Any], *, max_tokens: int = 256) -> str:
    """Return what *messages* were about in their own sentences, without a model.

    Source:
        SumBasic; see :func:`threadkeep.text.extractive.extractive_summary`.
    """
    from threadkeep.langgraph.history import to_spoken_messages

    return extractive_summary(to_spoken_messages(_messages(messages)), budget_tokens=max_tokens, count=estimate_tokens)


def repair_orphaned_tool_calls(messages: Sequence[Any]) -> list[BaseMessage]:
    """Return *messages* with a result after every call and a call before every result, in place.

    A call without a result gets one that says so, a result without a call goes.
    """
    from threadkeep.langgraph.history import entries_of, rebuilt

    given = _messages(messages)
    return rebuilt(given, repaired(entries_of(given)))


async def repair_thread(graph: Any, config: RunnableConfig) -> bool:
    """Repair the messages that a thread's state holds; return whether anything was changed.

    Where they cannot be repaired, they are replaced by one message that says that the thread began anew.
    Without a checkpointer or a thread id nothing is done.

    Args:
        graph: A compiled graph with ``messages`` in its state.
        config: Names the thread.
    """
    from langchain_core.messages import AIMessage, RemoveMessage
    from langgraph.graph.message import REMOVE_ALL_MESSAGES

    if not getattr(graph, "checkpointer", None) or not config.get("configurable", {}).get("thread_id"):
        return False
    from threadkeep.langgraph.history import entries_of, rebuilt

    held: list[Any] = (await graph.aget_state(config)).values.get("messages") or []
    try:
        given = _messages(held)
        steps = repaired(entries_of(given))
        if is_whole(steps, len(given)):
            return False
        mended: list[BaseMessage] = rebuilt(given, steps)
    except (InvalidInputError, ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("A thread could not be repaired (%s); it begins anew", type(error).__name__)
        mended = [AIMessage(RESET_MESSAGE)]
    await graph.aupdate_state(config, {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *mended]})
    return True


async def resume_job(tk: Threadkeep, graph: Any, job_id: str, answer: Any, *, owner: str | None = None) -> Run:
    """Answer what a job waits for; it goes on exactly where it stopped. Several answers are a dict by their ids."""
    standing = await tk.runs.get(graph, thread_id=job_id, owner=owner)
    if len(standing.asks) > 1 and isinstance(answer, dict):
        answers = cast("dict[str, Any]", answer)
        return await tk.runs.resume(graph, thread_id=job_id, owner=owner, answers=answers)
    return await tk.runs.resume(graph, answer, thread_id=job_id, owner=owner)


async def retry_job(tk: Threadkeep, graph: Any, job_id: str, *, owner: str | None = None) -> Run:
    """Let a failed or killed job go on from its last good checkpoint; no finished node runs again."""
    return await tk.runs.retry(graph, thread_id=job_id, owner=owner)


async def resume_with_context(
    tk: Threadkeep, graph: Any, job_id: str, context: dict[str, Any], *, owner: str | None = None
) -> Run:
    """Put new information into a paused job's state and let it go on."""
    return await tk.runs.resume_with_context(graph, context, thread_id=job_id, owner=owner)


def _messages(messages: Sequence[Any]) -> list[BaseMessage]:
    from threadkeep.models.langchain import as_messages

    return as_messages(messages)
