"""Both sides of the learning rule, and by how much they may differ."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array
from ebm.ensembles import Ensemble, Moments
from ebm.learning.batches import Batch
from ebm.models import _couplings
from ebm.models.pairwise import PairwiseModel
from ebm.models.restricted import RestrictedBoltzmannMachine as LayeredModel
from ebm.sampling.gibbs import single_precision_suffices

#: Hidden units of a batch, or derivatives by parameters, held at a time.
CHUNK = 2**24


def gradient_of(model: Any, ensemble: Any, *, rough: bool) -> Array:
    """E[∂E/∂θ], one side of the learning rule, (p,).

    Parameters
    ----------
    model : ParametricModel
        At which θ.
    ensemble : Ensemble or Moments
        What to average over.
    rough : bool
        Whether single precision will do, as beside the noise of chains.

    Returns
    -------
    ndarray, (p,)
        In the order of ``model.parameters``.
    """
    if rough and isinstance(model, LayeredModel) and isinstance(ensemble, Batch):
        return _layered_gradient(model, ensemble)
    return np.asarray(model.mean_energy_gradient(ensemble), dtype=np.float64)


def _layered_gradient(model: LayeredModel, batch: Batch) -> Array:
    """The same about the hidden center, in single precision where that is enough."""
    visible = np.asarray(model.visible_center)
    is_shifted = bool(visible.any())
    with np.errstate(over="ignore"):
        weights = model.weights.astype(np.float32)
    inputs = model.hidden_biases - (visible @ model.weights if is_shifted else 0)
    if not single_precision_suffices(weights.T, inputs):
        return np.asarray(model.mean_energy_gradient(batch))
    biases, center = inputs.astype(np.float32), model.hidden_center.astype(np.float32)
    v_mean, h_mean = np.zeros(model.n), np.zeros(model.n_hidden)
    products: Any = 0.0
    rows = max(1, CHUNK // model.n_hidden)
    for start in range(0, len(batch.states), rows):
        v = batch.states[start : start + rows].astype(np.float32)
        share = batch.weights[start : start + rows].astype(np.float32)
        h = v @ weights
        h += biases
        _sigmoid(h)
        v_mean += share @ v
        h_mean += share @ h
        h -= center
        h *= share[:, None]
        products = products + v.T @ h
    gradient = np.empty(model.n + model.n_hidden + weights.size)
    np.negative(v_mean, out=gradient[: model.n])
    np.negative(h_mean, out=gradient[model.n : model.n + model.n_hidden])
    about = gradient[model.n + model.n_hidden :].reshape(weights.shape)
    np.negative(products, out=about)
    if is_shifted:
        about += np.outer(visible, h_mean - model.hidden_center)
    return gradient


def _sigmoid(inputs: NDArray[np.float32]) -> None:
    """σ in place; numpy's own exponential is the fastest in single precision."""
    with np.errstate(over="ignore"):
        np.negative(inputs, out=inputs)
        np.exp(inputs, out=inputs)
        inputs += 1
        np.reciprocal(inputs, out=inputs)


def mean_energy(model: Any, data: Any) -> float:
    """E[E(x)] in units of k_B T, from moments where they suffice.

    Parameters
    ----------
    model : EnergyModel
        The energy.
    data : Ensemble or Moments
        What to average over; the moments of a pairwise model.

    Returns
    -------
    float
        The mean.
    """
    if not (isinstance(model, PairwiseModel) and isinstance(data, Moments)):
        return float(data.expectation(model.energy))
    moments = data.to(model.space)
    d = moments.mean - model.feature_center
    matrix = model.coupling_matrix
    if _couplings.is_sparse(matrix):
        coupled = float(matrix.multiply(moments.covariance).sum())
    else:
        coupled = float((matrix * moments.covariance).sum())
    coupled += float(d @ _couplings.apply(matrix, d))
    return -0.5 * coupled - float(moments.mean @ model.parameters[: model.n]) + model.offset


def variances(model: Any, data: Any, mean: Array | None, hidden_mean: Array) -> Array:
    """Variances of ∂E/∂θ in the centered coordinates, (p,), as if units were independent.

    Parameters
    ----------
    model : ParametricModel
        The family.
    data : Ensemble or Moments
        The data.
    mean : ndarray, (n,), or None
        Means of the data, for families whose units are two-valued.
    hidden_mean : ndarray, (m,)
        Means of the hidden units, empty where there are none.

    Returns
    -------
    ndarray, (p,)
        Positive: a constant unit counts as one with one row of another value in four.
    """
    n_samples = data.sample_size if math.isfinite(data.sample_size) else 1e12
    least = 1 / (4 * n_samples)
    if isinstance(model, PairwiseModel) and mean is not None:
        low, high = model.space.values
        unit = np.maximum((mean - low) * (high - mean), least)
        i, j = model.pairs
        return np.concatenate([unit, unit[i] * unit[j]])
    if isinstance(model, LayeredModel) and mean is not None:
        unit = np.maximum(mean * (1 - mean), least)
        hidden = np.maximum(hidden_mean * (1 - hidden_mean), least)
        return np.concatenate([unit, hidden, np.outer(unit, hidden).ravel()])
    return gradient_variances(model, data)


def gradient_variances(model: Any, data: Ensemble) -> Array:
    """Var[∂E/∂θ_k] over an ensemble, a bounded number of states at a time, (p,).

    Parameters
    ----------
    model : ParametricModel
        At which θ.
    data : Ensemble
        What to average over.

    Returns
    -------
    ndarray, (p,)
        1 for a derivative that never changes.
    """
    square: Any = 0.0
    rows = max(1, CHUNK // len(model.parameters))
    for states, weights in data.blocks():
        for start in range(0, len(states), rows):
            part = slice(start, start + rows)
            square = square + weights[part] @ np.asarray(model.energy_gradient(states[part])) ** 2
    spread = np.asarray(square - model.mean_energy_gradient(data) ** 2)
    return np.where(spread > 0, spread, 1.0)


def reconstruction_error(model: Any, batch: Ensemble) -> float:
    """Mean of (v − p(v = 1 | h = p(h = 1 | v)))² over units and states.

    Parameters
    ----------
    model : RestrictedBoltzmannMachine
        Both conditionals.
    batch : Ensemble
        Over visible states.

    Returns
    -------
    float
        Small where the hidden units carry the states; no measure of the likelihood.
    """
    from scipy.special import expit

    form = model.layered_form().at_origin()

    def error(v: Array) -> Array:
        h = expit(v @ form.weights + form.hidden)
        again = expit(h @ form.weights.T + form.visible)
        return np.asarray(((v - again) ** 2).mean(axis=1))

    return float(batch.expectation(error))
