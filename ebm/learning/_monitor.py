"""What is measured at the end of an epoch."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ebm._types import Array
from ebm.learning._families import has_hidden_units, layers_of
from ebm.learning._gauges import LayerGauge, gauge_of
from ebm.learning._statistics import mean_energy, reconstruction_error, variances

#: States drawn from the model for each sample while the running mean remembers: its Monte-Carlo
#: error is then a seventh of the sampling error.
MEMORY = 25


class Misfit(NamedTuple):
    """How far both sides of the learning rule are apart.

    ``largest`` in standard deviations of one sample; ``own`` and ``smoothed`` root mean squares in
    standard errors, of the epoch and of the running mean.
    """

    largest: float
    own: float
    smoothed: float


class Monitor:
    """Measures of a fit on a fixed set of rows, and of its gradients, within ``directions``."""

    def __init__(
        self,
        family: Any,
        data: Any,
        mean: Array | None,
        probe: Any,
        validation: Any,
        directions: Array | None = None,
    ) -> None:
        self._directions = directions
        self._data, self._mean, self._probe, self._validation = data, mean, probe, validation
        # Measured in the centered gauge whether or not the fit learns in it.
        self._gauge = gauge_of(family, mean, centering=True)
        self._slides = isinstance(self._gauge, LayerGauge)
        self._variances = None if self._slides else variances(family, data, mean, np.zeros(0))

    def hidden_mean(self, model: Any) -> Array:
        """Means of the hidden units given the probe, (m,); empty for models without."""
        if not has_hidden_units(model):
            return np.zeros(0)
        from scipy.special import expit

        form = layers_of(model).at_origin()
        return np.asarray(self._probe.expectation(lambda v: expit(v @ form.weights + form.hidden)))

    def running_mean(
        self, gradient: Array, mean: Array, noise: float, drawn: float, entries: int
    ) -> tuple[Array, float]:
        """The running mean of the gradient, (p,), and its Monte-Carlo variance after another entry.

        The variance is in units of that of one state, ``drawn`` the states behind the gradient. The
        memory grows with the entries, until the chains have drawn 25 states for each sample.
        """
        n_samples = float(self._data.sample_size)
        pace = 1.0
        if math.isfinite(n_samples) and math.isfinite(drawn):
            pace = max(min(1.0, drawn / (MEMORY * n_samples)), 2 / (entries + 2))
        noise = (1 - pace) ** 2 * noise + pace**2 / drawn
        return (1 - pace) * mean + pace * gradient, noise

    def misfit(
        self, model: Any, gradient: Array, mean: Array, noise: float, drawn: float
    ) -> Misfit:
        """How far both sides are apart, by the gradient of an entry and by the running mean."""
        hidden = self.hidden_mean(model)
        variance = self._variances
        if variance is None:
            variance = variances(model, self._data, self._mean, hidden)
        own, smoothed = (self._gauge.gradient(x.copy(), hidden) for x in (gradient, mean))
        if self._directions is not None:
            # Variances of sums of features, as if units were independent. A gauge G changes biases
            # by couplings only, so that G⁻¹ = 2 − G.
            ways, zero = self._directions.T, np.zeros(len(gradient))
            moved = np.array([self._gauge.moved(zero, way, hidden) for way in ways])
            variance = (2 * ways - moved) ** 2 @ variance
            own, smoothed = gradient @ self._directions, mean @ self._directions
        deviation = np.sqrt(variance)
        own /= deviation
        smoothed /= deviation
        sampling = 1 / float(self._data.sample_size)
        return Misfit(
            float(max(own.max(), -own.min())),
            _rms(own, math.sqrt(sampling + 1 / drawn)),
            _rms(smoothed, math.sqrt(sampling + noise)),
        )

    def reconstruction(self, model: Any) -> float:
        """The reconstruction error of the probe; NaN for models without hidden units."""
        if not has_hidden_units(model):
            return math.nan
        return reconstruction_error(model, self._probe)

    def gap(self, model: Any) -> float:
        """Mean energy of the validation rows less that of the probe; NaN without validation."""
        if self._validation is None or self._probe is None:
            return math.nan
        return mean_energy(model, self._validation) - mean_energy(model, self._probe)


def drawn_states(ensemble: Any) -> float:
    """Independent states behind an average, at least one."""
    size = float(getattr(ensemble, "sample_size", math.inf))
    return size if size >= 1 else 1.0


def _rms(values: Array, error: float) -> float:
    """Root mean square in units of an error; a finite number even where the error is zero."""
    size = math.sqrt(float(values @ values) / len(values))
    return size / error if error > 0 else size
