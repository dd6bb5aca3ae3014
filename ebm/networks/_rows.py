"""Labelled rows of a classifier: checked once, then streamed in blocks."""

from __future__ import annotations

import hashlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ebm._arrays import as_integer
from ebm.errors import CodingError, EbmError, MissingValueError, ModelError, ShapeError
from ebm.networks._tensors import (
    as_array,
    as_inputs,
    as_labels,
    as_tensor,
    chosen_device,
    chosen_dtype,
)
from ebm.spaces._labels import row_order

__all__ = ["Block", "LoadedRows", "Rows", "StoredRows", "labelled_rows"]

#: Rows that are checked, or read from a file, at once.
CHECKED_ROWS = 4096


class Block(NamedTuple):
    """Some rows: ``inputs`` z, (B, E); ``labels`` m, (B,); ``weights`` p(z, m), (B,)."""

    inputs: Tensor
    labels: Tensor
    weights: Tensor


@dataclass(frozen=True, eq=False)
class Rows(ABC):
    """The empirical distribution p(z, m): one label m = 0 … M−1 for each row z.

    ``class_probabilities`` are p(m), (M,), on the CPU in float64; ``weights`` p(z, m), (N,).
    """

    n_rows: int
    n_inputs: int
    class_probabilities: Tensor
    device: torch.device
    dtype: torch.dtype
    weights: Tensor

    @property
    def n_classes(self) -> int:
        """M."""
        return len(self.class_probabilities)

    @abstractmethod
    def blocks(self, size: int) -> Iterator[Block]:
        """All rows in order, at most ``size`` at a time."""


@dataclass(frozen=True, eq=False)
class StoredRows(Rows):
    """Rows in memory, or in a memory-mapped file that is read block by block."""

    inputs: Any
    labels: Tensor

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows in order."""
        if isinstance(self.inputs, np.memmap):
            size = min(size, CHECKED_ROWS)
        for start in range(0, self.n_rows, size):
            part = slice(start, start + size)
            inputs = as_inputs(self.inputs[part], self.dtype, self.device)
            yield Block(inputs, self.labels[part], self.weights[part])


_OTHER_ROWS = (
    "two passes over the DataLoader gave different rows: use shuffle=False, a sampler with a fixed "
    "order, and no random transforms"
)


@dataclass(frozen=True, eq=False)
class LoadedRows(Rows):
    """Rows of a DataLoader, read anew at every pass and compared with the first one."""

    loader: Any
    digest: bytes

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows in order."""
        digest, start = hashlib.blake2b(), 0
        for inputs, labels in _batches(self.loader):
            _digest(digest, inputs, labels)
            weights = self.weights[start : start + len(labels)]
            start += len(labels)
            if len(weights) < len(labels) or inputs.shape[1:] != (self.n_inputs,):
                raise EbmError(_OTHER_ROWS)
            z = as_inputs(inputs, self.dtype, self.device)
            m = labels.to(self.device)
            for first in range(0, len(z), size):
                part = slice(first, first + size)
                yield Block(z[part], m[part], weights[part])
        if digest.digest() != self.digest:
            raise EbmError(_OTHER_ROWS)


def labelled_rows(
    inputs: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    n_classes: int | None = None,
    classes_may_be_empty: bool = False,
    device: Any = None,
    dtype: Any = None,
) -> Rows:
    """Check inputs and labels, and make them ready to be streamed."""
    place = chosen_device(device, inputs)
    count = _Count(
        None if n_classes is None else as_integer(n_classes, "n_classes"), classes_may_be_empty
    )
    if isinstance(inputs, torch.utils.data.DataLoader):
        if labels is not None:
            raise ModelError("labels must be None with a DataLoader: it yields them itself")
        return _loaded(inputs, sample_weight, count, place, dtype)
    given = as_array(inputs, "inputs")
    kind = chosen_dtype(dtype, given)
    is_mapped = isinstance(given, np.memmap)
    z = given if is_mapped else as_inputs(given, kind, place, copy=True)
    _require_matrix(z)
    for start in range(0, len(z), CHECKED_ROWS):
        _require_finite(as_inputs(z[start : start + CHECKED_ROWS], kind, place), start)
    m = as_labels(labels)
    if m.shape != (len(z),):
        raise ShapeError(f"labels must have shape ({len(z)},), one a row, got {tuple(m.shape)}")
    m = _in_row_order(m, labels, inputs, "labels")
    weights = _weights(sample_weight, len(z))
    weights = _in_row_order(weights, sample_weight, inputs, "sample_weight")
    shares = _class_probabilities(m, weights, count)
    if bool((weights == 0).any()) and not is_mapped:
        kept = weights > 0
        z, m, weights = z[kept.to(place)], m[kept], weights[kept]
    return StoredRows(
        len(z), z.shape[1], shares, place, kind, weights.to(place, kind), z, m.to(place)
    )


def _in_row_order(entries: Tensor, given: Any, inputs: Any, name: str) -> Tensor:
    """One entry for each row, by the labels of a series and a frame where both have them."""
    order = row_order(given, inputs, name)
    return entries if order is None else entries[torch.from_numpy(order)]


def _loaded(
    loader: Any, sample_weight: Any, count: _Count, device: torch.device, dtype: Any
) -> Rows:
    """One pass to check and count, and a second one that must agree with it."""
    digest, width, kind = hashlib.blake2b(), None, None
    labels: list[Tensor] = []
    for inputs, m in _batches(loader):
        _require_matrix(inputs)
        kind = kind or chosen_dtype(dtype, inputs)
        width = width or inputs.shape[1]
        if inputs.shape[1] != width:
            raise ShapeError(f"batches must all have {width} columns, got {inputs.shape[1]}")
        _require_finite(as_inputs(inputs, kind, device), sum(len(part) for part in labels))
        _digest(digest, inputs, m)
        labels.append(m)
    if width is None or kind is None:
        raise ShapeError("the DataLoader yields no rows")
    every = torch.cat(labels)
    weights = _weights(sample_weight, len(every))
    shares = _class_probabilities(every, weights, count)
    rows = LoadedRows(
        len(every), width, shares, device, kind, weights.to(device, kind), loader, digest.digest()
    )
    for _ in rows.blocks(CHECKED_ROWS):
        pass
    return rows


def _batches(loader: Any) -> Iterator[tuple[Tensor, Tensor]]:
    for batch in loader:
        if not isinstance(batch, list | tuple) or len(batch) != 2:
            raise ModelError("a DataLoader must yield pairs (inputs, labels)")
        inputs, labels = batch[0], as_labels(batch[1])
        if not isinstance(inputs, Tensor | np.ndarray):
            raise ModelError(
                "a DataLoader must yield inputs as one tensor a batch, got "
                f"{type(inputs).__name__}: collate them, or flatten its pieces to rows"
            )
        if isinstance(inputs, np.ndarray):
            chosen_dtype(None, inputs)
            inputs = torch.from_numpy(np.array(inputs))
        if labels.shape != inputs.shape[:1]:
            raise ShapeError(
                f"a batch of {len(inputs)} rows must have as many labels, got {tuple(labels.shape)}"
            )
        yield inputs, labels


def _digest(digest: Any, inputs: Tensor, labels: Tensor) -> None:
    for tensor in (inputs, labels):
        # As bytes: numpy has no bfloat16.
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(flat.view(torch.uint8).numpy().tobytes())


def _require_matrix(inputs: Any) -> None:
    if inputs.ndim != 2 or not inputs.shape[0] or not inputs.shape[1]:
        raise ShapeError(
            f"inputs must have shape (N, E), one row for each example, got {tuple(inputs.shape)}: "
            "flatten images to rows"
        )


def _require_finite(inputs: Tensor, start: int) -> None:
    bad = ~torch.isfinite(inputs).all(1)
    if bool(bad.any()):
        row = int(bad.nonzero()[0])
        column = int((~torch.isfinite(inputs[row])).nonzero()[0])
        raise MissingValueError(
            f"inputs must be finite in {inputs.dtype}, got {float(inputs[row, column])} in row "
            f"{start + row}, column {column}: drop such rows or fill them in"
        )


def _weights(sample_weight: Any, n_rows: int) -> Tensor:
    if sample_weight is None:
        return torch.full((n_rows,), 1 / n_rows, dtype=torch.float64, device="cpu")
    weights = as_tensor(sample_weight, "sample_weight").detach().to("cpu", torch.float64)
    if weights.shape != (n_rows,):
        raise ShapeError(f"sample_weight must have shape ({n_rows},), got {tuple(weights.shape)}")
    if not bool(torch.isfinite(weights).all()) or bool((weights < 0).any()):
        raise ModelError("sample_weight must be finite and not negative")
    if not bool((weights > 0).any()):
        raise ModelError("sample_weight must not be zero everywhere")
    # Their sum may overflow.
    weights = weights / weights.max()
    return weights / weights.sum()


class _Count(NamedTuple):
    """How many classes were asked for, and whether some may be missing."""

    n_classes: int | None
    may_be_empty: bool


def _class_probabilities(labels: Tensor, weights: Tensor, count: _Count) -> Tensor:
    largest = max(int(labels.max()), 0)
    m = largest + 1 if count.n_classes is None else count.n_classes
    if int(labels.min()) < 0 or largest >= m:
        wrong = labels[(labels < 0) | (labels >= m)][0]
        raise CodingError(f"labels must be integers 0 … M−1, here 0 … {m - 1}, got {int(wrong)}")
    if not count.may_be_empty:
        _require_every_class(labels[weights > 0], m)
    return torch.zeros(m, dtype=torch.float64, device="cpu").index_add_(0, labels, weights)


def _require_every_class(labels: Tensor, n_classes: int) -> None:
    if n_classes < 2:
        raise CodingError("labels must have at least two classes, got class 0 only")
    present = labels.unique().tolist()
    if len(present) < n_classes:
        # No array of that length: a label may be any number by mistake.
        known, empty = set(present), itertools.count()
        first = list(itertools.islice((k for k in empty if k not in known), 3))
        missing = ", ".join(map(str, first[: n_classes - len(present)]))
        more = n_classes - len(present) - len(first)
        raise CodingError(
            f"labels must have rows in every class 0 … {n_classes - 1}, got none in {missing}"
            f"{f' and {more} more' if more > 0 else ''}: number the classes without gaps, by "
            "np.unique(labels, return_inverse=True)[1] say"
        )
