"""Learning from the turns of another framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from threadkeep.errors import StorageError

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep


SpokenText: TypeAlias = tuple[Literal["user", "assistant"], str]
"""The role and the text of a message."""


LEAST_READ: Final = 20
"""So many of the newest messages of a conversation, at least, are looked at for turns that are not recorded."""


def newest_turns(said: Sequence[SpokenText]) -> Sequence[SpokenText]:
    """Return the newest messages of a conversation, from a message of the user on that follows a reply."""
    last = max(0, len(said) - LEAST_READ)
    begin = next((n for n in range(last, 0, -1) if (said[n - 1][0], said[n][0]) == ("assistant", "user")), 0)
    return said[begin:]


async def learn(
    tk: Threadkeep, messages: Sequence[SpokenText], *, thread_id: str | None, recalled: Sequence[str] = ()
) -> None:
    """Record the turns of *messages*, to be learnt from in the background; a storage that is away ends no run."""
    try:
        await tk.capture([*messages], thread_id=thread_id, recalled=recalled)
    except StorageError as error:
        tk.app.telemetry.degraded("capture", error)
