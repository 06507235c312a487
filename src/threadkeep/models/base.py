"""The interfaces of embedding and reranking models, and the messages that a chat model reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from threadkeep.ids import MessageId
    from threadkeep.models.pairs import PairModel

EMBEDDER: Final = "embedder"
"""What ``degraded`` says of results without vectors: the embedder is missing, failed or took too long."""

LOCAL_NAME: Final = "minilm-l6-v2-int8@3"
"""The name of the local model."""

Role: TypeAlias = Literal["user", "agent", "assistant", "tool", "system"]

INPUT_ROLES: Final[frozenset[Role]] = frozenset({"user", "agent"})
"""The roles that ask an agent for a turn: a person, or another agent on their behalf."""

SPEAKER_KEY: Final = "threadkeep_speaker"
"""The additional argument of a human message that names another speaker: ``agent``."""

WITHOUT_MEMORY_KEY: Final = "threadkeep_without_memory"
"""The additional argument of a thread's message that marks its turn as one without memory."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a thread.

    Attributes:
        role: Who wrote it. ``user`` only for what a person wrote in the turn's own input; ``agent`` for what another
            agent asks over A2A; summaries and sub-agents' tasks are ``system``, whatever class carries them.
        text: Its text blocks: those of one sentence as a sentence, others with line breaks between them.
        message_id: As the framework knows it, if it does.
        memory: Whether the thread does not mark it as one of a turn without memory.
    """

    role: Role
    text: str
    message_id: MessageId | None = None
    memory: bool = True


@runtime_checkable
class HasMessageIds(Protocol):
    """Messages that are made as they are read; their ids are known before."""

    def message_ids(self) -> frozenset[MessageId]:
        """Return the ids of those that have one."""
        ...


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a model asked for.

    Attributes:
        call_id: Names the call; the result names it, too.
        name: Of the tool.
        arguments: As the model wrote them.
    """

    call_id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WorkStep:
    """A message of a thread, as far as the work with tools is concerned.

    Attributes:
        role: Who wrote it.
        text: Its text, of a user's message only.
        message_id: As the framework knows it, if it does.
        calls: The calls that it asks for.
        answers: The id of the call that it is the result of.
        failed: Whether that result is an error.
    """

    role: Role
    text: str
    message_id: MessageId | None = None
    calls: tuple[ToolCall, ...] = ()
    answers: str | None = None
    failed: bool = False


@runtime_checkable
class UsesConnections(Protocol):
    """An extractor, reranker or embedder that holds connections; ``tk.close()`` closes them."""

    async def aclose(self) -> None:
        """Close the connections. Runs in Threadkeep's event loop."""
        ...


class Reranker(Protocol):
    """Compares a question with texts one by one: slower than vectors, and closer."""

    @property
    def name(self) -> str:
        """Provider and model."""
        ...

    @property
    def remote(self) -> bool:
        """Whether texts leave this machine."""
        ...

    async def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return one number for each of *texts*, higher for what answers *question* better.

        Raises:
            RerankerUnavailableError: It could not be loaded, or did not give an answer.
        """
        ...


class Embedder(Protocol):
    """Turns texts into unit vectors. Loading happens at :meth:`ready` or the first :meth:`embed`."""

    @property
    def name(self) -> str:
        """Provider, model and version; vectors of different names are never compared."""
        ...

    @property
    def dims(self) -> int | None:
        """Length of a vector; ``None`` until the first one is seen."""
        ...

    @property
    def remote(self) -> bool:
        """Whether texts leave this machine."""
        ...

    async def ready(self) -> None:
        """Load the model. Raises ``EmbedderUnavailableError`` saying what is missing."""
        ...

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return an array of shape ``(len(texts), dims)``, rows of unit length, in the order given.

        Any text is taken: empty, very long (cut at the model's limit), NUL, lone surrogates. Runs
        the model in a worker thread.

        Raises:
            EmbedderUnavailableError: The model could not be loaded or did not answer.
        """
        ...


@runtime_checkable
class QueryEmbedder(Protocol):
    """An embedder that was trained with another prefix for questions than for texts."""

    async def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return what :meth:`Embedder.embed` would, for questions."""
        ...


@runtime_checkable
class ImmediateEmbedder(Protocol):
    """An embedder that can embed on the calling thread."""

    def embed_now(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """Return what :meth:`Embedder.embed` would, on any thread and without I/O; ``None``: use that instead.

        It takes some milliseconds at most: the vectors are cached, or the model is loaded and the texts are short.
        """
        ...


def replied_to(messages: Sequence[Message], start: int, own: Collection[str] = ()) -> list[Message]:
    """Leave out inputs before *start* without a reply: another user's attempt that was refused leaves one there.

    *own* are the ids of those that are the user's all the same.
    """
    after = [*messages[1:], None]
    return [
        one
        for place, (one, then) in enumerate(zip(messages, after, strict=True))
        if place >= start or one.role != "user" or then is None or then.role != "user" or one.message_id in own
    ]


class StatementPair(NamedTuple):
    """Two statements of a person."""

    newer: str
    older: str


class NeedPair(NamedTuple):
    """A person's request, and a statement of theirs that it may need."""

    request: str
    statement: str


class PairModels(NamedTuple):
    """The models that read two texts at once, as far as they are there.

    Attributes:
        changes: Reads a newer statement and an older one, and weighs whether the newer makes the older untrue.
        needs: Reads a request and a statement, and weighs whether the request needs the statement.
    """

    changes: PairModel | None = None
    needs: PairModel | None = None
