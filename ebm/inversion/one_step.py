"""Estimates and errors after couplings were chosen: honest ones for all, or given the choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ebm._arrays import read_only
from ebm._parallel import single_threaded_blas
from ebm.ensembles import Ensemble, Moments
from ebm.errors import EbmError, NotConvergedWarning, warn
from ebm.inversion.path import require_pairwise, sparse_problem
from ebm.inversion.pseudolikelihood import Pseudolikelihood
from ebm.learning._pair_groups import pair_groups
from ebm.learning._sparse_likelihood import SparseLikelihoodProblem
from ebm.learning.fit import fit
from ebm.learning.losses import Loss
from ebm.learning.penalties import Penalty
from ebm.learning.result import FitResult, FitStep

__all__ = ["one_step", "refit"]

#: Standard errors that a second step may move a parameter by.
FAR = 0.5
#: What the errors of a refit leave out.
GIVEN = (
    "standard errors are given this set of couplings, as if it had been known before the data: "
    "where the data chose it, 95 % intervals of absent couplings held in 59 to 90 % of cases that "
    "were tried; ebm.inversion.one_step has errors that are right for all couplings"
)


def one_step(model: Any, data: Any, *, loss: Loss | None = None) -> FitResult:
    """One Newton step θ − H⁻¹g from a sparse model, over all couplings, without a penalty.

    The step removes what l1 shrank and gives every coupling, zero or not, an estimate that is
    normal about the true one :cite:`javanmard2014`, so that intervals of ±1.96 standard errors hold
    in 95 % whatever the data chose. They are as wide as those of a fit without a penalty. Where a
    second step would move a parameter by more than half of its error, the model is shrunk too far
    for this, and the result is not ``converged`` and warns.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel, OrdinalModel or PottsModel
        The sparse model, such as one of a path; the step goes over all couplings of its ``pairs``.
    data : array_like, DataFrame, Table or Ensemble
        The rows that it was fitted to.
    loss : Loss, optional
        The loss that it was fitted with, by default ``ebm.inversion.Pseudolikelihood()``.

    Returns
    -------
    FitResult
        A model with all couplings and its standard errors: of the likelihood √diag(H⁻¹/N), of other
        losses from the sandwich H⁻¹ V H⁻¹ / N. No coupling is zero: the result answers how large
        each one may be, not which are there.

    Raises
    ------
    SingularCovarianceError
        If some direction of parameters changes nothing, as with fewer rows than units.
    LimitError
        If the equations of all couplings would take too long, or too much memory.
    ModelError
        If the model is not pairwise in two-valued units or levels.

    Examples
    --------
    >>> import ebm
    >>> truth = ebm.IsingModel([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> rows = ebm.exact(truth).sample(500, rng=1)
    >>> model = ebm.IsingModel([[0, 0, 0], [0, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> path = ebm.inversion.regularization_path(model, rows)
    >>> chosen = ebm.inversion.extended_bic(path).model
    >>> result = ebm.inversion.one_step(chosen, rows)
    >>> bool((abs(result.model.parameters - truth.parameters) < 3 * result.standard_errors).all())
    True
    """
    loss = Pseudolikelihood() if loss is None else loss
    problem, data = sparse_problem(model, data, loss, Penalty())
    if not np.isfinite(data.sample_size):
        raise EbmError("errors need a number of samples, these data are exact: sample from them")
    with single_threaded_blas():
        start = problem.coordinates_of(problem.family)
        theta, errors_of_step = problem.one_step(start)
        errors = errors_of_step()
        points = [problem.smooth.point(phi) for phi in (start, theta)]
        norms = [problem.loss(0.0).residual(phi) for phi in (start, theta)]
        rest = problem.parameters(problem.one_step(theta)[0]) - problem.parameters(theta)
    far = float(np.abs(rest / errors).max())
    notes: tuple[str, ...] = ()
    if far > FAR:
        notes = (
            f"the model is too far from its maximum for one step: a second one would move a "
            f"parameter by {far:.1f} standard errors; take its refit, or a smaller l1",
        )
        warn(notes[0], NotConvergedWarning)
    n_couplings = int(problem.is_coupling.sum())
    is_likelihood = isinstance(problem, SparseLikelihoodProblem)
    values = [point.log_likelihood for point in points]
    message = (
        f"one Newton step from a sparse model over all {n_couplings} couplings, after which the "
        f"largest slope is {norms[1]:.1e} and a second step would move no parameter by more than "
        f"{far:.2f} standard errors: intervals are honest, for chosen and other couplings"
    )
    return FitResult(
        model=problem.family.with_parameters(problem.parameters(theta)),
        converged=far <= FAR,
        message=message if far <= FAR else notes[0],
        log_likelihood=values[1] if is_likelihood else None,
        log_pseudolikelihood=values[1] if isinstance(loss, Pseudolikelihood) else None,
        gradient_norm=norms[1],
        sample_size=data.sample_size,
        history=tuple(FitStep(k, values[k], norms[k], 1.0) for k in (0, 1)),
        warnings=notes,
        errors=read_only(errors),
    )


def refit(model: Any, data: Any, *, loss: Loss | None = None) -> FitResult:
    """Fit the couplings of a sparse model that are not zero, without a penalty.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel, OrdinalModel or PottsModel
        The sparse model; pairs without couplings stay so.
    data : array_like, DataFrame, Table or Ensemble
        The rows.
    loss : Loss, optional
        By default ``ebm.inversion.Pseudolikelihood()``.

    Returns
    -------
    FitResult
        The model with standard errors given this set of couplings, which ``warnings`` say.

    Raises
    ------
    ModelError
        If the model is not pairwise in two-valued units or levels.
    EbmError
        Those of :func:`ebm.fit`.

    Examples
    --------
    >>> import ebm
    >>> model = ebm.IsingModel([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> result = ebm.inversion.refit(model, ebm.exact(model).sample(500, rng=1))
    >>> result.model.couplings[0].round(1), result.standard_errors[3:].round(2)
    (array([0. , 0.5, 0. ]), array([0.05, 0.  , 0.  ]))
    """
    loss = Pseudolikelihood() if loss is None else loss
    require_pairwise(model)
    groups = pair_groups(model)
    free = groups.flags(groups.supports(np.asarray(model.parameters)))
    if not isinstance(data, Ensemble | Moments):
        data = Ensemble.from_data(data, space=model.space)
    result = fit(model, data, loss=loss, penalty=Penalty(free=free))
    return result if result.errors is None else replace(result, warnings=(*result.warnings, GIVEN))
