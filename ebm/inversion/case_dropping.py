"""How stable couplings are when some of the cases are left out: the stability coefficient."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats, as_integer, as_number, read_only
from ebm._checkpoints import fingerprint
from ebm._frames import frame
from ebm._jobs import Answer, Engine, loop, run_jobs
from ebm._parallel import single_threaded_blas
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.errors import EbmError, ShapeError
from ebm.inversion._rows import DistinctRows, whole_counts
from ebm.inversion.uncertainty import (
    counted_rows,
    model_of,
    parameters_on,
    reasons_of,
    require_function,
)

__all__ = ["CaseDropping", "case_dropping"]

#: Shares of the cases that are left out.
DROPPED = tuple(float(share) for share in np.round(np.linspace(0.05, 0.75, 10), 10))


@dataclass(frozen=True, eq=False, repr=False)
class CaseDropping:
    """Agreement of subsets of the cases with all of them.

    Parameters
    ----------
    dropped : ndarray, (k,)
        Shares of the cases that were left out.
    correlations : ndarray, (k, n_resamples)
        Pearson correlation of the statistic of each subset with that of all cases; 0 where it is
        not defined, as where all values of a subset are equal, or the method gave no model.
    n_failed : int
        Number of subsets on which the method gave no model.
    failures : tuple of (str, int)
        The reasons with their frequencies, the most frequent first.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm
    >>> agreement = np.array([[0.9] * 99 + [0.1], [0.9] * 96 + [0.6] * 4, [0.9] * 95 + [0.7] * 5])
    >>> ebm.inversion.CaseDropping(np.array([0.25, 0.5, 0.75]), agreement).stability_coefficient()
    0.5
    """

    dropped: Array
    correlations: Array
    n_failed: int = 0
    failures: tuple[tuple[str, int], ...] = ()

    def __repr__(self) -> str:
        return (
            f"CaseDropping({len(self.dropped)} shares of {self.correlations.shape[1]} subsets, "
            f"stability coefficient {self.stability_coefficient():.3g}, {self.n_failed} failed)"
        )

    def stability_coefficient(self, correlation: float = 0.7, share: float = 0.95) -> float:
        """Largest share of cases that can be dropped while most subsets agree with all cases.

        max {d : #{subsets at d with correlation > ρ} / #subsets > share}, or 0 if there is none
        :cite:`epskamp2018`.

        Parameters
        ----------
        correlation : float
            ρ, the correlation above which a subset agrees, from −1 to 1.
        share : float
            The share of the subsets that must agree, from 0 to 1.

        Returns
        -------
        float
            One of ``dropped``, or 0. By convention values above .5 count as stable, and values
            below .25 as not interpretable.

        Raises
        ------
        EbmError
            If ``correlation`` or ``share`` is out of range.
        """
        if not -1 <= as_number(correlation, "correlation") <= 1:
            raise EbmError(f"correlation must be a number from -1 to 1, got {correlation!r}")
        if not 0 <= as_number(share, "share") <= 1:
            raise EbmError(f"share must be a number from 0 to 1, got {share!r}")
        agree = (self.correlations > correlation).mean(axis=1) > share
        return float(self.dropped[agree].max(initial=0.0))

    def to_frame(self) -> Any:
        """One row for each share of dropped cases, a pandas frame; needs the extra ``data``.

        Returns
        -------
        pandas.DataFrame
            Rows by the share; columns ``mean``, ``low`` and ``high``, of the correlations of its
            subsets their mean and the ends between which 95 % of them are.
        """
        low, high = np.quantile(self.correlations, [0.025, 0.975], axis=1)
        columns = {"dropped": self.dropped, "mean": self.correlations.mean(axis=1)}
        return frame(columns | {"low": low, "high": high}, "dropped")


def case_dropping(
    method: Callable[[Any], Any],
    data: Any,
    *,
    dropped: ArrayLike = DROPPED,
    statistic: Callable[[Any], ArrayLike] | None = None,
    n_resamples: int = 200,
    rng: RandomSource = None,
    executor: Engine | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> CaseDropping:
    """Repeat an inversion on subsets of the cases, and compare a statistic with that of all.

    A subset at share d holds round((1 − d) N) cases, drawn without replacement: counts of distinct
    rows are multivariate hypergeometric.

    Parameters
    ----------
    method, data, rng, executor, checkpoint
        As in :func:`bootstrap`; the samples are the cases, and subsets are written and fitted in
        parallel.
    dropped : array_like, (k,)
        Shares of the cases to leave out, between 0 and 1; by default ten from .05 to .75.
    statistic : callable, optional
        A function from a model to at least two numbers, such as the strength of each unit; by
        default the couplings.
    n_resamples : int
        Number of subsets for each share.

    Returns
    -------
    CaseDropping
        Correlations of all subsets, and the stability coefficient.

    Raises
    ------
    ModelError
        If ``method`` is not a function, or ``data`` are moments.
    ShapeError
        If ``statistic`` gives fewer than two numbers, or ``dropped`` has none.
    LimitError
        If there are 10⁹ cases or more.
    EbmError
        If the data are exact, their frequencies are not whole numbers, a share leaves none or all
        of the cases, or all values of the statistic are equal.

    Examples
    --------
    >>> import ebm
    >>> truth = ebm.IsingModel([[0, 0.8, 0], [0.8, 0, -0.5], [0, -0.5, 0]], [0.1, 0, 0.2])
    >>> rows = ebm.Ensemble.from_data(ebm.exact(truth).sample(400, rng=1), space=ebm.Spins)
    >>> result = ebm.inversion.case_dropping(ebm.inversion.bethe, rows, n_resamples=50, rng=1)
    >>> result.stability_coefficient()
    0.75
    """
    require_function(method)
    n_resamples = as_integer(n_resamples, "n_resamples", least=2)
    rows = counted_rows(data)
    counts = whole_counts(rows.weights * rows.sample_size, "cases are dropped")
    shares = _checked_shares(dropped, int(counts.sum()))
    with loop(), single_threaded_blas():
        reference = model_of(method(rows.resampled(counts)))
        of_all = _values(statistic, reference)
        if not np.ptp(of_all) > 0:
            raise EbmError(
                "all values of the statistic on all cases are equal, so that no subset can "
                "correlate with them: choose another statistic"
            )
        seeds = generator(rng).integers(0, 2**63, n_resamples * len(shares)).tolist()
        inputs = [(float(shares[k % len(shares)]), seed) for k, seed in enumerate(seeds)]
        answers = run_jobs(
            partial(_of_subset, method, statistic),
            inputs,
            shared=(rows, counts, reference),
            executor=executor,
            checkpoint=checkpoint,
            settings={
                "method": fingerprint(method),
                "statistic": fingerprint(statistic),
                "data": rows.fingerprint(),
                "dropped": fingerprint(shares),
                # With more subsets the first of them are the same.
                "rng": fingerprint(np.array(seeds[:2])),
            },
        )
    values = [answer.get("values") for answer in answers]
    correlations = [0.0 if value is None else _correlation(value, of_all) for value in values]
    failures = reasons_of(answer for answer in answers if "values" not in answer)
    table = np.array(correlations).reshape(n_resamples, len(shares)).T
    n_failed = sum(value is None for value in values)
    return CaseDropping(read_only(shares), read_only(table), n_failed, failures)


def _of_subset(
    method: Callable[[Any], Any],
    statistic: Callable[[Any], ArrayLike] | None,
    rows: DistinctRows,
    counts: Any,
    reference: Any,
    share_and_seed: tuple[float, int],
) -> Answer:
    """The statistic on a subset, or why there is none."""
    share, seed = share_and_seed
    kept = _kept(share, int(counts.sum()))
    drawn = np.random.default_rng(seed).multivariate_hypergeometric(counts, kept)
    answer = parameters_on(lambda: method(rows.resampled(drawn)), reference)
    if "parameters" not in answer:
        return answer
    return {"values": _values(statistic, reference.with_parameters(answer["parameters"]))}


def _values(statistic: Callable[[Any], ArrayLike] | None, model: Any) -> Array:
    """The statistic of a model, (k,)."""
    if statistic is None:
        if not hasattr(model, "is_coupling"):
            raise EbmError(
                f"{type(model).__name__} does not say which parameters are couplings: give "
                "statistic=, a function from the model to the numbers that are compared"
            )
        values = model.parameters[model.is_coupling]
    else:
        values = as_floats(statistic(model), "statistic").ravel()
    if len(values) < 2:
        raise ShapeError(
            f"statistic must give at least two numbers to correlate, got {len(values)}"
        )
    return np.asarray(values, dtype=np.float64)


def _correlation(values: Array, of_all: Array) -> float:
    """Pearson's correlation, 0 where it is not defined."""
    one, other = values - values.mean(), of_all - of_all.mean()
    scale = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / scale) if scale > 0 and np.isfinite(scale) else 0.0


def _checked_shares(dropped: ArrayLike, size: int) -> Array:
    shares = np.atleast_1d(as_floats(dropped, "dropped"))
    if shares.ndim != 1 or not len(shares):
        raise ShapeError(f"dropped must be a list of shares, got shape {shares.shape}")
    for share in shares:
        if not (0 < share < 1 and 0 < _kept(share, size) < size):
            raise EbmError(
                f"dropped must hold shares between 0 and 1 that leave out some of the {size} "
                f"cases, not all, got {share:g}"
            )
    return shares


def _kept(share: float, size: int) -> int:
    """Number of cases in a subset."""
    return round((1 - share) * size)
