"""The exact ensemble of two layers of which one or both are of ±1 units, by that of {0,1} units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ebm._randomness import RandomSource
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.enumeration._limits import Limits
from ebm.enumeration._log_weights import cut_layers
from ebm.enumeration._products import HERE, Elsewhere
from ebm.enumeration._two_layers import LayerMoments, RestrictedEnumeration
from ebm.enumeration.exact_ensemble import ExactEnsemble
from ebm.forms import LayeredForm
from ebm.model import EnergyModel
from ebm.models import RestrictedBoltzmannMachine
from ebm.models._layers import binary_layers, steps
from ebm.spaces import Binary, FiniteSpace, StateSpace

__all__ = ["RecodedEnumeration"]


class RecodedEnumeration(ExactEnsemble):
    """The states of the smaller layer, recoded v = l + s x and h = l' + s' x'."""

    def __init__(
        self,
        model: EnergyModel,
        space: FiniteSpace,
        form: LayeredForm,
        limits: Limits,
        n_jobs: int,
        elsewhere: Elsewhere = HERE,
    ) -> None:
        self.model, self.space, self._limits = model, space, limits
        visible_units, self._hidden_units = form.visible_units, form.hidden_units
        (self._low, self._scale), (self._hidden_low, self._hidden_scale) = map(
            steps, (visible_units, self._hidden_units)
        )
        form = binary_layers(form)
        machine = RestrictedBoltzmannMachine(
            form.weights,
            form.visible,
            form.hidden,
            visible_center=form.visible_center,
            hidden_center=form.hidden_center,
            offset=form.constant,
        )
        cut = cut_layers(machine.layered_form())
        self._recoded = RestrictedEnumeration(
            machine, Binary(space.n), cut, limits, n_jobs, elsewhere
        )
        self._resolved, self._ground = None, self._recoded._ground
        self._log_relative = self._recoded._log_relative
        self.log_partition = self._recoded.log_partition

    def moments(self) -> Moments:
        """Means and covariances of the visible units, and ln Z."""
        return self._as_own(self._recoded.moments(), self.space, self._low, self._scale)

    def hidden_moments(self) -> Moments:
        """Means and covariances of the hidden units."""
        moments = self._recoded.hidden_moments()
        home = self._hidden_units.space(moments.space.n)
        return self._as_own(moments, home, self._hidden_low, self._hidden_scale)

    def layer_moments(self) -> LayerMoments:
        """E[v], E[h] and E[v hᵀ] at center 0."""
        x, y, products = self._recoded.layer_moments()
        visible, hidden = self._low + self._scale * x, self._hidden_low + self._hidden_scale * y
        about = products - np.outer(x, y)
        both = np.outer(visible, hidden) + self._scale * self._hidden_scale * about
        return LayerMoments(visible, hidden, both)

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """All visible states (m, n) and their probabilities (m,), block by block."""
        for states, weights in self._recoded.blocks():
            yield self._low + self._scale * states, weights

    def sample(self, n_draws: int, rng: RandomSource = None) -> Array:
        """Independent draws from p(v), (n_draws, n)."""
        return self._low + self._scale * self._recoded.sample(n_draws, rng)

    def _as_own(self, moments: Moments, space: StateSpace, low: float, scale: float) -> Moments:
        mean, covariance = low + scale * moments.mean, scale**2 * moments.covariance
        return replace(moments, space=space, mean=mean, covariance=covariance)

    def _relative_energies(self, states: Array) -> Array:
        return self._recoded._relative_energies((states - self._low) / self._scale)

    def _mean_relative_energy(self) -> float:
        return self._recoded._mean_relative_energy()

    def _require_streaming(self, what: str, numbers_per_state: int) -> None:
        self._recoded._require_streaming(what, numbers_per_state)

    def _draw_in_block(self, block: int, n_draws: int, rng: np.random.Generator) -> Array:
        return self._low + self._scale * self._recoded._draw_in_block(block, n_draws, rng)
