"""The exact distribution of Gaussian visible units beside two-valued hidden ones: a mixture."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.ensembles import Moments
from ebm.enumeration._limits import Limits
from ebm.enumeration._log_weights import cut_form
from ebm.enumeration._quadratic import PairwiseEnumeration, require_affordable
from ebm.enumeration._real_ensemble import RealEnsemble
from ebm.enumeration._two_layers import LayerMoments
from ebm.enumeration.exact_ensemble import ExactEnsemble
from ebm.forms import LayeredForm
from ebm.model import EnergyModel
from ebm.models._layers import pairs_of_layers
from ebm.models._library import library_model
from ebm.spaces import FiniteSpace
from ebm.units import Gaussian

__all__ = ["GaussianMixture", "is_mixture"]


def is_mixture(form: LayeredForm) -> bool:
    """Whether two-valued units are hidden behind Gaussian ones."""
    hidden = form.hidden_units.space(1)
    return isinstance(form.visible_units, Gaussian) and isinstance(hidden, FiniteSpace)


class GaussianMixture(RealEnsemble):
    """p(v) = Σ_h p(h) N(v; (b + U(h−ĥ))/γ, 1/γ) of a machine with Gaussian visible units.

    The hidden units are a Boltzmann machine with the couplings W = Uᵀγ⁻¹U, diagonal included, whose
    2^m states give ln Z, moments, the averages of learning, log-probabilities and independent
    draws. Entropy, and expectations of other functions, would be integrals over R^n: take them over
    draws.

    Attributes
    ----------
    hidden : ExactEnsemble
        The exact distribution p(h) of the hidden layer.
    """

    hidden: ExactEnsemble

    def __init__(self, model: EnergyModel, limits: Limits, n_jobs: int) -> None:
        machine: Any = library_model(model)
        turned = machine.transposed()
        require_affordable(turned.space, limits, n_jobs)
        pairs = cut_form(pairs_of_layers(turned.layered_form()))
        self.hidden = PairwiseEnumeration(turned, turned.space, pairs, limits, n_jobs)
        self._units, self._origin = machine.visible_units, machine.layered_form().at_origin()
        super().__init__(model, limits, self.hidden.log_partition)

    def layer_moments(self) -> LayerMoments:
        """E[v], E[h] and E[v hᵀ], from the moments of the hidden layer."""
        slopes = self._slopes
        mean, second = np.asarray(self._hidden.mean), self._hidden.second
        products = np.outer(self._at_zero, mean) + slopes @ second
        return LayerMoments(self._at_zero + slopes @ mean, mean, products)

    def moments(self) -> Moments:
        """Means and covariances of the visible units, 1/γ + (U/γ) Cov[h] (U/γ)ᵀ."""
        return self._moments

    def _drawn(self, n_draws: int, rng: np.random.Generator) -> Array:
        """A hidden state first and then v given it."""
        h = self.hidden.sample(n_draws, rng)
        draws: Array = self._units.sample(h @ self._origin.weights.T + self._origin.visible, rng)
        return draws

    @cached_property
    def _hidden(self) -> Moments:
        return self.hidden.moments()

    @cached_property
    def _moments(self) -> Moments:
        slopes, variances = self._slopes, self._units.variance(self._origin.visible)
        covariance = slopes @ self._hidden.covariance @ slopes.T + np.diag(variances)
        mean = self._at_zero + slopes @ self._hidden.mean
        return Moments(self.space, mean, (covariance + covariance.T) / 2, self.log_partition)

    @cached_property
    def _slopes(self) -> Array:
        """∂E[v|h]/∂h = U/γ, (n, m)."""
        return np.asarray(self._units.mean(self._origin.weights.T).T)

    @cached_property
    def _at_zero(self) -> Array:
        """E[v|h=0], (n,)."""
        return np.asarray(self._units.mean(self._origin.visible))
