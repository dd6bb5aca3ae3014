"""Losses: what a fit minimizes, and the solvers that suit them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ebm._arrays import as_finite, is_sparse
from ebm._devices import chosen_device
from ebm._iterate import Run, iterate
from ebm._jobs import interruptible
from ebm._parallel import single_threaded_blas
from ebm._progress import entries
from ebm.ensembles import Ensemble, IncompleteEnsemble, Moments
from ebm.ensembles.ensemble import require_units
from ebm.enumeration import exact
from ebm.enumeration.exact import require_sums_of_family, takes_long
from ebm.errors import EbmError, LimitError, ModelError, require_memory
from ebm.information._levels import has_fisher_of_levels
from ebm.learning._allowed_rows import (
    filled_in_allowed,
    require_allowed_data,
    require_allowed_rows,
)
from ebm.learning._assessment import information_at, likelihood_result
from ebm.learning._batches import filled_in
from ebm.learning._count_likelihood import CountLikelihoodLoss
from ebm.learning._determined_units import determined_units_notes
from ebm.learning._device_likelihood import DeviceLikelihood, require_average
from ebm.learning._existence import (
    constant_units_notes,
    require_changing_units,
    require_chosen_categories,
    require_possible,
    require_seen_counts,
)
from ebm.learning._families import has_counts, has_pairs, moments_alone, pairs_of, require_own_pairs
from ebm.learning._incomplete_likelihood import IncompleteLikelihoodProblem
from ebm.learning._incomplete_rows import require_seen, with_assumption
from ebm.learning._likelihood import LikelihoodLoss, PairLikelihoodLoss
from ebm.learning._pair_groups import has_pair_groups
from ebm.learning._sampled_likelihood import SampledLikelihood
from ebm.learning._separation import is_saturated
from ebm.learning._sparse_levels import SparseLevelLikelihood
from ebm.learning._sparse_likelihood import SparseLikelihoodProblem
from ebm.learning._symmetric_start import symmetric_start_notes
from ebm.learning._unseen_values import unseen_values_notes
from ebm.learning.averages import StatefulAverage, as_stateful, has_memory
from ebm.learning.gradient_steps import GradientSteps
from ebm.learning.lbfgs import LBFGS
from ebm.learning.newton import Newton
from ebm.learning.penalties import AppliedPenalty, Penalty
from ebm.learning.proximal_newton import ProximalNewton
from ebm.learning.result import FitResult

__all__ = ["Likelihood", "Loss", "Problem"]

#: Largest number of units whose Fisher information is formed at every step.
NEWTON_UNITS = 28
#: The same beside a potential of counts, where all probabilities are held at once.
COUNT_UNITS = 22
#: Largest number of states times squared number of parameters for which other families do.
NEWTON_WORK = 4e9


class Problem(Protocol):
    """A loss with its model, its data and its penalty."""

    @property
    def solvers(self) -> tuple[type[Any], ...]:
        """Classes of the solvers that suit it."""
        ...

    def solver(self) -> Any:
        """The one taken where none is given; None where that depends on the start."""
        ...

    def solve(self, solver: Any, *, progress: bool, **how: Any) -> FitResult:
        """Iterate, and say what came of it; ``how`` are arguments of ``iterate``."""
        ...


class Loss(Protocol):
    """What :func:`ebm.fit` asks of a loss."""

    def of(self, model: Any, data: Any, penalty: Penalty) -> Problem:
        """The loss of a model on data."""
        ...


@dataclass(frozen=True)
class Likelihood:
    """Minus the mean log-likelihood of a sample, L(θ) = E_D[E] + ln Z, in nats.

    Its gradient is the learning rule ∂L/∂θ = E_D[∂E/∂θ] − E_model[∂E/∂θ], [EBM] eq 7, and with
    hidden units summed out [EBM] eq 11.

    Parameters
    ----------
    average : callable or StatefulAverage
        A function from a model to an ensemble over which the second term is taken. Newton steps and
        L-BFGS need ensembles with ``log_partition``, as those of ``ebm.exact``;
        ``lambda model: ebm.exact(model, max_seconds=600)`` raises a limit of enumeration. Gradient
        steps take any ensemble, as well as ``ebm.PersistentChains()``, chains that go on from
        update to update, and ``ebm.ContrastiveDivergence()``.
    completion : StatefulAverage, optional
        An average over the units that a marginal sums out and over missing cells, given each row,
        in place of exact sums: ``ebm.ClampedChains()``, for gradient steps.
    device : str or torch.device, optional
        Where torch keeps rows, chains and parameters of a machine of two layers of two-valued units
        in gradient steps, such as ``"cuda"``, in single precision. Chains are swept by random
        numbers of the device: a seed gives the same bits on the same device, others than without
        one.

    Raises
    ------
    EbmError
        If ``device`` is none that torch can use here, or is given with an average other than
        ``ebm.PersistentChains()`` and ``ebm.ContrastiveDivergence()`` by ``ebm.Gibbs()``, or beside
        ``completion``.
    ModelError
        If ``average`` is neither a function nor an object with ``start`` and ``step``, or
        ``completion`` no such object; in a fit, if a ``device`` is given and the model has no such
        layers.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> start = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
    >>> chains = ebm.Likelihood(ebm.PersistentChains(1000))
    >>> ebm.fit(start, rows * 1000, loss=chains, rng=0).converged
    True
    """

    average: Callable[[Any], Any] | StatefulAverage = exact
    completion: StatefulAverage | None = None
    device: Any = None

    def __post_init__(self) -> None:
        as_stateful(self.average)
        if self.device is not None:
            require_average(self.average, self.device)
            chosen_device(self.device)
            if self.completion is not None:
                raise EbmError(
                    "completion samples beside the rows on the host: leave it out beside "
                    f"device={self.device!r}, or leave out device"
                )
        is_class = isinstance(self.completion, type)
        if self.completion is not None and (is_class or not has_memory(self.completion)):
            raise ModelError(
                "completion must have start and step, as ebm.ClampedChains(); got "
                f"{self.completion!r}"
            )
        if not getattr(self.completion, "completes_rows", True):
            raise ModelError(
                f"{type(self.completion).__name__} samples the model whatever the rows are, and "
                "completes none: give completion=ebm.ClampedChains()"
            )

    def of(self, model: Any, data: Any, penalty: Penalty) -> Problem:
        """The problem of maximum likelihood for a model and data, which :func:`ebm.fit` solves.

        Parameters
        ----------
        model : ParametricModel
            The family; gradient steps begin at its parameters.
        data : Ensemble or Moments
            The samples, or for pairwise families their moments.
        penalty : Penalty
            The penalty of the parameters.

        Returns
        -------
        Problem
            An object with ``solvers``, ``solver()`` and ``solve``.
        """
        if has_pairs(model):
            require_own_pairs(model)
        applied = AppliedPenalty(model, penalty)
        require_chosen_categories(model, data, applied)
        if isinstance(data, IncompleteEnsemble):
            return self._of_incomplete_rows(model, data, applied)
        return LikelihoodProblem(model, data, self.average, applied, self.completion, self.device)

    def _of_incomplete_rows(
        self, model: Any, data: IncompleteEnsemble, penalty: AppliedPenalty
    ) -> Problem:
        """The problem of rows with missing cells: exact sums, or chains for both sides."""
        has_chains = has_memory(self.average)
        if self.completion is not None and getattr(self.average, "follows_model", True):
            require_units(data, model.space)
            require_seen(model, data, penalty)
            filled = filled_in_allowed(model, filled_in(data))
            sampled = LikelihoodProblem(model, filled, self.average, penalty, self.completion)
            return IncompleteChainsProblem(data, sampled)
        if has_chains or self.completion is not None:
            raise EbmError(
                f"{type(self.average).__name__} takes complete rows: with missing cells the "
                "likelihood is summed exactly, ebm.Likelihood(), of models that ebm.exact can sum; "
                "beyond, both sides of the learning rule are sampled, "
                "ebm.Likelihood(ebm.PersistentChains(), completion=ebm.ClampedChains())"
            )
        average = _knowing_log_partition(self.average)
        return IncompleteLikelihoodProblem(model, data, average, penalty)


@dataclass(frozen=True, eq=False)
class IncompleteChainsProblem:
    """Maximum likelihood on rows with missing cells, which chains beside the rows fill in."""

    data: IncompleteEnsemble
    sampled: LikelihoodProblem

    solvers = (GradientSteps,)

    def solver(self) -> Any:
        """Gradient steps."""
        return GradientSteps()

    def solve(self, solver: Any, *, progress: bool, **how: Any) -> FitResult:
        """The fitted model, with what the answer assumes of the missing cells."""
        result = self.sampled.solve(solver, progress=progress, **how)
        return with_assumption(result, self.sampled.family, self.data)


@dataclass(frozen=True, eq=False)
class LikelihoodProblem:
    """Maximum likelihood of a family on data, by steps on sums over all states or by chains."""

    family: Any
    data: Any
    average: Any
    penalty: AppliedPenalty
    completion: Any = None
    device: Any = None

    solvers = (Newton, LBFGS, GradientSteps, ProximalNewton)

    def solver(self) -> Any:
        """Gradient steps for chains; of sums, the fastest is known once the start is."""
        if has_memory(self.average) or self.completion is not None:
            return GradientSteps()
        return None

    def solve(self, solver: Any, *, progress: bool, **how: Any) -> FitResult:
        """The fitted model."""
        # The noise of draws tells exchangeable units apart.
        notes = symmetric_start_notes(self.family, are_summed=self.completion is None)
        result = self._solved(solver, progress=progress, **how)
        return replace(result, warnings=(*result.warnings, *notes)) if notes else result

    def _solved(self, solver: Any, *, progress: bool, **how: Any) -> FitResult:
        if isinstance(solver, GradientSteps):
            return self._by_gradient_steps(solver, progress, **how)
        if has_memory(self.average):
            raise EbmError(
                f"{type(solver).__name__} needs an average that knows ln Z, such as ebm.exact; "
                f"{type(self.average).__name__} is for solver=ebm.GradientSteps()"
            )
        if self.completion is not None:
            raise EbmError("completion belongs to gradient steps: give solver=ebm.GradientSteps()")
        strength, has_groups = self.penalty.strength, has_pair_groups(self.family)
        is_sparse = has_groups and isinstance(solver, ProximalNewton | None)
        if strength.has_l1 and not is_sparse:
            raise EbmError(
                "l1 belongs to gradient steps: give solver=ebm.GradientSteps(), or "
                "ebm.ProximalNewton() for pairs of two-valued units or of levels"
            )
        if strength.has_l1 and strength.ties is not None:
            raise EbmError(
                "ties have no place beside l1, which shrinks each coupling by itself: hold "
                "couplings by free, or give solver=ebm.GradientSteps()"
            )
        if isinstance(solver, ProximalNewton) and not is_sparse:
            raise EbmError(
                "ProximalNewton is for pairs of two-valued units or of levels, "
                f"{type(self.family).__name__} has others: give solver=ebm.Newton() or ebm.LBFGS()"
            )
        try:
            self._require_sums_beside_start()
            if strength.has_l1 or isinstance(solver, ProximalNewton):
                return self.sparse().solve(solver, progress=progress, **how)
            return self._by_sums(solver, progress, **how)
        except LimitError as error:
            raise type(error)(
                f"{error}. To learn from chains, which need no ln Z, give "
                "loss=ebm.Likelihood(ebm.PersistentChains())"
            ) from error

    def _require_sums_beside_start(self) -> None:
        """Refuse sums that only zeros at the start make affordable, before there is any work."""
        if self.average is not exact or not takes_long(self.family):
            return
        theta, strength = self.family.parameters, self.penalty.strength
        may_change = theta == 0
        if strength.free is None and strength.ties is None:
            require_sums_of_family(self.family)
        else:
            names = getattr(self.family, "parameter_names", None)
            directions = strength.directions(len(theta), names)
            may_change &= directions is None or directions.any(axis=1)
        if may_change.any():
            # Different numbers, so that no units are alike.
            near = np.random.default_rng(0).uniform(5e-4, 2e-3, len(theta))
            exact(self.family.with_parameters(np.where(may_change, near, theta)))

    def sparse(self) -> SparseLikelihoodProblem:
        """The same with λ Σ_ij |W_ij| at any λ, for pairwise families."""
        if has_memory(self.average) or self.completion is not None:
            raise EbmError(
                "a sparse likelihood needs an average that knows ln Z, such as ebm.exact; for more "
                "units take ebm.inversion.Pseudolikelihood()"
            )
        strength = replace(self.penalty.strength, l1=0.0, group_l1=0.0)
        loss = replace(self, penalty=replace(self.penalty, strength=strength))._loss()
        if not has_pair_groups(self.family):
            raise EbmError(
                f"{type(self.family).__name__} has no couplings of pairs of units, to which l1 "
                "belongs here: give a pairwise model such as ebm.IsingModel or ebm.PottsModel"
            )
        kind = SparseLikelihoodProblem if loss.is_pairwise else SparseLevelLikelihood
        problem = kind(self.family, self.penalty, loss)
        _require_hessian(loss, loss.point(loss.start()))
        return problem

    def _by_gradient_steps(self, solver: GradientSteps, progress: bool, **how: Any) -> FitResult:
        kind = SampledLikelihood if self.device is None else DeviceLikelihood
        loss = kind.of(self, solver)
        require_allowed_data(self.family, self.data)
        require_allowed_rows(self.family, loss.validation, "validation rows")
        loss.doubts  # noqa: B018  (said before the work)
        with entries(progress, loss.n_epochs) as show, loss.threads():
            run = iterate(solver, loss, loss.start(), progress=show, **how)
        return loss.result(solver, run)

    def _by_sums(self, solver: Any, progress: bool, **how: Any) -> FitResult:
        notes = constant_units_notes(self.family, self.data, held=self.penalty.holds_biases)
        notes = (*notes, *determined_units_notes(self.family, self.data, self.penalty))
        notes = (*notes, *unseen_values_notes(self.family, self.data, self.penalty))
        loss = self._loss()
        # Exact sums of pairwise models run on threads of their own.
        with single_threaded_blas() if loss.is_pairwise else nullcontext():
            theta = loss.start()
            if isinstance(solver, Newton):
                _require_hessian(loss, loss.point(theta))
            with entries(progress) as show:
                run = self._run(solver, loss, theta, progress=show, **how)
            result = likelihood_result(loss, run, has_maximum=False if notes else None)
        if notes and result.converged:
            # Biases that grow without bound have a small gradient, too.
            message = f"{result.message.replace('converged', 'stopped', 1)}; the likelihood has no"
            result = replace(result, converged=False, message=f"{message} maximum")
        return replace(result, warnings=(*result.warnings, *notes)) if notes else result

    def _loss(self) -> LikelihoodLoss:
        average = _knowing_log_partition(self.average)
        if not has_pairs(self.family):
            if isinstance(self.data, Moments):
                raise moments_alone(self.family)
            require_units(self.data, self.family.space)
            require_allowed_data(self.family, self.data)
            if has_counts(self.family):
                require_changing_units(self.data.moments(), self.penalty)
                require_seen_counts(self.family, self.data, self.penalty)
                parts = self.data, average, self.penalty, self.data
                return CountLikelihoodLoss(self.family, *parts)
            return LikelihoodLoss(self.family, self.data, average, self.penalty, self.data)
        target = self.data.moments().to(self.family.space).two_valued()
        if self.family.space.n > NEWTON_UNITS and not is_sparse(pairs_of(self.family).matrix):
            p = len(self.family.parameters)
            require_memory(
                3 * 8.0 * p**2,
                f"the scaling of {p} parameters",
                "take fewer units, or weights that are a sparse matrix of the pairs wanted",
            )
        if isinstance(self.data, Moments):
            require_possible(target, self.family.pairs)
        loss = PairLikelihoodLoss(self.family, target, average, self.penalty, self.data)
        # Before anything of size p² is made, for the limits of the average.
        loss.point(loss.start())
        require_changing_units(target, self.penalty)
        return loss

    def _run(self, given: Any, loss: LikelihoodLoss, theta: Any, **how: Any) -> Run:
        solver = given or _fastest(loss, theta)
        run = iterate(solver, loss, theta, **how)
        if isinstance(solver, LBFGS) and run.reason == "interrupted":
            # A trial of the line search may be better than where it began.
            return replace(run, state={**run.state, "theta": loss.lowest(run.state["theta"])})
        if not isinstance(solver, LBFGS) or run.reason not in {"converged", "rounding"}:
            return run
        end = loss.point(run.state["theta"])
        # Of hidden units nothing is claimed: parameters of one that is not needed may be anything.
        # On a graph each step would take as long as all errors do.
        if loss.is_on_graph(end.ensemble):
            return run
        if not loss.is_convex or information_at(loss, end)[0] is None:
            return run
        # Newton steps from there tell a maximum from a way to infinity.
        how = {**how, "checkpoint": None, "rng": None}
        tolerance = Newton.tolerance if given is None else solver.tolerance
        last = Run(run.state, (), "interrupted")
        with interruptible():
            last = iterate(Newton(tolerance, solver.max_iterations), loss, end.theta, **how)
        if not last.history:
            return replace(run, reason="interrupted")
        *before, end_entry = run.history
        first, *others = last.history
        steps = (replace(first, step=end_entry.step), *others)
        steps = tuple(replace(step, iteration=len(before) + k) for k, step in enumerate(steps))
        return Run(last.state, (*before, *steps), last.reason)


def _fastest(loss: LikelihoodLoss, theta: Any) -> Newton | LBFGS:
    """Newton steps where they cost little and lead somewhere: few states, no saturated start."""
    start = loss.point(theta)
    if loss.is_pairwise:
        is_small = loss.family.space.n <= NEWTON_UNITS and not loss.missing_information(start)
        return Newton() if is_small else LBFGS()
    space, p = loss.family.space, len(theta)
    if isinstance(loss, CountLikelihoodLoss) and start.is_exact:
        return Newton() if space.n <= COUNT_UNITS else LBFGS()
    if not start.is_exact or not loss.is_convex:
        return LBFGS()
    if space.size * p**2 > NEWTON_WORK and not has_fisher_of_levels(start.model, start.ensemble):
        return LBFGS()
    fisher = loss.coordinates.of_model(start.fisher, start.model, start.ensemble)
    return LBFGS() if is_saturated(loss.family, fisher) else Newton()


def _require_hessian(loss: LikelihoodLoss, start: Any) -> None:
    """Refuse Newton steps where the Fisher information is not at hand, or not the curvature."""
    if not loss.is_convex and loss.family.space.is_real.any():
        raise EbmError(
            "Newton steps need energies that are affine in the parameters and have a distribution "
            f"at all of them, those of {type(loss.family).__name__} over real units have not: give "
            "solver=ebm.LBFGS()"
        )
    if not loss.is_convex:
        raise EbmError(
            "Newton steps need energies that are affine in the parameters, those of "
            f"{type(loss.family).__name__} are not: give solver=ebm.LBFGS()"
        )
    if loss.missing_information(start):
        raise EbmError(
            "Newton steps need an average that knows fourth moments, such as ebm.exact, "
            f"{type(start.ensemble).__name__} does not: give solver=ebm.LBFGS()"
        )


def _knowing_log_partition(average: Any) -> Callable[[Any], Any]:
    """The average, its ensembles refused where they do not know ln Z."""
    stateful = as_stateful(average)

    def checked(model: Any) -> Any:
        ensemble = stateful.step(model, None, ())[0]
        log_partition = getattr(ensemble, "log_partition", None)
        if log_partition is None:
            raise EbmError(
                "average must know ln Z: give a function from a model to an ensemble with "
                f"log_partition, such as ebm.exact; got {type(ensemble).__name__}"
            )
        as_finite(log_partition, "the log_partition of the average")
        # Of an ensemble in the other two-valued coding the moments can be converted, no more.
        is_converted = has_pairs(model) and isinstance(ensemble, Ensemble)
        if is_converted and ensemble.space.named(None) != model.space.named(None):
            return ensemble.moments()
        return ensemble

    return checked
