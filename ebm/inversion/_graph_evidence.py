"""The evidence of a graph: Laplace's approximation at the mode of the exact likelihood.

Spins s = ±1, p(s) ∝ exp(h·s + Σ_{edges} J_ij s_i s_j), with normal priors of precision λ on h and
on the couplings of the edges. Features are s_i and then s_i s_j for i < j, all of them or, in a
graph, those of the fields and of its edges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array, Flags, Indices
from ebm.ensembles import Moments
from ebm.enumeration import exact
from ebm.errors import ConvergenceError
from ebm.information.fisher import pair_fisher
from ebm.models import IsingModel

#: Most units whose states are summed by Hadamard transforms; three products serve more of them.
HADAMARD_UNITS = 16
#: Twice the gain of a Newton step, in nats, at which the mode is reached.
REACHED = 1e-14
#: A gain that rounding of the log posterior can hide, as a share of it.
ROUNDING = 1e-12
MOST_STEPS, MOST_HALVINGS = 200, 60


class Averages(NamedTuple):
    """ln Z, means and covariance of the features of a graph."""

    log_partition: float
    mean: Array
    covariance: Array


class Mode(NamedTuple):
    """The most probable parameters of a graph, the Hessian there, and ln m."""

    theta: Array
    hessian: Array
    log_evidence: float


@dataclass(frozen=True, eq=False)
class GraphPosterior:
    """What is known of every graph: moments of N spins, and the precisions of the prior."""

    mean: Array
    sample_size: float
    precision: Array
    n: int

    @staticmethod
    def of(moments: Moments, field_width: float, coupling_width: float) -> GraphPosterior:
        """From moments of ±1."""
        n = moments.space.n
        i, j = np.triu_indices(n, 1)
        mean = np.concatenate([moments.mean, moments.second[i, j]])
        widths = np.repeat([field_width, coupling_width], [n, len(i)])
        return GraphPosterior(mean, moments.sample_size, widths**-2.0, n)

    @cached_property
    def pairs(self) -> tuple[Indices, Indices]:
        """i < j of the edges."""
        return np.triu_indices(self.n, 1)

    def features(self, graph: Flags) -> Indices:
        """Places of the fields and of the edges of a graph."""
        return np.concatenate([np.arange(self.n), self.n + np.flatnonzero(graph)])

    def mode(self, graph: Flags, start: Array | None = None) -> Mode:
        """Newton steps on N (θ·⟨φ⟩ − ln Z) − ½ θᵀΛθ, each halved until the log posterior rises.

        Without the halving the steps diverge where units are strongly coupled.
        """
        on = self.features(graph)
        target, precision = self.sample_size * self.mean[on], self.precision[on]
        theta = np.zeros(len(on)) if start is None else start
        averages = self._averages(theta, on)
        value = self._log_posterior(theta, target, precision, averages)
        for _ in range(MOST_STEPS):
            hessian = self.sample_size * averages.covariance
            hessian.ravel()[:: len(on) + 1] += precision
            slope = target - self.sample_size * averages.mean - precision * theta
            root, step = solved(hessian, slope)
            gain = float(slope @ step)
            if gain < REACHED:
                half_log_det = float(np.log(root.diagonal()).sum())
                half_log_prior = 0.5 * float(np.log(precision).sum())
                return Mode(theta, hessian, value + half_log_prior - half_log_det)
            for _ in range(MOST_HALVINGS + 1):
                averages = self._averages(theta + step, on)
                following = self._log_posterior(theta + step, target, precision, averages)
                if following >= value - ROUNDING * abs(value):
                    break
                step = step / 2
            theta, value = theta + step, following
        raise ConvergenceError(
            f"no most probable parameters of a graph of {int(graph.sum())} edges were found in "
            f"{MOST_STEPS} Newton steps",
            residual=gain,
        )

    def _log_posterior(
        self, theta: Array, target: Array, precision: Array, averages: Averages
    ) -> float:
        likelihood = float(theta @ target) - self.sample_size * averages.log_partition
        return likelihood - 0.5 * float(precision @ theta**2)

    def _averages(self, theta: Array, on: Indices) -> Averages:
        if self.n <= HADAMARD_UNITS:
            return self._by_transforms(theta, on)
        return self._by_products(theta, on)

    def _by_transforms(self, theta: Array, on: Indices) -> Averages:
        """With s_i = (−1)^{x_i} products of spins are characters: two Hadamard transforms."""
        from ebm._kernels.graph_sums import gather_differences, hadamard

        values: Array = np.zeros(2**self.n)
        masks = self._masks[on]
        values[masks] = theta
        hadamard(values)
        top = values.max()
        np.exp(values - top, out=values)
        total = values.sum()
        values /= total
        hadamard(values)
        mean = values[masks]
        covariance = np.empty((len(on), len(on)))
        gather_differences(values, masks[:, None] ^ masks, mean, covariance)
        return Averages(float(top + math.log(total)), mean, covariance)

    @cached_property
    def _masks(self) -> NDArray[np.int64]:
        """The units of each feature as bits."""
        bits = 1 << np.arange(self.n, dtype=np.int64)
        i, j = self.pairs
        return np.concatenate([bits, bits[i] | bits[j]])

    def _by_products(self, theta: Array, on: Indices) -> Averages:
        """By the three matrix products of the exact ensemble."""
        ensemble = exact(self.model(theta, on), n_jobs=1)
        i, j = self.pairs
        edges = on[self.n :] - self.n
        moments = ensemble.moments()
        mean = np.concatenate([moments.mean, moments.second[i, j][edges]])
        covariance = pair_fisher(ensemble, (i[edges], j[edges]), np.zeros(self.n))
        return Averages(float(ensemble.log_partition), mean, covariance)

    def model(self, theta: Array, on: Indices) -> IsingModel:
        """The Ising model with these parameters of a graph."""
        full: Any = np.zeros(len(self.mean))
        full[on] = theta
        couplings = np.zeros((self.n, self.n))
        couplings[self.pairs] = full[self.n :]
        return IsingModel(couplings + couplings.T, full[: self.n])


def solved(hessian: Array, slope: Array) -> tuple[Array, Array]:
    """Cholesky's root of H, and H⁻¹ g."""
    from scipy.linalg.lapack import dpotrf, dpotrs

    root, failed = dpotrf(hessian, lower=1, clean=0)
    if failed:
        raise ConvergenceError("the Hessian of the log posterior is not positive definite")
    return root, dpotrs(root, slope, lower=1)[0]
