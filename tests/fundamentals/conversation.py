"""The two turns that most chapters use, and the question as a model reads it."""

from __future__ import annotations

from typing import Any, Final

from threadkeep.testing import ScriptedModel

TAUGHT: Final = "I live in Lisbon."
ASKED: Final = "Which city do I live in?"


def turn(text: str) -> dict[str, Any]:
    """Return the input of a turn."""
    return {"messages": [{"role": "user", "content": text}]}


def read_question(model: ScriptedModel) -> str:
    """Return the newest human message of the model's last prompt."""
    return [message for message in model.prompts[-1] if message.type == "human"][-1].text
