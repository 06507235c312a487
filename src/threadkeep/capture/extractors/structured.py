"""Extraction and summaries by a model: one call for the facts and the episode of a turn, by a strict schema.

A model is called outside every run, never streamed, timed, counted, and with our own errors only.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, Union, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from typing_extensions import override

from threadkeep.capture.extractors import Extraction
from threadkeep.capture.extractors.local import with_episodes
from threadkeep.capture.models import Candidate, Turn, Usage
from threadkeep.capture.provenance import is_supported_episode
from threadkeep.capture.turn_history import off_loop_if
from threadkeep.capture.turns import is_long
from threadkeep.errors import ExtractionError, InvalidInputError, SettingsError
from threadkeep.ids import short_digest
from threadkeep.memories.kinds import BUILT_IN_KINDS, Kinds
from threadkeep.memories.labels import Metadata, check_metadata
from threadkeep.memories.models import Memory, Source
from threadkeep.models.base import INPUT_ROLES, Role
from threadkeep.models.helper_models import HelperModel, unbound
from threadkeep.text.facts import is_standing
from threadkeep.text.redaction import has_secret

T = TypeVar("T")

MAX_REPLY_CHARACTERS: Final = 65_536
"""A longer reply is no answer to what was asked."""

SUMMARY_PROMPT: Final = "summary-1"
MAX_SUMMARY_CHARACTERS: Final = 600
_MAX_READ_CHARACTERS: Final = 32_768
"""Of the newest episodes of a month, so much is shown to the model."""

NOSTREAM: Final = "nostream"
"""LangGraph leaves calls with this tag out of every stream."""


class Meter(BaseCallbackHandler):
    """Counts calls and tokens of one extraction, and refuses a reply that is none before anybody reads it."""

    raise_error = True

    def __init__(self) -> None:
        super().__init__()
        self._guard = threading.Lock()
        self._calls = self._input = self._output = 0
        self.faults = 0
        """Tool calls with arguments that were not JSON: LangChain sets them aside, and LangMem does not see them."""
        self.words = 0
        """Replies that called no tool."""

    @override
    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        with self._guard:
            self._calls += 1

    @override
    def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        for generations in response.generations:
            for generation in generations:
                message = generation.message if isinstance(generation, ChatGeneration) else None
                if isinstance(message, AIMessage):
                    self._count(message)
                    _require_answer(message)

    def _count(self, message: AIMessage) -> None:
        used = message.usage_metadata
        with self._guard:
            self.faults += len(message.invalid_tool_calls)
            self.words += not (message.tool_calls or message.invalid_tool_calls)
            if used is not None:
                self._input += used["input_tokens"]
                self._output += used["output_tokens"]

    def usage(self, *, model: str, prompt: str) -> Usage:
        """Return what was counted so far."""
        with self._guard:
            return Usage(model, prompt, self._calls, self._input, self._output)


async def metered(
    work: Callable[[RunnableConfig, Meter], Awaitable[T]], *, model: str, prompt: str, timeout: timedelta
) -> tuple[T, Usage]:
    """Await *work* with a configuration of its own, and return its result with what it used.

    It runs in an empty context, so a graph that happens to have started the worker lends it neither
    its callbacks nor its stream.

    Raises:
        ExtractionError: The model failed, or took too long; what it used is in ``details["usage"]``.
    """
    meter = Meter()
    config = RunnableConfig(tags=[NOSTREAM], callbacks=[meter], run_name="threadkeep extraction", configurable={})

    async def worked() -> T:
        return await work(config, meter)

    loop = asyncio.get_running_loop()
    task = loop.create_task(worked(), context=contextvars.Context())
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            result = await task
    except TimeoutError:
        msg = f"The extraction model did not answer within {timeout.total_seconds():g} seconds."
        raise ExtractionError(msg, usage=meter.usage(model=model, prompt=prompt)) from None
    except ExtractionError as error:
        error.details["usage"] = meter.usage(model=model, prompt=prompt)
        raise
    except Exception as error:  # noqa: BLE001 - every provider has its own; what it says may quote a key
        msg = f"The extraction model failed ({type(error).__name__}); check its key, its limits and its log."
        raise ExtractionError(msg, usage=meter.usage(model=model, prompt=prompt)) from None
    return result, meter.usage(model=model, prompt=prompt)


def _require_answer(message: AIMessage) -> None:
    called = [str(call["args"]) for call in (*message.tool_calls, *message.invalid_tool_calls)]
    if not message.text.strip() and not called:
        msg = "The extraction model returned an empty answer; the turn is tried again."
        raise ExtractionError(msg)
    if max(map(len, (message.text, *called))) > MAX_REPLY_CHARACTERS:
        msg = f"The extraction model answered with more than {MAX_REPLY_CHARACTERS:,} characters."
        raise ExtractionError(msg)


NEWEST: Final = {"structured": "structured-1", "langmem": "langmem-1"}
MAX_CHARACTERS: Final = 32_768


@dataclass(frozen=True, slots=True)
class Instructions:
    """What a model is told, and under which name it is accounted for.

    Attributes:
        name: Of the prompt file with its version; of one of your own, ``own-`` and a digest.
        text: The prompt.
    """

    name: str
    text: str


def instructions_of(extractor: Literal["structured", "langmem"], own: Path | None = None) -> Instructions:
    """Read the newest prompt of *extractor*, or *own* instead.

    Raises:
        SettingsError: *own* cannot be read, or holds no prompt.
    """
    if own is None:
        name = NEWEST[extractor]
        return Instructions(
            name, (files("threadkeep.capture.extractors") / "prompts" / f"{name}.md").read_text(encoding="utf-8")
        )
    try:
        text = own.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"THREADKEEP_EXTRACTION_PROMPT: {own} cannot be read; give a text file in UTF-8."
        raise SettingsError(msg, variable="THREADKEEP_EXTRACTION_PROMPT") from error
    if not text or len(text) > MAX_CHARACTERS:
        msg = f"THREADKEEP_EXTRACTION_PROMPT: {own} must have between 1 and {MAX_CHARACTERS:,} characters."
        raise SettingsError(msg, variable="THREADKEEP_EXTRACTION_PROMPT")
    return Instructions(f"own-{short_digest('prompt', text)[:8]}", text)


MAX_FACTS: Final = 3
MAX_CONTEXT_CHARACTERS: Final = 16_384
"""Of what the user and the assistant said each, so much is shown to the model."""


class LearntFact(BaseModel):
    """One lasting fact that the user says of themselves, their team or their systems."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = Field(description="One short sentence that stands on its own, in the user's own words.")
    kind: Literal["semantic", "procedural"] = Field(description="procedural: how the assistant is to behave.")
    replaces: int | None = Field(description="Number of the known memory that this changes; null: none.")


class Learnt(BaseModel):
    """What a turn teaches."""

    model_config = ConfigDict(extra="forbid", strict=True)

    facts: list[LearntFact] = Field(description="At most 3; none for most turns.")
    episode: str = Field(description="One short sentence: what the user asked or told; empty for small talk.")


def answer_model(fields: type[BaseModel] | None, kinds: Kinds = BUILT_IN_KINDS) -> type[Learnt]:
    """Return the schema of an answer.

    Args:
        fields: What each fact of a built-in kind has, too; ``None``: nothing.
        kinds: The kinds of facts; each of the application's has its own fields.
    """
    if fields is None and not kinds.own:
        return Learnt
    general = LearntFact if fields is None else _fact_model("LearntFactWithFields", fields)
    own = [
        _fact_model(
            f"Learnt_{one.name}",
            kinds.fields.get(one.name),
            __doc__=one.description,
            kind=(Literal[one.name], Field(description=one.description)),
        )
        for one in kinds.own
    ]
    one_fact: Any = Union[(general, *own)]
    facts = Field(description="At most 3; none for most turns.")
    return create_model("LearntWithFields", __base__=Learnt, facts=(cast("Any", list)[one_fact], facts))


def _fact_model(name: str, fields: type[BaseModel] | None, **more: Any) -> type[LearntFact]:
    if fields is not None:
        more["fields"] = (fields, Field(description="What the application wants to know of the fact."))
    return create_model(name, __base__=LearntFact, **more)


def instructions_for(fields: type[BaseModel] | None, kinds: Kinds = BUILT_IN_KINDS) -> str:
    """Return the instructions about *fields* and *kinds*, for models of providers that take no schema."""
    lines = [] if fields is None else [f"- `fields` of each fact is an object of {_shown_schema(fields)}"]
    for kind in kinds.own:
        own = kinds.fields.get(kind.name)
        told = "" if own is None else f" Its `fields` are an object of {_shown_schema(own)}"
        lines.append(f"- `kind` is `{kind.name}` for such a fact: {kind.description.strip()}{told}")
    return "\n".join(lines)


def _shown_schema(fields: type[BaseModel]) -> str:
    shown = json.dumps(fields.model_json_schema(), ensure_ascii=False, sort_keys=True)
    return f"this JSON schema, filled from the user's words only: {shown}"


class StructuredExtractor:
    """At most three facts and one episode a turn, from one call.

    Args:
        model: The helper model.
        instructions: What it is told.
        timeout: How long a turn may take.
        fields: What else it fills for each fact of a built-in kind, kept as the memory's metadata; ``None``: nothing.
        kinds: The kinds of facts.
    """

    name: str = "structured"
    uses_known: bool = True

    def __init__(
        self,
        model: HelperModel,
        instructions: Instructions,
        *,
        timeout: timedelta,
        fields: type[BaseModel] | None = None,
        kinds: Kinds = BUILT_IN_KINDS,
    ) -> None:
        self._model = model
        self._timeout = timeout
        self._answer = answer_model(fields, kinds)
        self._shapes = (partial(_strict, self._answer), partial(_by_tool, self._answer), unbound)
        self._instructions = instructions
        if more := instructions_for(fields, kinds):
            text = f"{instructions.text.rstrip()}\n{more}\n"
            self._instructions = Instructions(f"{instructions.name}+{short_digest('fields', text)[:8]}", text)

    async def aclose(self) -> None:
        """Close the model's HTTP client."""
        await self._model.aclose()

    async def extract(self, turn: Turn, known: Sequence[Memory]) -> Extraction:
        """Return the facts and the episode that the model finds in *turn*.

        Raises:
            ExtractionError: The model failed, took too long, or gave something else than was asked for.
        """
        facts = [memory for memory in known if memory.kind != "episodic"]
        asked = [SystemMessage(self._instructions.text), HumanMessage(_shown(turn, facts))]

        async def answered(config: RunnableConfig, _meter: Meter) -> Learnt:
            try:
                return _learnt(await self._model.ask(asked, config, shapes=self._shapes), self._answer)
            except ValidationError as error:  # some clients read the schema themselves
                raise _unexpected_answer(error) from None

        learnt, usage = await metered(
            answered, model=self._model.name, prompt=self._instructions.name, timeout=self._timeout
        )
        return Extraction(
            await off_loop_if(is_long(turn), with_episodes, _candidates(learnt, turn, facts), turn), usage=usage
        )


# How to ask for the schema, the surest way first; unbound, the instructions alone ask for JSON.


def _strict(answer: type[Learnt], model: BaseChatModel) -> Runnable[Any, Any]:
    """Bind *model* to the schema of *answer*, strictly where its provider's client knows that."""
    try:
        return model.with_structured_output(answer, include_raw=True, strict=True)
    except (TypeError, ValueError):
        return model.with_structured_output(answer, include_raw=True)


def _by_tool(answer: type[Learnt], model: BaseChatModel) -> Runnable[Any, Any]:
    """Bind *model* to the schema as a tool that it has to call, where its provider's client knows that."""
    try:
        return model.with_structured_output(answer, include_raw=True, method="function_calling")
    except (TypeError, ValueError):
        return model.with_structured_output(answer, include_raw=True)


def _shown(turn: Turn, known: Sequence[Memory]) -> str:
    room: dict[Role, int] = dict.fromkeys((*INPUT_ROLES, "assistant"), MAX_CONTEXT_CHARACTERS)
    said: list[dict[str, str]] = []
    for message in turn.messages:
        text = message.text[: room.get(message.role, 0)]
        room[message.role] = room.get(message.role, 0) - len(text)
        if text:
            said.append({"role": message.role, "text": text})
    shown = {
        "known_memories": [{"number": place, "text": memory.text} for place, memory in enumerate(known, start=1)],
        "turn": said,
        "today": turn.at.date().isoformat(),
    }
    return json.dumps(shown, ensure_ascii=False)


def _learnt(answer: Any, schema: type[Learnt]) -> Learnt:
    """Read the model's answer: parsed by its provider, or as JSON in its text.

    Raises:
        ValidationError: It is not of the schema.
    """
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", answer) if isinstance(answer, Mapping) else {"raw": answer}
    parsed, raw = fields.get("parsed"), fields.get("raw")
    if isinstance(parsed, schema):
        return parsed
    text = raw.text if isinstance(raw, AIMessage) else ""
    return schema.model_validate_json(text.strip().removeprefix("```json").removeprefix("```").removesuffix("```"))


def _unexpected_answer(error: ValidationError) -> ExtractionError:
    msg = (
        f"The answer of the extraction model is invalid ({error.error_count()} faults); try again, or choose another "
        "FACT_EXTRACTION_MODEL."
    )
    return ExtractionError(msg)


def _candidates(learnt: Learnt, turn: Turn, known: Sequence[Memory]) -> list[Candidate]:
    source = Source("assistant", turn.thread_id, None, turn.turn_id, turn.at)
    found: list[Candidate] = []
    for place, fact in enumerate(learnt.facts[:MAX_FACTS]):
        target = known[fact.replaces - 1].memory_id if fact.replaces and 0 < fact.replaces <= len(known) else None
        at = turn.at + timedelta(microseconds=place)
        fields: BaseModel | None = getattr(fact, "fields", None)
        metadata = _metadata(fields)
        found.append(Candidate(fact.text, fact.kind, replace(source, at=at), target=target, metadata=metadata))
    if learnt.episode.strip():
        found.append(Candidate(learnt.episode, "episodic", source))
    return found


def _metadata(fields: BaseModel | None) -> Metadata:
    """Return the fields of a fact as metadata; of ``None``, none.

    Raises:
        ExtractionError: A value is longer than metadata may be.
    """
    try:
        return check_metadata({} if fields is None else fields.model_dump(mode="json"))
    except InvalidInputError as error:
        msg = f"The answer of the extraction model is invalid: {error}"
        raise ExtractionError(msg) from None


class ModelSummarizer:
    """Summarizes what a user said in one thread and month, by one call.

    Args:
        model: The helper model.
        timeout: How long a call may take.
    """

    def __init__(self, model: HelperModel, *, timeout: timedelta) -> None:
        self._model = model
        self._timeout = timeout
        self._prompt = (files("threadkeep.capture.extractors") / "prompts" / f"{SUMMARY_PROMPT}.md").read_text(
            encoding="utf-8"
        )

    async def aclose(self) -> None:
        """Close the model's HTTP client."""
        await self._model.aclose()

    async def summarize(self, texts: Sequence[str]) -> tuple[str, Usage]:
        """Return the sentences of the model's summary that *texts*, oldest first, bear out, and what it took.

        Raises:
            ExtractionError: The model failed, took too long, or gave an empty answer.
        """
        asked = [
            SystemMessage(self._prompt),
            HumanMessage(json.dumps({"messages": _newest(texts)}, ensure_ascii=False)),
        ]

        async def answered(config: RunnableConfig, _meter: Meter) -> str:
            answer = await self._model.ask(asked, config, shapes=(unbound,))
            return answer.text if isinstance(answer, AIMessage) else ""

        text, usage = await metered(answered, model=self._model.name, prompt=SUMMARY_PROMPT, timeout=self._timeout)
        return supported(text, texts), usage


def supported(summary: str, texts: Sequence[str]) -> str:
    """Return the lines of *summary* that one of *texts*, or two in a row, bear out, at most 600 characters."""
    sources = [*texts, *(f"{one} {other}" for one, other in pairwise(texts))]
    kept: list[str] = []
    left = MAX_SUMMARY_CHARACTERS
    for line in summary.splitlines():
        sentence = line.strip().lstrip("-*• ").strip()
        if not sentence or len(sentence) > left or is_standing(sentence) or has_secret(sentence):
            continue
        if any(is_supported_episode(sentence, source) for source in sources):
            kept.append(sentence)
            left -= len(sentence) + 1
    return " ".join(kept)


def _newest(texts: Sequence[str]) -> list[str]:
    """Return the newest of *texts* that fit, oldest first."""
    left, kept = _MAX_READ_CHARACTERS, list[str]()
    for text in reversed(texts):
        if len(text) > left:
            break
        left -= len(text)
        kept.append(text)
    return kept[::-1]
