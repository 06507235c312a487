"""What ours is compared with beside the baselines: LangGraph's stores, mem0, no memory, everything in context."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from threadkeep.errors import InvalidInputError, SettingsError
from threadkeep_evals.methods import SEARCH_LIMIT, Answer, Method, RecordingEmbedder
from threadkeep_evals.peer_process import ENVIRONMENTS, Worker, worker

if TYPE_CHECKING:
    from threadkeep.event_loop import EventLoopThread
    from threadkeep_evals.conversation import Conversation

NO_MEMORY: Final = "no-memory"
EVERYTHING: Final = "everything"
_IN_MEMORY: Final = "langgraph-memory"
_POSTGRES: Final = "langgraph-postgres"

PEERS: Final = (_IN_MEMORY, "langgraph-sqlite", _POSTGRES, "mem0", NO_MEMORY, EVERYTHING)
"""What can be asked for, in the order of the tables."""

ALL_PEERS: Final = "all"
_SAID_OF_ERROR: Final = 200


@dataclass(frozen=True, slots=True)
class NotRun:
    """A peer that was asked for and could not be had.

    Attributes:
        peer: Its name.
        why: For people.
    """

    peer: str
    why: str

    @classmethod
    def of(cls, peer: str, error: Exception) -> NotRun:
        """Say that *peer* failed with *error*."""
        said = " ".join(str(error).split())[:_SAID_OF_ERROR]
        return cls(peer, f"it failed ({type(error).__name__}{': ' if said else ''}{said})")

    def as_json(self) -> dict[str, str]:
        """Return it as the command line prints it."""
        return asdict(self)


SEARCHING: Final = tuple(name for name in PEERS if name not in {NO_MEMORY, EVERYTHING})
"""Those of them that search."""


def environments_folder() -> Path:
    """Return where environments of peers are kept: in the user's cache."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("threadkeep", appauthor=False)) / "peers"


def chosen_peers(names: Sequence[str]) -> tuple[str, ...]:
    """Return the peers that *names* ask for, each once.

    Raises:
        InvalidInputError: There is no such peer.
    """
    if unknown := [name for name in names if name not in (*PEERS, ALL_PEERS)]:
        msg = f"--peers is {unknown[0][:40]!r}; give {', '.join(PEERS)} or {ALL_PEERS}."
        raise InvalidInputError(msg)
    return tuple(name for name in PEERS if name in names or ALL_PEERS in names)


class WithoutRanking:
    """Two methods without search: a model that reads nothing, and one that reads everything."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def learn(self, conversation: Conversation) -> None:
        """Keep nothing: what everything is, the block says."""

    async def answer(self, question: str) -> Answer:  # noqa: ARG002 - whatever it is
        """Return nothing, or no order at all."""
        return Answer(None if self.name == EVERYTHING else (), (), 0.0)


class SearchingMethod(ABC):
    """A peer that stores texts and searches them by the vectors of the embedder that ours uses.

    Args:
        name: Of the peer.
        embedder: Tells what embedding a question takes, which the peer's own figure does not hold.
        event_loop: Where the embedder runs.
    """

    def __init__(self, name: str, embedder: RecordingEmbedder, event_loop: EventLoopThread) -> None:
        self.name = name
        self._embedder = embedder
        self._event_loop = event_loop
        self._size = 0
        self._conversation: Conversation | None = None

    @abstractmethod
    async def store(self, owner: str, texts: Mapping[str, str]) -> None:
        """Store *texts*, by key, as *owner*'s, of whom the searches that follow are."""

    @abstractmethod
    async def search(self, question: str, limit: int) -> tuple[list[str], float]:
        """Return the keys of what is found, best first, and the milliseconds without those of the vectors."""

    async def learn(self, conversation: Conversation) -> None:
        """Store the turns with date, speaker and caption, as the dense baseline reads them."""
        self._conversation = conversation
        self._size = len(conversation.turns)
        owner = conversation.conversation_id.replace(".", "_")
        await self.store(owner, {turn.turn_id: turn.dated for turn in conversation.turns})

    async def answer(self, question: str) -> Answer:
        """Search for what is timed, and once more as deep as there is."""
        if self._conversation is not None:
            question = self._conversation.without_names(question)
        _, embedding_ms = await self._event_loop.run(self._embedder.question(question))
        found, milliseconds = await self.search(question, SEARCH_LIMIT)
        deep, _ = await self.search(question, self._size)
        return Answer(found, deep, embedding_ms + milliseconds)


class StoreMethod(SearchingMethod):
    """A LangGraph store in this process; see :class:`SearchingMethod`.

    Args:
        name: Of the peer.
        store: Opened, with an index.
        embedder: As there.
        event_loop: As there.
    """

    def __init__(self, name: str, store: Any, embedder: RecordingEmbedder, event_loop: EventLoopThread) -> None:
        super().__init__(name, embedder, event_loop)
        self._store = store
        self._namespace: tuple[str, ...] = ()

    async def store(self, owner: str, texts: Mapping[str, str]) -> None:
        """Store *texts*, by key, in one batch; the same text again in the next one.

        ``InMemoryStore`` embeds each text of a batch once and then misses the vectors of its repetitions.
        """
        from langgraph.store.base import PutOp

        self._namespace = (owner,)
        seen: Counter[str] = Counter()
        batches: dict[int, list[PutOp]] = {}
        for key, text in texts.items():
            batches.setdefault(seen[text], []).append(PutOp(self._namespace, key, {"text": text}))
            seen[text] += 1
        for batch in batches.values():
            await self._store.abatch(batch)

    async def search(self, question: str, limit: int) -> tuple[list[str], float]:
        """Search as an application would."""
        started = perf_counter()
        found = await self._store.asearch(self._namespace, query=question, limit=limit)
        return [one.key for one in found], (perf_counter() - started) * 1000


class WorkerMethod(SearchingMethod):
    """A peer in a process of its own; see :class:`SearchingMethod`."""

    def __init__(self, name: str, peer: Worker, embedder: RecordingEmbedder, event_loop: EventLoopThread) -> None:
        super().__init__(name, embedder, event_loop)
        self._peer = peer
        self._owner = ""

    async def store(self, owner: str, texts: Mapping[str, str]) -> None:
        """Have *texts* stored, by key."""
        self._owner = owner
        await self._event_loop.run(self._embedder.embed(list(texts.values())))
        await self._peer.call("learn", owner=owner, ids=list(texts), texts=list(texts.values()))

    async def search(self, question: str, limit: int) -> tuple[list[str], float]:
        """Have it search; what the pipe takes is not in the milliseconds."""
        return await self._peer.call("search", owner=self._owner, question=question, limit=limit)


async def open_peers(
    names: Sequence[str],
    embedder: RecordingEmbedder | None,
    event_loop: EventLoopThread,
    folder: Path,
    running: AsyncExitStack,
) -> tuple[list[Method], list[NotRun]]:
    """Open the peers *names*, in order, and say of the others why they could not be had.

    Args:
        names: Of :data:`PEERS`.
        embedder: Its vectors are compared; None: only peers without vectors run.
        event_loop: Where the embedder runs.
        folder: Where environments of peers are kept.
        running: Closes them.
    """
    methods: list[Method] = []
    missing: list[NotRun] = []
    for name in names:
        if name in {NO_MEMORY, EVERYTHING}:
            methods.append(WithoutRanking(name))
        elif embedder is None:
            missing.append(NotRun(name, "it compares vectors, and nothing embeds here"))
        else:
            try:
                methods.append(await _opened(name, embedder, event_loop, folder, running))
            except SettingsError as error:
                missing.append(NotRun(name, str(error)))
            except Exception as error:  # noqa: BLE001 - whatever a peer's own code raises, the others are measured
                missing.append(NotRun.of(name, error))
    return methods, missing


async def _opened(
    name: str, embedder: RecordingEmbedder, event_loop: EventLoopThread, folder: Path, running: AsyncExitStack
) -> Method:
    dims = len((await event_loop.run(embedder.embed(["How long is a vector?"])))[0])

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        # A question is known by then; the peer does not pay for the way to our loop.
        vectors = embedder.embed(texts)
        return (await (vectors if embedder.knows(texts) else event_loop.run(vectors))).tolist()

    index: Any = {"dims": dims, "embed": embed, "fields": ["text"]}
    if name == _IN_MEMORY:
        from langgraph.store.memory import InMemoryStore

        return StoreMethod(name, InMemoryStore(index=index), embedder, event_loop)
    if name == _POSTGRES:
        return StoreMethod(name, await _postgres(index, running), embedder, event_loop)
    peer = worker(ENVIRONMENTS[name], folder, dims=dims, vectors=lambda texts: event_loop.run(embedder.embed(texts)))
    return WorkerMethod(name, await running.enter_async_context(peer), embedder, event_loop)


async def _postgres(index: Any, running: AsyncExitStack) -> Any:
    """Open LangGraph's store on a PostgreSQL that is started for it.

    Raises:
        SettingsError: The packages that the server is started from are not installed.
    """
    from threadkeep_evals.rig import start_server

    on_server = running.enter_context(ExitStack())
    url = start_server("PostgresServer", on_server)
    from langgraph.store.postgres import AsyncPostgresStore

    store = await running.enter_async_context(AsyncPostgresStore.from_conn_string(url, index=index))
    await store.setup()
    return store
