"""Traced units filled in: averages of the joint model over q(v) p(h|v), and over p(h|v) alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ebm._arrays import as_floats
from ebm._types import Array
from ebm.ensembles import Ensemble, Moments
from ebm.errors import EnumerationLimitError, ModelError, ShapeError, require_memory
from ebm.perturbation._costs import require_within

#: Numbers of joint states, their features or their derivatives, that are held at a time.
CHUNK = 2**22
#: What sums over traced units, for all kept states of one call, may take.
MOST_SECONDS, MOST_BYTES = 60.0, 4 * 2.0**30
#: Joint states that the sums of one unit hold at a time.
STATES_AT_ONCE = 2**18


class CompletedEnsemble(Ensemble):
    """q(v) p(h|v): the kept states of an average, the traced units filled in by the model.

    One side of the learning rule with hidden units, [EBM] eq 11, is the mean of ∂E/∂θ over it: for
    data q = p_D, and the model itself comes back for q = p(v). ``every_state`` visits the traced
    units state by state; ``trace`` may know means and covariances of groups of them.
    """

    def __init__(self, model: Any, average: Ensemble, trace: Any, every_state: Any) -> None:
        self.space, self.sample_size = model.space, average.sample_size
        self._model, self._average = model, average
        self._trace, self._every_state = trace, every_state

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Joint states (m, n) and their weights (m,); none of those that are forbidden."""
        for states, weights in self._kept(self.space.n * self._every_state.n_terms):
            for joint, p in self._every_state.conditional(states):
                shares = (weights[:, None] * p).ravel()
                seen = shares > 0
                yield joint.reshape(-1, joint.shape[2])[seen], shares[seen]

    def moments(self) -> Moments:
        """Cov = Cov_q[E[f|v]] + E_q Cov[f|v], the latter inside of groups of coupled units."""
        if not callable(getattr(self._trace, "completed", None)):
            return super().moments()
        d = self.space.n_features
        require_memory(8.0 * d * d, f"the covariance of {d} features", "choose fewer units")
        mean, covariance, shift = np.zeros(d), np.zeros((d, d)), None
        for states, weights in self._kept(max(d, self._trace.n_completed)):
            means, inside = self._trace.completed(states)
            shift = means[0] if shift is None else shift
            deviation = means - shift
            mean += weights @ deviation
            covariance += deviation.T @ (deviation * weights[:, None])
            for columns, spread in inside:
                pairs = columns[:, :, None], columns[:, None, :]
                covariance[pairs] += np.tensordot(weights, spread, axes=1)
        covariance -= np.outer(mean, mean)
        offset = np.zeros(d) if shift is None else shift
        symmetric = (covariance + covariance.T) / 2
        return Moments(self.space, offset + mean, symmetric, sample_size=self.sample_size)

    def _kept(self, numbers: int) -> Iterator[tuple[Array, Array]]:
        """Kept states of positive weight, so many that numbers for each of them fit."""
        rows = max(1, CHUNK // numbers)
        for states, weights in self._average.blocks():
            seen = weights > 0
            if not seen.all():
                states, weights = states[seen], weights[seen]
            for start in range(0, len(states), rows):
                part = slice(start, start + rows)
                require_completions(self._model, self._trace, states[part])
                yield states[part], weights[part]


def require_summable(trace: Any, n_kept: float) -> None:
    """Refuse sums over traced units for so many kept states that would take too long."""
    n_states = "each state" if n_kept == 1 else f"each of {n_kept:.3g} states"
    require_within(
        f"summing out {trace.summed} for {n_states} of the kept units",
        trace.seconds_at_once + n_kept * trace.seconds,
        8.0 * STATES_AT_ONCE * trace.n_units,
        "keep more units, or have the others sampled: ebm.sample with "
        "run=ebm.sampling.SamplingRun(clamped=…), and for a fit "
        "loss=ebm.Likelihood(ebm.PersistentChains(), completion=ebm.ClampedChains())",
        max_seconds=MOST_SECONDS,
        max_bytes=MOST_BYTES,
        error=EnumerationLimitError,
    )


def require_completions(model: Any, trace: Any, states: Array) -> None:
    """Refuse kept states that the joint model forbids with whatever traced units."""
    require_summable(trace, len(states))
    is_forbidden = np.isinf(trace.energy(states))
    if is_forbidden.any():
        first = states[np.flatnonzero(is_forbidden)[0]]
        raise ModelError(
            f"{type(model).__name__} forbids the state {first} of the kept units, whatever those "
            "are that are summed out: its energy is +inf, and there is no mean over p(h|v). Leave "
            "such rows out, or give them a finite energy"
        )


def conditional_means(
    every_state: Any, states: Array, function: Callable[[Array], Any], size: int
) -> Array:
    """E[f(v, h)|v] of values (m,) or (m, …) of ``size`` numbers, (k, n) -> (k,) or (k, …)."""
    rows = max(1, CHUNK // (size * every_state.n_terms))
    means = []
    for start in range(0, len(states), rows):
        total: Any = 0.0
        for joint, p in every_state.conditional(states[start : start + rows]):
            seen = p > 0
            # Where a state is forbidden, its derivative may be anything: 0 g is 0.
            values = np.asarray(function(joint[seen]))
            table = np.zeros((*p.shape, *values.shape[1:]))
            table[seen] = values
            total = total + np.einsum("kt,kt...->k...", p, table)
        means.append(total)
    return np.concatenate(means)


def conditional_covariance(
    model: Any, every_state: Any, states: Array, weights: Array, means: Array
) -> Array:
    """Σ_v q(v) Cov[∂E/∂θ|v] of kept states and their means E[∂E/∂θ|v], (p, p)."""
    p = means.shape[1]
    rows = max(1, CHUNK // (p * every_state.n_terms))
    total = np.zeros((p, p))
    for start in range(0, len(states), rows):
        part = slice(start, start + rows)
        for joint, probability in every_state.conditional(states[part]):
            shares = weights[part, None] * probability
            seen = shares > 0
            deviation = gradients(model, joint[seen], p) - means[part][np.nonzero(seen)[0]]
            total += deviation.T @ (deviation * shares[seen][:, None])
    return total


def gradients(model: Any, states: Array, p: int) -> Array:
    """∂E/∂θ of joint states, the model's answer checked, (m, p)."""
    name = f"{type(model).__name__}.energy_gradient"
    values = as_floats(model.energy_gradient(states), name)
    if values.shape != (len(states), p):
        raise ShapeError(
            f"{name} must return shape {(len(states), p)} for {len(states)} states and {p} "
            f"parameters, got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ModelError(f"{name} must be finite where energies are, got NaN or inf")
    return values
