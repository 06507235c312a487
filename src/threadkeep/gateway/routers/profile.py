"""``/me/profile``: the named slots of the user's profile."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from threadkeep.gateway.bodies import ID_CHARACTERS, KeptBody, RequestBody, Shown, Statement, kept_body
from threadkeep.gateway.idempotency import IdempotentRoute
from threadkeep.gateway.inputs import Reader, Writer

if TYPE_CHECKING:
    from threadkeep import Profile, ProfileSlot

router = APIRouter(prefix="/me/profile", tags=["me"], route_class=IdempotentRoute)

SlotName = Annotated[str, Path(min_length=1, max_length=32)]
"""The name of a slot in the address."""


class ProfileValueBody(BaseModel):
    """What a slot says.

    Attributes:
        text: The statement, in the user's own words.
        memory_id: The memory that says it.
        at: When it was said.
        earlier: Whether a newer value probably replaces it.
    """

    text: Shown
    memory_id: str
    at: datetime
    earlier: bool


class ProfileSlotBody(BaseModel):
    """A slot of the profile.

    Attributes:
        name: Its name.
        description: What belongs in it.
        single: Whether it has one value at most.
        values: What it says, newest first.
    """

    name: str
    description: Shown
    single: bool
    values: list[ProfileValueBody]


class ProfileBody(BaseModel):
    """The profile of the user.

    Attributes:
        slots: All slots, in the order of the schema.
        degraded: What was missing: ``embedder`` if slots were filled by words only.
    """

    slots: list[ProfileSlotBody]
    degraded: list[str]


class SlotTextBody(RequestBody):
    """What a slot is to say.

    Attributes:
        text: A statement, or a value such as ``no nuts``.
        memory_id: The value to replace; ``None``: the one of a slot with a single value, else the text is added.
    """

    text: Statement
    memory_id: str | None = Field(default=None, min_length=1, max_length=ID_CHARACTERS)


class ClearedBody(BaseModel):
    """What was forgotten to empty a slot.

    Attributes:
        memory_ids: The memories that are gone.
    """

    memory_ids: list[str]


@router.get("")
async def show_profile(user: Reader) -> ProfileBody:
    """Return the slots of the user's profile, each with its values and their memories."""
    profiles = user.tk.profile
    return _body(await profiles.get(), profiles.schema)


@router.put("/{slot}")
async def set_slot(slot: SlotName, body: SlotTextBody, user: Writer) -> KeptBody:
    """Make a slot say a text: correct the memory that fills it, or keep a new one."""
    profiles = user.tk.profile
    return kept_body(await profiles.set(slot, body.text, memory_id=body.memory_id))


@router.delete("/{slot}")
async def clear_slot(slot: SlotName, user: Writer) -> ClearedBody:
    """Forget every memory that fills a slot."""
    return ClearedBody(memory_ids=[*await user.tk.profile.clear(slot)])


def _body(profile: Profile, schema: Mapping[str, ProfileSlot]) -> ProfileBody:
    return ProfileBody(
        slots=[
            ProfileSlotBody(
                name=name,
                description=schema[name].description,
                single=schema[name].single,
                values=[
                    ProfileValueBody(text=one.text, memory_id=one.memory_id, at=one.at, earlier=one.earlier)
                    for one in values
                ],
            )
            for name, values in profile.slots.items()
        ],
        degraded=[*profile.degraded],
    )
