"""From data to a report: the exact fit where it is possible, chains or the inversion elsewhere."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._jobs import interruptible
from ebm._pictures import picture
from ebm._progress import stage
from ebm._randomness import RandomSource, generator
from ebm.ensembles import Ensemble, IncompleteEnsemble, WeightedStates
from ebm.enumeration import ExactEnsemble
from ebm.errors import (
    CodingError,
    ConstantUnitError,
    EbmError,
    EbmWarning,
    FewSamplesWarning,
    LimitError,
)
from ebm.inversion import mean_field
from ebm.learning import FitResult, fit
from ebm.learning.penalties import Penalty, as_penalty
from ebm.report._blocks import Section
from ebm.report._incomplete import sections_of_incomplete_rows
from ebm.report._populations import populations, start_of_counts
from ebm.report._printed import sections_in_words
from ebm.report._sections import sections_of
from ebm.report._written_report import Written
from ebm.report.parts import Sections
from ebm.report.sampled import (
    MAX_UNITS_SAMPLED,
    N_CHAINS,
    SampledModel,
    fit_by_chains,
    independent_units,
)
from ebm.spaces import Binary, Spins, StateSpace
from ebm.tables import Table

__all__ = ["MAX_UNITS_EXACT", "Report", "analyze"]

#: Largest number of units for an exact fit.
MAX_UNITS_EXACT = 32


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Report(Sections, Written):
    """Statistics of the data and of the fitted model; ``print(report)`` prints them.

    Parameters
    ----------
    data : WeightedStates or IncompleteEnsemble
        Distinct rows of the data with their frequencies.
    result : FitResult or None
        The exact fit up to 32 units, a fit by Markov chains up to 500; None above.
    inversion : BoltzmannMachine, IsingModel or None
        The mean-field inversion; None where a unit is constant.
    model : BoltzmannMachine, IsingModel or None
        The fitted model, or the inversion without a fit, in the center requested.
    posterior : EdgePosterior or None
        The probabilities of edges, where they were asked for on the command line.
    route : str
        Method of the fit, as a sentence.
    summary, fit, entropies, couplings, comparison, goodness, minima, valleys : records
        The sections, see :mod:`ebm.report.parts`; a section that is not known is None.
    populations, edges : records
        Sections that were asked for.
    interrupted : bool
        Whether Ctrl-C ended it: what had not begun is left out.
    warnings : tuple of str
        Limitations of the data and of the fit, one sentence each.
    """

    data: WeightedStates | IncompleteEnsemble
    result: FitResult | None
    inversion: Any
    model: Any
    posterior: Any = None

    @property
    def ensemble(self) -> ExactEnsemble | SampledModel | None:
        """Ensemble of the fitted model: exact up to 32 units, draws above, None without a fit."""
        return None if self.result is None else self.result.ensemble

    def _in_words(self) -> Iterator[Section]:
        """The sections of the text and of the page."""
        return sections_in_words(self)

    def __repr__(self) -> str:
        return f"Report({self.data!r}, {self.route!r})"

    def plot(self) -> Any:
        """The figure of the report, :func:`ebm.plotting.report_figure`."""
        return picture("report_figure", self)


def analyze(
    data: Any,
    *,
    penalty: Penalty | float | None = None,
    space: StateSpace | type[StateSpace] | None = None,
    center: ArrayLike | str = 0.0,
    names: Sequence[str] | None = None,
    rng: RandomSource = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
    k_pairwise: bool = False,
) -> Report:
    """Fit a Boltzmann machine to binary data and report on the quality of the fit.

    Up to 32 units the fit is exact maximum likelihood and is compared with the mean-field inversion
    ([EBM] eq 38); above 28 units it may take minutes, and triples are omitted. Above 32 units the
    likelihood is maximized by Markov chains, and ln Z and the entropy are estimated by annealing.
    Above 500 units only the mean-field inversion is made, without statistics of the model.

    Parameters
    ----------
    data : array_like, frame, Table, WeightedStates or IncompleteEnsemble, (n_rows, n_units)
        Rows are samples. The notes of a :class:`ebm.tables.Table` join the warnings of the report.
        Of rows with missing cells up to 32 units are fitted, and sections are left out that
        compare the model with complete rows.
    penalty : Penalty or float, optional
        ``ebm.Penalty(l2=…, l2_biases=…)`` of the fit, or ``l2`` alone; it does not affect the
        inversion.
    space : StateSpace or class, optional
        The coding: {0, 1} by default; ``ebm.Spins`` stands for {−1, 1} and an Ising model.
    center : float, array_like or "mean", default 0
        Center of ``Report.model``, a gauge that changes no probability. The penalty on biases
        refers to center 0.
    names : sequence of str, optional
        Names of the units, where the data have none.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator, default 0
        Source of the data sets drawn from the model for comparison, and of Markov chains.
    checkpoint : path-like, optional
        File of the fit of the pairwise model, which goes on from it as :func:`ebm.fit` does.
    progress : bool, default False
        Show each iteration of the fit on the standard error stream.
    k_pairwise : bool, default False
        Fit an :class:`ebm.KPairwiseModel` beside the pairwise one, which is then ``Report.model``,
        and report P(K) of both. All other sections are those of the pairwise model.

    Returns
    -------
    Report
        ``str()`` of it is the text, ``to_dict()`` the numbers for JSON, and
        ``ebm.plotting.report_figure(report)`` a figure.

    Raises
    ------
    CodingError
        If units are not two-valued, or ``center`` is neither numbers nor ``"mean"``, or is given
        for spins.
    ConstantUnitError
        If a unit never changes and there is no penalty on biases.
    ModelError
        If ``k_pairwise`` is asked of counts that are too rare, without ``l2``.

    Examples
    --------
    >>> import ebm
    >>> report = ebm.analyze([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> report.entropies.independent, round(report.fit.log_likelihood, 4)
    (2.0, -1.3863)
    """
    notes: tuple[str, ...] = ()
    trouble: list[str] = []
    if isinstance(data, Table):
        data, names, notes = data.states, names or data.names, data.notes
    strengths = _strengths(as_penalty(penalty))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EbmWarning)
        if not isinstance(data, WeightedStates | IncompleteEnsemble):
            data = Ensemble.from_data(data, space=space, names=names)
        place = _center(data, center)
        start = start_of_counts(data, center, strengths[0]) if k_pairwise else None
        if k_pairwise and data.space.n > MAX_UNITS_SAMPLED:
            raise LimitError(
                f"a k-pairwise model is fitted up to {MAX_UNITS_SAMPLED} units, got "
                f"{data.space.n}: take fewer"
            )
        source, how = generator(rng), {"checkpoint": checkpoint, "progress": progress}
        result: FitResult | None
        inversion: Any = None
        if isinstance(data, IncompleteEnsemble):
            result, route = _fitted_to_incomplete_rows(data, strengths, **how)
            sections = sections_of_incomplete_rows(data, result, strengths)
        else:
            result, route = _fitted(data, strengths, source, **how)
            with stage(progress, "comparing the model with data and with other estimates"):
                try:
                    inversion = mean_field(data.moments())
                except ConstantUnitError as error:
                    trouble = [f"No mean-field inversion: {error}"]
                sections = sections_of(data, result, inversion, strengths, source)
        if result is None and checkpoint is not None:
            raise EbmError(f"checkpoint=… has no effect, leave it out: {route}")
        model: Any = inversion if result is None else result.model
        if start is not None and isinstance(data, WeightedStates):
            if result is None:
                raise EbmError(f"no k-pairwise model beside {route}: take fewer units or a penalty")
            counted = _with_counts(start, data, result, strengths, source, sections, progress)
            if counted is None:
                trouble.append(
                    "Interrupted before the k-pairwise fit was done: the model is the pairwise one"
                )
            else:
                model, place = counted, None
    messages = _messages(caught, data, fitted=result is not None)
    notes = (*notes, *messages, *(result.warnings if result else ()), *trouble)
    return Report(
        data=data,
        result=result,
        inversion=inversion,
        model=model if model is None or place is None else model.recentered(place),
        route=route,
        warnings=tuple(dict.fromkeys(notes)),
        **sections,
    )


def _with_counts(
    start: Any,
    data: WeightedStates,
    result: FitResult,
    strengths: tuple[float, float],
    source: np.random.Generator,
    sections: dict[str, Any],
    progress: bool,
) -> Any:
    """The k-pairwise model, whose counts join the sections; None where Ctrl-C came before it."""
    counts = None
    if not sections["interrupted"]:
        with interruptible():
            counts = populations(start, data, result, strengths, source, progress)
    if counts is None:
        sections["interrupted"] = True
        return None
    sections["populations"], model = counts
    sections["interrupted"] = counts[0].interrupted
    return model


def _strengths(penalty: Penalty) -> tuple[float, float]:
    """l2 and l2_biases of a penalty without l1, free and ties."""
    if penalty.has_l1 or penalty.free is not None or penalty.ties is not None:
        raise EbmError(
            "a report takes a penalty of squares on all parameters: give "
            "penalty=ebm.Penalty(l2=…, l2_biases=…), or use ebm.fit for l1, free and ties"
        )
    return penalty.l2, penalty.l2_biases


def _center(data: WeightedStates | IncompleteEnsemble, center: ArrayLike | str) -> Any:
    """The center as numbers; None for spins, which have none."""
    if isinstance(data.space, Spins):
        if isinstance(center, str) or np.any(center):
            raise CodingError(f"spins have no center, got center={center!r}: leave it out")
        return None
    if not isinstance(data.space, Binary):
        raise CodingError(
            f"a report needs two-valued units, got {data.space!r}: of ordered categories "
            "ebm.report.analyze_items makes one"
        )
    if isinstance(center, str):
        if center != "mean":
            raise CodingError(f"center must be numbers or 'mean', got {center!r}")
        return data.seen_mean if isinstance(data, IncompleteEnsemble) else data.moments().mean
    return center


def _fitted(
    data: WeightedStates, penalty: tuple[float, float], rng: np.random.Generator, **how: Any
) -> tuple[FitResult | None, str]:
    """The fit, or None, and a sentence on its method."""
    n = data.space.n
    penalties = _in_words(penalty)
    kind = f"penalized maximum likelihood, {penalties}" if penalties else "maximum likelihood"
    if n > MAX_UNITS_SAMPLED:
        without_effect = f", on which the penalty {penalties} has no effect" if penalties else ""
        return None, (
            f"{n} units, more than {MAX_UNITS_SAMPLED}: no fit, first-order mean-field inversion "
            f"only{without_effect}"
        )
    if n > MAX_UNITS_EXACT and data.sample_size < n and not penalty[0]:
        return None, (
            f"{data.sample_size:g} rows for {n} units: no fit without a penalty (l2), first-order "
            "mean-field inversion only"
        )
    reason = f"{n} units, more than {MAX_UNITS_EXACT}"
    if n <= MAX_UNITS_EXACT:
        start = independent_units(data)
        try:
            result = fit(start, data, penalty=Penalty(*penalty), **how)
        except LimitError as error:
            reason = str(error)
        else:
            exact = kind if penalties else f"exact {kind}"
            return result, f"{exact}, all 2^{n} states enumerated"
    return (
        fit_by_chains(data, *penalty, rng, **how),
        f"{kind} by {N_CHAINS} persistent Markov chains ({reason})",
    )


def _fitted_to_incomplete_rows(
    data: IncompleteEnsemble, penalty: tuple[float, float], **how: Any
) -> tuple[FitResult, str]:
    """The fit with missing cells summed over, and a sentence on its method."""
    n = data.space.n
    if n > MAX_UNITS_EXACT:
        raise LimitError(
            f"missing cells are summed over by exact fits of at most {MAX_UNITS_EXACT} units, not "
            f"of {n}: take fewer columns, or complete rows"
        )
    result = fit(independent_units(data), data, penalty=Penalty(*penalty), **how)
    penalties = _in_words(penalty)
    kind = f"penalized maximum likelihood, {penalties}" if penalties else "exact maximum likelihood"
    return result, f"{kind}, all 2^{n} states enumerated, missing cells summed over"


def _in_words(penalty: tuple[float, float]) -> str:
    """The strengths of a penalty that are not zero."""
    strengths = zip(("l2", "l2_biases"), penalty, strict=True)
    return ", ".join(f"{name} = {value:g}" for name, value in strengths if value)


def _messages(
    caught: list[warnings.WarningMessage],
    data: WeightedStates | IncompleteEnsemble,
    *,
    fitted: bool,
) -> list[str]:
    """Texts of the warnings of this library; those of others are passed on."""
    texts = []
    for warning in caught:
        if not issubclass(warning.category, EbmWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
        elif issubclass(warning.category, FewSamplesWarning) and not fitted:
            # That warning advises a penalty, which has no effect on the inversion.
            texts.append(
                f"{data.n_rows} rows for {data.space.n} units: most couplings are noise, take "
                "fewer units or more rows"
            )
        else:
            texts.append(str(warning.message))
    return texts
