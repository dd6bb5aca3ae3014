"""Which model of a path: an information criterion, cross-validation, or stability."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import as_integer, as_number, read_only
from ebm._checkpoints import fingerprint, fingerprints
from ebm._frames import frame
from ebm._iterate import iterate
from ebm._jobs import Answer, Engine, loop, run_jobs
from ebm._parallel import single_threaded_blas
from ebm._randomness import RandomSource, generator
from ebm._types import Array, Flags
from ebm.ensembles import Ensemble
from ebm.errors import (
    ConstantUnitError,
    EbmError,
    SingularCovarianceError,
    UnusedCategoryError,
)
from ebm.inversion._rows import DistinctRows, read_rows, whole_counts
from ebm.inversion.path import TOLERANCE, RegularizationPath, followed, sparse_problem
from ebm.learning._pair_groups import PairGroups
from ebm.learning._sparse_likelihood import SparseLikelihoodProblem
from ebm.learning._sparse_problem import SparseProblem
from ebm.learning.proximal_newton import ProximalNewton
from ebm.models._edge_list import pair_columns

__all__ = [
    "Selection",
    "StabilityResult",
    "cross_validation",
    "extended_bic",
    "stability_selection",
]

#: Accuracy of the refits that a criterion compares.
REFIT = 1e-9
#: γ from which on products with it may overflow.
LARGEST_GAMMA = 1e100


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """A model chosen from a path.

    Parameters
    ----------
    path : RegularizationPath
        The path.
    indices : ndarray of int, (1,) or (n,)
        Which strength was chosen: one, or one for each unit where each is a regression.
    scores : ndarray, (k,) or (n, k)
        What was minimized, for every strength; NaN where it could not be computed.
    score_errors : ndarray, (k,), or None
        Standard errors of the scores over folds.

    Examples
    --------
    >>> import ebm
    >>> truth = ebm.IsingModel([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> model = ebm.IsingModel([[0, 0, 0], [0, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> path = ebm.inversion.regularization_path(model, ebm.exact(truth).sample(500, rng=1))
    >>> ebm.inversion.extended_bic(path).support
    array([ True, False, False])
    """

    path: RegularizationPath
    indices: NDArray[Any]
    scores: Array
    score_errors: Array | None = None

    def __repr__(self) -> str:
        noun = self.path.problem.groups.noun
        return f"Selection({int(self.support.sum())} of {len(self.support)} {noun})"

    @cached_property
    def model(self) -> Any:
        """The penalized model of the path; of regressions, joined by the rule of the loss."""
        problem = self.path.problem
        if len(self.indices) == 1:
            return self.path.models[self.indices[0]]
        theta = self.path.coordinates[0].copy()
        for index, part in zip(self.indices, problem.smooth.parts, strict=True):
            theta[part] = self.path.coordinates[index, part]
        return problem.family.with_parameters(problem.parameters(theta))

    @property
    def support(self) -> Flags:
        """Which of the pairs of ``model.pairs`` have couplings, (number of pairs,)."""
        groups: PairGroups = self.path.problem.groups
        return groups.supports(np.asarray(self.model.parameters))

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs that have couplings, by the names of their units."""
        return named_pairs(self.path, self.support)

    @property
    def free(self) -> Flags:
        """Flags of biases and chosen couplings, for a refit by ``ebm.Penalty(free=…)``, (p,)."""
        groups: PairGroups = self.path.problem.groups
        return groups.flags(self.support)

    def to_frame(self) -> Any:
        """One row for each pair, a pandas frame; needs the extra ``data``.

        Returns
        -------
        pandas.DataFrame
            Columns ``source``, ``target``, ``length``, |W_ij| of ``model`` as the penalty takes it,
            and ``is_chosen``.
        """
        groups: PairGroups = self.path.problem.groups
        lengths = groups.lengths(np.asarray(self.model.parameters))
        return frame(
            pair_columns(self.path.family) | {"length": lengths, "is_chosen": self.support}
        )


def named_pairs(path: RegularizationPath, support: Flags) -> tuple[tuple[str, str], ...]:
    """Labels of both units of these pairs."""
    labels, chosen = path.family.space.labels, np.asarray(path.family.pairs)[:, support]
    return tuple((labels[i], labels[j]) for i, j in chosen.T.tolist())


def extended_bic(path: RegularizationPath, gamma: float = 0.25) -> Selection:
    """Choose by the extended Bayesian information criterion, the least of −2ℓ + k ln M + 4γκ ln n.

    ℓ is the log-likelihood of M rows, maximized again over the couplings that are not zero, k their
    number, and κ that of their pairs, the same where each pair has one: k measures how well
    couplings fit by chance, and κ in how many ways pairs can be chosen :cite:`chen2008`. The joint
    pseudo-likelihood counts each pair twice, so that chance gains twice as much: k is tr(V H⁻¹)
    less the number of biases there, with H the Hessian and V the covariance of the row scores, and
    κ grows in proportion. Node-wise regressions choose by themselves, from the penalized estimates,
    the least of −2ℓ_i + k_i ln M + 2γκ_i ln(n − 1) :cite:`vanborkulo2014`.

    Parameters
    ----------
    path : RegularizationPath
        A path of ``ebm.Likelihood()`` or ``ebm.inversion.Pseudolikelihood()``.
    gamma : float
        How much larger sets of couplings are charged for their number, from 0, the plain criterion.

    Returns
    -------
    Selection
        The strengths chosen and the criterion at all of them.

    Raises
    ------
    EbmError
        If the loss is no likelihood, ``gamma`` is negative or above 1e100, or the number of rows is
        not known.

    Notes
    -----
    Within one set of couplings the smallest strength is taken. From penalized estimates it also
    has the least criterion, so that the strengths of the path matter to node-wise regressions.

    Examples
    --------
    >>> import ebm
    >>> truth = ebm.IsingModel([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> model = ebm.IsingModel([[0, 0, 0], [0, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> path = ebm.inversion.regularization_path(model, ebm.exact(truth).sample(500, rng=1))
    >>> ebm.inversion.extended_bic(path, gamma=0.5).support
    array([ True, False, False])
    """
    _require_path(path)
    if not 0 <= as_number(gamma, "gamma") <= LARGEST_GAMMA:
        raise EbmError(f"gamma must not be negative, nor above {LARGEST_GAMMA:g}, got {gamma!r}")
    size = _finite_size(path)
    problem = path.problem
    if not problem.is_likelihood:
        raise EbmError(
            "the criterion needs a likelihood or a pseudo-likelihood, the loss of this path is "
            f"{type(path.loss).__name__}: take ebm.inversion.cross_validation"
        )
    if problem.is_separate:
        return _by_regressions(path, gamma, size)
    scores = np.full(len(path.l1), math.nan)
    known: dict[bytes, float] = {}
    for index, theta in enumerate(path.coordinates):
        there = problem.present(theta)
        key = there.tobytes()
        if key not in known:
            known[key] = _criterion(problem, theta, there, gamma, size)
        scores[index] = known[key]
    if not np.isfinite(scores).any():
        raise EbmError("no model of the path has a criterion: no refit has a minimum")
    # Of the strengths with one set of couplings the weakest, which shrinks them least.
    best = np.flatnonzero(scores == np.nanmin(scores))[-1]
    return Selection(path, np.array([best]), read_only(scores))


def _criterion(
    problem: SparseProblem, theta: Array, there: Flags, gamma: float, size: float
) -> float:
    """−2ℓ + k ln M + 4γκ ln n of the refit of these groups, NaN where there is none."""
    refit = _refit(problem, theta, there)
    if refit is None:
        return math.nan
    free = np.repeat(there, np.diff(problem.starts))
    n_couplings = float((free & problem.is_coupling).sum())
    k, n_pairs = n_couplings, float((there & problem.are_couplings).sum())
    if not isinstance(problem, SparseLikelihoodProblem):
        conditionals: Any = problem
        try:
            charged = conditionals.sandwich_among(refit, free).effective_parameters()
        except SingularCovarianceError:
            return math.nan
        k = charged - float((~problem.is_coupling).sum())
    loss = -problem.smooth.point(refit).log_likelihood
    by_choice = 4 * gamma * math.log(problem.family.space.n) * n_pairs / max(n_couplings, 1.0)
    return float(2 * size * loss + k * (math.log(size) + by_choice))


def _refit(problem: SparseProblem, theta: Array, there: Flags) -> Array | None:
    """The minimum over these groups without l1, (K,); None if the search finds none."""
    held = replace(problem.loss(0.0), only=there)
    with loop(), single_threaded_blas():
        run = iterate(ProximalNewton(REFIT), held, theta)
    refit: Array = run.state["theta"]
    return refit if held.residual(refit) < TOLERANCE else None


def _by_regressions(path: RegularizationPath, gamma: float, size: float) -> Selection:
    """The criterion of each unit at the penalized estimates."""
    problem = path.problem
    n = problem.family.space.n
    by_choice = 2 * gamma * math.log(max(n - 1, 1))
    begins, are_couplings = problem.starts[:-1], problem.are_couplings
    owner = np.empty(len(problem.is_coupling), dtype=np.intp)
    for unit, part in enumerate(problem.smooth.parts):
        owner[part] = unit
    scores = np.empty((n, len(path.l1)))
    for index, theta in enumerate(path.coordinates):
        there = problem.present(theta) & are_couplings
        n_pairs = np.bincount(owner[begins[there]], minlength=n)
        counts = np.bincount(owner[begins], there * np.diff(problem.starts), minlength=n)
        charges = counts * math.log(size) + n_pairs * by_choice
        scores[:, index] = 2 * size * problem.smooth.unit_losses(theta) + charges
    return Selection(path, scores.argmin(axis=1), read_only(scores))


def cross_validation(
    path: RegularizationPath,
    *,
    n_folds: int = 10,
    rng: RandomSource = None,
    executor: Engine | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Selection:
    """Choose the strength whose models have the least loss on rows that they were not fitted to.

    Each of the folds is held out once, and the path of the others evaluated on it, without penalty.
    Distinct rows are stored once, so that folds are draws of their counts without replacement.

    Parameters
    ----------
    path : RegularizationPath
        The path of all rows, with its strengths.
    n_folds : int
        Number of folds.
    rng, executor, checkpoint
        As in :func:`bootstrap`, for folds.

    Returns
    -------
    Selection
        The strength chosen and the mean loss of a held-out row, in nats, with its standard error.

    Raises
    ------
    EbmError
        If there are fewer rows than folds, frequencies are no whole numbers, or a fold has no path.

    Examples
    --------
    >>> import ebm
    >>> truth = ebm.IsingModel([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> model = ebm.IsingModel([[0, 0, 0], [0, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> path = ebm.inversion.regularization_path(model, ebm.exact(truth).sample(500, rng=1))
    >>> ebm.inversion.cross_validation(path, n_folds=5, rng=0).scores.shape
    (50,)
    """
    n_folds = as_integer(n_folds, "n_folds", least=2)
    rows, counts = _counted_rows(path)
    total = int(counts.sum())
    if total < n_folds:
        raise EbmError(f"{n_folds} folds need as many rows, got {total}")
    random = generator(rng)
    folds, left = [], counts.copy()
    for fold in range(n_folds):
        size = total * (fold + 1) // n_folds - total * fold // n_folds
        drawn = random.multivariate_hypergeometric(left, size, method="marginals")
        left -= drawn
        folds.append(drawn)
    answers = _run(_held_out, folds, (path, rows, counts), executor, checkpoint)
    losses = np.array([answer["losses"] for answer in answers])
    shares = np.array([fold.sum() for fold in folds]) / total
    scores = shares @ losses
    spread = np.sqrt(shares @ (losses - scores) ** 2 / (n_folds - 1))
    best = np.array([int(scores.argmin())])
    return Selection(path, best, read_only(scores), read_only(spread))


def _held_out(
    path: RegularizationPath, rows: DistinctRows, counts: NDArray[Any], fold: NDArray[Any]
) -> Answer:
    """The loss of a fold at each strength of the path of the others, (k,)."""
    learnt = _problem_on(path, rows.resampled(counts - fold))
    test, losses = rows.resampled(fold), []
    for l1, run, _ in followed(learnt, path.l1, path.solver):
        _require_minimum(run, l1, "without one fold", "fewer folds, or a path that ends before")
        losses.append(learnt.loss_on(test, run.state["theta"]))
    return {"losses": np.array(losses)}


@dataclass(frozen=True, eq=False, repr=False)
class StabilityResult:
    """How often couplings are chosen from halves of the rows.

    Parameters
    ----------
    path : RegularizationPath
        The path of all rows.
    frequencies : ndarray, (k, number of pairs)
        Share of the halves in which a coupling is not zero at each strength.
    n_chosen : float
        Mean number of couplings that a half chooses at any strength of the path.
    threshold : float
        The share from which on a coupling is stable.

    Examples
    --------
    >>> import ebm
    >>> truth = ebm.IsingModel([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> model = ebm.IsingModel([[0, 0, 0], [0, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> rows = ebm.exact(truth).sample(500, rng=1)
    >>> path = ebm.inversion.regularization_path(model, rows, strengths=np.geomspace(1, 0.3, 5))
    >>> ebm.inversion.stability_selection(path, n_halves=20, rng=0).support
    array([ True, False, False])
    """

    path: RegularizationPath
    frequencies: Array
    n_chosen: float
    threshold: float

    def __repr__(self) -> str:
        stable, pairs = int(self.support.sum()), len(self.support)
        noun, false = self.path.problem.groups.noun, self.expected_false
        bound = f"at most {false:.2g} of them false on average"
        if false >= stable:
            bound = f"whose bound of {false:.2g} false ones says nothing: end the path earlier"
        return f"StabilityResult({stable} of {pairs} {noun} from {self.threshold:g} on, {bound})"

    @property
    def support(self) -> Flags:
        """Couplings whose largest frequency is at least the threshold, (number of pairs,)."""
        return np.asarray(self.frequencies.max(axis=0) >= self.threshold)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The stable pairs, by the names of their units."""
        return named_pairs(self.path, self.support)

    @property
    def expected_false(self) -> float:
        """A bound on the mean number of absent couplings among the stable ones.

        q²/((2π − 1) p) with q = ``n_chosen`` of p pairs and the threshold π, for absent couplings
        that are alike :cite:`meinshausen2010`.
        """
        pairs = self.frequencies.shape[1]
        return float(self.n_chosen**2 / ((2 * self.threshold - 1) * pairs))

    def to_frame(self) -> Any:
        """One row for each pair, a pandas frame; needs the extra ``data``.

        Returns
        -------
        pandas.DataFrame
            Columns ``source``, ``target``, ``frequency``, the largest along the path, and
            ``is_stable``.
        """
        largest = self.frequencies.max(axis=0)
        return frame(
            pair_columns(self.path.family) | {"frequency": largest, "is_stable": self.support}
        )


def stability_selection(
    path: RegularizationPath,
    *,
    n_halves: int = 100,
    threshold: float = 0.75,
    rng: RandomSource = None,
    executor: Engine | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> StabilityResult:
    """Count in which halves of the rows each coupling is chosen :cite:`meinshausen2010`.

    Halves are drawn as the folds of :func:`cross_validation` are.

    Parameters
    ----------
    path : RegularizationPath
        The path of all rows, with its strengths; a short one, as every coupling enters at its end.
    n_halves : int
        Number of halves.
    threshold : float
        The share from which on a coupling is stable, above one half.
    rng, executor, checkpoint
        As in :func:`bootstrap`, for halves.

    Returns
    -------
    StabilityResult
        Frequencies at every strength, the stable couplings, and a bound on the false ones.

    Raises
    ------
    EbmError
        If frequencies are no whole numbers, or a setting is out of range.

    Examples
    --------
    >>> import ebm
    >>> truth = ebm.IsingModel([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> model = ebm.IsingModel([[0, 0, 0], [0, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> rows = ebm.exact(truth).sample(500, rng=1)
    >>> path = ebm.inversion.regularization_path(model, rows, strengths=np.geomspace(1, 0.3, 5))
    >>> ebm.inversion.stability_selection(path, n_halves=20, rng=0).frequencies.shape
    (5, 3)
    """
    n_halves = as_integer(n_halves, "n_halves", least=2)
    if not 0.5 < as_number(threshold, "threshold") <= 1:
        raise EbmError(f"threshold must be above 0.5 and at most 1, got {threshold!r}")
    rows, counts = _counted_rows(path)
    random, size = generator(rng), int(counts.sum()) // 2
    halves = [
        random.multivariate_hypergeometric(counts, size, method="marginals")
        for _ in range(n_halves)
    ]
    answers = _run(_chosen, halves, (path, rows), executor, checkpoint)
    chosen = np.array([answer["chosen"] for answer in answers])
    n_chosen = float(chosen.any(axis=1).sum(axis=1).mean())
    return StabilityResult(path, read_only(chosen.mean(axis=0)), n_chosen, float(threshold))


def _chosen(path: RegularizationPath, rows: DistinctRows, half: NDArray[Any]) -> Answer:
    """Which couplings are not zero at each strength, (k, number of pairs)."""
    problem = _problem_on(path, rows.resampled(half))
    chosen = []
    for l1, run, _ in followed(problem, path.l1, path.solver):
        _require_minimum(run, l1, "in one half", "a path that ends before")
        chosen.append(problem.groups.supports(problem.parameters(run.state["theta"])))
    return {"chosen": np.array(chosen)}


def _require_minimum(run: Any, l1: float, where: str, instead: str) -> None:
    if run.reason not in {"converged", "rounding"}:
        raise EbmError(f"{where} there is no model at l1 = {l1:.3g} ({run.reason}): give {instead}")


def _require_path(path: Any) -> None:
    if not isinstance(path, RegularizationPath):
        raise EbmError(
            f"path must be a result of ebm.inversion.regularization_path, got {type(path).__name__}"
        )


def _finite_size(path: RegularizationPath) -> float:
    """M, refused where it is infinite."""
    size = float(path.data.sample_size)
    if not math.isfinite(size):
        raise EbmError("choosing needs a number of rows, these data are exact: sample from them")
    return size


def _counted_rows(path: Any) -> tuple[DistinctRows, NDArray[np.int64]]:
    """Distinct rows and whole counts of them."""
    _require_path(path)
    size = _finite_size(path)
    if not isinstance(path.data, Ensemble):
        raise EbmError("rows are wanted to be divided, this path is of moments")
    rows = read_rows(path.data, two_valued=False)
    return rows, whole_counts(rows.weights * size, "rows are divided")


def _problem_on(path: RegularizationPath, data: Any) -> SparseProblem:
    """The problem of the path on some of the rows."""
    try:
        return sparse_problem(path.family, data, path.loss, path.penalty)[0]
    except (ConstantUnitError, UnusedCategoryError) as error:
        raise type(error)(
            f"in one of the parts of the rows {error}; or take fewer and larger parts"
        ) from error


def _run(
    job: Any,
    draws: list[NDArray[Any]],
    shared: tuple[Any, ...],
    executor: Engine | None,
    checkpoint: Any,
) -> list[Answer]:
    """The jobs of all draws, in order; what is shared begins with the path."""
    path: RegularizationPath = shared[0]
    settings = {
        "task": job.__name__,
        "data": " ".join(fingerprint(np.asarray(x)) for x in (path.data.states, path.data.weights)),
        "model": f"{type(path.family).__name__} over {path.family.space!r}",
        "loss": fingerprint(path.loss),
        **fingerprints(path.penalty),
        "strengths": fingerprint(path.l1),
        "solver": fingerprint(path.solver),
        "rng": fingerprint(draws[0]),
    }
    with loop():
        return run_jobs(
            job,
            draws,
            shared=shared,
            executor=executor,
            checkpoint=checkpoint,
            settings=settings,
        )
