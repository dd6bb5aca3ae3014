"""The likelihood of a pairwise family with absolute values of couplings, by exact sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ebm._iterate import Run
from ebm._types import Array, Flags, Indices
from ebm.information import FisherInformation
from ebm.information.fisher import symmetrized
from ebm.learning._absolutes import Blocks, SparseLoss
from ebm.learning._families import pairs_of
from ebm.learning._likelihood import LikelihoodLoss
from ebm.learning._sparse_problem import SparseProblem, why_no_errors
from ebm.learning.result import FitResult
from ebm.models._library import pair_machine
from ebm.spaces import Spins


class LikelihoodPoint(NamedTuple):
    """L(θ) with squares, its slopes by φ (q,), and the log-likelihood without penalty."""

    value: float
    slopes: Array
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class SmoothLikelihood:
    """E_D[E] + ln Z + squares, in coordinates φ of the free parameters, θ = θ₀ + Aφ.

    Without parameters that are held, biases φ are those at the means of the data. ``pairs`` is the
    loss of a penalty without l1.
    """

    pairs: LikelihoodLoss

    @cached_property
    def base(self) -> Array:
        """θ₀: parameters that are held, and zero elsewhere, (p,)."""
        moved = np.abs(self.pairs.coordinates.matrix).sum(axis=1) > 0
        return np.where(moved, 0.0, self.pairs.family.parameters)

    def parameters(self, theta: Array) -> Array:
        """Those of the model, (q,) -> (p,)."""
        return np.asarray(self.base + self.pairs.coordinates.matrix @ theta)

    def point(self, theta: Array) -> LikelihoodPoint:
        """Value and slopes at φ."""
        point = self.pairs.point(self.parameters(theta))
        return LikelihoodPoint(point.value, point.gradient, point.log_likelihood)

    def curvature(self, theta: Array) -> Blocks:
        """One block, the Fisher information and the squares of the penalty."""
        hessian = self.pairs.curvature(self.pairs.point(self.parameters(theta)).fisher)
        places = np.zeros((len(hessian), 4), dtype=np.intp)
        places[:, 1], places[:, 2] = np.arange(len(hessian)), -1
        return Blocks(np.ascontiguousarray(hessian)[None], places)

    @property
    def squares(self) -> Array:
        """The curvature holds them already."""
        return np.zeros(self.pairs.coordinates.matrix.shape[1])

    @property
    def origin(self) -> Array | None:
        """Curvatures belong to points, which are kept."""
        return None

    def settings(self) -> dict[str, str]:
        """Model, data, average and penalty in words."""
        return self.pairs.settings()


@dataclass(frozen=True, eq=False)
class SparseLikelihoodProblem(SparseProblem):
    """Maximum likelihood with λ Σ|W| from exact sums; ``pairs`` as in :class:`SmoothLikelihood`."""

    pairs: LikelihoodLoss

    @cached_property
    def smooth(self) -> SmoothLikelihood:
        """The likelihood with squares."""
        return SmoothLikelihood(self.pairs)

    @cached_property
    def is_coupling(self) -> Flags:
        """Coordinates of free couplings, (q,)."""
        p, n = len(self.family.parameters), self.family.space.n
        free = self.free
        flags = np.ones(p, dtype=bool) if free is None else np.asarray(free)
        return np.asarray((np.arange(p) >= n)[flags])

    def start(self) -> Array:
        """Independent units with the means of the data, (q,)."""
        untied = replace(self.pairs, penalty=replace(self.penalty, strength=_plain(self.penalty)))
        theta = untied.start()
        free = self.free
        return theta if free is None else theta[np.asarray(free)]

    def parameters(self, theta: Array) -> Array:
        """Those of the family, (q,) -> (p,)."""
        return self.smooth.parameters(theta)

    def coordinates_of(self, model: Any) -> Array:
        """φ of a model, (q,): free parameters, or all with biases at the means of the data."""
        free = self.free
        if free is not None:
            return np.asarray(model.parameters[np.asarray(free)])
        # A changes biases by couplings only, so (A − 1)² = 0 and A⁻¹ = 2 − A.
        theta = np.asarray(model.parameters)
        return np.asarray(2 * theta - self.pairs.coordinates.matrix @ theta)

    def loss_on(self, data: Any, theta: Array) -> float:
        """Minus the mean log-likelihood of other data."""
        loss = self.smooth.pairs
        point = loss.point(self.smooth.parameters(theta))
        other = replace(loss, data=self.target(data), rows=data)
        return -other.log_likelihood(point.model, point.ensemble)

    def target(self, data: Any) -> Any:
        """What of other data the likelihood needs: their moments, in the coding of the family."""
        return data.moments().to(self.family.space).two_valued()

    def one_step(self, theta: Array) -> tuple[Array, Callable[[], Array]]:
        """φ − H⁻¹ g, and √diag(A H⁻¹ Aᵀ / N) with H at φ."""
        loss = self.smooth.pairs
        point = loss.point(self.smooth.parameters(theta))

        def errors() -> Array:
            """√diag(A H⁻¹ Aᵀ / N), (p,)."""
            way = np.asarray(loss.coordinates.matrix)
            solved = np.linalg.solve(loss.curvature(point.fisher), way.T)
            variance = np.einsum("ij,ji->i", way, solved)
            return np.asarray(np.sqrt(np.maximum(variance, 0.0) / loss.sample_size))

        return theta + point.direction, errors

    def separated(self, theta: Array, least: float = 0.0) -> Indices:
        """Coupled units that the others predict in every row; none of moments alone."""
        rows = self.pairs.rows
        model = self.family.with_parameters(self.parameters(theta))
        machine = pair_machine(model)
        if not hasattr(rows, "states") or machine is None:
            return np.zeros(0, dtype=np.intp)
        signs = np.where(rows.states > 0, 1.0, -1.0)
        states = signs if isinstance(self.family.space, Spins) else (signs + 1) / 2
        margins = (2 if isinstance(self.family.space, Spins) else 1) * signs * machine.input(states)
        coupled = pairs_of(model).matrix
        is_coupled = np.asarray(abs(coupled).sum(axis=1)).ravel() > 0
        return np.flatnonzero((margins > least).all(axis=0) & is_coupled)

    def result(self, run: Run, loss: SparseLoss) -> FitResult:
        """The fitted model without standard errors, which l1 leaves none of."""
        theta, likelihood = run.state["theta"], self.smooth.pairs
        point = likelihood.point(self.smooth.parameters(theta))
        converged, message = self.ending(run, loss)
        fisher = likelihood.coordinates.of_model(point.fisher, point.model, point.ensemble)
        misfit = likelihood.misfit(point.model, point.ensemble)
        return FitResult(
            model=point.model,
            converged=converged,
            message=message,
            log_likelihood=point.log_likelihood,
            gradient_norm=run.history[-1].gradient_norm,
            misfit=float(np.abs(likelihood.scaling.T @ misfit).max(initial=0)),
            sample_size=likelihood.sample_size,
            errors=None if math.isfinite(likelihood.sample_size) else np.zeros(len(misfit)),
            degrees_of_freedom=int(np.count_nonzero(theta[self.is_coupling]))
            + int((~self.is_coupling).sum()),
            fisher=FisherInformation(symmetrized(fisher)),
            ensemble=point.ensemble,
            history=run.history,
            warnings=why_no_errors(self.penalty),
        )


def _plain(penalty: Any) -> Any:
    """Its strengths alone."""
    return replace(penalty.strength, free=None, ties=None)
