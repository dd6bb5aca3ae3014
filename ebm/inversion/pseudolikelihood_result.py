"""The model that maximizes the pseudo-likelihood, and how it was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from ebm._arrays import read_only
from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.learning.result import FitStep
from ebm.models import BoltzmannMachine, IsingModel

__all__ = ["PseudolikelihoodResult"]


@dataclass(frozen=True, eq=False, repr=False)
class PseudolikelihoodResult:
    """A model fitted by pseudo-likelihood, with its errors.

    Parameters
    ----------
    model : BoltzmannMachine or IsingModel
        In the coding of the data, with their names; a Boltzmann machine is centered at the means.
    converged : bool
        Whether a maximum was found.
    message : str
        Why the fit ended, in a sentence.
    log_pseudolikelihood : float
        Σ_α E_D[ln p(x_α | rest)] of the model, in nats per sample, the penalty not included.
    gradient_norm : float
        Largest entry of the gradient, in units of standard deviations of its features.
    sample_size : float
        Σ of the weights of the data.
    history : tuple of FitStep
        One entry for each iteration; ``log_likelihood`` is the log pseudo-likelihood less penalty.
    regressions : ndarray, (n, n), or None
        For ``node_wise``: row α holds the couplings that the regression of unit α gave.
    warnings : tuple of str
        What a reader of the result must know.
    """

    model: BoltzmannMachine | IsingModel
    converged: bool
    message: str
    log_pseudolikelihood: float
    gradient_norm: float
    sample_size: float
    history: tuple[FitStep, ...]
    regressions: Array | None = None
    warnings: tuple[str, ...] = field(default=())
    _errors: Callable[[], Array] | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return (
            f"PseudolikelihoodResult({self.model!r}, {state} in {self.n_iterations} iterations, "
            f"log_pseudolikelihood={self.log_pseudolikelihood:.6f})"
        )

    @cached_property
    def standard_errors(self) -> Array | None:
        """Of ``model.parameters``, the center held fixed, (p,); None where there is no maximum.

        From the sandwich H⁻¹ V H⁻¹ / N, when first asked for: a second for 2000 parameters, some
        seconds for 5000. For this the result keeps the rows.

        Raises
        ------
        LimitError
            If that would take longer than 60 s, or more than 4 GiB.
        SingularCovarianceError
            If some direction of parameters changes nothing.
        """
        if self._errors is None:
            return None
        with single_threaded_blas():
            return read_only(self._errors())

    @property
    def n_iterations(self) -> int:
        """Number of steps taken."""
        return self.history[-1].iteration

    @property
    def n_parameters(self) -> int:
        """Number of independent parameters, p."""
        return len(self.model.parameters)
