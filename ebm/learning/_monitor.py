"""What is measured at the end of an epoch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._iterate import State
from ebm._types import Array
from ebm.learning._families import has_counts, has_hidden_units, layers_of
from ebm.learning._gauges import Gauge, gauge_of
from ebm.learning._statistics import count_variances, mean_energy, variances
from ebm.learning.penalties import AppliedPenalty

#: States drawn from the model for each sample while the running mean remembers: its Monte-Carlo
#: error is then a seventh of the sampling error.
MEMORY = 25


@dataclass(frozen=True, eq=False)
class Monitor:
    """Measures of a fit on a fixed set of rows, and of its gradients with the penalty's part."""

    family: Any
    data: Any
    mean: Array | None
    probe: Any
    validation: Any
    penalty: AppliedPenalty
    #: The joint model and rows with hidden units drawn at the start, where these are sampled.
    joint: tuple[Any, Any] | None = None

    @cached_property
    def _gauge(self) -> Gauge:
        """The centered gauge, whether or not the fit learns in it."""
        return gauge_of(self.family, self.mean, centering=True)

    @cached_property
    def _variances(self) -> Array:
        model, data = self.joint or (self.family, self.data)
        variance = variances(model, data, self.mean, np.zeros(0))
        if not has_counts(self.family) or self.penalty.is_tied:
            return variance
        # The misfits of P(K) where V is a constant are misfits as well.
        constant = count_variances(self.family, self.data, 0.25 / self.data.sample_size)[1]
        return np.concatenate([variance, constant])

    def hidden_mean(self, model: Any) -> Array:
        """Means of the hidden units given the probe, (m,); empty for models without."""
        return np.zeros(0) if not has_hidden_units(model) else self._means(model)[0]

    def reconstruction(self, model: Any) -> float:
        """Mean of (v − E[v | h = E[h|v]])² over the probe; NaN for models without hidden units."""
        return math.nan if not has_hidden_units(model) else self._means(model)[1]

    def _means(self, model: Any) -> tuple[Array, float]:
        """Both averages over the probe; those of the last model are kept."""
        from scipy.special import expit

        if self._last[0] is not model:
            form = layers_of(model).at_origin()

            def observed(v: Array) -> Array:
                h = expit(v @ form.weights + form.hidden)
                again = expit(h @ form.weights.T + form.visible)
                return np.column_stack([h, ((v - again) ** 2).mean(axis=1)])

            means = self.probe.expectation(observed)
            self._last[:] = model, (means[:-1], float(means[-1]))
        kept: tuple[Array, float] = self._last[1]
        return kept

    @cached_property
    def _last(self) -> list[Any]:
        return [None, None]

    def entry(self, state: State, model: Any, ensemble: Any) -> dict[str, Any]:
        """What another entry of the history adds to the state.

        The running mean of the gradient, (p,), and its Monte-Carlo variance ``noise`` in units of
        that of one state; how far both averages are apart; the states drawn for one update. The
        memory grows with the entries, until the chains have drawn 25 states for each sample.
        """
        gradient, n_samples = state["total"] / state["shares"], float(self.data.sample_size)
        drawn = max(1.0, float(getattr(ensemble, "sample_size", math.inf)))
        n_drawn, pace = drawn * state["summed"], 1.0
        if math.isfinite(n_samples) and math.isfinite(n_drawn):
            pace = max(min(1.0, n_drawn / (MEMORY * n_samples)), 2 / (state["entries"] + 2))
        mean = (1 - pace) * state["mean"] + pace * gradient
        noise = (1 - pace) ** 2 * state["noise"] + pace**2 / n_drawn
        return {
            "mean": mean,
            "noise": noise,
            "entries": state["entries"] + 1,
            "misfit": self._misfit(model, gradient, mean, 1 / n_drawn, noise),
            "drawn": drawn,
        }

    def _misfit(
        self, model: Any, gradient: Array, mean: Array, noise: float, mean_noise: float
    ) -> Array:
        """How far both sides of the learning rule are apart, (4,).

        The largest entry of the gradient in standard deviations of one sample; root mean squares
        of the gradient and of its running mean in standard errors; the largest entry without ∂R/∂θ.
        """
        hidden = self.hidden_mean(model)
        # They change with the means of hidden units alone.
        variance = (
            variances(model, self.data, self.mean, hidden) if len(hidden) else self._variances
        )
        slopes = [gradient, mean]
        if self.penalty:
            slopes.append(gradient - self.penalty.gradient(np.asarray(model.parameters)))
        directions = self.penalty.directions
        if directions is None:
            scaled = [self._gauge.gradient(x.copy(), hidden) for x in slopes]
        else:
            # Variances of sums of features, as if units were independent. A gauge G changes biases
            # by couplings only, so that G⁻¹ = 2 − G.
            ways, zero = directions.T, np.zeros(len(gradient))
            moved = np.array([self._gauge.moved(zero, way, hidden) for way in ways])
            variance = (2 * ways - moved) ** 2 @ variance
            scaled = [x @ directions for x in slopes]
        deviation = np.sqrt(variance)
        for x in scaled:
            x /= deviation
        sampling = 1 / float(self.data.sample_size)
        errors = math.sqrt(sampling + noise), math.sqrt(sampling + mean_noise)
        bare = scaled[2] if self.penalty else scaled[0]
        sizes = _rms(scaled[0], errors[0]), _rms(scaled[1], errors[1])
        return np.array([largest_size(scaled[0]), *sizes, largest_size(bare)])

    def gap(self, model: Any) -> float:
        """Mean energy of the validation rows less that of the probe; NaN without validation."""
        if self.validation is None or self.probe is None:
            return math.nan
        return mean_energy(model, self.validation) - mean_energy(model, self.probe)


def largest_size(values: Array) -> float:
    """max |values|, without an array of their magnitudes."""
    return float(max(values.max(), -values.min()))


def _rms(values: Array, error: float) -> float:
    """Root mean square in units of an error; a finite number even where the error is zero."""
    size = math.sqrt(float(values @ values) / len(values))
    return size / error if error > 0 else size
