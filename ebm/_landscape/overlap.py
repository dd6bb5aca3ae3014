"""Energies at each distance from a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._frames import frame
from ebm._types import Array, Indices

__all__ = ["OverlapProfile"]


@dataclass(frozen=True, eq=False)
class OverlapProfile:
    """Energies at each distance from a chosen state; made by :meth:`Landscape.overlap`.

    Parameters
    ----------
    distances : ndarray of int, (n + 1,)
        Number d of units that differ, 0 … n.
    overlaps : ndarray, (n + 1,)
        1 − 2d/n for two-valued units, the mean of s·s′; else 1 − d/n, the share of equal units.
    n_states : ndarray, (n + 1,)
        Number of states, or of draws, at each distance.
    lowest : ndarray, (n + 1,)
        Their lowest energy in units of k_B T, inf where there is none.
    probabilities : ndarray, (n + 1,)
        Probability of each distance.
    mean : ndarray, (n + 1,)
        Mean energy given the distance, NaN where its probability is 0.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]))
    >>> pair.overlap(0).probabilities.round(3), pair.overlap(0).n_states
    (array([0.644, 0.119, 0.237]), array([1., 2., 1.]))
    """

    distances: Indices
    overlaps: Array
    n_states: Array
    lowest: Array
    probabilities: Array
    mean: Array

    def to_frame(self) -> Any:
        """One row for each distance, a pandas frame; needs the extra ``data``.

        Returns
        -------
        pandas.DataFrame
            Rows by the distance; columns ``overlap``, ``n_states``, ``lowest``, ``probability``
            and ``mean``.
        """
        columns = {
            "distance": self.distances,
            "overlap": self.overlaps,
            "n_states": self.n_states,
            "lowest": self.lowest,
            "probability": self.probabilities,
            "mean": self.mean,
        }
        return frame(columns, "distance")


def profile(
    distances: NDArray[Any], energies: Array, weights: Array, n: int
) -> tuple[Array, Array, Array, Array]:
    """Number of states, lowest energy, probability and mean energy at each distance, (n + 1,)."""
    counts = np.bincount(distances, minlength=n + 1)
    lowest = np.full(n + 1, np.inf)
    np.minimum.at(lowest, distances, energies)
    total = np.bincount(distances, weights, minlength=n + 1)
    heat = np.where(weights > 0, energies, 0.0) * weights
    sums = np.bincount(distances, heat, minlength=n + 1)
    mean = np.divide(sums, total, out=np.full(n + 1, np.nan), where=total > 0)
    return counts.astype(np.float64), lowest, total / total.sum(), mean
