"""The function :func:`ebm.fit`: data in, a fitted model with its errors out."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from ebm._iterate import MEMBERS
from ebm._names import PACKAGE
from ebm._randomness import RandomSource
from ebm.ensembles import Ensemble, Moments
from ebm.errors import (
    CodingError,
    EbmError,
    FewSamplesWarning,
    MissingValueError,
    ModelError,
    warn,
)
from ebm.learning._batches import is_normalized
from ebm.learning._dependence import dependence_notes
from ebm.learning._families import joint_model
from ebm.learning._own_gradients import require_own_gradient
from ebm.learning.losses import Likelihood, Loss
from ebm.learning.penalties import AppliedPenalty, Penalty, as_penalty
from ebm.learning.result import FitResult
from ebm.model import ParametricModel, checked_space
from ebm.spaces import StateSpace
from ebm.spaces._labels import hidden_names

__all__ = ["fit"]


def fit(
    model: ParametricModel,
    data: Any,
    *,
    loss: Loss | None = None,
    penalty: Penalty | float | None = None,
    solver: Any = None,
    rng: RandomSource = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> FitResult:
    """Fit a model to data: minimize a loss and a penalty, L(θ) + R(θ).

    By default L is minus the mean log-likelihood of a sample, E_D[E] + ln Z, whose minimum obeys
    the learning rule E_D[∂E/∂θ] = E_model[∂E/∂θ], [EBM] eq 7. Boltzmann machines and Ising models
    of at most 28 units take damped Newton steps on exact moments from the independent model, and
    so does every family of energies affine in its parameters while its states are few; L-BFGS
    serves the others. With ``loss=ebm.Likelihood(ebm.PersistentChains())`` or
    ``solver=ebm.GradientSteps()`` the fit takes gradient steps on batches of rows, from the
    parameters of ``model``, and needs no ln Z.

    Parameters
    ----------
    model : ParametricModel
        The family: its center, diagonal, offset, names and pattern of couplings are kept. Pairwise
        families start from the independent model whatever its parameters, others from them.
    data : array_like, DataFrame, Table, Ensemble or Moments
        Rows in the coding of the model, or an ensemble, or, for pairwise families, moments in
        either two-valued coding. Rows with frequencies are given as
        ``ebm.Ensemble.from_data(rows, sample_weight=…)``; the sum of the frequencies is the number
        of samples, to which standard errors refer. Rows with cells missing at random are given as
        ``ebm.IncompleteEnsemble.from_data(rows)``; what the cells might hold is summed over, and
        the fit starts from the couplings of ``model`` unless they are all zero.
    loss : Loss, optional
        ``ebm.Likelihood()`` if not given; ``ebm.Likelihood(average)`` with another average over the
        model, or ``ebm.inversion.Pseudolikelihood()``.
    penalty : Penalty or float, optional
        ``ebm.Penalty(l2=…)``, or its ``l2`` alone. The object also says which parameters may
        change, and which are tied.
    solver : Solver, optional
        ``ebm.Newton()``, ``ebm.LBFGS()`` or ``ebm.GradientSteps()`` with their settings; by
        default the fastest that suits the problem. A solver of the user's own names the losses that
        it suits in an attribute ``losses``, a tuple of classes.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness of gradient steps; refused by solvers that draw no numbers.
    checkpoint : path-like, optional
        File to which the state of the solver is written with every entry of the history. If the
        file exists, the fit goes on from it as if it had never stopped, with the random streams
        that it holds, and ignores ``rng``. Model, data, validation rows and settings must be those
        of the first run, except for the number of iterations or epochs.
    progress : bool
        Show each iteration on the standard error stream; a bar of epochs for gradient steps.

    Returns
    -------
    FitResult
        The model with standard errors, log-likelihood, AIC, BIC, and the history of the fit. Where
        the likelihood has no maximum the result is not ``converged``, and a
        :class:`ebm.errors.NoMaximumWarning` names the units. The warning also names visible units
        of a machine with hidden units that never change in the data, as their biases are unbounded.
        A :class:`ebm.errors.DependentRowsWarning` says that rows are autocorrelated in the order
        given, and by which factors the standard errors of independent rows are then too small.

    Raises
    ------
    MissingValueError
        If rows have missing cells and are no ``IncompleteEnsemble``, or the loss takes none.
    ModelError
        If the model has no parameters, or needs rows and gets moments, or the ``energy_gradient``
        of a user's model is not the derivative of its ``energy`` by differences at ten states.
    LimitError
        If the likelihood would take more time or memory than allowed; raised before any work.
    DivergenceError
        If a gradient step is not finite or runs away.
    EbmError
        If a setting is out of range, or would have no effect on this fit.

    Notes
    -----
    With a penalty the standard errors are those of the penalized estimator, from its covariance
    H⁻¹ F H⁻¹ / N with H the Hessian of L + R, and the moments of the model differ from those of the
    data. Ctrl-C ends the fit with the model reached so far; within a larger loop, such as a
    bootstrap, it ends that loop.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> result = ebm.fit(ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0]), rows)
    >>> result.model.weights.round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    """
    loss, penalty = _checked_loss(loss), as_penalty(penalty)
    problem, data = problem_of(model, data, loss, penalty)
    solver = _checked_solver(solver, problem, loss)
    if rng is not None and not getattr(solver, "draws", False):
        raise EbmError(f"rng belongs to gradient steps: this fit draws no numbers, got rng={rng!r}")
    result: FitResult = problem.solve(solver, rng=rng, checkpoint=checkpoint, progress=progress)
    notes = (
        *_normalized_notes(data),
        *dependence_notes(result, data, AppliedPenalty(result.model, penalty)),
    )
    return replace(result, warnings=(*result.warnings, *notes)) if notes else result


def problem_of(model: Any, data: Any, loss: Loss, penalty: Penalty) -> tuple[Any, Any]:
    """The problem of a model on data, both checked, and the data as an ensemble or moments."""
    space = checked_space(model)
    if not isinstance(model, ParametricModel):
        raise ModelError(
            f"{type(model).__name__} has no parameters to fit: it is no ParametricModel"
        )
    if not len(model.parameters):
        raise ModelError(f"{model!r} has no parameters to fit: give it terms")
    if not isinstance(data, Ensemble | Moments):
        data = _rows_of(data, space)
    require_own_gradient(model, data)
    return loss.of(_named(model, data.space.names), data, penalty), data


def _rows_of(data: Any, space: StateSpace) -> Ensemble:
    """Rows in the coding of the model, which decides it."""
    try:
        return Ensemble.from_data(data, space=space)
    except MissingValueError as error:
        raise MissingValueError(
            f"{error}; cells that are missing at random are summed over where the data are given "
            "as ebm.IncompleteEnsemble.from_data(rows)"
        ) from error
    except CodingError as error:
        message = str(error)
        for coding, model in (("Spins", "IsingModel"), ("Binary", "BoltzmannMachine")):
            advice = f"give a model over ebm.{coding}, such as ebm.{model}"
            message = message.replace(f"use space=ebm.{coding}", advice)
        raise CodingError(message) from error


def _normalized_notes(data: Ensemble | Moments) -> tuple[str, ...]:
    """Say of weights that sum to one that they stand for a single sample."""
    n_rows = getattr(data, "n_rows", 1)
    if n_rows < 2 or not is_normalized(data.sample_size):
        return ()
    message = (
        f"the weights of {n_rows} rows sum to {data.sample_size:.3g}: as frequencies, all "
        "rows count as one sample, to which standard errors, AIC, BIC and the end of gradient "
        "steps refer; multiply them by the number of samples"
    )
    warn(message, FewSamplesWarning)
    return (message,)


def _checked_loss(loss: Any) -> Loss:
    if loss is None:
        return Likelihood()
    if isinstance(loss, type) and hasattr(loss, "of"):
        raise EbmError(f"loss must be an object: write {loss.__name__}()")
    if isinstance(loss, type) or not callable(getattr(loss, "of", None)):
        advice = "ebm.Likelihood(ebm.PersistentChains())"
        raise EbmError(f"loss must be one such as {advice}, got {loss!r}")
    checked: Loss = loss
    return checked


def _checked_solver(solver: Any, problem: Any, loss: Loss) -> Any:
    if solver is None:
        return problem.solver()
    if isinstance(solver, type):
        raise EbmError(f"solver must be an object: write {solver.__name__}()")
    if isinstance(solver, problem.solvers):
        return solver
    if hasattr(solver, "losses"):
        _require_members(solver)
    if not isinstance(loss, getattr(solver, "losses", ())):
        names = ", ".join(f"{_home(kind)}.{kind.__name__}()" for kind in problem.solvers)
        raise EbmError(f"solver must be one of {names} for this loss, got {solver!r}")
    return solver


def _require_members(solver: Any) -> None:
    """Refuse a solver of the user's own that cannot be run."""
    name, losses = type(solver).__name__, solver.losses
    missing = [member for member in MEMBERS if not callable(getattr(solver, member, None))]
    if missing:
        raise EbmError(
            f"{name} has no {', '.join(missing)}: a solver has the methods start, step, record, "
            "verdict and settings, and record_type, the class of the entries of its history"
        )
    if not isinstance(losses, tuple) or not all(isinstance(kind, type) for kind in losses):
        raise EbmError(
            f"{name}.losses must be a tuple of classes such as (ebm.Likelihood,), got {losses!r}"
        )


def _home(kind: type[Any]) -> str:
    """Where users find a solver."""
    package = ".".join(kind.__module__.split(".")[:2])
    return PACKAGE if package == f"{PACKAGE}.learning" else package


def _named(model: Any, names: Any) -> Any:
    """A model without names takes those of the data, where its family has names."""
    if model.space.names or not names:
        return model
    joint = joint_model(model)
    if joint is not None:
        # Traced units are called as the hidden ones of a joint machine.
        of_joint = np.empty(joint.space.n, dtype=object)
        of_joint[list(model.keep)] = names
        of_joint[model.traced] = hidden_names(names, len(model.traced))
        return replace(model, model=_named(joint, of_joint.tolist()))
    fields = getattr(model, "__dataclass_fields__", {})
    if "names" in fields:
        return replace(model, names=names)
    has_own_space = "space" in fields and fields["space"].init
    return replace(model, space=model.space.named(names)) if has_own_space else model
