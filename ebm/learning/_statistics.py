"""Both sides of the learning rule, and by how much they may differ."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import is_sparse
from ebm._parallel import map_blocks, number_of_jobs
from ebm._types import Array
from ebm.ensembles import Ensemble, Moments
from ebm.forms import LayeredForm, offered_form
from ebm.learning._batches import Batch
from ebm.learning._families import (
    center_of,
    has_counts,
    has_fixed_features,
    has_hidden_units,
    has_pairs,
    joint_model,
    layers_of,
    pairs_of,
)
from ebm.models._counts import shares_of_counts
from ebm.sampling._precision import single_layers

#: Derivatives by parameters that are held at a time.
CHUNK = 2**24
#: Share of a second moment below which a variance is its rounding.
ROUNDING = 1e-14
#: Variance beside the largest of another feature that stands for zero.
NOTHING = 1e-24
#: Rows of a batch, and chains beside them, that one thread takes at a time.
ROWS = 256


def difference(model: Any, batch: Any, ensemble: Any, *, rough: bool) -> tuple[Array, Array]:
    """E_D[∂E/∂θ] − E_model[∂E/∂θ], the learning rule, and the sum of both averages, (p,) each.

    ``rough`` says that this is a machine with hidden units whose chains are noisy, so that single
    precision will do where weights are not large; the sum is then that of the biases alone.
    """
    if rough and isinstance(batch, Batch) and isinstance(ensemble, Batch):
        form = layers_of(model)
        weights = single_layers(form)
        if weights is not None:
            return _layered_difference(form, weights, batch, ensemble)
    data_average, model_average = gradient_of(model, batch), gradient_of(model, ensemble)
    return data_average - model_average, data_average + model_average


def gradient_of(model: Any, ensemble: Any) -> Array:
    """E[∂E/∂θ], one side of the learning rule, (p,)."""
    return np.asarray(model.mean_energy_gradient(ensemble), dtype=np.float64)


def _layered_difference(
    form: LayeredForm, weights: NDArray[np.float32], batch: Batch, ensemble: Batch
) -> tuple[Array, Array]:
    """Both sides at once about the hidden center: −Σ_r s_r (v_r, h_r, (v_r − v̂)(h_r − ĥ)ᵀ).

    The rows r are those of the batch with s their weights, and those of the ensemble with −s.
    """
    n, m = weights.shape
    inputs, center = form.at_origin().hidden.astype(np.float32), form.hidden_center
    gradient, both = np.empty(n + m + n * m), np.zeros(n + m)
    gradient[: n + m] = 0
    products: Any = None

    def of_rows(start: int) -> tuple[Any, Any, Any]:
        """Sums of both sides over some rows of each, (2, n) and (2, m), and the products (n, m)."""
        part = slice(start, start + ROWS)
        sides = batch.states[part], ensemble.states[part]
        v, cut = np.concatenate(sides, dtype=np.float32), len(sides[0])
        shares = np.zeros((2, len(v)), dtype=np.float32)
        shares[0, :cut], shares[1, cut:] = batch.weights[part], ensemble.weights[part]
        h = v @ weights
        h += inputs
        _sigmoid(h)
        sums = shares @ v, shares @ h
        if center is not None and center.any():
            h -= center.astype(np.float32)
        h *= (shares[1] - shares[0])[:, None]
        return *sums, v.T @ h

    starts = range(0, max(len(batch.states), len(ensemble.states)), ROWS)
    for visible, hidden, product in map_blocks(of_rows, starts, min(number_of_jobs(), len(starts))):
        sums = np.concatenate([visible, hidden], axis=1)
        gradient[: n + m] += sums[1] - sums[0]
        both -= sums.sum(axis=0)
        products = product if products is None else np.add(products, product, out=products)
    about = gradient[n + m :].reshape(n, m)
    about[:] = products
    if form.visible_center is not None and form.visible_center.any():
        about -= np.outer(form.visible_center, gradient[n : n + m])
    return gradient, both


def _sigmoid(inputs: NDArray[np.float32]) -> None:
    """σ in place; numpy's own exponential is the fastest in single precision."""
    with np.errstate(over="ignore"):
        np.negative(inputs, out=inputs)
        np.exp(inputs, out=inputs)
        inputs += 1
        np.reciprocal(inputs, out=inputs)


def mean_energy(model: Any, data: Any) -> float:
    """E[E(x)] in units of k_B T, from moments where they suffice."""
    if not (has_pairs(model) and isinstance(data, Moments)):
        return float(data.expectation(model.energy))
    form, moments = pairs_of(model), data.to(model.space)
    matrix, d = form.matrix, moments.mean - center_of(model)
    product = matrix.multiply if is_sparse(matrix) else matrix.__mul__
    coupled = float(product(moments.covariance).sum()) + float(d @ (matrix @ d))
    return form.constant - 0.5 * coupled - float(moments.mean @ form.vector)


def variances(model: Any, data: Any, mean: Array | None, hidden_mean: Array) -> Array:
    """Variances of ∂E/∂θ in the centered coordinates, (p,), as if units were independent."""
    n_samples = data.sample_size if math.isfinite(data.sample_size) else 1e12
    least = 1 / (4 * n_samples)
    if has_fixed_features(model) and mean is not None:
        low, high = model.space.values
        unit = np.maximum((mean - low) * (high - mean), least)
        i, j = model.pairs
        counts = count_variances(model, data, least)[0] if has_counts(model) else np.zeros(0)
        return np.concatenate([unit, unit[i] * unit[j], counts])
    if has_hidden_units(model) and mean is not None:
        unit = np.maximum(mean * (1 - mean), least)
        hidden = np.maximum(hidden_mean * (1 - hidden_mean), least)
        return np.concatenate([unit, hidden, np.outer(unit, hidden).ravel()])
    return gradient_variances(model, data)


def count_variances(model: Any, data: Any, least: float) -> tuple[Array, Array]:
    """P(1 − P) of each value of V that is a parameter, (k,), and of each that is none, (r,)."""
    pool, shares = model.pool_of_count, shares_of_counts(data)
    p = np.bincount(pool[pool >= 0], shares[pool >= 0], minlength=pool.max(initial=-1) + 1)
    rest = shares[pool < 0]
    return np.maximum(p * (1 - p), least), np.maximum(rest * (1 - rest), least)


def gradient_variances(model: Any, data: Ensemble) -> Array:
    """Var[∂E/∂θ_k] over an ensemble, a bounded number of states at a time, (p,)."""
    return _known(*_spread(model, data))


def completed_variances(model: Any, data: Ensemble) -> Array:
    """The same with the units that are summed out filled in by the model, (p,).

    Var E[∂E/∂θ|v] alone is tiny where they hardly know of v, and grows as they learn.
    """
    if joint_model(model) is not None:
        square, spread = model.completed_squares(data)
        return _known(spread, square)
    spread, square = _spread(model, data)
    if offered_form(model) is LayeredForm:
        hidden = _hidden_variances(layers_of(model), data, len(spread))
        spread, square = spread + hidden, square + hidden
    return _known(spread, square)


def _spread(model: Any, data: Ensemble) -> tuple[Array, Array]:
    """Var[∂E/∂θ] and E[(∂E/∂θ)²], rounding included, (p,) each."""
    square: Any = np.zeros(len(model.parameters))
    rows = max(1, CHUNK // len(model.parameters))
    for states, weights in data.blocks():
        for start in range(0, len(states), rows):
            part = slice(start, start + rows)
            square = square + weights[part] @ np.asarray(model.energy_gradient(states[part])) ** 2
    return np.asarray(square - model.mean_energy_gradient(data) ** 2), square


def _hidden_variances(form: LayeredForm, data: Ensemble, p: int) -> Array:
    """E Var[∂E/∂θ|v] of a layer, (0, Var h, (v−v̂)² Var h, 0), (p,); 0 of other parameters."""
    n, m = form.weights.shape
    result = np.zeros(p)
    if p < n + m + n * m:
        return result
    center = 0.0 if form.visible_center is None else form.visible_center
    rows = max(1, CHUNK // m)
    for states, weights in data.blocks():
        for start in range(0, len(states), rows):
            part = slice(start, start + rows)
            v = states[part] - center
            hidden = form.hidden_units.variance(v @ form.weights + form.hidden)
            result[n : n + m] += weights[part] @ hidden
            products = (v**2 * weights[part, None]).T @ hidden
            result[n + m : n + m + n * m] += products.ravel()
    return result


def _known(spread: Array, square: Array) -> Array:
    """Variances beside mean squares, 1 where they are rounding, (p,)."""
    is_known = spread > np.maximum(ROUNDING * square, NOTHING * spread.max(initial=0))
    return np.where(is_known, spread, 1.0)
