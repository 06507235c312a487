"""What model extractors are told: prompt files with a version, each replaceable by one of your own."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

from threadkeep.errors import SettingsError
from threadkeep.ids import short_digest

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
        msg = f"THREADKEEP_EXTRACTION_PROMPT: {own} has to hold between 1 and {MAX_CHARACTERS:,} characters."
        raise SettingsError(msg, variable="THREADKEEP_EXTRACTION_PROMPT")
    return Instructions(f"own-{short_digest('prompt', text)[:8]}", text)
