"""The arrays of an index: growing columns, and the vectors of its texts as 32-bit floats or 8-bit steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import numpy as np

from threadkeep.errors import StaleVectorsError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from threadkeep.storage.rows import ItemColumns

Precision: TypeAlias = Literal["float32", "int8"]
"""How a number of a vector is held. ``int8``: as one of 255 steps of its row, with a factor for each row."""

VectorKind: TypeAlias = tuple[str, int]
"""The name of the model that made a vector, and its number of dimensions."""

_STEPS: Final = 127
_NBYTES: Final = attrgetter("nbytes")
_FLOAT_BYTES: Final = 4
_UNIT_WITHIN: Final = 1e-4
_ROWS_AT_ONCE: Final = 1_024


class Column:
    """An array that grows at its end; an append costs amortised constant time.

    What was appended never moves within its array: a reader that holds :attr:`filled` keeps seeing
    those rows, whatever is appended afterwards.

    Args:
        dtype: Of its elements.
        width: Length of each row; 0: a row is one number.

    Attributes:
        filled: The rows so far, as a view.
        nbytes: Bytes held, the reserve included.
    """

    def __init__(self, dtype: DTypeLike, width: int = 0) -> None:
        self._hold(np.zeros((0, width) if width else 0, dtype), 0)

    def __len__(self) -> int:
        return len(self.filled)

    def extend(self, rows: ArrayLike) -> None:
        """Append *rows*."""
        added: NDArray[Any] = np.asarray(rows, self._array.dtype)
        start, end = len(self.filled), len(self.filled) + len(added)
        if end > len(self._array):
            self._grow(end)
        self._array[start:end] = added
        self.filled = self._array[:end]

    def reserve(self, rows: int) -> None:
        """Make room for so many further *rows* at once."""
        if len(self.filled) + rows > len(self._array):
            self._grow(len(self.filled) + rows)

    def replace(self, rows: NDArray[Any]) -> None:
        """Hold *rows* and nothing else, in an array of its own."""
        self._hold(np.array(rows, self._array.dtype), len(rows))

    def _grow(self, rows: int) -> None:
        """Make room for *rows* in all; by half as much again, so that the reserve stays under a third."""
        grown = np.zeros((max(rows, len(self._array) * 3 // 2), *self._array.shape[1:]), self._array.dtype)
        grown[: len(self.filled)] = self.filled
        self._hold(grown, len(self.filled))

    def _hold(self, array: NDArray[Any], rows: int) -> None:
        self._array = array
        self.filled: NDArray[Any] = array[:rows]
        self.nbytes: int = array.nbytes


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


def total_bytes(parts: Iterable[_Sized]) -> int:
    """Return the bytes that *parts* hold together, their reserves included."""
    return sum(map(_NBYTES, parts))


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows of a :class:`Matrix` at one moment.

    Attributes:
        numbers: Shape ``(rows, dims)``, ``float32`` or ``int8``.
        factors: What the numbers of each row are to be multiplied by; ``None``: by 1.
        present: Which rows are vectors; the others are zero.
    """

    numbers: NDArray[Any]
    factors: NDArray[np.float32] | None
    present: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.numbers)

    def at(self, places: NDArray[np.intp]) -> Rows:
        """Return the rows at *places*, copied."""
        factors = None if self.factors is None else self.factors[places]
        return Rows(self.numbers[places], factors, self.present[places])

    def floats(self) -> NDArray[np.float32]:
        """Return all rows as ``float32`` of unit length or zero, shape ``(rows, dims)``."""
        return self.numbers if self.factors is None else self.numbers.astype(np.float32) * self.factors[:, None]

    def products(self, asked: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the products of all rows with each row of *asked*, shape ``(asked, rows)``.

        Row by row rather than as one matrix product: a product in blocks sums the rows at its ragged end
        in another order, so that equal vectors differ, and its threads wait for a busy core. What is too
        much for the processor's cache is taken in parts, so that it comes from memory once.
        """
        if len(self) <= _ROWS_AT_ONCE:
            numbers = self.numbers.astype(np.float32, copy=False)
            products = np.vecdot(numbers[None], asked[:, None])
        else:
            products = np.empty((len(asked), len(self)), np.float32)
            for start in range(0, len(self), _ROWS_AT_ONCE):
                part = self.numbers[start : start + _ROWS_AT_ONCE].astype(np.float32, copy=False)
                for place, one in enumerate(asked):
                    np.vecdot(part, one, out=products[place, start : start + _ROWS_AT_ONCE])
        if self.factors is not None:
            products *= self.factors
        return products


class Matrix:
    """One row for each text: its vector in unit length, or zeros where there is none that can be compared.

    Args:
        model: Name of the embedder of the vectors that are compared; ``None``: none are.
        dims: Their length; ``None``: that of the first one seen.
        precision: How their numbers are held.
    """

    def __init__(self, model: str | None, dims: int | None, precision: Precision) -> None:
        self.dims = dims
        self._model = model
        self._precision: Precision = precision
        self._present = Column(np.bool_)
        self._numbers: Column | None = None
        self._factors: Column | None = None
        if dims:
            self._make(dims, rows=0)

    def __len__(self) -> int:
        return len(self._present)

    @property
    def nbytes(self) -> int:
        """Bytes held, the reserve included."""
        columns = (self._present, self._factors, self._numbers)
        return total_bytes([column for column in columns if column is not None])

    @property
    def rows(self) -> Rows | None:
        """All rows as they are now, which nothing changes; ``None`` before the first vector of unknown length."""
        if self._numbers is None:
            return None
        factors = None if self._factors is None else self._factors.filled
        return Rows(self._numbers.filled, factors, self._present.filled)

    def reserve(self, rows: int) -> None:
        """Make room for so many further rows at once."""
        for column in (self._present, self._factors, self._numbers):
            if column is not None:
                column.reserve(rows)

    def extend(self, fields: ItemColumns, texts: Sequence[Sequence[str]]) -> dict[VectorKind, None]:
        """Append the vectors of some items, a row for each of an item's *texts*, one for an item without any.

        Returns:
            The kinds of vectors that the items have, comparable or not, each once, in their order.
        """
        kinds = {
            (model, dims): None
            for model, dims in dict.fromkeys(zip(fields.models, fields.dims, strict=True))
            if model is not None and dims is not None
        }
        if self.dims is None and self._model is not None:
            self._make_for(fields, texts)
        rows = [len(own) or 1 for own in texts]
        if self.dims is None:
            self._append(b"", np.zeros(sum(rows), np.bool_))
            return kinds
        size = _FLOAT_BYTES * self.dims
        usable: list[bool] = [
            model == self._model and dims == self.dims and vectors is not None and len(vectors) == size * len(own) > 0
            for model, dims, vectors, own in zip(fields.models, fields.dims, fields.vectors, texts, strict=True)
        ]
        data = [
            vectors if one and vectors is not None else bytes(size * count)
            for vectors, one, count in zip(fields.vectors, usable, rows, strict=True)
        ]
        self._append(b"".join(data), np.repeat(usable, rows))
        return kinds

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop all rows but those of the mask *kept*."""
        for column in (self._present, self._factors, self._numbers):
            if column is not None:
                column.replace(column.filled[kept])

    def _make_for(self, fields: ItemColumns, texts: Sequence[Sequence[str]]) -> None:
        """Make room for vectors of the length that the first one of the model has, if there is any."""
        for model, dims, own in zip(fields.models, fields.dims, texts, strict=True):
            if model == self._model and dims is not None and own:
                self._make(dims, rows=len(self))
                return

    def _make(self, dims: int, *, rows: int) -> None:
        """Make room for vectors of *dims* numbers, after so many *rows* without any."""
        self.dims = dims
        self._numbers = Column(np.dtype(self._precision), dims)
        self._numbers.extend(np.zeros((rows, dims)))
        if self._precision == "int8":
            self._factors = Column(np.float32)
            self._factors.extend(np.zeros(rows))

    def _append(self, data: bytes, present: NDArray[np.bool_]) -> None:
        if self._numbers is not None and self.dims is not None:
            vectors = np.frombuffer(data, "<f4").reshape(-1, self.dims)
            squares = np.einsum("ij,ij->i", vectors, vectors)
            if (odd := ~(np.abs(squares - 1.0) <= _UNIT_WITHIN)).any():
                vectors = _units(vectors, squares, odd)
                present[-len(squares) :] &= np.isfinite(squares)
            if self._factors is not None:
                vectors, factors = _in_steps(vectors)
                self._factors.extend(factors)
            self._numbers.extend(vectors)
        self._present.extend(present)


def unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return *vector* with a length of 1; zero stays zero."""
    length = sqrt(float(vector @ vector))
    return (vector / length if length > 0 else vector).astype(np.float32, copy=False)


def _units(vectors: NDArray[np.float32], squares: NDArray[np.float32], odd: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return *vectors* with those that are *odd* brought to a length of 1, or to zero where that cannot be."""
    made = vectors.copy()
    usable = odd & np.isfinite(squares) & (squares > 0)
    made[usable] /= np.sqrt(squares[usable])[:, None]
    made[odd & ~usable] = 0.0
    return made


def _in_steps(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return *vectors* in whole steps of each row, at most 127 either way, and what makes rows of length 1 of them."""
    largest = np.abs(vectors).max(axis=1)
    steps = np.rint(vectors * (_STEPS / np.where(largest > 0, largest, 1.0))[:, None])
    squares = np.einsum("ij,ij->i", steps, steps)
    return steps, np.where(squares > 0, 1.0 / np.sqrt(np.maximum(squares, 1.0)), 0.0)


def stale(kinds: Iterable[VectorKind], model: str, dims: int | None) -> StaleVectorsError | None:
    """Return what is wrong with the first of *kinds* that is of another model or length; ``None``: nothing.

    Args:
        kinds: Of stored vectors.
        model: The name of the embedder in use.
        dims: The length of its vectors; ``None``: not known yet.
    """
    for stored, length in kinds:
        if stored == model and dims in (None, length):
            continue
        numbers = f" of {dims} numbers" if dims else ""
        msg = (
            f"Stored vectors are of {stored} ({length} numbers), and the embedder {model} gives "
            f"others{numbers}: what they belong to is found by words only. Run threadkeep storage re-embed."
        )
        return StaleVectorsError(msg, model=model, stored=stored, dims=length)
    return None
