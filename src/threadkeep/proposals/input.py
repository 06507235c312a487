"""What is given to proposals, checked: pure rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.memories.record import MAX_TEXT_CHARACTERS, Kind
from threadkeep.proposals.record import MAX_COMMENT_CHARACTERS, MAX_NAME_CHARACTERS, Action, NewProposal


def checked(new: NewProposal, redact: Callable[[str], str]) -> NewProposal:
    """Return *new* with its texts redacted and bounded.

    Raises:
        InvalidInputError, TooLargeError: It cannot be kept.
    """
    if new.action not in get_args(Action) or new.kind not in get_args(Kind):
        msg = f"A proposal's action is one of {', '.join(get_args(Action))}, its kind of {', '.join(get_args(Kind))}."
        raise InvalidInputError(msg)
    text = "" if new.action == "forget" else statement(new.text, redact)
    key = None if new.key is None else name(new.key, "the key")
    return replace(new, text=text, reason=redact(new.reason)[:MAX_COMMENT_CHARACTERS], key=key)


def statement(text: Any, redact: Callable[[str], str]) -> str:
    """Return *text* as a memory may say it.

    Raises:
        InvalidInputError, TooLargeError: It says nothing, or too much.
    """
    if not isinstance(text, str) or not text.strip():
        msg = "The text is empty; say what is to be remembered."
        raise InvalidInputError(msg)
    if len(text.strip()) > MAX_TEXT_CHARACTERS:
        msg = f"The text has {len(text):,} characters; a memory has at most {MAX_TEXT_CHARACTERS:,}. Split it."
        raise TooLargeError(msg, characters=len(text))
    return redact(text.strip())


def name(text: Any, what: str) -> str:
    """Return *text* as the name of somebody or something.

    Raises:
        InvalidInputError: It is empty or too long.
    """
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_NAME_CHARACTERS:
        msg = f"Give {what} as a text of 1 to {MAX_NAME_CHARACTERS} characters."
        raise InvalidInputError(msg)
    return text.strip()
