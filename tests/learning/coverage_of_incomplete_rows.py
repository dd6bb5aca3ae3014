"""Coverage of 95 % intervals where 20 % of the cells are missing, and their width.

    python -m tests.learning.coverage_of_incomplete_rows

Of each problem: 10 spins, couplings N(0, 0.2²) on all pairs and fields N(0, 0.2²), 1000 rows, every
cell removed with probability 0.2; the intervals are θ ± 1.96 standard errors of the observed
information. Beside them the intervals of the rows that lack nothing, about 107 of 1000.
"""

import math
import sys
import warnings
from typing import NamedTuple

import numpy as np

import ebm

SHARE, HALF_WIDTH = 0.2, 1.959964


class Outcome(NamedTuple):
    """Which parameters lie in their intervals, and the mean ratio of widths to complete rows."""

    covered: np.ndarray
    width: float
    dropped_covered: np.ndarray


def problem(seed, n=10, n_rows=1000, size=0.2):
    """One model, its rows with cells removed, and the fits with and without incomplete rows."""
    rng = np.random.default_rng(seed)
    couplings = np.triu(rng.normal(0, size, (n, n)), 1)
    truth = ebm.IsingModel(couplings + couplings.T, rng.normal(0, size, n))
    rows = ebm.exact(truth).sample(n_rows, rng=rng).astype(float)
    rows[rng.random(rows.shape) < SHARE] = np.nan
    data = ebm.IncompleteEnsemble.from_data(rows, space=ebm.Spins)
    start = ebm.IsingModel(np.zeros((n, n)), np.zeros(n))
    result = ebm.fit(start, data)
    if not result.converged:
        raise RuntimeError(result.message)
    covered = _covers(result, truth)
    width, dropped = math.nan, np.zeros(0, dtype=bool)
    with warnings.catch_warnings():
        # A few complete rows need not have a maximum: those that do flatter them.
        warnings.simplefilter("ignore", ebm.EbmWarning)
        fewer = ebm.fit(start, data.complete_rows())
    if fewer.converged:
        width = float(np.mean(result.standard_errors / fewer.standard_errors))
        dropped = _covers(fewer, truth)
    return Outcome(covered, width, dropped)


def _covers(result, truth):
    """Whether each parameter of the truth lies in its interval."""
    deviation = np.abs(result.model.parameters - truth.parameters)
    return deviation <= HALF_WIDTH * result.standard_errors


def main(n_problems=1000, first_seed=2026):
    """Print the coverage over problems, one parameter of each and all of them."""
    outcomes = []
    for k in range(n_problems):
        outcomes.append(problem(first_seed + k))
        if (k + 1) % 100 == 0:
            print(f"{k + 1} problems", file=sys.stderr, flush=True)
    # One coupling of each problem: draws that are independent.
    one = np.array([outcome.covered[10] for outcome in outcomes])
    covered = np.array([outcome.covered for outcome in outcomes])
    band = 1.96 * math.sqrt(0.95 * 0.05 / n_problems)
    print(f"coupling 01 of each problem: {one.mean():.4f}, 0.95 ± {band:.4f} expected")
    error = covered.mean(axis=1).std(ddof=1) / math.sqrt(n_problems)
    print(f"all parameters: {covered.mean():.4f} ± {error:.4f}")
    by_parameter = covered.mean(axis=0)
    print(f"single parameters: {by_parameter.min():.4f} to {by_parameter.max():.4f}")
    widths = np.array([outcome.width for outcome in outcomes])
    known = np.isfinite(widths)
    dropped = np.concatenate([outcome.dropped_covered for outcome in outcomes])
    print(
        f"complete rows alone had a maximum in {known.sum()} problems; there their coverage is "
        f"{dropped.mean():.4f}, and the intervals of all rows are {widths[known].mean():.3f} times "
        f"as wide, at most {widths[known].max():.3f}"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
