"""Fits to rows with missing cells beside fits to the same rows complete, and many cells of one row.

python tests/benchmarks/missing.py
"""

import time
import warnings

import numpy as np
from ratios import features

import ebm
from ebm.effective import CompletedRows, completed_rows


def spins(n, rng, size=0.2):
    couplings = np.triu(rng.normal(0, size, (n, n)), 1)
    return ebm.IsingModel(couplings + couplings.T, rng.normal(0, size, n))


def seconds(function, repeats=3):
    """The shortest time of a few calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def fits(n, n_rows, shares=(0.1, 0.2, 0.4)):
    """Seconds of a fit, complete and with shares of the cells removed."""
    rng = np.random.default_rng(0)
    start = ebm.IsingModel(np.zeros((n, n)), np.zeros(n))
    rows = ebm.exact(spins(n, rng)).sample(n_rows, rng=rng).astype(float)
    complete = ebm.Ensemble.from_data(rows, space=ebm.Spins)
    alone = seconds(lambda: ebm.fit(start, complete))
    print(f"{n} spins, {n_rows} rows: complete {alone:.3f} s")
    for share in shares:
        holed = np.where(rng.random(rows.shape) < share, np.nan, rows)
        data = ebm.IncompleteEnsemble.from_data(holed, space=ebm.Spins)
        result = ebm.fit(start, data)
        taken = seconds(lambda data=data: ebm.fit(start, data), repeats=1)
        n_states = CompletedRows(start, data).n_completions
        print(
            f"  {share:.0%} missing, {n_states:.3g} completions: {taken:.3f} s, "
            f"{taken / alone:.1f} times, {result.n_iterations} steps"
        )


def one_row(n=22):
    """Seconds of one likelihood and its slopes of a row that lacks many cells, both ways."""
    model = spins(n, np.random.default_rng(0))
    print(f"one row of {n} spins, effective energy and moments")
    for k in (12, 14, 16, 18, 20):
        row = np.ones((1, n))
        row[0, :k] = np.nan
        data = ebm.IncompleteEnsemble.from_data(row, space=ebm.Spins)
        times = []
        for most in (2**21, 1):
            completed_rows.MOST_LISTED = most

            def average(data=data):
                completed = CompletedRows(model, data)
                return completed.mean_energy, completed.moments()

            times.append(seconds(average))
        print(f"  {k} missing: listed {times[0]:.4f} s, by products {times[1]:.4f} s")


def main():
    warnings.simplefilter("ignore", ebm.EbmWarning)
    print(features())
    fits(10, 1000)
    fits(20, 1000, (0.1, 0.2))
    one_row()


if __name__ == "__main__":
    main()
