"""The whole path of sparse models, from no couplings to nearly all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from ebm._arrays import as_integer, as_number, read_only
from ebm._iterate import iterate
from ebm._parallel import single_threaded_blas
from ebm._progress import entries
from ebm._types import Array, Flags
from ebm.ensembles import Ensemble
from ebm.errors import EbmError, ModelError, NoMaximumWarning, NotConvergedWarning, warn
from ebm.forms import has_pairs
from ebm.inversion._local_problem import LocalProblem
from ebm.inversion._rows import read_rows
from ebm.inversion.pseudolikelihood import Pseudolikelihood
from ebm.learning._existence import empty_cells, listed
from ebm.learning._sparse_problem import SparseProblem
from ebm.learning.fit import problem_of
from ebm.learning.losses import Loss
from ebm.learning.penalties import AppliedPenalty, Penalty, as_penalty
from ebm.learning.proximal_newton import ProximalNewton
from ebm.model import refuse_result
from ebm.perturbation._costs import require_within
from ebm.spaces._labels import shown

__all__ = ["RegularizationPath", "regularization_path"]

#: Time and memory that a path may take, and the speed that estimates go by.
MOST_SECONDS, MOST_BYTES, OPERATIONS_PER_SECOND = 3600.0, 8 * 2.0**30, 1.5e10
#: Largest slope, in the coding of the family, that is rounding: no coupling enters.
NOTHING = 1e-12
#: Log-odds from which on every row of a unit is predicted: .99.
CERTAIN = 4.6
#: Largest violation of the conditions of the minimum along a path, unless a solver says otherwise.
TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class RegularizationPath:
    """Minima of L(θ) + λ Σ|W| for decreasing λ.

    Parameters
    ----------
    family : BoltzmannMachine or IsingModel
        The model that was given, with the names of the data.
    data : Ensemble or Moments
        What was learnt from.
    loss : Loss
        The loss.
    penalty : Penalty
        What else was penalized or held.
    l1 : ndarray, (k,)
        The strengths λ, from the one at which the first coupling enters.
    coordinates : ndarray, (k, K)
        The minima in the coordinates of the problem.
    objectives : ndarray, (k,)
        L(θ) + λ Σ|W|, with squares where the penalty has them; of all units where each is a
        regression.
    residuals : ndarray, (k,)
        Largest violation of the conditions of the minimum over all couplings.
    message : str
        Where the path ended, and why.
    solver : ProximalNewton
        The solver, which choices along the path take, too.

    Examples
    --------
    >>> import ebm
    >>> rows = ebm.exact(ebm.IsingModel([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]], [0, 0, 0]))
    >>> model = ebm.IsingModel([[0, 0, 0], [0, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> path = ebm.inversion.regularization_path(model, rows.sample(500, 1), n_lambda=3)
    >>> path.supports
    array([[False, False, False],
           [ True, False, False],
           [ True,  True,  True]])
    """

    family: Any
    data: Any
    loss: Any
    penalty: Penalty
    l1: Array
    coordinates: Array
    objectives: Array
    residuals: Array
    message: str
    solver: ProximalNewton

    def __repr__(self) -> str:
        most = int(self.supports.sum(axis=1).max())
        return (
            f"RegularizationPath({len(self.l1)} strengths from {self.l1[0]:.3g} to "
            f"{self.l1[-1]:.3g}, up to {most} of {self.supports.shape[1]} couplings)"
        )

    def __getstate__(self) -> dict[str, Any]:
        # What is made anew on first use need not go to other processes.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def problem(self) -> Any:
        """The loss on its data, for any strength."""
        return sparse_problem(self.family, self.data, self.loss, self.penalty)[0]

    @cached_property
    def models(self) -> tuple[Any, ...]:
        """The model at each strength, with the names and in the coding of the family."""
        family = self.family
        return tuple(family.with_parameters(row) for row in self.parameters)

    @cached_property
    def parameters(self) -> Array:
        """Those of the models, (k, p)."""
        return read_only(np.array([self.problem.parameters(row) for row in self.coordinates]))

    @cached_property
    def supports(self) -> Flags:
        """Which of the couplings of ``model.pairs`` are not zero, (k, number of pairs)."""
        flags: Flags = self.parameters[:, self.family.space.n :] != 0
        flags.setflags(write=False)
        return flags


def regularization_path(
    model: Any,
    data: Any,
    *,
    loss: Loss | None = None,
    penalty: Penalty | float | None = None,
    n_lambda: int = 50,
    ratio: float = 0.01,
    solver: ProximalNewton | None = None,
    progress: bool = False,
) -> RegularizationPath:
    """Minimize L(θ) + λ Σ|W| for a series of strengths λ, each from the minimum before.

    The first λ is the largest slope of the loss by a coupling without any, above which all are
    zero. Couplings whose slopes stay below 2λ − λ' after the minimum at λ' are left out at first
    :cite:`tibshirani2012`; the conditions of the minimum are then checked for all of them.

    Parameters
    ----------
    model : BoltzmannMachine or IsingModel
        The family: its center, diagonal, names and pattern of couplings are kept.
    data : array_like, DataFrame, Table or Ensemble
        Rows in the coding of the model, or an ensemble.
    loss : Loss, optional
        By default ``ebm.inversion.Pseudolikelihood()``; or ``ebm.Likelihood()`` for few units,
        ``ebm.inversion.InteractionScreening()`` or ``ebm.inversion.MinimumProbabilityFlow()``.
    penalty : Penalty or float, optional
        What else is penalized, ``l2`` and ``l2_biases``, and which parameters are ``free``.
    n_lambda : int
        Number of strengths, in equal steps of ln λ.
    ratio : float
        The last strength, in units of the first.
    solver : ProximalNewton, optional
        The solver with its tolerance, by default 1e-6, and largest number of steps.
    progress : bool
        Show each step on the standard error stream.

    Returns
    -------
    RegularizationPath
        Strengths, models, supports, objectives and residuals. The path ends where every value of a
        unit is predicted by the others with a probability above .99, as there is no limit λ → 0
        then, where the conditions of the minimum cannot be met, or at Ctrl-C; ``message`` says so.

    Raises
    ------
    EbmError
        If the penalty has an l1 or ties, no coupling can enter, or a setting is out of range.
    ModelError
        If the model is not pairwise in two-valued units, or moments do not suffice.
    ConstantUnitError
        If a unit never changes and ``penalty.l2_biases`` is zero.
    LimitError
        If the path would take more than an hour, or 8 GiB; raised before any work.

    Examples
    --------
    >>> import ebm
    >>> truth = ebm.IsingModel([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> model = ebm.IsingModel([[0, 0, 0], [0, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> path = ebm.inversion.regularization_path(model, ebm.exact(truth).sample(500, rng=1))
    >>> len(path.models), bool((path.residuals < 1e-6).all())
    (50, True)
    """
    penalty, loss = as_penalty(penalty), Pseudolikelihood() if loss is None else loss
    if penalty.l1:
        raise EbmError(f"a path has all strengths: give a penalty without l1, got {penalty.l1:g}")
    n_lambda = as_integer(n_lambda, "n_lambda", least=2)
    if not 0 < as_number(ratio, "ratio") < 1:
        raise EbmError(f"ratio must be between 0 and 1, got {ratio!r}")
    solver = ProximalNewton(TOLERANCE) if solver is None else solver
    if not isinstance(solver, ProximalNewton):
        raise EbmError(f"solver must be ebm.ProximalNewton() with its settings, got {solver!r}")
    problem, data = sparse_problem(model, data, loss, penalty)
    _require_feasible(problem, n_lambda)
    with single_threaded_blas():
        largest = problem.largest_l1
    if not largest > NOTHING:
        raise EbmError(
            "no coupling enters the path: none is free, or units are independent in the data"
        )
    strengths = largest * ratio ** np.linspace(0, 1, n_lambda)
    points: list[tuple[Array, float, float]] = []
    why = ""
    with entries(progress) as show:
        for l1, run, sparse in followed(problem, strengths, solver, show):
            why = _why_not(run, l1)
            theta = run.state["theta"]
            if why:
                break
            points.append((theta, sparse.objective(theta), sparse.residual(theta)))
            why = _separated(problem, data, theta)
            if why:
                warn(f"the path ends at l1 = {l1:.3g}: {why}", NoMaximumWarning)
                break
    if not points:
        raise EbmError(f"the path has no first model: {why}")
    coordinates, objectives, residuals = (np.array(part) for part in zip(*points, strict=True))
    ends = f"{len(points)} strengths from {largest:.3g} to {strengths[len(points) - 1]:.3g}"
    if len(points) < n_lambda:
        reason = f"; ended before {strengths[-1]:.3g}, as {why}"
    else:
        limit = why or _no_limit(problem, data, points[-1][0])
        reason = f"; without l1 there is no minimum: {limit}" if limit else ""
    return RegularizationPath(
        family=problem.family,
        data=data,
        loss=loss,
        penalty=penalty,
        l1=read_only(strengths[: len(points)]),
        coordinates=read_only(coordinates),
        objectives=read_only(objectives),
        residuals=read_only(residuals),
        message=f"{ends}{reason}",
        solver=solver,
    )


def _require_feasible(problem: SparseProblem, n_lambda: int) -> None:
    """Refuse a path of hours before any work; exact sums have limits of their own."""
    if not isinstance(problem, LocalProblem):
        return
    m, n = problem.rows.states.shape
    # Curvatures are taken about once in four strengths, slopes four times at each.
    seconds = n_lambda * (0.25 * m * n**3 + 40.0 * m * n**2) / OPERATIONS_PER_SECOND
    require_within(
        f"a path of {n_lambda} strengths for {n} units and {m} distinct rows",
        seconds,
        4.0 * n**3 + 64.0 * m * n,
        "take fewer units, rows or strengths",
        max_seconds=MOST_SECONDS,
        max_bytes=MOST_BYTES,
    )


def require_pairwise(model: Any) -> None:
    """Refuse models whose parameters are not fields and couplings of two-valued units."""
    refuse_result(model)
    if not has_pairs(model):
        raise ModelError(
            "sparse networks are pairwise models of two-valued units such as ebm.IsingModel, got "
            f"{type(model).__name__}"
        )


def sparse_problem(model: Any, data: Any, loss: Any, penalty: Penalty) -> tuple[SparseProblem, Any]:
    """The problem of a loss at any strength, and the data as an ensemble or moments."""
    if not callable(getattr(loss, "of", None)) or isinstance(loss, type):
        raise EbmError(f"loss must be one such as ebm.inversion.Pseudolikelihood(), got {loss!r}")
    require_pairwise(model)
    problem, data = problem_of(model, data, loss, replace(penalty, l1=1.0))
    if callable(getattr(problem, "sparse", None)):
        problem = problem.sparse()
    if not isinstance(problem, SparseProblem):
        raise EbmError(
            f"{type(loss).__name__} of {type(data).__name__} has no path: give complete rows, and "
            "ebm.Likelihood() or a loss of ebm.inversion"
        )
    return problem, data


def followed(
    problem: SparseProblem, strengths: Array, solver: Any, show: Any = None
) -> Iterator[tuple[float, Any, Any]]:
    """(λ, run, loss) for each strength, decreasing, each run from the minimum before."""
    theta, before = problem.without_couplings, float(strengths[0])
    for l1 in strengths.tolist():
        loss = problem.loss(l1, screen=2 * l1 - before)
        with single_threaded_blas():
            run = iterate(solver, loss, theta, progress=show)
        yield l1, run, loss
        theta, before = run.state["theta"], l1


def _why_not(run: Any, l1: float) -> str:
    """Why a strength gave no model; empty if it did."""
    if run.reason == "converged":
        return ""
    if run.reason == "interrupted":
        return "it was interrupted"
    norm = run.history[-1].gradient_norm
    why = {
        "unbounded": "the loss falls for ever: some units are predicted without error by others",
        "iterations": f"max_iterations = {run.history[-1].iteration} was reached",
        "rounding": "rounding hides any progress",
    }.get(run.reason, run.reason)
    sentence = f"at l1 = {l1:.3g} {why} (conditions of the minimum hold to {norm:.1e})"
    kind = NoMaximumWarning if run.reason == "unbounded" else NotConvergedWarning
    warn(f"the path ends early: {sentence}", kind)
    return sentence


def _separated(problem: SparseProblem, data: Any, theta: Array) -> str:
    """A sentence about units that the others predict in every row with p > .99; or empty."""
    if problem.penalty.strength.l2 or not np.isfinite(data.sample_size):
        return ""
    units = problem.separated(theta, CERTAIN)
    if not len(units):
        return ""
    labels = [problem.family.space.labels[unit] for unit in units]
    subject = "unit {} is" if len(labels) == 1 else "units {} are"
    return f"{subject.format(shown(labels))} predicted without error by the other units"


def _no_limit(problem: SparseProblem, data: Any, theta: Array) -> str:
    """A sentence about units whose couplings grow for ever as λ → 0; or empty."""
    if problem.penalty.strength.l2 or not np.isfinite(data.sample_size):
        return ""
    moments = read_rows(data).moments if isinstance(data, Ensemble) else data
    free = AppliedPenalty(problem.family, Penalty())
    reason = listed(empty_cells(moments, problem.family.pairs, free))
    units = [problem.family.space.labels[unit] for unit in problem.separated(theta)]
    if not reason and units:
        reason = f"{shown(units)} can be predicted without error by the other units"
    return reason
