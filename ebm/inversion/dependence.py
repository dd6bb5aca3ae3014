"""Standard errors of a fit to rows that are a series in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._arrays import as_integer, read_only
from ebm._frames import frame
from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.ensembles import Ensemble, Moments
from ebm.errors import EbmError, ModelError, ShapeError, SingularCovarianceError, require_memory
from ebm.information import fisher_information
from ebm.learning._dependence import (
    long_run_variances,
    moves_of_rows,
    require_sequence,
    response_to_gradients,
    usual_window,
)
from ebm.learning.penalties import AppliedPenalty, Penalty, as_penalty
from ebm.model import ParametricModel, refuse_result
from ebm.spaces._labels import require_order

__all__ = ["Dependence", "dependence"]


@dataclass(frozen=True, eq=False, repr=False)
class Dependence:
    """Standard errors with and without dependence between rows.

    Parameters
    ----------
    standard_errors : ndarray, (p,)
        Those that hold for rows that are a series in time.
    independent_errors : ndarray, (p,)
        Those of as many independent rows.
    window : int
        Rows of a batch, over whose means the long-run covariance was taken.
    parameter_names : tuple of str
        Names of the parameters.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.BoltzmannMachine([[0, 0.8], [0.8, 0]], [0.2, -0.3])
    >>> rows = ebm.sample(pair, n_draws=4000, n_chains=1, rng=0).chains[0]
    >>> ebm.inversion.dependence(pair, rows).factors.round(1)
    array([1. , 1.1, 1.2])
    """

    standard_errors: Array
    independent_errors: Array
    window: int
    parameter_names: tuple[str, ...]

    def __repr__(self) -> str:
        low, high = self.factors.min(), self.factors.max()
        return (
            f"Dependence({len(self.standard_errors)} standard errors, {low:.3g} to {high:.3g} "
            f"times those of independent rows, windows of {self.window} rows)"
        )

    @property
    def factors(self) -> Array:
        """By which factor errors that take rows as independent are too small, (p,).

        1 for parameters that are held fixed.
        """
        ratio = np.ones(len(self.standard_errors))
        moves = self.independent_errors > 0
        ratio[moves] = self.standard_errors[moves] / self.independent_errors[moves]
        return ratio

    def to_frame(self) -> Any:
        """One row for each parameter, by name, a pandas frame; needs the extra ``data``.

        Returns
        -------
        pandas.DataFrame
            Columns ``standard_error``, ``independent_error`` and ``factor``.
        """
        columns = {
            "parameter": self.parameter_names,
            "standard_error": self.standard_errors,
            "independent_error": self.independent_errors,
            "factor": self.factors,
        }
        return frame(columns, "parameter")


def dependence(
    model: ParametricModel,
    data: Any,
    *,
    penalty: Penalty | float | None = None,
    window: int | None = None,
) -> Dependence:
    """Standard errors of a maximum-likelihood fit to autocorrelated rows.

    Cov θ̂ = H⁻¹ Γ H⁻¹ / N with H the Hessian of L + R and Γ = Σ_k Cov(g_t, g_{t+k}) over all lags
    k, where g_t is the gradient ∂E/∂θ of row t. For independent rows Γ is the Fisher information.
    Γ is estimated by overlapping batch means :cite:`meketon1984`.

    Parameters
    ----------
    model : ParametricModel
        The fitted model.
    data : array_like, DataFrame, Table or Ensemble
        The rows of the fit, in the order of time.
    penalty : Penalty or float, optional
        That of the fit.
    window : int, optional
        Rows of a batch, by default 2√N, rounded. Batches must be much longer than the correlation
        time, else errors stay too small, by about the ratio of the two.

    Returns
    -------
    Dependence
        Standard errors, and their ratio to those of independent rows. The relative sampling error
        of each of them is about √(w/3N) for windows of w of the N rows, with the default window
        .15 for a thousand rows and .08 for ten thousand.

    Raises
    ------
    ModelError
        If ``model`` has no parameters, or ``data`` are moments.
    ShapeError
        If the order of the rows is not known, there are fewer than 64, or ``window`` is longer
        than a quarter of them.
    EbmError
        If the penalty has ``l1``, for which there is no such formula.
    SingularCovarianceError
        If some direction of parameters changes nothing.
    LimitError
        If the model is too large to be summed.

    Notes
    -----
    The integrated autocorrelation time of a moment, Γ_kk/F_kk = 2τ, is *not* the factor of the
    variance of the parameter beside it. Rows that were recorded in several sessions are treated as
    one series.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.BoltzmannMachine([[0, 0.8], [0.8, 0]], [0.2, -0.3])
    >>> rows = ebm.sample(pair, n_draws=4000, n_chains=1, rng=0).chains[0]
    >>> errors = ebm.inversion.dependence(pair, rows)
    >>> errors.standard_errors.shape, errors.window
    ((3,), 126)
    """
    refuse_result(model)
    if not isinstance(model, ParametricModel):
        raise ModelError(f"{type(model).__name__} has no parameters: it is no ebm.ParametricModel")
    if isinstance(data, Moments):
        raise ModelError("rows are wanted, got Moments: dependence needs the rows in their order")
    if not isinstance(data, Ensemble):
        data = Ensemble.from_data(data, space=model.space)
    require_sequence(data)
    require_order(data.space, model.space)
    n_rows, p = len(data.sequence), len(model.parameters)
    width = usual_window(n_rows) if window is None else as_integer(window, "window")
    if 4 * width > n_rows:
        raise ShapeError(f"window must be at most a quarter of the {n_rows} rows, got {width}")
    require_memory(
        16.0 * len(data.states) * p,
        f"the gradients of {len(data.states)} distinct rows by {p} parameters",
        "use ebm.inversion.bootstrap with ebm.inversion.BlockResampling()",
    )
    penalty = as_penalty(penalty)
    if penalty.has_l1:
        raise EbmError(
            "parameters that l1 makes zero have no standard errors of this kind: leave l1 out of "
            "the penalty, or use ebm.inversion.bootstrap with ebm.inversion.BlockResampling()"
        )
    fisher = fisher_information(model).dense()
    with single_threaded_blas():
        response = _response(fisher, AppliedPenalty(model, penalty))
        moved = moves_of_rows(model, data, response)
        right = long_run_variances(moved, data.sequence, width)
    assumed = np.maximum(np.einsum("ij,ij->i", response @ fisher, response), 0)
    names = tuple(getattr(model, "parameter_names", (str(k) for k in range(p))))
    return Dependence(
        read_only(np.sqrt(right / n_rows)), read_only(np.sqrt(assumed / n_rows)), width, names
    )


def _response(fisher: Array, penalty: AppliedPenalty) -> Array:
    """What a mean gradient moves, or an error where nothing holds some parameters."""
    try:
        with np.errstate(divide="raise", invalid="raise"):
            response = response_to_gradients(fisher, penalty)
    except (np.linalg.LinAlgError, FloatingPointError) as error:
        raise SingularCovarianceError(
            "there are no standard errors: some direction of parameters changes nothing; add a "
            "penalty l2, or leave out units"
        ) from error
    return response
