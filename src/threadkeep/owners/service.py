"""Everything that is held about an owner: show it and export it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from threadkeep.memories.codec import memory_of
from threadkeep.owners.models import Holdings, place_of, says_nothing
from threadkeep.storage.interface import Storage, iterate_items

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.identity import Owner
    from threadkeep.memories.retention import Limits
    from threadkeep.owners.erasure import Threads
    from threadkeep.owners.opt_out import OptOuts

FORMAT: Final = 1
"""Version of the export's lines."""

README: Final = """# Everything that was remembered about you

`export.jsonl` holds one JSON object a line. `type` says what it is:

| type | what it is |
|---|---|
| owner | whom this is about, when it was written, and which threads there are |
| memory | a statement: `value.data` or `value.text`, who said it where, and what it said before |
| summary | what a conversation was about |
| message | what was said in a thread |
| turn, turn_seen | a turn that waits to be learnt from; one that was (no text) |
| proposal | what somebody wanted remembered, and how that was decided |
| tombstone | what must not be learnt again: a rejected statement, or digests of a forgotten one |
| audit | what was changed, by whom and why; no text |
| account | how much work of models was spent |
| item | what the application keeps |
| thread, internal | how threads and jobs are found; when a memory was used last |

Another Threadkeep takes the memories over: `threadkeep memories import export.jsonl --user YOU`.
Ids are kept, and it may be repeated.
"""


class TurnRecords(Protocol):
    """What this room needs of capture."""

    async def drop(self, owner: Owner, *, thread_id: str | None) -> None:
        """Empty what waits to be learnt from, of one thread or of all, of its texts."""
        ...


class Owners:
    """Everything about one owner at a time."""

    def __init__(
        self,
        storage: Storage,
        threads: Threads,
        clock: Clock,
        *,
        turns: TurnRecords,
        opt_outs: OptOuts,
        messages: Callable[[Owner, str], AsyncIterator[dict[str, Any]]],
        limits: Limits,
    ) -> None:
        self._storage = storage
        self._messages = messages
        self._limits = limits
        self._turns = turns
        self._opt_outs = opt_outs
        self._threads = threads
        self._clock = clock

    async def show(self, owner: Owner) -> Holdings:
        """Count what is held about *owner*."""
        account: dict[str, float] = {}
        kinds: Counter[str] = Counter()
        aside: Counter[str] = Counter()
        rest: Counter[str] = Counter()
        async for item in iterate_items(self._storage, owner.partition, direction="oldest"):
            place = place_of(item)
            if place == "memory":
                memory = memory_of(item)
                kinds[memory.kind if memory else "unreadable"] += 1
                if memory is not None and memory.status in ("archived", "merged"):
                    aside[memory.status] += 1
            else:
                rest[place] += 1
            if place == "account":
                account = {name: number for name, number in item.value.items() if isinstance(number, int | float)}
        return Holdings(
            owner=owner,
            memories=dict(kinds),
            summaries=rest["summary"],
            turns_waiting=rest["turn"],
            turns_seen=rest["turn_seen"],
            proposals=rest["proposal"],
            tombstones=rest["tombstone"],
            extraction=account,
            threads=tuple(await self._threads.of_owner(owner)),
            other=rest["item"],
            aside=dict(aside),
            most=self._limits.most,
            inactive_days=after / timedelta(days=1) if (after := self._limits.inactive_after) else None,
        )

    async def export(self, owner: Owner) -> AsyncIterator[dict[str, Any]]:
        """Yield everything that is held about *owner*, one JSON object a line; the first says whose it is."""
        yield {
            "type": "owner",
            "format": FORMAT,
            "user_id": owner.user_id,
            "tenant": owner.tenant,
            "exported_at": self._clock.now().isoformat(),
            "threads": list(await self._threads.of_owner(owner)),
        }
        async for item in iterate_items(self._storage, owner.partition, direction="oldest"):
            if says_nothing(item):
                continue
            if place_of(item) == "thread":
                async for message in self._messages(owner, str(item.value.get("thread"))):
                    yield {"type": "message", **message}
            yield {
                "type": place_of(item),
                "namespace": list(item.ref.namespace),
                "key": item.ref.key,
                "value": item.value,
                "created_at": item.created_at.isoformat(),
                "updated_at": item.updated_at.isoformat(),
                "expires_at": item.expires_at.isoformat() if item.expires_at else None,
            }

    async def opt_out(self, owner: Owner, *, thread_id: str | None = None, out: bool = True) -> None:
        """Recall and learn nothing of *owner* from now on, or nothing in one thread; ``out=False``: do again.

        A turn then reads and writes nothing in the storage. What is remembered stays until it is erased; turns
        that wait to be learnt from are emptied. Other processes know within five seconds.
        """
        await self._opt_outs.set(owner, thread_id=thread_id, out=out)
        if out:
            await self._turns.drop(owner, thread_id=thread_id)
