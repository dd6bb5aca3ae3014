"""Sections of a report on the fitted model: couplings, goodness, local minima."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.ensembles import Ensemble, WeightedStates
from ebm.enumeration import ExactEnsemble
from ebm.errors import FewSamplesWarning
from ebm.landscape import local_minima
from ebm.learning import FitResult
from ebm.observables import central_triples, third_moments, triples
from ebm.randomness import RandomSource, generator
from ebm.report.parts import Coupling, Couplings, FitSummary, Goodness, Minima, Minimum

__all__ = ["couplings_of", "expected_divergence", "goodness", "minima", "summarize_fit"]

Array = NDArray[np.float64]

#: Data sets drawn from the model to know how large KL(data‖model) is by chance.
_N_DRAWN_SETS = 20
#: Above so many rows the draws take longer than they are worth.
_MAX_DRAWN_ROWS = 10**6
#: Couplings and minima listed one by one.
_MAX_LISTED = 1000


def summarize_fit(result: FitResult, l2: float) -> FitSummary:
    """How the fit went.

    Parameters
    ----------
    result : FitResult
        From :func:`ebm.fit`.
    l2 : float
        The penalty it was made with.

    Returns
    -------
    FitSummary
        Its numbers.
    """
    return FitSummary(
        log_likelihood=result.log_likelihood,
        log_likelihood_bits=result.log_likelihood / math.log(2),
        n_parameters=result.n_parameters,
        n_iterations=result.n_iterations,
        converged=result.converged,
        message=result.message,
        aic=result.aic,
        bic=result.bic,
        l2=l2,
    )


def couplings_of(model: Any, standard_errors: Array | None = None) -> Couplings:
    """The strongest couplings of a pairwise model.

    Parameters
    ----------
    model : BoltzmannMachine or IsingModel
        The model.
    standard_errors : ndarray, (n_pairs,), optional
        In the order of ``model.pairs``.

    Returns
    -------
    Couplings
        By falling modulus.

    Examples
    --------
    >>> import ebm
    >>> from ebm.report.fitted import couplings_of
    >>> weights = [[0, 1, 0], [1, 0, -2], [0, -2, 0]]
    >>> machine = ebm.BoltzmannMachine(weights, [0, 0, 0], names=["a", "b", "c"])
    >>> couplings_of(machine).strongest[0].units
    ('b', 'c')
    """
    i, j = model.pairs
    values = model.parameters[model.n :]
    labels = model.space.labels
    strongest = tuple(
        Coupling(
            units=(labels[i[k]], labels[j[k]]),
            value=float(values[k]),
            standard_error=None if standard_errors is None else float(standard_errors[k]),
        )
        for k in np.argsort(-np.abs(values), kind="stable")[:_MAX_LISTED]
    )
    return Couplings(n_couplings=len(values), strongest=strongest)


def goodness(
    data: WeightedStates, ensemble: ExactEnsemble, n_parameters: int, rng: RandomSource = 0
) -> Goodness:
    """What the model leaves unexplained: KL(data‖model) and the triples, which are not fitted.

    Triples are compared as ⟨δx_i δx_j δx_k⟩ in standard errors of the model. Their error is taken
    as if rates and pairs had not been fitted to the same data: for strongly coupled units that
    makes the differences look smaller than they are.

    Parameters
    ----------
    data : WeightedStates
        The data.
    ensemble : ExactEnsemble
        The fitted model, enumerated.
    n_parameters : int
        How many parameters were fitted to these data.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator, default 0
        For the data sets drawn from the model.

    Returns
    -------
    Goodness
        The comparison.
    """
    expected, deviation = expected_divergence(data.sample_size, ensemble, n_parameters, rng)
    z = _triple_z(data, ensemble)
    worst = int(np.argmax(np.abs(z))) if len(z) else 0
    labels = data.space.labels
    return Goodness(
        kl_bits=_divergence(data, ensemble),
        kl_expected_bits=expected,
        kl_expected_deviation=deviation,
        n_triples=len(z),
        triple_rms_z=float(np.sqrt(np.mean(z**2))) if len(z) else None,
        worst_triple=tuple(labels[k[worst]] for k in triples(data.space.n)) if len(z) else (),
        worst_triple_z=float(z[worst]) if len(z) else None,
    )


def expected_divergence(
    sample_size: float, ensemble: ExactEnsemble, n_parameters: int, rng: RandomSource
) -> tuple[float | None, float | None]:
    """Mean and deviation of KL(data‖model) in bits over data drawn from the model itself.

    The model is not fitted again to each drawn data set; a fit would lower the divergence by
    p/(2N) nats on average (Wilks), and that is subtracted.

    Parameters
    ----------
    sample_size : float
        N, rows of each data set.
    ensemble : ExactEnsemble
        The model.
    n_parameters : int
        p.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness.

    Returns
    -------
    mean, deviation : float or None
        None above 10⁶ rows, where the draws would take too long.
    """
    n_rows = round(sample_size)
    if not 1 <= n_rows <= _MAX_DRAWN_ROWS:
        return None, None
    stream = generator(rng)
    drawn = [
        _divergence(_counted(ensemble.sample(n_rows, stream), ensemble), ensemble)
        for _ in range(_N_DRAWN_SETS)
    ]
    refit = n_parameters / (2 * n_rows * math.log(2))
    return max(float(np.mean(drawn)) - refit, 0.0), float(np.std(drawn, ddof=1))


def minima(model: Any, ensemble: ExactEnsemble) -> Minima:
    """Local minima of the energy under changes of one unit.

    Parameters
    ----------
    model : EnergyModel
        The model, of at most 24 units.
    ensemble : ExactEnsemble
        The same, enumerated.

    Returns
    -------
    Minima
        By rising energy.

    Examples
    --------
    >>> import ebm
    >>> from ebm.report.fitted import minima
    >>> ferromagnet = ebm.IsingModel([[0, 1], [1, 0]], [0.1, 0])
    >>> [minimum.state for minimum in minima(ferromagnet, ebm.exact(ferromagnet)).deepest]
    [(1, 1), (-1, -1)]
    """
    found = local_minima(model)
    states, energies = found.states[:_MAX_LISTED], found.energies[:_MAX_LISTED]
    probabilities = np.exp(ensemble.log_probability(states))
    deepest = tuple(
        Minimum(tuple(int(value) for value in state), float(energy), float(probability))
        for state, energy, probability in zip(states, energies, probabilities, strict=True)
    )
    return Minima(n_minima=len(found), deepest=deepest)


def _counted(states: Array, ensemble: Ensemble) -> WeightedStates:
    with warnings.catch_warnings():
        # As few rows as the data have: that has been said once.
        warnings.simplefilter("ignore", FewSamplesWarning)
        return Ensemble.from_data(states, space=ensemble.space)


def _divergence(data: WeightedStates, ensemble: ExactEnsemble) -> float:
    """KL(data‖model) = Σ p̂ log₂(p̂ / p) of a row."""
    cross = -float(data.weights @ ensemble.log_probability(data.states)) / math.log(2)
    return cross - data.entropy(base=2)


def _triple_z(data: WeightedStates, ensemble: ExactEnsemble) -> Array:
    """Connected triple moments, data minus model, in standard errors of the model."""
    observed, _ = central_triples(data.moments(), third_moments(data))
    predicted, deviation = central_triples(ensemble.moments(), third_moments(ensemble))
    error = deviation / math.sqrt(data.sample_size)
    return np.divide(observed - predicted, error, out=np.zeros_like(error), where=error > 0)
