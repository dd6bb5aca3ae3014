"""A file as read, before columns are chosen: names, and numbers or text cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.tables.cells import numbers

__all__ = ["RawTable"]


@dataclass(frozen=True, eq=False)
class RawTable:
    """What a file holds, not yet checked.

    Parameters
    ----------
    names : tuple of str
        One name per column.
    content : ndarray, shape (n_rows, n_columns), or sequence of sequence of str
        Numbers, or the text cells of each column.
    notes : tuple of str
        Sentences on how the file was read.
    """

    names: tuple[str, ...]
    content: NDArray[Any] | Sequence[Sequence[str]]
    notes: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of data rows."""
        if isinstance(self.content, np.ndarray):
            return int(self.content.shape[0])
        return len(self.content[0])

    def numbers(self, chosen: Sequence[int]) -> NDArray[Any]:
        """Chosen columns as numbers, NaN where a cell is missing.

        Parameters
        ----------
        chosen : sequence of int
            Positions of the columns.

        Returns
        -------
        ndarray, shape (n_rows, len(chosen))
            Of the file's numeric type, float64 for text.

        Examples
        --------
        >>> from ebm.tables.raw import RawTable
        >>> RawTable(("a", "b"), [["0", "1"], ["x", "y"]]).numbers([0]).tolist()
        [[0.0], [1.0]]
        """
        if isinstance(self.content, np.ndarray):
            # A whole table stays as it is: no copy of what may be large.
            whole = list(chosen) == list(range(self.content.shape[1]))
            return self.content if whole else self.content[:, list(chosen)]
        columns = [self.content[index] for index in chosen]
        return numbers([self.names[index] for index in chosen], columns)
