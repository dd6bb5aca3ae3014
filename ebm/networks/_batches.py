"""Rows in the order in which training sees them; a seed and a number tell the order of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ebm.networks._rows import Block, Rows, StoredRows
from ebm.networks._tensors import as_inputs

__all__ = ["Batch", "Batches", "subset"]

Batch = Callable[[], Iterator[Block]]


@dataclass(frozen=True, eq=False)
class Batches:
    """Mini-batches of rows, or all rows at every step.

    The weights of a batch add up so that Σ w ℓ is an unbiased estimate of the mean of ℓ over
    p(z, m). Rows in memory or in a memory map are shuffled once an epoch; those of a DataLoader
    come in its order.
    """

    rows: Rows
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

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
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
    def _drawn(self) -> NDArray[np.int64]:
        """The rows that batches are drawn from; a DataLoader yields those without weight too."""
        is_stored = isinstance(self.rows, StoredRows)
        return _present(self.rows) if is_stored else np.arange(self.rows.n_rows)

    def _orders(self, rows: StoredRows, number: int) -> tuple[Tensor, ...]:
        source = np.random.default_rng([self.key, number])
        order = torch.from_numpy(self._drawn[source.permutation(len(self._drawn))])
        size = self.size or len(order)
        return tuple(order.to(rows.device)[k : k + size] for k in range(0, len(order), size))

    def _batch(self, block: Block) -> Batch:
        scale = len(self._drawn) / len(block.weights)
        scaled = block._replace(weights=block.weights * scale)
        return lambda: iter((scaled,))


def _present(rows: Rows) -> NDArray[np.int64]:
    """The rows of positive weight; others stay in a memory map, and are absent."""
    return np.flatnonzero(rows.weights.cpu().numpy() > 0)


def _picked(rows: StoredRows, index: Tensor) -> Block:
    if isinstance(rows.inputs, Tensor):
        inputs = rows.inputs[index]
    else:
        inputs = as_inputs(rows.inputs[index.cpu().numpy()], rows.dtype, rows.device)
    return Block(inputs, rows.labels[index], rows.weights[index])


def subset(rows: Rows, most: int, source: np.random.Generator) -> StoredRows:
    """Some rows, in memory, chosen once."""
    present = _present(rows)
    chosen = np.sort(source.choice(present, min(most, len(present)), replace=False))
    if isinstance(rows, StoredRows):
        block = _picked(rows, torch.from_numpy(chosen).to(rows.device))
    else:
        parts, start = [], 0
        for found in rows.blocks(4096):
            inside = chosen[(chosen >= start) & (chosen < start + len(found.labels))] - start
            index = torch.from_numpy(inside).to(rows.device)
            parts.append(Block(*(part[index] for part in found)))
            start += len(found.labels)
        block = Block(*(torch.cat(parts) for parts in zip(*parts, strict=True)))
    weights = block.weights / block.weights.sum()
    shares = torch.zeros(rows.n_classes, dtype=torch.float64, device="cpu")
    shares.index_add_(0, block.labels.cpu(), weights.cpu().to(torch.float64))
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
