"""What a fit returns: the model, how good it is, and how the fit went."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.errors import EbmError
from ebm.information import FisherInformation
from ebm.model import ParametricModel

__all__ = ["FitResult", "FitStep"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FitStep:
    """One iteration of a fit.

    Parameters
    ----------
    iteration : int
        From 0, the start.
    log_likelihood : float
        Mean log-likelihood of a sample in nats, penalty not included.
    gradient_norm : float
        Largest entry of the gradient of the penalised loss, each in units of the standard
        deviation of its feature under the model.
    step : float
        Length of the step taken from here, 1 for a full Newton step; 0 at the last.
    """

    iteration: int
    log_likelihood: float
    gradient_norm: float
    step: float


@dataclass(frozen=True, eq=False, repr=False)
class FitResult:
    """A fitted model with its errors and the history of the fit.

    Parameters
    ----------
    model : ParametricModel
        The fitted model, in the centre and coding of the model given.
    converged : bool
        Whether a maximum was found.
    message : str
        Why the fit ended, in a sentence.
    log_likelihood : float
        Mean log-likelihood of a sample in nats.
    gradient_norm : float
        As in :class:`FitStep`, at the end.
    sample_size : float
        Σ of the weights of the data.
    standard_errors : ndarray, (p,), or None
        Of the parameters, in their order; ``inf`` along directions without a maximum; None where
        they cannot be had.
    fisher : FisherInformation or None
        Of one sample, in the parameters of the model.
    ensemble : Any
        The average at the fitted model, exact by default.
    history : tuple of FitStep
        One entry for each iteration.
    warnings : tuple of str
        What a reader of the result must know.
    """

    model: ParametricModel
    converged: bool
    message: str
    log_likelihood: float
    gradient_norm: float
    sample_size: float
    standard_errors: Array | None
    fisher: FisherInformation | None
    ensemble: Any
    history: tuple[FitStep, ...]
    warnings: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return (
            f"FitResult({self.model!r}, {state} in {self.n_iterations} iterations, "
            f"log_likelihood={self.log_likelihood:.6f})"
        )

    @property
    def n_iterations(self) -> int:
        """Number of steps taken."""
        return max(0, len(self.history) - 1)

    @property
    def n_parameters(self) -> int:
        """Number of independent parameters, p."""
        return len(self.model.parameters)

    @property
    def moment_error(self) -> float:
        """Largest misfit of a fitted moment in units of its standard error.

        Of one sample's standard deviation where the moments are exact. With a penalty this counts
        the penalty's gradient too.
        """
        n = self.sample_size
        return self.gradient_norm * (math.sqrt(n) if math.isfinite(n) else 1.0)

    @property
    def aic(self) -> float:
        """Akaike's criterion 2p − 2Nℓ; ℓ in nats per sample."""
        return 2 * self.n_parameters - 2 * self._finite_sample_size() * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion p ln N − 2Nℓ; ℓ in nats per sample."""
        n = self._finite_sample_size()
        return self.n_parameters * math.log(n) - 2 * n * self.log_likelihood

    def _finite_sample_size(self) -> float:
        if not math.isfinite(self.sample_size):
            raise EbmError(
                "AIC and BIC need a number of samples, these moments are exact: "
                "set sample_size in the Moments"
            )
        return self.sample_size
