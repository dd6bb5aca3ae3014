"""The orders of an expansion in powers of the couplings, each by itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import read_only
from ebm._types import Array
from ebm.models import BoltzmannMachine
from ebm.models._couplings import apply, is_sparse
from ebm.perturbation import _passes, _summation
from ebm.perturbation.diagrams._contraction import require_covariance_order
from ebm.perturbation.diagrams._program import Evaluation
from ebm.spaces import FiniteSpace, Spins

__all__ = ["Orders"]


@dataclass(frozen=True, eq=False, repr=False)
class Orders:
    """Orders 0 … K of ln Z, means, covariances and density ratios; see :class:`Expansion`."""

    machine: BoltzmannMachine
    order: int
    space: FiniteSpace
    max_seconds: float = 60.0

    @cached_property
    def log_partition_terms(self) -> Array:
        """Orders 0 … K of ln Z, (K + 1,)."""
        if "_means_and_covariances" in self.__dict__:
            return self._means_and_covariances[0]
        if "_log_partition_and_means" in self.__dict__:
            return self._log_partition_and_means[0]
        evaluated = self._evaluation(self.order, "ln Z", derivatives=False)
        return read_only(_passes.log_partitions(self.machine, evaluated, self.order))

    @cached_property
    def mean_terms(self) -> Array:
        """Orders 0 … K of the means, (K + 1, n)."""
        if "_means_and_covariances" in self.__dict__:
            return self._means_and_covariances[1]
        return self._log_partition_and_means[1]

    @property
    def covariance_terms(self) -> Array:
        """Orders 0 … K of the covariance, (K + 1, n, n), those of the variances included.

        From the diagrams of ln Z of orders 1 … K + 1.
        """
        return self._means_and_covariances[2]

    @cached_property
    def pair_covariance_terms(self) -> Array:
        """Orders 0 … K of the covariances of ``machine.pairs``, (K + 1, n_pairs)."""
        i, j = self.machine.pairs
        if not is_sparse(self.machine.weights):
            return self.covariance_terms[:, i, j]
        evaluated = self._one_order_more(as_dense=False)
        terms = _passes.pair_covariances(self.machine, evaluated.derivatives(), self.order)
        return read_only(self._scale**2 * terms)

    def density_ratio_terms(self, states: ArrayLike) -> Array:
        """Orders 0 … K of p(x)/p_0(x), p_k/p_0.

        The series of exp(q − Σ_k L_k), q = ½ Σ W_αβ (x_α−x̂_α)(x_β−x̂_β) and L_k order k of ln Z.

        Parameters
        ----------
        states : array_like, (..., n)
            In the coding of ``space``.

        Returns
        -------
        ndarray, (K + 1, ...)
            Order 0 is 1.
        """
        q = self._pair_energies(states)
        exponents = np.zeros((self.order, *q.shape))
        exponents[0] = q
        exponents -= self.log_partition_terms[1:].reshape(-1, *[1] * q.ndim)
        return _summation.exponential_series(exponents)

    def _pair_energies(self, states: ArrayLike) -> Array:
        """q, (..., n) -> (...)."""
        x = self.space.check(states)
        d = ((x + 1) / 2 if isinstance(self.space, Spins) else x) - self.machine.center
        return np.asarray(0.5 * (d * apply(self.machine.weights, d)).sum(axis=-1))

    @property
    def _scale(self) -> float:
        """Of a state of ``space`` to one of {0,1}."""
        return 2.0 if isinstance(self.space, Spins) else 1.0

    def _evaluation(self, order: int, what: str, **how: bool) -> Evaluation:
        what = f"{what} to order {self.order}"
        return _passes.evaluation(self.machine, order, what, self.max_seconds, **how)

    def _one_order_more(self, *, as_dense: bool) -> Evaluation:
        """What covariances are derivatives of."""
        require_covariance_order(self.order, "the covariance")
        return self._evaluation(
            self.order + 1, "the covariance", derivatives=True, as_dense=as_dense
        )

    @cached_property
    def _log_partition_and_means(self) -> tuple[Array, Array]:
        evaluated = self._evaluation(self.order, "the means", derivatives=True)
        derivatives = evaluated.derivatives(couplings=False)
        means = _passes.means(self.machine, derivatives, self.order)
        log_partitions = _passes.log_partitions(self.machine, evaluated, self.order)
        return log_partitions, self._recoded(means)

    @cached_property
    def _means_and_covariances(self) -> tuple[Array, Array, Array]:
        evaluated = self._one_order_more(as_dense=True)
        derivatives = evaluated.derivatives()
        means = _passes.means(self.machine, derivatives, self.order)
        covariances = self._scale**2 * _passes.covariances(means, derivatives)
        log_partitions = _passes.log_partitions(self.machine, evaluated, self.order)
        return log_partitions, self._recoded(means), read_only(covariances)

    def _recoded(self, means: Array) -> Array:
        """Series of means in the coding of ``space``."""
        result = self._scale * means
        if isinstance(self.space, Spins):
            result[0] -= 1
        return read_only(result)
