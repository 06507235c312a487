"""Every provider through LangChain: chat models, embedders, and their messages as our own.

What a provider says when it fails may quote a key, so neither its words nor itself go on: our errors name the type,
the status and the variable that is missing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast, overload
from urllib.parse import urlsplit

import numpy as np
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables.config import var_child_runnable_config
from pydantic import SecretStr

from threadkeep.errors import EmbedderUnavailableError, InvalidInputError, ModelUnavailableError, SettingsError
from threadkeep.ids import MessageId
from threadkeep.models.base import (
    INPUT_ROLES,
    SPEAKER_KEY,
    WITHOUT_MEMORY_KEY,
    Message,
    Role,
    ToolCall,
    WorkStep,
)
from threadkeep.models.embedding import VectorCache
from threadkeep.run_events import is_memory_off
from threadkeep.text.parts import join_parts
from threadkeep.text.quoted import quoted_statements

if TYPE_CHECKING:
    from numpy.typing import NDArray

KNOWN_DIMS: Final = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
"""Lengths of OpenAI's vectors, so that they are known before the first one is seen."""

_FIXED_DIMS: Final = frozenset({"text-embedding-ada-002"})
"""OpenAI's models that cannot shorten their vectors."""

MAX_CHARACTERS: Final = 24_000
"""What is sent of a text: about 6,000 tokens of prose, under every provider's limit."""

MAX_BYTES: Final = 20_000
"""The same for a text that is not ASCII, which takes up to one token for three bytes."""

EMPTY: Final = "(empty)"
"""Sent in place of a text with nothing in it, which providers refuse."""

NO_MODEL: Final = (
    "No model is configured, so I can only quote. Set THREADKEEP_MODEL=provider:name, "
    "for example THREADKEEP_MODEL=openai:gpt-5-mini, to get real answers."
)

_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|TOKEN|CREDENTIALS|PROJECT|ENDPOINT)\b")
_PACKAGE: Final = re.compile(r"pip install [`'\"]?([A-Za-z][\w.-]*)")
_PROVIDER: Final = re.compile(r"[a-z][a-z_-]{1,30}")
_PIECES: Final = re.compile(r"\s*\S+|\s+\Z")


def chat_model(name: str | None, *, variable: str = "THREADKEEP_MODEL") -> BaseChatModel:
    """Return the chat model ``"provider:name"``; for ``None`` the stand-in that needs no key.

    Args:
        name: Provider and model.
        variable: The setting that names it; an error names the setting.

    Raises:
        ModelUnavailableError: The provider is unknown, or its package or key is missing; the message says which.
    """
    if name is None:
        return OfflineChatModel()
    provider, colon, model = name.partition(":")
    if not colon or not model.strip() or not _PROVIDER.fullmatch(provider):
        msg = f"A chat model is given as provider:name, for example {variable}=openai:gpt-5-mini."
        raise ModelUnavailableError(msg)
    from langchain.chat_models import init_chat_model

    try:
        made = init_chat_model(model, model_provider=provider)
    except Exception as error:  # noqa: BLE001 - every provider has its own; what it says may quote a key
        raise ModelUnavailableError(_describe_missing(provider, error, variable)) from None
    if unset := _unset_secret(made):
        msg = f"The model provider {provider} needs {unset}; set it, or choose another model by {variable}."
        raise ModelUnavailableError(msg)
    return made


class OfflineChatModel(BaseChatModel):
    """Replies with the memories that it was given and says that no model is configured; no key, no network.

    It reads what recall rendered into the newest human message or a system message, and ignores tools.
    """

    any_event_loop: ClassVar[bool] = True
    notice: str = NO_MODEL
    """Ends each reply; empty: the application has said already that no model is configured."""

    @property
    def _llm_type(self) -> str:
        return "threadkeep-offline"

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any) -> Any:
        """Return this model: it calls no tools."""
        del tools, tool_choice, kwargs
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del stop, run_manager, kwargs
        return ChatResult(generations=[ChatGeneration(message=AIMessage(offline_reply(messages, notice=self.notice)))])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del run_manager
        return self._generate(messages, stop, **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        del stop, kwargs
        for piece in _PIECES.findall(offline_reply(messages, notice=self.notice)):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
            if run_manager:
                run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(messages, stop, **kwargs):
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


def offline_reply(messages: Sequence[BaseMessage], *, notice: str = NO_MODEL) -> str:
    """Return what the stand-in says to *messages*: the memories in them, quoted, and then *notice*."""
    position, _, _ = PlainMessages(messages).newest_human
    places = [one for place, one in enumerate(messages) if one.type == "system" or place == position]
    statements = dict.fromkeys(each for message in places for each in quoted_statements(_text_of(message.content)))
    if not statements:
        return f"I know nothing about it yet.\n\n{notice}".rstrip()
    quotes = "\n".join(f"- “{statement}”" for statement in statements)
    return f"This is what I remember that may matter here:\n{quotes}\n\n{notice}".rstrip()


class LangChainEmbedder:
    """Any LangChain ``Embeddings`` behind our port; see ``models.port.Embedder``.

    Recent questions are kept, so that the same one is paid for once.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        *,
        name: str | None = None,
        dims: int | None = None,
        remote: bool = True,
        timeout: timedelta = timedelta(seconds=30),
        shared: bool = True,
    ) -> None:
        """Store what is given; nothing is called.

        Args:
            embeddings: The provider's model.
            name: ``"provider:model"``; by default told from the class and its ``model``.
            dims: Length of a vector, where it is known; another length is an error.
            remote: Whether texts leave this machine.
            timeout: How long one call may take.
            shared: Whether the application may use *embeddings*, too. Its asynchronous client then belongs to the
                application's event loop, and is not used here.
        """
        self.embeddings = embeddings
        if getattr(embeddings, "check_embedding_ctx_length", False):
            # Counting tokens would download a vocabulary; texts are cut before they are sent.
            embeddings = cast("Any", embeddings).model_copy(update={"check_embedding_ctx_length": False})
        self._in_thread = shared and getattr(embeddings, "async_client", None) is not None
        model, asked = _model_of(embeddings), _asked_dims(embeddings)
        told = f"{_provider_of(embeddings)}:{model or type(embeddings).__name__}"
        self.name: str = name or (f"{told}@{asked}" if asked else told)
        self.dims: int | None = dims or asked or KNOWN_DIMS.get(model)
        self.remote: bool = remote
        self._embeddings = embeddings
        self._timeout = timeout
        self._cache = VectorCache(max_bytes=8 * 1024 * 1024)

    async def ready(self) -> None:
        """Embed one word, which shows that the provider answers and learns the length of its vectors.

        Raises:
            EmbedderUnavailableError: It does not answer.
        """
        await self.embed(["ready"])

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the provider's vectors at unit length, shape ``(len(texts), dims)``; a zero vector stays zero.

        Raises:
            EmbedderUnavailableError: The provider failed, took too long, or gave something else than vectors.
        """
        if not texts:
            return np.zeros((0, self.dims or 0), dtype=np.float32)
        return await self._cache.embed([_sendable(text) for text in texts], self._unit_vectors)

    def embed_now(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """See :meth:`threadkeep.models.base.ImmediateEmbedder.embed_now`."""
        return self._cache.get_all([_sendable(text) for text in texts])

    async def _unit_vectors(self, texts: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        try:
            async with asyncio.timeout(self._timeout.total_seconds()):
                if self._in_thread:
                    rows = await asyncio.to_thread(self._embeddings.embed_documents, list(texts))
                else:
                    rows = await self._embeddings.aembed_documents(list(texts))
            vectors = np.asarray(rows, dtype=np.float32)
        except TimeoutError:
            seconds = f"{self._timeout.total_seconds():g} seconds"
            msg = f"The embedder {self.name}{_at_host(self._embeddings)} did not answer within {seconds}."
            raise EmbedderUnavailableError(msg) from None
        except Exception as error:  # noqa: BLE001 - every provider has its own; what it says may quote a key
            msg = f"The embedder {self.name}{_at_host(self._embeddings)} failed ({_kind(error)})."
            raise EmbedderUnavailableError(msg) from None
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():  # noqa: PLR2004 - a matrix
            msg = f"The embedder {self.name} did not give one vector of numbers for each text."
            raise EmbedderUnavailableError(msg)
        if self.dims not in (None, vectors.shape[1]):
            msg = f"The embedder {self.name} gives vectors of {vectors.shape[1]} numbers; {self.dims} were expected."
            raise EmbedderUnavailableError(msg)
        self.dims = vectors.shape[1]
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return list(vectors / np.where(lengths > 0, lengths, 1))


def embedder(
    provider: str,
    model: str,
    dims: int | None = None,
    *,
    variable: str = "EMBEDDINGS_PROVIDER",
    dims_variable: str = "LANGGRAPH_STORE_EMBEDDINGS_DIMS",
) -> LangChainEmbedder:
    """Return the embedder of a provider, by LangChain's ``init_embeddings``.

    Args:
        provider: As LangChain spells it: ``openai``, ``cohere``, ``ollama`` …
        model: The provider's name for it.
        dims: Length of a vector; ``None``: known or learnt. OpenAI's newer models are asked for that length.
        variable: The setting that says the provider; an error names it.
        dims_variable: The setting that says *dims*; an error names it.

    Raises:
        SettingsError: The provider is unknown, its package or key is missing, or the model has another length of
            vectors; the message says which.
    """
    known = KNOWN_DIMS.get(model)
    if dims is not None and known is not None and (dims > known or (dims != known and model in _FIXED_DIMS)):
        msg = f"{dims_variable} is {dims}, and {model} gives {known} numbers; leave it unset."
        raise SettingsError(msg, variable=dims_variable)
    from langchain.embeddings import init_embeddings

    shortened = dims is not None and provider.endswith("openai") and dims != KNOWN_DIMS.get(model)
    try:
        made = init_embeddings(model, provider=provider, **({"dimensions": dims} if shortened else {}))
    except Exception as error:  # noqa: BLE001 - every provider has its own; what it says may quote a key
        raise SettingsError(_describe_missing(provider, error, variable), variable=variable) from None
    return LangChainEmbedder(
        made,
        name=f"{provider}:{model}" + (f"@{dims}" if shortened else ""),
        dims=dims,
        shared=False,
    )


class PlainMessages(Sequence[Message]):
    """Messages (LangChain's, or dicts, tuples and texts that stand for them) as our own, each made once, as it is read.

    Of a long thread a turn is about the last few. Removals are left out, and so is whatever in a message is no text.
    What carries ``lc_source`` was written by no person, whatever its class says: it is ``system``. So is a person's
    message with a name where other ones have none: agents hand on what others said in this way.

    Raises:
        InvalidInputError: Something in *messages* is no message.
    """

    def __init__(self, messages: Sequence[Any]) -> None:
        self._given: list[BaseMessage] = []
        for given in _listed(messages):
            message = given if isinstance(given, BaseMessage) else _converted(given)
            if not isinstance(message, RemoveMessage):
                self._given.append(message)
        self._made: list[Message | None] = [None] * len(self._given)

    def __len__(self) -> int:
        return len(self._given)

    @property
    def given(self) -> Sequence[BaseMessage]:
        """The messages as LangChain's, in the same places."""
        return self._given

    def message_ids(self) -> frozenset[MessageId]:
        """Return the ids of those that have one."""
        return frozenset([MessageId(message.id) for message in self._given if message.id])

    def given_for(self, some: Sequence[Message]) -> list[BaseMessage]:
        """Return *some* of these messages, as this sequence returned them, as LangChain's."""
        wanted = set(map(id, some))
        return [given for given, made in zip(self._given, self._made, strict=True) if id(made) in wanted]

    @overload
    def __getitem__(self, place: int) -> Message: ...
    @overload
    def __getitem__(self, place: slice) -> list[Message]: ...
    def __getitem__(self, place: int | slice) -> Message | list[Message]:
        """Return one message, or some of them."""
        if isinstance(place, slice):
            return [self._made[number] or self._make(number) for number in range(len(self._given))[place]]
        return self._made[place] or self._make(place)

    @cached_property
    def newest_human(self) -> tuple[int, MessageId | None, str]:
        """Position, id and text of the newest message that asks for a turn; ``(-1, None, "")`` without one."""
        for position in range(len(self._given) - 1, -1, -1):
            if (plain := self[position]).role in INPUT_ROLES:
                return position, plain.message_id, plain.text
        return -1, None, ""

    def input_start(self, given: int) -> int:
        """Return the place of the first of the *given* newest messages of the user; those behind it are its, too."""
        newest = start = self.newest_human[0]
        while start > 0 and newest - start + 1 < given and self[start - 1].role == "user":
            start -= 1
        return start

    @cached_property
    def _has_unnamed_user(self) -> bool:
        return any(not message.name and _role_of(message) == "user" for message in self._given)

    def _make(self, place: int) -> Message:
        message = self._given[place]
        role = _role_of(message)
        if role == "user" and message.name and self._has_unnamed_user:
            role = "system"
        # A file that is uploaded with a question is often a block of its own: a paragraph, and the question is another.
        text = _text_of(message.content, between="\n\n" if role in INPUT_ROLES else "\n")
        memory = not message.additional_kwargs or WITHOUT_MEMORY_KEY not in message.additional_kwargs
        made = self._made[place] = Message(role, text, MessageId(message.id) if message.id else None, memory)
        return made


def plain_messages(messages: Sequence[Any]) -> list[Message]:
    """Return *messages* as our own, all of them; see :class:`PlainMessages`.

    Raises:
        InvalidInputError: Something in it is no message.
    """
    return PlainMessages(messages)[:]


def is_run_without_memory() -> bool:
    """Return whether the caller is in a run of a graph with ``memory=False`` in its config."""
    return is_memory_off(var_child_runnable_config.get() or {})


def work_steps(messages: Sequence[Any]) -> list[WorkStep]:
    """Return *messages* with their calls of tools, and which of these failed. Only users' messages have their text.

    Raises:
        InvalidInputError: Something in *messages* is no message.
    """
    steps: list[WorkStep] = []
    plain = PlainMessages(messages)
    for message, given in zip(plain.given, plain, strict=True):
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        steps.append(
            WorkStep(
                given.role,
                given.text if given.role == "user" else "",
                given.message_id,
                tuple(ToolCall(call["id"] or "", call["name"], call["args"]) for call in calls),
                message.tool_call_id if isinstance(message, ToolMessage) else None,
                isinstance(message, ToolMessage) and message.status == "error",
            )
        )
    return steps


def messages_by_participant(messages: Sequence[Any], names: Collection[str]) -> dict[str, list[BaseMessage]]:
    """Return for each of *names* the turns that this participant began: their messages and the replies to them.

    The name is taken from their messages, so that they are read as a user's. What a person says under another name, or
    under none, is in no participant's turns, and neither is the reply to it.

    Raises:
        InvalidInputError: Something in *messages* is no message.
    """
    turns: dict[str, list[BaseMessage]] = {name: [] for name in names}
    speaker: str | None = None
    for message in as_messages(messages):
        if _role_of(message) == "user":
            speaker = message.name
        if speaker in turns:
            turns[speaker].append(message.model_copy(update={"name": None}))
    return turns


def as_messages(messages: Sequence[Any]) -> list[BaseMessage]:
    """Return *messages* (LangChain's, or dicts, pairs and texts that stand for them) as LangChain's.

    Raises:
        InvalidInputError: Something in it is no message.
    """
    return [_converted(message) for message in _listed(messages)]


def question_and_messages(messages: Sequence[Any]) -> tuple[str, list[Message]]:
    """Return the text of the newest message that a person wrote, and all messages as our own.

    Raises:
        InvalidInputError: *messages* is no list of messages.
    """
    if not isinstance(cast("object", messages), Sequence):
        msg = f"question must be a string or a list of messages, got {type(messages).__name__}."
        raise InvalidInputError(msg)
    plain = PlainMessages(messages)
    return plain.newest_human[2], plain[:]


def _listed(messages: Any) -> Iterable[Any]:
    """Return *messages*, or a list of one if it is a message alone: a text is no list of letters.

    A tuple is a message if it is a pair of a role and a text.
    """
    match messages:
        case str() | Mapping() | BaseMessage():
            return [messages]
        case ("user" | "human" | "assistant" | "ai" | "system", str()) if isinstance(messages, tuple):
            return [cast("object", messages)]
        case Iterable():
            return cast("Iterable[Any]", messages)
        case _:
            msg = f"messages must be a list of messages, got {type(messages).__name__}."
            raise InvalidInputError(msg)


def _converted(given: Any) -> BaseMessage:
    try:
        return convert_to_messages([given])[0]
    except (ValueError, TypeError, NotImplementedError, KeyError) as error:
        kind = type(given).__name__
        msg = f"A message is a LangChain message, a dict with role and content, a pair or a text, not {kind}."
        raise InvalidInputError(msg) from error


def _role_of(message: BaseMessage) -> Role:
    if isinstance(message, AIMessage):
        return "assistant"
    if isinstance(message, (ToolMessage, FunctionMessage)):
        return "tool"
    by_person = isinstance(message, HumanMessage) or (isinstance(message, ChatMessage) and message.role == "user")
    extras = extras_of(message)
    if not by_person or extras.get("lc_source"):
        return "system"
    return "agent" if extras.get(SPEAKER_KEY) == "agent" else "user"


def extras_of(message: BaseMessage) -> dict[str, Any]:
    """Return the ``additional_kwargs`` of *message*; empty where a program set them to None."""
    extras: dict[str, Any] | None = message.additional_kwargs
    return extras or {}


def _text_of(content: str | list[Any], *, between: str = "\n") -> str:
    """Return the text blocks of *content*, with *between* them; tool calls, images and thoughts are left out."""
    return content if isinstance(content, str) else join_parts(map(_text_in, content), between=between)


def _text_in(block: object) -> str | None:
    fields = cast("dict[str, Any]", block) if isinstance(block, dict) else {"type": "text", "text": block}
    text = fields.get("text") if fields.get("type") in ("text", "input_text") else None
    return text if isinstance(text, str) else None


def _describe_missing(provider: str, error: Exception, variable: str) -> str:
    """Return one sentence on what *provider* wants, made of names only: *error* may quote what is secret."""
    said = str(error)
    package = _PACKAGE.search(said) if isinstance(error, ImportError) else None
    if package:
        return f"The model provider {provider} needs the package {package[1]}; run: pip install {package[1]}"
    variables = list(dict.fromkeys(_VARIABLE.findall(said)))
    if variables:
        return f"The model provider {provider} needs {' or '.join(variables)}; set it, or choose another by {variable}."
    if isinstance(error, ValueError) and (
        "not supported" in said or "Unable to infer" in said or "Unsupported" in said
    ):
        known = provider if _PROVIDER.fullmatch(provider) else "of this name"
        return f"LangChain has no model provider {known}; correct {variable}."
    return f"The model provider {provider} could not be set up ({_kind(error)}); correct {variable}."


def _unset_secret(model: BaseChatModel) -> str | None:
    """Return the variable of a key that *model* was made without; some providers only notice when they are called."""
    for field, variable in model.lc_secrets.items():
        value = getattr(model, field, None)
        if isinstance(value, SecretStr) and not value.get_secret_value():
            return variable
    return None


def _kind(error: Exception) -> str:
    """Return type, status and the operating system's reason of *error*; its own words may quote a key."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return f"{type(error).__name__}, status {status}"
    cause: BaseException | None = error
    while cause is not None and not (isinstance(cause, OSError) and cause.strerror):
        cause = cause.__cause__ or cause.__context__
    reason = f", {cause.strerror}" if isinstance(cause, OSError) else ""
    return f"{type(error).__name__}{reason}"


def _at_host(embeddings: Embeddings) -> str:
    """Return `` at HOST`` where the address of the provider's server is known."""
    for field in ("openai_api_base", "base_url", "azure_endpoint"):
        value = getattr(embeddings, field, None)
        if isinstance(value, str) and (host := urlsplit(value).netloc.rpartition("@")[2]):
            return f" at {host}"
    client: Any = getattr(embeddings, "async_client", None)
    url: Any = getattr(getattr(client, "_client", None), "base_url", None)
    return f" at {url.host}" if getattr(url, "host", None) else ""


def _provider_of(embeddings: Embeddings) -> str:
    return type(embeddings).__module__.partition(".")[0].removeprefix("langchain_")


def _model_of(embeddings: Embeddings) -> str:
    for field in ("model", "model_name", "model_id"):
        value = getattr(embeddings, field, None)
        if isinstance(value, str) and value:
            return value
    return ""


def _asked_dims(embeddings: Embeddings) -> int | None:
    """Return the length that OpenAI's ``dimensions`` asks for; it goes before the model's own."""
    value = getattr(embeddings, "dimensions", None)
    return value if isinstance(value, int) else None


def _sendable(text: str) -> str:
    """Return *text* as providers take it: no half characters, no NUL, not empty, not over their limits."""
    encoded = text.strip()[:MAX_CHARACTERS].encode("utf-8", "replace")
    whole = (encoded if encoded.isascii() else encoded[:MAX_BYTES]).decode("utf-8", "ignore").replace("\x00", " ")
    return whole if whole.strip() else EMPTY
