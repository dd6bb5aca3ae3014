"""The whole path of sparse models, from no couplings to nearly all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats, as_integer, read_only
from ebm._checkpoints import checkpoint_path, fingerprint, read_checkpoint, write_checkpoint
from ebm._iterate import iterate
from ebm._parallel import single_threaded_blas
from ebm._pictures import picture
from ebm._progress import entries
from ebm._types import Array, Flags
from ebm.ensembles import Ensemble
from ebm.errors import EbmError, ModelError, NoMaximumWarning, NotConvergedWarning, warn
from ebm.forms import has_pairs
from ebm.inversion._rows import read_rows
from ebm.inversion.pseudolikelihood import Pseudolikelihood
from ebm.learning._existence import empty_cells, listed
from ebm.learning._pair_groups import has_pair_groups
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
#: The last strength of a path in units of the first, where their number is given.
SMALLEST = 0.01

#: The minimum at one strength, (K,), its objective and residual.
Point = tuple[Array, float, float]


@dataclass(frozen=True, eq=False, repr=False)
class RegularizationPath:
    """Minima of L(θ) + λ Σ_ij |W_ij| for decreasing λ.

    Parameters
    ----------
    family : BoltzmannMachine, IsingModel, OrdinalModel or PottsModel
        The model that was given, with the names of the data.
    data : Ensemble or Moments
        What was learnt from.
    loss : Loss
        The loss.
    penalty : Penalty
        What else was penalized or held.
    l1 : ndarray, (k,)
        The strengths λ, from the one at which the first pair enters.
    coordinates : ndarray, (k, K)
        The minima in the coordinates of the problem.
    objectives : ndarray, (k,)
        L(θ) + λ Σ_ij |W_ij|, with squares where the penalty has them; of all units where each is
        a regression.
    residuals : ndarray, (k,)
        Largest violation of the conditions of the minimum over all pairs.
    message : str
        Where the path ended, and why.
    solver : ProximalNewton
        The solver, which choices along the path take, too.

    Examples
    --------
    >>> import ebm
    >>> rows = ebm.exact(ebm.IsingModel([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]], [0, 0, 0]))
    >>> model = ebm.IsingModel([[0, 0, 0], [0, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> path = ebm.inversion.regularization_path(model, rows.sample(500, 1), strengths=3)
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
            f"{self.l1[-1]:.3g}, up to {most} of {self.supports.shape[1]} "
            f"{self.problem.groups.noun})"
        )

    def __getstate__(self) -> dict[str, Any]:
        # What is made anew on first use need not go to other processes.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def plot(self, selection: Any = None, *, ax: Any = None) -> Any:
        """Couplings against the strength, :func:`ebm.plotting.path`."""
        return picture("path", self, selection, ax=ax)

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
        """Which pairs, those of ``model.pairs``, have couplings, (k, number of pairs)."""
        flags: Flags = self.problem.groups.supports(self.parameters)
        flags.setflags(write=False)
        return flags

    @cached_property
    def lengths(self) -> Array:
        """|W_ij| of each pair as the penalty takes it, (k, number of pairs)."""
        groups = self.problem.groups
        return read_only(np.array([groups.lengths(row) for row in self.parameters]))


def regularization_path(
    model: Any,
    data: Any,
    *,
    loss: Loss | None = None,
    penalty: Penalty | float | None = None,
    strengths: int | ArrayLike = 50,
    solver: ProximalNewton | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> RegularizationPath:
    """Minimize L(θ) + λ Σ_ij |W_ij| for a series of strengths λ, each from the minimum before.

    |W_ij| is the absolute value of the coupling of a pair or, where it has several, their length as
    in ``group_l1`` of :class:`ebm.Penalty`. The first λ is the largest slope of the loss by the
    couplings of a pair without any, above which all are zero. Pairs whose slopes stay below
    2λ − λ' after the minimum at λ' are left out at first :cite:`tibshirani2012`; the conditions of
    the minimum are then checked for all of them.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel, OrdinalModel or PottsModel
        The family: its center, diagonal, scores, names and pattern of couplings are kept. A
        family of one's own over levels has the method ``pair_features``.
    data : array_like, DataFrame, Table or Ensemble
        Rows in the coding of the model, or an ensemble.
    loss : Loss, optional
        By default ``ebm.inversion.Pseudolikelihood()``; or ``ebm.Likelihood()`` for few units,
        ``ebm.inversion.InteractionScreening()`` or ``ebm.inversion.MinimumProbabilityFlow()``.
    penalty : Penalty or float, optional
        What else is penalized, ``l2`` and ``l2_biases``, and which parameters are ``free``: of a
        pair all or none.
    strengths : int or array_like
        Number of strengths in equal steps of ln λ, the last a hundredth of the first; or strengths
        in units of the first, falling from 1 or less, such as ``np.geomspace(1, 1e-3, 100)``.
    solver : ProximalNewton, optional
        The solver with its tolerance, by default 1e-6, and largest number of steps.
    checkpoint : path-like, optional
        File to which the minimum at each strength is written. A later call with the same arguments
        goes on at the next one, to the same path; ``max_iterations`` may differ.
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
        If the model is not pairwise in two-valued units or levels, or moments do not suffice.
    ConstantUnitError, UnusedCategoryError
        If a unit never changes, or a level never occurs, and ``penalty.l2_biases`` is zero.
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
    if penalty.has_l1:
        name = "l1" if penalty.l1 else "group_l1"
        raise EbmError(
            "a path has all strengths, of single couplings and of pairs: give a penalty without "
            f"l1 and group_l1, got {name}={getattr(penalty, name):g}"
        )
    shares = _shares(strengths)
    solver = ProximalNewton(TOLERANCE) if solver is None else solver
    if not isinstance(solver, ProximalNewton):
        raise EbmError(f"solver must be ebm.ProximalNewton() with its settings, got {solver!r}")
    problem, data = sparse_problem(model, data, loss, penalty)
    _require_feasible(problem, len(shares))
    with single_threaded_blas():
        largest = problem.largest_l1
    if not largest > NOTHING:
        raise EbmError(
            "no coupling enters the path: none is free, or units are independent in the data"
        )
    series = largest * shares
    store = _KeptMinima.of(checkpoint, problem, loss, series, solver)
    points = store.points(problem)
    why = _ended(problem, data, points[-1][0], series[len(points) - 1]) if points else ""
    with entries(progress) as show:
        left = () if why else followed(problem, series, solver, show, points)
        for l1, run, sparse in left:
            why = _why_not(run, l1)
            if why:
                break
            theta = run.state["theta"]
            points.append((theta, sparse.objective(theta), sparse.residual(theta)))
            store.write(problem, points)
            why = _ended(problem, data, theta, l1)
            if why:
                break
    if not points:
        raise EbmError(f"the path has no first model: {why}")
    coordinates, objectives, residuals = (np.array(part) for part in zip(*points, strict=True))
    ends = f"{len(points)} strengths from {series[0]:.3g} to {series[len(points) - 1]:.3g}"
    if len(points) < len(series):
        reason = f"; ended before {series[-1]:.3g}, as {why}"
    else:
        limit = why or _no_limit(problem, data, points[-1][0])
        reason = f"; without l1 there is no minimum: {limit}" if limit else ""
    return RegularizationPath(
        family=problem.family,
        data=data,
        loss=loss,
        penalty=penalty,
        l1=read_only(series[: len(points)]),
        coordinates=read_only(coordinates),
        objectives=read_only(objectives),
        residuals=read_only(residuals),
        message=f"{ends}{reason}",
        solver=solver,
    )


@dataclass(frozen=True)
class _KeptMinima:
    """The file of a path, if it has one, and what paths have in common that continue each other."""

    path: Path | None
    settings: Mapping[str, str]

    @classmethod
    def of(
        cls,
        checkpoint: Any,
        problem: SparseProblem,
        loss: Loss,
        strengths: Array,
        solver: ProximalNewton,
    ) -> Self:
        """Of a path, refused if no file can be there."""
        if checkpoint is None:
            return cls(None, {})
        own = {"strengths": fingerprint(strengths), **solver.settings()}
        # First of all, and in place of what a loss calls itself.
        said = {"loss": fingerprint(loss)}
        settings = said | problem.smooth.settings() | own | said
        return cls(checkpoint_path(checkpoint, "path.npz"), settings)

    def write(self, problem: SparseProblem, points: list[Point]) -> None:
        """Replace the file as a whole."""
        if self.path is not None:
            coordinates, *numbers = map(np.array, zip(*points, strict=True))
            origin = problem.smooth.origin
            state = {"coordinates": coordinates, "numbers": np.array(numbers)}
            # The next minimum begins with the curvature at hand.
            state["origin"] = np.zeros(0) if origin is None else origin
            write_checkpoint(self.path, self.settings, state)

    def points(self, problem: SparseProblem) -> list[Point]:
        """The minima that are there."""
        if self.path is None or not self.path.exists():
            return []
        nothing = dict.fromkeys(("coordinates", "numbers", "origin"), np.zeros(0))
        state = read_checkpoint(self.path, self.settings, nothing)
        if len(state["origin"]):
            with single_threaded_blas():
                problem.smooth.curvature(state["origin"])
        objectives, residuals = state["numbers"].tolist()
        return list(zip(state["coordinates"], objectives, residuals, strict=True))


def _shares(strengths: Any) -> Array:
    """Strengths in units of the first, falling."""
    if np.ndim(strengths) == 0:
        return np.geomspace(1, SMALLEST, as_integer(strengths, "strengths", least=2))
    shares = as_floats(strengths, "strengths")
    falls = shares.ndim == 1 and len(shares) > 0 and (np.diff(shares, prepend=np.inf) < 0).all()
    if not (falls and 0 < shares[-1] and shares[0] <= 1):
        raise EbmError(
            "strengths must be their number, or fall from 1 or less to above 0 in units of the "
            f"strength above which no coupling enters, got {strengths!r}"
        )
    return shares


def _require_feasible(problem: SparseProblem, n_strengths: int) -> None:
    """Refuse a path of hours before any work; exact sums have limits of their own."""
    if problem.work is None:
        return
    of_curvature, of_slopes, n_bytes = problem.work
    # Curvatures are taken about once in four strengths, slopes four times at each.
    seconds = n_strengths * (0.25 * of_curvature + 40.0 * of_slopes) / OPERATIONS_PER_SECOND
    n_units, n_rows = problem.family.space.n, len(problem.smooth.weights)
    require_within(
        f"a path of {n_strengths} strengths for {n_units} units and {n_rows} distinct rows",
        seconds,
        n_bytes,
        "take fewer units, rows or strengths",
        max_seconds=MOST_SECONDS,
        max_bytes=MOST_BYTES,
    )


def require_pairwise(model: Any) -> None:
    """Refuse models whose parameters are not fields and couplings of pairs of finite units."""
    refuse_result(model)
    if not has_pair_groups(model):
        raise ModelError(
            "sparse networks are pairwise models of two-valued units or of levels, such as "
            f"ebm.IsingModel, ebm.OrdinalModel or ebm.PottsModel, got {type(model).__name__}"
        )


def sparse_problem(model: Any, data: Any, loss: Any, penalty: Penalty) -> tuple[SparseProblem, Any]:
    """The problem of a loss at any strength, and the data as an ensemble or moments."""
    if not callable(getattr(loss, "of", None)) or isinstance(loss, type):
        raise EbmError(f"loss must be one such as ebm.inversion.Pseudolikelihood(), got {loss!r}")
    require_pairwise(model)
    problem, data = problem_of(model, data, loss, replace(penalty, group_l1=1.0))
    if callable(getattr(problem, "sparse", None)):
        problem = problem.sparse()
    if not isinstance(problem, SparseProblem):
        raise EbmError(
            f"{type(loss).__name__} of {type(data).__name__} has no exact zeros, path or step from "
            "zeros: give complete rows, and ebm.Likelihood() or a loss of ebm.inversion"
        )
    return problem, data


def followed(
    problem: SparseProblem,
    strengths: Array,
    solver: Any,
    show: Any = None,
    points: Sequence[Point] = (),
) -> Iterator[tuple[float, Any, Any]]:
    """(λ, run, loss) for each decreasing strength behind ``points``, from the minimum before."""
    theta = points[-1][0] if points else problem.without_couplings
    before = float(strengths[max(0, len(points) - 1)])
    for l1 in strengths[len(points) :].tolist():
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


def _ended(problem: SparseProblem, data: Any, theta: Array, l1: float) -> str:
    """Why there is no use in smaller strengths, with a warning; empty if there is."""
    why = _separated(problem, data, theta)
    if why:
        warn(f"the path ends at l1 = {l1:.3g}: {why}", NoMaximumWarning)
    return why


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
    reason = ""
    if has_pairs(problem.family):
        moments = read_rows(data).moments if isinstance(data, Ensemble) else data
        free = AppliedPenalty(problem.family, Penalty())
        reason = listed(empty_cells(moments, problem.family.pairs, free))
    units = [problem.family.space.labels[unit] for unit in problem.separated(theta)]
    if not reason and units:
        reason = f"{shown(units)} can be predicted without error by the other units"
    return reason
