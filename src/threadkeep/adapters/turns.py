"""Learning from the turns of another framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from threadkeep.errors import StorageError

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep


SpokenText: TypeAlias = tuple[Literal["user", "assistant"], str]
"""The role and the text of a message."""


async def learn(
    tk: Threadkeep, messages: Sequence[SpokenText], *, thread_id: str | None, recalled: Sequence[str] = ()
) -> None:
    """Record the turns of *messages*, to be learnt from in the background; a storage that is away ends no run."""
    try:
        await tk.capture([*messages], thread_id=thread_id, recalled=recalled)
    except StorageError as error:
        tk.app.telemetry.degraded("capture", error)
