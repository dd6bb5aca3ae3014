"""Draws of several distributions pooled and weighted to any of them: MBAR, :cite:`shirts2008`.

With N_k draws of exp(−u_k), the pooled draws x_n are those of Σ_k N_k e^{f_k − u_k(x)}, where
e^{−f_k} = Z_k/Z_0. The f are the minimum of the convex function

    D(f) = Σ_n ln Σ_k N_k e^{f_k − u_k(x_n)} − Σ_k N_k f_k,

whose gradient is Σ_n W_kn − N_k and whose Hessian diag(Σ_n W_kn) − W Wᵀ, with the share W_kn of k
in the sum of n.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ebm._types import Array, Indices
from ebm.errors import ConvergenceError
from ebm.sampling._block_errors import N_BLOCKS

#: Change of f, in nats, at which Newton's steps end; they converge quadratically.
PRECISION = 1e-12
MOST_STEPS = 100
#: Of the sum of shares of a temperature, in its draws, at the solution.
LARGEST_MISFIT = 1e-6


def free_energies(potentials: Array, counts: Array, often: Array, start: Array) -> Array:
    """f_k with f_0 = 0 from potentials u_kn, draws of each k, and how often n occurs, (k,).

    Raises a ConvergenceError where draws of some k have next to no weight for any other.
    """
    logs: Array = np.log(counts)[:, None] - potentials
    f: Array = start - start[0]
    shares, value = _shares(logs, f, often, counts)
    for _ in range(MOST_STEPS):
        sums = shares.sum(axis=1)
        hessian = np.diag(sums) - (shares / often) @ shares.T
        step = np.zeros_like(f)
        step[1:] = np.linalg.lstsq(hessian[1:, 1:], (sums - counts)[1:], rcond=None)[0]
        while True:
            trial = f - step
            trial_shares, trial_value = _shares(logs, trial, often, counts)
            is_lower = trial_value <= value + 1e-13 * abs(value)
            if is_lower or np.abs(step).max() < PRECISION:
                break
            step /= 2
        f, shares, value = trial, trial_shares, trial_value
        if np.abs(step).max() < PRECISION:
            break
    misfit = float(np.abs(shares.sum(axis=1) / counts - 1).max())
    if not misfit < LARGEST_MISFIT:
        raise ConvergenceError(
            "the free energies of the ladder cannot be compared: draws of neighboring temperatures "
            f"have no weight for each other (shares off by {misfit:.2g}); take more temperatures, "
            "ebm.ParallelTempering.for_model(model) finds them",
            residual=misfit,
        )
    return f


def neighbors_compared(potentials: Array, histograms: Array) -> Array:
    """f_k by Bennett's acceptance ratio of neighbors, from how often k drew each place, (k,).

    Σ_a 1/(1 + e^{w − Δf}) = Σ_b 1/(1 + e^{Δf − w}), w = u_b − u_a, over draws of a and of b. Where
    energies differ by hundreds, Newton's steps need such a start.
    """
    from scipy.optimize import brentq
    from scipy.special import expit

    f = np.zeros(len(potentials))
    for k in range(1, len(f)):
        seen = histograms[k - 1] + histograms[k] > 0
        one, other = histograms[k - 1, seen], histograms[k, seen]
        work = potentials[k, seen] - potentials[k - 1, seen]

        def excess(
            difference: float, work: Array = work, one: Array = one, other: Array = other
        ) -> float:
            return float(one @ expit(difference - work) - other @ expit(work - difference))

        finite = work[np.isfinite(work)]
        low, high = float(finite.min()) - 50, float(finite.max()) + 50
        f[k] = f[k - 1] + brentq(excess, low, high, xtol=1e-3)
    return f


def _shares(logs: Array, f: Array, often: Array, counts: Array) -> tuple[Array, float]:
    """W_kn times how often n occurs, (k, n), and D(f)."""
    terms = logs + f[:, None]
    peak = terms.max(axis=0)
    weights = np.exp(terms - peak)
    total = weights.sum(axis=0)
    return weights * (often / total), float(often @ (peak + np.log(total)) - counts @ f)


class Reweighting:
    """Pooled draws of all k, N of each after the other, and their weights for any potential.

    ``potentials`` u_kp are those of distinct places p, ``place`` (draw,) says where each draw is,
    and ``block`` (draw,) in which block. Everything comes for all draws, and with each block left
    out; number ``None`` stands for all.
    """

    def __init__(self, potentials: Array, place: Indices, block: Indices) -> None:
        self.potentials, self.place, self.block = potentials, place, block

    @cached_property
    def _solutions(self) -> list[tuple[Array, Array]]:
        """How often a place occurs, and ln Σ_k N_k e^{f_k − u_kp}: of all, without each block."""
        n_slots, n_places = self.potentials.shape
        solutions: list[tuple[Array, Array]] = []
        slot = np.arange(len(self.place)) * n_slots // len(self.place)
        cells = np.bincount(slot * n_places + self.place, minlength=n_slots * n_places)
        # Leaving out a block changes little: start from the solution of all.
        histograms = cells.reshape(n_slots, n_places).astype(np.float64)
        f = neighbors_compared(self.potentials, histograms)
        for left_out in (None, *range(N_BLOCKS)):
            kept = self.place if left_out is None else self.place[self.block != left_out]
            often = np.bincount(kept, minlength=n_places).astype(np.float64)
            is_seen = often > 0
            counts = np.full(n_slots, len(kept) / n_slots)
            seen = self.potentials[:, is_seen], counts, often[is_seen]
            solution = free_energies(*seen, start=f)
            f = solution if left_out is None else f
            mixture = (np.log(counts) + solution)[:, None] - self.potentials
            solutions.append((often, _log_sum(mixture)))
        return solutions

    def log_ratio_and_weights(
        self, potential: Array, left_out: int | None = None
    ) -> tuple[float, Array]:
        """ln Z/Z_0 of exp(−potential), and the weight of a draw at each place, (place,).

        The weights of all draws that are not left out sum to 1.
        """
        often, mixture = self._solutions[0 if left_out is None else 1 + left_out]
        logs = -potential - mixture
        peak = float(logs[often > 0].max())
        with np.errstate(over="ignore"):
            weights = np.where(often > 0, np.exp(logs - peak), 0.0)
        # Divided by their own sum: the digits of a large ln Z would not suffice.
        total = float(often @ weights)
        return peak + float(np.log(total)), weights / total

    def sums(self, values: Array) -> Sums:
        """Values of each draw (draw, d), from which averages with any weights are taken."""
        return Sums(self, values)

    def averages(self, potential: Array, sums: Sums) -> Array:
        """Averages over all draws, and with each block left out, (1 + blocks, d)."""
        blocks = (None, *range(N_BLOCKS))
        return np.array(
            [sums.average(self.log_ratio_and_weights(potential, b)[1], b) for b in blocks]
        )


class Sums:
    """Values of draws, added up for each place and block where places are few."""

    def __init__(self, reweighting: Reweighting, values: Array) -> None:
        self._place, self._block, self._values = reweighting.place, reweighting.block, values
        n_places, n_draws = reweighting.potentials.shape[1], len(values)
        self._table: Array | None = None
        if n_places * N_BLOCKS <= n_draws:
            from scipy.sparse import csr_array

            cell = self._block * n_places + self._place
            shape = N_BLOCKS * n_places, n_draws
            adding = csr_array((np.ones(n_draws), (cell, np.arange(n_draws))), shape=shape)
            self._table = (adding @ values).reshape(N_BLOCKS, n_places, -1)

    def average(self, weights: Array, left_out: int | None) -> Array:
        """Σ_n w_n values_n of the draws that are not left out, weights (place,), (d,)."""
        if self._table is not None:
            rest = self._table.sum(axis=0)
            if left_out is not None:
                # Of infinite values nothing is left to tell.
                with np.errstate(invalid="ignore"):
                    rest = rest - self._table[left_out]
            return np.asarray(weights @ rest)
        kept = slice(None) if left_out is None else self._block != left_out
        return np.asarray(weights[self._place[kept]] @ self._values[kept])


def _log_sum(logs: Array) -> Array:
    """ln Σ exp over the first axis."""
    peak = logs.max(axis=0)
    return np.asarray(peak + np.log(np.exp(logs - peak).sum(axis=0)))
