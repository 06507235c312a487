"""The services of one memory and what they share, each built when it is first used."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakValueDictionary

from threadkeep.capture.models import Receipt
from threadkeep.errors import SettingsError
from threadkeep.identity import checked_user
from threadkeep.memories.service import MemoryService
from threadkeep.registry import (
    create_erasure_receipts,
    create_queue_backend,
    create_vector_store,
    parse_limits,
    parse_memory_rules,
    parse_prices,
)
from threadkeep.storage.interface import ImmediateReads

if TYPE_CHECKING:
    from threadkeep.capture.extractors import Extractor
    from threadkeep.capture.queue import QueueService
    from threadkeep.capture.service import CaptureService
    from threadkeep.capture.usage import UsageAccounts
    from threadkeep.checkpoints.directory import ThreadDirectory
    from threadkeep.clock import Clock
    from threadkeep.collections.service import CollectionService
    from threadkeep.credentials.service import CredentialService
    from threadkeep.event_loop import EventLoopThread
    from threadkeep.identity import Owner
    from threadkeep.ids import ThreadId
    from threadkeep.memories.audited_writer import AuditedWriter
    from threadkeep.memories.kinds import Kinds
    from threadkeep.memories.maintenance import MemoryMaintenance
    from threadkeep.memories.reader import MemoryReader
    from threadkeep.memories.reflection import Reflection, Summarizer
    from threadkeep.memories.repository import MemoryRepository
    from threadkeep.memories.retention import LastUsed, Limits, Retention
    from threadkeep.models.base import Embedder, Message, PairModels, Reranker
    from threadkeep.models.calibration import Calibration
    from threadkeep.observability import Telemetry
    from threadkeep.owners.erasure import OwnerErasure
    from threadkeep.owners.models import AuditReader
    from threadkeep.owners.service import OptOuts, OwnerService
    from threadkeep.proposals.policies import PolicyRepository, Tombstones
    from threadkeep.proposals.repository import ProposalRepository
    from threadkeep.proposals.service import ProposalService
    from threadkeep.recall.contradictions import Contradictions
    from threadkeep.recall.profile.schema import ProfileSlot
    from threadkeep.recall.profile.service import ProfileReader, ProfileService
    from threadkeep.recall.service import RecallService
    from threadkeep.runs import Runs
    from threadkeep.scopes.repository import ScopeRepository
    from threadkeep.scopes.service import ScopeService
    from threadkeep.search.missing_vectors import MissingVectors
    from threadkeep.search.retriever import Retriever
    from threadkeep.search.vectorstores.base import Replicator
    from threadkeep.settings import Settings
    from threadkeep.storage.interface import Ref, Storage
    from threadkeep.storage.postgres.pool import PostgresPool

T = TypeVar("T")

_MEGABYTE: Final = 1024 * 1024

if TYPE_CHECKING:
    component = cached_property
else:

    class component(cached_property):  # noqa: N801 - used as a decorator
        """A property that is built once, whichever threads ask for it first."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """Return the component, building it if this is the first use."""
            with instance.building:
                return super().__get__(instance, owner)


@dataclass(frozen=True, slots=True)
class Health:
    """The state of a memory after :meth:`Threadkeep.ready`.

    Attributes:
        storage: Kind and location, e.g. ``sqlite /home/ana/.local/share/threadkeep/memory.sqlite3``.
        embedder: Its name; ``None``: search is by words only.
        remote: Whether texts leave this machine to be embedded.
        degraded: The missing parts: ``("embedder",)``.
    """

    storage: str
    embedder: str | None
    remote: bool
    degraded: tuple[str, ...]


class Services:
    """What the parts of one memory are, and the event loop that they run in. Building a part does no I/O.

    Args:
        settings: The settings.
        storage: Keeps the items.
        embedder: Makes vectors; None: search is by words only.
        extractor: Extracts memories from turns; None: rules on the user's words.
        reranker: Orders recalled memories once more; None: their order stays.
        pair_models: Read two texts at once; without them words and cosines decide alone.
        clock: Tells the time.
        telemetry: Counts events.
        connect: Connects the storage at the first call. Runs in the event loop.
        event_loop: Runs all operations.
        thread_storage: Keeps the threads.
        thread_messages: Yields the messages of an owner's thread, oldest first; ``scoped``: it is kept by owner.
        erase_threads: Erases the threads of an owner and returns their ids.
        postgres_pool: Returns the connection pool of a URL; the setting that holds it is passed as ``variable=``.
        profile: The slots of the owners' profiles.
        kinds: The kinds of memory.
        summarizer: Summarizes episodes; None: without a model.

    Attributes:
        is_connected: Whether *connect* has succeeded; set by it.
    """

    def __init__(  # noqa: PLR0913 - the composition root hands everything in
        self,
        settings: Settings,
        storage: Storage,
        *,
        embedder: Embedder | None,
        extractor: Extractor | None,
        reranker: Reranker | None,
        pair_models: PairModels,
        clock: Clock,
        telemetry: Telemetry,
        connect: Callable[[], Awaitable[object]],
        event_loop: EventLoopThread,
        thread_storage: Storage,
        thread_messages: Callable[..., AsyncIterator[dict[str, Any]]],
        erase_threads: Callable[[Owner], Awaitable[Sequence[str]]],
        postgres_pool: Callable[..., PostgresPool],
        profile: Sequence[ProfileSlot],
        kinds: Kinds,
        summarizer: Summarizer | None,
    ) -> None:
        self.settings = settings
        self.kinds = kinds
        self._summarizer = summarizer
        self.storage = storage
        self.clock = clock
        self.telemetry = telemetry
        self.thread_storage = thread_storage
        self.thread_messages = thread_messages
        self.building = threading.RLock()
        self._embedder = embedder
        self._extractor = extractor
        self._reranker = reranker
        self._pair_models = pair_models
        self._connect = connect
        self.is_connected = False
        self._event_loop = event_loop
        self._erase_threads = erase_threads
        self._postgres_pool = postgres_pool
        self._profile = profile
        self._replicator = self._make_replicator()
        self.immediate: Final = storage if isinstance(storage, ImmediateReads) else None

    def run(self, start: Callable[[], Coroutine[Any, Any, T]]) -> Coroutine[Any, Any, T]:
        """Connect at the first call, then run the coroutine that *start* returns in the event loop."""
        return self._event_loop.run(self._started(start))

    async def _started(self, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if not self.is_connected:
            await self._connect()
        return await start()

    @property
    def connected(self) -> bool:
        """Whether the storage is connected; then a current index may answer without the event loop.

        Raises:
            ClosedError: The memory was closed, or opened before this process was forked.
        """
        self._event_loop.require_open()
        return self.is_connected

    async def record(
        self, messages: Sequence[Message], *, owner: Owner, thread_id: ThreadId | None, **more: Any
    ) -> Receipt:
        """Record turns for learning, unless their owner or thread opted out; see :meth:`CaptureService.record`."""
        if owner.kind != "user":
            checked_user(owner)
        if self.opt_outs.holds(owner, thread_id):
            return Receipt("nothing")
        return await self.captures.record(messages, owner=owner, thread_id=thread_id, **more)

    # The public API

    @component
    def memories(self) -> MemoryService:
        """``tk.memories`` without a default owner."""
        return MemoryService(self)

    @component
    def profile(self) -> ProfileService:
        """``tk.profile`` without a default owner."""
        from threadkeep.recall.profile.service import ProfileService

        return ProfileService(self)

    @component
    def proposals(self) -> ProposalService:
        """``tk.proposals`` without a default owner."""
        from threadkeep.proposals.service import ProposalService

        return ProposalService(self)

    @component
    def queue(self) -> QueueService:
        """``tk.queue`` without a default owner."""
        from threadkeep.capture.queue import QueueService

        return QueueService(self)

    @component
    def owners(self) -> OwnerService:
        """``tk.owners`` without a default owner."""
        from threadkeep.owners.service import OwnerService

        return OwnerService(self)

    @component
    def collections(self) -> CollectionService:
        """``tk.collections`` without a default owner."""
        from threadkeep.collections.service import CollectionService

        return CollectionService(self)

    @component
    def scopes(self) -> ScopeService:
        """``tk.scopes`` without a default owner."""
        from threadkeep.scopes.service import ScopeService

        return ScopeService(self)

    @component
    def credentials(self) -> CredentialService:
        """``tk.credentials`` without a default owner."""
        from threadkeep.credentials.service import CredentialService

        return CredentialService(self)

    # Their parts

    @component
    def refreshing(self) -> WeakValueDictionary[Ref, asyncio.Lock]:
        """Held while the tokens of a credential are read and refreshed."""
        return WeakValueDictionary()

    @component
    def file_readers(self) -> asyncio.Semaphore:
        """Limits the child processes that read files at a time."""
        from threadkeep.documents.reader import CHILDREN

        return asyncio.Semaphore(CHILDREN)

    @component
    def search(self) -> Retriever:
        """Finds items by meaning and words."""
        from threadkeep.search.retriever import Retriever

        settings = self.settings
        return Retriever(
            self.storage,
            self._embedder,
            self.clock,
            max_bytes=settings.index_megabytes * _MEGABYTE,
            precision=settings.index_precision,
            telemetry=self.telemetry,
            language=None if settings.language == "auto" else settings.language,
            replicator=self._replicator,
        )

    @component
    def missing_vectors(self) -> MissingVectors:
        """Embeds later what was written while the embedder failed."""
        from threadkeep.search.missing_vectors import MissingVectors

        return MissingVectors(self.storage, self.search, self.clock, self.telemetry)

    @component
    def calibration(self) -> Calibration:
        """Measures what the cosines of the embedder mean."""
        from threadkeep.models.calibration import Calibration

        return Calibration(self._embedder, self.telemetry)

    @component
    def redact(self) -> Callable[[str], str]:
        """Removes secrets, and the kinds of personal data that the settings name."""
        from threadkeep.text.redaction import redactor

        return redactor(self.settings.personal_kinds, region=self.settings.redact_region)

    @component
    def audited_writer(self) -> AuditedWriter:
        """Commits changes of memories with their audit entries."""
        from threadkeep.memories.audited_writer import AuditedWriter

        return AuditedWriter(self.storage, self.clock, schedule=self.missing_vectors.schedule)

    @component
    def memory_reader(self) -> MemoryReader:
        """Reads memories."""
        from threadkeep.memories.reader import MemoryReader

        return MemoryReader(self.storage)

    @component
    def memory_repository(self) -> MemoryRepository:
        """Reads and writes memories."""
        from threadkeep.memories.repository import MemoryRepository

        return MemoryRepository(
            self.storage,
            self.search,
            self.clock,
            audited_writer=self.audited_writer,
            turns=self.captures,
            tombstones=self.tombstones,
            redact=self.redact,
            ttl=self.settings.ttl,
        )

    @component
    def tombstones(self) -> Tombstones:
        """Statements that must not be learnt again."""
        from threadkeep.proposals.policies import Tombstones

        lifetime = self.settings.tombstone_lifetime
        return Tombstones(self.storage, self.search, self.clock, lifetime=lifetime, audited_writer=self.audited_writer)

    @component
    def policies(self) -> PolicyRepository:
        """Which statements are kept, proposed, or never kept."""
        from threadkeep.proposals.policies import PolicyRepository

        rules = parse_memory_rules(self.settings, self.kinds.names)
        return PolicyRepository(self.storage, rules, audited_writer=self.audited_writer, kinds=self.kinds.names)

    @component
    def proposal_repository(self) -> ProposalRepository:
        """Reads, writes and decides proposals."""
        from threadkeep.proposals.repository import ProposalRepository

        return ProposalRepository(
            self.storage,
            self.search,
            self.memory_repository,
            self.tombstones,
            self.policies,
            self.clock,
            self.telemetry,
            audited_writer=self.audited_writer,
            lifetime=self.settings.proposal_lifetime,
            redact=self.redact,
        )

    @component
    def scope_repository(self) -> ScopeRepository:
        """Reads and writes shared scopes and their members."""
        from threadkeep.scopes.repository import ScopeRepository

        return ScopeRepository(
            self.storage,
            self.memory_repository,
            self.proposal_repository,
            self.tombstones,
            self.clock,
            audited_writer=self.audited_writer,
        )

    @component
    def captures(self) -> CaptureService:
        """Records turns and learns from them."""
        from threadkeep.capture.extractors.local import LocalExtractor
        from threadkeep.capture.learning import Learning, ReviewContext
        from threadkeep.capture.queue import QueueTerms
        from threadkeep.capture.service import CaptureService
        from threadkeep.capture.worker import Queue
        from threadkeep.proposals.repository import ProposalReader

        settings = self.settings
        reviews = ReviewContext(
            ProposalReader(self.storage, self.clock),
            self.tombstones,
            self.policies,
            lifetime=settings.proposal_lifetime,
        )
        learning = Learning(
            self.storage,
            self.search,
            self._extractor or LocalExtractor(),
            self.clock,
            self.telemetry,
            audited_writer=self.audited_writer,
            reviews=reviews,
            accounts=self.usage_accounts,
            redact=self.redact,
            ttl=settings.ttl,
        )
        terms = QueueTerms(
            lease=timedelta(seconds=settings.capture_lease_seconds),
            tries=settings.capture_tries,
            debounce=timedelta(seconds=settings.capture_debounce_seconds),
        )
        engine = create_queue_backend(settings, self.clock, self.telemetry)
        queue = Queue(self.storage, learning.learn, self.clock, self.telemetry, engine=engine, terms=terms)
        ended = self.opt_outs.ended
        return CaptureService(
            self.storage, learning, queue, self.clock, self.telemetry, redact=self.redact, opted_in_again=ended
        )

    @component
    def recalls(self) -> RecallService:
        """Chooses and renders the memories that matter for a question."""
        from threadkeep.recall.service import RecallService

        return RecallService(
            self.search,
            self.storage,
            self.memory_reader,
            self.clock,
            self.telemetry,
            reranker=self._reranker,
            rerank_timeout=timedelta(milliseconds=self.settings.rerank_timeout_ms),
            uses=self.last_used,
            branches=self.captures.on_record,
            profile=self.profile_reader,
            scopes=lambda: self.scope_repository,
            pair_models=self._pair_models,
        )

    @component
    def profile_reader(self) -> ProfileReader:
        """Derives profiles from memories."""
        from threadkeep.recall.profile.service import ProfileReader

        settings = self.settings
        return ProfileReader(
            self.search, self.clock, self._profile, mode=settings.profile, budget_tokens=settings.profile_budget_tokens
        )

    @component
    def limits(self) -> Limits:
        """How many memories an owner may have, and how long unused ones stay active."""
        return parse_limits(self.settings)

    @component
    def last_used(self) -> LastUsed:
        """Notes when memories were recalled last."""
        from threadkeep.memories.retention import LastUsed

        return LastUsed(self.storage, self.clock, grain=self.limits.grain)

    @component
    def maintenance(self) -> MemoryMaintenance:
        """Merges, undoes and explains memories."""
        from threadkeep.memories.maintenance import MemoryMaintenance

        return MemoryMaintenance(
            self.storage,
            self.memory_repository,
            self.search,
            self.audited_writer,
            self.last_used,
            ttl=self.settings.ttl,
        )

    @component
    def usage_accounts(self) -> UsageAccounts:
        """Adds what models took to the accounts of owners."""
        from threadkeep.capture.usage import UsageAccounts

        return UsageAccounts(self.storage, self.clock, self.telemetry, parse_prices(self.settings))

    @component
    def reflection(self) -> Reflection:
        """Writes summaries of old episodes."""
        from threadkeep.memories.reflection import Reflection

        return Reflection(
            self.storage,
            self.memory_repository,
            self.search,
            self.tombstones,
            self.clock,
            self.telemetry,
            audited_writer=self.audited_writer,
            after=self.settings.reflect_after,
            ask=self.contradictions.ask,
            summarize=None if self._summarizer is None else partial(self._summary, self._summarizer),
        )

    async def _summary(self, summarizer: Summarizer, owner: Owner, texts: Sequence[str]) -> str:
        return await self.usage_accounts.metered(owner, partial(summarizer.summarize, texts))

    @component
    def contradictions(self) -> Contradictions:
        """Asks about facts that contradict each other."""
        from threadkeep.recall.contradictions import Contradictions

        return Contradictions(self.memory_repository, self.search, self.proposal_repository, self._pair_models.changes)

    @component
    def retention(self) -> Retention:
        """Archives memories that are unused or too many."""
        from threadkeep.memories.retention import Retention

        return Retention(
            self.storage,
            self.audited_writer,
            self.last_used,
            self.proposal_repository,
            self.maintenance,
            self.clock,
            self.telemetry,
            limits=self.limits,
        )

    @component
    def audit(self) -> AuditReader:
        """Reads and checks the audit of an owner."""
        from threadkeep.owners.models import AuditReader

        return AuditReader(self.storage)

    @component
    def opt_outs(self) -> OptOuts:
        """Which owners want no memory."""
        from threadkeep.owners.service import OptOuts

        return OptOuts(self.storage, self.clock)

    @component
    def erasure(self) -> OwnerErasure:
        """Erases owners."""
        from threadkeep.owners.erasure import OwnerErasure

        return OwnerErasure(
            self.storage,
            self.search,
            create_erasure_receipts(self.settings, self.storage),
            self.clock,
            erase_threads=self._erase_threads,
            thread_storage=self.thread_storage,
            opt_outs=self.opt_outs,
            forget_in_scopes=self.scope_repository.forget,
        )

    @component
    def thread_directory(self) -> ThreadDirectory:
        """The threads of each owner."""
        from threadkeep.checkpoints.directory import ThreadDirectory

        return ThreadDirectory(self.thread_storage, self.clock)

    @component
    def runs(self) -> Runs:
        """Notes of jobs: status, leases and cancellation."""
        from threadkeep.runs import Runs

        return Runs(self.storage, self.clock)

    def _make_replicator(self) -> Replicator | None:
        """Make the replicator of a vector engine; None: all vectors are compared in RAM.

        Raises:
            SettingsError: The engine would hold vectors of encrypted items in the clear.
        """
        settings = self.settings
        if settings.vectors == "exact":
            return None
        if settings.sealed:
            msg = (
                f"THREADKEEP_VECTORS is {settings.vectors}, which does not encrypt the vectors of encrypted items; "
                "set it to exact, or remove the master key."
            )
            raise SettingsError(msg, variable="THREADKEEP_VECTORS")
        from threadkeep.search.vectorstores.base import Replicator

        timeout = timedelta(milliseconds=settings.vectors_timeout_ms)
        engine = create_vector_store(settings, self._postgres_pool)
        return Replicator(engine, self.storage, self.telemetry, timeout=timeout, large_from=settings.vectors_from)
