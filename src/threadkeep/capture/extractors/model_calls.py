"""Calling a model for capture: outside every run, never streamed, timed, counted, and with our own errors only."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from typing_extensions import override

from threadkeep.capture.models import Usage
from threadkeep.errors import ExtractionError, SettingsError
from threadkeep.ids import short_digest

T = TypeVar("T")

MAX_REPLY_CHARACTERS: Final = 65_536
"""A longer reply is no answer to what was asked."""

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
