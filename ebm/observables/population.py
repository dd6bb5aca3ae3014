"""The number of units active at once, and its distribution for independent units."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats
from ebm._types import Array, Indices
from ebm.ensembles import Ensemble
from ebm.ensembles.ensemble import require_ensemble
from ebm.enumeration import exact
from ebm.errors import EbmError, ShapeError
from ebm.models import BoltzmannMachine
from ebm.observables.activity import activity, affordable_machine_of
from ebm.spaces import Binary

__all__ = ["independent_entropy", "independent_population_count", "population_count"]

_BLOCK = 2**22
#: What means of weighted rows may be beyond 0 and 1.
ROUNDING = 1e-12


def population_count(ensemble: Ensemble) -> Array:
    """P(K), the probability that K units are active at once.

    It is summed over the states; for the exact ensemble of a Boltzmann machine or Ising model by
    one matrix product of the two halves of its units.

    Parameters
    ----------
    ensemble : Ensemble
        Data, samples or an enumeration of two-valued units.

    Returns
    -------
    ndarray, (n + 1,)
        P(0), …, P(n).

    Raises
    ------
    ModelError
        If ``ensemble`` is no ensemble.
    CodingError
        If the units are not two-valued.
    EnumerationLimitError
        If the ensemble is that of a Boltzmann machine or Ising model of more than 28 units.

    Examples
    --------
    >>> import ebm
    >>> from ebm.observables import population_count
    >>> population_count(ebm.Ensemble.from_data([[1, 1], [1, 0], [0, 1], [0, 0]]))
    array([0.25, 0.5 , 0.25])
    """
    require_ensemble(ensemble)
    known = getattr(ensemble, "count_distribution", None)
    if known is not None:
        return np.array(known)
    machine = affordable_machine_of(ensemble, "P(K)")
    if machine is not None:
        return _count_by_halves(machine)
    n = ensemble.space.n
    total = np.zeros(n + 1)
    for states, weights in ensemble.blocks():
        count = activity(ensemble, states).sum(axis=1).astype(np.intp)
        total += np.bincount(count, weights=weights, minlength=n + 1)
    return total


def independent_population_count(rates: ArrayLike) -> Array:
    """P(K) of independent units: the coefficients of the polynomial Π_i (1 − p_i + p_i z).

    Parameters
    ----------
    rates : array_like, (n,)
        p_i, the probability that unit i is active.

    Returns
    -------
    ndarray, (n + 1,)
        P(0), …, P(n).

    Raises
    ------
    EbmError
        If a rate is no number from 0 to 1.

    Examples
    --------
    >>> from ebm.observables import independent_population_count
    >>> independent_population_count([0.5, 0.5])
    array([0.25, 0.5 , 0.25])
    """
    total = np.ones(1)
    for rate in _checked(rates):
        total = np.convolve(total, [1 - rate, rate])
    return total


def independent_entropy(rates: ArrayLike) -> float:
    """Entropy of independent units in bits, S₁ = −Σ_i [p_i log₂ p_i + (1−p_i) log₂(1−p_i)].

    Parameters
    ----------
    rates : array_like, (n,)
        p_i, the probability that unit i is active.

    Returns
    -------
    float
        S₁, with 0 log 0 = 0.

    Raises
    ------
    EbmError
        If a rate is no number from 0 to 1.

    Examples
    --------
    >>> from ebm.observables import independent_entropy
    >>> independent_entropy([0.5, 0.5, 1.0])
    2.0
    """
    p = _checked(rates)
    # ln(1 − p) of a rare unit would be lost in the rounding of 1 − p.
    on = p * np.log(np.where(p > 0, p, 1.0))
    off = (1 - p) * np.log1p(-np.where(p < 1, p, 0.0))
    return 0.0 - float((on + off).sum()) / math.log(2)


def _checked(rates: ArrayLike) -> Array:
    """Probabilities of units, (n,), from 0 to 1 but for rounding."""
    p = as_floats(rates, "rates")
    if p.ndim != 1:
        raise ShapeError(f"rates must have one axis, one rate for each unit, got shape {p.shape}")
    wrong = ~((p >= -ROUNDING) & (p <= 1 + ROUNDING))
    if wrong.any():
        unit = int(np.argmax(wrong))
        raise EbmError(f"rates must be probabilities from 0 to 1, got {p[unit]} of unit {unit}")
    return np.clip(p, 0, 1)


def _count_by_halves(machine: BoltzmannMachine) -> Array:
    matrix, vector, constant = machine.quadratic_form()
    n = machine.space.n
    first, second = slice(0, n // 2), slice(n // 2, n)
    a, log_a, count_a = _half(matrix[first, first], vector[first])
    b, log_b, count_b = _half(matrix[second, second], vector[second])
    edges = np.searchsorted(count_b, np.arange(n - n // 2 + 1))
    log_a -= constant + exact(machine).log_partition
    total = np.zeros(n + 1)
    rows = max(1, _BLOCK // len(b))
    for start in range(0, len(a), rows):
        block = slice(start, start + rows)
        # Logarithms of probabilities: they are at most 0, so exp cannot overflow.
        p = np.exp(a[block] @ matrix[first, second] @ b.T + log_a[block, None] + log_b)
        by_count = np.add.reduceat(p, edges, axis=1)
        for count in range(by_count.shape[1]):
            total += np.bincount(count_a[block] + count, by_count[:, count], minlength=n + 1)
    return total


def _half(matrix: Array, vector: Array) -> tuple[Array, Array, Indices]:
    """All states of some units ordered by their count, their log weights and counts."""
    n = len(vector)
    states = Binary(n).states_at(np.arange(2**n)) if n else np.zeros((1, 0))
    count = states.sum(axis=1).astype(np.intp)
    order = np.argsort(count, kind="stable")
    states = states[order]
    return states, 0.5 * ((states @ matrix) * states).sum(axis=1) + states @ vector, count[order]
