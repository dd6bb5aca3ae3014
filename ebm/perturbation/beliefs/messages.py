"""Messages along the couplings of a pairwise model: their graph, and their fixed points.

In spins a message is a field, u_{k→i} = atanh( tanh J_ki tanh h_{k→i} ), and the cavity field
h_{k→i} = h_k + Σ_{l≠i} u_{l→k} is that of unit k without the coupling to i.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm.errors import ConvergenceError, ModelError
from ebm.models import BoltzmannMachine, InteractionModel, IsingModel, RestrictedBoltzmannMachine
from ebm.models.couplings import diagonal, is_sparse
from ebm.spaces import FiniteSpace

__all__ = ["CouplingGraph", "FixedPoint", "coupling_graph", "log_cosh", "settle"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

#: Rounds without progress after which less of the new messages is taken, and the least.
PATIENCE, SMALLEST_STEP = 10, 0.02
#: Changes below this, in units of the largest field, are rounding.
ROUNDING = 8 * np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False)
class CouplingGraph:
    """E(s) = −Σ_{i<j} J_ij s_i s_j − Σ h_i s_i + constant over the couplings that are not zero.

    Each of the E couplings i < j has two directions, i→j at its place and j→i E places later.

    Parameters
    ----------
    fields : ndarray, (n,)
        h.
    first, second : ndarray, (E,)
        i and j.
    couplings : ndarray, (E,)
        J.
    constant : float
        Of the energy.
    """

    fields: Array
    first: Indices
    second: Indices
    couplings: Array
    constant: float

    @property
    def n(self) -> int:
        """Number of units."""
        return len(self.fields)

    @cached_property
    def source(self) -> Indices:
        """Where each message comes from, (2E,)."""
        return np.concatenate([self.first, self.second])

    @cached_property
    def target(self) -> Indices:
        """Where it goes to, (2E,)."""
        return np.concatenate([self.second, self.first])

    @cached_property
    def directed(self) -> Array:
        """J of each message, (2E,)."""
        return np.concatenate([self.couplings, self.couplings])

    @cached_property
    def _tanh(self) -> Array:
        return np.tanh(self.directed)

    @cached_property
    def gathering(self) -> Any:
        """Sums of messages by their targets, CSR (n, 2E)."""
        from scipy.sparse import csr_array

        places = np.arange(len(self.target))
        ones = np.ones(len(places))
        return csr_array((ones, (self.target, places)), shape=(self.n, len(places)))

    @cached_property
    def is_forest(self) -> bool:
        """Whether there is no loop."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        ones = np.ones(len(self.first))
        matrix = coo_array((ones, (self.first, self.second)), shape=(self.n, self.n))
        n_parts, _ = connected_components(matrix, directed=False)
        return bool(len(self.first) == self.n - n_parts)

    def reversed(self, values: Array) -> Array:
        """Values of the opposite directions, (2E, ...)."""
        return np.roll(values, len(self.first), axis=0)

    def total_fields(self, messages: Array) -> Array:
        """H_i = h_i + Σ_k u_{k→i}, (n,)."""
        incoming = np.bincount(self.target, weights=messages, minlength=self.n)
        return np.asarray(self.fields + incoming)

    def cavity_fields(self, messages: Array) -> Array:
        """h_{k→i} for each message k→i, (2E,)."""
        return np.asarray(self.total_fields(messages)[self.source] - self.reversed(messages))

    def sent(self, cavity: Array) -> Array:
        """u = atanh(tanh J tanh h), right to rounding at any J and h, (2E,)."""
        coupling = self.directed
        smaller = np.minimum(np.abs(coupling), np.abs(cavity))
        product = self._tanh * np.tanh(cavity)
        # Where both are large the product rounds to one.
        tails = np.log1p(np.exp(-2 * np.abs(coupling + cavity)))
        tails -= np.log1p(np.exp(-2 * np.abs(coupling - cavity)))
        large = np.sign(coupling) * np.sign(cavity) * smaller + 0.5 * tails
        small = np.arctanh(np.where(smaller < 1, product, 0.0))
        return np.asarray(np.where(smaller < 1, small, large))

    def log_slopes(self, cavity: Array) -> Array:
        """ln |∂u/∂h| of each message, ∂u/∂h = sinh 2J / (cosh 2J + cosh 2h), (2E,)."""
        coupling = np.abs(self.directed)
        log_sinh = 2 * coupling + np.log(-np.expm1(-4 * coupling)) - np.log(2)
        return np.asarray(log_sinh - np.logaddexp(log_cosh(2 * coupling), log_cosh(2 * cavity)))


class FixedPoint(NamedTuple):
    """Messages that reproduce themselves, and how they were found."""

    messages: Array
    step: float
    n_iterations: int
    residual: float


def log_cosh(x: Array) -> Array:
    """ln cosh x at any x.

    Parameters
    ----------
    x : ndarray, (...)
        Real numbers.

    Returns
    -------
    ndarray, (...)
        From 0 on.
    """
    return np.asarray(np.abs(x) + np.log1p(np.exp(-2 * np.abs(x))) - np.log(2))


def coupling_graph(model: Any) -> tuple[CouplingGraph, FiniteSpace]:
    """The graph of a pairwise model of two-valued units, and the coding of the answers.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel, InteractionModel or RestrictedBoltzmannMachine
        Of any center and diagonal; a restricted machine is taken with both its layers.

    Returns
    -------
    CouplingGraph
        With the same energies in spins.
    FiniteSpace
        That of the model.

    Raises
    ------
    ModelError
        If the model is another, or has terms of three units.
    """
    if isinstance(model, RestrictedBoltzmannMachine):
        model = model.joint()
    space: Any = getattr(model, "space", None)
    if isinstance(model, InteractionModel):
        model = model.to_ising()
    if isinstance(model, BoltzmannMachine):
        model = model.to_spins()
    if not isinstance(model, IsingModel):
        raise ModelError(
            "model must be a BoltzmannMachine, an IsingModel or a RestrictedBoltzmannMachine, got "
            f"{type(model).__name__}: messages are between two-valued units in pairs"
        )
    first, second, values = _edges(model.couplings)
    # s² = 1 makes the diagonal a constant.
    constant = model.offset - 0.5 * float(diagonal(model.couplings).sum())
    return CouplingGraph(np.asarray(model.fields), first, second, values, constant), space


def _edges(matrix: Any) -> tuple[Indices, Indices, Array]:
    """Couplings i < j that are not zero."""
    if is_sparse(matrix):
        entries = matrix.tocoo()
        kept = (entries.row < entries.col) & (entries.data != 0)
        first, second = entries.row[kept].astype(np.intp), entries.col[kept].astype(np.intp)
        return first, second, np.asarray(entries.data[kept], dtype=np.float64)
    first, second = np.nonzero(np.triu(matrix, 1))
    return first, second, np.asarray(matrix[first, second])


def settle(
    graph: CouplingGraph,
    messages: Array,
    *,
    max_iterations: int,
    tolerance: float,
    damping: float | None,
) -> FixedPoint:
    """Send all messages at once, again and again, until they stay.

    Parameters
    ----------
    graph : CouplingGraph
        Where they run.
    messages : ndarray, (2E,)
        Those to begin with.
    max_iterations : int
        Rounds allowed; on a forest n + 1 rounds always are, and suffice.
    tolerance : float
        Largest change of a message that counts as none.
    damping : float or None
        Share of the old message that is kept; None takes as much as is needed.

    Returns
    -------
    FixedPoint
        The messages.

    Raises
    ------
    ConvergenceError
        If they did not stay.
    """
    free = damping is None and not graph.is_forest
    step, best, waited = 1.0 - (damping or 0.0), np.inf, 0
    limit = max(max_iterations, graph.n + 1) if graph.is_forest else max_iterations
    residual = 0.0
    for iteration in range(1, limit + 1):
        cavity = graph.cavity_fields(messages)
        change = graph.sent(cavity) - messages
        residual = float(np.abs(change).max(initial=0.0))
        if residual <= max(tolerance, ROUNDING * float(np.abs(cavity).max(initial=0.0))):
            return FixedPoint(messages + change, step, iteration, residual)
        waited = 0 if residual < 0.98 * best else waited + 1
        best = min(best, residual)
        if free and waited == PATIENCE:
            step, best, waited = max(step / 2, SMALLEST_STEP), residual, 0
        messages = messages + step * change
    raise ConvergenceError(
        f"belief propagation did not converge: after {limit} rounds a message still changes by "
        f"{residual:.1e}, the tolerance is {tolerance:.1e}. Give damping=0.9 or a larger "
        "max_iterations; where couplings are strong on many loops there may be no stable solution: "
        "use ebm.sample",
        residual=residual,
    )
