"""Sampling errors of any inversion: by the delta method, and by resampling rows."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.ensembles import Moments, WeightedStates
from ebm.errors import EbmError, EbmWarning, LimitError, SingularCovarianceError
from ebm.inversion.rows import Rows, read_rows
from ebm.models import BoltzmannMachine
from ebm.parallel import single_threaded_blas
from ebm.randomness import RandomSource, generator
from ebm.spaces import Binary, Spins

__all__ = ["BootstrapResult", "bootstrap", "standard_errors"]

Array = NDArray[np.float64]

#: Most parameters for the delta method, which inverts twice for each.
MOST_PARAMETERS = 1500
#: Step of central differences, in standard deviations of a feature: errors of 1e-10 and 1e-11.
STEP = 1e-5


def standard_errors(method: Callable[[Any], Any], data: Any) -> Array:
    """Standard errors of an inversion by the delta method.

    √diag( G Σ Gᵀ / N ) with Σ the covariance of the features x_i and x_i x_j over the rows, and G
    the derivatives of the parameters by their means, taken by central differences.

    Parameters
    ----------
    method : callable
        From moments to a model, such as ``ebm.inversion.bethe``, or with settings
        ``functools.partial(ebm.inversion.tap, shrinkage=0.1)``.
    data : array_like, DataFrame or Ensemble
        The samples.

    Returns
    -------
    ndarray, (p,)
        Of the ``parameters`` of ``method(data)``, its center held fixed; zero for exact ensembles.
        They describe sampling alone, not what is wrong with the method.

    Raises
    ------
    LimitError
        If there are more than 1500 parameters.
    EbmError
        If ``method`` does not return a model from moments, or has no slope there.

    Notes
    -----
    Right for many samples. Near an empty cell of a table, or a singular covariance, look at
    :func:`bootstrap` too. :func:`pseudolikelihood` needs rows and brings its own errors.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]] * 50
    >>> ebm.inversion.standard_errors(ebm.inversion.independent_pair, rows).round(3)
    array([0.122, 0.122, 0.245])
    """
    rows = read_rows(data)
    p = rows.space.n * (rows.space.n + 1) // 2
    if p > MOST_PARAMETERS:
        raise LimitError(
            f"the delta method for {p} parameters would invert {2 * p} times, "
            f"the limit is {MOST_PARAMETERS} parameters: use ebm.inversion.bootstrap"
        )
    with single_threaded_blas():
        return _by_derivatives(method, rows)


def _by_derivatives(method: Callable[[Any], Any], rows: Rows) -> Array:
    center = rows.weights @ rows.states
    deviation = rows.states - center
    i, j = np.triu_indices(rows.space.n, 1)
    # About fixed means, products are uncorrelated with units where units are independent.
    features = np.column_stack([deviation, deviation[:, i] * deviation[:, j]])
    means = rows.weights @ features
    features -= means
    covariance = features.T @ (features * rows.weights[:, None])
    reference = _model(method(_moments(rows, center, means)))
    if len(reference.parameters) != len(means):
        raise EbmError("standard errors are for machines with a coupling between all pairs")
    if not math.isfinite(rows.sample_size):
        return np.zeros(len(means))
    slopes = np.zeros((len(means), len(means)))
    for k, step in enumerate(STEP * np.sqrt(covariance.diagonal())):
        # A feature without spread moves nothing.
        if step > 0:
            slopes[:, k] = _slope(
                lambda x: _parameters(method(_moments(rows, center, x)), reference), means, k, step
            )
    variance = ((slopes @ covariance) * slopes).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(variance, 0) / rows.sample_size))


def _slope(function: Callable[[Array], Array], means: Array, k: int, step: float) -> Array:
    """A central difference; a one-sided one where a combination of values was never seen."""
    # Such data are on the boundary of what has a distribution, and one of both steps leaves it.
    ends, failure = {}, None
    for sign in (1.0, -1.0):
        moved = means.copy()
        moved[k] += sign * step
        try:
            ends[sign] = function(moved)
        except EbmError as error:
            failure = error
    if len(ends) == 2:
        return (ends[1.0] - ends[-1.0]) / (2 * step)
    for sign, end in ends.items():
        return (end - function(means)) / (sign * step)
    raise EbmError(
        f"this inversion has no slope at these moments ({failure}): take pseudocount=1 in the "
        "method, or ebm.inversion.bootstrap"
    ) from failure


def _moments(rows: Rows, center: Array, means: Array) -> Moments:
    """Moments with these means of x − center and of its products, in the coding of the data."""
    n = len(center)
    shift = means[:n]
    mean = center + shift
    covariance = np.zeros((n, n))
    covariance[np.triu_indices(n, 1)] = means[n:]
    covariance = covariance + covariance.T - np.outer(shift, shift)
    np.fill_diagonal(covariance, mean * (1 - mean))
    space = Binary(n, names=rows.space.names)
    return Moments(space, mean, covariance, None, rows.sample_size).to(rows.space)


@dataclass(frozen=True, eq=False, repr=False)
class BootstrapResult:
    """Parameters of a method on resampled data.

    Parameters
    ----------
    model : BoltzmannMachine or IsingModel
        From the data themselves.
    parameters : ndarray, (n_resamples − n_failed, p)
        Of the models of the resamples, in the gauge of ``model``.
    n_failed : int
        Resamples on which the method gave no model.
    failures : tuple of (str, int)
        Why, and how often, the most frequent reason first. Singular covariances are one reason,
        with the message of the first.
    """

    model: Any
    parameters: Array
    n_failed: int
    failures: tuple[tuple[str, int], ...]

    def __repr__(self) -> str:
        return (
            f"BootstrapResult({self.model!r}, {len(self.parameters)} resamples, "
            f"{self.n_failed} failed)"
        )

    @property
    def standard_errors(self) -> Array:
        """Standard deviations over the resamples, (p,)."""
        return np.asarray(self.parameters.std(axis=0, ddof=1))

    def interval(self, level: float = 0.95) -> Array:
        """Percentile intervals of the parameters, lower and upper ends.

        Parameters
        ----------
        level : float
            Between 0 and 1.

        Returns
        -------
        ndarray, (2, p)
            Of ``model.parameters``.

        Raises
        ------
        EbmError
            If ``level`` is not between 0 and 1.
        """
        if not 0 < level < 1:
            raise EbmError(f"level must be between 0 and 1, got {level!r}")
        tail = (1 - level) / 2
        return np.asarray(np.quantile(self.parameters, [tail, 1 - tail], axis=0))


def bootstrap(
    method: Callable[[Any], Any],
    data: Any,
    *,
    n_resamples: int = 200,
    rng: RandomSource = None,
) -> BootstrapResult:
    """Repeat an inversion on resampled rows.

    N rows are drawn from the N rows of the data with replacement. A resample on which the method
    fails, such as one in which a unit never changes, is left out and counted with its reason.

    Parameters
    ----------
    method : callable
        From an ensemble to a model or a result with a ``model``: ``ebm.inversion.bethe``,
        ``ebm.inversion.pseudolikelihood``, or with settings by ``functools.partial``.
    data : array_like, DataFrame or Ensemble
        The samples.
    n_resamples : int
        How many times.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness.

    Returns
    -------
    BootstrapResult
        Parameters, standard errors and failures.

    Raises
    ------
    EbmError
        If the data are exact, or fewer than two resamples gave a model.

    Notes
    -----
    Where many resamples fail, the errors of the others are too small: regularize the method.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]] * 50
    >>> result = ebm.inversion.bootstrap(ebm.inversion.independent_pair, rows, rng=1)
    >>> result.standard_errors.shape, result.n_failed
    ((3,), 0)
    """
    if isinstance(n_resamples, bool) or not hasattr(n_resamples, "__index__") or n_resamples < 2:
        raise EbmError(f"n_resamples must be an integer from 2 on, got {n_resamples!r}")
    rows = read_rows(data)
    if not math.isfinite(rows.sample_size) or rows.sample_size < 1:
        raise EbmError(
            f"resampling needs a number of samples, got sample_size={rows.sample_size}: sample "
            "from exact ensembles first, and give weights as frequencies"
        )
    reference = _model(method(_resample(rows, rows.weights * round(rows.sample_size))))
    with single_threaded_blas():
        found, reasons = _resampled(method, rows, reference, n_resamples, generator(rng))
    failures = tuple(reasons.most_common())
    if len(found) < 2:
        raise EbmError(
            f"only {len(found)} of {n_resamples} resamples gave a model; most often: "
            f"{failures[0][0]}"
        )
    parameters = np.array(found)
    parameters.setflags(write=False)
    return BootstrapResult(reference, parameters, n_resamples - len(found), failures)


def _resampled(
    method: Callable[[Any], Any],
    rows: Rows,
    reference: Any,
    n_resamples: int,
    stream: np.random.Generator,
) -> tuple[list[Array], Counter[str]]:
    """Parameters of each resample that gave a model, and why the others did not."""
    found, reasons = [], Counter[str]()
    # Of singular covariances no two messages are alike: the first stands for all.
    singular = ""
    for _ in range(n_resamples):
        counts = stream.multinomial(round(rows.sample_size), rows.weights / rows.weights.sum())
        try:
            found.append(_parameters(_quietly(method, _resample(rows, counts)), reference))
        except (SingularCovarianceError, np.linalg.LinAlgError) as error:
            singular = singular or f"{SingularCovarianceError.__name__}: {error}"
            reasons[singular] += 1
        except EbmError as error:
            reasons[f"{type(error).__name__}: {error}"] += 1
    return found, reasons


def _resample(rows: Rows, counts: NDArray[Any]) -> WeightedStates:
    """The rows with these counts, in the coding of the data."""
    seen = counts > 0
    states = rows.states[seen].astype(np.int8)
    total = float(counts.sum())
    return WeightedStates(
        space=rows.space,
        states=2 * states - 1 if isinstance(rows.space, Spins) else states,
        weights=counts[seen] / total,
        sample_size=total,
        n_rows=round(total),
    )


def _quietly(method: Callable[[Any], Any], data: Any) -> Any:
    """The method's result, or an error instead of a warning that there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EbmWarning)
        result = method(data)
    if getattr(result, "converged", True):
        return result
    raise EbmError(getattr(result, "message", "not converged"))


def _model(result: Any) -> Any:
    """The model of a result, or the result itself."""
    model = getattr(result, "model", result)
    if not hasattr(model, "parameters"):
        raise EbmError(f"method must return a model, got {type(result).__name__}")
    return model


def _parameters(result: Any, reference: Any) -> Array:
    """Parameters in the gauge of the reference."""
    model = _model(result)
    if isinstance(model, BoltzmannMachine):
        model = model.recentered(reference.center)
    return np.asarray(model.parameters)
