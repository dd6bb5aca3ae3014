"""The exact distribution of Gaussian visible units beside two-valued hidden ones: a mixture."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ebm._arrays import as_integer
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.enumeration._limits import Limits
from ebm.enumeration._log_weights import cut_form
from ebm.enumeration._quadratic import PairwiseEnumeration, require_affordable
from ebm.enumeration._two_layers import LayerMoments
from ebm.enumeration.exact_ensemble import ExactEnsemble
from ebm.errors import EnumerationLimitError, require_memory
from ebm.forms import LayeredForm, energy_form, offered_form
from ebm.model import EnergyModel
from ebm.models._layers import pairs_of_layers
from ebm.models._library import library_model
from ebm.spaces import FiniteSpace, Reals

__all__ = ["GaussianMixture", "is_mixture"]


def is_mixture(model: Any) -> bool:
    """Whether a model is of Gaussian visible units whose hidden ones are two-valued."""
    if not isinstance(model.space, Reals) or offered_form(model) is not LayeredForm:
        return False
    form: Any = energy_form(model)
    return form.hidden_units.space is not None and issubclass(form.hidden_units.space, FiniteSpace)


class GaussianMixture(ExactEnsemble):
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
        self.model, self._limits = model, limits
        self.space: Any = model.space
        turned = machine.transposed()
        require_affordable(turned.space, limits, n_jobs)
        pairs = cut_form(pairs_of_layers(turned.layered_form()))
        self.hidden = PairwiseEnumeration(turned, turned.space, pairs, limits, n_jobs)
        self._units, self._origin = machine.visible_units, machine.layered_form().at_origin()
        self._resolved, self._ground = None, 0.0
        self.log_partition = self._log_relative = self.hidden.log_partition

    def layer_moments(self) -> LayerMoments:
        """E[v], E[h] and E[v hᵀ], from the moments of the hidden layer."""
        slopes = self._slopes
        mean, second = np.asarray(self._hidden.mean), self._hidden.second
        products = np.outer(self._at_zero, mean) + slopes @ second
        return LayerMoments(self._at_zero + slopes @ mean, mean, products)

    def moments(self) -> Moments:
        """Means and covariances of the visible units, 1/γ + (U/γ) Cov[h] (U/γ)ᵀ."""
        return self._moments

    def sample(self, n_draws: int, rng: RandomSource = None) -> Array:
        """Independent draws from p(v), of a hidden state first and of v given it, (n_draws, n)."""
        n_draws, stream = as_integer(n_draws, "n_draws"), generator(rng)
        require_memory(
            32.0 * n_draws * self.space.n,
            f"{n_draws} draws of {self.space.n} units",
            "draw fewer at a time, or raise max_memory",
            limit=self._limits.max_memory,
        )
        h = self.hidden.sample(n_draws, stream)
        draws: Array = self._units.sample(h @ self._origin.weights.T + self._origin.visible, stream)
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

    def _draw_in_block(self, block: int, n_draws: int, rng: np.random.Generator) -> Array:
        return self.sample(n_draws, rng)

    def _require_streaming(self, what: str, numbers_per_state: int) -> None:
        raise EnumerationLimitError(
            f"the states of {self.space!r} cannot be listed: ask for moments, log_probability or "
            "draws, and for other averages take "
            "ebm.Ensemble.from_data(ensemble.sample(n_draws), space=model.space)"
        )
