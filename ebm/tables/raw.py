"""A file as read, before columns are chosen: names, numbers, and columns of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.errors import CodingError
from ebm.tables.cells import text_complaint

__all__ = ["RawTable"]


@dataclass(frozen=True, eq=False)
class RawTable:
    """What a file holds, not yet checked.

    Parameters
    ----------
    names : tuple of str
        One name per column.
    values : ndarray, shape (n_rows, n_columns)
        NaN where a cell is missing, and in columns of text.
    texts : mapping of int to sequence of str
        The cells of each column that holds something else than numbers.
    row_names : tuple of str, optional
        Where each row begins with a name.
    notes : tuple of str
        Sentences on how the file was read.
    """

    names: tuple[str, ...]
    values: NDArray[Any]
    texts: Mapping[int, Sequence[str]] = field(default_factory=dict)
    row_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of data rows."""
        return len(self.values)

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

        Raises
        ------
        CodingError
            If a chosen column holds text; the first such column, row and text are named.

        Examples
        --------
        >>> import numpy as np
        >>> from ebm.tables.raw import RawTable
        >>> RawTable(("a", "b"), np.array([[0, 1], [1, 0]])).numbers([1]).tolist()
        [[1], [0]]
        """
        if not self.texts.keys().isdisjoint(chosen):
            raise CodingError(text_complaint(self.names, self.texts, chosen))
        # A whole table stays as it is: no copy of what may be large.
        whole = list(chosen) == list(range(len(self.names)))
        return self.values if whole else self.values[:, list(chosen)]

    def labels(self, index: int) -> list[str]:
        """The cells of a column as names, whether it holds text or numbers."""
        if index in self.texts:
            return [str(text).strip() for text in self.texts[index]]
        return [f"{value:.15g}" for value in self.values[:, index].tolist()]

    def with_row_names(self) -> RawTable:
        """The first column as names of the rows instead, with a note."""
        labels = self.labels(0)
        return replace(
            self,
            names=self.names[1:],
            values=np.ascontiguousarray(self.values[:, 1:]),
            texts={index - 1: texts for index, texts in self.texts.items() if index},
            row_names=tuple(labels),
            notes=(
                *self.notes,
                "The first column, which the header does not name, was read as the names of the "
                f"rows ({', '.join(labels[:3])}, …) and left out.",
            ),
        )
