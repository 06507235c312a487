"""Growing numpy arrays: what an index is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray


class Column:
    """An array that grows at its end; an append costs amortised constant time.

    What was appended never moves within its array: a reader that holds :attr:`filled` keeps seeing
    those rows, whatever is appended afterwards.

    Args:
        dtype: Of its elements.
        width: Length of each row; 0: a row is one number.
    """

    def __init__(self, dtype: DTypeLike, width: int = 0) -> None:
        self._array: NDArray[Any] = np.zeros((0, width) if width else 0, dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def filled(self) -> NDArray[Any]:
        """The rows so far, as a view."""
        return self._array[: self._length]

    @property
    def nbytes(self) -> int:
        """Bytes held, the reserve included."""
        return self._array.nbytes

    def extend(self, rows: ArrayLike) -> None:
        """Append *rows*."""
        added: NDArray[Any] = np.asarray(rows, self._array.dtype)
        end = self._length + len(added)
        self._reserve(end)
        self._array[self._length : end] = added
        self._length = end

    def reserve(self, rows: int) -> None:
        """Make room for so many further *rows* at once."""
        self._reserve(self._length + rows)

    def replace(self, rows: NDArray[Any]) -> None:
        """Hold *rows* and nothing else, in an array of its own."""
        self._array = np.array(rows, self._array.dtype)
        self._length = len(rows)

    def _reserve(self, rows: int) -> None:
        """Make room; by half as much again, so that the reserve stays under a third."""
        if rows <= len(self._array):
            return
        room = max(rows, len(self._array) * 3 // 2) if len(self._array) else rows
        grown = np.zeros((room, *self._array.shape[1:]), self._array.dtype)
        grown[: self._length] = self._array[: self._length]
        self._array = grown
