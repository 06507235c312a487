"""Recall: find the memories that matter for a model call and render them within a budget and a time limit.

Two phases: :meth:`RecallService.prepare` brings the owner's index up to date and embeds the question, with I/O;
ranking and selection are pure functions over an immutable snapshot. If the index is current and the question embeds
at once, :meth:`RecallService.try_run` does everything on the calling thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, Protocol, TypedDict, TypeVar

from threadkeep.concurrency import AnswerTimeout
from threadkeep.errors import (
    EmbedderUnavailableError,
    InvalidInputError,
    OwnerRequiredError,
    RerankerUnavailableError,
    ScopeNotFoundError,
)
from threadkeep.identity import Owner, check_read_scopes, scope_in
from threadkeep.memories.codec import memory_of, recalled_namespaces
from threadkeep.memories.models import EVERY, MemoryFilter
from threadkeep.models.base import HasMessageIds, PairModels
from threadkeep.recall.models import Recall, Recalled
from threadkeep.recall.packing import ContextPacker, check_bounds, estimate_tokens, is_unchanged
from threadkeep.recall.selection import (
    COMPARED,
    CONSIDERED,
    BlockRequest,
    CandidatePlaces,
    Found,
    StoredFacts,
    between_neighbours,
    find_candidates,
    pack,
    pack_newest,
    packer_for,
    valid_ones,
)
from threadkeep.search.query import Query
from threadkeep.storage.interface import Namespace, Ref, Storage
from threadkeep.text.quoted import to_block

if TYPE_CHECKING:
    from collections.abc import Collection

    from threadkeep.clock import Clock
    from threadkeep.ids import MemoryId, ThreadId
    from threadkeep.memories.models import Memory
    from threadkeep.memories.retention import LastUsed
    from threadkeep.models.base import Message, Reranker
    from threadkeep.observability import Telemetry
    from threadkeep.recall.profile.service import ProfileReader
    from threadkeep.search.ranking import Ranking
    from threadkeep.search.retriever import PreparedSearch, Retriever

T = TypeVar("T")

DEFAULT_BUDGET_TOKENS: Final = 300
DEFAULT_TIMEOUT: Final = timedelta(milliseconds=300)

RERANK_TIMEOUT: Final = timedelta(milliseconds=150)
_RERANKED: Final = 50
"""So many of the best candidates are reranked."""

_SHARE_OF_TIME: Final = 0.7
"""The share of the remaining time that a model may take; the order as it was must still become a block."""

_EMBEDDING_SHARE: Final = 0.8
"""The share of the time that the embedder may take; words alone must still become a block."""

_LOOKUPS: Final = 8
"""Selection asks the storage so often at most; each time for all that it needs so far."""

_SEARCHED_AT_ONCE: Final = 64
"""A search on the calling thread reads at most so many memories."""

_CHUNK: Final = 20

RERANKER: Final = "reranker"
"""Stands in ``degraded`` if the candidates were not reranked."""


class NewestMemories(Protocol):
    """Lists memories."""

    async def newest(self, *, owner: Owner, limit: int) -> Sequence[Memory]:
        """Return the active memories of *owner* that were learnt last, newest first."""
        ...


class KnownScopes(Protocol):
    """Knows which shared scopes exist."""

    def knows(self, scopes: Sequence[Owner]) -> bool:
        """Return whether all of *scopes* are known to exist, without I/O, on any thread."""
        ...

    async def require(self, scopes: Sequence[Owner]) -> None:
        """Check that all of *scopes* exist.

        Raises:
            ScopeNotFoundError: One does not.
        """
        ...


class BranchHistory(Protocol):
    """Knows on which branch of a thread a memory was learnt."""

    def is_doubtful(self, memory: Memory, shown: Collection[str], *, thread_id: ThreadId) -> bool:
        """Return whether the storage must be asked: *memory* was learnt in this thread alone, from no message shown."""
        ...

    async def learnt_on_other_branches(
        self, memories: Sequence[Memory], messages: Sequence[Message], *, owner: Owner, thread_id: ThreadId
    ) -> Collection[MemoryId]:
        """Return which of *memories* were learnt on another branch of the thread."""
        ...


@dataclass(eq=False)
class RecallRequest:
    """A question to an owner's memory before a model call.

    Attributes:
        question: The newest user message; the first 32,768 characters count.
        owner: The owner; nothing outside its partition is read.
        thread_id: The thread in progress; the block marks memories of it.
        messages: The messages of the thread that end with the question, as the model is given them; empty if
            unknown. They tell which branch of the thread is in progress.
        budget_tokens: Upper bound for the text, by :func:`~threadkeep.recall.packing.estimate_tokens`.
        max_facts: At most so many memories that are no episodes.
        max_episodes: At most so many episodes.
        timeout: How long recall may take; ``None``: as long as the budget of the application's turns says.
        read_scopes: Shared scopes that are read beside the owner's memory; granted by the application.
        limit: Ends the recall; ``None``: its timeout does.

    Raises:
        OwnerRequiredError: *owner* is ``None``.
        InvalidInputError: *question* or *owner* has another type, a bound is negative, or one of *read_scopes* is the
            owner, another user or of another tenant.
    """

    question: str
    owner: Owner
    thread_id: ThreadId | None = None
    messages: Sequence[Message] = ()
    budget_tokens: int = DEFAULT_BUDGET_TOKENS
    max_facts: int | None = None
    max_episodes: int | None = None
    timeout: timedelta | None = None
    read_scopes: tuple[Owner, ...] = ()
    limit: AnswerTimeout | None = None
    _query: Query | None = None

    def __post_init__(self) -> None:
        _check(self.question, self.owner)
        if self.read_scopes:
            check_read_scopes(self.owner, self.read_scopes)
        check_bounds(budget_tokens=self.budget_tokens, max_facts=self.max_facts, max_episodes=self.max_episodes)

    def query(self, parse: Callable[[str], Query]) -> Query:
        """Return the parsed question; it is parsed once."""
        if self._query is None:
            self._query = parse(self.question)
        return self._query

    @property
    def seconds(self) -> float:
        """The timeout in seconds."""
        return (DEFAULT_TIMEOUT if self.timeout is None else self.timeout).total_seconds()

    @cached_property
    def shown(self) -> frozenset[str]:
        """The ids of the messages that the model is given."""
        if isinstance(self.messages, HasMessageIds):
            return self.messages.message_ids()
        return frozenset([message.message_id for message in self.messages if message.message_id is not None])


class RecallService:
    """Recalls and searches an owner's memories. Async methods run on one event loop; the others on any thread."""

    def __init__(  # noqa: PLR0913 - the composition root hands everything in
        self,
        search: Retriever,
        storage: Storage,
        memories: NewestMemories,
        clock: Clock,
        telemetry: Telemetry,
        *,
        reranker: Reranker | None = None,
        rerank_timeout: timedelta = RERANK_TIMEOUT,
        uses: LastUsed | None = None,
        branches: BranchHistory | None = None,
        profile: ProfileReader | None = None,
        scopes: Callable[[], KnownScopes] | None = None,
        pair_models: PairModels | None = None,
    ) -> None:
        self._search = search
        self._storage = storage
        self._memories = memories
        self._clock = clock
        self._telemetry = telemetry
        self._reranker = reranker
        self._rerank_seconds = rerank_timeout.total_seconds()
        self._uses = uses
        self._branches = branches
        self._profile = profile
        self._scopes = scopes
        self._pair_models = PairModels() if pair_models is None else pair_models

    def needs_loading(self, request: RecallRequest) -> bool:
        """Return whether :meth:`load` must be awaited before *request*, once."""
        models_wait = any(model is not None and not model.loaded for model in self._pair_models)
        return models_wait or (self._profile is not None and not self._profile.is_loaded(request.question))

    async def load(self) -> None:
        """Load what recall needs beside the embedder: models that read pairs, and the examples of the profile's slots.

        A model that cannot be loaded is counted as degraded by its name, and is not used again.
        """
        for model in filter(None, self._pair_models):
            try:
                await model.ready()
            except EmbedderUnavailableError as error:
                self._telemetry.degraded(model.name, error)
                self._pair_models = self._pair_models._replace(**{model.name: None})
        if self._profile is not None:
            await self._profile.load()

    def try_run(self, request: RecallRequest) -> Recall | None:
        """Return what :meth:`run` would, on any thread and without I/O; ``None``: call that on the event loop."""
        unknown = request.read_scopes and not self._knows(request.read_scopes)
        if self._reranker is not None or not request.question.strip() or unknown:
            return None
        try:
            found: list[Found] = []
            degraded: list[str] = []
            prepared: PreparedSearch | None = None
            for owner in (request.owner, *request.read_scopes):
                prepared = self._search.try_prepare(owner.partition, partial(request.query, self._search.parse))
                if prepared is None:
                    return None
                profile: Sequence[Recalled] | None = ()
                if self._profile is not None and owner is request.owner:  # scopes have no profile
                    profile = self._profile.try_select(request.question, prepared, owner)
                if profile is None:
                    return None
                stored, ranking = self._stored(request, owner), prepared.rank(**_scope(request, owner))
                degraded += prepared.degraded
                found.append(Found(ranking, find_candidates(prepared.query, ranking, stored), stored, profile))
            packer = pack(_block(request, prepared and prepared.query), found, now=self._clock.now())
        except Exception:  # noqa: BLE001 - run() meets the same failure, and reports it
            return None
        for one in found:
            if not one.stored.complete:
                return None
        return self._rendered(packer, request, degraded)

    async def run(self, request: RecallRequest) -> Recall:
        """Find the memories that matter for the question and fit them into the budget.

        Irrelevant memories are left out, so an unrelated question may give none; a question about the user as
        such may give any. Without a question, the newest memories are given. The episode of a turn that the model
        is given anyway takes no budget.
        If something fails, the result is empty or poorer, and names the part in ``degraded``; loading that has
        begun continues, and the next turn benefits.

        Raises:
            ScopeNotFoundError: One of the scopes to read does not exist.
        """
        until = asyncio.get_running_loop().time() + request.seconds
        progress = _Progress(lambda: packer_for(_block(request, None)), until)
        try:
            async with request.limit or AnswerTimeout(request.seconds):
                if request.read_scopes and self._scopes is not None:
                    await self._scopes().require(request.read_scopes)
                packer = await self._filled(request, progress)
        except ScopeNotFoundError:
            raise
        except Exception as error:  # noqa: BLE001 - a memory failure never fails a turn; counted and logged
            progress.degraded.append("timeout" if isinstance(error, TimeoutError) else "storage")
            self._telemetry.degraded("recall", error)
            packer = progress.select()
        return self._rendered(packer, request, progress.degraded)

    async def are_unchanged(self, recalled: Sequence[Recalled], *, owner: Owner) -> bool:
        """Return whether all of *recalled* are unchanged: none was corrected, forgotten or expired.

        Raises:
            StorageError: The storage cannot be used.
        """
        refs = [
            Ref(_owner_of(each, owner).partition, each.memory.namespace, each.memory.memory_id) for each in recalled
        ]
        memories = [None if item is None else memory_of(item) for item in await self._storage.get(refs)]
        return all(
            memory is not None and is_unchanged(each.memory, memory, value=each.value)
            for each, memory in zip(recalled, valid_ones(memories, at=self._clock.now()), strict=True)
        )

    def try_search(
        self, query: str, *, owner: Owner, wanted: MemoryFilter = EVERY, limit: int = 10
    ) -> list[Recalled] | None:
        """Return what :meth:`search` would, on any thread and without I/O; ``None``: call that on the event loop.

        Raises:
            InvalidInputError: As there.
        """
        _check(query, owner, limit=limit)
        if wanted != EVERY or limit > _SEARCHED_AT_ONCE:
            return None
        prepared = self._search.try_prepare(owner.partition, lambda: self._search.parse(query))
        if prepared is None:
            return None
        ranking = prepared.rank(prefixes=recalled_namespaces(owner.label), limit=limit)
        places = range(len(ranking.hits))
        memories = ranking.memories(places)
        if len(memories) < len(places):
            return None
        recalled = _recalled(ranking, places, [memories[place] for place in places], EVERY)
        self._note_use(recalled, owner)
        return recalled

    async def search(
        self, query: str, *, owner: Owner, wanted: MemoryFilter = EVERY, limit: int = 10
    ) -> list[Recalled]:
        """Return the owner's *limit* memories most like *query* among those *wanted*, best first.

        Raises:
            InvalidInputError: *query* is not a string, or *limit* is negative.
            StorageError: The storage cannot be used.
        """
        _check(query, owner, limit=limit)
        most = limit if wanted == EVERY else None
        ranking = await self._search.ranking(
            owner.partition, query, prefixes=recalled_namespaces(owner.label), limit=most
        )
        recalled: list[Recalled] = []
        size = max(limit, 1) if wanted == EVERY else max(limit, _CHUNK)
        for start in range(0, len(ranking.hits), size):
            places = range(len(ranking.hits))[start : start + size]
            recalled += _recalled(
                ranking, places, await self._search.memories(owner.partition, ranking, places), wanted
            )
            if len(recalled) >= limit:
                break
        self._note_use(recalled[:limit], owner)
        return recalled[:limit]

    async def _filled(self, request: RecallRequest, progress: _Progress) -> ContextPacker:
        """Prepare, rank and select."""
        if not request.question.strip():
            newest = await self._memories.newest(owner=request.owner, limit=CONSIDERED)
            block, stored = _block(request, None), self._stored(request, request.owner)
            progress.select = lambda: pack_newest(block, newest, stored)
            for _ in range(_LOOKUPS):
                packer = progress.select()
                if stored.complete:
                    return packer
                await self._look_up_branches(request, stored)
            return progress.select()
        query, searched = request.query(self._search.parse), list[_Searched]()
        block = _block(request, query)

        def packed() -> ContextPacker:
            return pack(block, [one.found(query) for one in searched], now=self._clock.now())

        progress.select = packed
        for owner in (request.owner, *request.read_scopes):
            scope = _scope(request, owner)
            prepared = await self._search.prepare(
                owner.partition,
                query,
                prefixes=scope["prefixes"],
                limit=scope["limit"],
                embed_seconds=_EMBEDDING_SHARE * request.seconds,
            )
            ranking = await self._search.rank(owner.partition, prepared, **scope)
            progress.degraded.extend(part for part in ranking.degraded if part not in progress.degraded)
            searched.append(_Searched(owner, ranking, self._stored(request, owner)))
            if self._profile is not None and owner is request.owner:
                searched[-1].profile = await self._profile.select(request.question, prepared, owner)
        for one in searched if self._reranker is not None else ():
            best = await self._complete(request, [one], lambda one=one: one.best(query), progress)
            one.first = await self._reranked(request, one, best, progress)
        return await self._complete(request, searched, packed, progress)

    async def _complete(
        self, request: RecallRequest, searched: Sequence[_Searched], select: Callable[[], T], progress: _Progress
    ) -> T:
        """Return what *select* returns once it needs nothing more."""
        selected = select()
        for _ in range(_LOOKUPS):
            if not (incomplete := [one for one in searched if not one.stored.complete]):
                break
            for one in incomplete:
                await self._look_up(one)
                await self._look_up_branches(request, one.stored)
            await self._read([one.stored for one in searched], progress)
            selected = select()
        return selected

    async def _look_up(self, searched: _Searched) -> None:
        stored = searched.stored
        if stored.missing:
            memories = await self._search.memories(searched.owner.partition, searched.ranking, stored.missing)
            stored.memories.update(zip(stored.missing, memories, strict=True))
            stored.missing = []

    async def _read(self, stored: Sequence[StoredFacts], progress: _Progress) -> None:
        """Let models read what they must; one that fails or is late is counted as degraded, and is left out of all."""
        unread = [pair for one in stored for pair in one.unread]
        for one in stored:
            one.unread = []
        for model in dict.fromkeys(model for model, _ in unread):
            try:
                async with asyncio.timeout(progress.share_of_time()):
                    await model.weigh([pair for by, pair in unread if by is model])
            except (TimeoutError, EmbedderUnavailableError) as error:
                self._telemetry.degraded(model.name, error)
                for one in stored:
                    setattr(one, model.name, None)

    async def _look_up_branches(self, request: RecallRequest, stored: StoredFacts) -> None:
        if stored.undecided and self._branches is not None and request.thread_id is not None:
            elsewhere = await self._branches.learnt_on_other_branches(
                stored.undecided, request.messages, owner=request.owner, thread_id=request.thread_id
            )
            decided = {memory.memory_id: memory.memory_id in elsewhere for memory in stored.undecided}
            stored.other_branch.update(decided)
            stored.undecided = []

    async def _reranked(
        self, request: RecallRequest, searched: _Searched, places: list[int], progress: _Progress
    ) -> list[int]:
        """Return *places* in the reranker's order, or as they are if it fails or is late."""
        reranker, ranking = self._reranker, searched.ranking
        if reranker is None or not places:
            return places
        memories = await self._search.memories(searched.owner.partition, ranking, places)
        texts = [memory.text if memory is not None else "" for memory in memories]
        if getattr(reranker, "reads_neighbours", False):
            texts = [between_neighbours(ranking, place, memory) for place, memory in zip(places, memories, strict=True)]
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(min(self._rerank_seconds, progress.share_of_time())):
                scores = await reranker.scores(request.question, texts)
        except (TimeoutError, RerankerUnavailableError) as error:
            progress.degraded.append(RERANKER)
            self._telemetry.degraded(RERANKER, error)
            return places
        self._telemetry.measure("recall.reranking", loop.time() - began)
        self._telemetry.count("recall.reranked")
        # A stable sort: candidates with equal scores stay in their order.
        return [places[number] for number in sorted(range(len(places)), key=lambda number: -scores[number])]

    def _rendered(self, packer: ContextPacker, request: RecallRequest, degraded: Sequence[str]) -> Recall:
        recalled = tuple(packer.chosen)
        self._note_use(recalled, request.owner, shared=bool(request.read_scopes))
        text = to_block(packer.lines)
        self._telemetry.count("recall.turns")
        return Recall(recalled, text, tuple(degraded), estimate_tokens(text), tuple(packer.left_out))

    def _note_use(self, recalled: Sequence[Recalled], owner: Owner, *, shared: bool = False) -> None:
        if self._uses is None or not recalled:
            return
        used: dict[Owner, list[MemoryId]] = {}
        for each in recalled:
            used.setdefault(_owner_of(each, owner) if shared else owner, []).append(each.memory.memory_id)
        for one, memory_ids in used.items():
            self._uses.note(one, memory_ids)

    def _knows(self, scopes: Sequence[Owner]) -> bool:
        return self._scopes is not None and self._scopes().knows(scopes)

    def _stored(self, request: RecallRequest, owner: Owner) -> StoredFacts:
        branches, thread_id = self._branches, request.thread_id
        changes, needs = self._pair_models
        if branches is None or thread_id is None or not request.messages or owner is not request.owner:
            return StoredFacts(changes=changes, needs=needs)
        is_doubtful = partial(branches.is_doubtful, shown=request.shown, thread_id=thread_id)
        return StoredFacts(is_doubtful=is_doubtful, changes=changes, needs=needs)


@dataclass(slots=True)
class _Progress:
    """How far a recall has come.

    Attributes:
        select: Selects from what is known so far.
        until: The loop's time at which the recall times out.
        degraded: The parts that were missing.
    """

    select: Callable[[], ContextPacker]
    until: float
    degraded: list[str] = field(default_factory=list[str])

    def share_of_time(self) -> float:
        """Return how many seconds a model may take of what is left."""
        return _SHARE_OF_TIME * (self.until - asyncio.get_running_loop().time())


@dataclass(slots=True)
class _Searched:
    """What the search of one partition found.

    Attributes:
        owner: Of the partition.
        ranking: What was found.
        stored: What is known of it from the storage.
        first: The places of the best hits in the reranker's order; empty: it was not asked.
        profile: What is offered before them.
    """

    owner: Owner
    ranking: Ranking
    stored: StoredFacts
    first: list[int] = field(default_factory=list[int])
    profile: Sequence[Recalled] = ()

    def best(self, query: Query) -> list[int]:
        """Return the places of the candidates to rerank."""
        return list(islice(find_candidates(query, self.ranking, self.stored).places, _RERANKED))

    def found(self, query: Query) -> Found:
        """Return the candidates, in the reranker's order if it was asked."""
        candidates = find_candidates(query, self.ranking, self.stored)
        if self.first:
            rest = islice(candidates.places, len(self.first), None)
            candidates = CandidatePlaces(chain(self.first, rest), candidates.answers)
        return Found(self.ranking, candidates, self.stored, self.profile)


class _Scope(TypedDict):
    prefixes: Sequence[Namespace]
    limit: int
    threads: Sequence[str]
    compared: int


def _owner_of(recalled: Recalled, owner: Owner) -> Owner:
    """Return the owner of *recalled*: the *owner* of the turn, or a shared scope."""
    return scope_in(recalled.memory.namespace) or owner


def _scope(request: RecallRequest, owner: Owner) -> _Scope:
    threads = () if request.thread_id is None else (request.thread_id,)
    prefixes = recalled_namespaces(owner.label)
    return {"prefixes": prefixes, "limit": CONSIDERED, "threads": threads, "compared": COMPARED}


def _block(request: RecallRequest, query: Query | None) -> BlockRequest:
    return BlockRequest(
        query or _NO_QUERY,
        request.thread_id,
        request.shown,
        request.budget_tokens,
        request.max_facts,
        request.max_episodes,
    )


def _recalled(
    ranking: Ranking, places: Sequence[int], memories: Sequence[Memory | None], wanted: MemoryFilter
) -> list[Recalled]:
    """Return those of *memories*, at these *places*, that are *wanted*."""
    return [
        Recalled(memory, score)
        for score, memory in zip(ranking.hits.scores(places), memories, strict=True)
        if memory is not None and (wanted is EVERY or wanted.matches(memory))
    ]


_NO_QUERY: Final = Query("", ())


def _check(question: object, owner: object, *, limit: int = 0) -> None:
    if owner is None:
        msg = "owner is required: pass owner=… or set user_id in the run's config."
        raise OwnerRequiredError(msg)
    if not isinstance(owner, Owner):
        msg = f"owner must be an Owner, got {type(owner).__name__}."
        raise InvalidInputError(msg)
    if not isinstance(question, str):
        msg = f"question must be a string, got {type(question).__name__}."
        raise InvalidInputError(msg)
    if limit < 0:
        msg = f"limit must be 0 or more, got {limit}."
        raise InvalidInputError(msg)
