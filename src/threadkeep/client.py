"""The Python door: ``threadkeep.open()`` and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, cast

from threadkeep.capture.models import Receipt
from threadkeep.clock import Clock, SystemClock
from threadkeep.container import Container, Services
from threadkeep.errors import InvalidInputError
from threadkeep.identity import Owner
from threadkeep.ids import ThreadId, TurnId
from threadkeep.observability import (
    CAPTURE,
    STATUS,
    TENANT,
    THREAD,
    TURNS,
    USER,
    run_metadata,
    span,
)
from threadkeep.recall.models import Recall
from threadkeep.recall.service import RecallRequest
from threadkeep.registry import create_embedder, create_extractor, create_reranker, create_storage, resolve_settings
from threadkeep.service import OwnerScope, to_owner
from threadkeep.sync_bridge import blocking
from threadkeep.threads.thread_access import thread_id_from

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import MessageLikeRepresentation
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.store.base import BaseStore, IndexConfig, TTLConfig

    from threadkeep.capture.service import QueueService
    from threadkeep.collections.service import CollectionService
    from threadkeep.langgraph.agents.service import AgentService
    from threadkeep.langgraph.runs import RunService
    from threadkeep.langgraph.threads import ThreadService
    from threadkeep.langgraph.window import History
    from threadkeep.memories.service import MemoryService
    from threadkeep.models.base import Embedder, Message, Reranker
    from threadkeep.owners.service import OwnerService
    from threadkeep.proposals.service import ProposalService
    from threadkeep.settings import Settings
    from threadkeep.sync_bridge import SyncThreadkeep

ChatModel: TypeAlias = "str | BaseChatModel"
Messages: TypeAlias = "Sequence[MessageLikeRepresentation]"
"""A thread's messages, oldest first, in any form that LangChain reads."""
OwnerSource: TypeAlias = "str | Owner | Callable[[Any], str | Owner | None]"

SETTLE: Final = timedelta(seconds=30)
"""How long ``capture(wait=True)`` waits until what was said can be recalled."""


def open(  # noqa: A001 - the verb of the public surface
    url: str | None = None,
    *,
    owner: OwnerSource | None = None,
    model: ChatModel | None = None,
    embedder: Embedder | Embeddings | str | None = None,
    reranker: Reranker | None = None,
    settings: Settings | None = None,
    clock: Clock | None = None,
) -> Threadkeep:
    """Open a memory; no I/O happens before the first operation.

    Args:
        url: ``sqlite:///m.db``, ``postgresql://…``, ``redis://…``, ``mongodb://…`` or ``memory://``; ``None``: what the
            settings say, else SQLite in the user's data folder (logged).
        owner: Whose turns and calls these are where a call does not say: a user id, an
            :class:`Owner`, or a callable that gets LangGraph's runtime or config.
        model: The chat model of ``graph()``, and of extraction where that has none of its own:
            ``"provider:name"`` or a LangChain model; ``None``: THREADKEEP_MODEL.
        embedder: A :class:`threadkeep.models.base.Embedder` or a LangChain ``Embeddings``; ``"none"``:
            search by words only;
            ``None``: what the settings say, else the local model where it is installed.
        reranker: Orders what recall has found once more; ``None``: what the settings say, and that is nobody.
        settings: Instead of the environment's.
        clock: Instead of the machine's.

    Raises:
        SettingsError: One sentence that names the variable to correct.
    """
    settings = resolve_settings(url, settings)
    clock = clock or SystemClock()
    app = Container(
        settings,
        create_storage(settings, clock),
        _embedder(embedder, settings),
        clock,
        extractor=create_extractor(settings, model),
        reranker=reranker or create_reranker(settings, model),
    )
    return Threadkeep(app, owner=owner, model=model)


@dataclass(frozen=True, slots=True)
class Health:
    """Whether everything is there.

    Attributes:
        storage: Kind and place, e.g. ``sqlite /home/ana/.local/share/threadkeep/memory.sqlite3``.
        embedder: Its name; ``None``: search is lexical only.
        remote: Whether texts leave this machine to be embedded.
        degraded: What is missing: ``("embedder",)``.
    """

    storage: str
    embedder: str | None
    remote: bool
    degraded: tuple[str, ...]


class Threadkeep:
    """A memory; made by :func:`open`.

    Every method may be called from any event loop; ``sync`` has the same names, blocking. Closing
    is optional: it drains what is being learnt, and so does the end of the program.
    """

    def __init__(
        self, app: Container, *, owner: OwnerSource | None = None, model: ChatModel | None = None, locked: bool = False
    ) -> None:
        self._app = app
        self._owner_source = owner if callable(owner) else None
        self._scope = OwnerScope(None if owner is None or callable(owner) else to_owner(owner), locked)
        self._model = model

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def aclose(self) -> None:
        """Finish learning from recorded turns (8 seconds at most) and let go of everything."""
        await self._app.aclose()

    def close(self) -> None:
        """Do what :meth:`aclose` does, blocking."""
        self._app.close()

    async def ready(self) -> Health:
        """Connect, check the storage and the checkpointer, and load the embedder; for start-up and readiness probes.

        Raises:
            StorageError: The storage, or the checkpointer if it is in use, cannot be used; the message says why.
        """
        await self._app.call(_nothing)
        await self._app.ready_checkpointer()
        degraded = await self._app.home.run(self._app.warm())
        embedder = self._app.embedder
        return Health(
            f"{self._app.storage.name} {self._app.storage.location}",
            embedder.name if embedder and not degraded else None,
            bool(embedder and embedder.remote),
            degraded,
        )

    @cached_property
    def store(self) -> BaseStore:
        """LangGraph's store over this memory; locked to one owner where this object is."""
        return self.store_with()

    def store_with(
        self,
        *,
        ranking: Literal["hybrid", "dense"] = "hybrid",
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> BaseStore:
        """Return another view of :attr:`store`, for programs that rely on a stock store's ways.

        Args:
            ranking: ``dense``: by meaning alone, as a stock ``index=``; ``hybrid``: by words, too. Scores are cosines.
            index: LangGraph's index configuration; its ``fields`` say what is searchable by default.
            ttl: LangGraph's expiry configuration, in minutes; ``None``: LANGGRAPH_STORE_TTL_MINUTES.
        """
        from threadkeep.langgraph.store import ThreadkeepStore

        if ranking not in ("hybrid", "dense"):
            msg = f"ranking is hybrid or dense, not {ranking!r}."
            raise InvalidInputError(msg)
        minutes = self._app.settings.store_ttl_minutes
        if ttl is None and minutes:
            ttl = {"default_ttl": minutes, "refresh_on_read": False}
        return ThreadkeepStore(
            self._app.home, self._app.connect, index=index, ttl_config=ttl, ranking=ranking, owner=self.locked_to
        )

    @cached_property
    def checkpointer(self) -> BaseCheckpointSaver[Any] | None:
        """LangGraph's checkpointer for threads; ``None`` under a LangGraph server, which brings its own."""
        saver, source = self._app.checkpointer, self.owner_source
        if saver is None or source is None:
            return saver
        if self.locked_to is not None:
            return saver.scoped(self.locked_to)
        from threadkeep.langgraph.identity import owner_from

        return saver.identified(lambda config: owner_from(source, config=config))

    @cached_property
    def memories(self) -> MemoryService:
        """What is remembered: remember, list, search, correct, forget."""
        return self._app.services.memories.scoped(self._scope)

    @cached_property
    def proposals(self) -> ProposalService:
        """What waits for a decision: propose, list, approve, reject, edit; and what must not be learnt again."""
        return self._app.services.proposals.scoped(self._scope)

    @cached_property
    def queue(self) -> QueueService:
        """Recorded turns that are not learnt from yet: list, retry."""
        return self._app.services.queue.scoped(self._scope)

    @cached_property
    def collections(self) -> CollectionService:
        """Documents that a tenant shares: ingest, search, similar, list, delete, erase."""
        return self._app.services.collections.scoped(self._scope)

    @cached_property
    def owners(self) -> OwnerService:
        """Everything about one owner: show, export, erase."""
        return self._app.services.owners.scoped(self._scope)

    @cached_property
    def threads(self) -> ThreadService:
        """Conversations and jobs: list, get, stats, prune, copy, fork, delete."""
        from threadkeep.langgraph.threads import ThreadService

        return ThreadService(self._app, self._scope)

    @cached_property
    def runs(self) -> RunService:
        """Jobs: start, resume, retry, resume_with_context, cancel, history, fork."""
        from threadkeep.langgraph.runs import RunService

        return RunService(self._app, self._scope)

    @cached_property
    def agents(self) -> AgentService:
        """Deep agents: a supervisor, sub-agents that a TOML file declares, and how they stand."""
        from threadkeep.langgraph.agents.service import AgentService

        return AgentService(self, model=self._model)

    @cached_property
    def sync(self) -> SyncThreadkeep:
        """The same names, blocking: ``tk.sync.memories.list(owner="ana")``."""
        return blocking(self, self._app)

    def middleware(
        self,
        *,
        owner: OwnerSource | None = None,
        recall: bool = True,
        capture: bool = True,
        budget_tokens: int | None = None,
        timeout: timedelta | None = None,
        placement: str = "user",
    ) -> AgentMiddleware[Any, Any, Any]:
        """Return the middleware for ``create_agent`` and ``create_deep_agent``.

        Args:
            owner: Whose turns these are; ``None``: the runtime says.
            recall: Whether memories are given to the model.
            capture: Whether turns are learnt from; switch it off for sub-agents.
            budget_tokens: Upper bound of the recalled block; ``None``: the setting.
            timeout: How long a turn waits for recall, and for the turn record; ``None``: the setting.
            placement: ``user``: in front of the newest human message; ``system``: in the system
                message, in the documents' form.
        """
        from threadkeep.langgraph.middleware import LearningMiddleware, ThreadkeepMiddleware

        if placement not in ("user", "system"):
            msg = f"placement is user or system, not {placement[:40]!r}."
            raise InvalidInputError(msg)
        if budget_tokens is not None and budget_tokens < 0:
            msg = f"budget_tokens must be 0 or more, not {budget_tokens}."
            raise InvalidInputError(msg)
        learns = capture and self._app.capturing
        return (LearningMiddleware if learns else ThreadkeepMiddleware)(
            self,
            owner=owner,
            recall=recall,
            budget_tokens=self._app.settings.recall_budget_tokens if budget_tokens is None else budget_tokens,
            timeout=self._app.settings.recall_timeout if timeout is None else timeout,
            placement=placement,
        )

    def window(
        self,
        *,
        max_tokens: int | None = None,
        keep_messages: int | None = None,
        owner: OwnerSource | None = None,
        compress: bool | None = None,
    ) -> AgentMiddleware[Any, Any, Any]:
        """Return the middleware that keeps a thread's messages within what the model reads.

        Put it after :meth:`middleware`. It repairs orphaned tool calls, and where the messages fill four
        fifths of the limit, it puts a summary in the place of older ones.

        Args:
            max_tokens: The limit; ``None``: MAX_CONTEXT_TOKENS, or less where the model's profile says so.
            keep_messages: How many of the newest stay as far as they fit; ``None``: MIN_MESSAGES_TO_KEEP.
            owner: Whose threads these are; ``None``: the runtime says. Without one no summary is kept.
            compress: Whether older messages may give way; ``None``: ENABLE_AUTO_COMPRESSION.
        """
        from threadkeep.langgraph.window import ThreadkeepWindow

        settings = self._app.settings
        if max_tokens is not None and max_tokens < 1:
            msg = "max_tokens must be 1 or more."
            raise InvalidInputError(msg)
        return ThreadkeepWindow(
            self,
            max_tokens=max_tokens,
            keep_messages=settings.min_messages_to_keep if keep_messages is None else keep_messages,
            owner=owner,
            compress=settings.auto_compression if compress is None else compress,
        )

    async def compact(
        self,
        messages: Messages,
        *,
        owner: str | Owner | None = None,
        thread_id: str | None = None,
        model: ChatModel | None = None,
        system: str | None = None,
        tools: Sequence[Any] = (),
        max_tokens: int | None = None,
        keep_messages: int | None = None,
        refused: bool = False,
    ) -> History:
        """Do what :meth:`window` does, for graphs without middleware: repair, and where it is too long, summarise.

        What goes is recorded for capture, and the summary is kept as the thread's one summary for other threads.

        Args:
            messages: The thread's, oldest first.
            owner: Whose; ``None``: the one given to ``open()``. Without one nothing is recorded or kept.
            thread_id: Where; without it no summary is kept.
            model: Who reads them, and writes the summary: ``"provider:name"`` or a LangChain model; ``None``: the one
                given to ``open()``, else THREADKEEP_MODEL, else the sentences that say most.
            system: The system prompt that is sent besides.
            tools: What the model is given besides.
            max_tokens: The limit; ``None``: MAX_CONTEXT_TOKENS, or less where the model's profile says so.
            keep_messages: How many of the newest stay as far as they fit; ``None``: MIN_MESSAGES_TO_KEEP.
            refused: Whether the model has refused them for their length: then they get smaller in any case.

        Returns:
            The messages for the model, and in ``update`` what a node returns to have the thread hold them.

        Raises:
            ContextTooLargeError: The model refused them, and nothing is left that could go.
        """
        from threadkeep.langgraph.agent import chosen_model
        from threadkeep.langgraph.window import Compaction, talk_of

        settings = self._app.settings
        talk = talk_of(
            messages,
            chosen_model(self, model or self._model),
            max_tokens=max_tokens,
            setting=settings.max_context_tokens,
            keep=settings.min_messages_to_keep if keep_messages is None else keep_messages,
            system=system,
            tools=tools,
            owner=None if owner is None and self._scope.default is None else self._scope.resolve(owner),
            thread_id=None if thread_id in (None, "") else thread_id_from(thread_id),
            compress=settings.auto_compression and not refused,
        )
        compaction = Compaction(self)
        whole = await compaction.fitting(talk)
        return await compaction.smaller(talk, whole) if refused else whole

    def tools(self, *names: str, owner: OwnerSource | None = None) -> list[BaseTool]:
        """Return tools with which the model itself works on the memory of whoever it talks to.

        Args:
            names: Of ``remember``, ``search_memory``, ``list_memories``, ``correct_memory`` and
                ``forget_memory``; none: all of these. ``propose_memory_update``, which pauses the run until
                somebody has decided, has to be asked for.
            owner: Whose memory; ``None``: the runtime says.
        """
        from threadkeep.langgraph.tools import memory_tools

        return memory_tools(self, names, owner=owner)

    def graph(self, *, tools: Sequence[BaseTool] = (), **options: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Compile the agent that the command line talks to: model, memory tools, middleware, checkpointer."""
        from threadkeep.langgraph.agent import memory_agent

        return memory_agent(self, model=self._model, tools=tools, **options)

    async def recall(
        self,
        question: str | Messages,
        *,
        owner: str | Owner | None = None,
        thread_id: str | None = None,
        budget_tokens: int | None = None,
        max_facts: int | None = None,
        max_episodes: int | None = None,
        timeout: timedelta | None = None,
    ) -> Recall:
        """Find the memories that matter for *question* and render them within the budget.

        Args:
            question: The latest user message, or the messages that end with it, as the model is given them. These also
                tell which branch of the thread goes on: what was learnt on another one is left out, and so is the
                episode of a turn that stands among them.
            owner: Whose memories; nothing else is read.
            thread_id: The thread that asks.
            budget_tokens: Upper bound of the rendered text; ``None``: the setting.
            max_facts: At most so many that are no episodes.
            max_episodes: At most so many episodes.
            timeout: How long to wait; ``None``: the setting. Loading the embedder is not counted.

        Returns:
            The memories, best first, and the text. What fails or takes too long is in
            ``degraded``; it never raises for a storage or a model.
        """
        settings, named = self._app.settings, ThreadId(thread_id) if thread_id is not None else None
        request = RecallRequest(
            question if isinstance(question, str) else _newest_question(question),
            self._scope.resolve(owner),
            named,
            _messages_shown(question) if named is not None else (),
            budget_tokens=settings.recall_budget_tokens if budget_tokens is None else budget_tokens,
            max_facts=max_facts,
            max_episodes=max_episodes,
            timeout=settings.recall_timeout if timeout is None else timeout,
        )
        recall = self._app.try_recall(request)
        return await self._app.home.run(self._app.recall(request)) if recall is None else recall

    async def capture(
        self,
        messages: Messages,
        *,
        owner: str | Owner | None = None,
        thread_id: str | None,
        recalled: Sequence[str] = (),
        wait: bool = False,
    ) -> Receipt:
        """Record the turns of *messages* that are not recorded yet, and learn from them in the background.

        Args:
            messages: The thread's messages so far, the reply included.
            owner: Whose words they are.
            thread_id: The thread.
            recalled: Texts that recall had put in; a reply that repeats them teaches nothing.
            wait: Return only when what was said can be recalled.

        Raises:
            StorageError: Nothing was recorded; the next turn records it.
        """
        from threadkeep.models.langchain import plain_messages

        whose, plain = self._scope.resolve(owner), plain_messages(messages)
        if not self._app.capturing:
            return Receipt("nothing")
        thread = None if thread_id in (None, "") else thread_id_from(thread_id)

        async def record(services: Services) -> Receipt:
            if services.opt_outs.holds(whose, thread):
                return Receipt("nothing")
            receipt = await services.captures.record(plain, owner=whose, thread_id=thread, recalled=recalled)
            if wait:
                return await services.captures.settle(receipt, owner=whose, timeout=SETTLE)
            return receipt

        with span(CAPTURE, {USER: whose.user_id, TENANT: whose.tenant or None, THREAD: thread}) as recorded:
            receipt = await self._app.call(record)
            recorded.set(STATUS, receipt.status)
            recorded.set(TURNS, len(receipt.turn_ids))
        return receipt

    async def drain(self, *, timeout: timedelta = SETTLE) -> None:
        """Learn from every recorded turn that waits, *timeout* at most."""

        async def drained(services: Services) -> None:
            await self._app.patience.settle(timeout)  # turns that are still being recorded
            await services.captures.drain(timeout, others=True)

        await self._app.call(drained)

    async def settle(
        self,
        turn_ids: Sequence[str],
        *,
        owner: str | Owner | None = None,
        timeout: timedelta = SETTLE,
    ) -> Receipt:
        """Wait until recorded turns are learnt from, *timeout* at most; the receipt names the memories."""
        whose = self._scope.resolve(owner)
        recorded = Receipt("queued", tuple(TurnId(turn_id) for turn_id in turn_ids))
        return await self._app.call(lambda services: services.captures.settle(recorded, owner=whose, timeout=timeout))

    def for_owner(self, owner: str | Owner) -> Threadkeep:
        """Return the same memory locked to one owner; anything of another raises ``OwnerMismatchError``."""
        return Threadkeep(self._app, owner=self._scope.resolve(owner), model=self._model, locked=True)

    def config(
        self, *, user_id: str, thread_id: str, trace_id: str | None = None, **configurable: Any
    ) -> RunnableConfig:
        """Return the config of a run: user, thread, and the label that LangMem's templates use.

        User, thread and trace are in its metadata, too, where LangSmith and other tracers read them.

        Args:
            user_id: Whose run it is.
            thread_id: Of which thread.
            trace_id: The application's; ``None``: that of the OpenTelemetry span that is open, if one is.
            configurable: Further keys.
        """
        owner = self._scope.resolve(user_id)
        return {
            "metadata": run_metadata(user_id=user_id, thread_id=thread_id, trace_id=trace_id),
            "configurable": {
                "thread_id": thread_id,
                "user_id": user_id,
                "langgraph_user_id": owner.label,
                **configurable,
            },
        }

    def label(self, owner: str | Owner) -> str:
        """Return the owner as a legal LangGraph namespace label, different for every owner."""
        return self._scope.resolve(owner).label

    @property
    def app(self) -> Container:
        """What the other doors are built on."""
        return self._app

    @property
    def locked_to(self) -> Owner | None:
        """The owner that this object is locked to, if it is."""
        return self._scope.default if self._scope.locked else None

    def resolve_owner(self, owner: str | Owner | None = None) -> Owner:
        """Return the owner that a call means: *owner*, else the default.

        Raises:
            OwnerRequiredError: There is neither.
            OwnerMismatchError: This client is locked to another owner.
        """
        return self._scope.resolve(owner)

    @property
    def owner_source(self) -> OwnerSource | None:
        """Who says whose turn it is where the middleware was not told."""
        return self._owner_source or self._scope.default


def _embedder(given: Any, settings: Settings) -> Embedder | None:
    if given is None:
        return create_embedder(settings)
    if given == "none":
        return None
    if hasattr(given, "embed_documents"):
        from threadkeep.models.langchain import LangChainEmbedder

        return LangChainEmbedder(given)
    if hasattr(given, "embed"):
        return given
    msg = 'embedder is an Embedder, a LangChain Embeddings, or "none".'
    raise InvalidInputError(msg)


async def _nothing(_connect: Services) -> None:
    """Connect, and do nothing more."""


def _messages_shown(question: str | Messages) -> list[Message]:
    if isinstance(question, str):
        return []
    from threadkeep.models.langchain import plain_messages

    return plain_messages(question)


def _newest_question(messages: Messages) -> str:
    if not isinstance(cast("object", messages), Sequence):
        msg = f"A question is a text or a list of messages, not {type(messages).__name__}."
        raise InvalidInputError(msg)
    from threadkeep.models.langchain import newest_human

    return newest_human(messages)[2]
