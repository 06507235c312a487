"""The slots of a profile, as values, and their checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from threadkeep.errors import InvalidInputError
from threadkeep.memories.kinds import check_named

if TYPE_CHECKING:
    from datetime import datetime

    from threadkeep.ids import MemoryId

MAX_SLOTS: Final = 32
MAX_EXAMPLES: Final = 32
MAX_WORDS: Final = 400
MAX_EXAMPLE_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class ProfileSlot:
    """One named slot of a profile.

    Attributes:
        name: Its key: lower-case letters, digits and ``_``, at most 32, the first a letter.
        description: What belongs in it, in a sentence.
        facts: Statements that fill it, as examples.
        requests: Requests that need it, as examples.
        words: Words or word beginnings (``allerg*``) of statements that fill it, in any language.
        asked: The same of requests that need it.
        single: Whether only the newest statement counts.
        relatives: Whether a statement about a relative or a pet fills it.
    """

    name: str
    description: str
    facts: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    single: bool = False
    relatives: bool = False


@dataclass(frozen=True, slots=True)
class SlotValue:
    """What a slot says, and where that is from.

    Attributes:
        text: The statement, in the user's own words.
        memory_id: The memory that says it.
        at: When it was said.
        earlier: Whether a newer value of the slot probably replaces it.
    """

    text: str
    memory_id: MemoryId
    at: datetime
    earlier: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """An owner's profile.

    Attributes:
        slots: The values of each slot, in the order of the schema, newest first; an empty slot has none.
        degraded: What was missing: ``embedder`` if slots were filled by words only.
    """

    slots: dict[str, tuple[SlotValue, ...]] = field(default_factory=dict[str, "tuple[SlotValue, ...]"])
    degraded: tuple[str, ...] = ()


def check_schema(slots: object) -> tuple[ProfileSlot, ...]:
    """Return *slots*, checked.

    Raises:
        InvalidInputError: It is no sequence of slots, has too many, or one of them is invalid; the message names it.
    """
    checked = check_named(slots, ProfileSlot, parameter="profile", noun="slot", most=MAX_SLOTS)
    return tuple(map(_check_slot, checked))


def _check_slot(slot: ProfileSlot) -> ProfileSlot:
    _check_texts(slot, "description", (slot.description,), 1)
    for field_name, most in (
        ("facts", MAX_EXAMPLES),
        ("requests", MAX_EXAMPLES),
        ("words", MAX_WORDS),
        ("asked", MAX_WORDS),
    ):
        _check_texts(slot, field_name, getattr(slot, field_name), most)
    if not (slot.facts or slot.words):
        msg = f"The profile slot {slot.name!r} has neither facts nor words; nothing could fill it."
        raise InvalidInputError(msg)
    return slot


def _check_texts(slot: ProfileSlot, name: str, texts: object, most: int) -> None:
    if isinstance(texts, str) or not isinstance(texts, Sequence) or len(cast("Sequence[object]", texts)) > most:
        msg = f"{name} of the profile slot {slot.name!r} must be a sequence of at most {most} strings."
        raise InvalidInputError(msg)
    for text in cast("Sequence[object]", texts):
        if not isinstance(text, str) or not text.strip() or len(text) > MAX_EXAMPLE_CHARACTERS or "\0" in text:
            msg = (
                f"{name} of the profile slot {slot.name!r} must be strings of 1 to {MAX_EXAMPLE_CHARACTERS} characters "
                "without NUL."
            )
            raise InvalidInputError(msg)
