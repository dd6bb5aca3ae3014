"""The numbers of a report, one record for each section."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ebm.report._json_keys import as_json

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
    "PopulationShare",
    "Populations",
    "Sections",
    "Valley",
    "Valleys",
    "WordEntropy",
]


@dataclass(frozen=True)
class DataSummary:
    """Size, coding and rates of the data.

    Parameters
    ----------
    n_rows, n_units, n_patterns : int
        Numbers of rows, columns and distinct rows.
    sample_size : float
        Sum of the weights; without weights the number of rows.
    coding : str
        ``"{0, 1}"`` or ``"{-1, 1}"``.
    names : tuple of str, (n_units,)
        Names of the units.
    rates : tuple of float, (n_units,)
        Probability that each unit is active (1), of incomplete rows among the cells seen.
    n_missing : tuple of float, (n_units,)
        Number of missing cells of each unit; empty where rows are complete.
    n_complete : float or None
        Number of rows without a missing cell; None where all are.
    """

    n_rows: int
    n_units: int
    n_patterns: int
    sample_size: float
    coding: str
    names: tuple[str, ...]
    rates: tuple[float, ...]
    n_missing: tuple[float, ...] = ()
    n_complete: float | None = None


@dataclass(frozen=True)
class MomentMisfit:
    """The rate, or the covariance, with the largest difference between data and model.

    Parameters
    ----------
    units : tuple of str
        One unit for a rate, two for a covariance.
    z : float
        Data minus model in standard errors of the model.
    """

    units: tuple[str, ...]
    z: float


@dataclass(frozen=True)
class FitSummary:
    """Likelihood, convergence and misfits of the fit.

    Parameters
    ----------
    log_likelihood, log_likelihood_bits : float
        Mean log-likelihood of a row, in nats and in bits.
    n_parameters, n_iterations : int
        Numbers of parameters and of iterations.
    effective_parameters : float or None
        Number of parameters with which a fit without a penalty gains as much likelihood from noise;
        None where the Fisher information is not known.
    converged, message : bool, str
        Whether the maximum was reached, and why the fit ended.
    aic, bic : float or None
        Information criteria; None with a penalty, since they apply to maxima of the likelihood, and
        where ln Z is an estimate.
    l2, l2_biases : float
        Strengths of the penalty on couplings and on biases.
    rate_misfit, pair_misfit : MomentMisfit or None
        Largest misfits; about zero at a maximum without a penalty. None where there is no pair, or
        where every standard error is zero.
    log_likelihood_error : float or None
        Standard error of ln Z in nats; None where ln Z is exact, NaN where it cannot be told.
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
        """Whether ``l2`` or ``l2_biases`` is positive."""
        return self.l2 > 0 or self.l2_biases > 0

    @property
    def interrupted(self) -> bool:
        """Whether the fit was ended by Ctrl-C."""
        return self.message.startswith("interrupted")


@dataclass(frozen=True)
class Entropies:
    """Entropies in bits, from independent units to the data.

    Parameters
    ----------
    independent : float
        Entropy S₁ of independent units with the rates of the data.
    model : float or None
        Entropy of the fitted model; None without a fit.
    pairwise : float or None
        S₂, the largest entropy of all distributions with the rates and pairs of the data. It equals
        ``model`` if the model reproduces these; None with a penalty or before convergence.
    plug_in : float or None
        Entropy of the observed frequencies; biased low by about (K−1)/(2N ln 2). None, like the
        next two, where rows lack cells.
    bias : float or None
        (K−1)/(2N ln 2) for K patterns in N rows.
    corrected : float or None
        ``plug_in + bias``, the estimate of Miller and Madow.
    captured, captured_corrected : float or None
        I₂/I_N = (S₁ − S₂)/(S₁ − S), with ``plug_in`` and with ``corrected`` for S; None without S₂,
        for S ≥ S₁, or where 2K > N.
    model_error : float or None
        Standard error of ``model``; None where it is exact.
    """

    independent: float
    model: float | None
    pairwise: float | None
    plug_in: float | None
    bias: float | None
    corrected: float | None
    captured: float | None
    captured_corrected: float | None
    model_error: float | None = None


@dataclass(frozen=True)
class Coupling:
    """A coupling between two units.

    Parameters
    ----------
    units : tuple of str, (2,)
        Names of the units.
    value : float
        W or J in units of k_B T.
    standard_error : float or None
        Standard error of ``value``; None where it is not known, inf where the data do not bound the
        coupling.
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
        Number of couplings of the model.
    strongest : tuple of Coupling
        The thousand largest by decreasing modulus.
    """

    n_couplings: int
    strongest: tuple[Coupling, ...]


@dataclass(frozen=True)
class InversionComparison:
    """Differences of a fast inversion, with couplings W′, from the fit and from the data.

    An exact fit is compared with the mean-field inversion and its exact moments, a fit by chains
    with the couplings of the pseudo-likelihood.

    Parameters
    ----------
    n_couplings, n_compared : int
        Number of pairs, and of those whose coupling W the data bound, which alone are compared.
    rms_difference : float or None
        √⟨(W′ − W)²⟩ over the pairs compared; None, like the next two, if there is none.
    correlation : float or None
        Correlation coefficient of W′ and W; None for fewer than three pairs or constant values.
    gamma : float or None
        √(Σ(W′ − W)² / ΣW²); None for W = 0.
    worst : tuple of str
        Pair of the largest difference; empty if none is compared.
    worst_exact, worst_mean_field : float or None
        W and W′ of that pair.
    log_likelihood : float or None
        Mean log-likelihood of a row under the inversion, in nats; None, like the next ones, beside
        a fit by chains.
    rate_error, covariance_error : float or None
        Root mean square over units, and over pairs, of the exact moments of the inversion minus
        those of the data.
    rate_z, covariance_z : float or None
        Root mean square of these differences in standard errors of the data; None where one of the
        standard errors is zero.
    kind : str
        Name of the inversion.
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
    """Differences between the data and the fitted model in statistics that are not fitted.

    Parameters
    ----------
    kl_bits : float
        KL(data‖model) of a row in bits.
    kl_expected_bits : float or None
        Mean of this divergence over data of the same size drawn from the model. None where it is
        below its resolution, or where the draws would take too long.
    kl_expected_deviation : float or None
        Resolution: standard deviation of the divergence between such data sets; None without draws.
    n_triples : int
        Number of connected triple moments.
    triple_rms_z : float or None
        Root mean square difference of these in standard errors, about 1 for a true model. None
        below three units and above 28.
    worst_triple : tuple of str
        Triple of the largest difference; empty without ``triple_rms_z``.
    worst_triple_z : float or None
        Difference of that triple, data minus model, in standard errors.
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
    state : tuple of int, (n_units,)
        Value of each unit.
    energy : float
        Energy in units of k_B T.
    probability : float
        Probability of the state.
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
        Number of local minima.
    deepest : tuple of Minimum
        The thousand lowest by increasing energy.
    """

    n_minima: int
    deepest: tuple[Minimum, ...]


@dataclass(frozen=True)
class Valley:
    """A minimum, or a plateau of equal energies, with its basin of steepest descent.

    Parameters
    ----------
    state : tuple of int, (n_units,)
        Value of each unit.
    energy : float
        Energy in units of k_B T.
    basin_states : int
        Number of states of the basin.
    basin_weight : float
        Their probability.
    joins : int or None
        Number of the deeper valley in which it ends, None for the deepest.
    pass_energy : float or None
        Energy of the lowest pass to it.
    """

    state: tuple[int, ...]
    energy: float
    basin_states: int
    basin_weight: float
    joins: int | None
    pass_energy: float | None


@dataclass(frozen=True)
class Valleys:
    """The valleys of a model, see :func:`ebm.landscape`.

    Parameters
    ----------
    n_valleys : int
        Number of minima, where a plateau of equal energies is one.
    deepest : tuple of Valley
        The thousand lowest by increasing energy.
    """

    n_valleys: int
    deepest: tuple[Valley, ...]


@dataclass(frozen=True)
class PopulationShare:
    """P(K) of the data and of two models, with errors.

    Parameters
    ----------
    count : int
        K, the number of units active at once.
    data, data_error : float
        P(K) of the data and its standard error.
    pairwise, pairwise_error : float
        P(K) of the pairwise model and its Monte Carlo error, 0 where it is exact, NaN where it is
        refused because too few draws have K active units.
    k_pairwise, k_pairwise_error : float
        The same of the k-pairwise model.
    """

    count: int
    data: float
    data_error: float
    pairwise: float
    pairwise_error: float
    k_pairwise: float
    k_pairwise_error: float


@dataclass(frozen=True)
class WordEntropy:
    """An estimate of the entropy of words, as by :func:`ebm.observables.word_entropy`.

    Parameters
    ----------
    estimator : str
        Its name.
    value : float
        Entropy in bits.
    error : float or None
        Its error in bits; None where rows do not tell it.
    """

    estimator: str
    value: float
    error: float | None


@dataclass(frozen=True)
class Populations:
    """The k-pairwise fit and the number of units active at once.

    Parameters
    ----------
    converged : bool
        Whether the fit reached a maximum.
    message : str
        Why it ended.
    n_parameters : int
        Number of parameters.
    pools : tuple of int
        The first K of each run of counts that share one value of V.
    log_likelihood : float or None
        Mean log-likelihood of a row in nats; None where the fit ended before it was known.
    log_likelihood_error : float or None
        Standard error of an estimated ln Z.
    gain_bits : float or None
        By how much it is larger than that of the pairwise model, in bits.
    shares : tuple of PopulationShare, (n_units + 1,)
        P(0), P(1), ….
    words : tuple of WordEntropy
        Estimates of the entropy of the data; none where weights of rows are not frequencies.
    """

    converged: bool
    message: str
    n_parameters: int
    pools: tuple[int, ...]
    log_likelihood: float | None
    log_likelihood_error: float | None
    gain_bits: float | None
    shares: tuple[PopulationShare, ...]
    words: tuple[WordEntropy, ...] = ()

    @property
    def interrupted(self) -> bool:
        """Whether the fit was ended by Ctrl-C."""
        return self.message.startswith("interrupted")


@dataclass(frozen=True)
class EdgeProbability:
    """The probability of an edge, given data and a prior.

    Parameters
    ----------
    units : tuple of str
        Names of its two units.
    probability, error : float
        P(edge | data) and its error.
    """

    units: tuple[str, str]
    probability: float
    error: float


@dataclass(frozen=True)
class Edges:
    """The posterior over edges, as by :func:`ebm.inversion.edge_posterior`.

    Parameters
    ----------
    field_width, coupling_width, edge_probability : float
        The prior, in ±1 units.
    n_expected : float
        Sum of the probabilities.
    edges : tuple of EdgeProbability, (n_pairs,)
        All of them, the most probable first.
    """

    field_width: float
    coupling_width: float
    edge_probability: float
    n_expected: float
    edges: tuple[EdgeProbability, ...]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Sections:
    """All numbers of a report; a section that is not known is None."""

    route: str
    summary: DataSummary
    fit: FitSummary | None
    entropies: Entropies
    couplings: Couplings | None
    comparison: InversionComparison | None
    goodness: Goodness | None
    minima: Minima | None
    valleys: Valleys | None = None
    populations: Populations | None = None
    edges: Edges | None = None
    interrupted: bool = False
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """All numbers in types of JSON, units in the keys; NaN and infinities become None."""
        return {field.name: as_json(getattr(self, field.name)) for field in fields(Sections)}
