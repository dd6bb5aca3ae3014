"""Numbers for each category of each item, which may have different numbers of categories.

They are held item by item, a tuple of vectors (q_i,), and computed with one after another,
(Σ q_i,), as the features of the space are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from ebm._arrays import as_floats
from ebm._types import Array, Flags
from ebm.errors import ModelError, ShapeError
from ebm.models import _couplings
from ebm.spaces import FiniteSpace, Levels, Product
from ebm.spaces._labels import Names, aligned

#: One vector for each item.
ByItem = tuple[Array, ...]


def by_item(values: Any, name: str, names: Names) -> ByItem:
    """Read-only vectors of finite numbers, from an array (n, q) or from n vectors."""
    if isinstance(values, list | tuple) and len({np.size(row) for row in values}) > 1:
        rows = [as_floats(row, f"{name}[{item}]") for item, row in enumerate(values)]
    else:
        array = aligned(values, name, names)
        if array.ndim != 2:
            raise ShapeError(
                f"{name} must hold a vector of numbers for each item, one for each category, as an "
                f"array (n, q) or a list of n vectors, got shape {array.shape}"
            )
        rows = list(array)
    for item, row in enumerate(rows):
        if row.ndim != 1 or len(row) < 2:
            raise ShapeError(
                f"{name}[{item}] must be a vector of two or more numbers, one for each category, "
                f"got shape {row.shape}"
            )
        _couplings.require_finite(row, f"{name}[{item}]")
    return tuple(_couplings.read_only(row) for row in rows)


def scores_by_item(values: Any, sizes: Sequence[int], names: Names) -> ByItem:
    """Scores of the categories: 0, …, q_i − 1 where none are given, or one vector for all items."""
    if values is None:
        return tuple(_couplings.read_only(np.arange(q)) for q in sizes)
    is_vector = isinstance(values, list | tuple | np.ndarray) and all(
        np.ndim(value) == 0 for value in values
    )
    scores = by_item([values] * len(sizes) if is_vector else values, "scores", names)
    given = [len(row) for row in scores]
    if given != list(sizes):
        raise ShapeError(
            f"scores must be as many as thresholds, {list(sizes)} for the items, got {given}"
        )
    for item, row in enumerate(scores):
        if np.ptp(row) == 0:
            raise ModelError(
                f"scores[{item}] must differ between categories, got {row[0]:g} for all of them: "
                "no coupling would act on this item"
            )
    return scores


def levels_of(sizes: Sequence[int], names: Names) -> FiniteSpace:
    """``Levels`` where all items have as many categories, else a product of such spaces."""
    runs = [(q, len(list(run))) for q, run in groupby(sizes)]
    if len(runs) == 1:
        q, n = runs[0]
        return Levels(n, q, names=None if names is None else tuple(names))
    product: Any = Product(*(Levels(n, q) for q, n in runs), names=names)
    return product  # type: ignore[no-any-return]


def starts_of(sizes: Sequence[int]) -> Flags:
    """Which categories are the first of their item, (Σ q_i,)."""
    first: Flags = np.zeros(sum(sizes), dtype=bool)
    first[np.cumsum([0, *sizes[:-1]])] = True
    return first
