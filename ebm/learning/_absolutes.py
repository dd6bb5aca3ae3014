"""Losses with absolute values: a smooth part, and λ times the sizes of groups of coordinates.

The smooth part has the members ``point(θ)`` with ``value``, ``slopes`` and ``log_likelihood``,
``curvature(θ)`` in blocks, ``squares`` and ``settings()``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm._checkpoints import fingerprint
from ebm._types import Array, Flags, Indices

#: A part of a loss so low that every row has its value with certainty.
LOWEST = -50.0


class Blocks(NamedTuple):
    """A curvature as a sum of blocks, (B, s, s), and the places of each coordinate, (K, 4).

    Coordinate k is row ``places[k, 1]`` of block ``places[k, 0]``, and row ``places[k, 3]`` of
    block ``places[k, 2]`` unless that is −1.
    """

    matrices: NDArray[Any]
    places: Indices

    def diagonal(self) -> Array:
        """H_kk, (K,)."""
        block, row, other, place = self.places.T
        own = self.matrices[block, row, row].astype(np.float64)
        shared = self.matrices[other, place, place].astype(np.float64)
        return np.asarray(own + np.where(other >= 0, shared, 0.0))

    def within(self, groups: Indices) -> Array:
        """H among the coordinates of each group, which are in the same blocks, (G, s, s)."""
        block, row, other, place = np.moveaxis(self.places[groups], -1, 0)
        own = self.matrices[block[:, :1, None], row[:, :, None], row[:, None, :]]
        shared = self.matrices[other[:, :1, None], place[:, :, None], place[:, None, :]]
        return np.asarray(own + np.where(other[:, :1, None] >= 0, shared, 0.0), dtype=np.float64)

    def times(self, step: Array) -> Array:
        """H d, (K,)."""
        block, row, other, place = self.places.T
        is_shared = other >= 0
        parts = np.zeros(self.matrices.shape[:2])
        np.add.at(parts, (block, row), step)
        np.add.at(parts, (other[is_shared], place[is_shared]), step[is_shared])
        products = np.einsum("bij,bj->bi", self.matrices, parts)
        return np.asarray(products[block, row] + np.where(is_shared, products[other, place], 0.0))


class KeptCurvature(ABC):
    """A smooth part that keeps its last curvature."""

    @property
    def origin(self) -> Array | None:
        """Where the last curvature was taken."""
        return self._curvatures.get("origin")

    @cached_property
    def _curvatures(self) -> dict[str, Any]:
        return {}

    def curvature(self, theta: Array) -> Blocks:
        """The Hessian at θ, ``squares`` left out."""
        origin = self.origin
        if origin is None or not np.array_equal(origin, theta):
            self._curvatures.update(origin=theta.copy(), blocks=self.curved(theta))
        blocks: Blocks = self._curvatures["blocks"]
        return blocks

    @abstractmethod
    def curved(self, theta: Array) -> Blocks:
        """The same, computed."""


@dataclass(frozen=True, eq=False)
class Absolutes:
    """Σ_G λ_G |θ_G| over groups of successive coordinates, each of one coordinate or of several.

    ``starts`` (G + 1,) are the first coordinates of the groups; ``strengths`` (G,) may be zero.
    """

    starts: Indices
    strengths: Array

    @property
    def is_single(self) -> bool:
        """Whether every group is one coordinate."""
        return len(self.strengths) == int(self.starts[-1])

    def lengths(self, theta: Array) -> Array:
        """|θ_G|, (G,)."""
        if self.is_single:
            return np.abs(theta)
        return np.asarray(np.sqrt(np.add.reduceat(theta**2, self.starts[:-1])))

    def value(self, theta: Array) -> float:
        """Σ_G λ_G |θ_G|."""
        return float(self.strengths @ self.lengths(theta))

    def residuals(self, theta: Array, slopes: Array) -> Array:
        """|g_G + λ_G θ_G/|θ_G|| of groups that are there, (|g_G| − λ_G)₊ of others, (G,)."""
        lengths = self.lengths(theta)
        is_there = lengths > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = np.where(is_there, self.strengths / lengths, 0.0)
        pulled = slopes + np.repeat(pull, np.diff(self.starts)) * theta
        outside = np.maximum(self.lengths(slopes) - self.strengths, 0.0)
        return np.where(is_there, self.lengths(pulled), outside)


@dataclass(frozen=True, eq=False)
class SparseLoss:
    """L(θ) + Σ_G λ_G |θ_G|, and which groups are worth a look in coordinate descent.

    ``screen`` is the slope from which on a group at zero is taken in. After a solution at λ' it is
    2λ − λ', the strong rule :cite:`tibshirani2012`, which may be wrong; a group whose slope exceeds
    λ is always taken in, so that the end is right in any case. Groups that are not among ``only``
    stay as they are, and no condition is asked of them.
    """

    smooth: Any
    absolutes: Absolutes
    screen: float = 0.0
    only: Flags | None = None

    def point(self, theta: Array) -> Any:
        """The smooth part at θ."""
        return self.smooth.point(theta)

    def curvature(self, theta: Array) -> Blocks:
        """The Hessian of the smooth part at θ, ``squares`` left out."""
        blocks: Blocks = self.smooth.curvature(theta)
        return blocks

    @property
    def squares(self) -> Array:
        """What a penalty of squares adds to the diagonal of the Hessian, (K,)."""
        squares: Array = self.smooth.squares
        return squares

    @property
    def origin(self) -> Array | None:
        """Where a curvature is at hand, (K,), or None."""
        origin: Array | None = self.smooth.origin
        return origin

    def largest(self, theta: Array) -> Array:
        """A bound on the curvature within each group, (G,)."""
        blocks = self.curvature(theta)
        if self.absolutes.is_single:
            return blocks.diagonal() + self.squares
        starts, sizes = self.absolutes.starts[:-1], np.diff(self.absolutes.starts)
        bounds = np.maximum.reduceat(self.squares, starts)
        for size in np.unique(sizes):
            groups = np.flatnonzero(sizes == size)
            within = blocks.within(starts[groups, None] + np.arange(size))
            bounds[groups] += np.linalg.eigvalsh(within)[:, -1]
        return np.asarray(bounds)

    def active(self, theta: Array) -> Flags:
        """Groups that are free, that are there, or whose slopes are steep, (G,)."""
        strengths, slopes = self.absolutes.strengths, self.point(theta).slopes
        steep = self.absolutes.lengths(slopes) >= np.minimum(self.screen, strengths)
        active = (strengths == 0) | (self.absolutes.lengths(theta) > 0) | steep
        return np.asarray(active if self.only is None else active & self.only)

    def moved(self, step: Array) -> Array:
        """The part of a step, or of a gradient, that may be taken, (K,)."""
        if self.only is None:
            return step
        return np.where(np.repeat(self.only, np.diff(self.absolutes.starts)), step, 0.0)

    def residual(self, theta: Array) -> float:
        """Largest violation of the conditions of the minimum."""
        residuals = self.absolutes.residuals(theta, self.point(theta).slopes)
        if self.only is not None:
            residuals = residuals[self.only]
        return float(residuals.max(initial=0.0))

    def falls(self, theta: Array) -> bool:
        """Whether the loss is so low that it has no minimum."""
        return bool(getattr(self.point(theta), "lowest", 0.0) < LOWEST)

    def objective(self, theta: Array) -> float:
        """L(θ) + Σ_G λ_G |θ_G|."""
        return float(self.point(theta).value) + self.absolutes.value(theta)

    def settings(self) -> dict[str, str]:
        """What runs that continue each other have in common."""
        return {**self.smooth.settings(), "l1": fingerprint(self.absolutes.strengths)}
