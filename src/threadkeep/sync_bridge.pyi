# Written by `make docs` from the services; change it there.

import builtins
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, type_check_only

from httpx import Auth
from langchain.agents.middleware import AgentMiddleware
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore, IndexConfig, TTLConfig

from threadkeep.capture.models import QueuedTurn, Receipt
from threadkeep.checkpoints.head import Strategy, ThreadStatus
from threadkeep.checkpoints.maintenance import ThreadStats
from threadkeep.client import ChatModel, Keep, OwnerSource, Threadkeep
from threadkeep.collections.models import Document, Ingested, Passages, Similar
from threadkeep.container import Container
from threadkeep.credentials.models import Authorization, Credential
from threadkeep.identity import Owner
from threadkeep.ids import MemoryId, ThreadId
from threadkeep.langgraph.agent_servers import AgentStatus, Declaration
from threadkeep.langgraph.identity import ParticipantsSource, ScopesSource
from threadkeep.langgraph.per_run import PerRunOwnerView
from threadkeep.langgraph.runs import T
from threadkeep.langgraph.thread_models import ImportedThread, Pruned, Thread, ThreadPage, ThreadSummary, TurnMemory
from threadkeep.langgraph.window import History
from threadkeep.memories.audited_writer import AuditEntry
from threadkeep.memories.codec import Imported
from threadkeep.memories.kinds import Kind, MemoryKind
from threadkeep.memories.labels import Metadata
from threadkeep.memories.maintenance import Merge
from threadkeep.memories.models import (
    Forgotten,
    Memory,
    MemoryPage,
    NewMemory,
    RememberResult,
    Source,
    Speaker,
    Undone,
    Version,
    Why,
)
from threadkeep.memories.reflection import Reflected
from threadkeep.memories.retention import RetentionReport
from threadkeep.models.base import Message, WorkStep
from threadkeep.owners.erasure import ErasureReceipt
from threadkeep.owners.models import Erased, Holdings, Replayed, Verified
from threadkeep.proposals.models import (
    Action,
    Choice,
    DecisionResult,
    Policy,
    Proposal,
    ProposalPage,
    Proposed,
    State,
    Tombstone,
)
from threadkeep.recall.models import Recall, Recalled
from threadkeep.recall.profile.schema import Profile, ProfileSlot
from threadkeep.runs import Run, Step
from threadkeep.scopes.models import Membership, Role, SharedScope
from threadkeep.services import Health
from threadkeep.storage.interface import Filter
from threadkeep.transfer.conversation_exports import ConversationImport, DateOrder, ExportFormat, ImportProgress
from threadkeep.transfer.threads import CopiedThread
from threadkeep.turns import Messages

@type_check_only
class SyncTurnOperations:
    def recall(
        self,
        question: str | Messages,
        *,
        owner: str | Owner | None = ...,
        thread_id: str | None = ...,
        budget_tokens: int | None = ...,
        max_facts: int | None = ...,
        max_episodes: int | None = ...,
        timeout: timedelta | None = ...,
        read_scopes: Sequence[Owner] = ...,
    ) -> Recall: ...
    def attachment(self, text: str, *, name: str) -> str: ...
    def capture(
        self,
        messages: Messages,
        *,
        owner: str | Owner | None = ...,
        thread_id: str | None,
        recalled: Sequence[str] = ...,
        wait: bool = ...,
    ) -> Receipt: ...
    def capture_participants(
        self, messages: Messages, *, participants: Mapping[str, str | Owner], thread_id: str | None, wait: bool = ...
    ) -> dict[str, Receipt]: ...
    def import_conversations(
        self,
        path: str | Path,
        *,
        owner: str | Owner | None = ...,
        program: ExportFormat | None = ...,
        me: str | None = ...,
        dates: DateOrder | None = ...,
        accept: bool = ...,
        progress: ImportProgress | None = ...,
    ) -> ConversationImport: ...
    def drain(self, *, timeout: timedelta = ...) -> bool: ...
    def settle(
        self, turn_ids: Sequence[str], *, owner: str | Owner | None = ..., timeout: timedelta = ...
    ) -> Receipt: ...

@type_check_only
class SyncThreadkeep(SyncTurnOperations):
    def aclose(self) -> None: ...
    def close(self) -> None: ...
    def ready(self) -> Health: ...
    @property
    def store(self) -> BaseStore: ...
    def store_with(
        self, *, ranking: Literal["hybrid", "dense"] = ..., index: IndexConfig | None = ..., ttl: TTLConfig | None = ...
    ) -> BaseStore: ...
    @property
    def checkpointer(self) -> BaseCheckpointSaver[Any] | None: ...
    @property
    def memories(self) -> SyncMemoryService: ...
    @property
    def kinds(self) -> tuple[MemoryKind, ...]: ...
    @property
    def profile(self) -> SyncProfileService: ...
    @property
    def proposals(self) -> SyncProposalService: ...
    @property
    def queue(self) -> SyncQueueService: ...
    @property
    def collections(self) -> SyncCollectionService: ...
    @property
    def owners(self) -> SyncOwnerService: ...
    @property
    def scopes(self) -> SyncScopeService: ...
    @property
    def credentials(self) -> SyncCredentialService: ...
    @property
    def threads(self) -> SyncThreadService: ...
    @property
    def runs(self) -> SyncRunService: ...
    @property
    def agents(self) -> SyncAgentService: ...
    def middleware(
        self,
        *,
        owner: OwnerSource | None = ...,
        recall: bool = ...,
        capture: bool = ...,
        budget_tokens: int | None = ...,
        timeout: timedelta | None = ...,
        placement: str = ...,
        events: str = ...,
        read_scopes: ScopesSource = ...,
        experience: Owner | None = ...,
        participants: ParticipantsSource | None = ...,
    ) -> AgentMiddleware[Any, Any, Any]: ...
    def window(
        self,
        *,
        max_tokens: int | None = ...,
        keep: Keep | None = ...,
        owner: OwnerSource | None = ...,
        compress: bool | None = ...,
    ) -> AgentMiddleware[Any, Any, Any]: ...
    def compact(
        self,
        messages: Messages,
        *,
        owner: str | Owner | None = ...,
        thread_id: str | None = ...,
        model: ChatModel | None = ...,
        system: str | None = ...,
        tools: Sequence[Any] = ...,
        max_tokens: int | None = ...,
        keep: Keep | None = ...,
        refused: bool = ...,
        memory: bool = ...,
    ) -> History: ...
    def tools(
        self, *names: str, owner: OwnerSource | None = ..., collections: Sequence[str] = ...
    ) -> list[BaseTool]: ...
    def graph(
        self, *, model: ChatModel | None = ..., tools: Sequence[BaseTool] = ..., **options: Any
    ) -> CompiledStateGraph[Any, Any, Any, Any]: ...
    @property
    def default_model(self) -> ChatModel | None: ...
    @property
    def has_model(self) -> bool: ...
    def for_owner(self, owner: str | Owner) -> Threadkeep: ...
    def per_run_owner(self) -> PerRunOwnerView: ...
    def agent(self, name: str, *, tenant: str | None = ...) -> Owner: ...
    def config(
        self, *, user_id: str, thread_id: str, trace_id: str | None = ..., memory: bool = ..., **configurable: Any
    ) -> RunnableConfig: ...
    def label(self, owner: str | Owner) -> str: ...
    @property
    def app(self) -> Container: ...
    @property
    def locked_to(self) -> Owner | None: ...
    def resolve_owner(self, owner: str | Owner | None = ...) -> Owner: ...
    @property
    def owner_source(self) -> OwnerSource | None: ...

@type_check_only
class SyncMemoryService:
    def remember(
        self,
        text: str,
        *,
        owner: str | Owner | None = ...,
        kind: Kind = ...,
        source: Source | None = ...,
        valid_from: datetime | None = ...,
        pinned: bool = ...,
        approved_by: str | None = ...,
        tags: Sequence[str] = ...,
        metadata: Metadata | None = ...,
    ) -> RememberResult: ...
    def remember_many(
        self, news: Sequence[NewMemory], *, owner: str | Owner | None = ..., progress: Callable[[int], object] = ...
    ) -> tuple[RememberResult, ...]: ...
    def import_lines(self, lines: str | Iterable[str], *, owner: str | Owner | None = ...) -> Imported: ...
    def get(self, memory_id: str, *, owner: str | Owner | None = ...) -> Memory | None: ...
    def require(self, memory_id: str, *, owner: str | Owner | None = ...) -> Memory: ...
    def get_many(self, memory_ids: Sequence[str], *, owner: str | Owner | None = ...) -> dict[str, Memory]: ...
    def list(
        self,
        *,
        owner: str | Owner | None = ...,
        kind: Kind | None = ...,
        trust: Speaker | None = ...,
        thread_id: str | None = ...,
        pinned: bool | None = ...,
        since: datetime | None = ...,
        tags: Sequence[str] = ...,
        any_tags: Sequence[str] = ...,
        metadata: Metadata | None = ...,
        limit: int = ...,
        offset: int = ...,
        cursor: str | None = ...,
    ) -> MemoryPage: ...
    def walk(self, *, owner: str | Owner | None = ...) -> builtins.list[Memory]: ...
    def search(
        self,
        query: str,
        *,
        owner: str | Owner | None = ...,
        kind: Kind | None = ...,
        trust: Speaker | None = ...,
        thread_id: str | None = ...,
        pinned: bool | None = ...,
        since: datetime | None = ...,
        tags: Sequence[str] = ...,
        any_tags: Sequence[str] = ...,
        metadata: Metadata | None = ...,
        limit: int = ...,
    ) -> builtins.list[Recalled]: ...
    def correct(
        self,
        memory_id: str,
        text: str,
        *,
        owner: str | Owner | None = ...,
        revision: int | None = ...,
        source: Source | None = ...,
        approved_by: str | None = ...,
    ) -> Memory: ...
    def forget(
        self, memory_id: str, *, owner: str | Owner | None = ..., revision: int | None = ..., dry: bool = ...
    ) -> Forgotten: ...
    def pin(
        self, memory_id: str, *, owner: str | Owner | None = ..., revision: int | None = ..., pinned: bool = ...
    ) -> Memory: ...
    def label(
        self,
        memory_id: str,
        *,
        owner: str | Owner | None = ...,
        tags: Sequence[str] | None = ...,
        metadata: Metadata | None = ...,
    ) -> Memory: ...
    def history(self, memory_id: str, *, owner: str | Owner | None = ...) -> tuple[Version, ...]: ...
    def why(self, memory_id: str, *, owner: str | Owner | None = ...) -> Why: ...
    def undo(self, last: int = ..., *, owner: str | Owner | None = ...) -> Undone: ...
    def consolidate(self, *, owner: str | Owner | None = ..., dry: bool = ...) -> tuple[Merge, ...]: ...
    def reflect(
        self, *, owner: str | Owner | None = ..., older_than: timedelta = ..., dry: bool = ...
    ) -> tuple[Reflected, ...]: ...
    def tidy(self, *, owner: str | Owner | None = ..., dry: bool = ...) -> RetentionReport: ...
    def restore(self, memory_id: str, *, owner: str | Owner | None = ...) -> Memory: ...

@type_check_only
class SyncProfileService:
    @property
    def schema(self) -> Mapping[str, ProfileSlot]: ...
    def get(self, *, owner: str | Owner | None = ...) -> Profile: ...
    def set(
        self, slot: str, text: str, *, owner: str | Owner | None = ..., memory_id: str | None = ...
    ) -> RememberResult: ...
    def clear(self, slot: str, *, owner: str | Owner | None = ...) -> tuple[MemoryId, ...]: ...

@type_check_only
class SyncProposalService:
    def propose(
        self,
        text: str = ...,
        *,
        owner: str | Owner | None = ...,
        action: Action = ...,
        kind: Kind = ...,
        memory_id: str | None = ...,
        base_revision: int | None = ...,
        source: Source | None = ...,
        reason: str = ...,
        key: str | None = ...,
    ) -> Proposed: ...
    def ask_contradictions(self, *, owner: str | Owner | None = ...) -> tuple[Proposed, ...]: ...
    def list(
        self,
        *,
        owner: str | Owner | None = ...,
        state: State | None = ...,
        limit: int = ...,
        offset: int = ...,
        cursor: str | None = ...,
    ) -> ProposalPage: ...
    def get(self, proposal_id: str, *, owner: str | Owner | None = ...) -> Proposal | None: ...
    def require(self, proposal_id: str, *, owner: str | Owner | None = ...) -> Proposal: ...
    def approve(
        self,
        proposal_id: str,
        *,
        owner: str | Owner | None = ...,
        by: str | None = ...,
        comment: str | None = ...,
        base_revision: int | None = ...,
        key: str | None = ...,
    ) -> Proposal: ...
    def edit(
        self,
        proposal_id: str,
        text: str,
        *,
        owner: str | Owner | None = ...,
        by: str | None = ...,
        comment: str | None = ...,
        base_revision: int | None = ...,
        key: str | None = ...,
    ) -> Proposal: ...
    def reject(
        self,
        proposal_id: str,
        *,
        owner: str | Owner | None = ...,
        by: str | None = ...,
        comment: str | None = ...,
        key: str | None = ...,
    ) -> Proposal: ...
    def decide(
        self, choices: Sequence[Choice], *, owner: str | Owner | None = ..., by: str | None = ...
    ) -> builtins.list[DecisionResult]: ...
    def policy(self, owner: str | Owner | None = ...) -> Policy: ...
    def set_policy(self, rules: str, *, owner: str | Owner | None = ...) -> Policy: ...
    def tombstones(self, owner: str | Owner | None = ...) -> builtins.list[Tombstone]: ...
    def lift(self, tombstone_id: str, *, owner: str | Owner | None = ...) -> bool: ...

@type_check_only
class SyncQueueService:
    def list(self, owner: str | Owner | None = ...) -> builtins.list[QueuedTurn]: ...
    def retry(
        self, turn_ids: Sequence[str] | None = ..., *, owner: str | Owner | None = ...
    ) -> builtins.list[QueuedTurn]: ...

@type_check_only
class SyncOwnerService:
    def show(self, owner: str | Owner | None = ...) -> Holdings: ...
    def export(self, owner: str | Owner | None = ...) -> list[dict[str, Any]]: ...
    def export_zip(self, owner: str | Owner | None = ...) -> list[bytes]: ...
    def erase(self, owner: str | Owner | None = ...) -> Erased: ...
    def opt_out(self, owner: str | Owner | None = ..., *, thread_id: str | None = ..., out: bool = ...) -> None: ...
    def opted_out(self, owner: str | Owner | None = ..., *, thread_id: str | None = ...) -> bool: ...
    def opted_out_threads(self, owner: str | Owner | None = ...) -> tuple[ThreadId, ...]: ...
    def replay_erasures(self, *files: str | Path) -> Replayed: ...
    def erasure_receipts(self) -> list[ErasureReceipt]: ...
    def note_access(self, change: str, *, by: str, reason: str, owner: str | Owner | None = ...) -> None: ...
    def audit(self, owner: str | Owner | None = ..., *, limit: int | None = ...) -> list[AuditEntry]: ...
    def verify_audit(self, owner: str | Owner | None = ..., *, anchor: str | None = ...) -> Verified: ...

@type_check_only
class SyncCollectionService:
    def ingest(
        self,
        name: str,
        text: str,
        *,
        document_id: str,
        title: str = ...,
        metadata: Mapping[str, Any] | None = ...,
        tenant: str = ...,
    ) -> Ingested: ...
    def ingest_file(
        self,
        name: str,
        file: str | Path | bytes,
        *,
        document_id: str = ...,
        title: str = ...,
        metadata: Mapping[str, Any] | None = ...,
        tenant: str = ...,
    ) -> Ingested: ...
    def search(
        self,
        name: str | Sequence[str],
        query: str,
        *,
        limit: int = ...,
        where: Filter | None = ...,
        relevant_only: bool = ...,
        tenant: str | None = ...,
    ) -> Passages: ...
    def similar(
        self, name: str, document_id: str, *, limit: int = ..., tenant: str | None = ...
    ) -> builtins.list[Similar]: ...
    def names(self, *, tenant: str | None = ...) -> tuple[str, ...]: ...
    def list(self, name: str, *, tenant: str | None = ...) -> builtins.list[Document]: ...
    def delete(self, name: str, document_id: str, *, tenant: str = ...) -> None: ...
    def erase(self, name: str, *, tenant: str = ...) -> int: ...

@type_check_only
class SyncScopeService:
    def create(self, scope: Owner) -> SharedScope: ...
    def list(self, *, tenant: str = ...) -> builtins.list[SharedScope]: ...
    def members(self, scope: Owner) -> builtins.list[Membership]: ...
    def grant(self, scope: Owner, member: str | Owner, *, role: Role) -> Membership: ...
    def revoke(self, scope: Owner, member: str | Owner) -> Membership: ...
    def of(self, owner: str | Owner | None = ...) -> builtins.list[Membership]: ...
    def memories(
        self,
        scope: Owner,
        *,
        owner: str | Owner | None = ...,
        limit: int = ...,
        offset: int = ...,
        cursor: str | None = ...,
    ) -> MemoryPage: ...
    def search(
        self, scope: Owner, query: str, *, owner: str | Owner | None = ..., limit: int = ...
    ) -> builtins.list[Recalled]: ...
    def propose(
        self,
        scope: Owner,
        text: str,
        *,
        owner: str | Owner | None = ...,
        kind: Kind = ...,
        source: Source | None = ...,
        reason: str = ...,
        key: str | None = ...,
    ) -> Proposed: ...
    def promote(self, scope: Owner, memory_id: str, *, owner: str | Owner | None = ...) -> Proposed: ...
    def learn(
        self, agent: Owner, steps: Sequence[WorkStep], *, owner: str | Owner | None = ..., thread_id: str | None = ...
    ) -> builtins.list[Proposed]: ...
    def proposals(
        self,
        scope: Owner,
        *,
        owner: str | Owner | None = ...,
        state: State | None = ...,
        limit: int = ...,
        offset: int = ...,
        cursor: str | None = ...,
    ) -> ProposalPage: ...
    def approve(
        self,
        scope: Owner,
        proposal_id: str,
        *,
        owner: str | Owner | None = ...,
        text: str | None = ...,
        comment: str | None = ...,
    ) -> Proposal: ...
    def reject(
        self, scope: Owner, proposal_id: str, *, owner: str | Owner | None = ..., comment: str | None = ...
    ) -> Proposal: ...
    def forget(self, scope: Owner, memory_id: str, *, owner: str | Owner | None = ...) -> Forgotten: ...

@type_check_only
class SyncCredentialService:
    def begin(
        self,
        server: str,
        *,
        redirect_uri: str,
        owner: str | Owner | None = ...,
        client_id: str | None = ...,
        client_secret: str | None = ...,
    ) -> Authorization: ...
    def finish(
        self, *, state: str, code: str, issuer: str | None = ..., owner: str | Owner | None = ...
    ) -> Credential: ...
    def list(self, owner: str | Owner | None = ...) -> builtins.list[Credential]: ...
    def revoke(self, server: str, *, owner: str | Owner | None = ...) -> bool: ...
    def auth(self, server: str, *, owner: str | Owner | None = ...) -> Auth: ...

@type_check_only
class SyncThreadService:
    def list(
        self,
        owner: str | Owner | None = ...,
        *,
        older_than: timedelta | None = ...,
        title: str = ...,
        limit: int = ...,
        cursor: str | None = ...,
    ) -> ThreadPage: ...
    def get(self, thread_id: str, *, owner: str | Owner | None = ...) -> Thread | None: ...
    def create(
        self,
        thread_id: str,
        *,
        title: str = ...,
        metadata: Mapping[str, Any] | None = ...,
        owner: str | Owner | None = ...,
    ) -> Thread: ...
    def update(
        self,
        thread_id: str,
        *,
        title: str | None = ...,
        pinned: bool | None = ...,
        metadata: Mapping[str, Any] | None = ...,
        owner: str | Owner | None = ...,
    ) -> ThreadSummary: ...
    def note_turn(
        self,
        thread_id: str,
        *,
        question: str,
        status: ThreadStatus = ...,
        memory: bool = ...,
        owner: str | Owner | None = ...,
    ) -> None: ...
    def require(self, thread_id: str, *, owner: str | Owner | None = ...) -> Thread: ...
    def messages(
        self, thread_id: str, *, checkpoint_id: str | None = ..., owner: str | Owner | None = ...
    ) -> builtins.list[Message]: ...
    def turns(
        self,
        thread_id: str,
        *,
        message_ids: Sequence[str] | None = ...,
        checkpoint_id: str | None = ...,
        owner: str | Owner | None = ...,
    ) -> builtins.list[TurnMemory]: ...
    def ids(self, owner: str | Owner | None = ...) -> Sequence[str]: ...
    def stats(self, owner: str | Owner | None = ...) -> ThreadStats: ...
    def prune(
        self,
        thread_ids: Sequence[str] | None = ...,
        *,
        owner: str | Owner | None = ...,
        latest: int = ...,
        since: datetime | None = ...,
        waiting: bool = ...,
        older_than: timedelta | None = ...,
    ) -> builtins.list[Pruned]: ...
    def delete(
        self,
        thread_ids: Sequence[str] | None = ...,
        *,
        owner: str | Owner | None = ...,
        older_than: timedelta | None = ...,
    ) -> builtins.list[str]: ...
    def copy(self, thread_id: str, to: str, *, owner: str | Owner | None = ...) -> Thread: ...
    def fork(
        self, thread_id: str, to: str, *, checkpoint_id: str | None = ..., owner: str | Owner | None = ...
    ) -> Thread: ...
    def import_from(
        self,
        source: BaseCheckpointSaver[Any] | str,
        thread_ids: Sequence[str] | None = ...,
        *,
        owner: str | Owner | None = ...,
        owners: Mapping[str, str | Owner | None] | None = ...,
        owner_key: str | None = ...,
    ) -> AsyncGenerator[ImportedThread]: ...
    def export_to(
        self,
        target: BaseCheckpointSaver[Any] | str,
        thread_ids: Sequence[str] | None = ...,
        *,
        owner: str | Owner | None = ...,
    ) -> AsyncGenerator[CopiedThread]: ...
    def adopt(
        self,
        thread_ids: Sequence[str] | None = ...,
        *,
        owners: Mapping[str, str | Owner | None] | None = ...,
        owner_key: str | None = ...,
        source: BaseCheckpointSaver[Any] | str | None = ...,
    ) -> builtins.list[ImportedThread]: ...

@type_check_only
class SyncRunService:
    def start(
        self,
        graph: Any,
        state: Mapping[str, Any],
        *,
        thread_id: str,
        owner: str | Owner | None = ...,
        context: Any = ...,
        config: Mapping[str, Any] | None = ...,
        multitask_strategy: Strategy | None = ...,
    ) -> Run: ...
    def resume(
        self,
        graph: Any,
        answer: Any = ...,
        *,
        thread_id: str,
        answers: Mapping[str, Any] | None = ...,
        owner: str | Owner | None = ...,
        context: Any = ...,
        config: Mapping[str, Any] | None = ...,
        multitask_strategy: Strategy | None = ...,
    ) -> Run: ...
    def resume_with_context(
        self,
        graph: Any,
        state: Mapping[str, Any],
        *,
        thread_id: str,
        answers: Mapping[str, Any] | None = ...,
        owner: str | Owner | None = ...,
        context: Any = ...,
        config: Mapping[str, Any] | None = ...,
        multitask_strategy: Strategy | None = ...,
    ) -> Run: ...
    def retry(
        self,
        graph: Any,
        *,
        thread_id: str,
        owner: str | Owner | None = ...,
        context: Any = ...,
        config: Mapping[str, Any] | None = ...,
        multitask_strategy: Strategy | None = ...,
    ) -> Run: ...
    def get(self, graph: Any, *, thread_id: str, owner: str | Owner | None = ...) -> Run: ...
    def cancel(self, *, thread_id: str, owner: str | Owner | None = ...) -> bool: ...
    def history(
        self, graph: Any, *, thread_id: str, owner: str | Owner | None = ..., limit: int | None = ...
    ) -> list[Step]: ...
    def fork(
        self,
        graph: Any,
        *,
        thread_id: str,
        checkpoint_id: str,
        state: Mapping[str, Any] | None = ...,
        as_node: str | None = ...,
        owner: str | Owner | None = ...,
    ) -> Run: ...
    def once(self, key: str, effect: Callable[[str], Awaitable[T] | T]) -> T: ...

@type_check_only
class SyncAgentService:
    def declared(self, file: str | Path | None = ...) -> tuple[Declaration, ...]: ...
    def require(self, name: str, file: str | Path | None = ...) -> Declaration: ...
    def standing(self, file: str | Path | None = ...) -> list[AgentStatus]: ...
    def supervisor(
        self,
        *,
        file: str | Path | None = ...,
        model: ChatModel | None = ...,
        tools: Sequence[BaseTool] = ...,
        middleware: Sequence[AgentMiddleware[Any, Any, Any]] = ...,
        **options: Any,
    ) -> CompiledStateGraph[Any, Any, Any, Any]: ...
    def create(
        self,
        name: str,
        *,
        file: str | Path | None = ...,
        model: ChatModel | None = ...,
        tools: Sequence[BaseTool] = ...,
        middleware: Sequence[AgentMiddleware[Any, Any, Any]] = ...,
        **options: Any,
    ) -> CompiledStateGraph[Any, Any, Any, Any]: ...

class Blocking:
    def __init__(self, target: object, app: Container, *, apart: bool = False) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def blocking(target: object, app: Container) -> SyncThreadkeep: ...
