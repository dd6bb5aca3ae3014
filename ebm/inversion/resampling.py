"""Sampling errors of any inversion by resampling rows."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import as_integer, as_number
from ebm._parallel import single_threaded_blas
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.ensembles import WeightedStates
from ebm.errors import EbmError, EbmWarning, SingularCovarianceError
from ebm.inversion.methods import model_of, parameters_of, require_function
from ebm.inversion.rows import Rows, read_rows
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
            "from exact ensembles first, and give weights as frequencies"
        )
    reference = model_of(method(_resample(rows, rows.weights * round(rows.sample_size))))
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
            found.append(parameters_of(_quietly(method, _resample(rows, counts)), reference))
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
