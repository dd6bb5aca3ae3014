"""From answers on ordered categories to a report: the ordinal model, its errors and its misfits."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._pictures import picture
from ebm._progress import stage
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.ensembles import Ensemble, IncompleteEnsemble, WeightedStates
from ebm.enumeration import ExactEnsemble
from ebm.errors import EbmError, EbmWarning, LimitError, ShapeError, UnusedCategoryError
from ebm.inversion import Pseudolikelihood
from ebm.learning import FitResult, fit
from ebm.learning._existence import MOST_NAMES, gentle_penalty
from ebm.learning.penalties import Penalty, as_penalty
from ebm.models import OrdinalModel
from ebm.report._blocks import Section
from ebm.report._json_keys import as_json, json_key
from ebm.report._printed_items import items_in_words
from ebm.report._written_report import Written
from ebm.report.analysis import _messages, _strengths
from ebm.report.parts import Coupling, Couplings
from ebm.sampling import sample
from ebm.spaces._labels import axis_labels
from ebm.spaces._reading import readable
from ebm.tables import Table
from ebm.tables._columns import default_names
from ebm.tables.categories import Codes, as_levels

__all__ = ["ItemFit", "ItemReport", "ItemSummary", "Threshold", "analyze_items"]

#: Most states for an exact fit; above, the fit is one by pseudo-likelihood.
MOST_STATES = 2**25
#: Draws from the model for the distribution of the sum of levels.
N_DRAWS, N_CHAINS = 20_000, 100


@dataclass(frozen=True)
class ItemSummary:
    """Size of the data, codes and shares of the categories.

    Parameters
    ----------
    n_rows, n_units, n_patterns : int
        Numbers of rows, items and distinct rows.
    sample_size : float
        Sum of the weights; without weights the number of rows.
    names : tuple of str, (n_units,)
        Names of the items.
    codes : tuple of (int, int), (n_units,)
        First and last code of each item.
    shares : tuple of tuple of float, (n_units,)
        Relative frequencies of the categories of each item, among the answers that are there.
    n_missing : tuple of float
        Number of missing answers of each item; empty of complete rows.
    n_complete : float or None
        Number of complete rows, beside ``n_missing``.
    """

    n_rows: int
    n_units: int
    n_patterns: int
    sample_size: float
    names: tuple[str, ...]
    codes: tuple[tuple[int, int], ...]
    shares: tuple[tuple[float, ...], ...]
    n_missing: tuple[float, ...] = ()
    n_complete: float | None = None


@dataclass(frozen=True)
class ItemFit:
    """Likelihood and convergence of the fit.

    Parameters
    ----------
    log_likelihood, log_pseudolikelihood : float or None
        Mean of a row in nats, without the penalty; the one that was maximized.
    n_parameters, n_iterations : int
        Numbers of parameters and of iterations.
    converged, message : bool, str
        Whether the maximum was reached, and why the fit ended.
    aic, bic : float or None
        Information criteria; None with a penalty, and after pseudo-likelihood.
    l2, l2_biases : float
        Strengths of the penalty on couplings and on steps of thresholds.
    """

    log_likelihood: float | None
    log_pseudolikelihood: float | None
    n_parameters: int
    n_iterations: int
    converged: bool
    message: str
    aic: float | None
    bic: float | None
    l2: float
    l2_biases: float

    @property
    def interrupted(self) -> bool:
        """Whether the fit was ended by Ctrl-C."""
        return self.message.startswith("interrupted")


@dataclass(frozen=True)
class Threshold:
    """The threshold of a category, relative to the first one of its item.

    Parameters
    ----------
    unit : str
        Name of the item.
    code : int
        Code of the category.
    value : float
        The threshold in units of k_B T.
    standard_error : float or None
        Its standard error; None where it is not known.
    """

    unit: str
    code: int
    value: float
    standard_error: float | None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ItemReport(Written):
    """Statistics of answers on ordered categories and of the model; ``print(report)`` prints them.

    Parameters
    ----------
    data : WeightedStates or IncompleteEnsemble
        Distinct rows as levels 0, 1, … with their frequencies.
    result : FitResult
        The fit, exact or by pseudo-likelihood.
    draws : ndarray of int, (n_draws, n)
        Rows drawn from the fitted model, exact or by Gibbs chains.
    route : str
        Method of the fit, as a sentence.
    summary, fit : records
        Of the data and of the fit.
    independent_entropy, model_entropy, plug_in_entropy : float or None
        Entropies in bits of independent items, of the fitted model (None after pseudo-likelihood)
        and of the frequencies of rows (None where answers are missing).
    thresholds : tuple of Threshold
        All of them, item by item.
    couplings : Couplings
        The strongest couplings of levels.
    warnings : tuple of str
        Limitations of the data and of the fit, one sentence each.
    """

    data: WeightedStates | IncompleteEnsemble
    result: FitResult
    draws: NDArray[Any]
    route: str
    summary: ItemSummary
    fit: ItemFit
    independent_entropy: float
    model_entropy: float | None
    plug_in_entropy: float | None
    thresholds: tuple[Threshold, ...]
    couplings: Couplings
    warnings: tuple[str, ...]

    @property
    def model(self) -> Any:
        """The fitted model."""
        return self.result.model

    @property
    def interrupted(self) -> bool:
        """Whether the fit was ended by Ctrl-C."""
        return self.fit.interrupted

    def to_dict(self) -> dict[str, Any]:
        """All numbers in types of JSON, units in the keys; NaN and infinities become None."""
        left_out = ("data", "result", "draws")
        names = [field.name for field in fields(self) if field.name not in left_out]
        return {json_key(ItemReport, name): as_json(getattr(self, name)) for name in names}

    def _in_words(self) -> Iterator[Section]:
        """The sections of the text and of the page."""
        return items_in_words(self)

    def __repr__(self) -> str:
        return f"ItemReport({self.data!r}, {self.route!r})"

    def plot(self) -> Any:
        """The figure of the report, :func:`ebm.plotting.items_figure`."""
        return picture("items_figure", self)


def analyze_items(
    data: Any,
    codes: Codes,
    *,
    penalty: Penalty | float | None = None,
    names: Sequence[str] | None = None,
    rng: RandomSource = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
    missing_at_random: bool = False,
) -> ItemReport:
    """Fit an ordinal model to answers on ordered categories and report on it.

    The fit is exact maximum likelihood up to 2²⁵ states, such as 10 items of 5 categories, and
    maximum pseudo-likelihood beyond. Scores are 0, 1, … for the codes in their order.

    Parameters
    ----------
    data : array_like, pandas.DataFrame or Table, (n_rows, n_items)
        Codes of the answers; rows are respondents. The notes of a :class:`ebm.tables.Table` join
        the warnings of the report.
    codes : (int, int) or mapping
        First and last code of the categories, for all items or by name, as in
        :func:`ebm.tables.as_levels`.
    penalty : Penalty or float, optional
        ``ebm.Penalty(l2=…, l2_biases=…)`` of the fit, or ``l2`` alone.
    names : sequence of str, optional
        Names of the items, where the data have none.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator, default 0
        Source of the draws from the fitted model.
    checkpoint : path-like, optional
        File of the fit, as of :func:`ebm.fit`: if it exists, the fit goes on from it.
    progress : bool, default False
        Show each iteration of the fit on the standard error stream.
    missing_at_random : bool, default False
        Keep rows with missing answers, NaN, whose likelihood sums over what these might have been
        (:class:`ebm.IncompleteEnsemble`); up to 2²⁵ states. They are refused otherwise.

    Returns
    -------
    ItemReport
        ``str()`` of it is the text, ``to_dict()`` the numbers for JSON, and
        ``ebm.plotting.items_figure(report)`` a figure.

    Raises
    ------
    CodingError
        If an answer is none of the codes.
    UnusedCategoryError
        If a category is never chosen, and there is no penalty on thresholds.
    MissingValueError
        If answers are missing, and are not taken as missing at random.
    LimitError
        If answers are missing of items that have more than 2²⁵ states.

    Examples
    --------
    >>> import ebm
    >>> answers = [[1, 1], [2, 3], [3, 2], [3, 3], [1, 2], [2, 1]] * 10
    >>> report = ebm.report.analyze_items(answers, (1, 3), names=["mood", "sleep"])
    >>> report.model.thresholds[0].round(2), report.couplings.strongest[0].value > 0
    (array([ 0.  , -0.67, -1.82]), True)
    """
    notes = data.notes if isinstance(data, Table) else ()
    labels = _names(data, names)
    levels, ranges = as_levels(data, labels, codes, keep_missing=missing_at_random)
    l2, l2_biases = _strengths(as_penalty(penalty))
    if not l2_biases:
        require_chosen(levels, ranges, labels)
    start = flat_model(ranges, labels)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EbmWarning)
        how = {"checkpoint": checkpoint, "progress": progress}
        kind = IncompleteEnsemble if np.isnan(levels).any() else Ensemble
        answers: Any = kind.from_data(levels, space=start.space)
        result, route = _fitted(start, answers, Penalty(l2, l2_biases), **how)
        with stage(progress, "drawing rows from the model"):
            draws = _drawn(result, generator(rng))
    texts = _messages(caught, answers, fitted=True)
    errors = result.standard_errors
    n_thresholds = int((~result.model.is_coupling).sum())
    return ItemReport(
        data=answers,
        result=result,
        draws=draws,
        route=route,
        summary=_summary(answers, ranges, labels),
        fit=_fit_record(result, l2, l2_biases),
        independent_entropy=_independent_entropy(answers),
        model_entropy=_entropy_of(result.ensemble),
        plug_in_entropy=None if kind is IncompleteEnsemble else answers.entropy(base=2),
        thresholds=_thresholds(result, ranges),
        couplings=_couplings(result.model, None if errors is None else errors[n_thresholds:]),
        warnings=tuple(dict.fromkeys((*notes, *texts, *result.warnings))),
    )


def _names(data: Any, names: Sequence[str] | None) -> tuple[str, ...]:
    """Names given, those of the columns, or numbers."""
    shape = readable(data, "data").shape
    if len(shape) != 2:
        kind = f"got {shape}" if shape else f"got {type(data).__name__}"
        raise EbmError(
            "data must be rows of codes, (n_rows, n_items), as an array, a frame or a Table; "
            f"{kind}"
        )
    if names is not None:
        given = tuple(map(str, names))
        if len(given) != shape[1]:
            raise ShapeError(f"names must be {shape[1]}, one for each item, got {len(given)}")
        return given
    labels = data.names if isinstance(data, Table) else axis_labels(data, 1)
    return default_names(shape[1]) if labels is None else tuple(labels)


def require_chosen(levels: NDArray[Any], ranges: NDArray[Any], names: tuple[str, ...]) -> None:
    """Refuse codes that nobody chose, by their numbers in the data."""
    unused = [
        f"{first + level} of {name!r}"
        for name, (first, last), column in zip(names, ranges.tolist(), levels.T, strict=True)
        for level in np.setdiff1d(np.arange(last - first + 1), column).tolist()
        if not np.isnan(column).all()
    ]
    if unused:
        subject = "codes" if len(unused) > 1 else "code"
        verb = "are" if len(unused) > 1 else "is"
        more = f", and {len(unused) - MOST_NAMES} more" if len(unused) > MOST_NAMES else ""
        raise UnusedCategoryError(
            f"{subject} {', '.join(unused[:MOST_NAMES])}{more} {verb} never chosen, so no finite "
            "threshold is best: declare the codes that were offered, join a category with its "
            "neighbor, leave the item out, or hold thresholds by a penalty, such as "
            f"penalty=ebm.Penalty(l2_biases={gentle_penalty(len(levels))})"
        )


def flat_model(ranges: NDArray[Any], names: tuple[str, ...]) -> OrdinalModel:
    """All parameters zero."""
    n = len(names)
    sizes = ranges[:, 1] - ranges[:, 0] + 1
    return OrdinalModel(np.zeros((n, n)), [np.zeros(q) for q in sizes], names=names)


def _fitted(
    start: OrdinalModel,
    answers: WeightedStates | IncompleteEnsemble,
    penalty: Penalty,
    **how: Any,
) -> tuple[FitResult, str]:
    """The fit, and a sentence on its method."""
    strengths = (("l2", penalty.l2), ("l2_biases", penalty.l2_biases))
    held = ", ".join(f"{name} = {value:g}" for name, value in strengths if value)
    penalized = f"penalized ({held}) " if held else ""
    size = start.space.size_as_powers
    reason = f"{size} states, more than {MOST_STATES}"
    is_incomplete = isinstance(answers, IncompleteEnsemble)
    if start.space.size <= MOST_STATES:
        try:
            result = fit(start, answers, penalty=penalty, **how)
        except LimitError as error:
            reason = str(error)
        else:
            summed = ", missing answers summed over" if is_incomplete else ""
            return result, (
                f"{penalized}exact maximum likelihood, all {size} states enumerated{summed}"
            )
    if is_incomplete:
        raise LimitError(
            f"missing answers are summed over by exact fits ({reason}): take fewer items, or "
            "complete rows"
        )
    loss = Pseudolikelihood()
    result = fit(start, answers, loss=loss, penalty=penalty, **how)
    return result, f"{penalized}maximum pseudo-likelihood ({reason})"


def _drawn(result: FitResult, source: np.random.Generator) -> NDArray[Any]:
    """Rows of the fitted model, exact ones where its states were summed."""
    if isinstance(result.ensemble, ExactEnsemble):
        return result.ensemble.sample(N_DRAWS, source).astype(np.int64)
    n_draws = N_DRAWS // N_CHAINS
    chains = sample(result.model, n_draws=n_draws, n_chains=N_CHAINS, rng=source).chains
    return np.asarray(chains.reshape(-1, chains.shape[-1]), dtype=np.int64)


def _summary(
    answers: WeightedStates | IncompleteEnsemble, ranges: NDArray[Any], names: tuple[str, ...]
) -> ItemSummary:
    shares = _shares(answers)
    missing: dict[str, Any] = {}
    n_patterns, sample_size = len(answers.weights), answers.sample_size
    if isinstance(answers, IncompleteEnsemble):
        sample_size += answers.n_blank
        missing = {
            "n_missing": tuple(answers.n_missing.tolist()),
            "n_complete": answers.n_complete,
        }
    by_item = np.split(shares, np.cumsum(ranges[:, 1] - ranges[:, 0] + 1)[:-1])
    return ItemSummary(
        n_rows=answers.n_rows,
        n_units=len(names),
        n_patterns=n_patterns,
        sample_size=sample_size,
        names=names,
        codes=tuple((int(first), int(last)) for first, last in ranges),
        shares=tuple(tuple(row.tolist()) for row in by_item),
        **missing,
    )


def _shares(answers: WeightedStates | IncompleteEnsemble) -> Array:
    """Relative frequencies of the categories among the answers that are there, (Σ q_i,)."""
    if isinstance(answers, IncompleteEnsemble):
        return answers.seen_mean
    return np.asarray(answers.expectation(answers.space.features))


def _fit_record(result: FitResult, l2: float, l2_biases: float) -> ItemFit:
    has_criteria = result.log_likelihood is not None and not (l2 or l2_biases)
    return ItemFit(
        log_likelihood=result.log_likelihood,
        log_pseudolikelihood=result.log_pseudolikelihood,
        n_parameters=result.n_parameters,
        n_iterations=result.n_iterations,
        converged=result.converged,
        message=result.message,
        aic=result.aic if has_criteria else None,
        bic=result.bic if has_criteria else None,
        l2=l2,
        l2_biases=l2_biases,
    )


def _independent_entropy(answers: WeightedStates | IncompleteEnsemble) -> float:
    """−Σ p log₂ p over the categories of all items, in bits."""
    shares = _shares(answers)
    seen = shares[shares > 0]
    return -float(seen @ np.log2(seen))


def _entropy_of(ensemble: Any) -> float | None:
    """Of a model whose states were summed, in bits."""
    return float(ensemble.entropy(base=2)) if isinstance(ensemble, ExactEnsemble) else None


def _thresholds(result: FitResult, ranges: NDArray[Any]) -> tuple[Threshold, ...]:
    model: Any = result.model
    labels = [
        (name, code)
        for name, (first, last) in zip(model.space.labels, ranges.tolist(), strict=True)
        for code in range(first + 1, last + 1)
    ]
    errors: Any = [math.nan] * len(model.parameters)
    if result.standard_errors is not None:
        errors = result.standard_errors
    values = zip(labels, model.parameters, errors, strict=False)
    return tuple(
        Threshold(name, code, float(value), None if math.isnan(error) else float(error))
        for (name, code), value, error in values
    )


def _couplings(model: Any, errors: Array | None) -> Couplings:
    """The strongest couplings, by the pairs of the model."""
    values, (i, j) = model.weights[model.pairs], model.pairs
    order = np.argsort(-np.abs(values), kind="stable")[:1000]
    labels = model.space.labels
    listed = tuple(
        Coupling(
            (labels[i[k]], labels[j[k]]),
            float(values[k]),
            None if errors is None else float(errors[k]),
        )
        for k in order
    )
    return Couplings(n_couplings=len(values), strongest=listed)
