"""The Fisher information of a family of energies, F = Cov[∂E/∂θ], as a linear operator."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats
from ebm._types import Array
from ebm.ensembles import Ensemble
from ebm.ensembles.ensemble import is_over_kept_units, require_units
from ebm.enumeration import ExactEnsemble, exact
from ebm.enumeration._local_statistics import local_statistics
from ebm.errors import LimitError, ModelError, ShapeError
from ebm.forms import LayeredForm, QuadraticForm, energy_form, offered_form
from ebm.information._gaussian_fisher import quadratic_fisher
from ebm.information._levels import fisher_of_levels, has_fisher_of_levels
from ebm.information._solving import factor, log_volume, require_finite, solved
from ebm.information.ensemble_information import EnsembleInformation, energy_gradients
from ebm.information.joint import JointInformation, hidden_order, marginal_covariance
from ebm.information.metric import Metric
from ebm.information.relative import relative_fisher
from ebm.model import ParametricModel, refuse_result
from ebm.models._counts import has_counts
from ebm.spaces import Binary, Spins

__all__ = ["FisherInformation", "fisher_information", "pair_fisher"]

#: Relative difference of F and Fᵀ that is rounding.
ASYMMETRY = 1e-8


class FisherInformation(Metric):
    """A Fisher information that is stored as a matrix, (p, p).

    Parameters
    ----------
    matrix : array_like, (p, p)
        F, symmetric and positive semi-definite, in units of 1/θ².

    Raises
    ------
    ShapeError
        If the matrix is not square, or empty.
    ModelError
        If the matrix is not finite, or not symmetric.

    Examples
    --------
    >>> import ebm
    >>> metric = ebm.fisher_information(ebm.IsingModel([[0, 0], [0, 0]], [0, 0]))
    >>> metric.diagonal()
    array([1., 1., 1.])
    """

    def __init__(self, matrix: ArrayLike) -> None:
        values = np.array(as_floats(matrix, "matrix"))
        if values.ndim != 2 or values.shape[0] != values.shape[1] or not values.size:
            raise ShapeError(f"matrix must be square and not empty, got shape {values.shape}")
        difference = np.abs(require_finite(values, "matrix") - values.T).max()
        if difference > ASYMMETRY * np.abs(values).max():
            raise ModelError(f"matrix must be symmetric, got entries that differ by {difference:g}")
        values.setflags(write=False)
        self._values, self.shape = values, values.shape

    def diagonal(self) -> Array:
        """Var[∂E/∂θ_k], (p,)."""
        return self._values.diagonal().copy()

    def _product(self, vector: Array) -> Array:
        return self._values @ vector

    def _products(self, matrix: Array) -> Array:
        return self._product(matrix)

    def _require_dense(self) -> None:
        """The matrix is there already."""

    def _matrix(self) -> Array:
        return self._values.copy()

    def _solution(self, vector: Array, damping: float, tolerance: float) -> Array:
        return solved(factor(self._values, damping), vector)

    def _log_volume(self, damping: float) -> float:
        return log_volume(factor(self._values, damping))


def fisher_information(
    source: ParametricModel | ExactEnsemble | Any,
    average: Ensemble | None = None,
    *,
    joint: bool = False,
) -> Metric:
    """F = Cov[∂E/∂θ] over the model's own distribution; cf. [EBM] Theorem 5.

    F is the mean Hessian of −ln p and, for energies affine in θ, the Hessian of the loss over any
    data. Where units are summed out, as in a restricted Boltzmann machine, F belongs to the
    *visible* distribution, F = Cov_{p(v)}[E_{h|v} ∂E/∂θ], which is smaller than the information
    Cov_{p(v,h)}[∂E/∂θ] of both layers, ``joint=True``.

    Parameters
    ----------
    source : ParametricModel or ExactEnsemble
        The model, its exact ensemble, or the marginal that ``ebm.marginalize`` made of a parametric
        model, with the parameters of the joint model.
    average : Ensemble, optional
        States to average over, such as samples; by default the model is enumerated exactly. These
        are visible states of a restricted machine, and states of the kept units of a marginal, or
        of all units of its joint model.
    joint : bool
        Whether the hidden units of a restricted machine count as observed.

    Returns
    -------
    Metric
        F in the order of ``model.parameters``. Products stream over the states; a matrix is formed
        by ``dense``, and for at most 2000 parameters by ``solve`` and ``log_determinant``. With
        more parameters ``solve`` uses conjugate gradients. Pairwise models that are enumerated
        exactly give a matrix from their fourth moments, without a pass over the states.

    Raises
    ------
    ModelError
        If the model has no parameters or a gradient that is not finite, or ``joint`` is given for a
        model without hidden units.
    ShapeError
        If the gradient is not one number for each parameter.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [0.5, -0.5])
    >>> ebm.fisher_information(machine).shape
    (3, 3)
    >>> layers = ebm.RestrictedBoltzmannMachine([[2.0], [-1.0]], [0.5, 0.0], [-1.0])
    >>> seen, both = (ebm.fisher_information(layers, joint=joint) for joint in (False, True))
    >>> round(seen.trace() / both.trace(), 2)
    0.56
    """
    model: Any = source.model if isinstance(source, ExactEnsemble) else source
    if isinstance(getattr(model, "model", None), ParametricModel) and hasattr(model, "keep"):
        return _of_kept_units(source, model, average, joint)
    refuse_result(model)
    if not isinstance(model, ParametricModel):
        raise ModelError(f"{type(model).__name__} has no parameters: it is no ebm.ParametricModel")
    if joint and offered_form(model) is not LayeredForm:
        raise ModelError(
            f"{type(model).__name__} has no hidden units: its Fisher information is that of all "
            "its units, leave joint out"
        )
    if average is None:
        average = source if isinstance(source, ExactEnsemble) else exact(model)
    require_units(average, model.space)
    if hasattr(average, "fourth_moments") and _is_small_family_of_pairs(model):
        return FisherInformation(family_fisher(model, average))
    if hasattr(average, "counted_covariance") and has_counts(model):
        return FisherInformation(counted_fisher(model, average))
    if has_fisher_of_levels(model, average):
        # Beyond a limit the states are gone through.
        with suppress(LimitError):
            return FisherInformation(fisher_of_levels(model, average))
    if hasattr(average, "covariance_of") and (terms := local_statistics(model)) is not None:
        return FisherInformation(average.covariance_of(terms))
    visible = _of_states(model, average)
    if not joint:
        return visible
    form: Any = energy_form(model)
    parameters = np.concatenate([form.visible, form.hidden, form.weights.ravel()])
    if not np.array_equal(model.parameters, parameters):
        raise ModelError(
            f"the parameters of {type(model).__name__} must be those of its layered_form, visible "
            "and hidden biases and then the rows of weights: leave joint out"
        )
    return JointInformation(hidden_order(form), visible, relative_fisher(model, average))


def _of_kept_units(source: Any, model: Any, average: Any, joint: bool) -> Metric:
    """That of a marginal, in the parameters of the joint model."""
    whole = model.model
    if joint:
        if average is not None:
            require_units(average, whole.space)
        return fisher_information(whole, average)
    is_whole = isinstance(average, ExactEnsemble) and average.model is whole
    if average is None or (is_whole and isinstance(model, ParametricModel)):
        # States of the kept units are fewer than joint ones.
        average = source if isinstance(source, ExactEnsemble) else exact(model)
    if is_over_kept_units(average, model):
        require_units(average, model.space)
        return _of_states(model, average)
    require_units(average, whole.space)
    return FisherInformation(marginal_covariance(model, average))


def _of_states(model: Any, average: Any) -> Metric:
    """By passes over the states of an average, or of those whose real units are at their means."""
    # Of a model whose own exact distribution is Gaussian in real units, slopes are quadratic.
    if hasattr(average, "blocks_at_means") and average.model is model:
        return FisherInformation(quadratic_fisher(model, average))
    return EnsembleInformation(model, average)


def _is_small_family_of_pairs(model: Any) -> bool:
    """Whether a model is pairwise over two-valued units, with at most n (n+1)/2 parameters."""
    n = model.space.n
    is_pairwise = isinstance(model.space, Binary | Spins) and offered_form(model) is QuadraticForm
    return is_pairwise and len(model.parameters) <= n * (n + 1) // 2


def family_fisher(model: Any, ensemble: Any) -> Array:
    """Cov[∂E/∂θ] = T C Tᵀ of a family of pairs, C from fourth moments, (p, p).

    The energy is a quadratic form at all θ, so ∂E/∂θ_k = κ + Σ_i T_ki d_i + Σ_{i<j} T_kij d_i d_j.
    """
    form: Any = energy_form(model)
    n, p = model.space.n, len(model.parameters)
    center = np.zeros(n) if form.center is None else form.center
    i, j = np.triu_indices(n, 1)
    low, high = model.space.values
    # Differences of ∂E/∂θ between states with no unit, one and two units at the upper value.
    upper = np.concatenate([np.zeros((1, n)), np.eye(n), np.eye(n)[i] + np.eye(n)[j]])
    slopes = energy_gradients(model, low + (high - low) * upper, p) / (high - low)
    one = slopes[1 : n + 1] - slopes[0]
    two = (slopes[n + 1 :] - slopes[1 + i] - slopes[1 + j] + slopes[0]) / (high - low)
    np.subtract.at(one, i, two * (low - center[j])[:, None])
    np.subtract.at(one, j, two * (low - center[i])[:, None])
    by_features = np.concatenate([one, two])
    return symmetrized(by_features.T @ pair_fisher(ensemble, (i, j), center) @ by_features)


def counted_fisher(model: Any, ensemble: Any) -> Array:
    """Covariance of (x_i, x_i x_j, 1 where K is in a pool), from those of pairs and of each K."""
    covariance = ensemble.counted_covariance()
    n, pool = model.space.n, model.pool_of_count
    own = len(covariance) - (n + 1)
    of_pools = np.zeros((len(covariance), len(model.parameters)))
    of_pools[:own, :own] = np.eye(own)
    counts = np.flatnonzero(pool >= 0)
    of_pools[own + counts, own + pool[counts]] = 1
    return symmetrized(of_pools.T @ covariance @ of_pools)


def symmetrized(information: Any) -> Array:
    """F, or ½(F + Fᵀ) of a saturated model, of which rounding is left that is not symmetric."""
    fisher: Array = np.asarray(information, dtype=np.float64)
    difference = np.abs(fisher - fisher.T).max()
    if difference <= ASYMMETRY * np.abs(fisher).max():
        return fisher
    return np.asarray((fisher + fisher.T) / 2)


def pair_fisher(ensemble: Any, pairs: Any, center: Array) -> Array:
    """Covariance of (d_i, d_i d_j for the pairs), d = features − center, from fourth moments."""
    n = len(center)
    fourth = ensemble.fourth_moments(center).reshape((n + 1) ** 2, (n + 1) ** 2)
    i, j = pairs
    # Rows of products d_i d_j, the constant d_n = 1 among them.
    products = np.concatenate([np.arange(n) * (n + 1) + n, i * (n + 1) + j])
    mean = fourth[products, -1]
    second = fourth.take(products, axis=0).take(products, axis=1)
    second -= mean[:, None] * mean
    return np.asarray(second)
