"""What a fit returns: the model, how good it is, and how the fit went."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ebm._frames import frame
from ebm._model_summary import coupling_rows
from ebm._pictures import picture
from ebm._summary import Summarized, Summary
from ebm._types import Array
from ebm.ensembles import Estimate
from ebm.errors import EbmError
from ebm.information import FisherInformation
from ebm.model import ParametricModel
from ebm.models._edge_list import edge_frame

__all__ = ["FitEpoch", "FitResult", "FitStep"]

#: Parameters whose standard errors cost next to nothing.
QUICK = 500


@dataclass(frozen=True)
class FitStep:
    """One iteration of a fit.

    Parameters
    ----------
    iteration : int
        Number of the iteration; 0 is the start.
    log_likelihood : float
        Mean log-likelihood of a sample in nats, penalty not included.
    gradient_norm : float
        Largest entry of the gradient of the penalized loss, each in units of the standard
        deviation of its feature under the model.
    step : float
        Length of the step that led to these parameters in units of a full step; 1 at the start.
    """

    iteration: int
    log_likelihood: float
    gradient_norm: float
    step: float

    def line(self) -> str:
        """The iteration in words, for a progress line."""
        return (
            f"iteration {self.iteration}: log-likelihood {self.log_likelihood:.9f}, "
            f"gradient {self.gradient_norm:.1e}"
        )


@dataclass(frozen=True)
class FitEpoch(FitStep):
    """One epoch of learning by gradients: each row of the data once.

    Where an epoch is a single update, the first hundred are recorded and then about a hundred for
    each power of ten; an entry covers all updates since the one before. ``log_likelihood`` is NaN
    where ln Z is not known, which in a fit by chains the setting ``log_partition`` of
    :class:`ebm.GradientSteps` changes, ``gradient_norm`` is that of the mean gradient, and ``step``
    is the largest change of a parameter.

    Parameters
    ----------
    iteration : int
        Number of finished epochs, from 1.
    n_updates : int
        Number of updates since the start.
    rms_moment_error : float
        Root mean square over the parameters of the misfit E_D[∂E/∂θ] − E_model[∂E/∂θ], penalty
        included, in units of its standard error, which combines the sampling error of the data and
        the Monte-Carlo error of the chains. The misfit is a running mean over epochs; the value is
        about 1 where only noise is left, and NaN where the chains do not sample the model.
    reconstruction_error : float
        Mean squared error of E[v | E[h | v]] on a fixed subset of the rows; NaN for models without
        hidden units.
    free_energy_gap : float
        Mean energy of the validation rows minus that of the same subset of rows, in units of
        k_B T; it grows when the model overfits. NaN without validation rows.
    largest_parameter : float
        max |θ| in the coordinates of the model.
    log_likelihood_error : float
        Standard error of ``log_likelihood`` from that of ln Z: zero where this is exact, NaN where
        it is not known.
    """

    n_updates: int
    rms_moment_error: float
    reconstruction_error: float
    free_energy_gap: float
    largest_parameter: float
    log_likelihood_error: float = math.nan

    def postfix(self) -> dict[str, str]:
        """What a bar of epochs shows beside their number."""
        return {"moment error": f"{self.rms_moment_error:.3g}"}


@dataclass(frozen=True, eq=False, repr=False)
class FitResult(Summarized):
    """A fitted model with its errors and the history of the fit.

    Parameters
    ----------
    model : ParametricModel
        The fitted model, in the center and coding of the model given.
    converged : bool
        Whether a maximum was reached.
    message : str
        The reason why the fit ended.
    log_likelihood : float or None
        Mean log-likelihood of a sample in nats; None where ln Z is not known.
    gradient_norm : float
        The gradient of the last entry of the history, see :class:`FitStep`.
    misfit : float
        Largest difference of a fitted moment between data and model, without the penalty, in
        standard deviations of one sample.
    sample_size : float
        Number of samples, the sum of the weights of the data.
    fisher : FisherInformation or None
        The Fisher information of one sample, in the parameters of the model; over rows with missing
        cells their observed information.
    ensemble : Any
        The average over the fitted model, exact by default.
    history : tuple of FitStep
        One entry for each iteration; after gradient steps a :class:`FitEpoch` for each epoch, or,
        where an epoch is a single update, for each of the first hundred and then about a hundred
        for each power of ten.
    warnings : tuple of str
        Sentences that qualify the result, such as those about a missing maximum or missing errors.
    log_pseudolikelihood : float or None
        Σ_α E_D[ln p(x_α | rest)] in nats per sample, after a fit by pseudo-likelihood.
    regressions : ndarray, (n, n), or None
        After node-wise regressions, row α holds the couplings from that of unit α; of units of
        levels, of feature α of the levels of a unit.
    errors : ndarray, (p,), callable or None
        The standard errors, or a function that computes them.
    degrees_of_freedom : int or None
        Directions of parameters along which the distribution changes: the rank of the Fisher
        information within ``free`` and ``ties``, at most the number of states less one. None where
        the Fisher information is not at hand.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> result = ebm.fit(ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0]), rows)
    >>> result.converged, result.standard_errors.round(2), round(result.aic, 2)
    (True, array([1.22, 1.22, 1.73]), 21.96)
    """

    model: ParametricModel
    converged: bool
    message: str
    log_likelihood: float | None = None
    gradient_norm: float = math.nan
    misfit: float = math.nan
    sample_size: float = math.inf
    fisher: FisherInformation | None = None
    ensemble: Any = None
    history: tuple[FitStep, ...] = ()
    warnings: tuple[str, ...] = field(default=())
    log_pseudolikelihood: float | None = None
    regressions: Array | None = None
    errors: Array | Callable[[], Array] | None = None
    degrees_of_freedom: int | None = None

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        likelihood = "log_likelihood=unknown"
        for name in ("log_likelihood", "log_pseudolikelihood"):
            if getattr(self, name) is not None:
                likelihood = f"{name}={getattr(self, name):.6f}"
        noun = "iteration" if self.n_iterations == 1 else "iterations"
        return f"FitResult({self.model!r}, {state} in {self.n_iterations} {noun}, {likelihood})"

    def _summary(self) -> Summary:
        values = [
            ("model", f"{type(self.model).__name__}, {self.model.space}"),
            ("fit", ("" if self.converged else "not converged: ") + self.message),
            ("samples", f"{self.sample_size:.6g}"),
        ]
        for label, number in (
            ("log-likelihood", self.log_likelihood),
            ("log-pseudolikelihood", self.log_pseudolikelihood),
        ):
            if number is not None:
                values.append((label, f"{number:.6f} nats per sample"))
        if not math.isnan(self.misfit):
            values.append(("largest misfit of a moment", f"{self.misfit:.2g} standard deviations"))
        columns, rows = coupling_rows(self.model, self._quick_errors())
        return Summary("FitResult", tuple(values), columns, rows, notes=self.warnings)

    def _quick_errors(self) -> Array | None:
        """Standard errors that are there, or cost next to nothing."""
        if "standard_errors" not in self.__dict__ and self.n_parameters > QUICK:
            return None
        try:
            return self.standard_errors
        except EbmError:
            return None

    @cached_property
    def standard_errors(self) -> Array | None:
        """Standard errors of ``model.parameters``, (p,); ``inf`` where there is no maximum.

        None where they are not known; ``warnings`` has the reason. Those of pseudo-likelihood come
        from the sandwich H⁻¹ V H⁻¹ / N with the center held fixed. They are computed on first use,
        in a second for 2000 parameters and some seconds for 5000, for which the result keeps the
        rows.

        Raises
        ------
        LimitError
            If the computation would take longer than 60 s, or more than 4 GiB.
        SingularCovarianceError
            If some direction of parameters changes nothing, or a sandwich has no more rows than
            units.
        """
        return self.errors() if callable(self.errors) else self.errors

    @property
    def n_iterations(self) -> int:
        """Number of steps or epochs."""
        return self.history[-1].iteration if self.history else 0

    @property
    def n_parameters(self) -> int:
        """Number of parameters, p."""
        return len(self.model.parameters)

    @property
    def moment_error(self) -> float:
        """Largest difference of a fitted moment between data and model, in standard errors.

        The unit is the standard deviation of one sample where the moments are exact. The value is
        near zero at a maximum without a penalty.
        """
        n = self.sample_size
        return self.misfit * (math.sqrt(n) if math.isfinite(n) else 1.0)

    @property
    def aic(self) -> float:
        """Akaike's criterion 2d − 2Nℓ; ℓ in nats per sample, d ``degrees_of_freedom`` or else p."""
        return 2 * self._charged - 2 * self._finite_sample_size() * self._likelihood()

    @property
    def bic(self) -> float:
        """Schwarz's criterion d ln N − 2Nℓ; ℓ in nats per sample, d as in ``aic``."""
        n = self._finite_sample_size()
        return self._charged * math.log(n) - 2 * n * self._likelihood()

    def to_frame(self, of: Literal["parameters", "couplings", "history"] = "parameters") -> Any:
        """Parameters, couplings as edges, or the history, as a frame; needs the extra ``data``.

        Parameters
        ----------
        of : "parameters", "couplings" or "history"
            The couplings are a list of edges, as networkx.from_pandas_edgelist reads it.

        Returns
        -------
        pandas.DataFrame
            One row for each parameter, by name; columns ``value``, ``standard_error`` (NaN where
            it is not known) and ``is_coupling``. For each coupling ``source``, ``target``,
            ``coupling``, ``standard_error`` and the ends ``low`` and ``high`` of its normal
            interval of 95 %. For each iteration the members of :class:`ebm.learning.FitStep`.

        Raises
        ------
        EbmError
            If ``of`` is another word.
        ModelError
            If couplings are asked for that are not one for each pair of units.

        Examples
        --------
        >>> import ebm, numpy as np
        >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
        >>> result = ebm.fit(ebm.BoltzmannMachine(np.zeros((2, 2)), [0, 0], names=["a", "b"]), rows)
        >>> print(result.to_frame("couplings").round(2))
          source target  coupling  standard_error  low  high
        0      a      b      1.39            1.73 -2.0  4.78
        """
        model: Any = self.model
        if of == "history":
            kind = type(self.history[-1]) if self.history else FitStep
            names = [entry.name for entry in dataclasses.fields(kind)]
            table = {name: [getattr(entry, name) for entry in self.history] for name in names}
            return frame(table, "iteration")
        errors = self.standard_errors
        errors = np.full(self.n_parameters, np.nan) if errors is None else errors
        if of == "couplings":
            low, high = Estimate(model.parameters, errors).interval()
            return edge_frame(model, errors, low=low, high=high)
        if of != "parameters":
            raise EbmError(f"of must be 'parameters', 'couplings' or 'history', got {of!r}")
        columns = {
            "parameter": getattr(model, "parameter_names", range(self.n_parameters)),
            "value": model.parameters,
            "standard_error": errors,
            "is_coupling": model.is_coupling,
        }
        return frame(columns, "parameter")

    def plot(self, quantity: str | None = None, *, ax: Any = None) -> Any:
        """The history of the fit, :func:`ebm.plotting.learning_curve`."""
        return picture("learning_curve", self, quantity, ax=ax)

    @property
    def _charged(self) -> int:
        """Parameters that the criteria charge."""
        known = self.degrees_of_freedom
        return self.n_parameters if known is None else known

    def _likelihood(self) -> float:
        if self.log_likelihood is None:
            raise EbmError(
                "AIC and BIC need the log-likelihood, and this fit never knew ln Z: estimate it, "
                "or fit with loss=ebm.Likelihood()"
            )
        return self.log_likelihood

    def _finite_sample_size(self) -> float:
        if not math.isfinite(self.sample_size):
            raise EbmError(
                "AIC and BIC need a number of samples, these moments are exact: "
                "set sample_size in the Moments"
            )
        return self.sample_size
