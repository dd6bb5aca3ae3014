"""Fits of losses that are sums over units, with or without absolute values of couplings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ebm._iterate import Run
from ebm._types import Array, Flags, Indices
from ebm.ensembles.ensemble import require_order
from ebm.errors import CodingError, EbmError, ModelError, NoMaximumWarning, warn
from ebm.inversion._local_loss import Link, LocalLoss, logistic
from ebm.inversion._rows import DistinctRows, read_rows
from ebm.inversion._sandwich import Sandwich, waiting_errors
from ebm.learning._absolutes import SparseLoss
from ebm.learning._existence import (
    empty_cells,
    gentle_penalty,
    listed,
    require_changing_units,
)
from ebm.learning._families import (
    center_of,
    diagonal_input,
    has_pairs,
    pairs_of,
    require_own_pairs,
)
from ebm.learning._sparse_problem import NO_ERRORS, SparseProblem
from ebm.learning.penalties import AppliedPenalty, Penalty
from ebm.learning.proximal_newton import ProximalNewton
from ebm.learning.result import FitResult
from ebm.spaces import Spins, StateSpace
from ebm.spaces._labels import shown

#: A step of the free loss that moves inputs by more than this has no minimum in sight.
MOVING = 0.1
#: Share of the mean's distance from 0 and 1, of n units, at which a start is kept.
MARGIN = 1e-3


def require_rule(rule: Any, node_wise: bool) -> None:
    """Refuse what is no rule, and one that joins nothing."""
    if rule not in {"and", "or"}:
        raise EbmError(f"rule must be 'and' or 'or', got {rule!r}")
    if rule == "or" and not node_wise:
        raise EbmError("rule joins two estimates of a coupling: give node_wise=True, or no rule")


@dataclass(frozen=True, eq=False)
class LocalProblem(SparseProblem):
    """Σ_i link_i + R(θ) of a pairwise family on rows.

    Couplings are one parameter for both units if ``shared``. Otherwise each unit is a regression on
    the others with the whole l1 and half of the l2 of each coupling, and the coupling is the mean
    of two; by the rule "and" it is zero if one of them is.
    """

    rows: DistinctRows
    link: Link
    shared: bool
    rule: str = "and"

    @cached_property
    def center(self) -> Array:
        """The means of the data, at which steps are best scaled; the family's if biases are held.

        In the coding of the family, (n,).
        """
        free = self.free
        n = self.family.space.n
        is_held = free is not None and not np.asarray(free)[:n].all()
        if is_held or self.penalty.strength.l2_biases:
            return center_of(self.family)
        return self.mean

    @cached_property
    def mean(self) -> Array:
        """Of the rows, in the coding of the family, (n,)."""
        mean = self.rows.weights @ self.rows.states
        return np.asarray(2 * mean - 1 if self._are_spins else mean)

    @property
    def _are_spins(self) -> bool:
        return isinstance(self.family.space, Spins)

    @cached_property
    def smooth(self) -> LocalLoss:
        """The loss with squares, in the coding of the family."""
        n, strength = self.family.space.n, self.penalty.strength
        i, j = self.family.pairs
        theta = self.family.parameters
        flags = np.ones(len(theta), dtype=bool) if self.free is None else self.free
        free = np.asarray(flags)
        units, kept = np.flatnonzero(free[:n]), free[n:]
        couplings = np.zeros((n, n))
        couplings[i[~kept], j[~kept]] = couplings[j[~kept], i[~kept]] = theta[n:][~kept]
        constant = 2.0 if self._are_spins else 1.0
        n_couplings = int(kept.sum()) * (1 if self.shared else 2)
        l2 = strength.l2 * (1.0 if self.shared else 0.5)
        squares = np.concatenate(
            [np.full(len(units), strength.l2_biases), np.full(n_couplings, l2)]
        )
        return LocalLoss(
            link=self.link,
            states=self.rows.states,
            weights=self.rows.weights,
            features=self.features_of(self.rows),
            constant=constant,
            shared=self.shared,
            units=units,
            pairs=(i[kept], j[kept]),
            held=(np.where(free[:n], 0.0, theta[:n]), couplings),
            diagonal=diagonal_input(pairs_of(self.family), self.family.space),
            squares=squares,
        )

    def features_of(self, rows: DistinctRows) -> Array:
        """c (x − x̂) of rows at the center of these, (m, n)."""
        if self._are_spins:
            return 2.0 * (2 * rows.states - 1 - self.center)
        return rows.states - self.center

    @property
    def is_likelihood(self) -> bool:
        """Whether the loss is a pseudo-likelihood."""
        return self.link is logistic

    @property
    def is_separate(self) -> bool:
        """Whether couplings of both units are parameters by themselves."""
        return not self.shared

    @cached_property
    def is_coupling(self) -> Flags:
        """Coordinates behind the biases, (K,)."""
        return np.asarray(np.arange(self.smooth.n_coordinates) >= len(self.smooth.units))

    @property
    def work(self) -> tuple[float, float, float]:
        """m n³ and m n², and a block of n² for each unit."""
        m, n = map(float, self.rows.states.shape)
        return m * n**3, m * n**2, 4.0 * n**3 + 64.0 * m * n

    def start(self) -> Array:
        """Independent units with the means of the rows, (K,)."""
        smooth, n = self.smooth, self.family.space.n
        mean = self.rows.weights @ self.rows.states
        mean = np.clip(mean, MARGIN / n, 1 - MARGIN / n)
        biases = (np.log(mean / (1 - mean)) - smooth.diagonal) / smooth.constant
        return smooth.coordinates(biases, np.zeros((n, n)))

    def parameters(self, theta: Array, rule: str | None = None) -> Array:
        """Of the family: biases at its center, couplings by the rule, (p,)."""
        biases, couplings = self.smooth.arrays(theta)
        both = (couplings + couplings.T) / 2
        if (rule or self.rule) == "and" and not self.shared:
            both = np.where((couplings != 0) & (couplings.T != 0), both, 0.0)
        biases = biases - both @ (self.center - center_of(self.family))
        return np.concatenate([biases, both[self.family.pairs]])

    def coordinates_of(self, model: Any) -> Array:
        """θ of a model of the family, (K,)."""
        n, (i, j) = self.family.space.n, self.family.pairs
        couplings = np.zeros((n, n))
        couplings[i, j] = couplings[j, i] = model.parameters[n:]
        biases = model.parameters[:n] + couplings @ (self.center - center_of(model))
        return self.smooth.coordinates(biases, couplings)

    def loss_on(self, data: Any, theta: Array) -> float:
        """The loss of other rows at θ without penalty, in nats per sample."""
        rows = read_rows(data)
        features = self.features_of(rows)
        there = replace(self.smooth, states=rows.states, weights=rows.weights, features=features)
        return float(there.point(theta).loss)

    def one_step(self, theta: Array) -> tuple[Array, Callable[[], Array]]:
        """θ − H⁻¹ g, and standard errors from the sandwich there."""
        after = theta + Sandwich(self.smooth, theta).newton_step(self.smooth.point(theta).slopes)
        return after, lambda: self.sandwich(after).errors(self.rows)

    def sandwich_among(self, theta: Array, flags: Flags) -> Sandwich:
        """That of some of the shared coordinates, the others held as in θ."""
        return Sandwich(self.smooth.among(flags, theta), theta[flags])

    def sandwich(self, theta: Array, about: Array | None = None) -> Sandwich:
        """That of the parameters of the family, as if no coupling were zero.

        Its biases belong to its couplings at m = ``about``, by default the center. Where that is
        the mean of the rows it moves with them, and each row moves v by (B − Bᵀ)/2 as well.
        """
        about = self.center if about is None else about
        smooth, onto = self.smooth, self._onto(about)
        if self.shared or about is not self.mean:
            return Sandwich(smooth, theta, onto)
        couplings = smooth.arrays(theta)[1]
        apart = (couplings.T - couplings) / (2 * smooth.constant)
        return Sandwich(smooth, theta, onto, beside=lambda rows: smooth.features[rows] @ apart.T)

    def _onto(self, m: Array) -> Any:
        """∂(v, W)/∂θ, (p, K) sparse: v_i = b_i + Σ_j B_ij (m_j − z_j) − Σ_j W_ij (m_j − c_j)."""
        from scipy.sparse import csr_array

        smooth, n, free = self.smooth, self.family.space.n, self.free
        (i, j), n_units = smooth.entries, len(smooth.units)
        share = 1.0 if self.shared else 0.5
        away, rest = share * (m - center_of(self.family)), m - self.center
        pairs = np.ones(len(self.family.pairs[0])) if free is None else free[n:]
        places = n + np.tile(np.flatnonzero(pairs), 1 if self.shared else 2)
        columns = np.arange(smooth.n_coordinates)
        values = (np.ones(n_units), rest[j] - away[j], -away[i], np.full(len(i), share))
        at = (smooth.units, i, j, places), (columns[:n_units], *[columns[n_units:]] * 3)
        shape = (len(self.family.parameters), len(columns))
        return csr_array((np.concatenate(values), tuple(map(np.concatenate, at))), shape=shape)

    def separated(self, theta: Array, least: float = 0.0) -> Indices:
        """Coupled units that the others predict in every row with log-odds above ``least``."""
        return self.smooth.separated(theta, least)

    def result(self, run: Run, loss: SparseLoss) -> FitResult:
        """The fitted model; standard errors where no l1 chose couplings."""
        theta = run.state["theta"]
        converged, message = self.ending(run, loss)
        notes: tuple[str, ...] = (NO_ERRORS,) if self.penalty.strength.has_l1 else ()
        if not self.penalty.holds_couplings or run.reason == "unbounded":
            reason = self.missing_minimum(theta)
            if reason:
                converged, message = False, reason
                warn(message, NoMaximumWarning)
                notes = (message, "no standard errors: there is no maximum")
        point = self.smooth.point(theta)
        is_likelihood = self.link is logistic
        has_errors = converged and not self.penalty.strength.has_l1
        return FitResult(
            model=self.family.with_parameters(self.parameters(theta)),
            converged=converged,
            message=message,
            log_pseudolikelihood=self._log_pseudolikelihood(theta) if is_likelihood else None,
            gradient_norm=run.history[-1].gradient_norm,
            misfit=float(np.abs(point.slopes - self.smooth.squares * theta).max(initial=0.0)),
            sample_size=self.rows.sample_size,
            history=run.history,
            warnings=notes,
            regressions=None if self.shared else self.smooth.arrays(theta)[1],
            errors=waiting_errors(self, theta) if has_errors else None,
        )

    def _log_pseudolikelihood(self, theta: Array) -> float:
        """Of the model, whose couplings are means of two where each unit is a regression."""
        if self.shared:
            return float(self.smooth.point(theta).log_likelihood)
        biases, couplings = self.smooth.arrays(theta)
        both = (couplings + couplings.T) / 2
        if self.rule == "and":
            both = np.where((couplings != 0) & (couplings.T != 0), both, 0.0)
        return float(self.smooth.point(self.smooth.coordinates(biases, both)).log_likelihood)

    def missing_minimum(self, theta: Array) -> str:
        """Why the loss without a penalty has no minimum, as far as its end at θ tells; or empty."""
        if math.isinf(self.rows.sample_size):
            return ""
        smooth = self.smooth
        free = replace(self.penalty, strength=Penalty())
        reason = listed(empty_cells(self.rows.moments, self.family.pairs, free))
        units = smooth.separated(theta)
        if not reason and len(units):
            named = shown([self.family.space.labels[unit] for unit in units])
            verb = "unit {} is" if len(units) == 1 else "units {} are"
            reason = f"{verb.format(named)} predicted without error by the other units"
        if not reason:
            step = ProximalNewton()._direction(self.loss(0.0), theta, theta)
            moved = np.abs(smooth.inputs(theta + step) - smooth.inputs(theta)).max(axis=0)
            if moved.max() > MOVING:
                far = np.flatnonzero(moved > 0.3 * moved.max())
                named = shown([self.family.space.labels[unit] for unit in far])
                reason = f"some values of {named} are predicted without error by the other units"
        if not reason:
            return ""
        return (
            f"the loss has no minimum at finite parameters: {reason}. Add a penalty on couplings, "
            f"such as penalty=ebm.Penalty(l2={gentle_penalty(self.rows.sample_size)})"
        )


def local_problem(
    model: Any, data: Any, penalty: Penalty, *, link: Link, shared: bool, rule: str = "and"
) -> LocalProblem:
    """The problem of a pairwise model on rows, its arguments checked."""
    if not has_pairs(model):
        raise ModelError(
            f"{type(model).__name__} is no pairwise model of two-valued units whose couplings are "
            "its parameters: give one such as ebm.BoltzmannMachine or ebm.IsingModel"
        )
    require_own_pairs(model)
    rows = read_rows(data)
    require_same_units(rows.space, model.space)
    applied = AppliedPenalty(model, penalty)
    problem = LocalProblem(model, applied, rows, link, shared, rule)
    applied.directions  # noqa: B018  (flags of another number of parameters are refused)
    require_changing_units(rows.moments, applied)
    return problem


def require_same_units(rows: StateSpace, wanted: StateSpace) -> None:
    """Refuse rows of other units; both two-valued codings will do."""
    if rows.n != wanted.n:
        raise CodingError(f"states of {wanted!r} are wanted, got rows over {rows!r}")
    require_order(rows, wanted)
