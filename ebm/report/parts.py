"""The numbers of a report, one small record for each of its sections."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

__all__ = [
    "Coupling",
    "Couplings",
    "DataSummary",
    "Entropies",
    "FitSummary",
    "Goodness",
    "InversionComparison",
    "Minima",
    "Minimum",
    "MomentMisfit",
    "Sections",
]


@dataclass(frozen=True)
class DataSummary:
    """What was read.

    Parameters
    ----------
    n_rows, n_units, n_patterns : int
        Rows, columns, distinct rows.
    sample_size : float
        Σ of the weights; the number of rows without weights.
    coding : str
        ``"{0, 1}"`` or ``"{-1, 1}"``.
    names : tuple of str
        One for each unit.
    rates : tuple of float
        Probability that each unit is active (1).
    """

    n_rows: int
    n_units: int
    n_patterns: int
    sample_size: float
    coding: str
    names: tuple[str, ...]
    rates: tuple[float, ...]


@dataclass(frozen=True)
class MomentMisfit:
    """The rate, or the pair, that the model reproduces worst.

    Parameters
    ----------
    units : tuple of str
        Its one or two units.
    z : float
        Data minus model, of the rate or the covariance, in standard errors of the model.
    """

    units: tuple[str, ...]
    z: float


@dataclass(frozen=True)
class FitSummary:
    """How the fit went.

    Parameters
    ----------
    log_likelihood, log_likelihood_bits : float
        Mean for each row, in nats and in bits.
    n_parameters, n_iterations : int
        Size of the problem and of its solution.
    effective_parameters : float or None
        As many as a fit without a penalty would need to gain as much likelihood from noise.
    converged, message : bool, str
        Whether the maximum was reached, and why the fit ended.
    aic, bic : float or None
        Information criteria, in nats; None with a penalty, since they are about maxima, and where
        ln Z is an estimate.
    l2, l2_biases : float
        Strength of the penalty.
    rate_misfit, pair_misfit : MomentMisfit or None
        The largest; about zero at a maximum without a penalty. None where there is no pair, or
        nothing to measure in.
    log_likelihood_error : float or None
        Standard error in nats, of ln Z; None where that is exact.
    """

    log_likelihood: float
    log_likelihood_bits: float
    n_parameters: int
    effective_parameters: float | None
    n_iterations: int
    converged: bool
    message: str
    aic: float | None
    bic: float | None
    l2: float
    l2_biases: float
    rate_misfit: MomentMisfit | None
    pair_misfit: MomentMisfit | None
    log_likelihood_error: float | None = None

    @property
    def penalized(self) -> bool:
        """Whether there was a penalty."""
        return self.l2 > 0 or self.l2_biases > 0

    @property
    def interrupted(self) -> bool:
        """Whether somebody ended the fit by Ctrl-C."""
        return self.message.startswith("interrupted")


@dataclass(frozen=True)
class Entropies:
    """Entropies in bits, from independent units to the data.

    Parameters
    ----------
    independent : float
        S₁, of independent units with the rates of the data.
    model : float or None
        Of the fitted model; None where it cannot be known.
    pairwise : float or None
        S₂, the largest entropy of all distributions with the rates and pairs of the data. It is
        that of the model if the model has them: not with a penalty, nor before convergence.
    plug_in : float
        Of the observed frequencies; biased low by about (K−1)/(2N ln 2).
    bias : float
        That estimate of the bias, from K patterns seen in N rows.
    corrected : float
        ``plug_in + bias``, the estimate of Miller and Madow.
    captured, captured_corrected : float or None
        I₂/I_N = (S₁ − S₂)/(S₁ − S), with the plug-in and with the corrected entropy for S.
    model_error : float or None
        Standard error of ``model``; None where it is exact.
    """

    independent: float
    model: float | None
    pairwise: float | None
    plug_in: float
    bias: float
    corrected: float
    captured: float | None
    captured_corrected: float | None
    model_error: float | None = None


@dataclass(frozen=True)
class Coupling:
    """One coupling.

    Parameters
    ----------
    units : tuple of str
        Its two units.
    value : float
        W or J, in units of k_B T.
    standard_error : float or None
        None where it is not known; inf where the data do not bound the coupling.
    """

    units: tuple[str, str]
    value: float
    standard_error: float | None


@dataclass(frozen=True)
class Couplings:
    """The strongest couplings of a model.

    Parameters
    ----------
    n_couplings : int
        How many the model has.
    strongest : tuple of Coupling
        By falling modulus, all of them up to a thousand.
    """

    n_couplings: int
    strongest: tuple[Coupling, ...]


@dataclass(frozen=True)
class InversionComparison:
    """A quick inversion against the fit, and against the data.

    Beside an exact fit the mean-field inversion with its exact moments; beside a fit by chains
    pseudo-likelihood, of which couplings are compared only.

    Parameters
    ----------
    n_couplings, n_compared : int
        Pairs, and those of them whose coupling the data bound. No other has an exact value to
        compare with.
    rms_difference : float or None
        √⟨(W_mf − W)²⟩ over the pairs compared; None without any.
    correlation : float or None
        Of W_mf and W over these.
    gamma : float or None
        √(Σ(W_mf − W)² / ΣW²).
    worst : tuple of str
        The pair that differs most; empty without any.
    worst_exact, worst_mean_field : float or None
        Its two couplings.
    log_likelihood : float or None
        Of the data under the quick model, mean for each row, in nats.
    rate_error, covariance_error : float or None
        Root mean square over units, over pairs, of the exact moments of the mean-field model
        minus those of the data.
    rate_z, covariance_z : float or None
        These errors in units of the standard errors of the data.
    kind : str
        What the quick answer is.
    """

    n_couplings: int
    n_compared: int
    rms_difference: float | None = None
    correlation: float | None = None
    gamma: float | None = None
    worst: tuple[str, ...] = ()
    worst_exact: float | None = None
    worst_mean_field: float | None = None
    log_likelihood: float | None = None
    rate_error: float | None = None
    covariance_error: float | None = None
    rate_z: float | None = None
    covariance_z: float | None = None
    kind: str = "mean-field inversion (first order)"


@dataclass(frozen=True)
class Goodness:
    """How much of the data the fitted model leaves unexplained.

    Parameters
    ----------
    kl_bits : float
        KL(data‖model) of a row.
    kl_expected_bits : float or None
        Mean of this divergence over data of the same size drawn from the model. None where it is
        below resolution, and for so many rows that the draws would take too long.
    kl_expected_deviation : float or None
        Its deviation between such data sets, the resolution; None without draws.
    n_triples : int
        Number of connected triple moments; none of them is fitted.
    triple_rms_z : float or None
        Their root mean square difference in standard errors, about 1 for a true model. None below
        three units and above 28, as the next ones.
    worst_triple : tuple of str
        The triple that differs most; empty where there is none.
    worst_triple_z : float or None
        By how many standard errors.
    """

    kl_bits: float
    kl_expected_bits: float | None
    kl_expected_deviation: float | None
    n_triples: int
    triple_rms_z: float | None = None
    worst_triple: tuple[str, ...] = ()
    worst_triple_z: float | None = None


@dataclass(frozen=True)
class Minimum:
    """A local minimum of the energy under changes of one unit.

    Parameters
    ----------
    state : tuple of int
        The state.
    energy : float
        In units of k_B T.
    probability : float
        Of this one state.
    """

    state: tuple[int, ...]
    energy: float
    probability: float


@dataclass(frozen=True)
class Minima:
    """The local minima of a model.

    Parameters
    ----------
    n_minima : int
        How many there are.
    deepest : tuple of Minimum
        By rising energy, all of them up to a thousand.
    """

    n_minima: int
    deepest: tuple[Minimum, ...]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Sections:
    """All numbers of a report; a section is None where it cannot be known."""

    route: str
    summary: DataSummary
    fit: FitSummary | None
    entropies: Entropies
    couplings: Couplings | None
    comparison: InversionComparison | None
    goodness: Goodness | None
    minima: Minima | None
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """All numbers of the report, as JSON can hold them: what is not known is None."""
        return {field.name: _as_json(getattr(self, field.name)) for field in fields(Sections)}


def _as_json(value: Any) -> Any:
    """Records as dictionaries, NaN and infinities as None."""
    if is_dataclass(value) and not isinstance(value, type):
        return _as_json(asdict(value))
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_as_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
