"""``threadkeep.open()`` and the client that it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from threadkeep.arguments import check_timeout, checked_count
from threadkeep.clock import Clock, SystemClock
from threadkeep.container import Container
from threadkeep.errors import InvalidInputError
from threadkeep.identity import Owner, OwnerScope, checked_agent, to_owner
from threadkeep.observability import run_metadata
from threadkeep.recall.profile.schema import check_schema
from threadkeep.registry import (
    create_embedder,
    create_extractor,
    create_kinds,
    create_pair_models,
    create_reranker,
    create_storage,
    create_summarizer,
    resolve_settings,
)
from threadkeep.sync_bridge import blocking
from threadkeep.turns import TurnOperations

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.store.base import BaseStore, IndexConfig, TTLConfig
    from pydantic import BaseModel

    from threadkeep.capture.queue import QueueService
    from threadkeep.collections.service import CollectionService
    from threadkeep.credentials.service import CredentialService
    from threadkeep.langgraph.agents import AgentService
    from threadkeep.langgraph.identity import ParticipantsSource, ScopesSource
    from threadkeep.langgraph.per_run import PerRunOwnerView
    from threadkeep.langgraph.runs import RunService
    from threadkeep.langgraph.threads import ThreadService
    from threadkeep.langgraph.window import History
    from threadkeep.memories.kinds import MemoryKind
    from threadkeep.memories.service import MemoryService
    from threadkeep.models.base import Embedder, Reranker
    from threadkeep.owners.service import OwnerService
    from threadkeep.proposals.service import ProposalService
    from threadkeep.recall.profile.schema import ProfileSlot
    from threadkeep.recall.profile.service import ProfileService
    from threadkeep.scopes.service import ScopeService
    from threadkeep.services import Health
    from threadkeep.settings import Settings
    from threadkeep.sync_bridge import SyncThreadkeep
    from threadkeep.turns import Messages

ChatModel: TypeAlias = "str | BaseChatModel"
OwnerSource: TypeAlias = "str | Owner | Callable[[Any], str | Owner | None]"

Keep: TypeAlias = tuple[Literal["messages"], int]
"""How much of a thread stays when it is compacted, as LangChain's ``SummarizationMiddleware`` spells it."""


def open(  # noqa: A001, PLR0913 - the verb of the public surface
    url: str | None = None,
    *,
    owner: OwnerSource | None = None,
    model: ChatModel | None = None,
    embedder: Embedder | Embeddings | str | None = None,
    reranker: Reranker | None = None,
    allowed_types: Sequence[type | tuple[str, str]] = (),
    threads_from: BaseCheckpointSaver[Any] | None = None,
    owner_key: str = "user_id",
    profile: Sequence[ProfileSlot] | None = None,
    extraction_schema: type[BaseModel] | Mapping[str, Any] | None = None,
    kinds: Sequence[MemoryKind] | None = None,
    settings: Settings | None = None,
    clock: Clock | None = None,
) -> Threadkeep:
    """Open a memory; no I/O happens before the first operation.

    Args:
        url: ``sqlite:///m.db``, ``postgresql://…``, ``redis://…``, ``mongodb://…`` or ``memory://``; ``None``: what the
            settings say, else SQLite in the user's data folder (logged).
        owner: The owner of turns and calls that name none: a user id, an :class:`Owner`, or a callable that gets
            LangGraph's runtime or config and returns one.
        model: The chat model of ``graph()``, and of extraction unless it has its own: ``"provider:name"`` or a
            LangChain model; ``None``: THREADKEEP_MODEL.
        embedder: A :class:`threadkeep.models.base.Embedder` or a LangChain ``Embeddings``; ``"none"``: search by words
            only; ``None``: the embedder of the settings, else the local model if it is installed.
        reranker: Orders recalled memories once more; ``None``: the reranker of the settings, by default none.
        allowed_types: Classes of objects that checkpoints may keep, each as itself or as ``(module, name)``, besides
            LangChain's and LangGraph's own and those that the types of a graph's state name. THREADKEEP_ALLOWED_TYPES
            adds more. An object of any other class is refused when it is written.
        threads_from: The checkpointer that the application has used so far: a thread that is not here yet is copied
            from it at its first use. A thread belongs to the owner that its metadata names; others are refused.
        owner_key: The key of that metadata with the user id; your application must have set it, not its clients.
        profile: The slots of the owners' profiles; ``None``: the default ones. Profiles are derived from memories, so
            another schema loses nothing.
        extraction_schema: Fields that the structured extractor fills for each fact, kept as its metadata: a pydantic
            model or a JSON schema; ``None``: none.
        kinds: Kinds of memory beside ``semantic``, ``episodic`` and ``procedural``; ``None``: those of the file in
            THREADKEEP_KINDS. Memories of a kind that is no longer given stay as they are.
        settings: Replaces the settings of the environment.
        clock: Replaces the system clock.

    Raises:
        SettingsError: A setting is invalid; the message names it.
        InvalidInputError: *profile*, *extraction_schema* or one of *kinds* is invalid; the message names the slot, the
            field or the kind.
    """
    settings = resolve_settings(url, settings)
    known_kinds = create_kinds(settings, kinds)
    clock = clock or SystemClock()
    chosen = create_embedder(settings, embedder)
    app = Container(
        settings,
        create_storage(settings, clock),
        chosen,
        clock,
        extractor=create_extractor(settings, model, extraction_schema, known_kinds),
        reranker=reranker or create_reranker(settings, model),
        pair_models=create_pair_models(chosen),
        allowed_types=(*allowed_types, *settings.allowed_type_names),
        threads_from=threads_from,
        owner_key=owner_key,
        profile=None if profile is None else check_schema(profile),
        kinds=known_kinds,
        summarizer=create_summarizer(settings, model),
    )
    return Threadkeep(app, owner=owner, model=model)


class Threadkeep(TurnOperations):
    """A client of one memory, created by :func:`open`.

    Every method may be called from any event loop; ``sync`` has the same methods, blocking. Closing is optional: it
    finishes learning from recorded turns, and so does the end of the program.
    """

    def __init__(
        self, app: Container, *, owner: OwnerSource | None = None, model: ChatModel | None = None, locked: bool = False
    ) -> None:
        self._app = app
        self._owner_source = owner if callable(owner) else None
        self._scope = OwnerScope(None if owner is None or callable(owner) else to_owner(owner), locked)
        self._model = model

    def __repr__(self) -> str:
        """Return the storage, without a password, and the owner on one line."""
        owner = self._scope.default
        named = f", owner {owner.user_id!r}{' (locked)' if self._scope.locked else ''}" if owner is not None else ""
        return f"<Threadkeep {self._app.storage.name} {self._app.storage.location}{named}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def aclose(self) -> None:
        """Finish learning from recorded turns, 5 seconds at most, and close all connections.

        If a storage does not answer for 2 seconds, learning ends with a warning; the next start learns from the rest.
        """
        await self._app.aclose()

    def close(self) -> None:
        """Do what :meth:`aclose` does, blocking."""
        self._app.close()

    async def ready(self) -> Health:
        """Connect, check the storage and the checkpointer, and load the embedder; for start-up and readiness probes.

        Raises:
            StorageError: The storage, or the checkpointer if it is in use, cannot be used; the message says why.
        """
        return await self._app.ready()

    @cached_property
    def store(self) -> BaseStore:
        """LangGraph's store over this memory; locked to one owner if this client is."""
        return self.store_with()

    def store_with(
        self,
        *,
        ranking: Literal["hybrid", "dense"] = "hybrid",
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> BaseStore:
        """Return another view of :attr:`store`, with the options of LangGraph's own stores.

        Args:
            ranking: ``dense``: by meaning only, as LangGraph's stores; ``hybrid``: by words, too. Scores are cosines.
            index: LangGraph's index configuration; its ``fields`` are searchable by default. An ``embed``, ``dims`` or
                ``distance_type`` that is not this memory's is refused.
            ttl: LangGraph's expiry configuration, in minutes; ``None``: LANGGRAPH_STORE_TTL_MINUTES.
        """
        from threadkeep.langgraph.operations import require_embedder
        from threadkeep.langgraph.store import ThreadkeepStore

        minutes = self._app.settings.store_ttl_minutes
        if ttl is None and minutes:
            ttl = {"default_ttl": minutes, "refresh_on_read": False}
        require_embedder(index, self._app.embedder)
        return ThreadkeepStore(
            self._app.event_loop, self._app.connect, index=index, ttl_config=ttl, ranking=ranking, owner=self.locked_to
        )

    @cached_property
    def checkpointer(self) -> BaseCheckpointSaver[Any] | None:
        """LangGraph's checkpointer for threads; ``None`` under a LangGraph server, which brings its own."""
        saver, source = self._app.threads.checkpointer, self.owner_source
        if saver is None or source is None:
            return saver
        if self.locked_to is not None:
            return saver.scoped(self.locked_to)
        from threadkeep.langgraph.identity import owner_from

        return saver.identified(lambda config: owner_from(source, config=config))

    @cached_property
    def memories(self) -> MemoryService:
        """Memories of an owner: remember, list, search, correct, forget."""
        return self._app.services.memories.scoped(self._scope)

    @property
    def kinds(self) -> tuple[MemoryKind, ...]:
        """The kinds of memory that this client knows: the built-in ones first, then the application's."""
        return self._app.services.kinds.all

    @cached_property
    def profile(self) -> ProfileService:
        """The profile of an owner: get, set, clear."""
        return self._app.services.profile.scoped(self._scope)

    @cached_property
    def proposals(self) -> ProposalService:
        """Changes that wait for a decision: propose, list, approve, reject, edit; and tombstones."""
        return self._app.services.proposals.scoped(self._scope)

    @cached_property
    def queue(self) -> QueueService:
        """Recorded turns that wait to be learnt from: list, retry."""
        return self._app.services.queue.scoped(self._scope)

    @cached_property
    def collections(self) -> CollectionService:
        """Documents that the owners of a tenant share: ingest, search, similar, list, delete, erase."""
        return self._app.services.collections.scoped(self._scope)

    @cached_property
    def owners(self) -> OwnerService:
        """Everything about one owner: show, export, erase."""
        return self._app.services.owners.scoped(self._scope)

    @cached_property
    def scopes(self) -> ScopeService:
        """Memory that users share, of teams and agents: create, grant, propose, promote, review."""
        return self._app.services.scopes.scoped(self._scope)

    @cached_property
    def credentials(self) -> CredentialService:
        """The access of an owner to MCP servers: begin, finish, list, revoke, auth."""
        return self._app.services.credentials.scoped(self._scope)

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
        """Deep agents: a supervisor, the sub-agents that a TOML file declares, and their status."""
        from threadkeep.langgraph.agents import AgentService

        return AgentService(self, model=self._model)

    @cached_property
    def sync(self) -> SyncThreadkeep:
        """The same methods, blocking: ``tk.sync.memories.list(owner="ana")``."""
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
        events: str = "ids",
        read_scopes: ScopesSource = (),
        experience: Owner | None = None,
        participants: ParticipantsSource | None = None,
    ) -> AgentMiddleware[Any, Any, Any]:
        """Return the middleware for ``create_agent`` and ``create_deep_agent``.

        Args:
            owner: The owner of the turns; ``None``: taken from the runtime.
            recall: Whether the model gets memories.
            capture: Whether turns are learnt from; pass False for sub-agents.
            budget_tokens: Upper bound of the recalled block; ``None``: the setting.
            timeout: How long a turn waits for recall, and for its turn record; ``None``: the setting.
            placement: ``user``: in front of the newest human message; ``system``: as a list in the system message.
            events: ``ids``: the ``recalled`` event names memories by their ids; ``full``: with texts and kinds.
            read_scopes: Shared scopes that are read beside the owner's memory, or a function of the runtime that
                returns them.
            experience: The agent to which procedures are proposed from corrections and from calls that failed;
                ``None``: none is.
            participants: The owner of each name in a thread of several people: each is learnt about from the turns that
                they began. All of them read the replies, so nothing is recalled, and a mapping needs ``recall=False``.
                A function of the runtime returns a mapping, or ``None`` for a thread of its owner alone, in which
                *recall* and *experience* count.

        Raises:
            InvalidInputError: An argument is invalid, or two do not go together; the message names them.
            OwnerMismatchError: This client is locked to another owner than one of *participants*.
        """
        from threadkeep.langgraph.identity import participants_from
        from threadkeep.langgraph.learning import LearningMiddleware, ParticipantsMiddleware
        from threadkeep.langgraph.middleware import ThreadkeepMiddleware

        for name, value, known in (("placement", placement, ("user", "system")), ("events", events, ("ids", "full"))):
            if value not in known:
                msg = f"{name} must be {' or '.join(known)}, got {str(value)[:40]!r}."
                raise InvalidInputError(msg)
        if budget_tokens is not None:
            budget_tokens = checked_count(budget_tokens, "budget_tokens")
        if timeout is not None:
            check_timeout(timeout)
        kind: Callable[..., AgentMiddleware[Any, Any, Any]] = ThreadkeepMiddleware
        if capture and self._app.capturing:
            kind = LearningMiddleware if participants is None else ParticipantsMiddleware
        if participants is not None and not callable(participants):
            if recall or experience is not None:
                msg = "participants needs recall=False and no experience=: everyone in the thread reads the replies."
                raise InvalidInputError(msg)
            for one in (participants_from(participants, None) or {}).values():
                self._scope.resolve(one)
        return kind(
            self,
            owner=owner,
            recall=recall,
            budget_tokens=self._app.settings.recall_budget_tokens if budget_tokens is None else budget_tokens,
            timeout=timeout,
            placement=placement,
            events=events,
            read_scopes=read_scopes,
            experience=None if experience is None else checked_agent(experience),
            participants=participants,
        )

    def window(
        self,
        *,
        max_tokens: int | None = None,
        keep: Keep | None = None,
        owner: OwnerSource | None = None,
        compress: bool | None = None,
    ) -> AgentMiddleware[Any, Any, Any]:
        """Return the middleware that keeps a thread's messages within the model's context window.

        Put it after :meth:`middleware`. It repairs orphaned tool calls. Once the messages fill four fifths of the
        limit, it replaces older ones by a summary.

        Args:
            max_tokens: The limit; ``None``: MAX_CONTEXT_TOKENS, or the limit of the model's profile if that is less.
            keep: ``("messages", n)``: the newest *n* stay if they fit; ``None``: MIN_MESSAGES_TO_KEEP of them.
            owner: The owner of the threads; ``None``: taken from the runtime. Without an owner no summary is kept.
            compress: Whether a summary may replace older messages; ``None``: ENABLE_AUTO_COMPRESSION.
        """
        from threadkeep.langgraph.window import ThreadkeepWindow
        from threadkeep.langgraph.window_rules import kept_messages

        settings = self._app.settings
        if max_tokens is not None:
            max_tokens = checked_count(max_tokens, "max_tokens", least=1)
        return ThreadkeepWindow(
            self,
            max_tokens=max_tokens,
            keep=settings.min_messages_to_keep if keep is None else kept_messages(keep),
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
        keep: Keep | None = None,
        refused: bool = False,
        memory: bool = True,
    ) -> History:
        """Do what :meth:`window` does, for graphs without middleware: repair and, if they are too long, summarize.

        Removed messages are recorded for capture. The summary becomes the thread's one summary for other threads.

        Args:
            messages: The thread's messages, oldest first.
            owner: The owner; ``None``: the one of ``open()``. Without an owner nothing is recorded or kept.
            thread_id: The thread; without it no summary is kept.
            model: The model that reads the messages and writes the summary: ``"provider:name"`` or a LangChain model;
                ``None``: the one of ``open()``, else THREADKEEP_MODEL, else the most important sentences are picked.
            system: The system prompt that is sent with them.
            tools: The tools that are sent with them.
            max_tokens: The limit; ``None``: MAX_CONTEXT_TOKENS, or the limit of the model's profile if that is less.
            keep: ``("messages", n)``: the newest *n* stay if they fit; ``None``: MIN_MESSAGES_TO_KEEP of them.
            refused: Whether the model has refused the messages for their length: then they shrink in any case.
            memory: Whether the newest turn has memory; in a run with ``memory=False`` it has none. Else nothing is
                recorded or kept now, and ``update`` marks the turn, so that no later summary for other threads has it.

        Returns:
            The messages for the model; ``update`` is what a node returns to store them in the thread.

        Raises:
            ContextTooLargeError: The model refused the messages, and none is left to remove.
        """
        from threadkeep.langgraph.agents import resolve_model
        from threadkeep.langgraph.window import Compaction
        from threadkeep.langgraph.window_rules import kept_messages

        return await Compaction(self).compacted(
            messages,
            resolve_model(self, model or self._model),
            owner=None if owner is None and self._scope.default is None else self._scope.resolve(owner),
            thread_id=thread_id,
            system=system,
            tools=tools,
            max_tokens=max_tokens,
            keep=None if keep is None else kept_messages(keep),
            refused=refused,
            memory=memory,
        )

    def tools(self, *names: str, owner: OwnerSource | None = None, collections: Sequence[str] = ()) -> list[BaseTool]:
        """Return tools with which the model works on the memory of the user, and searches documents.

        Args:
            names: Of ``remember``, ``search_memory``, ``list_memories``, ``correct_memory`` and ``forget_memory``; by
                default all of these. ``propose_memory_update``, which pauses the run until a person has decided, must
                be named, and so must ``search_collection``, which returns quoted passages with citations.
            owner: The owner of the memory; ``None``: taken from the runtime.
            collections: The collections that ``search_collection`` may search; empty: every one of the owner's tenant.
        """
        from threadkeep.langgraph.tools import memory_tools

        return memory_tools(self, names, owner=owner, collections=collections)

    def graph(
        self, *, model: ChatModel | None = None, tools: Sequence[BaseTool] = (), **options: Any
    ) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Compile the agent of ``threadkeep chat``: model, memory tools, middleware, window, checkpointer.

        Args:
            model: The chat model; ``None``: the one of :func:`open`, else THREADKEEP_MODEL, else the offline stand-in.
            tools: Further tools.
            options: Passed on to ``create_agent``.
        """
        from threadkeep.langgraph.agents import memory_agent

        return memory_agent(self, model=self._model if model is None else model, tools=tools, **options)

    @property
    def default_model(self) -> ChatModel | None:
        """The chat model that :func:`open` was given; ``None``: that of the settings, if any."""
        return self._model

    @property
    def has_model(self) -> bool:
        """Whether a chat model is configured; otherwise :meth:`graph` answers with an offline stand-in."""
        return self._model is not None or self._app.settings.model is not None

    def for_owner(self, owner: str | Owner) -> Threadkeep:
        """Return a client of the same memory that is locked to *owner*; other owners raise ``OwnerMismatchError``."""
        return Threadkeep(self._app, owner=self._scope.resolve(owner), model=self._model, locked=True)

    def per_run_owner(self) -> PerRunOwnerView:
        """Return middleware, tools, checkpointer, store and window for one graph that serves all owners.

        Each takes the owner from the run's config, which the ``config`` of the view makes, and is locked to that owner.

        Raises:
            OwnerMismatchError: This client is locked to one owner.
        """
        from threadkeep.langgraph.per_run import PerRunOwnerView, run_owner

        self._scope.require_unlocked()
        return PerRunOwnerView(Threadkeep(self._app, owner=run_owner, model=self._model))

    def agent(self, name: str, *, tenant: str | None = None) -> Owner:
        """Return the shared scope of an agent: what it has learnt, for ``read_scopes=`` and ``experience=``.

        Args:
            name: The agent.
            tenant: The tenant; ``None``: that of the owner of this client, else the default one.
        """
        default = self._scope.default
        return Owner(name, (default.tenant if default else "") if tenant is None else tenant, "agent")

    def config(
        self, *, user_id: str, thread_id: str, trace_id: str | None = None, memory: bool = True, **configurable: Any
    ) -> RunnableConfig:
        """Return the config of a run: user, thread, and the label for LangMem's namespace templates.

        Its metadata holds user, thread and trace, too, for LangSmith and other tracers.

        Args:
            user_id: The user of the run.
            thread_id: The thread of the run.
            trace_id: The application's trace id; ``None``: that of the current OpenTelemetry span, if there is one.
            memory: Whether the run recalls and learns; otherwise the memory tools refuse, too.
            configurable: Further keys.
        """
        owner = self._scope.resolve(user_id)
        metadata = run_metadata(user_id=user_id, thread_id=thread_id, trace_id=trace_id)
        keys = {"thread_id": thread_id, "user_id": user_id, "langgraph_user_id": owner.label}
        if memory is not True:
            from threadkeep.langgraph.identity import memory_keys

            configurable = {**configurable, **memory_keys(memory=memory)}
        return {"metadata": metadata, "configurable": {**keys, **configurable}}

    def label(self, owner: str | Owner) -> str:
        """Return the owner as a legal LangGraph namespace label, different for every owner."""
        return self._scope.resolve(owner).label

    @property
    def app(self) -> Container:
        """The container of the services, for other interfaces."""
        return self._app

    @property
    def locked_to(self) -> Owner | None:
        """The owner that this client is locked to, or None."""
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
        """The default owner of turns, or the callable that returns it."""
        return self._owner_source or self._scope.default
