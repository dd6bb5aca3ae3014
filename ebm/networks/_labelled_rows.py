"""Labelled rows of a classifier: checked once, then streamed in blocks, or drawn in batches."""

from __future__ import annotations

import hashlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ebm._arrays import as_integer
from ebm._devices import chosen_device
from ebm._types import Indices
from ebm.errors import CodingError, EbmError, MissingValueError, ModelError, ShapeError
from ebm.networks._tensors import (
    as_array,
    as_inputs,
    as_labels,
    as_tensor,
    chosen_dtype,
)
from ebm.spaces._labels import row_order

#: Largest number of rows that are checked, or read from a file, at once.
CHECKED_ROWS = 4096


@dataclass(frozen=True, eq=False)
class RowSettings:
    """Weights, number of classes, device and precision of labelled rows.

    Parameters
    ----------
    sample_weight : array_like, (N,), optional
        p(z, m) up to a factor, equal by default. Classes need not be balanced; a row of weight zero
        is left out.
    n_classes : int, optional
        M, by default the largest label plus one.
    device : torch.device or str, optional
        Device of the arithmetic, by default that of the inputs.
    dtype : torch.dtype or str, optional
        float32 or float64, by default that of the inputs.

    Examples
    --------
    >>> from ebm.networks import RowSettings, SoftmaxMLPAction
    >>> SoftmaxMLPAction([[1.0], [2.0]], [0, 1], 1, settings=RowSettings(dtype="float32")).dtype
    torch.float32
    """

    sample_weight: Any = None
    n_classes: int | None = None
    device: Any = None
    dtype: Any = None


#: Rows of equal weight, in the precision and on the device of the inputs.
EQUAL_ROWS = RowSettings()


class Block(NamedTuple):
    """Some rows: ``inputs`` z, (B, E); ``labels`` m, (B,); ``weights`` p(z, m), (B,)."""

    inputs: Tensor
    labels: Tensor
    weights: Tensor


@dataclass(frozen=True, eq=False)
class LabelledRows(ABC):
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
class StoredRows(LabelledRows):
    """Rows in memory, or in a memory map that is read block by block."""

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
class LoadedRows(LabelledRows):
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
    settings: RowSettings,
    *,
    classes_may_be_empty: bool = False,
) -> LabelledRows:
    """Check inputs z, (N, E), and labels m, (N,), and weight them by p(z, m).

    A memory map is read block by block and never copied. A DataLoader yields pairs (inputs, labels)
    in the same order at every pass, and takes None for the labels.
    """
    default = inputs.device if isinstance(inputs, Tensor) else "cpu"
    place = chosen_device(default if settings.device is None else settings.device)
    m = settings.n_classes
    n_classes = None if m is None else as_integer(m, "n_classes")
    if isinstance(inputs, torch.utils.data.DataLoader):
        if labels is not None:
            raise ModelError("labels must be None with a DataLoader, which yields its own labels")
        return _loaded(inputs, settings, place, n_classes, classes_may_be_empty)
    array = as_array(inputs, "inputs")
    kind = chosen_dtype(settings.dtype, array)
    is_mapped = isinstance(array, np.memmap)
    z = array if is_mapped else as_inputs(array, kind, place, copy=True)
    _require_matrix(z)
    for start in range(0, len(z), CHECKED_ROWS):
        _require_finite(as_inputs(z[start : start + CHECKED_ROWS], kind, place), start)
    classes = as_labels(labels)
    if classes.shape != (len(z),):
        raise ShapeError(
            f"labels must have shape ({len(z)},), one a row, got {tuple(classes.shape)}"
        )
    classes = _in_row_order(classes, labels, inputs, "labels")
    weights = _weights(settings.sample_weight, len(z))
    weights = _in_row_order(weights, settings.sample_weight, inputs, "sample_weight")
    shares = _class_probabilities(classes, weights, n_classes, classes_may_be_empty)
    if bool((weights == 0).any()) and not is_mapped:
        present = weights > 0
        z, classes, weights = z[present.to(place)], classes[present], weights[present]
    return StoredRows(
        len(z), z.shape[1], shares, place, kind, weights.to(place, kind), z, classes.to(place)
    )


def rows_for_network(
    inputs: Any, labels: Any, n_inputs: int, settings: RowSettings
) -> LabelledRows:
    """Rows for a network with given inputs and classes; some classes may have no rows."""
    rows = labelled_rows(inputs, labels, settings, classes_may_be_empty=True)
    if rows.n_inputs != n_inputs:
        raise ShapeError(
            f"inputs must have {n_inputs} columns, got {rows.n_inputs}: one for each input of the "
            "network"
        )
    return rows


def _in_row_order(entries: Tensor, series: Any, inputs: Any, name: str) -> Tensor:
    """Entries in the order of the rows, by the index of a series and a frame of pandas."""
    order = row_order(series, inputs, name)
    return entries if order is None else entries[torch.from_numpy(order)]


def _loaded(
    loader: Any,
    settings: RowSettings,
    device: torch.device,
    n_classes: int | None,
    may_be_empty: bool,
) -> LabelledRows:
    """Rows of a DataLoader after a pass that checks them and a second one that compares."""
    digest, width, kind = hashlib.blake2b(), None, None
    labels: list[Tensor] = []
    for inputs, m in _batches(loader):
        _require_matrix(inputs)
        kind = kind or chosen_dtype(settings.dtype, inputs)
        width = width or inputs.shape[1]
        if inputs.shape[1] != width:
            raise ShapeError(f"batches must all have {width} columns, got {inputs.shape[1]}")
        _require_finite(as_inputs(inputs, kind, device), sum(len(part) for part in labels))
        _digest(digest, inputs, m)
        labels.append(m)
    if width is None or kind is None:
        raise ShapeError("the DataLoader yields no rows")
    every = torch.cat(labels)
    weights = _weights(settings.sample_weight, len(every))
    shares = _class_probabilities(every, weights, n_classes, may_be_empty)
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
    # The sum of unscaled weights may overflow.
    weights = weights / weights.max()
    return weights / weights.sum()


def _class_probabilities(
    labels: Tensor, weights: Tensor, n_classes: int | None, may_be_empty: bool
) -> Tensor:
    """p(m), (M,), where M is the largest label plus one if not given."""
    largest = max(int(labels.max()), 0)
    m = largest + 1 if n_classes is None else n_classes
    if int(labels.min()) < 0 or largest >= m:
        wrong = labels[(labels < 0) | (labels >= m)][0]
        raise CodingError(f"labels must be integers 0 … M−1, here 0 … {m - 1}, got {int(wrong)}")
    if not may_be_empty:
        _require_every_class(labels[weights > 0], m)
    return torch.zeros(m, dtype=torch.float64, device="cpu").index_add_(0, labels, weights)


def _require_every_class(labels: Tensor, n_classes: int) -> None:
    if n_classes < 2:
        raise CodingError("labels must have at least two classes, got class 0 only")
    present = labels.unique().tolist()
    if len(present) < n_classes:
        # No array of M elements: M may be huge when a label is wrong.
        known = set(present)
        first = list(itertools.islice((k for k in itertools.count() if k not in known), 3))
        missing = ", ".join(map(str, first[: n_classes - len(present)]))
        more = n_classes - len(present) - len(first)
        raise CodingError(
            f"labels must have rows in every class 0 … {n_classes - 1}, got none in {missing}"
            f"{f' and {more} more' if more > 0 else ''}: number the classes without gaps, by "
            "np.unique(labels, return_inverse=True)[1] say"
        )


def recomputed(share: Callable[..., Any], is_needed: bool) -> Callable[..., Any]:
    """A function of a block that a backward pass evaluates again, if needed.

    Otherwise the graph would hold the hidden units of all blocks at once.
    """
    if is_needed and torch.is_grad_enabled():
        return partial(checkpoint, share, use_reentrant=False)
    return share


#: Yields the blocks of the rows of one step at each call.
StepBlocks = Callable[[], Iterator[Block]]


@dataclass(frozen=True, eq=False)
class Batches:
    """Mini-batches of rows, or all rows at every step.

    The weights of a batch add up so that Σ w ℓ is an unbiased estimate of the mean of ℓ over
    p(z, m). Rows in memory or in a memory map are shuffled once an epoch; those of a DataLoader
    come in its order.
    """

    rows: LabelledRows
    size: int | None
    key: int
    block_size: int

    def per_epoch(self) -> int:
        """Steps in an epoch; a DataLoader is read once to count them."""
        if self.size is None:
            return 1
        if isinstance(self.rows, StoredRows):
            return -(-len(self._drawn) // self.size)
        return sum(1 for _ in self.rows.blocks(self.size))

    def epoch(self, number: int, skip: int = 0) -> Iterator[StepBlocks]:
        """The batches of an epoch."""
        if self.size is None:
            yield lambda: self.rows.blocks(self.block_size)
        elif isinstance(self.rows, StoredRows):
            for chosen in self._orders(self.rows, number)[skip:]:
                yield self._batch(_picked(self.rows, chosen))
        else:
            for k, block in enumerate(self.rows.blocks(self.size)):
                if k >= skip:
                    yield self._batch(block)

    @cached_property
    def _drawn(self) -> Indices:
        """Indices of the rows of batches; those of a DataLoader include rows of weight zero."""
        is_stored = isinstance(self.rows, StoredRows)
        return _present(self.rows) if is_stored else np.arange(self.rows.n_rows)

    def _orders(self, rows: StoredRows, number: int) -> tuple[Tensor, ...]:
        source = np.random.default_rng([self.key, number])
        order = torch.from_numpy(self._drawn[source.permutation(len(self._drawn))])
        size = self.size or len(order)
        return tuple(order.to(rows.device)[k : k + size] for k in range(0, len(order), size))

    def _batch(self, block: Block) -> StepBlocks:
        scale = len(self._drawn) / len(block.weights)
        scaled = block._replace(weights=block.weights * scale)
        return lambda: iter((scaled,))


def _present(rows: LabelledRows) -> Indices:
    """Indices of the rows of positive weight; a memory map keeps the others."""
    return np.flatnonzero(rows.weights.cpu().numpy() > 0)


def _picked(rows: StoredRows, index: Tensor) -> Block:
    if isinstance(rows.inputs, Tensor):
        inputs = rows.inputs[index]
    else:
        inputs = as_inputs(rows.inputs[index.cpu().numpy()], rows.dtype, rows.device)
    return Block(inputs, rows.labels[index], rows.weights[index])


def subset(rows: LabelledRows, most: int, source: np.random.Generator) -> StoredRows:
    """At most ``most`` rows of positive weight, drawn without replacement, in memory."""
    present = _present(rows)
    chosen = np.sort(source.choice(present, min(most, len(present)), replace=False))
    if isinstance(rows, StoredRows):
        block = _picked(rows, torch.from_numpy(chosen).to(rows.device))
    else:
        parts, start = [], 0
        for whole in rows.blocks(CHECKED_ROWS):
            inside = chosen[(chosen >= start) & (chosen < start + len(whole.labels))] - start
            index = torch.from_numpy(inside).to(rows.device)
            parts.append(Block(*(part[index] for part in whole)))
            start += len(whole.labels)
        block = Block(*(torch.cat(parts) for parts in zip(*parts, strict=True)))
    weights = block.weights / block.weights.sum()
    on_host = block.labels.cpu(), weights.cpu().to(torch.float64)
    shares = _class_probabilities(*on_host, rows.n_classes, may_be_empty=True)
    return StoredRows(
        len(chosen),
        rows.n_inputs,
        shares,
        rows.device,
        rows.dtype,
        weights,
        block.inputs,
        block.labels,
    )
