"""From data to a report: the exact fit where it is possible, chains or the inversion elsewhere."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._progress import stage
from ebm._randomness import RandomSource, generator
from ebm.ensembles import Ensemble, Estimate, WeightedStates
from ebm.enumeration import ExactEnsemble
from ebm.errors import (
    CodingError,
    ConstantUnitError,
    EbmWarning,
    FewSamplesWarning,
    LimitError,
)
from ebm.inversion import mean_field, pseudolikelihood
from ebm.learning.penalties import Penalty
from ebm.learning import FitResult, fit
from ebm.models import BoltzmannMachine, IsingModel
from ebm.report.data import entropies, summarize_data
from ebm.report.fitted import (
    MAX_UNITS_MINIMA,
    couplings_of,
    goodness,
    minima,
    summarize_fit,
)
from ebm.report.inverted import compare_couplings, compare_inversion, sampling_errors
from ebm.report.parts import (
    Comparison,
    Couplings,
    DataSummary,
    Entropies,
    FitSummary,
    Goodness,
    Minima,
    json_safe,
)
from ebm.report.sampled import MAX_UNITS_SAMPLED, N_CHAINS, SampledModel, fit_by_chains
from ebm.report.text import render
from ebm.spaces import Binary, Spins, StateSpace

__all__ = ["MAX_UNITS_EXACT", "Report", "analyze"]

#: Most units for an exact fit.
MAX_UNITS_EXACT = 32
#: Most units for which pseudo-likelihood is set beside a fit by chains.
MAX_UNITS_PSEUDOLIKELIHOOD = 200
#: Largest misfit, in standard errors, of a model that counts as reproducing the data.
_REPRODUCED = 0.01


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Report:
    """What the data and the fitted model say; ``print(report)`` shows it.

    Parameters
    ----------
    data : WeightedStates
        The data.
    result : FitResult or None
        The exact fit, up to 32 units; up to 500 one by Markov chains; None above.
    inversion : BoltzmannMachine, IsingModel or None
        The mean-field inversion; None where a unit is constant.
    model : BoltzmannMachine, IsingModel or None
        The model to use, in the center asked for: the fit, or the inversion without one.
    route : str
        Which way was taken, a sentence.
    summary, fit, entropies, couplings, comparison, goodness, minima : records
        The sections, see :mod:`ebm.report.parts`; None where something cannot be known.
    warnings : tuple of str
        What a reader should know before believing the numbers.
    """

    data: WeightedStates
    result: FitResult | None
    inversion: Any
    model: Any
    route: str
    summary: DataSummary
    fit: FitSummary | None
    entropies: Entropies
    couplings: Couplings | None
    comparison: Comparison | None
    goodness: Goodness | None
    minima: Minima | None
    warnings: tuple[str, ...]

    @property
    def ensemble(self) -> ExactEnsemble | SampledModel | None:
        """The ensemble of the fitted model: exact up to 32 units, draws above."""
        return None if self.result is None else self.result.ensemble

    def to_dict(self) -> dict[str, Any]:
        """All numbers of the report, as JSON can hold them: what is not known is None."""
        sections = (
            "route", "summary", "fit", "entropies", "couplings", "comparison", "goodness",
            "minima", "warnings",
        )  # fmt: skip
        return {name: json_safe(getattr(self, name)) for name in sections}

    def __str__(self) -> str:
        return render(self)

    def __repr__(self) -> str:
        return f"Report({self.data!r}, {self.route!r})"


def analyze(
    data: Any,
    *,
    l2: float = 0.0,
    l2_biases: float = 0.0,
    space: StateSpace | type[StateSpace] | None = None,
    center: ArrayLike | str = 0.0,
    names: Sequence[str] | None = None,
    notes: Sequence[str] = (),
    rng: RandomSource = 0,
    progress: bool = False,
) -> Report:
    """Fit a Boltzmann machine to binary data and report how good it is.

    Up to 32 units: exact maximum likelihood, exact statistics, and the mean-field inversion
    ([EBM] eq 38) beside it; above 28 it may take minutes, and triples are left out. Above 32:
    maximum likelihood by Markov chains, with ln Z and the entropy from annealing and their
    errors. Above 500: the mean-field inversion alone, first-order estimates, and no statistics of
    the model.

    Parameters
    ----------
    data : array_like, pandas.DataFrame or WeightedStates, (n_rows, n_units)
        Rows are samples.
    l2, l2_biases : float, default 0
        Penalty of the fit on couplings and on biases, see :func:`ebm.fit`; the inversion has none.
    space : StateSpace or class, optional
        The coding; None means {0, 1}, ``ebm.Spins`` −1 and 1 (and an Ising model).
    center : float, array_like or "mean", default 0
        Center of ``Report.model``, a gauge: it changes no probability and no penalty. The penalty
        on biases is about those at center 0.
    names : sequence of str, optional
        Unit names, where the data bring none.
    notes : sequence of str
        Sentences to add to the warnings, such as those of a :class:`ebm.tables.Table`.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator, default 0
        For the data sets drawn from the model as a yardstick.
    progress : bool, default False
        Show each iteration of the fit on the standard error stream.

    Returns
    -------
    Report
        Printable; ``to_dict()`` for JSON, ``ebm.plotting.report_figure(report)`` for a figure.

    Examples
    --------
    >>> import ebm.report
    >>> report = ebm.report.analyze([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> report.entropies.independent, round(report.fit.log_likelihood, 4)
    (2.0, -1.3863)
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EbmWarning)
        if not isinstance(data, WeightedStates):
            data = Ensemble.from_data(data, space=space, names=names)
        place = _center(data, center)
        source = generator(rng)
        result, route = _fitted(data, (l2, l2_biases), source, progress)
        with stage(progress, "comparing the model with data and with other estimates"):
            inversion, trouble = _inverted(data)
            sections = _sections(data, result, inversion, (l2, l2_biases), source)
    model: Any = inversion if result is None else result.model
    messages = _messages(caught, data, fitted=result is not None)
    said = [*notes, *messages, *(result.warnings if result else ()), *trouble]
    return Report(
        data=data,
        result=result,
        inversion=inversion,
        model=model if model is None or place is None else model.recentered(place),
        route=route,
        summary=summarize_data(data),
        warnings=tuple(dict.fromkeys(said)),
        **sections,
    )


def _center(data: WeightedStates, center: ArrayLike | str) -> Any:
    """The center as numbers; None for spins, which have none."""
    if isinstance(data.space, Spins):
        if isinstance(center, str) or np.any(center):
            raise CodingError(f"spins have no center, got center={center!r}: leave it out")
        return None
    if not isinstance(data.space, Binary):
        raise CodingError(f"a report needs two-valued units, got {data.space!r}")
    if isinstance(center, str):
        if center != "mean":
            raise CodingError(f"center must be numbers or 'mean', got {center!r}")
        return data.moments().mean
    return center


def _fitted(
    data: WeightedStates, penalty: tuple[float, float], rng: np.random.Generator, progress: bool
) -> tuple[FitResult | None, str]:
    """The fit, or None, and a sentence on the way taken."""
    n = data.space.n
    given = ", ".join(
        f"{name} = {value:g}"
        for name, value in zip(("l2", "l2_biases"), penalty, strict=True)
        if value
    )
    kind = f"penalized maximum likelihood, {given}" if given else "maximum likelihood"
    if n > MAX_UNITS_SAMPLED:
        inversion_only = "no fit, first-order mean-field inversion only" + (
            f", on which the penalty {given} has no effect" if given else ""
        )
        return None, f"{n} units, more than {MAX_UNITS_SAMPLED}: {inversion_only}"
    if n > MAX_UNITS_EXACT and data.sample_size < n and not penalty[0]:
        return None, (
            f"{data.sample_size:g} rows for {n} units: no fit without a penalty (l2), first-order "
            "mean-field inversion only"
        )
    reason = f"{n} units, more than {MAX_UNITS_EXACT}"
    if n <= MAX_UNITS_EXACT:
        family = IsingModel if isinstance(data.space, Spins) else BoltzmannMachine
        start: Any = family(np.zeros((n, n)), np.zeros(n), names=data.space.names)
        try:
            result = fit(start, data, l2=penalty[0], l2_biases=penalty[1], progress=progress)
        except LimitError as error:
            reason = str(error)
        else:
            exact = kind if given else f"exact {kind}"
            return result, f"{exact}, all 2^{n} states enumerated"
    return (
        fit_by_chains(data, *penalty, rng, progress=progress),
        f"{kind} by {N_CHAINS} persistent Markov chains ({reason})",
    )


def _inverted(data: WeightedStates) -> tuple[Any, list[str]]:
    """The mean-field inversion, or None and the reason."""
    try:
        return mean_field(data.moments()), []
    except ConstantUnitError as error:
        return None, [f"No mean-field inversion: {error}"]


def _sections(
    data: WeightedStates,
    result: FitResult | None,
    inversion: Any,
    penalty: tuple[float, float],
    rng: RandomSource,
) -> dict[str, Any]:
    """The sections that depend on which model there is."""
    if result is None:
        couplings = None if inversion is None else couplings_of(inversion, sampling_errors(data))
        unknown = dict.fromkeys(("fit", "comparison", "goodness", "minima"))
        return {"entropies": entropies(data), "couplings": couplings, **unknown}
    n, model, ensemble = data.space.n, result.model, result.ensemble
    if isinstance(ensemble, SampledModel):
        return _sampled_sections(data, result, ensemble, penalty)
    errors = None if result.standard_errors is None else result.standard_errors[n:]
    bounded = result.converged if errors is None else np.isfinite(errors)
    compared = n > 1 and inversion is not None
    fitted = summarize_fit(result, data, *penalty)
    freedom = fitted.effective_parameters or fitted.n_parameters
    return {
        "fit": fitted,
        "entropies": entropies(data, ensemble.entropy(base=2), reproduces=_reproduces(fitted)),
        "couplings": couplings_of(model, errors),
        "comparison": compare_inversion(inversion, model, data, bounded) if compared else None,
        "goodness": goodness(data, ensemble, freedom, rng),
        "minima": minima(model, ensemble) if n <= MAX_UNITS_MINIMA else None,
    }


def _sampled_sections(
    data: WeightedStates, result: FitResult, ensemble: SampledModel, penalty: tuple[float, float]
) -> dict[str, Any]:
    """Those that draws and an estimate of ln Z allow."""
    n = data.space.n
    errors = None if result.standard_errors is None else result.standard_errors[n:]
    fitted = summarize_fit(result, data, *penalty)
    reproduces = result.converged and not fitted.penalized
    entropy = ensemble.entropy(base=2)
    if reproduces:
        # At the maximum S₂ = −E_D[ln p], which the noise of the fit changes to second order only.
        nats = Estimate(-fitted.log_likelihood, fitted.log_likelihood_error or 0.0)
        entropy = Estimate(nats.value / math.log(2), nats.standard_error / math.log(2))
    return {
        "fit": fitted,
        "entropies": entropies(
            data,
            float(entropy.value),
            error=float(entropy.standard_error),
            reproduces=reproduces,
        ),
        "couplings": couplings_of(result.model, errors),
        "comparison": _beside_pseudolikelihood(result.model, data, penalty),
        **dict.fromkeys(("goodness", "minima")),
    }


def _beside_pseudolikelihood(
    model: Any, data: WeightedStates, penalty: tuple[float, float]
) -> Comparison | None:
    """Couplings of pseudo-likelihood beside those of the fit; None where it has no maximum."""
    if not 1 < data.space.n <= MAX_UNITS_PSEUDOLIKELIHOOD:
        return None
    try:
        found = pseudolikelihood(data, penalty=Penalty(l2=penalty[0], l2_biases=penalty[1]))
    except KeyboardInterrupt:
        # The fit is there; this is only beside it.
        return None
    if not found.converged:
        return None
    compared = compare_couplings(found.model, model, data.space.labels)
    return replace(compared, kind="pseudo-likelihood")


def _reproduces(fitted: FitSummary) -> bool:
    """Whether the model has the moments of the data, as the one of largest entropy has."""
    misfits = (fitted.rate_misfit, fitted.pair_misfit)
    return not fitted.penalized and all(abs(m.z) < _REPRODUCED for m in misfits if m is not None)


def _messages(
    caught: list[warnings.WarningMessage], data: WeightedStates, *, fitted: bool
) -> list[str]:
    """Texts of our own warnings; those of others are passed on."""
    texts = []
    for warning in caught:
        if not issubclass(warning.category, EbmWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
        elif issubclass(warning.category, FewSamplesWarning) and not fitted:
            # That warning advises a penalty, which the inversion has not.
            texts.append(
                f"{data.n_rows} rows for {data.space.n} units: most couplings are noise, take "
                "fewer units or more rows"
            )
        else:
            texts.append(str(warning.message))
    return texts
