"""Sampling errors of any inversion by resampling rows."""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import as_integer, as_number, read_only
from ebm._checkpoints import fingerprint
from ebm._jobs import Answer, loop, run_jobs
from ebm._parallel import single_threaded_blas
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.ensembles import WeightedStates
from ebm.errors import EbmError, EbmWarning, SingularCovarianceError
from ebm.inversion._methods import model_of, parameters_of, require_function
from ebm.inversion._rows import DistinctRows, read_rows
from ebm.spaces import Spins

__all__ = ["BootstrapResult", "bootstrap"]


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
        if not 0 < as_number(level, "level") < 1:
            raise EbmError(f"level must be between 0 and 1, got {level!r}")
        tail = (1 - level) / 2
        return np.asarray(np.quantile(self.parameters, [tail, 1 - tail], axis=0))


def bootstrap(
    method: Callable[[Any], Any],
    data: Any,
    *,
    n_resamples: int = 200,
    rng: RandomSource = None,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
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
    executor : concurrent.futures.Executor, optional
        Where resamples run side by side.
    checkpoint : path-like, optional
        File that holds the resamples done; a bootstrap with the same seed goes on from it, also to
        more resamples.

    Returns
    -------
    BootstrapResult
        Parameters, standard errors and failures.

    Raises
    ------
    ModelError
        If ``method`` is no function, or ``data`` are moments.
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
    require_function(method)
    n_resamples = as_integer(n_resamples, "n_resamples", least=2)
    rows = read_rows(data)
    if not math.isfinite(rows.sample_size) or rows.sample_size < 1:
        raise EbmError(
            f"resampling needs a number of samples, got sample_size={rows.sample_size}: sample "
            "from exact ensembles first, and give frequencies of rows"
        )
    with loop(), single_threaded_blas():
        reference = model_of(method(_resample(rows, rows.weights * round(rows.sample_size))))
        job = partial(_resampled, method, rows, reference)
        seeds = generator(rng).integers(0, 2**63, n_resamples)
        settings = {
            "method": fingerprint(method),
            "data": " ".join(fingerprint(x) for x in (rows.states, rows.weights, rows.sample_size)),
            # With more resamples the first of them are the same.
            "rng": fingerprint(seeds[:2]),
        }
        answers = run_jobs(
            job, seeds.tolist(), executor=executor, checkpoint=checkpoint, settings=settings
        )
    parameters = [answer["parameters"] for answer in answers if "parameters" in answer]
    failures = _reasons(answer for answer in answers if "parameters" not in answer)
    if len(parameters) < 2:
        raise EbmError(
            f"only {len(parameters)} of {n_resamples} resamples gave a model; most often: "
            f"{failures[0][0]}"
        )
    table = read_only(np.array(parameters))
    return BootstrapResult(reference, table, n_resamples - len(parameters), failures)


def _resampled(
    method: Callable[[Any], Any], rows: DistinctRows, reference: Any, seed: int
) -> Answer:
    """The parameters of a resample, or why it gave no model."""
    drawn = np.random.default_rng(seed)
    counts = drawn.multinomial(round(rows.sample_size), rows.weights / rows.weights.sum())
    try:
        parameters = parameters_of(_quietly(method, _resample(rows, counts)), reference)
        if parameters.shape != np.shape(reference.parameters):
            raise EbmError(f"the model has {len(parameters)} parameters, not those of the first")
        if not np.isfinite(parameters).all():
            raise EbmError("the model has parameters that are not finite")
        return {"parameters": parameters}
    except (EbmError, np.linalg.LinAlgError) as error:
        is_singular = isinstance(error, SingularCovarianceError | np.linalg.LinAlgError)
        name = SingularCovarianceError.__name__ if is_singular else type(error).__name__
        return {"failure": np.array(name), "reason": np.array(f"{name}: {error}")}


def _reasons(failures: Iterable[Answer]) -> tuple[tuple[str, int], ...]:
    """The reasons of failures with their numbers, the most frequent first."""
    reasons, singular = Counter[str](), ""
    for failure in failures:
        reason = str(failure["reason"])
        if str(failure["failure"]) == SingularCovarianceError.__name__:
            # Of singular covariances no two messages are alike: the first stands for all.
            reason = singular = singular or reason
        reasons[reason] += 1
    return tuple(reasons.most_common())


def _resample(rows: DistinctRows, counts: NDArray[Any]) -> WeightedStates:
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
