"""What is moved in these tests: items of every kind, in partitions of every kind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from threadkeep.identity import Owner
from threadkeep.storage.interface import Batch, Due, Embedding, Item, Operation, Partition, Put, Storage
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing import NASTY_TEXTS, FrozenClock, HashingEmbedder
from threadkeep.testing.models import hashed

ANA: Final = Owner("a.b@x.org")
BOB: Final = Owner("a_b@x_org", "tenant")
DAY: Final = timedelta(days=1)
EMBEDDER: Final = HashingEmbedder(dims=16)


def memory_of(clock: FrozenClock) -> InMemoryStorage:
    """Return an empty storage in this process."""
    return InMemoryStorage(clock=clock)


def embedding(*texts: str, dims: int = 16, model: str = EMBEDDER.name) -> Embedding:
    """Return the vectors of *texts*."""
    return Embedding(model, dims, hashed(texts, dims=dims).astype("<f4").tobytes())


def memory(owner: Owner, key: str, text: str, **more: Any) -> Put:
    """Return the put of a searchable memory."""
    fields: dict[str, Any] = {"index": ("data",), "embedding": embedding(text), **more}
    return Put(("memories", owner.label), key, {"data": text}, **fields)


async def commit(storage: Storage, partition: Partition, *operations: Operation) -> None:
    """Commit *operations* as one batch."""
    await storage.commit(Batch(partition, operations))


async def fill(storage: Storage, clock: FrozenClock) -> int:
    """Put something of everything into *storage*, which is connected; return how many items that is."""
    long_ago = datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
    ana, bob, shared = ANA.partition, BOB.partition, Partition("collection", ("", "handbook"))
    await commit(storage, ana, memory(ANA, "tea", "likes green tea", created_at=long_ago))
    clock.advance(DAY)
    await commit(
        storage,
        ana,
        memory(ANA, "bike", "rides a red bike", ttl=30 * DAY),
        memory(ANA, "unembedded", "has a cat", embedding=None),
        Put((".turns", ANA.label), "turn", {"state": "waiting"}, due=Due("capture", clock.now())),
        Put(("users", ANA.label, "notes"), "nasty", {"texts": list(NASTY_TEXTS), "n": [0.1, 2**60, None, True]}),
        *(Put(("summaries", ANA.label), text, {"at": place}) for place, text in enumerate(NASTY_TEXTS)),
    )
    clock.advance(DAY)
    await commit(storage, bob, memory(BOB, "tea", "hates green tea"))
    await commit(storage, shared, Put(("handbook",), "1", {"text": "Chapter one."}, index=("text",)))
    await commit(storage, Partition("root", ("things",)), *(Put(("things",), f"{n}", {"n": n}) for n in range(450)))
    await commit(storage, bob, Put(("memories", BOB.label), "gone", {"data": "x"}, ttl=DAY / 2, index=("data",)))
    clock.advance(DAY)  # the last one has expired
    return 5 + len(NASTY_TEXTS) + 1 + 1 + 450


async def items_of(storage: Storage) -> dict[Any, Item]:
    """Return everything in *storage*, by its place."""
    found: dict[Any, Item] = {}
    for partition in await storage.partitions(limit=1000):
        page = await storage.scan(partition, limit=10_000)
        found.update({(item.ref.partition, item.ref.namespace, item.ref.key): item for item in page.items})
    return found


def told(item: Item) -> dict[str, Any]:
    """Return everything that a copy has to keep of *item*."""
    return {
        name: getattr(item, name)
        for name in ("value", "created_at", "updated_at", "index", "embedding", "ttl", "expires_at", "due")
    }
