"""One fit of all groups in which some parameters are the same: L(u) = Σ_g (N_g/N) L_g(θ_g).

Group g has the parameters θ_g = D_g u; an entry of u is a parameter that all groups share, or one
of a single group. As a function of (θ_1, …, θ_G) the loss is one of the library's, whose ties are
those of a penalty, and Newton steps lower it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ebm._iterate import iterate
from ebm._parallel import single_threaded_blas
from ebm._types import Array, Flags, Indices
from ebm.comparison._covariances import Equalized, penalized
from ebm.ensembles import IncompleteEnsemble
from ebm.errors import EbmError, EbmWarning
from ebm.information import FisherInformation, fisher_information
from ebm.inversion import Pseudolikelihood, log_pseudolikelihood
from ebm.learning import FitResult, Likelihood, Newton, Penalty
from ebm.learning._incomplete_likelihood import IncompleteLikelihoodLoss
from ebm.learning._incomplete_rows import with_assumption
from ebm.learning._likelihood import LikelihoodLoss
from ebm.learning.penalties import AppliedPenalty
from ebm.model import Penalized

#: Newton steps of pseudo-likelihoods, and the fall of the loss per row at which they end.
MOST_STEPS, CONVERGED = 50, 1e-14


def tied_fits(
    fits: Sequence[FitResult], data: Sequence[Any], ties: Any, penalty: Penalty
) -> tuple[FitResult, ...]:
    """Each group at the common maximum, where the first are those of each group by itself.

    ``ties`` of (θ_1, …, θ_G) are labels (G p,), or D (G p, q).
    """
    with warnings.catch_warnings(), single_threaded_blas():
        # What is to be said of the rows of a group was said of its own fit.
        warnings.simplefilter("ignore", EbmWarning)
        loss = _loss(fits, data, Penalty(penalty.l2, penalty.l2_biases, ties=ties))
        run = iterate(Newton(), loss, loss.family.parameters)
        point = loss.point(run.state["theta"])
        if run.reason != "converged":
            raise EbmError(
                f"the fit with equal parameters has not converged ({run.reason}): add a penalty, "
                "penalty=ebm.Penalty(l2=…)"
            )
        covariance = penalized(point.fisher, loss.curvature(point.fisher)) / loss.sample_size
        ways = np.asarray(loss.gauge)
    errors = np.sqrt(((ways @ covariance) * ways).sum(axis=1)).reshape(len(fits), -1)
    steps = run.history[-1].iteration
    found = []
    for part, model, ensemble, error, rows in zip(
        loss.parts, point.model, point.ensemble.of_groups, errors, data, strict=True
    ):
        result = FitResult(
            model=model,
            converged=True,
            message=f"converged after {steps} iterations together with the other groups",
            log_likelihood=part.log_likelihood(model, ensemble),
            gradient_norm=run.history[-1].gradient_norm,
            sample_size=part.sample_size,
            ensemble=ensemble,
            fisher=FisherInformation(_information(part, model, ensemble)),
            errors=error,
        )
        if isinstance(rows, IncompleteEnsemble):
            result = with_assumption(result, model, rows)
        found.append(result)
    return tuple(found)


def tied_conditionals(
    fits: Sequence[FitResult],
    data: Sequence[Any],
    ties: Indices,
    penalty: Penalty,
) -> tuple[Any, ...]:
    """The models at the common maximum Σ_g (N_g/N) L_g of pseudo-likelihoods, by Newton steps."""
    of: Any = Pseudolikelihood().of
    problems = [of(fit.model, rows, penalty) for fit, rows in zip(fits, data, strict=True)]
    sizes = np.array([rows.sample_size for rows in data])
    places = np.unique(ties, return_inverse=True)[1].reshape(len(fits), -1)
    weights = np.repeat(sizes / sizes.sum(), places.shape[1])
    own = np.concatenate([fit.model.parameters for fit in fits])
    u = np.bincount(places.ravel(), weights * own) / np.bincount(places.ravel(), weights)
    losses = [problem.in_parameters() for problem in problems]
    each = list(zip(losses, sizes / sizes.sum(), places, strict=True))

    def value(u: Array) -> float:
        return float(sum(share * loss.point(u[at]).value for loss, share, at in each))

    with single_threaded_blas():
        for _ in range(MOST_STEPS):
            slopes, hessian = np.zeros(len(u)), np.zeros((len(u),) * 2)
            for loss, share, at in each:
                slopes[at] += share * loss.point(u[at]).gradient
                hessian[np.ix_(at, at)] += share * loss.hessians(u[at])[0]
            step = -np.linalg.solve(hessian, slopes)
            decrement, before = -float(slopes @ step), value(u)
            if decrement < CONVERGED:
                return tuple(fits[0].model.with_parameters((u + step)[at]) for at in places)
            while value(u + step) > before - 1e-4 * decrement and decrement > CONVERGED:
                step, decrement = step / 2, decrement / 2
            u = u + step
    raise EbmError(
        "the pseudo-likelihood with equal couplings has no maximum in sight: add a penalty, "
        "penalty=ebm.Penalty(l2=…)"
    )


def weighted_fits(
    fits: Sequence[FitResult], data: Sequence[Any], together: Equalized
) -> tuple[FitResult, ...]:
    """Estimates of pseudo-likelihood that were brought together by their covariances."""
    found = []
    for fit, rows, theta, variances in zip(
        fits, data, together.values, together.variances, strict=True
    ):
        model = fit.model.with_parameters(theta)
        found.append(
            FitResult(
                model=model,
                converged=True,
                message="separate estimates of all groups, weighted by their covariances",
                log_pseudolikelihood=log_pseudolikelihood(model, rows),
                sample_size=rows.sample_size,
                errors=np.sqrt(variances),
            )
        )
    return tuple(found)


def ties_where(equal: Flags, n_groups: int) -> Indices:
    """Labels of (θ_1, …, θ_G): one for all groups where equal, else one for each, (G p,)."""
    p = len(equal)
    own = np.arange(n_groups * p).reshape(n_groups, p)
    return np.where(equal, np.arange(p), own).ravel()


def _loss(fits: Sequence[FitResult], data: Sequence[Any], penalty: Penalty) -> JointLoss:
    family = fits[0].model
    parts = tuple(_part(family, rows, penalty) for rows in data)
    sizes = np.array([part.sample_size for part in parts])
    shares = sizes / sizes.sum()
    own = np.concatenate([fit.model.parameters for fit in fits])
    # D u next to the separate fits: ties keep the differences that they find.
    ways = np.asarray(penalty.directions(len(own)))
    start = (ways @ np.linalg.lstsq(ways, own)[0]).reshape(len(fits), -1)
    groups = _Groups(family, start, np.sqrt(shares))
    return JointLoss(
        family=groups,
        data=None,
        average=lambda models: _Ensembles.of(parts, models, shares),
        penalty=AppliedPenalty(groups, penalty),
        rows=None,
        parts=parts,
        shares=shares,
    )


def _part(family: Any, rows: Any, penalty: Penalty) -> LikelihoodLoss:
    """The loss of one group; penalties are those of the sum."""
    problem: Any = Likelihood().of(family, rows, Penalty(l2_biases=penalty.l2_biases))
    loss: LikelihoodLoss = problem._loss()
    return loss


def _information(part: LikelihoodLoss, model: Any, ensemble: Any) -> Array:
    """I of one row of a group: F of complete rows, of others the observed information, (p, p)."""
    if isinstance(part, IncompleteLikelihoodLoss):
        return part.observed_information(model, ensemble)
    return np.asarray(fisher_information(model, ensemble).dense())


@dataclass(frozen=True, eq=False)
class _Groups:
    """One family for each group, with the parameters of all of them in one vector, (G p,)."""

    family: Any
    of_groups: Array
    roots: Array

    @property
    def parameters(self) -> Array:
        return self.of_groups.ravel()

    def with_parameters(self, theta: Array) -> tuple[Any, ...]:
        """The models, one for each group."""
        return tuple(map(self.family.with_parameters, theta.reshape(self.of_groups.shape)))

    def penalized(self) -> Penalized:
        """R = Σ_g (N_g/N) R(θ_g): squares are summed of √(N_g/N) times those of each group."""
        one: Penalized = self.family.penalized()
        groups, roots = len(self.roots), self.roots[:, None]

        def of(theta: Array) -> Array:
            parts = [one.of(part) for part in theta.reshape(groups, -1)]
            return np.asarray((roots * np.array(parts)).ravel())

        def transposed(slopes: Array) -> Array:
            parts = roots * slopes.reshape(groups, -1)
            return np.concatenate([one.transposed(part) for part in parts])

        return Penalized(of, transposed, np.tile(one.is_coupling, groups))


class _Ensembles(NamedTuple):
    """The exact averages of all groups, and Σ_g (N_g/N) ln Z_g."""

    of_groups: tuple[Any, ...]
    log_partition: float

    @staticmethod
    def of(parts: Sequence[LikelihoodLoss], models: Sequence[Any], shares: Array) -> _Ensembles:
        """One for each model."""
        of_groups = tuple(part.average(model) for part, model in zip(parts, models, strict=True))
        return _Ensembles(of_groups, float(shares @ [float(e.log_partition) for e in of_groups]))


@dataclass(frozen=True, eq=False)
class JointLoss(LikelihoodLoss):
    """L(θ_1, …, θ_G) = Σ_g (N_g/N) (L_g(θ_g) + R(θ_g))."""

    parts: tuple[LikelihoodLoss, ...]
    shares: Array

    @property
    def is_convex(self) -> bool:
        """Whether no row has missing cells."""
        return all(part.is_convex for part in self.parts)

    def _each(self, models: Any, ensembles: Any) -> Any:
        return zip(self.parts, self.shares, models, ensembles.of_groups, strict=True)

    def log_likelihood(self, models: Any, ensembles: Any) -> float:
        """Mean ln p of a sample of any group, in nats."""
        each = self._each(models, ensembles)
        return float(sum(share * part.log_likelihood(*of) for part, share, *of in each))

    def misfit(self, models: Any, ensembles: Any) -> Array:
        """(N_g/N) (E_D[∂E/∂θ] − E_model[∂E/∂θ]) of each group, (G p,)."""
        each = self._each(models, ensembles)
        return np.concatenate([share * part.misfit(*of) for part, share, *of in each])

    def fisher(self, models: Any, ensembles: Any) -> Array:
        """Σ_g (N_g/N) D_gᵀ I_g D_g, (q, q)."""
        ways = np.split(np.asarray(self.gauge), len(self.parts))
        total = np.zeros((self.gauge.shape[1],) * 2)
        for way, (part, share, *of) in zip(ways, self._each(models, ensembles), strict=True):
            total += share * (way.T @ _information(part, *of) @ way)
        return total

    def _variances(self) -> Array:
        each = zip(self.parts, self.shares, strict=True)
        return np.concatenate([share * part._variances() for part, share in each])

    @cached_property
    def sample_size(self) -> float:
        """Number of samples of all groups."""
        return float(sum(part.sample_size for part in self.parts))
