"""Summaries of old episodes by the extraction model; only sentences that the user's words bear out are kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from importlib.resources import files
from itertools import pairwise
from typing import Final

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig

from threadkeep.capture.extractors.structured import Meter, metered
from threadkeep.capture.provenance import is_supported_episode
from threadkeep.models.helper_models import HelperModel, unbound
from threadkeep.text.facts import is_standing
from threadkeep.text.redaction import has_secret

PROMPT: Final = "summary-1"
MAX_SUMMARY_CHARACTERS: Final = 600
_MAX_READ_CHARACTERS: Final = 32_768
"""Of the newest episodes of a month, so much is shown to the model."""


class ModelSummarizer:
    """Summarizes what a user said in one thread and month, by one call.

    Args:
        model: The helper model.
        timeout: How long a call may take.
    """

    def __init__(self, model: HelperModel, *, timeout: timedelta) -> None:
        self._model = model
        self._timeout = timeout
        self._prompt = (files("threadkeep.capture.extractors") / "prompts" / f"{PROMPT}.md").read_text(encoding="utf-8")

    async def aclose(self) -> None:
        """Close the model's HTTP client."""
        await self._model.aclose()

    async def summarize(self, texts: Sequence[str]) -> str:
        """Return the sentences of the model's summary that *texts*, oldest first, bear out; empty: none does.

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

        text, _ = await metered(answered, model=self._model.name, prompt=PROMPT, timeout=self._timeout)
        return supported(text, texts)


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
