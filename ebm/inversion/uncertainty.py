"""Sampling errors of any inversion: by resampling rows, and by its derivatives."""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ebm._arrays import as_integer, as_number, read_only
from ebm._checkpoints import fingerprint
from ebm._frames import frame
from ebm._jobs import Answer, Engine, loop, run_jobs
from ebm._parallel import single_threaded_blas
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.errors import (
    EbmError,
    EbmWarning,
    LimitError,
    ModelError,
    SingularCovarianceError,
    require_memory,
)
from ebm.inversion._rows import DistinctRows, as_ensemble, read_rows
from ebm.inversion.resampling import Draw, ResamplingScheme, RowResampling
from ebm.spaces import Binary

__all__ = ["BootstrapResult", "bootstrap", "standard_errors"]

#: Most parameters for the delta method, which inverts twice for each.
MOST_PARAMETERS = 1500
#: Step of central differences, in standard deviations of a feature: errors of 1e-10 and 1e-11.
STEP = 1e-5
#: Fewer rows than this can be counted by integers.
MOST_ROWS = 2.0**63
#: Entries of a block of features.
BLOCK = 2**22


@dataclass(frozen=True, eq=False, repr=False)
class BootstrapResult:
    """Parameters of a method on resampled data.

    Parameters
    ----------
    model : BoltzmannMachine or IsingModel
        The model of the original data.
    parameters : ndarray, (n_resamples − n_failed, p)
        Parameters of the models of the resamples, in the gauge of ``model``.
    n_failed : int
        Number of resamples on which the method gave no model.
    failures : tuple of (str, int)
        The reasons with their frequencies, the most frequent first. Singular covariances count as
        one reason, with the message of the first.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]] * 50
    >>> result = ebm.inversion.bootstrap(ebm.inversion.tap, rows, n_resamples=50, rng=1)
    >>> result.interval(0.9).shape
    (2, 3)
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
        """Percentile intervals of the parameters.

        Parameters
        ----------
        level : float
            The coverage, between 0 and 1.

        Returns
        -------
        ndarray, (2, p)
            Lower and upper ends of the intervals of ``model.parameters``.

        Raises
        ------
        EbmError
            If ``level`` is not between 0 and 1.
        """
        if not 0 < as_number(level, "level") < 1:
            raise EbmError(f"level must be between 0 and 1, got {level!r}")
        tail = (1 - level) / 2
        return np.asarray(np.quantile(self.parameters, [tail, 1 - tail], axis=0))

    def to_frame(self, level: float = 0.95) -> Any:
        """The parameters with their errors and intervals as a pandas frame.

        Parameters
        ----------
        level : float
            The coverage of the intervals.

        Returns
        -------
        pandas.DataFrame
            One row for each parameter of ``model``, by name; columns ``value``, ``standard_error``
            and the ends ``low`` and ``high``. Needs the extra ``data``.
        """
        low, high = self.interval(level)
        columns = {
            "parameter": getattr(self.model, "parameter_names", range(len(low))),
            "value": self.model.parameters,
            "standard_error": self.standard_errors,
            "low": low,
            "high": high,
        }
        return frame(columns, "parameter")


def bootstrap(
    method: Callable[[Any], Any],
    data: Any,
    *,
    scheme: ResamplingScheme | None = None,
    n_resamples: int = 200,
    rng: RandomSource = None,
    executor: Engine | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> BootstrapResult:
    """Repeat an inversion on resampled data.

    By default a resample consists of N rows drawn with replacement from the N rows of the data;
    a scheme draws blocks of time instead, or rows of the fitted model. A resample on which the
    method fails, such as one in which a unit never changes, is left out and counted with its
    reason.

    Parameters
    ----------
    method : callable
        A function from an ensemble to a model, or to a result with a ``model``, such as
        ``ebm.inversion.bethe`` or ``ebm.inversion.pseudolikelihood``; settings are given by
        ``functools.partial``.
    data : array_like, DataFrame, Table or Ensemble
        The samples.
    scheme : ResamplingScheme, optional
        ``ebm.inversion.RowResampling()`` if not given; ``ebm.inversion.BlockResampling()`` for
        rows that are a series in time, ``ebm.inversion.ModelResampling()`` for rows of the model.
    n_resamples : int
        Number of resamples.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness.
    executor : object with submit, optional
        Runs resamples in parallel: a pool of :mod:`concurrent.futures`, or of another engine.
    checkpoint : path-like, optional
        Folder to which finished resamples are written. A later call with the same seed goes on from
        it, also to a larger number of resamples.

    Returns
    -------
    BootstrapResult
        Parameters of all resamples, standard errors and failures.

    Raises
    ------
    ModelError
        If ``method`` is not a function, or ``data`` are moments.
    EbmError
        If the data are exact, ``scheme`` is none or needs an order of the rows that is lost, or
        fewer than two resamples gave a model.

    Notes
    -----
    Where many resamples fail, the standard errors of the others are too small, and the method
    needs regularization.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]] * 50
    >>> result = ebm.inversion.bootstrap(ebm.inversion.independent_pair, rows, rng=1)
    >>> result.standard_errors.shape, result.n_failed
    ((3,), 0)
    """
    require_function(method)
    scheme = _checked_scheme(scheme)
    n_resamples = as_integer(n_resamples, "n_resamples", least=2)
    # Each has its job, with what it is told, and its row of parameters.
    what = f"{n_resamples} resamples and what they give"
    require_memory(1024.0 * n_resamples, what, "take fewer n_resamples")
    rows = counted_rows(data)
    with loop(), single_threaded_blas():
        reference = model_of(method(rows.resampled(rows.weights * round(rows.sample_size))))
        seeds = generator(rng).integers(0, 2**63, n_resamples)
        settings = {
            "method": fingerprint(method),
            "scheme": fingerprint(scheme),
            "data": rows.fingerprint(),
            # With more resamples the first of them are the same.
            "rng": fingerprint(seeds[:2]),
        }
        answers = run_jobs(
            partial(_resampled, method),
            seeds.tolist(),
            shared=(scheme.of(rows, reference), reference),
            executor=executor,
            checkpoint=checkpoint,
            settings=settings,
        )
    parameters = [answer["parameters"] for answer in answers if "parameters" in answer]
    others = [answer for answer in answers if "parameters" not in answer]
    failures = reasons_of(others)
    if len(parameters) < 2:
        raise EbmError(
            f"only {len(parameters)} of {n_resamples} resamples gave a model; most often: "
            f"{failures[0][0]}"
        )
    table = read_only(np.array(parameters))
    return BootstrapResult(reference, table, n_resamples - len(parameters), failures)


def counted_rows(data: Any) -> DistinctRows:
    """Rows of which there is a number, as resampling needs."""
    rows = read_rows(as_ensemble(data), two_valued=False)
    if not math.isfinite(rows.sample_size) or rows.sample_size < 1:
        raise EbmError(
            f"resampling needs a number of samples, got sample_size={rows.sample_size}: sample "
            "from exact ensembles first, and give frequencies of rows"
        )
    if rows.sample_size >= MOST_ROWS:
        raise LimitError(
            f"resampling draws fewer than {MOST_ROWS:.1e} rows, got {rows.sample_size:.3g}: divide "
            "the frequencies by a common factor"
        )
    return rows


def _checked_scheme(scheme: Any) -> ResamplingScheme:
    if scheme is None:
        return RowResampling()
    if isinstance(scheme, type) or not callable(getattr(scheme, "of", None)):
        raise EbmError(
            f"scheme must be an object such as ebm.inversion.BlockResampling(), got {scheme!r}"
        )
    checked: ResamplingScheme = scheme
    return checked


def _resampled(method: Callable[[Any], Any], draw: Draw, reference: Any, seed: int) -> Answer:
    """The parameters of a resample, or why it gave no model."""
    random = np.random.default_rng(seed)
    return parameters_on(lambda: method(draw(random)), reference)


def parameters_on(answer: Callable[[], Any], reference: Any) -> Answer:
    """The parameters of an answer in the gauge of another model, or why there are none."""
    try:
        parameters = _parameters_of(_quietly(answer), reference)
        if parameters.shape != np.shape(reference.parameters):
            raise EbmError(f"the model has {len(parameters)} parameters, not those of the first")
        if not np.isfinite(parameters).all():
            raise EbmError("the model has parameters that are not finite")
        return {"parameters": parameters}
    except (EbmError, np.linalg.LinAlgError) as error:
        is_singular = isinstance(error, SingularCovarianceError | np.linalg.LinAlgError)
        name = SingularCovarianceError.__name__ if is_singular else type(error).__name__
        return {"failure": np.array(name), "reason": np.array(f"{name}: {error}")}


def reasons_of(failures: Iterable[Answer]) -> tuple[tuple[str, int], ...]:
    """The reasons of failures with their numbers, the most frequent first."""
    reasons, singular = Counter[str](), ""
    for failure in failures:
        reason = str(failure["reason"])
        if str(failure["failure"]) == SingularCovarianceError.__name__:
            # Of singular covariances no two messages are alike: the first stands for all.
            reason = singular = singular or reason
        reasons[reason] += 1
    return tuple(reasons.most_common())


def _quietly(answer: Callable[[], Any]) -> Any:
    """The method's result, or an error instead of a warning that there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EbmWarning)
        result = answer()
    if getattr(result, "converged", True):
        return result
    raise EbmError(getattr(result, "message", "not converged"))


def standard_errors(method: Callable[[Any], Any], data: Any) -> Array:
    """Standard errors of an inversion by the delta method.

    √diag( G Σ Gᵀ / N ) with Σ the covariance of the features x_i and x_i x_j over the rows, and G
    the derivatives of the parameters by the means of the features, from central differences.

    Parameters
    ----------
    method : callable
        A function from moments to a model, such as ``ebm.inversion.bethe``, or with settings
        ``functools.partial(ebm.inversion.tap, shrinkage=0.1)``.
    data : array_like, DataFrame, Table or Ensemble
        The samples.

    Returns
    -------
    ndarray, (p,)
        Standard errors of the ``parameters`` of ``method(data)`` with its center held fixed, zero
        for exact ensembles. They are sampling errors and leave out the bias of the method.

    Raises
    ------
    LimitError
        If there are more than 1500 parameters.
    ModelError
        If ``method`` is not a function, or ``data`` are moments.
    EbmError
        If ``method`` returns no model from moments, or is not differentiable at those of the data.

    Notes
    -----
    The method holds for large samples. Near an empty cell of a table of two units, or a singular
    covariance, compare with :func:`bootstrap`. Results of :func:`pseudolikelihood`, which needs
    rows, have standard errors of their own.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]] * 50
    >>> ebm.inversion.standard_errors(ebm.inversion.independent_pair, rows).round(3)
    array([0.122, 0.122, 0.245])
    """
    require_function(method)
    rows = read_rows(data)
    p = rows.space.n * (rows.space.n + 1) // 2
    if p > MOST_PARAMETERS:
        raise LimitError(
            f"the delta method for {p} parameters would invert {2 * p} times, "
            f"the limit is {MOST_PARAMETERS} parameters: use ebm.inversion.bootstrap"
        )
    with single_threaded_blas():
        return _by_derivatives(method, rows)


def _by_derivatives(method: Callable[[Any], Any], rows: DistinctRows) -> Array:
    center = rows.weights @ rows.states
    means, covariance = _features(rows, center)
    reference = model_of(method(_moments(rows, center, means)))
    if len(reference.parameters) != len(means):
        raise EbmError("standard errors are for machines with a coupling between all pairs")
    if not math.isfinite(rows.sample_size):
        return np.zeros(len(means))

    def parameters(moved: Array) -> Array:
        return _parameters_of(method(_moments(rows, center, moved)), reference)

    slopes = np.zeros((len(means), len(means)))
    for k, step in enumerate(STEP * np.sqrt(covariance.diagonal())):
        # A feature without spread moves nothing.
        if step > 0:
            slopes[:, k] = _slope(parameters, means, k, step)
    variance = ((slopes @ covariance) * slopes).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(variance, 0) / rows.sample_size))


def _features(rows: DistinctRows, center: Array) -> tuple[Array, Array]:
    """Means and covariance of x − x̂ and of its products, some rows at a time."""
    # About fixed means, products are uncorrelated with units where units are independent.
    deviation, weights = rows.states - center, rows.weights[:, None]
    i, j = np.triu_indices(rows.space.n, 1)
    means = np.append(np.zeros(rows.space.n), (deviation.T @ (deviation * weights))[i, j])
    covariance = np.zeros((len(means), len(means)))
    size = max(1, BLOCK // len(means))
    for start in range(0, len(deviation), size):
        part = deviation[start : start + size]
        features = np.column_stack([part, part[:, i] * part[:, j]]) - means
        covariance += features.T @ (features * weights[start : start + size])
    return means, covariance


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


def _moments(rows: DistinctRows, center: Array, means: Array) -> Moments:
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


def require_function(method: Any) -> None:
    """Refuse a name, a model or anything else where an inversion is wanted."""
    if not callable(method):
        got = repr(method) if isinstance(method, str) else type(method).__name__
        raise ModelError(
            "method must be a function such as ebm.inversion.tap, or with settings "
            f"functools.partial(ebm.inversion.plefka, order=3), got {got}"
        )


def model_of(result: Any) -> Any:
    """The model of a result, or the result itself."""
    model = getattr(result, "model", result)
    if not hasattr(model, "parameters"):
        raise EbmError(f"method must return a model, got {type(result).__name__}")
    return model


def _parameters_of(result: Any, reference: Any) -> Array:
    """Parameters of a result in the center of another model, (p,)."""
    model = model_of(result)
    if hasattr(model, "recentered"):
        model = model.recentered(reference.center)
    return np.asarray(model.parameters)
