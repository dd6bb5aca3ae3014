"""The first step of annealing: chains chosen from many starts by what the step is worth to each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._parallel import single_threaded_blas
from ebm.errors import ModelError
from ebm.model import checked_energy
from ebm.sampling._paths import Path

__all__ = ["Start", "chosen_starts"]


#: Starts drawn for each chain.
STARTS = 50
#: Most numbers in the array of starts, unless the chains themselves are more.
MOST_NUMBERS = 2**25


@dataclass(frozen=True)
class Start:
    """What the first step of annealing found.

    Parameters
    ----------
    size : int
        Starts drawn.
    effective_size : float
        (Σw)² / Σw² over their weights.
    log_mean : float
        ln of the mean weight, an estimate of ln Z₁/Z₀.
    """

    size: int
    effective_size: float
    log_mean: float

    @property
    def relative_error(self) -> float:
        """Standard error of the mean weight in units of the mean."""
        return float(np.sqrt(max(0.0, 1 / self.effective_size - 1 / self.size)))


def chosen_starts(
    path: Path, fraction: float, n_chains: int, rng: np.random.Generator
) -> tuple[NDArray[Any], Start]:
    """States for the first model of a path, by w = exp(E₀(x) − E₁(x)) from independent ones.

    Of m starts the j-th is taken n w_j / Σw times, rounded up or down at random so that this is the
    mean: the product of the mean weight and of what chains from there find has the mean Z/Z₀.
    Starts that the model gives no weight, a hundredth of them or so with large couplings, would be
    met by some runs of a hundred chains and not by others.

    Parameters
    ----------
    path : Path
        From 0 on.
    fraction : float
        Where its first step ends.
    n_chains : int
        How many to choose, n.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    (ndarray, Start)
        States (n_chains, n), and what is known of the first step.

    Raises
    ------
    ModelError
        If all starts are forbidden.
    """
    before, after = path.at(0.0), path.at(fraction)
    states = path.draw(n_chains, rng)
    more = min((STARTS - 1) * n_chains, MOST_NUMBERS // states.shape[1] - n_chains)
    if more > 0:
        states = np.concatenate([states, path.draw(more, rng)])
    rows = max(1, 2**20 // states.shape[1])
    parts = [states[first : first + rows] for first in range(0, len(states), rows)]
    with single_threaded_blas():
        gains = [checked_energy(before, part) - checked_energy(after, part) for part in parts]
    log_weights = np.concatenate(gains)
    largest = float(log_weights.max())
    if np.isneginf(largest):
        raise ModelError("no chain starts at a state of finite energy: raise n_chains")
    weights = np.exp(log_weights - largest)
    total = float(weights.sum())
    start = Start(
        len(states),
        total**2 / float(weights @ weights),
        largest + float(np.log(total / len(states))),
    )
    # Evenly spaced places on a line on which each start takes up its weight.
    places = (np.arange(n_chains) + rng.random()) / n_chains
    ends = np.cumsum(weights)
    chosen = np.searchsorted(ends, places * ends[-1], side="right")
    return states[chosen], start
