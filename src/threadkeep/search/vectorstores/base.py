"""The port of vector engines: the nearest items of one partition, kept beside the storage and repaired from it.

The storage stays the system of record, vectors included. An engine holds a copy of a partition's vectors and the
position of the storage's change feed that the copy is of, so whatever was missed, by a crash or an outage, is
what comes after that position. The docstrings here are the specification; ``threadkeep.testing.vectors_contract`` is
the suite that every engine passes unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

from threadkeep.storage.interface import Namespace, Partition, Position

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FENCE: Final = Position("erased", 0)
"""Where an engine stands after an erasure: no storage is ever there, so what follows is told everything anew."""


class VectorEntry(NamedTuple):
    """The vectors of one item.

    Attributes:
        namespace: Of the item; any labels.
        key: Of the item; any text.
        revision: At which its vectors were read.
        vectors: ``float32``, shape ``(texts, dims)``, at least one row, each of unit length.
    """

    namespace: Namespace
    key: str
    revision: int
    vectors: NDArray[np.float32]


class Near(NamedTuple):
    """An item that is near.

    Attributes:
        namespace: Of the item.
        key: Of the item.
        revision: Of the vectors that were compared; a caller that knows a newer one skips it.
        cosine: Of the question and the nearest of the item's texts, in [-1, 1].
    """

    namespace: Namespace
    key: str
    revision: int
    cosine: float


@dataclass(frozen=True, slots=True)
class Space:
    """What is compared with each other: the vectors that one model made, all of one length.

    Attributes:
        model: Name of the embedder.
        dims: Length of its vectors, 1–16,384.
    """

    model: str
    dims: int


@dataclass(frozen=True, slots=True)
class VectorUpdate:
    """What brings the copy of a partition from one position to the next.

    Attributes:
        partition: The owner's partition.
        space: Of the vectors.
        since: Where the copy has to stand for this; ``None``: there is none.
        position: Where it stands afterwards.
        reset: *puts* is everything there is, and nothing else stays.
        puts: What is kept from now on, each item at most once; what it was before is replaced. Read once.
        removed: What goes, before *puts* come.
    """

    partition: Partition
    space: Space
    since: Position | None
    position: Position
    reset: bool
    puts: Iterable[VectorEntry]
    removed: Sequence[tuple[Namespace, str]] = ()


class VectorEngine(Protocol):
    """Where vectors are searched.

    An engine is constructed without I/O; two with different key prefixes at one place share nothing. Every method but
    *close* raises :class:`~threadkeep.errors.VectorEngineError` for whatever its driver raises. Safe for concurrent use
    from one event loop, and several processes may share one place.
    """

    name: str
    """``pgvector``, ``faiss``, …"""

    location: str
    """Where it is, for people: without a password or a key."""

    async def connect(self) -> None:
        """Open or create what is needed; the second call does nothing."""
        ...

    async def close(self) -> None:
        """Let go of connections, threads and files; the second call does nothing."""
        ...

    async def position(self, partition: Partition, space: Space) -> Position | None:
        """Return how far the copy of *partition* has come; ``None``: there is none with vectors of *space*."""
        ...

    async def holds(self, partition: Partition) -> bool:
        """Return whether there is a copy of *partition*, of whichever space."""
        ...

    async def apply(self, update: VectorUpdate) -> bool:
        """Upsert, delete or, with ``reset``, rebuild; ``False``: it is elsewhere than *since*, and nothing was done.

        The position is moved last: an interrupted copy leaves the copy at *since*, with some of the update in it at
        most, and applying it or a later one from there gives what it would have given. After an update has been
        applied, a search sees it, at once or after the delay that the engine's class states.
        """
        ...

    async def search(
        self, partition: Partition, vector: NDArray[np.float32], *, prefixes: Sequence[Namespace] = ((),), limit: int
    ) -> list[Near]:
        """Return the *limit* items of *partition* that are nearest to *vector*, nearest first, each at most once.

        **Partition and prefixes are chosen before the nearest are**: what others keep, however near, never takes a
        place, so there are fewer than *limit* only where *partition* has fewer items below *prefixes*. A label
        matches whole. An approximate engine may give another item than the nearest; never another partition's, and
        none twice. Without a copy, or with one of another length, nothing is near.

        Args:
            partition: Where to look.
            vector: Shape ``(dims,)``, unit length.
            prefixes: Only items in namespaces that begin with one of these.
            limit: How many; 0: none.
        """
        ...

    async def erase(self, partition: Partition) -> None:
        """Remove the copy of *partition*, of every space, physically, and stand at :data:`FENCE`.

        An update that was on its way from before, its *since* being ``None`` included, is refused.
        """
        ...


@runtime_checkable
class Measuring(Protocol):
    """An engine that compares exactly up to a size that depends on its server."""

    async def exact_up_to(self, dims: int) -> int:
        """Measure, and return about how many vectors of *dims* numbers of one partition are compared exactly.

        Raises:
            VectorEngineError: The engine cannot be used.
        """
        ...
