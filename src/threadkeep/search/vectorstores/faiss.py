"""Vectors in FAISS, one index for each partition, in RAM while it is used and in a folder otherwise."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import faiss as untyped_faiss
import numpy as np

from threadkeep.errors import VectorEngineError
from threadkeep.ids import digest, new_id
from threadkeep.search.vectorstores.base import FENCE, NearItem, Space, VectorEntry, VectorUpdate
from threadkeep.storage.interface import Namespace, Partition, Position

try:
    import fcntl
except ImportError:  # Windows: one process for a folder there
    fcntl = None

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")

faiss: Final[Any] = untyped_faiss
"""Its calls are made when it is imported, and its annotations do not tell them."""

DEFAULT_MAX_BYTES: Final = 4 * 1024 * 1024 * 1024

_AT_ONCE: Final = 4_096
_SMALLEST_WASTE: Final = 1_024
_GONE: Final = -1
_NAME_BYTES: Final = 300


@dataclass(eq=False)
class _FaissIndex:
    """One partition's index: rows are appended and never changed; those of replaced items are passed over.

    Attributes:
        space: Of the vectors; ``None`` after an erasure.
        position: How far it has come.
        index: One row a text.
        items: Of each row, its item's number in *names*; -1: passed over.
        names: Namespace, key and revision of each item, those that are gone included.
        numbers: The number of each item that is there.
        changed: How many items were put or removed since the folder has it.
        namespaces: Each one that is in *names*, and its number.
        spaces: Of each item, as many as were looked at, its namespace's number.
    """

    space: Space | None
    position: Position
    index: Any = None
    items: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    names: list[tuple[Namespace, str, int]] = field(default_factory=list)
    numbers: dict[tuple[Namespace, str], int] = field(default_factory=dict)
    changed: int = 0
    namespaces: dict[Namespace, int] = field(default_factory=dict)
    spaces: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def below(self, prefixes: list[Namespace]) -> NDArray[np.bool_]:
        """Whether each item is below one of *prefixes*; namespaces are few, and items many."""
        new = self.names[len(self.spaces) :]
        numbers = [self.namespaces.setdefault(labels, len(self.namespaces)) for labels, _, _ in new]
        self.spaces = np.concatenate((self.spaces, np.array(numbers, np.int64)))
        within = [any(labels[: len(prefix)] == prefix for prefix in prefixes) for labels in self.namespaces]
        return np.array(within, np.bool_)[self.spaces]

    @property
    def nbytes(self) -> int:
        """Bytes held, about."""
        return len(self.items) * 4 * (self.space.dims if self.space else 0) + len(self.names) * _NAME_BYTES


class FaissEngine:
    """Compares exactly (``IndexFlatIP``), within one partition and what is below the prefixes asked for.

    An update is applied in RAM, and written to the folder after a rebuild, when a tenth has changed, when room is made
    for others, and in the end. A process that dies leaves an older file; its position says what to read
    again, and a file that cannot be read counts as none. Several processes may share the folder, each with copies
    of its own in RAM; an erasure by one is seen by the others before they use or write what they hold.

    Args:
        folder: Where the files are; made where it is missing, for this user alone.
        key_prefix: Deployments with different ones share the folder and nothing else.
        max_bytes: How much RAM the indexes may hold together; the one in use is always kept.
    """

    name: str = "faiss"

    def __init__(self, folder: Path, *, key_prefix: str = "", max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.location: str = str(folder)
        self._folder = folder
        self._prefix = key_prefix
        self._max_bytes = max_bytes
        self._copies: OrderedDict[str, _FaissIndex] = OrderedDict()
        self._guard = threading.Lock()

    async def connect(self) -> None:
        """See :meth:`VectorEngine.connect`."""
        await self._do(lambda: None)

    async def close(self) -> None:
        """See :meth:`VectorEngine.close`."""
        if self._copies:
            await self._do(self._save_all)

    async def position(self, partition: Partition, space: Space) -> Position | None:
        """See :meth:`VectorEngine.position`."""
        return await self._do(lambda: self._position_in(self._name(partition), space))

    async def holds(self, partition: Partition) -> bool:
        """See :meth:`VectorEngine.holds`."""

        def look() -> bool:
            header = self._header(self._name(partition))
            return header is not None and header["space"] is not None

        return await self._do(look)

    async def apply(self, update: VectorUpdate) -> bool:
        """See :meth:`VectorEngine.apply`. A search sees it at once."""
        return await self._do(lambda: self._apply(self._name(update.partition), update))

    async def search(
        self, partition: Partition, vector: NDArray[np.float32], *, prefixes: Sequence[Namespace] = ((),), limit: int
    ) -> list[NearItem]:
        """See :meth:`VectorEngine.search`."""

        def look() -> list[NearItem]:
            copy = self._current(self._name(partition))
            if copy is None or copy.index is None or copy.index.d != len(vector) or limit <= 0:
                return []
            return _search(copy, vector, [tuple(prefix) for prefix in prefixes], limit)

        return await self._do(look)

    async def erase(self, partition: Partition) -> None:
        """See :meth:`VectorEngine.erase`."""

        def drop() -> None:
            name = self._name(partition)
            self._copies.pop(name, None)
            self._write(name, _FaissIndex(None, FENCE))

        await self._do(drop)

    async def _do(self, work: Callable[[], T]) -> T:
        """Do *work* in a thread, while no other call and no other process is at work in the folder."""

        def alone() -> T:
            with self._guard, self._locked():
                return work()

        try:
            return await asyncio.to_thread(alone)
        except (OSError, RuntimeError) as error:  # FAISS raises RuntimeError for all that goes wrong in it
            msg = f"The FAISS indexes in {self.location} cannot be used ({type(error).__name__}); check the folder."
            raise VectorEngineError(msg, engine=self.name) from error

    @contextmanager
    def _locked(self) -> Generator[None]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self._folder / "lock").open("ab") as lock:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _name(self, partition: Partition) -> str:
        return digest(self._prefix, partition.digest.hex()).hex()

    def _position_in(self, name: str, space: Space) -> Position | None:
        copy = self._current(name)
        return copy.position if copy is not None and copy.space in (None, space) else None

    def _apply(self, name: str, update: VectorUpdate) -> bool:
        if self._position_in(name, update.space) != update.since:
            return False
        if update.reset:
            copy = _FaissIndex(update.space, update.position, faiss.IndexFlatIP(update.space.dims))
            _extend(copy, update.puts)
        else:
            copy, puts = self._copies[name], list(update.puts)
            _drop(copy, [*update.removed, *((entry.namespace, entry.key) for entry in puts)])
            _extend(copy, puts)
            copy.changed += len(puts) + len(update.removed)
            if len(copy.names) - len(copy.numbers) > max(_SMALLEST_WASTE, len(copy.numbers) // 4):
                copy = _compacted(copy)
            copy.position = update.position
        if update.reset or copy.changed * 10 > len(copy.numbers):
            copy = self._write(name, copy)
        self._hold(name, copy)
        return True

    def _current(self, name: str) -> _FaissIndex | None:
        """Return the copy of a partition: that in RAM if it is of the folder's epoch, else the folder's."""
        header = self._header(name)
        copy = self._copies.get(name)
        if copy is not None and (header is None or header["position"][0] != copy.position.epoch):
            copy = None
            del self._copies[name]
        if copy is None and header is not None:
            copy = self._read(header)
            if copy is not None:
                self._hold(name, copy)
        return copy

    def _hold(self, name: str, copy: _FaissIndex) -> None:
        self._copies[name] = copy
        self._copies.move_to_end(name)
        for other in list(self._copies)[:-1]:
            if sum(held.nbytes for held in self._copies.values()) <= self._max_bytes:
                return
            self._save(other, self._copies.pop(other))

    def _save_all(self) -> None:
        while self._copies:
            self._save(*self._copies.popitem())

    def _save(self, name: str, copy: _FaissIndex) -> None:
        """Write what has changed, unless the partition was erased since, or the folder has something newer."""
        header = self._header(name)
        if copy.changed and header is not None:
            epoch, sequence = header["position"]
            if epoch == copy.position.epoch and sequence < copy.position.sequence:
                self._write(name, copy)

    def _header(self, name: str) -> dict[str, Any] | None:
        try:
            return json.loads((self._folder / f"{name}.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    def _read(self, header: dict[str, Any]) -> _FaissIndex | None:
        """Return what the folder has; ``None`` where that cannot be read, so that it is made anew."""
        epoch, sequence = header["position"]
        if header["space"] is None:
            return _FaissIndex(None, Position(epoch, sequence))
        files = self._folder / header["files"]
        try:
            index = faiss.read_index(f"{files}.faiss")
            names = [(tuple(labels), key, revision) for labels, key, revision in json.loads(_bytes(f"{files}.names"))]
        except (OSError, RuntimeError, ValueError):
            return None
        items = np.repeat(np.arange(len(names)), header["texts"] or [1] * len(names))
        if len(items) != index.ntotal:
            return None
        numbers = {(labels, key): number for number, (labels, key, _) in enumerate(names)}
        return _FaissIndex(Space(*header["space"]), Position(epoch, sequence), index, items, names, numbers)

    def _write(self, name: str, copy: _FaissIndex) -> _FaissIndex:
        """Write a copy's files, then the header by which they count, and remove those that counted before.

        Returns:
            The copy as it was written: without what is passed over.
        """
        files = None
        if copy.index is not None:
            copy = _compacted(copy)
            files = f"{name}.{new_id()}"
            faiss.write_index(copy.index, str(self._folder / f"{files}.faiss"))
            (self._folder / f"{files}.names").write_text(json.dumps(copy.names), encoding="ascii")
        texts: list[int] = np.bincount(copy.items, minlength=len(copy.names)).tolist()
        header = {
            "space": [copy.space.model, copy.space.dims] if copy.space else None,
            "position": [copy.position.epoch, copy.position.sequence],
            "files": files,
            "texts": texts if len(copy.items) != len(copy.names) else None,
        }
        part = self._folder / f"{name}.part"
        part.write_text(json.dumps(header), encoding="ascii")
        part.replace(self._folder / f"{name}.json")
        for old in self._folder.glob(f"{name}.*"):
            if old.suffix != ".json" and (files is None or not old.name.startswith(files)):
                old.unlink(missing_ok=True)
        copy.changed = 0
        return copy


def _extend(copy: _FaissIndex, entries: Iterable[VectorEntry]) -> None:
    left = iter(entries)
    while part := list(islice(left, _AT_ONCE)):
        first = len(copy.names)
        copy.index.add(np.concatenate([entry.vectors for entry in part]))
        numbers = np.repeat(np.arange(first, first + len(part)), [len(entry.vectors) for entry in part])
        copy.items = np.concatenate((copy.items, numbers))
        for number, entry in enumerate(part, first):
            copy.names.append((entry.namespace, entry.key, entry.revision))
            copy.numbers[entry.namespace, entry.key] = number


def _drop(copy: _FaissIndex, names: Iterable[tuple[Namespace, str]]) -> None:
    gone = [number for name in names if (number := copy.numbers.pop(name, None)) is not None]
    if gone:
        copy.items[np.isin(copy.items, gone)] = _GONE


def _compacted(copy: _FaissIndex) -> _FaissIndex:
    """Return *copy* without what is passed over."""
    if len(copy.numbers) == len(copy.names):
        return copy
    kept = np.sort(np.fromiter(copy.numbers.values(), np.int64, len(copy.numbers)))
    rows = np.flatnonzero(copy.items != _GONE)
    index = faiss.IndexFlatIP(copy.index.d)
    for start in range(0, len(rows), _AT_ONCE):
        index.add(copy.index.reconstruct_batch(rows[start : start + _AT_ONCE]))
    left: list[int] = kept.tolist()
    names = [copy.names[number] for number in left]
    numbers = {(labels, key): number for number, (labels, key, _) in enumerate(names)}
    items = np.searchsorted(kept, copy.items[rows])
    return _FaissIndex(copy.space, copy.position, index, items, names, numbers, copy.changed)


def _search(copy: _FaissIndex, vector: NDArray[np.float32], prefixes: list[Namespace], limit: int) -> list[NearItem]:
    """Return the nearest items: more rows are asked for until so many items are among them, or all rows are."""
    allowed = copy.items != _GONE
    if () not in prefixes:
        below = copy.below(prefixes)
        allowed &= below[copy.items] if len(below) else False
    rows = int(allowed.sum())
    bits = np.packbits(allowed, bitorder="little")
    selector = None if rows == len(allowed) else faiss.IDSelectorBitmap(bits)
    params = faiss.SearchParameters(sel=selector) if selector is not None else None
    asked = limit
    while True:
        asked = min(asked, rows)
        if not asked:
            return []
        cosines, found = copy.index.search(vector[None], asked, params=params)
        nearest: dict[int, float] = {}
        for number, cosine in zip(copy.items[found[0]].tolist(), cosines[0].tolist(), strict=True):
            nearest.setdefault(number, cosine)
        if len(nearest) >= limit or asked == rows:
            return [NearItem(*copy.names[number], cosine) for number, cosine in list(nearest.items())[:limit]]
        asked *= 2


def _bytes(path: str) -> bytes:
    return Path(path).read_bytes()
