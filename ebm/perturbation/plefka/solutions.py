"""Plefka's expansion at self-consistent means: naive mean field, TAP, and higher orders.

The means are fixed while the couplings grow :cite:`plefka1982`, which leaves only diagrams without
bridges; the fourth order is that of :cite:`georges1991`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_integer, as_number, as_seconds, read_only
from ebm._parallel import single_threaded_blas
from ebm._randomness import RandomSource
from ebm._types import Array, Indices
from ebm.errors import EbmError
from ebm.models import BoltzmannMachine
from ebm.perturbation._approximation import Approximation
from ebm.perturbation._canonical_machine import expanded_machine
from ebm.perturbation._fixed_point import distinct_solutions, first_log_odds
from ebm.perturbation._linear_response import covariance_from_inverse, is_positive_definite
from ebm.perturbation._summation import inverse_series
from ebm.perturbation.bethe._coupling_graph import coupling_graph
from ebm.perturbation.bethe._witness import Witness
from ebm.perturbation.diagrams._contraction import require_covariance_order, require_order
from ebm.perturbation.diagrams._program import Algebra
from ebm.perturbation.plefka._climb import MeanPoint, ascent, climb, point_at
from ebm.perturbation.plefka._free_energy import coupled_algebra, covariance_terms, pair_covariances
from ebm.spaces import Binary, FiniteSpace

__all__ = ["PlefkaSolution", "plefka", "plefka_solutions"]

#: Variances below this do not change anything else.
LEAST_VARIANCE = 1e-300


@single_threaded_blas()
def plefka(
    model: Any,
    order: Any,
    *,
    start: str | ArrayLike = "uniform",
    rng: RandomSource = None,
    max_iterations: int = 1000,
    tolerance: float = 1e-12,
    max_seconds: float = 60.0,
) -> PlefkaSolution:
    """Means, covariances and ln Z to order K in the couplings at self-consistent means.

    ln Z = max_m [ Γ(m) + b·m + ½ (m−c)·W(m−c) ], Γ = Σ_i S(m_i) + Γ_2 + … + Γ_K, so that
    logit m_i = b_i + Σ_j W_ij (m_j−c_j) + ∂(Γ_2+…+Γ_K)/∂m_i, where c is the center of the model.

    Order 1 is naive mean field, order 2 the equations of Thouless, Anderson and Palmer, order 4
    those of Georges and Yedidia :cite:`georges1991`. For couplings of random signs each order
    reduces the errors by a factor of two to four, unless the couplings are strong. The equations
    may have several solutions, which :func:`plefka_solutions` looks for.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel or RestrictedBoltzmannMachine
        The model, with dense or sparse couplings. The result depends on its distribution, not on
        its center or diagonal. A restricted machine is taken with both its layers.
    order : int
        K, from 1 to 6; up to 5 for covariances.
    start : "uniform", "random" or array_like, (n,)
        The initial means: those of uniform units, random ones, or means in the coding of the model.
        ln Z increases from there to the solution.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness of a random start.
    max_iterations : int
        Largest number of evaluations of Γ and its gradient.
    tolerance : float
        Largest error of the equation for logit m_i, relative to 1 + abs(logit m_i).
    max_seconds : float
        An evaluation with dense couplings that would take longer is refused before it begins.

    Returns
    -------
    PlefkaSolution
        Moments, ln Z and estimates of their errors.

    Raises
    ------
    ConvergenceError
        If no solution was found.
    EbmError
        If ``order`` is not a positive integer or a setting is out of range.
    LimitError
        If ``order`` is above 6, or an evaluation would take too long.
    ModelError
        If the model is not one of these, or ``start`` holds no means.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [-1, 0.5])
    >>> solution = ebm.perturbation.plefka(machine, 4)
    >>> f"{solution.log_partition - ebm.exact(machine).log_partition:.0e}"
    '-1e-05'
    """
    order = as_integer(order, "order")
    require_order(order)
    max_iterations = as_integer(max_iterations, "max_iterations")
    tolerance = as_number(tolerance, "tolerance")
    if not 0 < tolerance < math.inf:
        raise EbmError(f"tolerance must be a positive number, got {tolerance!r}")
    max_seconds = as_seconds(max_seconds)
    # Of all centers 1/2 leaves the smallest rounding errors.
    machine, space = expanded_machine(model, 0.5)
    name = f"Plefka's expansion to order {order}"
    algebra = coupled_algebra(machine.weights, order, name, max_seconds)
    point, n_iterations = climb(
        first_log_odds(start, space, rng),
        lambda log_odds: point_at(machine, algebra, log_odds, order),
        lambda point: ascent(machine, point),
        name,
        max_iterations,
        tolerance,
    )
    return PlefkaSolution(machine, order, space, point, n_iterations, max_seconds)


@single_threaded_blas()
def plefka_solutions(
    model: Any, order: Any, n_starts: int = 20, *, rng: RandomSource = None, **settings: Any
) -> tuple[PlefkaSolution, ...]:
    """The solutions that :func:`plefka` finds from uniform and from random initial means.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel or RestrictedBoltzmannMachine
        The model.
    order : int
        K, from 1 to 6.
    n_starts : int
        Number of random starts.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness.
    **settings : int or float
        ``max_iterations``, ``tolerance`` and ``max_seconds`` of :func:`plefka`.

    Returns
    -------
    tuple of PlefkaSolution
        Different solutions, in the order of their free energies −ln Z. Starts that do not converge
        are left out, and there may be further solutions.

    Raises
    ------
    ConvergenceError
        If no start converged.
    EbmError
        If ``n_starts`` is not a non-negative integer, or :func:`plefka` raises it.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm
    >>> magnet = ebm.IsingModel(0.5 * (np.ones((5, 5)) - np.eye(5)), np.full(5, 0.01))
    >>> solutions = ebm.perturbation.plefka_solutions(magnet, 2, rng=0)
    >>> [(solution.is_stable, bool(solution.mean_error[0] > 0.5)) for solution in solutions]
    [(True, True), (True, True)]
    """
    return distinct_solutions(partial(plefka, model, order, **settings), n_starts, rng)


@dataclass(frozen=True, eq=False, repr=False)
class PlefkaSolution(Approximation):
    """A solution at self-consistent means; made by :func:`ebm.perturbation.plefka`.

    ``covariance`` is by linear response: (C⁻¹)_ij = −W_ij − Σ_{k=2…K} ∂²Γ_k/∂m_i∂m_j for i ≠ j,
    with the diagonal of C⁻¹ for which the variances are those of two-valued units.
    ``pair_covariance`` is ∂(Γ_2 + … + Γ_{K+1})/∂W_ij. The errors of ln Z, means and both
    covariances are of order K + 1; ``covariance`` is the more accurate one.

    Parameters
    ----------
    machine : BoltzmannMachine
        The model without diagonal, at center 1/2.
    order : int
        K, the order of ln Z, means and covariance.
    space : FiniteSpace
        The coding of means and covariances.
    point : MeanPoint
        The means, and the free energy there.
    n_iterations : int
        Number of evaluations of Γ.
    max_seconds : float
        A covariance that would take longer is refused before it is computed.
    """

    machine: BoltzmannMachine
    order: int
    space: FiniteSpace
    point: MeanPoint
    n_iterations: int
    max_seconds: float = 60.0

    def __repr__(self) -> str:
        return (
            f"PlefkaSolution(order={self.order}, {self.space!r}, converged in "
            f"{self.n_iterations} iterations, log_partition={self._log_partition:.6f})"
        )

    @property
    def kind(self) -> str:
        """Heading in tables."""
        return f"Plefka order {self.order}"

    @property
    def residual(self) -> float:
        """Largest error of the equation of the means, relative to 1 + abs(logit m)."""
        return self.point.residual

    @cached_property
    def log_partition_terms(self) -> Array:
        """Orders 0 … K of ln Z at these means, (K + 1,).

        Order 0 holds the entropy and the biases at center 1/2, order 1 is minus the energy of the
        couplings at the means, and order k ≥ 2 is Γ_k.
        """
        return read_only(self.point.terms.copy())

    @property
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of the couplings."""
        return self.machine.pairs

    @cached_property
    def is_stable(self) -> bool:
        """Whether this is a maximum of ln Z over the means, to order K.

        A symmetric start can lead to a saddle, such as means of zero in a magnet.

        Raises
        ------
        LimitError
            If the order is 6, or the covariance would take too long or too much memory.
        """
        return is_positive_definite(self._inverse_covariance, self._variance)

    @property
    def _log_partition(self) -> float:
        return self.point.value

    @cached_property
    def _mean(self) -> Array:
        is_binary = isinstance(self.space, Binary)
        return read_only(self.point.mean if is_binary else -self.point.skew)

    @cached_property
    def _covariance(self) -> Array:
        if not self.is_stable:
            raise EbmError(
                f"this solution of order {self.order} is no maximum of ln Z over the means, so it "
                'has no covariance: give start="random", or choose from '
                "plefka_solutions(model, order)"
            )
        response = covariance_from_inverse(self._inverse_covariance, self._variance)
        return read_only(self._scale**2 * response)

    @cached_property
    def _pair_covariance(self) -> Array:
        algebra = self._algebra("pair_covariance")
        terms = pair_covariances(
            algebra, self._variance, self.point.skew, self.order, self.machine.pairs
        )
        return read_only(self._scale**2 * terms.sum(axis=0))

    @cached_property
    def _witness(self) -> Witness:
        return Witness(self.space, coupling_graph(self.machine)[0])

    @property
    def _advice(self) -> tuple[str, str]:
        reason = f"the couplings are strong for order {self.order}, or there are other solutions"
        return reason, "take another order, look at plefka_solutions, or use ebm.sample"

    @property
    def _scale(self) -> float:
        """Of a state of ``space`` to one of {0,1}."""
        return 1.0 if isinstance(self.space, Binary) else 2.0

    @cached_property
    def _variance(self) -> Array:
        return np.maximum(self.point.variance, LEAST_VARIANCE)

    @cached_property
    def _inverse_covariance(self) -> Array:
        """The series of C⁻¹ at fixed means, in {0,1}."""
        algebra = self._algebra("the covariance", as_dense=True)
        terms = covariance_terms(algebra, self._variance, self.point.skew, self.order)
        return np.asarray(inverse_series(terms).sum(axis=0))

    def _algebra(self, what: str, as_dense: bool = False) -> Algebra:
        require_covariance_order(self.order, what)
        what = f"{what} to order {self.order}"
        return coupled_algebra(
            self.machine.weights, self.order + 1, what, self.max_seconds, as_dense=as_dense
        )
